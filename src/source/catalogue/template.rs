//! Parses and expands `assets/architectures.txt`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::words::{TemplateValues, Word};
use super::{CatalogueEntry, CatalogueError};

/// The lines of every section, by its name.
type Sections = BTreeMap<&'static str, Vec<TemplateLine>>;

struct TemplateLine {
    what: TemplateAction,
    conditions: Vec<Condition>,
}

enum TemplateAction {
    /// Another section's lines.
    Use(&'static str),
    Tensor {
        /// Whether it occurs in every block.
        in_blocks: bool,
        name: &'static str,
        dims: Vec<Sum>,
    },
}

/// Requires that a word is greater than zero, or, with `holds` false, that it is zero or undefined.
struct Condition {
    word: Word,
    holds: bool,
}

/// `2*key+value`: products, each added or subtracted.
struct Sum(Vec<Product>);

struct Product {
    minus: bool,
    /// Evaluated from the left: each divides (true) or multiplies the result so far.
    factors: Vec<(bool, Word)>,
}

/// Names and dimensions of a model's tensors, those outside of blocks first.
pub(super) fn tensors(entry: &CatalogueEntry) -> Result<Vec<(String, Vec<u64>)>, CatalogueError> {
    static SECTIONS: LazyLock<Sections> = LazyLock::new(|| sections(include_str!("../../../assets/architectures.txt")));
    if !SECTIONS.contains_key(entry.architecture.as_str()) {
        return Err(CatalogueError::Architecture(entry.architecture.clone()));
    }
    let mut tensors = Vec::new();
    for block in std::iter::once(None).chain((0..entry.blocks()).map(Some)) {
        let values = TemplateValues::new(entry, block.unwrap_or(0));
        Expansion { sections: &SECTIONS, values, block, tensors: &mut tensors }.section(&entry.architecture)?;
    }
    Ok(tensors)
}

/// Expands the template for one block, or for the tensors outside of blocks.
struct Expansion<'e> {
    sections: &'e Sections,
    values: TemplateValues<'e>,
    block: Option<u64>,
    tensors: &'e mut Vec<(String, Vec<u64>)>,
}

impl Expansion<'_> {
    fn section(&mut self, name: &str) -> Result<(), CatalogueError> {
        let sections = self.sections;
        let lines = sections.get(name).ok_or_else(|| CatalogueError::Architecture(name.to_owned()))?;
        for line in lines {
            let holds = |it: &Condition| it.holds == self.values.of(it.word).is_some_and(|number| number > 0);
            if !line.conditions.iter().all(holds) {
                continue;
            }
            match &line.what {
                TemplateAction::Use(other) => self.section(other)?,
                TemplateAction::Tensor { in_blocks, name, dims } if *in_blocks == self.block.is_some() => {
                    let name = self.block.map_or_else(|| (*name).to_owned(), |block| format!("blk.{block}.{name}"));
                    let dims = dims.iter().map(|dim| self.number(dim, &name)).collect::<Result<_, _>>()?;
                    self.tensors.push((name, dims));
                }
                TemplateAction::Tensor { .. } => {}
            }
        }
        Ok(())
    }

    fn number(&self, sum: &Sum, tensor: &str) -> Result<u64, CatalogueError> {
        let error = |what: String| CatalogueError::Tensor { tensor: tensor.to_owned(), what };
        let mut total: u64 = 0;
        for Product { minus, factors } in &sum.0 {
            let mut product: u64 = 1;
            for &(divides, word) in factors {
                let factor = self.values.of(word).ok_or_else(|| error(format!("there is no {word:?}")))?;
                let next = if divides { product.checked_div(factor) } else { product.checked_mul(factor) };
                product = next.ok_or_else(|| error(format!("{word:?} is {factor}")))?;
            }
            let next = if *minus { total.checked_sub(product) } else { total.checked_add(product) };
            total = next.ok_or_else(|| error("its dimensions are not numbers".to_owned()))?;
        }
        Ok(total)
    }
}

fn sections(text: &'static str) -> Sections {
    let mut sections = Sections::new();
    let mut current = "";
    for line in
        text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|line| !line.is_empty())
    {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(name) => current = name,
            None => sections.entry(current).or_default().push(TemplateLine::read(line)),
        }
    }
    sections
}

impl TemplateLine {
    fn read(line: &'static str) -> Self {
        let (what, conditions) = line.split_once(" if ").unwrap_or((line, ""));
        let condition = |text: &'static str| match text.strip_prefix('!') {
            Some(word) => Condition { word: Word::read(word), holds: false },
            None => Condition { word: Word::read(text), holds: true },
        };
        let conditions = conditions.split_whitespace().map(condition).collect();
        if let Some(section) = what.strip_prefix("use ") {
            return Self { what: TemplateAction::Use(section.trim()), conditions };
        }
        let (name, dims) = what.split_once(' ').unwrap_or((what, ""));
        let dims = dims.split_whitespace().map(Sum::read).collect();
        let (in_blocks, name) = name.strip_prefix("*.").map_or((false, name), |name| (true, name));
        Self { what: TemplateAction::Tensor { in_blocks, name, dims }, conditions }
    }
}

impl Sum {
    fn read(text: &'static str) -> Self {
        let terms = pieces(text, ['+', '-']);
        Self(terms.map(|(sign, term)| Product { minus: sign == Some('-'), factors: factors(term) }).collect())
    }
}

fn factors(term: &'static str) -> Vec<(bool, Word)> {
    pieces(term, ['*', '/']).map(|(sign, word)| (sign == Some('/'), Word::read(word))).collect()
}

/// Splits `text` at `signs`; each piece comes with the sign before it.
fn pieces(text: &'static str, signs: [char; 2]) -> impl Iterator<Item = (Option<char>, &'static str)> {
    let mut before = None;
    text.split_inclusive(signs).map(move |piece| {
        let word = piece.trim_end_matches(signs);
        let sign = before;
        before = piece.chars().last().filter(|last| signs.contains(last));
        (sign, word)
    })
}
