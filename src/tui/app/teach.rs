//! The teach screen: the open page, its content, and the cursors of all pages.

pub mod allocation;
pub mod caches;
pub mod formulas;
pub mod lessons;
pub mod schedule;

use std::sync::Arc;

use ratatui::layout::Rect;

use super::update::scrolled;
use super::{App, Mode};
use crate::engine::PlanRequest;
use crate::settings::Settings;
use crate::settings::knob::Knob;
use crate::teach::lessons::LessonSetup;
use crate::teach::{Page, PageContent, Topic};
use crate::tui::action::{Action, Command, Gesture};
use crate::tui::effect::{Effect, LimitsRequest, TeachRequest};
use crate::tui::regions;

/// The state of the screen.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct TeachScreen {
    pub page: Page,
    /// The newest content; it is kept until newer content arrives.
    pub content: Option<Arc<PageContent>>,
    /// Why there is no content.
    pub refused: Option<String>,
    /// The key table is shown, with this many lines scrolled.
    pub help: Option<u16>,
    pub schedule: schedule::Cursor,
    pub allocation: allocation::Cursor,
    pub formulas: formulas::Cursor,
    pub caches: caches::Cursor,
    pub lessons: lessons::Cursor,
}

impl TeachScreen {
    /// The screen with the page of `topic` open and no content yet.
    pub fn on(topic: Topic) -> Self {
        let lesson = if let Topic::Lessons(at) = topic { at } else { 0 };
        Self {
            page: topic.page(),
            content: None,
            refused: None,
            help: None,
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

    /// Whether `command` does anything on the open page.
    pub const fn handles(&self, command: Command) -> bool {
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
pub(super) enum PageResponse {
    /// Drawing only.
    Redraw,
    /// Other content is requested.
    Request,
    /// A tick is requested.
    Tick,
}

impl App {
    pub(super) fn open_teach(&mut self) -> Vec<Effect> {
        self.teach(Page::ALL[0].topic())
    }

    /// Opens the teach screen on `topic`.
    pub fn teach(&mut self, topic: Topic) -> Vec<Effect> {
        if self.plan.is_none() {
            self.notice = Some("There is no plan yet: open a model with o.".to_owned());
            return Vec::new();
        }
        self.mode = Mode::Teach(Box::new(TeachScreen::on(topic)));
        self.request_page()
    }

    /// Requests the content of the open page for the present plan.
    pub(super) fn request_page(&mut self) -> Vec<Effect> {
        let Mode::Teach(teach) = &self.mode else { return Vec::new() };
        let (Some(of), Some(plan)) = (self.plan_request(), &self.plan) else { return Vec::new() };
        self.teach_id += 1;
        let about = LimitsRequest { id: self.teach_id, of, plan: (**plan).clone() };
        vec![Effect::Teach(Box::new(TeachRequest { topic: teach.topic(), about }))]
    }

    pub(super) fn page_ready(&mut self, result: Result<Arc<PageContent>, String>) {
        let Mode::Teach(teach) = &mut self.mode else { return };
        match result {
            Ok(content) => (teach.content, teach.refused) = (Some(content), None),
            Err(why) => (teach.content, teach.refused) = (None, Some(why)),
        }
    }

    pub(super) fn press_on_teach(&mut self, mut teach: Box<TeachScreen>, command: Command) -> Vec<Effect> {
        if let Some(scroll) = teach.help {
            let close = matches!(command, Command::Help | Command::Back | Command::Enter);
            teach.help = (!close).then(|| scrolled(scroll, command));
            self.mode = Mode::Teach(teach);
            return Vec::new();
        }
        let mut response = PageResponse::Redraw;
        match command {
            Command::Back if teach.page == Page::Schedule && teach.schedule.open.is_some() => {
                teach.schedule.open = None;
            }
            Command::Back if teach.page == Page::Formulas && teach.formulas.versus.is_some() => {
                teach.formulas.versus = None;
                response = PageResponse::Request;
            }
            Command::Back => return Vec::new(),
            Command::Help => teach.help = Some(0),
            Command::Theme => self.theme = self.theme.next_tone(),
            Command::Undo => self.undo(),
            Command::NextKnob => {
                let next = self.neighbour(self.knobs.focus, 1);
                let first = self.knobs.offered.first().copied().unwrap_or(self.knobs.focus);
                self.focus_knob(if next == self.knobs.focus { first } else { next });
            }
            Command::KnobLess => self.step_knob(-1),
            Command::KnobMore => self.step_knob(1),
            Command::NextPanel => (teach.page, response) = (teach.page.turn(1), PageResponse::Request),
            Command::PreviousPanel => {
                (teach.page, response) = (teach.page.turn(Page::ALL.len() - 1), PageResponse::Request);
            }
            Command::Enter if teach.page == Page::Lessons => self.apply_lesson(&teach),
            Command::CompareEngines if teach.page == Page::Formulas => {
                teach.formulas.next_versus(self.choice());
                response = PageResponse::Request;
            }
            _ => response = teach.press(command),
        }
        self.mode = Mode::Teach(teach);
        match response {
            PageResponse::Redraw => Vec::new(),
            PageResponse::Request => self.request_page(),
            PageResponse::Tick => self.schedule_tick(),
        }
    }

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

    /// Requests a tick.
    fn schedule_tick(&mut self) -> Vec<Effect> {
        self.tick_id += 1;
        vec![Effect::Tick { id: self.tick_id }]
    }

    /// Advances the animation, if its page is still open.
    pub(super) fn tick(&mut self) -> Vec<Effect> {
        let Mode::Teach(teach) = &mut self.mode else { return Vec::new() };
        let response = if teach.page == Page::Caches { teach.caches.tick() } else { PageResponse::Redraw };
        if matches!(response, PageResponse::Tick) { self.schedule_tick() } else { Vec::new() }
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

    pub(super) fn mouse_on_teach(&mut self, gesture: Gesture, x: u16, y: u16) -> Vec<Effect> {
        let Mode::Teach(teach) = &mut self.mode else { return Vec::new() };
        let at = (x, y).into();
        let on_text = teach.page == Page::Lessons
            && regions::teach::lessons::PageAreas::new(self.regions.teach().page).lesson.contains(at);
        match (gesture, on_text) {
            (Gesture::WheelUp, true) => return self.update(Action::Press(Command::PageUp)),
            (Gesture::WheelDown, true) => return self.update(Action::Press(Command::PageDown)),
            (Gesture::WheelUp, false) => return self.update(Action::Press(Command::Up)),
            (Gesture::WheelDown, false) => return self.update(Action::Press(Command::Down)),
            (Gesture::Up, _) => return Vec::new(),
            (Gesture::Down | Gesture::Drag, _) if teach.help.is_some() => return Vec::new(),
            (Gesture::Down | Gesture::Drag, _) => {}
        }
        let regions = self.regions.teach();
        if gesture == Gesture::Down {
            if let Some((page, _)) = regions.tab().find(|(page, place)| *page != teach.page && place.contains(at)) {
                teach.page = page;
                return self.request_page();
            }
            let written = self.knob_labels();
            let knobs = regions.knob(&written, self.knobs.focus);
            if let Some((knob, _)) = knobs.into_iter().find(|(_, place)| place.contains(at)) {
                self.focus_knob(knob);
                return Vec::new();
            }
        }
        let Mode::Teach(teach) = &mut self.mode else { return Vec::new() };
        match teach.point(regions.page, gesture, x, y) {
            PageResponse::Request => self.request_page(),
            PageResponse::Redraw | PageResponse::Tick => Vec::new(),
        }
    }
}

impl TeachScreen {
    fn press(&mut self, command: Command) -> PageResponse {
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
