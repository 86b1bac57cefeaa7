//! `plimsoll sweep`: plans along one knob.

#[cfg(feature = "cli")]
pub mod arguments;

use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{COLUMNS, CellRecord, LAST_COLUMNS, first_cells, last_cells};
use super::json_value::JsonValue;
use super::{About, Question, Stepwise, source};
use crate::answer::sweep::{PlanFigures, Point, Sweep};
use crate::answer::thresholds::{Threshold, ThresholdSide};
use crate::engine::PlanRequest;
use crate::export::{Caption, PlanSource, csv, record, svg};
use crate::page::{Block, Column, Hue, Narrow, Page, Span, Table};
use crate::settings::knob::Knob;

/// The values to plan at.
#[derive(Clone, Debug)]
pub struct SweepRequest {
    /// The knob.
    pub knob: Knob,
    /// Its values.
    pub values: Vec<u64>,
}

impl Stepwise for SweepRequest {
    type Part = Point;

    fn steps<'a>(&'a self, of: &'a PlanRequest) -> impl Iterator<Item = Option<Point>> {
        self.values.iter().map(|&value| Some(of.point(self.knob, value)))
    }
}

impl Question for SweepRequest {
    const NAME: &'static str = "sweep";
    const PRINTS: &'static str = "plans along a knob";
    type Answer = Sweep;
    type Record<'a> = SweepAnswer<'a>;

    fn answer(&self, about: About<'_>) -> Result<Sweep, String> {
        Ok(about.request.sweep(self.knob, &self.values))
    }

    fn page(&self, about: About<'_>, sweep: &Sweep) -> Page {
        page(about, sweep)
    }

    fn record<'a>(&'a self, about: About<'a>, sweep: &'a Sweep) -> SweepAnswer<'a> {
        let knob = sweep.knob;
        SweepAnswer {
            head: PlanSource::of(about.plan, about.source),
            knob: knob.name(),
            points: sweep.points.iter().map(|point| PointRecord::of(knob, point)).collect(),
            thresholds: sweep.thresholds.iter().map(|threshold| ThresholdRecord::of(knob, threshold)).collect(),
        }
    }

    /// A line for each point: the value, `COLUMNS`, weights, cache, graph and free bytes of each device, then
    /// `LAST_COLUMNS`.
    fn csv(&self, _: About<'_>, sweep: &Sweep) -> Option<String> {
        let devices =
            sweep.points.iter().find_map(|point| point.figures.as_ref().ok()).map_or(&[][..], |first| &first.devices);
        let of_devices = devices
            .iter()
            .flat_map(|device| ["weights", "cache", "graph", "free"].map(|what| format!("{}_{what}", device.id)));
        let columns = [sweep.knob.name()].into_iter().chain(COLUMNS).map(str::to_owned);
        let columns = columns.chain(of_devices).chain(LAST_COLUMNS.map(str::to_owned));
        let rows = sweep.points.iter().map(|point| {
            let figures = point.figures.as_ref().ok();
            let sums = (0..devices.len()).flat_map(|device| {
                let sums = figures.and_then(|figures| figures.devices.get(device));
                let sums =
                    sums.map(|sums| [sums.weights, sums.cache, sums.graph, sums.free].map(|bytes| bytes.0.to_string()));
                sums.unwrap_or_default()
            });
            let value = sweep.knob.plain(point.value);
            [value].into_iter().chain(first_cells(figures)).chain(sums).chain(last_cells(figures)).collect::<Vec<_>>()
        });
        Some(csv::table(columns, rows))
    }

    fn svg(&self, About { request, plan, .. }: About<'_>, sweep: &Sweep) -> Option<String> {
        Some(svg::sweep(plan, &request.with_edges(sweep.clone()), &Caption::of(request, plan)))
    }
}

/// Plans along a knob.
#[derive(JsonSchema, Serialize)]
pub struct SweepAnswer<'a> {
    #[serde(flatten)]
    head: PlanSource<'a>,
    /// The knob.
    knob: &'static str,
    /// A plan in short for each value.
    points: Vec<PointRecord<'a>>,
    /// Where plans change between two values.
    #[serde(rename = "cliffs")]
    thresholds: Vec<ThresholdRecord<'a>>,
}

record! {
    /// A value, and the plan at it in short.
    PointRecord<'a>(knob: Knob, point: &'a Point) {
        value: JsonValue = JsonValue::of(knob, point.value),
        #[serde(flatten)]
        cell: CellRecord<'a> = CellRecord::of(&point.figures),
    }
}

record! {
    /// A change between two values.
    ThresholdRecord<'a>(knob: Knob, threshold: &'a Threshold) {
        /// The last value before the change.
        last: JsonValue = JsonValue::of(knob, threshold.last),
        /// The first value after it.
        first: JsonValue = JsonValue::of(knob, threshold.first),
        before: ThresholdSide = threshold.before,
        after: ThresholdSide = threshold.after,
        /// Other knobs that the engine changed.
        jumps: &'a [String] = &threshold.jumps,
    }
}

/// Plans along a knob, with the thresholds.
fn page(about: About<'_>, sweep: &Sweep) -> Page {
    let mut page = Page::default();
    let knob = sweep.knob;
    let amounts = ["weights", "cache", "compute", "RAM", "tok/s"];
    let columns = [Column::right(knob.title(), 11), Column::left(" verdict", 9), Column::right("on GPU", 8)];
    let columns = columns.into_iter().chain(amounts.map(|title| Column::right(title, 9))).collect();
    let row = |value: u64, figures: &Result<PlanFigures, String>| {
        let value = Span::from(knob.show(value));
        let figures = match figures {
            Ok(figures) => figures,
            Err(error) => return vec![value, error.as_str().into()],
        };
        let totals = &figures.totals;
        let mut row = vec![value, Span::new(&format!(" {}", figures.outcome.short()), Hue::of(figures.outcome))];
        row.push(format!("{}/{}", figures.on_gpus(), figures.layer_count).into());
        row.extend([totals.weights, totals.cache, totals.graph, totals.cpu].map(|bytes| bytes.to_string().into()));
        row.push(figures.speed_at_full_context.map_or_else(|| "–".to_owned(), |range| range.cell()).into());
        row
    };
    let rows = sweep.points.iter().map(|point| row(point.value, &point.figures)).collect();
    page.push(Block::Table(Table { columns, rows, gap: 1, head: true, narrow: Narrow::Below(3) }));
    if !sweep.thresholds.is_empty() {
        page.heading("Thresholds");
        sweep.thresholds.iter().for_each(|threshold| page.item(&threshold.description(knob)));
    }
    source(about.plan, &mut page);
    page
}
