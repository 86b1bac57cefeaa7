//! Actions: user input and the results of effects.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ratatui::crossterm::event::KeyEvent;

use super::query::{QueryPart, Received};
use crate::answer::KnobLimits;
use crate::engine::EngineError;
use crate::hardware::Detected;
use crate::hardware::remembered::SavedMachine;
use crate::hardware::watch::MemoryUpdate;
use crate::library::check::Checked;
use crate::library::{Item, ModelStatus, RepositoryList};
use crate::plan::Plan;
use crate::question::Stepwise;
use crate::running::apply::Failure;
use crate::source::{self, Package};
use crate::teach::TeachPage;
use crate::tui::effect::{ApplyPreview, Followed};
use crate::tui::pasted::Pasted;

/// What a key does; see [`super::keymap`].
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
    MaxInVram,
    MaxAllLayers,
    NextCliff,
    PreviousCliff,
    Lock,
    SplitCache,
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
    Redo,
    FirstWay,
    SecondWay,
    ThirdWay,
    History,
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
    PinFit,
    Placement,
    MoveInAllBlocks,
    Verify,
    Apply,
    Watch,
    Complete,
    Sort,
    Reverse,
    OnlyFitting,
    CopyPull,
    Need,
    OnlyKind,
    OnlyModality,
    OnlyUse,
    UseAsDraft,
    JudgeBy,
    Renew,
    OnlyHere,
    OnlyFamily,
    Teach,
    NextKnob,
    KnobLess,
    KnobMore,
    Peak,
    RemoveOp,
    Play,
    Slower,
    Faster,
    Phase,
    Zoom,
    Answer,
    Present,
    Theme,
    Help,
    Suspend,
    CopyValue,
    Quit,
    QuitAtOnce,
}

/// A mouse event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Gesture {
    Down,
    Drag,
    Up,
    WheelUp,
    WheelDown,
}

/// Everything that [`super::host::Host::update`] handles.
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
    /// The screen was resized to these columns and rows.
    Resize(u16, u16),
    /// Detection of the local machine has finished.
    Detected(Box<Detected>),
    /// Free memory has changed.
    MemoryChanged(Box<MemoryUpdate>),
    /// Progress of a load.
    Progress {
        /// Id of the load.
        id: u64,
        /// What has been read.
        now: source::Progress,
        /// Time since the load began.
        took: Duration,
    },
    /// A load ended.
    Loaded {
        /// Id of the load.
        id: u64,
        /// The model, or one sentence on why it cannot be loaded.
        result: Result<Package, String>,
    },
    /// The models that are known without asking a server.
    ModelsListed(Vec<Arc<Item>>),
    /// Further models of a running Ollama, or why a server that the user named does not list them.
    Running(Result<Vec<Arc<Item>>, String>),
    /// The status of one model in the list changed.
    ModelPlanned {
        /// Id of the survey.
        id: u64,
        /// The model.
        item: Arc<Item>,
        /// Its new status.
        status: ModelStatus,
    },
    /// A log was compared with its plan, or why it cannot be.
    Checked {
        /// Id of the request.
        id: u64,
        /// The comparison, or one sentence.
        result: Result<Box<Checked>, String>,
    },
    /// What applying a plan would do, or one sentence on why it cannot be applied.
    ApplyPrepared {
        /// Id of the request.
        id: u64,
        /// What is started, loaded and unloaded.
        result: Result<ApplyPreview, String>,
    },
    /// Progress of a plan that is applied.
    ApplyProgress {
        /// Id of the request.
        id: u64,
        /// Time since it began.
        took: Duration,
        /// What is known of it, in the program's words.
        what: String,
    },
    /// A plan was applied, or why it did not load.
    Applied {
        /// Id of the request.
        id: u64,
        /// What came of it, beside the plan.
        result: Result<Box<Checked>, Failure>,
    },
    /// A sample of what runs.
    Sampled {
        /// Id of the request.
        id: u64,
        /// The sample, with the plan of each of its programs.
        followed: Box<Followed>,
    },
    /// The saved machines, or why they cannot be listed.
    MachinesListed(Result<Vec<SavedMachine>, String>),
    /// One sentence on where a machine was saved, or why it was not.
    MachineSaved(Result<String, String>),
    /// Completions of a typed path.
    Completed {
        /// What was typed.
        typed: String,
        /// Whole paths, folders with a slash at the end.
        paths: Vec<String>,
    },
    /// The models of a typed repository, or why they cannot be listed.
    RepositoryListed {
        /// What was typed.
        typed: String,
        /// The models.
        answer: Result<Box<RepositoryList>, String>,
    },
    /// A pasted text that was read.
    PasteRead(Box<Pasted>),
    /// The plan, or why there is none.
    Planned {
        /// Id of the request.
        id: u64,
        /// What the engine answered.
        result: Box<Result<Plan, EngineError>>,
    },
    /// The limits of the knobs.
    Limits {
        /// Id of the request.
        id: u64,
        /// The limits.
        limits: Box<KnobLimits>,
    },
    /// A part of the answer to a query.
    QueryAnswered {
        /// Id of the query.
        id: u64,
        /// The part.
        part: QueryPart,
    },
    /// A page of the teach screen is ready.
    PageReady {
        /// Id of the request.
        id: u64,
        /// The page, or one sentence on why there is none.
        result: Result<Arc<dyn TeachPage>, String>,
    },
    /// The next step of an animation is due.
    Tick {
        /// Id of the animation.
        id: u64,
    },
    /// Change number `id` is no longer to be marked.
    Fade {
        /// Id of the change.
        id: u64,
    },
    /// An export was produced, or one sentence on why it cannot be.
    Written {
        /// Id of the export.
        id: u64,
        /// The text.
        text: Result<String, String>,
    },
    /// Where an export was saved, or one sentence on why it was not.
    Saved(Result<PathBuf, String>),
    /// A background task panicked or failed unexpectedly.
    TaskPanicked(String),
    /// The terminal or a signal asks the program to end.
    Leave(ExitReason),
}

impl Action {
    /// What it is of the answer to the `Q` that was asked by this id; none if it is of another.
    pub fn part_of<Q: Stepwise>(self, asked: u64) -> Option<Received<Q::Part>> {
        match self {
            Self::QueryAnswered { id, part } if id == asked => part.of::<Q>(),
            _ => None,
        }
    }
}

/// Why the planner ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The user quit.
    Quit,
    /// A signal of this number was received.
    Signal(i32),
    /// Terminal input was closed.
    InputClosed,
}
