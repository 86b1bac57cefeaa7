//! Ollama's own decisions, in order: context, parallelism, GPUs, flash attention, batch, projector. The result are
//! llama-server's options.
//! Source: `server/routes.go`, `server/sched.go` and `llm/llama_server.go`, Ollama, August 2026.

use super::gpu_selection::{GpuSelection, available, select_gpus};
use super::{batch, predict, projector};
use crate::engine::graph_size::{OllamaKeys, OllamaRelease};
use crate::engine::id::EngineError;
use crate::engine::ollama_024::rules::supports_flash;
use crate::engine::request;
use crate::machine::{Gpu, Machine};
use crate::model::Model;
use crate::settings::{Context, FlashAttn, GpuLayers, Outputs, Settings};
use crate::units::{Bytes, Tokens};

/// Maximum of llama-server's options, which are C's `int`.
const MAX_INT: u64 = i32::MAX as u64;

/// The start of llama-server, and the decisions that led to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServerLaunch {
    /// Tokens of context per sequence.
    pub ctx: u64,
    /// llama-server's options.
    pub options: Settings,
    /// The GPUs visible to it, as indices in the machine.
    pub gpus: Vec<usize>,
    /// Predicted bytes.
    pub predicted: u64,
    /// An embedding model.
    pub embedding: bool,
    /// The machine with only the visible GPUs.
    pub machine: Machine,
    /// One sentence each.
    pub notes: Vec<String>,
    /// The notes on decisions that the user did not ask for, most surprising first.
    pub decided: Vec<String>,
}

/// Decisions that the user did not ask for, most surprising first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Decision {
    Gpus,
    Batch,
    FlashAttention,
    Sequences,
    Context,
    Projector,
}

/// Notes, and which of them are such decisions.
#[derive(Default)]
struct DecisionNotes {
    notes: Vec<String>,
    decisions: Vec<(Decision, String)>,
}

impl DecisionNotes {
    /// Marks all notes from index `from` on as a decision of this kind.
    fn mark(&mut self, decision: Decision, from: usize) {
        self.decisions.extend(self.notes.iter().skip(from).map(|note| (decision, note.clone())));
    }

    /// The notes on decisions, most surprising first.
    fn decided(&mut self) -> Vec<String> {
        self.decisions.sort_by_key(|(decision, _)| *decision);
        std::mem::take(&mut self.decisions).into_iter().map(|(_, note)| note).collect()
    }
}

