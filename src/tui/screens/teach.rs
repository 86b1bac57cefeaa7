//! The teach screen: tabs, knobs, and the open page.
//!
//! ```text
//!  plimsoll  Llama 3.1 8B · Q4_K_M · 8.0 B · 4.6 GiB        llama.cpp           RTX 3090 · 64 GiB   ? help   header
//!  ▸ Allocation                                                                                               tabs
//!  ▸ context 16 384  parallel 1  KV cache f16  flash attn auto  batch 512  GPU layers auto                   knobs
//! ╭─────────────────────────────────────────────────────────────────────────────────────────────────── page ╮
//! │                                                                                                         │
//! ╰─────────────────────────────────────────────────────────────────────────────────────────────────────────╯
//!  Tab page  ←→ step  ↑↓ choose  …                                                                          footer
//! ```
//!
//! Each page has a file: a cursor, which is a `PageCursor`, with its keys, its mouse, its areas and its drawing.

mod allocation;
mod caches;
mod copy;
mod drawn;
mod formulas;
mod glossary;
mod layers;
mod lessons;
mod playback;
mod presenter;
mod schedule;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Position, Rect};
use ratatui::style::Style;

use crate::settings::knob::Knob;
use crate::teach::layers::LayersPage;
use crate::teach::lessons::{self as teach_lessons, Lesson};
use crate::teach::{Tab, TeachPage, Topic};
use crate::tui::action::{Action, Command, Gesture};
use crate::tui::app::App;
use crate::tui::effect::{Effect, LimitsRequest, TeachRequest};
use crate::tui::keymap::Scope;
use crate::tui::planner::knobs;
use crate::tui::screen::{Cover, Response, Screen};
use crate::tui::screens::explain::ExplainTarget;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::field::Text;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, sentence, width};

pub use drawn::DrawnTeach;
use playback::Playback;
use presenter::Presented;

/// The state of the screen.
#[derive(Debug)]
pub struct TeachScreen {
    /// The tab of the open page.
    pub tab: Tab,
    /// The cursors of all pages.
    pub cursors: Cursors,
    playback: Playback,
    /// What is presented of the open lesson.
    presented: Option<Presented>,
    /// What was selected in the planner.
    subject: Option<ExplainTarget>,
    /// The newest content, or why there is none; it is kept until newer arrives.
    content: Option<Result<Arc<dyn TeachPage>, String>>,
    /// The newest request for content, and the newest step of an animation; answers to older ones are ignored.
    request: u64,
    tick: u64,
}

/// What follows a key or the mouse on a page.
#[derive(Clone, Copy)]
enum PageResponse {
    /// Drawing only.
    Redraw,
    /// Other content is requested.
    Request,
    /// A tick is requested.
    Tick,
    /// This lesson is opened.
    Lesson(usize),
}

/// A page's cursor: what is selected, and what keys, the mouse and the screen make of it. Other content than the page's own
/// is passed over.
trait PageCursor: fmt::Debug {
    /// What is computed for it.
    fn topic(&self) -> Topic;

    /// Commands that only some pages know, and this one does.
    fn commands(&self) -> &'static [Command] {
        &[]
    }

    /// The step of its walk, counted from 0; none if it has none, or none is chosen.
    fn step(&self) -> Option<u64> {
        None
    }

    /// Goes to a step of its walk.
    fn go_to(&mut self, _step: u64) {}

    /// The time of a step at the usual speed; none if it has no steps.
    fn step_time(&self) -> Option<Duration> {
        None
    }

    /// Whether it is as it opens, but for lesson and step.
    fn is_as_opened(&self) -> bool {
        true
    }

    /// What follows a command that needs no content, and that only this page takes so.
    fn press_at_once(&mut self, _app: &App, _command: Command) -> Option<PageResponse> {
        None
    }

    /// What follows a command.
    fn press(&mut self, app: &mut App, content: &dyn TeachPage, area: Rect, command: Command) -> PageResponse;

    /// What follows a press or a drag of the mouse.
    fn point(
        &mut self,
        app: &mut App,
        content: &dyn TeachPage,
        area: Rect,
        gesture: Gesture,
        at: Position,
    ) -> PageResponse;

    /// Draws the page.
    fn draw(&self, app: &App, content: &dyn TeachPage, area: Rect, buffer: &mut Buffer);
}

