//! Overlays that explain where a number comes from.

use super::update::scrolled;
use super::{App, Mode, Panel};
use crate::settings::knob::Knob;
use crate::tui::action::Command;

/// What is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainTarget {
    /// A knob: its range, the user's choice, the value in effect.
    Knob(Knob),
    /// A layer, by its index in the plan: its tensors, its cache, its device and why.
    Layer(usize),
    /// A device, by its index in the plan: its memory.
    Device(usize),
    /// A line of the graph panel.
    Graph(usize),
}

impl App {
    /// Opens the page on the focused item.
    pub(super) fn explain(&mut self) {
        let subject = match self.panels.focus {
            Panel::Knobs => ExplainTarget::Knob(self.knobs.focus),
            Panel::Layers => ExplainTarget::Layer(self.panels.cursors.layer),
            Panel::Memory => ExplainTarget::Device(self.panels.cursors.device),
            Panel::Graph => ExplainTarget::Graph(self.panels.cursors.term),
        };
        if self.plan.is_some() {
            self.mode = Mode::Explain(subject, 0);
        } else {
            self.notice = Some("There is no plan yet: choose a model with b.".to_owned());
        }
    }

    pub(super) fn press_on_explanation(&mut self, subject: ExplainTarget, scroll: u16, command: Command) {
        match command {
            Command::Back | Command::Enter => {}
            Command::Help => self.mode = Mode::Help(0),
            Command::Less | Command::More => {
                // show its neighbour without closing the page
                match subject {
                    ExplainTarget::Knob(_) => {
                        self.turn_knob(if command == Command::Less { Command::Up } else { Command::Down });
                    }
                    _ => self.move_cursor(command),
                }
                self.explain();
            }
            _ => self.mode = Mode::Explain(subject, scrolled(scroll, command)),
        }
    }
}
