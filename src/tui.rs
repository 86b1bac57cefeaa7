//! The planner's screen: `event -> keymap -> Action -> Host::update -> effects`, then one drawing.

pub mod action;
pub mod app;
pub mod device_monitor;
pub mod effect;
pub mod event;
pub mod host;
pub mod keymap;
pub mod pasted;
pub mod picture;
pub mod plain;
mod planner;
pub mod query;
pub mod regions;
pub mod screen;
pub mod screens;
pub mod services;
mod terminal;
pub mod theme;
pub mod view;
pub mod widget;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{Event, read};

use action::Action;
use app::{App, Detection, InitialState, LiveMemory, Preferences};
use device_monitor::DeviceMonitor;
use effect::{Effect, Runner};
use host::Host;
use screens::teach::{TeachScreen, TeachStart};
use terminal::TerminalGuard;
use theme::{Appearance, Theme};

pub use action::ExitReason;
pub use terminal::background;

use crate::engine::{EngineId, PlanRequest};
use crate::export::{ModelLocation, Scenario};
use crate::machine::Machine;
use crate::settings::Settings;
use crate::source::{Package, roots};

/// Shortest time between two drawings: at most 60 a second.
const FRAME: Duration = Duration::from_micros(16_667);

/// How long a plan is waited for before it is drawn as pending.
const PATIENCE: Duration = Duration::from_millis(50);

/// What the planner opens on.
pub struct PlannerStart {
    /// The engine that plans.
    pub engine: EngineId,
    /// Its settings.
    pub settings: Settings,
    /// The model with its adapters, projector and tag parameters.
    pub package: Package,
    /// The reference as the user typed it; none for the built-in example, for which a hint about the keys is shown.
    pub reference: Option<String>,
    /// Where the programs that run the model find it, if known.
    pub found: Option<ModelLocation>,
    /// The machine, as far as it is known at the start.
    pub machine: Machine,
    /// Detects the devices and follows their free memory on a thread; none if the machine is fully described.
    pub monitor: Option<DeviceMonitor>,
    /// Colours and characters.
    pub look: Appearance,
    /// What the user prefers.
    pub preferences: Preferences,
    /// Plans that are pinned.
    pub pins: Vec<PlanRequest>,
    /// Where the pinned models are found again, in the same order.
    pub pinned: Vec<Option<String>>,
    /// The screen that is opened at once.
    pub teach: Option<TeachStart>,
}

/// How the planner ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Why.
    pub why: ExitReason,
    /// The plan, if it was changed.
    pub changed: Option<Box<Scenario>>,
}

/// Runs the planner until the user leaves it. The terminal is restored on every way out: at the end, on an error, on a
/// panic, and on SIGTERM, SIGINT, SIGHUP and SIGQUIT.
///
/// # Errors
/// If the terminal cannot be set up or is lost.
pub fn run(start: PlannerStart) -> io::Result<Ended> {
    let size = TerminalGuard::size()?;
    let (send, events) = channel();
    let mut runner = Runner::new(Arc::new(services::LocalServices::default()), forward_actions(&send));
    let detection = if start.monitor.is_some() { Detection::Running } else { Detection::Done };
    let live = if start.monitor.as_ref().is_some_and(|monitor| monitor.every.is_some()) {
        LiveMemory::On
    } else {
        LiveMemory::Off
    };
    let quant = start.settings.quant;
    let mut host = Host::new(InitialState {
        engine: start.engine,
        settings: start.settings,
        model: None,
        machine: start.machine,
        detection,
        live,
        preferences: start.preferences,
        theme: Theme::new(start.look),
        size,
    });
    let mut package = start.package;
    package.reference = package.reference.or(start.reference.as_deref().map(roots::reference));
    let canonical = package.reference.clone();
    host.app.open(package, start.found);
    host.app.set_quantisation(quant);
    for (pin, reference) in start.pins.into_iter().zip(start.pinned) {
        host.app.pin(pin, reference);
    }
    host.app.mark_unchanged();
    match start.reference {
        Some(reference) => runner.start(Effect::AddRecent(canonical.unwrap_or(reference))),
        None => host.app.show_welcome(),
    }
    if let Some(monitor) = start.monitor {
        runner.watch(monitor)?;
    }
    watch_signals(&send)?;
    let mut screen = TerminalGuard::take()?;
    watch_input(send);
    if let Some(teach) = start.teach {
        // its page is about a plan
        let effects = host.refresh().into_iter().chain(host.show(Box::new(TeachScreen::at(&teach))));
        effects.collect::<Vec<_>>().into_iter().for_each(|effect| runner.start(effect));
    }
    let left = run_loop(&mut host, &mut screen, &runner, &events);
    runner.end();
    let why = left?;
    let changed = host.app.scenario().filter(|_| host.app.is_changed()).map(Box::new);
    Ok(Ended { why, changed })
}

