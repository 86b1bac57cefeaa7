//! The verdict in one sentence: whether it fits, for what, the limit, and what would change it.

use serde::Serialize;

use super::{Change, Goal, KnobLimits, Way, glance};
use crate::engine::PlanRequest;
use crate::machine::DeviceKind;
use crate::machine::budget::Basis;
use crate::model::mixture::ExactAfter;
use crate::plan::{DevicePlan, Headroom, LayerPlan, Outcome, Plan, Verdict};
use crate::settings::InEffect;
use crate::speed::prompt::PromptSpeed;
use crate::speed::turn::TurnTime;
use crate::speed::{Speed, SpeedRange, Speeds};
use crate::units::{Bytes, Ratio, Tokens, short};

/// A margin that takes in what a driver or a desktop may do.
pub(super) const COMFORTABLE: Bytes = Bytes::mib(512);

/// What a remedy does where all is in VRAM already.
pub const KEEPS: &str = "keeps free what must stay free";
/// What none of the tried changes does.
pub(super) const BRINGS: &str = "brings all into VRAM and keeps enough free";

/// What is so, and for what: `All in VRAM at 32 768 tokens, f16 KV`.
pub fn headline(plan: &Plan) -> String {
    format!("{} at {}", plan.outcome().headline(), held_for(&plan.settings))
}

/// The sentence after the headline; `limits` is `None` while they are being computed, `speeds` where no speed is known.
pub fn sentence(plan: &Plan, limits: Option<&KnobLimits>, speeds: Option<&Speeds>) -> String {
    let speed = speeds.map_or_else(String::new, |speeds| format!(" It writes {speeds}."));
    let prompt = speeds.and_then(|speeds| speeds.prompt.as_ref().ok());
    let prompts = prompt.map_or_else(String::new, |prompt| format!(" Prompts are read at {}.", prompt.range()));
    format!("{}.{speed}{}{}{}{prompts}", state(plan), at_risk(plan), help(plan, limits, speeds), besides(plan))
}

/// Where all is, as a clause.
pub fn state(plan: &Plan) -> String {
    let all = plan.layers.len();
    match plan.outcome() {
        Outcome::Vram | Outcome::Tight => margin(plan),
        Outcome::PartsInRam | Outcome::ExpertsInRam => format!("{} run from RAM. {}", in_ram(plan), margin(plan)),
        Outcome::LayersInRam => {
            let (in_ram, verb) = match plan.cpu().layers.len() {
                1 => (format!("1 of {all} layers"), "is"),
                n if n == all => (format!("all {all} layers"), "are"),
                n => (format!("{n} of {all} layers"), "are"),
            };
            let parts = match plan.cpu().ram.run_in_part {
                Bytes::ZERO => String::new(),
                parts => format!(", with {parts} of other layers' weights"),
            };
            let room = lack_of_room(plan).map_or_else(String::new, |lack| format!(". {lack}"));
            format!("{in_ram} {verb} in RAM{parts}{room}")
        }
        Outcome::Cpu => {
            let cpu = plan.cpu();
            format!("no GPU, so all {all} layers are in RAM and use {} of the {} free", cpu.needed(), cpu.free)
        }
        Outcome::FromDisk => {
            let (beyond, ram) = (plan.ram().from_disk().unwrap_or_default(), plan.ram());
            format!(
                "RAM holds all but {beyond} of {} of mapped weights. The rest is read from disk again for every token",
                ram.mapped
            )
        }
        Outcome::DoesNotFit => shortage(plan),
    }
}

/// Sentences on what the drivers of GPUs may take, where the memory left may not suffice for it.
pub fn at_risk(plan: &Plan) -> String {
    match plan.outcome() {
        Outcome::Vram | Outcome::Tight | Outcome::PartsInRam | Outcome::ExpertsInRam => driver(plan, true),
        Outcome::LayersInRam => driver(plan, lack_of_room(plan).is_some()),
        Outcome::Cpu | Outcome::FromDisk | Outcome::DoesNotFit => String::new(),
    }
}