/// The cursor of every page.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Cursors {
    pub allocation: allocation::Cursor,
    pub caches: caches::Cursor,
    pub formulas: formulas::Cursor,
    pub glossary: glossary::Cursor,
    pub layers: layers::Cursor,
    pub lessons: lessons::Cursor,
    pub schedule: schedule::Cursor,
}

impl Cursors {
    fn of(&self, tab: Tab) -> &dyn PageCursor {
        match tab {
            Tab::Allocation => &self.allocation,
            Tab::Caches => &self.caches,
            Tab::Formulas => &self.formulas,
            Tab::Glossary => &self.glossary,
            Tab::Layers => &self.layers,
            Tab::Lessons => &self.lessons,
            Tab::Schedule => &self.schedule,
        }
    }

    fn of_mut(&mut self, tab: Tab) -> &mut dyn PageCursor {
        match tab {
            Tab::Allocation => &mut self.allocation,
            Tab::Caches => &mut self.caches,
            Tab::Formulas => &mut self.formulas,
            Tab::Glossary => &mut self.glossary,
            Tab::Layers => &mut self.layers,
            Tab::Lessons => &mut self.lessons,
            Tab::Schedule => &mut self.schedule,
        }
    }
}

/// Where the screen opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TeachStart {
    /// The page.
    pub page: Tab,
    /// The lesson, counted from 1.
    pub lesson: Option<usize>,
    /// The step of a walk, counted from 1.
    pub step: Option<usize>,
}

impl TeachScreen {
    /// The screen as `start` says; what is beyond the end of a page is its last.
    pub fn at(start: &TeachStart) -> Self {
        let mut screen = Self::on(start.page);
        let before = |number: usize| number.saturating_sub(1);
        if let Some(lesson) = start.lesson {
            screen.cursors.lessons.at = before(lesson).min(lessons::count().saturating_sub(1));
        }
        if let Some(step) = start.step.map(before) {
            screen.go_to(step);
        }
        screen
    }

    /// The screen as it was left, if it was; where something else is selected in the planner now, lessons, layers and
    /// terms are at what fits that.
    pub fn reopened(app: &App, before: Option<&Self>) -> Self {
        let mut screen = Self::on(before.map_or(Tab::ALL[0], |before| before.tab));
        let subject = ExplainTarget::of(app);
        if let Some(before) = before {
            screen.cursors = before.cursors.clone();
            screen.open_lesson(before.cursors.lessons.at);
        }
        // at first the first knob is selected, by nobody
        let first = app.panels.knobs.offered.first().map(|knob| ExplainTarget::Knob(*knob));
        screen.subject = before.and_then(|before| before.subject).or(first);
        if screen.subject != Some(subject) {
            screen.turn_to(app, subject);
        }
        screen
    }

    /// The screen on `subject`: at its lesson or its term, or at its step of the layers.
    pub fn about(app: &App, subject: ExplainTarget) -> Self {
        let mut screen = Self::on(Tab::Glossary);
        screen.turn_to(app, subject);
        screen.tab = match subject {
            ExplainTarget::Layer(_) | ExplainTarget::Device(_) => Tab::Layers,
            ExplainTarget::Knob(_) | ExplainTarget::Graph(_) if subject.lesson(app).is_some() => Tab::Lessons,
            ExplainTarget::Knob(_) | ExplainTarget::Graph(_) => Tab::Glossary,
        };
        screen
    }

    /// Moves every page to what fits `subject`; the open page stays.
    fn turn_to(&mut self, app: &App, subject: ExplainTarget) {
        self.subject = Some(subject);
        if let Some(lesson) = subject.lesson(app) {
            self.open_lesson(lesson);
        }
        if let Some(term) = subject.term(app) {
            self.cursors.glossary = glossary::Cursor::on(term);
        }
        let Some(walk) = app.request.plan.as_deref().map(LayersPage::of) else { return };
        let step = match subject {
            ExplainTarget::Layer(layer) => walk.step_of_layer(layer),
            ExplainTarget::Device(device) => Some(walk.step_of(device, 1)),
            ExplainTarget::Knob(_) | ExplainTarget::Graph(_) => None,
        };
        if let Some(step) = step {
            self.cursors.layers.go_to(step as u64);
        }
    }

