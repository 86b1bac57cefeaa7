//! Charts as lines of a page, told apart by signs as well as by colours.

use std::ops::Range;

use super::{Hue, Ink, Page, Span, width};

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

/// Amounts in order, stacked by series.
pub struct Stacks<'a, const N: usize> {
    /// The series.
    pub series: [Series<'a>; N],
    /// The amounts of each step.
    pub steps: &'a [[u64; N]],
    /// The amount at full height, and its name.
    pub most: (u64, String),
    /// The step to mark at the top.
    pub peak: Option<usize>,
    /// Names of steps below the columns; those that fit are shown.
    pub names: Vec<(usize, String)>,
}

impl<const N: usize> Stacks<'_, N> {
    /// Adds the chart in `cells` cells and `rows` rows. A column shows the fullest of its steps.
    pub fn onto(&self, page: &mut Page, cells: usize, rows: usize) {
        let axis = width(&self.most.1) + 2;
        let columns = cells.saturating_sub(axis);
        let mut grid = Grid::new(cells, rows + 2);
        grid.write(axis - 2 - width(&self.most.1), 1, &self.most.1, Hue::Dim);
        (1..=rows).for_each(|y| grid.put(axis - 1, y, '│', Hue::Border));
        for x in 0..columns {
            let fullest = steps_of(x, columns, self.steps.len()).filter_map(|at| self.steps.get(at));
            let Some(parts) = fullest.max_by_key(|parts| parts.iter().map(|&part| u128::from(part)).sum::<u128>())
            else {
                continue;
            };
            let (mut sum, mut from) = (0.0, 0);
            for (part, series) in parts.iter().zip(&self.series).filter(|(part, _)| **part > 0) {
                sum += *part as f64;
                let to = ((sum / self.most.0.max(1) as f64 * rows as f64).round() as usize).clamp(from, rows);
                (from..to).for_each(|row| grid.write(axis + x, rows - row, series.sign, series.hue));
                from = to;
            }
        }
        if let Some(peak) = self.peak {
            grid.put(axis + column_of(peak, columns, self.steps.len()), 0, '▼', Hue::Over.bold());
        }
        let mut free = 0;
        for (step, name) in &self.names {
            let x = column_of(*step, columns, self.steps.len());
            if x >= free && x + width(name) <= columns {
                grid.write(axis + x, rows + 1, name, Hue::Dim);
                free = x + width(name) + 3;
            }
        }
        grid.onto(page);
        let used = self.series.iter().enumerate().filter(|(at, _)| self.steps.iter().any(|parts| parts[*at] > 0));
        legend(used.map(|(_, series)| *series), page);
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
