//! One column per layer, weights below and cache on top. Layers share columns if there is too little room; the output
//! layer is separate.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::bar::BarPart;
use super::stack::{self, Band};
use crate::tui::theme::glyphs::LOWER;
use crate::tui::theme::{Hue, Theme};

/// Maximum width of a column, including its gap.
const MAX_PITCH: u16 = 4;

/// Texture and name of weights on other devices.
pub const ELSEWHERE: (&str, &str) = ("░", "elsewhere");

/// The layout of the columns, by the area and the number of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The area of the columns.
    pub area: Rect,
    /// Number of blocks, without the output layer.
    pub blocks: usize,
    /// Blocks per column.
    pub per_column: usize,
    /// Width of a column including its gap.
    pub pitch: u16,
    /// First screen column of the output layer.
    pub output_x: u16,
    /// Width of the output layer's column.
    pub output_width: u16,
}

impl Columns {
    /// Columns for `blocks` blocks and an output layer in `area`.
    pub fn new(area: Rect, blocks: usize) -> Self {
        let room = |output_width: u16| area.width.saturating_sub(output_width + 1).max(1);
        let per_column = |output_width| blocks.div_ceil(usize::from(room(output_width))).max(1);
        // wide enough for its name, unless the blocks would have to share more columns
        let output_width = if area.width >= 40 || per_column(3) == per_column(2) { 3 } else { 2 };
        let (room, per_column) = (room(output_width), per_column(output_width));
        let columns = blocks.div_ceil(per_column).max(1) as u16;
        let pitch = (room / columns).clamp(1, MAX_PITCH);
        let output_x = area.x.saturating_add(columns.saturating_mul(pitch)).saturating_add(1);
        Self { area, blocks, per_column, pitch, output_x, output_width }
    }

    /// Number of columns, without the output layer.
    pub const fn count(&self) -> usize {
        self.blocks.div_ceil(self.per_column)
    }

    /// Width of a column without its gap.
    pub const fn thickness(&self) -> u16 {
        if self.pitch > 1 { self.pitch - 1 } else { 1 }
    }

    /// First screen column of column `column`.
    pub const fn x(&self, column: usize) -> u16 {
        self.area.x.saturating_add((column as u16).saturating_mul(self.pitch))
    }

    /// The column of block `layer`.
    pub const fn column_of(&self, layer: usize) -> usize {
        layer / self.per_column
    }

    /// First screen column and width of the column of `layer`.
    pub const fn place(&self, layer: usize) -> (u16, u16) {
        if layer >= self.blocks {
            (self.output_x, self.output_width)
        } else {
            (self.x(self.column_of(layer)), self.thickness())
        }
    }

    /// The first layer of the column at (`x`, `y`); `blocks` is the output layer.
    pub fn layer_at(&self, x: u16, y: u16) -> Option<usize> {
        if y < self.area.top() || y > self.area.bottom() || x < self.area.x {
            return None;
        }
        if x >= self.output_x && x < self.output_x.saturating_add(self.output_width) {
            return Some(self.blocks);
        }
        let column = usize::from((x - self.area.x) / self.pitch);
        (column < self.count()).then_some(column * self.per_column)
    }
}

/// The heights of a column's parts, as shares of the full height.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ColumnHeights {
    /// Weights, at the bottom.
    pub weights: f64,
    /// The upper share of the weights that is on other devices.
    pub elsewhere: f64,
    /// Cache, on top.
    pub cache: f64,
}

