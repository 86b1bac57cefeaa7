//! What every device does for one token, and what that takes.

use super::family::{Family, known};
use super::mlx_work;
use super::range::Class;
use super::terms::Constants;
use crate::engine::PreparedModel;
use crate::engine::llama_cpp::hparams::Hparams;
use crate::gguf::{GgmlType, Tensor};
use crate::machine::{DeviceKind, Machine, presets};
use crate::model::{Model, TensorGroup};
use crate::plan::Plan;
use crate::settings::{CacheType, FlashAttn, InEffect};
use crate::units::{Bandwidth, Bytes};

/// RAM whose bandwidth is not stated, as machines of a kind and an age have it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AssumedRam {
    /// Its bandwidth: channels × 8 bytes × transfers a second.
    pub bandwidth: Bandwidth,
    /// What it is assumed to be.
    pub kind: &'static str,
}

impl AssumedRam {
    /// A desktop has two channels; more than four cards, or more RAM than desktops take, are a server's or a workstation's
    /// with eight. DDR5 came with the boards of 2022, as Ada, RDNA3 and Arc did.
    pub fn of(machine: &Machine) -> Self {
        let gpus = machine.gpus.iter().filter(|gpu| gpu.computer.is_none());
        let presets: Vec<_> = gpus.filter_map(|gpu| presets::of_gpu(&gpu.name, gpu.total)).collect();
        let is_large = presets.len() > 4 || machine.ram.total > Bytes::gib(256);
        let is_new = presets.iter().any(|preset| preset.is_of_ddr5());
        let (gbps, kind) = match (is_large, is_new) {
            (false, false) if presets.is_empty() => (60, "between two channels of DDR4 and of DDR5"),
            (false, false) => (51, "two channels of DDR4-3200, as with cards before 2022"),
            (false, true) => (90, "two channels of DDR5-5600, as with cards since 2022"),
            (true, false) => (205, "eight channels of DDR4-3200, as servers have"),
            (true, true) => (307, "eight channels of DDR5-4800, as servers have"),
        };
        Self { bandwidth: Bandwidth::gbps(gbps), kind }
    }
}

/// Assumed where the speed of the disk is not stated: between a SATA SSD (0.55 GB/s) and an `NVMe` drive with four lanes
/// of PCI Express 4 (7 GB/s).
pub const ASSUMED_DISK: Bandwidth = Bandwidth::gbps(2);
/// It may be this much faster or slower.
pub const DISK_FACTOR: f64 = 3.5;

/// What the CPU cores of an Apple chip draw at most of the memory that they share with the GPU. With the efficiency of
/// CPUs this is the 120 GB/s that four threads of an M2 Max reached in the comparison named in `reads`.
const APPLE_CPU: Bandwidth = Bandwidth::gbps(200);

/// The work of all devices for one token.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// The devices that take part.
    pub devices: Vec<DeviceWork>,
    /// How often a token goes from one card to the next.
    pub hops: f64,
    /// Layers on GPUs whose experts, or other weights, are in RAM.
    pub synced: f64,
    /// What RAM is assumed to be, where its bandwidth matters and is not known.
    pub assumed: Option<AssumedRam>,
    /// What is read from disk, as RAM does not hold all weights that are mapped.
    pub disk: Option<DiskReads>,
}

/// What a token reads from disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskReads {
    /// Bytes, if what RAM holds is always what is needed next.
    pub least: f64,
    /// Bytes, if nothing of what a token reads is left in RAM when the next one comes: so it is where the system drops
    /// what was read longest ago.
    pub most: f64,
    /// How fast the disk is read.
    pub bandwidth: Bandwidth,
    /// Whether that is assumed.
    pub assumed: bool,
}

impl DiskReads {
    /// Those of `plan`, of which a token reads `touched` bytes of weights in RAM.
    fn of(plan: &Plan, machine: &Machine, touched: f64) -> Option<Self> {
        let ram = plan.ram();
        let beyond = ram.from_disk()?.share_of(ram.mapped).0;
        Some(Self {
            least: touched * beyond,
            most: touched,
            bandwidth: machine.disk.unwrap_or(ASSUMED_DISK),
            assumed: machine.disk.is_none(),
        })
    }

    /// Half way between the extremes.
    pub fn bytes(&self) -> f64 {
        f64::midpoint(self.least, self.most)
    }

    fn seconds(&self) -> f64 {
        self.bytes() / self.bandwidth.per_second()
    }

