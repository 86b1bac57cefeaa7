//! What a layer is: a block, a block that predicts further tokens, or the output.

use serde::Serialize;

use super::Plan;

/// What a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerKind {
    /// A block of the model.
    Block,
    /// A block that predicts the token after the next one, for drafting: `NextN`, or MTP.
    Nextn,
    /// The output layer.
    Output,
}

impl Plan {
    /// What the layer of this index in [`Plan::layers`] is.
    pub fn layer_kind(&self, index: usize) -> LayerKind {
        if index + 1 == self.layers.len() {
            LayerKind::Output
        } else if self.model.nextn_layers > 0 && index >= self.model.layers - self.model.nextn_layers {
            LayerKind::Nextn
        } else {
            LayerKind::Block
        }
    }

    /// `layer 12`, `NextN (MTP) layer 92`, or `output layer`.
    pub fn layer_name(&self, index: usize) -> String {
        match self.layer_kind(index) {
            LayerKind::Block => format!("layer {index}"),
            LayerKind::Nextn => format!("NextN (MTP) layer {index}"),
            LayerKind::Output => "output layer".to_owned(),
        }
    }
}