/// Draws a column of `width` cells at `x` over the height of `area`.
pub fn draw(buffer: &mut Buffer, area: Rect, x: u16, width: u16, stack: ColumnHeights, theme: Theme) {
    let area = area.intersection(buffer.area);
    let eighths = f64::from(area.height) * 8.0;
    let cut = stack.weights + stack.cache > 1.0 + 1e-9;
    let weights = (stack.weights.min(1.0) * eighths).round() as u32;
    let top = ((stack.weights + stack.cache).min(1.0) * eighths).round() as u32;
    let weights = if stack.weights > 0.0 { weights.max(1) } else { weights };
    let top = if stack.cache > 0.0 && !cut { top.max(weights + 1) } else { top.max(weights) };
    if stack.elsewhere > 0.0 {
        let here = ((stack.weights - stack.elsewhere).clamp(0.0, 1.0) * eighths).round() as u32;
        let band = |from, to, hue, texture| Band { from, to, hue, texture };
        let bands = [
            band(0, here, Hue::Weights, BarPart::Weights.texture()),
            band(here, weights, Hue::Ram, ELSEWHERE.0),
            band(weights, top, Hue::Cache, BarPart::Cache.texture()),
        ];
        (x..x.saturating_add(width).min(area.right())).for_each(|x| stack::upright(buffer, area, x, &bands, theme));
        return;
    }
    for row in 0..area.height {
        let y = area.bottom() - 1 - row;
        let (mut symbol, mut style) = slice(u32::from(row) * 8, weights, top, theme);
        if cut && row + 2 == area.height {
            (symbol, style) = ("≈", theme.on(Hue::Weights));
        }
        for x in x..x.saturating_add(width).min(area.right()) {
            if let Some(cell) = buffer.cell_mut((x, y)) {
                cell.set_symbol(symbol).set_style(style);
            }
        }
    }
}

/// The cell whose lowest eighth is `from`, with weights up to eighth `weights` and cache up to eighth `top`.
fn slice(from: u32, weights: u32, top: u32, theme: Theme) -> (&'static str, Style) {
    let (below, upto) = (weights.saturating_sub(from).min(8), top.saturating_sub(from).min(8));
    if theme.textured() {
        let symbol = match (below, upto) {
            (_, 0..=3) => " ",
            (4.., _) => BarPart::Weights.texture(),
            _ => BarPart::Cache.texture(),
        };
        return (symbol, theme.ink(Hue::Text));
    }
    match (below, upto) {
        (_, 0) => (" ", Style::new()),
        (0, n) => (LOWER[n as usize - 1], theme.ink(Hue::Cache)),
        (n, upto) if upto > n => (LOWER[n as usize - 1], theme.ink(Hue::Weights).bg(theme.colour(Hue::Cache))),
        (n, _) => (LOWER[n as usize - 1], theme.ink(Hue::Weights)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tui::theme::{Appearance, Tone};

    proptest! {
        #[test]
        fn every_layer_has_a_place_and_the_mouse_finds_it(
            x in 0u16..300, width in 0u16..300, height in 0u16..60, blocks in 0usize..400,
        ) {
            let columns = Columns::new(Rect::new(x, 3, width, height), blocks);
            for layer in 0..=blocks {
                let (at, cells) = columns.place(layer);
                prop_assert!(cells > 0);
                let found = columns.layer_at(at, 3);
                let expected = if layer == blocks { blocks } else { layer - layer % columns.per_column };
                prop_assert_eq!(found, Some(expected));
                if width >= 8 {
                    prop_assert!(at + cells <= x + width, "layer {} ends at {} of {}", layer, at + cells, x + width);
                }
            }
        }
    }

    #[test]
    fn weights_elsewhere_lie_between_those_here_and_the_cache() {
        let stack = ColumnHeights { weights: 0.5, elsewhere: 0.25, cache: 0.25 };
        let drawn = |look: Appearance| -> String {
            let area = Rect::new(0, 0, 1, 4);
            let mut buffer = Buffer::empty(area);
            draw(&mut buffer, area, 0, 1, stack, Theme::new(look));
            buffer.content.iter().rev().map(ratatui::buffer::Cell::symbol).collect()
        };
        assert_eq!(drawn(Appearance { tone: Tone::Mono, ..Appearance::BEST }), "█░▓ ");
        assert_eq!(drawn(Appearance::BEST), "███ ");
    }

    #[test]
    fn layers_share_columns_on_narrow_screens() {
        assert_eq!(Columns::new(Rect::new(0, 0, 100, 8), 94).per_column, 1);
        assert_eq!(Columns::new(Rect::new(0, 0, 40, 8), 94).per_column, 3);
    }
}
