//! Single changes that bring layers onto GPUs. Each proposed change was planned by the engine and meets the goal.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use super::search::{Reversed, Search};
use super::{Goal, quality};
use crate::engine::PlanRequest;
use crate::gguf::FileType;
use crate::machine::{Gpu, Machine};
use crate::plan::{Plan, headrooms};
use crate::settings::knob::Knob;
use crate::settings::{CacheType, Context, FlashAttn, GpuLayers, InEffect, MmprojDevice, Settings};
use crate::speed::prompt::{self, PromptSpeed};
use crate::units::{Bytes, Tokens};

/// One change of one knob, of the model's quantisation, or of one GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A smaller context, in tokens.
    Context(u64),
    /// Another type of the KV cache.
    Cache(CacheType),
    /// Another type of the KV cache, with the flash attention that it needs.
    CacheWithFlash(CacheType),
    /// Flash attention on.
    FlashAttn,
    /// Fewer parallel sequences.
    Parallel(u64),
    /// A smaller batch, in tokens.
    Batch(u64),
    /// The model in a smaller quantisation.
    Quantisation(FileType),
    /// Another number of GPU layers.
    GpuLayers(GpuLayers),
    /// The experts of this many layers in RAM.
    CpuMoe(u64),
    /// The projector in RAM.
    ProjectorInRam,
    /// Memory in use by something else on a GPU is freed.
    Free {
        /// Index into [`Machine::gpus`].
        gpu: usize,
        /// How much.
        bytes: Bytes,
    },
    /// A GPU has more memory, all of it free.
    MoreMemory {
        /// Index into [`Machine::gpus`].
        gpu: usize,
        /// How much.
        bytes: Bytes,
    },
}

impl Change {
    /// Applies a change of settings or machine; [`Change::Quantisation`] changes the model and does nothing here.
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
            Self::CpuMoe(layers) => Knob::CpuMoe.set(settings, layers),
            Self::ProjectorInRam => settings.mmproj.device = MmprojDevice::Cpu,
            Self::Free { gpu: index, bytes } => gpu(index, &|gpu| gpu.free = (gpu.free + bytes).min(gpu.total)),
            Self::MoreMemory { gpu: index, bytes } => gpu(index, &|gpu| {
                gpu.total += bytes;
                gpu.free += bytes;
            }),
        }
    }

    /// The name of what is changed: the knob's on the command line, `quant`, `free` or `memory`.
    pub const fn knob(&self) -> &'static str {
        match self {
            Self::Context(_) => Knob::Context.name(),
            Self::Cache(_) | Self::CacheWithFlash(_) => Knob::CacheType.name(),
            Self::FlashAttn => Knob::FlashAttn.name(),
            Self::Parallel(_) => Knob::Parallel.name(),
            Self::Batch(_) => Knob::Batch.name(),
            Self::Quantisation(_) => "quant",
            Self::GpuLayers(_) => Knob::GpuLayers.name(),
            Self::CpuMoe(_) => Knob::CpuMoe.name(),
            Self::ProjectorInRam => Knob::MmprojDevice.name(),
            Self::Free { .. } => "free",
            Self::MoreMemory { .. } => "memory",
        }
    }

    /// What it costs the user who has the plan `now` and then has `then`; none where the plans' speeds say it all.
    pub fn cost(&self, now: (&PlanRequest, &Plan), then: (&PlanRequest, &Plan)) -> Option<String> {
        let costs = [self.own_cost(now.1, then.1), slower_prompts(now, then)];
        costs.into_iter().flatten().reduce(|one, other| format!("{one}, and {other}"))
    }

    fn own_cost(&self, now: &Plan, then: &Plan) -> Option<String> {
        let (before, after) = (&now.settings, &then.settings);
        match *self {
            Self::Context(_) => {
                let lost = before.ctx.checked_sub(after.ctx).filter(|lost| *lost > 0)?;
                Some(format!("{} of {} tokens of context are given up", Tokens(lost), Tokens(before.ctx)))
            }
            Self::Cache(ty) | Self::CacheWithFlash(ty) => {
                let (k, v) = (before.cache_type_k, before.cache_type_v);
                let [from, to] = [quality::of_caches(k, v), quality::of_caches(ty, ty)];
                let much = if quality::is_small(to) { "a little" } else { "much" };
                (to > from).then(|| format!("the KV cache is {much} less precise: {ty} instead of {k}"))
            }
            Self::Parallel(to) => Some(format!("{to} instead of {} requests at once", before.parallel)),
            Self::Batch(_) => {
                let fewer = after.ubatch < before.ubatch;
                fewer
                    .then(|| format!("prompts are read {} tokens at a time instead of {}", after.ubatch, before.ubatch))
            }
            Self::Quantisation(to) => {
                let name = now.model.file_type.as_deref()?;
                let loss = quality::of_weights(to);
                let resort = if quality::is_last_resort(loss) { ", a last resort" } else { "" };
                Some(format!("weights are less precise: {to} instead of {name}{resort}"))
            }
            Self::ProjectorInRam => Some("images are read by the CPU".to_owned()),
            Self::FlashAttn | Self::GpuLayers(_) | Self::CpuMoe(_) | Self::Free { .. } | Self::MoreMemory { .. } => {
                None
            }
        }
    }

    /// The command line options that make this change; `None` for a change of the machine.
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
            Self::CpuMoe(layers) => format!("--n-cpu-moe {layers}"),
            Self::ProjectorInRam => "--no-mmproj-offload".to_owned(),
            Self::Free { .. } | Self::MoreMemory { .. } => return None,
        })
    }
}

