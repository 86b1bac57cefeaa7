//! What a plan is asked for.

/// What the caller of a summary is interested in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FitGoal {
    /// As many layers on GPUs as possible.
    Most,
    /// All layers on GPUs or nothing: if not all fit, the engine may stop before it has placed as many as possible.
    AllLayers,
    /// All in VRAM or nothing, likewise.
    Vram,
}
