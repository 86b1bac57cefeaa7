//! The graph of an encoder: one image, or one piece of audio, as clip builds it (`clip.cpp` and `models/*.cpp` in
//! `tools/mtmd`, 0.1.161).
//!
//! Most types are a patch embedding, the blocks that almost all share, and a projector of their own.

mod audio;
mod blocks;
mod patches;
mod vision;

use std::hash::Hash;
use std::ops::Range;

use super::Encoder;
use super::hparams::{Activation, ClipHparams};
use super::kind::Trait;
use super::measure::Input;
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::{BackendId, Buffer, TensorId, UnaryOp};
use crate::engine::llama_cpp::error::LoadError;
use crate::engine::llama_cpp::release::{ClipRules, ReleaseTraits};
use blocks::{ATTENTION_OUT, Blocks, Rotary};

/// Nodes of clip's graphs (`clip_ctx::max_nodes` in `clip.cpp`, 0.1.161).
const MAX_NODES: usize = 8192;

/// The encoder's own device, which has its weights.
const OWN_DEVICE: BackendId = 0;

/// The table of learned positions.
const POSITIONS: &str = "v.position_embd.weight";

/// A weight and its bias.
pub(super) type Affine = [&'static str; 2];

/// The kind of normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Norm {
    Rms,
    Layer,
}

/// A graph under construction.
pub(super) struct ClipGraph<'a> {
    g: &'a mut Graph,
    encoder: &'a Encoder,
    /// Pixels, or frames and mel bins.
    nx: u64,
    ny: u64,
    n_batch: u64,
    flash_attn: bool,
    /// Matrix products of Gemma 4 are limited to a range before and after.
    clamps: Option<Clamp>,
    rules: ClipRules,
    /// The blocks that are built.
    built: &'a [usize],
    /// Weights already in the graph.
    known: Vec<TensorId>,
    /// What of the file does not fit together.
    misfit: Option<String>,
}

/// How elements are limited to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clamp {
    InPlace,
    Copied,
}

/// Builds the graph of `input` with the blocks `built` into `graph`, replacing its contents.
///
/// # Errors
/// When the tensors of the file do not fit together.
pub(super) fn build(
    encoder: &Encoder,
    input: Input,
    flash_attn: bool,
    release: &ReleaseTraits,
    built: &[usize],
    graph: &mut Graph,
) -> Result<(), LoadError> {
    graph.clear();
    let (nx, ny, n_batch) = input.shape(&encoder.hparams);
    let clamp = if release.clamps_in_place { Clamp::InPlace } else { Clamp::Copied };
    let mut build = ClipGraph {
        g: graph,
        encoder,
        nx,
        ny,
        n_batch,
        flash_attn,
        clamps: encoder.kind.has(Trait::ClampsProducts).then_some(clamp),
        rules: release.clip,
        built,
        known: vec![TensorId::NONE; encoder.weights.all.len()],
        misfit: None,
    };
    let result = encoder.kind.graph()(&mut build);
    build.g.expand(result);
    build.misfit.map_or(Ok(()), |what| Err(misfit(&what)))
}

/// Those of `blocks` that are among the `built` ones.
fn built(built: &[usize], blocks: Range<usize>) -> impl Iterator<Item = usize> {
    built.iter().copied().filter(move |il| blocks.contains(il))
}

fn misfit(what: &str) -> LoadError {
    LoadError::model(format!("the projector's file does not fit its type: {what}"))
}

/// Whether clip's graphs may have so many nodes.
///
/// # Errors
/// If they may not.
pub(super) fn check_nodes(nodes: usize) -> Result<(), LoadError> {
    if nodes > MAX_NODES {
        return Err(misfit(&format!("its graph has {nodes} nodes, and clip's at most {MAX_NODES}")));
    }
    Ok(())
}

