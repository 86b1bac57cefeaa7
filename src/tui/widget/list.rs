//! Lists of rows, one of which is selected.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;

use crate::tui::theme::{Hue, Theme};

/// The visible part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListRows {
    /// Where it is.
    pub area: Rect,
    /// Its first visible row.
    pub first: usize,
    /// The number of its rows.
    pub count: usize,
}

impl ListRows {
    /// Scrolled no further than it takes to see row `at`.
    pub(crate) fn showing(at: usize, count: usize, area: Rect) -> Self {
        Self { area, first: (at + 1).saturating_sub(usize::from(area.height)), count }
    }

    /// Scrolled so that row `at` is near the middle.
    pub(crate) fn around(at: usize, count: usize, area: Rect) -> Self {
        let rows = usize::from(area.height);
        Self { area, first: at.saturating_sub(rows / 2).min(count.saturating_sub(rows)), count }
    }

    /// The visible rows: their places and indices.
    pub(crate) fn rows(self) -> impl Iterator<Item = (Rect, usize)> {
        let place = move |(y, at)| (Rect { y, height: 1, ..self.area }, at);
        (self.area.top()..self.area.bottom()).zip(self.first..self.count).map(place)
    }

    /// The row at this position.
    pub(crate) fn row_at(self, at: Position) -> Option<usize> {
        self.rows().find(|(place, _)| place.contains(at)).map(|(_, row)| row)
    }
}

/// Lights `row` up if it is `chosen`. Returns the ink of its text.
pub(crate) fn ink(row: Rect, chosen: bool, theme: Theme, buffer: &mut Buffer) -> Style {
    if !chosen {
        return theme.ink(Hue::Text);
    }
    buffer.set_style(row, theme.selected());
    theme.bold(Hue::Focus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_selected_row_is_seen_and_the_mouse_finds_every_row(
            height in 1u16..60, count in 1usize..300, at in 0usize..300,
        ) {
            let (area, at) = (Rect::new(2, 3, 40, height), at.min(count - 1));
            for list in [ListRows::showing(at, count, area), ListRows::around(at, count, area)] {
                prop_assert!(list.rows().any(|(_, row)| row == at), "{:?}", list);
                for (place, row) in list.rows() {
                    prop_assert_eq!(list.row_at(place.as_position()), Some(row));
                }
            }
        }
    }
}
