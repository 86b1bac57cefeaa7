//! Weights and devices: the loader's lines on a model's file and the placement of its layers, the devices that a
//! program lists, and its build.

use std::collections::BTreeMap;

use serde::Serialize;

use super::amount::{Buffers, Mib};
use super::hole::{self, DeviceName};
use crate::settings::BUILDS;

/// A model as its loader describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ObservedModel {
    /// The file's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `general.name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Architecture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The file's type: `Q4_K - Medium`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_type: Option<String>,
    /// Size of all tensors, in MiB; from GiB of two decimals where it is large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size: Option<Mib>,
    /// Size by the loader's count of parameters: `8B`, `30B.A3B`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_label: Option<String>,
    /// Parameters as printed: `8.03 B`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<String>,
    /// Tensors in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensors: Option<u64>,
    /// Tensors read of those in the file, where it is a part: further layers of a model that is loaded already, or a
    /// model without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<(u64, u64)>,
    /// Blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// Tokens of context that it was trained for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_ctx_train: Option<u64>,
    /// Tokens in its sliding window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sliding_window: Option<u64>,
    /// Further hyperparameters that are one number for all blocks, by their keys in a header.
    #[serde(skip)]
    pub hyper: BTreeMap<&'static str, u64>,
    /// Layers on GPUs and layers in all, the output's included: `offloaded 20/49 layers to GPU`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offloaded: Option<(u64, u64)>,
    /// How its weights are read: `mmap`, `none`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_mode: Option<String>,
    /// Weights and adapters by device, in MiB. A mapping that another part of the load already has is left out.
    pub observed: Buffers,
}

/// Hyperparameters as the loader prints them, and their keys in a header, without the architecture
/// (`llama_model_base::print_info`, `llama-model.cpp`, 0.1.161).
const HYPER: [(&str, &str); 7] = [
    ("n_vocab", "vocab_size"),
    ("n_embd", "embedding_length"),
    ("n_head", "attention.head_count"),
    ("n_head_kv", "attention.head_count_kv"),
    ("n_ff", "feed_forward_length"),
    ("n_expert", "expert_count"),
    ("n_expert_used", "expert_used_count"),
];

impl ObservedModel {
    pub(super) fn set(&mut self, key: &str, value: &str) {
        if let Some((_, key)) = HYPER.iter().find(|(printed, _)| *printed == key) {
            // without experts, and where blocks differ, it tells nothing
            self.hyper.extend(hole::count(value).filter(|(count, _)| *count > 0).map(|(count, _)| (*key, count)));
            return;
        }
        let text = || (!value.is_empty()).then(|| hole::name(value));
        let count = || hole::count(value).map(|(count, _)| count);
        match key {
            "arch" | "architecture" => self.architecture = text(),
            "file type" | "file_type" | "model ftype" => self.file_type = text(),
            "file size" | "model size" => self.file_size = hole::size(value),
            "model type" => self.size_label = text(),
            "model params" => self.parameters = text(),
            "general.name" | "name" => self.name = text(),
            "n_layer" => self.blocks = count(),
            "n_ctx_train" => self.n_ctx_train = count(),
            "n_swa" => self.sliding_window = count().filter(|&tokens| tokens > 0),
            "num_tensors" => self.tensors = count(),
            _ => {}
        }
    }
}

/// A device as a program names it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ObservedDevice {
    /// The backend's name for it: `CUDA0`, `Vulkan1`, `CPU`.
    pub name: String,
    /// The driver's name for it: `NVIDIA GeForce RTX 3090`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its place on the bus: `0000:c1:00.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// All memory, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Mib>,
    /// Free memory before the load, in MiB; the last figure that was printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<Mib>,
}

impl ObservedDevice {
    pub(super) fn of(name: DeviceName<'_>, description: &str, total: Option<Mib>, free: Option<Mib>) -> Self {
        let description = Some(hole::clip(description, 128));
        Self { name: name.0.to_owned(), description, bus: None, total, free }
    }

    /// A device that CUDA or HIP numbers; HIP's text has the processor's name.
    pub(super) fn of_cuda(index: u64, text: &str, total: Mib, free: Option<Mib>) -> Self {
        let backend = if text.contains("gfx") { "ROCm" } else { "CUDA" };
        let description = text.split(',').next().unwrap_or(text);
        Self::of(DeviceName(&format!("{backend}{index}")), description, Some(total), free)
    }

    /// Updates it with the facts in `later`.
    pub(super) fn update(&mut self, later: Self) {
        self.description = later.description.or(self.description.take());
        self.bus = later.bus.or(self.bus.take());
        (self.total, self.free) = (later.total.or(self.total), later.free.or(self.free));
    }
}

/// A folder whose name says which llama.cpp is in it.
pub(super) enum Folder<'a> {
    /// LM Studio's engine of this version: `llama.cpp-win-x86_64-vulkan-avx2-2.47.0`.
    Engine(&'a str),
    /// A build, as Jan and llama.cpp's own archives have it: `b9967`, `llama-b10830-bin-ubuntu-x64`.
    Build(u64),
}

impl<'a> Folder<'a> {
    /// The innermost of a path.
    pub(super) fn of(path: &'a str) -> Option<Self> {
        path.rsplit(['/', '\\']).skip(1).find_map(Self::named)
    }

    /// Of the program at the start of a command line.
    pub(super) fn of_command(text: &'a str) -> Option<Self> {
        Self::of(text.split_once(" -").map_or(text, |(program, _)| program))
    }

    pub(super) fn named(name: &'a str) -> Option<Self> {
        let inner = ["llama.cpp-", "llama-"].iter().find_map(|start| name.strip_prefix(start)).unwrap_or(name);
        if let Some((_, version)) = inner.rsplit_once('-').filter(|_| name.starts_with("llama.cpp-")) {
            let is_version = version.contains('.') && version.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            return is_version.then_some(Self::Engine(version));
        }
        let build = inner.strip_prefix('b')?.split('-').next()?.parse().ok()?;
        BUILDS.contains(&build).then_some(Self::Build(build))
    }
}
