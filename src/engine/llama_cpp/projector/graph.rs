//! The graph of an encoder: one image, or one piece of audio, as clip builds it (`clip.cpp` and `models/*.cpp` in
//! `tools/mtmd`, 0.1.161).
//!
//! Most types are a patch embedding, the blocks that almost all share, and a projector of their own.

mod audio;
mod vision;

use super::hparams::Activation;
use super::kind::Trait;
use super::measure::Input;
use super::{Encoder, Modality};
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::{Graph, Steps};
use crate::engine::ggml::tensor::{BackendId, Buffer, TensorId, UnaryOp};
use crate::engine::llama_cpp::error::LoadError;
use crate::engine::llama_cpp::release::{ClipRules, ReleaseTraits};

/// Nodes of clip's graphs (`clip_ctx::max_nodes` in `clip.cpp`, 0.1.161).
const MAX_NODES: usize = 8192;

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
    /// The device of the weights.
    place: BackendId,
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

/// Builds the graph of `input` into `graph`, replacing its contents.
///
/// # Errors
/// When the tensors of the file do not fit together.
pub(super) fn build(
    encoder: &Encoder,
    input: Input,
    flash_attn: bool,
    place: BackendId,
    release: &ReleaseTraits,
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
        place,
        known: vec![TensorId::NONE; encoder.weights.all.len()],
        misfit: None,
    };
    let result = encoder.kind.graph()(&mut build);
    build.g.expand(result);
    if build.g.nodes.len() > MAX_NODES {
        let nodes = build.g.nodes.len();
        build.misfit.get_or_insert(format!("its graph has {nodes} nodes, and clip's at most {MAX_NODES}"));
    }
    match build.misfit {
        Some(what) => Err(LoadError::model(format!("the projector's file does not fit its type: {what}"))),
        None => Ok(()),
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
            self.known[index] = self.g.given(weight.ty, weight.ne, Buffer::Weights(self.place), "", weight.layer);
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
        self.g.given(Type::F32, [1; 4], Buffer::Weights(self.place), "", -1)
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

// The raw image or audio, patches, and position tables.

/// The table of learned positions.
const POSITIONS: &str = "v.position_embd.weight";

impl ClipGraph<'_> {
    /// Pixels of the images, or samples.
    fn raw(&mut self, channels: u64) -> TensorId {
        self.input(Type::F32, [self.nx, self.ny, channels, self.n_batch], "inp_raw")
    }

    /// The strides of patches.
    const fn patch_steps(&self) -> Steps {
        Steps { stride: self.encoder.hparams.patch_size, padding: 0 }
    }

    /// Patches of `image` under a kernel.
    fn convolved(&mut self, kernel: TensorId, image: TensorId, steps: Steps) -> TensorId {
        let (k, x) = (self.shape(kernel), self.shape(image));
        if k[2] != x[2] || steps.positions(x[0], k[0]) == 0 || steps.positions(x[1], k[1]) == 0 {
            return self.misfit(kernel, x);
        }
        let ty = if self.rules.windows_like_kernel { self.g[kernel].ty } else { self.g.window_type(kernel) };
        self.g.conv_2d(kernel, image, steps, ty)
    }

    /// The embeddings of `image`'s patches: `[n_embd, patches, batch]`.
    fn patches_of(&mut self, image: TensorId) -> TensorId {
        let kernel = self.need("v.patch_embd.weight");
        let x = self.convolved(kernel, image, self.patch_steps());
        let x = self.reshape(x, [self.patches(), self.n_embd(), self.n_batch, 1]);
        self.g.transposed(x)
    }

    /// The embeddings of the raw image's patches with their bias (`build_inp`).
    fn patches_with_bias(&mut self) -> TensorId {
        let raw = self.raw(3);
        let x = self.patches_of(raw);
        let bias = self.tensor("v.patch_embd.bias");
        self.g.plus(x, bias)
    }

    /// Learned positions, interpolated to the image's patches (`resize_position_embeddings`).
    fn resized_positions(&mut self) -> TensorId {
        let table = self.need(POSITIONS);
        let (width, height, n_embd) = (self.patches_x(), self.patches_y(), self.n_embd());
        let side = self.shape(table)[1].isqrt();
        if (width, height) == (side, side) {
            return table;
        }
        let x = self.reshape(table, [n_embd, side, side, 1]);
        let x = self.g.permute(x, [2, 0, 1, 3]);
        let x = self.g.interpolate(x, [width, height, n_embd, 1]);
        let x = self.g.permute(x, [1, 2, 0, 3]);
        self.cont_as(x, [n_embd, width * height, 1, 1])
    }

    /// `x`, in the order of squares of four patches.
    fn in_squares(&mut self, x: TensorId) -> TensorId {
        let (width, height, n_embd) = (self.patches_x(), self.patches_y(), self.n_embd());
        let x = self.cont_as(x, [2 * n_embd, width / 2, height, 1]);
        let x = self.reshape(x, [2 * n_embd, width / 2, 2, height / 2]);
        let x = self.g.permute(x, [0, 2, 1, 3]);
        self.cont_as(x, [n_embd, width * height, 1, 1])
    }

    /// Patches under both kernels of a type that merges two frames, in squares of four.
    fn patches_of_two_frames(&mut self) -> TensorId {
        let raw = self.raw(3);
        let both = ["v.patch_embd.weight", "v.patch_embd.weight.1"].map(|name| {
            let kernel = self.need(name);
            self.convolved(kernel, raw, self.patch_steps())
        });
        let x = self.g.add(both[0], both[1]);
        let x = self.g.permute(x, [1, 2, 0, 3]);
        self.in_squares(x)
    }

    /// Adds the rows of two position tables, one per axis, that stand behind each other.
    fn add_positions_by_axis(&mut self, x: TensorId, [pos_x, pos_y]: [TensorId; 2]) -> TensorId {
        let table = self.need(POSITIONS);
        let [_, size, ..] = self.shape(table);
        let row = self.g[table].nb[1];
        let n_embd = self.n_embd();
        let [x_axis, y_axis] = [pos_x, pos_y].map(|positions| {
            let axis = self.g.window(table, [n_embd, size, 1, 1], [row]);
            self.g.get_rows(axis, positions)
        });
        let x = self.g.add(x, x_axis);
        self.g.add(x, y_axis)
    }

    /// Merges squares of `factor` patches, with patches added at the edges (`build_patch_merge_permute`).
    fn merged_patches(&mut self, x: TensorId, factor: u64) -> TensorId {
        let (mut width, mut height) = (self.patches_x(), self.patches_y());
        let [n, ..] = self.shape(x);
        let mut x = self.reshape(x, [n, width, height, 1]);
        let more = [width, height].map(|side| side.next_multiple_of(factor) - side);
        if more != [0, 0] {
            x = self.g.pad(x, [0, more[0], more[1], 0]);
            (width, height) = (width + more[0], height + more[1]);
        }
        let x = self.reshape(x, [n * factor, width / factor, height, 1]);
        let x = self.g.permute(x, [0, 2, 1, 3]);
        let x = self.cont_as(x, [n * factor * factor, height / factor, width / factor, 1]);
        let x = self.g.permute(x, [0, 2, 1, 3]);
        let [a, b, c, _] = self.shape(x);
        self.cont_as(x, [a, b * c, 1, 1])
    }

    /// Normalisation by the names of a weight and a bias that must both be there.
    fn need_both(&mut self, names: Affine) -> [TensorId; 2] {
        names.map(|name| self.need(name))
    }
}

