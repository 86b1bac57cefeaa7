//! The planner's own keys and mouse: what they do while no screen is over it.

pub(super) mod knobs;

use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::Position;

use super::action::{Command, Gesture};
use super::app::{App, Drag};
use super::effect::Effect;
use super::keymap::{FooterWord, Scope};
use super::regions::{KnobRow, Panel};
use super::screen::Screen;
use super::screens::entry::ValueEntry;
use super::view::footer::{self, PlacedWord};
use super::view::memory::DeviceRows;
use super::view::{graph, header, layers, verdict};
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
    let mut words = app.preferences.keys.footer(scopes(app), |_| true);
    // a letter that begins a value of the focused knob is no command
    let is_typed =
        |word: &FooterWord| word.keys.chars().count() == 1 && word.keys.chars().any(|c| app.begins_a_value(c));
    words.retain(|word| !is_typed(word));
    footer::places(&words, app.panels.regions.footer)
}

/// Handles a key that opens no screen.
pub fn press(app: &mut App, command: Command) -> Vec<Effect> {
    match command {
        Command::NextPanel => app.panels.focus_panel(app.panels.focus.turn(1)),
        Command::PreviousPanel => app.panels.focus_panel(app.panels.focus.turn(Panel::ALL.len() - 1)),
        Command::Theme => app.theme = app.theme.next_tone(),
        Command::Undo => app.undo(),
        Command::Redo => app.redo(),
        Command::FirstWay | Command::SecondWay | Command::ThirdWay => help(app, command),
        Command::Freeze => return app.freeze(),
        Command::CopyValue => return copy_value(app),
        Command::Back => {
            let (effects, said) = app.library.loading.cancel();
            app.notice = said.or(app.notice.take());
            return effects;
        }
        _ if app.panels.focus == Panel::Knobs => knobs::turn(app, command),
        _ => move_cursor(app, command),
    }
    Vec::new()
}

/// Handles a typed letter or digit, which begins a value in a field.
pub fn typed(app: &App, key: KeyEvent) -> Option<Box<dyn Screen>> {
    let begins = matches!(key.code, KeyCode::Char(letter) if app.begins_a_value(letter));
    let entry = || Box::new(ValueEntry::begun(app, key)) as Box<dyn Screen>;
    (begins || app.panels.accepts_numbers()).then(entry)
}

/// Handles the mouse; returns the command that it stands for, if any.
pub fn mouse(app: &mut App, gesture: Gesture, at: Position) -> Option<Command> {
    match gesture {
        Gesture::Down if app.panels.regions.header.contains(at) => return header::of(app).command_at(at.x),
        Gesture::Down if app.panels.regions.verdict.contains(at) => return verdict::way_at(app, at),
        Gesture::Down => {
            app.notice = None;
            mouse_down(app, at);
        }
        Gesture::Drag => {
            if let Some(drag) = app.panels.knobs.drag {
                drag_to(app, drag.knob, at.x);
            }
        }
        Gesture::Up => app.end_drag(),
        Gesture::WheelUp | Gesture::WheelDown => wheel(app, gesture == Gesture::WheelUp, at),
    }
    None
}

/// Makes one of the changes that the verdict names.
fn help(app: &mut App, command: Command) {
    let way = verdict::WAYS.iter().position(|way| *way == command).unwrap_or_default();
    let known = app.request.known_limits().found().map(|limits| limits.remedies.get(way).cloned());
    let then = known.map(|way| way.and_then(|way| app.request.plan_request()?.after(&way.change)));
    match then {
        Some(Some(then)) => app.apply_request(then),
        Some(None) => app.notice = Some("There is no such change: the rows of the verdict have their keys.".to_owned()),
        None => app.notice = Some("What would help is still being computed.".to_owned()),
    }
}

/// Copies the value under the cursor as it is shown: with all its digits, so that it can be pasted back.
fn copy_value(app: &mut App) -> Vec<Effect> {
    let cursors = &app.panels.cursors;
    let bytes = |plan: &Plan| match app.panels.focus {
        Panel::Knobs => None,
        Panel::Layers => plan.layers.get(cursors.layer).map(|layer| layer.weights + layer.cache),
        Panel::Memory => plan.devices.get(cursors.device).map(DevicePlan::needed),
        Panel::Graph => graph::bytes_at(plan, cursors),
    };
    let knob = app.panels.knobs.focus;
    let value = match app.panels.focus {
        Panel::Knobs => Some(knob.typed(&app.request.settings, app.request.value(knob))),
        _ => app.request.plan.as_deref().and_then(bytes).map(|bytes| bytes.to_string()),
    };
    let Some(value) = value else {
        app.notice = Some("There is no value under the cursor.".to_owned());
        return Vec::new();
    };
    app.notice = Some(format!("Copied: {value}"));
    vec![Effect::Copy(value)]
}

