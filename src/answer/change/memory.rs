//! How much more memory on one GPU meets a goal.

use std::collections::HashMap;

use super::Change;
use crate::answer::Goal;
use crate::answer::search::{Reversed, Search};
use crate::engine::PlanRequest;
use crate::plan::headrooms;
use crate::settings::InEffect;
use crate::units::Bytes;

/// Upper limit of the extra memory searched for on one GPU, in MiB.
const MAX_EXTRA_MIB: u64 = 1 << 22;
/// Number of GPUs tried with more memory, distinct ones first.
const MAX_GPUS_TRIED: usize = 8;

impl PlanRequest {
    /// The smallest amount of extra memory, in whole MiB, with which a single GPU meets `goal`.
    pub(super) fn more_memory(&self, goal: Goal) -> Option<Change> {
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
