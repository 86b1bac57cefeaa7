//! The planner's state: what its panels and all screens share.

mod history;
pub(crate) mod knobs;
pub mod library;
pub mod live;
mod model;
mod refresh;
pub mod thresholds;

use std::path::PathBuf;
use std::sync::Arc;

use super::action::ExitReason;
use super::keymap::Keymap;
use super::regions::{Cursors, Panel, Regions, ScreenLayout};
use super::theme::Theme;
use crate::answer::best::Minimums;
use crate::engine::{EngineError, EngineId, KnobContext};
use crate::engine::{PlanRequest, PreparedModel};
use crate::machine::Machine;
use crate::machine::what_if::WhatIf;
use crate::plan::Plan;
use crate::settings::Settings;
use crate::settings::knob::{Bounds, Knob};
use crate::speed::Speeds;
use crate::units::Bytes;

use history::History;
pub use history::{Drag, HistoryEntry, Pin, StateFigures};
pub use knobs::KnobList;
use library::Library;
use live::Replan;
pub use live::{Detection, FoundMachine, LiveMemory};
pub use model::{Load, Loading};
use model::{ModelLocations, QuantisedModels};
use refresh::Planning;
pub use refresh::{AnswerState, KnownLimits, LimitsState};
use thresholds::Thresholds;

/// The last change, and the plan it is compared with while the differences are marked.
#[derive(Debug, Default)]
pub struct RecentChange {
    /// Number of the change.
    pub id: u64,
    /// The plan before it; none once the marks have faded.
    pub before: Option<Box<Plan>>,
}

/// Which panel has the focus, and where its cursor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panels {
    /// The focused panel.
    pub focus: Panel,
    /// The panel shown below the knobs on a tabbed screen.
    pub lower: Panel,
    /// The cursor of each.
    pub cursors: Cursors,
}

impl Default for Panels {
    fn default() -> Self {
        Self { focus: Panel::Knobs, lower: Panel::Layers, cursors: Cursors::default() }
    }
}

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
    pub engine: EngineId,
    pub settings: Settings,
    /// The model as it was opened.
    pub opened: Option<Arc<PreparedModel>>,
    /// The opened model in the quantisation that is set.
    pub model: Option<Arc<PreparedModel>>,
    /// The machine as it was detected or described.
    pub found_machine: FoundMachine,
    /// The user's changes to it.
    pub what_if: WhatIf,
    /// The machine that is planned for: both combined.
    pub machine: Arc<Machine>,
    pub theme: Theme,
    pub preferences: Preferences,
    pub regions: Regions,

    pub panels: Panels,
    pub knobs: KnobList,

    /// The newest plan that the engine made.
    pub plan: Option<Box<Plan>>,
    /// Why the engine cannot plan with the present settings.
    pub refused: Option<EngineError>,
    pub bounds: Bounds,
    pub limits: LimitsState,
    /// The speed of the plan, where it can be known.
    pub speeds: Option<Speeds>,
    pub thresholds: Thresholds,
    pub change: RecentChange,
    pub loading: Loading,
    /// The models to choose from.
    pub library: Library,
    /// Plans pinned for comparison, in the order of pinning.
    pub pins: Vec<Pin>,
    /// A message in the footer until the next key press.
    pub notice: Option<String>,
    /// Set when the planner is to end.
    pub leave: Option<ExitReason>,
    /// It was asked whether the changed plan is to be left.
    pub(crate) asked_to_quit: bool,

    pub(super) locations: ModelLocations,
    replan: Replan,
    planning: Option<Planning>,
    history: History,
    quantised: QuantisedModels,
    /// The id of the newest request.
    last_id: u64,
}

