//! What is loaded together: the model, and the projectors and the draft that come with it.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::{DevicePlan, LayerPlan, Plan, Why};
use crate::machine::BufferLimit;
use crate::named::named;
use crate::settings::knob::Knob;
use crate::units::{Bytes, Tokens};

/// One of the models loaded together, with its memory on every device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which one it is.
    pub kind: PartKind,
    /// Its file as the user named it; none if it is not known, or is that of the model.
    pub file: Option<String>,
    /// Its memory on each of [`Plan::devices`](super::Plan::devices), in their order.
    pub devices: Vec<PartMemory>,
}

named! {
    /// The models that llama-server loads together.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum PartKind {
        /// The model itself.
        Model = "model",
        /// The projector of images.
        Vision = "vision",
        /// The projector of sounds.
        Audio = "audio",
        /// The model that drafts tokens, or the model's own blocks for that (MTP).
        Draft = "draft",
        /// Adapters of the model's weights, and control vectors.
        Adapters = "adapters",
    }
}

impl PartKind {
    /// As in a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Vision => "vision projector",
            Self::Audio => "audio projector",
            Self::Draft => "draft",
            Self::Adapters => "adapters",
        }
    }
}

/// The memory of a part on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartMemory {
    /// Weights.
    pub weights: Bytes,
    /// The part of `weights` in a layout of the CPU's own (`CPU_REPACK`).
    pub repacked: Bytes,
    /// The part of `weights` that is pages of a mapped file which nothing reads after the load.
    pub read_once: Bytes,
    /// KV caches and recurrent states.
    pub cache: Bytes,
    /// The compute buffer as reserved while loading.
    pub graph: Bytes,
    /// The compute buffer that stays once the first batches or images have been computed.
    pub graph_ready: Bytes,
}

impl Part {
    /// The part of a model that comes alone and has all memory of `devices`.
    pub fn alone(devices: &[DevicePlan]) -> Vec<Self> {
        let memory = |device: &DevicePlan| PartMemory {
            weights: device.weights,
            repacked: device.ram.repacked,
            read_once: device.ram.read_once,
            cache: device.cache,
            graph: device.graph,
            graph_ready: device.graph,
        };
        vec![Self { kind: PartKind::Model, file: None, devices: devices.iter().map(memory).collect() }]
    }

    /// Sets the memory of `devices` to the sums over `parts`.
    pub fn sum_into(parts: &[Self], devices: &mut [DevicePlan]) {
        for (at, device) in devices.iter_mut().enumerate() {
            let of_device = || parts.iter().filter_map(|part| part.devices.get(at));
            device.weights = of_device().map(|memory| memory.weights).sum();
            device.ram.repacked = of_device().map(|memory| memory.repacked).sum();
            device.ram.read_once = of_device().map(|memory| memory.read_once).sum();
            device.cache = of_device().map(|memory| memory.cache).sum();
            device.graph = of_device().map(|memory| memory.graph).sum();
            device.growth = of_device().map(|memory| memory.graph_ready).sum::<Bytes>() - device.graph;
        }
    }

    /// The same part with its memory at `places` among `count` devices; what has no place is on the last one.
    #[must_use]
    pub fn spread_over(self, places: &[usize], count: usize) -> Self {
        let mut devices = vec![PartMemory::default(); count];
        for (at, memory) in self.devices.into_iter().enumerate() {
            let place = places.get(at).copied().unwrap_or(count.saturating_sub(1));
            if let Some(device) = devices.get_mut(place) {
                *device = memory;
            }
        }
        Self { devices, ..self }
    }

    /// Its memory on all devices.
    pub fn total(&self) -> Bytes {
        self.devices.iter().map(|memory| memory.asked()).sum()
    }
}

impl PartMemory {
    /// Weights, cache and graph as reserved.
    pub fn asked(self) -> Bytes {
        self.weights + self.cache + self.graph
    }

    /// The same without pages that nothing reads after the load.
    pub fn needed(self) -> Bytes {
        self.asked() - self.read_once
    }
}

