//! Figures of a plan, by their names in lessons.

use crate::answer::Goal;
use crate::engine::PlanRequest;
use crate::engine::ggml::Type;
use crate::engine::llama_cpp::{self, cache};
use crate::gguf::Value;
use crate::model::{Experts, Hyperparameters};
use crate::plan::{LayerPlan, Part, PartKind, PartMemory, Plan, Why};
use crate::settings::knob::Knob;
use crate::settings::{Context, FlashAttn};
use crate::speed::{Speed, SpeedRange};
use crate::teach::caches;
use crate::text::LONGEST_NAME;
use crate::units::{Bytes, Ratio, Tokens};
use serde::Deserialize;
use std::fmt;

/// A case of a lesson.
#[derive(Debug)]
pub(super) struct Case {
    /// What is asked.
    pub request: PlanRequest,
    /// The engine's answer.
    pub plan: Plan,
}

/// A figure of a case: the name of a row of [`FIGURES`].
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct PlanFigure(String);

impl PlanFigure {
    fn measure(&self) -> Option<&'static Measure> {
        FIGURES.iter().find(|(known, _)| *known == self.0).map(|(_, measure)| measure)
    }

    /// Why there is no such figure, if there is none.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.measure().is_some() {
            return Ok(());
        }
        let start: String = self.0.chars().take(LONGEST_NAME).collect();
        let near = FIGURES.iter().map(|(known, _)| *known).min_by_key(|known| strsim::osa_distance(known, &start));
        Err(format!("plans have no figure '{}': did you mean '{}'?", self.0, near.unwrap_or_default()))
    }

    /// Its value in `case`, memory with two decimals if `finely`; `None` if the plan has no such figure.
    pub(super) fn value(&self, case: &Case, finely: bool) -> Option<FigureValue> {
        match self.measure()? {
            Measure::Memory(of) if finely => of(case).map(FigureValue::Finely),
            Measure::Memory(of) => of(case).map(FigureValue::Bytes),
            Measure::Count(of) => of(case).map(FigureValue::Number),
            Measure::Other(of) => of(case),
        }
    }
}

/// How a figure is measured.
#[derive(Debug)]
enum Measure {
    Memory(fn(&Case) -> Option<Bytes>),
    Count(fn(&Case) -> Option<u64>),
    Other(fn(&Case) -> Option<FigureValue>),
}

use Measure::{Count, Memory, Other};