    fn open_lesson(&mut self, lesson: usize) {
        self.cursors.lessons = lessons::Cursor::on(lesson);
    }

    /// Goes to the step with this index on every page that has steps.
    fn go_to(&mut self, step: usize) {
        for tab in Tab::ALL {
            self.cursors.of_mut(tab).go_to(step as u64);
        }
    }

    /// The cursor of the open page.
    fn open(&self) -> &dyn PageCursor {
        self.cursors.of(self.tab)
    }

    fn open_mut(&mut self) -> &mut dyn PageCursor {
        self.cursors.of_mut(self.tab)
    }

    /// The time until the next step of the open page; none if it has no steps.
    fn delay(&self) -> Option<Duration> {
        self.open().step_time().map(|time| self.playback.paced(time))
    }

    fn press_on_page(&mut self, app: &mut App, command: Command) -> PageResponse {
        let Some(content) = self.content() else { return PageResponse::Redraw };
        let area = areas(app)[2];
        self.open_mut().press(app, &*content, area, command)
    }

    /// Takes the next step of the open page; whether there was one.
    fn advance(&mut self, app: &mut App) -> bool {
        let before = self.open().step();
        self.press_on_page(app, Command::More);
        self.open().step() != before
    }

    /// Begins to play, from the start if the end is reached, or pauses.
    fn play(&mut self, app: &mut App) -> PageResponse {
        self.playback.running = !self.playback.running && self.delay().is_some();
        if !self.playback.running {
            return PageResponse::Redraw;
        }
        let (before, moved) = (self.open().step(), self.advance(app));
        // the step itself follows with the tick
        match before.filter(|_| moved) {
            Some(step) => self.open_mut().go_to(step),
            None if moved => {}
            None => self.open_mut().go_to(0),
        }
        PageResponse::Tick
    }

    fn turn_page(&mut self, tab: Tab) -> PageResponse {
        (self.tab, self.playback.running) = (tab, false);
        PageResponse::Request
    }

    /// The screen with `tab` open and no content yet.
    pub fn on(tab: Tab) -> Self {
        Self {
            tab,
            cursors: Cursors::default(),
            playback: Playback::default(),
            presented: None,
            subject: None,
            content: None,
            request: 0,
            tick: 0,
        }
    }

    /// The content of the open page.
    fn content(&self) -> Option<Arc<dyn TeachPage>> {
        let content = self.content.as_ref()?.as_ref().ok()?;
        (content.tab() == self.tab).then(|| Arc::clone(content))
    }

    /// The knobs that a key goes through: those of the open lesson, if it is about any.
    fn knobs(&self, app: &App) -> Vec<Knob> {
        let offered = &app.panels.knobs.offered;
        let of_lesson = match self.tab {
            Tab::Lessons => teach_lessons::all().get(self.cursors.lessons.at).map(Lesson::knobs).unwrap_or_default(),
            _ => Vec::new(),
        };
        let both: Vec<Knob> = of_lesson.into_iter().filter(|knob| offered.contains(knob)).collect();
        if both.is_empty() { offered.clone() } else { both }
    }

    fn follow(&mut self, app: &mut App, response: PageResponse) -> Vec<Effect> {
        match response {
            PageResponse::Redraw => Vec::new(),
            PageResponse::Request => self.ask(app),
            PageResponse::Tick => {
                self.tick = app.request.next_id();
                self.delay().map(|after| Effect::Tick { id: self.tick, after }).into_iter().collect()
            }
            PageResponse::Lesson(lesson) => {
                self.open_lesson(lesson);
                self.turn_page(Tab::Lessons);
                self.ask(app)
            }
        }
    }
}

