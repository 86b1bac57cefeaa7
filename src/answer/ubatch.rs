//! What a larger ubatch does to prompts, and what it takes.

use crate::engine::PlanRequest;
use crate::plan::{Outcome, Plan};
use crate::speed::prompt::{self, PromptSpeed};
use crate::units::Bytes;

/// Sizes to try.
const UBATCHES: [u64; 4] = [1024, 2048, 4096, 8192];
/// A card is shown from here on: so many times as fast.
const WORTH: f64 = 1.25;

/// A larger ubatch.
#[derive(Clone, Debug, PartialEq)]
pub struct LargerUbatch {
    /// Its tokens.
    pub ubatch: u64,
    /// How many times as fast prompts are read, in the middle of the ranges.
    pub times: f64,
    /// Layers whose experts, or parts, are in RAM: now, and then.
    pub in_ram: (usize, usize),
    /// What the compute graph takes more.
    pub graph: Bytes,
    /// The request with it.
    pub request: PlanRequest,
    /// Its plan.
    pub plan: Plan,
}

/// `ubatch 2048: prompts 2.9 times as fast, experts of 1 more layer in RAM`
impl std::fmt::Display for LargerUbatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ubatch {}: prompts {:.1} times as fast", self.ubatch, self.times)?;
        let (now, then) = self.in_ram;
        match then.saturating_sub(now) {
            0 => write!(f, ", {} more for compute buffers", self.graph),
            1 => f.write_str(", one more layer's experts in RAM"),
            more => write!(f, ", {more} more layers' experts in RAM"),
        }
    }
}

impl PlanRequest {
    /// The ubatch above that of `plan`, this request's plan, that reads long prompts fastest, if it is much faster and
    /// what it takes is there: the smallest within a tenth of the fastest.
    pub fn larger_ubatch(&self, plan: &Plan) -> Option<LargerUbatch> {
        let tokens = prompt::LONG.min(plan.settings.ctx_per_sequence);
        let speed = |plan: &Plan| PromptSpeed::of_plan(&self.model, &self.machine, plan).ok();
        let now = speed(plan)?.tokens_per_second;
        let in_ram = |plan: &Plan| plan.layers.iter().filter(|layer| layer.elsewhere() > Bytes::ZERO).count();
        let larger = UBATCHES.into_iter().filter(|ubatch| *ubatch > plan.settings.ubatch && *ubatch <= tokens);
        let tried = larger.filter_map(|ubatch| {
            let request = self.changed(|settings| {
                settings.ubatch = Some(ubatch);
                settings.batch = Some(settings.batch.unwrap_or(ubatch).max(ubatch));
            });
            let then = request.trial().ok()?;
            if then.outcome() == Outcome::DoesNotFit
                || then.settings.ubatch != ubatch
                || then.on_gpus() < plan.on_gpus()
            {
                return None;
            }
            Some(LargerUbatch {
                ubatch,
                times: speed(&then)?.tokens_per_second / now,
                in_ram: (in_ram(plan), in_ram(&then)),
                graph: then.totals.graph - plan.totals.graph,
                request,
                plan: then,
            })
        });
        let tried: Vec<LargerUbatch> = tried.collect();
        let best = tried.iter().map(|larger| larger.times).fold(WORTH, f64::max);
        tried.into_iter().find(|larger| larger.times >= WORTH.max(best * 0.9))
    }
}
