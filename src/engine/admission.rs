//! What an engine does with a model that is to be loaded beside others: loads it too, or makes room for it first.

use crate::plan::Plan;
use crate::settings::Settings;

/// How a model is received where others are loaded already.
#[derive(Clone, Debug)]
pub enum Admission {
    /// It is loaded beside them, so.
    Load(Box<Plan>),
    /// One of the others has to go first, and then it is tried again; why, in one sentence without its full stop.
    EvictOne(String),
    /// All others have to go at once, and then it is tried once more.
    EvictAll {
        /// Why, in one sentence without its full stop.
        why: String,
        /// The context that it is then tried with, where that is lowered.
        ctx: Option<u64>,
    },
    /// It is not loaded, and the others stay; why, in one sentence without its full stop.
    Refused(String),
}

impl Admission {
    /// It is loaded beside the others as `plan` says.
    pub(super) fn welcome(plan: Plan) -> Self {
        Self::Load(Box::new(plan))
    }
}

/// With nothing less than what was asked for on GPUs, as both old schedulers want it beside others.
pub(super) fn whole(settings: &Settings) -> Settings {
    Settings { require_full: true, ..settings.clone() }
}
