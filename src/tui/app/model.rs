//! Loading a model.
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::App;
use crate::command::Start;
use crate::engine::{DraftFile, EngineId, PlanRequest, PreparedModel};
use crate::export::{ModelLocation, Scenario};
use crate::model::mixture::Quantisation;
use crate::model::quantise::QuantiseError;
use crate::settings::{Context, Flag, Settings};
use crate::source::{Package, Progress};
use crate::tui::effect::Effect;
use crate::tui::widget::row_writer::capitalised;

/// The state of loading a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Load {
    /// Nothing to load.
    #[default]
    Idle,
    /// A model is loading.
    Running {
        /// Its display name.
        name: String,
        /// How much is read.
        now: Progress,
        /// Time since the load began.
        took: Duration,
    },
    /// The last model is loaded.
    Ready,
    /// The last load failed; the plan is unchanged.
    Failed {
        /// The model that failed.
        name: String,
        /// Why, in one sentence.
        why: String,
    },
}

/// The present or last load.
#[derive(Clone, Debug, Default)]
pub struct Loading {
    /// Its state.
    pub state: Load,
    /// Number of the load; answers to older ones are ignored.
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) reference: String,
    /// The context to open it with, in tokens: the one that the browser judged by.
    pub(crate) ctx: Option<u64>,
    /// The model is to be the draft of the open one.
    pub(crate) as_draft: bool,
    /// The command that starts it, whose settings it is opened with.
    pub(crate) start: Option<Box<Start>>,
}

impl App {
    /// Loads the model behind `reference`, replacing any load under way.
    pub fn begin_load(&mut self, name: String, reference: String) -> Vec<Effect> {
        self.loading.id += 1;
        (self.loading.name, self.loading.reference) = (name.clone(), reference.clone());
        (self.loading.as_draft, self.loading.ctx, self.loading.start) = (false, None, None);
        let now = Progress { done: 0, total: None, shard: 0, shards: 1 };
        self.loading.state = Load::Running { name, now, took: Duration::ZERO };
        vec![Effect::Load { id: self.loading.id, reference, or_namesake: false }]
    }

    /// Opens what a pasted text starts, with its settings: the first of several.
    pub(crate) fn take_command(&mut self, started: Result<Vec<Start>, String>) -> Vec<Effect> {
        let mut all = match started {
            Ok(all) => all.into_iter(),
            Err(why) => {
                self.notice = Some(capitalised(&format!("{why}.")));
                return Vec::new();
            }
        };
        let Some(mut start) = all.next() else { return Vec::new() };
        let others = all.as_slice();
        if !others.is_empty() {
            let names = others.iter().map(|other| other.name.as_str()).collect::<Vec<_>>().join(", ");
            start.say(format!("only {} is opened: 'plimsoll plan --command FILE' plans it with {names}", start.name));
        }
        let rest = [
            (Flag::Mmproj, "the model's own projector is planned, if it is known, for"),
            (Flag::ModelDraft, "not opened:"),
        ];
        for (flag, what) in rest {
            if let Some(file) = start.file(flag) {
                let sentence = format!("{what} {file}");
                start.say(sentence);
            }
        }
        let Some(reference) = start.model.clone() else {
            start.say(format!("{}: the open one stays", start.without_model()));
            self.start_open_model(&start);
            return Vec::new();
        };
        self.begin_load(start.name.clone(), reference.clone());
        self.loading.start = Some(Box::new(start));
        vec![Effect::Load { id: self.loading.id, reference, or_namesake: true }]
    }

    /// Plans the open model as `start` starts its own: one undo step.
    fn start_open_model(&mut self, start: &Start) {
        match start.settings() {
            Ok(settings) => {
                let Settings { adapters, projector, .. } = self.settings.clone();
                self.push_undo();
                (self.engine, self.settings) = (start.engine, Settings { adapters, projector, ..settings });
                self.replan_from_scratch();
                self.say_what_started(start);
            }
            Err(why) => self.notice = Some(capitalised(&format!("{why}."))),
        }
    }

    /// Says what of a command is not planned.
    fn say_what_started(&mut self, start: &Start) {
        let remarks = start.remarks(self.settings.ctx != Context::Auto);
        let remarks = remarks.iter().map(|remark| capitalised(&format!("{remark}."))).collect::<Vec<_>>().join(" ");
        self.notice = Some(format!("Planned as the command says; u undoes it. {remarks}").trim_end().to_owned());
    }

