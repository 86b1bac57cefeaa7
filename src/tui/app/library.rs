//! The models to choose from, and their status.

use std::sync::Arc;

use super::browse::BrowseLine;
use crate::library::{Item, ModelOrigin, ModelStatus, SurveyRequest};
use crate::machine::Machine;

/// A model and its status.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ModelRow {
    pub item: Arc<Item>,
    /// Its status; an earlier request's until the present one is answered.
    pub status: ModelStatus,
    /// The survey that it answers.
    asked: u64,
}

/// Which sources of models have answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Gathering {
    /// None: folders are being read.
    #[default]
    Nothing,
    /// The folders; a running Ollama is being asked.
    Here,
    /// All.
    All,
    /// The folders; the Ollama that the user named does not list its models.
    Refused(String),
}

/// The models. Their status is kept while the page is closed.
#[derive(Debug, Default)]
pub struct Library {
    /// All models, in the library's default order.
    pub rows: Vec<ModelRow>,
    /// Which sources have answered.
    pub gathered: Gathering,
    request: Option<SurveyRequest>,
    id: u64,
}

impl Library {
    /// Sets the models known without a server; the status of those listed before is kept.
    pub(super) fn models_listed(&mut self, items: Vec<Arc<Item>>) {
        let old = std::mem::take(&mut self.rows);
        let (running, old): (Vec<ModelRow>, Vec<ModelRow>) =
            old.into_iter().partition(|row| row.item.origin == ModelOrigin::Running);
        self.rows = items.into_iter().map(|item| with_old_status(item, &old)).collect();
        self.gathered = Gathering::Here;
        // until the server answers again
        self.insert_running(running);
    }

    /// Sets the models of the running Ollama.
    pub(super) fn running(&mut self, answer: Result<Vec<Arc<Item>>, String>) {
        let old = std::mem::take(&mut self.rows);
        let (old, others): (Vec<ModelRow>, Vec<ModelRow>) =
            old.into_iter().partition(|row| row.item.origin == ModelOrigin::Running);
        self.rows = others;
        match answer {
            Ok(items) => {
                self.insert_running(items.into_iter().map(|item| with_old_status(item, &old)).collect());
                self.gathered = Gathering::All;
            }
            Err(why) => self.gathered = Gathering::Refused(why),
        }
    }

    /// Inserts the models of a running Ollama before the catalogue.
    fn insert_running(&mut self, running: Vec<ModelRow>) {
        let at = self.rows.iter().position(|row| row.item.origin == ModelOrigin::Catalogue).unwrap_or(self.rows.len());
        self.rows.splice(at..at, running);
    }

    /// Updates a model's status, if `id` is the present survey.
    pub(super) fn model_planned(&mut self, id: u64, item: &Arc<Item>, status: ModelStatus) {
        let row = self.rows.iter_mut().find(|row| Arc::ptr_eq(&row.item, item));
        let Some(row) = row.filter(|_| id == self.id) else { return };
        if row.asked == id {
            row.status.learn(status);
        } else {
            (row.status, row.asked) = (status, id);
        }
    }

    /// Sets the survey request; the status of models under another one is out of date. Returns the id for its answers.
    pub(super) fn ask(&mut self, request: SurveyRequest) -> u64 {
        if self.request.as_ref() != Some(&request) {
            self.request = Some(request);
            self.id += 1;
        }
        self.id
    }

    /// The machine to survey with when the present one is `now`: the last one, unless memory has changed enough to
    /// matter in a list.
    pub(super) fn machine(&self, now: &Arc<Machine>) -> Arc<Machine> {
        let asked = self.request.as_ref().map(|request| &request.machine);
        Arc::clone(asked.filter(|asked| asked.is_nearly(now)).unwrap_or(now))
    }

    /// The present survey request.
    pub(super) fn request(&self) -> Option<SurveyRequest> {
        self.request.clone()
    }

    /// The models whose status is incomplete, ordered by distance from line `at`; none if all are complete.
    pub(super) fn wanted(&self, lines: &[BrowseLine], at: usize) -> Option<Vec<Arc<Item>>> {
        let mut near: Vec<(usize, usize)> = (0..self.rows.len()).map(|index| (usize::MAX, index)).collect();
        for (place, line) in lines.iter().enumerate() {
            if let BrowseLine::Model(index) = *line
                && let Some(near) = near.get_mut(index)
            {
                near.0 = place.abs_diff(at);
            }
        }
        near.sort_unstable();
        let rows = near.into_iter().filter_map(|(_, index)| self.rows.get(index));
        let open: Vec<_> = rows.filter(|row| self.is_open(row)).map(|row| Arc::clone(&row.item)).collect();
        (!open.is_empty()).then_some(open)
    }

    /// Number of models whose status is incomplete.
    pub fn open(&self) -> usize {
        self.rows.iter().filter(|row| self.is_open(row)).count()
    }

    /// Whether the status of `row` belongs to an earlier survey.
    pub const fn is_old(&self, row: &ModelRow) -> bool {
        row.asked != self.id
    }

    fn is_open(&self, row: &ModelRow) -> bool {
        self.is_old(row) || row.status.is_open()
    }
}

/// `item` with its earlier status, unless that is a failure, which may be temporary.
fn with_old_status(item: Arc<Item>, old: &[ModelRow]) -> ModelRow {
    let same = old.iter().find(|row| row.item.is(&item) && !matches!(row.status, ModelStatus::Failed(_)));
    same.cloned().unwrap_or(ModelRow { item, status: ModelStatus::Pending, asked: 0 })
}
