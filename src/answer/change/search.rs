//! How each kind of change is searched for: the smallest one that alone meets a goal.

use super::{Change, width};
use crate::answer::Goal;
use crate::engine::PlanRequest;
use crate::plan::Plan;
use crate::settings::knob::Knob;
use crate::settings::{CacheType, Flag, FlashAttn, GpuLayers, InEffect, LoadMode, MmprojDevice};

/// The kinds of changes, in the order in which they are tried and shown: what costs least first.
#[derive(Clone, Copy, Debug)]
pub(in crate::answer) enum ChangeKind {
    /// Only where RAM is short.
    LoadMode,
    GpuLayers,
    Margin,
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
    /// What helps where RAM is short, whatever GPUs have.
    pub const OF_RAM: [Self; 6] =
        [Self::LoadMode, Self::Projector, Self::CacheTypes, Self::Parallel, Self::Context, Self::Quantisation];

    /// What brings layers onto GPUs.
    const ALL: [Self; 10] = [
        Self::GpuLayers,
        Self::Margin,
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

/// The smallest batch that is advised, in tokens: with less, prompts take many times as long.
const LEAST_BATCH: u64 = 256;

/// The smallest context that is advised, in tokens: nobody works with less.
const LEAST_CONTEXT: u64 = 1024;

/// Whether a context of so many tokens is worth a word where that of `now` is planned: it is smaller, and holds the prompt that
/// is asked about.
pub(in crate::answer) fn is_context_advised(tokens: u64, now: &InEffect) -> bool {
    let sequences = (now.ctx / now.ctx_per_sequence.max(1)).max(1);
    let prompt = now.turn.map_or(0, |turn| turn.prompt);
    (LEAST_CONTEXT.max(prompt.saturating_mul(sequences))..now.ctx).contains(&tokens)
}

impl PlanRequest {
    /// The smallest change of each knob that alone meets `goal`. Empty if `plan`, this request's plan, meets it already,
    /// or if no single change does.
    pub fn changes(&self, plan: &Plan, goal: Goal) -> Vec<Change> {
        self.kinds_of_changes(plan, goal).iter().flat_map(|kind| self.changes_of(*kind, plan, goal)).collect()
    }

    /// The kinds of changes to try.
    pub(in crate::answer) fn kinds_of_changes(&self, plan: &Plan, goal: Goal) -> &'static [ChangeKind] {
        if goal.is_met_by(plan) || self.machine.gpus.is_empty() { &[] } else { &ChangeKind::ALL }
    }

    /// The smallest changes of one kind.
    pub(in crate::answer) fn changes_of(&self, kind: ChangeKind, plan: &Plan, goal: Goal) -> Vec<Change> {
        let effect = &plan.settings;
        // with experts in RAM every plan is a long fit: few are asked for, at stops only, the one that needs least first
        let few = self.model.hyper.experts.is_some() && !matches!(goal, Goal::Vram | Goal::VramWith(_));
        let lower = |knob: Knob, value| {
            if few { self.largest_stop_below(knob, goal, value) } else { self.largest_below(knob, goal, value) }
        };
        let one = match kind {
            ChangeKind::GpuLayers => self.other_gpu_layers(plan, goal),
            ChangeKind::LoadMode => {
                let mapped = Change::LoadMode(LoadMode::Mmap);
                let is_other = effect.load_mode.is_some_and(|mode| mode != LoadMode::Mmap);
                let is_read = Flag::LoadMode.is_read_by(self.engine);
                Some(mapped).filter(|change| is_other && is_read && self.works(change, goal))
            }
            ChangeKind::Margin => self.lower_margin(plan, goal).map(|lower| lower.change),
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
                lower(Knob::Context, effect.ctx).filter(|ctx| is_context_advised(*ctx, effect)).map(Change::Context)
            }
            ChangeKind::CacheTypes => return self.other_cache_types(effect, goal),
            ChangeKind::Parallel => lower(Knob::Parallel, effect.parallel).map(Change::Parallel),
            ChangeKind::Batch => {
                lower(Knob::Batch, effect.batch).filter(|batch| *batch >= LEAST_BATCH).map(Change::Batch)
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
    pub(in crate::answer) fn other_cache_types(&self, effect: &InEffect, goal: Goal) -> Vec<Change> {
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
}

/// The last of `ascending` that meets a goal, if those before it do.
fn last_met<T: Clone>(ascending: &[T], meets: impl Fn(&T) -> bool) -> Option<T> {
    let (first, others) = ascending.split_first()?;
    meets(first).then(|| others.get(..others.partition_point(&meets)).and_then(<[T]>::last).unwrap_or(first).clone())
}
