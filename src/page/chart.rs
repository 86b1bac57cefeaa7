//! Charts as lines of a page, told apart by signs as well as by colours.

use std::ops::Range;

use super::glyphs::LOWER;
use super::{Hue, Ink, Page, Span, width};
use crate::units::Bytes;

/// A series of a chart: its name, sign and colour.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its sign.
    pub sign: &'static str,
    /// Its colour.
    pub hue: Hue,
}

/// Rows of cells that are written one by one.
struct Grid {
    rows: Vec<Vec<(char, Ink)>>,
}

impl Grid {
    fn new(columns: usize, rows: usize) -> Self {
        Self { rows: vec![vec![(' ', Hue::Text.into()); columns]; rows] }
    }

    fn put(&mut self, x: usize, y: usize, sign: char, ink: impl Into<Ink>) {
        if let Some(cell) = self.rows.get_mut(y).and_then(|row| row.get_mut(x)) {
            *cell = (sign, ink.into());
        }
    }

    fn write(&mut self, x: usize, y: usize, text: &str, hue: Hue) {
        text.chars().enumerate().for_each(|(at, c)| self.put(x + at, y, c, hue));
    }

    fn onto(self, page: &mut Page) {
        self.rows.into_iter().for_each(|row| page.line(signs(row)));
    }
}

/// Cells of a row as spans of one ink.
pub fn signs(cells: impl IntoIterator<Item = (char, Ink)>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (sign, ink) in cells {
        match spans.last_mut().filter(|last| last.ink == ink) {
            Some(last) => last.text.push(sign),
            None => spans.push(Span { text: sign.to_string(), ink }),
        }
    }
    spans
}

/// The steps in column `column` of `columns`; with more columns than steps, columns share them.
pub fn steps_of(column: usize, columns: usize, steps: usize) -> Range<usize> {
    let start = |column: usize| column * steps / columns.max(1);
    let from = start(column).min(steps.saturating_sub(1));
    from..start(column + 1).max(from + 1)
}

/// The column that shows step `step`.
pub fn column_of(step: usize, columns: usize, steps: usize) -> usize {
    let last = columns.saturating_sub(1);
    let guess = (step * columns / steps.max(1)).min(last);
    // the division rounds down: the step may be the first of the next column
    if guess < last && steps_of(guess + 1, columns, steps).start <= step { guess + 1 } else { guess }
}

/// A band, in eighths of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Its start.
    pub from: u32,
    /// Its end.
    pub to: u32,
    /// Its colour.
    pub hue: Hue,
    /// Its texture, for terminals without colours or eighth blocks.
    pub texture: &'static str,
}

