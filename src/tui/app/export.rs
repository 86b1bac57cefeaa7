//! The export page: its formats, their text, and where it goes.

use std::path::PathBuf;
use std::sync::Arc;

use tui_input::Input;

use super::update::scrolled;
use super::{App, Mode, TextEntry};
use crate::export::{ExportFormat, ModelLocation};
use crate::tui::action::Command;
use crate::tui::effect::{Effect, ExportJob};

/// The state of the page.
#[derive(Clone, Debug)]
pub struct ExportPage {
    /// The formats available for this engine.
    pub formats: Vec<ExportFormat>,
    /// Index of the selected format.
    pub at: usize,
    /// Scrolled lines.
    pub scroll: u16,
    /// The text, or one sentence on why there is none; none while it is being written.
    pub text: Option<Result<String, String>>,
    /// The file name being typed.
    pub naming: Option<TextEntry>,
}

impl ExportPage {
    /// The selected format.
    pub fn format(&self) -> ExportFormat {
        self.formats.get(self.at).copied().unwrap_or(ExportFormat::Json)
    }

    /// Why the file was not saved.
    pub fn wrong(&self) -> Option<&str> {
        self.naming.as_ref()?.wrong.as_deref()
    }
}

impl App {
    /// Opens the page, on the engine's usual format.
    pub(super) fn open_export(&mut self) -> Vec<Effect> {
        let page = ExportPage { formats: ExportFormat::of(self.engine), at: 0, scroll: 0, text: None, naming: None };
        self.show_format(Box::new(page))
    }

    /// Shows the selected format of `page` once it is written.
    fn show_format(&mut self, mut page: Box<ExportPage>) -> Vec<Effect> {
        let plan = self.plan.as_deref().filter(|_| self.refused.is_none());
        let Some((of, plan)) = self.plan_request().zip(plan.cloned()) else {
            self.notice = Some("There is no plan to export.".to_owned());
            return Vec::new();
        };
        (page.scroll, page.text, page.naming) = (0, None, None);
        self.export_id += 1;
        let location = match of.settings.quant {
            // as far as is known here, no such file exists
            Some(quant) if !Arc::ptr_eq(&of.model, &of.opened) => {
                ModelLocation::Unknown(format!("{} as {quant}", of.model.name))
            }
            _ => self.locations.of(&of.opened),
        };
        let job = ExportJob { id: self.export_id, format: page.format(), of, plan, location };
        self.mode = Mode::Export(page);
        vec![Effect::Write(Box::new(job))]
    }

    /// Writes the export again after the plan changed; a file name being typed stays.
    pub(super) fn update_export(&mut self) -> Vec<Effect> {
        let Mode::Export(page) = &self.mode else { return Vec::new() };
        let (page, scroll, naming) = (page.clone(), page.scroll, page.naming.clone());
        let effects = self.show_format(page);
        if let Mode::Export(page) = &mut self.mode {
            (page.scroll, page.naming) = (scroll, naming);
        }
        effects
    }

    pub(super) fn press_on_export(&mut self, mut page: Box<ExportPage>, command: Command) -> Vec<Effect> {
        if let Some(entry) = page.naming.take() {
            return self.press_on_file_name(page, entry, command);
        }
        let last = page.formats.len().saturating_sub(1);
        match command {
            Command::Back => return Vec::new(),
            Command::Help => {
                self.mode = Mode::Help(0);
                return Vec::new();
            }
            Command::Less | Command::PreviousPanel | Command::More => {
                let to = if command == Command::More { (page.at + 1).min(last) } else { page.at.saturating_sub(1) };
                if to != page.at {
                    page.at = to;
                    return self.show_format(page);
                }
            }
            Command::Enter => {
                if let Some(Ok(text)) = &page.text {
                    let message = format!("{} copied.", page.format().title());
                    self.notice = Some(message);
                    let copy = Effect::Copy(text.clone());
                    self.mode = Mode::Export(page);
                    return vec![copy];
                }
            }
            Command::Save => {
                let name = Input::new(page.format().file_name().to_owned());
                page.naming = page
                    .text
                    .as_ref()
                    .is_some_and(Result::is_ok)
                    .then_some(TextEntry { input: name, ..TextEntry::default() });
            }
            _ => page.scroll = scrolled(page.scroll, command),
        }
        self.mode = Mode::Export(page);
        Vec::new()
    }

    fn press_on_file_name(&mut self, mut page: Box<ExportPage>, entry: TextEntry, command: Command) -> Vec<Effect> {
        let mut effects = Vec::new();
        if command == Command::Enter {
            let path = entry.input.value().trim().to_owned();
            let text = page.text.as_ref().and_then(|text| text.as_ref().ok());
            effects.extend(text.map(|text| Effect::Save { path, text: text.clone() }));
        }
        // the name stays until the file is saved
        page.naming = (command != Command::Back).then_some(entry);
        self.mode = Mode::Export(page);
        effects
    }

    pub(super) fn written(&mut self, id: u64, text: Result<String, String>) {
        if let Mode::Export(page) = &mut self.mode
            && id == self.export_id
        {
            page.text = Some(text);
        }
    }

    pub(super) fn saved(&mut self, result: Result<PathBuf, String>) {
        let naming = match &mut self.mode {
            Mode::Export(page) => &mut page.naming,
            _ => &mut None,
        };
        match (result, naming) {
            (Ok(path), naming) => {
                *naming = None;
                self.notice = Some(format!("Saved as {}.", path.display()));
            }
            (Err(why), Some(entry)) => entry.wrong = Some(why),
            (Err(why), None) => self.notice = Some(why),
        }
    }
}
