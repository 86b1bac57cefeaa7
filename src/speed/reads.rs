//! What a block reads to generate one token: its weights, and its part of the cache.

use crate::engine::llama_cpp::hparams::Hparams;
use crate::gguf::{GgmlType, Tensor};
use crate::model::{Model, TensorGroup};
use crate::settings::{CacheType, InEffect};

/// Weights to read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weights {
    /// In bytes.
    pub bytes: f64,
    /// What their arithmetic takes one thread of a CPU, in seconds; zero for types that memory limits.
    pub thread_seconds: f64,
}

impl Weights {
    /// All of these tensors.
    pub fn of<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> Self {
        tensors.fold(Self::default(), |sum, tensor| {
            let elements: f64 = tensor.dims.iter().map(|&dim| dim as f64).product();
            sum.plus(Self {
                bytes: tensor.bytes.0 as f64,
                thread_seconds: rate(tensor.ty).map_or(0.0, |rate| elements / (rate * 1e9)),
            })
        })
    }

    /// Both.
    pub fn plus(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, thread_seconds: self.thread_seconds + other.thread_seconds }
    }

    /// This share of them.
    pub fn times(self, share: f64) -> Self {
        Self { bytes: self.bytes * share, thread_seconds: self.thread_seconds * share }
    }
}

/// What one block reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockReads {
    /// Everything but the experts.
    pub dense: Weights,
    /// All experts.
    pub experts: Weights,
    /// The share of the experts that a token uses.
    pub used: f64,
    /// Its part of the cache, in bytes: keys and values, and a state both read and written.
    pub cache: f64,
    /// Whether it has experts or a recurrent state, and so more steps than others.
    pub busy: bool,
}

/// The reads of every block that generates tokens, at this depth; blocks for drafting are left out.
pub fn blocks(model: &Model, hparams: &Hparams, effect: &InEffect, depth: u64) -> Vec<BlockReads> {
    (0..hparams.n_layer()).map(|il| block(model, hparams, effect, depth, il)).collect()
}

fn block(model: &Model, hparams: &Hparams, effect: &InEffect, depth: u64, il: usize) -> BlockReads {
    let tensors = || model.tensors(TensorGroup::Block(hparams.weight_block(il)));
    let experts = Weights::of(tensors().filter(|tensor| is_expert(&tensor.name)));
    let used = hparams.n_expert_used.get(il).copied().unwrap_or(0) as f64 / hparams.n_expert.max(1) as f64;
    let recurrent = hparams.is_recr.get(il).copied().unwrap_or(false);
    BlockReads {
        dense: Weights::of(tensors().filter(|tensor| !is_expert(&tensor.name))),
        experts,
        used: used.min(1.0),
        cache: attention(hparams, effect, depth, il) + if recurrent { state(hparams) } else { 0.0 },
        busy: recurrent || experts.bytes > 0.0,
    }
}

/// Weights of the output layer: with tied embeddings, the whole table.
pub fn output(model: &Model) -> Weights {
    Weights::of(model.output_tensors())
}

/// `ffn_up_exps`, or in old files `ffn_up.3`.
fn is_expert(name: &str) -> bool {
    let mut parts = name.split('.').skip(2);
    let (tensor, next) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    tensor.ends_with("_exps")
        || tensor.starts_with("ffn_") && next.bytes().all(|b| b.is_ascii_digit()) && !next.is_empty()
}

/// Bytes of keys and values that a token attends to. A block that shares the cache of an earlier one reads it again.
fn attention(hparams: &Hparams, effect: &InEffect, depth: u64, il: usize) -> f64 {
    if hparams.reads_only || !hparams.attends.get(il).copied().unwrap_or(false) {
        return 0.0;
    }
    let windowed = hparams.is_swa.get(il).copied().unwrap_or(false);
    let tokens = hparams.n_swa.filter(|_| windowed).map_or(depth, |window| depth.min(window));
    let row = |ty: CacheType, elements: u64| {
        let format = ty.format();
        elements as f64 * format.block_bytes() as f64 / format.block() as f64
    };
    // V is a part of MLA's latent K
    let v = if hparams.mla.is_some() { 0 } else { hparams.v_gqa(il) };
    tokens as f64 * (row(effect.cache_type_k, hparams.k_gqa(il)) + row(effect.cache_type_v, v))
}

/// Bytes of a block's recurrent state, read and written.
fn state(hparams: &Hparams) -> f64 {
    let elements = hparams.n_embd_r() + hparams.n_embd_s();
    2.0 * 4.0 * elements as f64
}

/// Weights of a type that one thread of a CPU multiplies per second, in 10^9; none for types that memory limits.
/// Source: batches of one token with few threads, as two public comparisons of llama.cpp's quantisations print them
/// (Apple M2 Max with four threads, Ryzen 9 7950X with two; the mean of both). Types that they leave out are given the
/// rate of the nearest size.
const fn rate(ty: GgmlType) -> Option<f64> {
    Some(match ty {
        GgmlType::Q4_0 | GgmlType::Mxfp4 => 46.0,
        GgmlType::Q4K => 36.0,
        GgmlType::Iq4Xs | GgmlType::Iq4Nl => 32.0,
        GgmlType::Q5K | GgmlType::Q6K | GgmlType::Q3K | GgmlType::Q2K => 27.0,
        GgmlType::Iq2Xxs | GgmlType::Iq2Xs | GgmlType::Iq2S | GgmlType::Iq1S | GgmlType::Iq1M => 19.0,
        GgmlType::Iq3Xxs => 15.0,
        GgmlType::Iq3S => 13.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experts_are_told_by_name() {
        for (name, expert) in [
            ("blk.0.ffn_up_exps.weight", true),
            ("blk.0.ffn_gate.7.weight", true),
            ("blk.0.ffn_up_shexp.weight", false),
            ("blk.0.ffn_gate_inp.weight", false),
            ("blk.0.ffn_up.weight", false),
            ("blk.0.attn_q.weight", false),
        ] {
            assert_eq!(is_expert(name), expert, "{name}");
        }
    }
}
