//! Mouse presses, drags and the wheel.

use ratatui::layout::Position;

use super::history::Drag;
use super::{App, Panel};
use crate::settings::knob::Knob;
use crate::tui::action::{Action, Command, Gesture};
use crate::tui::effect::Effect;
use crate::tui::regions::KnobRow;
use crate::tui::view::memory::DeviceRows;
use crate::tui::view::{footer, graph, layers};
use crate::tui::widget::slider;

impl App {
    pub(super) fn mouse(&mut self, gesture: Gesture, at: Position) -> Vec<Effect> {
        if gesture == Gesture::Down && self.regions.footer.contains(at) {
            let pressed = footer::command_at(&self.footer(), at.x, at.y);
            return pressed.map_or_else(Vec::new, |command| self.update(Action::Press(command)));
        }
        if let Some(screen) = self.screen.take() {
            return self.mouse_on_screen(screen, gesture, at);
        }
        match gesture {
            Gesture::Down if self.regions.header.contains(at) => {
                let asked = self.header().command_at(at.x);
                return asked.map_or_else(Vec::new, |command| self.update(Action::Press(command)));
            }
            Gesture::Down => {
                self.notice = None;
                self.mouse_down(at.x, at.y);
            }
            Gesture::Drag => {
                if let Some(drag) = self.knobs.drag {
                    self.drag_to(drag.knob, at.x);
                }
            }
            Gesture::Up => self.end_drag(),
            Gesture::WheelUp | Gesture::WheelDown => self.wheel(gesture == Gesture::WheelUp, at.x, at.y),
        }
        Vec::new()
    }

    fn mouse_down(&mut self, x: u16, y: u16) {
        let tab = self.regions.tabs().into_iter().find(|(_, place)| place.contains((x, y).into()));
        if let Some((panel, _)) = tab {
            self.focus_panel(panel);
            return;
        }
        let Some(panel) = self.regions.at(x, y, self.panels.lower) else { return };
        self.focus_panel(panel);
        match panel {
            Panel::Knobs => self.start_drag(x, y),
            Panel::Layers => {
                let Some(plan) = &self.plan else { return };
                let blocks = plan.layers.len().saturating_sub(1);
                if let Some(layer) = layers::columns(self.regions.layers, blocks).layer_at(x, y) {
                    self.panels.cursors.layer = layer.min(blocks);
                }
            }
            Panel::Memory => {
                let Some(plan) = &self.plan else { return };
                let rows = DeviceRows::new(self.regions.memory, plan.devices.len(), self.panels.cursors.device);
                if let Some(device) = rows.device_at(y) {
                    self.panels.cursors.device = device;
                }
            }
            Panel::Graph => {
                let Some(plan) = &self.plan else { return };
                if let Some(line) = graph::line_at(self.regions.graph, plan, &self.panels.cursors, y) {
                    self.panels.cursors.term = line;
                    self.follow_peak();
                }
            }
        }
    }

    fn start_drag(&mut self, x: u16, y: u16) {
        let Some(knob) = self.knob_at(y) else { return };
        self.knobs.focus = knob;
        let Some(row) = self.knob_row(knob) else { return };
        if let Some(words) = knob.words() {
            if let Some(at) = row.words(&words).iter().position(|place| place.contains((x, y).into())) {
                self.set_knob(knob, at as u64);
            }
        } else if row.track.contains((x, y).into()) {
            self.knobs.drag = Some(Drag { knob, moved: false });
            self.drag_to(knob, x);
        }
    }

    fn drag_to(&mut self, knob: Knob, x: u16) {
        let Some(KnobRow { track, .. }) = self.knob_row(knob) else { return };
        let stops = knob.stops(&self.bounds);
        let value = stops.nearest(slider::fraction(track, x));
        // a press on the handle itself changes nothing
        if slider::column(track, stops.fraction(self.value(knob))) != x {
            self.set_knob(knob, value);
        }
    }

    fn wheel(&mut self, up: bool, x: u16, y: u16) {
        match self.regions.at(x, y, self.panels.lower) {
            Some(Panel::Knobs) => {
                let Some(knob) = self.knob_at(y) else { return };
                let value = knob.stops(&self.bounds).step(self.value(knob), if up { 1 } else { -1 });
                self.focus_panel(Panel::Knobs);
                self.knobs.focus = knob;
                self.set_knob(knob, value);
            }
            Some(panel) => {
                self.focus_panel(panel);
                self.move_cursor(if up { Command::Up } else { Command::Down });
            }
            None => {}
        }
    }

    fn knob_at(&self, y: u16) -> Option<Knob> {
        self.knobs.offered.iter().copied().find(|&knob| self.knob_row(knob).is_some_and(|place| place.row.y == y))
    }
}
