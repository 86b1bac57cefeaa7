//! What tells one listing of a GPU from another: Ollama asks every backend for its devices and counts a card once.

use std::sync::Arc;

/// How the backends list a GPU, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// ROCm's name of its architecture: `gfx1100`.
    pub gfx: Option<Arc<str>>,
    /// Its PCI address: `0000:01:00.0`.
    pub pci: Option<Arc<str>>,
    /// Whether the Vulkan backend lists it besides its own.
    pub also_vulkan: bool,
}