    /// Seconds for the fewest bytes from the fastest disk, and for the most from the slowest.
    pub fn extremes(&self) -> (f64, f64) {
        let factor = if self.assumed { DISK_FACTOR } else { 1.0 };
        let seconds = |bytes: f64, factor: f64| bytes / (self.bandwidth.per_second() * factor);
        (seconds(self.least, factor), seconds(self.most, factor.recip()))
    }
}

/// The work of one device for one token.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceWork {
    /// `GPU0`, `CPU`.
    pub id: String,
    /// The family that it belongs to.
    pub family: Family,
    /// The bandwidth of its memory.
    pub bandwidth: Bandwidth,
    /// Weights to read.
    pub weights: Weights,
    /// Bytes of cache to read.
    pub cache: f64,
    /// Its layers, without the output layer.
    pub layers: f64,
    /// Those with experts or a recurrent state.
    pub busy: f64,
    /// Whether it runs with flash attention.
    pub flash: bool,
    /// Of RAM whose bandwidth is not stated: the machine's cards, with the bandwidths of their memories. It is not taken to
    /// be faster than any of them.
    pub cards: Vec<(Family, Bandwidth)>,
}

impl Work {
    /// The work of `plan`, which is a plan of `model` on `machine`, with `depth` tokens in the cache. None if the
    /// bandwidth of a GPU that takes part is not known, or llama.cpp cannot read the model.
    pub fn of(model: &PreparedModel, machine: &Machine, plan: &Plan, depth: u64) -> Option<Self> {
        if model.mlx.is_some() {
            return Self::of_mlx(plan, mlx_work::of(model, machine, plan, depth)?);
        }
        let hparams = &model.llama_cpp(plan.settings.llama_cpp_build()).ok()?.hparams;
        let blocks = blocks(model, hparams, &plan.settings, depth);
        let shares = Shares::of(plan);
        let cpu = plan.devices.len().checked_sub(1)?;
        let assumed = AssumedRam::of(machine);
        let mut work: Vec<DeviceWork> = Vec::with_capacity(plan.devices.len());
        let flash = plan.settings.flash_attn != FlashAttn::Off && plan.v_transposed != Some(true);
        for device in &plan.devices {
            work.push(DeviceWork {
                id: device.id.clone(),
                family: Family::Cpu,
                bandwidth: assumed.bandwidth,
                weights: Weights::default(),
                cache: 0.0,
                layers: 0.0,
                busy: 0.0,
                flash,
                cards: Vec::new(),
            });
        }
        let mut synced = 0.0;
        for layer in &plan.layers {
            let at = layer.device;
            let Some(block) = blocks.get(layer.index) else {
                if layer.index + 1 == plan.layers.len() {
                    let device = work.get_mut(at)?;
                    device.weights = device.weights.plus(output(model));
                }
                continue;
            };
            let (here, away) = split(block, layer.elsewhere().0 as f64);
            for (device, share) in shares.elsewhere.iter().enumerate().filter(|_| away.bytes > 0.0) {
                let device = work.get_mut(device)?;
                device.weights = device.weights.plus(away.times(*share));
            }
            // memory that the GPU shares is not waited for
            if away.bytes > 0.0 && machine.gpus.get(at).is_none_or(|gpu| !gpu.integrated) {
                synced += shares.elsewhere.get(cpu).copied().unwrap_or(0.0);
            }
            work.get_mut(if shares.cache_in_ram { cpu } else { at })?.cache += block.cache;
            let device = work.get_mut(at)?;
            device.weights = device.weights.plus(here);
            device.layers += 1.0;
            device.busy += if block.busy { 1.0 } else { 0.0 };
        }
        let ram = ram(machine);
        for (index, device) in work.iter_mut().enumerate() {
            let idle = device.weights.bytes == 0.0 && device.cache == 0.0;
            if plan.devices.get(index).is_some_and(|device| device.kind == DeviceKind::Gpu) && !idle {
                let known = known(machine.gpus.get(index)?)?;
                (device.family, device.bandwidth) = (known.family, known.bandwidth);
            } else {
                device.bandwidth = ram.unwrap_or(assumed.bandwidth);
                if machine.ram.bandwidth.is_none() {
                    let cards = machine.gpus.iter().filter_map(known);
                    device.cards = cards.map(|card| (card.family, card.bandwidth)).collect();
                }
            }
        }
        let disk = DiskReads::of(plan, machine, work.get(cpu).map_or(0.0, |ram| ram.weights.bytes));
        work.retain(|device| device.weights.bytes > 0.0 || device.cache > 0.0);
        let gpus = work.iter().filter(|device| device.family != Family::Cpu).count();
        let in_ram = work.iter().any(|device| device.family == Family::Cpu);
        Some(Self {
            devices: work,
            hops: gpus.saturating_sub(1) as f64,
            synced,
            assumed: (in_ram && ram.is_none()).then_some(assumed),
            disk,
        })
    }