/// How far the context can grow, as sentences; nothing where less would have to do.
pub fn growth(plan: &Plan, limits: &KnobLimits) -> String {
    match plan.outcome() {
        Outcome::Vram | Outcome::Tight | Outcome::PartsInRam | Outcome::ExpertsInRam => {
            context_growth(plan, Some(limits))
        }
        Outcome::Cpu => context_with_ram(plan, Some(limits)),
        Outcome::LayersInRam | Outcome::FromDisk | Outcome::DoesNotFit => String::new(),
    }
}

/// Sentences on what would help, and on how far the context can grow.
fn help(plan: &Plan, limits: Option<&KnobLimits>, speeds: Option<&Speeds>) -> String {
    match plan.outcome() {
        Outcome::Vram | Outcome::Tight if Goal::Vram.is_met_by(plan) => context_growth(plan, limits),
        Outcome::PartsInRam | Outcome::ExpertsInRam => remedies(plan, limits, speeds) + &context_growth(plan, limits),
        Outcome::Cpu => context_with_ram(plan, limits),
        _ => remedies(plan, limits, speeds),
    }
}

/// Sentences on what else is so: parts on other GPUs, full RAM, a pipeline without room, a context beyond training.
pub fn besides(plan: &Plan) -> String {
    let parts = if plan.outcome() <= Outcome::Tight { parts_on_others(plan) } else { String::new() };
    parts + &ram_is_full(plan) + &without_pipeline(plan) + &beyond_training(plan)
}

/// A sentence where less of RAM stays free than is kept for the system, or hardly any of it; what does not fit says so itself.
fn ram_is_full(plan: &Plan) -> String {
    let ram = plan.ram();
    let left = ram.left();
    let is_full = ram.above_kept().is_short() || left.left() < COMFORTABLE && ram.asked > COMFORTABLE;
    if !is_full || ram.swap_free > Bytes::ZERO || plan.outcome() >= Outcome::FromDisk {
        return String::new();
    }
    let kept = match ram.kept {
        Bytes::ZERO => String::new(),
        kept if ram.above_kept().is_short() => format!(", less than the {kept} for the system (--keep-ram)"),
        kept => format!(", {kept} of it for the system (--keep-ram)"),
    };
    format!(" RAM is full: {} of {} stay free{kept}.", left.left(), ram.total)
}

/// A sentence on a pipeline whose compute buffers do not fit.
fn without_pipeline(plan: &Plan) -> String {
    match (plan.without_pipeline(), plan.outcome()) {
        (None, _) => String::new(),
        (Some(without), Outcome::DoesNotFit) => format!(" That is already {without}."),
        (Some(without), _) => format!(" It runs {without}."),
    }
}

/// What a verdict holds for: `32 768 tokens, f16 KV, 4 sequences`.
pub fn held_for(effect: &InEffect) -> String {
    let kv = match (effect.cache_type_k, effect.cache_type_v) {
        (k, v) if k == v => k.to_string(),
        (k, v) => format!("{k} and {v}"),
    };
    let sequences = context_of_each(effect).map_or_else(String::new, |each| format!(", {each}"));
    format!("{} tokens, {kv} KV{sequences}", Tokens(effect.ctx))
}

/// The context of each of several sequences: `2 sequences of 4 096 tokens each`, or `4 sequences sharing 8 192 tokens`; none for
/// one.
pub fn context_of_each(effect: &InEffect) -> Option<String> {
    let InEffect { parallel, ctx_per_sequence, ctx_total, .. } = *effect;
    if parallel < 2 {
        return None;
    }
    Some(if ctx_per_sequence == ctx_total {
        format!("{parallel} sequences sharing {} tokens", Tokens(ctx_total))
    } else {
        format!("{parallel} sequences of {} tokens each", Tokens(ctx_per_sequence))
    })
}

/// What runs from RAM although its layers are on GPUs.
pub(super) fn in_ram(plan: &Plan) -> String {
    let (weights, cache) = (plan.parts_in_ram(), plan.cpu().cache);
    match (weights > Bytes::ZERO, cache > Bytes::ZERO) {
        (true, false) => format!("{weights} of weights"),
        (false, _) => format!("{cache} of cache"),
        (true, true) => format!("{weights} of weights and {cache} of cache"),
    }
}

