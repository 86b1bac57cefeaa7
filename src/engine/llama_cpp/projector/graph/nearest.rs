//! A type whose graph is not built: patches and blocks as most types have them, without a projector of its own.

use super::input::POSITIONS;
use super::{ClipGraph, Norm};
use crate::engine::ggml::tensor::TensorId;

impl ClipGraph<'_> {
    pub(super) fn nearest(&mut self) -> TensorId {
        let x = self.patches_with_bias();
        let learned = self.tensor(POSITIONS);
        let patches = self.patches();
        let learned = if learned.is_some() && self.shape(learned)[1] == patches { learned } else { TensorId::NONE };
        let blocks = self.plain_blocks(patches, Norm::Layer);
        self.vit(x, learned, &blocks)
    }
}
