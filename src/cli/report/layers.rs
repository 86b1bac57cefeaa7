//! The layers, grouped by consecutive layers on one device.

use super::super::style::Style;
use super::amount;
use crate::answer::verdict::capitalised;
use crate::plan::{LayerKind, LayerPlan, Plan, Why};
use crate::units::Bytes;

pub(super) fn section(plan: &Plan, style: &Style) -> String {
    let head = if style.is_narrow() {
        "Layers".to_owned()
    } else {
        format!("{:<12}{:<8}{:>22}{:>22}{:>12}", "Layers", "device", "weights each", "cache each", "total")
    };
    let mut out = format!("{}\n", style.strong(&head));
    for run in plan.layers.chunk_by(|one, next| same_group(one, next, plan)) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let numbers = if first.index == last.index {
            first.index.to_string()
        } else {
            format!("{}–{}", first.index, last.index)
        };
        let numbers = match plan.layer_kind(first.index) {
            LayerKind::Block => numbers,
            LayerKind::Nextn => format!("{numbers} NextN"),
            LayerKind::Output => format!("{numbers} output"),
        };
        let device = plan.devices.get(first.device).map_or("?", |device| device.id.as_str());
        let sum: Bytes = run.iter().map(|layer| layer.weights + layer.cache).sum();
        let weights = range(run.iter().map(|layer| layer.weights));
        let cache = range(run.iter().map(|layer| layer.cache));
        if style.is_narrow() {
            let each = if run.len() > 1 { " each" } else { "" };
            let place = format!("{device}, {} total", amount(sum));
            let facts = [place, format!("weights {weights}{each}"), format!("cache {cache}{each}")];
            out += &style.below(12, &facts).replacen(&" ".repeat(12), &format!("{numbers:<11} "), 1);
        } else {
            out += &format!("{numbers:<11} {device:<8}{weights:>22}{cache:>22}{:>12}\n", amount(sum));
        }
        // layers are placed from last to first: explain the one with the least memory left
        let tight = if matches!(first.why, Why::NoRoom { .. }) { last } else { first };
        let why = tight.reason(&plan.devices);
        let one_of_many = matches!(tight.why, Why::Fits { .. } | Why::NoRoom { .. }) && run.len() > 1;
        let of = if one_of_many { format!("{}: ", capitalised(&plan.layer_name(tight.index))) } else { String::new() };
        out += &style.wrap("            ", &format!("{of}{why}"));
    }
    out
}

/// Same device, kind of layer and kind of reason.
fn same_group(one: &LayerPlan, next: &LayerPlan, plan: &Plan) -> bool {
    let why = std::mem::discriminant(&one.why) == std::mem::discriminant(&next.why);
    one.device == next.device && why && plan.layer_kind(one.index) == plan.layer_kind(next.index)
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
