//! Why a placement is faster: what a token reads where, before and now.

use crate::engine::PlanRequest;
use crate::plan::{DevicePlan, Plan};
use crate::speed::terms::FITTED;
use crate::speed::work::{DeviceWork, Work};
use crate::units::Bytes;

/// Bytes that are worth a word.
const LEAST: f64 = 1e6;

/// One sentence on what makes `then` faster than `now`, both plans of `request`'s model and machine.
pub(super) fn of(request: &PlanRequest, now: &Plan, then: &Plan) -> String {
    let work = |plan: &Plan| Work::of(&request.model, &request.machine, plan, 0);
    let mut parts = Vec::new();
    let left_out: Vec<&str> = now
        .gpus()
        .iter()
        .zip(then.gpus())
        .filter(|(now, then)| !now.layers.is_empty() && then.layers.is_empty())
        .map(|(gpu, _)| gpu.id.as_str())
        .collect();
    if !left_out.is_empty() {
        parts.push(format!("{} {} left out", list(&left_out), is(left_out.len())));
    }
    let added =
        now.gpus().iter().zip(then.gpus()).filter(|(now, then)| now.layers.is_empty() && !then.layers.is_empty());
    let added: Vec<&str> = added.map(|(gpu, _)| gpu.id.as_str()).collect();
    if !added.is_empty() {
        parts.push(format!("{} {} used too", list(&added), is(added.len())));
    }
    let in_ram = |plan: &Plan| plan.cpu().layers.len();
    match (in_ram(then), in_ram(now)) {
        (0, 1..) => parts.push("no layer is in RAM any more".to_owned()),
        (after, before) if after < before => parts.push(format!("{after} {} in RAM, not {before}", layers(after))),
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
    let (Some(before), Some(after)) = (work(now), work(then)) else {
        return sentence(&parts, "");
    };
    parts.extend(moved(now, &before, &after));
    let milliseconds = |work: &Work| work.seconds(&FITTED, None) * 1e3;
    sentence(&parts, &format!(": a token takes {:.1} ms, not {:.1}", milliseconds(&after), milliseconds(&before)))
}

fn sentence(parts: &[String], end: &str) -> String {
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    if parts.is_empty() {
        format!("It is faster{end}.")
    } else {
        format!("It is faster because {}{end}.", list(&parts))
    }
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
    let named = |device: &DevicePlan| {
        let bandwidth = before.devices.iter().chain(&after.devices).find(|work| work.id == device.id)?.bandwidth;
        let name = device.backend.map_or_else(|| device.name.clone(), |_| format!("{} {}", device.id, device.name));
        Some(format!("{name} ({bandwidth})"))
    };
    let (less, more) = (-more(from), more(to));
    if less < LEAST {
        return None;
    }
    let amount = |bytes: f64| format!("{:.2} GB a token", bytes / 1e9);
    Some(if more < LEAST {
        format!("{} less is read from {}", amount(less), named(from)?)
    } else {
        format!("{} is read from {}, not from {}", amount(less.min(more)), named(to)?, named(from)?)
    })
}

const fn layers(count: usize) -> &'static str {
    if count == 1 { "layer is" } else { "layers are" }
}

const fn is(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// `a, b and c`
fn list(parts: &[&str]) -> String {
    match parts {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}
