//! The limit of each knob and possible remedies, which the planner's screen requests after every key.

use super::{Change, Goal};
use crate::engine::PlanRequest;
use crate::gguf::FileType;
use crate::plan::{Plan, Verdict};
use crate::settings::GpuLayers;
use crate::settings::knob::{Knob, QUANTISATIONS};

/// Limits of the knobs with every layer on GPUs, each with the others held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnobLimits {
    /// The largest context, in tokens.
    pub context: Option<u64>,
    /// The most parallel sequences.
    pub parallel: Option<u64>,
    /// The largest batch, in tokens.
    pub batch: Option<u64>,
    /// The largest physical batch, in tokens.
    pub ubatch: Option<u64>,
    /// The largest quantisation.
    pub quant: Option<FileType>,
    /// The fewest layers whose experts stay in RAM.
    pub cpu_moe: Option<u64>,
    /// The largest context that fits in GPUs and RAM together; only without GPUs, or if the plan does not fit.
    pub context_in_all: Option<u64>,
    /// Other changes that bring every layer onto GPUs, if some are not.
    pub remedies: Vec<Change>,
}

impl KnobLimits {
    /// The knobs that have a limit, if the engine offers them.
    pub const ASKED: [Knob; 6] = [Knob::Context, Knob::Parallel, Knob::Quant, Knob::Batch, Knob::Ubatch, Knob::CpuMoe];

    /// The limit of `knob`: its largest value, for [`Knob::CpuMoe`] its smallest, for [`Knob::Quant`] its stop.
    pub fn of(&self, knob: Knob) -> Option<u64> {
        match knob {
            Knob::Context => self.context,
            Knob::Parallel => self.parallel,
            Knob::Quant => QUANTISATIONS.iter().position(|&to| Some(to) == self.quant).map(|at| at as u64),
            Knob::Batch => self.batch,
            Knob::Ubatch => self.ubatch,
            Knob::CpuMoe => self.cpu_moe,
            Knob::CacheType
            | Knob::CacheTypeK
            | Knob::CacheTypeV
            | Knob::FlashAttn
            | Knob::KvUnified
            | Knob::Outputs
            | Knob::GpuLayers
            | Knob::TensorSplit => None,
        }
    }
}

impl PlanRequest {
    /// The limits, and the remedies if not every layer is on GPUs now; `plan` is this request's plan.
    pub fn limits(&self, plan: &Plan) -> KnobLimits {
        let without_gpus = self.machine.gpus.is_empty();
        let context_in_all = (without_gpus || plan.verdict == Verdict::DoesNotFit)
            .then(|| self.largest(Knob::Context, Goal::AtLeast(0)).map(|most| most.value))
            .flatten();
        if without_gpus {
            return KnobLimits { context_in_all, ..KnobLimits::default() };
        }
        let offered = self.knobs();
        let most = |knob| self.largest(knob, Goal::All).map(|largest| largest.value);
        let ask = |knob, answer: &dyn Fn(Knob) -> Option<u64>| offered.contains(&knob).then(|| answer(knob)).flatten();
        let mut remedies = Vec::new();
        if plan.verdict != Verdict::Gpu {
            remedies = self.other_cache_types(&plan.settings, Goal::All);
            let one = Change::Parallel(1);
            remedies.extend(Some(one).filter(|one| plan.settings.parallel > 1 && self.works(one, Goal::All)));
            let auto = Change::GpuLayers(GpuLayers::Auto);
            let counted = matches!(self.settings.gpu_layers, GpuLayers::Count(_));
            if counted && self.works(&auto, Goal::All) {
                remedies.insert(0, auto);
            }
        }
        KnobLimits {
            context: most(Knob::Context),
            parallel: most(Knob::Parallel),
            batch: most(Knob::Batch),
            quant: self.largest_quantisation(Goal::All).found.map(|(to, _)| to),
            ubatch: ask(Knob::Ubatch, &most),
            cpu_moe: ask(Knob::CpuMoe, &|knob| self.smallest(knob, Goal::All)),
            context_in_all,
            remedies,
        }
    }
}