/// The peak of one device's compute buffer, and the tensors alive at that step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peak {
    /// Index into [`super::Plan::devices`].
    pub device: usize,
    /// Size of the buffer: the sum of what is alive.
    pub bytes: Bytes,
    /// The tensor that is computed or copied at the peak, by llama.cpp's name: `ffn_moe_gate-12`.
    pub node: String,
    /// The step of the peak, from 1.
    pub step: usize,
    /// Number of steps.
    pub steps: usize,
    /// By kind, largest first.
    pub alive: Vec<AliveKind>,
}

/// Tensors of one kind that are alive at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AliveKind {
    /// The kind.
    pub kind: BufferKind,
    /// Their total size.
    pub bytes: Bytes,
    /// Tensors of this kind, largest first; none for fragmentation.
    pub tensors: Vec<AliveTensors>,
}

/// Tensors with the same name and shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AliveTensors {
    /// llama.cpp's name: `attn_inp_kq_mask`; for an unnamed one its operation.
    pub name: String,
    /// `f16 · 32768 × 512`.
    pub shape: String,
    /// Their number.
    pub count: usize,
    /// Their total size.
    pub bytes: Bytes,
}

named! {
    /// The purpose of tensors in a compute buffer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
    #[serde(rename_all = "kebab-case")]
    #[allow(missing_docs, reason = "each has a sentence of its own")]
    pub enum BufferKind {
        Logits = "logits",
        Scores = "attention scores",
        Attention = "queries, keys, values",
        Masks = "attention masks",
        Experts = "expert activations",
        Routing = "expert routing",
        FeedForward = "feed-forward activations",
        States = "recurrent states",
        Hidden = "hidden states",
        CopiedWeights = "weights copied from RAM",
        CopiedCaches = "KV cache copied from RAM",
        SplitInputs = "copies between devices",
        Inputs = "inputs",
        Intermediates = "intermediate tensors",
        Fragmentation = "fragmentation",
    }
}

impl BufferKind {
    /// The knob that changes it most, if one is named after what it does; otherwise the batch, which all grow with.
    pub const fn moved_by(self) -> Knob {
        match self {
            Self::Logits => Knob::Outputs,
            Self::Scores => Knob::FlashAttn,
            Self::Masks => Knob::Context,
            Self::Experts | Self::Routing | Self::CopiedWeights => Knob::CpuMoe,
            Self::CopiedCaches | Self::SplitInputs => Knob::GpuLayers,
            Self::Attention
            | Self::FeedForward
            | Self::States
            | Self::Hidden
            | Self::Inputs
            | Self::Intermediates
            | Self::Fragmentation => Knob::Ubatch,
        }
    }

    /// A description, as one sentence.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Logits => "One score per vocabulary entry, for each token whose output is requested.",
            Self::Scores => {
                "How strongly each token of the ubatch attends to each cell of the KV cache, per head; flash \
                 attention never stores them in full."
            }
            Self::Attention => "The inputs and outputs of attention: queries, keys, values and their products.",
            Self::Masks => {
                "Which token may attend to which cell of the KV cache: ubatch × context, so it grows with both."
            }
            Self::Experts => "The outputs of the selected experts of a block, several per token of the ubatch.",
            Self::Routing => "The experts selected for each token, and their weights.",
            Self::FeedForward => "The outputs of a block's feed-forward network, wider than the hidden state.",
            Self::States => {
                "The states that recurrent blocks carry from token to token, and their intermediate \
                             results."
            }
            Self::Hidden => "The tokens of the ubatch as they pass from block to block.",
            Self::CopiedWeights => {
                "Weights in RAM that are copied here for one operation, because a GPU is faster for many tokens \
                 (--no-op-offload turns this off)."
            }
            Self::CopiedCaches => "Parts of the KV cache on another device that are copied here for attention.",
            Self::SplitInputs => "Results from another device that are read here.",
            Self::Inputs => "Data set before the graph runs: tokens, positions and similar.",
            Self::Intermediates => {
                "Results of no kind of their own. Each is held until the last operation that reads it: the next one, \
                 or one much later."
            }
            Self::Fragmentation => {
                "Space that no live tensor occupies at this point, but an earlier or later one does."
            }
        }
    }
}

