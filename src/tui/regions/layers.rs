//! Where the columns of layers stand.

use ratatui::layout::Rect;

use super::inside;
use crate::tui::widget::columns::Columns;

/// Cells of the axis beside the columns.
pub const AXIS: u16 = 10;

/// Where the columns stand in `panel` for a model of `blocks` blocks.
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
    // an axis is worth nothing that the columns would have to give up
    let free = inner.width >= 60 && (with.pitch, with.per_column) == (without.pitch, without.per_column);
    if free { with } else { without }
}