/// Events that wake the loop.
enum LoopEvent {
    /// Input from the terminal.
    Terminal(Event),
    /// The result of an effect, or a signal.
    Action(Action),
    /// Stop the program, unless this is set: then that was done.
    #[cfg(unix)]
    Stop(std::sync::Arc<std::sync::atomic::AtomicBool>),
    /// It was stopped and resumed.
    #[cfg(unix)]
    Resumed,
}

/// The event loop: applies all pending events, then plans and draws once. A plan that takes long is drawn as pending.
fn run_loop(
    host: &mut Host,
    screen: &mut TerminalGuard,
    runner: &Runner,
    events: &Receiver<LoopEvent>,
) -> io::Result<ExitReason> {
    let mut logged = String::new();
    let mut asked = Instant::now();
    loop {
        let since = Instant::now();
        begin_refresh(host, runner, &mut asked);
        while host.app.request.is_planning() && host.app.leave.is_none() {
            let Ok(event) = events.recv_timeout(PATIENCE.saturating_sub(since.elapsed())) else { break };
            apply(host, screen, runner, event)?;
            begin_refresh(host, runner, &mut asked);
        }
        if !host.app.request.is_planning() {
            logged = log_plan(&host.app, asked.elapsed(), logged);
        }
        screen.draw(host)?;
        misbehave_if_requested();
        let drawn = Instant::now();
        // ignored events, mouse moves above all, need no redraw
        while !collect_events(host, screen, runner, events, drawn)? {}
        if let Some(leave) = host.app.leave {
            return Ok(leave);
        }
    }
}

/// Asks for a plan if anything changed, and notes when.
fn begin_refresh(host: &mut Host, runner: &Runner, asked: &mut Instant) {
    for effect in host.begin_refresh() {
        if matches!(effect, Effect::Plan(_)) {
            *asked = Instant::now();
        }
        runner.start(effect);
    }
}

/// Writes the plan to the log, if there is one and the plan is not the `last` one.
fn log_plan(app: &App, took: Duration, last: String) -> String {
    if !tracing::enabled!(tracing::Level::INFO) {
        return last;
    }
    let line = match (&app.request.plan, &app.request.refused) {
        (_, Some(error)) => format!("refused: {error}"),
        (Some(plan), None) => plan.line(),
        (None, None) => return last,
    };
    if line != last {
        tracing::info!("planned in {took:.1?}: {line}");
    }
    line
}

/// Waits for an event and applies all that arrive until the next drawing is due. Returns whether any had an effect.
fn collect_events(
    host: &mut Host,
    screen: &mut TerminalGuard,
    runner: &Runner,
    events: &Receiver<LoopEvent>,
    drawn: Instant,
) -> io::Result<bool> {
    let Ok(first) = events.recv() else {
        host.app.leave = Some(ExitReason::InputClosed);
        return Ok(true);
    };
    let (mut next, mut meant) = (Some(first), false);
    while let Some(event) = next {
        meant |= apply(host, screen, runner, event)?;
        if host.app.leave.is_some() {
            return Ok(true);
        }
        next = events.recv_timeout(FRAME.saturating_sub(drawn.elapsed())).ok();
    }
    Ok(meant)
}

