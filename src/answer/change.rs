//! Single changes that bring layers onto GPUs, and what each costs. Each proposed change was planned by the engine and meets
//! the goal.
//!
//! To add one: a variant; what it sets, in [`Change::apply`]; its row, in [`Change::row`]; what it costs, in `own_cost`; and how
//! it is searched for, in `change/search.rs`.

mod cache_type_cost;
mod margin;
mod memory;
mod search;

use std::fmt;

use super::quality;
use crate::engine::PlanRequest;
use crate::gguf::FileType;
use crate::machine::{Gpu, Machine};
use crate::plan::Plan;
use crate::settings::knob::Knob;
use crate::settings::{CacheType, Context, Flag, FlashAttn, GpuLayers, LoadMode, MmprojDevice, Settings};
use crate::speed::prompt::{self, PromptSpeed};
use crate::units::{Bytes, Tokens};

pub use cache_type_cost::CacheTypeCost;
pub(super) use cache_type_cost::width;
pub use margin::{LowerMargin, least_kept};
pub(super) use search::{ChangeKind, is_context_advised};

/// One change of one knob, of the model's quantisation, or of one GPU's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A smaller context, in tokens.
    Context(u64),
    /// Another type of the KV cache.
    Cache(CacheType),
    /// Another type of the KV cache, with the flash attention that it needs.
    CacheWithFlash(CacheType),
    /// Flash attention on.
    FlashAttn,
    /// Fewer parallel sequences.
    Parallel(u64),
    /// A smaller batch, in tokens.
    Batch(u64),
    /// The model in a smaller quantisation.
    Quantisation(FileType),
    /// Another number of GPU layers.
    GpuLayers(GpuLayers),
    /// The experts of this many layers in RAM.
    CpuMoe(u64),
    /// The projector in RAM.
    ProjectorInRam,
    /// Less kept free by the fit, in whole MiB: on every GPU, or on the first, the second and so on that it uses.
    FitTarget(Vec<Bytes>),
    /// Weights in RAM are read in another way.
    LoadMode(LoadMode),
    /// Another limit of llama-server's prompt cache, in whole MiB.
    CacheRam(Bytes),
    /// Fewer checkpoints of recurrent states and sliding windows for each sequence.
    Checkpoints(u64),
    /// Memory in use by something else on a GPU is freed.
    Free {
        /// Index into [`Machine::gpus`].
        gpu: usize,
        /// How much.
        bytes: Bytes,
    },
    /// A GPU has more memory, all of it free.
    MoreMemory {
        /// Index into [`Machine::gpus`].
        gpu: usize,
        /// How much.
        bytes: Bytes,
    },
}

/// What is said of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRow {
    /// The name of what is changed: the knob's or option's on the command line, `quant`, `free` or `memory`.
    pub knob: &'static str,
    /// What it is set to.
    pub value: ChangedTo,
    /// A phrase to put before "brings all into VRAM".
    pub says: String,
    /// The command line options that make it; none for a change of the machine.
    pub options: Option<String>,
}

/// What a change sets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ChangedTo {
    Number(u64),
    Word(String),
}

impl fmt::Display for ChangedTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => f.write_str(word),
        }
    }
}

impl ChangeRow {
    /// Of an option, by `name`, whose value is a number.
    fn number(name: &'static str, value: u64, says: String) -> Self {
        let options = Some(format!("--{name} {value}"));
        Self { knob: name, value: ChangedTo::Number(value), says, options }
    }

    /// The same whose value is a word.
    fn word(name: &'static str, word: &str, says: String) -> Self {
        let options = Some(format!("--{name} {word}"));
        Self { knob: name, value: ChangedTo::Word(word.to_owned()), says, options }
    }

    /// Of the machine.
    fn memory(name: &'static str, bytes: Bytes, says: String) -> Self {
        Self { knob: name, value: ChangedTo::Number(bytes.0), says, options: None }
    }

    /// The same row with other options.
    fn with(self, options: &str) -> Self {
        Self { options: Some(options.to_owned()), ..self }
    }
}

