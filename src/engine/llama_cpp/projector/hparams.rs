//! The hyperparameters of a vision or audio encoder (`clip_model_loader::load_hparams` in `clip.cpp`, 0.1.161).
#![allow(clippy::unnecessary_wraps, reason = "rows of the table name them beside those that may fail")]

use super::Modality;
use super::kind::{Merge, ProjectorType, Trait};
use crate::engine::llama_cpp::error::LoadError;
use crate::gguf::{Elements, Header, Value};

/// Limit of widths: far beyond every published encoder, and small enough that no product of shapes overflows.
const MAX_WIDTH: u64 = 1 << 20;
/// The same for counts of heads and blocks.
const MAX_COUNT: u64 = 1 << 12;
/// Limits that clip itself checks.
const MAX_IMAGE_SIZE: u64 = 8192;
const MAX_PATCH_SIZE: u64 = 65_535;
const MAX_MEL_BINS: u64 = 256;
/// Limits of tiles and of sizes to choose from.
const MAX_TILES: u64 = 256;
const MAX_CANDIDATES: usize = 256;
/// Samples of raw audio per frame.
const SAMPLES: u64 = 640;

const SCALE: &str = "clip.vision.projector.scale_factor";
const SPATIAL: &str = "clip.vision.spatial_merge_size";
const WINDOWS: &str = "clip.vision.n_wa_pattern";

/// The function between the matrices of a feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Activation {
    Gelu,
    GeluErf,
    GeluQuick,
    Silu,
}

/// The hyperparameters of an encoder; sizes are in elements, of images in pixels.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of clip's hyperparameters")]
pub struct ClipHparams {
    pub image_size: u64,
    /// Pixels of a patch's side.
    pub patch_size: u64,
    pub n_embd: u64,
    pub n_ff: u64,
    pub projection_dim: u64,
    pub n_head: u64,
    pub n_head_kv: u64,
    /// Elements per head.
    pub d_head: u64,
    pub n_layer: usize,
    /// Patches merged per side.
    pub n_merge: u64,
    pub activation: Activation,
    /// Blocks whose output is projected; 0 is the input of the first.
    pub feature_layers: Vec<i32>,
    /// Every how many blocks attention is not limited to a window; 0 if it never is.
    pub n_wa_pattern: usize,
    /// The block after which `MiniCPM`-V 4.6 merges patches.
    pub insert_layer_id: usize,
    /// Tokens of an image of a resampler.
    pub query_num: u64,
    /// Mel bins of an audio frame, or samples for encoders of raw audio.
    pub n_mel_bins: u64,
    /// Frames projected together.
    pub stack_factor: u64,
    /// `image_min_pixels` and `image_max_pixels` of the header.
    pub pixels: Option<(u64, u64)>,
    /// Sizes to which an image is scaled before it is cut into tiles of `image_size`, as width and height.
    pub candidates: Vec<(u64, u64)>,
    /// Pixels of an image's longer side; 0 if it is not scaled by that.
    pub longest_edge: u64,
}

/// The keys of a projector's header.
pub(super) struct ClipKeys<'a> {
    header: &'a Header,
    modality: Modality,
}

impl<'a> ClipKeys<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.header.metadata.get(key)
    }

    /// A number of at most 31 bits, as clip requires.
    fn number(&self, key: &str, most: u64) -> Result<Option<u64>, LoadError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_u64().ok_or_else(|| refusal(format!("{key} is not a whole number")))?;
        if number > most {
            return Err(refusal(format!("{key} is {number}: more than {most} is not supported")));
        }
        Ok(Some(number))
    }

    fn need(&self, key: &str, most: u64) -> Result<u64, LoadError> {
        self.number(key, most)?
            .ok_or_else(|| refusal(format!("the projector's header has no key {key}: convert it again")))
    }

    /// The key of this encoder: `clip.vision.block_count`.
    fn own(&self, name: &str) -> String {
        format!("clip.{}.{name}", self.modality.name())
    }

    fn flag(&self, key: &str) -> bool {
        self.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    fn numbers(&self, key: &str) -> Vec<i32> {
        match self.get(key).and_then(Value::as_array).map(|array| &array.elements) {
            Some(Elements::I32(list)) => list.clone(),
            _ => Vec::new(),
        }
    }
}

fn refusal(why: impl Into<String>) -> LoadError {
    LoadError::model(why)
}

