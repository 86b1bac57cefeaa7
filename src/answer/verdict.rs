//! The verdict in one sentence: whether it fits, the limit, and what would change it.

use super::KnobLimits;
use crate::machine::DeviceKind;
use crate::plan::{FitStatus, LayerPlan, Plan, Verdict};
use crate::units::{Bytes, Tokens};

impl FitStatus {
    /// A short headline.
    pub const fn headline(self) -> &'static str {
        match self {
            Self::Fits => "Fits",
            Self::PartInRam(_) => "Part in RAM",
            Self::Split => "Split",
            Self::InRam => "In RAM",
            Self::DoesNotFit => "Does not fit",
        }
    }
}

/// The headline of a verdict, without regard to parts in RAM.
pub fn headline(verdict: Verdict) -> &'static str {
    FitStatus::of(verdict, Bytes::ZERO).headline()
}

/// The sentence after the headline; `limits` is `None` while they are being computed.
pub fn sentence(plan: &Plan, limits: Option<&KnobLimits>) -> String {
    let all = plan.layers.len();
    match plan.fit_status() {
        FitStatus::Fits => {
            let (place, spare) = on_gpus(plan);
            let (parts, room) = (parts_on_others(plan), context_growth(plan, limits));
            format!("all {all} layers are on {place}, with {spare} to spare.{parts}{room}")
        }
        FitStatus::PartInRam(parts) => {
            let (place, spare) = on_gpus(plan);
            let room = context_growth(plan, limits);
            format!(
                "all {all} layers are assigned to {place}, with {spare} to spare, but {parts} of their weights are \
                 in RAM, which is slower.{room}"
            )
        }
        FitStatus::Split => {
            let (in_ram, verb) = match plan.cpu().layers.len() {
                1 => ("1 layer".to_owned(), "is"),
                n => (format!("{n} of {all} layers"), "are"),
            };
            format!("{in_ram} {verb} in RAM, which is slower.{}", remedies(plan, limits))
        }
        FitStatus::InRam if plan.gpus().is_empty() => {
            let cpu = plan.cpu();
            let room = context_with_ram(plan, limits);
            format!("no GPU, so all {all} layers are in RAM: {} used of {} free.{room}", cpu.asked(), cpu.free)
        }
        FitStatus::InRam => format!("no layer is on GPU, all {all} are in RAM.{}", remedies(plan, limits)),
        FitStatus::DoesNotFit => format!("{}{}", shortage(plan), remedies(plan, limits)),
    }
}

/// The GPUs with layers in words, and the memory left on them.
fn on_gpus(plan: &Plan) -> (String, Bytes) {
    let gpus: Vec<_> = plan.gpus().iter().filter(|gpu| !gpu.layers.is_empty()).collect();
    let place = match gpus.as_slice() {
        [gpu] => gpu.name.clone(),
        _ => format!("{} GPUs", gpus.len()),
    };
    (place, gpus.iter().map(|gpu| gpu.left()).sum())
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
    let trained = plan.model.context_train;
    match limits.and_then(|limits| limits.context) {
        Some(most) if most > plan.settings.ctx => {
            let whole = if trained == Some(most) { ", the model's training context" } else { "" };
            format!(" The context can grow to {}{whole}.", Tokens(most))
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

fn remedies(plan: &Plan, limits: Option<&KnobLimits>) -> String {
    let Some(limits) = limits else { return String::new() };
    let mut ways: Vec<String> = Vec::new();
    ways.extend(limits.context.map(|most| format!("a context of {}", Tokens(most))));
    ways.extend(limits.remedies.iter().take(2).map(ToString::to_string));
    let place = if plan.gpus().len() == 1 { "the GPU" } else { "the GPUs" };
    let Some(last) = ways.pop() else {
        let none = if plan.gpus().is_empty() {
            String::new()
        } else {
            format!(" No context, cache type or number of sequences keeps all layers on {place}.")
        };
        return context_with_ram(plan, Some(limits).filter(|_| plan.verdict == Verdict::DoesNotFit)) + &none;
    };
    let ways = if ways.is_empty() { last } else { format!("{} or {last}", ways.join(", ")) };
    let mut chars = ways.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    format!(" {first}{} keeps all layers on {place}.", chars.as_str())
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
