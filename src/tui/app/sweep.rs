//! Memory over a knob's range: the points planned so far, and a cursor.

use std::collections::BTreeMap;

use super::cliffs::{edge, next};
use super::{App, Mode};
use crate::answer::sweep::PlanFigures;
use crate::settings::knob::{Bounds, Knob};
use crate::tui::action::Command;
use crate::tui::effect::Effect;
use crate::tui::query::{Query, QueryKind};
use crate::tui::regions;

/// The knobs that can be swept.
pub const SWEEP_KNOBS: [Knob; 3] = [Knob::Context, Knob::Parallel, Knob::Batch];

/// The state of the page.
#[derive(Clone, Debug)]
pub struct SweepPage {
    /// The swept knob.
    pub knob: Knob,
    /// The figures for each planned value, or the engine's error.
    pub points: BTreeMap<u64, Result<PlanFigures, String>>,
    /// The value at the cursor.
    pub cursor: u64,
    /// The selected device, by its index in the plan.
    pub device: usize,
}

/// A logarithmic axis over a knob's range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogAxis {
    first: u64,
    last: u64,
    columns: u16,
}

impl LogAxis {
    /// The range of `knob` over this number of columns.
    pub fn new(knob: Knob, bounds: &Bounds, columns: u16) -> Self {
        let stops = knob.stops(bounds);
        Self { first: stops.first().max(1), last: stops.last().max(1), columns }
    }

    fn ratio(&self) -> f64 {
        (self.last as f64 / self.first as f64).ln()
    }

    /// The column of `value`, clamped to the range.
    pub fn column(&self, value: u64) -> u16 {
        let (ratio, steps) = (self.ratio(), f64::from(self.columns.saturating_sub(1)));
        if ratio <= 0.0 {
            return 0;
        }
        let share = (value.max(1) as f64 / self.first as f64).ln() / ratio;
        (share.clamp(0.0, 1.0) * steps).round() as u16
    }

    /// The value at `column`.
    pub fn value(&self, column: u16) -> u64 {
        let steps = self.columns.saturating_sub(1);
        if column == 0 || steps == 0 {
            return self.first;
        }
        if column >= steps {
            return self.last;
        }
        let share = f64::from(column) / f64::from(steps);
        let value = self.first as f64 * (share * self.ratio()).exp();
        (value.round() as u64).clamp(self.first, self.last)
    }

    /// The values of all columns, ascending.
    pub fn values(&self) -> Vec<u64> {
        let mut values: Vec<u64> = (0..self.columns).map(|column| self.value(column)).collect();
        values.dedup();
        values
    }
}

impl App {
    /// The axis for `knob` on this screen.
    pub fn axis(&self, knob: Knob) -> LogAxis {
        LogAxis::new(knob, &self.bounds, regions::sweep::columns(&self.regions))
    }

    /// Opens the page for the focused knob, or for the context if that cannot be swept.
    pub(super) fn sweep(&mut self) -> Vec<Effect> {
        if self.plan.is_none() {
            self.notice = Some("There is no plan yet: open a model with o.".to_owned());
            return Vec::new();
        }
        let knob = SWEEP_KNOBS.into_iter().find(|&knob| knob == self.knobs.focus).unwrap_or(Knob::Context);
        self.begin_sweep(knob, 0)
    }

    fn begin_sweep(&mut self, knob: Knob, device: usize) -> Vec<Effect> {
        let cursor = self.value(knob);
        self.mode = Mode::Sweep(Box::new(SweepPage { knob, points: BTreeMap::new(), cursor, device }));
        self.ask_for_page()
    }

    /// The query for the missing points, the one at the cursor first.
    pub(super) fn missing_points(&self, page: &SweepPage) -> Option<QueryKind> {
        let mut values: Vec<u64> = std::iter::once(page.cursor).chain(self.axis(page.knob).values()).collect();
        values.retain(|value| !page.points.contains_key(value));
        (!values.is_empty()).then_some(QueryKind::Points(page.knob, values))
    }

    /// Asks for the missing points and keeps the known ones.
    pub(super) fn ask_for_points(&mut self) -> Vec<Effect> {
        let Mode::Sweep(page) = &self.mode else { return Vec::new() };
        let (Some(about), Some(of)) = (self.missing_points(page), self.plan_request()) else { return Vec::new() };
        vec![Effect::Ask(Box::new(Query { id: self.queries.next_of_page(), of, about }))]
    }

