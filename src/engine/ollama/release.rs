//! What differs between versions of Ollama. Source: each version's `llm/llama_server.go` and `discover/runner.go`.

use crate::settings::OllamaVersion;

/// The rules of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub(super) struct ReleaseTraits {
    /// A projector stays in RAM by its own size, and not wherever a GPU has 10 GiB or less.
    pub projector_by_size: bool,
    /// Weights that are mapped and on GPUs count once in `ollama ps`.
    pub mapped_weights_once: bool,
    /// CUDA v12 wants a driver from 550 on for every card.
    pub driver_for_all: bool,
    /// The fit keeps more free for a projector, which may be on an integrated GPU.
    pub projector_margin: bool,
    /// The lowest compute capability with flash attention.
    pub flash_from: (u32, u32),
    /// Files are read directly on integrated CUDA and ROCm GPUs.
    pub direct_reading: bool,
    /// `--load-mode none`, not `--no-mmap`.
    pub has_load_mode: bool,
    /// Knows drafts of architecture dflash.
    pub knows_dflash: bool,
}

impl ReleaseTraits {
    /// Those of `version`.
    pub fn of(version: OllamaVersion) -> Self {
        let since = |minor, patch| version >= OllamaVersion { minor, patch };
        Self {
            projector_by_size: since(30, 11),
            mapped_weights_once: since(30, 11),
            driver_for_all: since(30, 11),
            projector_margin: since(31, 2),
            flash_from: if since(31, 2) { (6, 0) } else { (7, 0) },
            direct_reading: since(32, 2),
            has_load_mode: since(32, 6),
            knows_dflash: since(32, 8),
        }
    }
}
