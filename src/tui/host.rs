//! What is shown over the planner. A screen is one object with its state, the meaning of its keys, its mouse and its
//! drawing; this file hands events to the open one, and does once what all have in common: going back, the help, moving
//! through a page, clicks beside it, and asking for a model first.

use std::any::Any;
use std::fmt::Debug;

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{Event, KeyEvent};
use ratatui::layout::{Position, Rect};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

use super::action::{Action, Command, Gesture};
use super::app::App;
use super::effect::Effect;
use super::keymap::Scope;
use super::screens::help::HelpPage;
use super::widget::page::Overlay;
use crate::text::is_printable;

/// The sentence where there is nothing to show.
pub const NO_PLAN: &str = "There is no plan yet: open a model with o.";

/// A screen over the planner. While one of its methods runs, the planner shows none.
pub trait Screen: Any + Debug {
    /// The scopes of its keys, in order of precedence.
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Page, Scope::Everywhere]
    }

    /// Whether `command` does anything now; the footer leaves out those that do not.
    fn handles(&self, _command: Command) -> bool {
        true
    }

    /// What it leaves of the planner.
    fn cover(&self) -> Cover {
        Cover::Dimmed
    }

    /// A message in place of the footer's keys.
    fn message(&self) -> Option<&str> {
        None
    }

    /// Why it cannot be opened now.
    fn missing(&self, app: &App) -> Option<&'static str> {
        app.plan.is_none().then_some(NO_PLAN)
    }

    /// Asks what it shows: at opening, and again whenever the user has changed the plan.
    fn ask(&mut self, _app: &mut App) -> Vec<Effect> {
        Vec::new()
    }

    /// The engine has planned again, or has refused to; `by_user` tells whether the user or just free memory changed.
    fn planned(&mut self, app: &mut App, by_user: bool) -> Vec<Effect> {
        if by_user && app.refused.is_none() { self.ask(app) } else { Vec::new() }
    }

    /// The screen has another size.
    fn resized(&mut self, _app: &mut App) -> Vec<Effect> {
        Vec::new()
    }

    /// Called before each drawing.
    fn refresh(&mut self, _app: &mut App) -> Vec<Effect> {
        Vec::new()
    }

    /// Handles a key.
    fn press(&mut self, app: &mut App, command: Command) -> Response;

    /// Whether keys without a command are typed into a field.
    fn accepts_text(&self) -> bool {
        false
    }

    /// Handles typed or pasted text.
    fn text(&mut self, _app: &mut App, _text: Text<'_>) -> Response {
        Response::Ignored
    }

    /// Handles the mouse beyond what all screens do with it.
    fn mouse(&mut self, _app: &mut App, _gesture: Gesture, _at: Position) -> Response {
        Response::Ignored
    }

    /// The selected choice of its page, which a press of the mouse sets; a second press means Enter.
    fn selection(&mut self) -> Option<&mut usize> {
        None
    }

    /// The number of scrolled lines, if it scrolls.
    fn scroll(&mut self) -> Option<&mut u16> {
        None
    }

    /// Takes the result of an effect.
    fn answer(&mut self, _app: &mut App, _answer: Action) -> Vec<Effect> {
        Vec::new()
    }

    /// Its text, if it is a page.
    fn page(&self, _app: &App) -> Option<Overlay> {
        None
    }

    /// The area that it covers; a press beside it goes back.
    fn area(&self, app: &App) -> Rect {
        self.page(app).map_or(app.regions.screen, |page| page.area(app))
    }

    /// Draws it.
    fn draw(&self, app: &App, buffer: &mut Buffer) {
        if let Some(page) = self.page(app) {
            page.draw(app, buffer);
        }
    }
}

/// What a screen leaves of the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// All of it, as it is.
    Nothing,
    /// All of it, dimmed behind an overlay.
    Dimmed,
    /// Header and footer only.
    Whole,
}

/// What follows an event.
#[derive(Debug)]
pub enum Response {
    /// The screen does not know it: what all screens do follows.
    Ignored,
    /// The screen stays, unless the event has opened another.
    Stay(Vec<Effect>),
    /// It closes.
    Close(Vec<Effect>),
}

impl Response {
    /// It stays, without effects.
    pub const STAY: Self = Self::Stay(Vec::new());
    /// It closes, without effects.
    pub const CLOSE: Self = Self::Close(Vec::new());
}

/// Text for a field.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    /// A typed key.
    Typed(KeyEvent),
    /// Pasted text, of any number of lines.
    Pasted(&'a str),
}

