//! What every card does for a prompt under a plan, and what that takes.

use super::constants::{PromptConstants, READ};
use crate::engine::PreparedModel;
use crate::engine::llama_cpp::hparams::Hparams;
use crate::machine::{DeviceKind, Machine};
use crate::plan::Plan;
use crate::speed::family::{Family, Known, known};
use crate::speed::work::{BlockReads, Weights, blocks, split};
use crate::units::Bandwidth;

/// The work of all cards for a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptWork {
    /// The cards that take part, in the order in which a token passes them.
    pub devices: Vec<PromptDevice>,
    /// Whether a card computes one ubatch while the next card computes the one before.
    pub overlaps: bool,
    /// Tokens of a batch.
    pub batch: u64,
    /// Tokens of an ubatch.
    pub ubatch: u64,
    /// Whether weights are copied over a link that is assumed.
    pub link_assumed: bool,
    /// Whether a CPU attends to the cache of layers in RAM, which takes a time that is not known.
    pub attends_in_ram: bool,
}

/// The work of one card, where it depends on tokens per token.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptDevice {
    /// `GPU0`
    pub id: String,
    /// What is known of the card.
    pub known: Known,
    /// Weights that every token is multiplied with.
    pub dense: Weights,
    /// All experts.
    pub experts: Weights,
    /// The share of them that a token uses.
    pub used: f64,
    /// Attention, by window.
    pub attention: Vec<Attention>,
    /// Its layers, without the output layer.
    pub layers: f64,
    /// The part of `dense` that is in RAM and copied for every ubatch.
    pub dense_in_ram: f64,
    /// The part of `experts` that is in RAM: those that an ubatch uses are copied.
    pub experts_in_ram: f64,
}

/// Attention of all layers with one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Multiplications and additions per token and token attended to.
    pub flops: f64,
    /// Tokens attended to at most.
    pub window: Option<u64>,
}

/// Seconds of one card, by what they are spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// Multiplying dense weights.
    pub dense: f64,
    /// Multiplying experts.
    pub experts: f64,
    /// Attention.
    pub attention: f64,
    /// Reading weights, beyond the arithmetic that hides it.
    pub reading: f64,
    /// Launching the layers.
    pub layers: f64,
    /// Copying weights from RAM.
    pub copies: f64,
}

impl Parts {
    /// All of them.
    pub fn sum(&self) -> f64 {
        self.dense + self.experts + self.attention + self.reading + self.layers + self.copies
    }

    fn add(&mut self, other: &Self) {
        self.dense += other.dense;
        self.experts += other.experts;
        self.attention += other.attention;
        self.reading += other.reading;
        self.layers += other.layers;
        self.copies += other.copies;
    }
}

