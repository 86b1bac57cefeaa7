//! What is loaded beside the model: where each part is, why it takes what it takes, and what leaves it out.

use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::PlanRequest;
use crate::plan::{Part, PartKind, Plan};
use crate::settings::{CacheType, MmprojDevice};
use crate::units::{Bytes, Tokens};

/// A projector or a draft in a plan.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PartAnswer {
    /// Which one it is.
    pub part: PartKind,
    /// Its file as the user named it; none if it is not known, or is that of the model.
    pub file: Option<String>,
    /// What it takes, on each device where that is anything.
    pub devices: Vec<PartOnDevice>,
    /// Where it is, why its weights, caches and compute buffers have their sizes, and what leaves it out; one sentence
    /// each.
    pub reasons: Vec<String>,
}

/// What a part takes on one device.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PartOnDevice {
    /// The device: `GPU0`.
    pub device: String,
    /// Weights.
    pub weights: Bytes,
    /// KV caches and recurrent states.
    pub cache: Bytes,
    /// The compute buffer as reserved while loading.
    pub graph: Bytes,
    /// The compute buffer that stays once the first batches or images have been computed.
    pub graph_ready: Bytes,
}

/// The parts beside the model in `plan`, the plan of `request`.
pub fn of(request: &PlanRequest, plan: &Plan) -> Vec<PartAnswer> {
    let answer = |part: &Part| {
        let reasons = match part.kind {
            PartKind::Model => return None,
            PartKind::Vision | PartKind::Audio => of_projector(request, plan, part),
            PartKind::Draft => of_draft(request, plan, part),
            PartKind::Adapters => of_adapters(),
        };
        Some(PartAnswer { part: part.kind, file: part.file.clone(), devices: on_devices(plan, part), reasons })
    };
    plan.parts.iter().filter_map(answer).collect()
}

/// What each part beside the model takes, in one line: `vision projector: 812 MiB weights, 96 MiB compute on GPU0`.
pub fn sentences(plan: &Plan) -> Vec<String> {
    let beside = plan.parts.iter().filter(|part| part.kind != PartKind::Model);
    beside.map(|part| format!("{}: {}", part.kind.title(), amounts(&on_devices(plan, part)))).collect()
}

impl PartAnswer {
    /// What it takes: `812 MiB weights, 96 MiB compute on GPU0; 13 MiB compute in RAM`.
    pub fn amounts(&self) -> String {
        amounts(&self.devices)
    }
}

fn amounts(devices: &[PartOnDevice]) -> String {
    let on = |device: &PartOnDevice| {
        let kinds = [("weights", device.weights), ("cache", device.cache), ("compute", device.graph)];
        let kinds = kinds.into_iter().filter(|(_, bytes)| *bytes > Bytes::ZERO);
        let kinds: Vec<String> = kinds.map(|(name, bytes)| format!("{bytes} {name}")).collect();
        format!("{} {}", kinds.join(", "), place(&device.device))
    };
    let devices: Vec<String> = devices.iter().map(on).collect();
    if devices.is_empty() { "takes nothing of its own".to_owned() } else { devices.join("; ") }
}

fn place(device: &str) -> String {
    if device == "CPU" { "in RAM".to_owned() } else { format!("on {device}") }
}

fn on_devices(plan: &Plan, part: &Part) -> Vec<PartOnDevice> {
    let taken = plan.devices.iter().zip(&part.devices).filter(|(_, memory)| memory.asked() > Bytes::ZERO);
    let on = |(device, memory): (&crate::plan::DevicePlan, &crate::plan::PartMemory)| PartOnDevice {
        device: device.id.clone(),
        weights: memory.weights,
        cache: memory.cache,
        graph: memory.graph,
        graph_ready: memory.graph_ready,
    };
    taken.map(on).collect()
}

fn of_projector(request: &PlanRequest, plan: &Plan, part: &Part) -> Vec<String> {
    let on_gpu = part.devices.iter().zip(plan.gpus()).any(|(memory, _)| memory.weights > Bytes::ZERO);
    // Ollama's own decision is in its notes
    let decided = plan.notes.iter().find(|note| note.contains("stays in RAM: ") && note.contains("projector"));
    let place = match (request.settings.mmproj.device, decided) {
        (MmprojDevice::Cpu, _) => "--no-mmproj-offload keeps it in RAM; without, it is on the first GPU.".to_owned(),
        (MmprojDevice::Gpu(gpu), _) => {
            format!("--mmproj-device puts it on GPU{gpu}; --no-mmproj-offload would keep it in RAM.")
        }
        (MmprojDevice::First, Some(note)) if !on_gpu => format!("In RAM by Ollama's decision: {note}."),
        (MmprojDevice::First, _) if on_gpu => "llama-server puts a projector on the first GPU, even if layers of the \
                                               model are in RAM; --no-mmproj-offload keeps it in RAM, --mmproj-device \
                                               names another GPU."
            .to_owned(),
        (MmprojDevice::First, _) => "It is in RAM: there is no GPU for it.".to_owned(),
    };
    let weights = "Weights: all tensors of its encoder, on one device; a projector is never split.".to_owned();
    let all = |of: fn(&crate::plan::PartMemory) -> Bytes| part.devices.iter().map(of).sum::<Bytes>();
    let (reserved, grown) = (all(|memory| memory.graph), all(|memory| memory.graph_ready));
    let input = if part.kind == PartKind::Audio { "sound" } else { "image" };
    let mut compute = match (reserved, grown > reserved) {
        (Bytes::ZERO, _) => "Compute: nothing is reserved for it, or only the size of its file is known".to_owned(),
        (_, false) => format!("Compute: reserved for a test {input} while it loads, and no {input} needs more"),
        (_, true) => {
            format!("Compute: reserved for a test {input} while it loads; grows to {grown} with the largest {input}")
        }
    };
    if part.kind == PartKind::Vision && plan.settings.image_max_tokens.is_some() {
        compute += ", which --image-max-tokens limits";
    }
    vec![place, weights, compute + ".", "--no-mmproj leaves it out.".to_owned()]
}

fn of_adapters() -> Vec<String> {
    let place = "Weights: each pair of matrices is on the device of the matrix that it is beside, and a control vector's \
                 rows are on those of the layers.";
    let fit = "They are loaded after the model, and llama.cpp's fit does not count them.";
    vec![place.to_owned(), fit.to_owned(), "Without --lora and --control-vector they are not loaded.".to_owned()]
}

fn of_draft(request: &PlanRequest, plan: &Plan, part: &Part) -> Vec<String> {
    let asked = &request.settings.draft;
    let types = [asked.cache_type_k, asked.cache_type_v].map(|ty| ty.unwrap_or(CacheType::F16));
    let types = if types[0] == types[1] { types[0].to_string() } else { format!("{} and {}", types[0], types[1]) };
    let (place, off) = if part.file.is_some() {
        (
            "Weights: all layers of the draft are on GPU unless --gpu-layers-draft or --device-draft say otherwise.",
            "Without --model-draft it is not loaded.",
        )
    } else {
        (
            "Weights: the model's own blocks draft (MTP); they are counted with the model.",
            "Without --spec-type draft-mtp they are not used.",
        )
    };
    vec![
        place.to_owned(),
        format!(
            "Cache: its own layers keep the model's {} tokens, in {types} (--cache-type-k-draft, --cache-type-v-draft).",
            Tokens(plan.settings.ctx_total)
        ),
        format!(
            "Compute: reserved for {} tokens at once, as the model's buffers are; --ubatch makes both smaller.",
            Tokens(plan.settings.ubatch)
        ),
        off.to_owned(),
    ]
}
