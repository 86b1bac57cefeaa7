//! A plan as a Markdown table, for notes and issue trackers.

use crate::answer::verdict;
use crate::export::Caption;
use crate::page::markdown::Escaped;
use crate::page::{Block, Column, Hue, Narrow, Page, Span, Table, markdown};
use crate::plan::{DevicePlan, Plan};
use crate::units::Tokens;

/// The model, the verdict, a row per device, and the caption.
pub fn plan(plan: &Plan, caption: &Caption) -> String {
    let (model, effect) = (&plan.model, &plan.settings);
    let mut page = Page::default();
    let about = [Some(String::new()), model.file_type.clone(), Some(model.bytes.to_string())].into_iter().flatten();
    let about = about.collect::<Vec<_>>().join(" · ");
    page.spans("", vec![Span::new(&model.name, Hue::Text.bold()), about.into()]);
    page.text(&format!("{}: {}", verdict::headline(plan), verdict::sentence(plan, None, None)), Hue::Text);
    let row = |device: &DevicePlan| {
        let amounts = [device.weights, device.cache, device.graph, device.asked(), device.free];
        let amounts = amounts.map(|bytes| bytes.to_string());
        let names = [device.id.clone(), device.name.clone()].into_iter();
        names.chain(amounts).chain([device.layers.len().to_string()]).map(Span::from).collect()
    };
    let sums = plan.totals;
    let sums = [sums.weights, sums.cache, sums.graph, sums.all].map(|bytes| bytes.to_string());
    let total = ["", "total"].map(str::to_owned).into_iter().chain(sums);
    let total = total.chain([String::new(), plan.layers.len().to_string()]).map(Span::from).collect();
    let numbers = ["weights", "cache", "compute", "total", "of free", "layers"].map(|title| Column::right(title, 0));
    let columns = ["", "memory"].map(|title| Column::left(title, 0)).into_iter().chain(numbers).collect();
    let rows = plan.devices.iter().map(row).chain([total]).collect();
    page.push(Block::Table(Table { columns, rows, gap: 2, head: true, narrow: Narrow::Cut(1) }));
    let cache = if effect.cache_type_k == effect.cache_type_v {
        effect.cache_type_k.to_string()
    } else {
        format!("{} and {}", effect.cache_type_k, effect.cache_type_v)
    };
    let each = match effect.parallel {
        1 => String::new(),
        sequences if effect.ctx_per_sequence == effect.ctx_total => format!(" shared by {sequences} sequences"),
        sequences => format!(" for each of {sequences} sequences"),
    };
    let settings = format!(
        "Context {}{each}, cache {cache}, flash attention {}, batch {}, {} of {} layers on GPU. Planned for {}; {}.",
        Tokens(effect.ctx_per_sequence),
        effect.flash_attn,
        effect.batch,
        plan.on_gpus(),
        plan.layers.len(),
        plan.engine_title(),
        plan.confidence
    );
    page.text(&settings, Hue::Text);
    format!("{}\n*{}*\n", markdown::text(&page), Escaped::of(&caption.to_string()))
}
