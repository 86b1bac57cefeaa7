//! Ollama's own decisions, in order: context, parallelism, GPUs, flash attention, batch, projector. The result are
//! llama-server's options.
//! Source: `server/routes.go`, `server/sched.go` and `llm/llama_server.go`, Ollama, August 2026.

use std::collections::BTreeMap;

use super::command::{CommandInputs, ProjectorArgument};
use super::discovery::{CountedGpu, Discovery, discover};
use super::gpu_selection::{GpuSelection, SelectionInputs, available, select_gpus};
use super::load_mode::LoadModeInputs;
use super::projector::Projector;
use super::release::ReleaseTraits;
use super::server_options::{BatchSizes, server_options, server_refusal, visible_machine};
use super::sources::sources;
use super::{batch, predict};
use crate::engine::estimator::{OllamaKeys, OllamaRelease};
use crate::engine::id::{EngineError, ServerStart};
use crate::engine::request;
use crate::machine::{Backend, Gpu, Machine};
use crate::model::Model;
use crate::settings::ollama::Endpoint;
use crate::settings::{Context, FlashAttn, GpuLayers, Settings};
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
    /// The GPUs that its backend lists, as indices in the machine.
    pub gpus: Vec<usize>,
    /// The GPUs that were chosen, as Ollama sees them.
    pub chosen: Vec<CountedGpu>,
    /// The GPUs that count.
    pub counted: Vec<CountedGpu>,
    /// The command and what led to it.
    pub start: ServerStart,
    /// An embedding model.
    pub embedding: bool,
    /// A projector that is on a GPU.
    pub has_projector_on_gpu: bool,
    /// The starts before it that ran out of memory.
    pub failures: usize,
    /// Why llama-server refuses its options, if it does.
    pub refusal: Option<String>,
    /// The machine with only the visible GPUs.
    pub machine: Machine,
    /// Who set a value, where it was not the request.
    pub sources: BTreeMap<&'static str, String>,
    /// One sentence each.
    pub notes: Vec<String>,
    /// The notes on decisions that the user did not ask for, most surprising first.
    pub decided: Vec<String>,
}

/// Decisions that the user did not ask for, most surprising first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Decision {
    Dropped,
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

/// What a start changes after one that ran out of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Retry {
    /// A lower context, in tokens.
    pub ctx: Option<u64>,
    /// The projector stays in RAM.
    pub projector_in_ram: bool,
}

/// Makes the decisions.
///
/// # Errors
/// When Ollama refuses the request, llama-server could not parse the settings, or Ollama's rules cannot read the header.
pub(super) fn decide(
    model: &Model,
    machine: &Machine,
    settings: &Settings,
    retry: Retry,
) -> Result<ServerLaunch, EngineError> {
    decide_beside(model, machine, settings, retry, 0)
}