/// Makes the decisions. `lowered` is the context after a start that ran out of memory.
///
/// # Errors
/// When llama-server could not parse the settings, or Ollama's rules cannot read the header.
pub(super) fn decide(
    model: &Model,
    machine: &Machine,
    settings: &Settings,
    lowered: Option<u64>,
) -> Result<ServerLaunch, EngineError> {
    let mut log = DecisionNotes::default();
    let embedding = OllamaKeys { model, release: OllamaRelease::August2026 }.has("pooling_type");
    let ctx = context(model, machine, settings, lowered, &mut log.notes)?;
    log.mark(Decision::Context, 0);
    let from = log.notes.len();
    let parallel = request::at_least_one(settings.parallel, 1, "--parallel")?;
    let one_at_a_time = embedding || request::ONE_SEQUENCE.contains(&model.architecture.as_str());
    let parallel = request::sequences(parallel, one_at_a_time && !settings.raw, embedding, &mut log.notes);
    log.mark(Decision::Sequences, from);
    let tokens = c_int(ctx.saturating_mul(parallel), "tokens of context in total")?;

    let predicted = predict::predicted(model, tokens)?;
    let GpuSelection { gpus, note } = match settings.gpu_layers {
        GpuLayers::Count(0) if !settings.raw => {
            let note = "no GPU is used: 0 layers on GPU were requested".to_owned();
            GpuSelection { gpus: Vec::new(), note: (!machine.gpus.is_empty()).then_some(note) }
        }
        _ if settings.raw => GpuSelection { gpus: (0..machine.gpus.len()).collect(), note: None },
        _ => select_gpus(machine, predicted, settings.spread),
    };
    let from = log.notes.len();
    log.notes.extend(note);
    log.mark(Decision::Gpus, from);
    let seen: Vec<Gpu> = gpus.iter().filter_map(|&index| machine.gpus.get(index).cloned()).collect();

    let from = log.notes.len();
    let flash_attn = if settings.raw { settings.flash_attn } else { flash_attention(settings, &seen, &mut log.notes) };
    log.mark(Decision::FlashAttention, from);
    let asked = settings.batch.map(|_| request::at_least_one(settings.batch, 0, "--batch")).transpose()?;
    let (batch, note) = match asked {
        _ if embedding => batch::of_embeddings(asked, tokens),
        Some(batch) => (batch, None),
        None if settings.raw => (request::DEFAULT_BATCH, None),
        None => {
            let available = available(&seen, machine.ram.free);
            batch::automatic(&batch::BatchInputs { tokens, predicted, available, flash_attn, gpus: &seen })
        }
    };
    let from = log.notes.len();
    log.notes.extend(note);
    log.mark(Decision::Batch, from);
    let batch = c_int(batch, "tokens per batch")?;

    let from = log.notes.len();
    let margin = if settings.raw { None } else { projector_margin(model, settings, &seen, &mut log.notes) };
    log.mark(Decision::Projector, from);
    if !settings.raw {
        log.notes.extend(unsupported_options(settings));
    }
    if settings.adapters > Bytes::ZERO {
        let adapters = settings.adapters;
        log.notes.push(format!(
            "the adapters ({adapters}) are not included: llama-server loads them after placing the layers"
        ));
    }
    let if_raw = |asked: bool| asked && settings.raw;
    let options = Settings {
        ctx: Context::Tokens(tokens),
        parallel: Some(parallel),
        batch: Some(batch),
        ubatch: Some(settings.ubatch.filter(|_| settings.raw).unwrap_or(batch)),
        flash_attn,
        fit_target: settings.fit_target.or(margin),
        no_op_offload: if_raw(settings.no_op_offload),
        outputs: if settings.raw { settings.outputs } else { Outputs::default() },
        gpu_overhead: Bytes::ZERO,
        adapters: Bytes::ZERO,
        projector: Bytes::ZERO,
        spread: false,
        raw: false,
        require_full: if_raw(settings.require_full),
        ..settings.clone()
    };
    let machine = Machine { gpus: seen, ..machine.clone() };
    let decided = log.decided();
    Ok(ServerLaunch { ctx, options, gpus, predicted, embedding, machine, notes: log.notes, decided })
}

/// Tokens per sequence.
fn context(
    model: &Model,
    machine: &Machine,
    settings: &Settings,
    lowered: Option<u64>,
    notes: &mut Vec<String>,
) -> Result<u64, EngineError> {
    if let Some(lowered) = lowered {
        return Ok(lowered);
    }
    let keys = OllamaKeys { model, release: OllamaRelease::August2026 };
    let vision = keys.has("vision.block_count") || settings.projector > Bytes::ZERO;
    let default = || request::default_context(machine, settings.gpu_overhead);
    let ctx = request::context(settings.ctx, model, OllamaRelease::August2026, default)?;
    if settings.raw {
        return Ok(ctx);
    }
    if settings.ctx == Context::Auto {
        let together = match machine.gpus.as_slice() {
            [] => "there is no GPU".to_owned(),
            gpus => format!("the GPUs have {} in total", gpus.iter().map(|gpu| gpu.total).sum::<Bytes>()),
        };
        notes.push(format!("context {}: Ollama chooses it by VRAM, and {together}", Tokens(ctx)));
    }
    Ok(request::context_in_bounds(ctx, model, OllamaRelease::August2026, vision, notes))
}

