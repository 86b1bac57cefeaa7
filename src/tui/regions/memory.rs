//! Layout of the memory panel.

use ratatui::layout::Rect;

use super::inside;

/// The visible devices and the rows of each, by the size of the area, the number of devices and the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct DeviceRows {
    pub area: Rect,
    /// The first visible device, and the number of visible ones.
    pub first: usize,
    pub shown: usize,
    pub count: usize,
    pub shape: RowShape,
}

/// The rows of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct RowShape {
    /// Rows for name and figure above the bar.
    pub head: u16,
    pub bar: u16,
    pub legend: u16,
    pub gap: u16,
}

impl RowShape {
    /// All shapes, from the tallest to a single row.
    fn all(area: Rect) -> [Self; 6] {
        let head = u16::from(!is_wide(area));
        let whole = if legend_width(true) <= area.width.saturating_sub(indent(area)) { 1 } else { 2 };
        let shape = |head, bar, legend, gap| Self { head, bar, legend, gap };
        [
            shape(head, if head > 0 { 1 } else { 3 }, whole, 1),
            shape(head, 1, whole, 1),
            shape(head, 1, 1, 1),
            shape(head, 1, 1, 0),
            shape(head, 1, 0, 0),
            shape(0, 1, 0, 0),
        ]
    }

    /// The total number of rows.
    pub const fn rows(self) -> u16 {
        self.head + self.bar + self.legend + self.gap
    }
}

/// Whether name, bar and figure are in one row.
const fn is_wide(area: Rect) -> bool {
    area.width >= 100
}

/// Width of the name column, if the bar is next to it.
pub const fn name_width(area: Rect) -> u16 {
    if is_wide(area) { 29 } else { 21 }
}

/// The offset of bar and legend.
pub const fn indent(area: Rect) -> u16 {
    if is_wide(area) { name_width(area) + 1 } else { 0 }
}

/// Width of a legend in one row, with or without names.
pub const fn legend_width(names: bool) -> u16 {
    if names { 6 * ENTRY + 7 + 5 + 5 + 8 + 6 + 4 + 6 } else { 6 * ENTRY }
}

/// Width of a legend entry without its name: `■ 1023 MiB▲ `.
pub const ENTRY: u16 = 12;

impl DeviceRows {
    /// The layout of `count` devices in `panel`, scrolled so that `cursor` is visible.
    pub fn new(panel: Rect, count: usize, cursor: usize) -> Self {
        let inner = inside(panel);
        Self::within(
            Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner },
            count,
            cursor,
        )
    }

    /// The same within `area`, without a frame.
    pub fn within(area: Rect, count: usize, cursor: usize) -> Self {
        let rows = usize::from(area.height);
        let shapes = RowShape::all(area);
        // the last device needs no blank row after it
        let fits = |shape: &RowShape| count * usize::from(shape.rows()) <= rows + usize::from(shape.gap);
        let least = shapes[shapes.len() - 1];
        let shape = shapes.into_iter().find(fits).unwrap_or(least);
        let shown = if fits(&shape) { count } else { rows.min(count) };
        let first = if cursor < shown { 0 } else { (cursor + 1).saturating_sub(shown.max(1)) };
        Self { area, first, shown, count, shape }
    }

    /// The device at row `y` of the screen.
    pub fn device_at(&self, y: u16) -> Option<usize> {
        let row = y.checked_sub(self.area.y)?;
        let place = usize::from(row / self.shape.rows());
        (y < self.area.bottom() && place < self.shown).then_some(self.first + place)
    }

    /// The visible devices and their areas.
    pub fn places(&self) -> impl Iterator<Item = (usize, Rect)> {
        let Self { area, first, shown, shape, .. } = *self;
        let pitch = shape.rows();
        (0..shown).map(move |place| {
            let y = area.y.saturating_add(pitch.saturating_mul(place as u16));
            let height = pitch.min(area.bottom().saturating_sub(y));
            (first + place, Rect { y, height, ..area })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_chosen_device_is_shown_and_the_mouse_finds_it(
            width in 0u16..200, height in 3u16..60, count in 1usize..70, cursor in 0usize..70,
        ) {
            let cursor = cursor % count;
            let rows = DeviceRows::new(Rect::new(0, 0, width, height), count, cursor);
            let places: Vec<_> = rows.places().collect();
            if rows.shown > 0 {
                prop_assert!(places.iter().any(|(device, _)| *device == cursor), "{rows:?}");
            }
            for (device, place) in places {
                if place.height > 0 {
                    prop_assert_eq!(rows.device_at(place.y), Some(device));
                    prop_assert!(place.bottom() < height);
                }
            }
        }
    }
}
