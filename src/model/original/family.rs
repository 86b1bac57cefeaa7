//! The table of families: `assets/gguf-from-original.txt`, whose first lines explain it.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::hparams::Hparams;
use crate::model::config::ModelConfig;
use crate::model::config::words::Definitions;
use crate::model::expression;
use crate::model::sections;

const TABLE: &str = include_str!("../../../assets/gguf-from-original.txt");

/// The rows of one family.
#[derive(Clone, Debug, Default)]
pub(super) struct Family {
    /// The architecture in llama.cpp.
    pub architecture: &'static str,
    /// Its own words.
    pub definitions: Definitions,
    /// The keys, in order; later ones replace earlier ones.
    pub keys: Vec<KeyRow>,
    /// What becomes of a tensor, by its pattern; the last that holds counts.
    pub tensors: HashMap<String, Vec<TensorRow>>,
    /// Names without their block of tensors that stay in float32.
    pub float32: Vec<&'static str>,
    /// Tensors that the original lacks.
    pub extra: Vec<Extra>,
}

/// A key.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyRow {
    /// Its name without the architecture.
    pub key: &'static str,
    /// What it is.
    pub kind: KeyKind,
    /// One for each block.
    pub by_block: bool,
    /// Its value.
    pub value: &'static str,
    /// When it is there; none: always.
    pub condition: Option<&'static str>,
}

/// What a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// A whole number.
    Number,
    /// True or false.
    Flag,
    /// A broken number.
    Float,
    /// A text.
    Text,
    /// None: a row above does not count.
    Unset,
}

/// What becomes of a tensor.
#[derive(Clone, Debug)]
pub(super) struct TensorRow {
    /// The tensors that it becomes; none if it is left out.
    pub made: Vec<MadeRow>,
    /// When the row holds; none: always.
    pub condition: Option<&'static str>,
}

/// A tensor that is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct MadeRow {
    /// Where it stands.
    pub place: Place,
    /// Its name there.
    pub name: &'static str,
    /// Expressions of its sizes; none: those of the original.
    pub dims: Option<&'static str>,
}

/// Where a tensor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the block of its number, or outside of blocks if it has none.
    Same,
    /// In the first block behind those of the model.
    Behind,
    /// Outside of blocks, with others of other numbers.
    Stack,
}

/// A tensor that the original lacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extra {
    /// Its name.
    pub name: &'static str,
    /// Expressions of its sizes.
    pub dims: &'static str,
    /// When it is there; none: always.
    pub condition: Option<&'static str>,
}

/// Whether llama.cpp's converter writes a weight of this name in F32, whatever it writes others in.
pub fn is_float32(name: &str) -> bool {
    static NAMES: LazyLock<Family> = LazyLock::new(|| {
        let mut base = Family::default();
        base.read(sections::shared(TABLE, "base").unwrap_or_default());
        base
    });
    let of_block = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    let own = of_block.map_or(name, |(_, own)| own);
    own.ends_with("_norm.weight") || own.strip_suffix(".weight").is_none_or(|own| NAMES.float32.contains(&own))
}

impl Family {
    /// The family of this config.json: by its class, or else by its type.
    pub(super) fn of(config: &ModelConfig, hparams: &Hparams) -> Option<Self> {
        let class = config.architecture();
        [class.as_deref().unwrap_or_default(), config.model_type()].into_iter().find_map(|name| {
            let mut of_it = sections::sections(TABLE).filter(|(heading, ..)| {
                !heading.starts_with('=') && heading.split_whitespace().any(|known| known == name)
            });
            of_it.find_map(|(_, behind, rows)| Self::holding(behind, rows, hparams))
        })
    }

    /// The family behind this heading, if its condition holds.
    fn holding(behind: &'static str, rows: &'static str, hparams: &Hparams) -> Option<Self> {
        let (architecture, condition) = conditional(behind);
        let mut family = Self { architecture, ..Self::default() };
        family.read(rows);
        hparams.holds(&family, condition, None).then_some(family)
    }