/// What the GPU with the least room still has above what must stay free there, or how much it is short of that.
pub(super) fn margin(plan: &Plan) -> String {
    let Some((tightest, headroom)) = plan.tightest_gpu() else { return "no GPU holds a layer".to_owned() };
    let Headroom { left, kept, .. } = headroom;
    let used = plan.gpus().iter().filter(|gpu| !gpu.layers.is_empty()).count();
    let gpu = if used > 1 { format!("{}, the fullest GPU,", tightest.id) } else { tightest.id.clone() };
    let above = headroom.above_kept();
    if above.is_short() || headroom.is_tight() {
        return match (above.is_short(), left.is_short()) {
            (_, true) => format!("{gpu} needs {} more than is free", left.lacking()),
            (true, false) => format!("{gpu} lacks {} of the {kept} kept free", above.lacking()),
            (false, false) => {
                let name = tightest.driver.map_or("its driver", |driver| driver.backend.name());
                format!("{gpu} has {left} left, {} too little for {name}", (left - headroom.driver).lacking())
            }
        };
    }
    let only = if above.left() < COMFORTABLE { "only " } else { "" };
    if kept > Bytes::ZERO {
        format!("{gpu} has {only}{above} above the {kept} kept free")
    } else {
        format!("{gpu} has {only}{above} of headroom")
    }
}

/// What is missing where some GPU with layers has less left than must stay free there, as a clause.
pub fn lack_of_room(plan: &Plan) -> Option<String> {
    plan.tightest_gpu().filter(|(_, headroom)| headroom.above().is_short()).map(|_| margin(plan))
}

/// A sentence on what a driver takes besides the plan, where the memory left may not suffice for it; `said` is whether
/// [`margin`] stands before it.
fn driver(plan: &Plan, said: bool) -> String {
    let has_experts = plan.model.experts.is_some();
    let lack = |(device, headroom): (&DevicePlan, Headroom)| {
        let driver = device.driver.filter(|_| !device.layers.is_empty())?;
        let lacking = (headroom.left - driver.most(has_experts)).lacking();
        (lacking > Bytes::ZERO).then_some((lacking, device.id.clone(), headroom, driver))
    };
    let short = plan.gpus().iter().zip(plan.headrooms()).filter_map(lack);
    let Some((_, id, headroom, driver)) = short.max_by_key(|(lacking, ..)| *lacking) else { return String::new() };
    let (name, from, left) = (driver.backend.name(), driver.known_from(), headroom.left.left());
    if headroom.is_tight() {
        // what other machines were seen to take need not be what this one takes
        let likely = driver.basis == Basis::Remembered && (headroom.left - driver.loaded.least).is_short();
        let then = match driver.context {
            _ if likely => "the load would probably fail",
            Some(_) if !(headroom.left - driver.loaded.most).is_short() => "it may fail before the context is full",
            _ => "the load may fail",
        };
        let is_tightest = plan.tightest_gpu().is_some_and(|(tightest, _)| tightest.id == id);
        return if said && is_tightest && !headroom.above_kept().is_short() {
            format!(" {name} takes {} ({from}): {then}.", driver.held())
        } else {
            format!(" {id} has {left} left for {name}'s {} ({from}): {then}.", driver.held())
        };
    }
    let growth = driver.first_prompt(has_experts);
    format!(" The first prompt may take up to {growth} more for {name} ({from}); {id} has {left} left.")
}

/// A sentence on layers with parts on another GPU.
fn parts_on_others(plan: &Plan) -> String {
    let parts: Vec<Bytes> = plan.layers.iter().map(LayerPlan::elsewhere).filter(|bytes| *bytes > Bytes::ZERO).collect();
    let layers = match parts.len() {
        0 => return String::new(),
        1 => "1 layer".to_owned(),
        n => format!("{n} layers"),
    };
    let bytes: Bytes = parts.into_iter().sum();
    format!(" Parts of {layers} ({bytes}) are on a different GPU from the rest of the layer.")
}

fn context_growth(plan: &Plan, limits: Option<&KnobLimits>) -> String {
    let Some(limits) = limits else { return String::new() };
    let trained = plan.model.context_train;
    let (most, stay) = match plan.outcome() {
        Outcome::Vram | Outcome::Tight => (limits.vram.context, "stays in VRAM"),
        _ => (limits.all_layers.context, "keeps all layers on GPU"),
    };
    match most {
        Some(most) if most > plan.settings.ctx => {
            let whole = if trained == Some(most) { ", the model's training context," } else { "" };
            format!(" A context of up to {}{whole} {stay}.", Tokens(most))
        }
        Some(_) if trained == Some(plan.settings.ctx) => " The context is the model's training context.".to_owned(),
        Some(most) if most < plan.settings.ctx => format!(" A context of up to {} keeps enough free.", Tokens(most)),
        Some(_) => " The context cannot grow further.".to_owned(),
        None => String::new(),
    }
}

