//! Figures of a plan, by their names in lessons.

use std::fmt;

use serde::Deserialize;

use super::heads;
use crate::answer::Goal;
use crate::engine::PlanRequest;
use crate::plan::{Part, PartKind, PartMemory, Plan};
use crate::settings::knob::Knob;
use crate::speed::{Speed, SpeedRange};
use crate::units::{Bytes, Ratio, Tokens};

/// A case of a lesson.
#[derive(Debug)]
pub(super) struct Case {
    /// What is asked.
    pub request: PlanRequest,
    /// The engine's answer.
    pub plan: Plan,
}

/// A figure of a case.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) enum PlanFigure {
    #[serde(rename = "graph full")]
    GraphFull,
    #[serde(rename = "graph partial")]
    GraphPartial,
    #[serde(rename = "graph in force")]
    GraphInForce,
    #[serde(rename = "graph on GPUs")]
    GraphOnGpus,
    #[serde(rename = "all")]
    All,
    #[serde(rename = "weights")]
    Weights,
    #[serde(rename = "weights on GPUs")]
    WeightsOnGpus,
    #[serde(rename = "parts in RAM")]
    PartsInRam,
    #[serde(rename = "cache")]
    Cache,
    #[serde(rename = "cache on GPUs")]
    CacheOnGpus,
    #[serde(rename = "model's cache")]
    ModelCache,
    #[serde(rename = "KV cache")]
    KvCache,
    #[serde(rename = "own caches")]
    OwnCaches,
    #[serde(rename = "every head's cache")]
    EveryHead,
    #[serde(rename = "states")]
    States,
    #[serde(rename = "layer")]
    Layer,
    #[serde(rename = "kept back")]
    KeptBack,
    #[serde(rename = "minimum memory")]
    MinimumMemory,
    #[serde(rename = "one layer's buffer")]
    Buffer,
    #[serde(rename = "card")]
    Card,
    #[serde(rename = "free")]
    Free,
    #[serde(rename = "in use")]
    InUse,
    #[serde(rename = "driver")]
    Driver,
    #[serde(rename = "growth")]
    Growth,
    #[serde(rename = "model")]
    Model,
    #[serde(rename = "experts")]
    Experts,
    #[serde(rename = "experts used")]
    ExpertsUsed,
    #[serde(rename = "experts counted")]
    ExpertsCounted,
    #[serde(rename = "window")]
    Window,
    #[serde(rename = "query heads")]
    QueryHeads,
    #[serde(rename = "KV heads")]
    KvHeads,
    #[serde(rename = "K length")]
    KeyLength,
    #[serde(rename = "K length before MLA")]
    KeyLengthMla,
    #[serde(rename = "queries")]
    Queries,
    #[serde(rename = "queries before MLA")]
    QueriesMla,
    #[serde(rename = "draft")]
    Draft,
    #[serde(rename = "draft's weights")]
    DraftWeights,
    #[serde(rename = "draft's cache")]
    DraftCache,
    #[serde(rename = "draft's graph")]
    DraftGraph,
    #[serde(rename = "drafted tokens")]
    Drafted,
    #[serde(rename = "projector")]
    Projector,
    #[serde(rename = "projector's weights")]
    ProjectorWeights,
    #[serde(rename = "projector's graph")]
    ProjectorGraph,
    #[serde(rename = "projector's graph with an image")]
    ProjectorGraphReady,
    #[serde(rename = "image tokens")]
    ImageTokens,
    #[serde(rename = "sequences")]
    Sequences,
    #[serde(rename = "context in all")]
    ContextInAll,
    #[serde(rename = "trained context")]
    TrainedContext,
    #[serde(rename = "largest context")]
    LargestContext,
    #[serde(rename = "physical batch")]
    PhysicalBatch,
    #[serde(rename = "GPUs")]
    Gpus,
    #[serde(rename = "layers on GPUs")]
    LayersOnGpus,
    #[serde(rename = "layers")]
    Layers,
    #[serde(rename = "speed")]
    Speed,
    #[serde(rename = "share of time on RAM")]
    TimeOnRam,
}

