//! The lessons page: the list, and the open lesson with the engine's figures.
//!
//! ```text
//! ╭ Lessons ─────────────────────╮╭ Why parallel multiplies context ──────────────────────────────────╮
//! │  1 Why one layer on the CPU… ││ The context that you ask of Ollama is one sequence's. …      text  │
//! │ ▸2 Why parallel multiplies … ││ Question  How many tokens does the cache hold …                    │
//! ╰─────────────────────── list ─╯╰────────────────────────────────────────────────────────────────────╯
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::teach::lessons::{self, LessonsPage};
use crate::tui::app::App;
use crate::tui::app::teach::lessons::Cursor;
use crate::tui::regions::teach::lessons::PageAreas;
use crate::tui::theme::Hue;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, wrap};

/// Draws the page.
pub fn draw(app: &App, cursor: Cursor, content: &LessonsPage, area: Rect, buffer: &mut Buffer) {
    let places = PageAreas::new(area);
    let narrow = places.list.width == 0;
    if !narrow {
        list(app, cursor, places.list, buffer);
    }
    let lesson = &content.lesson;
    let count = lessons::all().len();
    let right_title = format!("{} of {count}, on {}", lesson.at + 1, lesson.model);
    let frame = panel::frame(buffer, places.lesson, lesson.title, &right_title, true, app.theme);
    let inner = Rect { x: frame.x.saturating_add(1), width: frame.width.saturating_sub(2), ..frame };
    let lines = lines(cursor, content, inner.width);
    let scroll = usize::from(cursor.scroll).min(lines.len().saturating_sub(usize::from(inner.height)));
    for (row, (line, hue)) in (0..inner.height).zip(lines.iter().skip(scroll)) {
        RowWriter::new(buffer, inner, row).put(line, app.theme.ink(*hue));
    }
    let below = lines.len().saturating_sub(scroll + usize::from(inner.height));
    if below > 0 {
        let bottom = Rect { x: inner.x, y: frame.bottom(), width: inner.width, height: 1 };
        RowWriter::new(buffer, bottom, 0).right(&format!(" {below} more lines, PgDn "), app.theme.ink(Hue::Dim));
    }
}

fn list(app: &App, cursor: Cursor, area: Rect, buffer: &mut Buffer) {
    let inner = panel::frame(buffer, area, "Lessons", "", false, app.theme);
    for (row, (at, lesson)) in (0..inner.height).zip(lessons::all().iter().enumerate()) {
        let chosen = at == cursor.at;
        let ink = if chosen { app.theme.bold(Hue::Focus) } else { app.theme.ink(Hue::Text) };
        let mut writer = RowWriter::new(buffer, inner, row);
        writer.put(if chosen { "▸" } else { " " }, ink).put(&format!("{} ", at + 1), ink).put(&lesson.title, ink);
    }
}

fn lines(cursor: Cursor, content: &LessonsPage, cells: u16) -> Vec<(String, Hue)> {
    let lesson = &content.lesson;
    let mut lines: Vec<(String, Hue)> = Vec::new();
    let mut say = |text: &str, hue| {
        lines.extend(wrap(text, cells).into_iter().map(|line| (line, hue)));
        lines.push((String::new(), hue));
    };
    for paragraph in &lesson.text {
        say(paragraph, Hue::Text);
    }
    say(&format!("Try it: {}", lesson.look), Hue::Graph);
    say(&format!("Question: {}", lesson.question), Hue::Focus);
    if cursor.answered {
        say(&format!("Answer: {}", lesson.answer), Hue::Cache);
    } else {
        say("Press a for the answer, as computed by the engine", Hue::Dim);
    }
    let on = match content.stand_in {
        Some(_) => format!("Enter opens {} with these knobs, u undoes it", lesson.model),
        None => "Enter sets these knobs, u undoes it".to_owned(),
    };
    say(&on, Hue::Dim);
    lines
}
