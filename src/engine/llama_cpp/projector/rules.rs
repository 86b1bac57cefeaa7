//! Differences between releases of clip (`tools/mtmd`).

/// What a release of clip does its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a difference of its own")]
pub struct ClipRules {
    /// Compared with what clip took.
    pub compared: bool,
    /// Both halves of a head are rotated in place; otherwise each by itself, and then joined.
    pub rotates_in_place: bool,
    /// Graphs are for several images at once.
    pub batches: bool,
    /// The dummy image has no more tokens than `--image-max-tokens`.
    pub dummy_within_limit: bool,
    /// Least and most tokens of Gemma 4's images.
    pub gemma4_tokens: (u64, u64),
    /// Rows are padded at their start; otherwise at their end and then rolled.
    pub pads_at_start: bool,
    /// The windows of a convolution have the type of its kernel; otherwise f16, or f32 for bf16.
    pub windows_like_kernel: bool,
    /// llama-server lowers the most tokens of an image to an ubatch where the model reads images at once.
    pub images_within_ubatch: bool,
}

impl ClipRules {
    /// Release 2026-11 (0.1.161).
    pub const NOVEMBER_2026: Self = Self {
        compared: true,
        rotates_in_place: true,
        batches: true,
        dummy_within_limit: true,
        gemma4_tokens: (70, 1120),
        pads_at_start: true,
        windows_like_kernel: false,
        images_within_ubatch: true,
    };
    /// Release 2026-09 (0.1.159).
    pub const SEPTEMBER_2026: Self =
        Self { dummy_within_limit: false, pads_at_start: false, images_within_ubatch: false, ..Self::NOVEMBER_2026 };
    /// Release 2026-08-05 (0.1.154), by its source; but a log of b10488 has the 64.49 MiB of Ministral 3's projector that
    /// only rotation in place takes here.
    pub const EARLY_AUGUST_2026: Self = Self { compared: false, gemma4_tokens: (40, 280), ..Self::SEPTEMBER_2026 };
    /// Release 2026-08 (0.1.150).
    pub const AUGUST_2026: Self = Self {
        compared: false,
        rotates_in_place: false,
        batches: false,
        dummy_within_limit: false,
        gemma4_tokens: (40, 280),
        pads_at_start: false,
        windows_like_kernel: true,
        images_within_ubatch: false,
    };
}