impl Text<'_> {
    /// Edits `input`; of pasted text the first line is appended. Returns whether the text has changed.
    pub fn edit(self, input: &mut Input) -> bool {
        match self {
            Self::Typed(key) => input.handle_event(&Event::Key(key)).is_some_and(|change| change.value),
            Self::Pasted(text) => {
                let line = text.lines().next().unwrap_or_default().chars().filter(|c| is_printable(*c));
                *input = Input::new(input.value().chars().chain(line).collect());
                true
            }
        }
    }
}

impl App {
    /// Opens `screen`, or says what is missing for it.
    pub fn show(&mut self, mut screen: impl Screen) -> Vec<Effect> {
        if let Some(missing) = screen.missing(self) {
            self.notice = Some(missing.to_owned());
            return Vec::new();
        }
        let effects = screen.ask(self);
        self.screen = Some(Box::new(screen));
        effects
    }

    /// The open screen, if it is an `S`.
    pub fn showing<S: Screen>(&self) -> Option<&S> {
        let screen: &dyn Any = self.screen.as_deref()?;
        screen.downcast_ref()
    }

    /// Calls `event` with the open screen, which stays.
    pub(super) fn with_screen(&mut self, event: impl FnOnce(&mut dyn Screen, &mut Self) -> Vec<Effect>) -> Vec<Effect> {
        let Some(mut screen) = self.screen.take() else { return Vec::new() };
        let effects = event(screen.as_mut(), self);
        self.screen.get_or_insert(screen);
        effects
    }

    pub(super) fn press_on_screen(&mut self, mut screen: Box<dyn Screen>, command: Command) -> Vec<Effect> {
        let response = match (screen.press(self, command), command) {
            (Response::Ignored, Command::Back) => Response::CLOSE,
            (Response::Ignored, Command::Help) => {
                self.screen = Some(Box::new(HelpPage::over(screen)));
                return Vec::new();
            }
            (Response::Ignored, _) => {
                if let Some(scroll) = screen.scroll() {
                    *scroll = scrolled(*scroll, command);
                }
                Response::STAY
            }
            (response, _) => response,
        };
        self.follow(screen, response)
    }

    pub(super) fn text_on_screen(&mut self, mut screen: Box<dyn Screen>, text: Text<'_>) -> Vec<Effect> {
        let response = screen.text(self, text);
        self.follow(screen, response)
    }

    pub(super) fn mouse_on_screen(
        &mut self,
        mut screen: Box<dyn Screen>,
        gesture: Gesture,
        at: Position,
    ) -> Vec<Effect> {
        self.end_drag();
        let command = match (screen.mouse(self, gesture, at), gesture) {
            (Response::Ignored, Gesture::Down) if !screen.area(self).contains(at) => Command::Back,
            (Response::Ignored, Gesture::WheelUp) => Command::Up,
            (Response::Ignored, Gesture::WheelDown) => Command::Down,
            (Response::Ignored, Gesture::Down) => {
                let pressed = screen.page(self).and_then(|page| page.choice_at(self, at));
                match (pressed, screen.selection()) {
                    (Some(pressed), Some(chosen)) if *chosen == pressed => Command::Enter,
                    (Some(pressed), Some(chosen)) => {
                        *chosen = pressed;
                        return self.follow(screen, Response::STAY);
                    }
                    _ => return self.follow(screen, Response::STAY),
                }
            }
            (response, _) => return self.follow(screen, response),
        };
        self.screen = Some(screen);
        self.update(Action::Press(command))
    }

    fn follow(&mut self, screen: Box<dyn Screen>, response: Response) -> Vec<Effect> {
        match response {
            Response::Close(effects) => effects,
            Response::Stay(effects) => {
                self.screen.get_or_insert(screen);
                effects
            }
            Response::Ignored => {
                self.screen.get_or_insert(screen);
                Vec::new()
            }
        }
    }
}

/// The scroll position after `command`; drawing clamps it to the length of the page.
pub const fn scrolled(scroll: u16, command: Command) -> u16 {
    match command {
        Command::Up => scroll.saturating_sub(1),
        Command::Down => scroll.saturating_add(1),
        Command::PageUp => scroll.saturating_sub(10),
        Command::PageDown => scroll.saturating_add(10),
        Command::First => 0,
        Command::Last => u16::MAX / 2,
        _ => scroll,
    }
}

/// The selection in a list of `count` after `command`, which scrolls by `page` entries at a time.
pub fn moved(at: usize, count: usize, page: usize, command: Command) -> usize {
    let last = count.saturating_sub(1);
    match command {
        Command::Up => at.saturating_sub(1),
        Command::Down => (at + 1).min(last),
        Command::PageUp => at.saturating_sub(page),
        Command::PageDown => (at + page).min(last),
        Command::First => 0,
        Command::Last => last,
        _ => at.min(last),
    }
}
