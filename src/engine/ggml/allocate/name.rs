//! By what name somebody has bytes.

use crate::engine::ggml::number::Number;

/// Who has bytes of a device: a tensor of the graph, or a copy of one there. The several copies of a pipeline share a name,
/// for they are never given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(u32);

/// Set where it is a copy.
const COPY: u32 = 1 << 28;

impl Name {
    /// Of the tensor itself, or of its copy.
    pub const fn new(tensor: Number, is_copy: bool) -> Self {
        Self(tensor.0 | if is_copy { COPY } else { 0 })
    }

    /// As a word that differs where names do.
    pub const fn word(self) -> u32 {
        self.0
    }

    /// Whose word that is.
    pub const fn of_word(word: u32) -> Self {
        Self(word)
    }

    /// The tensor that is as large.
    pub const fn tensor(self) -> Number {
        Number(self.0 & !COPY)
    }

    /// The same by other numbers.
    #[must_use]
    pub fn renumbered(self, number: impl FnOnce(Number) -> Number) -> Self {
        Self(number(self.tensor()).0 | self.0 & COPY)
    }

    /// The same as it was counted `from` one tensor, counted `to` another. Names stay in their order.
    #[must_use]
    pub fn counted_from(self, from: u32, to: u32) -> Self {
        self.renumbered(|number| number.counted_from(from, to))
    }
}
