//! The allocator's timeline: what is alive in each device's compute buffer, from the first operation to the last.

mod handout;
mod kind;
mod walk;

pub use kind::Kind;
pub use walk::{Life, Moment, Timeline, Walk};

use super::trace::{Asked, Home, Trace};
use crate::engine::EngineError;
use crate::engine::PlanRequest;
use crate::engine::llama_cpp::Measured;
use crate::engine::llama_cpp::settled::Settled;
use crate::plan::Plan;
use crate::settings::FlashAttn;
use crate::units::Tokens;

/// The page.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// What the plan reserves.
    pub walk: Walk,
    /// The settings that it was walked with, in the words of [`Versus`].
    pub called: String,
    /// Another, with one thing changed.
    pub other: Option<Other>,
    /// One sentence where the engine in force builds no graph.
    pub remark: Option<String>,
}

/// A second walk, to be seen beside the first.
#[derive(Clone, Debug)]
pub struct Other {
    /// What is changed.
    pub versus: Versus,
    /// What it is changed to: `flash attention off`.
    pub called: String,
    /// What is reserved then, or why nothing is.
    pub walk: Result<Walk, EngineError>,
}

/// What can be changed, all else being equal, placements included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versus {
    /// Flash attention: off where it is on, and on where it is off.
    FlashAttention,
    /// Tokens of a physical batch: 2048 where they are 512, else 512.
    Ubatch,
    /// One layer less on GPUs where all are there, else all.
    Layers,
}

impl Versus {
    /// Every change, in the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::FlashAttention, Self::Ubatch, Self::Layers];

    /// The request with the change made.
    fn changed(self, settled: &Settled, measured: &Measured) -> Settled {
        let mut other = settled.clone();
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
                let all = settled.loaded.hparams.n_layer_all + 1;
                let one_less = if measured.offloaded() == all { all - 1 } else { all };
                other.spread.gpu_layers = Some(one_less as u64);
            }
        }
        other
    }

    /// What it is about, as `measured` has it: `ubatch 512`.
    fn told(self, measured: &Measured, settled: &Settled) -> String {
        match self {
            Self::FlashAttention => {
                format!("flash attention {}", if measured.parameters.flash_attn { "on" } else { "off" })
            }
            Self::Ubatch => format!("ubatch {}", Tokens(measured.parameters.n_ubatch)),
            Self::Layers => format!("{} of {} layers", measured.offloaded(), settled.loaded.hparams.n_layer_all + 1),
        }
    }

    /// The same where nothing was measured, because llama.cpp refuses.
    fn asked(self, settled: &Settled) -> String {
        match self {
            Self::FlashAttention => format!("flash attention {}", settled.options.flash_attn),
            Self::Ubatch => format!("ubatch {}", Tokens(settled.options.n_ubatch)),
            Self::Layers => format!("{} layers", settled.spread.gpu_layers.unwrap_or_default()),
        }
    }
}

impl Allocation {
    /// Walks through `plan`'s graph, and perhaps through another.
    ///
    /// # Errors
    /// When llama.cpp refuses the model or the settings.
    pub fn of(request: &PlanRequest, plan: &Plan, versus: Option<Versus>) -> Result<Self, EngineError> {
        let asked = Asked::of(request, plan)?;
        let homes = asked.homes(plan);
        let remark = asked.remark;
        let trace = Trace::of(asked.settled, homes.clone())?;
        let other = versus.map(|versus| Self::beside(versus, &trace, homes));
        let called = versus.map(|versus| versus.told(&trace.measured, &trace.settled)).unwrap_or_default();
        Ok(Self { walk: Walk::of(&trace), called, other, remark })
    }

    fn beside(versus: Versus, trace: &Trace, homes: Vec<Home>) -> Other {
        let settled = versus.changed(&trace.settled, &trace.measured);
        let asked = versus.asked(&settled);
        match Trace::of(settled, homes) {
            Ok(other) => {
                let called = versus.told(&other.measured, &other.settled);
                Other { versus, called, walk: Ok(Walk::of(&other)) }
            }
            Err(refusal) => Other { versus, called: asked, walk: Err(refusal) },
        }
    }
}