impl App {
    /// The initial state; without a plan yet.
    pub fn new(start: InitialState) -> Self {
        let (columns, rows) = start.size;
        let context = KnobContext {
            model: start.model.as_deref(),
            machine: &start.machine,
            settings: &start.settings,
            two_cache_types: false,
        };
        let knobs = start.engine.facts().knobs(&context);
        let here = Arc::new(start.machine);
        Self {
            engine: start.engine,
            settings: start.settings,
            opened: start.model.clone(),
            model: start.model,
            machine: Arc::clone(&here),
            found_machine: FoundMachine {
                machine: here,
                detection: start.detection,
                live: start.live,
                detected: None,
                reports: Vec::new(),
            },
            what_if: WhatIf::default(),
            theme: start.theme,
            preferences: start.preferences,
            regions: Regions::of(columns, rows, knobs.len()),
            panels: Panels::default(),
            knobs: KnobList::of(knobs),
            plan: None,
            refused: None,
            bounds: Bounds::default(),
            limits: LimitsState::default(),
            speeds: None,
            thresholds: Thresholds::default(),
            change: RecentChange::default(),
            loading: Loading::default(),
            library: Library::default(),
            pins: Vec::new(),
            notice: None,
            leave: None,
            asked_to_quit: false,
            locations: ModelLocations::default(),
            replan: Replan::User,
            planning: None,
            history: History::default(),
            quantised: QuantisedModels::default(),
            last_id: 0,
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

    /// Typing a digit starts the input of a value.
    pub fn accepts_numbers(&self) -> bool {
        self.panels.focus == Panel::Knobs && self.knobs.focus.choices().is_none()
    }

    /// The plan before the last change, while differences from it are marked.
    pub fn before(&self) -> Option<&Plan> {
        self.change.before.as_deref()
    }

    /// The value the user chose for `knob`, or else the one in effect.
    pub fn value(&self, knob: Knob) -> u64 {
        let chosen = knob.chosen(&self.settings, &self.bounds);
        chosen.unwrap_or_else(|| self.in_effect(knob).unwrap_or_else(|| knob.stops(&self.bounds).first()))
    }

    /// The value of `knob` in effect, by the engine's rules.
    pub fn in_effect(&self, knob: Knob) -> Option<u64> {
        self.plan.as_ref().map(|plan| knob.in_effect(plan))
    }

    /// The largest value of `knob` with all in VRAM; for [`Knob::CpuMoe`], which puts experts into RAM, the smallest
    /// with every layer assigned to a GPU.
    pub fn limit(&self, knob: Knob) -> Option<u64> {
        if knob == Knob::CpuMoe {
            return self.assigned_limit(knob);
        }
        self.limits_along(knob).and_then(|limits| limits.vram.of(knob))
    }

    /// The largest value of `knob` with every layer assigned to a GPU, experts in RAM or not.
    pub fn assigned_limit(&self, knob: Knob) -> Option<u64> {
        self.limits_along(knob).and_then(|limits| limits.all_layers.of(knob))
    }

    /// Who set the value of the knob in focus, where it was not the user.
    pub fn source_of_focus(&self) -> Option<String> {
        let plan = self.plan.as_ref()?;
        plan.settings.sources.get(self.knobs.focus.name().replace('-', "_").as_str()).cloned()
    }

    /// Whether `panel` is shown: on a tabbed screen only the knobs and one other panel are.
    pub fn visible(&self, panel: Panel) -> bool {
        match self.regions.shape {
            ScreenLayout::TooSmall => false,
            ScreenLayout::Tabbed => panel == Panel::Knobs || panel == self.panels.lower,
            ScreenLayout::Columns => true,
        }
    }

    /// Shows a hint about the first keys, until one is pressed.
    pub fn show_welcome(&mut self) {
        let text = match self.regions.shape {
            ScreenLayout::Columns => "Welcome. ← → change the context, Tab next panel, b models, ? all keys.",
            ScreenLayout::TooSmall | ScreenLayout::Tabbed => "Welcome. ← → context, Tab next panel, ? all keys.",
        };
        self.notice = Some(text.to_owned());
    }

    pub(crate) fn focus_panel(&mut self, panel: Panel) {
        self.panels.focus = panel;
        if panel != Panel::Knobs {
            self.panels.lower = panel;
        }
    }

    /// Plans again and drops the known limits and thresholds, for changes beyond one knob.
    fn replan_from_scratch(&mut self) {
        self.replan = Replan::User;
        self.limits.forget();
        self.library.touch();
        self.thresholds.forget();
    }
}
