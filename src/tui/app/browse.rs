//! The model browser: input, filters, sort order, the list, and what Enter opens.

mod order;
mod words;

use std::sync::Arc;

use tui_input::Input;

use super::library::{Gathering, Library, ModelRow};
use crate::library::Item;
use crate::tui::action::Command;

pub use order::{BrowseFilter, SortOrder};
pub use words::Filter;

/// Contexts to judge by.
const CONTEXTS: [u64; 5] = [8192, 16_384, 32_768, 65_536, 131_072];

/// A line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrowseLine {
    /// The typed text, as a reference.
    Typed,
    /// A completion of the typed path: an index into [`ModelBrowser::paths`].
    Path(usize),
    /// A model: an index into [`Library::rows`].
    Model(usize),
}

/// The state of the page.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ModelBrowser {
    pub input: Input,
    /// Completions of the typed path.
    pub paths: Vec<String>,
    pub sort: SortOrder,
    pub reversed: bool,
    pub only: BrowseFilter,
    /// The context that models are judged by, in tokens; none for the planner's.
    pub need: Option<u64>,
    /// The listed lines.
    pub lines: Vec<BrowseLine>,
    /// Index into `lines`.
    pub at: usize,
    /// Number of models that match the search but are filtered out.
    pub hidden: usize,
    /// Why nothing could be opened.
    pub wrong: Option<String>,
    /// The filter for local models was set, but there are none; all models are listed instead.
    pub none_here: bool,
    /// The selected model, once the cursor was moved; the cursor follows it when the list is reordered.
    held: Option<Arc<Item>>,
    due: Pending,
}

/// What is to be done to the list before the next drawing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Pending {
    #[default]
    Nothing,
    /// The status of a model changed: sort again.
    Order,
    /// Other models are listed, or in another order; a survey starts with those in view.
    List,
}

/// What Enter opens: a display name, and the reference.
pub(super) type OpenTarget = (String, String);

impl ModelBrowser {
    /// The page as it opens: lists only local models if `here`, and judges by the context `need`.
    pub(super) fn new(here: bool, need: Option<u64>) -> Self {
        Self { only: BrowseFilter { here, ..BrowseFilter::default() }, need, due: Pending::List, ..Self::default() }
    }

    /// Whether the text is more likely a reference than a search.
    pub fn is_reference(&self) -> bool {
        let text = self.input.value().trim();
        text.contains(['/', '\\', ':', '@', '~']) || text.starts_with('.') || text.to_lowercase().ends_with(".gguf")
    }

    /// Marks the list as changed.
    pub(super) const fn touch(&mut self) {
        self.due = Pending::List;
    }

    /// Notes that a model's status changed.
    pub(super) fn learn(&mut self) {
        self.due = self.due.max(Pending::Order);
    }

    /// Rebuilds the list if needed. Returns whether its models must be surveyed in the new order.
    pub(super) fn arrange(&mut self, library: &Library) -> bool {
        let due = std::mem::take(&mut self.due);
        if due == Pending::Nothing {
            return false;
        }
        self.clear_local_filter_if_empty(library);
        let text = self.input.value().trim();
        let models = order::arranged(&library.rows, text, (self.sort, self.reversed), &self.only, self.need);
        self.hidden = if self.only.any() {
            order::arranged(&library.rows, text, (self.sort, false), &BrowseFilter::default(), None).len()
                - models.len()
        } else {
            0
        };
        self.lines =
            (0..self.paths.len()).map(BrowseLine::Path).chain(models.into_iter().map(BrowseLine::Model)).collect();
        match (text.is_empty(), self.is_reference() && self.paths.is_empty()) {
            (true, _) => {}
            (_, true) => self.lines.insert(0, BrowseLine::Typed),
            _ => self.lines.push(BrowseLine::Typed),
        }
        let held = self.held.as_ref().and_then(|held| {
            let is_locked = |row: &ModelRow| Arc::ptr_eq(&row.item, held);
            let at = |line: &BrowseLine| matches!(line, BrowseLine::Model(index) if library.rows.get(*index).is_some_and(is_locked));
            self.lines.iter().position(at)
        });
        self.at = held.unwrap_or(self.at).min(self.lines.len().saturating_sub(1));
        due == Pending::List
    }

    /// Turns off the filter for local models if there are none.
    fn clear_local_filter_if_empty(&mut self, library: &Library) {
        let none = library.gathered != Gathering::Nothing && !library.rows.iter().any(order::is_here);
        self.none_here = none && (self.none_here || self.only.here);
        self.only.here &= !none;
    }