/// The figures by their names in `assets/lessons.toml`; to add one, add a row.
static FIGURES: &[(&str, Measure)] = &[
    ("graph full", Memory(|case| Some(case.plan.graph.full.bytes))),
    ("graph partial", Memory(|case| Some(case.plan.graph.partial.bytes))),
    ("graph in force", Memory(|case| Some(case.plan.graph.in_force().bytes))),
    ("graph on GPUs", Memory(|case| Some(case.plan.gpus().iter().map(|gpu| gpu.graph).sum()))),
    ("all", Memory(|case| Some(case.plan.totals.all))),
    ("weights", Memory(|case| Some(case.plan.totals.weights))),
    ("weights on GPUs", Memory(|case| Some(case.plan.gpus().iter().map(|gpu| gpu.weights).sum()))),
    ("parts in RAM", Memory(|case| Some(case.plan.parts_in_ram()))),
    ("cache", Memory(|case| Some(case.plan.totals.cache))),
    ("cache after the prompt", Memory(|case| case.plan.devices.iter().find_map(|device| device.after_prompt))),
    ("cache on GPUs", Memory(|case| Some(case.plan.gpus().iter().map(|gpu| gpu.cache).sum()))),
    ("model's cache", Memory(|case| case.of_part(PartKind::Model, |memory| memory.cache))),
    ("KV cache", Memory(Case::kv_cache)),
    ("own caches", Memory(|case| Some(case.plan.own_caches.as_ref()?.bytes))),
    ("every head's cache", Memory(every_head)),
    ("states", Memory(states)),
    ("kept back", Memory(|case| Some(case.plan.gpus().first()?.reserved()))),
    ("minimum memory", Memory(|case| reserve(&case.plan, "minimum memory"))),
    ("one layer's buffer", Memory(|case| reserve(&case.plan, "one-layer buffer"))),
    ("card", Memory(|case| Some(case.plan.gpus().first()?.total))),
    ("free", Memory(|case| Some(case.plan.gpus().first()?.free))),
    ("in use", Memory(|case| Some(case.plan.gpus().first()?.in_use()))),
    ("driver", Memory(|case| Some(case.plan.gpus().first()?.driver?.most(case.hyper().experts.is_some())))),
    ("growth", Memory(|case| Some(case.plan.devices.iter().map(|device| device.growth).sum()))),
    ("model", Memory(|case| Some(case.plan.model.bytes))),
    ("experts", Memory(|case| Some(experts(case)))),
    ("experts used", Count(|case| Some(case.hyper().experts?.used))),
    ("experts counted", Count(|case| Some(case.hyper().experts?.count))),
    ("window", Count(|case| case.hyper().sliding_window)),
    ("query heads", Count(|case| case.hyper().heads.get(case.first_with_attention()?).copied())),
    (
        "KV heads",
        Count(|case| match length(case, "attention.key_length_mla") {
            // MLA's compressed row is no head
            Some(_) => None,
            None => case.hyper().kv_heads.get(case.first_with_attention()?).copied(),
        }),
    ),
    ("K length", Count(|case| case.hyper().key_length)),
    ("K length before MLA", Count(|case| length(case, "attention.key_length_mla"))),
    ("queries", Memory(|case| case.queries("attention.key_length"))),
    ("queries before MLA", Memory(|case| case.queries("attention.key_length_mla"))),
    ("draft", Memory(|case| Some(part(&case.plan, PartKind::Draft)?.total()))),
    ("draft's weights", Memory(|case| case.of_part(PartKind::Draft, |memory| memory.weights))),
    ("draft's cache", Memory(|case| case.of_part(PartKind::Draft, |memory| memory.cache))),
    ("draft's graph", Memory(|case| case.of_part(PartKind::Draft, |memory| memory.graph))),
    ("drafted tokens", Count(|case| case.plan.settings.spec_draft_n_max)),
    ("projector", Memory(|case| Some(part(&case.plan, PartKind::Vision)?.total()))),
    ("projector's weights", Memory(|case| case.of_part(PartKind::Vision, |memory| memory.weights))),
    ("projector's graph", Memory(|case| case.of_part(PartKind::Vision, |memory| memory.graph))),
    ("projector's graph with an image", Memory(|case| case.of_part(PartKind::Vision, |memory| memory.graph_ready))),
    ("image tokens", Count(|case| case.plan.settings.image_max_tokens)),
    ("sequences", Count(|case| Some(case.plan.settings.parallel))),
    ("context in all", Count(|case| Some(case.plan.settings.ctx_total))),
    ("trained context", Count(|case| case.hyper().context_train)),
    ("largest context", Count(|case| case.request.largest_value(Knob::Context, Goal::Vram))),
    ("physical batch", Count(|case| Some(case.plan.settings.ubatch))),
    ("GPUs", Count(|case| Some(case.plan.gpus().len() as u64))),
    ("layers on GPUs", Count(|case| Some(case.plan.offloaded as u64))),
    ("layers", Count(|case| Some(case.plan.layers.len() as u64))),
    ("speed", Other(|case| Some(FigureValue::Speed(speed(case)?.range())))),
    ("share of time on RAM", Other(|case| Some(FigureValue::Share(time_on_ram(&speed(case)?))))),
    ("graph", Memory(|case| Some(case.plan.totals.graph))),
    ("file type", Other(|case| Some(FigureValue::Quoted(case.plan.model.file_type.clone()?)))),
    ("blocks", Count(|case| Some(case.plan.model.layers as u64))),
    (
        "layers with KV",
        Count(|case| {
            let memory = layout(case)?;
            let caches = [&memory.full, &memory.window].into_iter().flatten();
            Some(caches.flat_map(|cache| cache.layers.iter().flatten()).filter(|layer| layer.k > 0).count() as u64)
        }),
    ),
    ("V length", Count(|case| case.hyper().value_length)),
    ("cache in RAM", Memory(|case| Some(case.plan.cpu().cache))),
    (
        "context asked for",
        Count(|case| if let Context::Tokens(tokens) = case.request.settings.ctx { Some(tokens) } else { None }),
    ),
    (
        "average layer",
        Memory(|case| {
            let all: Bytes = case.plan.layers.iter().map(|layer| layer.weights + layer.cache).sum();
            Some(Bytes(all.0.checked_div(case.plan.layers.len() as u64)?))
        }),
    ),
    ("parameters", Count(|case| Some(case.plan.model.parameters))),
    ("bits per weight", Other(|case| bits(case.plan.model.bytes.0, case.plan.model.parameters))),
    ("fewest bits", Other(|case| case.bits_of_matrices().reduce(f64::min).map(FigureValue::Bits))),
    ("most bits", Other(|case| case.bits_of_matrices().reduce(f64::max).map(FigureValue::Bits))),
    ("in f16", Memory(|case| Some(Bytes(case.plan.model.parameters.saturating_mul(2))))),
    (
        "cache per token",
        Other(|case| Some(FigureValue::Small(Bytes(case.kv_cache()?.0.checked_div(case.plan.settings.ctx_total)?)))),
    ),
    (
        "cache per token and layer",
        Other(|case| {
            let layer = case.plan.layers.iter().find(|layer| layer.cache > Bytes::ZERO)?;
            Some(FigureValue::Small(Bytes(layer.cache.0.checked_div(case.plan.settings.ctx_total)?)))
        }),
    ),
    (
        "layers with a cache",
        Count(|case| Some(case.plan.layers.iter().filter(|layer| layer.cache > Bytes::ZERO).count() as u64)),
    ),
    ("on GPUs", Memory(|case| Some(case.plan.totals.gpu))),
    ("in RAM", Memory(|case| Some(case.plan.totals.cpu))),
    ("graph in RAM", Memory(|case| Some(case.plan.cpu().graph))),
    ("layers in RAM", Count(|case| Some(case.plan.cpu().layers.len() as u64))),
    ("layers' size in RAM", Memory(|case| Some(case.layers_in_ram().map(|layer| layer.weights + layer.cache).sum()))),
    ("blocks in RAM", Count(|case| Some(case.blocks_in_ram().count() as u64))),
    ("first block in RAM", Count(|case| case.blocks_in_ram().next().map(|layer| layer.index as u64))),
    ("last block in RAM", Count(|case| case.blocks_in_ram().next_back().map(|layer| layer.index as u64))),
    ("block after those in RAM", Count(|case| case.blocks_in_ram().next_back().map(|layer| layer.index as u64 + 1))),
    ("listed", Memory(|case| Some(case.plan.ollama_ps?.size))),
    ("listed on GPUs", Memory(|case| Some(case.plan.ollama_ps?.vram))),
    ("listed in RAM", Memory(|case| Some(case.plan.ollama_ps?.size - case.plan.ollama_ps?.vram))),
    ("column SIZE", Other(|case| Some(FigureValue::Quoted(case.plan.ollama_ps?.size_column())))),
    ("column PROCESSOR", Other(|case| Some(FigureValue::Quoted(case.plan.ollama_ps?.processor_column())))),
    ("flash attention", Count(|case| Some(u64::from(case.plan.settings.flash_attn == FlashAttn::On)))),
    (
        "a token's experts",
        Memory(|case| {
            let Experts { used, count, .. } = case.hyper().experts?;
            Some(Bytes(experts(case).0.checked_div(count)?.saturating_mul(used)))
        }),
    ),
    ("RAM", Memory(|case| Some(case.plan.cpu().total))),
    ("from disk", Memory(|case| case.plan.ram().from_disk())),
    ("taken of RAM by GPUs", Memory(|case| Some(case.plan.ram().by_gpus))),
    ("GPUs in RAM", Count(|case| Some(case.plan.gpus_in_ram().len() as u64))),
    ("time per token", Other(|case| Some(FigureValue::Milliseconds(milliseconds(&speed(case)?))))),
    (
        "time on RAM",
        Other(|case| {
            let speed = speed(case)?;
            Some(FigureValue::Milliseconds(milliseconds(&speed) * time_on_ram(&speed).0))
        }),
    ),
    (
        "room",
        Memory(|case| {
            // what the first layer to be tried finds
            let Why::Fits { room, .. } = case.plan.layers.iter().rev().find(|layer| layer.device == 0)?.why else {
                return None;
            };
            Some(room)
        }),
    ),
];