pub(crate) fn move_cursor(app: &mut App, command: Command) {
    let Some(plan) = &app.request.plan else { return };
    let (at, count) = match app.panels.focus {
        Panel::Knobs => return,
        Panel::Layers => (&mut app.panels.cursors.layer, plan.layers.len()),
        Panel::Memory => (&mut app.panels.cursors.device, plan.devices.len()),
        Panel::Graph => {
            let count = graph::line_count(plan, &app.panels.cursors);
            (&mut app.panels.cursors.term, count)
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
    follow_peak(app);
}

/// The graph panel shows the peak of the device that its cursor was on last.
pub(super) fn follow_peak(app: &mut App) {
    let devices = app.request.plan.as_ref().map_or(0, |plan| plan.graph.peaks.len());
    if app.panels.focus == Panel::Graph && app.panels.cursors.term < devices {
        app.panels.cursors.peak = Some(app.panels.cursors.term);
    }
}

fn mouse_down(app: &mut App, at: Position) {
    let tab = app.panels.regions.tabs().into_iter().find(|(_, place)| place.contains(at));
    if let Some((panel, _)) = tab {
        app.panels.focus_panel(panel);
        return;
    }
    let Some(panel) = app.panels.regions.at(at.x, at.y, app.panels.lower) else { return };
    app.panels.focus_panel(panel);
    match panel {
        Panel::Knobs => start_drag(app, at),
        Panel::Layers => {
            let Some(plan) = &app.request.plan else { return };
            let blocks = plan.layers.len().saturating_sub(1);
            if let Some(layer) = layers::columns(app.panels.regions.layers, blocks).layer_at(at.x, at.y) {
                app.panels.cursors.layer = layer.min(blocks);
            }
        }
        Panel::Memory => {
            let Some(plan) = &app.request.plan else { return };
            let rows = DeviceRows::new(app.panels.regions.memory, plan.devices.len(), app.panels.cursors.device);
            if let Some(device) = rows.device_at(at.y) {
                app.panels.cursors.device = device;
            }
        }
        Panel::Graph => {
            let Some(plan) = &app.request.plan else { return };
            if let Some(line) = graph::line_at(app.panels.regions.graph, plan, &app.panels.cursors, at.y) {
                app.panels.cursors.term = line;
                follow_peak(app);
            }
        }
    }
}

fn start_drag(app: &mut App, at: Position) {
    let Some(knob) = app.panels.knob_at(at.y) else { return };
    app.panels.knobs.focus = knob;
    let Some(row) = app.panels.knob_row(knob) else { return };
    if let Some(words) = knob.words() {
        if let Some(at) = row.words(&words).iter().position(|place| place.contains(at)) {
            app.set_knob(knob, at as u64);
        }
    } else if row.track.contains(at) {
        app.panels.knobs.drag = Some(Drag { knob, moved: false });
        drag_to(app, knob, at.x);
    }
}

fn drag_to(app: &mut App, knob: Knob, x: u16) {
    let Some(KnobRow { track, .. }) = app.panels.knob_row(knob) else { return };
    let stops = knob.stops(&app.request.bounds);
    let value = stops.nearest(slider::fraction(track, x));
    // a press on the handle itself changes nothing
    if slider::column(track, stops.fraction(app.request.value(knob))) != x {
        app.set_knob(knob, value);
    }
}

fn wheel(app: &mut App, up: bool, at: Position) {
    match app.panels.regions.at(at.x, at.y, app.panels.lower) {
        Some(Panel::Knobs) => {
            let Some(knob) = app.panels.knob_at(at.y) else { return };
            let value = knob.stops(&app.request.bounds).step(app.request.value(knob), if up { 1 } else { -1 });
            app.panels.focus_panel(Panel::Knobs);
            app.panels.knobs.focus = knob;
            app.set_knob(knob, value);
        }
        Some(panel) => {
            app.panels.focus_panel(panel);
            move_cursor(app, if up { Command::Up } else { Command::Down });
        }
        None => {}
    }
}
