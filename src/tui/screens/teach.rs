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
//! Each page has a file: its cursor, its keys, its mouse, its areas and its drawing.

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

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Position, Rect};
use ratatui::style::Style;

use crate::settings::knob::Knob;
use crate::teach::layers::LayersPage;
use crate::teach::lessons::{self as teach_lessons, Lesson};
use crate::teach::{Page, PageContent, Topic};
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
    /// The open page.
    pub page: Page,
    /// The cursor of the caches page.
    pub caches: caches::Cursor,
    /// The cursor of the lessons page.
    pub lessons: lessons::Cursor,
    schedule: schedule::Cursor,
    allocation: allocation::Cursor,
    formulas: formulas::Cursor,
    layers: layers::Cursor,
    glossary: glossary::Cursor,
    playback: Playback,
    /// What is presented of the open lesson.
    presented: Option<Presented>,
    /// What was selected in the planner.
    subject: Option<ExplainTarget>,
    /// The newest content, or why there is none; it is kept until newer arrives.
    content: Option<Result<Arc<PageContent>, String>>,
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
}

/// Where the screen opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TeachStart {
    /// The page.
    pub page: Page,
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
            screen.lessons.at = before(lesson).min(lessons::count().saturating_sub(1));
        }
        if let Some(step) = start.step.map(before) {
            screen.go_to(step);
        }
        screen
    }

    /// The screen as it was left, if it was; where something else is selected in the planner now, lessons, layers and
    /// terms are at what fits that.
    pub fn reopened(app: &App, before: Option<&Self>) -> Self {
        let mut screen = Self::on(before.map_or(Page::ALL[0], |before| before.page));
        let subject = ExplainTarget::of(app);
        if let Some(before) = before {
            screen.caches = before.caches;
            screen.lessons.at = before.lessons.at;
            screen.schedule = before.schedule;
            screen.allocation = before.allocation;
            screen.formulas = before.formulas.clone();
            screen.layers = before.layers;
            screen.glossary = before.glossary;
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
        let mut screen = Self::on(Page::Glossary);
        screen.turn_to(app, subject);
        screen.page = match subject {
            ExplainTarget::Layer(_) | ExplainTarget::Device(_) => Page::Layers,
            ExplainTarget::Knob(_) | ExplainTarget::Graph(_) if subject.lesson(app).is_some() => Page::Lessons,
            ExplainTarget::Knob(_) | ExplainTarget::Graph(_) => Page::Glossary,
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
            self.glossary = glossary::Cursor::on(term);
        }
        let Some(walk) = app.request.plan.as_deref().map(LayersPage::of) else { return };
        let step = match subject {
            ExplainTarget::Layer(layer) => walk.step_of_layer(layer),
            ExplainTarget::Device(device) => Some(walk.step_of(device, 1)),
            ExplainTarget::Knob(_) | ExplainTarget::Graph(_) => None,
        };
        if let Some(step) = step {
            self.layers.go_to(step);
        }
    }

    fn open_lesson(&mut self, lesson: usize) {
        self.lessons = lessons::Cursor::default();
        self.lessons.at = lesson;
    }

    /// Goes to the step with this index on every page that has steps.
    fn go_to(&mut self, step: usize) {
        self.schedule.go_to(step);
        self.allocation.go_to(step);
        self.layers.go_to(step);
        self.caches.steps = step as u64;
    }

    /// The step of the open page.
    fn step(&self) -> Option<u64> {
        match self.page {
            Page::Schedule => Some(self.schedule.step() as u64),
            Page::Allocation => self.allocation.step().map(|step| step as u64),
            Page::Caches => Some(self.caches.steps),
            Page::Layers => Some(self.layers.step() as u64),
            Page::Formulas | Page::Lessons | Page::Glossary => None,
        }
    }

    /// Takes the next step of the open page; whether there was one.
    fn advance(&mut self) -> bool {
        let before = self.step();
        self.press_on_page(Command::More);
        self.step() != before
    }

    /// Begins to play, from the start if the end is reached, or pauses.
    fn play(&mut self) -> PageResponse {
        self.playback.running = !self.playback.running && self.playback.delay(self.page).is_some();
        if !self.playback.running {
            return PageResponse::Redraw;
        }
        let (before, moved) = (self.step(), self.advance());
        // the step itself follows with the tick
        match before.filter(|_| moved) {
            Some(step) => self.go_to_on_page(step),
            None if moved => {}
            None => self.go_to_on_page(0),
        }
        PageResponse::Tick
    }

    /// Goes to a step of the open page only.
    fn go_to_on_page(&mut self, step: u64) {
        let index = usize::try_from(step).unwrap_or(usize::MAX);
        match self.page {
            Page::Schedule => self.schedule.go_to(index),
            Page::Allocation => self.allocation.go_to(index),
            Page::Caches => self.caches.steps = step,
            Page::Layers => self.layers.go_to(index),
            Page::Formulas | Page::Lessons | Page::Glossary => {}
        }
    }

    fn turn_page(&mut self, page: Page) -> PageResponse {
        (self.page, self.playback.running) = (page, false);
        PageResponse::Request
    }

    /// The screen with `page` open and no content yet.
    pub fn on(page: Page) -> Self {
        Self {
            page,
            caches: caches::Cursor::default(),
            lessons: lessons::Cursor::default(),
            schedule: schedule::Cursor::default(),
            allocation: allocation::Cursor::default(),
            formulas: formulas::Cursor::default(),
            layers: layers::Cursor::default(),
            glossary: glossary::Cursor::default(),
            playback: Playback::default(),
            presented: None,
            subject: None,
            content: None,
            request: 0,
            tick: 0,
        }
    }

    /// The content of the open page.
    fn content(&self) -> Option<Arc<PageContent>> {
        let content = self.content.as_ref()?.as_ref().ok()?;
        (content.page() == self.page).then(|| Arc::clone(content))
    }

    fn topic(&self) -> Topic {
        match self.page {
            Page::Schedule => Topic::Schedule(self.schedule.without, self.schedule.phase),
            Page::Formulas => Topic::Formulas(self.formulas.versus),
            Page::Caches => Topic::Caches,
            Page::Lessons => Topic::Lessons(self.lessons.at),
            Page::Allocation => Topic::Allocation(self.allocation.versus, self.allocation.phase),
            Page::Layers => Topic::Layers,
            Page::Glossary => Topic::Glossary,
        }
    }

    fn press_on_page(&mut self, command: Command) -> PageResponse {
        match self.content().as_deref() {
            Some(PageContent::Schedule(content)) => self.schedule.press(content, command),
            Some(PageContent::Formulas(content)) => self.formulas.press(content, command),
            Some(PageContent::Allocation(content)) => self.allocation.press(content, command),
            Some(PageContent::Glossary(content)) => match self.glossary.lesson(content) {
                Some(lesson) if command == Command::Enter => {
                    self.open_lesson(lesson);
                    self.turn_page(Page::Lessons)
                }
                _ => {
                    self.glossary.press(content, command);
                    PageResponse::Redraw
                }
            },
            Some(PageContent::Caches(content)) => {
                self.caches.press(content, command);
                PageResponse::Redraw
            }
            Some(PageContent::Layers(content)) => {
                self.layers.press(content, command);
                PageResponse::Redraw
            }
            Some(PageContent::Lessons(_)) | None => PageResponse::Redraw,
        }
    }

    /// Handles a press or a drag of the mouse on the open page.
    fn point(&mut self, area: Rect, gesture: Gesture, at: Position) -> PageResponse {
        let pressed = gesture == Gesture::Down;
        match self.content().as_deref() {
            Some(PageContent::Schedule(content)) => self.schedule.point(content, area, at),
            Some(PageContent::Allocation(content)) => self.allocation.point(content, area, at),
            Some(PageContent::Caches(content)) => self.caches.point(content, area, at),
            Some(PageContent::Layers(content)) => self.layers.point(content, area, at),
            Some(PageContent::Glossary(content)) => self.glossary.point(content, area, at),
            Some(PageContent::Formulas(content)) if pressed => self.formulas.point(content, area, at),
            Some(PageContent::Formulas(_) | PageContent::Lessons(_)) | None => {}
        }
        PageResponse::Redraw
    }

    /// The knobs that a key goes through: those of the open lesson, if it is about any.
    fn knobs(&self, app: &App) -> Vec<Knob> {
        let offered = &app.panels.knobs.offered;
        let of_lesson = match self.page {
            Page::Lessons => teach_lessons::all().get(self.lessons.at).map(Lesson::knobs).unwrap_or_default(),
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
                let delay = self.playback.delay(self.page);
                delay.map(|after| Effect::Tick { id: self.tick, after }).into_iter().collect()
            }
        }
    }
}

