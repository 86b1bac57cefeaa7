//! What programs of llama.cpp do by themselves.

use super::draft::LlamaProgram;
use super::fields::Settings;
use super::values::{Context, GpuLayers, Outputs};

/// The prompt of `llama-bench` and the context of `llama-perplexity`, in tokens, unless they are told otherwise.
const SHORT: u64 = 512;
/// The batch of all of them unless they are told otherwise.
const BATCH: u64 = 2048;

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
