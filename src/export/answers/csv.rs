//! Answers as CSV; the columns are stable. Sizes are integers in bytes.
#![allow(clippy::format_push_string, reason = "written once; readability wins")]

use crate::answer::sweep::Matrix;
use crate::answer::sweep::{PlanFigures, Sweep};
use crate::speed::SpeedRange;

const COLUMNS: &str = "verdict,offloaded,layer_count,on_gpu,weights,cache,graph,gpu,cpu,all";

/// Weights in RAM of layers that count as on GPUs, and the speed at the start and with a full cache.
const LAST_COLUMNS: &str = "parts_in_ram,tokens_per_second,tokens_per_second_at_full_context";

/// One line per point: the value, `COLUMNS`, weights, cache, graph and free bytes of each device, then `LAST_COLUMNS`.
pub fn sweep(sweep: &Sweep) -> String {
    let devices =
        sweep.points.iter().find_map(|point| point.figures.as_ref().ok()).map_or(&[][..], |first| &first.devices);
    let mut csv = format!("{},{COLUMNS}", sweep.knob.name());
    for device in devices {
        for part in ["weights", "cache", "graph", "free"] {
            csv.push_str(&format!(",{}_{part}", device.id));
        }
    }
    csv.push_str(&format!(",{LAST_COLUMNS}\n"));
    for point in &sweep.points {
        csv.push_str(&sweep.knob.plain(point.value));
        csv.push(',');
        csv.push_str(&fields(&point.figures));
        for device in 0..devices.len() {
            let sums = point.figures.as_ref().ok().and_then(|figures| figures.devices.get(device));
            csv.push_str(&match sums {
                Some(sums) => format!(",{},{},{},{}", sums.weights.0, sums.cache.0, sums.graph.0, sums.free.0),
                None => ",,,,".to_owned(),
            });
        }
        csv.push_str(&format!(",{}\n", last_fields(&point.figures)));
    }
    csv
}

/// One line per cell: both values, `COLUMNS` and `LAST_COLUMNS`.
pub fn matrix(matrix: &Matrix) -> String {
    let (rows, columns) = (matrix.rows.plain(), matrix.columns.plain());
    let mut csv = format!("{},{},{COLUMNS},{LAST_COLUMNS}\n", matrix.rows.name(), matrix.columns.name());
    let pairs = rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column)));
    for ((row, column), cell) in pairs.zip(&matrix.cells) {
        csv.push_str(&format!("{row},{column},{},{}\n", fields(cell), last_fields(cell)));
    }
    csv
}

/// The fields of `LAST_COLUMNS`, empty without a plan or a speed.
fn last_fields(figures: &Result<PlanFigures, String>) -> String {
    let Ok(figures) = figures else { return ",,".to_owned() };
    let speed =
        |range: Option<SpeedRange>| range.map_or_else(String::new, |range| format!("{:.2}", range.tokens_per_second));
    format!("{},{},{}", figures.parts_in_ram.0, speed(figures.speed), speed(figures.speed_at_full_context))
}

/// The fields of `COLUMNS`; if there is no plan, the verdict is `refused` and the rest is empty.
fn fields(figures: &Result<PlanFigures, String>) -> String {
    let Ok(figures) = figures else { return format!("refused{}", ",".repeat(COLUMNS.matches(',').count())) };
    let totals = figures.totals;
    format!(
        "{},{},{},{:.4},{},{},{},{},{},{}",
        figures.verdict,
        figures.offloaded,
        figures.layer_count,
        figures.on_gpu.0,
        totals.weights.0,
        totals.cache.0,
        totals.graph.0,
        totals.gpu.0,
        totals.cpu.0,
        totals.all.0,
    )
}
