//! Compares the engine with another one for the same model, machine and settings.

use super::update::scrolled;
use super::{App, Mode};
use crate::engine::{self, EngineVersion};
use crate::plan::Plan;
use crate::speed::Speeds;
use crate::tui::action::Command;

/// The state of the page.
#[derive(Clone, Debug)]
pub struct EngineComparison {
    /// The other engine.
    pub choice: EngineVersion,
    /// Its plan, or why there is none.
    pub plan: Result<Box<Plan>, String>,
    /// Its speeds.
    pub speeds: Option<Speeds>,
    /// Scrolled lines.
    pub scroll: u16,
}

impl App {
    /// Opens the page with the next engine in the list, whatever its release.
    pub(super) fn open_engine_compare(&mut self) {
        let (choices, now) = (EngineVersion::all(), self.choice());
        let here = choices.iter().position(|&choice| choice == now).unwrap_or(0);
        let mut others = choices.iter().cycle().skip(here + 1).take(choices.len());
        if let Some(&other) = others.find(|choice| choice.engine != now.engine) {
            self.show_engine_compare(other, 0);
        }
    }

    /// Plans again for the open page.
    pub(super) fn update_engine_compare(&mut self) {
        if let Mode::EngineCompare(page) = &self.mode {
            let (choice, scroll) = (page.choice, page.scroll);
            self.show_engine_compare(choice, scroll);
        }
    }

    fn show_engine_compare(&mut self, choice: EngineVersion, scroll: u16) {
        let Some(model) = &self.model else {
            self.notice = Some("There is no plan yet: open a model with o.".to_owned());
            return;
        };
        let mut settings = self.settings.clone();
        let knobs = choice.engine.facts().knobs(&self.knob_context());
        self.knobs.stashed.clone().switch_knobs(&mut settings, &self.knobs.offered, &knobs);
        choice.apply(&mut settings);
        let plan = engine::plan(choice.engine, model, &self.machine, &settings);
        let plan = plan.map(Box::new).map_err(|error| error.to_string());
        let speeds = plan.as_ref().ok().and_then(|plan| Speeds::of(model, &self.machine, plan, 0));
        self.mode = Mode::EngineCompare(Box::new(EngineComparison { choice, plan, speeds, scroll }));
    }

    pub(super) fn press_on_engine_compare(&mut self, mut page: Box<EngineComparison>, command: Command) {
        let others: Vec<EngineVersion> =
            EngineVersion::all().into_iter().filter(|&choice| choice != self.choice()).collect();
        let at = others.iter().position(|&choice| choice == page.choice).unwrap_or(0);
        let to = match command {
            Command::Back => return,
            Command::Help => {
                self.mode = Mode::Help(0);
                return;
            }
            Command::Enter => {
                self.choose(page.choice);
                return;
            }
            Command::Less => at.saturating_sub(1),
            Command::More => at + 1,
            _ => {
                page.scroll = scrolled(page.scroll, command);
                self.mode = Mode::EngineCompare(page);
                return;
            }
        };
        let choice = others.get(to).copied().unwrap_or(page.choice);
        self.show_engine_compare(choice, page.scroll);
    }
}
