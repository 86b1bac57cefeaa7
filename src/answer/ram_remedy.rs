//! What helps where RAM is short: smaller weights or caches, weights that are mapped, and a server that keeps fewer prompts.

use super::change::ChangeKind;
use super::ram::RamUse;
use super::{Change, Goal, Remedy};
use crate::engine::PlanRequest;
use crate::plan::Plan;
use crate::settings::Flag;
use crate::units::Bytes;

/// Limits of a prompt cache are whole steps of this.
const STEP: u64 = Bytes::mib(256).0;

/// Whether RAM has less than `plan` takes of it, with what is kept for the system.
pub fn is_short(plan: &Plan) -> bool {
    let ram = plan.ram();
    ram.above_kept().is_short() || ram.from_disk().is_some()
}

impl PlanRequest {
    /// What makes `plan`, this request's plan, fit into RAM, or leaves what its server may take in use; the cheapest first. Each
    /// was planned. Empty where RAM suffices for all of that, or none of it helps.
    pub fn ram_remedies(&self, plan: &Plan) -> Vec<Remedy> {
        if !is_short(plan) {
            return self.in_use_remedies(plan);
        }
        let goal = Goal::AtLeast(0);
        let changes = ChangeKind::OF_RAM.iter().flat_map(|kind| self.changes_of(*kind, plan, goal));
        changes.filter_map(|change| self.remedy(plan, change, goal)).collect()
    }

    /// A smaller prompt cache, or fewer checkpoints, where both together may take more than RAM has left.
    fn in_use_remedies(&self, plan: &Plan) -> Vec<Remedy> {
        let (ram, free) = (RamUse::of(self, plan), RamUse::free(plan));
        if ram.at_most() <= free || ram.needed() > free {
            return Vec::new();
        }
        let (cache, left) = (ram.prompt_cache.unwrap_or_default(), free - ram.needed());
        let limit = Bytes((left - ram.checkpoints).0 / STEP * STEP);
        let each = ram.checkpoints.0.checked_div(ram.checkpoint_count).unwrap_or(0);
        let count = (left - cache).0.checked_div(each).unwrap_or(0);
        let changes = [
            Some(Change::CacheRam(limit)).filter(|_| limit < cache && Flag::CacheRam.is_read_by(self.engine)),
            Some(Change::Checkpoints(count))
                .filter(|_| count < ram.checkpoint_count && Flag::CtxCheckpoints.is_read_by(self.engine)),
        ];
        let works = |change: &Change| {
            let then = self.after(change).and_then(|then| Some((then.trial().ok()?, then)));
            then.is_some_and(|(plan, then)| RamUse::of(&then, &plan).at_most() <= RamUse::free(&plan))
        };
        let changes = changes.into_iter().flatten().filter(works);
        changes.filter_map(|change| self.remedy(plan, change, Goal::AtLeast(0))).collect()
    }
}
