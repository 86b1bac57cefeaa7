//! The table of families, read line by line: `assets/mlx-families.txt`, whose first lines explain it.

const TABLE: &str = include_str!("../../../assets/mlx-families.txt");

/// The rows of one family.
#[derive(Clone, Debug, Default)]
pub struct Family {
    /// What stands before every path.
    pub inside: &'static str,
    /// What stands before every path that does not begin with `/`.
    pub root: &'static str,
    /// What the class takes for missing keys; the first of a name counts.
    pub defaults: Vec<(&'static str, i64)>,
    /// Words and their expressions; the last of a name counts.
    pub lets: Vec<(&'static str, &'static str)>,
    /// Names of lists, and the keys that they may have.
    pub lists: Vec<(&'static str, &'static str)>,
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
        let rows = section(is_named)?;
        let mut family = Self::default();
        family.read(rows);
        Some(family)
    }

    /// Every `model_type` of the table.
    pub fn types() -> impl Iterator<Item = &'static str> {
        headings().filter(|heading| !heading.starts_with('=')).flat_map(str::split_whitespace)
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
        match word {
            "use" => self.read(section(|heading| heading.strip_prefix('=') == Some(rest)).unwrap_or_default()),
            "in" => self.inside = rest,
            "root" => self.root = rest,
            "eight" => self.eight.extend(rest.split_whitespace()),
            "own-caches" => self.own_caches = true,
            "default" => {
                let pairs = rest.split_whitespace().filter_map(|pair| pair.split_once('='));
                self.defaults.extend(pairs.filter_map(|(key, number)| Some((key, number.parse().ok()?))));
            }
            "let" => self.lets.extend(rest.split_once(" = ")),
            "list" => self.lists.extend(rest.split_once(" = ")),
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

fn headings() -> impl Iterator<Item = &'static str> {
    TABLE.lines().filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'))
}

/// The rows under the first heading that is meant.
fn section(is_meant: impl Fn(&str) -> bool) -> Option<&'static str> {
    let mut rest = TABLE;
    while let Some(begin) = rest.find("\n[") {
        let (heading, after) = rest[begin + 2..].split_once("]\n")?;
        let end = after.find("\n[").map_or(after.len(), |end| end + 1);
        if is_meant(heading) {
            return Some(&after[..end]);
        }
        rest = &after[end.saturating_sub(1)..];
    }
    None
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
            let read = family.rows.len() + family.caches.len() + family.lets.len() + family.lists.len();
            let read = read + family.defaults.len() + family.eight.len() + usize::from(family.own_caches);
            assert!(read > 0 || !family.inside.is_empty() || !family.root.is_empty(), "{line}");
            if let Some(name) = line.strip_prefix("use ") {
                assert!(headings().any(|heading| heading.strip_prefix('=') == Some(name)), "{line}");
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