/// The caches that the Ollama engine allocates for a model, block by block.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct OwnCaches {
    /// All blocks, without checkpoints.
    pub bytes: Bytes,
    /// Maximum size of all checkpoints of recurrent states.
    pub checkpoints: Bytes,
    /// The attention masks of the largest batch, which are part of the graph.
    pub masks: Bytes,
    /// One per block.
    pub layers: Vec<OwnCache>,
}

/// One block's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct OwnCache {
    /// What it stores.
    #[serde(flatten)]
    pub kind: OwnCacheKind,
    /// Cells of all sequences; a cell holds one token's keys and values.
    pub cells: u64,
    /// Keys.
    pub k: Bytes,
    /// Values.
    pub v: Bytes,
    /// Recurrent state of all sequences.
    pub state: Bytes,
    /// Maximum size of the checkpoints of that state.
    pub checkpoints: Bytes,
}

/// What a cache stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum OwnCacheKind {
    /// Nothing: the block has no cache, or uses that of another one.
    #[default]
    None,
    /// All tokens of all sequences.
    Causal,
    /// The last tokens of every sequence, and one batch.
    Window {
        /// Tokens that attention covers.
        window: u64,
        /// Tokens kept per sequence.
        memory: u64,
    },
    /// All tokens, although attention is limited to chunks.
    Chunked,
    /// The tokens of an image, allocated with the first image.
    Encoder,
    /// A state of constant size.
    Recurrent,
}

impl OwnCache {
    /// Keys, values and state.
    pub fn bytes(&self) -> Bytes {
        self.k + self.v + self.state
    }

    /// What it stores, in a few words.
    pub fn description(&self) -> String {
        let cells = Tokens(self.cells);
        match self.kind {
            OwnCacheKind::None => "no cache".to_owned(),
            OwnCacheKind::Causal => format!("{cells} cells, all tokens"),
            OwnCacheKind::Chunked => format!("{cells} cells, all tokens, chunked attention"),
            OwnCacheKind::Window { window, memory } if memory > window => {
                let (window, memory) = (Tokens(window), Tokens(memory));
                format!("{cells} cells for a window of {window} and a memory of {memory}")
            }
            OwnCacheKind::Window { window, .. } => format!("{cells} cells for a window of {}", Tokens(window)),
            OwnCacheKind::Encoder => format!("{cells} cells for an image"),
            OwnCacheKind::Recurrent => "recurrent state".to_owned(),
        }
    }
}

impl OwnCaches {
    /// The caches grouped by kind, in order of first appearance: number of blocks, and one of them.
    pub fn kinds(&self) -> Vec<(usize, OwnCache)> {
        let mut kinds: Vec<(usize, OwnCache)> = Vec::new();
        for layer in &self.layers {
            match kinds.iter_mut().find(|(_, kind)| kind.kind == layer.kind && kind.cells == layer.cells) {
                Some((count, _)) => *count += 1,
                None => kinds.push((1, *layer)),
            }
        }
        kinds
    }

    /// The difference from an estimate of `estimated` bytes, as one sentence.
    pub fn sentence(&self, estimated: Bytes) -> String {
        let kinds = self.kinds().into_iter().filter(|(_, kind)| kind.kind != OwnCacheKind::None);
        let kinds: Vec<String> = kinds.map(|(count, kind)| format!("{count} × {}", kind.description())).collect();
        let against = match self.bytes.cmp(&estimated) {
            std::cmp::Ordering::Equal => "as estimated".to_owned(),
            _ => format!("not the estimated {estimated}"),
        };
        let checkpoints = match self.checkpoints {
            Bytes::ZERO => String::new(),
            max => format!(". Checkpoints may take {max} more"),
        };
        format!(
            "Ollama's own engine allocates {} of KV cache, {against}. In cells: {}{checkpoints}",
            self.bytes,
            kinds.join(", ")
        )
    }
}

/// The largest buffer that a backend asks its driver for, at most: where memory is divided into several buffers, no
/// tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct LargestBuffer {
    /// Its size.
    pub bytes: Bytes,
    /// What it is for.
    pub holds: BufferUse,
    /// What the driver allows, where that is known.
    pub limit: Option<BufferLimit>,
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum BufferUse {
    Weights,
    Cache,
    Graph,
}

impl BufferUse {
    /// In the order in which llama.cpp allocates them.
    pub const ALL: [Self; 3] = [Self::Weights, Self::Cache, Self::Graph];

