//! The model browser: input, list, and a preview of the selected model.
//!
//! ```text
//! ╭▸Models ─ 31 of 152 ────────────────────────── Ollama ≥ 0.30 · RTX 3090 ╮
//! │ › qwen 8b                                                        field │
//! │ ^F ○ fits  ^X ○ experts  ^N context: 64k  ^L ○ local  …      filters │
//! │ name            where      params  quant    size  verdict   fits  head │
//! │ ▸ qwen3:8b      Ollama      8.2 B  Q4_K_M 4.7 GiB ✓ GPU      72k  list │
//! │   qwen3-32b     catalogue  32.8 B  Q4_K_M 18 GiB  ▲ 92 %     (9k)      │
//! │─ Qwen3 8B ─────────────────────────────────────────────────────────────│
//! │ ████████████████████████████████████████████████████████ █     preview │
//! ╰────────────────────────────────────────────────────────────────────────╯
//! ```

mod filters;
mod list;
mod order;
mod preview;
mod repository;

use std::sync::Arc;

use filters::BrowseFilter;
use list::ListColumn;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Margin, Position, Rect};
use repository::Asked;
use tui_input::Input;

use crate::command;
use crate::engine::PlanRequest;
use crate::library::Item;
use crate::settings::knob::Knob;
use crate::source;
use crate::tui::action::{Action, Command, Gesture};
use crate::tui::app::App;
use crate::tui::app::library::{Gathering, Library, ModelRow, Pending};
use crate::tui::effect::Effect;
use crate::tui::keymap::Scope;
use crate::tui::pasted::{Pasted, PastedKind};
use crate::tui::regions::Regions;
use crate::tui::screen::{Response, Screen, moved};
use crate::tui::screens::help::HelpPage;
use crate::tui::screens::need::NeedPage;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::field::{self, Text};
use crate::tui::widget::list::ListRows;
use crate::tui::widget::row_writer::{RowWriter, sentence, width, wrap};
use crate::tui::widget::{list as rows, panel};

/// Contexts to judge by, those that agents and long documents ask for; a shorter one is the planner's knob.
const CONTEXTS: [u64; 4] = [32_768, 65_536, 131_072, 262_144];

/// Minimum rows of a list that leaves room for long messages.
const ROOMY: u16 = 16;

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
pub struct ModelBrowser {
    /// The typed text.
    pub input: Input,
    /// Completions of the typed path.
    pub paths: Vec<String>,
    sort: ListColumn,
    reversed: bool,
    only: BrowseFilter,
    /// It was opened for local models.
    for_local: bool,
    /// The context that models are judged by, in tokens; none for the planner's.
    need: Option<u64>,
    /// The listed lines.
    pub lines: Vec<BrowseLine>,
    /// Index into `lines`.
    pub at: usize,
    /// Number of models that match the search but are filtered out.
    hidden: usize,
    /// Why nothing could be opened.
    pub wrong: Option<String>,
    /// The repository that was asked for.
    asked: Asked,
    /// The filter for local models was set, but there are none; all models are listed instead.
    none_here: bool,
    /// The selected model, once the cursor was moved; the cursor follows it when the list is reordered.
    held: Option<Arc<Item>>,
    due: Pending,
}

/// What Enter opens: a display name, and the reference.
pub(crate) type OpenTarget = (String, String);

impl ModelBrowser {
    /// The page as it opens, sorted and filtered as `before`: lists only local models if `for_local`.
    pub fn open(app: &mut App, before: Option<&Self>, for_local: bool) -> Self {
        app.library.open_on(&app.request.machine);
        let due = Pending::List;
        let Some(before) = before else {
            let only = BrowseFilter { here: for_local, ..BrowseFilter::default() };
            return Self { only, need: app.preferences.need, for_local, due, ..Self::default() };
        };
        let &Self { sort, reversed, need, .. } = before;
        let here = for_local || before.only.here && !before.for_local;
        let only = BrowseFilter { here, ..before.only.clone() };
        Self { sort, reversed, only, for_local, need, due, ..Self::default() }
    }

    /// Whether the text is more likely a reference than a search.
    fn is_reference(&self) -> bool {
        let text = self.input.value().trim();
        text.contains(['/', '\\', ':', '@', '~']) || text.starts_with('.') || text.to_lowercase().ends_with(".gguf")
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
        let all = || order::arranged(&library.rows, text, (self.sort, false), &BrowseFilter::default(), None).len();
        self.hidden = if self.only.any() { all() - models.len() } else { 0 };
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
        let none = library.gathered != Gathering::Nothing && !library.rows.iter().any(filters::is_here);
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

    /// The request that the status of the selected model answers.
    ///
    /// # Errors
    /// Why there is none, in a sentence.
    fn request_of_chosen(&self, app: &App) -> Result<PlanRequest, &'static str> {
        let row = self.chosen(&app.library).ok_or("Select a model first.")?;
        let known = row.status.plan().filter(|_| !app.library.is_old(row));
        let plan = known.ok_or("It has no plan yet.")?;
        app.library.request_of(&row.item, plan).ok_or("It cannot be opened.")
    }