    /// That of a Mac's GPU alone with MLX.
    fn of_mlx(plan: &Plan, reads: mlx_work::MlxReads) -> Option<Self> {
        let mlx_work::MlxReads { bandwidth, weights, cache, layers, busy } = reads;
        let device = DeviceWork {
            id: plan.devices.first()?.id.clone(),
            family: Family::Mlx,
            bandwidth,
            weights: Weights { bytes: weights, ..Weights::default() },
            cache,
            layers,
            busy,
            flash: true,
            cards: Vec::new(),
        };
        Some(Self { devices: vec![device], hops: 0.0, synced: 0.0, assumed: None, disk: None })
    }

    /// The class of its errors.
    pub fn class(&self) -> Class {
        let on_gpus = self.devices.iter().find(|device| device.family != Family::Cpu);
        match on_gpus {
            None => Class::Cpu,
            _ if self.assumed.is_some() => Class::RamAssumed,
            Some(_) if self.devices.iter().any(|device| device.family == Family::Cpu) => Class::Ram,
            Some(_) if self.devices.len() > 1 => Class::SeveralGpus,
            Some(device) => Class::of_one(device.family),
        }
    }

    /// Seconds per token. The arithmetic of a CPU counts if its threads are given.
    pub fn seconds(&self, constants: &Constants, threads: Option<f64>) -> f64 {
        let devices: f64 = self.devices.iter().map(|device| device.seconds(constants, threads)).sum();
        let disk = self.disk.as_ref().map_or(0.0, DiskReads::seconds);
        devices + self.hops * self.hop(constants) + self.synced * constants.sync + disk
    }

    /// Seconds to hand a token from one card to the next.
    pub fn hop(&self, constants: &Constants) -> f64 {
        self.devices.first().map_or(0.0, |device| constants.of(device.family).hop)
    }

    /// The same with `factor` times the bandwidth of RAM, as if that were stated.
    #[must_use]
    pub fn with_ram(mut self, factor: f64) -> Self {
        for device in self.devices.iter_mut().filter(|device| device.family == Family::Cpu) {
            device.bandwidth = device.bandwidth.times(factor);
            device.cards.clear();
        }
        self
    }
}

impl DeviceWork {
    /// Seconds per token. The arithmetic of a CPU counts if its threads are given.
    pub fn seconds(&self, constants: &Constants, threads: Option<f64>) -> f64 {
        self.weights_seconds(constants, threads)
            + self.cache_seconds(constants)
            + self.layers_seconds(constants)
            + self.busy_seconds(constants)
    }

    /// The same work on each card that it is not taken to be faster than.
    pub fn on_cards(&self) -> impl Iterator<Item = Self> + '_ {
        let on =
            |&(family, bandwidth): &(Family, Bandwidth)| Self { family, bandwidth, cards: Vec::new(), ..self.clone() };
        self.cards.iter().map(on)
    }

    /// Where a part of the work takes longest: itself, or a card that it is not taken to be faster than.
    #[must_use]
    pub fn slowest(&self, seconds: impl Fn(&Self) -> f64) -> Self {
        let own = Self { cards: Vec::new(), ..self.clone() };
        self.on_cards().fold(own, |slowest, card| if seconds(&card) > seconds(&slowest) { card } else { slowest })
    }

    /// Reading the weights, or on a CPU with this many threads the arithmetic if that takes longer.
    pub fn weights_seconds(&self, constants: &Constants, threads: Option<f64>) -> f64 {
        self.longest(|device| {
            let share = constants.of(device.family).weights;
            let read = device.weights.bytes / (share * device.bandwidth.per_second());
            let threads = threads.filter(|_| device.family == Family::Cpu);
            threads.map_or(read, |threads| read.max(device.weights.thread_seconds / threads))
        })
    }

    /// The share of the bandwidth at which the cache is read.
    pub fn cache_efficiency(&self, constants: &Constants) -> f64 {
        let constants = constants.of(self.family);
        if self.flash { constants.cache_flash } else { constants.cache_plain }
    }

    /// Reading the cache.
    pub fn cache_seconds(&self, constants: &Constants) -> f64 {
        self.longest(|device| device.cache / (device.cache_efficiency(constants) * device.bandwidth.per_second()))
    }

    /// Launching the operations of its layers.
    pub fn layers_seconds(&self, constants: &Constants) -> f64 {
        self.longest(|device| device.layers * constants.of(device.family).layer)
    }

    /// The further operations of experts and recurrent states.
    pub fn busy_seconds(&self, constants: &Constants) -> f64 {
        self.longest(|device| device.busy * constants.of(device.family).busy)
    }

    fn longest(&self, seconds: impl Fn(&Self) -> f64) -> f64 {
        self.on_cards().map(|card| seconds(&card)).fold(seconds(self), f64::max)
    }
}

