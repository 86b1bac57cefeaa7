//! Notes on a device: how it was detected, what its memory is, and how engines treat its backend.

use super::MachineRow;
use crate::engine::backend;
use crate::machine::budget::{Budget, DriverMemory, VulkanLimits};
use crate::machine::what_if::GpuSlot;
use crate::machine::{Backend, Machine, Os, presets};
use crate::plan::Confidence;
use crate::tui::app::App;
use crate::tui::theme::Hue;
use crate::tui::widget::row_writer::wrap;
use crate::units::Bytes;

/// Width of a rule's name.
const RULE: u16 = 34;

/// The notes on the device, line by line.
pub(super) fn of(app: &App, row: MachineRow, slot: Option<&GpuSlot>, columns: u16) -> Vec<(Hue, String)> {
    let mut notes = Vec::new();
    let mut text = |hue: Hue, text: &str| notes.extend(wrap(text, columns).into_iter().map(|line| (hue, line)));
    let device_id = match (row, slot) {
        (MachineRow::Gpu(_), Some(slot)) => {
            slot.found.filter(|_| slot.change.card.is_none()).map(|at| format!("GPU{at}"))
        }
        (MachineRow::Ram, _) => Some("CPU".to_owned()),
        _ => None,
    };
    // detection results are for the local machine only
    let device_id = device_id.filter(|_| app.found_machine.what_if.replacement.is_none());
    if let (Some(device_id), Some(found)) = (device_id, &app.found_machine.detected) {
        let facts: Vec<String> = found
            .facts
            .iter()
            .filter(|fact| fact.device == device_id)
            .map(|fact| format!("{} {}", fact.what, fact.value))
            .collect();
        let held = found.processes.iter().filter(|process| process.device == device_id);
        let held: Vec<String> = held.map(ToString::to_string).collect();
        if !facts.is_empty() {
            text(Hue::Focus, "Detection");
            text(Hue::Dim, &facts.join(" · "));
        }
        if !held.is_empty() {
            text(Hue::Dim, &format!("in use by {}", held.join(" · ")));
        }
        if row == MachineRow::Ram {
            let tried = found.tried.iter().filter(|tried| ["ram", "cgroup"].contains(&tried.collector));
            tried.for_each(|tried| text(Hue::Dim, &format!("{}: {}", tried.collector, tried.outcome)));
        }
    }
    match (row, slot) {
        (MachineRow::Gpu(_), Some(slot)) => {
            if let Some(computer) = &slot.gpu.computer {
                text(
                    Hue::Dim,
                    &format!(
                        "It is in {computer}, joined over RPC: llama.cpp gives it layers before the local GPUs. \
                         Ollama does not use it. Its sizes are modelled."
                    ),
                );
            }
            if slot.gpu.integrated {
                text(Hue::Dim, "Integrated: engines fill it last.");
            }
            if let Some(preset) = presets::find(&slot.gpu.name) {
                text(Hue::Dim, &format!("memory bandwidth {} GB/s (manufacturer's figure)", preset.gbps));
            }
            if let Some(budget) = Budget::of(&app.request.machine, &slot.gpu) {
                pool(&app.request.machine, &budget, columns, &mut notes);
            }
            let compute = slot.gpu.compute.map(|(major, minor)| format!(", compute capability {major}.{minor}"));
            notes.push((Hue::Dim, String::new()));
            let heading = format!("How engines treat {}{}", slot.gpu.backend.name(), compute.unwrap_or_default());
            notes.push((Hue::Focus, heading));
            rules(slot, app.request.machine.os, columns, &mut notes);
        }
        (MachineRow::Ram, _) => {
            let shared = app.request.machine.gpus.iter().find_map(|gpu| Budget::of(&app.request.machine, gpu));
            if let Some(budget) = shared {
                pool(&app.request.machine, &budget, columns, &mut notes);
            }
        }
        (MachineRow::Every, _) => text(
            Hue::Dim,
            "Kept free on each GPU, in addition to what is set aside for the desktop or another model. This is an \
             engine knob: it belongs to the plan, not to the machine.",
        ),
        (MachineRow::Add, _) => text(Hue::Dim, "Enter adds a GPU by name, by size, or in the form of --gpu."),
        _ => {}
    }
    notes
}

/// Adds RAM as one bar with the GPU's budget marked on it, the rule of that budget, and what raises it.
fn pool(machine: &Machine, budget: &Budget, columns: u16, notes: &mut Vec<(Hue, String)>) {
    let ram = machine.ram;
    let cells = usize::from(columns.saturating_sub(2)).min(60);
    let cell = |bytes: Bytes| ((bytes.share_of(ram.total).0 * cells as f64).round() as usize).min(cells);
    let (free, mark) = (cell(ram.free), cell(budget.bytes).saturating_sub(1));
    let bar: String = (0..cells)
        .map(|at| {
            if at == mark {
                '┊'
            } else if at < free {
                '·'
            } else {
                '╱'
            }
        })
        .collect();
    let own = if budget.own > Bytes::ZERO { format!(", and {} of its own", budget.own) } else { String::new() };
    notes.push((Hue::Focus, format!("One memory: {} of RAM", ram.total)));
    notes.push((Hue::Text, bar));
    let legend =
        format!("· free {} · ╱ in use {} · ┊ the GPU's budget, {}{own}", ram.free, ram.total - ram.free, budget.bytes);
    for sentence in [Some(&legend), Some(&budget.rule), budget.raise.as_ref()].into_iter().flatten() {
        notes.extend(wrap(sentence, columns).into_iter().map(|line| (Hue::Dim, line)));
    }
}

/// Adds the rules for the GPU's backend, with sources.
fn rules(slot: &GpuSlot, os: Os, columns: u16, notes: &mut Vec<(Hue, String)>) {
    let rules = backend::of(slot.gpu.backend);
    if let Some(memory) = DriverMemory::of(&slot.gpu) {
        notes.extend(wrap(&memory.to_string(), columns).into_iter().map(|line| (Hue::Cache, line)));
    }
    if slot.gpu.backend == Backend::Vulkan {
        let (limits, driver, guessed) = VulkanLimits::of(&slot.gpu, os);
        let assumed = if guessed { ", assumed" } else { "" };
        for line in wrap(&format!("limits ({driver}{assumed}): {limits}"), columns.saturating_sub(1)) {
            notes.push((Hue::Text, line));
        }
    }
    let names = usize::from(RULE);
    let room = columns.saturating_sub(RULE + 1);
    for fact in rules.facts().iter().filter(|fact| fact.confidence != Confidence::Assumed) {
        let mut name = fact.what;
        for line in wrap(&fact.value, room) {
            notes.push((Hue::Text, format!("{name:<names$} {line}")));
            name = "";
        }
        let source = wrap(fact.source, columns.saturating_sub(2));
        notes.extend(source.into_iter().map(|line| (Hue::Dim, format!("  {line}"))));
    }
}