impl ClipHparams {
    /// Reads the keys of one encoder.
    ///
    /// # Errors
    /// When a key that clip requires is missing or beyond what is supported.
    pub fn read(header: &Header, kind: ProjectorType, modality: Modality) -> Result<Self, LoadError> {
        let keys = ClipKeys { header, modality };
        let n_embd = keys.need(&keys.own("embedding_length"), MAX_WIDTH)?;
        let n_head = keys.need(&keys.own("attention.head_count"), MAX_COUNT)?;
        let head_dim = keys.number(&keys.own("attention.head_dim"), MAX_WIDTH)?.unwrap_or(0);
        let n_ff = keys.need(&keys.own("feed_forward_length"), MAX_WIDTH)?;
        let n_layer = keys.need(&keys.own("block_count"), MAX_COUNT)? as usize;
        let projection_dim = keys.need(&keys.own("projection_dim"), MAX_WIDTH)?;
        let n_head_kv = keys.number(&keys.own("attention.head_count_kv"), MAX_COUNT)?.unwrap_or(n_head);
        if n_embd == 0 {
            return Err(refusal(format!("{} is 0", keys.own("embedding_length"))));
        }
        let d_head = if head_dim > 0 { head_dim } else { n_embd.checked_div(n_head).unwrap_or(0) };
        let mut hparams = Self {
            image_size: 0,
            patch_size: 1,
            n_embd,
            n_ff,
            projection_dim,
            n_head,
            n_head_kv,
            d_head,
            n_layer,
            n_merge: 1,
            activation: activation(&keys, kind)?,
            feature_layers: keys.numbers(&keys.own("feature_layer")),
            n_wa_pattern: 0,
            insert_layer_id: 0,
            query_num: 0,
            n_mel_bins: 0,
            stack_factor: 0,
            pixels: None,
            candidates: Vec::new(),
            longest_edge: 0,
        };
        let is_beyond = |layer: &&i32| usize::try_from(**layer).is_ok_and(|layer| layer > n_layer);
        if let Some(layer) = hparams.feature_layers.iter().find(is_beyond) {
            return Err(refusal(format!("{} {layer} is more than the {n_layer} blocks", keys.own("feature_layer"))));
        }
        match modality {
            Modality::Vision => hparams.read_vision(&keys, kind)?,
            Modality::Audio => hparams.read_audio(&keys, kind)?,
        }
        (kind.row().hparams)(&mut hparams, &keys)?;
        Ok(hparams)
    }

    fn read_vision(&mut self, keys: &ClipKeys<'_>, kind: ProjectorType) -> Result<(), LoadError> {
        self.image_size = keys.need("clip.vision.image_size", MAX_IMAGE_SIZE)?;
        self.patch_size = keys.need("clip.vision.patch_size", MAX_PATCH_SIZE)?;
        self.n_merge = match kind.row().merge {
            Merge::Fixed(merge) => merge,
            Merge::ScaleFactor(merge) => keys.number(SCALE, MAX_PATCH_SIZE)?.unwrap_or(merge),
            Merge::SpatialMergeSize(merge) => keys.number(SPATIAL, MAX_PATCH_SIZE)?.unwrap_or(merge),
        };
        if self.patch_size == 0 || self.n_merge == 0 {
            return Err(refusal("the projector's patches, or what is merged of them, have no size"));
        }
        let indexes = keys.numbers("clip.vision.wa_layer_indexes");
        self.insert_layer_id = indexes.first().and_then(|first| usize::try_from(*first).ok()).unwrap_or(0);
        if self.insert_layer_id > 0 && self.insert_layer_id >= self.n_layer {
            return Err(refusal(format!("clip.vision.wa_layer_indexes {} is no block", self.insert_layer_id)));
        }
        let version = keys.number("clip.minicpmv_version", i32::MAX as u64)?.unwrap_or(0);
        let queries = keys.number("clip.minicpmv_query_num", MAX_WIDTH)?.filter(|queries| *queries > 0);
        self.query_num = queries.unwrap_or(if matches!(version, 3..=6 | 100_045) { 64 } else { 96 });
        let least = keys.number("clip.vision.image_min_pixels", i32::MAX as u64)?;
        let most = keys.number("clip.vision.image_max_pixels", i32::MAX as u64)?;
        self.pixels = least.zip(most);
        let points = keys.numbers("clip.vision.image_grid_pinpoints");
        let side = |side: i32| u64::try_from(side).unwrap_or(0).min(MAX_PATCH_SIZE);
        self.candidates =
            points.chunks_exact(2).take(MAX_CANDIDATES).map(|pair| (side(pair[0]), side(pair[1]))).collect();
        Ok(())
    }

    /// A patch and an image of these sizes, whatever the header says.
    pub(super) fn sized(&mut self, patch: u64, image: u64) -> Result<(), LoadError> {
        (self.patch_size, self.image_size) = (patch, image);
        Ok(())
    }

    /// Patches are merged by the convolution itself.
    pub(super) fn merging_convolution(&mut self) -> Result<(), LoadError> {
        (self.patch_size, self.n_merge) = (self.patch_size * self.n_merge, 1);
        Ok(())
    }