    /// Called after the text changed.
    fn edited(&mut self) {
        (self.wrong, self.none_here, self.at, self.held) = (None, false, 0, None);
        self.asked = Asked::Nothing;
        self.paths.clear();
        self.due = Pending::List;
    }

    /// Sets the completions of the path `typed`.
    fn completed(&mut self, typed: &str, paths: Vec<String>) {
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
        self.due = Pending::List;
    }

    /// Moves the cursor, sorts or filters.
    fn turn(&mut self, command: Command, library: &Library) {
        self.wrong = None;
        match command {
            Command::Up | Command::Down | Command::PageUp | Command::PageDown | Command::First | Command::Last => {
                self.point_at(moved(self.at, self.lines.len(), 8, command), library);
            }
            _ => self.filter(command, library),
        }
    }

    /// Moves the cursor to line `at`.
    fn point_at(&mut self, at: usize, library: &Library) {
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
            Command::OnlyUse => self.only.next_use(),
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
        self.due = Pending::List;
    }

    /// Sorts by `sort`; reverses the order if that is set already.
    fn sort_by(&mut self, sort: ListColumn) {
        (self.reversed, self.sort) = (self.sort == sort && !self.reversed, sort);
        self.due = Pending::List;
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

    /// Loads the selected model as a draft.
    ///
    /// # Errors
    /// Why it cannot be one, in a sentence.
    fn begin_draft(&mut self, app: &mut App) -> Result<Vec<Effect>, String> {
        let Some(open) = &app.request.model else {
            return Err("Open a model first: a draft works for another model.".to_owned());
        };
        if !app.request.engine.facts().offers(Knob::Draft) {
            let engine = app.request.engine.title();
            return Err(format!("{engine} does not take a draft from here: choose llama.cpp with e in the planner."));
        }
        let (name, reference) = self.choice(&app.library)?;
        if let Some(known) = self.chosen(&app.library).and_then(|row| row.item.known()) {
            open.drafted_by(&known.model).map_err(|why| format!("{why}."))?;
        }
        let effects = app.library.loading.begin(name, reference);
        app.library.loading.as_draft = true;
        Ok(effects)
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
        let near = |(place, line): (usize, &BrowseLine)| match line {
            BrowseLine::Model(index) => Some((place.abs_diff(self.at), *index)),
            _ => None,
        };
        app.library.survey(
            &app.request,
            app.preferences.minimums,
            self.need,
            self.lines.iter().enumerate().filter_map(near),
        )
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        // a command is about what was typed before it, also where nothing was drawn since
        if self.due == Pending::List {
            self.arrange(&mut app.library);
            self.due = Pending::List;
        }
        match command {
            Command::Back => return Response::CLOSE,
            Command::Complete => return Response::Stay(self.complete()),
            Command::Enter
                if self.lines.get(self.at) == Some(&BrowseLine::Typed) && command::is_one(self.input.value()) =>
            {
                let started = command::read(self.input.value());
                return Response::Close(app.take_command(started));
            }
            Command::Enter => match self.choice(&app.library) {
                Ok((name, reference)) => {
                    let effects = app.library.loading.begin(name, reference);
                    app.library.loading.ctx = self.need;
                    return Response::Close(effects);
                }
                Err(wrong) => self.wrong = Some(wrong),
            },
            Command::UseAsDraft => match self.begin_draft(app) {
                Ok(effects) => return Response::Close(effects),
                Err(wrong) => self.wrong = Some(wrong),
            },
            Command::CopyPull => {
                let plan = |row: &ModelRow| row.item.pull(row.status.plan().map(AsRef::as_ref));
                match self.chosen(&app.library).map(plan) {
                    Some(Some(pull)) => {
                        app.notice = Some(format!("Copied: {pull}"));
                        return Response::Stay(vec![Effect::Copy(pull)]);
                    }
                    Some(None) => self.wrong = Some("No place is known that has it in this quantisation.".to_owned()),
                    None => self.wrong = Some("Select a model first.".to_owned()),
                }
            }
            Command::Need => match self.request_of_chosen(app) {
                Ok(of) => return NeedPage::over(app, of),
                Err(wrong) => self.wrong = Some(wrong.to_owned()),
            },
            Command::Help => return Response::Ignored,
            Command::Renew => {
                app.library.renew();
                self.due = Pending::List;
            }
            _ => self.turn(command, &app.library),
        }
        Response::STAY
    }

    fn accepts_text(&self) -> bool {
        true
    }

    fn goes_on(&self) -> bool {
        true
    }

    fn text(&mut self, app: &mut App, text: Text<'_>) -> Response {
        if self.input.value().is_empty() && matches!(text, Text::Typed(key) if key.code == KeyCode::Char('?')) {
            return Response::over(HelpPage::of(self.scopes()));
        }
        if let Text::Pasted(Pasted { what: PastedKind::Command(started), .. }) = text {
            return Response::Close(app.take_command(started.clone()));
        }
        if text.edit(&mut self.input) {
            self.edited();
        }
        Response::STAY
    }

    /// A press selects a model, or opens the selected one; on a column title it sorts, on a filter it toggles that.
    fn mouse(&mut self, app: &mut App, gesture: Gesture, at: Position) -> Response {
        let page = ModelsRegions::of(&app.panels.regions);
        if gesture != Gesture::Down || !page.frame.contains(at) {
            return Response::Ignored;
        }
        let columns = ListColumn::within(page.head);
        if let Some((column, _)) = columns.into_iter().find(|(_, place)| place.contains(at)) {
            self.sort_by(column);
        } else if let Some(command) = self.filter_at(page.filters, at) {
            self.turn(command, &app.library);
        } else if let Some(line) = self.list(page.list, self.messages(&app.library, page.list).len()).row_at(at) {
            if line == self.at {
                return self.press(app, Command::Enter);
            }
            self.point_at(line, &app.library);
        }
        Response::STAY
    }

    fn answer(&mut self, app: &mut App, answer: Action) -> Response {
        match answer {
            Action::Completed { typed, paths } => self.completed(&typed, paths),
            Action::RepositoryListed { typed, answer } => self.listed(&typed, answer, &mut app.library),
            _ => {}
        }
        Response::STAY
    }

    fn area(&self, app: &App) -> Rect {
        ModelsRegions::of(&app.panels.regions).frame
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        let (theme, page) = (app.theme, ModelsRegions::of(&app.panels.regions));
        panel::overlay(buffer, page.frame, "Models", &self.right_title(app), theme);
        let hints = ["type or paste a name, a path, hf://owner/repo or a URL", "type a name, a path or a URL"];
        let hint = hints.into_iter().find(|hint| width(hint) + 3 < page.field.width).unwrap_or_default();
        field::draw(&self.input, hint, page.field, theme, buffer);
        self.draw_filters(page.filters, theme, buffer);
        list::head(self, app.library.depth(), page.head, theme, buffer);
        let messages = self.messages(&app.library, page.list);
        let ink = if self.wrong.is_some() { theme.bold(Hue::Over) } else { theme.ink(Hue::Cache) };
        for (row, line) in (0..).zip(&messages) {
            RowWriter::new(buffer, page.list, row).put(line, ink);
        }
        let list = self.list(page.list, messages.len());
        if self.lines.is_empty() {
            sentence(self.empty(app), list.area, theme.ink(Hue::Dim), buffer);
        }
        for (place, at) in list.rows() {
            let chosen = at == self.at;
            match self.lines.get(at) {
                Some(BrowseLine::Model(index)) => {
                    if let Some(row) = app.library.rows.get(*index) {
                        let state = (app.library.is_old(row), self.need);
                        list::draw(row, state, place, chosen, theme, buffer);
                    }
                }
                Some(BrowseLine::Path(index)) => {
                    let path = self.paths.get(*index).map(String::as_str).unwrap_or_default();
                    draw_text(place, chosen, path, "", theme, buffer);
                }
                Some(BrowseLine::Typed) => {
                    let text = self.input.value().trim();
                    let is_repository = source::is_repository(text);
                    let hint = if is_repository {
                        "open, or Tab to list its files"
                    } else {
                        "open: locally, else from a server"
                    };
                    draw_text(place, chosen, text, hint, theme, buffer);
                }
                None => {}
            }
        }
        preview::draw(app, self, page.preview, buffer);
    }
}

impl ModelBrowser {
    /// The list in `area`, below as many rows of messages.
    fn list(&self, area: Rect, messages: usize) -> ListRows {
        let above = (messages.min(usize::from(u16::MAX)) as u16).min(area.height);
        let below = Rect { y: area.y + above, height: area.height - above, ..area };
        ListRows::around(self.at, self.lines.len(), below)
    }

