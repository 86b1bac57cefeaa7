//! The largest value of a knob that still fits, the others held.

use super::Goal;
use super::search::{KnobRange, KnobSearch, Reversed, Search};
use crate::engine::PlanRequest;
use crate::plan::Plan;
use crate::settings::knob::{Bounds, Knob};

/// So many places of a track are few.
const FEW: u64 = 256;

/// How far a knob can go.
#[derive(Clone, Debug, PartialEq)]
pub struct Largest {
    /// The knob.
    pub knob: Knob,
    /// Its largest value that fits.
    pub value: u64,
    /// The next value that the engine can tell apart, which does not fit; none at the end of the range.
    pub next: Option<u64>,
    /// The plan at `value`.
    pub plan: Plan,
}

impl PlanRequest {
    /// The largest value of `knob` with which `goal` is met while the other knobs stay; for [`Knob::GpuLayers`] the most
    /// layers that go to GPUs when they are asked for, and fit. `None` when no value does it, or for a knob of words.
    ///
    /// The engine's need may jump and fall along the way: the range is looked at from the top down, at the knob's
    /// stops and wherever the engine's rules change, and divided further where the rules in effect differ.
    pub fn largest(&self, knob: Knob, goal: Goal) -> Option<Largest> {
        let bounds = self.bounds();
        self.largest_on(knob, goal, KnobRange::of(knob, &bounds), &bounds)
    }

    /// The smallest value of `knob` with which `goal` is met while the other knobs stay: for those of which more is needed
    /// the less there is room, as [`Knob::CpuMoe`]. With none the engine decides by itself, so only what is asked for is
    /// looked at; where the least of that will do, nothing need be asked.
    pub fn fewest(&self, knob: Knob, goal: Goal) -> Option<u64> {
        let track = KnobRange::new(1, knob.stops(&self.bounds()).last().max(1));
        let mut search = KnobSearch::for_goal(self.clone(), knob, goal, track);
        let place = Reversed { search: &mut search, last: track.last() }.last_met(&[0, track.last()])?;
        let fewest = track.value(track.last() - place);
        let none_will_do =
            || self.plan_with(|settings| knob.set(settings, 0)).is_some_and(|plan| goal.is_met_by(&plan));
        Some(if fewest == 1 && none_will_do() { 0 } else { fewest })
    }

    /// The smallest value of `knob` that the engine tells from nothing: where its range begins.
    pub fn least(&self, knob: Knob) -> u64 {
        KnobRange::of(knob, &self.bounds()).value(0)
    }

    /// [`PlanRequest::largest`], but below `value`.
    pub(super) fn largest_below(&self, knob: Knob, goal: Goal, value: u64) -> Option<Largest> {
        let bounds = self.bounds();
        let track = KnobRange::of(knob, &bounds).up_to(value.checked_sub(1)?)?;
        self.largest_on(knob, goal, track, &bounds)
    }

    fn largest_on(&self, knob: Knob, goal: Goal, track: KnobRange, bounds: &Bounds) -> Option<Largest> {
        if knob.words().is_some() {
            return None;
        }
        let mut search = KnobSearch::for_goal(self.clone(), knob, goal, track);
        // what is quickly planned and not much is looked at place by place
        let each = track.last() < FEW && search.has_no_preflight();
        let samples = if each { (0..=track.last()).collect() } else { track.samples(self, knob, bounds) };
        let place = search.last_met(&samples)?;
        let value = track.value(place);
        let plan = self.plan_with(|settings| knob.set(settings, value))?;
        if place < track.last() {
            return Some(Largest { knob, value, next: Some(track.value(place + 1)), plan });
        }
        // what the engine lowers by its own rules goes no further than to where it is lowered
        let effect = knob.in_effect(&plan);
        if effect < value && effect >= knob.least() && knob != Knob::GpuLayers {
            let same =
                self.plan_with(|settings| knob.set(settings, effect)).filter(|same| same.settings == plan.settings);
            if let Some(plan) = same {
                return Some(Largest { knob, value: effect, next: None, plan });
            }
        }
        Some(Largest { knob, value, next: None, plan })
    }
}