impl PromptWork {
    /// The work of `plan`, which is a plan of `model` on `machine`.
    ///
    /// # Errors
    /// Why no figure would be honest, as one clause.
    pub fn of(model: &PreparedModel, machine: &Machine, plan: &Plan) -> Result<Self, String> {
        let unread = "llama.cpp cannot read the model";
        let hparams = &model.llama_cpp(plan.settings.llama_cpp_build()).map_err(|_| unread)?.hparams;
        if attends_sparsely(hparams) {
            return Err("its attention is sparse: how fast kernels choose what to attend to is not known".to_owned());
        }
        if plan.settings.split_mode.is_some() {
            return Err("how fast layers split over cards read a prompt is not known".to_owned());
        }
        let main = plan.devices.iter().position(|device| device.kind == DeviceKind::Gpu && device.graph.0 > 0);
        let main = main.ok_or("a CPU computes it: its arithmetic is not known")?;
        let blocks = blocks(model, hparams, &plan.settings, 0);
        let mut work: Vec<Option<PromptDevice>> = vec![None; plan.devices.len()];
        let mut attends_in_ram = false;
        for layer in &plan.layers {
            let Some(block) = blocks.get(layer.index) else { continue };
            let in_ram = plan.devices.get(layer.device).is_none_or(|device| device.kind == DeviceKind::Cpu);
            let at = if in_ram { main } else { layer.device };
            let slot = work.get_mut(at).ok_or("the plan has no such device")?;
            if slot.is_none() {
                *slot = Some(PromptDevice::of(machine, plan, at)?);
            }
            let Some(device) = slot else { continue };
            let elsewhere = if in_ram { layer.weights.0 as f64 } else { layer.elsewhere().0 as f64 };
            device.hold(block, elsewhere);
            let attends = device.attend(hparams, layer.index);
            attends_in_ram |= in_ram && attends;
        }
        let devices: Vec<PromptDevice> = work.into_iter().flatten().collect();
        if plan.settings.no_op_offload && devices.iter().any(PromptDevice::copies) {
            return Err("a CPU computes what is in RAM (--no-op-offload): its arithmetic is not known".to_owned());
        }
        let pipelined = |device: &PromptDevice| {
            !device.known.family.is_vulkan() && device.dense_in_ram == 0.0 && device.experts_in_ram == 0.0
        };
        Ok(Self {
            overlaps: devices.len() > 1 && devices.iter().all(pipelined),
            batch: plan.settings.batch.max(plan.settings.ubatch).max(1),
            ubatch: plan.settings.ubatch.max(1),
            link_assumed: devices.iter().any(|device| device.copies() && device.known.link.is_some_and(|link| link.1)),
            attends_in_ram,
            devices,
        })
    }

    /// The seconds of every card for a prompt of `tokens` behind `depth` tokens in the cache. The first ubatch of a batch
    /// passes all cards; later ones wait for the slowest only, if they overlap.
    pub fn parts(&self, constants: &PromptConstants, depth: u64, tokens: u64) -> Vec<Parts> {
        let mut parts = vec![Parts::default(); self.devices.len()];
        let mut done = 0;
        while done < tokens {
            let in_batch = done % self.batch;
            let ubatch = self.ubatch.min(tokens - done).min(self.batch - in_batch);
            let middle = (depth + done) as f64 + ubatch as f64 / 2.0;
            let of = self.devices.iter().map(|device| device.ubatch(constants, ubatch as f64, middle));
            if self.overlaps && in_batch > 0 {
                let slowest = of.enumerate().max_by(|(_, a), (_, b)| a.sum().total_cmp(&b.sum()));
                if let Some((index, slowest)) = slowest {
                    parts[index].add(&slowest);
                }
            } else {
                parts.iter_mut().zip(of).for_each(|(sum, of)| sum.add(&of));
            }
            done += ubatch;
        }
        parts
    }

    /// Seconds for a prompt.
    pub fn seconds(&self, constants: &PromptConstants, depth: u64, tokens: u64) -> f64 {
        self.parts(constants, depth, tokens).iter().map(Parts::sum).sum()
    }

    /// Whether weights are copied from RAM.
    pub fn copies(&self) -> bool {
        self.devices.iter().any(PromptDevice::copies)
    }

    /// The same with every link `factor` times as fast.
    #[must_use]
    pub fn with_link(mut self, factor: f64) -> Self {
        for device in &mut self.devices {
            device.known.link = device.known.link.map(|(link, assumed)| (link.times(factor), assumed));
        }
        self
    }
}

impl PromptDevice {
    fn of(machine: &Machine, plan: &Plan, at: usize) -> Result<Self, String> {
        let (gpu, id) = (machine.gpus.get(at), plan.devices.get(at).map(|device| device.id.clone()));
        let (gpu, id) = gpu.zip(id).ok_or("the plan has no such device")?;
        if gpu.computer.is_some() {
            return Err(format!("{id} is in another computer"));
        }
        let known = known(gpu).ok_or_else(|| format!("the throughput of {id} is not known"))?;
        let family = known.family;
        if matches!(family, Family::Volta | Family::Rdna2 | Family::VulkanRdna2 | Family::VulkanGcn) {
            return Err(format!("measurements of cards like {id} ({family}) are too few or contradict each other"));
        }
        Ok(Self {
            id,
            known,
            dense: Weights::default(),
            experts: Weights::default(),
            used: 0.0,
            attention: Vec::new(),
            layers: 0.0,
            dense_in_ram: 0.0,
            experts_in_ram: 0.0,
        })
    }

