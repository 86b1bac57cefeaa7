//! Loading a model.

use std::time::Duration;

use super::App;
use crate::export::ModelLocation;
use crate::source::{Package, Progress};
use crate::tui::effect::Effect;

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
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) reference: String,
    /// The context to open it with, in tokens: the one that the browser judged by.
    pub(crate) ctx: Option<u64>,
    /// The model is to be the draft of the open one.
    pub(super) as_draft: bool,
}

impl App {
    /// Loads the model behind `reference`, replacing any load under way.
    pub fn begin_load(&mut self, name: String, reference: String) -> Vec<Effect> {
        self.loading.id += 1;
        (self.loading.name, self.loading.reference) = (name.clone(), reference.clone());
        (self.loading.as_draft, self.loading.ctx) = (false, None);
        let now = Progress { done: 0, total: None, shard: 0, shards: 1 };
        self.loading.state = Load::Running { name, now, took: Duration::ZERO };
        vec![Effect::Load { id: self.loading.id, reference }]
    }

    pub(super) fn cancel_load(&mut self) -> Vec<Effect> {
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

    pub(super) fn progress(&mut self, id: u64, progress: Progress, since: Duration) {
        if let Load::Running { now, took, .. } = &mut self.loading.state
            && id == self.loading.id
        {
            (*now, *took) = (progress, since);
        }
    }

    pub(super) fn loaded(&mut self, result: Result<Package, String>) -> Vec<Effect> {
        match result {
            Ok(package) if self.loading.as_draft => {
                let reference = package.reference.clone().unwrap_or_else(|| self.loading.reference.clone());
                self.loading.state = match self.use_draft(&package, reference) {
                    Ok(()) => Load::Ready,
                    Err(why) => Load::Failed { name: self.loading.name.clone(), why },
                };
                Vec::new()
            }
            Ok(package) => {
                self.loading.state = Load::Ready;
                let canonical = package.reference.clone().unwrap_or_else(|| self.loading.reference.clone());
                let found = ModelLocation::by_reference(&self.loading.reference).of_opened(Some(&canonical));
                self.open_with(package, Some(found), self.loading.ctx);
                vec![Effect::AddRecent(canonical)]
            }
            Err(why) => {
                self.loading.state = Load::Failed { name: self.loading.name.clone(), why };
                Vec::new()
            }
        }
    }
}