impl Screen for TeachScreen {
    fn scopes(&self) -> &'static [Scope] {
        if self.accepts_text() { &[Scope::Field, Scope::Everywhere] } else { &[Scope::Teach, Scope::Everywhere] }
    }

    fn accepts_text(&self) -> bool {
        self.tab == Tab::Lessons && self.cursors.lessons.typing.is_some()
    }

    fn text(&mut self, _: &mut App, text: Text<'_>) -> Response {
        if let Some(typed) = &mut self.cursors.lessons.typing {
            typed.edit(text);
        }
        Response::STAY
    }

    fn message(&self) -> Option<&str> {
        self.cursors.lessons.typing.as_ref().filter(|_| self.accepts_text())?.wrong.as_deref()
    }

    fn cover(&self) -> Cover {
        Cover::Whole
    }

    fn goes_on(&self) -> bool {
        true
    }

    fn handles(&self, command: Command) -> bool {
        match command {
            Command::Enter
            | Command::Phase
            | Command::Zoom
            | Command::Compare
            | Command::CompareEngines
            | Command::RemoveOp
            | Command::Peak
            | Command::Answer
            | Command::Present => self.open().commands().contains(&command),
            Command::Play | Command::Slower | Command::Faster => self.open().step_time().is_some(),
            Command::Notes => self.presented.is_some(),
            _ => true,
        }
    }

    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        let (Some(now), Some(plan)) = (app.request.plan_request(), &app.request.plan) else { return Vec::new() };
        let of = self.cursors.lessons.yours().filter(|_| self.tab == Tab::Lessons).cloned().unwrap_or(now);
        let plan = (**plan).clone();
        self.request = app.request.next_id();
        let about = LimitsRequest { id: self.request, of, plan };
        vec![Effect::Teach(Box::new(TeachRequest { topic: self.open().topic(), about }))]
    }

    fn planned(&mut self, app: &mut App, _: bool) -> Vec<Effect> {
        if app.request.refused.is_none() { self.ask(app) } else { Vec::new() }
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        let mut response = PageResponse::Redraw;
        let content = self.content();
        if self.accepts_text() {
            match content.as_deref().and_then(|page| page.as_a()).filter(|_| command == Command::Enter) {
                Some(lesson) => self.cursors.lessons.guess(app, lesson),
                None => self.cursors.lessons.typing = None,
            }
            return Response::STAY;
        }
        if let (Some(shown), Some(lesson)) = (self.presented, content.as_deref().and_then(|page| page.as_a())) {
            match command {
                Command::Up | Command::Down => self.presented = Some(Presented { idea: 0, ..shown }),
                Command::Theme | Command::Help | Command::CopyValue => {}
                _ => {
                    let ends = matches!(command, Command::Back | Command::Present);
                    self.presented = (!ends).then(|| shown.pressed(lesson, command));
                    return Response::STAY;
                }
            }
        }
        if let Some(response) = self.open_mut().press_at_once(app, command) {
            return Response::Stay(self.follow(app, response));
        }
        match command {
            Command::Back => {
                self.cursors.lessons.give_back(app);
                return Response::Ignored;
            }
            Command::Help => return Response::Ignored,
            Command::Theme => app.theme = app.theme.next_tone(),
            Command::Undo => app.undo(),
            Command::Redo => app.redo(),
            Command::NextKnob => {
                let offered = self.knobs(app);
                let now = Some(app.panels.knobs.focus).filter(|knob| offered.contains(knob));
                if let Some(knob) = next(&offered, now).or(offered.first().copied()) {
                    app.panels.focus_knob(knob);
                }
            }
            Command::CopyValue => return Response::Stay(self.copy(app)),
            Command::Present if self.tab == Tab::Lessons => self.presented = Some(Presented::default()),
            Command::Present | Command::Notes => {}
            Command::Play => response = self.play(app),
            Command::Slower => self.playback.slower(),
            Command::Faster => self.playback.faster(),
            Command::KnobLess => knobs::turn(app, Command::Less),
            Command::KnobMore => knobs::turn(app, Command::More),
            Command::NextPanel => response = self.turn_page(self.tab.turn(1)),
            Command::PreviousPanel => response = self.turn_page(self.tab.turn(Tab::ALL.len() - 1)),
            _ => response = self.press_on_page(app, command),
        }
        Response::Stay(self.follow(app, response))
    }

    fn mouse(&mut self, app: &mut App, gesture: Gesture, at: Position) -> Response {
        if self.presented.is_some() {
            return Response::STAY;
        }
        let [tab_row, knob_row, area] = areas(app);
        let content = self.content();
        if let (Gesture::WheelUp | Gesture::WheelDown, Some(lesson)) =
            (gesture, content.as_deref().and_then(|page| page.as_a()))
            && lessons::areas(area)[1].contains(at)
        {
            self.cursors.lessons.wheel(lesson, area, gesture == Gesture::WheelDown);
            return Response::STAY;
        }
        match gesture {
            Gesture::WheelUp | Gesture::WheelDown | Gesture::Up => return Response::Ignored,
            Gesture::Down | Gesture::Drag => {}
        }
        if gesture == Gesture::Down {
            let mut tabs = tabs(self.tab, tab_row);
            if let Some((tab, _)) = tabs.find(|(tab, place)| *tab != self.tab && place.contains(at)) {
                let response = self.turn_page(tab);
                return Response::Stay(self.follow(app, response));
            }
            if let Some((knob, ..)) = knobs(app, knob_row).find(|(.., place)| place.contains(at)) {
                app.panels.focus_knob(knob);
                return Response::STAY;
            }
        }
        let Some(content) = content else { return Response::STAY };
        let response = self.open_mut().point(app, &*content, area, gesture, at);
        Response::Stay(self.follow(app, response))
    }

    fn answer(&mut self, app: &mut App, answer: Action) -> Response {
        match answer {
            Action::PageReady { id, result } if id == self.request => self.content = Some(result),
            Action::Tick { id } if id == self.tick && self.playback.running => {
                self.playback.running = self.advance(app);
                let response = if self.playback.running { PageResponse::Tick } else { PageResponse::Redraw };
                return Response::Stay(self.follow(app, response));
            }
            _ => {}
        }
        Response::STAY
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        let (theme, [tab_row, knob_row, area]) = (app.theme, areas(app));
        if let (Some(shown), Some(lesson)) = (self.presented, self.content().as_deref().and_then(|page| page.as_a())) {
            return presenter::draw(shown, lesson, theme, app.panels.regions.screen, buffer);
        }
        let mut label = |text: &str, chosen: bool, place: Rect| {
            let ink = ink(chosen, Hue::Dim, theme);
            RowWriter::new(buffer, place, 0).skip(1).put(mark(chosen), ink).put(text, ink);
        };
        let mut end = tab_row.x;
        for (tab, place) in tabs(self.tab, tab_row) {
            label(tab.title(), tab == self.tab, place);
            end = place.right();
        }
        for (knob, text, place) in knobs(app, knob_row) {
            label(&text, knob == app.panels.knobs.focus, place);
        }
        if self.open().step_time().is_some() && !self.playback.is_usual() {
            let rest = Rect { x: end, width: tab_row.right().saturating_sub(end + 1), ..tab_row };
            let texts = self.playback.texts();
            if let Some(text) = texts.iter().find(|text| width(text) <= rest.width) {
                RowWriter::new(buffer, rest, 0).right(text, theme.bold(Hue::Focus));
            }
        }
        let mut instead = |text: &str, hue: Hue| {
            panel::frame(buffer, area, "", "", false, theme);
            sentence(text, area.inner(Margin::new(3, 2)), theme.ink(hue), buffer);
        };
        match (&self.content, &app.request.refused, self.content().as_deref()) {
            (Some(Err(why)), ..) => instead(why, Hue::Over),
            (_, Some(error), _) => instead(&error.to_string(), Hue::Over),
            (.., None) => instead("Computing…", Hue::Dim),
            (.., Some(content)) => self.open().draw(app, content, area, buffer),
        }
    }
}