/// The bandwidth of RAM: as stated, or that of an integrated GPU.
fn ram(machine: &Machine) -> Option<Bandwidth> {
    let shared = || {
        let known = machine.gpus.iter().filter(|gpu| gpu.integrated).find_map(known)?;
        Some(if known.family.is_metal() { known.bandwidth.min(APPLE_CPU) } else { known.bandwidth })
    };
    machine.ram.bandwidth.or_else(shared)
}

/// What a token reads of a block's weights on its device, and of the `elsewhere` bytes that are not there. Experts are
/// the first to be elsewhere.
pub(super) fn split(block: &BlockReads, elsewhere: f64) -> (Weights, Weights) {
    let share = |part: f64, whole: f64| if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
    let experts = share(elsewhere, block.experts.bytes);
    let dense = share(elsewhere - block.experts.bytes, block.dense.bytes);
    let read = block.experts.times(block.used);
    let away = read.times(experts).plus(block.dense.times(dense));
    (read.times(1.0 - experts).plus(block.dense.times(1.0 - dense)), away)
}

/// Where a plan has what is not on the device of its layer.
struct Shares {
    /// The share of the weights that are elsewhere, per device.
    elsewhere: Vec<f64>,
    /// Whether the caches are in RAM although their layers are not.
    cache_in_ram: bool,
}

impl Shares {
    fn of(plan: &Plan) -> Self {
        let total: f64 = plan.layers.iter().map(|layer| layer.elsewhere().0 as f64).sum();
        let mut elsewhere: Vec<f64> = plan
            .devices
            .iter()
            .enumerate()
            .map(|(index, device)| {
                let own = plan.layers.iter().filter(|layer| layer.device == index);
                let own: f64 = own.map(|layer| layer.weights.0 as f64 - layer.elsewhere().0 as f64).sum();
                let share = (device.weights.0 as f64 - own) / total;
                // alignment is not a part of a layer
                if device.kind == DeviceKind::Gpu && share > 0.01 { share.min(1.0) } else { 0.0 }
            })
            .collect();
        let on_gpus: f64 = elsewhere.iter().sum();
        if let Some(cpu) = elsewhere.last_mut() {
            *cpu = (1.0 - on_gpus).max(0.0);
        }
        let on_gpus = plan.gpus().iter().any(|gpu| gpu.cache.0 > 0);
        Self { elsewhere, cache_in_ram: plan.totals.cache.0 > 0 && !on_gpus }
    }
}

/// Weights to read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weights {
    /// In bytes.
    pub bytes: f64,
    /// How many numbers.
    pub elements: f64,
    /// What their arithmetic takes one thread of a CPU, in seconds; zero for types that memory limits.
    pub thread_seconds: f64,
}

impl Weights {
    /// All of these tensors.
    pub fn of<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> Self {
        tensors.fold(Self::default(), |sum, tensor| {
            let elements: f64 = tensor.dims.iter().map(|&dim| dim as f64).product();
            sum.plus(Self {
                bytes: tensor.bytes.0 as f64,
                elements,
                thread_seconds: rate(tensor.ty).map_or(0.0, |rate| elements / (rate * 1e9)),
            })
        })
    }

    /// Both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            elements: self.elements + other.elements,
            thread_seconds: self.thread_seconds + other.thread_seconds,
        }
    }

    /// This share of them.
    #[must_use]
    pub fn times(self, share: f64) -> Self {
        Self { bytes: self.bytes * share, elements: self.elements * share, thread_seconds: self.thread_seconds * share }
    }
}

/// What one block reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockReads {
    /// Everything but the experts.
    pub dense: Weights,
    /// All experts.
    pub experts: Weights,
    /// The share of the experts that a token uses.
    pub used: f64,
    /// Its part of the cache, in bytes: keys and values, and a state both read and written.
    pub cache: f64,
    /// Whether it has experts or a recurrent state, and so more steps than others.
    pub busy: bool,
}