/// The symbol and ink of the cell that begins at eighth `start` of ascending `bands`; none if no band fills it. With
/// `textured` bands are told apart by their textures, else by colours and the symbols of `eighths`.
pub fn cell(bands: &[Band], start: u32, eighths: &[&'static str; 8], textured: bool) -> Option<(&'static str, Ink)> {
    let first = bands.partition_point(|band| band.to <= start);
    let mut here =
        bands.get(first..)?.iter().take_while(|band| band.from < start + 8).filter(|band| band.to > band.from);
    let band = here.next()?;
    if textured {
        let covers = |band: &&Band| band.to.min(start + 8) - band.from.max(start);
        let largest = std::iter::once(band).chain(here).max_by_key(covers)?;
        return Some((largest.texture, Hue::Text.into()));
    }
    let whole = start + 8;
    let filled = |to: u32| eighths[(to.min(whole) - start).clamp(1, 8) as usize - 1];
    let rest: Vec<&Band> = here.collect();
    match rest.last() {
        // a band that begins in the second half of a cell is drawn from the next cell
        None if band.from > start + 4 => None,
        None => Some((filled(band.to), band.hue.into())),
        Some(last) if last.to >= whole => Some((filled(band.to), Ink { ground: Some(last.hue), ..band.hue.into() })),
        // one of the cell's two colours is the background: show the band that fills most of it
        Some(last) => {
            let largest =
                std::iter::once(band).chain(rest.iter().copied()).max_by_key(|band| band.to - band.from.max(start));
            Some((filled(last.to), largest.unwrap_or(band).hue.into()))
        }
    }
}

/// Amounts in order, stacked by series.
pub struct Stacks<'a, const N: usize> {
    /// The series.
    pub series: [Series<'static>; N],
    /// The amounts of each step.
    pub steps: &'a [[u64; N]],
    /// What each step has in all, used or not.
    pub grown: &'a [u64],
    /// The amount at full height.
    pub most: Bytes,
    /// The step to mark at the top.
    pub peak: Option<usize>,
    /// The step to mark below.
    pub cursor: Option<usize>,
    /// What a step is, left of their names.
    pub step: &'static str,
    /// Names of steps below the columns; those that fit are shown.
    pub names: Vec<(usize, String)>,
    /// Whether series are told apart by signs, for want of colours.
    pub textured: bool,
}

impl<const N: usize> Stacks<'_, N> {
    /// Adds the chart in `cells` cells and `rows` rows, of which the last names steps; `axis` cells are left of it. A
    /// column shows the fullest of its steps.
    pub fn onto(&self, page: &mut Page, cells: usize, rows: usize, axis: usize) {
        let (columns, height) = (cells.saturating_sub(axis), rows.saturating_sub(1));
        let mut grid = Grid::new(cells, rows);
        if axis > 1 {
            let edge = axis - 2;
            for y in 0..height {
                grid.write(edge, y, if y == 0 || y + 1 == height { "┤" } else { "│" }, Hue::Border);
            }
            let step = format!("{} ", self.step);
            grid.write((edge + 1).saturating_sub(width(&step)), height, &step, Hue::Dim);
            if height > 1 {
                grid.write(edge.saturating_sub(1), height - 1, "0", Hue::Dim);
            }
            let most = self.most.to_string();
            grid.write(edge.saturating_sub(width(&most)), 0, &most, Hue::Dim);
        }
        let count = self.steps.len();
        (0..columns).for_each(|x| self.column(&mut grid, axis + x, steps_of(x, columns, count), height));
        let mut free = 0;
        let marked = self.cursor.map(|cursor| column_of(cursor, columns, count));
        for (step, name) in &self.names {
            let x = column_of(*step, columns, count);
            // beside the mark, not under it
            let x = if marked == Some(x) { x + 2 } else { x };
            if x >= free && x + width(name) <= columns {
                grid.write(axis + x, height, name, Hue::Dim);
                free = x + width(name) + 3;
            }
        }
        if let Some(peak) = self.peak {
            grid.put(axis + column_of(peak, columns, count), 0, '▼', Hue::Over.bold());
        }
        if let Some(cursor) = self.cursor {
            grid.put(axis + column_of(cursor, columns, count), height, '▲', Hue::Focus.bold());
        }
        grid.onto(page);
    }

    /// Draws the step with the largest sum and, dotted above it, all that it has.
    fn column(&self, grid: &mut Grid, x: usize, steps: Range<usize>, height: usize) {
        let eighths = height as f64 * 8.0;
        let high = |bytes: u64| (Bytes(bytes).share_of(self.most).0 * eighths).round() as u32;
        let grown = self.grown.get(steps.end - 1).map_or(0, |&bytes| high(bytes) as usize / 8).min(height);
        (0..grown).for_each(|row| grid.put(x, height - 1 - row, '·', Hue::Border));
        let sum = |parts: &&[u64; N]| parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
        let Some(parts) = steps.filter_map(|at| self.steps.get(at)).max_by_key(sum) else { return };
        let (mut bytes, mut from) = (0u64, 0);
        let mut bands = Vec::with_capacity(N);
        for (part, series) in parts.iter().zip(&self.series) {
            bytes = bytes.saturating_add(*part);
            // every part that is not empty is visible
            let to = if *part > 0 { high(bytes).max(from + 1) } else { from };
            bands.push(Band { from, to, hue: series.hue, texture: series.sign });
            from = to;
        }
        for row in 0..height {
            if let Some((symbol, ink)) = cell(&bands, row as u32 * 8, &LOWER, self.textured) {
                symbol.chars().for_each(|sign| grid.put(x, height - 1 - row, sign, ink));
            }
        }
    }

    /// The series that there are.
    pub fn used(&self) -> impl Iterator<Item = Series<'static>> + '_ {
        let used = |at: usize| self.steps.iter().any(|parts| parts[at] > 0);
        self.series.iter().enumerate().filter(move |(at, _)| used(*at)).map(|(_, series)| *series)
    }
}

