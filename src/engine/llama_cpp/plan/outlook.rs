//! What a request comes to at best: weights and caches have to be somewhere, whatever the graph takes beside them.

use super::super::context::Context;
use super::super::error::Refusal;
use super::super::placement::{Overflow, Part, Placement, Request};
use super::super::{Loaded, Spread};
use super::ask::{Ask, in_effect};
use crate::engine::ggml::Backend;
use crate::engine::outlook::{Hope, Outlook};
use crate::machine::Machine;
use crate::settings::Settings;
use crate::units::Bytes;

/// Looks ahead.
///
/// # Errors
/// When llama.cpp refuses the settings.
pub fn outlook(loaded: &Loaded, machine: &Machine, settings: &Settings) -> Result<Outlook, Refusal> {
    let mut ask = Ask::new(loaded, machine, settings);
    if ask.options.n_ctx == 0 {
        ask.options.n_ctx = ask.limits.least_context(loaded, &ask.options);
    }
    let context = Context::new(&ask.options, &loaded.hparams, loaded.release)?;
    let gpus = (0..machine.gpus.len()).map(|gpu| ask.gpus.contains(&gpu)).collect();
    let hope = Floor { loaded, ask: &ask, context: &context, machine }.hope();
    Ok(Outlook { settings: in_effect(&context, &ask.spread, loaded, settings), gpus, hope })
}

/// The least that is asked for.
struct Floor<'a> {
    loaded: &'a Loaded,
    ask: &'a Ask,
    context: &'a Context,
    machine: &'a Machine,
}

impl Floor<'_> {
    fn hope(&self) -> Hope {
        let Ask { devices, spread, limits, .. } = self.ask;
        let ram = self.machine.ram.free + self.machine.ram.swap_free;
        let free: Vec<u64> = devices.iter().map(|device| device.free).collect();
        if spread.is_settled(devices.len()) {
            let own = devices.iter().map(|device| device.backend.clone()).collect();
            let asked = self.least(&self.loaded.place(devices, spread), own);
            let fits =
                asked.iter().zip(free.iter().copied().map(Bytes).chain([ram])).all(|(asked, free)| *asked <= free);
            return if fits { Hope::EveryLayer } else { Hope::Nothing };
        }
        let vram: Bytes = free.into_iter().map(Bytes).sum();
        let in_all: Bytes = self.least(&self.all_on(&[]), Vec::new()).into_iter().sum();
        if in_all > vram + ram {
            return Hope::Nothing;
        }
        // everything takes the least on one GPU, and on one that pads nothing
        let on_gpus = self.least(&self.all_on(&[1]), vec![Backend::CPU]).first().copied().unwrap_or_default();
        let margins = limits.margins.iter().copied().chain(std::iter::repeat(0));
        let may_take: Bytes =
            devices.iter().zip(margins).map(|(gpu, margin)| Bytes(gpu.free.saturating_sub(margin))).sum();
        if on_gpus > may_take { Hope::SomeLayers } else { Hope::EveryLayer }
    }

    /// All layers on the devices with so much memory, or in RAM; what a fit may leave in RAM all the same is there.
    fn all_on(&self, free: &[u64]) -> Placement {
        let hparams = &self.loaded.hparams;
        let movable = if hparams.n_expert > 0 { hparams.n_layer_all } else { 0 };
        let aside = |block| Overflow { block, part: Part::FeedForward, gpu: None };
        let overrides: Vec<Overflow> = (0..movable).map(aside).collect();
        Placement::new(hparams, &Request { gpu_layers: None, tensor_split: &[], free, overrides: &overrides })
    }

    /// Weights and caches per device, on GPUs of these kinds, RAM last.
    fn least(&self, placement: &Placement, mut backends: Vec<Backend>) -> Vec<Bytes> {
        backends.push(Backend::CPU);
        self.loaded.without_graph(placement, self.context, &backends).into_iter().map(Bytes).collect()
    }
}

impl Spread {
    /// A fit leaves it as it is: there is nothing to choose.
    fn is_settled(&self, gpus: usize) -> bool {
        gpus == 0 || self.by_hand(gpus).is_some()
    }
}
