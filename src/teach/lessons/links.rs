//! What lessons are about: the knobs that differ between their cases.

use super::{Lesson, all};
use crate::settings::knob::Knob;

impl Lesson {
    /// The knobs that its cases set differently, in the order of the screen.
    pub fn knobs(&self) -> Vec<Knob> {
        let differs = |knob: &Knob| {
            let mut values = self.cases.values().map(|case| case.value(*knob).or_else(|| self.knobs.value(*knob)));
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        Knob::ALL.into_iter().filter(differs).collect()
    }
}

/// The index of the lesson on a knob: of those about it the one about the fewest knobs.
pub fn on_knob(knob: Knob) -> Option<usize> {
    let about = |(at, lesson): (usize, &Lesson)| {
        let knobs = lesson.knobs();
        knobs.contains(&knob).then_some((knobs.len(), at))
    };
    all().iter().enumerate().filter_map(about).min().map(|(_, at)| at)
}
