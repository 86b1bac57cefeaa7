//! What the graph of an architecture that no list knows is modelled on, and how far such answers were off.

use std::fmt;

use super::super::LoadedModel;

/// The kind of graph that the file's tensors resemble most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Likeness {
    /// Ordinary attention and a dense feed-forward part.
    Dense,
    /// Ordinary attention and experts.
    Experts,
    /// Compressed attention.
    Compressed,
    /// Some blocks keep a recurrent state.
    Recurrent,
}

/// How far answers were off where they could be measured: architectures whose graph is known now, modelled as if it were
/// not, against what llama.cpp measured of miniatures, whose caches and buffers weigh more than those of real models.
/// `tests/llama_cpp/unlisted.rs` compares them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelledError {
    /// Plans that were exact, in percent, at least.
    pub exact: u64,
    /// Half of the plans were no further off than this, in percent of all memory.
    pub half_within: f64,
    /// Nine of ten were no further off than this.
    pub most_within: f64,
}

impl Likeness {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Dense, Self::Experts, Self::Compressed, Self::Recurrent];

    /// What an unlisted model is modelled on.
    pub fn of(loaded: &LoadedModel) -> Self {
        let hparams = &loaded.hparams;
        if hparams.is_recr.contains(&true) {
            Self::Recurrent
        } else if hparams.mla.is_some() {
            Self::Compressed
        } else if hparams.n_expert > 0 {
            Self::Experts
        } else {
            Self::Dense
        }
    }

    /// How far such answers were off.
    pub const fn error(self) -> ModelledError {
        match self {
            Self::Dense => ModelledError { exact: 25, half_within: 1.2, most_within: 70.0 },
            Self::Experts => ModelledError { exact: 20, half_within: 7.5, most_within: 70.0 },
            Self::Compressed => ModelledError { exact: 0, half_within: 22.0, most_within: 90.0 },
            Self::Recurrent => ModelledError { exact: 0, half_within: 6.0, most_within: 40.0 },
        }
    }
}

/// The family: `a transformer with experts, like Qwen 3 MoE`.
impl fmt::Display for Likeness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Dense => "a transformer like Llama",
            Self::Experts => "a transformer with experts, like Qwen 3 MoE",
            Self::Compressed => "a transformer with compressed attention, like DeepSeek 2",
            Self::Recurrent => "a model with recurrent states, like Mamba",
        })
    }
}

/// `where it could be measured, half of such plans were within 6 % of what llama.cpp takes, nine of ten within 70 %, …`
impl fmt::Display for ModelledError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exact, half_within, most_within } = self;
        write!(
            f,
            "where it could be measured, on miniatures, half of such plans were within {half_within} % of what llama.cpp \
             takes, nine of ten within {most_within} %"
        )?;
        match exact {
            0 => f.write_str(", and hardly any was exact"),
            _ => write!(f, ", and over {exact} % were exact"),
        }
    }
}
