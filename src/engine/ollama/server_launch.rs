//! Ollama's own decisions before it starts llama-server: a list of steps, each of which reads what the steps before it
//! decided. The result are llama-server's options.
//! Source: `server/routes.go`, `server/sched.go` and `llm/llama_server.go`, Ollama, August 2026.

mod batch;
mod load_mode;
mod passed_on;
mod projector;

use std::collections::BTreeMap;

use super::command::ProjectorArgument;
use super::discovery::{CountedGpu, Discovery, GpuSelection, SelectionInputs, available, discover, select_gpus};
use super::release::ReleaseTraits;
use crate::engine::error::EngineError;
use crate::engine::estimator::{OllamaKeys, OllamaRelease};
use crate::engine::launch::ServerStart;
use crate::engine::request;
use crate::machine::{Backend, Gpu, Machine};
use crate::model::Model;
use crate::settings::ollama::Endpoint;
use crate::settings::{Context, EngineId, Flag, FlashAttn, GpuLayers, Settings};
use crate::units::{Bytes, Tokens};
pub(super) use batch::{surcharge, thresholds};

/// The variable that sets a flag.
fn variable(flag: Flag) -> &'static str {
    flag.row().variables.last().map_or("", |variable| variable.name)
}

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

/// What a start changes after one that ran out of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Retry {
    /// A lower context, in tokens.
    pub ctx: Option<u64>,
    /// The projector stays in RAM.
    pub projector_in_ram: bool,
}

/// What was decided so far.
pub(super) struct Decisions<'a> {
    pub model: &'a Model,
    pub machine: &'a Machine,
    pub settings: &'a Settings,
    pub traits: ReleaseTraits,
    retry: Retry,
    /// An embedding model.
    pub embedding: bool,
    discovery: Discovery,
    /// Tokens of context per sequence, and the same as they were asked for.
    ctx: u64,
    asked_ctx: u64,
    pub parallel: u64,
    /// Tokens of context over all sequences.
    pub tokens: u64,
    /// Bytes that the model is predicted to take.
    predicted: u64,
    pub chosen: Vec<CountedGpu>,
    pub main_gpu: Option<i64>,
    /// The chosen GPUs, and what is available on them, in bytes.
    gpus: Vec<Gpu>,
    available: u64,
    pub flash_attn: FlashAttn,
    /// Tokens of a batch before it is lowered to the context.
    batch: u64,
    /// The same as sent; 0 where none is.
    pub sent: u64,
    pub projector: ProjectorArgument,
    /// What the fit keeps free on each GPU for a projector there (`LLAMA_ARG_FIT_TARGET`).
    pub margin: Option<Bytes>,
    /// `dio`, `none`, or nothing for mapped; and whether that was not asked for.
    pub load_mode: Option<&'static str>,
    mmap_auto_off: bool,
    notes: Vec<(Option<Decision>, String)>,
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
    let mut decisions = Decisions::none(model, machine, settings, retry);
    decisions.refuse()?;
    decisions.discover();
    decisions.context()?;
    decisions.sequences()?;
    decisions.select_gpus()?;
    decisions.flash_attention();
    decisions.batch()?;
    decisions.projector();
    decisions.unsupported_options();
    decisions.load_mode(mapped);
    decisions.launch()
}

impl<'a> Decisions<'a> {
    fn none(model: &'a Model, machine: &'a Machine, settings: &'a Settings, retry: Retry) -> Self {
        Self {
            model,
            machine,
            settings,
            traits: ReleaseTraits::of(settings.ollama.version),
            retry,
            embedding: keys(model).has("pooling_type"),
            discovery: Discovery::default(),
            ctx: 0,
            asked_ctx: 0,
            parallel: 1,
            tokens: 0,
            predicted: 0,
            chosen: Vec::new(),
            main_gpu: None,
            gpus: Vec::new(),
            available: 0,
            flash_attn: settings.flash_attn,
            batch: 0,
            sent: 0,
            projector: ProjectorArgument::None,
            margin: None,
            load_mode: None,
            mmap_auto_off: false,
            notes: Vec::new(),
        }
    }

    fn note(&mut self, decision: Decision, notes: impl IntoIterator<Item = String>) {
        self.notes.extend(notes.into_iter().map(|note| (Some(decision), note)));
    }

