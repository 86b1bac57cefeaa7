//! The draft's context beside the model's: MTP blocks of the model itself, or a draft of its own file.

use super::context::ContextParams;
use super::error::LoadError;
use super::measure::Measurer;
use super::partner::Partner;
use super::repack::WeightsInRam;
use super::speculative::Speculation;
use super::{Device, LayerSplit, LoadedModel, MemoryBreakdown};

/// A draft as requested.
#[derive(Clone, Debug)]
pub struct DraftRequest<'a> {
    /// The model of its own file; none for the MTP blocks of the model itself.
    pub model: Option<&'a LoadedModel>,
    /// Its devices, as indices among those of the model.
    pub devices: Vec<usize>,
    /// Its layers on GPUs; none for all.
    pub gpu_layers: Option<u64>,
    /// The options of its context. That has the context size of the model's.
    pub options: ContextParams,
    /// How it drafts.
    pub speculation: Speculation,
}

/// The memory that drafting takes and changes, in bytes per device of the model, RAM last.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftMemory {
    /// Of the draft, as reserved.
    pub draft: DeviceBytes,
    /// Tokens of a batch of the draft with logits.
    pub n_outputs_max: u64,
    /// Its compute buffers once drafting is set up.
    pub draft_ready: Vec<u64>,
    /// The compute buffers of the model's context once drafting is set up; none if they stay as they were.
    pub main_ready: Option<Vec<u64>>,
}

/// Bytes per device of the model, RAM last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceBytes {
    /// Weights.
    pub model: Vec<u64>,
    /// KV caches and recurrent states.
    pub context: Vec<u64>,
    /// Compute buffers.
    pub compute: Vec<u64>,
    /// The weights in RAM by buffers.
    pub in_ram: WeightsInRam,
}

impl DeviceBytes {
    /// All bytes on a device.
    pub(super) fn total(&self, device: usize) -> u64 {
        self.model[device] + self.context[device] + self.compute[device]
    }
}

impl<'a> DraftRequest<'a> {
    fn own_devices(&self, devices: &[Device]) -> Vec<Device> {
        self.devices.iter().filter_map(|at| devices.get(*at).cloned()).collect()
    }

    /// What `--fit` counts for it with a context of `n_ctx` tokens: it is measured alone, and one that cannot be made
    /// without its partner is not counted.
    pub fn for_fit(&self, main: &'a LoadedModel, devices: &[Device], n_ctx: u64, spread: &LayerSplit) -> DeviceBytes {
        let own = self.own_devices(devices);
        let options = ContextParams { n_ctx, ..self.options.clone() };
        let spread = self.spread(spread);
        let model = self.model.unwrap_or(main);
        let measured = Measurer::new(model, &own).measure(&model.place(&own, &spread), &options);
        if let Ok(measured) = measured {
            return self.among(&measured, devices.len());
        }
        let none = || vec![0; devices.len() + 1];
        DeviceBytes { model: none(), context: none(), compute: none(), in_ram: WeightsInRam::default() }
    }

    /// Measures it beside the model with this placement and these options; `n_ctx` is the model's context in effect.
    ///
    /// # Errors
    /// When llama.cpp refuses it.
    pub fn measure(
        &self,
        main: &LoadedModel,
        devices: &[Device],
        spread: &LayerSplit,
        options: &ContextParams,
        n_ctx: u64,
    ) -> Result<DraftMemory, LoadError> {
        let own = self.own_devices(devices);
        let placement = &main.place(devices, spread);
        let mut beside = Measurer::new(main, devices);
        let partner = Partner::new(&mut beside, placement.clone(), options, self.devices.clone())?;
        let model = self.model.unwrap_or(main);
        if model.needs_partner() && !partner.is_reachable() {
            let why = "the draft uses tensors of the model that are not on its GPUs, where llama.cpp would end with an \
                       error: let it use those of the model";
            return Err(LoadError::settings(why.to_owned()));
        }
        let place = match self.model {
            Some(model) => model.place(&own, &self.spread(spread)),
            None => placement.clone(),
        };
        let mut measurer = Measurer::new(model, &own).beside(&partner);
        let mut options_of_draft = ContextParams { n_ctx, ..self.options.clone() };
        let draft = measurer.measure(&place, &options_of_draft)?;
        let draft_ready = match self.speculation.draft_outputs(model) {
            Some(outputs) => {
                options_of_draft.drafting = outputs;
                measurer.measure(&place, &options_of_draft)?.compute
            }
            None => draft.compute.clone(),
        };
        let main_ready = match self.speculation.main_outputs(model, main.hparams.n_layer()) {
            Some(drafting) => Some(beside.measure(placement, &ContextParams { drafting, ..options.clone() })?.compute),
            None => None,
        };
        Ok(DraftMemory {
            n_outputs_max: draft.parameters.n_outputs_max,
            draft: self.among(&draft, devices.len()),
            draft_ready: self.spread_over(&draft_ready, devices.len()),
            main_ready,
        })
    }

    /// Its layers per device: the number is its own, the shares are the model's.
    fn spread(&self, main: &LayerSplit) -> LayerSplit {
        let overrides = if self.model.is_none() { main.overrides.clone() } else { Vec::new() };
        LayerSplit {
            gpu_layers: self.gpu_layers,
            tensor_split: main.tensor_split.clone(),
            overrides,
            load_mtp: self.speculation.is_mtp(),
            repack_for: main.repack_for,
        }
    }

    /// A breakdown over its devices as one over `count` devices and RAM, without the weights that it shares.
    fn among(&self, measured: &MemoryBreakdown, count: usize) -> DeviceBytes {
        let MemoryBreakdown { model, context, compute, in_ram, .. } = measured;
        DeviceBytes {
            model: if self.model.is_some() { self.spread_over(model, count) } else { vec![0; count + 1] },
            context: self.spread_over(context, count),
            compute: self.spread_over(compute, count),
            in_ram: if self.model.is_some() { *in_ram } else { WeightsInRam::default() },
        }
    }

    fn spread_over(&self, bytes: &[u64], count: usize) -> Vec<u64> {
        let mut all = vec![0; count + 1];
        for (at, bytes) in bytes.iter().enumerate() {
            let place = self.devices.get(at).copied().unwrap_or(count);
            if let Some(place) = all.get_mut(place) {
                *place += bytes;
            }
        }
        all
    }
}
