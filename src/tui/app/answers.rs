//! Questions to the engine that take longer than a key press, and the ids by which their answers are known.

use super::App;
use crate::tui::effect::Effect;
use crate::tui::query::{Query, QueryKind};

/// Whether an answer is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerState {
    /// More parts follow.
    #[default]
    Working,
    /// All parts have arrived.
    Done,
}

impl App {
    /// An id that no request had.
    pub(crate) const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Asks `about` the present settings, and sets `id`, by which the answer is known.
    pub(crate) fn query(&mut self, about: QueryKind, id: &mut u64) -> Vec<Effect> {
        let Some(of) = self.plan_request() else { return Vec::new() };
        *id = self.next_id();
        vec![Effect::Ask(Box::new(Query { id: *id, of, about }))]
    }
}
