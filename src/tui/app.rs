//! What the planner knows and shows. [`App::update`] is its only way forward: pure, without IO, clock or environment.

mod adjust;
pub mod advice;
mod answers;
pub mod browse;
pub mod cliffs;
pub mod compare;
pub mod engine_compare;
pub mod export;
mod header;
mod history;
mod knobs;
pub mod library;
pub mod live;
mod load;
mod locations;
pub mod machine;
pub mod matrix;
mod mode;
mod mouse;
mod pages;
mod quant;
mod refresh;
pub mod sweep;
mod tag;
pub mod teach;
pub mod together;
mod update;

use std::sync::Arc;

use super::action::ExitReason;
use super::regions::{Cursors, Panel, Regions, ScreenLayout};
use super::theme::Theme;
use crate::engine::PreparedModel;
use crate::engine::{EngineError, EngineId, KnobContext};
use crate::machine::Machine;
use crate::machine::what_if::WhatIf;
use crate::plan::Plan;
use crate::settings::Settings;
use crate::settings::knob::{Bounds, Knob};
use crate::source::ExplicitKnobs;

use cliffs::Cliffs;
use compare::Pin;
use history::UndoStep;
pub use knobs::KnobList;
use library::Library;
use live::Stale;
pub use live::{FoundMachine, Known, LiveMemory};
pub use load::{Load, Loading};
use locations::ModelLocations;
pub use mode::{Mode, TextEntry, TextOrigin};
pub use pages::ExplainTarget;
pub use refresh::LimitsState;
use tag::{Tag, TagDefaults};
pub use teach::TeachScreen;

/// What was changed last, and how long it stays marked.
#[derive(Debug, Default)]
pub struct RecentChange {
    /// Counts changes.
    pub id: u64,
    /// The plan before, until the marks fade.
    pub before: Option<Box<Plan>>,
}

/// Which panel has the focus, and where its cursor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panels {
    /// The one with the focus.
    pub focus: Panel,
    /// The one shown below the knobs where there is room for one only.
    pub lower: Panel,
    /// The cursor of each.
    pub cursors: Cursors,
}

impl Default for Panels {
    fn default() -> Self {
        Self { focus: Panel::Knobs, lower: Panel::Layers, cursors: Cursors::default() }
    }
}

/// What the planner begins with.
#[derive(Debug)]
pub struct InitialState {
    /// Who decides.
    pub engine: EngineId,
    /// The knobs.
    pub settings: Settings,
    /// The model, if it is already there.
    pub model: Option<Arc<PreparedModel>>,
    /// The machine, as far as it is known.
    pub machine: Machine,
    /// Whether more of it will become known.
    pub known: Known,
    /// Whether its free memory is followed.
    pub live: LiveMemory,
    /// The knobs that what comes with a model leaves alone.
    pub held: ExplicitKnobs,
    /// How it looks.
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
    /// The same in the quantisation that the knobs ask for.
    pub model: Option<Arc<PreparedModel>>,
    /// The machine as it was found or described.
    pub found_machine: FoundMachine,
    /// What is changed of it.
    pub what_if: WhatIf,
    /// The machine that is planned for: both together.
    pub machine: Arc<Machine>,
    pub theme: Theme,
    pub regions: Regions,

    pub mode: Mode,
    pub panels: Panels,
    pub knobs: KnobList,

    /// The newest plan that the engine made.
    pub plan: Option<Box<Plan>>,
    /// Why the engine makes none of the present settings.
    pub refused: Option<EngineError>,
    pub bounds: Bounds,
    pub limits: LimitsState,
    pub cliffs: Cliffs,
    pub change: RecentChange,
    pub loading: Loading,
    /// The models to choose from.
    pub library: Library,
    /// Plans that are kept for a comparison, in the order in which they were pinned.
    pub pins: Vec<Pin>,
    /// Something to say in the footer until the next key.
    pub notice: Option<String>,
    /// The planner is to end.
    pub leave: Option<ExitReason>,

    tag: Tag,
    query_id: u64,
    writing_id: u64,
    locations: ModelLocations,
    lesson_id: u64,
    stale: Stale,
    past: Vec<UndoStep>,
    made: quant::QuantisedModels,
    tick_id: u64,
}

