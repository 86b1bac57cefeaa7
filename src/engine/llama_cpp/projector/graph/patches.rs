//! The raw image or audio, patches, and position tables.

use super::{Affine, ClipGraph, POSITIONS};
use crate::engine::ggml::Type;
use crate::engine::ggml::graph::Steps;
use crate::engine::ggml::tensor::TensorId;

impl ClipGraph<'_> {
    /// Pixels of the images, or samples.
    pub(super) fn raw(&mut self, channels: u64) -> TensorId {
        self.input(Type::F32, [self.nx, self.ny, channels, self.n_batch], "inp_raw")
    }

    /// The strides of patches.
    pub(super) const fn patch_steps(&self) -> Steps {
        Steps { stride: self.encoder.hparams.patch_size, padding: 0 }
    }

    /// Patches of `image` under a kernel.
    pub(super) fn convolved(&mut self, kernel: TensorId, image: TensorId, steps: Steps) -> TensorId {
        let (k, x) = (self.shape(kernel), self.shape(image));
        if k[2] != x[2] || steps.positions(x[0], k[0]) == 0 || steps.positions(x[1], k[1]) == 0 {
            return self.misfit(kernel, x);
        }
        let ty = if self.rules.windows_like_kernel { self.g[kernel].ty } else { self.g.window_type(kernel) };
        self.g.conv_2d(kernel, image, steps, ty)
    }

    /// The embeddings of `image`'s patches: `[n_embd, patches, batch]`.
    pub(super) fn patches_of(&mut self, image: TensorId) -> TensorId {
        let kernel = self.need("v.patch_embd.weight");
        let x = self.convolved(kernel, image, self.patch_steps());
        let x = self.reshape(x, [self.patches(), self.n_embd(), self.n_batch, 1]);
        self.g.transposed(x)
    }

    /// The embeddings of the raw image's patches with their bias (`build_inp`).
    pub(super) fn patches_with_bias(&mut self) -> TensorId {
        let raw = self.raw(3);
        let x = self.patches_of(raw);
        let bias = self.tensor("v.patch_embd.bias");
        self.g.plus(x, bias)
    }

    /// Learned positions, interpolated to the image's patches (`resize_position_embeddings`).
    pub(super) fn resized_positions(&mut self) -> TensorId {
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
    pub(super) fn in_squares(&mut self, x: TensorId) -> TensorId {
        let (width, height, n_embd) = (self.patches_x(), self.patches_y(), self.n_embd());
        let x = self.cont_as(x, [2 * n_embd, width / 2, height, 1]);
        let x = self.reshape(x, [2 * n_embd, width / 2, 2, height / 2]);
        let x = self.g.permute(x, [0, 2, 1, 3]);
        self.cont_as(x, [n_embd, width * height, 1, 1])
    }

    /// Patches under both kernels of a type that merges two frames, in squares of four.
    pub(super) fn patches_of_two_frames(&mut self) -> TensorId {
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
    pub(super) fn add_positions_by_axis(&mut self, x: TensorId, [pos_x, pos_y]: [TensorId; 2]) -> TensorId {
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
    pub(super) fn merged_patches(&mut self, x: TensorId, factor: u64) -> TensorId {
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
    pub(super) fn need_both(&mut self, names: Affine) -> [TensorId; 2] {
        names.map(|name| self.need(name))
    }
}
