//! The selected device: its settings, how each value was obtained, and how engines treat its backend.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

use crate::engine::backend;
use crate::machine::budget::Budget;
use crate::machine::budget::DriverMemory;
use crate::machine::budget::VulkanLimits;
use crate::machine::presets::{self, Preset};
use crate::machine::what_if::GpuSlot;
use crate::machine::{Backend, Gpu, Machine, Origin, Os};
use crate::plan::Confidence;
use crate::tui::app::machine::{DeviceSetting, MachinePrompt, MachineRow, MachineScreen, Pane};
use crate::tui::app::{App, LiveMemory};
use crate::tui::theme::Hue;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, wrap};
use crate::units::Bytes;

/// Width of a setting's title.
const TITLE: u16 = 20;
/// Width of a rule's name.
const RULE: u16 = 34;

/// Draws the pane.
pub fn draw(app: &App, screen: &MachineScreen, area: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let row = app.machine_row(screen);
    let slot = if let MachineRow::Gpu(at) = row { app.slot(at) } else { None };
    let title = match (&slot, row) {
        (Some(slot), _) => slot.gpu.name.as_str(),
        (None, MachineRow::Ram) => "System RAM",
        (None, MachineRow::Every) => "All GPUs",
        (None, MachineRow::Add | MachineRow::Gpu(_)) => "New GPU",
    };
    let focused = screen.pane == Pane::Details;
    let inner = panel::frame(buffer, area, title, "", focused, theme);
    let lines = row.lines(app.engine);
    let notes = notes(app, row, slot.as_ref(), inner.width.saturating_sub(2));
    let gap = usize::from(!lines.is_empty());
    let count = lines.len() + gap + notes.len();
    let scroll = usize::from(screen.scroll).min(count.saturating_sub(usize::from(inner.height)));
    for (y, at) in (0..inner.height).zip(scroll..count) {
        if let Some(&line) = lines.get(at) {
            draw_line(app, screen, slot.as_ref(), (row, line), focused && at == screen.line, inner, y, buffer);
        } else if let Some((hue, text)) = at.checked_sub(lines.len() + gap).and_then(|at| notes.get(at)) {
            let ink = if *hue == Hue::Focus { theme.bold(Hue::Text) } else { theme.ink(*hue) };
            RowWriter::new(buffer, inner, y).skip(1).put(text, ink);
        }
    }
    let last = (scroll + usize::from(inner.height)).min(count);
    if last - scroll < count {
        let edge = Rect { y: area.bottom().saturating_sub(1), height: 1, ..area };
        let ink = theme.ink(if focused { Hue::Focus } else { Hue::Border });
        let more = format!(" {} to {last} of {count}, PgDn ", scroll + 1);
        RowWriter::new(buffer, edge, 0).right("─╯", ink).right(&more, theme.ink(Hue::Dim));
    }
}

#[allow(clippy::too_many_arguments, reason = "one line: of what, which, whether it is chosen, and where")]
fn draw_line(
    app: &App,
    screen: &MachineScreen,
    slot: Option<&GpuSlot>,
    (row, line): (MachineRow, DeviceSetting),
    chosen: bool,
    area: Rect,
    y: u16,
    buffer: &mut Buffer,
) {
    let theme = app.theme;
    if chosen {
        let row = Rect { y: area.y + y, height: 1, ..area };
        buffer.set_style(row.intersection(buffer.area), theme.selected());
    }
    let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
    let mut writer = RowWriter::new(buffer, area, y);
    writer.put(if chosen { " ▸ " } else { "   " }, ink).put(line.title(), ink).to(area.x + TITLE + 1);
    match &screen.prompt {
        MachinePrompt::Size(input) if chosen => {
            writer.put(input.value(), theme.bold(Hue::Focus));
            writer.put(" ", theme.ink(Hue::Text).add_modifier(Modifier::REVERSED));
            writer.skip(1).put("24GiB, 512MiB, …", theme.ink(Hue::Dim));
        }
        _ => {
            let (value, from) = value(app, row, line, slot);
            writer.put(&value, ink).skip(2).put(&from, theme.ink(Hue::Dim));
        }
    }
}

