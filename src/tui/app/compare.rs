//! Plans that are kept, side by side with the present one.

use super::update::scrolled;
use super::{App, Mode};
use crate::engine::PlanRequest;
use crate::plan::Plan;
use crate::tui::action::Command;

/// As many plans as stand side by side.
pub const MOST: usize = 4;

/// A plan that is kept.
#[derive(Clone, Debug)]
pub struct Pin {
    /// `A` to `D`; it stays while others go.
    pub letter: char,
    /// What it rests on.
    pub situation: PlanRequest,
    /// The plan.
    pub plan: Box<Plan>,
}

/// The state of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparing {
    /// The plan that is chosen, by its column.
    pub chosen: usize,
    /// Lines that are scrolled away above.
    pub scroll: u16,
}

/// A column of the page.
#[derive(Clone, Copy, Debug)]
pub enum Compared<'a> {
    /// A plan that is kept, and whether it is the present one too.
    Pinned(&'a Pin, bool),
    /// The present plan, which is not kept.
    Now(&'a Plan),
}

impl App {
    /// The plans that are compared: those that are kept, and the present one where it is none of them and has room.
    pub fn compared(&self) -> Vec<Compared<'_>> {
        let now = self.situation();
        let is_now = |pin: &Pin| now.as_ref() == Some(&pin.situation);
        let mut columns: Vec<_> = self.pins.iter().map(|pin| Compared::Pinned(pin, is_now(pin))).collect();
        let kept = columns.iter().any(|column| matches!(column, Compared::Pinned(_, true)));
        if columns.len() < MOST && !kept && self.refused.is_none() {
            columns.extend(self.plan.as_deref().map(Compared::Now));
        }
        columns
    }

    /// Keeps the present plan; where that leaves something to compare it with, shows them side by side.
    pub(super) fn pin(&mut self) {
        let Some(situation) = self.situation() else {
            self.notice = Some("There is no plan to pin yet: open a model with o.".to_owned());
            return;
        };
        // the plan on the screen may be older than the last key
        let Ok(plan) = situation.plan().map(Box::new) else {
            self.notice = Some("The engine refuses these settings: there is no plan to pin.".to_owned());
            return;
        };
        let mut chosen = self.pins.iter().position(|pin| pin.situation == situation);
        if chosen.is_none() {
            let free = ('A'..='D').find(|letter| self.pins.iter().all(|pin| pin.letter != *letter));
            if let Some(letter) = free {
                chosen = Some(self.pins.len());
                self.pins.push(Pin { letter, situation, plan });
                if self.pins.len() == 1 {
                    self.notice = Some(format!("Pinned as {letter}. Change something, then press c to compare."));
                    return;
                }
            } else {
                self.notice = Some("Four plans are pinned: unpin one with x first.".to_owned());
            }
        }
        self.mode = Mode::Compare(Comparing { chosen: chosen.unwrap_or(0), scroll: 0 });
    }

    pub(super) fn press_on_comparison(&mut self, page: Comparing, command: Command) {
        let Comparing { chosen, scroll } = page;
        let last = self.compared().len().saturating_sub(1);
        let to = |chosen: usize| Mode::Compare(Comparing { chosen, scroll });
        match command {
            Command::Back => {}
            Command::Help => self.mode = Mode::Help(0),
            Command::Less => self.mode = to(chosen.saturating_sub(1)),
            Command::More => self.mode = to((chosen + 1).min(last)),
            Command::Enter => {
                if let Some(situation) = self.pins.get(chosen).map(|pin| pin.situation.clone()) {
                    self.take(situation);
                }
            }
            Command::LetGo => {
                if chosen < self.pins.len() {
                    self.pins.remove(chosen);
                } else {
                    self.notice = Some("The current plan is not pinned.".to_owned());
                }
                if !self.pins.is_empty() {
                    self.mode = to(chosen.min(self.compared().len().saturating_sub(1)));
                }
            }
            _ => self.mode = Mode::Compare(Comparing { chosen, scroll: scrolled(scroll, command) }),
        }
    }
}