/// The rows of tabs and knobs, and the page below them.
fn areas(app: &App) -> [Rect; 3] {
    Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Fill(1)])
        .areas(app.panels.regions.body())
}

/// The tabs that fit, scrolled so that that of `open` is visible.
fn tabs(open: Tab, row: Rect) -> impl Iterator<Item = (Tab, Rect)> {
    let widths = Tab::ALL.map(|tab| width(tab.title()) + 3);
    let chosen = Tab::ALL.iter().position(|tab| *tab == open).unwrap_or(0);
    let fits = |from: &usize| widths[*from..=chosen].iter().sum::<u16>() <= row.width;
    let first = (0..=chosen).find(fits).unwrap_or(chosen);
    Tab::ALL.into_iter().skip(first).zip(side_by_side(row, widths.into_iter().skip(first)))
}

/// The knobs that fit with their labels and areas, scrolled so that the focused one is visible.
fn knobs(app: &App, row: Rect) -> impl Iterator<Item = (Knob, String, Rect)> + use<> {
    let offered = &app.panels.knobs.offered;
    let label = |&knob: &Knob| format!("{} {}", knob.title(), knob.show(app.request.value(knob)));
    let labels: Vec<String> = offered.iter().map(label).collect();
    let widths: Vec<u16> = labels.iter().map(|label| width(label) + 3).collect();
    let chosen = offered.iter().position(|knob| *knob == app.panels.knobs.focus);
    let fits = |from: &usize| chosen.is_some_and(|to| widths[*from..=to].iter().sum::<u16>() <= row.width);
    let first = (0..=chosen.unwrap_or(0)).find(fits).unwrap_or(offered.len());
    let places = side_by_side(row, widths.into_iter().skip(first));
    let knobs = offered.clone().into_iter().zip(labels).skip(first);
    knobs.zip(places).map(|((knob, label), place)| (knob, label, place))
}

