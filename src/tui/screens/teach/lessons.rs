//! The lessons page: the list, and the open lesson. It asks first; the guess is typed in the lowest row, or an answer or a
//! layer is clicked. Then the plan is set as in the lesson, with the reader's own kept until the lesson is left.
//!
//! ```text
//! ╭ Lessons ─────────────────────╮╭ Why parallel multiplies context ──────────────────────────────────╮
//! │  1 Three kinds of memory…    ││ On Llama 3.1 8B · Q4_K_M · Ollama · 8 192 tokens · RTX 3060        │
//! │ ▸2 Why parallel multiplies … ││ Question: How much does the cache take with 4 sequences?           │
//! │                              ││ You guessed 2.0 GiB: it is 4.0 GiB, so 2.0 GiB too little.   text  │
//! │                              ││ one sequence ██████ 1.0 GiB                                  bars  │
//! │                              ││ › 2 GiB                                                      guess │
//! ╰─────────────────────── list ─╯╰──────────────────────────────────────────────── 3 more lines, PgDn ╯
//! ```

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Position, Rect};

use super::{PageCursor, PageResponse, entry_at, first_visible, framed, ink, mark, upright};
use crate::engine::PlanRequest;
use crate::page::Page;
use crate::settings::Settings;
use crate::teach::lessons::{self, LessonSetup, LessonsPage};
use crate::teach::{TeachPage, Topic};
use crate::tui::action::{Command, Gesture};
use crate::tui::app::App;
use crate::tui::screen::moved;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::field::{self, TextEntry};
use crate::tui::widget::row_writer::{RowWriter, width};
use crate::tui::widget::{page, panel};

/// Minimum width for the titles next to the lesson.
const WIDE: u16 = 100;
/// Lines that stay when a page is scrolled.
const KEPT: u16 = 2;
/// Lines per notch of the wheel.
const NOTCH: u16 = 3;

/// The open lesson.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    /// Its index.
    pub at: usize,
    /// Scrolled lines.
    pub scroll: u16,
    /// The guess being typed.
    pub typing: Option<TextEntry>,
    /// What was said to the guess; empty if the answer was shown without one.
    said: Option<String>,
    /// The reader's plan, while that of the lesson is set.
    yours: Option<PlanRequest>,
}

/// How many lessons there are.
pub(super) fn count() -> usize {
    lessons::all().len()
}

impl Cursor {
    /// At this lesson.
    pub(super) fn on(at: usize) -> Self {
        Self { at, ..Self::default() }
    }

    /// The reader's plan, while that of the lesson is set.
    pub(super) const fn yours(&self) -> Option<&PlanRequest> {
        self.yours.as_ref()
    }

    /// Scrolls to what `to` makes of the first line in view and the lines of a page.
    fn scroll(&mut self, content: &LessonsPage, area: Rect, to: impl Fn(u16, u16) -> u16) {
        let inner = inside(area);
        let lines = self.shown(content).lines(usize::from(inner.width)).len() as u16;
        let last = lines.saturating_sub(inner.height);
        self.scroll = to(self.scroll.min(last), inner.height.saturating_sub(KEPT).max(1)).min(last);
    }

    /// Scrolls by a notch of the wheel.
    pub(super) fn wheel(&mut self, content: &LessonsPage, area: Rect, down: bool) {
        let notch = |to: u16, _| if down { to.saturating_add(NOTCH) } else { to.saturating_sub(NOTCH) };
        self.scroll(content, area, notch);
    }

    /// Takes the guess that was typed.
    pub(super) fn guess(&mut self, app: &mut App, content: &LessonsPage) {
        let Some(typed) = &mut self.typing else { return };
        match content.lesson.guess.judged(typed.input.value()) {
            Ok(said) => self.answer(app, content, said),
            Err(wrong) => typed.wrong = Some(wrong),
        }
    }

    fn answer(&mut self, app: &mut App, content: &LessonsPage, said: String) {
        (self.typing, self.said, self.scroll) = (None, Some(said), 0);
        self.set(app, content);
    }

