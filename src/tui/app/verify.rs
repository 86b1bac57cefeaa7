//! A log beside its plan: asking for it, the comparison, and taking over what it shows.

use super::update::scrolled;
use super::{App, Mode, TextEntry};
use crate::answer::check::Compared;
use crate::library::verify::Verified;
use crate::tui::action::Command;
use crate::tui::effect::{Effect, LogSource, VerifyRequest};

/// The state of the page.
#[derive(Clone, Debug)]
pub struct VerifyPage {
    /// What is shown.
    pub state: VerifyState,
    /// Selected line: 0 is the header, then the rows of the comparison.
    pub at: usize,
    /// The row whose reason is shown.
    pub explained: Option<usize>,
}

/// What the page shows.
#[derive(Clone, Debug)]
pub enum VerifyState {
    /// A field for a file's name; a log may be pasted.
    Asking(TextEntry),
    /// A log is being read.
    Reading,
    /// The comparison.
    Ready(Box<Verified>),
}

impl VerifyPage {
    fn asking(entry: TextEntry) -> Self {
        Self { state: VerifyState::Asking(entry), at: 0, explained: None }
    }

    /// Whether keys are typed into a field.
    pub const fn accepts_text(&self) -> bool {
        matches!(self.state, VerifyState::Asking(_))
    }

    /// The rows of the comparison.
    pub fn rows(&self) -> &[Compared] {
        match &self.state {
            VerifyState::Ready(verified) => &verified.check.rows,
            _ => &[],
        }
    }
}

/// Whether a pasted text is a log rather than a name.
pub(super) fn is_log(text: &str) -> bool {
    text.trim().lines().nth(1).is_some()
}

impl App {
    /// Asks for a log.
    pub(super) fn open_verify(&mut self) {
        self.mode = Mode::Verify(Box::new(VerifyPage::asking(TextEntry::default())));
    }

    /// Reads a log and compares it with its plan.
    pub(super) fn verify(&mut self, log: LogSource) -> Vec<Effect> {
        self.verify_id += 1;
        let page = VerifyPage { state: VerifyState::Reading, at: 0, explained: None };
        self.mode = Mode::Verify(Box::new(page));
        let open = self.opened.clone();
        vec![Effect::Verify(Box::new(VerifyRequest { id: self.verify_id, log, open }))]
    }

    pub(super) fn verified(&mut self, id: u64, result: Result<Box<Verified>, String>) {
        let Mode::Verify(page) = &mut self.mode else { return };
        if id != self.verify_id {
            return;
        }
        match result {
            Ok(verified) => {
                // on what differs, if anything does
                let first = verified.check.rows.iter().position(|row| !row.agrees());
                (page.at, page.explained) = (first.map_or(0, |row| row + 1), first);
                page.state = VerifyState::Ready(verified);
            }
            Err(why) => {
                let entry = TextEntry { wrong: Some(why), ..TextEntry::default() };
                **page = VerifyPage::asking(entry);
            }
        }
    }

    pub(super) fn press_on_verify(&mut self, mut page: Box<VerifyPage>, command: Command) -> Vec<Effect> {
        match (&page.state, command) {
            (_, Command::Back) => return Vec::new(),
            (VerifyState::Asking(entry), Command::Enter) => {
                let path = entry.input.value().trim().to_owned();
                return self.verify(if path.is_empty() { LogSource::Running } else { LogSource::File(path) });
            }
            (VerifyState::Ready(_), Command::Help) => {
                self.mode = Mode::Help(0);
                return Vec::new();
            }
            (VerifyState::Ready(_), Command::Open) => {
                page = Box::new(VerifyPage::asking(TextEntry::default()));
            }
            (VerifyState::Ready(verified), Command::Enter) if page.at == 0 => {
                let request = verified.check.request.clone();
                self.apply_request_as(request, "observed machine");
                self.notice = Some("Took over the settings and the machine of the log; u undoes it.".to_owned());
                return Vec::new();
            }
            (VerifyState::Ready(_), Command::Enter) => {
                let row = page.at - 1;
                page.explained = (page.explained != Some(row)).then_some(row);
            }
            (VerifyState::Ready(_), _) => {
                let at = scrolled(u16::try_from(page.at).unwrap_or(u16::MAX), command);
                page.at = usize::from(at).min(page.rows().len());
            }
            _ => {}
        }
        self.mode = Mode::Verify(page);
        Vec::new()
    }
}
