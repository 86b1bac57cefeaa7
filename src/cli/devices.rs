//! `plimsoll devices`: what was detected and how, as text for bug reports or as JSON.

use serde::Serialize;

use super::error::one_line;
use super::report::cell;
use super::style::Style;
use crate::engine::backend;
use crate::hardware::{CollectorResult, Detected, Process};
use crate::machine::budget::Budget;
use crate::machine::budget::DriverMemory;
use crate::machine::{Backend, CpuInstructions, DeviceKind, Drivers, Gpu, Origin, Os, file, short_name};
use crate::text;
use crate::units::{Bandwidth, Bytes};

/// The devices and the outcome of every collector.
pub(super) fn text(detected: &Detected, style: &Style) -> String {
    let machine = &detected.machine;
    let name = style.width - 6 - 4 * 11;
    let mut out =
        format!("plimsoll {} on {} {}\n", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    if machine.origin == Origin::Described {
        out += &style.wrap("", "Simulated machine: at least partly specified, not detected.");
    }
    out.push('\n');
    let head = if style.is_narrow() {
        "Devices".to_owned()
    } else {
        format!("{:<6}{:<name$}{:>11}{:>11}{:>11}{:>11}", "", "Devices", "backend", "total", "free", "in use")
    };
    out += &format!("{}\n", style.strong(head.trim_end()));
    for device in file::MachineRecord::of(machine).devices {
        let what = if device.kind == DeviceKind::Gpu { short_name(device.name) } else { device.name };
        let (backend, in_use) = (device.backend.map(Backend::name), device.total - device.free);
        if style.is_narrow() {
            out += &style.wrap(&format!("{:<6}", device.id), &one_line(what));
            let amounts = [("total", device.total), ("free", device.free), ("in use", in_use)];
            let mut figures: Vec<_> = backend.map(str::to_owned).into_iter().collect();
            figures.extend(amounts.map(|(name, bytes)| format!("{name} {bytes}")));
            out += &style.below(6, &figures);
        } else {
            out += &format!(
                "{:<6}{:<name$}{:>11}{:>11}{:>11}{:>11}\n",
                device.id,
                cell(&one_line(what), name - 1),
                backend.unwrap_or_default(),
                device.total.to_string(),
                device.free.to_string(),
                in_use.to_string()
            );
        }
        let facts = detected.facts.iter().filter(|fact| fact.device == device.id);
        let mut facts: Vec<_> = facts.map(|fact| format!("{} {}", fact.what, one_line(&fact.value))).collect();
        facts.extend(device.compute.map(|compute| format!("compute capability {compute}")));
        facts.extend(driver(&machine.gpus, &device.id).map(|memory| memory.to_string()));
        facts.push(format!("{} bytes free of {}", device.free.0, device.total.0));
        out += &style.wrap("      ", &facts.join(" · "));
        let held = detected.processes.iter().filter(|process| process.device == device.id);
        let held: Vec<String> = held.map(|process| one_line(&process.to_string())).collect();
        if !held.is_empty() {
            out += &style.wrap("      ", &format!("in use by {}", held.join(" · ")));
        }
    }
    if machine.gpus.is_empty() && machine.origin == Origin::Detected {
        out += &style.wrap("", "No GPU was found. To plan for one, specify it: plimsoll plan MODEL --gpu 24GiB");
    }
    for (index, gpu) in machine.gpus.iter().enumerate() {
        let Some(Budget { bytes, rule, raise, .. }) = Budget::of(machine, gpu) else { continue };
        let raise = raise.map_or_else(String::new, |raise| format!(" {raise}"));
        out +=
            &style.wrap("", &format!("GPU{index} shares RAM: {bytes} of its memory is a budget in it. {rule}{raise}"));
    }
    out += &format!("\n{}\n", style.strong("Detection"));
    for tried in &detected.tried {
        out += &style.wrap(&format!("{:<8}", tried.collector), &one_line(&tried.outcome));
    }
    out
}

/// What driver and backend take besides on the device `id`.
fn driver(gpus: &[Gpu], id: &str) -> Option<DriverMemory> {
    let index: usize = id.strip_prefix("GPU")?.parse().ok()?;
    gpus.get(index).and_then(DriverMemory::of)
}

/// One JSON object with the keys of a plan's devices and more of real devices. It is a machine file for `--machine`.
pub(super) fn json(detected: &Detected) -> serde_json::Result<String> {
    let file::MachineRecord { plimsoll, origin, os, disk, cpu, drivers, devices } =
        file::MachineRecord::of(&detected.machine);
    let listed = devices.into_iter().map(|device| {
        let facts = detected.facts.iter().filter(|fact| fact.device == device.id);
        DeviceRecord {
            facts: facts.map(|fact| (fact.what, fact.value.as_str())).collect(),
            processes: detected.processes.iter().filter(|process| process.device == device.id).collect(),
            context_assumed: driver(&detected.machine.gpus, &device.id).map(|memory| memory.loaded.most),
            driver: driver(&detected.machine.gpus, &device.id),
            device,
        }
    });
    let devices = listed.collect();
    let mut used: Vec<Backend> = detected.machine.gpus.iter().map(|gpu| gpu.backend).collect();
    used.sort_unstable();
    used.dedup();
    let backends =
        used.into_iter().map(|backend| BackendRecord { backend, rules: backend::of(backend).facts() }).collect();
    text::json(&Object { plimsoll, origin, os, disk, cpu, drivers, devices, backends, tried: &detected.tried })
}

#[derive(Serialize)]
struct Object<'a> {
    plimsoll: &'static str,
    origin: Origin,
    os: Os,
    #[serde(skip_serializing_if = "Option::is_none")]
    disk: Option<Bandwidth>,
    cpu: Option<CpuInstructions>,
    #[serde(skip_serializing_if = "Drivers::is_unknown")]
    drivers: Drivers,
    devices: Vec<DeviceRecord<'a>>,
    backends: Vec<BackendRecord>,
    tried: &'a [CollectorResult],
}

#[derive(Serialize)]
struct DeviceRecord<'a> {
    #[serde(flatten)]
    device: file::DeviceRecord<'a>,
    context_assumed: Option<Bytes>,
    driver: Option<DriverMemory>,
    processes: Vec<&'a Process>,
    facts: std::collections::BTreeMap<&'static str, &'a str>,
}

#[derive(Serialize)]
struct BackendRecord {
    backend: Backend,
    rules: Vec<backend::BackendFact>,
}
