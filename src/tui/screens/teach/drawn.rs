//! The screen without a terminal: at one step, or step by step for an animation.

use std::sync::Arc;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::presenter::Presented;
use super::{TeachScreen, TeachStart};
use crate::engine::PlanRequest;
use crate::teach::lessons::LessonsPage;
use crate::teach::{Tab, TeachPage};
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
/// How long an idea of a lesson is shown.
const IDEA: Duration = Duration::from_secs(4);

/// The teach screen of a plan, without a terminal.
#[derive(Debug)]
pub struct DrawnTeach {
    app: App,
    screen: TeachScreen,
    content: Arc<dyn TeachPage>,
    size: (u16, u16),
}

impl DrawnTeach {
    /// The screen on the plan of `request`, as `start` says.
    ///
    /// # Errors
    /// Why there is no such page.
    pub fn open(request: PlanRequest, start: &TeachStart, look: Appearance) -> Result<Self, String> {
        let size = if start.page == Tab::Lessons { LESSON } else { PAGE };
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
        self.content.last_step()
    }

    /// The walk of the open page from its first step to its last, or the ideas of the lesson, each with the time that it
    /// is shown. Empty for a page that has neither.
    pub fn frames(&mut self) -> Vec<Frame> {
        if let Some(lesson) = self.content.as_a::<LessonsPage>() {
            let ideas = 0..lesson.ideas().len();
            let drawn = ideas.map(|idea| {
                self.screen.presented = Some(Presented { idea, notes: false });
                self.frame(IDEA)
            });
            return drawn.collect();
        }
        let (Some(last), Some(delay)) = (self.last_step(), self.screen.open().step_time()) else {
            return Vec::new();
        };
        let count = last.min(MOST);
        let steps = (0..=count).map(|at| (at * last).checked_div(count).unwrap_or(0));
        let drawn = steps.map(|step| {
            self.screen.open_mut().go_to(step);
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
        self.content.title()
    }
}