/// Applies an event. Returns whether it had an effect.
fn apply(host: &mut Host, screen: &mut TerminalGuard, runner: &Runner, event: LoopEvent) -> io::Result<bool> {
    let action = match event {
        LoopEvent::Terminal(event) => event::action(&event, host),
        LoopEvent::Action(action) => Some(action),
        #[cfg(unix)]
        LoopEvent::Stop(is_done) => {
            if !is_done.swap(true, std::sync::atomic::Ordering::SeqCst) {
                screen.suspend()?;
            }
            Some(resized()?)
        }
        #[cfg(unix)]
        LoopEvent::Resumed => {
            screen.renew()?;
            Some(resized()?)
        }
    };
    let meant = action.is_some();
    for effect in action.map(|action| host.update(action)).unwrap_or_default() {
        if let Effect::Copy(text) = &effect {
            match screen.copy(text) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    host.app.notice = Some("This terminal has no clipboard: s saves to a file.".to_owned());
                }
                copied => copied?,
            }
        } else if matches!(effect, Effect::Suspend) {
            screen.suspend()?;
            host.update(resized()?);
        } else {
            runner.start(effect);
        }
    }
    Ok(meant)
}

/// The terminal's size, which may have changed while the program was stopped.
fn resized() -> io::Result<Action> {
    let (columns, rows) = TerminalGuard::size()?;
    Ok(Action::Resize(columns, rows))
}

/// A sender whose actions are forwarded as events of the loop.
fn forward_actions(events: &Sender<LoopEvent>) -> Sender<Action> {
    let (send, actions) = channel();
    let events = events.clone();
    thread::spawn(move || actions.into_iter().try_for_each(|action| events.send(LoopEvent::Action(action))));
    send
}

fn watch_input(events: Sender<LoopEvent>) {
    thread::spawn(move || {
        loop {
            let Ok(event) = read() else {
                // fails if the loop has ended; otherwise it learns that the terminal is gone
                drop(events.send(LoopEvent::Action(Action::Leave(ExitReason::InputClosed))));
                return;
            };
            if events.send(LoopEvent::Terminal(event)).is_err() {
                return;
            }
        }
    });
}

/// Signals are told to the loop, and are obeyed soon even if it is busy.
#[cfg(unix)]
fn watch_signals(events: &Sender<LoopEvent>) -> io::Result<()> {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    let clean_up = || {
        terminal::give_back();
        crate::running::server::end_started();
    };
    let leave = events.clone();
    let told = move |signal| drop(leave.send(LoopEvent::Action(Action::Leave(ExitReason::Signal(signal)))));
    crate::signals::watch(told, clean_up)?;
    let mut stops = signal_hook::iterator::Signals::new([signal_hook::consts::SIGTSTP])?;
    let events = events.clone();
    thread::spawn(move || {
        for _ in stops.forever() {
            // whoever sets it first stops the program
            let is_done = Arc::new(AtomicBool::new(false));
            if events.send(LoopEvent::Stop(Arc::clone(&is_done))).is_err() {
                return;
            }
            thread::sleep(BUSY);
            if !is_done.swap(true, Ordering::SeqCst) && terminal::stop().is_ok() {
                drop(events.send(LoopEvent::Resumed));
            }
        }
    });
    Ok(())
}

#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps, reason = "same signature on every system")]
fn watch_signals(_: &Sender<LoopEvent>) -> io::Result<()> {
    Ok(())
}

/// How long a loop that is not told to stop may be busy.
#[cfg(unix)]
const BUSY: Duration = Duration::from_secs(1);

/// Panics, or is busy for ever, if a debug build is asked to, for the tests that the terminal is restored.
fn misbehave_if_requested() {
    #[cfg(debug_assertions)]
    {
        assert!(std::env::var_os("PLIMSOLL_TEST_PANIC").is_none(), "asked to panic by PLIMSOLL_TEST_PANIC");
        while std::env::var_os("PLIMSOLL_TEST_BUSY").is_some() {
            thread::sleep(FRAME);
        }
    }
}
