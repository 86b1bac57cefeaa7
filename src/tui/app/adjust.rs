//! Changing knobs, and moving the cursors of the other panels.

use super::live::Stale;
use super::{App, Panel, TextEntry};
use crate::answer::{Goal, KnobLimits};
use crate::settings::knob::Knob;
use crate::tui::action::Command;
use crate::tui::screens::entry::ValueEntry;

/// Stops per Page Up and Page Down.
const PAGE: isize = 4;

impl App {
    pub(crate) fn turn_knob(&mut self, command: Command) {
        let (knob, value) = (self.knobs.focus, self.value(self.knobs.focus));
        let stops = knob.stops(&self.bounds);
        match command {
            Command::Up => self.focus_knob(self.neighbour(knob, -1)),
            Command::Down => self.focus_knob(self.neighbour(knob, 1)),
            Command::Less => self.set_knob(knob, stops.step(value, -1)),
            Command::More => self.set_knob(knob, stops.step(value, 1)),
            Command::PageDown => self.set_knob(knob, stops.step(value, -PAGE)),
            Command::PageUp => self.set_knob(knob, stops.step(value, PAGE)),
            Command::FineLess => self.set_knob(knob, next_multiple(value, knob.fine(), false).max(knob.least())),
            Command::FineMore => {
                self.set_knob(knob, next_multiple(value, knob.fine(), true).min(stops.last().max(value)));
            }
            Command::First => self.set_knob(knob, stops.first()),
            Command::Last => self.set_knob(knob, stops.last()),
            Command::Enter if knob.words().is_none() => {
                let text = knob.typed(&self.settings, value);
                self.screen = Some(Box::new(ValueEntry(TextEntry::suggested(text))));
            }
            Command::Enter => self.set_knob(knob, (value + 1) % (stops.last() + 1)),
            Command::MaxInVram => self.request_max(Goal::Vram),
            Command::MaxAllLayers => self.request_max(Goal::AllLayers),
            Command::NextCliff => self.step_to_cliff(true),
            Command::PreviousCliff => self.step_to_cliff(false),
            Command::Lock => self.lock(),
            Command::SplitCache => self.split_cache(),
            Command::Reset => {
                let mut settings = self.settings.clone();
                knob.reset(&mut settings);
                self.change_settings(settings);
            }
            _ => {}
        }
    }

    /// Sets the focused knob to its limit; if settings or memory have changed since that was found, once a new one is
    /// known.
    fn request_max(&mut self, goal: Goal) {
        let knob = self.knobs.focus;
        let known = self.limits_along(knob).is_some() || !KnobLimits::ASKED.contains(&knob);
        if self.limits.is_empty() || known && self.limits_are_current() {
            return self.set_to_limit(goal);
        }
        self.limits.pending_limit = Some((knob, goal));
        if !self.limits_are_current() {
            self.stale = Stale::User;
        }
    }

    /// Sets the limits; a knob that waited for its limit is set to it.
    pub(super) fn set_limits(&mut self, limits: KnobLimits) {
        self.limits.learn(limits);
        if let Some((knob, goal)) = self.limits.pending_limit.take()
            && knob == self.knobs.focus
        {
            self.set_to_limit(goal);
        }
    }

    fn set_to_limit(&mut self, goal: Goal) {
        let knob = self.knobs.focus;
        let (limit, kept) = match goal {
            Goal::AllLayers => (self.assigned_limit(knob), "all layers on GPU and the margin free"),
            _ => (self.limit(knob), "all in VRAM and the margin free"),
        };
        match limit {
            Some(most) => self.set_knob(knob, most),
            None if knob == Knob::GpuLayers => {
                let mut settings = self.settings.clone();
                knob.reset(&mut settings);
                self.change_settings(settings);
                self.notice = Some("Set to auto: the engine puts as many layers on GPU as fit.".to_owned());
            }
            None if !KnobLimits::ASKED.contains(&knob) => {
                self.notice = Some(format!("{} has no maximum: change it with ← and →.", knob.title()));
            }
            None if self.machine.gpus.is_empty() => {
                self.notice = Some("There is no GPU to keep layers on.".to_owned());
            }
            None if self.limits.is_empty() => {
                self.notice = Some("Still computing what fits; press it again in a moment.".to_owned());
            }
            None if knob == Knob::CpuMoe => {
                let text = "Not even with the experts of all layers in RAM does the rest leave GPUs their margin.";
                self.notice = Some(text.to_owned());
            }
            None if knob == Knob::Quant => {
                let least = knob.show(knob.stops(&self.bounds).first());
                self.notice = Some(format!("Not even {least} weights keep {kept}."));
            }
            None => {
                let least = knob.show(knob.stops(&self.bounds).first());
                let what = knob.title();
                let more = if goal == Goal::Vram && self.assigned_limit(knob).is_some() {
                    " M goes to the last with all layers on GPU, experts in RAM."
                } else {
                    ""
                };
                self.notice = Some(format!("Not even a {what} of {least} keeps {kept}.{more}"));
            }
        }
    }

    /// Sets `knob` as one undo step.
    pub(crate) fn set_knob(&mut self, knob: Knob, value: u64) {
        let mut settings = self.settings.clone();
        if let (Knob::TensorSplit, true, Some(plan)) = (knob, settings.tensor_split.is_empty(), &self.plan) {
            // the other GPUs keep their present proportions
            settings.tensor_split = plan.shares();
        }
        knob.set(&mut settings, value);
        self.change_settings(settings);
    }

    pub(crate) fn set_from_text(&mut self, text: &str) -> Result<(), String> {
        let mut settings = self.settings.clone();
        self.knobs.focus.read(text, &mut settings, &self.bounds)?;
        self.change_settings(settings);
        Ok(())
    }

    pub(crate) fn move_cursor(&mut self, command: Command) {
        let Some(plan) = &self.plan else { return };
        let (at, count) = match self.panels.focus {
            Panel::Knobs => return,
            Panel::Layers => (&mut self.panels.cursors.layer, plan.layers.len()),
            Panel::Memory => (&mut self.panels.cursors.device, plan.devices.len()),
            Panel::Graph => {
                let count = crate::tui::regions::graph::line_count(plan, &self.panels.cursors);
                (&mut self.panels.cursors.term, count)
            }
        };
        let last = count.saturating_sub(1);
        *at = match command {
            Command::Up | Command::Less => at.saturating_sub(1),
            Command::Down | Command::More => (*at + 1).min(last),
            Command::PageUp => at.saturating_sub(8),
            Command::PageDown => (*at + 8).min(last),
            Command::First => 0,
            Command::Last => last,
            _ => *at,
        };
        self.follow_peak();
    }

    /// The graph panel shows the peak of the device that its cursor was on last.
    pub(super) fn follow_peak(&mut self) {
        let devices = self.plan.as_ref().map_or(0, |plan| plan.graph.peaks.len());
        if self.panels.focus == Panel::Graph && self.panels.cursors.term < devices {
            self.panels.cursors.peak = Some(self.panels.cursors.term);
        }
    }
}

/// The next multiple of `step` above or below `value`.
pub(crate) const fn next_multiple(value: u64, step: u64, up: bool) -> u64 {
    if up { (value / step).saturating_add(1).saturating_mul(step) } else { value.saturating_sub(1) / step * step }
}