impl Case {
    fn hyper(&self) -> &Hyperparameters {
        &self.request.model.hyper
    }

    fn first_with_attention(&self) -> Option<usize> {
        self.hyper().kv_heads.iter().position(|&heads| heads > 0)
    }

    /// The model's caches without recurrent states.
    fn kv_cache(&self) -> Option<Bytes> {
        Some(self.of_part(PartKind::Model, |memory| memory.cache)? - states(self).unwrap_or(Bytes::ZERO))
    }

    /// The bits of a weight in each matrix.
    fn bits_of_matrices(&self) -> impl Iterator<Item = f64> {
        let matrices = self.request.model.header.tensors.iter().filter(|tensor| tensor.dims.len() > 1);
        matrices.map(|tensor| {
            let weights: u64 = tensor.dims.iter().fold(1, |product, side| product.saturating_mul(*side));
            tensor.bytes.0 as f64 * 8.0 / weights.max(1) as f64
        })
    }

    fn layers_in_ram(&self) -> impl DoubleEndedIterator<Item = &LayerPlan> {
        self.plan.cpu().layers.iter().filter_map(|index| self.plan.layers.get(*index))
    }

    /// The same without the output layer.
    fn blocks_in_ram(&self) -> impl DoubleEndedIterator<Item = &LayerPlan> {
        self.layers_in_ram().filter(|layer| layer.index < self.plan.model.layers)
    }

