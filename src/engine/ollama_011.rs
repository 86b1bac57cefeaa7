//! Ollama up to 0.11, whose estimator fills GPUs layer by layer: commit d5a0d8d904, 14 August 2025.

mod assemble;
pub(super) mod engine;
mod estimate;
pub(super) mod facts;
mod gpu_layers;
mod pick;
mod rules;
mod traits;

use super::admission::Admission;
use super::compared::{ComparedVersions, VersionDifference, version};
use super::graph_size::{self, FormulaInputs, ModelFacts, OllamaRelease, Sizes, Vision};
use super::id::EngineError;
use super::kvcache;
use super::request::{self, ResolvedSettings};
use crate::machine::{Backend, Machine};
use crate::model::{Model, TensorGroup};
use crate::plan::{OwnCaches, Plan};
use crate::settings::Settings;
use crate::units::Bytes;
use estimate::{BlockBytes, EstimateDevice, EstimateTask};

pub use traits::{ArchitectureTraits, bytes_per_element};

/// The versions whose estimate it is. Source: the histories of `fs/ggml/ggml.go` and `llm/memory.go`, Ollama 0.9 to
/// 0.11.11, compared with the commit.
pub(super) const VERSIONS: ComparedVersions = ComparedVersions {
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
            what: "counts a graph four times as large where layers are in RAM, and twice as large where none is",
        },
        VersionDifference {
            since: version(11, 3),
            before: version(11, 5),
            architectures: GPT_OSS,
            what: "counts a graph twice as large",
        },
        VersionDifference {
            since: version(11, 8),
            before: version(12, 0),
            architectures: GPT_OSS,
            what: "turns on flash attention for it and counts another graph then",
        },
    ],
};

const GPT_OSS: &[&str] = &["gptoss", "gpt-oss"];

const RELEASE: OllamaRelease = OllamaRelease::August2025;

/// The traits of `model` that matter to the engine's rules.
///
/// # Errors
/// When the header lacks a key that the engine requires.
pub fn traits(model: &Model) -> Result<ArchitectureTraits, EngineError> {
    Ok(ArchitectureTraits::of(model, &ModelFacts::of(model, RELEASE)?))
}

/// Whether the requested layers fit on the GPUs of one library, and the bytes they take there, or would take on the
/// GPUs tried last: what the scheduler asks before it unloads another model.
///
/// # Errors
/// As for a plan.
pub fn predict(model: &Model, machine: &Machine, settings: &Settings) -> Result<(bool, Bytes), EngineError> {
    let case = EstimateInputs::of(&request::loads(model, settings), machine, settings)?;
    let (fits, vram) = pick::predict(&case.task, &case.devices);
    Ok((fits, Bytes(vram)))
}

/// What must be evicted before `model` is loaded, and why; `plan` is the one that requires full offload. None if
/// nothing must. Source: `llm/server.go`, `llamaServer.Load`, Ollama, August 2025.
pub(super) fn eviction_reason(
    model: &Model,
    machine: &Machine,
    settings: &Settings,
    plan: &Plan,
) -> Result<Option<Admission>, EngineError> {
    let case = EstimateInputs::of(&request::loads(model, settings), machine, settings)?;
    let picked = pick::pick(&case.task, &case.devices, settings.spread, true);
    let (needed, free) = (Bytes(picked.estimate.total()), machine.ram.free);
    Ok(match plan.refusal.clone() {
        Some(why) if picked.refused => Some(Admission::EvictOne(why)),
        // exceeding RAM and swap is an error, independent of other loaded models
        Some(why) => Some(Admission::Refused(why)),
        None if plan.offloaded == 0 && needed > free => {
            Some(Admission::EvictOne(format!("it needs {needed} of RAM, but {free} is free")))
        }
        None => None,
    })
}

pub(super) fn plan(model: &Model, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
    let model = &*request::loads(model, settings);
    let EstimateInputs { traits, effect, mut sizes, vision, own_caches, task, devices } =
        EstimateInputs::of(model, machine, settings)?;
    let picked = pick::pick(&task, &devices, settings.spread, settings.require_full);
    match picked.estimate.slots.as_slice() {
        [first, ..] if first.device.backend == Some(Backend::Metal) => sizes.on_metal(),
        [_, _, ..] => sizes.on_several_gpus(),
        _ => {}
    }
    let mut plan = assemble::plan(assemble::PlanInputs {
        model,
        machine,
        settings,
        traits,
        effect,
        sizes,
        vision,
        own_caches,
        task,
        picked,
    });
    VERSIONS.say(&mut plan, settings.ollama.version);
    Ok(plan)
}

/// The input of the estimate.
struct EstimateInputs {
    traits: ArchitectureTraits,
    effect: ResolvedSettings,
    sizes: Sizes,
    vision: Vision,
    own_caches: Option<OwnCaches>,
    task: EstimateTask,
    devices: Vec<EstimateDevice>,
}

impl EstimateInputs {
    fn of(model: &Model, machine: &Machine, settings: &Settings) -> Result<Self, EngineError> {
        let facts = ModelFacts::of(model, RELEASE)?;
        let traits = ArchitectureTraits::of(model, &facts);
        let effect = rules::resolve_settings(model, traits, machine, settings)?;
        let knobs = FormulaInputs::of(&effect.settings, bytes_per_element);
        let sizes = graph_size::sizes(model, &facts, knobs)?;
        // counted for every architecture, although only the llama.cpp runner loads it
        let separate = settings.projector.as_ref().filter(|projector| projector.inside.is_none());
        let projector = separate.map_or(0, |projector| projector.tensor_bytes.0);
        let vision = if projector > 0 { Vision::none() } else { Vision::of(model, &facts)? };
        let blocks = sizes.caches.iter().enumerate().map(|(index, cache)| block(model, index, cache.bytes.0)).collect();
        let task = EstimateTask {
            blocks,
            output: sum(model.output_tensors()),
            vision_weights: vision.weights.0,
            vision_graph: vision.graph.bytes.0,
            projector,
            overhead: settings.gpu_overhead.0,
            partial: sizes.partial.bytes.0,
            full: sizes.full.bytes.0,
            requested: effect.requested,
        };
        let devices = if effect.gpus {
            EstimateDevice::all_of(machine)
        } else {
            EstimateDevice::all_of(&Machine { gpus: Vec::new(), ..machine.clone() })
        };
        let own_caches = traits.own_engine.then(|| kvcache::caches(model, &facts, &effect.settings));
        Ok(Self { traits, effect, sizes, vision, own_caches, task, devices })
    }
}

fn block(model: &Model, index: usize, cache: u64) -> BlockBytes {
    let mut tensors = model.tensors(TensorGroup::Block(index)).peekable();
    let weights = tensors.peek().is_some().then(|| sum(tensors));
    BlockBytes { weights, cache }
}

fn sum<'m>(tensors: impl Iterator<Item = &'m crate::gguf::Tensor>) -> u64 {
    tensors.map(|tensor| RELEASE.tensor_bytes(tensor)).fold(0, u64::wrapping_add)
}