impl App {
    /// The planner at its start; the first [`App::refresh`] makes the first plan.
    pub fn new(start: InitialState) -> Self {
        let (columns, rows) = start.size;
        let scene = KnobContext {
            model: start.model.as_deref().map(|model| &**model),
            machine: &start.machine,
            raw: start.settings.raw,
        };
        let knobs = start.engine.facts().knobs(&scene);
        let here = Arc::new(start.machine);
        Self {
            engine: start.engine,
            settings: start.settings,
            opened: start.model.clone(),
            model: start.model,
            machine: Arc::clone(&here),
            found_machine: FoundMachine {
                machine: here,
                known: start.known,
                live: start.live,
                detected: None,
                reports: Vec::new(),
            },
            what_if: WhatIf::default(),
            theme: start.theme,
            regions: Regions::of(columns, rows, knobs.len()),
            mode: Mode::Plan,
            panels: Panels::default(),
            knobs: KnobList::of(knobs),
            plan: None,
            refused: None,
            bounds: Bounds::default(),
            limits: LimitsState::default(),
            cliffs: Cliffs::default(),
            change: RecentChange::default(),
            loading: Loading::default(),
            library: Library::default(),
            pins: Vec::new(),
            notice: None,
            leave: None,
            tag: Tag { held: start.held, tag_defaults: TagDefaults::default() },
            query_id: 0,
            writing_id: 0,
            locations: ModelLocations::default(),
            lesson_id: 0,
            stale: Stale::ByHand,
            past: Vec::new(),
            made: quant::QuantisedModels::default(),
            tick_id: 0,
        }
    }

    /// A digit typed now begins a value.
    pub fn takes_numbers(&self) -> bool {
        self.panels.focus == Panel::Knobs && self.knobs.focus.choices().is_none()
    }

    /// The engine was not asked about the present settings yet.
    pub fn is_stale(&self) -> bool {
        self.stale != Stale::No
    }

    /// The plan whose values are marked where they differ from now.
    pub fn before(&self) -> Option<&Plan> {
        self.change.before.as_deref()
    }

    /// What the person chose for `knob`, or else what is in effect.
    pub fn value(&self, knob: Knob) -> u64 {
        let chosen = knob.chosen(&self.settings, &self.bounds);
        chosen.unwrap_or_else(|| self.in_effect(knob).unwrap_or_else(|| knob.stops(&self.bounds).first()))
    }

    /// What the engine makes of `knob`.
    pub fn in_effect(&self, knob: Knob) -> Option<u64> {
        self.plan.as_ref().map(|plan| knob.in_effect(plan))
    }

    /// The most that `knob` can be with every layer on GPUs.
    pub fn limit(&self, knob: Knob) -> Option<u64> {
        self.limits.found.as_ref().and_then(|limits| limits.of(knob))
    }

    /// The panel that is shown below the knobs on a screen with room for one.
    pub fn visible(&self, panel: Panel) -> bool {
        match self.regions.shape {
            ScreenLayout::TooSmall => false,
            ScreenLayout::Tabbed => panel == Panel::Knobs || panel == self.panels.lower,
            ScreenLayout::Columns => true,
        }
    }

    /// Says which keys to try first, until one is pressed.
    pub fn show_welcome(&mut self) {
        let text = match self.regions.shape {
            ScreenLayout::Columns => "Welcome. ← → change the context, Tab next panel, b models, ? all keys.",
            ScreenLayout::TooSmall | ScreenLayout::Tabbed => "Welcome. ← → context, Tab next panel, ? all keys.",
        };
        self.notice = Some(text.to_owned());
    }

    fn turn_to(&mut self, panel: Panel) {
        self.panels.focus = panel;
        if panel != Panel::Knobs {
            self.panels.lower = panel;
        }
    }

    /// For when more than a knob changed: what was known of the knobs' limits means nothing any more.
    fn replan_from_scratch(&mut self) {
        (self.stale, self.limits.found) = (Stale::ByHand, None);
        if let Mode::Browse(browse) = &mut self.mode {
            browse.touch();
        }
        self.cliffs.forget();
    }
}
