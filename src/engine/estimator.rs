//! Ollama up to 0.24 and up to 0.11, which estimate the memory of a model and place layers by that estimate.
//!
//! A `Case` is the request with what the header (`header`), the rules of settings (`in_effect`) and formulas (`table`) make
//! of it; one of two functions places its layers, in turn (`estimate`) or as a layout (`layout`); and one assembles the plan
//! (`assemble`). The releases differ in rows of the table and by `OllamaRelease`.
//!
//! To add an architecture's formula: a row in `table`, whose head says how.

mod assemble;
mod estimate;
pub mod formulas;
mod header;
mod in_effect;
mod kv_cache;
mod layout;
mod sizes;
mod table;

use std::borrow::Cow;

use super::admission::{Admission, requiring_full};
use super::compared::{ComparedVersions, VersionDifference, version};
use super::contract::Engine;
use super::plan_request::RequestParts;
use super::request::{self, local_gpus_only};
use crate::engine::error::EngineError;
use crate::engine::goal::FitGoal;
use crate::gguf::Tensor;
use crate::machine::{Backend, Gpu, Machine};
use crate::model::{Model, TensorGroup};
use crate::plan::{OwnCaches, Plan};
use crate::settings::{InEffect, Settings};
use crate::units::Bytes;
use formulas::PlanFormulas;
use header::ModelFacts;
use in_effect::ResolvedSettings;
use sizes::{Sizes, Vision};

pub use header::ModelTraits;
pub(super) use header::{OllamaKeys, OllamaRelease};
pub use in_effect::supports_cache_type;

/// An engine that estimates.
#[derive(Debug)]
pub struct Estimator {
    release: OllamaRelease,
    /// The versions whose arithmetic it is.
    pub(super) versions: ComparedVersions,
}

/// Ollama up to 0.24: 24 May 2026.
pub static OLLAMA_024: Estimator = Estimator {
    release: OllamaRelease::May2026,
    versions: ComparedVersions {
        compared: (version(24, 0), version(24, u32::MAX)),
        last: version(29, u32::MAX),
        differences: &[],
    },
};

/// Ollama up to 0.11: commit d5a0d8d904 of 14 August 2025.
pub static OLLAMA_011: Estimator = Estimator { release: OllamaRelease::August2025, versions: VERSIONS_011 };

/// The versions whose estimate it is. Source: the histories of `fs/ggml/ggml.go` and `llm/memory.go`, Ollama 0.9 to
/// 0.11.11, compared with the commit.
const VERSIONS_011: ComparedVersions = ComparedVersions {
    compared: (version(11, 5), version(11, 7)),
    last: version(11, u32::MAX),
    differences: &[
        VersionDifference {
            since: version(0, 0),
            before: version(11, 0),
            architectures: GPT_OSS,
            what: "does not know the model",
        },
        VersionDifference {
            since: version(11, 0),
            before: version(11, 3),
            architectures: GPT_OSS,
            what: "counts a compute buffer four times as large where layers are in RAM, and twice as large where none is",
        },
        VersionDifference {
            since: version(11, 3),
            before: version(11, 5),
            architectures: GPT_OSS,
            what: "counts a compute buffer twice as large",
        },
        VersionDifference {
            since: version(11, 8),
            before: version(12, 0),
            architectures: GPT_OSS,
            what: "turns on flash attention for it and counts another compute buffer then",
        },
    ],
};

const GPT_OSS: &[&str] = &["gptoss", "gpt-oss"];

impl Engine for Estimator {
    fn place(&self, request: RequestParts<'_>, _: FitGoal) -> Result<Option<Plan>, EngineError> {
        let RequestParts { model, machine, settings } = request;
        let (local, loaded) = (local_gpus_only(machine)?, request::loads(model, settings));
        let mut case = Case::of(self.release, &loaded, &local, settings)?;
        let placement = match self.release {
            OllamaRelease::August2025 => estimate::placement(&mut case),
            OllamaRelease::May2026 | OllamaRelease::August2026 => layout::placement(&mut case),
        };
        let mut plan = assemble::plan(case, placement);
        // a version that is not this engine's is that of the default engine
        if self.release == OllamaRelease::August2025 || settings.ollama.version <= self.versions.last {
            self.versions.say(&mut plan, settings.ollama.version);
        }
        request::say_unused(&mut plan, machine);
        Ok(Some(plan))
    }

    fn admit(&self, request: RequestParts<'_>) -> Result<Admission, EngineError> {
        let RequestParts { model, machine, settings } = request;
        let plan = self.plan(RequestParts { settings: &requiring_full(settings), ..request })?;
        let reason = if self.release == OllamaRelease::August2025 {
            let (local, loaded) = (local_gpus_only(machine)?, request::loads(model, settings));
            estimate::eviction_reason(&Case::of(self.release, &loaded, &local, settings)?, &plan)
        } else {
            plan.refusal.clone().map(Admission::EvictOne)
        };
        Ok(reason.unwrap_or_else(|| Admission::load(plan)))
    }

    fn loads<'m>(&self, model: &'m Model, settings: &Settings) -> Cow<'m, Model> {
        request::loads(model, settings)
    }
}

impl Estimator {
    /// The formulas behind `plan`, which is a plan of the `model` that it [loads](Engine::loads).
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn formulas(&self, model: &Model, plan: &Plan) -> Result<PlanFormulas, EngineError> {
        PlanFormulas::of(&ModelFacts::of(model, self.release)?, model, plan)
    }