/// A phrase to put before "keeps all layers on the GPU".
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
            Self::CpuMoe(1) => write!(f, "the experts of 1 layer in RAM"),
            Self::CpuMoe(layers) => write!(f, "the experts of {layers} layers in RAM"),
            Self::ProjectorInRam => write!(f, "the projector in RAM"),
            Self::Free { gpu, bytes } => write!(f, "freeing {bytes} on GPU{gpu}"),
            Self::MoreMemory { gpu, bytes } => write!(f, "{bytes} more memory on GPU{gpu}"),
        }
    }
}

/// How much longer prompts take, where that is known and shows: `prompts take about 3.1 times as long`.
fn slower_prompts(now: (&PlanRequest, &Plan), then: (&PlanRequest, &Plan)) -> Option<String> {
    // the same prompt, which both contexts hold
    let tokens = prompt::LONG.min(now.1.settings.ctx_per_sequence).min(then.1.settings.ctx_per_sequence);
    let of = |(request, plan): (&PlanRequest, &Plan)| {
        let speed = PromptSpeed::of(&request.model, &request.machine, plan, 0, tokens.max(1));
        speed.ok().map(|speed| speed.tokens_per_second)
    };
    let times = of(now)? / of(then)?;
    (times >= NOTABLY_SLOWER).then(|| format!("prompts take about {times:.1} times as long"))
}

/// From here on slower prompts are said.
const NOTABLY_SLOWER: f64 = 1.1;

/// The kinds of changes, in the order in which they are tried and shown: what costs least first.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChangeKind {
    GpuLayers,
    Experts,
    Projector,
    CacheTypes,
    Parallel,
    Context,
    Batch,
    Quantisation,
    Memory,
}

impl ChangeKind {
    const ALL: [Self; 9] = [
        Self::GpuLayers,
        Self::Experts,
        Self::Projector,
        Self::CacheTypes,
        Self::Parallel,
        Self::Context,
        Self::Batch,
        Self::Quantisation,
        Self::Memory,
    ];
}

/// The smallest context or batch that is advised: llama.cpp rounds a context up to it (`GGML_PAD` of `n_ctx` in
/// `llama-context.cpp`, 0.1.161), and nobody works with less.
pub(super) const LEAST_ADVISED: u64 = 256;

/// Upper limit of the extra memory searched for on one GPU, in MiB.
const MAX_EXTRA_MIB: u64 = 1 << 22;
/// Number of GPUs tried with more memory, distinct ones first.
const MAX_GPUS_TRIED: usize = 8;

impl PlanRequest {
    /// The smallest change of each knob that alone meets `goal`. Empty if `plan`, this request's plan, meets it already,
    /// or if no single change does.
    pub fn changes(&self, plan: &Plan, goal: Goal) -> Vec<Change> {
        self.kinds_of_changes(plan, goal).iter().flat_map(|kind| self.changes_of(*kind, plan, goal)).collect()
    }