    /// The selected model and its status.
    pub fn chosen<'s>(&self, library: &'s Library) -> Option<&'s ModelRow> {
        match self.lines.get(self.at) {
            Some(BrowseLine::Model(index)) => library.rows.get(*index),
            _ => None,
        }
    }

    /// Called after the text changed.
    pub(super) fn edited(&mut self) {
        (self.wrong, self.none_here, self.at, self.held) = (None, false, 0, None);
        self.paths.clear();
        self.touch();
    }

    /// Sets the completions of the path `typed`.
    pub(super) fn completed(&mut self, typed: &str, paths: Vec<String>) {
        if typed != self.input.value() {
            return;
        }
        let longer = common_prefix(&paths);
        if longer.len() > typed.len() && longer.starts_with(typed) {
            self.input = Input::new(longer.to_owned());
        }
        if paths.is_empty() {
            self.wrong = Some(format!("No folder or .gguf file starts with {typed}"));
        }
        self.paths = paths;
        // a path that is complete needs no list
        self.paths.retain(|path| path != self.input.value());
        (self.at, self.held) = (0, None);
        self.touch();
    }

    /// Moves the cursor, sorts or filters.
    pub(super) fn turn(&mut self, command: Command, library: &Library) {
        const PAGE: usize = 8;
        self.wrong = None;
        let last = self.lines.len().saturating_sub(1);
        let at = match command {
            Command::Up => self.at.saturating_sub(1),
            Command::Down => (self.at + 1).min(last),
            Command::PageUp => self.at.saturating_sub(PAGE),
            Command::PageDown => (self.at + PAGE).min(last),
            Command::First => 0,
            Command::Last => last,
            _ => return self.filter(command, library),
        };
        self.point_at(at, library);
    }

    /// Moves the cursor to line `at`.
    pub(super) fn point_at(&mut self, at: usize, library: &Library) {
        self.at = at.min(self.lines.len().saturating_sub(1));
        self.held = self.chosen(library).map(|row| Arc::clone(&row.item));
    }

    fn filter(&mut self, command: Command, library: &Library) {
        match command {
            Command::Sort => self.sort_by(self.sort.next()),
            Command::Reverse => self.reversed = !self.reversed,
            Command::OnlyFitting => self.only.next_fit(),
            Command::OnlyKind => self.only.next_kind(),
            Command::OnlyModality => self.only.next_modality(),
            Command::JudgeBy => {
                let next = CONTEXTS.iter().find(|&&tokens| self.need.is_none_or(|need| tokens > need));
                self.need = next.copied();
            }
            Command::OnlyHere => self.only.here = !self.only.here,
            Command::OnlyFamily => {
                let family = self.chosen(library).map(|row| row.item.family()).filter(|_| self.only.family.is_none());
                self.only.family = family;
            }
            _ => return,
        }
        self.touch();
    }

    /// Sorts by `sort`; reverses the order if that is set already.
    pub(super) fn sort_by(&mut self, sort: SortOrder) {
        (self.reversed, self.sort) = (self.sort == sort && !self.reversed, sort);
        self.touch();
    }

    /// What Enter opens.
    ///
    /// # Errors
    /// Why nothing can be opened.
    pub(super) fn choice(&mut self, library: &Library) -> Result<OpenTarget, String> {
        let text = self.input.value().trim().to_owned();
        match self.lines.get(self.at) {
            Some(BrowseLine::Model(index)) => {
                let Some(row) = library.rows.get(*index) else { return Err("It no longer exists.".to_owned()) };
                let item = &row.item;
                match item.on_disk() {
                    Some(Err(why)) => Err(format!("{} cannot be opened: {why}", item.name)),
                    _ => Ok((item.name.clone(), item.reference_in(row.status.plan().map(AsRef::as_ref)))),
                }
            }
            Some(BrowseLine::Path(index)) => {
                let path = self.paths.get(*index).cloned().unwrap_or(text);
                self.input = Input::new(path.clone());
                self.edited();
                by_reference(path)
            }
            Some(BrowseLine::Typed) => by_reference(text),
            None => Err("Type a name, a path or an address.".to_owned()),
        }
    }
}

fn by_reference(text: String) -> Result<OpenTarget, String> {
    if text.ends_with('/') && !text.contains("://") {
        return Err(format!("{text} is a folder: press Tab to see what is in it."));
    }
    let name = text.trim_end_matches('/').rsplit('/').next().unwrap_or(&text).to_owned();
    Ok((name, text))
}

/// The longest common prefix of `paths`.
fn common_prefix(paths: &[String]) -> &str {
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
    fn completion_stops_at_the_common_prefix() {
        let paths = ["/models/äb.gguf".to_owned(), "/models/äc.gguf".to_owned()];
        assert_eq!(common_prefix(&paths), "/models/ä");
        assert_eq!(common_prefix(&["/é".to_owned(), "/è".to_owned()]), "/", "never half a letter");
        assert_eq!(common_prefix(&[]), "");
    }

    #[test]
    fn references_are_distinguished_from_searches() {
        let page = |text: &str| ModelBrowser { input: Input::new(text.to_owned()), ..ModelBrowser::default() };
        for text in ["llama3.1:8b", "hf://o/r", "./x", "~/x", "x.GGUF", "qwen3-8b@q8_0", "https://h/x", "o/m"] {
            assert!(page(text).is_reference(), "{text}");
        }
        for text in ["qwen", "qwen 8b", "llama3.1", ""] {
            assert!(!page(text).is_reference(), "{text}");
        }
    }
}
