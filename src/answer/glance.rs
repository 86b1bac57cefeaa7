//! What an answer says at a glance: the figures people look for first, always the same ones, and a row for each change that
//! would help.

use super::{Change, Goal, KnobLimits, Way};
use crate::plan::{Outcome, Plan};
use crate::settings::Flag;
use crate::speed::{SpeedRange, Speeds};
use crate::units::{Difference, Tokens};

/// The figures of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Where what a token needs is.
    pub outcome: Outcome,
    /// Layers on GPUs, and all.
    pub on_gpus: (usize, usize),
    /// How fast it generates at the start, where that is known.
    pub start: Option<SpeedRange>,
    /// The same with the context full.
    pub full: Option<SpeedRange>,
    /// The largest context with all in VRAM, or in RAM on a machine without GPUs, in tokens.
    pub largest: Largest,
    /// What the fullest GPU, or RAM on a machine without GPUs, has left above what must stay free.
    pub headroom: Option<Difference>,
}

/// A largest context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Largest {
    /// It is being computed.
    Pending,
    /// There is none.
    None,
    /// So many tokens.
    Tokens(u64),
}

impl Figures {
    /// Those of `plan`; `limits` are `None` while they are being computed.
    pub fn of(plan: &Plan, limits: Option<&KnobLimits>, speeds: Option<&Speeds>) -> Self {
        let has_gpus = !plan.gpus().is_empty();
        let largest = limits.map_or(Largest::Pending, |limits| {
            let most = if has_gpus { limits.vram.context } else { limits.context_in_all };
            most.map_or(Largest::None, Largest::Tokens)
        });
        let of_gpus = plan.tightest_gpu().map(|(_, headroom)| headroom.above());
        Self {
            outcome: plan.outcome(),
            on_gpus: (plan.on_gpus(), plan.layers.len()),
            start: speeds.map(|speeds| speeds.start.range()),
            full: speeds.map(|speeds| speeds.full.range()),
            largest,
            headroom: if has_gpus { of_gpus } else { plan.devices.len().checked_sub(1).map(|ram| plan.headroom(ram)) },
        }
    }
}

/// A change that would help.
#[derive(Clone, Debug, PartialEq)]
pub struct WayRow {
    /// What makes it: `--ctx 14848`.
    pub options: String,
    /// What it brings: `all in VRAM`.
    pub brings: String,
    /// How fast it is then, where that is known.
    pub speed: Option<SpeedRange>,
    /// What it costs, in few words.
    pub costs: String,
}

/// The changes that would help `plan`, the first one first.
pub fn ways(plan: &Plan, limits: &KnobLimits) -> Vec<WayRow> {
    limits.remedies.iter().map(|way| row(plan, way)).collect()
}

fn row(plan: &Plan, way: &Way) -> WayRow {
    let is_in_vram = plan.outcome() <= Outcome::Tight;
    let brings = if is_in_vram { "enough headroom".to_owned() } else { uncapitalised(way.outcome.headline()) };
    let costs = match &way.change {
        Change::Context(tokens) => {
            let fewer = plan.settings.ctx.saturating_sub(*tokens);
            if fewer > 0 { format!("{} tokens less", Tokens(fewer)) } else { String::new() }
        }
        Change::Cache(_) | Change::CacheWithFlash(_) => "a less precise cache".to_owned(),
        Change::Parallel(to) => format!("{to} at once instead of {}", plan.settings.parallel),
        Change::FitTarget(_) => "less headroom".to_owned(),
        _ => String::new(),
    };
    WayRow { options: options(&way.change, plan), brings, speed: way.speed, costs }
}

/// What makes `change`; Ollama is told of a lower margin by a variable.
pub(super) fn options(change: &Change, plan: &Plan) -> String {
    match change {
        Change::FitTarget(_) if plan.engine.facts().starts_llama_server => {
            let variable = Flag::FitTarget.row().variables.first();
            format!("{}={}", variable.map_or("", |variable| variable.name), change.row().value)
        }
        _ => change.options().unwrap_or_else(|| change.to_string()),
    }
}

/// A headline within a sentence: `all in VRAM`.
pub fn uncapitalised(headline: &str) -> String {
    let mut chars = headline.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_lowercase).collect();
    first + chars.as_str()
}

/// That nothing helps, as a sentence; none where something does, or nothing needs to.
pub fn nothing_helps(plan: &Plan, limits: &KnobLimits) -> Option<String> {
    let is_met = plan.outcome() <= Outcome::Tight && Goal::Vram.is_met_by(plan);
    // one that is slower would meet the goal
    let has_none = limits.remedies.is_empty() && limits.remedied.is_none() && !plan.gpus().is_empty();
    let does = if plan.outcome() <= Outcome::Tight { super::verdict::KEEPS } else { super::verdict::BRINGS };
    (has_none && !is_met).then(|| format!("No context, cache type or number of sequences {does}."))
}
