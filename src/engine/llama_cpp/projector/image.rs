//! What an image becomes before it is encoded: resized within the limits of its tokens, or cut into tiles
//! (`mtmd-image.cpp` in `tools/mtmd`, `clip_hparams` in `clip-model.h`, 0.1.161); sides go through 32-bit floats as there.
//! And how many tokens an input becomes, and how wide they are (`clip_n_output_tokens`, `clip_n_mmproj_embd` in `clip.cpp`,
//! 0.1.161).
#![allow(clippy::cast_precision_loss, reason = "as in clip")]

use super::hparams::ClipHparams;
use super::kind::{Dummy, ProjectorType, TokenLimits, Trait};
use super::{Encoder, Input};
use crate::engine::llama_cpp::error::LoadError;
use crate::engine::llama_cpp::release::ClipRules;
use crate::settings::ImageSize;
use crate::units::Tokens;

/// Limit of patches of one image: beyond what clip's 32-bit products of them allow.
pub const MAX_PATCHES: u64 = 1 << 18;
/// Limit of an image's side, in pixels.
pub const MAX_SIDE: u64 = 1 << 16;
/// Limit of frames of audio.
pub const MAX_FRAMES: u64 = 1 << 20;

/// Tokens that are encoded together at most (`mtmd_context_params_default`, 0.1.161).
const BATCH_TOKENS: u64 = 1024;
/// Tiles of LFM2-VL: their side in pixels, and how many an image may have.
const LFM2_TILE: u64 = 512;
const LFM2_TILES: std::ops::RangeInclusive<u64> = 2..=10;
/// How many times the most pixels an image may have before LFM2-VL cuts it into tiles.
const LFM2_TOLERANCE: f64 = 2.0;
/// Tiles of a resampler's image.
const RESAMPLER_TILES: u64 = 9;

/// Width and height in pixels.
pub(super) type Size = (u64, u64);
/// The size of an overview, the size of a tile, and how many tiles there are besides the overview.
pub(super) type Pieces = (Size, Size, u64);

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
        let (least, most) = match kind.row().limits {
            TokenLimits::None => (None, None),
            TokenLimits::Options => (least, most),
            limits @ (TokenLimits::Tokens(..) | TokenLimits::ByRelease) => {
                let (from, to) =
                    if let TokenLimits::Tokens(from, to) = limits { (from, to) } else { rules.gemma4_tokens };
                let of_type = (from.saturating_mul(area), to.saturating_mul(area));
                match hparams.pixels.filter(|_| kind.has(Trait::PrefersPixels)) {
                    Some((from, to)) => (Some(from), Some(to)),
                    None => (Some(least.unwrap_or(of_type.0)), Some(most.unwrap_or(of_type.1))),
                }
            }
            TokenLimits::Pixels => match hparams.pixels {
                Some((from, to)) if kind.has(Trait::LimitsPixelsByOptions) => {
                    (Some(least.unwrap_or(from)), Some(most.unwrap_or(to)))
                }
                Some((from, to)) => (Some(from), Some(to)),
                None => {
                    let why = "the projector's header has no keys clip.vision.image_min_pixels and image_max_pixels";
                    return Err(LoadError::model(why));
                }
            },
        };
        if least.is_some() && most.is_none() {
            return Err(LoadError::settings(
                "llama.cpp refuses --image-min-tokens alone for this projector, which sets no most tokens of an image: set \
                 --image-max-tokens too",
            ));
        }
        if least.zip(most).is_some_and(|(least, most)| least > most) {
            return Err(LoadError::settings(
                "the least tokens of an image are more than the most: lower --image-min-tokens",
            ));
        }
        let unit = hparams.token_side();
        let dummy_side = match kind.row().dummy {
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

/// What an image becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResizedImage {
    /// The largest of its pieces, with as many as are encoded together.
    pub input: Input,
    /// Its pieces: one, or tiles and an overview.
    pub pieces: u64,
    /// Their tokens together.
    pub tokens: u64,
}

