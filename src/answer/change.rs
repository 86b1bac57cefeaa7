//! Single changes that bring layers onto GPUs; each that is proposed was planned by the engine and works.

use std::collections::HashMap;
use std::fmt;

use super::Goal;
use super::search::{Reversed, Search};
use crate::engine::PlanRequest;
use crate::gguf::FileType;
use crate::machine::{Gpu, Machine};
use crate::plan::Plan;
use crate::settings::knob::Knob;
use crate::settings::{CacheType, Context, FlashAttn, GpuLayers, InEffect, Settings};
use crate::units::{Bytes, Tokens};

/// One change of one knob, of the model's quantisation, or of what is free on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A smaller context, in tokens.
    Context(u64),
    /// Another format of the KV cache.
    Cache(CacheType),
    /// Another format of the KV cache together with the flash attention that it needs.
    CacheWithFlash(CacheType),
    /// Flash attention on.
    FlashAttn,
    /// Fewer sequences at once.
    Parallel(u64),
    /// A smaller batch, in tokens.
    Batch(u64),
    /// The model in a smaller quantisation.
    Quantisation(FileType),
    /// Another request for layers on GPUs.
    GpuLayers(GpuLayers),
    /// So much of a GPU's memory, which something else holds now, is freed.
    Free {
        /// Index into [`Machine::gpus`].
        gpu: usize,
        /// How much.
        bytes: Bytes,
    },
    /// A GPU has so much more memory, all of it free.
    MoreMemory {
        /// Index into [`Machine::gpus`].
        gpu: usize,
        /// How much.
        bytes: Bytes,
    },
}

impl Change {
    /// Makes the change, as far as it is one of settings or machine; a [`Change::Quantisation`] is one of the model.
    pub fn apply(&self, settings: &mut Settings, machine: &mut Machine) {
        let mut gpu =
            |index: usize, change: &dyn Fn(&mut Gpu)| machine.gpus.get_mut(index).into_iter().for_each(change);
        match *self {
            Self::Context(tokens) => settings.ctx = Context::Tokens(tokens),
            Self::Cache(ty) => (settings.cache_type_k, settings.cache_type_v) = (Some(ty), Some(ty)),
            Self::CacheWithFlash(ty) => {
                (settings.cache_type_k, settings.cache_type_v) = (Some(ty), Some(ty));
                settings.flash_attn = FlashAttn::On;
            }
            Self::FlashAttn => settings.flash_attn = FlashAttn::On,
            Self::Parallel(sequences) => settings.parallel = Some(sequences),
            Self::Batch(tokens) => settings.batch = Some(tokens),
            Self::Quantisation(_) => {}
            Self::GpuLayers(layers) => settings.gpu_layers = layers,
            Self::Free { gpu: index, bytes } => gpu(index, &|gpu| gpu.free = (gpu.free + bytes).min(gpu.total)),
            Self::MoreMemory { gpu: index, bytes } => gpu(index, &|gpu| {
                gpu.total += bytes;
                gpu.free += bytes;
            }),
        }
    }

    /// What is turned: the name of the knob or of `quant` on the command line, `free` or `memory`.
    pub const fn knob(&self) -> &'static str {
        match self {
            Self::Context(_) => Knob::Context.name(),
            Self::Cache(_) | Self::CacheWithFlash(_) => Knob::CacheType.name(),
            Self::FlashAttn => Knob::FlashAttn.name(),
            Self::Parallel(_) => Knob::Parallel.name(),
            Self::Batch(_) => Knob::Batch.name(),
            Self::Quantisation(_) => "quant",
            Self::GpuLayers(_) => Knob::GpuLayers.name(),
            Self::Free { .. } => "free",
            Self::MoreMemory { .. } => "memory",
        }
    }

    /// The options that make this change on the command line; none where it is a change of the machine.
    pub fn options(&self) -> Option<String> {
        Some(match *self {
            Self::Context(tokens) => format!("--ctx {tokens}"),
            Self::Cache(ty) => format!("--kv-type {ty}"),
            Self::CacheWithFlash(ty) => format!("--kv-type {ty} --flash-attn on"),
            Self::FlashAttn => "--flash-attn on".to_owned(),
            Self::Parallel(sequences) => format!("--parallel {sequences}"),
            Self::Batch(tokens) => format!("--batch {tokens}"),
            Self::Quantisation(to) => format!("--quant {to}"),
            Self::GpuLayers(layers) => match layers.word() {
                Ok(count) => format!("--gpu-layers {count}"),
                Err(word) => format!("--gpu-layers {word}"),
            },
            Self::Free { .. } | Self::MoreMemory { .. } => return None,
        })
    }
}

