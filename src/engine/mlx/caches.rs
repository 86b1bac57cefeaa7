//! What each layer's cache holds, fed as `generate_step` does: a prompt by chunks, all but its last token; that one; and
//! the tokens that follow. Source: `models/cache.py` and `generate.py`, mlx-lm 0.32.2; Ollama's `cache/kvcache.go` alike.

use crate::model::mlx::{Architecture, Array, Heads, LayerCache, State};
use crate::safetensors::Dtype;

/// Tokens by which a cache grows: `KVCache.step`.
const STEP: u64 = 256;
/// Weights of a quantised cache that share a scale: `--kv-group-size`.
const KV_GROUP: u64 = 64;
/// Tokens of a chunk of the prompt: `--prefill-step-size`, and Ollama's `prefillChunkSize`.
pub const CHUNK: u64 = 2048;
/// The first tokens that a cache of `--max-kv-size` never gives up.
const KEEP: u64 = 4;

/// Bytes of a number of activations and caches.
pub const fn element(activations: Dtype) -> u64 {
    match activations {
        Dtype::F32 => 4,
        _ => 2,
    }
}

/// How tokens come in, and how they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feed {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Tokens of a chunk of it; none: each alone.
    pub chunk: Option<u64>,
    /// Tokens that follow.
    pub generated: u64,
    /// `--kv-bits`
    pub kv_bits: Option<u64>,
    /// `--quantized-kv-start`
    pub quantised_from: u64,
    /// `--max-kv-size`
    pub max_kv_size: Option<u64>,
}

impl Feed {
    /// A prompt whose last token is the last of all.
    pub const fn prompt(tokens: u64) -> Self {
        Self {
            prompt: tokens,
            chunk: Some(CHUNK),
            generated: 0,
            kv_bits: None,
            quantised_from: 5000,
            max_kv_size: None,
        }
    }

    /// Tokens of each update up to the last but one of the prompt.
    fn chunks(&self) -> impl Iterator<Item = u64> {
        let (all, chunk) = match self.chunk {
            Some(chunk) => (self.prompt.saturating_sub(1), chunk.max(1)),
            None => (0, 1),
        };
        (0..all.div_ceil(chunk)).map(move |at| chunk.min(all - at * chunk))
    }

    /// Updates of one token after those.
    const fn singles(&self) -> u64 {
        (if self.chunk.is_some() { 1 } else { self.prompt }).saturating_add(self.generated)
    }
}

/// What a layer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldCache {
    /// mlx-lm's class.
    pub class: &'static str,
    /// Its arrays.
    pub arrays: Vec<Array>,
}

impl HeldCache {
    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        self.arrays.iter().map(Array::bytes).fold(0, u64::saturating_add)
    }
}

/// What all layers hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// By layer; none for one without a cache.
    pub layers: Vec<Option<HeldCache>>,
}

impl Held {
    /// Bytes of all.
    pub fn bytes(&self) -> u64 {
        self.layers.iter().flatten().map(HeldCache::bytes).fold(0, u64::saturating_add)
    }
}

/// What they hold at two moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moments {
    /// After all of the prompt but its last token.
    pub after_prompt: Held,
    /// After the last token.
    pub after: Held,
}

/// What the caches of `model` hold of these tokens, with activations in `dtype`.
///
/// # Errors
/// Where mlx-lm fails: its own sentence.
pub fn held(model: &Architecture, feed: &Feed, dtype: Dtype) -> Result<Moments, String> {
    // most layers are alike
    let mut known: Vec<(&LayerCache, [HeldCache; 2])> = Vec::new();
    let mut moments = Moments { after_prompt: Held::default(), after: Held::default() };
    for layer in &model.caches {
        let [before, after] = match layer {
            None => [None, None],
            Some(cache) => {
                let at = known.iter().position(|(other, _)| *other == cache);
                let both = if let Some(at) = at {
                    &known[at].1
                } else {
                    known.push((cache, one(cache, model.own_caches, feed, dtype)?));
                    &known[known.len() - 1].1
                };
                both.clone().map(Some)
            }
        };
        moments.after_prompt.layers.push(before);
        moments.after.layers.push(after);
    }
    Ok(moments)
}