    /// How many models are listed, how many there are, and what is pending.
    fn right_title(&self, app: &App) -> String {
        let models = self.lines.iter().filter(|line| matches!(line, BrowseLine::Model(_))).count();
        let count = format!("{models} of {}", app.library.rows.len());
        match (&app.library.gathered, app.library.open()) {
            (Gathering::Nothing, _) => "searching…".to_owned(),
            (_, open @ 1..) => format!("{count}, planning {open}"),
            _ if app.library.is_judged_by_earlier(&app.request.machine) => {
                format!("{count}, by earlier free memory (F5)")
            }
            (Gathering::Here, 0) => format!("{count}, asking Ollama"),
            (_, 0) => count,
        }
    }

    /// Why nothing is listed.
    fn empty(&self, app: &App) -> &'static str {
        match (&app.library.gathered, self.hidden) {
            (Gathering::Nothing, _) => "Searching the folders of Ollama, Hugging Face, LM Studio and llama.cpp…",
            (_, 1..) => "All models are hidden by the filters: ^F, ^X, ^L, ^P, ^T and ^G switch them off.",
            _ => "No models: type a name, a path or a URL.",
        }
    }

    /// Messages above `list`: why nothing could be opened, that there are no local models, or that the Ollama server
    /// which the user named does not list its models.
    fn messages(&self, library: &Library, list: Rect) -> Vec<String> {
        if let Some(wrong) = &self.wrong {
            return wrap(wrong, list.width);
        }
        if let Some(said) = self.asked.sentence() {
            return wrap(&said, list.width);
        }
        let none_here = match (self.none_here, list.height < ROOMY) {
            (false, _) => None,
            (true, true) => Some(
                "No models found on this machine (Ollama, Hugging Face, LM Studio, llama.cpp). Choose one from the \
                 catalogue, or type a path or a name.",
            ),
            (true, false) => Some(
                "No models found on this machine in the folders of Ollama, Hugging Face, LM Studio and llama.cpp \
                 ('plimsoll list' names them; OLLAMA_MODELS, HF_HOME and LLAMA_CACHE change them). Choose one from \
                 the catalogue to see how it would fit, or type a path or a name: only the header of a remote model \
                 is fetched.",
            ),
        };
        let refused = match &library.gathered {
            // a short list has room for one message
            Gathering::Refused(why) if none_here.is_none() || list.height >= ROOMY => {
                Some(format!("OLLAMA_HOST: {why}"))
            }
            _ => None,
        };
        let texts = none_here.into_iter().chain(refused.as_deref());
        texts.flat_map(|text| wrap(text, list.width)).collect()
    }
}