/// The context of a second attempt after one with `ctx` tokens per sequence ran out of memory; none if the user set the
/// context, or it is already small. Source: `nextLowerAutoNumCtx`, `server/sched.go`.
pub(super) fn lower_context(settings: &Settings, ctx: u64) -> Option<u64> {
    let automatic = settings.ctx == Context::Auto && !settings.raw;
    [32_768, 4096].into_iter().find(|&lower| automatic && ctx > lower)
}

/// As `LlamaServerFlashAttention` in `llm/llama_server.go` and `FlashAttentionSupported` in `ml/device.go`. Unknown
/// properties of a described GPU count as sufficient.
fn flash_attention(settings: &Settings, gpus: &[Gpu], notes: &mut Vec<String>) -> FlashAttn {
    let too_old = |gpu: &Gpu| gpu.compute.is_some_and(|(major, _)| major < 6);
    match settings.flash_attn {
        FlashAttn::Auto => match gpus.iter().find(|gpu| !supports_flash(gpu) || too_old(gpu)) {
            Some(gpu) => {
                notes.push(format!("flash attention is off: {} does not support it", gpu.name));
                FlashAttn::Off
            }
            None => FlashAttn::Auto,
        },
        asked => asked,
    }
}

/// The fit's margin on every GPU if the projector is on one.
fn projector_margin(model: &Model, settings: &Settings, gpus: &[Gpu], notes: &mut Vec<String>) -> Option<Bytes> {
    let bytes = projector::bytes(model, settings);
    if bytes == Bytes::ZERO || gpus.is_empty() {
        return None;
    }
    if let Some(why) = projector::in_ram(bytes, settings.gpu_layers, model.block_count(), gpus) {
        notes.push(format!("the projector ({bytes}) stays in RAM: {why}"));
        return None;
    }
    let margin = projector::margin(bytes);
    notes.push(match settings.fit_target {
        Some(given) => {
            format!("--fit-target ({given}) overrides the {margin} that Ollama keeps free for a projector")
        }
        None => format!("{margin} is kept free on each GPU, not 1 GiB, for the projector ({bytes}) and its buffers"),
    });
    Some(margin)
}

/// Notes on options that Ollama lacks: llama-server reads some from its environment, the others are ignored.
fn unsupported_options(settings: &Settings) -> Vec<String> {
    let differ = settings.cache_type_k != settings.cache_type_v;
    let by_variable = [
        ("different types for K and V", differ, "LLAMA_ARG_CACHE_TYPE_K and LLAMA_ARG_CACHE_TYPE_V"),
        ("--kv-unified", settings.kv_unified, "LLAMA_ARG_KV_UNIFIED"),
        ("--no-kv-offload", settings.no_kv_offload, "LLAMA_ARG_NO_KV_OFFLOAD"),
        ("--swa-full", settings.swa_full, "LLAMA_ARG_SWA_FULL"),
        ("--tensor-split", !settings.tensor_split.is_empty(), "LLAMA_ARG_TENSOR_SPLIT"),
        ("--fit-target", settings.fit_target.is_some(), "LLAMA_ARG_FIT_TARGET"),
        ("--n-cpu-moe", settings.n_cpu_moe.is_some(), "LLAMA_ARG_N_CPU_MOE"),
    ];
    let mut notes: Vec<String> = by_variable
        .into_iter()
        .filter(|(_, given, _)| *given)
        .map(|(what, _, variable)| {
            format!("{what}: Ollama has no option for it, but llama-server reads {variable} from its environment")
        })
        .collect();
    if settings.gpu_overhead > Bytes::ZERO {
        notes.push("OLLAMA_GPU_OVERHEAD no longer keeps memory free: it only affects the default context".to_owned());
    }
    let ignored = super::facts::FACTS.ignored(settings).into_iter();
    notes.extend(ignored.map(|option| format!("{option} is ignored: Ollama has no such option")));
    notes
}

fn c_int(number: u64, what: &str) -> Result<u64, EngineError> {
    if number > MAX_INT {
        let sentence = format!("{} {what} are more than llama-server accepts: use fewer", Tokens(number));
        return Err(EngineError::Settings(sentence));
    }
    Ok(number)
}
