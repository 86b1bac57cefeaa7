//! Layout of the model browser.

use ratatui::layout::Rect;

use super::{Regions, cut_top, inside};

/// The parts of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ModelsRegions {
    pub frame: Rect,
    pub field: Rect,
    pub filters: Rect,
    pub head: Rect,
    pub list: Rect,
    /// Preview of the selected model.
    pub preview: Rect,
}

/// A column of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ListColumn {
    Name,
    Origin,
    Parameters,
    Quantisation,
    Size,
    Trained,
    Verdict,
    Fits,
    Speed,
}

impl ListColumn {
    /// Its title.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Origin => "where",
            Self::Parameters => "params",
            Self::Quantisation => "quant",
            Self::Size => "size",
            Self::Trained => "trained",
            Self::Verdict => "verdict",
            Self::Fits => "context",
            Self::Speed => "tok/s",
        }
    }

    /// Width including a gap to the left, and the minimum width of a list that shows it, in a list `wide` cells wide.
    const fn cells(self, wide: u16) -> (u16, u16) {
        match self {
            Self::Name => (0, 0),
            Self::Origin => (16, 108),
            // with the active ones
            Self::Parameters if wide >= 90 => (16, 0),
            Self::Parameters => (9, 64),
            Self::Quantisation => (10, 74),
            Self::Size => (10, 0),
            Self::Trained => (9, 84),
            Self::Verdict => (17, 0),
            Self::Fits => (8, 0),
            Self::Speed => (11, 118),
        }
    }
}

/// All columns, from left to right.
const COLUMNS: [ListColumn; 9] = [
    ListColumn::Name,
    ListColumn::Origin,
    ListColumn::Parameters,
    ListColumn::Quantisation,
    ListColumn::Size,
    ListColumn::Trained,
    ListColumn::Verdict,
    ListColumn::Fits,
    ListColumn::Speed,
];

impl ModelsRegions {
    /// The layout of the page.
    pub fn of(regions: &Regions) -> Self {
        let frame = regions.body();
        let inner = inside(frame);
        let inner = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
        let (field, rest) = cut_top(inner, 1);
        let (filters, rest) = cut_top(rest, 1);
        let air = u16::from(inner.height >= 30);
        let (_, rest) = cut_top(rest, air);
        let (head, rest) = cut_top(rest, 1);
        let preview = (inner.height * 3 / 10).clamp(4, 18);
        let (list, preview) = cut_top(rest, rest.height.saturating_sub(preview));
        Self { frame, field, filters, head, list, preview }
    }

    /// The layout with `words` rows of messages above the list.
    #[must_use]
    pub fn below(self, words: usize) -> Self {
        let (_, list) = cut_top(self.list, words.min(usize::from(u16::MAX)) as u16);
        Self { list, ..self }
    }

    /// The columns that fit, and their areas in the row at `y`.
    pub fn columns(&self, y: u16) -> Vec<(ListColumn, Rect)> {
        let shown: Vec<ListColumn> =
            COLUMNS.into_iter().filter(|column| column.cells(self.list.width).1 <= self.list.width).collect();
        let others: u16 = shown.iter().map(|column| column.cells(self.list.width).0).sum();
        let mut x = self.list.x;
        let place = |column: &ListColumn| {
            let width = match *column {
                ListColumn::Name => self.list.width.saturating_sub(others),
                _ => column.cells(self.list.width).0,
            };
            let place = Rect { x, y, width, height: 1 };
            x += width;
            (*column, place)
        };
        shown.iter().map(place).collect()
    }

    /// The first visible line of `count`, so that line `at` is near the middle.
    pub fn first(&self, at: usize, count: usize) -> usize {
        let rows = usize::from(self.list.height);
        at.saturating_sub(rows / 2).min(count.saturating_sub(rows))
    }
}

/// The areas of filters side by side in `row`.
pub fn filters(row: Rect, cells: impl Iterator<Item = u16>) -> Vec<Rect> {
    let mut x = row.x;
    let place = |cells: u16| {
        let place = Rect { x, width: cells, ..row }.intersection(row);
        x = x.saturating_add(cells + 2);
        place
    };
    cells.map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_part_has_room_and_a_name_can_be_read(columns in 60u16..300, rows in 20u16..100) {
            let page = ModelsRegions::of(&Regions::of(columns, rows, 6));
            prop_assert!(page.list.height >= 6 && page.preview.height >= 4 && page.head.height == 1);
            let places = page.columns(3);
            prop_assert!(places[0].1.width >= 20, "{places:?}");
            prop_assert_eq!(places.last().map(|(_, place)| place.right()), Some(page.list.right()));
        }

        #[test]
        fn the_line_under_the_cursor_is_seen(rows in 20u16..60, count in 1usize..300, at in 0usize..300) {
            let page = ModelsRegions::of(&Regions::of(80, rows, 6));
            let at = at.min(count - 1);
            let first = page.first(at, count);
            prop_assert!(first <= at && at < first + usize::from(page.list.height));
        }
    }
}
