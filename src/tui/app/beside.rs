//! Another engine beside the one in force: the same model, machine and knobs.

use super::update::scrolled;
use super::{App, Mode};
use crate::engine::{self, Choice};
use crate::plan::Plan;
use crate::tui::action::Command;

/// The state of the page.
#[derive(Clone, Debug)]
pub struct Beside {
    /// The other engine.
    pub choice: Choice,
    /// Its plan, or why it makes none.
    pub plan: Result<Box<Plan>, String>,
    /// Lines that are scrolled away above.
    pub scroll: u16,
}

impl App {
    /// Opens the page with the next engine that is another one, whatever the release.
    pub(super) fn open_beside(&mut self) {
        let (choices, now) = (Choice::all(), self.choice());
        let here = choices.iter().position(|&choice| choice == now).unwrap_or(0);
        let mut others = choices.iter().cycle().skip(here + 1).take(choices.len());
        if let Some(&other) = others.find(|choice| choice.engine != now.engine) {
            self.put_beside(other, 0);
        }
    }

    /// Plans anew what stands beside, where something does.
    pub(super) fn renew_beside(&mut self) {
        if let Mode::Beside(page) = &self.mode {
            let (choice, scroll) = (page.choice, page.scroll);
            self.put_beside(choice, scroll);
        }
    }

    fn put_beside(&mut self, choice: Choice, scroll: u16) {
        let Some(model) = &self.model else {
            self.notice = Some("There is no plan yet: open a model with o.".to_owned());
            return;
        };
        let mut settings = self.settings.clone();
        let knobs = choice.engine.facts().knobs(&self.scene());
        self.aside.clone().hand_over(&mut settings, &self.knobs, &knobs);
        choice.apply(&mut settings);
        let plan = engine::plan(choice.engine, model, &self.machine, &settings);
        let plan = plan.map(Box::new).map_err(|error| error.to_string());
        self.mode = Mode::Beside(Box::new(Beside { choice, plan, scroll }));
    }

    pub(super) fn press_on_beside(&mut self, mut page: Box<Beside>, command: Command) {
        let others: Vec<Choice> = Choice::all().into_iter().filter(|&choice| choice != self.choice()).collect();
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
                self.mode = Mode::Beside(page);
                return;
            }
        };
        let choice = others.get(to).copied().unwrap_or(page.choice);
        self.put_beside(choice, page.scroll);
    }
}