impl ResizedImage {
    /// In words: `4 pieces of 448x448, 1 024 tokens`.
    pub fn sentence(&self) -> String {
        let Self { input, pieces, tokens } = *self;
        let size = match input {
            Input::Image { width, height, .. } => format!("{width}x{height}"),
            Input::Audio { frames } => format!("{frames} frames"),
        };
        let what = if pieces == 1 { size } else { format!("{pieces} pieces of up to {size}") };
        format!("{what}, {} tokens", Tokens(tokens))
    }
}

impl Encoder {
    /// What an image of this size becomes.
    ///
    /// # Errors
    /// When the limits contradict each other, or the image is too large.
    pub fn resized(
        &self,
        limits: &ImageLimits,
        image: ImageSize,
        rules: &ClipRules,
    ) -> Result<ResizedImage, LoadError> {
        let size = (image.width, image.height);
        let (overview, tile, tiles) = (self.kind.row().pieces)(self, size, limits);
        let area = |(width, height): Size| width * height;
        let largest = if tiles > 0 && area(tile) > area(overview) { tile } else { overview };
        check_image(&self.hparams, largest.0, largest.1)?;
        let tokens_of = |(width, height): Size| self.tokens(Input::Image { width, height, batch: 1 });
        let tokens = tokens_of(overview) + if tiles > 0 { tiles * tokens_of(tile) } else { 0 };
        let batches = rules.batches && self.encodes_batches();
        let batch = if batches { (BATCH_TOKENS / tokens_of(largest).max(1)).clamp(1, tiles + 1) } else { 1 };
        let input = Input::Image { width: largest.0, height: largest.1, batch };
        Ok(ResizedImage { input, pieces: tiles + 1, tokens })
    }

    /// Scaled within the limits of its tokens, or cut into tiles where there are none.
    pub(super) fn scaled_or_tiled(&self, size: Size, limits: &ImageLimits) -> Pieces {
        let hparams = &self.hparams;
        match self.kind.row().limits {
            TokenLimits::None => tiled(hparams, size),
            _ => (scaled(size, hparams.token_side(), limits.pixels, hparams.longest_edge), (0, 0), 0),
        }
    }

    /// The largest input that an image can become; none if that is the dummy.
    pub fn largest_image(&self, limits: &ImageLimits, rules: &ClipRules) -> Option<Input> {
        let side = match limits.tokens {
            Some(tokens) => tokens.isqrt().max(1) * self.hparams.token_side(),
            None => limits.dummy_side,
        };
        let alone = Input::Image { width: side, height: side, batch: 1 };
        let pieces = self.hparams.candidates.iter().map(|(width, height)| width * height).max().unwrap_or(0)
            / (self.hparams.image_size * self.hparams.image_size).max(1);
        let together = (BATCH_TOKENS / self.tokens(alone).max(1)).clamp(1, pieces + 1);
        let batch = if rules.batches && self.encodes_batches() { together } else { 1 };
        let is_larger = side > limits.dummy_side || batch > 1;
        let input = Input::Image { width: side, height: side, batch };
        (is_larger && check_image(&self.hparams, side, side).is_ok()).then_some(input)
    }

    /// Tokens of one input.
    pub fn tokens(&self, input: Input) -> u64 {
        match input {
            Input::Image { width, height, .. } => (self.kind.row().image)(self, (width, height)),
            Input::Audio { frames } => (self.kind.row().audio)(&self.hparams, frames),
        }
    }

    /// Patches of an image.
    pub(super) const fn patches(&self, size: Size) -> u64 {
        self.squares(size, 1)
    }

    /// Squares of `side` patches.
    pub(super) const fn squares(&self, (width, height): Size, side: u64) -> u64 {
        let side = side * self.hparams.patch_size;
        (width / side) * (height / side)
    }

    /// Patches, all of them merged.
    pub(super) const fn merged(&self, size: Size) -> u64 {
        self.patches(size) / (self.hparams.n_merge * self.hparams.n_merge)
    }

    /// The same, the last of them perhaps of fewer.
    pub(super) const fn merges_begun(&self, size: Size) -> u64 {
        self.patches(size).div_ceil(self.hparams.n_merge * self.hparams.n_merge)
    }