impl Change {
    /// What is said of it.
    pub fn row(&self) -> ChangeRow {
        let of_cache = |ty: &CacheType, says: String| ChangeRow::word(Knob::CacheType.name(), ty.name(), says);
        match self {
            Self::Context(tokens) => {
                ChangeRow::number(Knob::Context.name(), *tokens, format!("a context of {}", Tokens(*tokens)))
            }
            Self::Cache(ty) => of_cache(ty, format!("a {ty} cache")),
            Self::CacheWithFlash(ty) => of_cache(ty, format!("a {ty} cache with flash attention"))
                .with(&format!("--kv-type {ty} --flash-attn on")),
            Self::FlashAttn => ChangeRow::word(Knob::FlashAttn.name(), "on", "flash attention".to_owned()),
            Self::Parallel(sequences) => {
                let ending = if *sequences == 1 { "" } else { "s" };
                ChangeRow::number(Knob::Parallel.name(), *sequences, format!("{sequences} parallel sequence{ending}"))
            }
            Self::Batch(tokens) => {
                ChangeRow::number(Knob::Batch.name(), *tokens, format!("a batch of {}", Tokens(*tokens)))
            }
            Self::Quantisation(to) => ChangeRow::word("quant", to.name(), format!("{to} quantisation")),
            Self::GpuLayers(layers) => {
                let says = |value: &dyn fmt::Display| format!("GPU layers set to {value}");
                match layers.word() {
                    Ok(count) => ChangeRow::number(Knob::GpuLayers.name(), count, says(&count)),
                    Err(word) => ChangeRow::word(Knob::GpuLayers.name(), word, says(&word)),
                }
            }
            Self::CpuMoe(layers) => {
                let ending = if *layers == 1 { "" } else { "s" };
                let says = format!("the experts of {layers} layer{ending} in RAM");
                ChangeRow::number(Knob::CpuMoe.name(), *layers, says)
            }
            Self::ProjectorInRam => {
                ChangeRow::word(Knob::MmprojDevice.name(), "none", "the projector in RAM".to_owned())
                    .with("--no-mmproj-offload")
            }
            Self::FitTarget(targets) => {
                let each: Vec<String> = targets.iter().map(|target| (target.0 >> 20).to_string()).collect();
                let (name, list) = (Flag::FitTarget.name(), each.join(","));
                match targets.as_slice() {
                    [one] => ChangeRow::number(name, one.0 >> 20, format!("keeping only {one} free")),
                    _ => ChangeRow::word(name, &list, format!("keeping only {} MiB free", each.join(" and "))),
                }
            }
            Self::LoadMode(mode) => {
                ChangeRow::word(Flag::LoadMode.name(), mode.name(), format!("weights read by {mode}"))
            }
            Self::CacheRam(Bytes::ZERO) => ChangeRow::number(Flag::CacheRam.name(), 0, "no prompt cache".to_owned()),
            Self::CacheRam(most) => {
                let says = format!("a prompt cache of at most {most}");
                ChangeRow::number(Flag::CacheRam.name(), most.0 >> 20, says)
            }
            Self::Checkpoints(count) => {
                let ending = if *count == 1 { "" } else { "s" };
                let says = format!("{count} checkpoint{ending} of each sequence");
                ChangeRow::number(Flag::CtxCheckpoints.name(), *count, says)
            }
            Self::Free { gpu, bytes } => ChangeRow::memory("free", *bytes, format!("freeing {bytes} on GPU{gpu}")),
            Self::MoreMemory { gpu, bytes } => {
                ChangeRow::memory("memory", *bytes, format!("{bytes} more memory on GPU{gpu}"))
            }
        }
    }

    /// Applies a change of settings or machine; [`Change::Quantisation`] changes the model and does nothing here.
    pub fn apply(&self, settings: &mut Settings, machine: &mut Machine) {
        let mut gpu =
            |index: usize, change: &dyn Fn(&mut Gpu)| machine.gpus.get_mut(index).into_iter().for_each(change);
        match *self {
            Self::Context(tokens) => settings.ctx = Context::Tokens(tokens),
            Self::Cache(ty) => (settings.cache_type_k, settings.cache_type_v) = (Some(ty), Some(ty)),
            Self::CacheWithFlash(ty) => {
                (settings.cache_type_k, settings.cache_type_v) = (Some(ty), Some(ty));
                settings.flash_attn = FlashAttn::On;
            }
            Self::FlashAttn => settings.flash_attn = FlashAttn::On,
            Self::Parallel(sequences) => settings.parallel = Some(sequences),
            Self::Batch(tokens) => settings.batch = Some(tokens),
            Self::Quantisation(_) => {}
            Self::GpuLayers(layers) => settings.gpu_layers = layers,
            Self::CpuMoe(layers) => Knob::CpuMoe.set(settings, layers),
            Self::ProjectorInRam => settings.mmproj.device = MmprojDevice::Cpu,
            Self::FitTarget(ref targets) => {
                (settings.fit_target, settings.fit_targets) = match targets.as_slice() {
                    [one] => (Some(*one), Vec::new()),
                    list => (None, list.to_vec()),
                };
            }
            Self::LoadMode(mode) => settings.load_mode = Some(mode),
            Self::CacheRam(most) => settings.cache_ram = Some(most),
            Self::Checkpoints(count) => settings.ctx_checkpoints = Some(count),
            Self::Free { gpu: index, bytes } => gpu(index, &|gpu| gpu.free = (gpu.free + bytes).min(gpu.total)),
            Self::MoreMemory { gpu: index, bytes } => gpu(index, &|gpu| {
                gpu.total += bytes;
                gpu.free += bytes;
            }),
        }
    }

