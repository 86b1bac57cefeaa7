//! The planner's state: what its panels and all screens share.

mod history;
pub mod library;
pub mod live;
mod model;
pub mod panels;
mod request;
pub mod thresholds;

use std::path::PathBuf;
use std::sync::Arc;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::action::ExitReason;
use super::effect::{Effect, PlanJob};
use super::keymap::{Keymap, Scope};
use super::regions::{Panel, ScreenLayout};
use super::theme::Theme;
use crate::answer::best::Minimums;
use crate::engine::{EngineError, EngineId, KnobContext, PlanRequest, PreparedModel};
use crate::export::Scenario;
use crate::hardware::Detected;
use crate::hardware::watch::MemoryUpdate;
use crate::machine::Machine;
use crate::machine::what_if::WhatIf;
use crate::plan::Plan;
use crate::settings::Settings;
use crate::units::Bytes;

use history::History;
pub use history::{Drag, HistoryEntry, Pin, StateFigures};
use library::Library;
pub use live::{Detection, FoundMachine, LiveMemory};
pub use model::{Load, Loading};
pub use panels::{KnobList, Panels};
pub(super) use request::Replan;
pub use request::{AnswerState, CurrentRequest, KnownLimits, LimitsState, RecentChange};

/// What the user prefers where no key has said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    /// What a safe suggestion leaves on every GPU; none for [`crate::answer::best::DEFAULT_MARGIN`].
    pub margin: Option<Bytes>,
    /// The context, in tokens, that lists of models are judged by; none for what each model would get.
    pub need: Option<u64>,
    /// The narrowest types that are suggested.
    pub minimums: Minimums,
    /// A changed plan is left without asking.
    pub quits_at_once: bool,
    /// The keys, with those of the user's own.
    pub keys: Keymap,
    /// The llama-server that plans are applied by: its path, or the address of a router; none for that on PATH.
    pub server: Option<PathBuf>,
}

/// The initial state of the planner.
#[derive(Debug)]
pub struct InitialState {
    /// The engine that plans.
    pub engine: EngineId,
    /// Its settings.
    pub settings: Settings,
    /// The model, if it is already loaded.
    pub model: Option<Arc<PreparedModel>>,
    /// The machine, as far as it is known.
    pub machine: Machine,
    /// Whether detection is still running.
    pub detection: Detection,
    /// Whether its free memory is followed.
    pub live: LiveMemory,
    /// What the user prefers.
    pub preferences: Preferences,
    /// Colours and characters.
    pub theme: Theme,
    /// Columns and rows of the screen.
    pub size: (u16, u16),
}

/// The planner.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct App {
    pub request: CurrentRequest,
    pub(super) history: History,
    pub found_machine: FoundMachine,
    pub library: Library,
    pub panels: Panels,
    pub theme: Theme,
    pub preferences: Preferences,
    /// Plans pinned for comparison, in the order of pinning.
    pub pins: Vec<Pin>,
    /// A message in the footer until the next key press.
    pub notice: Option<String>,
    /// Set when the planner is to end.
    pub leave: Option<ExitReason>,
    /// It was asked whether the changed plan is to be left.
    pub(crate) asked_to_quit: bool,
}

impl App {
    /// The initial state; without a plan yet.
    pub fn new(start: InitialState) -> Self {
        let context = KnobContext {
            model: start.model.as_deref(),
            machine: &start.machine,
            settings: &start.settings,
            two_cache_types: false,
        };
        let knobs = start.engine.facts().knobs(&context);
        let here = Arc::new(start.machine);
        Self {
            request: CurrentRequest::new((start.engine, start.settings), start.model, Arc::clone(&here)),
            history: History::default(),
            found_machine: FoundMachine {
                machine: here,
                what_if: WhatIf::default(),
                detection: start.detection,
                live: start.live,
                detected: None,
                reports: Vec::new(),
            },
            library: Library::default(),
            panels: Panels::of(start.size, knobs),
            theme: start.theme,
            preferences: start.preferences,
            pins: Vec::new(),
            notice: None,
            leave: None,
            asked_to_quit: false,
        }
    }

