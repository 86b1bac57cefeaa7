//! The answer at a glance, on every plan's page and on the planner's screen:
//!
//! ```text
//!                     on GPU       ≈ tok/s     when full   VRAM ctx   headroom
//! ▲ Layers in RAM   40 of 41    28 (17–38)    18 (10–26)     14 848    -13 MiB
//!
//! At 16 384 tokens, f16 KV: 1 of 41 layers is in RAM.
//!
//! LLAMA_ARG_FIT_TARGET=384   all in VRAM   ≈ 34 tok/s   less headroom
//! --ctx 14848                all in VRAM   ≈ 34 tok/s   1 536 tokens less
//! ```

use crate::answer::glance::{self, WayRow};
use crate::answer::{Figures, KnobLimits, Largest, verdict};
use crate::page::palette::sign;
use crate::page::{Block, Column, Hue, Ink, Narrow, Page, Span, Table, width};
use crate::plan::Plan;
use crate::speed::{SpeedRange, Speeds};
use crate::units::{Bytes, Difference, Tokens};

/// Cells that all figures take, with the ends of the ranges of speeds.
pub const WIDE: usize = 78;
/// Cells that they take without those.
pub const NARROW: usize = 70;

const NOT_KNOWN: &str = "–";
const PENDING: &str = "…";

/// The figures in a row, each always in its place; where `titles` is not set, with their units instead of titles.
pub fn figures(figures: &Figures, has_gpus: bool, cells: usize, titles: bool) -> Block {
    let (sign, hue) = sign(figures.outcome);
    let is_wide = cells >= WIDE && titles;
    let known = |figure: Option<String>| figure.unwrap_or_else(|| NOT_KNOWN.to_owned());
    let speeds = if is_wide { 12 } else { 7 };
    let speed = |range: Option<SpeedRange>| {
        let whole = range.map(|range| range.cell()).filter(|whole| is_wide && width(whole) <= speeds);
        whole.or(range.map(|range| range.short()))
    };
    let largest = match figures.largest {
        Largest::Pending => Some(PENDING.to_owned()),
        Largest::None => None,
        Largest::Tokens(most) => Some(Tokens(most).to_string()),
    };
    let (on_gpus, all) = figures.on_gpus;
    let short = figures.headroom.is_some_and(Difference::is_short);
    let headroom = known(figures.headroom.map(in_nine_cells));
    let headroom = ("headroom", 9, headroom, if short { Hue::Over.bold() } else { Hue::Text.into() });
    let verdict = ("", 16, format!("{sign} {}", figures.outcome.headline()), hue.bold());
    let ctx = if has_gpus { "VRAM ctx" } else { "RAM ctx" };
    let start = speed(figures.start);
    let row: Vec<(&str, usize, String, Ink)> = if titles {
        let full = ("when full", speeds.max(9), known(speed(figures.full)), Hue::Text.into());
        [
            Some(verdict),
            Some(("on GPU", 10, format!("{on_gpus} of {all}"), Hue::Text.into())),
            Some(("≈ tok/s", speeds, known(start), Hue::Text.bold())),
            Some(full).filter(|_| cells >= NARROW),
            Some((ctx, 9, known(largest), Hue::Text.bold())),
            Some(headroom),
        ]
        .into_iter()
        .flatten()
        .collect()
    } else {
        vec![
            verdict,
            ("on GPU", 7, format!("{on_gpus}/{all}"), Hue::Text.into()),
            ("≈ tok/s", 10, known(start.map(|speed| format!("{speed} tok/s"))), Hue::Text.bold()),
            (ctx, 11, known(largest.map(|most| format!("≤ {most}"))), Hue::Text.bold()),
            headroom,
        ]
    };
    let columns = row.into_iter().map(|(title, width, cell, ink)| {
        let column = if title.is_empty() { Column::left(title, width) } else { Column::right(title, width) };
        (column, Span::new(&cell, ink))
    });
    let (columns, row) = columns.unzip();
    let gap = if is_wide || cells >= NARROW && titles { 2 } else { 1 };
    Block::Table(Table { columns, rows: vec![row], gap, head: titles, narrow: Narrow::Below(1) })
}

