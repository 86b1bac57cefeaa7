//! Layout of the layers panel.

use ratatui::layout::Rect;

use super::inside;
use crate::tui::widget::columns::Columns;

/// Width of the axis left of the columns.
pub const AXIS: u16 = 10;

/// The columns in `panel` for a model of `blocks` blocks.
pub fn columns(panel: Rect, blocks: usize) -> Columns {
    let inner = inside(panel);
    let air = u16::from(inner.height >= 10);
    let beside = |axis: u16| Rect {
        x: inner.x.saturating_add(axis),
        y: inner.y.saturating_add(air),
        width: inner.width.saturating_sub(axis + 1),
        height: inner.height.saturating_sub(2 + air),
    };
    let (with, without) = (Columns::new(beside(AXIS), blocks), Columns::new(beside(1), blocks));
    // show the axis only if the columns keep their width
    let free = inner.width >= 60 && (with.pitch, with.per_column) == (without.pitch, without.per_column);
    if free { with } else { without }
}
