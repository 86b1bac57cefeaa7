//! Layout of the screen: a pure function of its size and the number of knobs, used for drawing and for the mouse.

use ratatui::layout::Rect;

use super::widget::row_writer::width;
use crate::plan::Plan;

/// Smallest usable screen: columns and rows.
pub const MIN_SCREEN: (u16, u16) = (60, 20);

/// Minimum rows of the panel below the knobs, including its frame.
const MIN_BELOW: u16 = 8;
/// Minimum rows of the layers panel.
const MIN_LAYERS_ROWS: u16 = 8;

/// Rows of the figures and their titles.
const FIGURES_ROWS: u16 = 2;
/// From so many rows on, panels below one another have their usual heights.
const ROOMY: u16 = 28;

/// The parts of the screen that can have the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Panel {
    #[default]
    Knobs,
    Layers,
    Memory,
    Graph,
}

impl Panel {
    /// Every panel, in the order in which Tab visits them.
    pub const ALL: [Self; 4] = [Self::Knobs, Self::Layers, Self::Memory, Self::Graph];

    /// Its title.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Knobs => "Knobs",
            Self::Layers => "Layers",
            Self::Memory => "Memory",
            Self::Graph => "Compute",
        }
    }

    /// The panel `by` places further round.
    #[must_use]
    pub fn turn(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|&panel| panel == self).unwrap_or(0);
        Self::ALL[(at + by) % Self::ALL.len()]
    }
}

/// The cursor of each panel with a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursors {
    /// Index into the plan's layers.
    pub layer: usize,
    /// Index into the plan's devices.
    pub device: usize,
    /// Line of the graph panel.
    pub term: usize,
    /// Index into [`crate::plan::GraphPlan::peaks`] of the device whose peak the graph panel shows; none for the
    /// largest.
    pub peak: Option<usize>,
}

impl Cursors {
    /// Moves those of layers and devices onto what `plan` has.
    pub fn keep_within(&mut self, plan: &Plan) {
        self.layer = self.layer.min(plan.layers.len().saturating_sub(1));
        self.device = self.device.min(plan.devices.len().saturating_sub(1));
    }
}

/// How the panels are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenLayout {
    /// Room for one sentence only.
    TooSmall,
    /// Knobs above, one of the other panels below.
    Tabbed,
    /// Two columns: knobs over graph, layers over memory.
    Columns,
}

/// The parts of the screen. Parts without room are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Regions {
    pub shape: ScreenLayout,
    pub screen: Rect,
    /// Number of knobs; they scroll if not all fit.
    pub knob_count: usize,
    pub header: Rect,
    pub knobs: Rect,
    pub layers: Rect,
    pub memory: Rect,
    pub graph: Rect,
    /// The line of figures with its titles, below the header; empty on a tabbed screen, where the verdict begins with it.
    pub figures: Rect,
    pub verdict: Rect,
    pub footer: Rect,
}

impl Regions {
    /// The layout of a screen of `columns` by `rows` cells with `knob_count` knobs.
    pub fn of(columns: u16, rows: u16, knob_count: usize) -> Self {
        let screen = Rect::new(0, 0, columns, rows);
        let none = Rect::ZERO;
        let mut regions = Self {
            shape: ScreenLayout::TooSmall,
            screen,
            knob_count,
            header: none,
            knobs: none,
            layers: none,
            memory: none,
            graph: none,
            figures: none,
            verdict: none,
            footer: none,
        };
        if columns < MIN_SCREEN.0 || rows < MIN_SCREEN.1 {
            return regions;
        }
        regions.header = Rect { height: 1, ..screen };
        let below = footer_rows(columns, rows);
        regions.footer = Rect { y: rows - below, height: below, ..screen };
        let body = regions.body();
        let knobs = knob_count.min(usize::from(u16::MAX / 4)) as u16;
        if columns < 80 || rows < 24 {
            regions.shape = ScreenLayout::Tabbed;
            let (upper, verdict) = cut_top(body, body.height - 3);
            let (knobs, lower) = cut_top(upper, (knobs + 2).min(upper.height - (MIN_BELOW - 1)));
            (regions.knobs, regions.verdict) = (knobs, verdict);
            (regions.layers, regions.memory, regions.graph) = (lower, lower, lower);
            return regions;
        }
        regions.shape = ScreenLayout::Columns;
        let left_width = if columns < 100 { columns * 19 / 40 } else { (columns * 2 / 5).clamp(44, 68) };
        let wide = columns >= 100 && rows >= 28;
        let (figures, body) = cut_top(body, FIGURES_ROWS);
        regions.figures = figures;
        let (body, below) = cut_top(body, body.height - verdict_rows(rows));
        let (left, right) = cut_left(body, left_width);
        let spread = 2 * knobs + 3;
        let roomy = rows >= 40 && spread <= left.height / 2;
        let min_below = if rows < ROOMY { MIN_BELOW - 2 } else { MIN_BELOW };
        let knobs_height = if roomy { spread } else { (knobs + 2).min(left.height - min_below) };
        (regions.knobs, regions.graph) = cut_top(left, knobs_height);
        let layers_height = match (wide, rows < ROOMY) {
            (true, _) => (right.height / 2).max(MIN_LAYERS_ROWS),
            (false, true) => MIN_LAYERS_ROWS - 1,
            (false, false) => MIN_LAYERS_ROWS,
        };
        (regions.layers, regions.memory) = cut_top(right, layers_height);
        regions.verdict = below;
        regions
    }

