//! The panel right of the graph: operations per device after the step, or the copies between devices after the last
//! one.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::sign;
use crate::engine::ggml::schedule::Pass;
use crate::page::{Block, Column, Hue, Narrow, Page, Span, Table};
use crate::teach::schedule::{GraphSplit, SchedulePage, ScheduleStep, SplitInput};
use crate::tui::app::App;
use crate::tui::app::teach::schedule::Cursor;
use crate::tui::widget::page;
use crate::tui::widget::panel;
use crate::units::{Bytes, Tokens};

/// Draws the panel.
pub fn draw(app: &App, cursor: Cursor, content: &SchedulePage, step: &ScheduleStep, frame: Rect, buffer: &mut Buffer) {
    let split = step.pass == Some(Pass::Split);
    let right_title = if split { String::new() } else { format!("{} changed", Tokens(step.changed as u64)) };
    let title = if split { "Copies between devices" } else { "After this step" };
    let inner = panel::frame(buffer, frame, title, &right_title, false, app.theme);
    let inner = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    let mut shown = Page::default();
    if split {
        crossing(app, content, cursor, &mut shown);
        pipeline(content, &mut shown);
    }
    counts(app, content, step, &mut shown);
    page::within(&shown, 0, inner, app.theme, buffer);
}

/// Adds `0 GPU0   612 operations + 40` for each device.
fn counts(app: &App, content: &SchedulePage, step: &ScheduleStep, page: &mut Page) {
    let homes = content.homes();
    for (at, count) in step.counts.iter().enumerate() {
        let home = homes.get(at);
        if home.is_none() && count.operations + count.others == 0 {
            continue;
        }
        let (letter, hue) = sign(app, content, home.map(|_| at));
        let id = home.map_or("none", |home| home.id.as_str());
        page.line(vec![
            Span::new(&format!("{letter} {id:<8}"), hue),
            Span::from(format!("{:>6}", Tokens(count.operations as u64).to_string())),
            Span::new(" operations ", Hue::Dim),
            Span::new(&format!("+{:>6}", Tokens(count.others as u64).to_string()), Hue::Dim),
        ]);
    }
    page.text("+ views, weights, caches, inputs, copies", Hue::Dim);
}

/// Adds the totals, then the splits within the selected block.
fn crossing(app: &App, content: &SchedulePage, cursor: Cursor, page: &mut Page) {
    let crossed = content.crossed();
    let sum = format!("{} graph splits, {} tensors, {}", crossed.cuts, crossed.tensors, crossed.bytes);
    page.line(vec![Span::new(&sum, Hue::Text.bold())]);
    let Some(block) = content.blocks.get(cursor.block) else { return };
    let begins = |cut: &&GraphSplit| block.nodes.contains(&cut.nodes.start) && !cut.crossings.is_empty();
    let cuts: Vec<&GraphSplit> = content.cuts.iter().filter(begins).collect();
    if cuts.is_empty() {
        page.text(&format!("No copies into {}.", block.name()), Hue::Dim);
    }
    for cut in cuts {
        let id = content.homes().get(cut.home).map_or("", |home| home.id.as_str());
        let bytes: Bytes = cut.crossings.iter().map(|crossing| crossing.bytes).sum();
        page.line(vec![
            Span::new(&format!("→ {id} "), sign(app, content, Some(cut.home)).1),
            Span::from(bytes.to_string()),
            Span::new(&format!(" for {} operations", cut.nodes.len()), Hue::Dim),
        ]);
        let row = |crossing: &SplitInput| {
            let (from, hue) = sign(app, content, Some(crossing.from));
            let times = if crossing.copies > 1 { format!("×{}", crossing.copies) } else { String::new() };
            let name = Span::new(&crossing.name, if crossing.weight { Hue::Weights } else { Hue::Text });
            vec![Span::new(&format!("  {from}"), hue), name, crossing.bytes.to_string().into(), times.into()]
        };
        let columns = vec![Column::left("", 3), Column::left("", 0), Column::right("", 9), Column::left("", 0)];
        let rows = cut.crossings.iter().map(row).collect();
        page.push(Block::Table(Table { columns, rows, gap: 1, narrow: Narrow::Cut(1) }));
    }
}

/// Adds whether pipeline parallelism is used, and its conditions; only with several GPUs.
fn pipeline(content: &SchedulePage, page: &mut Page) {
    let pipeline = content.trace().details.pipeline;
    if content.homes().len() < 3 {
        return;
    }
    let description =
        if pipeline.is_on() { "Pipeline parallelism: on, n_copies = 4" } else { "Pipeline parallelism: off" };
    page.line(vec![Span::new(description, Hue::Text.bold())]);
    for (condition, met) in pipeline.conditions() {
        let (mark, hue) = if met { ("✓", Hue::Fine) } else { ("✗", Hue::Over) };
        page.line(vec![Span::new(&format!("  {mark} "), hue), Span::new(condition, Hue::Dim)]);
    }
}