    /// Merges two or four patches per side.
    pub(super) fn merges_two_or_four(&self) -> Result<(), LoadError> {
        if matches!(self.n_merge, 2 | 4) {
            return Ok(());
        }
        Err(refusal(format!("{SCALE} is {}: this projector merges 2 or 4", self.n_merge)))
    }

    /// Blocks whose attention is not limited to a window.
    pub(super) fn windows(&mut self, keys: &ClipKeys<'_>) -> Result<(), LoadError> {
        self.n_wa_pattern = keys.number(WINDOWS, MAX_COUNT)?.unwrap_or(0) as usize;
        Ok(())
    }

    /// The same, which the header must have.
    pub(super) fn needed_windows(&mut self, keys: &ClipKeys<'_>) -> Result<(), LoadError> {
        let pattern = keys.number(WINDOWS, MAX_COUNT)?;
        let lacking = || refusal(format!("the projector's header has no key {WINDOWS}"));
        self.n_wa_pattern = pattern.ok_or_else(lacking)? as usize;
        Ok(())
    }

    /// Images are scaled by their longer side.
    pub(super) fn longest_edge(&mut self, keys: &ClipKeys<'_>, otherwise: u64) -> Result<(), LoadError> {
        let edge = keys.number("clip.vision.preproc_image_size", MAX_PATCH_SIZE)?;
        self.longest_edge = edge.filter(|edge| *edge > 0).unwrap_or(otherwise);
        Ok(())
    }

    /// Grids of as many tiles as the header allows (`set_internvl_dhr_res_candidates`).
    pub(super) fn grids_of_tiles(&mut self, keys: &ClipKeys<'_>) -> Result<(), LoadError> {
        let least = keys.number("clip.vision.preproc_min_tiles", MAX_TILES)?.unwrap_or(1);
        let most = keys.number("clip.vision.preproc_max_tiles", MAX_TILES)?.unwrap_or(12);
        if least > most {
            return Err(refusal(format!("clip.vision.preproc_min_tiles {least} is more than the maximum {most}")));
        }
        let heights = |x: u64| (least.div_ceil(x).max(least)..=(most / x).min(most)).map(move |y| (x, y));
        self.set_grids((least.max(1)..=most).filter(|_| least > 0).flat_map(heights));
        Ok(())
    }

    /// Grids of up to `most` tiles per side (`set_llava_uhd_res_candidates`).
    pub(super) fn grids_up_to(&mut self, most: u64) -> Result<(), LoadError> {
        self.set_grids((1..=most).flat_map(|x| (1..=most).map(move |y| (x, y))).filter(|grid| *grid != (1, 1)));
        Ok(())
    }

    fn set_grids(&mut self, grids: impl Iterator<Item = (u64, u64)>) {
        let size = self.image_size;
        self.candidates = grids.map(|(x, y)| (x * size, y * size)).collect();
    }

    fn read_audio(&mut self, keys: &ClipKeys<'_>, kind: ProjectorType) -> Result<(), LoadError> {
        self.n_mel_bins = keys.need("clip.audio.num_mel_bins", MAX_WIDTH)?;
        if kind.has(Trait::ReadsSamples) {
            self.n_mel_bins = SAMPLES;
        } else if self.n_mel_bins == 0 || self.n_mel_bins > MAX_MEL_BINS {
            let bins = self.n_mel_bins;
            return Err(refusal(format!("clip.audio.num_mel_bins is {bins}: clip allows 1 to {MAX_MEL_BINS}")));
        }
        self.stack_factor = keys.number("clip.audio.projector.stack_factor", MAX_COUNT)?.unwrap_or(0);
        Ok(())
    }

    /// Frames are stacked, by a factor that the header must have.
    pub(super) fn stacked(&self) -> Result<(), LoadError> {
        if self.stack_factor == 0 {
            return Err(refusal("the projector's header has no key clip.audio.projector.stack_factor"));
        }
        Ok(())
    }

    /// Stacks of so many frames.
    pub(super) fn stacks(&self, frames: u64) -> u64 {
        frames.div_ceil(self.stack_factor.max(1))
    }

    /// Pixels of the side of a square that becomes one token.
    pub const fn token_side(&self) -> u64 {
        self.patch_size * self.n_merge
    }
}

fn activation(keys: &ClipKeys<'_>, kind: ProjectorType) -> Result<Activation, LoadError> {
    let (gelu, silu) = (keys.flag("clip.use_gelu"), keys.flag("clip.use_silu"));
    if gelu && silu {
        return Err(refusal("clip.use_gelu and clip.use_silu are both true"));
    }
    Ok(match (gelu, silu) {
        _ if kind.has(Trait::Whisper) => Activation::GeluErf,
        (true, _) => Activation::Gelu,
        (_, true) => Activation::Silu,
        _ => Activation::GeluQuick,
    })
}
