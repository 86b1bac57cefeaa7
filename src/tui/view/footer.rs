//! The footer: the most important keys, or a message.

use ratatui::buffer::Buffer;

use crate::tui::app::{App, Mode};
use crate::tui::keymap::{self, Hint};
use crate::tui::theme::Hue;
use crate::tui::widget::row_writer::{RowWriter, width};

/// Cells between two entries.
const GAP: u16 = 2;

/// Draws the footer.
pub fn draw(app: &App, buffer: &mut Buffer) {
    let (theme, area) = (app.theme, app.regions.footer);
    let mut writer = RowWriter::new(buffer, area, 0);
    writer.skip(1);
    let message = match &app.mode {
        Mode::Entry(entry) => entry.wrong.as_deref(),
        Mode::Export(page) if page.wrong().is_some() => page.wrong(),
        Mode::Machine(screen) if screen.wrong.is_some() => screen.wrong.as_deref(),
        _ => app.notice.as_deref(),
    };
    if let Some(text) = message {
        writer.put(text, theme.bold(Hue::Cache));
        return;
    }
    let mean = |command| match &app.mode {
        Mode::Teach(teach) if teach.help.is_none() => teach.handles(command),
        _ => true,
    };
    for (key, word) in fitting(keymap::footer(app.scopes(), mean), writer.room()) {
        writer.put(&key, theme.bold(Hue::Text)).skip(1).put(word, theme.ink(Hue::Dim)).skip(GAP);
    }
}

/// The entries that fit into `room` cells, chosen by rank, in their original order.
fn fitting(words: Vec<(String, Hint)>, room: u16) -> Vec<(String, &'static str)> {
    let mut by_rank: Vec<usize> = (0..words.len()).collect();
    by_rank.sort_by_key(|&at| words[at].1.rank);
    let mut shown = vec![false; words.len()];
    // the last entry needs no gap after it
    let mut room = room.saturating_add(GAP);
    for at in by_rank {
        let (key, hint) = &words[at];
        let cells = width(key) + 1 + width(hint.word) + GAP;
        if cells <= room {
            (room, shown[at]) = (room - cells, true);
        }
    }
    let shown = words.into_iter().zip(shown).filter(|(_, shown)| *shown);
    shown.map(|((key, hint), _)| (key, hint.word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_kept_by_rank() {
        let word = |key: &str, word, rank| (key.to_owned(), Hint { word, rank });
        let words =
            vec![word("a", "max that fits", 2), word("b", "sweep", 2), word("c", "why", 3), word("q", "quit", 0)];
        let shown = |room| fitting(words.clone(), room).into_iter().map(|(key, _)| key).collect::<String>();
        let [wide, narrow, narrower, least, none] = [200, 31, 22, 6, 4].map(shown);
        assert_eq!([wide, narrow, narrower, least, none], ["abcq", "acq", "bcq", "q", ""]);
    }
}