/// The reads of every block that generates tokens, at this depth; blocks for drafting are left out.
pub fn blocks(model: &Model, hparams: &Hparams, effect: &InEffect, depth: u64) -> Vec<BlockReads> {
    (0..hparams.n_layer()).map(|il| block(model, hparams, effect, depth, il)).collect()
}

fn block(model: &Model, hparams: &Hparams, effect: &InEffect, depth: u64, il: usize) -> BlockReads {
    let tensors = model.tensors(TensorGroup::Block(hparams.weight_block(il)));
    let (experts, dense): (Vec<_>, Vec<_>) = tensors.partition(|tensor| is_expert(&tensor.name));
    let experts = Weights::of(experts.into_iter());
    let used = hparams.n_expert_used.get(il).copied().unwrap_or(0) as f64 / hparams.n_expert.max(1) as f64;
    let recurrent = hparams.is_recr.get(il).copied().unwrap_or(false);
    BlockReads {
        dense: Weights::of(dense.into_iter()),
        experts,
        used: used.min(1.0),
        cache: attention(hparams, effect, depth, il) + if recurrent { state(hparams) } else { 0.0 },
        busy: recurrent || experts.bytes > 0.0,
    }
}

/// Weights of the output layer: with tied embeddings, the whole table.
pub fn output(model: &Model) -> Weights {
    Weights::of(model.output_tensors())
}

/// `ffn_up_exps`, or in old files `ffn_up.3`.
fn is_expert(name: &str) -> bool {
    let mut parts = name.as_bytes().split(|byte| *byte == b'.').skip(2);
    let (tensor, next) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    tensor.ends_with(b"_exps") || tensor.starts_with(b"ffn_") && next.iter().all(u8::is_ascii_digit) && !next.is_empty()
}

/// Bytes of keys and values that a token attends to. A block that shares the cache of an earlier one reads it again.
fn attention(hparams: &Hparams, effect: &InEffect, depth: u64, il: usize) -> f64 {
    if hparams.reads_only || !hparams.attends.get(il).copied().unwrap_or(false) {
        return 0.0;
    }
    let windowed = hparams.is_swa.get(il).copied().unwrap_or(false);
    let tokens = hparams.n_swa.filter(|_| windowed).map_or(depth, |window| depth.min(window));
    let row = |ty: CacheType, elements: u64| {
        let format = ty.format();
        elements as f64 * format.block_bytes() as f64 / format.block() as f64
    };
    // V is a part of MLA's latent K
    let v = if hparams.mla.is_some() { 0 } else { hparams.v_gqa(il) };
    tokens as f64 * (row(effect.cache_type_k, hparams.k_gqa(il)) + row(effect.cache_type_v, v))
}

/// Bytes of a block's recurrent state, read and written.
fn state(hparams: &Hparams) -> f64 {
    let elements = hparams.n_embd_r() + hparams.n_embd_s();
    2.0 * 4.0 * elements as f64
}

/// Weights of a type that one thread of a CPU multiplies per second, in 10^9; none for types that memory limits.
/// Source: batches of one token with few threads, as two public comparisons of llama.cpp's quantisations print them
/// (Apple M2 Max with four threads, Ryzen 9 7950X with two; the mean of both). Types that they leave out are given the
/// rate of the nearest size.
const fn rate(ty: GgmlType) -> Option<f64> {
    Some(match ty {
        GgmlType::Q4_0 | GgmlType::Mxfp4 => 46.0,
        GgmlType::Q4K => 36.0,
        GgmlType::Iq4Xs | GgmlType::Iq4Nl => 32.0,
        GgmlType::Q5K | GgmlType::Q6K | GgmlType::Q3K | GgmlType::Q2K => 27.0,
        GgmlType::Iq2Xxs | GgmlType::Iq2Xs | GgmlType::Iq2S | GgmlType::Iq1S | GgmlType::Iq1M => 19.0,
        GgmlType::Iq3Xxs => 15.0,
        GgmlType::Iq3S => 13.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experts_are_told_by_name() {
        for (name, expert) in [
            ("blk.0.ffn_up_exps.weight", true),
            ("blk.0.ffn_gate.7.weight", true),
            ("blk.0.ffn_up_shexp.weight", false),
            ("blk.0.ffn_gate_inp.weight", false),
            ("blk.0.ffn_up.weight", false),
            ("blk.0.attn_q.weight", false),
        ] {
            assert_eq!(is_expert(name), expert, "{name}");
        }
    }
}