    /// What is in such buffers and how long, in one or two sentences.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Weights => {
                "The numbers that the model has learned, in the types of its file. They stay from the load to the end \
                 and do not depend on the context."
            }
            Self::Cache => {
                "What is kept of the tokens so far: keys and values, or the state of recurrent blocks. It is allocated \
                 at the load and stays to the end."
            }
            Self::Graph => {
                "Room for the results of one batch's operations. It is reserved at the load for the largest batch, and \
                 every batch uses it again: nothing in it outlasts its batch."
            }
        }
    }

    /// As in a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Cache => "cache",
            Self::Graph => "compute buffer",
        }
    }
}

impl LargestBuffer {
    /// Whether the driver would refuse it.
    pub fn is_refused(&self) -> bool {
        self.limit.is_some_and(|limit| self.bytes > limit.bytes)
    }
}

/// `1.0 GiB (weights); the driver allows 4.0 GiB (Mesa's drivers)`
impl fmt::Display for LargestBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.bytes, self.holds.title())?;
        self.limit.map_or(Ok(()), |limit| write!(f, "; {limit}"))
    }
}

/// What a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerKind {
    /// A block of the model.
    Block,
    /// A block that predicts the token after the next one, for drafting: `NextN`, or MTP.
    Nextn,
    /// The output layer.
    Output,
}

impl Plan {
    /// What the layer of this index in [`Plan::layers`] is.
    pub fn layer_kind(&self, index: usize) -> LayerKind {
        if index + 1 == self.layers.len() {
            LayerKind::Output
        } else if self.model.nextn_layers > 0 && index >= self.model.layers - self.model.nextn_layers {
            LayerKind::Nextn
        } else {
            LayerKind::Block
        }
    }

    /// `layer 12`, `NextN (MTP) layer 92`, or `output layer`.
    pub fn layer_name(&self, index: usize) -> String {
        match self.layer_kind(index) {
            LayerKind::Block => format!("layer {index}"),
            LayerKind::Nextn => format!("NextN (MTP) layer {index}"),
            LayerKind::Output => "output layer".to_owned(),
        }
    }
}

impl LayerPlan {
    /// Why it is on its device; `devices` are the plan's.
    pub fn reason(&self, devices: &[DevicePlan]) -> String {
        let place = |device: usize| devices.get(device).map_or("the GPU", |device| device.id.as_str());
        match &self.why {
            Why::Fits { needed, room } => format!("It needs {needed}, and {room} was free."),
            Why::InPart { needed, elsewhere } => {
                format!("{needed} of it is here; {elsewhere} of its weights is on another device to make room.")
            }
            Why::NoRoom { needed, room, device } => {
                format!("It needs {needed}, and {} had only {room} left.", place(*device))
            }
            Why::AskedFor => "This many layers on GPU were requested.".to_owned(),
            Why::NotAskedFor => "Fewer layers on GPU were requested.".to_owned(),
            Why::OutputDropped => "Not everything fits, so the engine keeps the output layer in RAM.".to_owned(),
            Why::NoGpu => "There is no GPU.".to_owned(),
            Why::GivenUp { device, layer, needed, room, own } => format!(
                "Layer {layer}, {needed}, was the first without room on {}, which had {room} left; this one would have \
                 needed {own}.",
                place(*device),
            ),
            Why::NotCounted => "llama.cpp's fit does not count the NextN (MTP) block, so one layer fewer is on GPU \
                                than there is room for."
                .to_owned(),
            Why::Nothing => "It has no tensors to place.".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::plan::Term;
    use crate::units::Bytes;

    #[test]
    fn a_gpu_missing_in_the_plan_is_named_generically() {
        let why = Why::NoRoom { needed: Bytes::mib(512), room: Bytes::mib(100), device: 7 };
        let cache_term = Arc::new(Term::nothing("no cache"));
        let layer = LayerPlan {
            index: 0,
            device: 1,
            weights: Bytes::mib(512),
            cache: Bytes::ZERO,
            per_token: Bytes::ZERO,
            cache_term,
            why,
        };
        assert_eq!(layer.reason(&[]), "It needs 512 MiB, and the GPU had only 100 MiB left.");
    }
}
