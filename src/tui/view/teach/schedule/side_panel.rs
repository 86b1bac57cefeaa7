//! The panel right of the graph: operations per device after the step, or the copies between devices after the last
//! one.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::sign;
use crate::engine::ggml::schedule::Pass;
use crate::teach::schedule::{GraphSplit, SchedulePage, ScheduleStep};
use crate::tui::app::App;
use crate::tui::app::teach::schedule::Cursor;
use crate::tui::theme::Hue;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, wrap};
use crate::units::{Bytes, Tokens};

/// Draws the panel.
pub fn draw(app: &App, cursor: Cursor, content: &SchedulePage, step: &ScheduleStep, frame: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let split = step.pass == Some(Pass::Split);
    let right_title = if split { String::new() } else { format!("{} changed", Tokens(step.changed as u64)) };
    let title = if split { "Copies between devices" } else { "After this step" };
    let inner = panel::frame(buffer, frame, title, &right_title, false, theme);
    let inner = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    let mut lines = Lines { app, content, room: inner.width, written: Vec::new() };
    if split {
        lines.crossing(cursor);
        lines.pipeline();
    }
    lines.counts(step);
    for (row, line) in (0..inner.height).zip(&lines.written) {
        let mut writer = RowWriter::new(buffer, inner, row);
        for span in &line.spans {
            writer.put(&span.content, span.style);
        }
    }
}

struct Lines<'a> {
    app: &'a App,
    content: &'a SchedulePage,
    room: u16,
    written: Vec<Line<'static>>,
}

impl Lines<'_> {
    fn put(&mut self, spans: Vec<Span<'static>>) {
        self.written.push(Line::from(spans));
    }

    fn text(&mut self, text: &str, hue: Hue) {
        for line in wrap(text, self.room) {
            self.put(vec![Span::styled(line, self.app.theme.ink(hue))]);
        }
    }

    /// `0 GPU0   612 operations + 40`
    fn counts(&mut self, step: &ScheduleStep) {
        let theme = self.app.theme;
        let text = theme.ink(Hue::Text);
        let homes = self.content.homes();
        for (at, count) in step.counts.iter().enumerate() {
            let home = homes.get(at);
            if home.is_none() && count.operations + count.others == 0 {
                continue;
            }
            let (letter, style) = sign(self.app, self.content, home.map(|_| at));
            let id = home.map_or("none", |home| home.id.as_str());
            self.put(vec![
                Span::styled(format!("{letter} {id:<8}"), style),
                Span::styled(format!("{:>6}", Tokens(count.operations as u64).to_string()), text),
                Span::styled(" operations ", theme.ink(Hue::Dim)),
                Span::styled(format!("+{:>6}", Tokens(count.others as u64).to_string()), theme.ink(Hue::Dim)),
            ]);
        }
        self.text("+ views, weights, caches, inputs, copies", Hue::Dim);
    }

    /// Adds the totals, then the splits within the selected block.
    fn crossing(&mut self, cursor: Cursor) {
        let theme = self.app.theme;
        let crossed = self.content.crossed();
        let sum = format!("{} graph splits, {} tensors, {}", crossed.cuts, crossed.tensors, crossed.bytes);
        self.put(vec![Span::styled(sum, theme.bold(Hue::Text))]);
        let Some(block) = self.content.blocks.get(cursor.block) else { return };
        let begins = |cut: &&GraphSplit| block.nodes.contains(&cut.nodes.start) && !cut.crossings.is_empty();
        let cuts: Vec<&GraphSplit> = self.content.cuts.iter().filter(begins).collect();
        if cuts.is_empty() {
            self.text(&format!("No copies into {}.", block.name()), Hue::Dim);
        }
        for cut in cuts {
            let id = self.content.homes().get(cut.home).map_or("", |home| home.id.as_str()).to_owned();
            let (_, style) = sign(self.app, self.content, Some(cut.home));
            let bytes: Bytes = cut.crossings.iter().map(|crossing| crossing.bytes).sum();
            self.put(vec![
                Span::styled(format!("→ {id} "), style),
                Span::styled(format!("{bytes}"), theme.ink(Hue::Text)),
                Span::styled(format!(" for {} operations", cut.nodes.len()), theme.ink(Hue::Dim)),
            ]);
            for crossing in &cut.crossings {
                let (from, style) = sign(self.app, self.content, Some(crossing.from));
                let times = if crossing.copies > 1 { format!(" ×{}", crossing.copies) } else { String::new() };
                let names = usize::from(self.room.saturating_sub(18));
                let name: String = crossing.name.chars().take(names).collect();
                let hue = if crossing.weight { Hue::Weights } else { Hue::Text };
                self.put(vec![
                    Span::styled(format!("  {from} "), style),
                    Span::styled(format!("{name:<names$} "), theme.ink(hue)),
                    Span::styled(format!("{:>9}{times}", crossing.bytes.to_string()), theme.ink(Hue::Text)),
                ]);
            }
        }
    }

    /// Adds whether pipeline parallelism is used, and its conditions; only with several GPUs.
    fn pipeline(&mut self) {
        let pipeline = self.content.trace().details.pipeline;
        if self.content.homes().len() < 3 {
            return;
        }
        let theme = self.app.theme;
        let description =
            if pipeline.is_on() { "Pipeline parallelism: on, n_copies = 4" } else { "Pipeline parallelism: off" };
        self.put(vec![Span::styled(description, theme.bold(Hue::Text))]);
        for (condition, met) in pipeline.conditions() {
            let (mark, hue) = if met { ("✓", Hue::Fine) } else { ("✗", Hue::Over) };
            self.put(vec![
                Span::styled(format!("  {mark} "), theme.ink(hue)),
                Span::styled(condition, theme.ink(Hue::Dim)),
            ]);
        }
    }
}
