//! How many tokens an image may have, and the image for which memory is reserved (`clip_hparams` in `clip-model.h`,
//! 0.1.161).

use super::hparams::ClipHparams;
use super::kind::{Dummy, ProjectorType, TokenLimits};
use super::rules::ClipRules;
use crate::engine::llama_cpp::error::LoadError;

/// Limit of patches of one image: beyond what clip's 32-bit products of them allow.
pub const MAX_PATCHES: u64 = 1 << 18;
/// Limit of an image's side, in pixels.
pub const MAX_SIDE: u64 = 1 << 16;
/// Limit of frames of audio.
pub const MAX_FRAMES: u64 = 1 << 20;

/// What the options say of an image's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenOptions {
    /// `--image-min-tokens`
    pub least: Option<u64>,
    /// `--image-max-tokens`
    pub most: Option<u64>,
}

/// The limits in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageLimits {
    /// Least and most pixels of an image.
    pub pixels: Option<(u64, u64)>,
    /// Most tokens of an image.
    pub tokens: Option<u64>,
    /// Pixels of the dummy image's side.
    pub dummy_side: u64,
}

impl ImageLimits {
    /// The limits of an encoder under these options.
    ///
    /// # Errors
    /// When the options exclude each other or the dummy image would be too large.
    pub fn new(
        kind: ProjectorType,
        hparams: &ClipHparams,
        options: TokenOptions,
        rules: &ClipRules,
    ) -> Result<Self, LoadError> {
        let area = hparams.token_side().saturating_mul(hparams.token_side());
        let asked = |tokens: Option<u64>| tokens.filter(|tokens| *tokens > 0).map(|tokens| tokens.saturating_mul(area));
        let (least, most) = (asked(options.least), asked(options.most));
        let (least, most) = match kind.token_limits() {
            TokenLimits::None => (None, None),
            TokenLimits::Options => (least, most),
            TokenLimits::Tokens(from, to) => {
                let gemma4 = matches!(kind, ProjectorType::Gemma4V | ProjectorType::Gemma4Uv);
                let (from, to) = if gemma4 { rules.gemma4_tokens } else { (from, to) };
                let (from, to) = (from.saturating_mul(area), to.saturating_mul(area));
                let (from, to) = hparams.pixels.filter(|_| reads_pixels(kind)).unwrap_or((from, to));
                (Some(least.unwrap_or(from)), Some(most.unwrap_or(to)))
            }
            TokenLimits::Pixels => match hparams.pixels {
                Some((from, to)) if kind.limits_pixels_by_options() => {
                    (Some(least.unwrap_or(from)), Some(most.unwrap_or(to)))
                }
                Some((from, to)) => (Some(from), Some(to)),
                None => {
                    let why = "the projector's header has no keys clip.vision.image_min_pixels and image_max_pixels";
                    return Err(LoadError::model(why.to_owned()));
                }
            },
        };
        if least.zip(most).is_some_and(|(least, most)| least > most) {
            return Err(LoadError::settings(
                "the least tokens of an image are more than the most: lower --image-min-tokens".to_owned(),
            ));
        }
        let unit = hparams.token_side();
        let dummy_side = match kind.dummy() {
            Dummy::ImageSize => hparams.image_size,
            Dummy::Largest => most.unwrap_or(0).isqrt(),
            Dummy::Tokens(side) => {
                match options.most.filter(|most| *most > 0 && side * side > *most && rules.dummy_within_limit) {
                    Some(most) => most.isqrt().max(1).saturating_mul(unit),
                    None => side.saturating_mul(unit),
                }
            }
        };
        check_image(hparams, dummy_side, dummy_side)?;
        Ok(Self { pixels: least.zip(most), tokens: most.map(|most| most / area.max(1)), dummy_side })
    }
}

/// Types whose keys replace the limits, if the header has both.
fn reads_pixels(kind: ProjectorType) -> bool {
    matches!(kind, ProjectorType::KimiK25 | ProjectorType::HunyuanVl)
}

/// Refuses images that no graph is built for.
///
/// # Errors
/// When an image is smaller than a patch or larger than what clip computes with.
pub fn check_image(hparams: &ClipHparams, width: u64, height: u64) -> Result<(), LoadError> {
    let patches = (width / hparams.patch_size, height / hparams.patch_size);
    if patches.0 == 0 || patches.1 == 0 {
        return Err(LoadError::settings(format!(
            "an image of {width}x{height} pixels is smaller than the projector's patch of {} pixels",
            hparams.patch_size
        )));
    }
    if width > MAX_SIDE || height > MAX_SIDE || patches.0 * patches.1 > MAX_PATCHES {
        return Err(LoadError::settings(format!(
            "an image of {width}x{height} pixels is too large for this projector: at most {MAX_PATCHES} patches"
        )));
    }
    Ok(())
}