impl Screen for TeachScreen {
    fn scopes(&self) -> &'static [Scope] {
        if self.accepts_text() { &[Scope::Field, Scope::Everywhere] } else { &[Scope::Teach, Scope::Everywhere] }
    }

    fn accepts_text(&self) -> bool {
        self.page == Page::Lessons && self.lessons.typing.is_some()
    }

    fn text(&mut self, _: &mut App, text: Text<'_>) -> Response {
        if let Some(typed) = &mut self.lessons.typing {
            typed.edit(text);
        }
        Response::STAY
    }

    fn message(&self) -> Option<&str> {
        self.lessons.typing.as_ref().filter(|_| self.accepts_text())?.wrong.as_deref()
    }

    fn cover(&self) -> Cover {
        Cover::Whole
    }

    fn goes_on(&self) -> bool {
        true
    }

    fn handles(&self, command: Command) -> bool {
        match command {
            Command::Enter => matches!(self.page, Page::Formulas | Page::Schedule | Page::Lessons | Page::Glossary),
            Command::Phase | Command::Zoom => matches!(self.page, Page::Schedule | Page::Allocation),
            Command::Compare => matches!(self.page, Page::Formulas | Page::Allocation),
            Command::CompareEngines => self.page == Page::Formulas,
            Command::RemoveOp => self.page == Page::Schedule,
            Command::Peak => self.page == Page::Allocation,
            Command::Play | Command::Slower | Command::Faster => self.playback.delay(self.page).is_some(),
            Command::Answer | Command::Present => self.page == Page::Lessons,
            Command::Notes => self.presented.is_some(),
            _ => true,
        }
    }

    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        let (Some(now), Some(plan)) = (app.request.plan_request(), &app.request.plan) else { return Vec::new() };
        let of = self.lessons.yours().filter(|_| self.page == Page::Lessons).cloned().unwrap_or(now);
        let plan = (**plan).clone();
        self.request = app.request.next_id();
        let about = LimitsRequest { id: self.request, of, plan };
        vec![Effect::Teach(Box::new(TeachRequest { topic: self.topic(), about }))]
    }

    fn planned(&mut self, app: &mut App, _: bool) -> Vec<Effect> {
        if app.request.refused.is_none() { self.ask(app) } else { Vec::new() }
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        let mut response = PageResponse::Redraw;
        if self.accepts_text() {
            match (command, self.content().as_deref()) {
                (Command::Enter, Some(PageContent::Lessons(lesson))) => self.lessons.guess(app, lesson),
                _ => self.lessons.typing = None,
            }
            return Response::STAY;
        }
        if let (Some(shown), Some(PageContent::Lessons(lesson))) = (self.presented, self.content().as_deref()) {
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
        match command {
            Command::Back if self.page == Page::Schedule && self.schedule.open.is_some() => self.schedule.open = None,
            Command::Back if self.page == Page::Formulas && self.formulas.versus.is_some() => {
                (self.formulas.versus, response) = (None, PageResponse::Request);
            }
            Command::Back => {
                self.lessons.give_back(app);
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
            Command::Present if self.page == Page::Lessons => self.presented = Some(Presented::default()),
            Command::Present | Command::Notes => {}
            Command::Play => response = self.play(),
            Command::Slower => self.playback.slower(),
            Command::Faster => self.playback.faster(),
            Command::KnobLess => knobs::turn(app, Command::Less),
            Command::KnobMore => knobs::turn(app, Command::More),
            Command::NextPanel => response = self.turn_page(self.page.turn(1)),
            Command::PreviousPanel => response = self.turn_page(self.page.turn(Page::ALL.len() - 1)),
            Command::CompareEngines if self.page == Page::Formulas => {
                self.formulas.next_versus(app.request.choice());
                response = PageResponse::Request;
            }
            _ => {
                let area = areas(app)[2];
                response = match self.content().as_deref() {
                    Some(PageContent::Lessons(lesson)) => self.lessons.press(app, lesson, area, command),
                    _ => self.press_on_page(command),
                };
            }
        }
        Response::Stay(self.follow(app, response))
    }

    fn mouse(&mut self, app: &mut App, gesture: Gesture, at: Position) -> Response {
        if self.presented.is_some() {
            return Response::STAY;
        }
        let [tab_row, knob_row, area] = areas(app);
        if let (Gesture::WheelUp | Gesture::WheelDown, Some(PageContent::Lessons(lesson))) =
            (gesture, self.content().as_deref())
            && lessons::areas(area)[1].contains(at)
        {
            self.lessons.wheel(lesson, area, gesture == Gesture::WheelDown);
            return Response::STAY;
        }
        match gesture {
            Gesture::WheelUp | Gesture::WheelDown | Gesture::Up => return Response::Ignored,
            Gesture::Down | Gesture::Drag => {}
        }
        if gesture == Gesture::Down {
            let mut tabs = tabs(self.page, tab_row);
            if let Some((page, _)) = tabs.find(|(page, place)| *page != self.page && place.contains(at)) {
                let response = self.turn_page(page);
                return Response::Stay(self.follow(app, response));
            }
            if let Some((knob, ..)) = knobs(app, knob_row).find(|(.., place)| place.contains(at)) {
                app.panels.focus_knob(knob);
                return Response::STAY;
            }
        }
        let response = match self.content().as_deref() {
            Some(PageContent::Lessons(lesson)) if gesture == Gesture::Down => self.lessons.point(app, lesson, area, at),
            _ => self.point(area, gesture, at),
        };
        Response::Stay(self.follow(app, response))
    }

    fn answer(&mut self, app: &mut App, answer: Action) -> Response {
        match answer {
            Action::PageReady { id, result } if id == self.request => self.content = Some(result),
            Action::Tick { id } if id == self.tick && self.playback.running => {
                self.playback.running = self.advance();
                let response = if self.playback.running { PageResponse::Tick } else { PageResponse::Redraw };
                return Response::Stay(self.follow(app, response));
            }
            _ => {}
        }
        Response::STAY
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        let (theme, [tab_row, knob_row, area]) = (app.theme, areas(app));
        if let (Some(shown), Some(PageContent::Lessons(lesson))) = (self.presented, self.content().as_deref()) {
            return presenter::draw(shown, lesson, theme, buffer);
        }
        let mut label = |text: &str, chosen: bool, place: Rect| {
            let ink = ink(chosen, Hue::Dim, theme);
            RowWriter::new(buffer, place, 0).skip(1).put(mark(chosen), ink).put(text, ink);
        };
        let mut end = tab_row.x;
        for (page, place) in tabs(self.page, tab_row) {
            label(page.title(), page == self.page, place);
            end = place.right();
        }
        for (knob, text, place) in knobs(app, knob_row) {
            label(&text, knob == app.panels.knobs.focus, place);
        }
        if self.playback.delay(self.page).is_some() && !self.playback.is_usual() {
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
            (.., Some(PageContent::Schedule(content))) => schedule::draw(app, self.schedule, content, area, buffer),
            (.., Some(PageContent::Formulas(content))) => formulas::draw(app, &self.formulas, content, area, buffer),
            (.., Some(PageContent::Caches(content))) => caches::draw(app, self.caches, content, area, buffer),
            (.., Some(PageContent::Lessons(content))) => lessons::draw(app, &self.lessons, content, area, buffer),
            (.., Some(PageContent::Allocation(content))) => {
                allocation::draw(app, self.allocation, content, area, buffer);
            }
            (.., Some(PageContent::Layers(content))) => layers::draw(app, self.layers, content, area, buffer),
            (.., Some(PageContent::Glossary(content))) => glossary::draw(app, self.glossary, content, area, buffer),
        }
    }
}

/// The rows of tabs and knobs, and the page below them.
fn areas(app: &App) -> [Rect; 3] {
    Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Fill(1)])
        .areas(app.panels.regions.body())
}

/// The tabs that fit, scrolled so that that of `open` is visible.
fn tabs(open: Page, row: Rect) -> impl Iterator<Item = (Page, Rect)> {
    let widths = Page::ALL.map(|page| width(page.title()) + 3);
    let chosen = Page::ALL.iter().position(|page| *page == open).unwrap_or(0);
    let fits = |from: &usize| widths[*from..=chosen].iter().sum::<u16>() <= row.width;
    let first = (0..=chosen).find(fits).unwrap_or(chosen);
    Page::ALL.into_iter().skip(first).zip(side_by_side(row, widths.into_iter().skip(first)))
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
