//! The branches of a `max` over a knob's range, as two lines on logarithmic axes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::teach::formulas::{Crossover, KnobCurve, Sample};
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, shortened, width, wrap};
use crate::units::{Bytes, grouped};

/// Signs and colours of the lines.
const SIDES: [(&str, Hue); 2] = [("●", Hue::Graph), ("×", Hue::Cache)];
/// Minimum rows of the plot.
const MIN_PLOT: u16 = 3;
/// Width of the axis.
const AXIS: u16 = 9;

pub(super) fn draw(crossover: &Crossover, along: &KnobCurve, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let inner = panel::frame(buffer, area, "Larger branch", theme.about_keys("c: next"), false, theme);
    let inner = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    let sentence = crossover.sentence(along);
    let names: Vec<String> =
        crossover.sides.iter().map(|side| format!("{} {}", side.name, amount(side.size))).collect();
    // with signs and gaps; on separate rows if they do not fit side by side
    let beside = names.iter().map(|name| width(name) + 4).sum::<u16>() <= inner.width + 2;
    let legend = if beside { 1 } else { names.len() as u16 };
    let room = inner.height.saturating_sub(MIN_PLOT + 1 + legend);
    let whole = wrap(&format!("{}. {sentence}", crossover.name), inner.width);
    let lines = if whole.len() <= usize::from(room) { whole } else { wrap(&sentence, inner.width) };
    let text_rows = (lines.len() as u16).min(room);
    for (row, line) in (0..text_rows).zip(&lines) {
        // the last row ends in an ellipsis if there is more
        let line = if row + 1 == text_rows { &lines[usize::from(row)..].join(" ") } else { line };
        RowWriter::new(buffer, inner, row).put(&shortened(line, inner.width), theme.ink(Hue::Text));
    }
    let mut x = inner.x;
    for (at, (name, (sign, hue))) in names.iter().zip(SIDES).enumerate() {
        let ink = if at == crossover.winner { theme.bold(hue) } else { theme.ink(hue) };
        let mut writer = RowWriter::new(buffer, inner, if beside { text_rows } else { text_rows + at as u16 });
        writer.to(if beside { x } else { inner.x }).put(sign, ink).skip(1).put(name, ink);
        x = writer.x().saturating_add(2);
    }
    let taken = text_rows + legend;
    let plot = Rect {
        x: inner.x.saturating_add(AXIS),
        y: inner.y + taken,
        width: inner.width.saturating_sub(AXIS),
        height: inner.height.saturating_sub(taken + 1),
    };
    if plot.width < 8 || plot.height < MIN_PLOT {
        return;
    }
    let scale = PlotScale::of(along);
    for (row, size) in [(0, scale.max), (plot.height - 1, scale.min)] {
        let label = amount(size as u64);
        let place = Rect { x: inner.x, width: AXIS, y: plot.y, height: plot.height };
        RowWriter::new(buffer, place, row)
            .skip((AXIS - 1).saturating_sub(width(&label)))
            .put(&label, theme.ink(Hue::Dim));
    }
    lines_of(along, &scale, plot, theme, buffer);
    axis(along, &scale, plot, theme, buffer);
}

fn amount(size: u64) -> String {
    Bytes(size).to_string()
}

/// The ranges of the axes.
struct PlotScale {
    from: f64,
    to: f64,
    min: f64,
    max: f64,
}

impl PlotScale {
    fn of(along: &KnobCurve) -> Self {
        let at = |sample: Option<&Sample>| sample.map_or(1.0, |sample| sample.at as f64).max(1.0);
        let sizes = || along.samples.iter().flat_map(|sample| &sample.sizes).map(|&size| (size as f64).max(1.0));
        Self {
            from: at(along.samples.first()),
            to: at(along.samples.last()),
            min: sizes().fold(f64::INFINITY, f64::min).min(1e18),
            max: sizes().fold(1.0, f64::max),
        }
    }

