//! The export page.

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use tui_input::Input;

use crate::answer::together::ServedModels;
use crate::engine::PlanRequest;
use crate::export::several::NamedModel;
use crate::export::{ExportFormat, ModelLocation, SetFormat};
use crate::page::{Hue, Page, Span};
use crate::tui::action::{Action, Command, Gesture};
use crate::tui::app::App;
use crate::tui::effect::{Effect, ExportJob, Exported};
use crate::tui::keymap::Scope;
use crate::tui::screen::{Response, Screen};
use crate::tui::widget::field::{self, Text, TextEntry};
use crate::tui::widget::page::{self, Overlay};
use crate::tui::widget::panel;

/// The state of the page.
#[derive(Debug)]
pub struct ExportPage {
    /// The formats available for the engine.
    pub formats: Vec<Form>,
    /// Several models, if these are exported.
    several: Option<(Vec<NamedModel>, ServedModels)>,
    /// Index of the selected format.
    pub at: usize,
    /// What a fit decides is set in a format that can set it.
    pub pinned: bool,
    /// The text, or one sentence on why there is none; none while it is being written.
    pub text: Option<Result<String, String>>,
    /// The file name being typed.
    pub naming: Option<TextEntry>,
    scroll: u16,
    job: u64,
}

/// A format, of a plan or of several models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names suffice")]
pub enum Form {
    Plan(ExportFormat),
    Several(SetFormat),
}

impl Form {
    /// Its name on the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Plan(format) => format.title(),
            Self::Several(format) => format.title(),
        }
    }

    const fn purpose(self) -> &'static str {
        match self {
            Self::Plan(format) => format.purpose(),
            Self::Several(format) => format.purpose(),
        }
    }

    const fn file_name(self) -> &'static str {
        match self {
            Self::Plan(format) => format.file_name(),
            Self::Several(format) => format.file_name(),
        }
    }

    const fn can_be_pinned(self) -> bool {
        match self {
            Self::Plan(format) => format.can_be_pinned(),
            Self::Several(format) => format.can_be_pinned(),
        }
    }
}

impl ExportPage {
    /// The page on the engine's usual format.
    pub fn of(app: &App) -> Self {
        Self::with(ExportFormat::of(app.request.engine).into_iter().map(Form::Plan).collect(), None)
    }

    /// The page on files that start several models.
    pub fn of_several(app: &App, models: Vec<NamedModel>, served: ServedModels) -> Self {
        let formats = SetFormat::of(app.request.engine.facts().is_ollama);
        Self::with(formats.into_iter().map(Form::Several).collect(), Some((models, served)))
    }

    const fn with(formats: Vec<Form>, several: Option<(Vec<NamedModel>, ServedModels)>) -> Self {
        Self { formats, several, at: 0, scroll: 0, pinned: false, text: None, naming: None, job: 0 }
    }

    /// The selected format.
    fn format(&self) -> Form {
        self.formats.get(self.at).copied().unwrap_or(Form::Plan(ExportFormat::Json))
    }

    /// What the selected format is of.
    fn exported(&self, app: &mut App) -> Option<Exported> {
        let format = match (self.format(), &self.several) {
            (Form::Several(format), Some((models, served))) => {
                return Some(Exported::Several { format, models: models.clone(), served: Box::new(served.clone()) });
            }
            (Form::Plan(format), _) => format,
            (Form::Several(_), None) => return None,
        };
        let (of, plan) = app.request.plan_request().zip(app.request.plan.as_deref().cloned())?;
        let location = location(app, &of);
        let (of, plan, scenario) = (Box::new(of), Box::new(plan), Box::new(app.scenario()?));
        Some(Exported::Plan { format, of, plan, location, scenario })
    }

    /// Shows the format with this index.
    fn show(&mut self, app: &mut App, at: usize) -> Response {
        (self.at, self.scroll) = (at, 0);
        Response::Stay(self.ask(app))
    }

    /// The formats' names as the page shows them.
    fn words(&self) -> Vec<String> {
        let word =
            |(place, format): (usize, &Form)| format!("{}{}", if place == self.at { "▸" } else { " " }, format.title());
        self.formats.iter().enumerate().map(word).collect()
    }

    fn press_on_name(&mut self, entry: TextEntry, command: Command) -> Response {
        let mut effects = Vec::new();
        if command == Command::Enter {
            let path = entry.input.value().trim().to_owned();
            let text = self.text.as_ref().and_then(|text| text.as_ref().ok());
            effects.extend(text.map(|text| Effect::Save { path, text: text.clone() }));
        }
        // the name stays until the file is saved
        self.naming = (command != Command::Back).then_some(entry);
        Response::Stay(effects)
    }
}

