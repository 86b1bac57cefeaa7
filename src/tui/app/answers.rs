//! The question of the page in front, and the parts of its answer as they come.

use super::advice::{Because, Best, Progress};
use super::matrix::Grid;
use super::{App, Mode};
use crate::tui::effect::Effect;
use crate::tui::inquiry::{About, Inquiry, Part};

impl App {
    /// Puts the question of the page in front anew: about the present situation, from the beginning.
    pub(super) fn ask_for_page(&mut self) -> Vec<Effect> {
        let Some(of) = self.situation() else { return Vec::new() };
        let about = match &mut self.mode {
            Mode::Because(page) => {
                **page = Because { layer: page.layer, scroll: page.scroll, ..Because::default() };
                About::Changes(page.layer)
            }
            Mode::Best(page) => {
                **page = Best::default();
                About::Best(self.knobs.held.clone())
            }
            Mode::Matrix(page) => {
                **page = Grid::new(page.sides);
                About::Matrix(page.sides.0, page.sides.1)
            }
            Mode::Together(_) => {
                let page = self.household();
                let about = About::Together(page.guests.iter().map(|guest| guest.situation.clone()).collect());
                self.mode = Mode::Together(Box::new(page));
                about
            }
            Mode::Export(_) => return self.renew_form(),
            Mode::Sweep(page) => {
                page.points.clear();
                return self.ask_for_points();
            }
            _ => return Vec::new(),
        };
        self.inquiry_id += 1;
        vec![Effect::Ask(Box::new(Inquiry { id: self.inquiry_id, of, about }))]
    }

    /// Takes a part of an answer.
    pub(super) fn answered(&mut self, id: u64, part: Part) {
        let fresh = id == self.inquiry_id;
        match (&mut self.mode, part) {
            (_, Part::Cliffs(knob, cliffs)) => self.cliffs.learn(id, knob, cliffs),
            // of something newer than what is in front
            _ if !fresh => {}
            (Mode::Because(page), Part::Offers(offers)) => page.offers.extend(offers),
            (Mode::Because(page), Part::End) => page.progress = Progress::Done,
            (Mode::Best(page), Part::Best(wish, found)) => page.found.push((wish, found)),
            (Mode::Best(page), Part::End) => page.progress = Progress::Done,
            (Mode::Together(page), Part::Together(answer)) => page.answer = Some(answer),
            (Mode::Matrix(_), Part::Axes(rows, columns)) => self.learn_axes(rows, columns),
            (Mode::Matrix(page), Part::Cell(cell)) => page.cells.push(*cell),
            (Mode::Matrix(page), Part::End) => page.progress = Progress::Done,
            (Mode::Sweep(page), Part::Point(point)) => drop(page.points.insert(point.value, point.outcome)),
            // of a page that is closed
            _ => {}
        }
    }
}
