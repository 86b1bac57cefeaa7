//! What is shown over the planner. A screen is one object with its state, the meaning of its keys, its mouse and its
//! drawing. What all have in common the [host](super::host) does once: going back, the help, moving through a page, presses
//! beside it, and asking for a model first.

use std::any::Any;
use std::fmt::Debug;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::action::{Action, Command, Gesture};
use super::app::App;
use super::effect::Effect;
use super::keymap::Scope;
use super::view::footer::{self, PlacedWord};
use super::widget::field::Text;
use super::widget::page::Overlay;

/// The sentence where there is nothing to show.
pub const NO_PLAN: &str = "There is no plan yet: open a model with o.";

/// A screen over the planner, or over another screen.
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
        app.request.plan.is_none().then_some(NO_PLAN)
    }

    /// Asks what it shows: at opening, and again whenever the user has changed the plan.
    fn ask(&mut self, _app: &mut App) -> Vec<Effect> {
        Vec::new()
    }

    /// The engine has planned again, or has refused to; `by_user` tells whether the user or just free memory changed.
    fn planned(&mut self, app: &mut App, by_user: bool) -> Vec<Effect> {
        if by_user && app.request.refused.is_none() { self.ask(app) } else { Vec::new() }
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

    /// Whether it goes on where it was when it is opened again.
    fn goes_on(&self) -> bool {
        false
    }

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
    fn answer(&mut self, _app: &mut App, _answer: Action) -> Response {
        Response::STAY
    }

    /// Its text, if it is a page.
    fn page(&self, _app: &App) -> Option<Overlay> {
        None
    }

    /// The area that it covers; a press beside it goes back.
    fn area(&self, app: &App) -> Rect {
        self.page(app).map_or(app.panels.regions.screen, |page| page.area(app))
    }

    /// Draws it.
    fn draw(&self, app: &App, buffer: &mut Buffer) {
        if let Some(page) = self.page(app) {
            page.draw(app, buffer);
        }
    }

    /// Draws it where another one is over it.
    fn draw_behind(&self, app: &App, buffer: &mut Buffer) {
        self.draw(app, buffer);
    }

    /// The screen over it has closed.
    fn uncovered(&mut self, _closed: &dyn Screen) {}
}

impl dyn Screen {
    /// The entries of its footer.
    pub fn footer(&self, app: &App) -> Vec<PlacedWord> {
        let words = app.preferences.keys.footer(self.scopes(), |command| self.handles(command));
        footer::places(&words, app.panels.regions.footer)
    }

    /// Draws its footer: its keys, or a message.
    pub fn draw_footer(&self, app: &App, buffer: &mut Buffer) {
        footer::draw(app, self.message(), &self.footer(app), buffer);
    }
}

/// The screens that were closed and go on where they were, the newest of each type.
#[derive(Debug, Default)]
pub struct Closed(Vec<Box<dyn Screen>>);

impl Closed {
    /// Keeps `screen` in place of an older one of its type.
    pub fn keep(&mut self, screen: Box<dyn Screen>) {
        let kind = |screen: &dyn Screen| (screen as &dyn Any).type_id();
        self.0.retain(|kept| kind(&**kept) != kind(&*screen));
        self.0.push(screen);
    }

    /// The one of type `S`.
    pub fn last<S: Screen>(&self) -> Option<&S> {
        self.0.iter().find_map(|kept| (&**kept as &dyn Any).downcast_ref())
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
    /// The screen stays.
    Stay(Vec<Effect>),
    /// It closes.
    Close(Vec<Effect>),
    /// Another takes its place.
    Open(Box<dyn Screen>, Vec<Effect>),
    /// Another opens over it, and closes to it.
    Over(Box<dyn Screen>, Vec<Effect>),
}

impl Response {
    /// It stays, without effects.
    pub const STAY: Self = Self::Stay(Vec::new());
    /// It closes, without effects.
    pub const CLOSE: Self = Self::Close(Vec::new());

    /// `screen` takes its place.
    pub fn open(screen: impl Screen) -> Self {
        Self::Open(Box::new(screen), Vec::new())
    }

    /// `screen` opens over it.
    pub fn over(screen: impl Screen) -> Self {
        Self::Over(Box::new(screen), Vec::new())
    }
}

/// The scroll position after `command`, where so many lines are a page; drawing clamps it to the length of the text.
pub const fn scrolled(scroll: u16, page: u16, command: Command) -> u16 {
    match command {
        Command::Up => scroll.saturating_sub(1),
        Command::Down => scroll.saturating_add(1),
        Command::PageUp => scroll.saturating_sub(page),
        Command::PageDown => scroll.saturating_add(page),
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
