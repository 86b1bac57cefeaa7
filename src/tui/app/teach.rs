//! The teach screen: the open page, its content, and the cursors of all pages.

pub mod allocation;
pub mod caches;
pub mod formulas;
pub mod lessons;
pub mod schedule;

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::App;
use crate::engine::PlanRequest;
use crate::settings::Settings;
use crate::settings::knob::Knob;
use crate::teach::lessons::LessonSetup;
use crate::teach::{Page, PageContent, Topic};
use crate::tui::action::{Action, Command, Gesture};
use crate::tui::effect::{Effect, LimitsRequest, TeachRequest};
use crate::tui::keymap::Scope;
use crate::tui::screen::{Cover, Response, Screen};
use crate::tui::{regions, view};

/// The state of the screen.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct TeachScreen {
    pub page: Page,
    /// The newest content; it is kept until newer content arrives.
    pub content: Option<Arc<PageContent>>,
    /// Why there is no content.
    pub refused: Option<String>,
    pub schedule: schedule::Cursor,
    pub allocation: allocation::Cursor,
    pub formulas: formulas::Cursor,
    pub caches: caches::Cursor,
    pub lessons: lessons::Cursor,
    /// The newest request for content, and the newest step of an animation; answers to older ones are ignored.
    request: u64,
    tick: u64,
}

impl TeachScreen {
    /// The screen with the page of `topic` open and no content yet.
    pub fn on(topic: Topic) -> Self {
        let lesson = if let Topic::Lessons(at) = topic { at } else { 0 };
        Self {
            page: topic.page(),
            content: None,
            refused: None,
            request: 0,
            tick: 0,
            schedule: schedule::Cursor::default(),
            allocation: allocation::Cursor::default(),
            formulas: formulas::Cursor::default(),
            caches: caches::Cursor::default(),
            lessons: lessons::Cursor { at: lesson, ..lessons::Cursor::default() },
        }
    }

    /// The content of the open page.
    pub fn content(&self) -> Option<&PageContent> {
        self.content.as_deref().filter(|content| content.page() == self.page)
    }

    fn topic(&self) -> Topic {
        match self.page {
            Page::Schedule => Topic::Schedule(self.schedule.without),
            Page::Formulas => Topic::Formulas(self.formulas.versus),
            Page::Caches => Topic::Caches,
            Page::Lessons => Topic::Lessons(self.lessons.at),
            Page::Allocation => Topic::Allocation(self.allocation.versus),
        }
    }
}

/// What follows a command on a page.
pub(crate) enum PageResponse {
    /// Drawing only.
    Redraw,
    /// Other content is requested.
    Request,
    /// A tick is requested.
    Tick,
}

impl Screen for TeachScreen {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Teach, Scope::Everywhere]
    }

    fn cover(&self) -> Cover {
        Cover::Whole
    }

    fn handles(&self, command: Command) -> bool {
        match command {
            Command::Enter => matches!(self.page, Page::Formulas | Page::Schedule | Page::Lessons),
            Command::Compare => matches!(self.page, Page::Formulas | Page::Allocation),
            Command::CompareEngines => matches!(self.page, Page::Formulas),
            Command::RemoveOp => matches!(self.page, Page::Schedule),
            Command::Peak => matches!(self.page, Page::Allocation),
            Command::Play => matches!(self.page, Page::Caches),
            Command::Answer => matches!(self.page, Page::Lessons),
            _ => true,
        }
    }

    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        let (Some(of), Some(plan)) = (app.plan_request(), &app.plan) else { return Vec::new() };
        let plan = (**plan).clone();
        self.request = app.next_id();
        let about = LimitsRequest { id: self.request, of, plan };
        vec![Effect::Teach(Box::new(TeachRequest { topic: self.topic(), about }))]
    }

    fn planned(&mut self, app: &mut App, _: bool) -> Vec<Effect> {
        if app.refused.is_none() { self.ask(app) } else { Vec::new() }
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        let mut response = PageResponse::Redraw;
        match command {
            Command::Back if self.page == Page::Schedule && self.schedule.open.is_some() => {
                self.schedule.open = None;
            }
            Command::Back if self.page == Page::Formulas && self.formulas.versus.is_some() => {
                self.formulas.versus = None;
                response = PageResponse::Request;
            }
            Command::Back | Command::Help => return Response::Ignored,
            Command::Theme => app.theme = app.theme.next_tone(),
            Command::Undo => app.undo(),
            Command::Redo => app.redo(),
            Command::NextKnob => {
                let next = app.neighbour(app.knobs.focus, 1);
                let first = app.knobs.offered.first().copied().unwrap_or(app.knobs.focus);
                app.focus_knob(if next == app.knobs.focus { first } else { next });
            }
            Command::KnobLess => app.step_knob(-1),
            Command::KnobMore => app.step_knob(1),
            Command::NextPanel => (self.page, response) = (self.page.turn(1), PageResponse::Request),
            Command::PreviousPanel => {
                (self.page, response) = (self.page.turn(Page::ALL.len() - 1), PageResponse::Request);
            }
            Command::Enter if self.page == Page::Lessons => app.apply_lesson(self),
            Command::CompareEngines if self.page == Page::Formulas => {
                self.formulas.next_versus(app.choice());
                response = PageResponse::Request;
            }
            _ => response = self.press_on_page(command),
        }
        Response::Stay(self.follow(app, response))
    }

    fn mouse(&mut self, app: &mut App, gesture: Gesture, at: Position) -> Response {
        let regions = app.regions.teach();
        let on_text =
            self.page == Page::Lessons && regions::teach::lessons::PageAreas::new(regions.page).lesson.contains(at);
        match gesture {
            Gesture::WheelUp if on_text => return self.press(app, Command::PageUp),
            Gesture::WheelDown if on_text => return self.press(app, Command::PageDown),
            Gesture::WheelUp | Gesture::WheelDown | Gesture::Up => return Response::Ignored,
            Gesture::Down | Gesture::Drag => {}
        }
        if gesture == Gesture::Down {
            if let Some((page, _)) = regions.tab().find(|(page, place)| *page != self.page && place.contains(at)) {
                self.page = page;
                return Response::Stay(self.ask(app));
            }
            let written = app.knob_labels();
            let knobs = regions.knob(&written, app.knobs.focus);
            if let Some((knob, _)) = knobs.into_iter().find(|(_, place)| place.contains(at)) {
                app.focus_knob(knob);
                return Response::STAY;
            }
        }
        let response = self.point(regions.page, gesture, at.x, at.y);
        Response::Stay(self.follow(app, response))
    }

    fn answer(&mut self, app: &mut App, answer: Action) -> Vec<Effect> {
        match answer {
            Action::PageReady { id, result } if id == self.request => {
                (self.content, self.refused) = match result {
                    Ok(content) => (Some(content), None),
                    Err(why) => (None, Some(why)),
                };
            }
            Action::Tick { id } if id == self.tick && self.page == Page::Caches => {
                let response = self.caches.tick();
                return self.follow(app, response);
            }
            _ => {}
        }
        Vec::new()
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        view::teach::draw(app, self, buffer);
    }
}

