//! The knobs panel.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

use super::figure;
use crate::answer::KnobLimits;
use crate::answer::thresholds::Threshold;
use crate::settings::knob::{Knob, Stops};
use crate::tui::app::thresholds::edge;
use crate::tui::app::{App, KnownLimits};
use crate::tui::regions::{KnobRow, Panel};
use crate::tui::theme::Hue;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, width};
use crate::tui::widget::slider::{Slider, SliderLimit, Tick};

/// Draws the panel.
pub fn draw(app: &App, buffer: &mut Buffer) {
    let focused = app.panels.focus == Panel::Knobs;
    let (area, title, right_titles) = (app.panels.regions.knobs, Panel::Knobs.title(), right_titles(app));
    let right_title = panel::fitting(area, title, right_titles.iter().map(String::as_str));
    panel::frame(buffer, area, title, right_title, focused, app.theme);
    for &knob in &app.panels.knobs.offered {
        if let Some(places) = app.panels.knob_row(knob) {
            draw_knob(app, knob, places, focused && knob == app.panels.knobs.focus, buffer);
        }
    }
}

/// Candidates for the right title, longest first: the visible range of knobs, and the meaning of the limit mark.
fn right_titles(app: &App) -> Vec<String> {
    let (seen, count) = (app.panels.regions.knobs_at_once(), app.panels.knobs.offered.len());
    let known = app.request.known_along(app.panels.knobs.focus);
    let marks = known != KnownLimits::Nothing && !app.request.machine.gpus.is_empty();
    let pending = if known == KnownLimits::Pending { " …" } else { "" };
    let range = format!("{}-{} of {count} ↑↓", app.panels.knobs.first + 1, app.panels.knobs.first + seen);
    let mut in_vram = vec![format!("┊ max in VRAM{pending}")];
    let focus = app.panels.knobs.focus;
    match (app.request.limit(focus), app.request.assigned_limit(focus)) {
        (Some(_), _) if focus == Knob::CpuMoe => in_vram = vec!["┊ min for all layers".to_owned(), "┊ min".to_owned()],
        (None, Some(_)) => in_vram = vec!["none all in VRAM ╎ all layers".to_owned(), "╎ all layers".to_owned()],
        (Some(vram), Some(assigned)) if vram != assigned => {
            in_vram.insert(0, "┊ all in VRAM ╎ all layers".to_owned());
        }
        (None, None) if pending.is_empty() && KnobLimits::ASKED.contains(&focus) => {
            in_vram = vec!["no value all in VRAM".to_owned(), "none in VRAM".to_owned()];
        }
        _ => {}
    }
    let source = app.request.source_of(app.panels.knobs.focus);
    in_vram.splice(0..0, source.iter().map(|source| format!("{source} ─ ┊ max in VRAM{pending}")).collect::<Vec<_>>());
    match (seen < count, marks) {
        (false, false) if source.is_some() => source.into_iter().collect(),
        (true, true) => vec![format!("{range} ─ ┊ max in VRAM{pending}"), format!("{range} ─ ┊ max{pending}"), range],
        (true, false) => vec![range],
        (false, true) => in_vram,
        (false, false) => Vec::new(),
    }
}