    /// All between header and footer.
    pub const fn body(&self) -> Rect {
        let height = self.screen.height.saturating_sub(self.header.height + self.footer.height);
        Rect { y: self.header.height, height, ..self.screen }
    }

    /// The area of `panel`.
    pub const fn panel(&self, panel: Panel) -> Rect {
        match panel {
            Panel::Knobs => self.knobs,
            Panel::Layers => self.layers,
            Panel::Memory => self.memory,
            Panel::Graph => self.graph,
        }
    }

    /// Number of knobs that are visible at once.
    pub fn knobs_at_once(&self) -> usize {
        self.knob_count.min(usize::from(inside(self.knobs).height))
    }

    /// The row of visible knob number `at`, inside the frame; none if it is not visible.
    pub fn knob(&self, at: usize) -> Option<KnobRow> {
        if at >= self.knobs_at_once() {
            return None;
        }
        let inner = inside(self.knobs);
        let spread = usize::from(inner.height) > 2 * self.knob_count;
        let row = if spread { 1 + 2 * at } else { at };
        let y = inner.y.saturating_add(row as u16);
        (y < inner.bottom()).then(|| KnobRow::new(Rect { y, height: 1, ..inner }))
    }

    /// The tabs on the lower edge of the panel below the knobs; none where each panel has its own area.
    pub fn tabs(&self) -> Vec<(Panel, Rect)> {
        if self.shape != ScreenLayout::Tabbed {
            return Vec::new();
        }
        let y = self.layers.bottom().saturating_sub(1);
        let mut end = self.layers.right().saturating_sub(2);
        let mut tabs = Vec::new();
        for panel in [Panel::Graph, Panel::Memory, Panel::Layers] {
            // a blank on either side
            let cells = width(panel.title()) + 2;
            end = end.saturating_sub(cells);
            tabs.push((panel, Rect::new(end, y, cells, 1)));
        }
        tabs
    }

    /// A centred overlay of at most `columns` by `rows` cells; the footer stays visible.
    pub fn overlay(&self, columns: u16, rows: u16) -> Rect {
        let max = self.screen.height.saturating_sub(self.footer.height);
        let (columns, rows) = (columns.min(self.screen.width), rows.min(max));
        // fill the height rather than leave a single row of the background above or below
        let rows = if max - rows <= 2 { max } else { rows };
        Rect::new((self.screen.width - columns) / 2, (max - rows) / 2, columns, rows)
    }

    /// Lines of an overlay that fills the height.
    pub fn page_lines(&self) -> u16 {
        self.overlay(u16::MAX, u16::MAX).height.saturating_sub(2)
    }

    /// The panel at (`x`, `y`); on a tabbed screen `lower` is the one shown below.
    pub fn at(&self, x: u16, y: u16, lower: Panel) -> Option<Panel> {
        let holds = |area: Rect| area.contains((x, y).into());
        match self.shape {
            ScreenLayout::TooSmall => None,
            ScreenLayout::Tabbed => {
                holds(self.knobs).then_some(Panel::Knobs).or_else(|| holds(self.layers).then_some(lower))
            }
            ScreenLayout::Columns => Panel::ALL.into_iter().find(|&panel| holds(self.panel(panel))),
        }
    }
}

