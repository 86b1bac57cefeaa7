//! A repository on Hugging Face that is listed from the typed reference.

use tui_input::Input;

use super::ModelBrowser;
use crate::answer::verdict;
use crate::library::RepositoryList;
use crate::source;
use crate::text::one_line;
use crate::tui::app::library::Library;
use crate::tui::effect::Effect;

/// A repository on Hugging Face that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Asked {
    /// None, or it is listed.
    #[default]
    Nothing,
    /// What was typed; the answer is awaited.
    Waiting(String),
    /// It is listed, and this is to be said of it.
    Said(String),
}

impl Asked {
    /// What is to be said above the list.
    pub(super) fn sentence(&self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Waiting(typed) => Some(format!("Asking for the files of {typed}…")),
            Self::Said(note) => Some(format!("{}.", verdict::capitalised(note))),
        }
    }
}

impl ModelBrowser {
    /// Completes the typed path, or lists the typed repository.
    pub(super) fn complete(&mut self) -> Vec<Effect> {
        let typed = self.input.value().to_owned();
        let reference = typed.trim().to_owned();
        if !source::is_repository(&reference) {
            return vec![Effect::Complete { typed }];
        }
        (self.wrong, self.asked) = (None, Asked::Waiting(reference.clone()));
        vec![Effect::ListRepository { typed: reference }]
    }

    /// Sets the models of the repository `typed`, unless something else was typed since.
    pub(super) fn listed(&mut self, typed: &str, answer: Result<Box<RepositoryList>, String>, library: &mut Library) {
        if self.asked != Asked::Waiting(typed.to_owned()) {
            return;
        }
        match answer {
            Ok(list) => {
                // the names of its models begin with it
                self.input = Input::new(list.search);
                self.edited();
                self.asked = list.notes.last().map_or(Asked::Nothing, |note| Asked::Said(one_line(note).into_owned()));
                library.repository_listed(list.items);
                // the first model, not the typed text
                self.at = 1;
            }
            Err(why) => (self.asked, self.wrong) = (Asked::Nothing, Some(why)),
        }
    }
}