    /// One kind of memory of a part, on all devices.
    fn of_part(&self, kind: PartKind, of: fn(&PartMemory) -> Bytes) -> Option<Bytes> {
        Some(part(&self.plan, kind)?.devices.iter().map(of).sum())
    }

    /// The queries of an ubatch in f32; `key` is the length of a head.
    fn queries(&self, key: &str) -> Option<Bytes> {
        let elements = length(self, key)?.saturating_mul(*self.hyper().heads.first()?);
        Some(Bytes(elements.saturating_mul(self.plan.settings.ubatch).saturating_mul(4)))
    }
}

fn part(plan: &Plan, kind: PartKind) -> Option<&Part> {
    plan.parts.iter().find(|part| part.kind == kind)
}

/// The weights of all experts.
fn experts(case: &Case) -> Bytes {
    let tensors = case.request.model.header.tensors.iter();
    tensors.filter(|tensor| tensor.name.contains("_exps.")).map(|tensor| tensor.bytes).sum()
}

/// The bits of each of so many weights in these bytes.
fn bits(bytes: u64, weights: u64) -> Option<FigureValue> {
    (weights > 0).then(|| FigureValue::Bits(bytes as f64 * 8.0 / weights as f64))
}

/// A reserve on the first GPU.
fn reserve(plan: &Plan, name: &str) -> Option<Bytes> {
    plan.gpus().first()?.reserves.iter().find(|reserve| reserve.name == name).map(|reserve| reserve.bytes)
}

/// The speed with an empty cache.
fn speed(case: &Case) -> Option<Speed> {
    Speed::of(&case.request.model, &case.request.machine, &case.plan, 0)
}

/// The time of a token.
fn milliseconds(speed: &Speed) -> f64 {
    speed.terms.iter().map(|term| term.milliseconds).sum()
}

/// The share of a token's time that is spent on reading RAM and on waiting for it.
fn time_on_ram(speed: &Speed) -> Ratio {
    let of_ram = |name: &str| name.starts_with("CPU ") || name == "waiting for RAM";
    let all = milliseconds(speed);
    let ram: f64 = speed.terms.iter().filter(|term| of_ram(&term.name)).map(|term| term.milliseconds).sum();
    Ratio(if all > 0.0 { ram / all } else { 0.0 })
}

/// The value of a figure.
#[derive(Clone, Debug, PartialEq)]
pub enum FigureValue {
    /// Memory.
    Bytes(Bytes),
    /// Memory, shown with two decimals.
    Finely(Bytes),
    /// Memory of a token, in KiB.
    Small(Bytes),
    /// A count.
    Number(u64),
    /// A share.
    Share(Ratio),
    /// A factor.
    Times(f64),
    /// Bits of a weight.
    Bits(f64),
    /// Time.
    Milliseconds(f64),
    /// Tokens per second.
    Speed(SpeedRange),
    /// A quotation from another document.
    Quoted(String),
}