    /// Sets the plan as in the lesson, as one undo step.
    fn set(&mut self, app: &mut App, content: &LessonsPage) {
        let LessonSetup { engine, settings, machine, model, is_open } = content.lesson.setup.clone();
        let machine =
            if machine == *app.request.machine { Arc::clone(&app.request.machine) } else { Arc::new(machine) };
        let (opened, model, quant) = match (is_open, &app.request.opened, &app.request.model) {
            (true, Some(opened), Some(model)) => (Arc::clone(opened), Arc::clone(model), app.request.settings.quant),
            _ => (Arc::clone(&model), model, None),
        };
        let settings = Settings { quant, ..settings };
        self.yours = app.request.plan_request();
        app.apply_request_as(PlanRequest { engine, opened, model, machine, settings }, "lesson's machine");
        app.notice = Some("The plan is the lesson's; yours is back when you leave it.".to_owned());
    }

    /// Sets the reader's plan again, whatever has been changed since.
    pub(super) fn give_back(&mut self, app: &mut App) {
        let Some(yours) = self.yours.take().filter(|yours| app.request.plan_request().as_ref() != Some(yours)) else {
            return;
        };
        let (states, now) = app.states();
        let earlier = states.iter().take(now).rposition(|state| state.plan_request == yours);
        match earlier {
            Some(state) => app.go_to(state),
            None => app.apply_request(yours),
        }
        app.notice = Some("Your plan is back; U sets the lesson's again.".to_owned());
    }

    fn open(&mut self, app: &mut App, to: usize) -> PageResponse {
        if to == self.at {
            return PageResponse::Redraw;
        }
        self.give_back(app);
        *self = Self { at: to, ..Self::default() };
        PageResponse::Request
    }

    fn shown(&self, content: &LessonsPage) -> Page {
        if let Some(said) = &self.said {
            return content.guessed(said);
        }
        let mut shown = content.asked(false);
        shown.blank();
        let changes = match content.changes.as_slice() {
            [] => "With the answer the plan is set as in the lesson.".to_owned(),
            changes => format!("With the answer the plan changes: {}.", changes.join(", ")),
        };
        shown.text(&format!("{changes} Yours is back when you leave the lesson."), Hue::Dim);
        shown
    }
}

impl PageCursor for Cursor {
    fn topic(&self) -> Topic {
        Topic::Lessons(self.at)
    }