    /// The kinds of changes to try.
    pub(super) fn kinds_of_changes(&self, plan: &Plan, goal: Goal) -> &'static [ChangeKind] {
        if goal.is_met_by(plan) || self.machine.gpus.is_empty() { &[] } else { &ChangeKind::ALL }
    }

    /// The smallest changes of one kind.
    pub(super) fn changes_of(&self, kind: ChangeKind, plan: &Plan, goal: Goal) -> Vec<Change> {
        let effect = &plan.settings;
        // with experts in RAM every plan is a long fit: few are asked for, at stops only, the one that needs least first
        let few = self.model.hyper.experts.is_some() && !matches!(goal, Goal::Vram | Goal::VramWith(_));
        let lower = |knob: Knob, value| {
            if few { self.largest_stop_below(knob, goal, value) } else { self.largest_below(knob, goal, value) }
        };
        let one = match kind {
            ChangeKind::GpuLayers => self.other_gpu_layers(plan, goal),
            ChangeKind::Projector => {
                let on_gpu = self.settings.projector.is_some() && self.settings.mmproj.device != MmprojDevice::Cpu;
                Some(Change::ProjectorInRam).filter(|change| on_gpu && self.works(change, goal))
            }
            ChangeKind::Experts => {
                let asked = goal == Goal::AllLayers && self.knobs().contains(&Knob::CpuMoe);
                let set = effect.n_cpu_moe.unwrap_or(0);
                let least = asked.then(|| self.smallest(Knob::CpuMoe, goal)).flatten();
                least.filter(|least| *least > set).map(Change::CpuMoe)
            }
            ChangeKind::Context => {
                lower(Knob::Context, effect.ctx).filter(|ctx| *ctx >= LEAST_ADVISED).map(Change::Context)
            }
            ChangeKind::CacheTypes => return self.other_cache_types(effect, goal),
            ChangeKind::Parallel => lower(Knob::Parallel, effect.parallel).map(Change::Parallel),
            ChangeKind::Batch => {
                lower(Knob::Batch, effect.batch).filter(|batch| *batch >= LEAST_ADVISED).map(Change::Batch)
            }
            ChangeKind::Quantisation if few => {
                let sizes = self.model.quantisations();
                let smaller = sizes.iter().filter(|(_, size)| *size < self.model.bytes).map(|(to, _)| *to);
                let smaller: Vec<_> = smaller.map(Change::Quantisation).collect();
                last_met(&smaller, |change| self.works(change, goal))
            }
            ChangeKind::Quantisation => {
                let smaller = self.largest_quantisation_below(goal, self.model.bytes).found;
                smaller.map(|(to, _)| Change::Quantisation(to))
            }
            ChangeKind::Memory if few => None,
            ChangeKind::Memory => self.more_memory(goal),
        };
        one.into_iter().collect()
    }

    /// The largest stop of `knob` below `value` with which `goal` is met, where a larger value never needs less.
    fn largest_stop_below(&self, knob: Knob, goal: Goal, value: u64) -> Option<u64> {
        let stops = knob.stops(&self.bounds());
        let stops: Vec<u64> = stops.as_slice().iter().copied().filter(|stop| *stop < value).collect();
        last_met(&stops, |stop| self.changed(|settings| knob.set(settings, *stop)).meets(goal))
    }

    /// Whether `goal` is met after `change`.
    pub fn works(&self, change: &Change, goal: Goal) -> bool {
        self.after_without_notes(change).is_some_and(|after| after.meets(goal))
    }

    /// The widest narrower cache type and flash attention, each if it suffices; both together only if neither does.
    pub(super) fn other_cache_types(&self, effect: &InEffect, goal: Goal) -> Vec<Change> {
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

    /// If a number of GPU layers was set: automatic if that suffices, else the lowest number that does.
    fn other_gpu_layers(&self, plan: &Plan, goal: Goal) -> Option<Change> {
        if self.settings.gpu_layers == GpuLayers::Auto {
            return None;
        }
        let wanted = match goal {
            Goal::Vram | Goal::VramWith(_) | Goal::AllLayers => None,
            Goal::AtLeast(layers) => Some(layers as u64),
            // GPU layers count from the last one, with or without the output layer
            Goal::Layer(index) => (plan.layers.len() as u64).checked_sub(index as u64 + 1),
        };
        let counts = wanted.into_iter().flat_map(|count| [count, count + 1]).map(GpuLayers::Count);
        let requests = [GpuLayers::Auto].into_iter().chain(counts).chain([GpuLayers::All]);
        requests.map(Change::GpuLayers).find(|change| self.works(change, goal))
    }

    /// The smallest amount of extra memory, in whole MiB, with which a single GPU meets `goal`.
    fn more_memory(&self, goal: Goal) -> Option<Change> {
        let gpus = &self.machine.gpus;
        let is_distinct =
            |index: usize| gpus.get(index).is_some_and(|gpu| !gpus.iter().take(index).any(|one| one == gpu));
        let mut candidates: Vec<usize> = (0..gpus.len()).collect();
        candidates.sort_by_key(|&index| !is_distinct(index));
        let mut least: Option<(usize, u64)> = None;
        for gpu in candidates.into_iter().take(MAX_GPUS_TRIED) {
            let mut more = MoreMemory { request: self, gpu, goal, seen: HashMap::new() };
            let found = match least {
                // this GPU only matters if it needs less than the best so far
                Some((_, mib)) => more.least_up_to(mib - 1),
                // with a tensor split, identical GPUs can get different shares
                None if is_distinct(gpu) || !self.settings.tensor_split.is_empty() => more.least(),
                None => None,
            };
            least = found.map(|mib| (gpu, mib)).or(least);
        }
        let (gpu, mib) = least?;
        self.memory(gpu, mib)
    }

    /// `mib` more on a GPU: freed if that much is in use, else added.
    fn memory(&self, gpu: usize, mib: u64) -> Option<Change> {
        let card = self.machine.gpus.get(gpu)?;
        let bytes = Bytes::mib(mib);
        let in_use = card.total - card.free;
        Some(if bytes <= in_use { Change::Free { gpu, bytes } } else { Change::MoreMemory { gpu, bytes } })
    }
}