/// What one layer holds at both moments.
fn one(cache: &LayerCache, own_caches: bool, feed: &Feed, dtype: Dtype) -> Result<[HeldCache; 2], String> {
    let limited = feed.max_kv_size.filter(|_| !own_caches);
    let (mut room, heads) = match cache {
        LayerCache::States(states) => {
            let array = |state: &State| Array {
                dtype: if state.float32 { Dtype::F32 } else { dtype },
                shape: state.shape.clone(),
            };
            let held = HeldCache { class: "ArraysCache", arrays: states.iter().map(array).collect() };
            // nothing is there before the first token
            let before = if feed.chunks().next().is_some() { held.arrays.clone() } else { Vec::new() };
            return Ok([HeldCache { arrays: before, ..held.clone() }, held]);
        }
        LayerCache::Kv(heads) => match limited {
            Some(window) => (Room::window(window, KEEP), heads),
            None => (Room::Plain { offset: 0, room: 0, quantised: false }, heads),
        },
        LayerCache::Window { tokens, heads } => (Room::window(*tokens, 0), heads),
        LayerCache::Chunk { tokens, heads } => (Room::Chunked { chunk: *tokens, offset: 0, room: 0, start: 0 }, heads),
    };
    for tokens in feed.chunks() {
        room.take(tokens);
        room.quantise(feed, heads)?;
    }
    let before = room.held(heads, feed, dtype);
    for _ in 0..feed.singles() {
        room.take(1);
        room.quantise(feed, heads)?;
    }
    Ok([before, room.held(heads, feed, dtype)])
}

/// The room of a layer's keys and values, in tokens.
enum Room {
    /// `KVCache`, and `QuantizedKVCache` that it becomes.
    Plain { offset: u64, room: u64, quantised: bool },
    /// `RotatingKVCache`
    Window { window: u64, keep: u64, offset: u64, room: u64, at: u64 },
    /// `ChunkedKVCache`
    Chunked { chunk: u64, offset: u64, room: u64, start: u64 },
}

/// The room after `tokens` more than `offset`.
fn grown(room: u64, offset: u64, tokens: u64) -> u64 {
    if offset + tokens <= room {
        return room;
    }
    // what lies behind the last token is cut off first
    let kept = if offset.is_multiple_of(STEP) { room } else { offset };
    kept + tokens.div_ceil(STEP) * STEP
}

impl Room {
    const fn window(window: u64, keep: u64) -> Self {
        Self::Window { window, keep, offset: 0, room: 0, at: 0 }
    }

    /// Takes up these tokens.
    fn take(&mut self, tokens: u64) {
        match self {
            Self::Plain { offset, room, .. } => {
                *room = grown(*room, *offset, tokens);
                *offset += tokens;
            }
            Self::Chunked { chunk, offset, room, start } => {
                if *offset - *start > *chunk {
                    (*start, *room) = (*offset - *chunk, *chunk);
                }
                *room = grown(*room, *offset - *start, tokens);
                *offset += tokens;
            }
            Self::Window { window, keep, offset, room, at } if tokens == 1 => {
                if *offset >= *room && *room < *window {
                    (*room, *at) = (*room + STEP.min(window.saturating_sub(*offset)), *offset);
                }
                if *room > *window {
                    (*room, *at) = (*window, *window);
                }
                if *at == *window {
                    *at = *keep;
                }
                (*offset, *at) = (*offset + 1, *at + 1);
            }
            Self::Window { window, offset, room, at, .. } => {
                // in order of time, without what is not yet written
                let written = if *at == *room || *at < *offset { *room } else { *at };
                *room = written.min(window.saturating_sub(1)) + tokens;
                (*offset, *at) = (*offset + tokens, *room);
            }
        }
    }

    /// Quantises what is there, once there is enough of it.
    fn quantise(&mut self, feed: &Feed, heads: &Heads) -> Result<(), String> {
        if feed.kv_bits.is_none() {
            return Ok(());
        }
        match self {
            Self::Plain { offset, quantised, .. } if *offset >= feed.quantised_from && !*quantised => {
                if let Some(odd) = [heads.key, heads.value].into_iter().find(|length| length % KV_GROUP != 0) {
                    return Err(format!("heads of {odd} cannot be quantised in groups of {KV_GROUP}"));
                }
                *quantised = true;
                Ok(())
            }
            Self::Window { offset, .. } if *offset >= feed.quantised_from => {
                Err("RotatingKVCache Quantization NYI".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn held(&self, heads: &Heads, feed: &Feed, dtype: Dtype) -> HeldCache {
        let (class, room, quantised) = match self {
            Self::Plain { room, quantised: true, .. } => ("QuantizedKVCache", *room, true),
            Self::Plain { room, .. } => ("KVCache", *room, false),
            Self::Window { room, .. } => ("RotatingKVCache", *room, false),
            Self::Chunked { room, .. } => ("ChunkedKVCache", *room, false),
        };
        let array = |dtype, length| Array { dtype, shape: vec![1, heads.count, room, length] };
        let bits = feed.kv_bits.filter(|_| quantised);
        let arrays = |length: u64| match bits {
            None => vec![array(dtype, length)],
            Some(bits) => vec![
                array(Dtype::U32, length * bits / 32),
                array(dtype, length / KV_GROUP),
                array(dtype, length / KV_GROUP),
            ],
        };
        let lengths = if room == 0 { Vec::new() } else { vec![heads.key, heads.value] };
        HeldCache { class, arrays: lengths.into_iter().flat_map(arrays).collect() }
    }
}