impl App {
    /// Applies the setup of the open lesson as one undo step.
    fn apply_lesson(&mut self, teach: &TeachScreen) {
        let Some(PageContent::Lessons(lesson)) = teach.content() else { return };
        let LessonSetup { engine, settings, machine, model, is_open } = lesson.lesson.setup.clone();
        let machine = if machine == *self.machine { Arc::clone(&self.machine) } else { Arc::new(machine) };
        let (opened, model, quant) = match (is_open, &self.opened, &self.model) {
            (true, Some(opened), Some(model)) => (Arc::clone(opened), Arc::clone(model), self.settings.quant),
            _ => (Arc::clone(&model), model, None),
        };
        let settings = Settings { quant, ..settings };
        self.apply_request_as(PlanRequest { engine, opened, model, machine, settings }, "lesson's machine");
        self.notice = Some("The knobs are set as in the lesson; u goes back to yours.".to_owned());
    }

    /// Each offered knob with its label.
    pub fn knob_labels(&self) -> Vec<(Knob, String)> {
        let written = |&knob: &Knob| (knob, format!("{} {}", knob.title(), knob.show(self.value(knob))));
        self.knobs.offered.iter().map(written).collect()
    }

    /// Changes the focused knob by `by` stops.
    fn step_knob(&mut self, by: isize) {
        let knob = self.knobs.focus;
        self.set_knob(knob, knob.stops(&self.bounds).step(self.value(knob), by));
    }
}

impl TeachScreen {
    fn follow(&mut self, app: &mut App, response: PageResponse) -> Vec<Effect> {
        match response {
            PageResponse::Redraw => Vec::new(),
            PageResponse::Request => self.ask(app),
            PageResponse::Tick => {
                self.tick = app.next_id();
                vec![Effect::Tick { id: self.tick }]
            }
        }
    }

    fn press_on_page(&mut self, command: Command) -> PageResponse {
        match self.content.clone().as_deref().filter(|content| content.page() == self.page) {
            Some(PageContent::Schedule(content)) => self.schedule.press(content, command),
            Some(PageContent::Formulas(content)) => self.formulas.press(content, command),
            Some(PageContent::Caches(content)) => self.caches.press(content, command),
            Some(PageContent::Lessons(_)) => self.lessons.press(command),
            Some(PageContent::Allocation(content)) => self.allocation.press(content, command),
            None => PageResponse::Redraw,
        }
    }

    /// Handles a press or drag on the open page.
    fn point(&mut self, area: Rect, gesture: Gesture, x: u16, y: u16) -> PageResponse {
        let pressed = gesture == Gesture::Down;
        match self.content.clone().as_deref().filter(|content| content.page() == self.page) {
            Some(PageContent::Schedule(content)) => self.schedule.point(content, area, x, y),
            Some(PageContent::Allocation(content)) => self.allocation.point(content, area, x, y),
            Some(PageContent::Formulas(content)) if pressed && content.versus.is_none() => {
                let count = self.formulas.lines(content).len();
                let places = regions::teach::formulas::PageAreas::new(area, content);
                if let Some(line) = places.line_at(self.formulas.line(count), count, x, y) {
                    self.formulas.point(content, line);
                }
            }
            Some(PageContent::Lessons(_)) if pressed => {
                if let Some(at) = regions::teach::lessons::PageAreas::new(area).lesson_at(self.lessons.at, x, y) {
                    return self.lessons.open(at);
                }
            }
            Some(PageContent::Formulas(_) | PageContent::Lessons(_) | PageContent::Caches(_)) | None => {}
        }
        PageResponse::Redraw
    }
}
