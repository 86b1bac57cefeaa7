//! The allocator's timeline: what is alive in each device's compute buffer, from the first operation to the last.

mod kind;
mod printout;
mod walk;

pub use kind::TimelineKind;
pub use walk::{AllocationWalk, Moment, TensorLife, Timeline};

use super::trace::{ScheduleDevice, Trace, TraceRequest};
use crate::engine::EngineError;
use crate::engine::PlanRequest;
use crate::engine::llama_cpp::MemoryBreakdown;
use crate::engine::llama_cpp::resolved::ResolvedRequest;
use crate::plan::Plan;
use crate::settings::FlashAttn;
use crate::units::Tokens;

/// The page.
#[derive(Clone, Debug)]
pub struct AllocationPage {
    /// What the plan reserves.
    pub walk: AllocationWalk,
    /// The settings that it was walked with, in the words of [`Variation`].
    pub label: String,
    /// Another, with one thing changed.
    pub other: Option<VariedWalk>,
    /// One sentence where the engine in force builds no graph.
    pub remark: Option<String>,
}

/// A second walk, to be seen beside the first.
#[derive(Clone, Debug)]
pub struct VariedWalk {
    /// What is changed.
    pub versus: Variation,
    /// What it is changed to: `flash attention off`.
    pub label: String,
    /// What is reserved then, or why nothing is.
    pub walk: Result<AllocationWalk, EngineError>,
}

/// What can be changed, all else being equal, placements included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variation {
    /// Flash attention: off where it is on, and on where it is off.
    FlashAttention,
    /// Tokens of a physical batch: 2048 where they are 512, else 512.
    Ubatch,
    /// One layer less on GPUs where all are there, else all.
    Layers,
}

impl Variation {
    /// Every change, in the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::FlashAttention, Self::Ubatch, Self::Layers];

    /// The request with the change made.
    fn changed(self, resolved: &ResolvedRequest, measured: &MemoryBreakdown) -> ResolvedRequest {
        let mut other = resolved.clone();
        let now = &measured.parameters;
        match self {
            Self::FlashAttention => {
                other.options.flash_attn = if now.flash_attn { FlashAttn::Off } else { FlashAttn::On };
            }
            Self::Ubatch => {
                other.options.n_ubatch = if now.n_ubatch == 512 { 2048 } else { 512 };
                other.options.n_batch = other.options.n_batch.max(other.options.n_ubatch);
            }
            Self::Layers => {
                let all = resolved.loaded.hparams.n_layer_all + 1;
                let one_less = if measured.offloaded() == all { all - 1 } else { all };
                other.spread.gpu_layers = Some(one_less as u64);
            }
        }
        other
    }

    /// What it is about, as `measured` has it: `ubatch 512`.
    fn told(self, measured: &MemoryBreakdown, resolved: &ResolvedRequest) -> String {
        match self {
            Self::FlashAttention => {
                format!("flash attention {}", if measured.parameters.flash_attn { "on" } else { "off" })
            }
            Self::Ubatch => format!("ubatch {}", Tokens(measured.parameters.n_ubatch)),
            Self::Layers => format!("{} of {} layers", measured.offloaded(), resolved.loaded.hparams.n_layer_all + 1),
        }
    }

    /// The same where nothing was measured, because llama.cpp refuses.
    fn asked(self, resolved: &ResolvedRequest) -> String {
        match self {
            Self::FlashAttention => format!("flash attention {}", resolved.options.flash_attn),
            Self::Ubatch => format!("ubatch {}", Tokens(resolved.options.n_ubatch)),
            Self::Layers => format!("{} layers", resolved.spread.gpu_layers.unwrap_or_default()),
        }
    }
}

impl AllocationPage {
    /// Walks through `plan`'s graph, and perhaps through another.
    ///
    /// # Errors
    /// When llama.cpp refuses the model or the settings.
    pub fn of(request: &PlanRequest, plan: &Plan, versus: Option<Variation>) -> Result<Self, EngineError> {
        let asked = TraceRequest::of(request, plan)?;
        let homes = asked.homes(plan);
        let remark = asked.remark;
        let trace = Trace::of(asked.resolved, homes.clone())?;
        let other = versus.map(|versus| Self::beside(versus, &trace, homes));
        let label = versus.map(|versus| versus.told(&trace.measured, &trace.resolved)).unwrap_or_default();
        Ok(Self { walk: AllocationWalk::of(&trace), label, other, remark })
    }

    fn beside(versus: Variation, trace: &Trace, homes: Vec<ScheduleDevice>) -> VariedWalk {
        let resolved = versus.changed(&trace.resolved, &trace.measured);
        let asked = versus.asked(&resolved);
        match Trace::of(resolved, homes) {
            Ok(other) => {
                let label = versus.told(&other.measured, &other.resolved);
                VariedWalk { versus, label, walk: Ok(AllocationWalk::of(&other)) }
            }
            Err(refusal) => VariedWalk { versus, label: asked, walk: Err(refusal) },
        }
    }
}