    /// The name of what is changed: see [`ChangeRow::knob`].
    pub fn knob(&self) -> &'static str {
        self.row().knob
    }

    /// What it costs the user who has the plan `now` and then has `then`; none where the plans' speeds say it all.
    pub fn cost(&self, now: (&PlanRequest, &Plan), then: (&PlanRequest, &Plan)) -> Option<String> {
        let costs = [self.own_cost(now.1, then), slower_prompts(now, then)];
        costs.into_iter().flatten().reduce(|one, other| format!("{one}, and {other}"))
    }

    fn own_cost(&self, now: &Plan, (request, then): (&PlanRequest, &Plan)) -> Option<String> {
        let (before, after) = (&now.settings, &then.settings);
        match *self {
            Self::Context(_) => {
                let lost = before.ctx.checked_sub(after.ctx).filter(|lost| *lost > 0)?;
                Some(format!("{} of {} tokens of context are given up", Tokens(lost), Tokens(before.ctx)))
            }
            Self::Cache(ty) | Self::CacheWithFlash(ty) => {
                let (k, v) = (before.cache_type_k, before.cache_type_v);
                let [from, to] = [quality::of_caches(k, v), quality::of_caches(ty, ty)];
                let much = if quality::is_small(to) { "a little" } else { "much" };
                (to > from).then(|| format!("the KV cache is {much} less precise: {ty} instead of {k}"))
            }
            Self::Parallel(to) => Some(format!("{to} instead of {} requests at once", before.parallel)),
            Self::Batch(_) => {
                let fewer = after.ubatch < before.ubatch;
                fewer
                    .then(|| format!("prompts are read {} tokens at a time instead of {}", after.ubatch, before.ubatch))
            }
            Self::Quantisation(to) => {
                let name = now.model.file_type.as_deref()?;
                let loss = quality::of_weights(to);
                let resort = if quality::is_last_resort(loss) { ", a last resort" } else { "" };
                Some(format!("weights are less precise: {to} instead of {name}{resort}"))
            }
            Self::ProjectorInRam => Some("images are read by the CPU".to_owned()),
            Self::FitTarget(_) => {
                let by_variable = request.engine.facts().starts_llama_server;
                let variable = Flag::FitTarget.row().variables.first().filter(|_| by_variable);
                let by_variable = variable.map(|variable| format!("Its variable for Ollama is {}", variable.name));
                let stays = margin::what_stays(request, &then.devices);
                stays.into_iter().chain(by_variable).reduce(|one, other| format!("{one}. {other}"))
            }
            Self::CacheRam(_) => Some("fewer prompts are kept, and others are read again".to_owned()),
            Self::Checkpoints(_) => Some("prompts that differ early are read again from further back".to_owned()),
            Self::LoadMode(_)
            | Self::FlashAttn
            | Self::GpuLayers(_)
            | Self::CpuMoe(_)
            | Self::Free { .. }
            | Self::MoreMemory { .. } => None,
        }
    }

    /// The command line options that make this change; `None` for a change of the machine.
    pub fn options(&self) -> Option<String> {
        self.row().options
    }
}

/// A phrase to put before "keeps all layers on the GPU".
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.row().says)
    }
}

/// How much longer prompts take, where that is known and shows: `prompts take about 3.1 times as long`.
fn slower_prompts(now: (&PlanRequest, &Plan), then: (&PlanRequest, &Plan)) -> Option<String> {
    // the same prompt, which both contexts hold
    let tokens = prompt::LONG.min(now.1.settings.ctx_per_sequence).min(then.1.settings.ctx_per_sequence);
    let of = |(request, plan): (&PlanRequest, &Plan)| {
        let speed = PromptSpeed::of(&request.model, &request.machine, plan, 0, tokens.max(1));
        speed.ok().map(|speed| speed.tokens_per_second)
    };
    let times = of(now)? / of(then)?;
    (times >= NOTABLY_SLOWER).then(|| format!("prompts take about {times:.1} times as long"))
}

/// From here on slower prompts are said.
const NOTABLY_SLOWER: f64 = 1.1;
