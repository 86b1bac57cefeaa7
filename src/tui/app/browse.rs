//! The model browser: input, filters, sort order, the list, and what Enter opens.

mod order;
mod words;

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use tui_input::Input;

use super::App;
use super::library::{Gathering, Library, ModelRow, Pending};
use crate::library::{Item, SurveyRequest};
use crate::settings::{Context, Settings};
use crate::source::ExplicitKnobs;
use crate::tui::action::{Action, Command, Gesture};
use crate::tui::effect::{Effect, SurveyJob};
use crate::tui::keymap::Scope;
use crate::tui::regions::models::{self, ModelsRegions};
use crate::tui::screen::{Response, Screen, moved};
use crate::tui::view;
use crate::tui::widget::field::Text;

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

/// What Enter opens: a display name, and the reference.
pub(crate) type OpenTarget = (String, String);

impl ModelBrowser {
    /// The page as it opens: lists only local models if `here`.
    pub fn open(app: &mut App, here: bool) -> Self {
        app.library.open_on(&app.machine);
        let need = app.preferences.need;
        Self { only: BrowseFilter { here, ..BrowseFilter::default() }, need, due: Pending::List, ..Self::default() }
    }

    /// Whether the text is more likely a reference than a search.
    pub fn is_reference(&self) -> bool {
        let text = self.input.value().trim();
        text.contains(['/', '\\', ':', '@', '~']) || text.starts_with('.') || text.to_lowercase().ends_with(".gguf")
    }

    /// Marks the list as changed.
    const fn touch(&mut self) {
        self.due = Pending::List;
    }

    /// Rebuilds the list if needed. Returns whether its models must be surveyed in the new order.
    fn arrange(&mut self, library: &mut Library) -> bool {
        let due = library.take_due().max(std::mem::take(&mut self.due));
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
    pub(crate) fn edited(&mut self) {
        (self.wrong, self.none_here, self.at, self.held) = (None, false, 0, None);
        self.paths.clear();
        self.touch();
    }

    /// Sets the completions of the path `typed`.
    pub(crate) fn completed(&mut self, typed: &str, paths: Vec<String>) {
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
    pub(crate) fn turn(&mut self, command: Command, library: &Library) {
        self.wrong = None;
        match command {
            Command::Up | Command::Down | Command::PageUp | Command::PageDown | Command::First | Command::Last => {
                self.point_at(moved(self.at, self.lines.len(), 8, command), library)
            }
            _ => self.filter(command, library),
        }
    }

    /// Moves the cursor to line `at`.
    pub(crate) fn point_at(&mut self, at: usize, library: &Library) {
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
    pub(crate) fn sort_by(&mut self, sort: SortOrder) {
        (self.reversed, self.sort) = (self.sort == sort && !self.reversed, sort);
        self.touch();
    }

    /// What Enter opens.
    ///
    /// # Errors
    /// Why nothing can be opened.
    pub(crate) fn choice(&mut self, library: &Library) -> Result<OpenTarget, String> {
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

impl Screen for ModelBrowser {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Models, Scope::Everywhere]
    }

    fn missing(&self, _: &App) -> Option<&'static str> {
        None
    }

    /// Rebuilds the list, and surveys its models.
    fn refresh(&mut self, app: &mut App) -> Vec<Effect> {
        if !self.arrange(&mut app.library) {
            return Vec::new();
        }
        let settings = app.tag.tag_defaults.without(&app.settings);
        let machine = app.library.machine(&app.machine);
        let id = app.library.ask(SurveyRequest {
            engine: app.engine,
            machine,
            settings: Settings { ctx: self.need.map_or(settings.ctx, Context::Tokens), ..settings },
            held: ExplicitKnobs { ctx: app.tag.held.ctx || self.need.is_some(), ..app.tag.held },
            quant: None,
        });
        let asked = app.library.wanted(&self.lines, self.at).zip(app.library.request());
        asked.map(|(items, request)| Effect::Survey(Box::new(SurveyJob { id, items, request }))).into_iter().collect()
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        match command {
            Command::Back => return Response::CLOSE,
            Command::Complete => {
                return Response::Stay(vec![Effect::Complete { typed: self.input.value().to_owned() }]);
            }
            Command::Enter => match self.choice(&app.library) {
                Ok((name, reference)) => {
                    let effects = app.begin_load(name, reference);
                    app.loading.ctx = self.need;
                    return Response::Close(effects);
                }
                Err(wrong) => self.wrong = Some(wrong),
            },
            Command::UseAsDraft => match app.begin_draft(self) {
                Ok(effects) => return Response::Close(effects),
                Err(wrong) => self.wrong = Some(wrong),
            },
            Command::Renew => {
                app.library.renew();
                self.touch();
            }
            _ => self.turn(command, &app.library),
        }
        Response::STAY
    }

    fn accepts_text(&self) -> bool {
        true
    }

    fn text(&mut self, _: &mut App, text: Text<'_>) -> Response {
        if text.edit(&mut self.input) {
            self.edited();
        }
        Response::STAY
    }

    /// A press selects a model, or opens the selected one; on a column title it sorts, on a filter it toggles that.
    fn mouse(&mut self, app: &mut App, gesture: Gesture, at: Position) -> Response {
        let page = ModelsRegions::of(&app.regions);
        if gesture != Gesture::Down || !page.frame.contains(at) {
            return Response::Ignored;
        }
        let holds = |place: Rect| place.contains(at);
        if let Some((column, _)) = page.columns(page.head.y).into_iter().find(|(_, place)| holds(*place)) {
            self.sort_by(SortOrder::by(column));
            return Response::STAY;
        }
        let filters = self.filters();
        let places = models::filters(page.filters, filters.iter().map(Filter::cells));
        if let Some((filter, _)) = filters.iter().zip(places).find(|(_, place)| holds(*place)) {
            self.turn(filter.command, &app.library);
            return Response::STAY;
        }
        let page = page.below(self.messages(&app.library, page.list).len());
        if !holds(page.list) {
            return Response::STAY;
        }
        let line = page.first(self.at, self.lines.len()) + usize::from(at.y - page.list.y);
        if line == self.at {
            return self.press(app, Command::Enter);
        }
        if line < self.lines.len() {
            self.point_at(line, &app.library);
        }
        Response::STAY
    }

    fn answer(&mut self, _: &mut App, answer: Action) -> Vec<Effect> {
        if let Action::Completed { typed, paths } = answer {
            self.completed(&typed, paths);
        }
        Vec::new()
    }

    fn area(&self, app: &App) -> Rect {
        ModelsRegions::of(&app.regions).frame
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        view::models::draw(app, self, buffer);
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
