//! Memory along a knob: a stacked area chart per device, with a line at its free memory.

use super::canvas::{Anchor, MARGIN, SvgCanvas, WIDTH};
use super::charts::{PARTS, model_line};
use crate::answer::sweep::{DeviceSums, PlanFigures, Sweep};
use crate::export::caption::Caption;
use crate::page::palette::Hue;
use crate::plan::Plan;
use crate::settings::knob::Knob;
use crate::speed::SpeedRange;
use crate::units::Bytes;

const LEFT: f64 = MARGIN + 84.0;
const RIGHT: f64 = WIDTH - MARGIN - 10.0;
const HIGH: f64 = 150.0;
/// Height of the chart of speeds.
const SPEEDS_HIGH: f64 = 80.0;

/// What the engine keeps free.
const KEPT_FREE: (Hue, &str) = (Hue::Reserved, "kept free");

/// The picture of `sweep`; `plan` is the plan with the current settings.
pub fn sweep(plan: &Plan, sweep: &Sweep, caption: &Caption) -> String {
    let mut canvas = SvgCanvas::new();
    canvas.heading(&model_line(plan), &format!("memory by {} · {}", sweep.knob.title(), plan.source()));
    let planned: Vec<(f64, &PlanFigures)> = sweep
        .points
        .iter()
        .filter_map(|point| Some((across(sweep, point.value), point.figures.as_ref().ok()?)))
        .collect();
    let devices = planned.first().map_or(0, |(_, figures)| figures.devices.len());
    for device in 0..devices {
        chart(&mut canvas, sweep, &planned, device);
    }
    speeds(&mut canvas, sweep, &planned);
    let words = [KEPT_FREE, (Hue::Over, "free memory"), (Hue::Dim, "threshold")];
    canvas.legend(&PARTS.into_iter().chain(words).collect::<Vec<_>>());
    let refused = sweep.points.len() - planned.len();
    if refused > 0 {
        canvas.sentence(&format!("The engine refuses {refused} of {} values.", sweep.points.len()));
    }
    canvas.caption(caption);
    canvas.finish(&model_line(plan))
}

/// The horizontal position of `value`; logarithmic for knobs with a wide range.
fn across(sweep: &Sweep, value: u64) -> f64 {
    let (Some(first), Some(last)) = (sweep.points.first(), sweep.points.last()) else { return LEFT };
    let place = |value: u64| if logarithmic(sweep.knob) { (value.max(1) as f64).log2() } else { value as f64 };
    let whole = place(last.value) - place(first.value);
    let share = if whole > 0.0 { (place(value) - place(first.value)) / whole } else { 0.5 };
    LEFT + share.clamp(0.0, 1.0) * (RIGHT - LEFT)
}

const fn logarithmic(knob: Knob) -> bool {
    !matches!(knob, Knob::GpuLayers | Knob::CacheType | Knob::FlashAttn)
}

fn asked(device: &DeviceSums) -> Bytes {
    device.weights + device.cache + device.graph
}