/// Adds the signs of the series with their names.
pub fn legend<'a>(series: impl Iterator<Item = Series<'a>>, page: &mut Page) {
    let spans = series.flat_map(|Series { name, sign, hue }| {
        let name = format!(" {name}  ").replace(' ', "\u{a0}");
        [Span::new(sign, hue), Span::new(&name, Hue::Dim), Span::new(" ", Hue::Dim)]
    });
    page.spans("", spans.collect());
}

/// Lines over a range, both axes logarithmic.
pub struct Curves<'a> {
    /// The lines.
    pub series: Vec<Series<'a>>,
    /// The ends of the range, and of the sizes.
    pub range: (f64, f64),
    /// The sizes at a place of the range.
    pub at: &'a dyn Fn(f64) -> Vec<f64>,
    /// Where the range is now, and its name.
    pub now: (f64, String),
    /// Places where lines cross, with their sizes.
    pub crossings: Vec<(f64, f64)>,
    /// Names of the ends of the range.
    pub ends: [String; 2],
    /// Names a size.
    pub name: &'a dyn Fn(u64) -> String,
}

impl Curves<'_> {
    /// Adds the chart in `cells` cells and `rows` rows.
    pub fn onto(&self, page: &mut Page, cells: usize, rows: usize) {
        const AXIS: usize = 9;
        let columns = cells.saturating_sub(AXIS).max(1);
        let (from, to) = self.range;
        let x_of = |value: f64| place(value.max(1.0), from, to, columns);
        let value = |x: usize| from * (to / from).powf(x as f64 / (columns - 1).max(1) as f64);
        let sizes: Vec<Vec<f64>> = (0..columns).map(|x| (self.at)(value(x))).collect();
        let all = || sizes.iter().flatten().map(|size| size.max(1.0));
        let (least, most) = (all().fold(f64::INFINITY, f64::min).min(1e18), all().fold(1.0, f64::max));
        let y_of = |size: f64| rows - 1 - place(size.max(1.0), least, most, rows);
        let mut grid = Grid::new(cells, rows + 1);
        (0..rows).for_each(|y| grid.put(AXIS + x_of(self.now.0), y, '┊', Hue::Dim));
        for (y, size) in [(0, most), (rows - 1, least)] {
            let name = (self.name)(size as u64);
            grid.write((AXIS - 1).saturating_sub(width(&name)), y, &name, Hue::Dim);
        }
        for (x, sizes) in sizes.iter().enumerate() {
            for (size, series) in sizes.iter().zip(&self.series).rev() {
                grid.write(AXIS + x, y_of(*size), series.sign, series.hue);
            }
        }
        for &(at, size) in &self.crossings {
            grid.put(AXIS + x_of(at), y_of(size), '◇', Hue::Focus.bold());
        }
        let now = format!("▲{}", self.now.1);
        let at = x_of(self.now.0).min(columns.saturating_sub(width(&now)));
        let [first, last] = &self.ends;
        if at > width(first) {
            grid.write(AXIS, rows, first, Hue::Dim);
        }
        if at + width(&now) + width(last) < columns {
            grid.write(AXIS + columns - width(last), rows, last, Hue::Dim);
        }
        grid.write(AXIS + at, rows, &now, Hue::Text);
        grid.onto(page);
    }
}

/// The position of `value` between `from` and `to` on a logarithmic scale of `cells` cells.
fn place(value: f64, from: f64, to: f64, cells: usize) -> usize {
    let span = (to / from).ln();
    let part = if span > 0.0 { (value / from).ln() / span } else { 0.0 };
    let last = cells.saturating_sub(1) as f64;
    (part * last).round().clamp(0.0, last) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_moment_has_a_column_and_every_column_moments(columns in 1usize..300, moments in 1usize..20_000) {
            for column in 0..columns {
                let range = steps_of(column, columns, moments);
                prop_assert!(range.start < moments && range.start < range.end);
            }
            for moment in (0..moments).step_by(moments.div_ceil(200)) {
                let range = steps_of(column_of(moment, columns, moments), columns, moments);
                prop_assert!(range.contains(&moment), "{moment} is not in {range:?}");
            }
        }
    }
}
