//! Where everything stands on a screen: a pure function of its size. Drawing and the mouse read the same one.

use ratatui::layout::Rect;

use super::widget::pen::width;
use crate::settings::knob::Knob;

/// Smallest screen that the planner can be used on, in cells.
pub const LEAST: (u16, u16) = (60, 20);

/// The parts of the screen that can have the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[allow(missing_docs)]
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
            Self::Graph => "Graph",
        }
    }

    /// The panel `by` places further round.
    #[must_use]
    pub fn turn(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|&panel| panel == self).unwrap_or(0);
        Self::ALL[(at + by) % Self::ALL.len()]
    }
}

/// How the panels are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Only a sentence has room.
    TooSmall,
    /// Knobs above, one of the other panels below.
    Tabbed,
    /// Two columns: knobs over graph, layers over memory.
    Columns,
}

/// The screen, cut into its parts. A part without room is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Regions {
    pub shape: Shape,
    pub screen: Rect,
    pub header: Rect,
    pub knobs: Rect,
    pub layers: Rect,
    pub memory: Rect,
    pub graph: Rect,
    pub verdict: Rect,
    pub footer: Rect,
}

impl Regions {
    /// Cuts a screen of `columns` by `rows` cells.
    pub fn of(columns: u16, rows: u16) -> Self {
        let screen = Rect::new(0, 0, columns, rows);
        let none = Rect::ZERO;
        let mut regions = Self {
            shape: Shape::TooSmall,
            screen,
            header: none,
            knobs: none,
            layers: none,
            memory: none,
            graph: none,
            verdict: none,
            footer: none,
        };
        if columns < LEAST.0 || rows < LEAST.1 {
            return regions;
        }
        regions.header = Rect { height: 1, ..screen };
        regions.footer = Rect { y: rows - 1, height: 1, ..screen };
        let body = Rect { y: 1, height: rows - 2, ..screen };
        let knob_rows = Knob::ALL.len() as u16 + 2;
        if columns < 80 || rows < 24 {
            regions.shape = Shape::Tabbed;
            let (knobs, rest) = cut_top(body, knob_rows);
            let (lower, verdict) = cut_top(rest, rest.height - 3);
            (regions.knobs, regions.verdict) = (knobs, verdict);
            (regions.layers, regions.memory, regions.graph) = (lower, lower, lower);
            return regions;
        }
        regions.shape = Shape::Columns;
        let left_width = if columns < 100 { columns * 19 / 40 } else { (columns * 2 / 5).clamp(44, 68) };
        let wide = columns >= 100 && rows >= 28;
        let (left, right, below) = if wide {
            let (left, right) = cut_left(body, left_width);
            let verdict = if rows >= 36 { 6 } else { 5 };
            let (right, below) = cut_top(right, right.height - verdict);
            (left, right, below)
        } else {
            let (body, below) = cut_top(body, body.height - 4);
            let (left, right) = cut_left(body, left_width);
            (left, right, below)
        };
        let knobs_height = if rows >= 40 { knob_rows + Knob::ALL.len() as u16 + 1 } else { knob_rows };
        (regions.knobs, regions.graph) = cut_top(left, knobs_height);
        let layers_height = if wide { (right.height / 2).max(knob_rows) } else { knob_rows };
        (regions.layers, regions.memory) = cut_top(right, layers_height);
        regions.verdict = below;
        regions
    }

    /// The place of `panel`.
    pub const fn panel(&self, panel: Panel) -> Rect {
        match panel {
            Panel::Knobs => self.knobs,
            Panel::Layers => self.layers,
            Panel::Memory => self.memory,
            Panel::Graph => self.graph,
        }
    }