fn chart(canvas: &mut SvgCanvas, sweep: &Sweep, planned: &[(f64, &PlanFigures)], at: usize) {
    let sums: Vec<(f64, &DeviceSums)> =
        planned.iter().filter_map(|(x, figures)| Some((*x, figures.devices.get(at)?))).collect();
    let Some((_, first)) = sums.first() else { return };
    let top = canvas.y + 6.0;
    let floor = top + HIGH;
    let most = sums.iter().map(|(_, device)| asked(device)).max().unwrap_or(Bytes::ZERO);
    // include the line of free memory unless it is far above the rest
    let highest = if first.free.0 / 3 > most.0 { most } else { most.max(first.free) };
    let scale = Bytes((highest.0 as f64 * 1.06) as u64 + 1);
    let high = |bytes: Bytes| floor - bytes.share_of(scale).0 * HIGH;

    canvas.rect(LEFT, top, RIGHT - LEFT, HIGH, Hue::Ground);
    let mut base: Vec<(f64, f64)> = sums.iter().map(|(x, _)| (*x, floor)).collect();
    let stacked: [fn(&DeviceSums) -> Bytes; 4] =
        [|d| d.weights, |d| d.weights + d.cache, asked, |d| asked(d) + d.reserved.min(d.free - asked(d))];
    for ((hue, _), part) in PARTS.into_iter().chain([KEPT_FREE]).zip(stacked) {
        let line: Vec<(f64, f64)> = sums.iter().map(|(x, device)| (*x, high(part(device)))).collect();
        canvas.area(&line, &base, hue);
        base = line;
    }
    for (nth, cliff) in sweep.cliffs.iter().enumerate() {
        let x = across(sweep, cliff.last);
        // full height for the first cliff and for changes of other knobs; layers lost one by one get ticks
        let marked = nth == 0 || !cliff.jumps.is_empty();
        canvas.line((x, top), (x, if marked { floor } else { top + 8.0 }), Hue::Dim, marked);
    }
    if first.free <= scale {
        canvas.line((LEFT, high(first.free)), (RIGHT, high(first.free)), Hue::Over, false);
    }
    canvas.text(MARGIN - 8.0, top + HIGH / 2.0, 14, Anchor::Start, Hue::Text, &first.id);
    canvas.text(LEFT - 8.0, high(highest) + 5.0, 12, Anchor::End, Hue::Dim, &highest.to_string());
    canvas.text(LEFT - 8.0, floor, 12, Anchor::End, Hue::Dim, "0");
    labels(canvas, sweep, floor);
    canvas.y = floor + 36.0;
}

/// The values of the knob, as many as there is room for.
fn labels(canvas: &mut SvgCanvas, sweep: &Sweep, floor: f64) {
    let mut free = 0.0;
    for point in &sweep.points {
        let (x, text) = (across(sweep, point.value), sweep.knob.show(point.value));
        let half = text.chars().count() as f64 * 3.6;
        let is_edge = sweep.cliffs.iter().any(|cliff| point.value == cliff.last || point.value == cliff.first);
        if x - half >= free && !is_edge {
            canvas.text(x, floor + 18.0, 12, Anchor::Middle, Hue::Dim, &text);
            free = x + half + 8.0;
        }
    }
}

/// The speed with a full cache, as a band from low to high with a line in the middle.
fn speeds(canvas: &mut SvgCanvas, sweep: &Sweep, planned: &[(f64, &PlanFigures)]) {
    let known: Vec<(f64, SpeedRange)> =
        planned.iter().filter_map(|(x, figures)| Some((*x, figures.speed_at_full_context?))).collect();
    let most = known.iter().map(|(_, range)| range.high).fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    let (top, floor) = (canvas.y + 6.0, canvas.y + 6.0 + SPEEDS_HIGH);
    let high = |speed: f64| floor - speed / (most * 1.06) * SPEEDS_HIGH;
    canvas.rect(LEFT, top, RIGHT - LEFT, SPEEDS_HIGH, Hue::Ground);
    let line = |of: fn(&SpeedRange) -> f64| known.iter().map(|(x, range)| (*x, high(of(range)))).collect::<Vec<_>>();
    canvas.area(&line(|range| range.high), &line(|range| range.low), Hue::InUse);
    for pair in line(|range| range.tokens_per_second).windows(2) {
        canvas.line(pair[0], pair[1], Hue::Text, false);
    }
    canvas.text(MARGIN - 8.0, top + SPEEDS_HIGH / 2.0, 14, Anchor::Start, Hue::Text, "tok/s");
    canvas.text(MARGIN - 8.0, top + SPEEDS_HIGH / 2.0 + 16.0, 11, Anchor::Start, Hue::Dim, "context full,");
    canvas.text(MARGIN - 8.0, top + SPEEDS_HIGH / 2.0 + 29.0, 11, Anchor::Start, Hue::Dim, "modelled");
    canvas.text(LEFT - 8.0, high(most) + 5.0, 12, Anchor::End, Hue::Dim, &format!("{most:.0}"));
    labels(canvas, sweep, floor);
    canvas.y = floor + 36.0;
}
