//! The planner's own keys and mouse: what they do while no screen is over it.

use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::Position;

use super::action::{Command, Gesture};
use super::app::{App, Drag};
use super::effect::Effect;
use super::keymap::Scope;
use super::regions::{KnobRow, Panel};
use super::screen::Screen;
use super::screens::entry::ValueEntry;
use super::view::footer::{self, PlacedWord};
use super::view::memory::DeviceRows;
use super::view::{graph, layers};
use super::widget::field::Text;
use super::widget::slider;
use crate::plan::{DevicePlan, Plan};
use crate::settings::knob::Knob;

/// The active scopes, in order of precedence.
pub fn scopes(app: &App) -> &'static [Scope] {
    match app.panels.focus {
        Panel::Knobs => &[Scope::Knobs, Scope::Plan, Scope::Everywhere],
        _ => &[Scope::Lists, Scope::Plan, Scope::Everywhere],
    }
}

/// The footer's entries.
pub fn footer(app: &App) -> Vec<PlacedWord> {
    footer::places(&app.preferences.keys.footer(scopes(app), |_| true), app.regions.footer)
}

/// Handles a key that opens no screen.
pub fn press(app: &mut App, command: Command) -> Vec<Effect> {
    match command {
        Command::NextPanel => app.focus_panel(app.panels.focus.turn(1)),
        Command::PreviousPanel => app.focus_panel(app.panels.focus.turn(Panel::ALL.len() - 1)),
        Command::Theme => app.theme = app.theme.next_tone(),
        Command::Undo => app.undo(),
        Command::Redo => app.redo(),
        Command::Freeze => return app.freeze(),
        Command::CopyValue => return app.copy_value(),
        Command::Back => return app.cancel_load(),
        _ if app.panels.focus == Panel::Knobs => app.turn_knob(command),
        _ => app.move_cursor(command),
    }
    Vec::new()
}

/// Handles a typed letter, which chooses a word, or a digit, which begins a value in a field.
pub fn typed(app: &mut App, key: KeyEvent) -> Option<Box<dyn Screen>> {
    let word = if let KeyCode::Char(letter) = key.code { app.word_by_letter(letter) } else { None };
    if let Some(word) = word {
        app.set_knob(app.knobs.focus, word);
        return None;
    }
    let mut entry = ValueEntry::default();
    entry.0.edit(Text::Typed(key));
    app.accepts_numbers().then(|| Box::new(entry) as Box<dyn Screen>)
}

/// Handles the mouse; returns the command that it stands for, if any.
pub fn mouse(app: &mut App, gesture: Gesture, at: Position) -> Option<Command> {
    match gesture {
        Gesture::Down if app.regions.header.contains(at) => return app.header().command_at(at.x),
        Gesture::Down => {
            app.notice = None;
            app.mouse_down(at);
        }
        Gesture::Drag => {
            if let Some(drag) = app.knobs.drag {
                app.drag_to(drag.knob, at.x);
            }
        }
        Gesture::Up => app.end_drag(),
        Gesture::WheelUp | Gesture::WheelDown => app.wheel(gesture == Gesture::WheelUp, at),
    }
    None
}

impl App {
    /// Copies the value under the cursor as it is shown: with all its digits, so that it can be pasted back.
    fn copy_value(&mut self) -> Vec<Effect> {
        let cursors = &self.panels.cursors;
        let bytes = |plan: &Plan| match self.panels.focus {
            Panel::Knobs => None,
            Panel::Layers => plan.layers.get(cursors.layer).map(|layer| layer.weights + layer.cache),
            Panel::Memory => plan.devices.get(cursors.device).map(DevicePlan::needed),
            Panel::Graph => graph::bytes_at(plan, cursors),
        };
        let knob = self.knobs.focus;
        let value = match self.panels.focus {
            Panel::Knobs => Some(knob.typed(&self.settings, self.value(knob))),
            _ => self.plan.as_deref().and_then(bytes).map(|bytes| bytes.to_string()),
        };
        let Some(value) = value else {
            self.notice = Some("There is no value under the cursor.".to_owned());
            return Vec::new();
        };
        self.notice = Some(format!("Copied: {value}"));
        vec![Effect::Copy(value)]
    }

    pub(crate) fn move_cursor(&mut self, command: Command) {
        let Some(plan) = &self.plan else { return };
        let (at, count) = match self.panels.focus {
            Panel::Knobs => return,
            Panel::Layers => (&mut self.panels.cursors.layer, plan.layers.len()),
            Panel::Memory => (&mut self.panels.cursors.device, plan.devices.len()),
            Panel::Graph => {
                let count = graph::line_count(plan, &self.panels.cursors);
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

    fn mouse_down(&mut self, at: Position) {
        let tab = self.regions.tabs().into_iter().find(|(_, place)| place.contains(at));
        if let Some((panel, _)) = tab {
            self.focus_panel(panel);
            return;
        }
        let Some(panel) = self.regions.at(at.x, at.y, self.panels.lower) else { return };
        self.focus_panel(panel);
        match panel {
            Panel::Knobs => self.start_drag(at),
            Panel::Layers => {
                let Some(plan) = &self.plan else { return };
                let blocks = plan.layers.len().saturating_sub(1);
                if let Some(layer) = layers::columns(self.regions.layers, blocks).layer_at(at.x, at.y) {
                    self.panels.cursors.layer = layer.min(blocks);
                }
            }
            Panel::Memory => {
                let Some(plan) = &self.plan else { return };
                let rows = DeviceRows::new(self.regions.memory, plan.devices.len(), self.panels.cursors.device);
                if let Some(device) = rows.device_at(at.y) {
                    self.panels.cursors.device = device;
                }
            }
            Panel::Graph => {
                let Some(plan) = &self.plan else { return };
                if let Some(line) = graph::line_at(self.regions.graph, plan, &self.panels.cursors, at.y) {
                    self.panels.cursors.term = line;
                    self.follow_peak();
                }
            }
        }
    }

    fn start_drag(&mut self, at: Position) {
        let Some(knob) = self.knob_at(at.y) else { return };
        self.knobs.focus = knob;
        let Some(row) = self.knob_row(knob) else { return };
        if let Some(words) = knob.words() {
            if let Some(at) = row.words(&words).iter().position(|place| place.contains(at)) {
                self.set_knob(knob, at as u64);
            }
        } else if row.track.contains(at) {
            self.knobs.drag = Some(Drag { knob, moved: false });
            self.drag_to(knob, at.x);
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

    fn wheel(&mut self, up: bool, at: Position) {
        match self.regions.at(at.x, at.y, self.panels.lower) {
            Some(Panel::Knobs) => {
                let Some(knob) = self.knob_at(at.y) else { return };
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
