//! A model on its way.

use std::time::Duration;

use super::App;
use crate::export::ModelLocation;
use crate::source::{Package, Progress};
use crate::tui::effect::Effect;

/// A model on its way.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Load {
    /// None was asked for.
    #[default]
    Idle,
    /// So much of it is read.
    Running {
        /// What is read, for people.
        name: String,
        /// How much of it is there.
        now: Progress,
        /// Since it began.
        took: Duration,
    },
    /// The last one is on the screen.
    Ready,
    /// The last one could not be read; the plan before it stays.
    Failed {
        /// What could not be read.
        name: String,
        /// Why, in one sentence.
        why: String,
    },
}

/// What is being read, or was read last.
#[derive(Clone, Debug, Default)]
pub struct Loading {
    /// How far it is.
    pub state: Load,
    /// Counts what was asked for: an answer to an older one is of no interest.
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) reference: String,
}

impl App {
    /// Asks for the model behind `reference`; what was asked for before is of no interest any more.
    pub fn begin_load(&mut self, name: String, reference: String) -> Vec<Effect> {
        self.loading.id += 1;
        (self.loading.name, self.loading.reference) = (name.clone(), reference.clone());
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
            Ok(package) => {
                self.loading.state = Load::Ready;
                let lasting = package.reference.clone().unwrap_or_else(|| self.loading.reference.clone());
                self.open(package, Some(ModelLocation::by_reference(&self.loading.reference)));
                vec![Effect::AddRecent(lasting)]
            }
            Err(why) => {
                self.loading.state = Load::Failed { name: self.loading.name.clone(), why };
                Vec::new()
            }
        }
    }
}
