//! Pasted text: a log, a command, or a name.

use std::sync::Arc;

use crate::command::{self, Start};
use crate::observed::{Load, Observation};

/// A pasted text that was read.
#[derive(Clone, Debug)]
pub struct Pasted {
    /// The text.
    pub text: Arc<str>,
    /// What it is.
    pub what: PastedKind,
}

/// What a pasted text is.
#[derive(Clone, Debug)]
pub enum PastedKind {
    /// A command, or a file that starts servers: what it starts, or why that is not known.
    Command(Result<Vec<Start>, String>),
    /// A log, as far as can be told: several lines.
    Log,
    /// A model's name, or what is to stand in a field.
    Name,
}

impl Pasted {
    /// Bytes up to which a text is read within a drawing.
    pub const SHORT: usize = 4 << 10;

    /// Reads `text`.
    pub fn of(text: &str) -> Self {
        let lines = has_lines(text);
        let has_memory = || Observation::of(text).load().is_some_and(Load::has_memory);
        let what = if !(lines && has_memory()) && command::is_one(text) {
            PastedKind::Command(command::read(text))
        } else if lines {
            PastedKind::Log
        } else {
            PastedKind::Name
        };
        Self { text: text.into(), what }
    }

    /// Whether it is several lines, which no name is.
    pub fn has_lines(&self) -> bool {
        has_lines(&self.text)
    }
}

fn has_lines(text: &str) -> bool {
    text.trim().lines().nth(1).is_some()
}
