//! What can happen to the planner: a person's wishes, and news from the world.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ratatui::crossterm::event::KeyEvent;

use super::query::QueryPart;
use crate::answer::KnobLimits;
use crate::answer::machines::MachineResult;
use crate::hardware::Detected;
use crate::hardware::saved::SavedMachine;
use crate::hardware::watch::MemoryUpdate;
use crate::library::{Item, ModelStatus};
use crate::source::{self, Package};
use crate::teach::PageContent;

/// What a key stands for; see [`super::keymap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
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
    MaxThatFits,
    NextCliff,
    PreviousCliff,
    Lock,
    Best,
    Sweep,
    Matrix,
    Rows,
    Columns,
    Compare,
    Together,
    Unpin,
    Reset,
    Undo,
    Engine,
    CompareEngines,
    Notes,
    Open,
    Freeze,
    Models,
    Machine,
    Toggle,
    Add,
    Remove,
    Save,
    SavedMachines,
    Join,
    CompareMachines,
    Export,
    Complete,
    Sort,
    Reverse,
    OnlyFitting,
    OnlyHere,
    OnlyFamily,
    Teach,
    NextKnob,
    KnobLess,
    KnobMore,
    Peak,
    RemoveOp,
    Play,
    Answer,
    Theme,
    Help,
    Suspend,
    Quit,
}

/// What the mouse does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
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
    Detected(Box<Detected>),
    /// Free memory is another than it was.
    MemoryChanged(MemoryUpdate),
    /// How far a load has come.
    Progress {
        /// Which load.
        id: u64,
        /// What is read.
        now: source::Progress,
        /// Since it began.
        took: Duration,
    },
    /// A load ended.
    Loaded {
        /// Which load.
        id: u64,
        /// The model, or why there is none, in one sentence.
        result: Result<Package, String>,
    },
    /// The models that can be chosen without asking a server.
    ModelsListed(Vec<Arc<Item>>),
    /// The further models of a running Ollama, or why one that was named does not tell them.
    Running(Result<Vec<Arc<Item>>, String>),
    /// What is known of one of them.
    ModelPlanned {
        /// Which question.
        id: u64,
        /// The model.
        item: Arc<Item>,
        /// The answer.
        look: ModelStatus,
    },
    /// The saved machines, or why they cannot be listed.
    MachinesListed(Result<Vec<SavedMachine>, String>),
    /// What each of several machines makes of the model.
    MachinesCompared(Vec<MachineResult>),
    /// A machine was saved, in one sentence, or why not.
    MachineSaved(Result<String, String>),
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
        limits: Box<KnobLimits>,
    },
    /// A part of the answer to an inquiry.
    QueryAnswered {
        /// Which inquiry.
        id: u64,
        /// The part.
        part: QueryPart,
    },
    /// A page of the teach screen is worked out.
    PageReady {
        /// Which question.
        id: u64,
        /// The page, or why there is none, in one sentence.
        result: Result<Arc<PageContent>, String>,
    },
    /// A moment has passed for what plays by itself.
    Tick {
        /// Which moment.
        id: u64,
    },
    /// The marks of change number `id` have been seen long enough.
    Fade {
        /// Which change.
        id: u64,
    },
    /// A form of the plan is written, or why it cannot be, in one sentence.
    Written {
        /// Which one.
        id: u64,
        /// The text.
        text: Result<String, String>,
    },
    /// Where a form was saved, or why it was not, in one sentence.
    Saved(Result<PathBuf, String>),
    /// Something in the background failed in a way that was not foreseen.
    TaskPanicked(String),
    /// The terminal, or the system, wants the program to end.
    Leave(ExitReason),
}

/// Why the planner ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// A person quit.
    Quit,
    /// A signal of this number asked for it.
    Signal(i32),
    /// The terminal is gone.
    InputClosed,
}
