//! Ollama's own lines.

use crate::observed::amount::{Mib, Term};
use crate::observed::command;
use crate::observed::event::Event;
use crate::observed::hole::{self, DeviceName, Hole, Size, clip, value};
use crate::observed::kind::Kind;
use crate::observed::load::Program;
use crate::observed::model::{ObservedDevice, ObservedModel};
use crate::observed::ollama::{OllamaEstimate, Request};
use crate::observed::row::{Row, patterns};

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
        Kind::Other, |now, line| now.load.asked = value(line, "model").map(hole::name);
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

/// A GPU that Ollama found when it started. It has a backend's name since 0.12, and only an id before.
struct FoundGpu(ObservedDevice);

impl Hole<'_> for FoundGpu {
    fn read(text: &str) -> Option<Self> {
        let value = |key: &str| hole::value(text, key).filter(|value| !value.is_empty());
        let size = |key: &str| hole::value(text, key).and_then(hole::size);
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
        let word = |key| value(text, key).filter(|value| !value.is_empty()).map(hole::name);
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

/// A device's memory before a load.
fn memory(name: &str, total: Option<Mib>, free: Mib) -> ObservedDevice {
    ObservedDevice { name: clip(name, 64), total, free: Some(free), ..ObservedDevice::default() }
}
