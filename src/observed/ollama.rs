//! Ollama's own lines, written by `slog` (`time=… level=INFO source=… msg=… key=value …`), and the output of `ollama
//! ps`.

use serde::Serialize;
use serde_json::Value;

use super::context::ObservedSettings;
use super::model::{ObservedDevice, ObservedModel};
use super::pattern::{self, DeviceName, Hole, Kind, Row, Size, clip, patterns, value};
use super::{Event, Mib, Program, Term, command, limits};
use crate::plan::{LoggedBuffer, LoggedLoad, OllamaPs};
use crate::settings::{FlashAttn, GpuLayers};
use crate::units::Bytes;

pub(super) const ROWS: &[Row] = patterns! {
    /// time=2026-03-01 level=INFO source=ggml.go:494 msg="offloaded 0/35 layers to GPU"
    "msg=\"offloaded {}/{}" (on: u64, all: u64) => Kind::Model, |now| now.model().offloaded = Some((on, all));
    /// msg="model weights" device=CPU size="3.6 GiB"
    "msg=\"model weights\" {}={} size={}" (_: &str, device: DeviceName<'_>, size: Size) =>
        Kind::Loading, |now| now.add_own(device.0, Term::Model, size.0);
    /// msg="kv cache" device=CPU size="334.0 MiB"
    "msg=\"kv cache\" {}={} size={}" (_: &str, device: DeviceName<'_>, size: Size) =>
        Kind::Loading, |now| now.add_own(device.0, Term::Kv, size.0);
    /// msg="compute graph" device=CPU size="1.1 GiB"
    "msg=\"compute graph\" {}={} size={}" (_: &str, device: DeviceName<'_>, size: Size) =>
        Kind::Loading, |now| now.add_own(device.0, Term::Compute, size.0);
    /// msg="total memory" size="5.0 GiB"
    "msg=\"total memory\"" => Kind::Other, |now| now.own_over = true;
    /// msg=load request="{Operation:fit LoraPath:[] Parallel:1 BatchSize:512 FlashAttention:Enabled KvSize:8192}"
    "msg=load {}" (request: Request) => Kind::Loading, |now| now.request(request);
    /// msg="system memory" total="30.9 GiB" free="25.4 GiB" free_swap="2.0 GiB"
    "msg=\"system memory\" total={} free={}" (total: Size, free: Size) =>
        Kind::Loading, |now| now.add_device(memory("CPU", Some(total.0), free.0));
    /// msg="gpu memory" id=0 library=ROCm available="11.5 GiB" free="11.9 GiB" minimum="457.0 MiB" overhead="0 B"
    "msg=\"gpu memory\" id={} library={} available={} free={}" (id: &str, library: &str, _: &str, free: Size) =>
        Kind::Loading, |now| now.add_device(memory(&format!("{library}{id}"), None, free.0));
    /// msg="inference compute" id=GPU-1 library=CUDA compute=8.6 name=CUDA0 description="NVIDIA GeForce RTX 3090" pci_id=0000:07:00.0 type=discrete total="24.0 GiB" available="23.3 GiB"
    /// msg="inference compute" id=GPU-1 library=cuda variant=v12 compute=8.6 driver=12.4 name="NVIDIA GeForce RTX 3090" total="24.0 GiB" available="23.3 GiB"
    "msg=\"inference compute\" {}" (found: FoundGpu) => Kind::Loading, |now| now.add_device(found.0);
    /// msg="" architecture=gemma4 file_type=Q4_K_M name="" description="" num_tensors=1014 num_key_values=52
    "msg=\"\" {}" (model: OpenedModel) => Kind::Model, |now| {
        let OpenedModel { architecture, file_type, name, tensors } = model;
        let model = now.open_model();
        *model = ObservedModel { name, architecture, file_type, tensors, ..std::mem::take(model) };
    };
    /// msg="template selection" model=registry.ollama.ai/library/qwen3.6:latest selected=renderer_parser
    "msg=\"template selection\" model={}" (_: &str) =>
        Kind::Other, |now, line| now.load.asked = value(line, "model").map(pattern::name);
    /// msg="starting llama-server" cmd="/usr/lib/ollama/llama-server --model /b/sha256-9e --port 44067"
    /// msg="starting llama server" cmd="/tmp/ollama/runners/cuda_v12/ollama_llama_server --model /b/sha256-9e --ctx-size 8192"
    /// msg="starting runner" cmd="/usr/bin/ollama runner --model /b/sha256-9e --port 44067"
    /// msg="starting ollama engine" cmd="/usr/bin/ollama runner --ollama-engine --port 44067"
    "msg=\"starting llama-server\" {}" | "msg=\"starting llama server\" {}" | "msg=\"starting runner\" {}"
        | "msg=\"starting ollama engine\" {}" (command: RunnerCommand<'_>) =>
        Kind::Command, |now| now.start(Some(Program::Ollama), command::read(&command.0.replace("\\\"", "\"")));
    /// msg=offload library=cuda layers.requested=49 layers.model=49 layers.offload=48 memory.required.full="11.0 GiB"
    /// msg="offload to cuda" layers.requested=-1 layers.model=33 layers.estimate=33 memory.required.full="5.0 GiB"
    "msg=offload{}" | "msg=\"offload{}" (estimate: OllamaEstimate) => Kind::Start, |now| {
        now.note_ollama();
        now.load.estimate = Some(estimate);
    };
    /// msg="llama-server started in 36.45 seconds"
    "started in {} seconds\"" (_: &str) => Kind::Other, |now| now.serve();
    /// msg="Listening on 127.0.0.1:11434 (version 0.32.13)"
    "msg=\"Listening on {}(version {})" (_: &str, version: &str) =>
        Kind::Start, |now| now.set_version(Program::Ollama, version);
    /// msg="disabling mmap" reason="model does not fit in memory"
    "msg=\"disabling mmap" => Kind::Other, |now, line| {
        let reason = value(line, "reason").or(value(line, "msg")).unwrap_or_default();
        now.add_event(Event::MmapOff(clip(reason, 256)));
    };
    /// msg="llama-server load failed: exit status 1"
    /// msg="do load request: error loading model"
    "msg=\"llama-server load failed" | "error loading model" =>
        Kind::Other, |now, line| now.add_event(Event::Failed(clip(value(line, "msg").unwrap_or(line), 256)));
};

/// A device's memory before a load.
fn memory(name: &str, total: Option<Mib>, free: Mib) -> ObservedDevice {
    ObservedDevice { name: clip(name, 64), total, free: Some(free), ..ObservedDevice::default() }
}

/// Ollama's estimate before it loads a model (up to 0.12), in MiB; printed with one decimal of its unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OllamaEstimate {
    /// Backend: `cuda`.
    pub library: Option<String>,
    /// Layers requested; -1 means any number.
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

/// The estimate of `memory.go`.
impl Hole<'_> for OllamaEstimate {
    fn read(text: &str) -> Option<Self> {
        let size = |key: &str| pattern::value(text, key).and_then(pattern::size);
        let count = |key: &str| pattern::value(text, key).and_then(|value| value.parse().ok());
        let list = |key: &str| {
            let list = pattern::value(text, key).unwrap_or_default().trim_matches(['[', ']']);
            // `10.9 GiB 23.1 GiB`
            let words: Vec<&str> = list.split_whitespace().take(2 * limits::DEVICES).collect();
            words.chunks(2).filter_map(|pair| pattern::size(&pair.join(" "))).collect()
        };
        let word = |key: &str| {
            pattern::value(text, key).filter(|value| !value.is_empty()).map(|value| pattern::clip(value, 256))
        };
        let layers_offload =
            ["layers.offload", "layers.real", "layers.estimate"].iter().find_map(|key| count(key)).or(None)?;
        Some(Self {
            library: word("library"),
            layers_requested: pattern::value(text, "layers.requested").and_then(|value| value.parse().ok()),
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
}

/// A request of Ollama to its runner.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Request {
    /// `fit`, `alloc`, `commit` or `close`.
    pub operation: String,
    pub settings: ObservedSettings,
}

/// `{Operation:fit LoraPath:[] Parallel:1 BatchSize:512 FlashAttention:Enabled KvSize:8192 KvCacheType: …}`
impl Hole<'_> for Request {
    fn read(text: &str) -> Option<Self> {
        let text = value(text, "request")?;
        let field = |key: &str| {
            let rest = pattern::after(text, key)?;
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
            flash_attn: field("FlashAttention:").and_then(FlashAttn::of),
            cache_type_k: cache,
            cache_type_v: cache,
            gpu_layers: count("GPULayers:").map(GpuLayers::Count),
            load_mode: field("UseMmap:").map(|mapped| if mapped == "true" { "mmap" } else { "none" }.to_owned()),
            mmproj: field("ProjectorPath:").map(pattern::name),
            ..ObservedSettings::default()
        };
        Some(Self { operation: clip(field("Operation:")?, 16), settings })
    }
}

/// A GPU that Ollama found when it started. It has a backend's name since 0.12, and only an id before.
struct FoundGpu(ObservedDevice);

impl Hole<'_> for FoundGpu {
    fn read(text: &str) -> Option<Self> {
        let value = |key: &str| pattern::value(text, key).filter(|value| !value.is_empty());
        let size = |key: &str| pattern::value(text, key).and_then(pattern::size);
        let (name, description) = match value("description") {
            Some(description) => (value("name")?, Some(description)),
            None => (value("id")?, value("name")),
        };
        Some(Self(ObservedDevice {
            name: clip(name, 64),
            description: description.map(|text| clip(text, 128)),
            bus: value("pci_id").map(|text| clip(text, 32)),
            total: size("total"),
            free: size("available"),
        }))
    }
}

/// A model that Ollama's own engine opens.
struct OpenedModel {
    architecture: Option<String>,
    file_type: Option<String>,
    name: Option<String>,
    tensors: Option<u64>,
}

impl Hole<'_> for OpenedModel {
    fn read(text: &str) -> Option<Self> {
        let word = |key| value(text, key).filter(|value| !value.is_empty()).map(pattern::name);
        let tensors = value(text, "num_tensors").and_then(|count| count.parse().ok());
        let architecture = Some(word("architecture")?);
        Some(Self { architecture, file_type: word("file_type"), name: word("name"), tensors })
    }
}

struct RunnerCommand<'a>(&'a str);

impl<'a> Hole<'a> for RunnerCommand<'a> {
    fn read(text: &'a str) -> Option<Self> {
        value(text, "cmd").map(Self)
    }
}

