//! The table of families, read line by line: `assets/mlx-families.txt`, whose first lines explain it.

use crate::model::config::words::Definitions;
use crate::model::sections;

const TABLE: &str = include_str!("../../../assets/mlx-families.txt");

/// The rows of one family.
#[derive(Clone, Debug, Default)]
pub struct Family {
    /// What stands before every path.
    pub inside: &'static str,
    /// What stands before every path that does not begin with `/`.
    pub root: &'static str,
    /// Its own words.
    pub definitions: Definitions,
    /// The modules.
    pub rows: Vec<Row>,
    /// The caches, the first that holds first.
    pub caches: Vec<CacheRow>,
    /// Endings of modules with 8 bits in groups of 64.
    pub eight: Vec<&'static str>,
    /// The class makes its caches itself.
    pub own_caches: bool,
}

/// A module, or an array of one.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The path, with `*.` before it in each layer, or `/` where no root stands before it.
    pub path: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Expressions of its sizes, between spaces.
    pub sizes: &'static str,
    /// Whether it has a bias; none: never.
    pub bias: Option<&'static str>,
    /// When it is there; none: always.
    pub condition: Option<&'static str>,
}

/// What a module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A matrix that is quantised: of a layer, an embedding or of experts.
    Weights,
    /// A vector or matrix that is not: of a norm or a convolution.
    Plain,
    /// An array of the module itself.
    Array,
    /// The same, always in float32.
    Float32,
}

/// A cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheRow {
    /// `kv`, `window`, `chunk`, `states` or `none`.
    pub kind: &'static str,
    /// Expressions of its sizes.
    pub sizes: &'static str,
    /// When it is the layer's; none: always.
    pub condition: Option<&'static str>,
}

impl Family {
    /// The family of this `model_type`; none if it is not known.
    pub fn of(model_type: &str) -> Option<Self> {
        let is_named =
            |heading: &str| !heading.starts_with('=') && heading.split_whitespace().any(|name| name == model_type);
        let (.., rows) = sections::sections(TABLE).find(|(heading, ..)| is_named(heading))?;
        let mut family = Self::default();
        family.read(rows);
        Some(family)
    }

    /// Every `model_type` of the table.
    pub fn types() -> impl Iterator<Item = &'static str> {
        let families =
            sections::headings(TABLE).map(|(heading, _)| heading).filter(|heading| !heading.starts_with('='));
        families.flat_map(str::split_whitespace)
    }

    fn read(&mut self, rows: &'static str) {
        for line in rows.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            self.line(line);
        }
    }

    fn line(&mut self, line: &'static str) {
        if let Some((path, rest)) = line.split_once(": ") {
            self.rows.extend(Row::read(path, rest));
            return;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if self.definitions.read(word, rest) {
            return;
        }
        match word {
            "use" => self.read(sections::shared(TABLE, rest).unwrap_or_default()),
            "in" => self.inside = rest,
            "root" => self.root = rest,
            "eight" => self.eight.extend(rest.split_whitespace()),
            "own-caches" => self.own_caches = true,
            "cache" => {
                let (rest, condition) = conditional(rest);
                let (kind, sizes) = rest.split_once(' ').unwrap_or((rest, ""));
                self.caches.push(CacheRow { kind, sizes, condition });
            }
            _ => {}
        }
    }
}

impl Row {
    fn read(path: &'static str, rest: &'static str) -> Option<Self> {
        let (rest, condition) = conditional(rest);
        let (rest, bias) = match rest.split_once(" bias ") {
            Some((rest, bias)) => (rest, Some(bias)),
            None => (rest, None),
        };
        let (kind, sizes) = rest.split_once(' ')?;
        let kind = match kind {
            "linear" | "embedding" | "experts" => Kind::Weights,
            "norm" | "conv" => Kind::Plain,
            "array" => Kind::Array,
            "f32" => Kind::Float32,
            _ => return None,
        };
        Some(Self { path, kind, sizes, bias, condition })
    }
}

fn conditional(text: &'static str) -> (&'static str, Option<&'static str>) {
    match text.split_once(" if ") {
        Some((text, condition)) => (text, Some(condition)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let rows = TABLE.split_once("\n[").unwrap().1;
        for line in
            rows.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '[']) && !line.ends_with(']'))
        {
            let mut family = Family::default();
            family.line(line);
            let read = family.rows.len() + family.caches.len() + family.definitions.lets.len();
            let read = read + family.definitions.names.len() + family.definitions.defaults.len();
            let read = read + family.eight.len() + usize::from(family.own_caches);
            assert!(read > 0 || !family.inside.is_empty() || !family.root.is_empty(), "{line}");
            if let Some(name) = line.strip_prefix("use ") {
                assert!(sections::shared(TABLE, name).is_some(), "{line}");
            }
        }
    }

    #[test]
    fn every_family_is_named_once() {
        let mut seen = BTreeSet::new();
        for name in Family::types() {
            assert!(seen.insert(name), "{name}");
            let family = Family::of(name).unwrap();
            assert!(!family.rows.is_empty() && !family.caches.is_empty(), "{name}");
        }
        assert!(seen.len() > 50 && Family::of("=llama").is_none() && Family::of("llama2").is_none());
    }
}