impl Screen for ExportPage {
    fn scopes(&self) -> &'static [Scope] {
        if self.accepts_text() { &[Scope::Field, Scope::Everywhere] } else { &[Scope::Export, Scope::Everywhere] }
    }

    fn handles(&self, command: Command) -> bool {
        command != Command::PinFit || self.format().can_be_pinned()
    }

    fn message(&self) -> Option<&str> {
        self.naming.as_ref()?.wrong.as_deref()
    }

    fn missing(&self, app: &App) -> Option<&'static str> {
        (app.request.plan.is_none() || app.request.refused.is_some()).then_some("There is no plan to export.")
    }

    /// Has the selected format written.
    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        (self.text, self.job) = (None, app.request.next_id());
        let (id, pinned) = (self.job, self.pinned);
        self.exported(app).map(|what| Effect::Write(Box::new(ExportJob { id, pinned, what }))).into_iter().collect()
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        if let Some(entry) = self.naming.take() {
            return self.press_on_name(entry, command);
        }
        let last = self.formats.len().saturating_sub(1);
        match command {
            Command::Less | Command::PreviousPanel | Command::More => {
                let to = if command == Command::More { (self.at + 1).min(last) } else { self.at.saturating_sub(1) };
                if to != self.at {
                    return self.show(app, to);
                }
            }
            Command::Enter => {
                if let Some(Ok(text)) = &self.text {
                    app.notice = Some(format!("{} copied.", self.format().title()));
                    return Response::Stay(vec![Effect::Copy(text.clone())]);
                }
            }
            Command::PinFit if self.format().can_be_pinned() => {
                self.pinned = !self.pinned;
                return self.show(app, self.at);
            }
            Command::Save => {
                let name = Input::new(self.format().file_name().to_owned());
                let written = self.text.as_ref().is_some_and(Result::is_ok);
                self.naming = written.then_some(TextEntry { input: name, ..TextEntry::default() });
            }
            _ => return Response::Ignored,
        }
        Response::STAY
    }

    /// A press on a format shows it, another one copies it.
    fn mouse(&mut self, app: &mut App, gesture: Gesture, at: Position) -> Response {
        if gesture != Gesture::Down || self.naming.is_some() {
            return Response::Ignored;
        }
        match self.page(app).and_then(|page| page.word_at(app, at, &self.words())) {
            Some(pressed) if pressed == self.at => self.press(app, Command::Enter),
            Some(pressed) => self.show(app, pressed),
            None => Response::Ignored,
        }
    }

    fn accepts_text(&self) -> bool {
        self.naming.is_some()
    }

    fn text(&mut self, _: &mut App, text: Text<'_>) -> Response {
        self.naming.iter_mut().for_each(|entry| entry.edit(text));
        Response::STAY
    }

    fn answer(&mut self, app: &mut App, answer: Action) -> Response {
        match (answer, &mut self.naming) {
            (Action::Written { id, text }, _) if id == self.job => self.text = Some(text),
            (Action::Saved(Ok(_)), naming) => *naming = None,
            // said in the field
            (Action::Saved(Err(why)), Some(entry)) => (entry.wrong, app.notice) = (Some(why), None),
            _ => {}
        }
        Response::STAY
    }

    fn scroll(&mut self) -> Option<&mut u16> {
        Some(&mut self.scroll)
    }

    fn page(&self, app: &App) -> Option<Overlay> {
        Some(Overlay::new(page(app, self), "Export", self.scroll))
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        Overlay::new(page(app, self), "Export", self.scroll).draw(app, buffer);
        if let Some(entry) = &self.naming {
            name(app, &entry.input, buffer);
        }
    }
}

/// Where the model of a request is found.
pub fn location(app: &App, of: &PlanRequest) -> ModelLocation {
    match of.settings.quant {
        // as far as is known here, no such file exists
        Some(quant) if !Arc::ptr_eq(&of.model, &of.opened) => {
            ModelLocation::Unknown(format!("{} as {quant}", of.model.name))
        }
        _ => app.library.locations.of(&of.opened),
    }
}

fn page(app: &App, export: &ExportPage) -> Page {
    let mut page = Page::default();
    formats(export, &mut page);
    page.text(export.format().purpose(), Hue::Dim);
    if let Some(key) =
        app.preferences.keys.key_for(Command::PinFit, export.scopes()).filter(|_| export.format().can_be_pinned())
    {
        let does = if export.pinned {
            "leaves it to llama-server's fit again"
        } else {
            "pins what llama-server's fit decides"
        };
        page.text(&format!("{key} {does}"), Hue::Dim);
    }
    page.blank();
    match &export.text {
        None => page.text("…", Hue::Dim),
        Some(Err(why)) => page.text(why, Hue::Over),
        Some(Ok(text)) => {
            for line in text.lines() {
                // comments are dimmed
                page.verbatim(line, if line.starts_with("# ") { Hue::Dim } else { Hue::Text });
            }
        }
    }
    if let Some(plan) = app.request.plan.as_ref().filter(|_| export.several.is_none()) {
        page.blank();
        page.text(&plan.source(), Hue::Dim);
    }
    page
}

/// The formats side by side, on as many lines as needed.
fn formats(export: &ExportPage, page: &mut Page) {
    let word = |(place, word): (usize, String)| {
        let ink = if place == export.at { Hue::Focus.bold() } else { Hue::Dim.into() };
        [Span::new(&word.replace(' ', "\u{a0}"), ink), Span::new("  ", Hue::Dim)]
    };
    page.spans("", export.words().into_iter().enumerate().flat_map(word).collect());
}

/// The field for a file name.
fn name(app: &App, input: &Input, buffer: &mut Buffer) {
    let place = app.panels.regions.overlay(page::WIDTH.min(70), 3);
    let inner = panel::overlay(buffer, place, "Save as", "Enter saves, Esc back", app.theme);
    field::draw(input, "name of a new file", Rect { height: 1, ..inner }, app.theme, buffer);
}
