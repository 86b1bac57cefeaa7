//! The batch: Ollama passes one number as llama-server's batch and ubatch.
//! Source: `automaticGenerationBatch`, `server/sched.go`, and `embeddingBatchSize`, `llm/llama_server.go`, Ollama,
//! August 2026.

use super::gpu_selection::share;
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
pub(super) fn surcharge(batch: Option<u64>) -> u64 {
    let step = STEPS.iter().find(|step| batch.is_some_and(|batch| batch >= step.batch));
    step.map_or(0, |step| step.surcharge.0)
}

/// Total contexts, in tokens, above which a larger batch is tried.
pub(super) fn thresholds() -> impl Iterator<Item = u64> {
    STEPS.iter().map(|step| step.above)
}

/// The input of a text model's batch.
pub(super) struct BatchInputs<'g> {
    /// Tokens of context over all sequences.
    pub tokens: u64,
    /// Predicted bytes of the model.
    pub predicted: u64,
    /// Bytes available on all selected GPUs.
    pub available: u64,
    pub flash_attn: FlashAttn,
    /// The selected GPUs.
    pub gpus: &'g [Gpu],
}

/// The batch that Ollama chooses, and the reason if it is not the usual 512.
pub(super) fn automatic(load: &BatchInputs<'_>) -> (u64, Option<String>) {
    let is_cuda = |gpu: &&Gpu| gpu.backend == Backend::Cuda;
    if load.flash_attn == FlashAttn::Off && load.gpus.iter().any(|gpu| is_cuda(&gpu)) {
        let small = load.gpus.iter().filter(is_cuda).find(|gpu| (1..=8 << 30).contains(&memory(gpu).0));
        return match small {
            Some(gpu) if load.tokens > 4096 => {
                let why = format!("without flash attention and with 8 GiB or less on {}", gpu.name);
                (CONSTRAINED, Some(format!("batch {CONSTRAINED}: {why}, Ollama keeps the compute buffer small")))
            }
            _ if load.tokens > 4096 => {
                let note = format!("batch {DEFAULT}: Ollama raises it for a long context only with flash attention");
                (DEFAULT, Some(note))
            }
            _ => (DEFAULT, None),
        };
    }
    let Some(first) = STEPS.iter().find(|step| load.tokens > step.above) else { return (DEFAULT, None) };
    let wanted = first.batch;
    let batch = STEPS.iter().filter(|step| step.batch <= wanted).find(|step| step.fits(load)).map(|step| step.batch);
    let context = format!("a context of {} tokens", Tokens(load.tokens));
    let note = match batch {
        Some(batch) if batch == wanted => {
            let room = if load.available > 0 { ", as its buffers fit" } else { "" };
            format!("batch {batch}: Ollama raises it for {context}{room}")
        }
        lower => format!(
            "batch {} instead of the {wanted} that Ollama prefers for {context}: it expects to need {} of {} available",
            lower.unwrap_or(DEFAULT),
            Bytes(load.predicted),
            Bytes(load.available),
        ),
    };
    (batch.unwrap_or(DEFAULT), Some(note))
}

impl BatchStep {
    fn fits(&self, load: &BatchInputs<'_>) -> bool {
        if load.predicted == 0 || load.available == 0 {
            return true;
        }
        let limit = share(load.available, 80);
        load.predicted <= limit
            && load.predicted <= share(load.available, self.percent)
            && self.surcharge.0 <= limit - load.predicted
    }
}

/// Free memory of a GPU, or its total if free memory is unknown.
pub(super) fn memory(gpu: &Gpu) -> Bytes {
    let less = gpu.total > Bytes::ZERO && gpu.total < gpu.free;
    if gpu.free == Bytes::ZERO || less { gpu.total } else { gpu.free }
}

/// The batch of an embedding model, given or by the context `ctx` that was asked for (0 for none): at most the whole
/// context of `tokens`.
pub(super) fn of_embeddings(asked: Option<u64>, ctx: u64, tokens: u64) -> (u64, Option<String>) {
    let batch = before_lowering(asked, ctx).min(tokens);
    let note = match asked {
        Some(asked) if batch < asked => format!("batch lowered to {}: it cannot exceed the context", Tokens(batch)),
        Some(_) => return (batch, None),
        None => format!("batch {batch}: Ollama processes up to {EMBEDDING} tokens at once with an embedding model"),
    };
    (batch, Some(note))
}

/// The same before it is lowered to the whole context.
pub(super) fn before_lowering(asked: Option<u64>, ctx: u64) -> u64 {
    asked.unwrap_or(if ctx == 0 { EMBEDDING } else { EMBEDDING.min(ctx) })
}