impl Encoder {
    /// What the operations of each block depend on, in order: two blocks of which it is equal have the same.
    pub(super) fn block_traits(&self) -> impl Iterator<Item = impl Eq + Hash> {
        let ClipHparams { n_layer, n_wa_pattern, insert_layer_id, feature_layers, .. } = &self.hparams;
        (0..*n_layer).map(move |il| {
            let weights: Vec<(&str, Type, [u64; 4])> = self.weights.of_block(il).collect();
            let is_windowed = *n_wa_pattern > 0 && !(il + 1).is_multiple_of(*n_wa_pattern);
            // what it passes on besides its output outlives the next blocks
            let is_feature = feature_layers.iter().any(|layer| usize::try_from(*layer) == Ok(il));
            let is_level = self.weights.in_block(il, "deepstack.fc1.weight").is_some();
            (weights, is_windowed, il <= *insert_layer_id, (is_feature || is_level).then_some(il))
        })
    }
}

impl ClipGraph<'_> {
    const fn patches_x(&self) -> u64 {
        self.nx / self.encoder.hparams.patch_size
    }

    const fn patches_y(&self) -> u64 {
        self.ny / self.encoder.hparams.patch_size
    }

    const fn patches(&self) -> u64 {
        self.patches_x() * self.patches_y()
    }

    const fn n_embd(&self) -> u64 {
        self.encoder.hparams.n_embd
    }

    fn shape(&self, x: TensorId) -> [u64; 4] {
        self.g[x].ne
    }

    fn weight(&mut self, index: usize) -> TensorId {
        if !self.known[index].is_some() {
            let weight = &self.encoder.weights.all[index];
            self.known[index] = self.g.given(weight.ty, weight.ne, Buffer::Weights(OWN_DEVICE), "", weight.layer);
        }
        self.known[index]
    }

    /// The tensor outside blocks with this name; none if the file has none.
    fn tensor(&mut self, name: &str) -> TensorId {
        self.encoder.weights.global(name).map_or(TensorId::NONE, |index| self.weight(index))
    }

    /// The same, or a misfit.
    fn need(&mut self, name: &str) -> TensorId {
        let id = self.tensor(name);
        if id.is_some() { id } else { self.lacking(name) }
    }

    fn lacking(&mut self, name: &str) -> TensorId {
        self.misfit.get_or_insert_with(|| format!("it has no tensor {name}"));
        self.g.given(Type::F32, [1; 4], Buffer::Weights(OWN_DEVICE), "", -1)
    }

    /// The tensor of block `il` with this name; none if the file has none.
    fn layer(&mut self, il: usize, name: &'static str) -> TensorId {
        self.encoder.weights.in_block(il, name).map_or(TensorId::NONE, |index| self.weight(index))
    }

    fn need_layer(&mut self, il: usize, name: &'static str) -> TensorId {
        let id = self.layer(il, name);
        if id.is_some() { id } else { self.lacking(&format!("{name} in block {il}")) }
    }

    fn input(&mut self, ty: Type, ne: [u64; 4], label: &'static str) -> TensorId {
        self.g.input(ty, ne, label)
    }

    /// Positions or row numbers.
    fn indices(&mut self, count: u64, label: &'static str) -> TensorId {
        self.input(Type::I32, [count, 1, 1, 1], label)
    }

    fn misfit(&mut self, x: TensorId, ne: [u64; 4]) -> TensorId {
        let from = self.shape(x);
        self.misfit.get_or_insert_with(|| format!("{from:?} elements are taken as {ne:?}"));
        x
    }

    /// `x` in another shape of as many elements.
    fn reshape(&mut self, x: TensorId, ne: [u64; 4]) -> TensorId {
        if elements(ne) != Some(self.g[x].elements()) {
            return self.misfit(x, ne);
        }
        self.g.reshape(x, ne)
    }

    /// `x` made contiguous in another shape of as many elements.
    fn cont_as(&mut self, x: TensorId, ne: [u64; 4]) -> TensorId {
        if elements(ne) != Some(self.g[x].elements()) {
            return self.misfit(x, ne);
        }
        self.g.cont_as(x, ne)
    }

    /// `a · b` as ggml computes it: rows of both have one length, and batches of `b` are a multiple of those of `a`.
    fn product(&mut self, a: TensorId, b: TensorId) -> TensorId {
        let (x, y) = (self.shape(a), self.shape(b));
        let fits = x[0] == y[0] && [2, 3].into_iter().all(|i| x[i] > 0 && y[i].is_multiple_of(x[i]));
        if !fits {
            self.misfit.get_or_insert_with(|| format!("{x:?} cannot be multiplied with {y:?}"));
        }
        self.g.mul_mat(a, b)
    }

    /// A weight matrix times `x`.
    fn mm(&mut self, weight: TensorId, x: TensorId) -> TensorId {
        match self.clamps {
            None => self.product(weight, x),
            Some(clamp) => {
                let x = self.clamp(x, clamp);
                let y = self.product(weight, x);
                self.clamp(y, clamp)
            }
        }
    }

    /// The matrix outside blocks with this name times `x`.
    fn multiply(&mut self, name: &str, x: TensorId) -> TensorId {
        let weight = self.need(name);
        self.mm(weight, x)
    }

    fn clamp(&mut self, x: TensorId, clamp: Clamp) -> TensorId {
        match clamp {
            Clamp::InPlace => self.g.clamp_in_place(x),
            Clamp::Copied => self.g.clamp(x),
        }
    }

    fn norm(&mut self, x: TensorId, weight: TensorId, bias: TensorId, kind: Norm) -> TensorId {
        let y = match kind {
            Norm::Rms => self.g.rms_norm(x),
            Norm::Layer => self.g.layer_norm(x),
        };
        let y = self.g.times(y, weight);
        self.g.plus(y, bias)
    }

    /// Normalisation with tensors outside blocks, which may be missing.
    fn norm_by(&mut self, x: TensorId, names: Affine, kind: Norm) -> TensorId {
        let [weight, bias] = names.map(|name| self.tensor(name));
        self.norm(x, weight, bias, kind)
    }

    /// Normalisation with tensors of a block, which may be missing.
    fn norm_in(&mut self, il: usize, x: TensorId, names: Affine, kind: Norm) -> TensorId {
        let [weight, bias] = names.map(|name| self.layer(il, name));
        self.norm(x, weight, bias, kind)
    }

    /// A matrix of a block times `x`, and its bias if there is one.
    fn linear_in(&mut self, il: usize, x: TensorId, [weight, bias]: Affine) -> TensorId {
        let weight = self.need_layer(il, weight);
        let y = self.mm(weight, x);
        let bias = self.layer(il, bias);
        self.g.plus(y, bias)
    }

    /// The same outside blocks.
    pub(super) fn linear(&mut self, x: TensorId, [weight, bias]: Affine) -> TensorId {
        let y = self.multiply(weight, x);
        let bias = self.tensor(bias);
        self.g.plus(y, bias)
    }

    fn activate(&mut self, x: TensorId, activation: Activation) -> TensorId {
        let function = match activation {
            Activation::Gelu => UnaryOp::Gelu,
            Activation::GeluErf => UnaryOp::GeluErf,
            Activation::GeluQuick => UnaryOp::GeluQuick,
            Activation::Silu => UnaryOp::Silu,
        };
        self.g.unary(x, function)
    }

    /// Two matrices with a function between them.
    fn mlp(&mut self, x: TensorId, up: Affine, down: Affine, activation: Activation) -> TensorId {
        let x = self.linear(x, up);
        let x = self.activate(x, activation);
        self.linear(x, down)
    }
}

/// Elements of a tensor of this shape.
fn elements(ne: [u64; 4]) -> Option<u64> {
    ne.into_iter().try_fold(1, |product: u64, n| product.checked_mul(n))
}
