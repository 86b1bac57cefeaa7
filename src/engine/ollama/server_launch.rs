//! Ollama's own decisions before it starts llama-server: a list of steps, each of which reads what the steps before it
//! decided. The result are llama-server's options.
//! Source: `server/routes.go`, `server/sched.go` and `llm/llama_server.go`, Ollama, August 2026.

use std::collections::BTreeMap;

use super::command::ProjectorArgument;
use super::discovery::{CountedGpu, Discovery, GpuSelection, SelectionInputs, available, discover, select_gpus, share};
use super::release::ReleaseTraits;
use crate::engine::error::EngineError;
use crate::engine::estimator::{OllamaKeys, OllamaRelease};
use crate::engine::launch::ServerStart;
use crate::engine::llama_cpp::architectures::is_known;
use crate::engine::request;
use crate::machine::{Backend, Gpu, Machine, Os};
use crate::model::Model;
use crate::settings::ollama::Endpoint;
use crate::settings::{
    Context, DeviceName, EngineId, Flag, FlashAttn, GpuLayers, LlamaProgram, MmprojOptions, NearestRelease, Outputs,
    Release, Settings,
};
use crate::units::{Bytes, Tokens};

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

    /// One number for llama-server's batch and ubatch.
    /// Source: `automaticGenerationBatch`, `server/sched.go`, and `embeddingBatchSize`, `llm/llama_server.go`.
    fn batch(&mut self) -> Result<(), EngineError> {
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

    /// Where the projector is, and the fit's margin on every GPU if it is on one.
    fn projector(&mut self) {
        let found = if self.settings.raw { None } else { Projector::of(self.model, self.settings) };
        let Some(projector) = found else { return };
        let name = match projector {
            Projector::Separate(_) => "PROJECTOR",
            Projector::Inline(_) => "MODEL",
        };
        let bytes = projector.bytes();
        let layers = self.settings.gpu_layers;
        let by_rule = projector.in_ram(layers, self.model.block_count(), &self.gpus, &self.traits);
        let again = self.retry.projector_in_ram.then(|| "with it on a GPU, loading runs out of memory".to_owned());
        if let Some(why) = again.or(by_rule) {
            self.projector = ProjectorArgument::File { name, in_ram: true };
            let note = format!("the projector ({bytes}) stays in RAM: {why}");
            return self.note(Decision::Projector, (!self.gpus.is_empty()).then_some(note));
        }
        self.projector = ProjectorArgument::File { name, in_ram: false };
        if !self.traits.projector_margin {
            return;
        }
        let margin = projector.margin();
        let given = self.settings.fit_target;
        self.margin = Some(margin).filter(|_| given.is_none());
        let note = match given {
            Some(given) => {
                format!("--fit-target ({given}) overrides the {margin} that Ollama keeps free for a projector")
            }
            None => {
                format!(
                    "Ollama asks for {margin} on each GPU, not 1 GiB, to stay free for the projector ({bytes}) and its buffers"
                )
            }
        };
        self.note(Decision::Projector, (!self.gpus.is_empty()).then_some(note));
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

    /// How llama-server reads the model's file, beside the `mapped` bytes of those that loaded models have mapped.
    /// Source: `llamaServerLoadMode` and `shouldDisableMmap`, `llm/llama_server.go` and `server/sched.go`.
    fn load_mode(&mut self, mapped: u64) {
        let direct = |gpu: &Gpu| gpu.integrated && matches!(gpu.backend, Backend::Cuda | Backend::Rocm);
        let is_direct = self.traits.direct_reading && self.machine.os == Os::Linux && self.gpus.iter().any(direct);
        (self.load_mode, self.mmap_auto_off) = match self.settings.ollama.use_mmap {
            _ if is_direct => (Some("dio"), false),
            Some(false) => (Some("none"), false),
            None if self.maps_not(mapped.saturating_add(self.model.file_bytes.0)) => (Some("none"), true),
            Some(true) | None => (None, false),
        };
    }

    fn maps_not(&self, mapped: u64) -> bool {
        let blocks = self.model.block_count() as u64;
        let (some, all) = match self.settings.gpu_layers {
            GpuLayers::Auto => (false, false),
            GpuLayers::All => (false, true),
            GpuLayers::Count(count) => (count <= blocks, count > blocks),
        };
        let has = |backend| self.gpus.iter().any(|gpu| gpu.backend == backend);
        let ram = &self.machine.ram;
        if self.gpus.is_empty() {
            true
        } else if has(Backend::Metal) {
            some || !all && self.predicted > self.available
        } else {
            match self.machine.os {
                Os::Windows => has(Backend::Cuda),
                Os::Linux => {
                    let kept = LEAST_FREE.max(ram.total.0 / 10);
                    self.gpus.iter().all(|gpu| !gpu.integrated)
                        && self.predicted <= share(self.available, 80)
                        && ram.free.0 < mapped.saturating_add(kept)
                }
                Os::MacOs => false,
            }
        }
    }

    fn launch(mut self) -> Result<ServerLaunch, EngineError> {
        let command = self.command()?;
        let start = ServerStart {
            gpus: self.chosen.iter().map(|one| one.index).collect(),
            predicted: self.predicted,
            available: self.available,
            margin: self.margin,
            num_ctx: self.ctx,
            parallel: self.parallel,
            num_batch: self.batch,
            ctx_auto: is_automatic(self.settings),
            batch_auto: self.settings.batch.is_none() && !self.embedding,
            mmap_auto_off: self.mmap_auto_off,
            command,
        };
        let refusal = self.server_refusal(start.command.sees.len());
        let mut decided: Vec<_> =
            self.notes.iter().filter_map(|(decision, note)| Some((decision.as_ref()?, note))).collect();
        decided.sort_by_key(|(decision, _)| **decision);
        Ok(ServerLaunch {
            ctx: self.ctx,
            sources: self.sources(),
            options: self.options(&start.command.env)?,
            gpus: start.command.sees.clone(),
            embedding: self.embedding,
            has_projector_on_gpu: self.margin.is_some()
                || matches!(self.projector, ProjectorArgument::File { in_ram: false, .. }),
            failures: 0,
            refusal,
            machine: self.visible_machine(&start.command.sees),
            decided: decided.into_iter().map(|(_, note)| note.clone()).collect(),
            notes: self.notes.drain(..).map(|(_, note)| note).collect(),
            start,
            chosen: self.chosen,
            counted: self.discovery.counted,
        })
    }

    /// All devices that the Vulkan backend lists.
    pub fn vulkan(&self) -> &[usize] {
        &self.discovery.vulkan
    }

    /// The settings with the devices that llama-server sees. It knows them by names of its own; indices are those of the
    /// machine.
    ///
    /// # Errors
    /// When it does not see one.
    pub(super) fn settings_as_seen(&self) -> Result<Settings, EngineError> {
        self.settings.seen_by_server(&self.sees(), DeviceName::index).map_err(EngineError::Settings)
    }

    /// llama-server's options, as it starts with `env`.
    fn options(&self, env: &BTreeMap<String, String>) -> Result<Settings, EngineError> {
        let settings = self.settings;
        let if_raw = |asked: bool| asked && settings.raw;
        let server = &settings.ollama.server;
        let by_variable = server.inherited.get("LLAMA_ARG_N_GPU_LAYERS").and_then(|count| count.trim().parse().ok());
        let gpu_layers = match settings.gpu_layers {
            GpuLayers::Auto if server.no_fit => by_variable.map_or(GpuLayers::All, GpuLayers::Count),
            GpuLayers::Auto => by_variable.map_or(GpuLayers::Auto, GpuLayers::Count),
            asked => asked,
        };
        let llama_cpp = self.llama_cpp();
        let sent = Some(self.sent).filter(|&batch| batch > 0);
        Ok(Settings {
            ctx: Context::Tokens(self.tokens),
            parallel: Some(self.parallel),
            batch: sent,
            ubatch: settings.ubatch.filter(|_| settings.raw).or(sent),
            flash_attn: self.flash_attn,
            gpu_layers,
            embeddings: Some(self.embedding),
            reranking: false,
            pooling: None,
            program: LlamaProgram::Server,
            fit_target: settings.fit_target.or(self.margin),
            no_op_offload: if_raw(settings.no_op_offload),
            outputs: if settings.raw { settings.outputs } else { Outputs::default() },
            release: Some(llama_cpp.release),
            build: llama_cpp.build,
            gpu_overhead: Bytes::ZERO,
            adapters: Bytes::ZERO,
            loras: Vec::new(),
            control_vectors: Vec::new(),
            ctx_per_slot: None,
            draft: self.draft_options(),
            mmproj: MmprojOptions { device: self.projector.device(settings), ..settings.mmproj },
            spread: false,
            raw: false,
            require_full: if_raw(settings.require_full),
            gpus_registered_last: env.contains_key("GGML_BACKEND_PATH"),
            // llama-server's argument stands over its variable
            load_mode: self.load_mode.and_then(|mode| mode.parse().ok()).or(settings.load_mode),
            ..self.settings_as_seen()?
        })
    }

    /// The llama.cpp that is planned: the one asked for, else the one that this version ships or the nearest release, else,
    /// where that does not know the architecture, the next release that does.
    fn llama_cpp(&self) -> NearestRelease {
        if self.settings.release.is_some() {
            return self.settings.llama_cpp();
        }
        let own = self.settings.ollama.version.llama_cpp();
        let knows = |nearest: &NearestRelease| is_known(&self.model.architecture, nearest.llama_cpp());
        let newer =
            Release::ALL.into_iter().rev().skip_while(|release| *release != own.release).map(NearestRelease::from);
        std::iter::once(own).chain(newer).find(knows).unwrap_or(own)
    }

    /// Why llama-server, which sees some GPUs, refuses its options, if it does.
    fn server_refusal(&self, gpus: usize) -> Option<String> {
        if let Some(unknown) = &self.settings.ollama.server.unknown_cache_type {
            return Some(format!("llama-server knows no KV cache type '{unknown}'"));
        }
        let wrong = self.main_gpu.filter(|&index| usize::try_from(index).map_or(true, |index| index >= gpus.max(1)))?;
        Some(format!("llama-server sees no GPU {wrong} (main_gpu): it has {gpus}"))
    }

    /// The machine with only the GPUs that llama-server sees, by the backend that it is started with.
    pub(super) fn visible_machine(&self, sees: &[usize]) -> Machine {
        let backend = self.chosen.first().map(|one| one.gpu.backend);
        let seen = |&index: &usize| {
            let gpu = self.machine.gpus.get(index)?.clone();
            Some(Gpu { backend: backend.unwrap_or(gpu.backend), ..gpu })
        };
        Machine { gpus: sees.iter().filter_map(seen).collect(), ..self.machine.clone() }
    }

    /// Who set a value, where it was not the request.
    fn sources(&self) -> BTreeMap<&'static str, String> {
        let knobs = [
            (Flag::Context, "ctx"),
            (Flag::Parallel, "parallel"),
            (Flag::Batch, "batch"),
            (Flag::CacheTypeK, "cache_type_k"),
            (Flag::CacheTypeV, "cache_type_v"),
            (Flag::FlashAttn, "flash_attn"),
            (Flag::GpuLayers, "gpu_layers"),
        ];
        let known = |(flag, key): (Flag, &'static str)| {
            let source = self.settings.source_of(flag).filter(|source| !source.is_asked())?;
            Some((key, source.to_string()))
        };
        let mut sources: BTreeMap<&'static str, String> = knobs.into_iter().filter_map(known).collect();
        if self.settings.ctx == Context::Auto && !self.settings.raw {
            let counted = &self.discovery.counted;
            let total: Bytes = counted.iter().map(|one| one.gpu.total).sum();
            let by = match (self.retry.ctx, counted.as_slice()) {
                (Some(_), _) => "lowered, as loading ran out of memory".to_owned(),
                (None, []) => "by VRAM, no GPU".to_owned(),
                (None, _) => format!("by VRAM, {total} in all"),
            };
            sources.insert("ctx", by);
        }
        sources
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

/// Free memory of a GPU, or its total if free memory is unknown.
pub(super) fn memory(gpu: &Gpu) -> Bytes {
    let less = gpu.total > Bytes::ZERO && gpu.total < gpu.free;
    if gpu.free == Bytes::ZERO || less { gpu.total } else { gpu.free }
}

/// Reserved for the projector's buffers, in addition to its weights.
const HEADROOM: Bytes = Bytes::gib(1);

/// The memory of every GPU up to which versions before 0.30.11 kept a projector in RAM.
const SMALL: Bytes = Bytes::gib(10);

/// Architectures whose projector may be in the model's file.
const INLINE: [&str; 12] = [
    "deepseekocr",
    "gemma3",
    "gemma4",
    "glmocr",
    "llama4",
    "mistral3",
    "nemotron_h_omni",
    "qwen25vl",
    "qwen35",
    "qwen35moe",
    "qwen3vl",
    "qwen3vlmoe",
];

/// A model's projector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Projector {
    /// In a file of its own, with tensors of this size.
    Separate(Bytes),
    /// In the model's file, with tensors of this size.
    Inline(Bytes),
}

impl Projector {
    /// That of `model`, with the file in `settings`.
    pub fn of(model: &Model, settings: &Settings) -> Option<Self> {
        let tensors = &model.header.tensors;
        if settings.projector.is_some() {
            return Some(Self::Separate(settings.projector_bytes()));
        }
        let has_vision = || tensors.iter().any(|tensor| tensor.name.starts_with("v."));
        if !INLINE.contains(&model.architecture.as_str()) || !has_vision() {
            return None;
        }
        let inside = |name: &str| ["v.", "mm.", "a."].iter().any(|start| name.starts_with(start));
        Some(Self::Inline(tensors.iter().filter(|tensor| inside(&tensor.name)).map(|tensor| tensor.bytes).sum()))
    }

    /// Bytes of its tensors.
    pub const fn bytes(self) -> Bytes {
        match self {
            Self::Separate(bytes) | Self::Inline(bytes) => bytes,
        }
    }

    /// Bytes that must be free for it.
    pub fn needed(self) -> Bytes {
        self.bytes() + HEADROOM
    }

    /// The same in whole MiB: the fit's margin on every GPU.
    pub fn margin(self) -> Bytes {
        Bytes(self.needed().0.checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX))
    }

    /// Why it stays in RAM, if it does.
    pub fn in_ram(self, layers: GpuLayers, blocks: usize, gpus: &[Gpu], traits: &ReleaseTraits) -> Option<String> {
        match layers {
            GpuLayers::Count(0) => return Some("0 layers on GPU were requested".to_owned()),
            GpuLayers::Count(count) if count < blocks as u64 + 1 => {
                return Some("not all layers were requested on GPU".to_owned());
            }
            _ => {}
        }
        if !traits.projector_margin
            && let Some(gpu) = gpus.iter().find(|gpu| gpu.integrated && gpu.backend != Backend::Metal)
        {
            return Some(format!("{} is integrated", gpu.name));
        }
        if !traits.projector_by_size {
            let small = gpus.iter().find(|gpu| memory(gpu) <= SMALL)?;
            return Some(format!("{} has no more than {SMALL}", small.name));
        }
        let needed = self.needed();
        let short = gpus.iter().find(|gpu| memory(gpu) < needed)?;
        Some(format!("with its buffers it needs {needed}, but {} has {}", short.name, memory(short)))
    }
}

/// Kept free beside a mapped file, in bytes, on machines with little memory.
const LEAST_FREE: u64 = 8_000_000_000;
