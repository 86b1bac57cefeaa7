//! The models to choose from, and what is known of each so far.

use std::sync::Arc;

use super::browse::BrowseLine;
use crate::library::{Item, ModelOrigin, ModelStatus, SurveyRequest};
use crate::machine::Machine;

/// A model, and what is known of it.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ModelRow {
    pub item: Arc<Item>,
    /// What is known; of an earlier question while the answer to the present one is awaited.
    pub look: ModelStatus,
    /// The question that this answers.
    asked: u64,
}

/// Whether everybody who may have models was heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Gathering {
    /// Folders are being read.
    #[default]
    Nothing,
    /// The folders were; a running Ollama is being asked.
    Here,
    /// All were heard.
    All,
    /// The Ollama that was named does not tell its models.
    Refused(String),
}

/// The models. What is known of them stays while the page is closed.
#[derive(Debug, Default)]
pub struct Library {
    /// All of them, in the shelf's own order.
    pub rows: Vec<ModelRow>,
    /// Who was heard.
    pub gathered: Gathering,
    question: Option<SurveyRequest>,
    id: u64,
}

impl Library {
    /// Takes the models that are known at once; what was found out of those that were there before is kept.
    pub(super) fn models_listed(&mut self, items: Vec<Arc<Item>>) {
        let old = std::mem::take(&mut self.rows);
        let (running, old): (Vec<ModelRow>, Vec<ModelRow>) =
            old.into_iter().partition(|row| row.item.origin == ModelOrigin::Running);
        self.rows = items.into_iter().map(|item| known(item, &old)).collect();
        self.gathered = Gathering::Here;
        // until their Ollama answers again
        self.put(running);
    }

    /// Takes the models of the running Ollama.
    pub(super) fn running(&mut self, told: Result<Vec<Arc<Item>>, String>) {
        let old = std::mem::take(&mut self.rows);
        let (old, others): (Vec<ModelRow>, Vec<ModelRow>) =
            old.into_iter().partition(|row| row.item.origin == ModelOrigin::Running);
        self.rows = others;
        match told {
            Ok(items) => {
                self.put(items.into_iter().map(|item| known(item, &old)).collect());
                self.gathered = Gathering::All;
            }
            Err(why) => self.gathered = Gathering::Refused(why),
        }
    }

    /// Puts the models of a running Ollama before the catalogue.
    fn put(&mut self, running: Vec<ModelRow>) {
        let at = self.rows.iter().position(|row| row.item.origin == ModelOrigin::Catalogue).unwrap_or(self.rows.len());
        self.rows.splice(at..at, running);
    }

    /// Hears what became of one of them, if the question is still the same.
    pub(super) fn model_planned(&mut self, id: u64, item: &Arc<Item>, look: ModelStatus) {
        let row = self.rows.iter_mut().find(|row| Arc::ptr_eq(&row.item, item));
        let Some(row) = row.filter(|_| id == self.id) else { return };
        if row.asked == id {
            row.look.learn(look);
        } else {
            (row.look, row.asked) = (look, id);
        }
    }

    /// From now on, `question` is asked: what was found out with another one is out of date. Returns the number that
    /// answers are to bear.
    pub(super) fn ask(&mut self, question: SurveyRequest) -> u64 {
        if self.question.as_ref() != Some(&question) {
            self.question = Some(question);
            self.id += 1;
        }
        self.id
    }

    /// The machine that is asked about when the present one is `now`: the one that was asked about before, unless memory
    /// has moved far enough to be seen in a list.
    pub(super) fn machine(&self, now: &Arc<Machine>) -> Arc<Machine> {
        let asked = self.question.as_ref().map(|question| &question.machine);
        Arc::clone(asked.filter(|asked| asked.is_nearly(now)).unwrap_or(now))
    }

    /// What is asked of each.
    pub(super) fn question(&self) -> Option<SurveyRequest> {
        self.question.clone()
    }

    /// The models of which not everything is known, those on `lines` around `at` first; none where all is known.
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

    /// How many are not known yet.
    pub fn open(&self) -> usize {
        self.rows.iter().filter(|row| self.is_open(row)).count()
    }

    /// Whether what is known of `row` belongs to an earlier question.
    pub const fn is_old(&self, row: &ModelRow) -> bool {
        row.asked != self.id
    }

    fn is_open(&self, row: &ModelRow) -> bool {
        self.is_old(row) || row.look.is_open()
    }
}

/// `item` with what was found out of it before; a failure may have passed.
fn known(item: Arc<Item>, old: &[ModelRow]) -> ModelRow {
    let same = old.iter().find(|row| row.item.is(&item) && !matches!(row.look, ModelStatus::Failed(_)));
    same.cloned().unwrap_or(ModelRow { item, look: ModelStatus::Pending, asked: 0 })
}