/// Search over extra memory on one GPU. With more memory an engine may choose other knobs and then need more; while the
/// knobs in effect are the same, more memory is assumed never to fit less.
struct MoreMemory<'a> {
    request: &'a PlanRequest,
    gpu: usize,
    goal: Goal,
    /// By extra MiB: how much is left on the GPU if the goal is met, and the knobs in effect as by [`rules`].
    seen: HashMap<u64, (Option<Bytes>, Option<InEffect>)>,
}

impl MoreMemory<'_> {
    fn at(&mut self, mib: u64) -> (Option<Bytes>, Option<InEffect>) {
        let Self { request, gpu, goal, ref mut seen } = *self;
        let find = || {
            let then = request.after_without_notes(&request.memory(gpu, mib)?)?;
            let known = then.preflight().ok().flatten();
            let known_rules = known.as_ref().map(|known| rules(known.settings.clone()));
            if known.is_some_and(|known| known.upper_bound < goal.required_bound()) {
                return Some((None, known_rules));
            }
            let Some(summary) = then.summary(goal.fit_goal()).ok()? else { return Some((None, known_rules)) };
            let above = || headrooms(&summary.devices).get(gpu).map(|headroom| headroom.above().left());
            let left = goal.is_met_in(&summary).then(above);
            Some((left.flatten(), known_rules.or_else(|| Some(rules(summary.settings)))))
        };
        seen.entry(mib).or_insert_with(|| find().unwrap_or_default()).clone()
    }

    /// With experts, whose fits are long: the smallest amount above `low`, which fails, up to `high`, which meets the
    /// goal, as far as no larger amount fails. What is left on the GPU says how much less is enough.
    fn least_in_few_plans(&mut self, mut low: u64, mut high: u64) -> u64 {
        while let Some(left) = self.at(high).0.filter(|left| left.0 >> 20 > 0) {
            let less = high.saturating_sub(left.0 >> 20).max(low + 1);
            if less == high {
                return high;
            }
            if !self.meets(less) {
                low = less;
                break;
            }
            high = less;
        }
        if high - low > 1 && !self.meets(high - 1) {
            return high;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.meets(middle) { high = middle } else { low = middle }
        }
        high
    }

    /// The smallest amount that meets the goal.
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

    /// The smallest amount that meets the goal, if `most` does.
    fn least_up_to(&mut self, most: u64) -> Option<u64> {
        if most > 0 && self.meets(most) { self.least_between(0, most) } else { None }
    }

    /// The smallest amount above `low`, which fails, up to `high`.
    fn least_between(&mut self, low: u64, high: u64) -> Option<u64> {
        if self.request.model.hyper.experts.is_some() {
            return self.meets(high).then(|| self.least_in_few_plans(low, high));
        }
        Reversed { search: self, last: high }.last_met_between(0, high - low).map(|less| high - less)
    }
}