/// A model that Ollama lists as loaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PsRow {
    /// Its name with its tag: `llama3.2:latest`.
    pub name: String,
    /// The digest's first digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The column SIZE, decimal units of two figures: `4.0 GB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// All of it in bytes, by `/api/ps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The part on GPUs in bytes, by `/api/ps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vram_bytes: Option<u64>,
    /// The column PROCESSOR: `100% GPU`, `27%/73% CPU/GPU`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// Percent on GPUs, of that column.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_percent: Option<u8>,
    /// Tokens of context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
}

/// A row of the listing, with or without its heading: name, twelve digits, size, processor, perhaps context.
pub(super) fn row(text: &str) -> Option<PsRow> {
    let mut words = text.split_whitespace();
    let (name, id) = (words.next()?, words.next()?);
    if id.len() != 12 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let (number, unit) = (words.next()?, words.next()?);
    pattern::size(&format!("{number} {unit}"))?;
    let (share, of) = (words.next()?, words.next()?);
    let processor = format!("{share} {of}");
    let gpu_percent = Some(gpu_percent(&processor)?);
    Some(PsRow {
        name: pattern::name(name),
        id: Some(id.to_owned()),
        size: Some(format!("{number} {unit}")),
        processor: Some(pattern::clip(&processor, 32)),
        gpu_percent,
        context: words.next().and_then(|word| word.parse().ok()).filter(|&tokens| tokens > 60),
        ..PsRow::default()
    })
}