    /// The column of a knob's value.
    fn column(&self, value: u64, plot: Rect) -> u16 {
        place((value as f64).max(1.0), self.from, self.to, plot.width)
    }

    fn row(&self, size: f64, plot: Rect) -> u16 {
        plot.height - 1 - place(size.max(1.0), self.min, self.max, plot.height)
    }
}

/// The position of `value` between `from` and `to` on a logarithmic scale of `cells` cells.
fn place(value: f64, from: f64, to: f64, cells: u16) -> u16 {
    let span = (to / from).ln();
    let part = if span > 0.0 { (value / from).ln() / span } else { 0.0 };
    let last = f64::from(cells.saturating_sub(1));
    (part * last).round().clamp(0.0, last) as u16
}

/// The size of `side` at column `x`, interpolated between the two nearest samples.
fn size_at(along: &KnobCurve, scale: &PlotScale, side: usize, x: u16, plot: Rect) -> Option<f64> {
    let part = f64::from(x) / f64::from(plot.width.saturating_sub(1).max(1));
    let value = scale.from * (scale.to / scale.from).powf(part);
    let after = along.samples.partition_point(|sample| (sample.at as f64) < value).min(along.samples.len() - 1);
    let (low, high) = (along.samples.get(after.saturating_sub(1))?, along.samples.get(after)?);
    let (a, b) = (*low.sizes.get(side)? as f64, *high.sizes.get(side)? as f64);
    let span = high.at as f64 - low.at as f64;
    let between = if span > 0.0 { ((value - low.at as f64) / span).clamp(0.0, 1.0) } else { 1.0 };
    Some(a + (b - a) * between)
}

fn lines_of(along: &KnobCurve, scale: &PlotScale, plot: Rect, theme: Theme, buffer: &mut Buffer) {
    for x in 0..plot.width {
        for (side, (sign, hue)) in SIDES.into_iter().enumerate().rev() {
            let Some(size) = size_at(along, scale, side, x, plot) else { continue };
            put(buffer, plot, x, scale.row(size, plot), sign, theme.ink(hue));
        }
    }
    let now = scale.column(along.now, plot);
    for y in 0..plot.height {
        if let Some(cell) = buffer.cell_mut((plot.x + now, plot.y + y)).filter(|cell| cell.symbol() == " ") {
            cell.set_symbol("┊").set_style(theme.ink(Hue::Dim));
        }
    }
    for crossing in &along.crossings {
        let (x, y) = (scale.column(crossing.at, plot), scale.row(crossing.size as f64, plot));
        put(buffer, plot, x, y, "◇", theme.bold(Hue::Focus));
    }
}

fn put(buffer: &mut Buffer, plot: Rect, x: u16, y: u16, sign: &str, ink: Style) {
    if let Some(cell) = buffer.cell_mut((plot.x + x, plot.y + y)) {
        cell.set_symbol(sign).set_style(ink);
    }
}

/// Draws the ends of the knob's range, and its present value.
fn axis(along: &KnobCurve, scale: &PlotScale, plot: Rect, theme: Theme, buffer: &mut Buffer) {
    let number = |value: f64| grouped(value as u64, '\u{2009}');
    let row = Rect { y: plot.bottom(), height: 1, ..plot };
    let (from, to) = (number(scale.from), number(scale.to));
    let now = format!("▲{}", number(along.now as f64));
    let at = scale.column(along.now, plot).min(plot.width.saturating_sub(width(&now)));
    RowWriter::new(buffer, row, 0).skip(at).put(&now, theme.bold(Hue::Text));
    if at > width(&from) {
        RowWriter::new(buffer, row, 0).put(&from, theme.ink(Hue::Dim));
    }
    if at + width(&now) + width(&to) < plot.width {
        RowWriter::new(buffer, row, 0).skip(plot.width - width(&to)).put(&to, theme.ink(Hue::Dim));
    }
}
