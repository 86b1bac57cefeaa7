//! The command that reopens a page of teaching.

use super::TeachScreen;
use crate::teach::Tab;
use crate::teach::lessons::own;
use crate::tui::app::App;
use crate::tui::effect::Effect;

impl TeachScreen {
    /// Copies the command that reopens the page: at its step, unless it is a step of what has been changed on the page.
    pub(super) fn copy(&self, app: &mut App) -> Vec<Effect> {
        // the reader's plan, while that of a lesson is set
        let yours = self.cursors.lessons.yours().filter(|_| self.tab == Tab::Lessons).cloned();
        let Some(asked) = yours.or_else(|| app.request.plan_request()) else { return Vec::new() };
        let as_opened = self.open().is_as_opened();
        let lesson = (self.tab == Tab::Lessons).then_some(self.cursors.lessons.at as u64);
        let step = self.open().step().filter(|_| as_opened);
        let counted = |(name, at): (&str, Option<u64>)| at.map(|at| [format!("--{name}"), (at + 1).to_string()]);
        let mut options = vec!["--page".to_owned(), self.tab.name().to_owned()];
        options.extend([("lesson", lesson), ("step", step)].into_iter().filter_map(counted).flatten());
        options.extend(own::folder().into_iter().flat_map(|folder| ["--lessons".to_owned(), folder.to_owned()]));
        let scenario = app.library.scenario_of(&asked);
        let mut copied = "Copied: the command that reopens this page.".to_owned();
        if !as_opened {
            copied += " What you changed on the page itself is not in it.";
        }
        for lost in &scenario.lost {
            copied.extend([" Not in it: ", lost, "."]);
        }
        app.notice = Some(copied);
        vec![Effect::Copy(scenario.opening(&options))]
    }
}
