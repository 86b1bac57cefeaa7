//! Mouse presses, drags and the wheel.

use ratatui::layout::Rect;

use super::history::Drag;
use super::machine::{MachinePrompt, MachineScreen, Pane};
use super::{App, Mode, Panel};
use crate::settings::knob::Knob;
use crate::tui::action::{Action, Command, Gesture};
use crate::tui::app::browse::{Filter, SortOrder};
use crate::tui::effect::Effect;
use crate::tui::regions::footer;
use crate::tui::regions::machine::MachineRegions;
use crate::tui::regions::models::{self, ModelsRegions};
use crate::tui::regions::{self, KnobRow};
use crate::tui::widget::slider;

impl App {
    pub(super) fn mouse(&mut self, gesture: Gesture, x: u16, y: u16) -> Vec<Effect> {
        if gesture == Gesture::Down && self.regions.footer.contains((x, y).into()) {
            let pressed = footer::command_at(&self.footer(), x, y);
            return pressed.map_or_else(Vec::new, |command| self.update(Action::Press(command)));
        }
        if let (Mode::Machine(screen), Gesture::Down) = (&self.mode, gesture) {
            let mut screen = screen.clone();
            self.point_at_machine(&mut screen, x, y);
            self.mode = Mode::Machine(screen);
            return Vec::new();
        }
        if matches!(self.mode, Mode::Teach(_)) {
            return self.mouse_on_teach(gesture, x, y);
        }
        if !matches!(self.mode, Mode::Plan) {
            return self.mouse_on_page(gesture, x, y);
        }
        match gesture {
            Gesture::Down if self.regions.header.contains((x, y).into()) => {
                let asked = self.header().command_at(x);
                return asked.map_or_else(Vec::new, |command| self.update(Action::Press(command)));
            }
            Gesture::Down => {
                self.notice = None;
                self.mouse_down(x, y);
            }
            Gesture::Drag => {
                if let Some(drag) = self.knobs.drag {
                    self.drag_to(drag.knob, x);
                }
            }
            Gesture::Up => self.end_drag(),
            Gesture::WheelUp | Gesture::WheelDown => self.wheel(gesture == Gesture::WheelUp, x, y),
        }
        Vec::new()
    }

    /// Selects the device or setting at the pointer.
    fn point_at_machine(&mut self, screen: &mut MachineScreen, x: u16, y: u16) {
        self.end_drag();
        if !matches!(screen.prompt, MachinePrompt::Nothing) {
            return;
        }
        self.notice = None;
        let rows = self.machine_rows().len();
        let places = MachineRegions::of(&self.regions, rows);
        let lines = self.machine_row(screen).lines(self.engine).len();
        if let Some(row) = places.row_at(screen.row, rows, x, y) {
            (screen.pane, screen.row, screen.line, screen.scroll) = (Pane::Devices, row, 0, 0);
        } else if let Some(line) = places.line_at(lines, x, y) {
            (screen.pane, screen.line) = (Pane::Details, line);
        }
    }

    fn mouse_on_page(&mut self, gesture: Gesture, x: u16, y: u16) -> Vec<Effect> {
        self.end_drag();
        match gesture {
            Gesture::Down => self.press_on_models(x, y),
            Gesture::WheelUp => self.update(Action::Press(Command::Up)),
            Gesture::WheelDown => self.update(Action::Press(Command::Down)),
            _ => Vec::new(),
        }
    }

    /// In the model browser a press selects a model, or opens the selected one; on a column title it sorts, on a filter
    /// it toggles that.
    fn press_on_models(&mut self, x: u16, y: u16) -> Vec<Effect> {
        let Mode::Browse(browse) = &mut self.mode else { return Vec::new() };
        let page = ModelsRegions::of(&self.regions);
        let holds = |place: Rect| place.contains((x, y).into());
        if let Some((column, _)) = page.columns(page.head.y).into_iter().find(|(_, place)| holds(*place)) {
            browse.sort_by(SortOrder::by(column));
            return Vec::new();
        }
        let filters = browse.filters();
        let places = models::filters(page.filters, filters.iter().map(Filter::cells));
        if let Some((filter, _)) = filters.iter().zip(places).find(|(_, place)| holds(*place)) {
            browse.turn(filter.command, &self.library);
            return Vec::new();
        }
        let page = page.below(browse.messages(&self.library, page.list).len());
        if !holds(page.list) {
            return Vec::new();
        }
        let at = page.first(browse.at, browse.lines.len()) + usize::from(y - page.list.y);
        if at == browse.at {
            return self.update(Action::Press(Command::Enter));
        }
        if at < browse.lines.len() {
            browse.point_at(at, &self.library);
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
                if let Some(layer) = regions::layers::columns(self.regions.layers, blocks).layer_at(x, y) {
                    self.panels.cursors.layer = layer.min(blocks);
                }
            }
            Panel::Memory => {
                let Some(plan) = &self.plan else { return };
                let rows = regions::memory::DeviceRows::new(
                    self.regions.memory,
                    plan.devices.len(),
                    self.panels.cursors.device,
                );
                if let Some(device) = rows.device_at(y) {
                    self.panels.cursors.device = device;
                }
            }
            Panel::Graph => {
                let Some(plan) = &self.plan else { return };
                if let Some(line) = regions::graph::line_at(self.regions.graph, plan, &self.panels.cursors, y) {
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
