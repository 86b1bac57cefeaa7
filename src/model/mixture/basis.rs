//! How the sizes of a model's tensors are known.

use super::name::Quantisation;

/// How the sizes of a model's tensors are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The recipe gives the published size.
    Published,
    /// The size is published, and how it is spread over the layers is the recipe's, or that of a plain type.
    Scaled,
    /// The recipe alone.
    Recipe,
    /// The usual ratio to a plain type.
    Ratio,
}

/// What is known of a model's tensors as a packager makes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mixture {
    /// The name of the quantisation.
    pub quantisation: Quantisation,
    /// How the sizes are known.
    pub basis: Basis,
    /// The same as part of a sentence.
    pub reason: String,
}

impl Mixture {
    /// Why sizes are not exact; none if they are.
    pub fn uncertainty(&self) -> Option<&str> {
        (self.basis != Basis::Published).then_some(self.reason.as_str())
    }
}
