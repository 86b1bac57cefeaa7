//! The lessons page: the list, and the open lesson with the engine's figures.
//!
//! ```text
//! ╭ Lessons ─────────────────────╮╭ Why parallel multiplies context ──────────────────────────────────╮
//! │  1 Why one layer on the CPU… ││ Llama 3.1 8B · Q4_K_M · Ollama ≤ 0.24 · 8 192 tokens · RTX 3060    │
//! │ ▸2 Why parallel multiplies … ││ The context that you ask of Ollama is one sequence's. …      text  │
//! │                              ││ K and V of all heads ██████████████████████ 16.0 GiB         bars  │
//! │                              ││ Question  How many tokens does the cache hold …                    │
//! ╰─────────────────────── list ─╯╰────────────────────────────────────────────────────────────────────╯
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::teach::lessons::{self, LessonsPage};
use crate::tui::app::App;
use crate::tui::app::teach::lessons::Cursor;
use crate::tui::regions::teach::lessons::PageAreas;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, width, wrap};

/// Most cells of a bar.
const BAR: u16 = 48;

/// Draws the page.
pub fn draw(app: &App, cursor: Cursor, content: &LessonsPage, area: Rect, buffer: &mut Buffer) {
    let (theme, lesson) = (app.theme, &content.lesson);
    let places = places(area, theme);
    if places.list.width > 0 {
        list(cursor, places, theme, buffer);
    }
    let right_title = format!("{} of {}", lesson.at + 1, lessons::all().len());
    let frame = panel::frame(buffer, places.lesson, lesson.title, &right_title, true, theme);
    let inner = Rect { x: frame.x.saturating_add(1), width: frame.width.saturating_sub(2), ..frame };
    let lines = lines(cursor, content, theme, inner.width);
    let scroll = usize::from(cursor.scroll).min(lines.len().saturating_sub(usize::from(inner.height)));
    for (row, (line, hue)) in (0..inner.height).zip(lines.iter().skip(scroll)) {
        let mut writer = RowWriter::new(buffer, inner, row);
        match line {
            Line::Text(text) => writer.put(text, theme.ink(*hue)),
            Line::Bar { label, labels, blocks, value } => writer
                .put(label, theme.ink(Hue::Text))
                .to(inner.x + labels + 1)
                .put(&"█".repeat(*blocks), theme.ink(*hue))
                .skip(1)
                .put(value, theme.bold(Hue::Text)),
        };
    }
    let below = lines.len().saturating_sub(scroll + usize::from(inner.height));
    if below > 0 {
        let bottom = Rect { x: inner.x, y: frame.bottom(), width: inner.width, height: 1 };
        let more = format!(" {below} more lines{} ", theme.about_keys(", PgDn"));
        RowWriter::new(buffer, bottom, 0).right(&more, theme.ink(Hue::Dim));
    }
}

/// The parts of `area`; on paper there is no list to choose from.
fn places(area: Rect, theme: Theme) -> PageAreas {
    let whole = PageAreas { list: Rect { width: 0, ..area }, lesson: area };
    if theme.look.keys { PageAreas::new(area) } else { whole }
}

/// Rows of the whole lesson with its frame.
pub(super) fn rows(app: &App, cursor: Cursor, content: &LessonsPage, area: Rect) -> u16 {
    let cells = places(area, app.theme).lesson.width.saturating_sub(4);
    lines(cursor, content, app.theme, cells).len() as u16 + 2
}

fn list(cursor: Cursor, places: PageAreas, theme: Theme, buffer: &mut Buffer) {
    let inner = panel::frame(buffer, places.list, "Lessons", "", false, theme);
    for (row, (at, lesson)) in (0..inner.height).zip(lessons::all().iter().enumerate().skip(places.first(cursor.at))) {
        let chosen = at == cursor.at;
        let ink = if chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
        let mut writer = RowWriter::new(buffer, inner, row);
        writer.put(if chosen { "▸" } else { " " }, ink).put(&format!("{:>2} ", at + 1), ink).put(&lesson.title, ink);
    }
}

enum Line {
    Text(String),
    Bar { label: String, labels: u16, blocks: usize, value: String },
}

fn lines(cursor: Cursor, content: &LessonsPage, theme: Theme, cells: u16) -> Vec<(Line, Hue)> {
    let lesson = &content.lesson;
    let mut lines: Vec<(Line, Hue)> = Vec::new();
    let say = |lines: &mut Vec<(Line, Hue)>, text: &str, hue| {
        lines.extend(wrap(text, cells).into_iter().map(|line| (Line::Text(line), hue)));
    };
    let paragraph = |lines: &mut Vec<(Line, Hue)>, text: &str, hue| {
        say(lines, text, hue);
        lines.push((Line::Text(String::new()), hue));
    };
    // on paper the caption says it
    if theme.look.keys {
        say(&mut lines, &lesson.on, Hue::Cache);
    }
    content.why_not.iter().for_each(|why| say(&mut lines, why, Hue::Dim));
    if !lines.is_empty() {
        paragraph(&mut lines, "", Hue::Text);
    }
    for text in &lesson.text {
        paragraph(&mut lines, text, Hue::Text);
    }
    bars(content, cells, &mut lines);
    if theme.look.keys {
        paragraph(&mut lines, &format!("Try it: {}", lesson.look), Hue::Graph);
    }
    paragraph(&mut lines, &format!("Question: {}", lesson.question), Hue::Focus);
    if cursor.answered {
        paragraph(&mut lines, &format!("Answer: {}", lesson.answer), Hue::Cache);
    } else {
        paragraph(&mut lines, theme.about_keys("Press a for the answer, as computed by the engine"), Hue::Dim);
    }
    let enter = if lesson.setup.is_open {
        "Enter sets these knobs, u undoes it"
    } else {
        "Enter opens this model with these knobs, u undoes it"
    };
    say(&mut lines, theme.about_keys(enter), Hue::Dim);
    while lines.last().is_some_and(|(line, _)| matches!(line, Line::Text(text) if text.is_empty())) {
        lines.pop();
    }
    lines
}

/// Adds the bars; labels have a row of their own where there is no room beside.
fn bars(content: &LessonsPage, cells: u16, lines: &mut Vec<(Line, Hue)>) {
    let bars = &content.lesson.bars;
    let widest = |text: &dyn Fn(usize) -> u16| (0..bars.len()).map(text).max().unwrap_or(0);
    let labels = widest(&|at| width(&bars[at].label));
    let values = widest(&|at| width(&bars[at].value.to_string()));
    let beside = labels + 1 + values + 1 + BAR / 2 <= cells;
    let room = cells.saturating_sub(values + 1 + if beside { labels + 1 } else { 1 }).min(BAR);
    for (bar, hue) in bars.iter().zip([Hue::Cache, Hue::Weights, Hue::Graph, Hue::Reserved].into_iter().cycle()) {
        let mut label = bar.label.clone();
        if !beside {
            lines.push((Line::Text(std::mem::take(&mut label)), Hue::Text));
        }
        let (blocks, value) = (bar.blocks(f64::from(room)), bar.value.to_string());
        lines.push((Line::Bar { label, labels: if beside { labels } else { 0 }, blocks, value }, hue));
    }
    if !bars.is_empty() {
        lines.push((Line::Text(String::new()), Hue::Text));
    }
}
