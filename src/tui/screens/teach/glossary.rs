//! The glossary page: the terms in groups, and the selected one with its definition.
//!
//! ```text
//! ╭ Glossary ───────────────────╮╭ attention masks ─────────────────────────────╮
//! │ In compute buffers          ││ Which token may attend to which cell of …    │
//! │   attention scores          ││ In this plan: 24 MiB of the 140 MiB at …     │
//! │ ▸ attention masks           ││ Lesson 3: What flash attention shrinks …     │
//! ╰──────────────────────terms ─╯╰──────────────────────────────────────────────╯
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Position, Rect};

use super::{PageCursor, PageResponse, framed, mark};
use crate::page::Page;
use crate::teach::glossary::{GlossaryEntry, GlossaryPage, Term};
use crate::teach::lessons;
use crate::teach::{TeachPage, Topic};
use crate::tui::action::{Command, Gesture};
use crate::tui::app::App;
use crate::tui::screen::moved;
use crate::tui::theme::Hue;
use crate::tui::widget::list::{self, ListRows};
use crate::tui::widget::page;
use crate::tui::widget::row_writer::{RowWriter, shortened, width};

/// Minimum width for the definition beside the terms; its least rows below them.
const WIDE: u16 = 70;
const BELOW: u16 = 8;

/// The selected term.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    /// The term; the first if none is chosen or it is not there.
    term: Option<Term>,
}

/// A row of the list.
#[derive(Clone, Copy)]
enum Row<'a> {
    Group(&'static str),
    Entry(usize, &'a GlossaryEntry),
}

fn rows(content: &GlossaryPage) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    let mut group = "";
    for (at, entry) in content.entries.iter().enumerate() {
        if entry.term.group() != group {
            group = entry.term.group();
            rows.push(Row::Group(group));
        }
        rows.push(Row::Entry(at, entry));
    }
    rows
}

impl Cursor {
    /// On `term`.
    pub(super) const fn on(term: Term) -> Self {
        Self { term: Some(term) }
    }

    fn at(self, content: &GlossaryPage) -> usize {
        self.term.and_then(|term| content.place(term)).unwrap_or(0)
    }

    fn entry(self, content: &GlossaryPage) -> Option<&GlossaryEntry> {
        content.entries.get(self.at(content))
    }
}

impl PageCursor for Cursor {
    fn topic(&self) -> Topic {
        Topic::Glossary
    }

    fn commands(&self) -> &'static [Command] {
        &[Command::Enter]
    }

    fn press(&mut self, _: &mut App, content: &dyn TeachPage, _: Rect, command: Command) -> PageResponse {
        let Some(content) = content.as_a::<GlossaryPage>() else { return PageResponse::Redraw };
        if let (Command::Enter, Some(lesson)) = (command, self.entry(content).and_then(|entry| entry.lesson)) {
            return PageResponse::Lesson(lesson);
        }
        let (at, count) = (self.at(content), content.entries.len());
        let group = |at: usize| content.entries.get(at).map(|entry| entry.term.group());
        let begin = |at: usize| (0..=at).rev().take_while(|to| group(*to) == group(at)).last().unwrap_or(at);
        let to = match command {
            // a group at a time
            Command::PageUp | Command::Less => begin(begin(at).saturating_sub(1)),
            Command::PageDown | Command::More => (at..count).find(|to| group(*to) != group(at)).unwrap_or(at),
            command => moved(at, count, 1, command),
        };
        self.term = content.entries.get(to).map(|entry| entry.term);
        PageResponse::Redraw
    }

    /// Selects the term at this position.
    fn point(&mut self, _: &mut App, content: &dyn TeachPage, area: Rect, _: Gesture, at: Position) -> PageResponse {
        let Some(content) = content.as_a::<GlossaryPage>() else { return PageResponse::Redraw };
        let (all, places) = (rows(content), areas(area, content));
        let found = list_rows(self.at(content), &all, inside(places[0])).row_at(at).and_then(|row| all.get(row));
        if let Some(Row::Entry(_, entry)) = found {
            self.term = Some(entry.term);
        }
        PageResponse::Redraw
    }

    fn draw(&self, app: &App, content: &dyn TeachPage, area: Rect, buffer: &mut Buffer) {
        let Some(content) = content.as_a::<GlossaryPage>() else { return };
        let (theme, [terms, definition]) = (app.theme, areas(area, content));
        let (all, chosen) = (rows(content), self.at(content));
        let right_title = format!("{} of {}", chosen + 1, content.entries.len());
        framed(buffer, terms, "Glossary", &right_title, true, theme);
        for (place, row) in list_rows(chosen, &all, inside(terms)).rows() {
            match all.get(row) {
                Some(Row::Group(group)) => {
                    RowWriter::new(buffer, place, 0).skip(1).put(group, theme.bold(Hue::Text));
                }
                Some(Row::Entry(at, entry)) => {
                    let ink = list::ink(place, *at == chosen, theme, buffer);
                    let mut writer = RowWriter::new(buffer, place, 0);
                    writer.skip(1).put(mark(*at == chosen), ink).skip(1);
                    let name = shortened(&entry.name, writer.room());
                    writer.put(&name, ink);
                }
                None => {}
            }
        }
        let Some(entry) = self.entry(content) else { return };
        let inner = framed(buffer, definition, &entry.name, entry.term.group(), false, theme);
        let mut shown = Page::default();
        entry.onto(&mut shown);
        if entry.lesson.is_some_and(|lesson| lesson < lessons::all().len()) {
            shown.text("Enter opens it.", Hue::Dim);
        }
        page::within(&shown, 0, inner, theme, buffer);
    }
}

const fn inside(frame: Rect) -> Rect {
    Rect {
        x: frame.x + 1,
        y: frame.y + 1,
        width: frame.width.saturating_sub(2),
        height: frame.height.saturating_sub(2),
    }
}

fn list_rows(chosen: usize, all: &[Row<'_>], area: Rect) -> ListRows {
    let row = all.iter().position(|row| matches!(row, Row::Entry(at, _) if *at == chosen)).unwrap_or(0);
    ListRows::around(row, all.len(), area)
}

/// The terms and the definition.
fn areas(area: Rect, content: &GlossaryPage) -> [Rect; 2] {
    if area.width < WIDE {
        return Layout::vertical([Constraint::Fill(1), Constraint::Length(BELOW.min(area.height / 2))]).areas(area);
    }
    let longest = content.entries.iter().map(|entry| width(&entry.name)).max().unwrap_or(0);
    let list = (longest + 6).min(area.width * 2 / 5);
    Layout::horizontal([Constraint::Length(list), Constraint::Fill(1)]).areas(area)
}