// The blocks that almost all encoders share (`build_vit`, `build_ffn`, `build_attn` in `clip.cpp`, 0.1.161).

/// Rotary positions of queries and keys.
#[derive(Clone, Copy, Debug)]
enum Rotary {
    None,
    /// One operation.
    Once(TensorId),
    /// One operation per half of a head.
    Halves(TensorId, TensorId),
}

/// What all blocks of an encoder have in common.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    /// Positions of one image.
    pub positions: u64,
    /// Images.
    pub batch: u64,
    pub norm: Norm,
    pub activation: Activation,
    pub rotary: Rotary,
}

/// The matrices after attention.
const ATTENTION_OUT: [&str; 2] = ["attn_out.weight", "attn_out.bias"];

impl ClipGraph<'_> {
    /// Blocks with nothing but learned positions.
    fn plain_blocks(&self, positions: u64, norm: Norm) -> Blocks {
        let activation = self.encoder.hparams.activation;
        Blocks { positions, batch: self.n_batch, norm, activation, rotary: Rotary::None }
    }

    /// All blocks, with the normalisations before and after.
    fn vit(&mut self, x: TensorId, learned: TensorId, blocks: &Blocks) -> TensorId {
        let (n_embd, batch) = (self.n_embd(), self.shape(x)[2]);
        let x = self.g.plus(x, learned);
        let x = if self.rules.batches { self.reshape(x, [n_embd, blocks.positions * batch, 1, 1]) } else { x };
        let mut x = self.pre_norm(x, blocks.norm);
        for il in 0..self.encoder.hparams.n_layer {
            x = self.block(il, x, TensorId::NONE, blocks);
        }
        if self.encoder.kind.has(Trait::AveragesPairs) {
            x = self.g.transposed(x);
            x = self.g.pool_1d(x, 2);
            x = self.g.transposed(x);
        }
        let x = self.post_norm(x, blocks.norm);
        let positions = self.shape(x)[1] / batch.max(1);
        if !self.rules.batches {
            return x;
        }
        self.reshape(x, [n_embd, positions, batch, 1])
    }

    /// Normalisation before the first block, if there is one.
    fn pre_norm(&mut self, x: TensorId, norm: Norm) -> TensorId {
        self.outer_norm(x, ["v.pre_ln.weight", "v.pre_ln.bias"], ["a.pre_ln.weight", "a.pre_ln.bias"], norm)
    }

    /// Normalisation after the last block, if there is one.
    fn post_norm(&mut self, x: TensorId, norm: Norm) -> TensorId {
        self.outer_norm(x, ["v.post_ln.weight", "v.post_ln.bias"], ["a.post_ln.weight", "a.post_ln.bias"], norm)
    }

    fn outer_norm(&mut self, x: TensorId, vision: [&str; 2], audio: [&str; 2], norm: Norm) -> TensorId {
        let names = if self.encoder.modality == Modality::Audio { audio } else { vision };
        let [weight, bias] = names.map(|name| self.tensor(name));
        if weight.is_some() { self.norm(x, weight, bias, norm) } else { x }
    }

    /// One block; the mask is optional.
    fn block(&mut self, il: usize, input: TensorId, mask: TensorId, blocks: &Blocks) -> TensorId {
        let x = self.norm_in(il, input, ["ln1.weight", "ln1.bias"], blocks.norm);
        let [q, k, v] = self.queries_keys_values(il, x, blocks);
        let x = self.attention([q, k, v], mask);
        let out = ATTENTION_OUT.map(|name| self.layer(il, name));
        let x = self.projected_attention(x, out);
        let scale = self.layer(il, "ls1.weight");
        let x = self.g.times(x, scale);
        let x = self.post_norm_in(il, x, "attn_post_norm.weight", blocks.norm);
        let residual = self.g.add(x, input);

        let x = self.norm_in(il, residual, ["ln2.weight", "ln2.bias"], blocks.norm);
        let x = self.feed_forward(il, x, blocks.activation);
        let x = self.post_norm_in(il, x, "ffn_post_norm.weight", blocks.norm);
        let scale = self.layer(il, "ls2.weight");
        let x = self.g.times(x, scale);
        let x = self.g.add(residual, x);
        let scale = self.layer(il, "out_scale.weight");
        self.g.times(x, scale)
    }

    fn post_norm_in(&mut self, il: usize, x: TensorId, name: &'static str, norm: Norm) -> TensorId {
        let weight = self.layer(il, name);
        if weight.is_some() { self.norm(x, weight, TensorId::NONE, norm) } else { x }
    }

    /// Queries, keys and values of a block, with positions.
    fn queries_keys_values(&mut self, il: usize, x: TensorId, blocks: &Blocks) -> [TensorId; 3] {
        let hparams = &self.encoder.hparams;
        let (d_head, n_head, n_head_kv) = (hparams.d_head, hparams.n_head, hparams.n_head_kv);
        let fused = self.layer(il, "attn_qkv.weight");
        let norms = ["attn_q_norm.weight", "attn_k_norm.weight"].map(|name| self.layer(il, name));
        let [mut q, mut k, mut v];
        if fused.is_some() {
            let x = self.mm(fused, x);
            let bias = self.layer(il, "attn_qkv.bias");
            let x = self.g.plus(x, bias);
            [q, k, v] = [(); 3].map(|()| self.head_window(x, blocks));
            [q, k] = self.head_norms([q, k], norms, blocks.norm);
        } else {
            [q, k, v] =
                [["attn_q.weight", "attn_q.bias"], ["attn_k.weight", "attn_k.bias"], ["attn_v.weight", "attn_v.bias"]]
                    .map(|names| self.linear_in(il, x, names));
            let per_head = norms[0].is_some() && self.shape(norms[0])[0] == d_head;
            if !per_head {
                [q, k] = self.head_norms([q, k], norms, blocks.norm);
            }
            let Blocks { positions, batch, .. } = *blocks;
            q = self.reshape(q, [d_head, n_head, positions, batch]);
            k = self.reshape(k, [d_head, n_head_kv, positions, batch]);
            v = self.reshape(v, [d_head, n_head_kv, positions, batch]);
            if per_head {
                [q, k] = self.head_norms([q, k], norms, blocks.norm);
            }
        }
        [q, k] = [q, k].map(|x| self.rotated(x, blocks.rotary));
        if self.encoder.kind.has(Trait::NormsValues) {
            v = self.g.rms_norm(v);
        }
        [q, k, v]
    }

    /// The queries, keys or values in the rows of a fused product.
    fn head_window(&mut self, x: TensorId, blocks: &Blocks) -> TensorId {
        let hparams = &self.encoder.hparams;
        let (d_head, n_head) = (hparams.d_head, hparams.n_head);
        if 3 * d_head * n_head > self.shape(x)[0] {
            return self.misfit(x, [d_head, n_head, 3, 1]);
        }
        let ([element, row, ..], positions) = (self.g[x].nb, blocks.positions);
        self.g.window(x, [d_head, n_head, positions, blocks.batch], [element * d_head, row, row * positions])
    }

    fn head_norms(&mut self, qk: [TensorId; 2], norms: [TensorId; 2], kind: Norm) -> [TensorId; 2] {
        let [mut q, mut k] = qk;
        if norms[0].is_some() {
            q = self.norm(q, norms[0], TensorId::NONE, kind);
        }
        if norms[1].is_some() {
            k = self.norm(k, norms[1], TensorId::NONE, kind);
        }
        [q, k]
    }

    fn rotated(&mut self, x: TensorId, rotary: Rotary) -> TensorId {
        match rotary {
            Rotary::None => x,
            Rotary::Once(positions) => self.g.rope(x, positions, TensorId::NONE),
            Rotary::Halves(first, second) if !self.rules.rotates_in_place => {
                let ([width, heads, rows, _], [_, nb1, nb2, _]) = (self.shape(x), self.g[x].nb);
                let [first, second] = [first, second].map(|positions| {
                    let half = self.g.window(x, [width / 2, heads, rows, 1], [nb1, nb2]);
                    self.g.rope(half, positions, TensorId::NONE)
                });
                self.g.concat(first, second, 0)
            }
            Rotary::Halves(first, second) => {
                let x = self.g.rope(x, first, TensorId::NONE);
                self.g.rope(x, second, TensorId::NONE)
            }
        }
    }

    /// Attention without the matrix after it; the mask is optional.
    fn attention(&mut self, [q, k, v]: [TensorId; 3], mask: TensorId) -> TensorId {
        for x in [q, k, v] {
            self.g.expand(x);
        }
        let q = self.g.permute(q, [0, 2, 1, 3]);
        let k = self.g.permute(k, [0, 2, 1, 3]);
        if self.flash_attn {
            let v = self.g.permute(v, [0, 2, 1, 3]);
            let [k, v] = [k, v].map(|x| self.g.cast(x, Type::F16));
            let mask = if mask.is_some() { self.g.cast(mask, Type::F16) } else { mask };
            let x = self.g.flash_attention(q, k, v, mask, TensorId::NONE);
            let [a, b, c, d] = self.shape(x);
            return self.reshape(x, [a * b, c * d, 1, 1]);
        }
        let v = self.g.permuted(v, [1, 2, 0, 3]);
        let scores = self.product(k, q);
        let scores = self.g.soft_max(scores, mask, TensorId::NONE);
        let x = self.product(v, scores);
        let x = self.g.permute(x, [0, 2, 1, 3]);
        let [a, b, c, d] = self.shape(x);
        self.cont_as(x, [a * b, c * d, 1, 1])
    }

    /// The matrix and bias after attention, each optional.
    fn projected_attention(&mut self, x: TensorId, [weight, bias]: [TensorId; 2]) -> TensorId {
        let x = if weight.is_some() { self.mm(weight, x) } else { x };
        self.g.plus(x, bias)
    }

    fn feed_forward(&mut self, il: usize, x: TensorId, activation: Activation) -> TensorId {
        const NAMES: [&str; 6] =
            ["ffn_up.weight", "ffn_up.bias", "ffn_gate.weight", "ffn_gate.bias", "ffn_down.weight", "ffn_down.bias"];
        let tensors = NAMES.map(|name| self.layer(il, name));
        self.feed_forward_by(x, tensors, activation)
    }

    /// A feed-forward network of up, gate and down with their biases, all optional but down's weight.
    fn feed_forward_by(
        &mut self,
        x: TensorId,
        [up, up_bias, gate, gate_bias, down, down_bias]: [TensorId; 6],
        activation: Activation,
    ) -> TensorId {
        let wide = if up.is_some() { self.mm(up, x) } else { x };
        let wide = self.g.plus(wide, up_bias);
        let x = if gate.is_some() {
            let gated = self.mm(gate, x);
            let gated = self.g.plus(gated, gate_bias);
            self.g.glu_split(gated, wide)
        } else {
            self.activate(wide, activation)
        };
        let x = if down.is_some() { self.mm(down, x) } else { x };
        self.g.plus(x, down_bias)
    }
}