    /// Bytes of a tensor by its own count.
    pub fn tensor_bytes(&self, tensor: &Tensor) -> u64 {
        self.release.tensor_bytes(tensor)
    }

    /// The caches that the Ollama engine of the same period would allocate for `model` with the settings in effect,
    /// whether the model requires that engine or not.
    ///
    /// # Errors
    /// When the header lacks a key that Ollama requires.
    pub fn own_caches(&self, model: &Model, effect: &InEffect) -> Result<OwnCaches, EngineError> {
        Ok(kv_cache::caches(model, &ModelFacts::of(model, self.release)?, effect))
    }

    /// How this release classifies `model`.
    ///
    /// # Errors
    /// When the header lacks a key that the engine requires.
    pub fn traits(&self, model: &Model) -> Result<ModelTraits, EngineError> {
        Ok(ModelFacts::of(model, self.release)?.traits)
    }
}

/// Whether the requested layers fit on the GPUs of one library, and the bytes they take there, or would take on the
/// GPUs tried last: what the scheduler of Ollama up to 0.11 asks before it unloads another model.
///
/// # Errors
/// As for a plan.
pub fn predict(model: &Model, machine: &Machine, settings: &Settings) -> Result<(bool, Bytes), EngineError> {
    let loaded = request::loads(model, settings);
    Ok(estimate::predict(&Case::of(OLLAMA_011.release, &loaded, machine, settings)?))
}

/// A request with what placing its layers and assembling its plan need.
struct Case<'a> {
    model: &'a Model,
    machine: &'a Machine,
    settings: &'a Settings,
    facts: ModelFacts,
    effect: ResolvedSettings,
    sizes: Sizes,
    blocks: Vec<Block>,
    /// Bytes of the output layer.
    output: u64,
    /// Bytes of one layer, which are kept free on every GPU.
    buffer: u64,
    /// The vision part, which only the older release counts.
    vision: Vision,
    /// Bytes of a separate projector, likewise.
    projector: u64,
    own_caches: Option<OwnCaches>,
}

/// Bytes of a block; no weights if it has no tensors.
#[derive(Clone, Copy, Debug)]
struct Block {
    weights: Option<u64>,
    cache: u64,
}

impl Block {
    /// A block without tensors has no cache.
    fn kept_cache(&self) -> u64 {
        self.weights.map_or(0, |_| self.cache)
    }

    fn both(&self) -> u64 {
        self.weights.map_or(0, |weights| weights.wrapping_add(self.cache))
    }
}

impl<'a> Case<'a> {
    fn of(
        release: OllamaRelease,
        model: &'a Model,
        machine: &'a Machine,
        settings: &'a Settings,
    ) -> Result<Self, EngineError> {
        let older = release == OllamaRelease::August2025;
        let facts = ModelFacts::of(model, release)?;
        let mut effect = in_effect::resolve_settings(model, &facts, machine, settings)?;
        let sizes = Sizes::of(model, &facts, &effect.settings)?;
        let own_engine = facts.traits.own_engine;
        // counted for every architecture, although only the llama.cpp runner loads it
        let separate = settings.projector.as_ref().filter(|projector| older && projector.inside.is_none());
        let projector = separate.map_or(0, |projector| projector.tensor_bytes.0);
        let vision = if older && projector == 0 { Vision::of(model, &facts)? } else { Vision::default() };
        let block = |(index, cache): (usize, &std::sync::Arc<crate::plan::Term>)| {
            let mut tensors = model.tensors(TensorGroup::Block(index)).peekable();
            Block { weights: tensors.peek().is_some().then(|| release.sum(tensors)), cache: cache.bytes.0 }
        };
        let blocks: Vec<Block> = sizes.caches.iter().enumerate().map(block).collect();
        let buffer = match blocks.first() {
            Some(Block { weights: Some(weights), cache }) => weights.wrapping_add(*cache),
            Some(Block { cache, .. }) if older => *cache,
            _ if older => 0,
            _ => {
                let note = "the model has no tensors for block 0, so no one-layer buffer is reserved";
                effect.notes.push(note.to_owned());
                0
            }
        };
        Ok(Self {
            own_caches: own_engine.then(|| kv_cache::caches(model, &facts, &effect.settings)),
            output: release.sum(model.output_tensors()),
            model,
            machine,
            settings,
            facts,
            effect,
            sizes,
            blocks,
            buffer,
            vision,
            projector,
        })
    }

    /// The GPUs considered.
    fn gpus(&self) -> &'a [Gpu] {
        if self.effect.gpus { &self.machine.gpus } else { &[] }
    }

    /// All layers, including the output layer.
    fn layer_count(&self) -> usize {
        self.blocks.len() + 1
    }
}

/// Devices by library, in order of first appearance; RAM has none.
fn by_library<D: Copy>(devices: &[D], library: impl Fn(D) -> Option<Backend>) -> Vec<Vec<D>> {
    let mut groups: Vec<Vec<D>> = Vec::new();
    for &device in devices {
        match groups.iter_mut().find(|group| library(group[0]) == library(device)) {
            Some(group) => group.push(device),
            None => groups.push(vec![device]),
        }
    }
    groups
}
