//! What can happen to the planner: a person's wishes, and news from the world.

use std::path::PathBuf;

use ratatui::crossterm::event::KeyEvent;

use super::effect::Loaded;
use crate::answer::Limits;
use crate::hardware::watch::Moved;
use crate::machine::Machine;

/// What a key stands for; see [`super::keymap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Command {
    Up,
    Down,
    Less,
    More,
    FineLess,
    FineMore,
    PageUp,
    PageDown,
    First,
    Last,
    NextPanel,
    PreviousPanel,
    Enter,
    Back,
    Explain,
    MostThatFits,
    Reset,
    Undo,
    Engine,
    Notes,
    Open,
    Freeze,
    Complete,
    Theme,
    Help,
    Suspend,
    Quit,
}

/// What the mouse does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Gesture {
    Down,
    Drag,
    Up,
    WheelUp,
    WheelDown,
}

/// Everything that [`super::app::App::update`] understands.
#[derive(Clone, Debug)]
pub enum Action {
    /// A key of the key table.
    Press(Command),
    /// A key typed into a field.
    Type(KeyEvent),
    /// Text pasted into a field.
    Paste(String),
    /// The mouse, at a column and a row.
    Mouse(Gesture, u16, u16),
    /// The screen has so many columns and rows now.
    Resize(u16, u16),
    /// The machine in front of us is known.
    Detected(Detected),
    /// Free memory is another than it was.
    Moved(Moved),
    /// How far a load has come.
    Progress {
        /// Which load.
        id: u64,
        /// Bytes read.
        done: u64,
        /// Bytes to read, where known.
        total: Option<u64>,
    },
    /// A load ended.
    Loaded {
        /// Which load.
        id: u64,
        /// The model, or why there is none, in one sentence.
        result: Result<Loaded, String>,
    },
    /// The models on this computer.
    Listed(Vec<Listing>),
    /// What could follow a path that is being typed.
    Completed {
        /// What was typed.
        typed: String,
        /// Whole paths, folders with a slash at the end.
        paths: Vec<String>,
    },
    /// How far the knobs can go.
    Limits {
        /// Which question.
        id: u64,
        /// The answer.
        limits: Limits,
    },
    /// The marks of change number `id` have been seen long enough.
    Fade {
        /// Which change.
        id: u64,
    },
    /// Something in the background failed in a way that was not foreseen.
    Broke(String),
    /// The terminal, or the system, wants the program to end.
    Leave(Leave),
}

/// A machine, and what was tried to know it.
#[derive(Clone, Debug, PartialEq)]
pub struct Detected {
    /// The machine.
    pub machine: Machine,
    /// One sentence per collector.
    pub tried: Vec<String>,
}

/// A model on this computer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// What people call it: `llama3.1:8b`.
    pub name: String,
    /// Whose folder it is in: `Ollama`, `Hugging Face`.
    pub store: String,
    /// The file and its size, or why it cannot be opened.
    pub file: Result<(PathBuf, crate::units::Bytes), String>,
}

/// Why the planner ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// A person quit.
    Quit,
    /// A signal of this number asked for it.
    Signal(i32),
    /// The terminal is gone.
    InputClosed,
}