/// `1.2 GiB`; from a hundred on without tenths, which would take another cell.
fn in_nine_cells(left: Difference) -> String {
    let whole = left.to_string();
    if width(&whole) <= 9 { whole } else { format!("{:.0} GiB", left.0 as f64 / Bytes::gib(1).0 as f64) }
}

/// `At 16 384 tokens, f16 KV: 1 of 41 layers is in RAM.`
pub fn state(plan: &Plan) -> String {
    format!("At {}: {}.", verdict::held_for(&plan.settings), verdict::state(plan))
}

/// The changes that would help, a block each, with the key that makes each; below them what the first one leaves, or that
/// nothing helps.
pub fn ways(plan: &Plan, limits: &KnobLimits, keys: &[String]) -> Vec<Block> {
    let ways = glance::ways(plan, limits);
    let cell = |way: &WayRow, at: usize| {
        let speed = way.speed.map_or_else(String::new, |speed| format!("≈ {} tok/s", speed.short()));
        let key = keys.get(at).cloned().unwrap_or_default();
        [key, way.options.clone(), way.brings.clone(), speed, way.costs.clone()]
    };
    let rows: Vec<[String; 5]> = ways.iter().enumerate().map(|(at, way)| cell(way, at)).collect();
    let is_shown = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
    let inks = [Hue::Text.bold(), Hue::Text.into(), Hue::Text.into(), Hue::Text.bold(), Hue::Dim.into()];
    let shown: Vec<usize> = (0..5).filter(is_shown).collect();
    let columns = shown.iter().map(|_| Column::left("", 0)).collect();
    let spans = |row: &[String; 5]| shown.iter().map(|column| Span::new(&row[*column], inks[*column])).collect();
    let narrow = Narrow::Below(shown.len().saturating_sub(1));
    let (_, rows) = Table { columns, rows: rows.iter().map(spans).collect(), gap: 2, head: false, narrow }.in_rows();
    rows
}

/// What else there is to say, a sentence after the other: what the first change leaves, what may go wrong, what else is so, and
/// how fast prompts are read.
pub fn besides(plan: &Plan, limits: Option<&KnobLimits>, speeds: Option<&Speeds>) -> String {
    let mut sentences: Vec<String> = Vec::new();
    if let Some(limits) = limits {
        sentences.extend(limits.stays_free.as_ref().map(|stays| format!("With that target {stays}.")));
        sentences.extend(glance::nothing_helps(plan, limits));
    }
    sentences.push(verdict::at_risk(plan).trim().to_owned());
    sentences.push(verdict::besides(plan).trim().to_owned());
    if let Some(speeds) = speeds {
        sentences.extend(speeds.start.assumes.map(|what| format!("Speeds assume {what}.")));
        let depth = speeds.start.depth;
        if depth > 0 {
            sentences.push(format!("The first speed is with {} tokens in the cache.", Tokens(depth)));
        }
        let turn = speeds.turn.iter().flatten();
        sentences.extend(
            turn.map(|turn| format!("A turn's first token comes after {}, its last after {}.", turn.first, turn.last)),
        );
        sentences.extend(speeds.prompt.iter().map(|prompt| format!("Prompts are read at {}.", prompt.range())));
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences.join(" ")
}

/// All of it, as a plan's page begins.
pub fn page(plan: &Plan, limits: Option<&KnobLimits>, speeds: Option<&Speeds>, cells: usize) -> Page {
    let mut page = Page::default();
    let has_gpus = !plan.gpus().is_empty();
    page.push(figures(&Figures::of(plan, limits, speeds), has_gpus, cells, true));
    page.blank();
    page.text(&state(plan), Hue::Text);
    let ways = limits.map(|limits| ways(plan, limits, &[])).unwrap_or_default();
    if !ways.is_empty() {
        page.blank();
        for way in ways {
            page.push(way);
        }
        page.blank();
    }
    let besides = besides(plan, limits, speeds);
    if !besides.is_empty() {
        page.text(&besides, Hue::Text);
    }
    page
}
