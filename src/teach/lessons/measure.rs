//! Figures of a plan, by their names in lessons.

use std::fmt;

use serde::Deserialize;

use crate::model::Model;
use crate::plan::Plan;
use crate::units::{Bytes, Ratio, Tokens};

/// What a model must have for a lesson to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Needs {
    /// Nothing in particular.
    Anything,
    /// Blocks with attention.
    Attention,
    /// Experts.
    Experts,
    /// Blocks with a sliding window.
    Window,
    /// The model that the lesson names.
    This,
}

impl Needs {
    /// Whether `model` has it; for `This`, only whether it has attention.
    pub(super) fn are_met_by(self, model: &Model) -> bool {
        let hyper = &model.hyper;
        match self {
            Self::Anything => true,
            Self::Attention | Self::This => hyper.kv_heads.iter().any(|&heads| heads > 0),
            Self::Experts => hyper.experts.is_some(),
            Self::Window => hyper.sliding_window.is_some(),
        }
    }
}

/// A figure of a plan.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) enum PlanFigure {
    #[serde(rename = "graph full")]
    GraphFull,
    #[serde(rename = "graph partial")]
    GraphPartial,
    #[serde(rename = "graph in force")]
    GraphInForce,
    #[serde(rename = "weights")]
    Weights,
    #[serde(rename = "weights on GPUs")]
    WeightsOnGpus,
    #[serde(rename = "cache")]
    Cache,
    #[serde(rename = "cache on GPUs")]
    CacheOnGpus,
    #[serde(rename = "own caches")]
    OwnCaches,
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
    #[serde(rename = "sequences")]
    Sequences,
    #[serde(rename = "context in all")]
    ContextInAll,
    #[serde(rename = "physical batch")]
    PhysicalBatch,
    #[serde(rename = "layers on GPUs")]
    LayersOnGpus,
    #[serde(rename = "layers")]
    Layers,
}

impl PlanFigure {
    /// Its value in `plan`, a plan of `model`; `None` if the plan has no such figure.
    pub(super) fn value(self, plan: &Plan, model: &Model, finely: bool) -> Option<FigureValue> {
        let effect = &plan.settings;
        let bytes = match self {
            Self::GraphFull => plan.graph.full.bytes,
            Self::GraphPartial => plan.graph.partial.bytes,
            Self::GraphInForce => plan.graph.in_force().bytes,
            Self::Weights => plan.totals.weights,
            Self::WeightsOnGpus => plan.gpus().iter().map(|gpu| gpu.weights).sum(),
            Self::Cache => plan.totals.cache,
            Self::CacheOnGpus => plan.gpus().iter().map(|gpu| gpu.cache).sum(),
            Self::OwnCaches => plan.own_caches.as_ref()?.bytes,
            Self::Layer => plan.layers.first().map(|layer| layer.weights + layer.cache)?,
            Self::KeptBack => plan.gpus().first()?.reserved(),
            Self::MinimumMemory => reserve(plan, "minimum memory")?,
            Self::Buffer => reserve(plan, "one-layer buffer")?,
            Self::Card => plan.gpus().first()?.total,
            Self::Model => plan.model.bytes,
            Self::Experts => model.header.tensors.iter().filter(|t| t.name.contains("_exps.")).map(|t| t.bytes).sum(),
            Self::ExpertsUsed => return Some(FigureValue::Number(model.hyper.experts?.used)),
            Self::ExpertsCounted => return Some(FigureValue::Number(model.hyper.experts?.count)),
            Self::Window => return Some(FigureValue::Number(model.hyper.sliding_window?)),
            Self::Sequences => return Some(FigureValue::Number(effect.parallel)),
            Self::ContextInAll => return Some(FigureValue::Number(effect.ctx_total)),
            Self::PhysicalBatch => return Some(FigureValue::Number(effect.ubatch)),
            Self::LayersOnGpus => return Some(FigureValue::Number(plan.offloaded as u64)),
            Self::Layers => return Some(FigureValue::Number(plan.layers.len() as u64)),
        };
        Some(if finely { FigureValue::Finely(bytes) } else { FigureValue::Bytes(bytes) })
    }
}

/// A reserve on the first GPU.
fn reserve(plan: &Plan, name: &str) -> Option<Bytes> {
    plan.gpus().first()?.reserves.iter().find(|reserve| reserve.name == name).map(|reserve| reserve.bytes)
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
    /// A quotation from another document.
    Quoted(String),
}

impl FigureValue {
    /// Whether it is zero or empty.
    pub fn is_nothing(&self) -> bool {
        match self {
            Self::Bytes(bytes) | Self::Finely(bytes) => *bytes == Bytes::ZERO,
            Self::Number(number) => *number == 0,
            Self::Share(Ratio(share)) | Self::Times(share) => *share <= 0.0,
            Self::Quoted(text) => text.is_empty(),
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) | Self::Finely(bytes) => Some(bytes.0),
            Self::Number(number) => Some(*number),
            Self::Share(_) | Self::Times(_) | Self::Quoted(_) => None,
        }
    }

    pub(super) fn less(&self, other: &Self) -> Option<Self> {
        let difference = self.number()?.saturating_sub(other.number()?);
        Some(if matches!(self, Self::Number(_)) { Self::Number(difference) } else { Self::Bytes(Bytes(difference)) })
    }

    pub(super) fn share_of(&self, whole: &Self) -> Option<Self> {
        Some(Self::Share(Bytes(self.number()?).share_of(Bytes(whole.number()?))))
    }

    pub(super) fn times(&self, other: &Self) -> Option<Self> {
        let (a, b) = (self.number()?, other.number()?);
        (b > 0).then(|| Self::Times(a as f64 / b as f64))
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
            Self::Quoted(text) => f.write_str(text),
        }
    }
}