/// A sentence on a context beyond what the model was trained for.
fn beyond_training(plan: &Plan) -> String {
    match plan.model.context_train {
        Some(trained) if trained > 0 && plan.settings.ctx_per_sequence > trained => format!(
            " The model was trained for {} tokens: beyond them quality drops, and positions need scaling, such as YaRN's \
             of RoPE.",
            Tokens(trained)
        ),
        _ => String::new(),
    }
}

/// A sentence on the largest context that fits in GPUs and RAM together.
fn context_with_ram(plan: &Plan, limits: Option<&KnobLimits>) -> String {
    match limits.and_then(|limits| limits.context_in_all) {
        Some(most) if plan.verdict == Verdict::DoesNotFit => format!(" A context of {} fits.", Tokens(most)),
        Some(most) if most > plan.settings.ctx => format!(" A context of {} also fits.", Tokens(most)),
        Some(_) => " The context cannot grow further.".to_owned(),
        None => String::new(),
    }
}

fn remedies(plan: &Plan, limits: Option<&KnobLimits>, speeds: Option<&Speeds>) -> String {
    let Some(limits) = limits else { return String::new() };
    let in_vram = limits.remedied != Some(Goal::AllLayers);
    // then only what must stay free is missing
    let is_in_vram = plan.outcome() <= Outcome::Tight;
    let Some(first) = limits.remedies.first() else {
        let none = glance::nothing_helps(plan, limits).map_or_else(String::new, |none| format!(" {none}"));
        return context_with_ram(plan, Some(limits).filter(|_| plan.verdict == Verdict::DoesNotFit)) + &none;
    };
    let brings = match (in_vram, is_in_vram) {
        (true, true) => KEEPS,
        (true, false) => "brings all into VRAM",
        (false, _) => brings_layers(Some(first.outcome)),
    };
    let way = |way: &Way| {
        let says = capitalised(&remedy(&way.change, plan, limits));
        format!(" {says} {brings}{}.", speed_then(way.speed, speeds))
    };
    let ways: String = limits.remedies.iter().map(way).collect();
    let stays = limits.stays_free.as_ref().map_or_else(String::new, |stays| format!(" With that target {stays}."));
    format!("{ways}{stays}")
}

/// How fast it is then, and how many times as fast as now, as the end of a clause.
fn speed_then(then: Option<SpeedRange>, now: Option<&Speeds>) -> String {
    let Some(then) = then else { return String::new() };
    let times = now.and_then(|now| then.against(&now.start.range())).filter(|times| times.helps());
    times.map_or_else(|| format!(": {then}"), |times| format!(": {then}, about {times}"))
}

/// What a change does that brings all layers onto GPUs, and not all of them, where this is the plan with it.
pub const fn brings_layers(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::ExpertsInRam) => "brings all layers onto GPUs, with experts in RAM",
        Some(Outcome::PartsInRam) => "brings all layers onto GPUs, with parts of them in RAM",
        _ => "brings all layers onto GPUs",
    }
}

/// With a capital letter at the beginning.
pub fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    first + chars.as_str()
}

/// A change, with what it saves and costs if it changes the type of the cache.
fn remedy(change: &Change, plan: &Plan, limits: &KnobLimits) -> String {
    let cost = match *change {
        Change::Cache(ty) | Change::CacheWithFlash(ty) => limits.cache_type_against_in_force(ty),
        Change::FitTarget(_) => Some(glance::options(change, plan)),
        _ => None,
    };
    cost.map_or_else(|| change.to_string(), |cost| format!("{change} ({cost})"))
}