/// Areas of these widths side by side, as many as fit.
fn side_by_side(row: Rect, widths: impl IntoIterator<Item = u16>) -> impl Iterator<Item = Rect> {
    widths.into_iter().scan(row.x, move |x, width| {
        let place = Rect { x: *x, width, ..row };
        *x = x.saturating_add(width);
        (*x <= row.right()).then_some(place)
    })
}

/// The entry of a list drawn at this position: `first` of `count` is in the top row of `rows`.
fn entry_at(rows: Rect, first: usize, count: usize, at: Position) -> Option<usize> {
    let entry = first + usize::from(at.y.checked_sub(rows.y)?);
    (rows.contains(at) && entry < count).then_some(entry)
}

/// The first visible entry of `count` in `rows` rows, so that entry `at` is visible with another below it.
fn first_visible(at: usize, count: usize, rows: u16) -> usize {
    let rows = usize::from(rows);
    (at + 1).saturating_sub(rows.saturating_sub(2).max(1)).min(count.saturating_sub(rows))
}

/// A step as an index.
fn index(step: u64) -> usize {
    usize::try_from(step).unwrap_or(usize::MAX)
}

/// The entry of `all` after `now`: the first after none, and none after the last.
fn next<T: Copy + PartialEq>(all: &[T], now: Option<T>) -> Option<T> {
    let at = now.map_or(0, |now| all.iter().position(|entry| *entry == now).map_or(all.len(), |at| at + 1));
    all.get(at).copied()
}

/// Left and right as up and down, for what moves in one direction only.
const fn upright(command: Command) -> Command {
    match command {
        Command::Less => Command::Up,
        Command::More => Command::Down,
        command => command,
    }
}

/// A frame around `area`; returns the inside without a column on either side.
fn framed(buffer: &mut Buffer, area: Rect, title: &str, right_title: &str, focused: bool, theme: Theme) -> Rect {
    panel::frame(buffer, area, title, right_title, focused, theme).inner(Margin::new(1, 0))
}

/// The mark before an entry.
const fn mark(chosen: bool) -> &'static str {
    if chosen { "▸" } else { " " }
}

/// The ink of an entry, which is `otherwise` unless it is selected.
fn ink(chosen: bool, otherwise: Hue, theme: Theme) -> Style {
    if chosen { theme.bold(Hue::Focus) } else { theme.ink(otherwise) }
}
