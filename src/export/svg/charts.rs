//! Headings and colours that the pictures share.

use crate::page::palette::Hue;
use crate::plan::Plan;

/// The parts of a device's memory and their colours.
pub(super) const PARTS: [(Hue, &str); 3] = [(Hue::Weights, "weights"), (Hue::Cache, "cache"), (Hue::Graph, "graph")];

/// `Llama 3.1 8B · Q4_K_M · 4.6 GiB`
pub(super) fn model_line(plan: &Plan) -> String {
    let model = &plan.model;
    let parts = [Some(model.name.clone()), model.file_type.clone(), Some(model.bytes.to_string())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}