impl PlanFigure {
    /// Its value in `case`; `None` if the plan has no such figure.
    pub(super) fn value(self, case: &Case, finely: bool) -> Option<FigureValue> {
        if let Some(number) = self.number(case) {
            return Some(FigureValue::Number(number));
        }
        match self {
            Self::Speed => return Some(FigureValue::Speed(speed(case)?.range())),
            Self::TimeOnRam => return Some(FigureValue::Share(time_on_ram(&speed(case)?))),
            _ => {}
        }
        let bytes = self.bytes(case)?;
        Some(if finely { FigureValue::Finely(bytes) } else { FigureValue::Bytes(bytes) })
    }

    fn bytes(self, case: &Case) -> Option<Bytes> {
        let (plan, model) = (&case.plan, &case.request.model);
        let of_part = |kind, of: fn(&PartMemory) -> Bytes| Some(part(plan, kind)?.devices.iter().map(of).sum());
        let queries = |key| {
            let elements = heads::length(case, key)?.saturating_mul(*model.hyper.heads.first()?);
            // f32
            Some(Bytes(elements.saturating_mul(plan.settings.ubatch).saturating_mul(4)))
        };
        Some(match self {
            Self::GraphFull => plan.graph.full.bytes,
            Self::GraphPartial => plan.graph.partial.bytes,
            Self::GraphInForce => plan.graph.in_force().bytes,
            Self::GraphOnGpus => plan.gpus().iter().map(|gpu| gpu.graph).sum(),
            Self::All => plan.totals.all,
            Self::Weights => plan.totals.weights,
            Self::WeightsOnGpus => plan.gpus().iter().map(|gpu| gpu.weights).sum(),
            Self::PartsInRam => plan.parts_in_ram(),
            Self::Cache => plan.totals.cache,
            Self::CacheOnGpus => plan.gpus().iter().map(|gpu| gpu.cache).sum(),
            Self::ModelCache => of_part(PartKind::Model, |memory| memory.cache)?,
            Self::KvCache => {
                of_part(PartKind::Model, |memory| memory.cache)? - heads::states(case).unwrap_or(Bytes::ZERO)
            }
            Self::OwnCaches => plan.own_caches.as_ref()?.bytes,
            Self::EveryHead => heads::every_head(case)?,
            Self::States => heads::states(case)?,
            Self::Layer => plan.layers.first().map(|layer| layer.weights + layer.cache)?,
            Self::KeptBack => plan.gpus().first()?.reserved(),
            Self::MinimumMemory => reserve(plan, "minimum memory")?,
            Self::Buffer => reserve(plan, "one-layer buffer")?,
            Self::Card => plan.gpus().first()?.total,
            Self::Free => plan.gpus().first()?.free,
            Self::InUse => plan.gpus().first()?.in_use(),
            Self::Driver => plan.gpus().first()?.driver?.most(model.hyper.experts.is_some()),
            Self::Growth => plan.devices.iter().map(|device| device.growth).sum(),
            Self::Model => plan.model.bytes,
            Self::Experts => model.header.tensors.iter().filter(|t| t.name.contains("_exps.")).map(|t| t.bytes).sum(),
            Self::Queries => queries("attention.key_length")?,
            Self::QueriesMla => queries("attention.key_length_mla")?,
            Self::Draft => part(plan, PartKind::Draft)?.total(),
            Self::DraftWeights => of_part(PartKind::Draft, |memory| memory.weights)?,
            Self::DraftCache => of_part(PartKind::Draft, |memory| memory.cache)?,
            Self::DraftGraph => of_part(PartKind::Draft, |memory| memory.graph)?,
            Self::Projector => part(plan, PartKind::Vision)?.total(),
            Self::ProjectorWeights => of_part(PartKind::Vision, |memory| memory.weights)?,
            Self::ProjectorGraph => of_part(PartKind::Vision, |memory| memory.graph)?,
            Self::ProjectorGraphReady => of_part(PartKind::Vision, |memory| memory.graph_ready)?,
            _ => return None,
        })
    }

