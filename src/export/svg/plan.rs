//! A plan: one bar per device, one column per layer, and the verdict.

use super::canvas::{Anchor, MARGIN, SvgCanvas, WIDTH};
use super::charts::{PARTS, model_line};
use crate::answer::verdict;
use crate::export::caption::Caption;
use crate::page::palette::Hue;
use crate::plan::{DevicePlan, Plan};
use crate::units::{Bytes, Tokens};

/// Left edge and full width of the bars.
const LEFT: f64 = MARGIN + 150.0;
const WHOLE: f64 = WIDTH - LEFT - MARGIN - 230.0;

/// The picture.
pub fn plan(plan: &Plan, caption: &Caption) -> String {
    let mut canvas = SvgCanvas::new();
    let effect = &plan.settings;
    let knobs = format!(
        "{} · context {}{} · cache {}/{} · flash attention {} · batch {}",
        plan.source(),
        Tokens(effect.ctx),
        verdict::context_of_each(effect).map_or_else(String::new, |each| format!(", {each}")),
        effect.cache_type_k,
        effect.cache_type_v,
        effect.flash_attn,
        effect.batch
    );
    canvas.heading(&model_line(plan), &knobs);
    for (at, device) in plan.devices.iter().enumerate() {
        bar(&mut canvas, device, plan.lent_to_gpus(at), plan.is_over(at));
    }
    canvas.y += 4.0;
    layers(&mut canvas, plan);
    let words: Vec<_> = PARTS
        .into_iter()
        .chain(plan.layers.iter().any(|layer| layer.elsewhere() > Bytes::ZERO).then_some((Hue::Dim, "elsewhere")))
        .chain([(Hue::Reserved, "reserved"), (Hue::InUse, "in use"), (Hue::Over, "over")])
        .collect();
    canvas.legend(&words);
    canvas.sentence(&format!("{}: {}", verdict::headline(plan), verdict::sentence(plan, None, None)));
    canvas.caption(caption);
    canvas.finish(&model_line(plan))
}

/// The memory that a device needs, compared with what it has.
fn bar(canvas: &mut SvgCanvas, device: &DevicePlan, lent: Bytes, is_over: bool) {
    let top = canvas.y;
    canvas.text(MARGIN, top + 12.0, 14, Anchor::Start, Hue::Text, &device.id);
    canvas.text(MARGIN, top + 29.0, 12, Anchor::Start, Hue::Dim, &shortened(&device.name));
    let available = device.total + device.swap_free;
    let parts = [
        (device.weights, Hue::Weights),
        (device.cache, Hue::Cache),
        (device.graph, Hue::Graph),
        (lent, Hue::Part),
        (device.reserved(), Hue::Reserved),
        (device.in_use(), Hue::InUse),
    ];
    let asked: Bytes = parts.iter().map(|(bytes, _)| *bytes).sum();
    let scale = asked.max(available);
    let length = |bytes: Bytes| bytes.share_of(scale).0 * WHOLE;
    canvas.rect(LEFT, top, length(available), 26.0, Hue::Ground);
    let mut x = LEFT;
    for (bytes, hue) in parts {
        canvas.rect(x, top, length(bytes), 26.0, hue);
        x += length(bytes);
    }
    let end = LEFT + length(available);
    if asked > available {
        canvas.rect(end, top, x - end, 26.0, Hue::Over);
    }
    let hue = if is_over { Hue::Over } else { Hue::Text };
    canvas.line((end, top - 3.0), (end, top + 29.0), hue, false);
    let of = format!("{} of {} free", device.asked() + lent, device.free);
    canvas.text(WIDTH - MARGIN, top + 17.0, 13, Anchor::End, hue, &of);
    canvas.y += 44.0;
}

/// One column per layer, as high as its weights and cache, with its device below.
fn layers(canvas: &mut SvgCanvas, plan: &Plan) {
    const HIGH: f64 = 70.0;
    let most = plan.layers.iter().map(|layer| layer.weights + layer.cache).max().unwrap_or(Bytes::ZERO);
    let wide = (WIDTH - 2.0 * MARGIN) / plan.layers.len().max(1) as f64;
    let gap = if wide > 3.0 { 1.0 } else { 0.0 };
    let floor = canvas.y + HIGH;
    for (at, layer) in plan.layers.iter().enumerate() {
        let x = MARGIN + at as f64 * wide;
        let high = |bytes: Bytes| bytes.share_of(most).0 * HIGH;
        let (weights, cache) = (high(layer.weights), high(layer.cache));
        canvas.rect(x, floor - weights, wide - gap, weights, Hue::Weights);
        canvas.rect(x, floor - weights, wide - gap, high(layer.elsewhere()), Hue::Dim);
        canvas.rect(x, floor - weights - cache, wide - gap, cache, Hue::Cache);
    }
    let mut from = 0;
    for run in plan.layers.chunk_by(|a, b| a.device == b.device) {
        let (begin, end) = (MARGIN + from as f64 * wide, MARGIN + (from + run.len()) as f64 * wide);
        canvas.line((begin + 1.0, floor + 5.0), (end - 1.0, floor + 5.0), Hue::Dim, false);
        let id = run.first().and_then(|layer| plan.devices.get(layer.device)).map_or("", |device| &device.id);
        if end - begin > 8.0 * id.len() as f64 {
            canvas.text(f64::midpoint(begin, end), floor + 20.0, 12, Anchor::Middle, Hue::Dim, id);
        }
        from += run.len();
    }
    canvas.y = floor + 34.0;
}

fn shortened(name: &str) -> String {
    const LETTERS: usize = 22;
    if name.chars().count() <= LETTERS {
        return name.to_owned();
    }
    name.chars().take(LETTERS - 1).chain(['…']).collect()
}
