//! The last line: the keys that matter now, or something to say.

use ratatui::buffer::Buffer;

use crate::tui::app::{App, Mode};
use crate::tui::keymap::{self, Hint};
use crate::tui::theme::Hue;
use crate::tui::widget::pen::{Pen, width};

/// Draws it.
pub fn draw(app: &App, buffer: &mut Buffer) {
    let (theme, area) = (app.theme, app.regions.footer);
    let mut pen = Pen::new(buffer, area, 0);
    pen.skip(1);
    let said = match &app.mode {
        Mode::Entry(entry) => entry.wrong.as_deref(),
        Mode::Machine(bench) if bench.wrong.is_some() => bench.wrong.as_deref(),
        _ => app.notice.as_deref(),
    };
    if let Some(text) = said {
        pen.put(text, theme.bold(Hue::Cache));
        return;
    }
    for (key, word) in fitting(keymap::footer(app.scopes()), pen.room()) {
        pen.put(&key, theme.bold(Hue::Text)).skip(1).put(word, theme.ink(Hue::Dim)).skip(2);
    }
}

/// As many of `words` as fit into `room` cells, the most important first, in their own order.
fn fitting(words: Vec<(String, Hint)>, room: u16) -> Vec<(String, &'static str)> {
    let cells = |key: &str, hint: &Hint| width(key) + width(hint.word) + 3;
    let sum =
        |most: u8| words.iter().filter(|(_, hint)| hint.rank <= most).map(|(key, hint)| cells(key, hint)).sum::<u16>();
    // the last word needs no gap after it
    let most = (0..=3).rev().find(|&rank| sum(rank) <= room + 2).unwrap_or(0);
    words.into_iter().filter(|(_, hint)| hint.rank <= most).map(|(key, hint)| (key, hint.word)).collect()
}