    pub(super) fn press_on_sweep(&mut self, mut page: Box<SweepPage>, command: Command) -> Vec<Effect> {
        let axis = self.axis(page.knob);
        let at = axis.column(page.cursor);
        let devices = self.plan.as_ref().map_or(1, |plan| plan.devices.len());
        match command {
            Command::Back | Command::Sweep => return Vec::new(),
            Command::Help => {
                self.mode = Mode::Help(0);
                return Vec::new();
            }
            Command::Enter => {
                self.set_knob(page.knob, page.cursor);
                self.knobs.focus = page.knob;
                return Vec::new();
            }
            Command::NextPanel | Command::PreviousPanel => {
                let now = SWEEP_KNOBS.iter().position(|&knob| knob == page.knob).unwrap_or(0);
                let by = if command == Command::NextPanel { 1 } else { SWEEP_KNOBS.len() - 1 };
                return self.begin_sweep(SWEEP_KNOBS[(now + by) % SWEEP_KNOBS.len()], page.device);
            }
            Command::Less => page.cursor = below(&axis, page.cursor, at),
            Command::More => page.cursor = above(&axis, page.cursor, at),
            Command::PageDown | Command::FineLess => page.cursor = axis.value(at.saturating_sub(8)),
            Command::PageUp | Command::FineMore => page.cursor = axis.value(at.saturating_add(8)),
            Command::First => page.cursor = axis.value(0),
            Command::Last => page.cursor = axis.value(u16::MAX),
            Command::NextCliff | Command::PreviousCliff => {
                self.move_to_cliff(&mut page, command == Command::NextCliff);
            }
            Command::Up => page.device = page.device.saturating_sub(1),
            Command::Down => page.device = (page.device + 1).min(devices.saturating_sub(1)),
            _ => {}
        }
        self.mode = Mode::Sweep(page);
        self.ask_for_points()
    }

    fn move_to_cliff(&mut self, page: &mut SweepPage, up: bool) {
        let cliffs = self.limits_request().and_then(|now| self.cliffs.of(page.knob, &now).map(<[_]>::to_vec));
        let Some(cliffs) = cliffs else {
            self.notice = Some("Still computing the thresholds; press again in a moment.".to_owned());
            return;
        };
        match next(&cliffs, page.cursor, up) {
            Some(cliff) => {
                page.cursor = edge(cliff);
                self.notice = Some(format!("{}.", cliff.description(page.knob)));
            }
            None => self.notice = Some("No threshold further on.".to_owned()),
        }
    }
}

/// The value of the next column to the left with a smaller value.
fn below(axis: &LogAxis, value: u64, at: u16) -> u64 {
    (0..=at).rev().map(|column| axis.value(column)).find(|&other| other < value).unwrap_or(value)
}

/// The value of the next column to the right with a larger value.
fn above(axis: &LogAxis, value: u64, at: u16) -> u64 {
    (at..axis.columns).map(|column| axis.value(column)).find(|&other| other > value).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn columns_and_values_agree(first in 1u64..5000, factor in 1u64..4096, columns in 1u16..300) {
            let axis = LogAxis { first, last: first * factor, columns };
            for column in 0..columns {
                let value = axis.value(column);
                prop_assert!((first..=first * factor).contains(&value));
                // in a short range several columns have the same value
                prop_assert_eq!(axis.value(axis.column(value)), value, "column {}", column);
                prop_assert!(column == 0 || axis.value(column - 1) <= value);
            }
            prop_assert_eq!(axis.value(0), first);
            prop_assert!(columns == 1 || axis.value(columns) == first * factor);
        }

        #[test]
        fn the_cursor_passes_every_value(columns in 2u16..200) {
            let axis = LogAxis { first: 1, last: 64, columns };
            let (mut value, mut seen) = (1, vec![1]);
            while value < 64 {
                value = above(&axis, value, axis.column(value));
                seen.push(value);
            }
            prop_assert_eq!(&seen, &axis.values());
            while value > 1 {
                let before = below(&axis, value, axis.column(value));
                prop_assert!(before < value);
                value = before;
            }
        }
    }
}
