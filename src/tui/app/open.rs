//! Choosing a model: a path that is typed, or one of those on this computer.

use std::path::PathBuf;

use tui_input::Input;

use crate::tui::action::{Command, Listing};
use crate::tui::effect::Effect;

/// The models on this computer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Folders are being read.
    Looking,
    /// These; none, perhaps.
    Models(Vec<Listing>),
}

/// The state of the page.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Open {
    pub input: Input,
    pub found: Found,
    /// What could follow the path.
    pub paths: Vec<String>,
    /// Index into the models that match, or into `paths` while a path is typed.
    pub at: usize,
    /// Why nothing was opened.
    pub wrong: Option<String>,
}

impl Open {
    pub(super) fn new() -> Self {
        Self { input: Input::default(), found: Found::Looking, paths: Vec::new(), at: 0, wrong: None }
    }

    /// The text is a path, not a search among the models.
    pub fn is_path(&self) -> bool {
        let text = self.input.value();
        text.starts_with(['/', '~', '.', '\\']) || text.contains('/') || text.get(1..2) == Some(":")
    }

    /// The models whose name or store holds what was typed.
    pub fn matching(&self) -> Vec<&Listing> {
        let wanted = self.input.value().trim().to_lowercase();
        let Found::Models(models) = &self.found else { return Vec::new() };
        let holds = |listing: &&Listing| {
            wanted.is_empty()
                || listing.name.to_lowercase().contains(&wanted)
                || listing.store.to_lowercase().contains(&wanted)
        };
        models.iter().filter(holds).collect()
    }

    pub(super) fn listed(&mut self, listings: Vec<Listing>) {
        self.found = Found::Models(listings);
    }

    pub(super) fn completed(&mut self, typed: &str, paths: Vec<String>) {
        if typed != self.input.value() {
            return;
        }
        let longer = common_start(&paths);
        if longer.len() > typed.len() && longer.starts_with(typed) {
            self.input = Input::new(longer.to_owned());
        }
        self.at = 0;
        self.paths = paths;
    }

    pub(super) fn edited(&mut self) -> Vec<Effect> {
        (self.wrong, self.at) = (None, 0);
        self.paths.clear();
        Vec::new()
    }

    pub(super) fn moved(&mut self, command: Command) {
        let count = if self.is_path() { self.paths.len() } else { self.matching().len() };
        let last = count.saturating_sub(1);
        self.wrong = None;
        self.at = match command {
            Command::Up => self.at.saturating_sub(1),
            Command::Down => (self.at + 1).min(last),
            Command::PageUp => self.at.saturating_sub(8),
            Command::PageDown => (self.at + 8).min(last),
            _ => self.at,
        };
    }

    /// What Enter opens: a name for people and a path.
    pub(super) fn chosen(&mut self) -> Result<(String, PathBuf), String> {
        if self.is_path() {
            if let Some(path) = self.paths.get(self.at).filter(|path| path.as_str() != self.input.value()) {
                self.input = Input::new(path.clone());
            }
            let path = self.input.value().trim().to_owned();
            if path.ends_with('/') {
                return Err(format!("{path} is a folder: press Tab to see what is in it."));
            }
            let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
            return Ok((name, PathBuf::from(path)));
        }
        match self.matching().get(self.at) {
            Some(Listing { name, file: Ok((path, _)), .. }) => Ok((name.clone(), path.clone())),
            Some(Listing { name, file: Err(why), .. }) => Err(format!("{name} cannot be opened: {why}")),
            None if self.input.value().is_empty() => Err("Type the path of a .gguf file.".to_owned()),
            None => {
                let text = self.input.value().trim().to_owned();
                Ok((text.clone(), PathBuf::from(text)))
            }
        }
    }
}

/// The longest text that all of `paths` begin with.
fn common_start(paths: &[String]) -> &str {
    let Some(first) = paths.first() else { return "" };
    let mut end = first.len();
    for path in paths {
        let same = first.bytes().zip(path.bytes()).take_while(|(a, b)| a == b).count();
        end = end.min(same);
    }
    while !first.is_char_boundary(end) {
        end -= 1;
    }
    &first[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_goes_as_far_as_all_agree() {
        let paths = ["/models/äb.gguf".to_owned(), "/models/äc.gguf".to_owned()];
        assert_eq!(common_start(&paths), "/models/ä");
        assert_eq!(common_start(&["/é".to_owned(), "/è".to_owned()]), "/", "never half a letter");
        assert_eq!(common_start(&[]), "");
    }
}
