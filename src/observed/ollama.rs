//! Ollama's own lines, written by `slog` (`time=… level=INFO source=… msg=… key=value …`), and the output of `ollama
//! ps`.

use serde::Serialize;
use serde_json::Value;

use super::amount::Mib;
use super::context::ObservedSettings;
use super::hole::{self, Hole, clip, value};
use super::limits;
use crate::plan::{LoggedBuffer, LoggedLoad, OllamaPs};
use crate::settings::{FlashAttn, GpuLayers};
use crate::units::Bytes;

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
        let size = |key: &str| hole::value(text, key).and_then(hole::size);
        let count = |key: &str| hole::value(text, key).and_then(|value| value.parse().ok());
        let list = |key: &str| {
            let list = hole::value(text, key).unwrap_or_default().trim_matches(['[', ']']);
            // `10.9 GiB 23.1 GiB`
            let words: Vec<&str> = list.split_whitespace().take(2 * limits::DEVICES).collect();
            words.chunks(2).filter_map(|pair| hole::size(&pair.join(" "))).collect()
        };
        let word =
            |key: &str| hole::value(text, key).filter(|value| !value.is_empty()).map(|value| hole::clip(value, 256));
        let layers_offload =
            ["layers.offload", "layers.real", "layers.estimate"].iter().find_map(|key| count(key)).or(None)?;
        Some(Self {
            library: word("library"),
            layers_requested: hole::value(text, "layers.requested").and_then(|value| value.parse().ok()),
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
            let rest = hole::after(text, key)?;
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
            mmproj: field("ProjectorPath:").map(hole::name),
            ..ObservedSettings::default()
        };
        Some(Self { operation: clip(field("Operation:")?, 16), settings })
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

impl PsRow {
    /// The column SIZE in bytes, and how far it may be off: a unit from ten units up, which are cut, and a tenth of one below.
    pub fn in_column(&self) -> Option<(Bytes, Bytes)> {
        let size = self.size.as_deref()?;
        let bytes = |mib: Mib| Bytes((mib.0 * f64::from(1 << 20)).round() as u64);
        let (number, unit) = size.split_once(' ')?;
        let one = bytes(hole::size(&format!("1 {unit}"))?);
        let step = if number.contains('.') { Bytes(one.0 / 10) } else { one };
        Some((bytes(hole::size(size)?), step))
    }
}

/// A row of the listing, with or without its heading: name, twelve digits, size, processor, perhaps context.
pub(super) fn row(text: &str) -> Option<PsRow> {
    let mut words = text.split_whitespace();
    let (name, id) = (words.next()?, words.next()?);
    if id.len() != 12 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let (number, unit) = (words.next()?, words.next()?);
    hole::size(&format!("{number} {unit}"))?;
    let (share, of) = (words.next()?, words.next()?);
    let processor = format!("{share} {of}");
    let gpu_percent = Some(gpu_percent(&processor)?);
    Some(PsRow {
        name: hole::name(name),
        id: Some(id.to_owned()),
        size: Some(format!("{number} {unit}")),
        processor: Some(hole::clip(&processor, 32)),
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
            name: hole::name(text("name").or(text("model"))?),
            id: text("digest").map(|digest| hole::clip(digest.trim_start_matches("sha256:"), 12)),
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