/// The value of a setting, and where it comes from.
fn value(app: &App, row: MachineRow, line: DeviceSetting, slot: Option<&GpuSlot>) -> (String, String) {
    let size = app.machine_size(row, line).unwrap_or(Bytes::ZERO).to_string();
    let described = app.what_if.base(&app.found_machine.machine).origin == Origin::Described;
    let as_it_is = if described { "as specified" } else { "as detected" };
    let ram = app.what_if.ram;
    let from = |stated: bool| if stated { "set here" } else { as_it_is }.to_owned();
    match (line, slot) {
        (DeviceSetting::Used, Some(slot)) if slot.change.off => ("no".to_owned(), "Space switches it on".to_owned()),
        (DeviceSetting::Used, _) => ("yes".to_owned(), String::new()),
        (DeviceSetting::Card, Some(slot)) => {
            let from = if slot.change.card.is_some() { "chosen here" } else { as_it_is };
            (format!("{}, {}", slot.gpu.name, slot.gpu.total), from.to_owned())
        }
        (DeviceSetting::Free, Some(slot)) => {
            let followed = !described && app.found_machine.live == LiveMemory::On && slot.change.card.is_none();
            let from = match (&slot.change.free, preset(slot)) {
                (Some(_), _) => "set here".to_owned(),
                (None, Some(share)) => format!("assumed: {share:.0} % of total"),
                (None, None) if followed => "live, from its driver".to_owned(),
                (None, None) if described && is_assumed(&slot.gpu) => {
                    format!(
                        "assumed: {:.0} % of total",
                        100.0 * slot.gpu.free.0 as f64 / slot.gpu.total.0.max(1) as f64
                    )
                }
                (None, None) => as_it_is.to_owned(),
            };
            (size, from)
        }
        (DeviceSetting::Total, _) => (size, from(ram.total.is_some())),
        (DeviceSetting::RamFree, _) => (size, from(ram.free.is_some())),
        (DeviceSetting::Swap, _) => (size, from(ram.swap.is_some())),
        (DeviceSetting::Overhead, _) => (size, "OLLAMA_GPU_OVERHEAD, kept free on each GPU".to_owned()),
        (DeviceSetting::FitTarget, _) => (size, "--fit-target, left free on each GPU".to_owned()),
        (DeviceSetting::Card | DeviceSetting::Desktop | DeviceSetting::Other | DeviceSetting::Free, _) => {
            (size, String::new())
        }
    }
}

/// Whether what is free is exactly what is assumed where nothing is stated.
fn is_assumed(gpu: &Gpu) -> bool {
    let preset = presets::find(&gpu.name).map(Preset::gpu);
    let share = preset.map_or(presets::FREE_VRAM, |preset| preset.free.0 as f64 / preset.total.0.max(1) as f64);
    gpu.free != gpu.total && gpu.free.0.abs_diff((gpu.total.0 as f64 * share) as u64) <= 1
}

/// The percentage of memory assumed free for a preset card.
fn preset(slot: &GpuSlot) -> Option<f64> {
    let card = slot.change.card.as_ref()?;
    presets::find(&card.name).filter(|preset| preset.gpu() == *card).map(|preset| preset.free * 100.0)
}

/// The notes on the device, line by line.
fn notes(app: &App, row: MachineRow, slot: Option<&GpuSlot>, columns: u16) -> Vec<(Hue, String)> {
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
    let device_id = device_id.filter(|_| app.what_if.replacement.is_none());
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
            if let Some(budget) = Budget::of(&app.machine, &slot.gpu) {
                pool(&app.machine, &budget, columns, &mut notes);
            }
            let compute = slot.gpu.compute.map(|(major, minor)| format!(", compute capability {major}.{minor}"));
            notes.push((Hue::Dim, String::new()));
            let heading = format!("How engines treat {}{}", slot.gpu.backend.name(), compute.unwrap_or_default());
            notes.push((Hue::Focus, heading));
            rules(slot, app.machine.os, columns, &mut notes);
        }
        (MachineRow::Ram, _) => {
            let shared = app.machine.gpus.iter().find_map(|gpu| Budget::of(&app.machine, gpu));
            if let Some(budget) = shared {
                pool(&app.machine, &budget, columns, &mut notes);
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
