//! Key facts of a model, for plans and lists.

use serde::Serialize;

use super::Model;
use crate::gguf::Value;
use crate::units::{Bytes, parameters};

/// Key facts of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelSummary {
    /// `general.name`, or else the file's name.
    pub name: String,
    /// `general.architecture`.
    pub architecture: String,
    /// The quantisation, `Q4_K_M`; none if the header lacks it.
    pub file_type: Option<String>,
    /// Number of weights.
    pub parameters: u64,
    /// Those of them that a token needs.
    pub active_parameters: u64,
    /// Number of experts; none for a dense model.
    pub experts: Option<u64>,
    /// Sum of the tensors' bytes.
    pub bytes: Bytes,
    /// Number of blocks.
    pub layers: usize,
    /// How many of them, the last ones, predict further tokens (`NextN`, or MTP).
    #[serde(skip_serializing_if = "is_zero")]
    pub nextn_layers: usize,
    /// Context that the model was trained for, in tokens.
    pub context_train: Option<u64>,
}

impl ModelSummary {
    /// Whether it was trained for a context of `tokens`, as far as its header says.
    pub fn is_trained_for(&self, tokens: u64) -> bool {
        self.context_train.is_none_or(|trained| trained >= tokens)
    }

    /// Its parameters, with experts also those that a token needs: `30.5 B (3.3 B)`.
    pub fn parameters_text(&self) -> String {
        let all = parameters(self.parameters);
        if self.experts.is_some() { format!("{all} ({})", parameters(self.active_parameters)) } else { all }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Model {
    /// Blocks at the end that predict further tokens, by `nextn_predict_layers`.
    fn nextn_layers(&self) -> usize {
        let declared = self.value("nextn_predict_layers").and_then(Value::as_u64).unwrap_or(0);
        usize::try_from(declared).unwrap_or(usize::MAX).min(self.block_count())
    }

    /// Key facts of the model.
    pub fn summary(&self) -> ModelSummary {
        ModelSummary {
            name: self.name.clone(),
            architecture: self.architecture.clone(),
            file_type: self.file_type.map(str::to_owned),
            parameters: self.parameters,
            active_parameters: self.active_parameters,
            experts: self.hyper.experts.map(|experts| experts.count),
            bytes: self.bytes,
            layers: self.block_count(),
            nextn_layers: self.nextn_layers(),
            context_train: self.hyper.context_train,
        }
    }
}
