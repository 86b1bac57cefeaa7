//! Kinds of lines.

use super::memory::TablePhase;

/// The kind of a line, by which loads begin and end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A program or its model is named: another load, if one is begun.
    Start,
    /// A command line: another load, if one is begun or has a command.
    Command,
    /// A device, or what is asked for: another load, if one is over.
    Loading,
    /// The fit at work: likewise.
    Fit,
    /// A model is opened or its layers are placed: likewise.
    Model,
    /// A buffer of weights: likewise.
    Weights,
    /// A compute buffer.
    Compute,
    /// Another buffer, or the size of a cache.
    Memory,
    /// A row of a breakdown table.
    Table(Option<TablePhase>),
    /// A property of the model or the context at hand.
    Part,
    /// Anything else.
    Other,
}

impl Kind {
    /// Whether such a line has a figure of memory.
    pub const fn is_memory(self) -> bool {
        matches!(self, Self::Weights | Self::Compute | Self::Memory | Self::Table(_))
    }
}