/// The row of a knob: name, slider, value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct KnobRow {
    pub row: Rect,
    pub title: Rect,
    pub track: Rect,
    pub value: Rect,
}

impl KnobRow {
    fn new(row: Rect) -> Self {
        let (title, rest) = cut_left(row, 14.min(row.width));
        let value_width = if row.width >= 46 { 15 } else { 10 };
        let (track, value) = cut_left(rest, rest.width.saturating_sub(value_width));
        Self { row, title, track, value }
    }

    /// The area of each of `words`, for a knob whose values are words; they use the areas of slider and value.
    pub fn words(&self, words: &[&str]) -> Vec<Rect> {
        let end = self.value.right();
        let mut x = self.track.x;
        let mut places = Vec::with_capacity(words.len());
        for word in words {
            // plus one marker on either side
            let cells = (width(word) + 2).min(end.saturating_sub(x));
            places.push(Rect { x, width: cells, ..self.row });
            x += cells;
        }
        places
    }
}

/// The inside of the frame of `area`.
pub const fn inside(area: Rect) -> Rect {
    Rect {
        x: area.x.saturating_add(1),
        y: area.y.saturating_add(1),
        width: area.width.saturating_sub(2),
        height: area.height.saturating_sub(2),
    }
}

/// Rows of the footer on a screen of this size: as many as the planner's keys need, where there is room.
const fn footer_rows(columns: u16, rows: u16) -> u16 {
    match columns {
        _ if rows < 24 => 1,
        180.. => 1,
        80.. => 2,
        _ => 3,
    }
}

/// Rows of the verdict: two of a sentence and its remedies, and notes where there is room. The first one is its frame's.
const fn verdict_rows(rows: u16) -> u16 {
    match rows {
        45.. => 9,
        36.. => 8,
        ROOMY.. => 6,
        _ => 5,
    }
}

fn cut_top(area: Rect, height: u16) -> (Rect, Rect) {
    let height = height.min(area.height);
    (Rect { height, ..area }, Rect { y: area.y + height, height: area.height - height, ..area })
}

fn cut_left(area: Rect, width: u16) -> (Rect, Rect) {
    let width = width.min(area.width);
    (Rect { width, ..area }, Rect { x: area.x + width, width: area.width - width, ..area })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::knob::Knob;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_stay_on_the_screen_and_apart(columns in 0u16..400, rows in 0u16..200, knobs in 0usize..30) {
            let regions = Regions::of(columns, rows, knobs);
            let mut parts = vec![
                regions.header,
                regions.figures,
                regions.knobs,
                regions.verdict,
                regions.footer,
                regions.layers,
            ];
            if regions.shape == ScreenLayout::Columns {
                parts.extend([regions.memory, regions.graph]);
            }
            for (i, a) in parts.iter().enumerate() {
                prop_assert_eq!(a.intersection(regions.screen), if a.is_empty() { a.intersection(regions.screen) } else { *a });
                for b in &parts[i + 1..] {
                    prop_assert!(a.intersection(*b).is_empty(), "{a:?} and {b:?} overlap");
                }
            }
            if regions.shape != ScreenLayout::TooSmall {
                let filled: u32 = parts.iter().map(|part| u32::from(part.width) * u32::from(part.height)).sum();
                prop_assert_eq!(filled, u32::from(columns) * u32::from(rows), "nothing is left bare");
            }
        }

        #[test]
        fn knob_rows_are_stacked_and_their_words_fit(
            columns in 60u16..300, rows in 20u16..100, knobs in 1usize..20,
        ) {
            let regions = Regions::of(columns, rows, knobs);
            prop_assert!(regions.knobs_at_once() >= knobs.min(6));
            let places: Vec<KnobRow> = (0..regions.knobs_at_once()).filter_map(|at| regions.knob(at)).collect();
            prop_assert_eq!(places.len(), regions.knobs_at_once());
            prop_assert!(places.is_sorted_by(|a, b| a.row.y < b.row.y));
            prop_assert_eq!(regions.knob(places.len()), None);
            for row in places {
                prop_assert_eq!(row.row.height, 1);
                prop_assert!(row.track.width >= 10, "{:?}", row);
                prop_assert_eq!(regions.at(row.track.x, row.row.y, Panel::Layers), Some(Panel::Knobs));
                for words in Knob::ALL.into_iter().filter_map(Knob::words) {
                    prop_assert!(row.words(&words).iter().all(|place| place.width >= 3));
                }
            }
        }
    }
}
