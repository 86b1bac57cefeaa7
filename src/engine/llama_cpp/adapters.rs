//! What is loaded after a model's context and no fit counts: `LoRA` adapters and control vectors (`llama-adapter.cpp`,
//! 0.1.161).

use super::loaded::LoadedModel;
use super::placement::Placement;
use super::weights::Weight;
use crate::engine::error::EngineError;
use crate::engine::ggml::tensor::BackendId;
use crate::engine::ggml::{BackendRef, Tensor, Type};
use crate::gguf::Header;
use crate::settings::{Lora, LoraPair, LoraPairs, Settings};

/// The matrices of all adapters, in the order in which they are loaded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdapterPairs(Vec<AdapterPair>);

/// Two matrices whose product with an input is added to that of a weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdapterPair {
    /// Index into [`super::weights::Weights::all`] of the weight.
    pub beside: usize,
    /// Type and shape of the one that the input is multiplied with first, then of the other.
    pub matrices: [(Type, [u64; 4]); 2],
}

impl AdapterPairs {
    /// Those beside a weight.
    pub fn of(&self, index: usize) -> impl Iterator<Item = AdapterPair> + '_ {
        self.0.iter().filter(move |pair| pair.beside == index).copied()
    }

    /// How many there are.
    pub const fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A model as placed, to which adapters are added.
pub struct Adapted<'a> {
    pub model: &'a LoadedModel,
    pub header: &'a Header,
    pub placement: &'a Placement,
    /// The devices' properties, RAM last.
    pub backends: &'a [BackendRef],
}

impl Adapted<'_> {
    /// The matrices of the adapters in `settings`.
    ///
    /// # Errors
    /// When llama.cpp cannot load one with this model.
    pub fn pairs(&self, settings: &Settings) -> Result<AdapterPairs, EngineError> {
        let pairs = settings.loras.iter().map(|lora| self.pairs_of(lora));
        Ok(AdapterPairs(pairs.collect::<Result<Vec<_>, _>>()?.concat()))
    }

    fn pairs_of(&self, lora: &Lora) -> Result<Vec<AdapterPair>, EngineError> {
        let refuse = |why: String| Err(EngineError::Settings(why));
        let name = |weight: &Weight| self.header.tensors.get(weight.index).map_or("", |tensor| &*tensor.name);
        let blocks = self.model.loaded_blocks(self.placement.loads_mtp());
        let is_loaded = |weight: &&Weight| weight.block.is_none_or(|block| block < blocks);
        let all = || self.model.weights.all.iter().filter(is_loaded);
        match &lora.pairs {
            LoraPairs::Unread => refuse(format!("the adapter '{lora}' was not read: name a file, or rank=16")),
            LoraPairs::Read(read) => {
                let lacking = read.iter().find(|pair| all().all(|weight| name(weight) != &*pair.beside));
                if let Some(LoraPair { beside, .. }) = lacking {
                    return refuse(format!(
                        "llama.cpp refuses the adapter '{lora}' for this model, which has no tensor {beside}"
                    ));
                }
                let of = |pair: &LoraPair| {
                    let weight = all().find(|weight| name(weight) == &*pair.beside)?;
                    Some(AdapterPair { beside: weight.index, matrices: pair.matrices })
                };
                Ok(read.iter().filter_map(of).collect())
            }
            LoraPairs::Assumed { rank, targets } => {
                let is_target = |weight: &&Weight| {
                    let role = name(weight).strip_suffix(".weight").and_then(|name| name.rsplit('.').next());
                    let is_named = role.is_some_and(|role| targets.iter().any(|target| **target == *role));
                    weight.block.is_some() && weight.ne[1] > 1 && is_named
                };
                let pair = |weight: &Weight| {
                    let [wide, rows, experts, _] = weight.ne;
                    let matrices = [[wide, *rank, experts, 1], [*rank, rows, experts, 1]];
                    AdapterPair { beside: weight.index, matrices: matrices.map(|ne| (Type::F32, ne)) }
                };
                let pairs: Vec<AdapterPair> = all().filter(is_target).map(pair).collect();
                if pairs.is_empty() {
                    return refuse(format!("no matrix of this model is called as '{lora}' says: name others"));
                }
                Ok(pairs)
            }
        }
    }

    /// Bytes that these adapters and a control vector take per device, RAM last; none without any. A pair is on the device
    /// of its weight; of a control vector each block but the first has its own on the block's device.
    pub fn bytes(&self, pairs: &AdapterPairs, control_vector: bool) -> Option<Vec<u64>> {
        let mut bytes = vec![0; self.backends.len()];
        let mut add = |place: BackendId, ty: Type, ne: [u64; 4]| {
            let backend = &*self.backends[usize::from(place)];
            bytes[usize::from(place)] += backend.align(backend.bytes(&Tensor::new(ty, ne)));
        };
        for AdapterPair { beside, matrices } in &pairs.0 {
            let place = self.placement.of_weight(&self.model.weights.all[*beside], self.model);
            for (ty, ne) in matrices {
                add(place, *ty, *ne);
            }
        }
        let hparams = &self.model.hparams;
        for il in (1..hparams.n_layer()).filter(|_| control_vector) {
            add(self.placement.in_block(il, None), Type::F32, [hparams.n_embd, 1, 1, 1]);
        }
        bytes.iter().any(|bytes| *bytes > 0).then_some(bytes)
    }
}
