//! Why a device is full: what takes its memory, and how sure that is.

use crate::answer::parts;
use crate::answer::ram::RamUse;
use crate::answer::verdict::capitalised;
use crate::engine::{EngineVersion, PlanRequest};
use crate::machine::DeviceKind;
use crate::page::{Hue, Page, exactly};
use crate::plan::{Confidence, DevicePlan, Estimate, Headroom, OwnCache, Plan};
use crate::speed::Speeds;
use crate::teach::alike;
use crate::units::{Bytes, Tokens};

/// Width of names.
const NAMES: usize = 18;

/// Adds what takes the memory of the device with this index, and what else is known of it there: `request` is that of
/// `plan`, which is as fast as `speeds` say.
pub fn add(request: Option<&PlanRequest>, plan: &Plan, speeds: Option<&Speeds>, index: usize, page: &mut Page) {
    let text = Hue::Text;
    let Some(device) = plan.devices.get(index) else { return };
    page.pair("device", NAMES, &device_text(plan, index), text);
    if let Some(backend) = device.backend {
        page.pair("backend", NAMES, backend.name(), text);
    }
    page.pair("layers", NAMES, &layers(device, plan), text);
    page.heading("Needed");
    for (name, bytes) in [("weights", device.weights), ("cache", device.cache), ("compute buffer", device.graph)] {
        page.pair(name, NAMES, &exactly(bytes), text);
    }
    page.pair("total", NAMES, &exactly(device.asked()), Hue::Text.bold());
    if let Some(measured) = device.graph_measured {
        page.pair("compute in the fit", NAMES, &exactly(measured), text);
        page.text("The fit measures the compute buffer without allocating it; a load takes what is above.", Hue::Dim);
    }
    if let Some(pipelined) = device.graph_pipelined {
        page.pair("in a pipeline", NAMES, &exactly(pipelined), text);
        page.text("That cannot be allocated, so llama.cpp reserves again without pipeline parallelism.", Hue::Dim);
    }
    if device.growth > Bytes::ZERO {
        page.pair("grows by", NAMES, &exactly(device.growth), text);
    }
    for part in plan.parts.iter().filter(|_| plan.parts.len() > 1) {
        let memory = part.devices.get(index).copied().unwrap_or_default();
        page.heading(&format!("Of these, the {}", part.kind.title()));
        for (name, bytes) in [("weights", memory.weights), ("cache", memory.cache), ("compute buffer", memory.graph)] {
            page.pair(name, NAMES, &exactly(bytes), text);
        }
    }
    beside(request, plan, page);
    page.heading("Available");
    page.pair("total", NAMES, &exactly(device.total), text);
    page.pair("free", NAMES, &exactly(device.free), text);
    if device.ram.swap_free > Bytes::ZERO {
        page.pair("free swap", NAMES, &exactly(device.ram.swap_free), text);
    }
    if plan.is_over(index) {
        page.pair(
            "over by",
            NAMES,
            &exactly(device.needed() + device.growth + plan.lent_to_gpus(index) - device.free - device.ram.swap_free),
            Hue::Over.bold(),
        );
    }
    if !device.reserves.is_empty() {
        page.heading("Kept free by the engine");
        for reserve in &device.reserves {
            page.pair(reserve.name, NAMES, &exactly(reserve.bytes), text);
        }
        let above = plan.headrooms().get(index).map(Headroom::above_kept);
        if let Some(short) = above.filter(|above| above.is_short() && !device.is_over()) {
            page.pair("short of that by", NAMES, &exactly(short.lacking()), Hue::Over.bold());
        }
    }
    speed(speeds, page);
    if let Some(request) = request.filter(|_| device.kind == DeviceKind::Cpu) {
        let ram = RamUse::of(request, plan);
        page.heading("Of that, in RAM");
        page.pair("must stay", NAMES, &exactly(ram.must), text);
        page.pair("should stay", NAMES, &exactly(ram.warm), text);
        page.pair("may be paged out", NAMES, &exactly(ram.may_page), text);
        if ram.idle_experts > Bytes::ZERO {
            page.pair("of these, experts", NAMES, &exactly(ram.idle_experts), text);
        }
        if device.ram.repacked > Bytes::ZERO {
            page.pair("repacked weights", NAMES, &exactly(device.ram.repacked), text);
        }
        page.pair("weights are read", NAMES, &format!("{} (--load-mode)", ram.load_mode), text);
        ram.in_use().into_iter().chain(ram.shortage(plan)).for_each(|sentence| page.text(&sentence, Hue::Text));
    }
    if let Some((largest, limit)) = device.largest_buffer.and_then(|largest| Some((largest, largest.limit?))) {
        page.heading("The largest single buffer, at most");
        page.pair(largest.holds.title(), NAMES, &exactly(largest.bytes), text);
        page.text(&limit.to_string(), Hue::Text);
    }
    if let Some(driver) = device.driver {
        page.heading("Besides, for the driver; not counted");
        page.pair("after the load", NAMES, &driver.loaded.to_string(), text);
        if driver.first_prompt.is_some() {
            let growth = driver.first_prompt(plan.model.experts.is_some());
            page.pair("at the first prompt", NAMES, &format!("up to {growth} more"), text);
        }
        if let Some(context) = driver.context {
            page.pair("while prompts are read", NAMES, &context.to_string(), text);
        }
        page.pair("how sure", NAMES, &driver.known_from(), text);
    }
    if let Some(own) = &plan.own_caches {
        page.heading("Caches of Ollama's own engine on this device");
        let here = device.layers.iter().filter_map(|&layer| own.layers.get(layer));
        page.pair("cache", NAMES, &exactly(here.map(OwnCache::bytes).sum()), text);
    }
    if let Some(estimate) = &plan.estimate {
        estimated(estimate, device, page);
    }
}