    pub(crate) fn cancel_load(&mut self) -> Vec<Effect> {
        match &self.loading.state {
            Load::Running { name, .. } => {
                self.notice = Some(format!("Stopped reading {name}; the plan is unchanged."));
                self.loading.id += 1;
                self.loading.state = Load::Idle;
                vec![Effect::CancelLoad]
            }
            Load::Failed { .. } => {
                self.loading.state = Load::Idle;
                Vec::new()
            }
            Load::Idle | Load::Ready => Vec::new(),
        }
    }

    pub(crate) fn progress(&mut self, id: u64, progress: Progress, since: Duration) {
        if let Load::Running { now, took, .. } = &mut self.loading.state
            && id == self.loading.id
        {
            (*now, *took) = (progress, since);
        }
    }

    pub(crate) fn loaded(&mut self, result: Result<Package, String>) -> Vec<Effect> {
        match result {
            Ok(package) if self.loading.as_draft => {
                let reference = package.reference.clone().unwrap_or_else(|| self.loading.reference.clone());
                self.loading.state = match self.use_draft(&package, reference) {
                    Ok(()) => Load::Ready,
                    Err(why) => Load::Failed { name: self.loading.name.clone(), why },
                };
                Vec::new()
            }
            Ok(mut package) => {
                self.loading.state = Load::Ready;
                let canonical = package.reference.clone().unwrap_or_else(|| self.loading.reference.clone());
                package.reference = Some(canonical.clone());
                let found = ModelLocation::by_reference(&self.loading.reference).of_opened(Some(&canonical));
                match self.loading.start.take() {
                    Some(start) => self.open_started(package, found, &start),
                    None => self.open_with(package, Some(found), self.loading.ctx),
                }
                vec![Effect::AddRecent(canonical)]
            }
            Err(why) => {
                self.loading.state = Load::Failed { name: self.loading.name.clone(), why };
                Vec::new()
            }
        }
    }
}

impl App {
    /// The settings as for any other model: without the quantisation, and without what the open one's tag gives.
    pub(crate) fn settings_without_tag(&self) -> Settings {
        let mut settings = Settings { quant: None, ..self.settings.clone() };
        settings.take_tag_back();
        settings
    }
}

impl App {
    /// Opens `package` with the knobs that its tag sets: two undo steps. `found` is where the programs that run the
    /// model find it, if known.
    pub fn open(&mut self, package: Package, found: Option<ModelLocation>) {
        self.open_with(package, found, None);
    }

    /// As [`Self::open`], with the context `ctx` in tokens, whatever the tag sets.
    pub(crate) fn open_with(&mut self, mut package: Package, found: Option<ModelLocation>, ctx: Option<u64>) {
        let mut before = self.settings_without_tag();
        if let Some(tokens) = ctx {
            before.ctx = Context::Tokens(tokens);
            package.knobs.num_ctx = None;
        }
        self.open_from(package, found, (self.engine, before));
    }

    /// Opens what `start` starts, as it starts it.
    fn open_started(&mut self, mut package: Package, found: ModelLocation, start: &Start) {
        let settings = match start.settings() {
            Ok(settings) => settings,
            Err(why) => return self.notice = Some(capitalised(&format!("{why}."))),
        };
        if start.has_no_projector && start.file(Flag::Mmproj).is_none() {
            package.projector = None;
        }
        self.open_from(package, Some(found), (start.engine, settings));
        self.say_what_started(start);
    }

    /// Opens `package` on this engine, with these settings under and over what its tag gives.
    fn open_from(
        &mut self,
        mut package: Package,
        found: Option<ModelLocation>,
        (engine, before): (EngineId, Settings),
    ) {
        let mut after = before.clone();
        let notes = package.apply_to(&mut after);
        self.push_undo();
        self.engine = engine;
        if !notes.is_empty() {
            Arc::make_mut(&mut package.model).add_notes(&notes);
        }
        self.locations.learn(&package.model, found, package.reference.clone());
        self.opened = Some(Arc::clone(&package.model));
        self.model = Some(package.model);
        self.settings = Settings { ctx: before.ctx, gpu_layers: before.gpu_layers, ..after.clone() };
        if after != self.settings {
            self.push_undo();
            self.settings = after;
            self.notice = Some(format!("{}; u undoes it.", capitalised(&notes.join(", and "))));
        }
        self.plan = None;
        self.panels.cursors = super::Cursors::default();
        self.replan_from_scratch();
    }
}

