//! Ollama's own lines, of `slog`: `time=… level=INFO source=… msg=… key=value …`.

use serde::Serialize;

use super::device::ObservedDevice;
use super::model::{self, ModelFact};
use super::said::Said;
use super::settings::{ObservedSettings, flash_attn};
use super::{Event, Mib, Program, Term, command, scan};
use crate::settings::GpuLayers;

/// What Ollama estimated before it loaded a model (to 0.12), in MiB of one decimal of the unit it was printed in.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OllamaEstimate {
    /// Backend: `cuda`.
    pub library: Option<String>,
    /// Layers that were asked for; -1 is any number.
    pub layers_requested: Option<i64>,
    /// Layers of the model, the output's included.
    pub layers_model: Option<u64>,
    /// Layers that go to GPUs.
    pub layers_offload: Option<u64>,
    /// Layers per GPU, where there are several: `16,17`.
    pub layers_split: Option<String>,
    /// Free memory per GPU.
    pub available: Vec<Mib>,
    /// Memory that it takes per GPU.
    pub allocations: Vec<Mib>,
    /// With all layers on GPUs.
    pub full: Option<Mib>,
    /// With the layers that go to GPUs.
    pub partial: Option<Mib>,
    /// KV cache.
    pub kv: Option<Mib>,
    /// All weights.
    pub weights: Option<Mib>,
    /// Weights of blocks.
    pub weights_repeating: Option<Mib>,
    /// Weights of the output layer.
    pub weights_nonrepeating: Option<Mib>,
    /// Graph with all layers on GPUs.
    pub graph_full: Option<Mib>,
    /// Graph with some layers on GPUs.
    pub graph_partial: Option<Mib>,
    /// Weights of the projector.
    pub projector_weights: Option<Mib>,
    /// Graph of the projector.
    pub projector_graph: Option<Mib>,
    /// Memory kept free on each GPU.
    pub gpu_overhead: Option<Mib>,
}

/// What Ollama asks of its runner.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Request {
    /// `fit`, `alloc`, `commit` or `close`.
    pub operation: String,
    pub settings: ObservedSettings,
}

/// A line of Ollama.
pub(super) fn read(text: &str) -> Option<Said<'_>> {
    let message = scan::value(text, "msg")?;
    if let Some(rest) = message.strip_prefix("offloaded ") {
        return model::offloaded(rest).map(Said::Model);
    }
    let device = || ["device", "buffer", "buffer_type"].iter().find_map(|key| scan::value(text, key));
    let own = |term| {
        let (device, mib) = (device()?, scan::size(scan::value(text, "size")?)?);
        (device.len() <= 64).then_some(Said::Own { device, term, mib })
    };
    let starts = ["starting llama-server", "starting llama server", "starting runner", "starting ollama engine"];
    match message {
        "model weights" => own(Term::Model),
        "kv cache" => own(Term::Kv),
        "compute graph" => own(Term::Compute),
        "total memory" => Some(Said::OwnTotal),
        "load" => request(scan::value(text, "request")?),
        "system memory" => memory("CPU".to_owned(), text),
        "gpu memory" => memory(format!("{}{}", scan::value(text, "library")?, scan::value(text, "id")?), text),
        "inference compute" => inference(text),
        "" => described(text),
        "template selection" => Some(Said::Named(scan::value(text, "model")?)),
        _ if starts.contains(&message) => {
            let line = scan::value(text, "cmd")?.replace("\\\"", "\"");
            Some(Said::Start(Program::Ollama, command::read(&line)))
        }
        _ if message.starts_with("offload") => estimate(text).map(|estimate| Said::Estimate(Box::new(estimate))),
        _ if message.contains("started in ") && message.ends_with("seconds") => Some(Said::Ready),
        _ if message.starts_with("Listening on") => {
            Some(Said::Version(Program::Ollama, scan::between(message, "(version ", ")")?))
        }
        _ if message.starts_with("disabling mmap") => {
            let reason = scan::value(text, "reason").unwrap_or(message);
            Some(Said::Event(Event::MmapOff(scan::clip(reason, 256))))
        }
        _ if message.starts_with("llama-server load failed") || message.contains("error loading model") => {
            Some(Said::Event(Event::Failed(scan::clip(message, 256))))
        }
        _ => None,
    }
}

