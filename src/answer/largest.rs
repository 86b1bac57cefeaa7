//! The largest value of a knob, and the largest quantisation, that fit.

use super::Goal;
use super::search::{KnobRange, KnobSearch, Reversed, Search};
use crate::engine::PlanRequest;
use crate::gguf::FileType;
use crate::plan::Plan;
use crate::settings::knob::{Bounds, Knob};
use crate::units::Bytes;

/// Ranges with fewer values are searched value by value if plans are cheap.
const FEW: u64 = 256;

/// The largest value of a knob that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Largest {
    /// The knob.
    pub knob: Knob,
    /// Its largest value that fits.
    pub value: u64,
    /// The next value, which does not fit; `None` at the end of the range.
    pub next: Option<u64>,
    /// The plan at `value`.
    pub plan: Plan,
}

impl PlanRequest {
    /// The largest value of `knob` with which `goal` is met while the other knobs stay; for [`Knob::GpuLayers`] the
    /// largest number that is offloaded when requested, and fits. `None` if no value does, or if the knob takes words.
    ///
    /// Memory need not grow with the value: the range is searched from the top down, at the knob's stops and wherever
    /// the engine's rules change, and divided further where the rules in effect differ.
    pub fn largest(&self, knob: Knob, goal: Goal) -> Option<Largest> {
        let bounds = self.bounds();
        let (value, next) = self.largest_on(knob, goal, KnobRange::of(knob, &bounds), &bounds)?;
        let plan = self.changed(|settings| knob.set(settings, value)).plan().ok()?;
        Some(Largest { knob, value, next, plan })
    }

    /// The same without its plan.
    pub fn largest_value(&self, knob: Knob, goal: Goal) -> Option<u64> {
        let bounds = self.bounds();
        self.largest_on(knob, goal, KnobRange::of(knob, &bounds), &bounds).map(|(value, _)| value)
    }

    /// The largest context with which `goal` is met while the other knobs stay, in tokens: [`PlanRequest::largest`] for
    /// callers that ask many models at once, and so plan nothing ahead.
    pub(super) fn largest_context(&self, goal: Goal) -> Option<u64> {
        if !self.has_room(self.model.bytes, goal) {
            return None;
        }
        let bounds = self.bounds();
        let range = KnobRange::of(Knob::Context, &bounds);
        let mut search = KnobSearch::for_goal(self.clone(), Knob::Context, goal, range).without_look_ahead();
        let place = search.last_met(&range.samples(self, Knob::Context, &bounds))?;
        let in_effect = search.at(place).settings.as_ref().map(|settings| settings.ctx);
        // the engine may lower what the end of the range asks for
        Some(in_effect.filter(|_| place == range.last()).unwrap_or(u64::MAX).min(range.value(place)))
    }

    /// The smallest value of `knob` with which `goal` is met while the other knobs stay: for [`Knob::CpuMoe`], which
    /// frees GPU memory as it grows. At 0 the engine may choose the value, so the search starts at 1 and tries 0 last.
    pub fn smallest(&self, knob: Knob, goal: Goal) -> Option<u64> {
        let range = KnobRange::new(1, knob.stops(&self.bounds()).last().max(1));
        let mut search = KnobSearch::for_goal(self.clone(), knob, goal, range);
        let place = Reversed { search: &mut search, last: range.last() }.last_met(&[0, range.last()])?;
        let smallest = range.value(range.last() - place);
        let zero_suffices =
            || self.plan_with(|settings| knob.set(settings, 0)).is_some_and(|plan| goal.is_met_by(&plan));
        Some(if smallest == 1 && zero_suffices() { 0 } else { smallest })
    }

    /// The smallest meaningful value of `knob`, where its range begins.
    pub fn least(&self, knob: Knob) -> u64 {
        KnobRange::of(knob, &self.bounds()).value(0)
    }

    /// [`PlanRequest::largest_value`], but below `value`.
    pub(super) fn largest_below(&self, knob: Knob, goal: Goal, value: u64) -> Option<u64> {
        let bounds = self.bounds();
        let range = KnobRange::of(knob, &bounds).up_to(value.checked_sub(1)?)?;
        self.largest_on(knob, goal, range, &bounds).map(|(value, _)| value)
    }

    /// The largest value in effect, and the next one.
    fn largest_on(&self, knob: Knob, goal: Goal, range: KnobRange, bounds: &Bounds) -> Option<(u64, Option<u64>)> {
        if knob.words().is_some() {
            return None;
        }
        let mut search = KnobSearch::for_goal(self.clone(), knob, goal, range);
        // few values and cheap plans: try each value
        let each = range.last() < FEW && search.has_no_preflight();
        let samples = if each { (0..=range.last()).collect() } else { range.samples(self, knob, bounds) };
        let place = search.last_met(&samples)?;
        let value = range.value(place);
        if place < range.last() {
            return Some((value, Some(range.value(place + 1))));
        }
        // if the engine lowers the value, report the value in effect
        let plan = self.plan_with(|settings| knob.set(settings, value))?;
        let effect = knob.in_effect(&plan);
        if effect < value && effect >= knob.least() && knob != Knob::GpuLayers {
            let then = self.plan_with(|settings| knob.set(settings, effect));
            if then.is_some_and(|then| then.settings == plan.settings) {
                return Some((effect, None));
            }
        }
        Some((value, None))
    }

    /// The largest quantisation, by its bytes, with which `goal` is met while every knob stays. Tried from the largest
    /// down.
    pub fn largest_quantisation(&self, goal: Goal) -> LargestQuantisation {
        let of = self.made();
        let LargestQuantisation { found, next } = of.largest_quantisation_below(goal, Bytes(u64::MAX));
        let found = found.and_then(|(to, trial)| {
            let request = of.with_model(of.model.in_quantisation(to).ok()?);
            Some((to, request.explained(trial)))
        });
        LargestQuantisation { found, next }
    }

    /// [`PlanRequest::largest_quantisation`] among those smaller than `bytes`, with its trial.
    pub(super) fn largest_quantisation_below(&self, goal: Goal, bytes: Bytes) -> LargestQuantisation {
        let mut next = None;
        let sizes = self.model.quantisations();
        for &(file_type, _) in sizes.iter().rev().filter(|&&(_, size)| size < bytes) {
            match self.plan_quantised(file_type, goal) {
                Some(plan) => return LargestQuantisation { found: Some((file_type, plan)), next },
                None => next = Some(file_type),
            }
        }
        LargestQuantisation { found: None, next }
    }

    /// The trial of the model in another quantisation; `None` if it does not meet `goal`.
    fn plan_quantised(&self, to: FileType, goal: Goal) -> Option<Plan> {
        self.with_model(self.model.in_quantisation(to).ok()?).trial_meeting(goal)
    }
}

/// Quantisations, the most common first.
pub(super) const COMMON_QUANTISATIONS: [FileType; 12] = [
    FileType::Q4KM,
    FileType::Q8_0,
    FileType::Q6K,
    FileType::Q5KM,
    FileType::Q3KM,
    FileType::F16,
    FileType::Iq4Xs,
    FileType::Q2K,
    FileType::Q5KS,
    FileType::Q4KS,
    FileType::Iq3Xs,
    FileType::Iq2Xs,
];

/// The largest quantisation that fits, with the knobs held.
#[derive(Clone, Debug, PartialEq)]
pub struct LargestQuantisation {
    /// The largest one that fits, with its plan; `None` if even the smallest does not.
    pub found: Option<(FileType, Plan)>,
    /// The next larger one, which does not fit; `None` if the largest of all fits.
    pub next: Option<FileType>,
}
