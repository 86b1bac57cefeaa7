//! How llama-server reads the model's file. Source: `llamaServerLoadMode` and `shouldDisableMmap`,
//! `llm/llama_server.go` and `server/sched.go`, Ollama, August 2026.

use super::gpu_selection::share;
use super::release::ReleaseTraits;
use crate::machine::{Backend, Gpu, Machine, Os};
use crate::settings::{GpuLayers, Settings};

/// Kept free beside a mapped file, in bytes, on machines with little memory.
const LEAST_FREE: u64 = 8_000_000_000;

/// What decides.
pub(super) struct LoadModeInputs<'a> {
    pub machine: &'a Machine,
    pub settings: &'a Settings,
    pub traits: &'a ReleaseTraits,
    pub gpus: &'a [Gpu],
    pub blocks: usize,
    pub predicted: u64,
    pub available: u64,
    /// Bytes of the model's file, and of the files that loaded models have mapped.
    pub mapped: u64,
}

impl LoadModeInputs<'_> {
    /// `dio`, `none`, or nothing for mapped; and whether that was not asked for.
    pub fn load_mode(&self) -> (Option<&'static str>, bool) {
        let direct = |gpu: &Gpu| gpu.integrated && matches!(gpu.backend, Backend::Cuda | Backend::Rocm);
        if self.traits.direct_reading && self.machine.os == Os::Linux && self.gpus.iter().any(direct) {
            return (Some("dio"), false);
        }
        match self.settings.ollama.use_mmap {
            Some(false) => (Some("none"), false),
            None if self.maps_not() => (Some("none"), true),
            Some(true) | None => (None, false),
        }
    }

    fn maps_not(&self) -> bool {
        let (some, all) = match self.settings.gpu_layers {
            GpuLayers::Auto => (false, false),
            GpuLayers::All => (false, true),
            GpuLayers::Count(count) => (count <= self.blocks as u64, count > self.blocks as u64),
        };
        let has = |backend| self.gpus.iter().any(|gpu| gpu.backend == backend);
        let ram = &self.machine.ram;
        if self.gpus.is_empty() {
            true
        } else if has(Backend::Metal) {
            some || !all && self.predicted > self.available
        } else {
            match self.machine.os {
                Os::Windows => has(Backend::Cuda),
                Os::Linux => {
                    let kept = LEAST_FREE.max(ram.total.0 / 10);
                    self.gpus.iter().all(|gpu| !gpu.integrated)
                        && self.predicted <= share(self.available, 80)
                        && ram.free.0 < self.mapped.saturating_add(kept)
                }
                Os::MacOs => false,
            }
        }
    }
}
