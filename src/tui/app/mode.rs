//! The mode: what is shown over the planner, and which keys are active.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

use super::advice::{BestPage, WhyPage};
use super::browse::ModelBrowser;
use super::compare::ComparePage;
use super::engine_compare::EngineComparison;
use super::engines::EnginesPage;
use super::export::ExportPage;
use super::machine::{MachinePrompt, MachineScreen};
use super::matrix::MatrixPage;
use super::sweep::SweepPage;
use super::teach::TeachScreen;
use super::together::TogetherPage;
use super::verify::VerifyPage;
use super::{App, ExplainTarget, Panel};
use crate::tui::keymap::{self, Scope};
use crate::tui::regions::footer::{self, PlacedWord};

/// What is shown over the planner.
#[derive(Clone, Debug)]
pub enum Mode {
    /// Nothing.
    Plan,
    /// Input of a value for the focused knob.
    Entry(TextEntry),
    /// The model browser.
    Browse(Box<ModelBrowser>),
    /// The machine screen.
    Machine(Box<MachineScreen>),
    /// Where a number comes from, and scrolled lines.
    Explain(ExplainTarget, u16),
    /// The list of engines.
    Engines(Box<EnginesPage>),
    /// A comparison with another engine.
    EngineCompare(Box<EngineComparison>),
    /// All notes of the engine, and scrolled lines.
    Notes(u16),
    /// Why a layer is on its device, and what would change that.
    Why(Box<WhyPage>),
    /// The best settings while some knobs are locked.
    Best(Box<BestPage>),
    /// Memory over a knob's range.
    Sweep(Box<SweepPage>),
    /// What fits where over two axes.
    Matrix(Box<MatrixPage>),
    /// A comparison of pinned plans.
    Compare(ComparePage),
    /// Several models loaded at once.
    Together(Box<TogetherPage>),
    /// A log beside its plan.
    Verify(Box<VerifyPage>),
    /// The export page.
    Export(Box<ExportPage>),
    /// The teach screen.
    Teach(Box<TeachScreen>),
    /// The key table, and scrolled lines.
    Help(u16),
}

/// A value being typed.
#[derive(Clone, Debug, Default)]
pub struct TextEntry {
    /// The text so far.
    pub input: Input,
    /// Where the text comes from.
    pub text: TextOrigin,
    /// Why it was rejected.
    pub wrong: Option<String>,
}

/// Where the text of a field comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextOrigin {
    /// Suggested; the first edit replaces all of it.
    Suggested,
    /// Typed or edited by the user.
    #[default]
    Typed,
}

impl TextEntry {
    /// A field with a suggested `text`.
    pub fn suggested(text: String) -> Self {
        Self { input: Input::new(text), text: TextOrigin::Suggested, wrong: None }
    }

    /// Handles a key.
    pub fn typed(&mut self, key: KeyEvent) {
        let writes = matches!(key.code, KeyCode::Char(_) | KeyCode::Backspace | KeyCode::Delete);
        if self.text == TextOrigin::Suggested && writes {
            self.input = Input::default();
        }
        (self.text, self.wrong) = (TextOrigin::Typed, None);
        let _changed = self.input.handle_event(&Event::Key(key));
    }

    /// Inserts a pasted line.
    pub fn pasted(&mut self, line: &str) {
        let before = if self.text == TextOrigin::Suggested { "" } else { self.input.value() };
        self.input = Input::new(format!("{before}{line}"));
        self.text = TextOrigin::Typed;
    }
}

impl App {
    /// The footer's entries.
    pub fn footer(&self) -> Vec<PlacedWord> {
        let mean = |command| match &self.mode {
            Mode::Teach(teach) if teach.help.is_none() => teach.handles(command),
            _ => true,
        };
        footer::places(&keymap::footer(self.scopes(), mean), self.regions.footer)
    }

    /// The active scopes, in order of precedence.
    pub fn scopes(&self) -> &'static [Scope] {
        match (&self.mode, self.panels.focus) {
            (Mode::Plan, Panel::Knobs) => &[Scope::Knobs, Scope::Plan, Scope::Everywhere],
            (Mode::Plan, _) => &[Scope::Lists, Scope::Plan, Scope::Everywhere],
            (Mode::Entry(_), _) => &[Scope::Field, Scope::Everywhere],
            (Mode::Browse(_), _) => &[Scope::Models, Scope::Everywhere],
            (Mode::Machine(screen), _) => match screen.prompt {
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
            (Mode::Verify(page), _) if page.accepts_text() => &[Scope::Field, Scope::Everywhere],
            (Mode::Verify(_), _) => &[Scope::Verify, Scope::Everywhere],
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