/// As it reads at the beginning of "… keeps all of it on the GPU".
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Context(tokens) => write!(f, "a context of {}", Tokens(tokens)),
            Self::Cache(ty) => write!(f, "a {ty} cache"),
            Self::CacheWithFlash(ty) => write!(f, "a {ty} cache with flash attention"),
            Self::FlashAttn => write!(f, "flash attention"),
            Self::Parallel(1) => write!(f, "1 parallel sequence"),
            Self::Parallel(sequences) => write!(f, "{sequences} parallel sequences"),
            Self::Batch(tokens) => write!(f, "a batch of {}", Tokens(tokens)),
            Self::Quantisation(to) => write!(f, "{to} quantisation"),
            Self::GpuLayers(GpuLayers::Auto) => write!(f, "GPU layers set to auto"),
            Self::GpuLayers(GpuLayers::All) => write!(f, "GPU layers set to all"),
            Self::GpuLayers(GpuLayers::Count(layers)) => write!(f, "GPU layers set to {layers}"),
            Self::Free { gpu, bytes } => write!(f, "freeing {bytes} on GPU{gpu}"),
            Self::MoreMemory { gpu, bytes } => write!(f, "{bytes} more memory on GPU{gpu}"),
        }
    }
}

/// How far the search for more memory goes on one GPU, in MiB.
const MAX_EXTRA_MIB: u64 = 1 << 22;
/// So many GPUs are tried with more memory, different ones first.
const MAX_GPUS_TRIED: usize = 8;

impl PlanRequest {
    /// The smallest single change of each knob that makes `plan`, which is this request's, meet `goal`. Empty when it is met
    /// already, or when no single change does it.
    pub fn changes(&self, plan: &Plan, goal: Goal) -> Vec<Change> {
        if goal.is_met_by(plan) || self.machine.gpus.is_empty() {
            return Vec::new();
        }
        let effect = &plan.settings;
        let mut changes: Vec<Change> = self.other_request(plan, goal).into_iter().collect();
        let lower = |knob, value| self.largest_below(knob, goal, value).map(|largest| largest.value);
        changes.extend(lower(Knob::Context, effect.ctx).map(Change::Context));
        changes.extend(self.other_formats(effect, goal));
        changes.extend(lower(Knob::Parallel, effect.parallel).map(Change::Parallel));
        changes.extend(lower(Knob::Batch, effect.batch).map(Change::Batch));
        let smaller = self.largest_quantisation_below(goal, self.model.bytes).found;
        changes.extend(smaller.map(|(to, _)| Change::Quantisation(to)));
        changes.extend(self.more_memory(goal));
        changes
    }

    /// Whether `goal` is met after `change`.
    pub fn works(&self, change: &Change, goal: Goal) -> bool {
        self.after_in_short(change).is_some_and(|after| after.meets(goal))
    }

    /// The widest narrower cache, and flash attention, each if it suffices; both together only where neither does.
    pub(super) fn other_formats(&self, effect: &InEffect, goal: Goal) -> Vec<Change> {
        let narrower = [CacheType::Q8_0, CacheType::Q4_0]
            .into_iter()
            .filter(|ty| width(*ty) < width(effect.cache_type_k).max(width(effect.cache_type_v)));
        let works = |change: &Change| self.works(change, goal);
        let flash_can_change = effect.flash_attn != FlashAttn::On;
        let mut found: Vec<_> = narrower.clone().map(Change::Cache).find(works).into_iter().collect();
        found.extend(Some(Change::FlashAttn).filter(|_| flash_can_change).filter(works));
        if found.is_empty() && flash_can_change {
            found.extend(narrower.map(Change::CacheWithFlash).find(works));
        }
        found
    }

    /// Where a number of layers was asked for: leaving it to the engine, else asking for enough.
    fn other_request(&self, plan: &Plan, goal: Goal) -> Option<Change> {
        if self.settings.gpu_layers == GpuLayers::Auto {
            return None;
        }
        let wanted = match goal {
            Goal::All => None,
            Goal::AtLeast(layers) => Some(layers as u64),
            // they are counted from the back, with or without the output layer
            Goal::Layer(index) => (plan.layers.len() as u64).checked_sub(index as u64 + 1),
        };
        let counts = wanted.into_iter().flat_map(|count| [count, count + 1]).map(GpuLayers::Count);
        let requests = [GpuLayers::Auto].into_iter().chain(counts).chain([GpuLayers::All]);
        requests.map(Change::GpuLayers).find(|change| self.works(change, goal))
    }

