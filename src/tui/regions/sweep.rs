//! Layout of the sweep page.

use ratatui::layout::Rect;

use super::{Regions, inside};

/// Width of the amounts left of the charts.
pub const AMOUNTS: u16 = 9;

/// The area of the page inside its frame.
pub fn place(regions: &Regions) -> Rect {
    let inner = inside(regions.overlay(u16::MAX, u16::MAX));
    Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner }
}

/// Width of the charts.
pub fn columns(regions: &Regions) -> u16 {
    place(regions).width.saturating_sub(AMOUNTS)
}
