//! How a line of a log is read: rows of a pattern and what it sets, grouped by subject in the files of this folder.
//!
//! **To add a pattern**, write a row in the `ROWS` of its subject (weights and devices: `model.rs`; buffers, caches and
//! tables: `memory.rs`; `fit.rs`; contexts and slots: `context.rs`; what else happens: `event.rs`; `ollama.rs`):
//!
//! ```text
//! /// load_tensors: offloaded 20/49 layers to GPU
//! "offloaded {}/{} layers to GPU" (on: u64, all: u64) => Kind::Model, |now| now.model().offloaded = Some((on, all));
//! ```
//!
//! The comment is a line as a program prints it: a test parses it with the row, and reports a row without one. The
//! words of a pattern are searched one after another, each at its first place, or its last one after `{..}`. The text
//! between them, trimmed, is parsed by the types of the holes ([`super::hole::Hole`]; `_: &str` ignores it). A pattern matches
//! anywhere in a line, or with `^` at its start. The first row that can parse a line determines its kind, by which
//! loads begin and end ([`Kind`]), and what it sets in the load under way. A row may have several patterns with the
//! same holes, and `|now, line|` gets the whole line.

mod context;
mod event;
mod fit;
mod memory;
mod model;
mod ollama;

use super::command;
use super::kind::Kind;
use super::load::Program;
use super::pattern::Pairs;
use super::row::{Parsed, Row};

/// Rows, tried in order.
struct Subject {
    /// Words of which only lines of this subject have one; without any, its rows are tried on every line.
    words: &'static [&'static str],
    rows: &'static [Row],
}

static SUBJECTS: [Subject; 12] = [
    Subject { words: &[], rows: memory::ROWS },
    Subject { words: &["breakdown"], rows: memory::TABLE },
    Subject { words: &[], rows: memory::CUT_TABLE },
    Subject { words: &["fit_params", "params_fit"], rows: fit::ROWS },
    Subject { words: &["ds4:", "ds4-"], rows: event::DS4 },
    Subject {
        words: &[
            "KV self",
            "Memory required",
            "Memory available on all",
            "Required memory",
            "per-step buffer",
            "shadow buffer",
        ],
        rows: event::IK_LLAMA_CPP,
    },
    Subject { words: &["msg="], rows: ollama::ROWS },
    Subject { words: &[], rows: model::ROWS },
    Subject { words: &[], rows: context::ROWS },
    Subject { words: &["Flash Attention", "flash attention", "flash_attn"], rows: event::FLASH_ATTENTION },
    Subject { words: &[], rows: event::ROWS },
    Subject { words: &[], rows: fit::PRINTED },
];

/// Parses a line; none if no row is for it.
pub(super) fn read(text: &str) -> Option<Parsed<'_>> {
    find(text).map(|(_, parsed)| parsed).or_else(|| {
        let command = command::typed(text)?;
        let program = command.program.starts_with("koboldcpp").then_some(Program::KoboldCpp);
        Some(Parsed::new(Kind::Command, move |now| now.start(program, command)))
    })
}

fn find(text: &str) -> Option<(&'static Row, Parsed<'_>)> {
    let pairs = Pairs::of(text);
    for Subject { words, rows } in &SUBJECTS {
        let own = words.iter().any(|word| pairs.may_have(word) && text.contains(word));
        if own || words.is_empty() {
            let found = rows.iter().find_map(|row| Some((row, row.read(text, &pairs)?)));
            if own || found.is_some() {
                return found;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_line_and_reads_it() {
        for row in SUBJECTS.iter().flat_map(|subject| subject.rows) {
            let name = row.patterns[0].text;
            assert!(!row.examples.is_empty(), "the row `{name}` has no line above it");
            for line in row.examples.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)) {
                let found = find(line).map(|(row, _)| row);
                let other = found.map(|row| row.patterns[0].text);
                assert!(found.is_some_and(|found| std::ptr::eq(found, row)), "`{line}` of `{name}` is of `{other:?}`");
            }
            for pattern in row.patterns {
                let is_read = |line: &&str| pattern.holes(line.trim_start()).is_some();
                assert!(row.examples.iter().any(is_read), "no line is for `{}`", pattern.text);
            }
        }
    }
}