    /// Elements of one token as the model receives it: with deepstack, of all levels together.
    pub fn n_embd_out(&self) -> u64 {
        let row = self.kind.row();
        let is_level = |il: &usize| self.weights.in_block(*il, "deepstack.fc1.weight").is_some();
        let deepstack = self.kind.has(Trait::Deepstack);
        let levels = (0..self.hparams.n_layer).filter(|il| deepstack && is_level(il)).count() as u64;
        let dimension = |(name, at): &(&str, usize)| Some(self.weights.all[self.weights.global(name)?].ne[*at]);
        row.width.iter().find_map(dimension).map_or(self.hparams.projection_dim, |width| width * (1 + levels))
    }
}

/// A size with about the same shape, of whole tokens and within the limits (`calc_size_preserved_ratio`).
fn scaled(size: Size, unit: u64, pixels: Option<(u64, u64)>, longest_edge: u64) -> Size {
    let (width, height) = (size.0 as f32, size.1 as f32);
    let factor = unit as f32;
    let round = |x: f32| (x / factor).round() as u64 * unit;
    let ceil = |x: f32| (x / factor).ceil() as u64 * unit;
    let floor = |x: f32| (x / factor).floor() as u64 * unit;
    let (w, h) = if longest_edge > 0 {
        let scale = (longest_edge as f32 / width).min(longest_edge as f32 / height);
        (ceil(width * scale), ceil(height * scale))
    } else {
        (round(width).max(unit), round(height).max(unit))
    };
    let (least, most) = pixels.unwrap_or((0, 0));
    if most > 0 && h * w > most {
        let beta = (height * width / most as f32).sqrt();
        (floor(width / beta).max(unit), floor(height / beta).max(unit))
    } else if least > 0 && h * w < least {
        let beta = (least as f32 / (height * width)).sqrt();
        (ceil(width * beta), ceil(height * beta))
    } else {
        (w, h)
    }
}

/// An overview of `image_size` and tiles of it, or only the overview
/// (`mtmd_image_preprocessor_llava_uhd`, `mtmd_image_preprocessor_fixed_size`).
fn tiled(hparams: &ClipHparams, size: Size) -> Pieces {
    let side = hparams.image_size;
    let overview = (side, side);
    if hparams.candidates.is_empty() || size.0.max(size.1) <= side || side == 0 {
        return (overview, (0, 0), 0);
    }
    let (width, height) = best_candidate(size, &hparams.candidates);
    (overview, overview, width.div_ceil(side) * height.div_ceil(side))
}

/// The candidate that keeps most of the image, then the one that wastes least (`select_best_resolution`).
fn best_candidate(size: Size, candidates: &[Size]) -> Size {
    let (mut best, mut most, mut least_wasted) = ((0, 0), 0, u64::MAX);
    for &(width, height) in candidates {
        let scale = (width as f32 / size.0 as f32).min(height as f32 / size.1 as f32);
        let scaled = (size.0 as f32 * scale) as u64 * (size.1 as f32 * scale) as u64;
        let effective = scaled.min(size.0 * size.1);
        let wasted = (width * height).saturating_sub(effective);
        if effective > most || (effective == most && wasted < least_wasted) {
            (best, most, least_wasted) = ((width, height), effective, wasted);
        }
    }
    best
}

/// Tiles of `image_size` of the image scaled to its longest edge (`mtmd_image_preprocessor_idefics3`).
pub(super) fn idefics3(hparams: &ClipHparams, size: Size, limits: &ImageLimits) -> Pieces {
    let (side, edge) = (hparams.image_size.max(1), hparams.longest_edge);
    let tile = (side, side);
    let (width, height) = if edge > 0 && limits.pixels.is_none() {
        let ratio = size.0 as f64 / size.1 as f64;
        let even = |side: u64| side + side % 2;
        if size.0 >= size.1 {
            (edge, even((edge as f64 / ratio) as u64))
        } else {
            (even((edge as f64 * ratio) as u64), edge)
        }
    } else {
        scaled(size, side, limits.pixels, edge)
    };
    (tile, tile, width.div_ceil(side) * height.div_ceil(side))
}