impl Search for MoreMemory<'_> {
    type Rules = Option<InEffect>;

    fn rules(&mut self, mib: u64) -> Option<InEffect> {
        self.at(mib).1
    }

    fn meets(&mut self, mib: u64) -> bool {
        self.at(mib).0.is_some()
    }
}

/// The knobs in effect without what may change with every MiB of memory: the context, to which a fit adds, is rounded
/// down to a power of two, and who chose a value is left out, as that is told with the memory.
fn rules(mut effect: InEffect) -> InEffect {
    effect.ctx = effect.ctx.checked_ilog2().map_or(0, u64::from);
    effect.sources.clear();
    (effect.ctx_total, effect.ctx_per_sequence) = (0, 0);
    effect
}

/// The last of `ascending` that meets a goal, if those before it do.
fn last_met<T: Copy>(ascending: &[T], meets: impl Fn(&T) -> bool) -> Option<T> {
    let (first, others) = ascending.split_first()?;
    meets(first).then(|| others.get(..others.partition_point(&meets)).and_then(<[T]>::last).copied().unwrap_or(*first))
}

/// Approximate bits per element; only the order matters.
pub(super) const fn width(ty: CacheType) -> u32 {
    match ty {
        CacheType::F32 => 32,
        CacheType::F16 | CacheType::Bf16 => 16,
        CacheType::Q8_0 => 8,
        CacheType::Q5_1 | CacheType::Q5_0 => 5,
        CacheType::Q4_1 | CacheType::Q4_0 | CacheType::Iq4Nl => 4,
    }
}

/// The types that every engine offers, widest first.
const TYPES: [CacheType; 3] = [CacheType::F16, CacheType::Q8_0, CacheType::Q4_0];

/// What one type of the KV cache takes, with context, sequences and layers on GPUs as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CacheTypeCost {
    /// The type of K and V.
    pub cache_type: CacheType,
    /// Caches on all devices.
    pub cache: Bytes,
    /// Compute buffers of all devices.
    pub graph: Bytes,
    /// The same two with the types in force.
    in_force: (Bytes, Bytes),
}

impl CacheTypeCost {
    /// `saves 4.1 GiB of cache, costs 1.0 GiB of copies`; none for a type that saves nothing against those in force.
    pub fn against_in_force(&self) -> Option<String> {
        let (cache, graph) = self.in_force;
        let (saved, copies) = (cache - self.cache, self.graph - graph);
        let copies = if copies > Bytes::ZERO { format!(", costs {copies} of copies") } else { String::new() };
        (saved > Bytes::ZERO).then(|| format!("saves {saved} of cache{copies}"))
    }
}

impl PlanRequest {
    /// What each type takes; `plan` is this request's plan. A type that the engine refuses is left out; empty without a
    /// cache.
    pub fn cache_type_costs(&self, plan: &Plan) -> Vec<CacheTypeCost> {
        let totals = |k, v| {
            let totals = self
                .plan_with(|settings| {
                    settings.ctx = Context::Tokens(plan.settings.ctx);
                    settings.gpu_layers = GpuLayers::Count(plan.offloaded as u64);
                    (settings.cache_type_k, settings.cache_type_v) = (Some(k), Some(v));
                })?
                .totals;
            Some((totals.cache, totals.graph))
        };
        let now = (plan.settings.cache_type_k, plan.settings.cache_type_v);
        let Some(in_force) = totals(now.0, now.1).filter(|(cache, _)| *cache > Bytes::ZERO) else { return Vec::new() };
        let cost = |cache_type| {
            let (cache, graph) =
                if now == (cache_type, cache_type) { in_force } else { totals(cache_type, cache_type)? };
            Some(CacheTypeCost { cache_type, cache, graph, in_force })
        };
        TYPES.into_iter().filter_map(cost).collect()
    }
}
