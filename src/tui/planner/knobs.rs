//! What keys do to the knob in focus.

use crate::answer::{Goal, KnobLimits};
use crate::settings::knob::Knob;
use crate::tui::action::Command;
use crate::tui::app::thresholds::{Thresholds, edge, next};
use crate::tui::app::{App, Replan};

/// Stops per Page Up and Page Down.
const PAGE: isize = 4;

/// Does to it what `command` says.
pub(crate) fn turn(app: &mut App, command: Command) {
    let (knob, value) = (app.panels.knobs.focus, app.request.value(app.panels.knobs.focus));
    let stops = knob.stops(&app.request.bounds);
    match command {
        Command::Up => app.panels.focus_knob(app.panels.knobs.neighbour(knob, -1)),
        Command::Down => app.panels.focus_knob(app.panels.knobs.neighbour(knob, 1)),
        Command::Less => app.set_knob(knob, stops.step(value, -1)),
        Command::More => app.set_knob(knob, stops.step(value, 1)),
        Command::PageDown => app.set_knob(knob, stops.step(value, -PAGE)),
        Command::PageUp => app.set_knob(knob, stops.step(value, PAGE)),
        Command::FineLess => app.set_knob(knob, next_multiple(value, knob.fine(), false).max(knob.least())),
        Command::FineMore => {
            app.set_knob(knob, next_multiple(value, knob.fine(), true).min(stops.last().max(value)));
        }
        Command::First => app.set_knob(knob, stops.first()),
        Command::Last => app.set_knob(knob, stops.last()),
        Command::Enter => app.set_knob(knob, (value + 1) % (stops.last() + 1)),
        Command::MaxInVram => request_max(app, Goal::Vram),
        Command::MaxAllLayers => request_max(app, Goal::AllLayers),
        Command::NextCliff => step_to_threshold(app, true),
        Command::PreviousCliff => step_to_threshold(app, false),
        Command::Lock => lock(app),
        Command::SplitCache => app.split_cache(),
        Command::Reset => {
            let mut settings = app.request.settings.clone();
            knob.reset(&mut settings);
            app.change_settings(settings);
        }
        _ => {}
    }
}

/// The knob that a limit is asked of: the focused one, or the context where that one has no largest value.
fn limited(app: &App) -> Knob {
    let focused = app.panels.knobs.focus;
    if KnobLimits::ASKED.contains(&focused) || focused == Knob::GpuLayers { focused } else { Knob::Context }
}

/// Sets the focused knob to its limit, or the context to its own where that knob has none; if settings or memory have
/// changed since that was found, once a new one is known.
fn request_max(app: &mut App, goal: Goal) {
    let knob = limited(app);
    let known = app.request.limits_along(knob).is_some() || !KnobLimits::ASKED.contains(&knob);
    if app.request.limits.is_empty() || known && app.request.limits_are_current() {
        return set_to_limit(app, goal);
    }
    app.request.limits.pending_limit = Some((knob, goal));
    if !app.request.limits_are_current() {
        app.request.replan = Replan::User;
    }
}

/// Sets the limits; a knob that waited for its limit is set to it.
pub(crate) fn set_limits(app: &mut App, limits: KnobLimits) {
    app.request.limits.learn(limits);
    if let Some((knob, goal)) = app.request.limits.pending_limit.take()
        && knob == limited(app)
    {
        set_to_limit(app, goal);
    }
}

fn set_to_limit(app: &mut App, goal: Goal) {
    let knob = limited(app);
    let (limit, kept) = match goal {
        Goal::AllLayers => (app.request.assigned_limit(knob), "all layers on GPU and enough kept free"),
        _ => (app.request.limit(knob), "all in VRAM and enough kept free"),
    };
    // without a GPU the largest that RAM holds
    let limits = app.request.known_along(Knob::Context).found();
    let in_ram = limits.and_then(|limits| limits.context_in_all);
    match limit.or(in_ram.filter(|_| knob == Knob::Context && app.request.machine.gpus.is_empty())) {
        Some(most) => {
            app.set_knob(knob, most);
            if knob != app.panels.knobs.focus {
                app.notice = Some(format!("The {} is {} now, the largest.", knob.title(), knob.show(most)));
            }
        }
        None if knob == Knob::GpuLayers => {
            let mut settings = app.request.settings.clone();
            knob.reset(&mut settings);
            app.change_settings(settings);
            app.notice = Some("Set to auto: the engine puts as many layers on GPU as fit.".to_owned());
        }
        None if app.request.machine.gpus.is_empty() => {
            app.notice = Some("There is no GPU to keep layers on.".to_owned());
        }
        None if app.request.limits.is_empty() => {
            app.notice = Some("Still computing what fits; press it again in a moment.".to_owned());
        }
        None if knob == Knob::CpuMoe => {
            let text = "Not even with the experts of all layers in RAM is enough kept free of GPUs.";
            app.notice = Some(text.to_owned());
        }
        None if knob == Knob::Quant => {
            let least = knob.show(knob.stops(&app.request.bounds).first());
            app.notice = Some(format!("Not even {least} weights keep {kept}."));
        }
        None => {
            let least = knob.show(knob.stops(&app.request.bounds).first());
            let what = knob.title();
            let more = if goal == Goal::Vram && app.request.assigned_limit(knob).is_some() {
                " M goes to the last with all layers on GPU, experts in RAM."
            } else {
                ""
            };
            app.notice = Some(format!("Not even a {what} of {least} keeps {kept}.{more}"));
        }
    }
}

/// Locks the focused knob, or unlocks it.
fn lock(app: &mut App) {
    let knob = app.panels.knobs.focus;
    if let Some(at) = app.panels.knobs.held.iter().position(|&held| held == knob) {
        app.panels.knobs.held.remove(at);
        app.notice = Some(format!("{} unlocked: suggestions may change it.", knob.title()));
    } else {
        app.panels.knobs.held.push(knob);
        app.notice = Some(format!("{} locked: s suggests the best settings that keep it.", knob.title()));
    }
}

/// Sets the knob to the next threshold, and shows what changes there.
fn step_to_threshold(app: &mut App, up: bool) {
    let (knob, value) = (app.panels.knobs.focus, app.request.value(app.panels.knobs.focus));
    if !Thresholds::ASKED.contains(&knob) {
        app.notice = Some(format!("{} has no thresholds: change it with ← and →.", knob.title()));
        return;
    }
    if app.request.machine.gpus.is_empty() {
        app.notice = Some("There are no thresholds without a GPU.".to_owned());
        return;
    }
    let Some(plan_request) = app.request.limits_request() else { return };
    let Some(thresholds) = app.request.thresholds.of(knob, &plan_request) else {
        app.notice = Some("Still computing the thresholds; press again in a moment.".to_owned());
        return;
    };
    let Some(threshold) = next(thresholds, value, up) else {
        let way = if up { "up" } else { "down" };
        app.notice = Some(format!("No threshold further {way}."));
        return;
    };
    let (target, text) = (edge(threshold), format!("{}.", threshold.description(knob)));
    app.set_knob(knob, target);
    app.notice = Some(text);
}

/// The next multiple of `step` above or below `value`.
pub(crate) const fn next_multiple(value: u64, step: u64, up: bool) -> u64 {
    if up { (value / step).saturating_add(1).saturating_mul(step) } else { value.saturating_sub(1) / step * step }
}
