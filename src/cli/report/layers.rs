//! The layers, grouped by consecutive layers on one device.

use super::super::style::{Hue, Style};
use super::amount;
use crate::plan::{LayerPlan, Plan, Why};
use crate::units::Bytes;

pub(super) fn section(plan: &Plan, style: &Style) -> String {
    let head = if style.is_narrow() {
        "Layers".to_owned()
    } else {
        format!("{:<12}{:<8}{:>22}{:>22}{:>12}", "Layers", "device", "weights each", "cache each", "total")
    };
    let mut out = format!("{}\n", style.paint(Hue::Strong, &head));
    for run in plan.layers.chunk_by(|one, next| same_group(one, next, plan)) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let numbers = match (first.index == last.index, is_output(first, plan)) {
            (_, true) => format!("{} output", first.index),
            (true, false) => first.index.to_string(),
            (false, false) => format!("{}–{}", first.index, last.index),
        };
        let device = plan.devices.get(first.device).map_or("?", |device| device.id.as_str());
        let sum: Bytes = run.iter().map(|layer| layer.weights + layer.cache).sum();
        let weights = range(run.iter().map(|layer| layer.weights));
        let cache = range(run.iter().map(|layer| layer.cache));
        if style.is_narrow() {
            let each = if run.len() > 1 { " each" } else { "" };
            let place = format!("{device}, {} total", amount(sum));
            let facts = [place, format!("weights {weights}{each}"), format!("cache {cache}{each}")];
            out += &style.below(12, &facts).replacen(&" ".repeat(12), &format!("{numbers:<12}"), 1);
        } else {
            out += &format!("{numbers:<12}{device:<8}{weights:>22}{cache:>22}{:>12}\n", amount(sum));
        }
        // layers are placed from last to first: explain the one with the least memory left
        let tight = if matches!(first.why, Why::NoRoom { .. }) { last } else { first };
        let why = tight.reason(&plan.devices);
        let one_of_many = matches!(tight.why, Why::Fits { .. } | Why::NoRoom { .. }) && run.len() > 1;
        let of = if one_of_many { format!("Layer {}: ", tight.index) } else { String::new() };
        out += &style.wrap("            ", &format!("{of}{why}"));
    }
    out
}

/// Same device and kind of reason; the output layer is a group of its own.
fn same_group(one: &LayerPlan, next: &LayerPlan, plan: &Plan) -> bool {
    let kind = std::mem::discriminant(&one.why) == std::mem::discriminant(&next.why);
    one.device == next.device && kind && !is_output(next, plan)
}

fn is_output(layer: &LayerPlan, plan: &Plan) -> bool {
    layer.index + 1 == plan.layers.len()
}

/// The smallest and largest amount, or one if they are equal.
fn range(amounts: impl Iterator<Item = Bytes> + Clone) -> String {
    let (Some(least), Some(most)) = (amounts.clone().min(), amounts.max()) else { return String::new() };
    if most == Bytes::ZERO {
        "–".to_owned()
    } else if amount(least) == amount(most) {
        amount(most)
    } else {
        format!("{} – {}", amount(least), amount(most))
    }
}