    /// The planner on the plan of `request`, which nothing changes but who uses it.
    pub fn on(request: PlanRequest, theme: Theme, size: (u16, u16)) -> Self {
        let mut app = Self::new(InitialState {
            engine: request.engine,
            settings: request.settings.clone(),
            model: Some(Arc::clone(&request.opened)),
            machine: (*request.machine).clone(),
            detection: Detection::Done,
            live: LiveMemory::Off,
            preferences: Preferences::default(),
            theme,
            size,
        });
        app.apply_request(request);
        app.mark_unchanged();
        app
    }

    /// Whether a small letter begins a value of the focused knob, and so belongs to it. Where the choices are a slider, the
    /// knobs' own keys come first.
    pub fn begins_a_value(&self, letter: char) -> bool {
        let knob = self.panels.knobs.focus;
        let is_free = || {
            let event = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE);
            self.preferences.keys.command(event, &[Scope::Knobs]).is_none()
        };
        self.panels.focus == Panel::Knobs
            && letter.is_lowercase()
            && knob.begun(letter.encode_utf8(&mut [0; 4]), &self.request.bounds).is_some()
            && (knob.words().is_some() || is_free())
    }

    /// The text that a field for the focused knob begins with.
    pub(crate) fn suggested_text(&self) -> String {
        let knob = self.panels.knobs.focus;
        knob.typed(&self.request.settings, self.request.value(knob))
    }

    /// Shows a hint about the first keys, until one is pressed.
    pub fn show_welcome(&mut self) {
        let model = self.request.model.as_ref().map_or("a model", |model| model.name.as_str());
        self.notice = Some(match self.panels.regions.shape {
            ScreenLayout::Columns => format!(
                "Welcome. Shown is {model} on this machine. b chooses another model, m sets the largest context, \
                 ? has all keys."
            ),
            ScreenLayout::TooSmall | ScreenLayout::Tabbed => "Welcome. ← → context, b models, ? all keys.".to_owned(),
        });
    }

    /// Offers the knobs that apply to the present engine, model and machine. Values of the others are stashed until
    /// they apply again.
    pub(crate) fn update_offered_knobs(&mut self) {
        let knobs = self.request.engine.facts().knobs(&self.knob_context());
        if knobs != self.panels.knobs.offered {
            self.panels.knobs.stashed.switch_knobs(&mut self.request.settings, &self.panels.knobs.offered, &knobs);
            self.panels.set_offered_knobs(knobs);
        }
    }

    /// What decides which knobs apply.
    pub(crate) fn knob_context(&self) -> KnobContext<'_> {
        KnobContext {
            model: self.request.model.as_deref(),
            machine: &self.request.machine,
            settings: &self.request.settings,
            two_cache_types: self.panels.knobs.two_cache_types,
        }
    }

    /// The present plan as it is asked for, with those that are pinned; none without a model.
    pub fn scenario(&self) -> Option<Scenario> {
        let of = |request: &PlanRequest| self.library.scenario_of(request);
        let now = self.request.plan_request()?;
        let pins = self.pins.iter().map(|pin| {
            let pinned = of(&pin.plan_request);
            let same_machine = pin.plan_request.machine == now.machine;
            Scenario { machine: if same_machine { Vec::new() } else { pinned.machine }, ..pinned }
        });
        Some(Scenario { pins: pins.collect(), ..of(&now) })
    }

    /// Plans again and drops the known limits and thresholds, for changes beyond one knob.
    fn replan_from_scratch(&mut self) {
        self.request.replan_from_scratch();
        self.library.touch();
    }

    /// The request for a new plan, if anything changed.
    pub(crate) fn begin_plan(&mut self) -> Option<PlanJob> {
        let cause = std::mem::take(&mut self.request.replan);
        if cause == Replan::No {
            return None;
        }
        self.update_offered_knobs();
        self.request.begin_plan(cause)
    }

    /// Takes the answer to [`App::begin_plan`], unless something has changed since: the requests that depend on the
    /// plan, and whether the user changed it.
    pub(crate) fn take_plan(&mut self, id: u64, result: Result<Plan, EngineError>) -> Option<(Vec<Effect>, bool)> {
        let cause = self.request.end_plan(id)?;
        let model = self.request.model.clone()?;
        let effects = match result {
            Ok(plan) => self.accept(&model, plan, cause),
            Err(error) => {
                self.request.refused = Some(error);
                Vec::new()
            }
        };
        Some((effects, cause == Replan::User))
    }

    /// Plans again at once, if anything changed, where nobody waits for the screen.
    pub(crate) fn replan(&mut self) -> Vec<Effect> {
        let taken = self.begin_plan().and_then(|job| self.take_plan(job.id, job.of.plan()));
        taken.map(|(effects, _)| effects).unwrap_or_default()
    }

    fn accept(&mut self, model: &PreparedModel, plan: Plan, cause: Replan) -> Vec<Effect> {
        self.panels.cursors.keep_within(&plan);
        self.show_new_note(&plan);
        let before = self.request.accept(model, plan.clone());
        let mut effects = Vec::new();
        // only changes by the user are highlighted
        let change = &mut self.request.change;
        if cause == Replan::User {
            change.id += 1;
            change.before = before;
            effects.push(Effect::Fade { id: change.id });
        }
        let limits = self.request.limits.machine.as_ref();
        if cause == Replan::User || !limits.is_some_and(|of| of.is_nearly(&self.request.machine)) {
            let knobs = &self.panels.knobs;
            effects.extend(self.request.request_limits(plan, &knobs.offered, knobs.focus));
        }
        effects
    }

    /// Shows a new note in the footer if the verdict has no room for notes.
    fn show_new_note(&mut self, plan: &Plan) {
        let Some(old) = self.request.plan.as_ref().filter(|_| self.panels.notes_are_hidden()) else { return };
        if let Some(note) = plan.notes.iter().find(|note| !old.notes.contains(note)) {
            self.notice = Some(note.clone());
        }
    }

    /// Takes the machine as it was detected.
    pub(crate) fn detected(&mut self, detected: Box<Detected>) {
        self.found_machine.machine = Arc::new(detected.machine.clone());
        self.found_machine.detected = Some(detected);
        self.found_machine.detection = Detection::Done;
        self.library.renew();
        self.set_machine(Arc::new(self.found_machine.changed()));
        self.replan_from_scratch();
    }

    /// Freezes live memory, or resumes it.
    pub(crate) fn freeze(&mut self) -> Vec<Effect> {
        let (effects, said) = self.found_machine.freeze();
        self.notice = Some(said.to_owned());
        effects
    }

    /// Changes the machine as one undo step, and plans again.
    pub(crate) fn change_machine(&mut self, change: impl FnOnce(&mut WhatIf, &Machine)) {
        let mut what_if = self.found_machine.what_if.clone();
        change(&mut what_if, &self.found_machine.machine);
        what_if.drop_no_ops();
        if what_if != self.found_machine.what_if {
            self.push_undo();
            self.found_machine.what_if = what_if;
            self.request.machine = Arc::new(self.found_machine.changed());
            self.library.renew();
            self.replan_from_scratch();
        }
    }

    /// Takes the memory that is free now.
    pub(crate) fn memory_changed(&mut self, MemoryUpdate { machine, notes }: MemoryUpdate) {
        let found = &mut self.found_machine;
        // was sent before live memory was frozen
        if found.live != LiveMemory::On {
            return;
        }
        self.notice.take_if(|message| found.reports.contains(message) && !notes.contains(message));
        // the verdict may leave no room for it, on large screens too
        if let Some(note) = notes.iter().find(|note| !found.reports.contains(note)) {
            self.notice = Some(note.clone());
        }
        (found.reports, found.machine) = (notes, Arc::new(machine));
        let machine = found.changed();
        if machine != *self.request.machine {
            self.set_machine(Arc::new(machine));
            if self.library.must_renew(&self.request.machine) {
                self.library.touch();
            }
            self.request.replan = self.request.replan.max(Replan::Memory);
        }
    }
}
