//! A plan: a bar per device, a column per layer, and the verdict.

use super::canvas::{Anchor, Hue, MARGIN, SvgCanvas, WIDTH};
use super::charts::{PARTS, what, who};
use crate::answer::verdict;
use crate::plan::{DevicePlan, Plan};
use crate::units::{Bytes, Tokens};

/// Where bars begin, and how wide a whole one is.
const LEFT: f64 = MARGIN + 150.0;
const WHOLE: f64 = WIDTH - LEFT - MARGIN - 230.0;

/// The picture.
pub fn plan(plan: &Plan) -> String {
    let mut paper = SvgCanvas::new();
    let effect = &plan.settings;
    let knobs = format!(
        "{} · context {} × {} · cache {}/{} · flash attention {} · batch {}",
        who(plan),
        Tokens(effect.ctx_per_sequence),
        effect.parallel,
        effect.cache_type_k,
        effect.cache_type_v,
        effect.flash_attn,
        effect.batch
    );
    paper.heading(&what(plan), &knobs);
    for device in &plan.devices {
        bar(&mut paper, device);
    }
    paper.y += 4.0;
    layers(&mut paper, plan);
    let words: Vec<_> = PARTS
        .into_iter()
        .chain(plan.layers.iter().any(|layer| layer.elsewhere() > Bytes::ZERO).then_some((Hue::Quiet, "elsewhere")))
        .chain([(Hue::Reserved, "reserved"), (Hue::InUse, "in use"), (Hue::Over, "over")])
        .collect();
    paper.legend(&words);
    paper.sentence(&format!("{}: {}", plan.fit_status().headline(), verdict::sentence(plan, None)));
    paper.finish(&what(plan))
}

/// What a device is asked for, beside what it has.
fn bar(paper: &mut SvgCanvas, device: &DevicePlan) {
    let top = paper.y;
    paper.text(MARGIN, top + 12.0, 14, Anchor::Start, Hue::Text, &device.id);
    paper.text(MARGIN, top + 29.0, 12, Anchor::Start, Hue::Quiet, &shortened(&device.name));
    let there = device.total + device.swap_free;
    let parts = [
        (device.weights, Hue::Weights),
        (device.cache, Hue::Cache),
        (device.graph, Hue::Graph),
        (device.reserved(), Hue::Reserved),
        (device.in_use(), Hue::InUse),
    ];
    let asked: Bytes = parts.iter().map(|(bytes, _)| *bytes).sum();
    let scale = asked.max(there);
    let length = |bytes: Bytes| bytes.share_of(scale).0 * WHOLE;
    paper.rect(LEFT, top, length(there), 26.0, Hue::Faint);
    let mut x = LEFT;
    for (bytes, ink) in parts {
        paper.rect(x, top, length(bytes), 26.0, ink);
        x += length(bytes);
    }
    let end = LEFT + length(there);
    if asked > there {
        paper.rect(end, top, x - end, 26.0, Hue::Over);
    }
    paper.line((end, top - 3.0), (end, top + 29.0), if device.is_over() { Hue::Over } else { Hue::Text }, false);
    let ink = if device.is_over() { Hue::Over } else { Hue::Text };
    let of = format!("{} of {} free", device.asked(), device.free);
    paper.text(WIDTH - MARGIN, top + 17.0, 13, Anchor::End, ink, &of);
    paper.y += 44.0;
}

/// One column per layer, as high as its weights and its cache; its device is written below.
fn layers(paper: &mut SvgCanvas, plan: &Plan) {
    const HIGH: f64 = 70.0;
    let most = plan.layers.iter().map(|layer| layer.weights + layer.cache).max().unwrap_or(Bytes::ZERO);
    let wide = (WIDTH - 2.0 * MARGIN) / plan.layers.len().max(1) as f64;
    let gap = if wide > 3.0 { 1.0 } else { 0.0 };
    let floor = paper.y + HIGH;
    for (at, layer) in plan.layers.iter().enumerate() {
        let x = MARGIN + at as f64 * wide;
        let high = |bytes: Bytes| bytes.share_of(most).0 * HIGH;
        let (weights, cache) = (high(layer.weights), high(layer.cache));
        paper.rect(x, floor - weights, wide - gap, weights, Hue::Weights);
        paper.rect(x, floor - weights, wide - gap, high(layer.elsewhere()), Hue::Quiet);
        paper.rect(x, floor - weights - cache, wide - gap, cache, Hue::Cache);
    }
    let mut from = 0;
    for run in plan.layers.chunk_by(|a, b| a.device == b.device) {
        let (begin, end) = (MARGIN + from as f64 * wide, MARGIN + (from + run.len()) as f64 * wide);
        paper.line((begin + 1.0, floor + 5.0), (end - 1.0, floor + 5.0), Hue::Quiet, false);
        let id = run.first().and_then(|layer| plan.devices.get(layer.device)).map_or("", |device| &device.id);
        if end - begin > 8.0 * id.len() as f64 {
            paper.text(f64::midpoint(begin, end), floor + 20.0, 12, Anchor::Middle, Hue::Quiet, id);
        }
        from += run.len();
    }
    paper.y = floor + 34.0;
}

fn shortened(name: &str) -> String {
    const LETTERS: usize = 22;
    if name.chars().count() <= LETTERS {
        return name.to_owned();
    }
    name.chars().take(LETTERS - 1).chain(['…']).collect()
}
