//! What stands in front, and which keys mean something there.

use tui_input::Input;

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
    /// Why it was not taken.
    pub wrong: Option<String>,
}

impl App {
    /// The key table's scopes that hold now, the nearest first.
    pub fn scopes(&self) -> &'static [Scope] {
        match (&self.mode, self.focus) {
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