/// One image, or tiles of 512 pixels and an overview (`mtmd_image_preprocessor_lfm2`).
pub(super) fn lfm2(hparams: &ClipHparams, size: Size, limits: &ImageLimits) -> Pieces {
    let unit = hparams.token_side();
    let overview = scaled(size, unit, limits.pixels, 0);
    let round = |side: u64| ((side as f64 / unit as f64).round_ties_even() as u64 * unit).max(hparams.patch_size);
    let most = limits.pixels.map_or(0, |(_, most)| most);
    if (round(size.0) * round(size.1)) as f64 <= most as f64 * LFM2_TOLERANCE {
        return (overview, (0, 0), 0);
    }
    let most_tiles = *LFM2_TILES.end();
    let mut grids: Vec<Size> = LFM2_TILES
        .flat_map(|n| (1..=n).flat_map(move |w| (1..=n).map(move |h| (w, h))))
        .filter(|(w, h)| LFM2_TILES.contains(&(w * h)) && w * h <= most_tiles)
        .collect();
    grids.sort_by_key(|(w, h)| w * h);
    let ratio = size.0 as f32 / size.1 as f32;
    let area = (size.0 * size.1) as f32;
    let (mut best, mut least) = ((1, 1), f32::MAX);
    for (w, h) in grids {
        let difference = (ratio - w as f32 / h as f32).abs();
        let large = area > 0.5 * (LFM2_TILE * LFM2_TILE * w * h) as f32;
        if difference < least || (difference.total_cmp(&least).is_eq() && large) {
            (best, least) = ((w, h), difference);
        }
    }
    (overview, (LFM2_TILE, LFM2_TILE), best.0 * best.1)
}

/// An overview of about `image_size`² pixels, and up to nine tiles of that area (`get_slice_instructions` of
/// `mtmd_image_preprocessor_llava_uhd` without candidates).
pub(super) fn resampled(hparams: &ClipHparams, size: Size, doubles: bool) -> Pieces {
    let (side, unit) = (hparams.image_size.max(1), hparams.token_side());
    let ratio = (size.0 * size.1) as f32 / (side * side) as f32;
    if doubles && ratio <= 1.0 {
        return (near(size, side, unit, true), (0, 0), 0);
    }
    if size.0.max(size.1) <= side {
        return ((side, side), (0, 0), 0);
    }
    let overview = near(size, side, unit, false);
    let wanted = (ratio.ceil() as u64).min(RESAMPLER_TILES);
    let log_ratio = (size.0 as f32 / size.1 as f32).ln();
    let counts = [wanted.saturating_sub(1), wanted, wanted + 1].into_iter();
    let counts = counts.filter(|count| *count != 1 && *count <= RESAMPLER_TILES);
    let grids = counts.flat_map(|count| (1..=count).filter(move |w| count % w == 0).map(move |w| (w, count / w)));
    let (mut grid, mut least) = ((1, 1), f32::INFINITY);
    for (w, h) in grids {
        let error = (log_ratio - (w as f32 / h as f32).ln()).abs();
        if error < least {
            (grid, least) = ((w, h), error);
        }
    }
    let part = |length: u64, parts: u64| divisible(length, parts) / parts;
    let tile = near((part(size.0, grid.0), part(size.1, grid.1)), side, unit, true);
    (overview, tile, grid.0 * grid.1)
}

/// A size of the same shape with `side`² pixels, if the image is larger or may be enlarged (`get_best_resize`).
fn near(size: Size, side: u64, unit: u64, enlarge: bool) -> Size {
    let (mut width, mut height) = size;
    if width * height > side * side || enlarge {
        let ratio = width as f32 / height.max(1) as f32;
        height = (side as f32 / ratio.sqrt()) as u64;
        width = (height as f32 * ratio) as u64;
    }
    (divisible(width, unit), divisible(height, unit))
}

/// The multiple of `unit` next to `length` (`ensure_divide`).
fn divisible(length: u64, unit: u64) -> u64 {
    ((length as f32 / unit as f32).round() as u64 * unit).max(unit)
}
