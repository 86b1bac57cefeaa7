//! The devices and the memory that each needs.

use super::super::style::{BarGlyphs, Hue, Style};
use super::{amount, bar};
use crate::machine::{DeviceKind, short_name};
use crate::plan::{DevicePlan, PartKind, PartMemory, Plan};
use crate::units::{Bytes, Difference};

const COLUMNS: [&str; 6] = ["weights", "cache", "graph", "reserved", "free", "left"];
/// Widths of the device column and of one amount.
const ID: usize = 6;
const AMOUNT: usize = 10;

pub(super) fn section(plan: &Plan, style: &Style) -> String {
    let mut out = if style.is_narrow() { list(plan, style) } else { table(plan, style) };
    if style.bars != BarGlyphs::None {
        out += &bar::legend(ID, plan.ram().by_gpus > Bytes::ZERO, style);
    }
    out + &shared(plan, style) + &drivers(plan, style)
}

/// RAM as one pool, where GPUs take memory of it.
fn shared(plan: &Plan, style: &Style) -> String {
    let ram = plan.ram();
    let ids = plan.gpus_in_ram();
    if ids.is_empty() {
        return String::new();
    }
    let (who, what) =
        if ids.len() == 1 { ("shares", "its memory is a budget") } else { ("share", "theirs are budgets") };
    let left =
        if ram.left().is_short() { format!("{} short", ram.left().lacking()) } else { format!("{} left", ram.left()) };
    let text = format!(
        "one memory: {} {who} RAM, and {what} in it: {} of it for GPUs and {} for the CPU, of {} free; {left}",
        ids.join(", "),
        ram.by_gpus,
        ram.asked - ram.by_gpus,
        ram.free
    );
    style.wrap("", &text)
}

/// What drivers take besides on the GPUs with layers, which no column has; alike GPUs together.
fn drivers(plan: &Plan, style: &Style) -> String {
    let mut lines: Vec<(Vec<&str>, String)> = Vec::new();
    for gpu in plan.gpus().iter().filter(|gpu| !gpu.layers.is_empty()) {
        let Some(driver) = gpu.driver else { continue };
        let mut words = format!("{} {}", driver.backend.name(), driver.loaded);
        let growth = driver.first_prompt(plan.model.experts.is_some());
        if growth > Bytes::ZERO {
            words += &format!(", up to {growth} more at the first prompt");
        }
        words += &format!(" ({})", driver.known_from());
        match lines.iter_mut().find(|(_, known)| *known == words) {
            Some((ids, _)) => ids.push(&gpu.id),
            None => lines.push((vec![&gpu.id], words)),
        }
    }
    lines
        .iter()
        .map(|(ids, words)| style.wrap("", &format!("besides, not counted: {words} on {}", ids.join(", "))))
        .collect()
}

/// The devices with figures below their names, for narrow terminals.
fn list(plan: &Plan, style: &Style) -> String {
    let mut out = format!("{}\n", style.strong("Devices"));
    let facts = |amounts: &[Bytes]| -> Vec<String> {
        COLUMNS.into_iter().zip(amounts).map(|(column, bytes)| format!("{column} {}", amount(*bytes))).collect()
    };
    for (at, (device, headroom)) in plan.devices.iter().zip(plan.headrooms()).enumerate() {
        out += &style.wrap(&format!("{:<ID$}", device.id), short_name(&device.label()));
        out += &format!("{:ID$}{}\n", "", below(at, device, plan, style));
        let mut of = facts(&[device.weights, device.cache, device.graph, device.reserved(), device.free]);
        of.push(format!("left {}", signed(headroom.above_kept())));
        out += &style.below(ID, &of);
        for (part, memory) in parts(plan, at) {
            let amounts = [memory.weights, memory.cache, memory.graph];
            let own: Vec<String> = facts(&amounts).into_iter().map(|fact| format!("{} {fact}", part.name())).collect();
            out += &style.below(ID, &own);
        }
    }
    let totals = plan.totals;
    let mut all = facts(&[totals.weights, totals.cache, totals.graph]);
    all.push(format!("{} total", amount(totals.all)));
    out += &style.below(ID, &all).replacen("      ", "all   ", 1);
    out
}

