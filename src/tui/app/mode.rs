//! What stands in front, and which keys mean something there.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

use super::advice::{Because, Best};
use super::beside::Beside;
use super::browse::Browse;
use super::compare::Comparing;
use super::export::Export;
use super::machine::{Asking, Bench};
use super::matrix::Grid;
use super::sweep::Sweeping;
use super::teach::Teach;
use super::together::Together;
use super::{App, Panel, Subject};
use crate::tui::keymap::Scope;

/// What stands in front.
#[derive(Clone, Debug)]
pub enum Mode {
    /// The planner alone.
    Plan,
    /// A value is typed for the knob that has the focus.
    Entry(Entry),
    /// A model is chosen.
    Browse(Box<Browse>),
    /// The machine: what is there, and what if.
    Machine(Box<Bench>),
    /// Where a number comes from; scrolled by so many lines.
    Explain(Subject, u16),
    /// An engine is chosen: the one at this place.
    Engines(usize),
    /// Another engine beside this one.
    Beside(Box<Beside>),
    /// All that the engine says; scrolled by so many lines.
    Notes(u16),
    /// Why a layer is where it is, and what would change that.
    Because(Box<Because>),
    /// The best settings while some knobs are held.
    Best(Box<Best>),
    /// Memory along a knob's range.
    Sweep(Box<Sweeping>),
    /// What fits where over two axes.
    Matrix(Box<Grid>),
    /// Plans side by side.
    Compare(Comparing),
    /// Several models on the machine at once.
    Together(Box<Together>),
    /// The plan is taken away.
    Export(Box<Export>),
    /// The memory model is taught.
    Teach(Box<Teach>),
    /// The key table; scrolled by so many lines.
    Help(u16),
}

/// A value being typed.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// The text so far.
    pub input: Input,
    /// Whose text it is.
    pub text: Text,
    /// Why it was not taken.
    pub wrong: Option<String>,
}

/// Whose text stands in a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Text {
    /// It was put there, and goes as a whole when a letter is typed or taken away.
    Offered,
    /// A person wrote or kept it.
    #[default]
    Own,
}

impl Entry {
    /// A field with `text` in it, which is only offered.
    pub fn offering(text: String) -> Self {
        Self { input: Input::new(text), text: Text::Offered, wrong: None }
    }

    /// Takes a key.
    pub fn typed(&mut self, key: KeyEvent) {
        let writes = matches!(key.code, KeyCode::Char(_) | KeyCode::Backspace | KeyCode::Delete);
        if self.text == Text::Offered && writes {
            self.input = Input::default();
        }
        (self.text, self.wrong) = (Text::Own, None);
        let _changed = self.input.handle_event(&Event::Key(key));
    }

    /// Takes `line` as it was pasted.
    pub fn pasted(&mut self, line: &str) {
        let before = if self.text == Text::Offered { "" } else { self.input.value() };
        self.input = Input::new(format!("{before}{line}"));
        self.text = Text::Own;
    }
}

impl App {
    /// The key table's scopes that hold now, the nearest first.
    pub fn scopes(&self) -> &'static [Scope] {
        match (&self.mode, self.panels.focus) {
            (Mode::Plan, Panel::Knobs) => &[Scope::Knobs, Scope::Plan, Scope::Everywhere],
            (Mode::Plan, _) => &[Scope::Lists, Scope::Plan, Scope::Everywhere],
            (Mode::Entry(_), _) => &[Scope::Field, Scope::Everywhere],
            (Mode::Browse(_), _) => &[Scope::Models, Scope::Everywhere],
            (Mode::Machine(bench), _) => match bench.asking {
                Asking::Nothing => &[Scope::Machine, Scope::Everywhere],
                Asking::Size(_) | Asking::Name(_) => &[Scope::Field, Scope::Everywhere],
                Asking::Card(_) => &[Scope::Choice, Scope::Everywhere],
                Asking::Shelf(_) => &[Scope::Shelf, Scope::Everywhere],
                Asking::Versus(_) => &[Scope::Page, Scope::Everywhere],
            },
            (Mode::Because(_) | Mode::Best(_) | Mode::Engines(_), _) => {
                &[Scope::Choices, Scope::Page, Scope::Everywhere]
            }
            (Mode::Sweep(_), _) => &[Scope::Sweep, Scope::Everywhere],
            (Mode::Matrix(_), _) => &[Scope::Matrix, Scope::Everywhere],
            (Mode::Compare(_), _) => &[Scope::Compare, Scope::Page, Scope::Everywhere],
            (Mode::Export(page), _) if page.naming.is_some() => &[Scope::Field, Scope::Everywhere],
            (Mode::Export(_), _) => &[Scope::Export, Scope::Everywhere],
            (Mode::Teach(teach), _) if teach.help.is_none() => &[Scope::Teach, Scope::Everywhere],
            (
                Mode::Teach(_)
                | Mode::Explain(..)
                | Mode::Beside(_)
                | Mode::Notes(_)
                | Mode::Together(_)
                | Mode::Help(_),
                _,
            ) => &[Scope::Page, Scope::Everywhere],
        }
    }
}
