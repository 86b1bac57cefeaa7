//! The verdict in one sentence: whether it fits, for what, the limit, and what would change it.

use super::{Change, Goal, KnobLimits};
use crate::machine::DeviceKind;
use crate::plan::{DevicePlan, LayerPlan, Outcome, Plan, Verdict};
use crate::settings::InEffect;
use crate::speed::Speeds;
use crate::units::{Bytes, Tokens};

/// A margin that takes in what a driver or a desktop may do.
pub(super) const COMFORTABLE: Bytes = Bytes::mib(512);

/// What is so, and for what: `All in VRAM at 32 768 tokens, f16 KV`.
pub fn headline(plan: &Plan) -> String {
    format!("{} at {}", plan.outcome().headline(), held_for(&plan.settings))
}

/// The sentence after the headline; `limits` is `None` while they are being computed, `speeds` where no speed is known.
pub fn sentence(plan: &Plan, limits: Option<&KnobLimits>, speeds: Option<&Speeds>) -> String {
    let all = plan.layers.len();
    match plan.outcome() {
        Outcome::Vram => {
            let (parts, room) = (parts_on_others(plan) + &driver(plan), context_growth(plan, limits));
            format!("{}{}.{parts}{room}", margin(plan), speed(speeds, ""))
        }
        Outcome::PartsInRam | Outcome::ExpertsInRam => {
            let (parts, room) = (in_ram(plan), context_growth(plan, limits));
            let remedies = remedies(plan, limits, speeds);
            let speed = speed(speeds, ", which is slower");
            format!("{parts} run from RAM{speed}; {}.{}{remedies}{room}", margin(plan), driver(plan))
        }
        Outcome::LayersInRam => {
            let (in_ram, verb) = match plan.cpu().layers.len() {
                1 => (format!("1 of {all} layers"), "is"),
                n if n == all => (format!("all {all} layers"), "are"),
                n => (format!("{n} of {all} layers"), "are"),
            };
            let speed = speed(speeds, ", which is slower");
            format!("{in_ram} {verb} in RAM{speed}.{}{}", driver(plan), remedies(plan, limits, speeds))
        }
        Outcome::Cpu => {
            let cpu = plan.cpu();
            let room = context_with_ram(plan, limits);
            let speed = speed(speeds, "");
            format!("no GPU, so all {all} layers are in RAM: {} used of {} free{speed}.{room}", cpu.asked(), cpu.free)
        }
        Outcome::DoesNotFit => format!("{}{}", shortage(plan), remedies(plan, limits, speeds)),
    }
}

/// How fast it is, as the end of a clause.
fn speed(speeds: Option<&Speeds>, unknown: &str) -> String {
    speeds.map_or_else(|| unknown.to_owned(), |speeds| format!("; {speeds}"))
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

/// What the GPU with the least memory left still has, besides what is kept free there.
pub(super) fn margin(plan: &Plan) -> String {
    let Some(tightest) = plan.tightest_gpu() else { return "no GPU holds a layer".to_owned() };
    let (left, reserved) = (tightest.left(), tightest.reserved());
    let used = plan.gpus().iter().filter(|gpu| !gpu.layers.is_empty()).count();
    let place = if used > 1 { format!(" on {}, the fullest GPU", tightest.id) } else { String::new() };
    let only = if left < COMFORTABLE { "only " } else { "" };
    if reserved > Bytes::ZERO {
        format!("{only}{left} above the {reserved} kept free{place}")
    } else {
        format!("{only}{left} to spare{place}")
    }
}

/// A sentence on what a driver takes besides the plan, where the memory left may not suffice for it.
fn driver(plan: &Plan) -> String {
    let has_experts = plan.model.experts.is_some();
    let lack = |device: &&DevicePlan| {
        let left = device.free - device.asked();
        let driver = device.driver.filter(|driver| !device.layers.is_empty() && driver.most(has_experts) > left)?;
        Some((driver.most(has_experts) - left, left, driver))
    };
    let short = plan.gpus().iter().filter_map(|gpu| Some((gpu, lack(&gpu)?)));
    let Some((gpu, (_, left, driver))) = short.max_by_key(|(_, (lack, ..))| *lack) else { return String::new() };
    let (id, name) = (&gpu.id, driver.backend.name());
    let from = driver.known_from();
    if driver.loaded.most > left {
        return format!(" Besides, {name} itself takes {} ({from}), and {id} has {left}.", driver.loaded);
    }
    let growth = driver.first_prompt(has_experts);
    format!(" At the first prompt {name} may take up to {growth} more ({from}), and {id} has {left}.")
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
        Outcome::Vram => (limits.vram.context, "stays in VRAM"),
        _ => (limits.all_layers.context, "keeps all layers on GPU"),
    };
    match most {
        Some(most) if most > plan.settings.ctx => {
            let whole = if trained == Some(most) { ", the model's training context," } else { "" };
            format!(" A context of up to {}{whole} {stay}.", Tokens(most))
        }
        Some(_) if trained == Some(plan.settings.ctx) => " The context is the model's training context.".to_owned(),
        Some(_) => " The context cannot grow further.".to_owned(),
        None => String::new(),
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
    let maxima = if in_vram { &limits.vram } else { &limits.all_layers };
    let mut ways: Vec<String> = Vec::new();
    ways.extend(maxima.context.map(|most| format!("a context of {}", Tokens(most))));
    ways.extend(limits.remedies.iter().take(2).map(|change| remedy(change, limits)));
    let Some(last) = ways.pop() else {
        let none = if plan.gpus().is_empty() {
            String::new()
        } else {
            " No context, cache type or number of sequences brings all into VRAM.".to_owned()
        };
        return context_with_ram(plan, Some(limits).filter(|_| plan.verdict == Verdict::DoesNotFit)) + &none;
    };
    let ways = if ways.is_empty() { last } else { format!("{} or {last}", ways.join(", ")) };
    let brings = if in_vram { "brings all into VRAM" } else { "brings all layers onto GPUs, with experts in RAM" };
    let speed = limits.remedied_speed.as_ref().map_or_else(String::new, |then| {
        let times = speeds.and_then(|now| then.range().against(&now.start.range()));
        times.map_or_else(|| format!(": {then}"), |times| format!(": {then}, {times}"))
    });
    format!(" {} {brings}{speed}.", capitalised(&ways))
}

/// With a capital letter at the beginning.
pub fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    first + chars.as_str()
}

/// A change, with what it saves and costs if it changes the type of the cache.
fn remedy(change: &Change, limits: &KnobLimits) -> String {
    let cost = match *change {
        Change::Cache(ty) | Change::CacheWithFlash(ty) => limits.cache_type_against_f16(ty),
        _ => None,
    };
    cost.map_or_else(|| change.to_string(), |cost| format!("{change} ({cost})"))
}

fn shortage(plan: &Plan) -> String {
    let over = plan.devices.iter().find(|device| device.is_over());
    match (over, &plan.refusal) {
        (Some(device), _) => {
            let swap = if device.kind == DeviceKind::Cpu && device.swap_free > Bytes::ZERO {
                format!(" and {} of swap", device.swap_free)
            } else {
                String::new()
            };
            let place = if device.kind == DeviceKind::Cpu { "RAM" } else { device.id.as_str() };
            format!("{place} needs {} but has {} free{swap}.", device.asked(), device.free)
        }
        (None, Some(refusal)) => sentence_case(refusal),
        (None, None) => "a device needs more memory than it has.".to_owned(),
    }
}

fn sentence_case(text: &str) -> String {
    let text = text.trim_end();
    if text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}
