//! Where a projector is, and what stays free for it.

use super::super::command::ProjectorArgument;
use super::super::release::ReleaseTraits;
use super::{Decision, Decisions, memory};
use crate::machine::{Backend, Gpu};
use crate::model::Model;
use crate::settings::{Flag, GpuLayers, Settings};
use crate::units::Bytes;

/// Reserved for the projector's buffers, in addition to its weights.
const HEADROOM: Bytes = Bytes::gib(1);

/// The memory of every GPU up to which versions before 0.30.11 kept a projector in RAM.
const SMALL: Bytes = Bytes::gib(10);

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

/// A model's projector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projector {
    /// In a file of its own, with tensors of this size.
    Separate(Bytes),
    /// In the model's file, with tensors of this size.
    Inline(Bytes),
}

impl Projector {
    /// That of `model`, with the file in `settings`.
    pub fn of(model: &Model, settings: &Settings) -> Option<Self> {
        let tensors = &model.header.tensors;
        if settings.projector.is_some() {
            return Some(Self::Separate(settings.projector_bytes()));
        }
        let has_vision = || tensors.iter().any(|tensor| tensor.name.starts_with("v."));
        if !INLINE.contains(&model.architecture.as_str()) || !has_vision() {
            return None;
        }
        let inside = |name: &str| ["v.", "mm.", "a."].iter().any(|start| name.starts_with(start));
        Some(Self::Inline(tensors.iter().filter(|tensor| inside(&tensor.name)).map(|tensor| tensor.bytes).sum()))
    }

    /// Bytes of its tensors.
    pub const fn bytes(self) -> Bytes {
        match self {
            Self::Separate(bytes) | Self::Inline(bytes) => bytes,
        }
    }

    /// Bytes that must be free for it.
    pub fn needed(self) -> Bytes {
        self.bytes() + HEADROOM
    }

    /// The same in whole MiB: the fit's margin on every GPU.
    pub fn margin(self) -> Bytes {
        Bytes(self.needed().0.checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX))
    }

    /// Why it stays in RAM, if it does.
    pub fn in_ram(self, layers: GpuLayers, blocks: usize, gpus: &[Gpu], traits: &ReleaseTraits) -> Option<String> {
        match layers {
            GpuLayers::Count(0) => return Some("0 layers on GPU were requested".to_owned()),
            GpuLayers::Count(count) if count < blocks as u64 + 1 => {
                return Some("not all layers were requested on GPU".to_owned());
            }
            _ => {}
        }
        if !traits.projector_margin
            && let Some(gpu) = gpus.iter().find(|gpu| gpu.integrated && gpu.backend != Backend::Metal)
        {
            return Some(format!("{} is integrated", gpu.name));
        }
        if !traits.projector_by_size {
            let small = gpus.iter().find(|gpu| memory(gpu) <= SMALL)?;
            return Some(format!("{} has no more than {SMALL}", small.name));
        }
        let needed = self.needed();
        let short = gpus.iter().find(|gpu| memory(gpu) < needed)?;
        Some(format!("with its buffers it needs {needed}, but {} has {}", short.name, memory(short)))
    }
}

impl Decisions<'_> {
    /// Where the projector is, and the fit's margin on every GPU if it is on one.
    pub(super) fn projector(&mut self) {
        let found = if self.settings.raw { None } else { Projector::of(self.model, self.settings) };
        let Some(projector) = found else { return };
        let name = match projector {
            Projector::Separate(_) => "PROJECTOR",
            Projector::Inline(_) => "MODEL",
        };
        let bytes = projector.bytes();
        let layers = self.settings.gpu_layers;
        let by_rule = projector.in_ram(layers, self.model.block_count(), &self.gpus, &self.traits);
        let again = self.retry.projector_in_ram.then(|| "with it on a GPU, loading runs out of memory".to_owned());
        if let Some(why) = again.or(by_rule) {
            self.projector = ProjectorArgument::File { name, in_ram: true };
            let note = format!("the projector ({bytes}) stays in RAM: {why}");
            return self.note(Decision::Projector, (!self.gpus.is_empty()).then_some(note));
        }
        self.projector = ProjectorArgument::File { name, in_ram: false };
        if !self.traits.projector_margin {
            return;
        }
        let margin = projector.margin();
        let given = Flag::FitTarget.write(self.settings);
        self.margin = Some(margin).filter(|_| given.is_none());
        let note = match given {
            Some(given) => {
                format!("--fit-target ({given} MiB) overrides the {margin} that Ollama keeps free for a projector")
            }
            None => {
                format!(
                    "Ollama asks for {margin} on each GPU, not 1 GiB, to stay free for the projector ({bytes}) and its buffers"
                )
            }
        };
        self.note(Decision::Projector, (!self.gpus.is_empty()).then_some(note));
    }
}