    /// The least memory, in whole MiB, that one GPU alone would have to have more of; the GPU that needs least.
    fn more_memory(&self, goal: Goal) -> Option<Change> {
        let gpus = &self.machine.gpus;
        let is_new = |index: usize| gpus.get(index).is_some_and(|gpu| !gpus.iter().take(index).any(|one| one == gpu));
        let mut candidates: Vec<usize> = (0..gpus.len()).collect();
        candidates.sort_by_key(|&index| !is_new(index));
        let mut least: Option<(usize, u64)> = None;
        for gpu in candidates.into_iter().take(MAX_GPUS_TRIED) {
            let mut more = MoreMemory { request: self, gpu, goal, seen: HashMap::new() };
            let found = match least {
                // where less is enough, so is a little less
                Some((_, mib)) => more.least_up_to(mib - 1),
                // GPUs alike are given shares that may differ
                None if is_new(gpu) || !self.settings.tensor_split.is_empty() => more.least(),
                None => None,
            };
            least = found.map(|mib| (gpu, mib)).or(least);
        }
        let (gpu, mib) = least?;
        self.memory(gpu, mib)
    }

    /// So many MiB more on a GPU: freed where something else holds them.
    fn memory(&self, gpu: usize, mib: u64) -> Option<Change> {
        let card = self.machine.gpus.get(gpu)?;
        let bytes = Bytes::mib(mib);
        let in_use = card.total - card.free;
        Some(if bytes <= in_use { Change::Free { gpu, bytes } } else { Change::MoreMemory { gpu, bytes } })
    }
}

/// More memory on one GPU, tried out. An engine may choose other knobs by the memory that there is, and then need more
/// of it; by the same knobs, more memory is taken never to hold less.
struct MoreMemory<'a> {
    request: &'a PlanRequest,
    gpu: usize,
    goal: Goal,
    /// For so many MiB, whether the goal is met, and the knobs in effect, the context by its magnitude.
    seen: HashMap<u64, (bool, Option<InEffect>)>,
}

impl MoreMemory<'_> {
    fn at(&mut self, mib: u64) -> (bool, Option<InEffect>) {
        let Self { request, gpu, goal, ref mut seen } = *self;
        let find = || {
            let summary = request.after_in_short(&request.memory(gpu, mib)?)?.summary(goal.fit_goal()).ok()?;
            Some((goal.is_met_in(&summary), Some(magnitudes(summary.settings))))
        };
        seen.entry(mib).or_insert_with(|| find().unwrap_or_default()).clone()
    }

    /// The least that is enough.
    fn least(&mut self) -> Option<u64> {
        let mut low = 0;
        for high in (0..=MAX_EXTRA_MIB.ilog2()).map(|power| 1 << power) {
            if let Some(found) = self.least_between(low, high) {
                return Some(found);
            }
            low = high;
        }
        None
    }

    /// The least that is enough, if `most` is.
    fn least_up_to(&mut self, most: u64) -> Option<u64> {
        if most > 0 && self.meets(most) { self.least_between(0, most) } else { None }
    }

    /// The least above `low`, which is not enough, up to `high`.
    fn least_between(&mut self, low: u64, high: u64) -> Option<u64> {
        Reversed { search: self, last: high }.last_met_between(0, high - low).map(|less| high - less)
    }
}

impl Search for MoreMemory<'_> {
    type Rules = Option<InEffect>;

    fn rules(&mut self, mib: u64) -> Option<InEffect> {
        self.at(mib).1
    }

    fn meets(&mut self, mib: u64) -> bool {
        self.at(mib).0
    }
}

/// A fit may lower the context by the MiB; what counts here is where an engine chooses another one altogether.
fn magnitudes(mut effect: InEffect) -> InEffect {
    effect.ctx = effect.ctx.checked_ilog2().map_or(0, u64::from);
    (effect.ctx_total, effect.ctx_per_sequence) = (0, 0);
    effect
}

/// Bits per element, roughly: only the order matters.
pub(super) const fn width(ty: CacheType) -> u32 {
    match ty {
        CacheType::F32 => 32,
        CacheType::F16 | CacheType::Bf16 => 16,
        CacheType::Q8_0 => 8,
        CacheType::Q5_1 | CacheType::Q5_0 => 5,
        CacheType::Q4_1 | CacheType::Q4_0 | CacheType::Iq4Nl => 4,
    }
}
