//! Pinned plans, side by side with the present one.

use super::update::scrolled;
use super::{App, Mode};
use crate::engine::PlanRequest;
use crate::plan::Plan;
use crate::speed::Speeds;
use crate::tui::action::Command;

/// Maximum number of plans side by side.
pub const MAX_PLANS: usize = 4;

/// A pinned plan.
#[derive(Clone, Debug)]
pub struct Pin {
    /// `A` to `D`; it does not change when others are unpinned.
    pub letter: char,
    /// The request that it was planned for.
    pub plan_request: PlanRequest,
    /// The plan.
    pub plan: Box<Plan>,
    /// Its speeds.
    pub speeds: Option<Speeds>,
}

/// The state of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparePage {
    /// The selected column.
    pub chosen: usize,
    /// Scrolled lines.
    pub scroll: u16,
}

/// A column of the page.
#[derive(Clone, Copy, Debug)]
pub enum ComparedPlan<'a> {
    /// A pinned plan, and whether it is also the present one.
    Pinned(&'a Pin, bool),
    /// The present plan, if it is not pinned.
    Now(&'a Plan),
}

impl App {
    /// The compared plans: those pinned, and the present one if it is not among them and has room.
    pub fn compared(&self) -> Vec<ComparedPlan<'_>> {
        let now = self.plan_request();
        let is_now = |pin: &Pin| now.as_ref() == Some(&pin.plan_request);
        let mut columns: Vec<_> = self.pins.iter().map(|pin| ComparedPlan::Pinned(pin, is_now(pin))).collect();
        let kept = columns.iter().any(|column| matches!(column, ComparedPlan::Pinned(_, true)));
        if columns.len() < MAX_PLANS && !kept && self.refused.is_none() {
            columns.extend(self.plan.as_deref().map(ComparedPlan::Now));
        }
        columns
    }

    /// Pins the present plan; opens the comparison if there is anything to compare it with.
    pub(super) fn pin(&mut self) {
        let Some(plan_request) = self.plan_request() else {
            self.notice = Some("There is no plan to pin yet: open a model with o.".to_owned());
            return;
        };
        // the plan on the screen may be older than the last key
        let Ok(plan) = plan_request.plan().map(Box::new) else {
            self.notice = Some("The engine refuses these settings: there is no plan to pin.".to_owned());
            return;
        };
        let mut chosen = self.pins.iter().position(|pin| pin.plan_request == plan_request);
        if chosen.is_none() {
            let free = ('A'..='D').find(|letter| self.pins.iter().all(|pin| pin.letter != *letter));
            if let Some(letter) = free {
                chosen = Some(self.pins.len());
                let speeds = Speeds::of(&plan_request.model, &plan_request.machine, &plan, 0);
                self.pins.push(Pin { letter, plan_request, plan, speeds });
                if self.pins.len() == 1 {
                    self.notice = Some(format!("Pinned as {letter}. Change something, then press c to compare."));
                    return;
                }
            } else {
                self.notice = Some("Four plans are pinned: unpin one with x first.".to_owned());
            }
        }
        self.mode = Mode::Compare(ComparePage { chosen: chosen.unwrap_or(0), scroll: 0 });
    }

    pub(super) fn press_on_comparison(&mut self, page: ComparePage, command: Command) {
        let ComparePage { chosen, scroll } = page;
        let last = self.compared().len().saturating_sub(1);
        let to = |chosen: usize| Mode::Compare(ComparePage { chosen, scroll });
        match command {
            Command::Back => {}
            Command::Help => self.mode = Mode::Help(0),
            Command::Less => self.mode = to(chosen.saturating_sub(1)),
            Command::More => self.mode = to((chosen + 1).min(last)),
            Command::Enter => {
                if let Some(plan_request) = self.pins.get(chosen).map(|pin| pin.plan_request.clone()) {
                    self.apply_request(plan_request);
                }
            }
            Command::Unpin => {
                if chosen < self.pins.len() {
                    self.pins.remove(chosen);
                } else {
                    self.notice = Some("The current plan is not pinned.".to_owned());
                }
                if !self.pins.is_empty() {
                    self.mode = to(chosen.min(self.compared().len().saturating_sub(1)));
                }
            }
            _ => self.mode = Mode::Compare(ComparePage { chosen, scroll: scrolled(scroll, command) }),
        }
    }
}
