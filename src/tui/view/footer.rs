//! The footer: the most important keys, or a message.
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::tui::action::Command;
use crate::tui::app::App;
use crate::tui::keymap::FooterWord;
use crate::tui::theme::Hue;
use crate::tui::widget::row_writer::{RowWriter, width, wrap};

/// Draws the footer: `message`, or the planner's, or else `words`.
pub fn draw(app: &App, message: Option<&str>, words: &[PlacedWord], buffer: &mut Buffer) {
    let (theme, area) = (app.theme, app.panels.regions.footer);
    let message = message.or(app.message());
    if let Some(text) = message {
        for (row, line) in (0..area.height).zip(wrap(text, area.width.saturating_sub(2))) {
            RowWriter::new(buffer, area, row).skip(1).put(&line, theme.bold(Hue::Cache));
        }
        return;
    }
    for placed in words {
        RowWriter::new(buffer, placed.place, 0)
            .put(&placed.word.keys, theme.bold(Hue::Text))
            .skip(1)
            .put(placed.word.hint.word, theme.ink(Hue::Dim));
    }
}

/// An entry with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedWord {
    /// The keys and their word.
    pub word: FooterWord,
    /// Where it is drawn.
    pub place: Rect,
}

/// The entries that fit into `area`, chosen by rank, in their original order.
pub fn places(words: &[FooterWord], area: Rect) -> Vec<PlacedWord> {
    let all: Vec<&FooterWord> = words.iter().collect();
    for gap in [2, 1] {
        if let Some(places) = flow(&all, area, gap) {
            return places;
        }
    }
    let mut by_rank: Vec<usize> = (0..words.len()).collect();
    by_rank.sort_by_key(|&at| words[at].hint.rank);
    let (mut kept, mut found) = (Vec::new(), Vec::new());
    for at in by_rank {
        let mut more: Vec<usize> = kept.clone();
        more.push(at);
        more.sort_unstable();
        let chosen: Vec<&FooterWord> = more.iter().filter_map(|&at| words.get(at)).collect();
        if let Some(places) = flow(&chosen, area, 1) {
            (kept, found) = (more, places);
        }
    }
    found
}

/// `words` one after the other, `gap` cells apart; none if they need more room.
fn flow(words: &[&FooterWord], area: Rect, gap: u16) -> Option<Vec<PlacedWord>> {
    let left = area.x.saturating_add(1);
    let (mut x, mut y) = (left, area.y);
    let mut places = Vec::with_capacity(words.len());
    for word in words {
        let cells = width(&word.keys) + 1 + width(word.hint.word);
        if x + cells > area.right() {
            (x, y) = (left, y + 1);
        }
        if y >= area.bottom() || x + cells > area.right() {
            return None;
        }
        places.push(PlacedWord { word: (*word).clone(), place: Rect { x, y, width: cells, height: 1 } });
        x += cells + gap;
    }
    Some(places)
}

/// The command of a press at this position.
pub fn command_at(places: &[PlacedWord], at: Position) -> Option<Command> {
    places.iter().find(|placed| placed.place.contains(at)).map(|placed| placed.word.command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::keymap::Hint;

    fn word(key: &str, word: &'static str, rank: u8) -> FooterWord {
        FooterWord { keys: key.to_owned(), hint: Hint { word, rank }, command: Command::Help }
    }

    #[test]
    fn entries_are_kept_by_rank() {
        let words = [word("a", "max that fits", 2), word("b", "sweep", 2), word("c", "why", 3), word("q", "quit", 0)];
        let shown = |width: u16, height: u16| {
            let places = places(&words, Rect { width, height, ..Rect::ZERO });
            places.into_iter().map(|placed| placed.word.keys).collect::<String>()
        };
        assert_eq!(
            [shown(200, 1), shown(31, 1), shown(22, 1), shown(7, 1), shown(4, 1)],
            ["abcq", "abq", "bcq", "q", ""]
        );
        assert_eq!(shown(22, 2), "abcq", "on two rows");
    }

    #[test]
    fn every_word_can_be_pressed() {
        let words = [word("a", "max that fits", 2), word("b", "sweep", 2)];
        let places = places(&words, Rect { width: 20, height: 2, ..Rect::ZERO });
        assert_eq!(places.len(), 2);
        for placed in &places {
            assert_eq!(
                command_at(&places, Position::new(placed.place.right() - 1, placed.place.y)),
                Some(Command::Help)
            );
        }
        assert_eq!(command_at(&places, Position::ORIGIN), None);
    }
}