impl FigureValue {
    /// Its size: bytes, a count, a factor, or a share of one; none for a quotation.
    pub fn size(&self) -> Option<f64> {
        match self {
            Self::Share(Ratio(share)) | Self::Times(share) | Self::Bits(share) | Self::Milliseconds(share) => {
                Some(*share)
            }
            Self::Speed(range) => Some(range.tokens_per_second),
            whole => Some(whole.number()? as f64),
        }
    }

    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) | Self::Finely(bytes) | Self::Small(bytes) => Some(bytes.0),
            Self::Number(number) => Some(*number),
            Self::Share(_)
            | Self::Times(_)
            | Self::Bits(_)
            | Self::Milliseconds(_)
            | Self::Speed(_)
            | Self::Quoted(_) => None,
        }
    }

    /// A figure of the same unit.
    fn like(&self, number: u64) -> Self {
        if matches!(self, Self::Number(_)) { Self::Number(number) } else { Self::Bytes(Bytes(number)) }
    }

    pub(super) fn less(&self, other: &Self) -> Option<Self> {
        Some(self.like(self.number()?.saturating_sub(other.number()?)))
    }

    pub(super) fn plus(&self, other: &Self) -> Option<Self> {
        Some(self.like(self.number()?.saturating_add(other.number()?)))
    }

    pub(super) fn share_of(&self, whole: &Self) -> Option<Self> {
        Some(Self::Share(Bytes(self.number()?).share_of(Bytes(whole.number()?))))
    }

    pub(super) fn times(&self, other: &Self) -> Option<Self> {
        let (a, b) = (self.size()?, other.size()?);
        (b > 0.0).then(|| Self::Times(a / b))
    }
}

impl fmt::Display for FigureValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Finely(bytes) => write!(f, "{:.2} GiB", bytes.0 as f64 / Bytes::gib(1).0 as f64),
            Self::Small(bytes) => {
                let tenths = (bytes.0 as f64 / 102.4).round() / 10.0;
                write!(f, "{tenths} KiB")
            }
            Self::Number(number) => Tokens(*number).fmt(f),
            Self::Share(share) => share.fmt(f),
            Self::Times(times) if *times >= 10.0 => write!(f, "{times:.0} times"),
            Self::Times(times) => write!(f, "{times:.1} times"),
            Self::Bits(bits) => write!(f, "{bits:.2} bits"),
            Self::Milliseconds(time) => write!(f, "{time:.1} ms"),
            Self::Speed(range) => write!(f, "{range}"),
            Self::Quoted(text) => f.write_str(text),
        }
    }
}

/// llama.cpp's caches of a case; none if it does not support the model.
fn layout(case: &Case) -> Option<cache::Memory> {
    llama_cpp::cache_layout(&case.request.model, &case.plan, &case.request.settings).ok()
}

/// A length of a head in the header.
fn length(case: &Case, key: &str) -> Option<u64> {
    case.request.model.value(key).and_then(Value::as_u64)
}

/// The bytes of K and V with as many KV heads as query heads. MLA's compressed rows count as the heads that they stand
/// for (`attention.key_length_mla`).
fn every_head(case: &Case) -> Option<Bytes> {
    let memory = layout(case)?;
    let hyper = &case.request.model.hyper;
    let mla = |key| length(case, key);
    let (mla_k, mla_v) = (mla("attention.key_length_mla"), mla("attention.value_length_mla"));
    let mut bytes = Bytes::ZERO;
    for cache in [&memory.full, &memory.window].into_iter().flatten() {
        let cells = cache.size.saturating_mul(cache.streams);
        for (il, layer) in cache.layers.iter().enumerate() {
            let Some(layer) = layer.filter(|layer| layer.owner == il) else { continue };
            let (heads, kv_heads) = (*hyper.heads.get(il)?, *hyper.kv_heads.get(il)?);
            // a block without attention
            if layer.k == 0 {
                continue;
            }
            let k = mla_k.or_else(|| layer.k.checked_div(kv_heads))?;
            let v = mla_v.or_else(|| layer.v?.checked_div(kv_heads))?;
            let row = caches::row(layer.ty_k, k.saturating_mul(heads));
            let row = row.saturating_add(caches::row(layer.ty_v, v.saturating_mul(heads)));
            bytes += Bytes(row.saturating_mul(cells));
        }
    }
    Some(bytes)
}

/// The recurrent states of all blocks and sequences, without snapshots.
fn states(case: &Case) -> Option<Bytes> {
    let recurrent = layout(case)?.recurrent?;
    let row = caches::row(Type::F32, recurrent.r).saturating_add(caches::row(Type::F32, recurrent.s));
    let blocks = recurrent.layers.iter().flatten().count() as u64;
    Some(Bytes(row.saturating_mul(recurrent.rows()).saturating_mul(blocks)))
}