    /// The row of `knob`, inside the frame.
    pub fn knob(&self, knob: Knob) -> KnobRow {
        let inner = inside(self.knobs);
        let at = Knob::ALL.iter().position(|&other| other == knob).unwrap_or(0) as u16;
        let spread = inner.height > 2 * Knob::ALL.len() as u16;
        let y = inner.y + if spread { 1 + 2 * at } else { at };
        KnobRow::new(Rect { y, height: u16::from(y < inner.bottom()), ..inner })
    }

    /// The names of the panels that share the place below the knobs, on its lower edge; none where each has its own.
    pub fn tabs(&self) -> Vec<(Panel, Rect)> {
        if self.shape != Shape::Tabbed {
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

    /// A place in front of the planner, at most `columns` by `rows` cells; the footer stays.
    pub fn overlay(&self, columns: u16, rows: u16) -> Rect {
        let most = self.screen.height.saturating_sub(self.footer.height);
        let (columns, rows) = (columns.min(self.screen.width), rows.min(most));
        Rect::new((self.screen.width - columns) / 2, (most - rows) / 2, columns, rows)
    }

    /// What is under (`x`, `y`); with tabs, `lower` is the panel shown below.
    pub fn at(&self, x: u16, y: u16, lower: Panel) -> Option<Panel> {
        let holds = |area: Rect| area.contains((x, y).into());
        match self.shape {
            Shape::TooSmall => None,
            Shape::Tabbed => holds(self.knobs).then_some(Panel::Knobs).or_else(|| holds(self.layers).then_some(lower)),
            Shape::Columns => Panel::ALL.into_iter().find(|&panel| holds(self.panel(panel))),
        }
    }
}

/// One knob's row: its name, its track, its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
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

    /// The cells of each of `words`, for a knob that has words: they take the track and the value's place.
    pub fn words(&self, words: &[&str]) -> Vec<Rect> {
        let end = self.value.right();
        let mut x = self.track.x;
        let mut places = Vec::with_capacity(words.len());
        for word in words {
            // a mark on either side
            let cells = (width(word) + 2).min(end.saturating_sub(x));
            places.push(Rect { x, width: cells, ..self.row });
            x += cells;
        }
        places
    }
}

/// What is inside the frame of `area`.
pub const fn inside(area: Rect) -> Rect {
    Rect {
        x: area.x.saturating_add(1),
        y: area.y.saturating_add(1),
        width: area.width.saturating_sub(2),
        height: area.height.saturating_sub(2),
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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_stay_on_the_screen_and_apart(columns in 0u16..400, rows in 0u16..200) {
            let regions = Regions::of(columns, rows);
            let mut parts = vec![regions.header, regions.knobs, regions.verdict, regions.footer, regions.layers];
            if regions.shape == Shape::Columns {
                parts.extend([regions.memory, regions.graph]);
            }
            for (i, a) in parts.iter().enumerate() {
                prop_assert_eq!(a.intersection(regions.screen), if a.is_empty() { a.intersection(regions.screen) } else { *a });
                for b in &parts[i + 1..] {
                    prop_assert!(a.intersection(*b).is_empty(), "{a:?} and {b:?} overlap");
                }
            }
            if regions.shape != Shape::TooSmall {
                let filled: u32 = parts.iter().map(|part| u32::from(part.width) * u32::from(part.height)).sum();
                prop_assert_eq!(filled, u32::from(columns) * u32::from(rows), "nothing is left bare");
            }
        }

        #[test]
        fn every_knob_can_be_reached(columns in 60u16..300, rows in 20u16..100) {
            let regions = Regions::of(columns, rows);
            for knob in Knob::ALL {
                let row = regions.knob(knob);
                prop_assert_eq!(row.row.height, 1);
                prop_assert!(row.track.width >= 10, "{knob:?} {:?}", row);
                prop_assert_eq!(regions.at(row.track.x, row.row.y, Panel::Layers), Some(Panel::Knobs));
                if let Some(words) = knob.choices() {
                    for place in row.words(&words) {
                        prop_assert!(place.width >= 3);
                    }
                }
            }
        }
    }
}
