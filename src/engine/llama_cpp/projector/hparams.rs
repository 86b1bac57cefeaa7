//! The hyperparameters of a vision or audio encoder (`clip_model_loader::load_hparams` in `clip.cpp`, 0.1.161).

use super::Modality;
use super::kind::{Merge, ProjectorType};
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
struct ClipKeys<'a> {
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

fn refusal(why: String) -> LoadError {
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
        Ok(hparams)
    }

    fn read_vision(&mut self, keys: &ClipKeys<'_>, kind: ProjectorType) -> Result<(), LoadError> {
        const SCALE: &str = "clip.vision.projector.scale_factor";
        const SPATIAL: &str = "clip.vision.spatial_merge_size";
        self.image_size = keys.need("clip.vision.image_size", MAX_IMAGE_SIZE)?;
        self.patch_size = keys.need("clip.vision.patch_size", MAX_PATCH_SIZE)?;
        self.n_merge = match kind.merge() {
            Merge::Fixed(merge) => merge,
            Merge::ScaleFactor(merge) => keys.number(SCALE, MAX_PATCH_SIZE)?.unwrap_or(merge),
            Merge::SpatialMergeSize(merge) => keys.number(SPATIAL, MAX_PATCH_SIZE)?.unwrap_or(merge),
        };
        if self.patch_size == 0 || self.n_merge == 0 {
            return Err(refusal("the projector's patches, or what is merged of them, have no size".to_owned()));
        }
        if matches!(kind, ProjectorType::DeepSeekOcr | ProjectorType::DeepSeekOcr2) {
            (self.patch_size, self.image_size) = (16, 1024);
        }
        if kind == ProjectorType::Gemma4Uv {
            // the convolution does the merging
            (self.patch_size, self.n_merge) = (self.patch_size * self.n_merge, 1);
        }
        if kind == ProjectorType::MiniCpmV46 && !matches!(self.n_merge, 2 | 4) {
            return Err(refusal(format!("{SCALE} is {}: this projector merges 2 or 4", self.n_merge)));
        }
        let pattern = keys.number("clip.vision.n_wa_pattern", MAX_COUNT)?;
        self.n_wa_pattern = match kind {
            ProjectorType::Qwen25Vl => pattern
                .ok_or_else(|| refusal("the projector's header has no key clip.vision.n_wa_pattern".to_owned()))?,
            ProjectorType::Qwen2Vl | ProjectorType::Qwen3Vl | ProjectorType::Exaone45 => pattern.unwrap_or(0),
            _ => 0,
        } as usize;
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
        let edge = keys.number("clip.vision.preproc_image_size", MAX_PATCH_SIZE)?.unwrap_or(0);
        self.longest_edge = match kind {
            ProjectorType::LightOnOcr if edge == 0 => self.image_size,
            ProjectorType::LightOnOcr | ProjectorType::Idefics3 => edge,
            _ => 0,
        };
        self.candidates = self.candidates_of(keys, kind)?;
        Ok(())
    }

    /// Grids of tiles for types that have them, or those of the header (`set_internvl_dhr_res_candidates`,
    /// `set_llava_uhd_res_candidates`).
    fn candidates_of(&self, keys: &ClipKeys<'_>, kind: ProjectorType) -> Result<Vec<(u64, u64)>, LoadError> {
        let size = self.image_size;
        let grid = |(x, y): (u64, u64)| (x * size, y * size);
        Ok(match kind {
            ProjectorType::InternVl => {
                let least = keys.number("clip.vision.preproc_min_tiles", MAX_TILES)?.unwrap_or(1);
                let most = keys.number("clip.vision.preproc_max_tiles", MAX_TILES)?.unwrap_or(12);
                if least > most {
                    return Err(refusal(format!(
                        "clip.vision.preproc_min_tiles {least} is more than the maximum {most}"
                    )));
                }
                let heights = |x: u64| (least.div_ceil(x).max(least)..=(most / x).min(most)).map(move |y| (x, y));
                (least.max(1)..=most).filter(|_| least > 0).flat_map(heights).map(grid).collect()
            }
            ProjectorType::Llama4 => {
                (1..=3).flat_map(|x| (1..=3).map(move |y| (x, y))).filter(|grid| *grid != (1, 1)).map(grid).collect()
            }
            _ => {
                let points = keys.numbers("clip.vision.image_grid_pinpoints");
                let side = |side: i32| u64::try_from(side).unwrap_or(0).min(MAX_PATCH_SIZE);
                points.chunks_exact(2).take(MAX_CANDIDATES).map(|pair| (side(pair[0]), side(pair[1]))).collect()
            }
        })
    }

    fn read_audio(&mut self, keys: &ClipKeys<'_>, kind: ProjectorType) -> Result<(), LoadError> {
        self.n_mel_bins = keys.need("clip.audio.num_mel_bins", MAX_WIDTH)?;
        if kind == ProjectorType::Gemma4Ua {
            // samples of raw audio per frame
            self.n_mel_bins = 640;
        } else if self.n_mel_bins == 0 || self.n_mel_bins > MAX_MEL_BINS {
            let bins = self.n_mel_bins;
            return Err(refusal(format!("clip.audio.num_mel_bins is {bins}: clip allows 1 to {MAX_MEL_BINS}")));
        }
        self.stack_factor = keys.number("clip.audio.projector.stack_factor", MAX_COUNT)?.unwrap_or(0);
        if self.stack_factor == 0 && (kind.stacks_frames() || kind == ProjectorType::GlmA) {
            return Err(refusal("the projector's header has no key clip.audio.projector.stack_factor".to_owned()));
        }
        Ok(())
    }

    /// Pixels of the side of a square that becomes one token.
    pub const fn token_side(&self) -> u64 {
        self.patch_size * self.n_merge
    }
}

fn activation(keys: &ClipKeys<'_>, kind: ProjectorType) -> Result<Activation, LoadError> {
    let (gelu, silu) = (keys.flag("clip.use_gelu"), keys.flag("clip.use_silu"));
    if gelu && silu {
        return Err(refusal("clip.use_gelu and clip.use_silu are both true".to_owned()));
    }
    Ok(match (gelu, silu) {
        _ if kind.is_whisper() => Activation::GeluErf,
        (true, _) => Activation::Gelu,
        (_, true) => Activation::Silu,
        _ => Activation::GeluQuick,
    })
}
