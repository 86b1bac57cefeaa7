//! Whether a model can be loaded next to others, or what must be evicted first.

use crate::plan::Plan;
use crate::settings::Settings;

/// The outcome of loading a model while others are loaded.
#[derive(Clone, Debug)]
pub enum Admission {
    /// Loaded next to the others with this plan.
    Load(Box<Plan>),
    /// One of the others is evicted first, then it is tried again; the reason is a sentence without its full stop.
    EvictOne(String),
    /// All others are evicted at once, then it is tried once more.
    EvictAll {
        /// The reason, a sentence without its full stop.
        why: String,
        /// The context of the second try, if it is lowered.
        ctx: Option<u64>,
    },
    /// Not loaded, and the others stay; the reason is a sentence without its full stop.
    Refused(String),
}

impl Admission {
    /// Loaded next to the others with `plan`.
    pub(super) fn load(plan: Plan) -> Self {
        Self::Load(Box::new(plan))
    }
}

/// The settings with full offload required: both older schedulers load a model next to others only if it fits entirely.
pub(super) fn requiring_full(settings: &Settings) -> Settings {
    Settings { require_full: true, ..settings.clone() }
}
