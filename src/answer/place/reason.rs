//! Why a placement is faster: what a token reads where, before and now.

use crate::engine::PlanRequest;
use crate::plan::{DevicePlan, Plan};
use crate::speed::terms::FITTED;
use crate::speed::work::{DeviceWork, Work};

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
        let verb = if left_out.len() == 1 { "is" } else { "are" };
        parts.push(format!("{} {verb} left out", list(&left_out)));
    }
    let in_ram = |plan: &Plan| plan.cpu().layers.len();
    parts.extend(fewer(in_ram(now), in_ram(then), |count| format!("{count} {} in RAM", layers(count))));
    let experts = |plan: &Plan| plan.layers.iter().filter(|layer| layer.elsewhere().0 > 0).count();
    parts.extend(fewer(experts(now), experts(then), |count| format!("experts of {count} {} in RAM", layers(count))));
    if let (Some(before), Some(after)) = (work(now), work(then)) {
        parts.extend(reads(now, &before, &after));
        let milliseconds = |work: &Work| work.seconds(&FITTED, None) * 1e3;
        parts.push(format!("a token takes {:.1} ms, not {:.1}", milliseconds(&after), milliseconds(&before)));
    }
    format!("It is faster because {}.", list(&parts.iter().map(String::as_str).collect::<Vec<_>>()))
}

/// What is read less of the device that the most time is saved on, and what is read more of another.
fn reads(plan: &Plan, before: &Work, after: &Work) -> Option<String> {
    let of = |work: &Work, id: &str| {
        let device = work.devices.iter().find(|device| device.id == id);
        device.map_or((0.0, 0.0), |device| (bytes(device), device.weights_seconds(&FITTED, None) + device.cache_seconds(&FITTED)))
    };
    let saved = |device: &&DevicePlan| of(before, &device.id).1 - of(after, &device.id).1;
    let most = plan.devices.iter().max_by(|a, b| saved(a).total_cmp(&saved(b)))?;
    let ((then, _), (now, _)) = (of(before, &most.id), of(after, &most.id));
    let bandwidth = |id: &str| {
        let mut devices = before.devices.iter().chain(&after.devices);
        devices.find(|device| device.id == id).map(|device| device.bandwidth)
    };
    if then - now < 1e6 {
        return None;
    }
    let gained = |device: &&DevicePlan| of(after, &device.id).0 - of(before, &device.id).0;
    let other = plan.devices.iter().max_by(|a, b| gained(a).total_cmp(&gained(b))).filter(|other| gained(other) > 1e6);
    let less = format!("{:.2} GB less per token is read of {} at {}", (then - now) / 1e9, named(most), bandwidth(&most.id)?);
    Some(match other {
        Some(other) => format!("{less}, and {:.2} GB more of {} at {}", gained(&other) / 1e9, named(other), bandwidth(&other.id)?),
        None => less,
    })
}

fn bytes(device: &DeviceWork) -> f64 {
    device.weights.bytes + device.cache
}

fn named(device: &DevicePlan) -> String {
    if device.backend.is_some() { format!("{} ({})", device.id, device.name) } else { device.name.clone() }
}

const fn layers(count: usize) -> &'static str {
    if count == 1 { "layer is" } else { "layers are" }
}

/// `31 layers are in RAM, not 38`
fn fewer(now: usize, then: usize, text: impl Fn(usize) -> String) -> Option<String> {
    (then < now).then(|| if then == 0 { format!("no longer {}", text(now)) } else { format!("{}, not {now}", text(then)) })
}

/// `a, b and c`
fn list(parts: &[&str]) -> String {
    match parts {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}