    /// Adds a block, of which `elsewhere` bytes are in RAM.
    fn hold(&mut self, block: &BlockReads, elsewhere: f64) {
        let (_, away) = split(&BlockReads { used: 1.0, dense: Weights::default(), ..*block }, elsewhere);
        self.experts_in_ram += away.bytes;
        self.dense_in_ram += (elsewhere - block.experts.bytes).clamp(0.0, block.dense.bytes);
        let experts = self.experts.elements + block.experts.elements;
        if block.experts.elements > 0.0 {
            self.used = (self.used * self.experts.elements + block.used * block.experts.elements) / experts;
        }
        self.experts = self.experts.plus(block.experts);
        self.dense = self.dense.plus(block.dense);
        self.layers += 1.0;
    }

    /// Adds the attention of block `il`; whether it has any.
    fn attend(&mut self, hparams: &Hparams, il: usize) -> bool {
        if !hparams.attends.get(il).copied().unwrap_or(false) {
            return false;
        }
        let heads = hparams.n_head.get(il).copied().unwrap_or(0);
        let flops = (2 * heads * (hparams.head_k(il) + hparams.head_v(il))) as f64;
        let window = hparams.n_swa.filter(|_| hparams.is_swa.get(il).copied().unwrap_or(false));
        match self.attention.iter_mut().find(|attention| attention.window == window) {
            Some(attention) => attention.flops += flops,
            None => self.attention.push(Attention { flops, window }),
        }
        true
    }

    /// Whether weights of its layers are copied from RAM.
    pub fn copies(&self) -> bool {
        self.dense_in_ram + self.experts_in_ram > 0.0
    }

    /// The link that copies take: the memory itself where it is shared.
    pub fn link(&self) -> Bandwidth {
        self.known.link.map_or(self.known.bandwidth, |(link, _)| link)
    }

    /// The seconds of an ubatch of `tokens` in the middle of which `position` tokens are attended to.
    fn ubatch(&self, constants: &PromptConstants, tokens: f64, position: f64) -> Parts {
        let of = constants.of(self.known.family);
        let per_expert = (tokens * self.used).max(f64::MIN_POSITIVE);
        let touched = if self.used > 0.0 { 1.0 - (1.0 - self.used.min(1.0)).powf(tokens) } else { 0.0 };
        let attended: f64 = self
            .attention
            .iter()
            .map(|attention| attention.flops * attention.window.map_or(position, |window| position.min(window as f64)))
            .sum();
        let dense = 2.0 * self.dense.elements * tokens / (of.dense * self.known.flops);
        let experts = 2.0 * self.experts.elements * per_expert
            / (of.experts * per_expert / (per_expert + of.half) * self.known.flops);
        let experts = if self.experts.elements > 0.0 { experts } else { 0.0 };
        let attention = tokens * attended / (of.attention * self.known.flops);
        let read = (self.dense.bytes + self.experts.bytes * touched) / (READ * self.known.bandwidth.per_second());
        let copied = self.dense_in_ram + self.experts_in_ram * touched;
        Parts {
            dense,
            experts,
            attention,
            reading: (read - dense - experts - attention).max(0.0),
            layers: of.layer * self.layers,
            copies: copied / (constants.copies(self.known.family) * self.link().per_second()),
        }
    }
}

/// Whether an indexer, or a compressed cache, chooses what is attended to.
fn attends_sparsely(hparams: &Hparams) -> bool {
    let indexed = hparams.indexer.as_ref().is_some_and(|indexer| indexer.is_read.contains(&true));
    indexed || hparams.compress_ratios.iter().any(|ratio| *ratio > 0)
}