    fn number(self, case: &Case) -> Option<u64> {
        let (plan, effect, hyper) = (&case.plan, &case.plan.settings, &case.request.model.hyper);
        // of the first block with attention
        let attends = || hyper.kv_heads.iter().position(|&heads| heads > 0);
        match self {
            Self::ExpertsUsed => Some(hyper.experts?.used),
            Self::ExpertsCounted => Some(hyper.experts?.count),
            Self::Window => hyper.sliding_window,
            Self::QueryHeads => hyper.heads.get(attends()?).copied(),
            // MLA's compressed row is no head
            Self::KvHeads if heads::length(case, "attention.key_length_mla").is_some() => None,
            Self::KvHeads => hyper.kv_heads.get(attends()?).copied(),
            Self::KeyLength => hyper.key_length,
            Self::KeyLengthMla => heads::length(case, "attention.key_length_mla"),
            Self::Drafted => effect.spec_draft_n_max,
            Self::ImageTokens => effect.image_max_tokens,
            Self::Sequences => Some(effect.parallel),
            Self::ContextInAll => Some(effect.ctx_total),
            Self::TrainedContext => hyper.context_train,
            Self::LargestContext => Some(case.request.largest(Knob::Context, Goal::Vram)?.value),
            Self::PhysicalBatch => Some(effect.ubatch),
            Self::Gpus => Some(plan.gpus().len() as u64),
            Self::LayersOnGpus => Some(plan.offloaded as u64),
            Self::Layers => Some(plan.layers.len() as u64),
            _ => None,
        }
    }
}

fn part(plan: &Plan, kind: PartKind) -> Option<&Part> {
    plan.parts.iter().find(|part| part.kind == kind)
}

/// A reserve on the first GPU.
fn reserve(plan: &Plan, name: &str) -> Option<Bytes> {
    plan.gpus().first()?.reserves.iter().find(|reserve| reserve.name == name).map(|reserve| reserve.bytes)
}

/// The speed with an empty cache.
fn speed(case: &Case) -> Option<Speed> {
    Speed::of(&case.request.model, &case.request.machine, &case.plan, 0)
}

/// The share of a token's time that is spent on reading RAM and on waiting for it.
fn time_on_ram(speed: &Speed) -> Ratio {
    let of_ram = |name: &str| name.starts_with("CPU ") || name == "waiting for RAM";
    let all: f64 = speed.terms.iter().map(|term| term.milliseconds).sum();
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
    /// A count.
    Number(u64),
    /// A share.
    Share(Ratio),
    /// A factor.
    Times(f64),
    /// Tokens per second.
    Speed(SpeedRange),
    /// A quotation from another document.
    Quoted(String),
}

impl FigureValue {
    /// Its size: bytes, a count, a factor, or a share of one; none for a quotation.
    pub fn size(&self) -> Option<f64> {
        match self {
            Self::Share(Ratio(share)) | Self::Times(share) => Some(*share),
            Self::Speed(range) => Some(range.tokens_per_second),
            whole => Some(whole.number()? as f64),
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) | Self::Finely(bytes) => Some(bytes.0),
            Self::Number(number) => Some(*number),
            Self::Share(_) | Self::Times(_) | Self::Speed(_) | Self::Quoted(_) => None,
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
            Self::Number(number) => Tokens(*number).fmt(f),
            Self::Share(share) => share.fmt(f),
            Self::Times(times) => write!(f, "{times:.1} times"),
            Self::Speed(range) => write!(f, "{range}"),
            Self::Quoted(text) => f.write_str(text),
        }
    }
}
