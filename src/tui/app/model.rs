//! Loading a model.
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::App;
use crate::answer::verdict::capitalised;
use crate::command::Start;
use crate::engine::{DraftFile, EngineId, PreparedModel};
use crate::export::ModelLocation;
use crate::settings::{Context, Flag, Settings};
use crate::source::{Package, Progress};
use crate::tui::effect::Effect;
use crate::tui::regions::Cursors;

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

impl Loading {
    /// Loads the model behind `reference`, replacing any load under way.
    pub fn begin(&mut self, name: String, reference: String) -> Vec<Effect> {
        let now = Progress { done: 0, total: None, shard: 0, shards: 1 };
        let state = Load::Running { name: name.clone(), now, took: Duration::ZERO };
        *self = Self { state, id: self.id + 1, name, reference: reference.clone(), ..Self::default() };
        vec![Effect::Load { id: self.id, reference, or_namesake: false }]
    }

    /// Stops a load, or forgets that one failed; says what was stopped.
    pub(crate) fn cancel(&mut self) -> (Vec<Effect>, Option<String>) {
        match std::mem::take(&mut self.state) {
            Load::Running { name, .. } => {
                self.id += 1;
                (vec![Effect::CancelLoad], Some(format!("Stopped reading {name}; the plan is unchanged.")))
            }
            Load::Ready => {
                self.state = Load::Ready;
                (Vec::new(), None)
            }
            Load::Failed { .. } | Load::Idle => (Vec::new(), None),
        }
    }

    /// Takes how much the load with this number has read.
    pub(crate) fn progress(&mut self, id: u64, progress: Progress, since: Duration) {
        if let Load::Running { now, took, .. } = &mut self.state
            && id == self.id
        {
            (*now, *took) = (progress, since);
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
        self.library.loading.begin(start.name.clone(), reference.clone());
        self.library.loading.start = Some(Box::new(start));
        vec![Effect::Load { id: self.library.loading.id, reference, or_namesake: true }]
    }

    /// Plans the open model as `start` starts its own: one undo step.
    fn start_open_model(&mut self, start: &Start) {
        match start.settings() {
            Ok(settings) => {
                let Settings { adapters, projector, .. } = self.request.settings.clone();
                self.push_undo();
                (self.request.engine, self.request.settings) =
                    (start.engine, Settings { adapters, projector, ..settings });
                self.replan_from_scratch();
                self.say_what_started(start);
            }
            Err(why) => self.notice = Some(capitalised(&format!("{why}."))),
        }
    }

    /// Says what of a command is not planned.
    fn say_what_started(&mut self, start: &Start) {
        let remarks = start.remarks(self.request.settings.ctx != Context::Auto);
        let remarks = remarks.iter().map(|remark| capitalised(&format!("{remark}."))).collect::<Vec<_>>().join(" ");
        self.notice = Some(format!("Planned as the command says; u undoes it. {remarks}").trim_end().to_owned());
    }

    pub(crate) fn loaded(&mut self, result: Result<Package, String>) -> Vec<Effect> {
        match result {
            Ok(package) if self.library.loading.as_draft => {
                let reference = package.reference.clone().unwrap_or_else(|| self.library.loading.reference.clone());
                self.library.loading.state = match self.use_draft(&package, reference) {
                    Ok(()) => Load::Ready,
                    Err(why) => Load::Failed { name: self.library.loading.name.clone(), why },
                };
                Vec::new()
            }
            Ok(mut package) => {
                self.library.loading.state = Load::Ready;
                let canonical = package.reference.clone().unwrap_or_else(|| self.library.loading.reference.clone());
                package.reference = Some(canonical.clone());
                let found = if package.model.made_of_original {
                    ModelLocation::Unknown(package.model.name.clone())
                } else {
                    ModelLocation::by_reference(&self.library.loading.reference).of_opened(Some(&canonical))
                };
                match self.library.loading.start.take() {
                    Some(start) => self.open_started(package, found, &start),
                    None => self.open_with(package, Some(found), self.library.loading.ctx),
                }
                vec![Effect::AddRecent(canonical)]
            }
            Err(why) => {
                self.library.loading.state = Load::Failed { name: self.library.loading.name.clone(), why };
                Vec::new()
            }
        }
    }

    /// Opens `package` with the knobs that its tag sets: two undo steps. `found` is where the programs that run the
    /// model find it, if known.
    pub fn open(&mut self, package: Package, found: Option<ModelLocation>) {
        self.open_with(package, found, None);
    }

    /// As [`Self::open`], with the context `ctx` in tokens, whatever the tag sets.
    pub(crate) fn open_with(&mut self, mut package: Package, found: Option<ModelLocation>, ctx: Option<u64>) {
        let mut before = self.request.settings_without_tag();
        if let Some(tokens) = ctx {
            before.ctx = Context::Tokens(tokens);
            package.knobs.num_ctx = None;
        }
        self.open_from(package, found, (self.request.engine, before));
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
        self.request.engine = engine;
        if !notes.is_empty() {
            Arc::make_mut(&mut package.model).add_notes(&notes);
        }
        self.library.locations.learn(&package.model, found, package.reference.clone());
        self.request.opened = Some(Arc::clone(&package.model));
        self.request.model = Some(package.model);
        self.request.settings = Settings { ctx: before.ctx, gpu_layers: before.gpu_layers, ..after.clone() };
        if after != self.request.settings {
            self.push_undo();
            self.request.settings = after;
            self.notice = Some(format!("{}; u undoes it.", capitalised(&notes.join(", and "))));
        }
        self.request.fit_model();
        self.request.plan = None;
        self.panels.cursors = Cursors::default();
        self.replan_from_scratch();
    }

    /// Puts `package` beside the open model: one undo step.
    ///
    /// # Errors
    /// Why it cannot draft for that, without a full stop.
    pub(crate) fn use_draft(&mut self, package: &Package, reference: String) -> Result<(), String> {
        let Some(opened) = self.request.opened.clone() else { return Err("no model is open".to_owned()) };
        let kind = opened.drafted_by(&package.model)?;
        let draft = DraftFile { model: Arc::clone(&package.model), file: reference };
        let drafting: Arc<PreparedModel> = PreparedModel::clone(&opened).with_draft(Some(draft)).into();
        self.push_undo();
        let (found, reference) = (self.library.locations.of(&opened), self.library.locations.reference(&opened));
        self.library.locations.learn(&drafting, Some(found), reference);
        self.request.opened = Some(Arc::clone(&drafting));
        self.request.model =
            self.request.in_quantisation(self.request.settings.quant).ok().flatten().or(Some(drafting));
        self.request.settings.draft.types = Some(vec![kind]);
        self.replan_from_scratch();
        self.notice = Some(format!("{} drafts for {}; u undoes it.", package.model.name, opened.name));
        Ok(())
    }
}
