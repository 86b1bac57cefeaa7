//! The names of the engines.

use std::fmt;
use std::str::FromStr;

/// Defines the engines, one line each in the order offered: variant, name on the command line and in JSON, and title.
macro_rules! engines {
    ($($(#[$meta:meta])* $id:ident: $name:literal, $title:literal;)+) => {
        /// The engines that this version knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
        pub enum EngineId {
            $($(#[$meta])* $id,)+
        }

        impl EngineId {
            /// All engines, in the order offered.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$id),+];

            /// Name on the command line and in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)+ }
            }

            /// Name on the screen.
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
    /// mlx-lm, and LM Studio's MLX engine.
    Mlx: "mlx", "MLX";
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
