//! Timeline of the allocator: the tensors alive in each device's compute buffer, from the first operation to the last.

mod kind;
mod printout;
mod walk;

pub use kind::TimelineKind;
pub use walk::{AllocationWalk, Moment, TensorLife, Timeline};

use super::trace::{ScheduleDevice, Trace, TraceRequest};
use crate::engine::EngineError;
use crate::engine::PlanRequest;
use crate::engine::llama_cpp::{MemoryBreakdown, ResolvedRequest};
use crate::plan::Plan;
use crate::settings::FlashAttn;
use crate::units::Tokens;

/// The page.
#[derive(Clone, Debug)]
pub struct AllocationPage {
    /// The plan's allocations.
    pub walk: AllocationWalk,
    /// The current value of what the variation changes; empty without one.
    pub label: String,
    /// The allocations with one thing changed.
    pub other: Option<VariedWalk>,
    /// One sentence if the engine builds no graph and llama.cpp's is shown instead.
    pub remark: Option<String>,
}

/// A second walk, to compare with the first.
#[derive(Clone, Debug)]
pub struct VariedWalk {
    /// The changed value: `flash attention off`.
    pub label: String,
    /// The allocations, or why llama.cpp refuses.
    pub walk: Result<AllocationWalk, EngineError>,
}

/// A change of one setting; the placement of layers stays unless it is what changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variation {
    /// Flash attention switched.
    FlashAttention,
    /// An ubatch of 2048 tokens if it is 512, else of 512.
    Ubatch,
    /// One layer less on GPUs if all are, else all.
    Layers,
}

impl Variation {
    /// All variations, in the order of the menu.
    pub const ALL: [Self; 3] = [Self::FlashAttention, Self::Ubatch, Self::Layers];

    /// The request with the change.
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

    /// The value in `measured`: `ubatch 512`.
    fn label(self, measured: &MemoryBreakdown, resolved: &ResolvedRequest) -> String {
        match self {
            Self::FlashAttention => {
                format!("flash attention {}", if measured.parameters.flash_attn { "on" } else { "off" })
            }
            Self::Ubatch => format!("ubatch {}", Tokens(measured.parameters.n_ubatch)),
            Self::Layers => format!("{} of {} layers", measured.offloaded(), resolved.loaded.hparams.n_layer_all + 1),
        }
    }

    /// The requested value, if llama.cpp refuses and nothing was measured.
    fn requested_label(self, resolved: &ResolvedRequest) -> String {
        match self {
            Self::FlashAttention => format!("flash attention {}", resolved.options.flash_attn),
            Self::Ubatch => format!("ubatch {}", Tokens(resolved.options.n_ubatch)),
            Self::Layers => format!("{} layers", resolved.spread.gpu_layers.unwrap_or_default()),
        }
    }
}

impl AllocationPage {
    /// The timelines of `plan`, and of a variation if one is given.
    ///
    /// # Errors
    /// If llama.cpp refuses the model or the settings.
    pub fn of(request: &PlanRequest, plan: &Plan, versus: Option<Variation>) -> Result<Self, EngineError> {
        let asked = TraceRequest::of(request, plan)?;
        let homes = asked.homes(plan);
        let remark = asked.remark;
        let trace = Trace::of(asked.resolved, homes.clone())?;
        let other = versus.map(|versus| Self::varied(versus, &trace, homes));
        let label = versus.map(|versus| versus.label(&trace.measured, &trace.resolved)).unwrap_or_default();
        Ok(Self { walk: AllocationWalk::of(&trace), label, other, remark })
    }

    fn varied(versus: Variation, trace: &Trace, homes: Vec<ScheduleDevice>) -> VariedWalk {
        let resolved = versus.changed(&trace.resolved, &trace.measured);
        let requested = versus.requested_label(&resolved);
        match Trace::of(resolved, homes) {
            Ok(other) => {
                let label = versus.label(&other.measured, &other.resolved);
                VariedWalk { label, walk: Ok(AllocationWalk::of(&other)) }
            }
            Err(refusal) => VariedWalk { label: requested, walk: Err(refusal) },
        }
    }
}