/// A device's memory in a line with `total`, `available` and `free`.
fn memory(name: String, text: &str) -> Option<Said<'_>> {
    let size = |key: &str| scan::value(text, key).and_then(scan::size);
    let free = size("free").or(size("available"));
    let device = ObservedDevice { name, total: size("total"), free, ..ObservedDevice::default() };
    (device.name.len() <= 64 && free.is_some()).then_some(Said::Device(device))
}

/// A GPU that Ollama found when it started. It has a backend's name since 0.12, and only an id before.
fn inference(text: &str) -> Option<Said<'_>> {
    let value = |key: &str| scan::value(text, key).filter(|value| !value.is_empty());
    let size = |key: &str| scan::value(text, key).and_then(scan::size);
    let (name, description) = match value("description") {
        Some(description) => (value("name")?, Some(description)),
        None => (value("id")?, value("name")),
    };
    Some(Said::Device(ObservedDevice {
        name: scan::clip(name, 64),
        description: description.map(|text| scan::clip(text, 128)),
        bus: value("pci_id").map(|text| scan::clip(text, 32)),
        total: size("total"),
        free: size("available"),
    }))
}

/// A model that Ollama's own engine opens.
fn described(text: &str) -> Option<Said<'_>> {
    let value = |key| scan::value(text, key).filter(|value| !value.is_empty());
    Some(Said::Model(ModelFact::Described {
        architecture: value("architecture")?,
        file_type: value("file_type"),
        name: value("name"),
        tensors: value("num_tensors").and_then(|count| count.parse().ok()),
    }))
}

/// `{Operation:fit LoraPath:[] Parallel:1 BatchSize:512 FlashAttention:Enabled KvSize:8192 KvCacheType: …}`
fn request(text: &str) -> Option<Said<'_>> {
    let field = |key: &str| {
        let rest = scan::after(text, key)?;
        rest.split([' ', '}', '[']).next().filter(|value| !value.is_empty())
    };
    let count = |key: &str| field(key).and_then(|value| value.parse().ok());
    let batch = count("BatchSize:");
    let cache = field("KvCacheType:").and_then(|name| name.parse().ok());
    let settings = ObservedSettings {
        n_ctx: count("KvSize:"),
        n_seq_max: count("Parallel:"),
        n_batch: batch,
        n_ubatch: batch,
        flash_attn: field("FlashAttention:").and_then(flash_attn),
        cache_type_k: cache,
        cache_type_v: cache,
        gpu_layers: count("GPULayers:").map(GpuLayers::Count),
        load_mode: field("UseMmap:").map(|mapped| if mapped == "true" { "mmap" } else { "none" }.to_owned()),
        mmproj: field("ProjectorPath:").map(scan::name),
        ..ObservedSettings::default()
    };
    let operation = scan::clip(field("Operation:")?, 16);
    Some(Said::Request(Request { operation, settings }))
}

/// The estimate of `memory.go`.
fn estimate(text: &str) -> Option<OllamaEstimate> {
    let size = |key: &str| scan::value(text, key).and_then(scan::size);
    let count = |key: &str| scan::value(text, key).and_then(|value| value.parse().ok());
    let list = |key: &str| {
        let list = scan::value(text, key).unwrap_or_default().trim_matches(['[', ']']);
        // `10.9 GiB 23.1 GiB`
        let words: Vec<&str> = list.split_whitespace().take(2 * super::limits::DEVICES).collect();
        words.chunks(2).filter_map(|pair| scan::size(&pair.join(" "))).collect()
    };
    let word = |key: &str| scan::value(text, key).filter(|value| !value.is_empty()).map(|value| scan::clip(value, 256));
    let layers_offload =
        ["layers.offload", "layers.real", "layers.estimate"].iter().find_map(|key| count(key)).or(None)?;
    Some(OllamaEstimate {
        library: word("library"),
        layers_requested: scan::value(text, "layers.requested").and_then(|value| value.parse().ok()),
        layers_model: count("layers.model"),
        layers_offload: Some(layers_offload),
        layers_split: word("layers.split"),
        available: list("memory.available"),
        allocations: list("memory.required.allocations"),
        full: size("memory.required.full"),
        partial: size("memory.required.partial"),
        kv: size("memory.required.kv"),
        weights: size("memory.weights.total"),
        weights_repeating: size("memory.weights.repeating"),
        weights_nonrepeating: size("memory.weights.nonrepeating"),
        graph_full: size("memory.graph.full"),
        graph_partial: size("memory.graph.partial"),
        projector_weights: size("projector.weights"),
        projector_graph: size("projector.graph"),
        gpu_overhead: size("memory.gpu_overhead"),
    })
}
