//! What the rooms below know of engines: their names, their errors and small types.

use std::fmt;
use std::str::FromStr;

use crate::settings::Settings;

/// Names the engines, one line each, in the order in which they are offered: in code, on the command line and in JSON,
/// and on the screen.
macro_rules! engines {
    ($($(#[$meta:meta])* $id:ident: $name:literal, $title:literal;)+) => {
        /// The engines that this version knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
        pub enum EngineId {
            $($(#[$meta])* $id,)+
        }

        impl EngineId {
            /// Every engine, in the order in which they are offered.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$id),+];

            /// Its name on the command line and in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)+ }
            }

            /// Its name on the screen.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$id => $title,)+ }
            }
        }
    };
}

engines! {
    /// Ollama from 0.30, which starts llama-server.
    #[default]
    Ollama: "ollama", "Ollama ≥ 0.30";
    /// llama-server, with memory as llama.cpp allocates it.
    LlamaCpp: "llama.cpp", "llama.cpp";
    /// Ollama up to 0.24, with its own estimator.
    Ollama024: "ollama-0.24", "Ollama ≤ 0.24";
    /// Ollama up to 0.11, with the estimator before that.
    Ollama011: "ollama-0.11", "Ollama ≤ 0.11";
}

impl fmt::Display for EngineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for EngineId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|engine| engine.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|engine| engine.name()).collect();
            format!("unknown engine '{text}': use {}", names.join(" or "))
        })
    }
}

/// Why an engine makes no plan at all. (A layout that does not fit is a plan, with a verdict that says so.)
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The model's header lacks what this engine needs; exit status 3.
    #[error("{0}")]
    Model(String),
    /// The engine refuses these settings; exit status 2.
    #[error("{0}")]
    Settings(String),
}

/// What a plan is wanted for, by those who read its [`PlanSummary`](crate::plan::Gist) alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FitGoal {
    /// As much on GPUs as fits.
    Most,
    /// Every layer on GPUs, or nothing: where that cannot be had, the engine may stop before it has placed as many layers
    /// as it could.
    AllLayers,
}

/// How llama-server is started.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Its options, as settings of [`EngineId::LlamaCpp`].
    pub options: Settings,
    /// The machine's GPUs that it is shown, by their places.
    pub gpus: Vec<usize>,
}