fn draw_knob(app: &App, knob: Knob, places: KnobRow, focused: bool, buffer: &mut Buffer) {
    let theme = app.theme;
    if focused {
        buffer.set_style(places.row.intersection(buffer.area), theme.selected());
    }
    let ink = if focused { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
    let held = if app.panels.knobs.is_held(knob) { "◆" } else { " " };
    let mut writer = RowWriter::new(buffer, places.title, 0);
    writer.put(held, theme.bold(Hue::Cache)).put(if focused { "▸ " } else { "  " }, ink).put(knob.title(), ink);
    if let Some(words) = knob.words() {
        draw_words(app, knob, focused, &words, places, buffer);
        return;
    }
    draw_slider(app, knob, focused, places, buffer);
    draw_value(app, knob, places.value, buffer);
}

fn draw_slider(app: &App, knob: Knob, focused: bool, places: KnobRow, buffer: &mut Buffer) {
    let stops = knob.stops(&app.request.bounds);
    let limit = match knob {
        // with auto the engine already offloads as many layers as fit
        Knob::GpuLayers => None,
        Knob::CpuMoe => app.request.limit(knob).filter(|&least| least > stops.first()),
        _ => app.request.limit(knob).filter(|&most| most < stops.last()),
    };
    let side = if knob == Knob::CpuMoe { SliderLimit::Min } else { SliderLimit::Max };
    let assigned = match knob {
        Knob::GpuLayers | Knob::CpuMoe => None,
        _ => app.request.assigned_limit(knob).filter(|&most| most < stops.last() && Some(most) != limit),
    };
    // if nothing is all in VRAM, all of the track is beyond the first mark
    let limit = limit.or(assigned.map(|_| stops.first()).filter(|_| app.request.limit(knob).is_none()));
    let slider = Slider {
        at: stops.fraction(app.request.value(knob)),
        limit: limit.map(|value| side(stops.fraction(value))),
        assigned: assigned.map(|value| stops.fraction(value)),
        ticks: ticks(app, knob, &stops),
        hollow: knob.chosen(&app.request.settings, &app.request.bounds).is_none(),
        focused,
    };
    slider.draw(buffer, places.track, app.theme);
}

/// The thresholds along `knob`.
fn ticks(app: &App, knob: Knob, stops: &Stops) -> Vec<(f64, Tick)> {
    let tick = |threshold: &Threshold| {
        let kind = if threshold.jumps.is_empty() { Tick::Layer } else { Tick::Jump };
        (stops.fraction(edge(threshold)), kind)
    };
    app.request.thresholds_along(knob).iter().map(tick).collect()
}

/// Draws the value right-aligned, after `auto` if the engine chooses it, and the value in effect if that differs.
fn draw_value(app: &App, knob: Knob, place: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let value = app.request.value(knob);
    let chosen = knob.chosen(&app.request.settings, &app.request.bounds);
    let effect = app.request.in_effect(knob).filter(|_| !matches!(knob, Knob::GpuLayers | Knob::TensorSplit));
    let changed = app.request.before().map(|before| knob.in_effect(before));
    let style = match (chosen, effect) {
        (Some(chosen), Some(effect)) if chosen != effect => theme.ink(Hue::Over),
        (None, _) => theme.ink(Hue::Dim),
        _ => figure::style(&value, changed.as_ref(), theme, Hue::Text),
    };
    let text = knob.show(value);
    let differs = effect.filter(|effect| chosen.is_some_and(|chosen| chosen != *effect));
    let mut writer = RowWriter::new(buffer, place, 0);
    if let Some(effect) = differs {
        let in_effect = format!("→{}", knob.show(effect));
        let (both, over) = (width(&text) + width(&in_effect) + 3, theme.ink(Hue::Over));
        if both <= place.width {
            writer.right(" ", style).right(&text, style).skip(1).put(&in_effect, over);
        } else {
            // the number that counts
            writer.right(" ", style).right(&in_effect, over);
        }
        return;
    }
    writer.right(" ", style).right(&text, style);
    if chosen.is_none() && width("auto") + 1 < writer.room() {
        writer.skip(1).put("auto", theme.ink(Hue::Dim));
    }
}

fn draw_words(app: &App, knob: Knob, focused: bool, words: &[&str], places: KnobRow, buffer: &mut Buffer) {
    let theme = app.theme;
    let value = app.request.value(knob) as usize;
    let chosen = knob.chosen(&app.request.settings, &app.request.bounds).is_some();
    let effect = app.request.in_effect(knob).map(|at| at as usize);
    let cells = places.words(words);
    for (at, (word, place)) in words.iter().zip(&cells).enumerate() {
        let style = match at == value {
            true if focused => theme.bold(Hue::Focus),
            true => theme.ink(Hue::Text).add_modifier(Modifier::BOLD),
            false => theme.ink(Hue::Dim),
        };
        let mut writer = RowWriter::new(buffer, *place, 0);
        if at == value {
            writer.put("▸", style).put(word, style).put("◂", style);
        } else {
            writer.skip(1).put(word, style);
        }
    }
    let used = cells.last().map_or(places.track.x, |last| last.right());
    let rest = Rect { x: used, width: places.row.right().saturating_sub(used), ..places.row };
    let mut writer = RowWriter::new(buffer, rest, 0);
    match effect {
        Some(effect) if chosen && effect != value => {
            let text = words.get(effect).map(|word| format!("→{word} ")).unwrap_or_default();
            writer.right(&text, theme.bold(Hue::Over));
        }
        _ if !chosen => {
            writer.right("auto ", theme.ink(Hue::Dim));
        }
        _ => {}
    }
}
