//! The screen without a terminal: at one step, or step by step for an animation.

use std::sync::Arc;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::presenter::Presented;
use super::{TeachScreen, TeachStart, playback};
use crate::engine::PlanRequest;
use crate::teach::{Page, PageContent};
use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::picture::animation::Frame;
use crate::tui::screen::Screen;
use crate::tui::theme::{Appearance, Theme};
use crate::tui::view::header;

/// Columns and rows of a page, and of a lesson, whose lines are short.
const PAGE: (u16, u16) = (120, 36);
const LESSON: (u16, u16) = (80, 20);
/// Frames of an animation at most: a walk of more steps shows some of them, evenly spread.
const MOST: u64 = 64;
/// Steps of the caches, whose cells are written again and again.
const ROUNDS: u64 = 48;
/// How long an idea of a lesson is shown.
const IDEA: Duration = Duration::from_secs(4);

/// The teach screen of a plan, without a terminal.
#[derive(Debug)]
pub struct DrawnTeach {
    app: App,
    screen: TeachScreen,
    content: Arc<PageContent>,
    size: (u16, u16),
}

impl DrawnTeach {
    /// The screen on the plan of `request`, as `start` says.
    ///
    /// # Errors
    /// Why there is no such page.
    pub fn open(request: PlanRequest, start: &TeachStart, look: Appearance) -> Result<Self, String> {
        let size = if start.page == Page::Lessons { LESSON } else { PAGE };
        let mut app = App::on(request, Theme::new(look), size);
        app.replan();
        if let Some(refused) = &app.request.refused {
            return Err(refused.to_string());
        }
        let mut screen = TeachScreen::at(start);
        for effect in screen.ask(&mut app) {
            if let Effect::Teach(request) = effect {
                screen.answer(&mut app, request.answer());
            }
        }
        let content = match screen.content.clone() {
            Some(content) => content?,
            None => return Err("the page has no content".to_owned()),
        };
        Ok(Self { app, screen, content, size })
    }

    /// The screen as it is.
    pub fn drawn(&self) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, self.size.0, self.size.1));
        header::draw(&self.app, &mut buffer);
        self.screen.draw(&self.app, &mut buffer);
        buffer
    }

    /// The last step of the open page, counted from 0; none if it has no steps.
    pub fn last_step(&self) -> Option<u64> {
        let before = |count: usize| count.saturating_sub(1) as u64;
        match &*self.content {
            PageContent::Schedule(content) => Some(before(content.steps.len())),
            PageContent::Allocation(content) => Some(before(content.walk.moments.len())),
            PageContent::Layers(content) => Some(content.steps() as u64),
            PageContent::Caches(_) => Some(ROUNDS),
            PageContent::Formulas(_) | PageContent::Lessons(_) | PageContent::Glossary(_) => None,
        }
    }

    /// The walk of the open page from its first step to its last, or the ideas of the lesson, each with the time that it
    /// is shown. Empty for a page that has neither.
    pub fn frames(&mut self) -> Vec<Frame> {
        if let PageContent::Lessons(lesson) = &*self.content {
            let ideas = 0..lesson.ideas().len();
            let drawn = ideas.map(|idea| {
                self.screen.presented = Some(Presented { idea, notes: false });
                self.frame(IDEA)
            });
            return drawn.collect();
        }
        let (Some(last), Some(delay)) = (self.last_step(), playback::step_of(self.screen.page)) else {
            return Vec::new();
        };
        let count = last.min(MOST);
        let steps = (0..=count).map(|at| (at * last).checked_div(count).unwrap_or(0));
        let drawn = steps.map(|step| {
            self.screen.go_to_on_page(step);
            self.frame(delay)
        });
        drawn.collect()
    }

    fn frame(&self, shown: Duration) -> Frame {
        let title = format!("plimsoll — {}", self.title());
        Frame { buffer: self.drawn(), title, millis: u32::try_from(shown.as_millis()).unwrap_or(u32::MAX) }
    }

    /// The title of the page or of the lesson.
    pub fn title(&self) -> &str {
        match &*self.content {
            PageContent::Lessons(lesson) => lesson.lesson.title,
            content => content.page().title(),
        }
    }
}
