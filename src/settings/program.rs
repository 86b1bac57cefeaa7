//! The program of llama.cpp that runs a model, and what it does unless it is told otherwise.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::{Context, GpuLayers, Outputs, Settings};

/// A program of llama.cpp. Sources: `common/arg.cpp` and `common/common.h` (0.1.161), `tools/*` of the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LlamaProgram {
    /// `llama-server`: four slots that share one cache, logits of one token per slot.
    #[default]
    Server,
    /// `llama-cli`: the same with one slot.
    Cli,
    /// `llama-completion`: one sequence, logits of whole ubatches, as all below.
    Completion,
    /// `llama-bench`: the context of its longest test; it fits nothing.
    Bench,
    /// `llama-batched-bench`
    BatchedBench,
    /// `llama-perplexity`: as many texts of its context at once as a batch holds.
    Perplexity,
    /// `llama-fit-params`
    FitParams,
}

/// The prompt of `llama-bench` and the context of `llama-perplexity`, in tokens, unless they are told otherwise.
const SHORT: u64 = 512;
/// The batch of all of them unless they are told otherwise.
const BATCH: u64 = 2048;

impl LlamaProgram {
    /// All of them, the server first.
    pub const ALL: [Self; 7] =
        [Self::Server, Self::Cli, Self::Completion, Self::Bench, Self::BatchedBench, Self::Perplexity, Self::FitParams];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "llama-server",
            Self::Cli => "llama-cli",
            Self::Completion => "llama-completion",
            Self::Bench => "llama-bench",
            Self::BatchedBench => "llama-batched-bench",
            Self::Perplexity => "llama-perplexity",
            Self::FitParams => "llama-fit-params",
        }
    }

    /// Whether it serves slots, and so computes logits for one token of each.
    pub const fn serves(self) -> bool {
        matches!(self, Self::Server | Self::Cli)
    }
}

impl Settings {
    /// These with what the program does by itself where they leave it open.
    #[must_use]
    pub fn as_program(&self) -> Self {
        let mut settings = self.clone();
        let program = self.program;
        if program == LlamaProgram::Server {
            return settings;
        }
        if !program.serves() && self.outputs == Outputs::Parallel {
            settings.outputs = Outputs::Ubatch;
        }
        match program {
            LlamaProgram::Bench => {
                if self.ctx == Context::Auto {
                    settings.ctx = Context::Tokens(SHORT);
                }
                if self.gpu_layers == GpuLayers::Auto {
                    settings.gpu_layers = GpuLayers::All;
                }
            }
            LlamaProgram::Perplexity => {
                let text = match self.ctx {
                    Context::Tokens(tokens) => tokens.max(1),
                    Context::Auto | Context::Max => SHORT,
                };
                let batch = self.batch.unwrap_or(BATCH);
                let texts = (batch / text).max(1);
                settings.ctx = Context::Tokens(text.saturating_mul(texts));
                settings.batch = Some(batch.min(text.saturating_mul(texts)));
                settings.parallel = Some(texts);
            }
            _ => {}
        }
        settings.parallel = settings.parallel.or(Some(1));
        settings
    }
}

impl fmt::Display for LlamaProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for LlamaProgram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl FromStr for LlamaProgram {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let is_it = |program: &Self| program.name() == text || program.name().strip_prefix("llama-") == Some(text);
        Self::ALL.into_iter().find(is_it).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("'{text}' is not a program of llama.cpp that is known here: use one of {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(program: LlamaProgram) -> Settings {
        Settings { program, ..Settings::default() }.as_program()
    }

    #[test]
    fn only_a_server_has_slots_that_nobody_asked_for() {
        for program in LlamaProgram::ALL {
            assert_eq!(program.name().parse(), Ok(program));
            let settings = of(program);
            let outputs = if program.serves() { Outputs::Parallel } else { Outputs::Ubatch };
            assert_eq!(settings.outputs, outputs, "{program}");
            assert_eq!(settings.parallel.is_none(), program == LlamaProgram::Server, "{program}");
        }
        assert!("llama-quantize".parse::<LlamaProgram>().is_err());
    }

    #[test]
    fn perplexity_reads_as_many_texts_as_a_batch_holds() {
        let settings = of(LlamaProgram::Perplexity);
        assert_eq!((settings.ctx, settings.parallel, settings.batch), (Context::Tokens(2048), Some(4), Some(2048)));
        let long = Settings { ctx: Context::Tokens(4096), program: LlamaProgram::Perplexity, ..Settings::default() };
        let long = long.as_program();
        assert_eq!((long.ctx, long.parallel, long.batch), (Context::Tokens(4096), Some(1), Some(2048)));
    }

    #[test]
    fn bench_fits_nothing() {
        let settings = of(LlamaProgram::Bench);
        assert_eq!((settings.ctx, settings.gpu_layers), (Context::Tokens(512), GpuLayers::All));
    }
}
