//! The placement of a vision or audio projector, and the margin that the fit leaves for it.
//! Source: `mmprojMemoryRequirement`, `shouldDisableMMProjOffload` and `mmprojFitTargetMiB`, `llm/llama_server.go`,
//! Ollama, August 2026.

use super::batch::memory;
use crate::machine::Gpu;
use crate::model::Model;
use crate::settings::{GpuLayers, Settings};
use crate::units::Bytes;

/// Reserved for the projector's buffers, in addition to its weights.
const HEADROOM: Bytes = Bytes::gib(1);

/// Architectures whose projector may be in the model's file.
const INLINE: [&str; 12] = [
    "deepseekocr",
    "gemma3",
    "gemma4",
    "glmocr",
    "llama4",
    "mistral3",
    "nemotron_h_omni",
    "qwen25vl",
    "qwen35",
    "qwen35moe",
    "qwen3vl",
    "qwen3vlmoe",
];

/// Bytes of the projector's tensors, in its own file or in the model's; zero without a projector.
pub(super) fn bytes(model: &Model, settings: &Settings) -> Bytes {
    let tensors = &model.header.tensors;
    let has_vision = || tensors.iter().any(|tensor| tensor.name.starts_with("v."));
    if settings.projector > Bytes::ZERO || !INLINE.contains(&model.architecture.as_str()) || !has_vision() {
        return settings.projector;
    }
    let inline = tensors.iter().filter(|tensor| ["v.", "mm.", "a."].iter().any(|start| tensor.name.starts_with(start)));
    inline.map(|tensor| tensor.bytes).sum()
}

/// Bytes that must be free for a projector of `bytes`, in whole MiB; also the fit's margin on every GPU.
pub(super) fn margin(bytes: Bytes) -> Bytes {
    Bytes((bytes + HEADROOM).0.checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX))
}

/// Why a projector of `bytes` stays in RAM, if it does.
pub(super) fn in_ram(bytes: Bytes, layers: GpuLayers, blocks: usize, gpus: &[Gpu]) -> Option<String> {
    match layers {
        GpuLayers::Count(0) => return Some("0 layers on GPU were requested".to_owned()),
        GpuLayers::Count(count) if count < blocks as u64 + 1 => {
            return Some("not all layers were requested on GPU".to_owned());
        }
        _ => {}
    }
    let needed = bytes + HEADROOM;
    let short = gpus.iter().find(|gpu| memory(gpu) > Bytes::ZERO && memory(gpu) < needed)?;
    Some(format!("with its buffers it needs {needed}, but {} has {}", short.name, memory(short)))
}