    /// Every class and `model_type` of the table, with the architecture.
    #[cfg(test)]
    pub(super) fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        let families = sections::headings(TABLE).filter(|(heading, _)| !heading.starts_with('='));
        families.flat_map(|(heading, behind)| heading.split_whitespace().map(move |name| (name, conditional(behind).0)))
    }

    fn read(&mut self, rows: &'static str) {
        for line in rows.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            self.line(line);
        }
    }

    /// Reads a line; whether it says anything.
    fn line(&mut self, line: &'static str) -> bool {
        if let Some((original, made)) = line.split_once(" -> ") {
            let (made, condition) = conditional(made);
            let made = if made == "drop" { Vec::new() } else { made.split(", ").map(MadeRow::read).collect() };
            let pattern = original.replace('*', "layers.@");
            self.tensors.entry(pattern).or_default().push(TensorRow { made, condition });
            return true;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if self.definitions.read(word, rest) {
            return true;
        }
        match word {
            "use" => match sections::shared(TABLE, rest) {
                Some(rows) => self.read(rows),
                None => return false,
            },
            "f32" => self.float32.extend(rest.split_whitespace()),
            "extra" => {
                let (rest, condition) = conditional(rest);
                let Some((name, dims)) = rest.split_once(" [") else { return false };
                self.extra.push(Extra { name, dims: dims.trim_end_matches(']'), condition });
            }
            "unset" => self.keys.push(KeyRow { kind: KeyKind::Unset, ..KeyRow::of(KeyKind::Unset, rest, "") }),
            _ => {
                let (kind, rest) = match word {
                    "flag" => (KeyKind::Flag, rest),
                    "float" => (KeyKind::Float, rest),
                    "text" => (KeyKind::Text, rest),
                    _ => (KeyKind::Number, line),
                };
                let Some((key, value)) = rest.split_once(" = ") else { return false };
                self.keys.push(KeyRow::of(kind, key, value));
            }
        }
        true
    }
}

impl KeyRow {
    fn of(kind: KeyKind, key: &'static str, value: &'static str) -> Self {
        let (value, condition) = conditional(value);
        let (key, by_block) = key.strip_suffix("[]").map_or((key, false), |key| (key, true));
        Self { key, kind, by_block, value, condition }
    }
}

impl MadeRow {
    fn read(text: &'static str) -> Self {
        let (name, dims) = match text.split_once(" [") {
            Some((name, dims)) => (name, Some(dims.trim_end_matches(']'))),
            None => (text, None),
        };
        let (place, name) = match (name.strip_prefix('+'), name.strip_prefix('/')) {
            (Some(name), _) => (Place::Behind, name),
            (_, Some(name)) => (Place::Stack, name),
            _ => (Place::Same, name),
        };
        Self { place, name, dims }
    }
}

fn conditional(text: &'static str) -> (&'static str, Option<&'static str>) {
    match text.split_once(" if ") {
        Some((text, condition)) => (text, Some(condition)),
        None => (text, None),
    }
}

impl Hparams {
    /// A word of the family as a number.
    pub(super) fn number(&self, family: &Family, word: &str) -> Option<u64> {
        u64::try_from(expression::number(word, &self.words(family, None))?).ok()
    }

    /// Whether a condition holds; one that is not there does.
    pub(super) fn holds(&self, family: &Family, condition: Option<&str>, block: Option<u64>) -> bool {
        self.words(family, block).holds(condition)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        for (heading, _, rows) in sections::sections(TABLE) {
            for line in rows.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
                assert!(Family::default().line(line), "[{heading}] {line}");
            }
        }
    }

    #[test]
    fn every_name_is_of_one_architecture_or_has_a_condition() {
        let mut seen = BTreeSet::new();
        let repeated: Vec<_> = Family::names().filter(|(name, _)| !seen.insert(*name)).collect();
        let of = |class: &'static str, kind, architecture| [(class, architecture), (kind, architecture)];
        let granite = |architecture| of("GraniteMoeHybridForCausalLM", "granitemoehybrid", architecture);
        let nemotron = of("NemotronHForCausalLM", "nemotron_h", "nemotron_h");
        assert_eq!(repeated, [granite("granitemoe"), granite("granite"), nemotron].concat());
    }
}