/// What is missing where it does not fit, as a clause.
fn shortage(plan: &Plan) -> String {
    let over = plan.devices.iter().find(|device| device.is_over());
    let ram = plan.ram();
    match (over, &plan.refusal) {
        (Some(device), _) if device.kind == DeviceKind::Gpu => {
            format!("{} needs {} but has {} free", device.id, device.asked() + device.growth, device.free)
        }
        _ if ram.is_over() => {
            let ids = plan.gpus_in_ram();
            let with = if ids.is_empty() { String::new() } else { format!(", {}'s share included", ids.join(" and ")) };
            format!("RAM lacks {} of the {} needed{with}", ram.asked - ram.free - ram.swap_free, ram.asked)
        }
        (_, Some(refusal)) => refusal.trim_end().trim_end_matches('.').to_owned(),
        (_, None) => "a device needs more memory than it has".to_owned(),
    }
}

/// How well a model fits on a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FitSummary {
    /// Does it fit, and where?
    pub verdict: Verdict,
    /// Where what a token needs is.
    pub outcome: Outcome,
    /// Share of its memory that is on GPUs; zero if it needs none.
    pub on_gpu: Ratio,
    /// Weights in RAM of layers that count as on GPUs; zero if a whole layer is in RAM.
    pub parts_in_ram: Bytes,
    /// The largest context with all in VRAM, in tokens.
    pub context_in_vram: Option<u64>,
    /// The largest context that fits in RAM, in tokens, on a machine without GPUs.
    pub context_in_ram: Option<u64>,
    /// How fast it generates with as much in the cache as was asked for, where that can be known.
    pub speed: Option<Box<Speed>>,
    /// Tokens that it reads per second, of a model that writes none.
    pub reading: Option<Box<SpeedRange>>,
    /// How long the turn takes that was asked for.
    pub turn: Option<Box<TurnTime>>,
    /// Whether it was asked for.
    #[serde(skip)]
    pub turn_asked: bool,
    /// What the weights would be exact after, if they are not and it is asked of the model as opened.
    #[serde(skip)]
    pub exact_after: Option<Box<ExactAfter>>,
}

impl FitSummary {
    /// The largest context with all in VRAM, or in RAM where there are no GPUs.
    pub fn context(&self) -> Option<u64> {
        self.context_in_vram.or(self.context_in_ram)
    }

    /// Tokens per second that it writes, or reads if it writes none, as shown.
    pub fn tokens_per_second(&self) -> Option<f64> {
        let writes = self.speed.as_ref().map(|speed| speed.shown());
        writes.or(self.reading.as_ref().map(|reading| reading.shown()))
    }

    /// The same for a column of so many cells: `30 (28–34)`, or `30` where that is too long; `13k read`.
    pub fn pace(&self, cells: usize) -> Option<String> {
        let reads = |reading: &SpeedRange| format!("{} read", short(reading.tokens_per_second as u64));
        let writes = self.speed.as_ref().map(|speed| speed.range());
        let writes = writes.map(|range| {
            let whole = range.cell();
            if whole.chars().count() <= cells { whole } else { range.short() }
        });
        writes.or_else(|| self.reading.as_deref().map(reads))
    }
}

impl PlanRequest {
    /// Summarises `plan`, this request's plan, with its speed at `depth` tokens in the cache or as many as it holds, and
    /// finds the largest context with the other knobs held.
    pub fn fit_summary(&self, plan: &Plan, depth: u64) -> FitSummary {
        let depth = depth.min(plan.settings.ctx_per_sequence);
        let (in_vram, in_ram) = if self.machine.gpus.is_empty() {
            (None, self.largest_context(Goal::AtLeast(0)))
        } else {
            (self.largest_context(Goal::Vram), None)
        };
        FitSummary {
            verdict: plan.verdict,
            outcome: plan.outcome(),
            on_gpu: plan.totals.gpu.share_of(plan.totals.all),
            parts_in_ram: plan.parts_in_ram(),
            context_in_vram: in_vram,
            context_in_ram: in_ram,
            speed: Speed::of(&self.model, &self.machine, plan, depth).map(Box::new),
            reading: if self.model.generates() {
                None
            } else {
                PromptSpeed::of_plan(&self.model, &self.machine, plan).ok().map(|speed| Box::new(speed.range()))
            },
            turn_asked: plan.settings.turn.is_some(),
            exact_after: None,
            turn: plan
                .settings
                .turn
                .and_then(|turn| TurnTime::of(&self.model, &self.machine, plan, turn).ok().map(Box::new)),
        }
    }
}
