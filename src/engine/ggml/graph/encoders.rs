//! The operations of image and audio encoders: convolutions, pooling, resizing (`ggml.c`, 0.1.161).

use super::super::Type;
use super::super::tensor::{Op, TensorId};
use super::{Graph, Steps};

impl Graph {
    /// The windows of `image` under every position of `kernel`, one row each.
    pub fn im2col_2d(&mut self, kernel: TensorId, image: TensorId, steps: Steps, ty: Type) -> TensorId {
        let (k, x) = (self[kernel].ne, self[image].ne);
        let ne = [k[0] * k[1] * k[2], steps.positions(x[0], k[0]), steps.positions(x[1], k[1]), x[3]];
        self.compute(Op::Im2Col, ty, ne, [kernel, image])
    }

    /// The windows of `rows` under every position of `kernel`.
    pub fn im2col_1d(&mut self, kernel: TensorId, rows: TensorId, steps: Steps, ty: Type) -> TensorId {
        let (k, x) = (self[kernel].ne, self[rows].ne);
        self.compute(Op::Im2Col, ty, [k[0] * k[1], steps.positions(x[0], k[0]), x[2], 1], [kernel, rows])
    }

    /// The type of the windows that are multiplied with `kernel`.
    pub fn window_type(&self, kernel: TensorId) -> Type {
        if self[kernel].ty == Type::Bf16 { Type::F32 } else { Type::F16 }
    }

    /// Convolution of an image, as windows of type `ty` and a matrix product.
    pub fn conv_2d(&mut self, kernel: TensorId, image: TensorId, steps: Steps, ty: Type) -> TensorId {
        let windows = self.im2col_2d(kernel, image, steps, ty);
        let (w, k) = (self[windows].ne, self[kernel].ne);
        let rows = self.reshape(windows, [w[0], w[1] * w[2] * w[3], 1, 1]);
        let matrix = self.reshape(kernel, [k[0] * k[1] * k[2], k[3], 1, 1]);
        let product = self.mul_mat(rows, matrix);
        let product = self.reshape(product, [w[1], w[2], w[3], k[3]]);
        let product = self.permute(product, [0, 1, 3, 2]);
        self.cont(product)
    }

    /// Convolution of rows, padded so that their length is kept but for the stride (`ggml_conv_1d_ph`).
    pub fn conv_1d_half_padded(&mut self, kernel: TensorId, rows: TensorId, stride: u64) -> TensorId {
        let steps = Steps { stride, padding: self[kernel].ne[0] / 2 };
        let ty = self.window_type(kernel);
        let windows = self.im2col_1d(kernel, rows, steps, ty);
        let (w, k) = (self[windows].ne, self[kernel].ne);
        let rows = self.reshape(windows, [w[0], w[1] * w[2], 1, 1]);
        let matrix = self.reshape(kernel, [k[0] * k[1], k[2], 1, 1]);
        let product = self.mul_mat(rows, matrix);
        self.reshape(product, [w[1], k[2], w[2], 1])
    }

    /// Averages of squares of `side`.
    pub fn pool_2d(&mut self, a: TensorId, side: u64) -> TensorId {
        let (steps, x) = (Steps { stride: side, padding: 0 }, self[a].ne);
        let ne = [steps.positions(x[0], side), steps.positions(x[1], side), x[2], x[3]];
        self.compute(Op::Pool2d, Type::F32, ne, [a])
    }

    /// The largest of every `length` consecutive elements of rows, as ggml's 2-D pooling.
    pub fn pool_rows(&mut self, a: TensorId, length: u64) -> TensorId {
        let (steps, x) = (Steps { stride: length, padding: 0 }, self[a].ne);
        self.compute(Op::Pool2d, Type::F32, [steps.positions(x[0], length), x[1], x[2], x[3]], [a])
    }

    /// Averages of `length` consecutive elements.
    pub fn pool_1d(&mut self, a: TensorId, length: u64) -> TensorId {
        let (steps, x) = (Steps { stride: length, padding: 0 }, self[a].ne);
        self.compute(Op::Pool1d, Type::F32, [steps.positions(x[0], length), x[1], x[2], x[3]], [a])
    }

    /// `a` interpolated to the shape `ne`.
    pub fn interpolate(&mut self, a: TensorId, ne: [u64; 4]) -> TensorId {
        let ty = self[a].ty;
        self.compute(Op::Upscale, ty, ne, [a])
    }

    /// Sine of every element.
    pub fn sin(&mut self, a: TensorId) -> TensorId {
        self.like(Op::Sin, [a])
    }

    /// Cosine of every element.
    pub fn cos(&mut self, a: TensorId) -> TensorId {
        self.like(Op::Cos, [a])
    }

    /// `a` rotated along its dimensions.
    pub fn roll(&mut self, a: TensorId) -> TensorId {
        self.like(Op::Roll, [a])
    }
}