fn table(plan: &Plan, style: &Style) -> String {
    let name = style.width - ID - COLUMNS.len() * AMOUNT;
    let mut out = style.strong(&format!("{:<width$}", "Devices", width = ID + name));
    for (column, hue) in
        COLUMNS.into_iter().zip([Hue::Weights, Hue::Cache, Hue::Graph, Hue::Reserved, Hue::Dim, Hue::Dim])
    {
        out += &style.paint(hue, &format!("{column:>AMOUNT$}"));
    }
    out.push('\n');
    for (at, (device, headroom)) in plan.devices.iter().zip(plan.headrooms()).enumerate() {
        let head = format!("{:<ID$}{:<name$}", device.id, cell(short_name(&device.label()), name - 1));
        let amounts = [device.weights, device.cache, device.graph, device.reserved(), device.free];
        out += &head;
        out.extend(amounts.map(column));
        let left = headroom.above_kept();
        let text = format!("{:>AMOUNT$}", signed(left));
        out += &if left.is_short() { style.paint(Hue::Over, &text) } else { text };
        out.push('\n');
        out += &format!("{:ID$}{}\n", "", below(at, device, plan, style));
        for (part, memory) in parts(plan, at) {
            let amounts = [memory.weights, memory.cache, memory.graph].map(column).concat();
            let row = format!("{:ID$}{:<name$}{amounts}", "", format!("  {}", part.name()));
            out += &format!("{}\n", style.paint(Hue::Dim, &row));
        }
    }
    let totals = plan.totals;
    let sums = [totals.weights, totals.cache, totals.graph].map(column).concat();
    out += &format!("{:<width$}{sums}   {} total\n", "all", amount(totals.all), width = ID + name);
    out
}

/// What each part of the plan takes on device `at`, if there are several parts.
fn parts(plan: &Plan, at: usize) -> Vec<(PartKind, PartMemory)> {
    let several = plan.parts.iter().filter(|_| plan.parts.len() > 1);
    several
        .filter_map(|part| Some((part.kind, *part.devices.get(at)?)))
        .filter(|(_, memory)| memory.asked() > Bytes::ZERO)
        .collect()
}

/// The share of each computer, if there are several.
pub(super) fn computers(plan: &Plan, style: &Style) -> Option<String> {
    let computers = plan.computers();
    if computers.len() < 2 {
        return None;
    }
    let mut out = format!("{}\n", style.strong("Machines"));
    for computer in &computers {
        let layers = match computer.layers {
            1 => "1 layer".to_owned(),
            n => format!("{n} layers"),
        };
        let devices = computer.devices.join(", ");
        let (asked, free) = (amount(computer.asked), amount(computer.free));
        let lacking: Vec<String> = computer.lacking.iter().map(|(id, bytes)| format!("; {id} lacks {bytes}")).collect();
        let lacking = lacking.concat();
        let name = computer.display_name();
        out += &style.wrap("", &format!("{name} ({devices}): {layers}, {asked} used of {free} free{lacking}"));
    }
    Some(out)
}

/// The bar, if bars are drawn, and the layers on the device.
fn below(at: usize, device: &DevicePlan, plan: &Plan, style: &Style) -> String {
    let mut words = match device.layers.len() {
        0 => "no layers".to_owned(),
        1 => "1 layer".to_owned(),
        n => format!("{n} of {} layers", plan.layers.len()),
    };
    if device.repacked > Bytes::ZERO {
        words += &format!(", {} of weights repacked", device.repacked);
    }
    if device.read_once > Bytes::ZERO {
        words += &format!(", {} of the mapped file read once", device.read_once);
    }
    let lack = device.needed() + plan.lent_to_gpus(at) - device.free;
    if lack > Bytes::ZERO && device.kind == DeviceKind::Cpu && device.swap_free > Bytes::ZERO {
        words += &format!(", {} in swap", lack.min(device.swap_free));
    } else if device.in_use() > Bytes::ZERO {
        words += &format!(", {} in use", device.in_use());
    }
    if style.bars == BarGlyphs::None {
        return words;
    }
    let cells = style.lines.saturating_sub(ID + 2 + 34).max(8);
    format!("{}  {words}", bar::bar(device, plan.lent_to_gpus(at), cells, style))
}

fn signed(bytes: Difference) -> String {
    let sign = if bytes.is_short() { "-" } else { "" };
    format!("{sign}{}", amount(bytes.left() + bytes.lacking()))
}

fn column(bytes: Bytes) -> String {
    let text = if bytes == Bytes::ZERO { "–".to_owned() } else { amount(bytes) };
    format!("{text:>AMOUNT$}")
}

/// `text` truncated to `width` columns with an ellipsis.
pub(in super::super) fn cell(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}