    /// What Ollama itself refuses.
    fn refuse(&self) -> Result<(), EngineError> {
        let Self { model, settings, .. } = self;
        let refused = if self.embedding && settings.ollama.endpoint == Endpoint::Generate {
            format!("{} does not support completion", model.name)
        } else if model.architecture == "mllama" && settings.projector.is_some() {
            "'llama3.2-vision' is no longer compatible with your version of Ollama and has been replaced by a newer \
             version. To re-download, run 'ollama pull llama3.2-vision'"
                .to_owned()
        } else {
            return Ok(());
        };
        Err(EngineError::Settings(refused))
    }

    /// The GPUs that count; all of a machine as they are where Ollama's rules are skipped.
    fn discover(&mut self) {
        if !self.settings.raw {
            self.discovery = discover(self.machine, self.settings, &self.traits);
            let notes = self.discovery.notes.clone();
            return self.note(Decision::Dropped, notes);
        }
        let gpus = self.machine.gpus.iter().enumerate();
        let counted = gpus.map(|(index, gpu)| CountedGpu { index, gpu: gpu.clone(), folder: None, number: index });
        let vulkan = (0..self.machine.gpus.len()).collect();
        self.discovery = Discovery { counted: counted.collect(), vulkan, notes: Vec::new() };
    }

    /// Tokens per sequence, and the same as it was asked for.
    fn context(&mut self) -> Result<(), EngineError> {
        let Self { model, settings, .. } = *self;
        if let Some(lowered) = self.retry.ctx {
            (self.ctx, self.asked_ctx) = (lowered, lowered);
            return Ok(());
        }
        let vision = keys(model).has("vision.block_count") || settings.projector.is_some();
        let gpus = self.discovery.counted.iter().map(|one| one.gpu.clone()).collect();
        let seen = Machine { gpus, ..self.machine.clone() };
        let default = || request::default_context(&seen, settings.gpu_overhead);
        let asked = request::context(settings.ctx, model, OllamaRelease::August2026, default)?;
        (self.ctx, self.asked_ctx) = (asked, asked);
        if settings.raw {
            return Ok(());
        }
        let mut notes = Vec::new();
        if settings.ctx == Context::Auto {
            let together = match seen.gpus.as_slice() {
                [] => "there is no GPU".to_owned(),
                gpus => format!("the GPUs have {} in total", gpus.iter().map(|gpu| gpu.total).sum::<Bytes>()),
            };
            notes.push(format!("context {}: Ollama chooses it by VRAM, and {together}", Tokens(asked)));
        }
        self.ctx = request::context_in_bounds(asked, model, OllamaRelease::August2026, vision, &mut notes);
        self.note(Decision::Context, notes);
        Ok(())
    }

    fn sequences(&mut self) -> Result<(), EngineError> {
        let asked = request::at_least_one(self.settings.parallel, 1, "--parallel")?;
        let one_at_a_time = self.embedding || request::ONE_SEQUENCE.contains(&self.model.architecture.as_str());
        let mut notes = Vec::new();
        let one_at_a_time = one_at_a_time && !self.settings.raw;
        self.parallel = request::sequences(asked, one_at_a_time, self.embedding, &mut notes);
        self.note(Decision::Sequences, notes);
        self.tokens = c_int(self.ctx.saturating_mul(self.parallel), "tokens of context in total")?;
        Ok(())
    }

    fn select_gpus(&mut self) -> Result<(), EngineError> {
        self.predicted = prediction(self.model, self.tokens)?;
        let (settings, counted, main_gpu) = (self.settings, &self.discovery.counted, self.settings.ollama.main_gpu);
        let GpuSelection { chosen, main_gpu, note } = match settings.gpu_layers {
            _ if settings.raw => GpuSelection { chosen: counted.clone(), main_gpu: None, note: None },
            GpuLayers::Count(0) => {
                let note = "no GPU is used: 0 layers on GPU were requested".to_owned();
                GpuSelection { chosen: Vec::new(), main_gpu, note: (!counted.is_empty()).then_some(note) }
            }
            _ => {
                let (predicted, ram_free) = (self.predicted, self.machine.ram.free);
                select_gpus(&SelectionInputs { counted, predicted, main_gpu, spread: settings.spread, ram_free })
            }
        };
        self.note(Decision::Gpus, note);
        self.gpus = chosen.iter().map(|one| one.gpu.clone()).collect();
        self.available = available(&self.gpus, self.machine.ram.free);
        (self.chosen, self.main_gpu) = (chosen, main_gpu);
        Ok(())
    }