/// The parts of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ModelsRegions {
    frame: Rect,
    field: Rect,
    filters: Rect,
    head: Rect,
    list: Rect,
    /// Preview of the selected model.
    preview: Rect,
}

impl ModelsRegions {
    /// The layout of the page.
    fn of(regions: &Regions) -> Self {
        let frame = regions.body();
        let inner = frame.inner(Margin::new(2, 1));
        let blank = u16::from(inner.height >= 30);
        let preview = (inner.height * 3 / 10).clamp(4, 18);
        let [field, filters, _, head, list, preview] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(blank),
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(preview),
        ])
        .areas(inner);
        Self { frame, field, filters, head, list, preview }
    }
}

/// Draws a line that is not a model.
fn draw_text(place: Rect, chosen: bool, text: &str, hint: &str, theme: Theme, buffer: &mut Buffer) {
    let ink = rows::ink(place, chosen, theme, buffer);
    let mut writer = RowWriter::new(buffer, place, 0);
    writer.put(if chosen { "▸ " } else { "  " }, ink);
    // the hint goes before any of the text does
    let hint = if width(text) + width(hint) + 5 > writer.room() { "" } else { hint };
    writer.put_path(text, ink);
    if !hint.is_empty() {
        writer.put("  ↵ ", theme.ink(Hue::Text)).put(hint, theme.ink(Hue::Dim));
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
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn every_part_has_room_and_a_name_can_be_read(columns in 60u16..300, rows in 20u16..100) {
            let page = ModelsRegions::of(&Regions::of(columns, rows, 6));
            prop_assert!(page.list.height >= 6 && page.preview.height >= 4 && page.head.height == 1);
            let places = ListColumn::within(page.head);
            prop_assert!(places[0].1.width >= 20, "{places:?}");
            prop_assert_eq!(places.last().map(|(_, place)| place.right()), Some(page.list.right()));
        }
    }
}