/// The same beside loaded models that have mapped files of `mapped` bytes.
pub(super) fn decide_beside(
    model: &Model,
    machine: &Machine,
    settings: &Settings,
    retry: Retry,
    mapped: u64,
) -> Result<ServerLaunch, EngineError> {
    let mut log = DecisionNotes::default();
    let traits = ReleaseTraits::of(settings.ollama.version);
    let embedding = OllamaKeys { model, release: OllamaRelease::August2026 }.has("pooling_type");
    refuse(model, settings, embedding)?;
    let Discovery { counted, vulkan, notes } =
        if settings.raw { as_described(machine) } else { discover(machine, settings, &traits) };
    log.notes.extend(notes);
    log.mark(Decision::Dropped, 0);
    let from = log.notes.len();
    let (ctx, asked_ctx) = context(model, &counted, machine, settings, retry.ctx, &mut log.notes)?;
    log.mark(Decision::Context, from);
    let from = log.notes.len();
    let parallel = request::at_least_one(settings.parallel, 1, "--parallel")?;
    let one_at_a_time = embedding || request::ONE_SEQUENCE.contains(&model.architecture.as_str());
    let parallel = request::sequences(parallel, one_at_a_time && !settings.raw, embedding, &mut log.notes);
    log.mark(Decision::Sequences, from);
    let tokens = c_int(ctx.saturating_mul(parallel), "tokens of context in total")?;

    let predicted = predict::predicted(model, tokens)?;
    let GpuSelection { chosen, main_gpu, note } = selection(&counted, machine, settings, predicted);
    let from = log.notes.len();
    log.notes.extend(note);
    log.mark(Decision::Gpus, from);
    let gpus: Vec<Gpu> = chosen.iter().map(|one| one.gpu.clone()).collect();
    let available = available(&gpus, machine.ram.free);

    let from = log.notes.len();
    let flash_attn =
        if settings.raw { settings.flash_attn } else { flash_attention(settings, &gpus, &traits, &mut log.notes) };
    log.mark(Decision::FlashAttention, from);
    let inputs = batch::BatchInputs { tokens, predicted, available, flash_attn, gpus: &gpus };
    let (batch, sent, note) = batch(settings, embedding, asked_ctx, &inputs);
    let from = log.notes.len();
    log.notes.extend(note);
    log.mark(Decision::Batch, from);
    let sent = c_int(sent, "tokens per batch")?;

    let from = log.notes.len();
    let projector = if settings.raw { None } else { Projector::of(model, settings) };
    let (projector, margin) = place_projector(projector, model, settings, &gpus, &traits, retry, &mut log.notes);
    log.mark(Decision::Projector, from);
    log.notes.extend(unsupported_options(settings));
    log.notes.extend(adapters_note(settings));
    let blocks = model.block_count();
    let mapped = mapped.saturating_add(model.file_bytes.0);
    let reading =
        LoadModeInputs { machine, settings, traits: &traits, gpus: &gpus, blocks, predicted, available, mapped };
    let (load_mode, mmap_auto_off) = reading.load_mode();
    let command = CommandInputs {
        model,
        machine,
        settings,
        traits: &traits,
        tokens,
        parallel,
        batch: sent,
        embedding,
        flash_attn,
        projector,
        load_mode,
        chosen: &chosen,
        main_gpu,
        vulkan: &vulkan,
        margin,
    }
    .command();
    let start = ServerStart {
        gpus: chosen.iter().map(|one| one.index).collect(),
        predicted,
        available,
        margin,
        num_ctx: ctx,
        parallel,
        num_batch: batch,
        ctx_auto: is_automatic(settings),
        batch_auto: settings.batch.is_none() && !embedding,
        mmap_auto_off,
        command,
    };
    let sizes = BatchSizes { tokens, batch: sent, embedding };
    let (architecture, device) = (&model.architecture, projector.device(settings));
    let mut options = server_options(settings, &start, flash_attn, sizes, architecture, margin, device);
    // llama-server's argument stands over its variable
    options.load_mode = load_mode.and_then(|mode| mode.parse().ok()).or(settings.load_mode);
    let (sees, refusal) = (start.command.sees.clone(), server_refusal(settings, &start, main_gpu));
    let visible = visible_machine(machine, &chosen, &sees);
    let decided = log.decided();
    let sources = sources(settings, &counted, retry);
    Ok(ServerLaunch {
        ctx,
        sources,
        options,
        gpus: sees,
        chosen,
        counted,
        embedding,
        has_projector_on_gpu: margin.is_some() || matches!(projector, ProjectorArgument::File { in_ram: false, .. }),
        failures: 0,
        refusal,
        start,
        machine: visible,
        notes: log.notes,
        decided,
    })
}

/// The batch before it is lowered to the context, the one that is sent, and a note.
fn batch(
    settings: &Settings,
    embedding: bool,
    asked_ctx: u64,
    inputs: &batch::BatchInputs<'_>,
) -> (u64, u64, Option<String>) {
    match settings.batch {
        asked if embedding => {
            let (sent, note) = batch::of_embeddings(asked, asked_ctx, inputs.tokens);
            (batch::before_lowering(asked, asked_ctx), sent, note)
        }
        Some(batch) => (batch, batch, None),
        None if settings.raw => (request::DEFAULT_BATCH, request::DEFAULT_BATCH, None),
        None => {
            let (batch, note) = batch::automatic(inputs);
            (batch, batch, note)
        }
    }
}

/// What Ollama itself refuses.
fn refuse(model: &Model, settings: &Settings, embedding: bool) -> Result<(), EngineError> {
    let refused = if embedding && settings.ollama.endpoint == Endpoint::Generate {
        format!("{} does not support completion", model.name)
    } else if model.architecture == "mllama" && settings.projector.is_some() {
        "'llama3.2-vision' is no longer compatible with your version of Ollama and has been replaced by a newer version. \
         To re-download, run 'ollama pull llama3.2-vision'"
            .to_owned()
    } else {
        return Ok(());
    };
    Err(EngineError::Settings(refused))
}

/// All GPUs of a machine as they are.
fn as_described(machine: &Machine) -> Discovery {
    let counted = machine.gpus.iter().enumerate();
    let counted = counted.map(|(index, gpu)| CountedGpu { index, gpu: gpu.clone(), folder: None, number: index });
    Discovery { counted: counted.collect(), vulkan: (0..machine.gpus.len()).collect(), notes: Vec::new() }
}

fn selection(counted: &[CountedGpu], machine: &Machine, settings: &Settings, predicted: u64) -> GpuSelection {
    let main_gpu = settings.ollama.main_gpu;
    match settings.gpu_layers {
        _ if settings.raw => GpuSelection { chosen: counted.to_vec(), main_gpu: None, note: None },
        GpuLayers::Count(0) => {
            let note = "no GPU is used: 0 layers on GPU were requested".to_owned();
            GpuSelection { chosen: Vec::new(), main_gpu, note: (!counted.is_empty()).then_some(note) }
        }
        _ => {
            let ram_free = machine.ram.free;
            select_gpus(&SelectionInputs { counted, predicted, main_gpu, spread: settings.spread, ram_free })
        }
    }
}

