//! One number for llama-server's batch and ubatch: Ollama raises it for long contexts where memory allows.

use super::super::discovery::share;
use super::{Decision, Decisions, c_int, memory};
use crate::engine::error::EngineError;
use crate::engine::request;
use crate::machine::{Backend, Gpu};
use crate::settings::FlashAttn;
use crate::units::{Bytes, Tokens};

const DEFAULT: u64 = 512;

const CONSTRAINED: u64 = 256;

const EMBEDDING: u64 = 2048;

/// A batch larger than the default, and its conditions.
struct BatchStep {
    batch: u64,
    /// Minimum total context, exclusive, in tokens.
    above: u64,
    /// Maximum prediction, in percent of the available memory.
    percent: u64,
    surcharge: Bytes,
}

const STEPS: [BatchStep; 2] = [
    BatchStep { batch: 2048, above: 32_768, percent: 60, surcharge: Bytes::gib(2) },
    BatchStep { batch: 1024, above: 4096, percent: 75, surcharge: Bytes::mib(768) },
];

/// Bytes that a batch is expected to add to the prediction.
pub fn surcharge(batch: Option<u64>) -> u64 {
    let step = STEPS.iter().find(|step| batch.is_some_and(|batch| batch >= step.batch));
    step.map_or(0, |step| step.surcharge.0)
}

/// Total contexts, in tokens, above which a larger batch is tried.
pub fn thresholds() -> impl Iterator<Item = u64> {
    STEPS.iter().map(|step| step.above)
}

impl Decisions<'_> {
    /// One number for llama-server's batch and ubatch.
    /// Source: `automaticGenerationBatch`, `server/sched.go`, and `embeddingBatchSize`, `llm/llama_server.go`.
    pub(super) fn batch(&mut self) -> Result<(), EngineError> {
        let (batch, sent, note) = match self.settings.batch {
            asked if self.embedding => {
                let batch =
                    asked.unwrap_or(if self.asked_ctx == 0 { EMBEDDING } else { EMBEDDING.min(self.asked_ctx) });
                let sent = batch.min(self.tokens);
                let note = match asked {
                    Some(asked) if sent < asked => {
                        Some(format!("batch lowered to {}: it cannot exceed the context", Tokens(sent)))
                    }
                    Some(_) => None,
                    None => Some(format!(
                        "batch {sent}: Ollama processes up to {EMBEDDING} tokens at once with an embedding model"
                    )),
                };
                (batch, sent, note)
            }
            Some(batch) => (batch, batch, None),
            None if self.settings.raw => (request::DEFAULT_BATCH, request::DEFAULT_BATCH, None),
            None => {
                let (batch, note) = self.automatic_batch();
                (batch, batch, note)
            }
        };
        self.note(Decision::Batch, note);
        (self.batch, self.sent) = (batch, c_int(sent, "tokens per batch")?);
        Ok(())
    }

    /// The batch that Ollama chooses for a text model, and the reason if it is not the usual 512.
    fn automatic_batch(&self) -> (u64, Option<String>) {
        let is_cuda = |gpu: &&Gpu| gpu.backend == Backend::Cuda;
        if self.flash_attn == FlashAttn::Off && self.gpus.iter().any(|gpu| is_cuda(&gpu)) {
            let small = self.gpus.iter().filter(is_cuda).find(|gpu| (1..=8 << 30).contains(&memory(gpu).0));
            return match small {
                Some(gpu) if self.tokens > 4096 => {
                    let why = format!("without flash attention and with 8 GiB or less on {}", gpu.name);
                    (CONSTRAINED, Some(format!("batch {CONSTRAINED}: {why}, Ollama keeps the compute buffer small")))
                }
                _ if self.tokens > 4096 => {
                    let note =
                        format!("batch {DEFAULT}: Ollama raises it for a long context only with flash attention");
                    (DEFAULT, Some(note))
                }
                _ => (DEFAULT, None),
            };
        }
        let Some(first) = STEPS.iter().find(|step| self.tokens > step.above) else { return (DEFAULT, None) };
        let wanted = first.batch;
        let batch =
            STEPS.iter().filter(|step| step.batch <= wanted).find(|step| self.fits(step)).map(|step| step.batch);
        let context = format!("a context of {} tokens", Tokens(self.tokens));
        let note = match batch {
            Some(batch) if batch == wanted => {
                let room = if self.available > 0 { ", as its buffers fit" } else { "" };
                format!("batch {batch}: Ollama raises it for {context}{room}")
            }
            lower => format!(
                "batch {} instead of the {wanted} that Ollama prefers for {context}: it expects to need {} of {} available",
                lower.unwrap_or(DEFAULT),
                Bytes(self.predicted),
                Bytes(self.available),
            ),
        };
        (batch.unwrap_or(DEFAULT), Some(note))
    }

    fn fits(&self, step: &BatchStep) -> bool {
        if self.predicted == 0 || self.available == 0 {
            return true;
        }
        let limit = share(self.available, 80);
        self.predicted <= limit
            && self.predicted <= share(self.available, step.percent)
            && step.surcharge.0 <= limit - self.predicted
    }
}
