//! Why a placement is faster: what a token reads where, before and now.

use crate::engine::PlanRequest;
use crate::machine::DeviceKind;
use crate::plan::{DevicePlan, Outcome, Plan};
use crate::speed::terms::FITTED;
use crate::speed::work::{DeviceWork, Work};
use crate::units::Bytes;

/// Bytes that are worth a word.
const LEAST: f64 = 1e6;

/// One sentence on what makes `then` faster than `now` with `depth` tokens in the cache, both plans of `request`'s model and
/// machine.
pub(super) fn of(request: &PlanRequest, now: &Plan, then: &Plan, depth: u64) -> String {
    if now.outcome() == Outcome::DoesNotFit {
        return "As it is, the model does not fit; placed so, it does.".to_owned();
    }
    let mut parts = Vec::new();
    for (from, to, what) in [(now, then, "left out"), (then, now, "used too")] {
        let gpus = from.gpus().iter().zip(to.gpus());
        let gpus = gpus.filter(|(from, to)| !from.layers.is_empty() && to.layers.is_empty());
        let names: Vec<String> = gpus.map(|(gpu, _)| named(gpu)).collect();
        if let Some((last, others)) = names.split_last() {
            let verb = if others.is_empty() { "is" } else { "are" };
            let others = if others.is_empty() { String::new() } else { format!("{} and ", others.join(", ")) };
            parts.push(format!("{others}{last} {verb} {what}"));
        }
    }
    let in_ram = |plan: &Plan| plan.cpu().layers.len();
    match (in_ram(then), in_ram(now)) {
        (0, 1..) => parts.push(match left_in_ram(then) {
            None => "no layer is in RAM any more".to_owned(),
            Some(left) => format!("no whole layer is in RAM any more, only {left}"),
        }),
        (1, before) if before > 1 => parts.push(format!("1 layer is in RAM, not {before}")),
        (after, before) if after < before => parts.push(format!("{after} layers are in RAM, not {before}")),
        _ => {}
    }
    let experts = |plan: &Plan| plan.layers.iter().filter(|layer| layer.elsewhere() > Bytes::ZERO).count();
    match (experts(then), experts(now)) {
        (0, 1..) => parts.push("no experts are in RAM any more".to_owned()),
        (after, before) if after < before => {
            let noun = if after == 1 { "layer" } else { "layers" };
            parts.push(format!("experts of {after} {noun} are in RAM, not of {before}"));
        }
        _ => {}
    }
    let work = |plan: &Plan| Work::of(&request.model, &request.machine, plan, depth);
    let (Some(before), Some(after)) = (work(now), work(then)) else {
        return sentence(&parts, "");
    };
    parts.extend(moved(now, &before, &after));
    let milliseconds = |work: &Work| {
        let milliseconds = work.seconds(&FITTED, None) * 1e3;
        if milliseconds < 10.0 { format!("{milliseconds:.2}") } else { format!("{milliseconds:.1}") }
    };
    let full = if depth > 0 { " with the context full" } else { "" };
    let (before, after) = (milliseconds(&before), milliseconds(&after));
    sentence(&parts, &format!(": a token takes {after} ms{full}, not {before}"))
}

/// What is in RAM of layers on GPUs.
fn left_in_ram(plan: &Plan) -> Option<String> {
    let layers = plan.layers.iter().filter(|layer| layer.elsewhere() > Bytes::ZERO).count();
    let noun = if layers == 1 { "layer" } else { "layers" };
    let experts = (plan.parts_in_ram() > Bytes::ZERO).then(|| format!("experts of {layers} {noun}"));
    let caches = (plan.cpu().cache > Bytes::ZERO).then(|| "caches".to_owned());
    [experts, caches].into_iter().flatten().reduce(|one, other| format!("{one} and {other}"))
}

fn sentence(parts: &[String], end: &str) -> String {
    let because = match parts {
        [] => String::new(),
        [one] => format!(" because {one}"),
        [others @ .., last] => format!(" because {}, and {last}", others.join(", ")),
    };
    format!("It is faster{because}{end}.")
}

/// What a token no longer reads of the device that this saves the most time on, and the device that more is read of.
fn moved(plan: &Plan, before: &Work, after: &Work) -> Option<String> {
    let of = |work: &Work, id: &str| {
        let device = work.devices.iter().find(|device| device.id == id);
        let seconds = |device: &DeviceWork| device.weights_seconds(&FITTED, None) + device.cache_seconds(&FITTED);
        device.map_or((0.0, 0.0), |device| (device.weights.bytes + device.cache, seconds(device)))
    };
    let saved = |device: &DevicePlan| of(before, &device.id).1 - of(after, &device.id).1;
    let more = |device: &DevicePlan| of(after, &device.id).0 - of(before, &device.id).0;
    let from = plan.devices.iter().max_by(|a, b| saved(a).total_cmp(&saved(b)))?;
    let to = plan.devices.iter().max_by(|a, b| more(a).total_cmp(&more(b)))?;
    let with_bandwidth = |device: &DevicePlan| {
        let work = before.devices.iter().chain(&after.devices).find(|work| work.id == device.id)?;
        Some(format!("{} ({})", named(device), work.bandwidth))
    };
    let (less, more) = (-more(from), more(to));
    if less < LEAST {
        return None;
    }
    let amount = |bytes: f64| format!("{:.2} GB a token", bytes / 1e9);
    Some(if more < LEAST {
        format!("{} less is read from {}", amount(less), with_bandwidth(from)?)
    } else {
        format!("{} is read from {}, not from {}", amount(less.min(more)), with_bandwidth(to)?, with_bandwidth(from)?)
    })
}

/// `GPU0 RTX 3090`, `RAM`
fn named(device: &DevicePlan) -> String {
    if device.kind == DeviceKind::Gpu { format!("{} {}", device.id, device.name) } else { device.name.clone() }
}