/// Tokens per sequence, and the same as it was asked for.
fn context(
    model: &Model,
    counted: &[CountedGpu],
    machine: &Machine,
    settings: &Settings,
    lowered: Option<u64>,
    notes: &mut Vec<String>,
) -> Result<(u64, u64), EngineError> {
    if let Some(lowered) = lowered {
        return Ok((lowered, lowered));
    }
    let keys = OllamaKeys { model, release: OllamaRelease::August2026 };
    let vision = keys.has("vision.block_count") || settings.projector.is_some();
    let seen = Machine { gpus: counted.iter().map(|one| one.gpu.clone()).collect(), ..machine.clone() };
    let default = || request::default_context(&seen, settings.gpu_overhead);
    let ctx = request::context(settings.ctx, model, OllamaRelease::August2026, default)?;
    if settings.raw {
        return Ok((ctx, ctx));
    }
    if settings.ctx == Context::Auto {
        let together = match seen.gpus.as_slice() {
            [] => "there is no GPU".to_owned(),
            gpus => format!("the GPUs have {} in total", gpus.iter().map(|gpu| gpu.total).sum::<Bytes>()),
        };
        notes.push(format!("context {}: Ollama chooses it by VRAM, and {together}", Tokens(ctx)));
    }
    Ok((request::context_in_bounds(ctx, model, OllamaRelease::August2026, vision, notes), ctx))
}

/// Whether Ollama chose the context, and may lower it.
fn is_automatic(settings: &Settings) -> bool {
    settings.ctx == Context::Auto && !settings.ollama.ctx_is_given && !settings.raw
}

/// The context of a second attempt after one with `ctx` tokens per sequence ran out of memory; none if the user set the
/// context, or it is already small. Source: `nextLowerAutoNumCtx`, `server/sched.go`.
pub(super) fn lower_context(settings: &Settings, ctx: u64) -> Option<u64> {
    [32_768, 4096].into_iter().find(|&lower| is_automatic(settings) && ctx > lower)
}

/// As `LlamaServerFlashAttention` in `llm/llama_server.go` and `FlashAttentionSupported` in `ml/device.go`. Unknown
/// properties of a described GPU count as sufficient.
fn flash_attention(settings: &Settings, gpus: &[Gpu], traits: &ReleaseTraits, notes: &mut Vec<String>) -> FlashAttn {
    let too_old =
        |gpu: &Gpu| gpu.backend == Backend::Cuda && gpu.compute.is_some_and(|compute| compute < traits.flash_from);
    match settings.flash_attn {
        FlashAttn::Auto => match gpus.iter().find(|gpu| !OllamaRelease::August2026.supports_flash(gpu) || too_old(gpu))
        {
            Some(gpu) => {
                notes.push(format!("flash attention is off: {} does not support it", gpu.name));
                FlashAttn::Off
            }
            None => FlashAttn::Auto,
        },
        asked => asked,
    }
}

/// Where the projector is, and the fit's margin on every GPU if it is on one.
fn place_projector(
    projector: Option<Projector>,
    model: &Model,
    settings: &Settings,
    gpus: &[Gpu],
    traits: &ReleaseTraits,
    retry: Retry,
    notes: &mut Vec<String>,
) -> (ProjectorArgument, Option<Bytes>) {
    let Some(projector) = projector else { return (ProjectorArgument::None, None) };
    let name = match projector {
        Projector::Separate(_) => "PROJECTOR",
        Projector::Inline(_) => "MODEL",
    };
    let bytes = projector.bytes();
    let by_rule = projector.in_ram(settings.gpu_layers, model.block_count(), gpus, traits);
    let again = retry.projector_in_ram.then(|| "with it on a GPU, loading runs out of memory".to_owned());
    if let Some(why) = again.or(by_rule) {
        if !gpus.is_empty() {
            notes.push(format!("the projector ({bytes}) stays in RAM: {why}"));
        }
        return (ProjectorArgument::File { name, in_ram: true }, None);
    }
    let on_gpu = ProjectorArgument::File { name, in_ram: false };
    if !traits.projector_margin {
        return (on_gpu, None);
    }
    let margin = projector.margin();
    if !gpus.is_empty() {
        notes.push(match settings.fit_target {
            Some(given) => {
                format!("--fit-target ({given}) overrides the {margin} that Ollama keeps free for a projector")
            }
            None => {
                format!("{margin} is kept free on each GPU, not 1 GiB, for the projector ({bytes}) and its buffers")
            }
        });
    }
    (on_gpu, Some(margin).filter(|_| settings.fit_target.is_none()))
}

fn adapters_note(settings: &Settings) -> Option<String> {
    let adapters = Some(settings.adapters).filter(|&adapters| adapters > Bytes::ZERO)?;
    Some(format!("the adapters ({adapters}) are not included: llama-server loads them after placing the layers"))
}

/// Notes on options that Ollama lacks: llama-server reads some from its environment, the others are ignored.
fn unsupported_options(settings: &Settings) -> Vec<String> {
    if settings.raw {
        return Vec::new();
    }
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