/// Adds how sure the figures are, and why.
pub fn confidence(engine: EngineVersion, plan: &Plan, page: &mut Page) {
    page.heading("Confidence");
    let sure = match plan.confidence {
        Confidence::Exact => "exact: reproduces the engine's own arithmetic",
        Confidence::Modelled => "modelled",
        Confidence::Assumed => "assumed",
    };
    page.pair(&engine.to_string(), NAMES + 6, sure, Hue::Text);
    plan.uncertainties.iter().for_each(|one| page.text(&capitalised(&one.reason), Hue::Text));
}

/// The name of the device with this index, and what it is.
pub fn device_text(plan: &Plan, device: usize) -> String {
    let name = plan.devices.get(device).map(|device| device.name.as_str()).unwrap_or_default();
    match plan.device_name(device) {
        "RAM" => "RAM".to_owned(),
        id => format!("{id}, {name}"),
    }
}

/// Why what is loaded beside the model takes what it takes.
fn beside(request: Option<&PlanRequest>, plan: &Plan, page: &mut Page) {
    for part in request.into_iter().flat_map(|request| parts::of(request, plan)) {
        page.heading(&format!("Why the {} takes that", part.part.title()));
        part.file.iter().for_each(|file| page.text(file, Hue::Dim));
        part.reasons.iter().for_each(|reason| page.text(reason, Hue::Text));
    }
}

/// What a token's time consists of, on all devices: they work one after the other.
fn speed(speeds: Option<&Speeds>, page: &mut Page) {
    let Some(Speeds { start, full, prompt, turn }) = speeds else { return };
    for (title, speed) in [("Time of a token at the start, modelled", start), ("With the context full", full)] {
        page.heading(title);
        for part in &speed.terms {
            page.pair(&part.name, 28, &format!("{:.2} ms", part.milliseconds), Hue::Text);
            page.pair("", 2, &part.formula, Hue::Dim);
        }
        let whole: f64 = speed.terms.iter().map(|part| part.milliseconds).sum();
        page.pair("together", 28, &format!("{whole:.2} ms: {speed}"), Hue::Text.bold());
    }
    if let Some(reason) = &start.reason {
        page.text(&capitalised(reason), Hue::Dim);
    }
    match prompt {
        Ok(prompt) => {
            page.heading(&format!("Time of a prompt of {} tokens, modelled", Tokens(prompt.tokens)));
            for part in &prompt.terms {
                page.pair(&part.name, 28, &format!("{:.0} ms", part.milliseconds), Hue::Text);
                page.pair("", 2, &part.formula, Hue::Dim);
            }
            let whole: f64 = prompt.terms.iter().map(|part| part.milliseconds).sum();
            page.pair("together", 28, &format!("{whole:.0} ms: {}", prompt.range()), Hue::Text.bold());
            prompt.reason.iter().for_each(|reason| page.text(&capitalised(reason), Hue::Dim));
        }
        Err(why) => page.text(&format!("How fast prompts are read is not said: {why}."), Hue::Dim),
    }
    match turn {
        Some(Ok(turn)) => page.text(&format!("{turn}."), Hue::Text),
        Some(Err(why)) => page.text(&format!("How long a turn takes is not said: {why}."), Hue::Dim),
        None => {}
    }
}

/// The estimator's figures, as in the engine's log.
fn estimated(estimate: &Estimate, device: &DevicePlan, page: &mut Page) {
    let text = Hue::Text;
    page.heading("As the engine logs it, including its reserves");
    let here = estimate.devices.iter().position(|id| *id == device.id);
    if let Some(size) = here.and_then(|at| estimate.gpu_sizes.get(at)) {
        page.pair("this device", NAMES, &exactly(*size), text);
    }
    page.pair("VRAM", NAMES, &exactly(estimate.vram_size), text);
    page.pair("total", NAMES, &exactly(estimate.total_size), text);
    for (name, bytes) in [("projector", estimate.projector_weights), ("projector graph", estimate.projector_graph)] {
        if bytes > Bytes::ZERO {
            page.pair(name, NAMES, &exactly(bytes), text);
        }
    }
}

/// `12 of 33: 0 to 11`
fn layers(device: &DevicePlan, plan: &Plan) -> String {
    let runs = alike::runs(device.layers.iter().copied());
    let runs: Vec<String> =
        runs.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a} to {b}") }).collect();
    match device.layers.len() {
        0 => "none".to_owned(),
        count => format!("{count} of {}: {}", plan.layers.len(), runs.join(", ")),
    }
}
