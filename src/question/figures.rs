//! A plan in short, as JSON and as cells of a row.

use crate::answer::sweep::{DeviceSums, PlanFigures};
use crate::export::{csv, record};
use crate::plan::{Outcome, Totals, Verdict};
use crate::speed::SpeedRange;
use crate::speed::turn::TurnTime;
use crate::units::{Bytes, Ratio};

record! {
    /// A plan in short; if the engine refuses, `error` says why, and there are no figures.
    CellRecord<'a>(cell: &'a Result<PlanFigures, String>) {
        verdict: Option<Verdict> = cell.as_ref().ok().map(|figures| figures.verdict),
        /// Layers on GPUs.
        offloaded: Option<usize> = cell.as_ref().ok().map(|figures| figures.offloaded),
        /// All layers, the output layer counted.
        layer_count: Option<usize> = cell.as_ref().ok().map(|figures| figures.layer_count),
        /// Share of the memory that is on GPUs.
        on_gpu: Option<Ratio> = cell.as_ref().ok().map(|figures| figures.on_gpu),
        outcome: Option<Outcome> = cell.as_ref().ok().map(|figures| figures.outcome),
        /// Weights in RAM of layers that count as on GPUs; zero if a whole layer is in RAM.
        parts_in_ram: Option<Bytes> = cell.as_ref().ok().map(|figures| figures.parts_in_ram),
        totals: Option<Totals> = cell.as_ref().ok().map(|figures| figures.totals),
        /// How fast it generates with an empty cache; null where that cannot be known.
        speed: Option<SpeedRange> = cell.as_ref().ok().and_then(|figures| figures.speed),
        /// How fast it generates with a full cache; likewise.
        speed_at_full_context: Option<SpeedRange> = cell.as_ref().ok().and_then(|figures| figures.speed_at_full_context),
        /// How fast it reads a long prompt; likewise.
        prompt_speed: Option<SpeedRange> = cell.as_ref().ok().and_then(|figures| figures.prompt_speed),
        /// How long the turn takes that was asked for; null if none was.
        turn: Option<&'a TurnTime> = cell.as_ref().ok().and_then(|figures| figures.turn.as_ref()),
        /// GPUs in order, the CPU last.
        devices: &'a [DeviceSums] = cell.as_ref().ok().map_or(&[], |figures| &figures.devices),
        error: Option<&'a str> = cell.as_ref().err().map(String::as_str),
    }
}

/// The first columns; if there is no plan, the verdict is `refused` and the rest is empty.
pub(super) const COLUMNS: [&str; 10] =
    ["verdict", "offloaded", "layer_count", "on_gpu", "weights", "cache", "graph", "gpu", "cpu", "all"];

/// Weights in RAM of layers that count as on GPUs, the speed at the start and with a full cache, and that of a prompt.
pub(super) const LAST_COLUMNS: [&str; 4] =
    ["parts_in_ram", "tokens_per_second", "tokens_per_second_at_full_context", "prompt_tokens_per_second"];

/// The cells of `COLUMNS`.
pub(super) fn first_cells(figures: Option<&PlanFigures>) -> [String; COLUMNS.len()] {
    let Some(figures) = figures else {
        let mut cells = [const { String::new() }; COLUMNS.len()];
        "refused".clone_into(&mut cells[0]);
        return cells;
    };
    let Totals { weights, cache, graph, gpu, cpu, all } = figures.totals;
    let bytes = |bytes: Bytes| bytes.0.to_string();
    [
        figures.verdict.to_string(),
        figures.offloaded.to_string(),
        figures.layer_count.to_string(),
        format!("{:.4}", figures.on_gpu.0),
        bytes(weights),
        bytes(cache),
        bytes(graph),
        bytes(gpu),
        bytes(cpu),
        bytes(all),
    ]
}

/// The cells of `LAST_COLUMNS`.
pub(super) fn last_cells(figures: Option<&PlanFigures>) -> [String; LAST_COLUMNS.len()] {
    let Some(figures) = figures else { return Default::default() };
    let speed = |range: Option<SpeedRange>| csv::cell(range.map(|range| format!("{:.2}", range.tokens_per_second)));
    let PlanFigures { parts_in_ram, speed: start, speed_at_full_context: full, prompt_speed: prompt, .. } = figures;
    [parts_in_ram.0.to_string(), speed(*start), speed(*full), speed(*prompt)]
}