/// The share on GPUs of a column PROCESSOR, in percent.
pub fn gpu_percent(processor: &str) -> Option<u8> {
    let (shares, of) = processor.split_once(' ')?;
    let percent = |text: &str| text.strip_suffix('%')?.parse::<u8>().ok().filter(|&percent| percent <= 100);
    match (shares.split_once('/'), of) {
        (None, "GPU") => percent(shares),
        (None, "CPU") => percent(shares).map(|cpu| 100 - cpu),
        (Some((_, gpu)), "CPU/GPU") => percent(gpu),
        _ => None,
    }
}

/// The models of `/api/ps`.
pub(super) fn json_rows(models: &[Value]) -> Vec<PsRow> {
    let rows = models.iter().filter_map(|model| {
        let text = |key: &str| model.get(key).and_then(Value::as_str);
        let count = |key: &str| model.get(key).and_then(Value::as_u64);
        Some(PsRow {
            name: pattern::name(text("name").or(text("model"))?),
            id: text("digest").map(|digest| pattern::clip(digest.trim_start_matches("sha256:"), 12)),
            size_bytes: Some(count("size")?),
            // left out by Ollama where it is zero
            vram_bytes: Some(count("size_vram").unwrap_or_default()),
            context: count("context_length").filter(|&tokens| tokens > 0),
            ..PsRow::default()
        })
    });
    rows.take(limits::ROWS).collect()
}

/// What `ollama ps` shows for a load whose log is `text`, for a model file of `file` bytes; `mapped_once` from 0.30.11.
pub fn ollama_ps(text: &str, file: Bytes, mapped_once: bool) -> OllamaPs {
    let buffers: Vec<LoggedBuffer<'_>> = text.lines().filter_map(buffer).collect();
    let offloaded = text.lines().rev().find_map(|line| {
        let words = line.split_once("offloaded ")?.1.split_once(" layers")?.0;
        let (some, all) = words.split_once('/')?;
        Some(some.parse::<u64>().ok()? >= all.parse::<u64>().ok()?)
    });
    let overflows = text.lines().any(|line| {
        let before =
            line.split_once(" overflowing)").map(|(before, _)| before.rsplit_once('(').map_or("", |(_, count)| count));
        before.is_some_and(|count| count.trim().parse::<u64>().is_ok_and(|count| count > 0))
    });
    OllamaPs::of_log(&buffers, LoggedLoad { file, is_whole: offloaded == Some(true) && !overflows, mapped_once })
}

/// `load_tensors:   CPU_Mapped model buffer size =     4.81 MiB`
fn buffer(line: &str) -> Option<LoggedBuffer<'_>> {
    let (left, size) = line.split_once(" buffer size")?;
    let mib: f64 = size.trim_start().strip_prefix('=')?.trim().strip_suffix("MiB")?.trim().parse().ok()?;
    let mut words = left.split_whitespace().rev();
    let (kind, backend) = (words.next()?, words.next()?);
    let component = words.next()?.strip_suffix(':')?;
    let known = ["model", "KV", "compute", "output", "RS"].contains(&kind);
    let bytes = Bytes((mib * Bytes::mib(1).0 as f64) as u64);
    known.then_some(LoggedBuffer { component, backend, kind, bytes })
}
