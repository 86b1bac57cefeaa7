//! The query of the open page, and the parts of its answer.

use super::advice::{AnswerState, BestPage, WhyPage};
use super::matrix::MatrixPage;
use super::{App, Mode};
use crate::tui::effect::Effect;
use crate::tui::query::{Query, QueryKind, QueryPart};

/// Ids of queries: no two queries have the same, whichever page or panel asks.
#[derive(Debug, Default)]
pub(super) struct QueryIds {
    last: u64,
    /// The query of the open page.
    page: u64,
}

impl QueryIds {
    /// An id that no query had.
    pub(super) const fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The same for the open page, which takes answers to no other.
    pub(super) const fn next_of_page(&mut self) -> u64 {
        self.page = self.next();
        self.page
    }
}

impl App {
    /// Asks the query of the open page again, for the present settings.
    pub(super) fn ask_for_page(&mut self) -> Vec<Effect> {
        let Some(of) = self.plan_request() else { return Vec::new() };
        let about = match &mut self.mode {
            Mode::Why(page) => {
                **page = WhyPage { layer: page.layer, scroll: page.scroll, ..WhyPage::default() };
                QueryKind::Changes(page.layer)
            }
            Mode::Best(page) => {
                **page = BestPage::default();
                QueryKind::Best(self.best_request())
            }
            Mode::Matrix(page) => {
                **page = MatrixPage::new(page.sides);
                QueryKind::Matrix(page.sides.0, page.sides.1)
            }
            Mode::Together(_) => {
                let page = self.loaded_models();
                let about = QueryKind::Together(page.models.iter().map(|model| model.plan_request.clone()).collect());
                self.mode = Mode::Together(Box::new(page));
                about
            }
            Mode::Export(_) => return self.update_export(),
            Mode::Sweep(page) => {
                page.points.clear();
                return self.ask_for_points();
            }
            _ => return Vec::new(),
        };
        vec![Effect::Ask(Box::new(Query { id: self.queries.next_of_page(), of, about }))]
    }

    /// Adds a part of an answer.
    pub(super) fn query_answered(&mut self, id: u64, part: QueryPart) {
        let fresh = id == self.queries.page;
        match (&mut self.mode, part) {
            (_, QueryPart::Cliffs(knob, cliffs)) => self.cliffs.learn(id, knob, cliffs),
            // the page has asked again since
            _ if !fresh => {}
            (Mode::Why(page), QueryPart::Remedies(remedies)) => page.remedies.extend(remedies),
            (Mode::Why(page), QueryPart::End) => page.progress = AnswerState::Done,
            (Mode::Best(page), QueryPart::Best(card)) => card.join(&mut page.cards),
            (Mode::Best(page), QueryPart::End) => page.progress = AnswerState::Done,
            (Mode::Together(page), QueryPart::Together(answer)) => page.answer = Some(answer),
            (Mode::Matrix(_), QueryPart::Axes(rows, columns)) => self.set_axes(rows, columns),
            (Mode::Matrix(page), QueryPart::Cell(cell)) => page.cells.push(*cell),
            (Mode::Matrix(page), QueryPart::End) => page.progress = AnswerState::Done,
            (Mode::Sweep(page), QueryPart::Point(point)) => drop(page.points.insert(point.value, point.figures)),
            // its page is closed
            _ => {}
        }
    }
}
