//! What stands in front, and which keys mean something there.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

use super::advice::{BestPage, WhyPage};
use super::browse::ModelBrowser;
use super::compare::ComparePage;
use super::engine_compare::EngineComparison;
use super::export::ExportPage;
use super::machine::{MachinePrompt, MachineScreen};
use super::matrix::MatrixPage;
use super::sweep::SweepPage;
use super::teach::TeachScreen;
use super::together::TogetherPage;
use super::{App, ExplainTarget, Panel};
use crate::tui::keymap::Scope;

/// What stands in front.
#[derive(Clone, Debug)]
pub enum Mode {
    /// The planner alone.
    Plan,
    /// A value is typed for the knob that has the focus.
    Entry(TextEntry),
    /// A model is chosen.
    Browse(Box<ModelBrowser>),
    /// The machine: what is there, and what if.
    Machine(Box<MachineScreen>),
    /// Where a number comes from; scrolled by so many lines.
    Explain(ExplainTarget, u16),
    /// An engine is chosen: the one at this place.
    Engines(usize),
    /// Another engine beside this one.
    EngineCompare(Box<EngineComparison>),
    /// All that the engine says; scrolled by so many lines.
    Notes(u16),
    /// Why a layer is where it is, and what would change that.
    Why(Box<WhyPage>),
    /// The best settings while some knobs are held.
    Best(Box<BestPage>),
    /// Memory along a knob's range.
    Sweep(Box<SweepPage>),
    /// What fits where over two axes.
    Matrix(Box<MatrixPage>),
    /// Plans side by side.
    Compare(ComparePage),
    /// Several models on the machine at once.
    Together(Box<TogetherPage>),
    /// The plan is taken away.
    Export(Box<ExportPage>),
    /// The memory model is taught.
    Teach(Box<TeachScreen>),
    /// The key table; scrolled by so many lines.
    Help(u16),
}

/// A value being typed.
#[derive(Clone, Debug, Default)]
pub struct TextEntry {
    /// The text so far.
    pub input: Input,
    /// Whose text it is.
    pub text: TextOrigin,
    /// Why it was not taken.
    pub wrong: Option<String>,
}

/// Whose text stands in a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextOrigin {
    /// It was put there, and goes as a whole when a letter is typed or taken away.
    Suggested,
    /// A person wrote or kept it.
    #[default]
    Typed,
}

impl TextEntry {
    /// A field with `text` in it, which is only offered.
    pub fn offering(text: String) -> Self {
        Self { input: Input::new(text), text: TextOrigin::Suggested, wrong: None }
    }

    /// Takes a key.
    pub fn typed(&mut self, key: KeyEvent) {
        let writes = matches!(key.code, KeyCode::Char(_) | KeyCode::Backspace | KeyCode::Delete);
        if self.text == TextOrigin::Suggested && writes {
            self.input = Input::default();
        }
        (self.text, self.wrong) = (TextOrigin::Typed, None);
        let _changed = self.input.handle_event(&Event::Key(key));
    }

    /// Takes `line` as it was pasted.
    pub fn pasted(&mut self, line: &str) {
        let before = if self.text == TextOrigin::Suggested { "" } else { self.input.value() };
        self.input = Input::new(format!("{before}{line}"));
        self.text = TextOrigin::Typed;
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
                MachinePrompt::Nothing => &[Scope::Machine, Scope::Everywhere],
                MachinePrompt::Size(_) | MachinePrompt::Name(_) => &[Scope::Field, Scope::Everywhere],
                MachinePrompt::Card(_) => &[Scope::CardPicker, Scope::Everywhere],
                MachinePrompt::Saved(_) => &[Scope::SavedMachines, Scope::Everywhere],
                MachinePrompt::Compare(_) => &[Scope::Page, Scope::Everywhere],
            },
            (Mode::Why(_) | Mode::Best(_) | Mode::Engines(_), _) => {
                &[Scope::Suggestions, Scope::Page, Scope::Everywhere]
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
                | Mode::EngineCompare(_)
                | Mode::Notes(_)
                | Mode::Together(_)
                | Mode::Help(_),
                _,
            ) => &[Scope::Page, Scope::Everywhere],
        }
    }
}