    fn commands(&self) -> &'static [Command] {
        &[Command::Enter, Command::Answer, Command::Present]
    }

    fn press(&mut self, app: &mut App, content: &dyn TeachPage, area: Rect, command: Command) -> PageResponse {
        let Some(content) = content.as_a::<LessonsPage>() else { return PageResponse::Redraw };
        match command {
            Command::PageUp => self.scroll(content, area, u16::saturating_sub),
            Command::PageDown => self.scroll(content, area, u16::saturating_add),
            Command::Answer if self.said.is_none() => self.answer(app, content, String::new()),
            Command::Enter if self.said.is_none() => self.typing = Some(TextEntry::default()),
            Command::Enter if self.yours.is_some() => self.give_back(app),
            Command::Enter => self.set(app, content),
            Command::Answer => {}
            _ => return self.open(app, moved(self.at, lessons::all().len(), 1, upright(command))),
        }
        PageResponse::Redraw
    }

    /// Opens the lesson with its title at this position, or takes the press as a guess.
    fn point(
        &mut self,
        app: &mut App,
        content: &dyn TeachPage,
        area: Rect,
        gesture: Gesture,
        at: Position,
    ) -> PageResponse {
        let Some(content) = content.as_a::<LessonsPage>() else { return PageResponse::Redraw };
        if gesture != Gesture::Down {
            return PageResponse::Redraw;
        }
        let rows = areas(area)[0].inner(Margin::new(1, 1));
        let count = lessons::all().len();
        if let Some(pressed) = entry_at(rows, first_visible(self.at, count, rows.height), count, at) {
            return self.open(app, pressed);
        }
        let inner = inside(area);
        if self.said.is_some() || !inner.contains(at) {
            return PageResponse::Redraw;
        }
        let pressed = page::choice_within(&self.shown(content), self.scroll, inner, app.theme, at);
        let guess = pressed.and_then(|(choice, column)| content.lesson.guess.pressed(choice, column));
        if let Some(said) = guess.and_then(|guess| content.lesson.guess.judged(&guess).ok()) {
            self.answer(app, content, said);
        }
        PageResponse::Redraw
    }

    fn draw(&self, app: &App, content: &dyn TeachPage, area: Rect, buffer: &mut Buffer) {
        let Some(content) = content.as_a::<LessonsPage>() else { return };
        let (theme, lesson) = (app.theme, &content.lesson);
        let [titles, text] = areas(area);
        if titles.width > 0 {
            list(self, titles, theme, buffer);
        }
        let right_title = format!("{} of {}", lesson.at + 1, lessons::all().len());
        framed(buffer, text, lesson.title, &right_title, true, theme);
        let inner = inside(area);
        let count = page::within(&self.shown(content), self.scroll, inner, theme, buffer);
        let lowest = Rect { y: inner.bottom(), height: 1, ..inner };
        match (&self.typing, &self.said) {
            (Some(typed), _) => field::draw(&typed.input, &content.lesson.guess.hint(), lowest, theme, buffer),
            (None, None) => {
                RowWriter::new(buffer, lowest, 0).put("Enter guesses, a shows the answer", theme.ink(Hue::Dim));
            }
            (None, Some(_)) => {
                let enter =
                    if self.yours.is_some() { "Enter gives your plan back" } else { "Enter sets the lesson's plan" };
                RowWriter::new(buffer, lowest, 0).put(enter, theme.ink(Hue::Dim));
            }
        }
        let scroll = self.scroll.min(count.saturating_sub(inner.height));
        let below = count.saturating_sub(scroll.saturating_add(inner.height));
        let lines = |count: u16| if count == 1 { "1 more line".to_owned() } else { format!("{count} more lines") };
        let more = match (scroll, below) {
            (0, 0) => return,
            (above, 0) => format!(" {} above, PgUp ", lines(above)),
            (_, below) => format!(" {}, PgDn ", lines(below)),
        };
        let edge = Rect { y: lowest.bottom(), ..lowest };
        RowWriter::new(buffer, edge, 0).right(&more, theme.ink(Hue::Dim));
    }
}

/// The list, which a narrow page leaves out, and the lesson.
pub(super) fn areas(area: Rect) -> [Rect; 2] {
    // each has a number in front; plus the frame
    let titles = lessons::all().iter().map(|lesson| width(&lesson.title)).max().unwrap_or(0) + 6;
    let list = if area.width < WIDE { 0 } else { titles.min(area.width * 2 / 5) };
    Layout::horizontal([Constraint::Length(list), Constraint::Fill(1)]).areas(area)
}

/// Where the lesson's text is: inside its frame, above the row of the guess.
fn inside(area: Rect) -> Rect {
    let inner = areas(area)[1].inner(Margin::new(2, 1));
    Rect { height: inner.height.saturating_sub(1), ..inner }
}

fn list(cursor: &Cursor, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let lessons = lessons::all();
    let rows = area.inner(Margin::new(1, 1)).height;
    let first = first_visible(cursor.at, lessons.len(), rows);
    let last = lessons.len().min(first + usize::from(rows));
    let shown = if usize::from(rows) < lessons.len() { format!("{} to {last}", first + 1) } else { String::new() };
    let inner = panel::frame(buffer, area, "Lessons", &shown, false, theme);
    for (row, (at, lesson)) in inner.rows().zip(lessons.iter().enumerate().skip(first)) {
        let ink = ink(at == cursor.at, Hue::Text, theme);
        let mut writer = RowWriter::new(buffer, row, 0);
        writer.put(mark(at == cursor.at), ink).put(&format!("{:>2} ", at + 1), ink).put(&lesson.title, ink);
    }
}