impl App {
    /// Puts `package` beside the open model: one undo step.
    ///
    /// # Errors
    /// Why it cannot draft for that, without a full stop.
    pub(crate) fn use_draft(&mut self, package: &Package, reference: String) -> Result<(), String> {
        let Some(opened) = self.opened.clone() else { return Err("no model is open".to_owned()) };
        let kind = opened.drafted_by(&package.model)?;
        let draft = DraftFile { model: Arc::clone(&package.model), file: reference };
        let drafting: Arc<PreparedModel> = PreparedModel::clone(&opened).with_draft(Some(draft)).into();
        self.push_undo();
        let (found, reference) = (self.locations.of(&opened), self.locations.reference(&opened));
        self.locations.learn(&drafting, Some(found), reference);
        self.opened = Some(Arc::clone(&drafting));
        self.model = self.in_quantisation(self.settings.quant).ok().flatten().or(Some(drafting));
        self.settings.draft.types = Some(vec![kind]);
        self.replan_from_scratch();
        self.notice = Some(format!("{} drafts for {}; u undoes it.", package.model.name, opened.name));
        Ok(())
    }
}

/// The requantised variants of a model.
#[derive(Debug, Default)]
pub(crate) struct QuantisedModels {
    of: Option<Arc<PreparedModel>>,
    models: Vec<(Quantisation, Arc<PreparedModel>)>,
}

impl QuantisedModels {
    fn get(&mut self, opened: &Arc<PreparedModel>, to: Quantisation) -> Result<Arc<PreparedModel>, QuantiseError> {
        if !self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, opened)) {
            *self = Self { of: Some(Arc::clone(opened)), models: Vec::new() };
        }
        if let Some((_, model)) = self.models.iter().find(|(made, _)| *made == to) {
            return Ok(Arc::clone(model));
        }
        let model: Arc<PreparedModel> = opened.requantised(to)?.into();
        self.models.push((to, Arc::clone(&model)));
        Ok(model)
    }
}

impl App {
    /// Sets the quantisation as one undo step, unless it is none.
    pub fn set_quantisation(&mut self, quant: Option<Quantisation>) {
        if quant.is_some() {
            self.change_settings(Settings { quant, ..self.settings.clone() });
        }
    }

    /// The opened model requantised to `quant`, or unchanged.
    pub(crate) fn in_quantisation(
        &mut self,
        quant: Option<Quantisation>,
    ) -> Result<Option<Arc<PreparedModel>>, QuantiseError> {
        match (&self.opened, quant) {
            (Some(opened), Some(to)) => self.quantised.get(opened, to).map(Some),
            (opened, _) => Ok(opened.clone()),
        }
    }
}

/// Where opened models were found, but not requantised variants.
#[derive(Debug, Default)]
pub(crate) struct ModelLocations(Vec<FoundAt>);

#[derive(Debug)]
struct FoundAt {
    model: Weak<PreparedModel>,
    location: Option<ModelLocation>,
    reference: Option<String>,
}

impl ModelLocations {
    /// Records the location of `model`, and the reference by which it is opened again, if they are known.
    pub fn learn(&mut self, model: &Arc<PreparedModel>, location: Option<ModelLocation>, reference: Option<String>) {
        self.0.retain(|known| known.model.strong_count() > 0);
        self.0.push(FoundAt { model: Arc::downgrade(model), location, reference });
    }

    /// The location of `model`, or just its name.
    pub fn of(&self, model: &Arc<PreparedModel>) -> ModelLocation {
        let known = self.known(model).and_then(|known| known.location.clone());
        known.unwrap_or_else(|| ModelLocation::Unknown(model.name.clone()))
    }

    /// The reference by which `model` is opened again; none if it is not known, or the built-in model.
    pub fn reference(&self, model: &Arc<PreparedModel>) -> Option<String> {
        self.known(model)?.reference.clone()
    }

    fn known(&self, model: &Arc<PreparedModel>) -> Option<&FoundAt> {
        self.0.iter().rev().find(|known| known.model.as_ptr() == Arc::as_ptr(model))
    }
}

impl App {
    /// A plan as it is asked for, with the reference by which its model is opened again.
    pub(crate) fn scenario_of(&self, request: &PlanRequest) -> Scenario {
        Scenario::of(request, self.locations.reference(&request.opened).as_deref())
    }

    /// The present plan as it is asked for, with those that are pinned; none without a model.
    pub fn scenario(&self) -> Option<Scenario> {
        let of = |request: &PlanRequest| self.scenario_of(request);
        let now = self.plan_request()?;
        let pins = self.pins.iter().map(|pin| {
            let pinned = of(&pin.plan_request);
            let same_machine = pin.plan_request.machine == now.machine;
            Scenario { machine: if same_machine { Vec::new() } else { pinned.machine }, ..pinned }
        });
        Some(Scenario { pins: pins.collect(), ..of(&now) })
    }
}
