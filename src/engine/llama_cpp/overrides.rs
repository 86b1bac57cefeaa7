//! Weights that the user placed on devices by their names (`create_tensor` in `llama-model-loader.cpp`, 0.1.161): the
//! first pattern that is found in a name counts, and a GPU that is named gets the weight whatever it can do.

use std::collections::HashSet;

use super::devices;
use super::loaded::LoadedModel;
use super::placement::OverrideGroup;
use super::weights::LlmTensor;
use crate::engine::error::EngineError;
use crate::engine::ggml::tensor::BackendId;
use crate::gguf::Header;
use crate::machine::Machine;
use crate::settings::{ALL_LAYERS, DraftSettings, Settings, TensorOverride};

/// The devices of a model's weights by the user's word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserOverrides {
    /// Whether anything was asked for, also if it names no weight of this model.
    pub is_given: bool,
    /// Whether it moves more than feed-forward weights.
    pub moves_attention: bool,
    /// By index into [`super::weights::Weights::all`]; empty if nothing was asked for.
    devices: Vec<Option<BackendId>>,
}

/// What a user asked for, of a model or of its draft.
#[derive(Clone, Copy, Debug)]
pub struct AskedOverrides<'a> {
    /// Tensors by their names, the first that matches counting.
    pub tensors: &'a [TensorOverride],
    /// Layers whose experts stay in RAM.
    pub n_cpu_moe: Option<u64>,
    /// Layers whose dense feed-forward weights stay in RAM.
    pub n_cpu_ffn: Option<u64>,
}

impl<'a> From<&'a Settings> for AskedOverrides<'a> {
    fn from(settings: &'a Settings) -> Self {
        let Settings { override_tensor, n_cpu_moe, n_cpu_ffn, .. } = settings;
        Self { tensors: override_tensor, n_cpu_moe: *n_cpu_moe, n_cpu_ffn: *n_cpu_ffn }
    }
}

impl<'a> From<&'a DraftSettings> for AskedOverrides<'a> {
    fn from(settings: &'a DraftSettings) -> Self {
        Self { tensors: &settings.override_tensor, n_cpu_moe: settings.n_cpu_moe, n_cpu_ffn: None }
    }
}

impl UserOverrides {
    /// Those of `model` with this header, on the GPUs `used` of `machine`, which are this number of devices.
    ///
    /// # Errors
    /// When a device is none that is used.
    pub fn new(
        asked: AskedOverrides<'_>,
        model: &LoadedModel,
        header: &Header,
        machine: &Machine,
        used: &[usize],
        count: usize,
    ) -> Result<Self, EngineError> {
        let AskedOverrides { tensors, n_cpu_moe, n_cpu_ffn } = asked;
        let cpu = count as BackendId;
        // the cards of one device are the first
        let last = cpu.saturating_sub(1);
        let on_device = |place: BackendId| if usize::from(place) == used.len() { cpu } else { place.min(last) };
        let device = |to: &TensorOverride| devices::place(machine, used, &to.device).map(on_device);
        let places = tensors.iter().map(device).collect::<Result<Vec<_>, _>>()?;
        // without a block in its pattern, it counts for what is in no block too
        let groups = [(n_cpu_moe, OverrideGroup::Experts), (n_cpu_ffn, OverrideGroup::Dense)];
        let is_given = !tensors.is_empty() || groups.iter().any(|(layers, _)| layers.is_some_and(|count| count > 0));
        if !is_given {
            return Ok(Self::default());
        }
        let devices = model.weights.all.iter().map(|weight| {
            let name = header.tensors.get(weight.index).map_or("", |tensor| &*tensor.name);
            let by_name = tensors.iter().position(|to| to.pattern.matches(name));
            let covers = |(layers, group): &(Option<u64>, OverrideGroup)| {
                let below = layers.zip(weight.block).is_some_and(|(count, block)| (block as u64) < count);
                let role = weight.role.filter(|_| below || *layers == Some(ALL_LAYERS));
                role.is_some_and(|(slot, _)| group.covers(slot))
            };
            by_name.map(|at| places[at]).or_else(|| groups.iter().any(covers).then_some(cpu))
        });
        let devices: Vec<Option<BackendId>> = devices.collect();
        let moved = model.weights.all.iter().zip(&devices).filter(|(_, device)| device.is_some());
        let groups = [OverrideGroup::FeedForward, OverrideGroup::Experts];
        let stays =
            |role: Option<(LlmTensor, _)>| role.is_some_and(|(slot, _)| groups.iter().any(|group| group.covers(slot)));
        let moves_attention = moved.into_iter().any(|(weight, _)| !stays(weight.role));
        Ok(Self { is_given, moves_attention, devices })
    }

    /// The device of the weight with this index, if it was placed.
    pub fn device(&self, index: usize) -> Option<BackendId> {
        self.devices.get(index).copied().flatten()
    }
}

/// Those of `asked` that place no tensor of a model with this header, as they were written.
pub fn without_effect(asked: &[TensorOverride], header: &Header) -> Vec<String> {
    let first = |name: &str| asked.iter().position(|to| to.pattern.matches(name));
    let effective: HashSet<usize> = header.tensors.iter().filter_map(|tensor| first(&tensor.name)).collect();
    let idle = asked.iter().enumerate().filter(|(at, _)| !effective.contains(at));
    idle.map(|(_, to)| to.to_string()).collect()
}
