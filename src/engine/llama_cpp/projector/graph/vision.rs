//! Encoders of images, a file for each family (`models/*.cpp` in `tools/mtmd`, 0.1.161).

mod cogvlm;
mod gemma4;
mod glm4v;
mod internvl;
mod kimi;
mod llama4;
mod llava;
mod minicpmv;
mod pixtral;
mod qwen_vl;
mod siglip;

use super::{Affine, ClipGraph, Norm, POSITIONS};
use crate::engine::ggml::tensor::TensorId;

/// The two matrices of most projectors.
const UP: Affine = ["mm.0.weight", "mm.0.bias"];
const DOWN: Affine = ["mm.2.weight", "mm.2.bias"];

impl ClipGraph<'_> {
    /// A type whose graph is not built: patches and blocks as most types have them, without a projector of its own.
    pub fn nearest(&mut self) -> TensorId {
        let x = self.patches_with_bias();
        let learned = self.tensor(POSITIONS);
        let patches = self.patches();
        let learned = if learned.is_some() && self.shape(learned)[1] == patches { learned } else { TensorId::NONE };
        let blocks = self.plain_blocks(patches, Norm::Layer);
        self.vit(x, learned, &blocks)
    }
}