    /// As `LlamaServerFlashAttention` in `llm/llama_server.go` and `FlashAttentionSupported` in `ml/device.go`. Unknown
    /// properties of a described GPU count as sufficient.
    fn flash_attention(&mut self) {
        let from = self.traits.flash_from;
        let lacks = |gpu: &&Gpu| {
            let is_old = gpu.backend == Backend::Cuda && gpu.compute.is_some_and(|compute| compute < from);
            !OllamaRelease::August2026.supports_flash(gpu) || is_old
        };
        let old = self.gpus.iter().find(lacks).filter(|_| !self.settings.raw && self.flash_attn == FlashAttn::Auto);
        if let Some(note) = old.map(|gpu| format!("flash attention is off: {} does not support it", gpu.name)) {
            self.flash_attn = FlashAttn::Off;
            self.note(Decision::FlashAttention, [note]);
        }
    }

    /// Notes on options that Ollama lacks: llama-server reads some from its environment, the others are ignored.
    fn unsupported_options(&mut self) {
        let settings = self.settings;
        let mut notes = Vec::new();
        if !settings.raw {
            let types = [Flag::CacheTypeK, Flag::CacheTypeV].map(variable).join(" and ");
            let differ = settings.cache_type_k != settings.cache_type_v;
            let left = Flag::ALL.iter().copied().filter(|flag| flag.is_left_to_llama_server());
            let given = left.filter(|flag| flag.is_given(settings));
            let options = given.map(|flag| (format!("--{}", flag.name()), variable(flag).to_owned()));
            let types = differ.then(|| ("different types for K and V".to_owned(), types));
            notes.extend(types.into_iter().chain(options).map(|(what, variable)| {
                format!("{what}: Ollama has no option for it, but llama-server reads {variable} from its environment")
            }));
            if settings.gpu_overhead > Bytes::ZERO {
                notes.push(
                    "OLLAMA_GPU_OVERHEAD no longer keeps memory free: it only affects the default context".to_owned(),
                );
            }
            let ignored = EngineId::Ollama.ignored(settings).into_iter();
            notes.extend(ignored.map(|option| format!("{option} is ignored: Ollama has no such option")));
        }
        let adapters = settings.adapters;
        if adapters > Bytes::ZERO {
            notes.push(format!(
                "the adapters ({adapters}) are not included: llama-server loads them after placing the layers"
            ));
        }
        self.notes.extend(notes.into_iter().map(|note| (None, note)));
    }
}

/// The prediction of the model's memory before llama-server measures it: the file size and an f16 cache with the
/// minimum number of KV heads and the head size for the maximum number of heads. Multiplications wrap as in Ollama.
/// Source: `PredictServerVRAM`, `llm/llama_server.go`, Ollama, August 2026.
///
/// # Errors
/// When a list of heads is empty or too long, which makes Ollama fail.
pub(super) fn prediction(model: &Model, tokens: u64) -> Result<u64, EngineError> {
    let keys = keys(model);
    let heads = |key: &str| Ok::<_, EngineError>(keys.numbers_or(key, 1)?.extent(OllamaRelease::August2026));
    let kv_heads = heads("attention.head_count_kv")?.0.max(1);
    let (_, most_heads) = heads("attention.head_count")?;
    let head_size = keys.number("embedding_length").checked_div(most_heads).unwrap_or(0);
    let sizes = [keys.number("block_count"), kv_heads, head_size, tokens, 2];
    Ok(model.file_bytes.0.wrapping_add(sizes.into_iter().fold(2, u64::wrapping_mul)))
}

fn keys(model: &Model) -> OllamaKeys<'_> {
    OllamaKeys { model, release: OllamaRelease::August2026 }
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

fn c_int(number: u64, what: &str) -> Result<u64, EngineError> {
    if number > MAX_INT {
        let sentence = format!("{} {what} are more than llama-server accepts: use fewer", Tokens(number));
        return Err(EngineError::Settings(sentence));
    }
    Ok(number)
}

/// Free memory of a GPU, or its total if free memory is unknown.
pub(super) fn memory(gpu: &Gpu) -> Bytes {
    let less = gpu.total > Bytes::ZERO && gpu.total < gpu.free;
    if gpu.free == Bytes::ZERO || less { gpu.total } else { gpu.free }
}
