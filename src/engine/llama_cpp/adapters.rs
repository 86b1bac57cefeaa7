//! What is loaded after a model's context and no fit counts: `LoRA` adapters and control vectors (`llama-adapter.cpp`,
//! 0.1.161).

use super::loaded::LoadedModel;
use super::placement::Placement;
use super::weights::Weight;
use crate::engine::ggml::tensor::BackendId;
use crate::engine::ggml::{BackendRef, Tensor, Type};
use crate::engine::id::EngineError;
use crate::gguf::Header;
use crate::settings::{Lora, LoraPairs, Settings};

/// A model as placed, to which adapters are added.
pub struct Adapted<'a> {
    pub model: &'a LoadedModel,
    pub header: &'a Header,
    pub placement: &'a Placement,
    /// The devices' properties, RAM last.
    pub backends: &'a [BackendRef],
}

impl Adapted<'_> {
    /// Bytes that the adapters in `settings` take per device, RAM last; none without any.
    ///
    /// # Errors
    /// When llama.cpp cannot load one with this model.
    pub fn bytes(&self, settings: &Settings) -> Result<Option<Vec<u64>>, EngineError> {
        let mut bytes = vec![0; self.backends.len()];
        for lora in &settings.loras {
            self.add_lora(lora, &mut bytes)?;
        }
        if !settings.control_vectors.is_empty() {
            self.add_control_vector(&mut bytes);
        }
        Ok(bytes.iter().any(|bytes| *bytes > 0).then_some(bytes))
    }

    fn add(&self, place: BackendId, ty: Type, ne: [u64; 4], bytes: &mut [u64]) {
        let backend = &*self.backends[usize::from(place)];
        bytes[usize::from(place)] += backend.align(backend.bytes(&Tensor::new(ty, ne)));
    }

    /// Each matrix is on the device of the model's that it is beside.
    fn add_lora(&self, lora: &Lora, bytes: &mut [u64]) -> Result<(), EngineError> {
        let refuse = |why: String| Err(EngineError::Settings(why));
        match &lora.pairs {
            LoraPairs::Unread => return refuse(format!("the adapter '{lora}' was not read: name a file, or rank=16")),
            LoraPairs::Read(matrices) => {
                for matrix in &**matrices {
                    let is_beside = |weight: &&Weight| {
                        self.header.tensors.get(weight.index).is_some_and(|tensor| *tensor.name == *matrix.beside)
                    };
                    let Some(weight) = self.model.weights.all.iter().find(is_beside) else {
                        let beside = &matrix.beside;
                        return refuse(format!(
                            "llama.cpp refuses the adapter '{lora}' for this model, which has no tensor {beside}"
                        ));
                    };
                    self.add(self.placement.of_weight(weight, self.model), matrix.ty, matrix.ne, bytes);
                }
            }
            LoraPairs::Assumed { rank, targets } => {
                let mut found = false;
                for weight in self.model.weights.all.iter().filter(|weight| weight.block.is_some()) {
                    let name = self.header.tensors.get(weight.index).map_or("", |tensor| &*tensor.name);
                    let role = name.strip_suffix(".weight").and_then(|name| name.rsplit('.').next());
                    let [wide, rows, experts, _] = weight.ne;
                    if rows > 1 && role.is_some_and(|role| targets.iter().any(|target| **target == *role)) {
                        found = true;
                        let place = self.placement.of_weight(weight, self.model);
                        self.add(place, Type::F32, [wide, *rank, experts, 1], bytes);
                        self.add(place, Type::F32, [*rank, rows, experts, 1], bytes);
                    }
                }
                if !found {
                    return refuse(format!("no matrix of this model is called as '{lora}' says: name others"));
                }
            }
        }
        Ok(())
    }

    /// One vector for each block but the first, on the device of the block.
    fn add_control_vector(&self, bytes: &mut [u64]) {
        let hparams = &self.model.hparams;
        for il in 1..hparams.n_layer() {
            self.add(self.placement.in_block(il, None), Type::F32, [hparams.n_embd, 1, 1, 1], bytes);
        }
    }
}
