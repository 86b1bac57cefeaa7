//! How llama-server reads the model's file.

use super::super::discovery::share;
use super::Decisions;
use crate::machine::{Backend, Gpu, Os};
use crate::settings::GpuLayers;

/// Kept free beside a mapped file, in bytes, on machines with little memory.
const LEAST_FREE: u64 = 8_000_000_000;

impl Decisions<'_> {
    /// How llama-server reads the model's file, beside the `mapped` bytes of those that loaded models have mapped.
    /// Source: `llamaServerLoadMode` and `shouldDisableMmap`, `llm/llama_server.go` and `server/sched.go`.
    pub(super) fn load_mode(&mut self, mapped: u64) {
        let direct = |gpu: &Gpu| gpu.integrated && matches!(gpu.backend, Backend::Cuda | Backend::Rocm);
        let is_direct = self.traits.direct_reading && self.machine.os == Os::Linux && self.gpus.iter().any(direct);
        (self.load_mode, self.mmap_auto_off) = match self.settings.ollama.use_mmap {
            _ if is_direct => (Some("dio"), false),
            Some(false) => (Some("none"), false),
            None if self.maps_not(mapped.saturating_add(self.model.file_bytes.0)) => (Some("none"), true),
            Some(true) | None => (None, false),
        };
    }

    fn maps_not(&self, mapped: u64) -> bool {
        let blocks = self.model.block_count() as u64;
        let (some, all) = match self.settings.gpu_layers {
            GpuLayers::Auto => (false, false),
            GpuLayers::All => (false, true),
            GpuLayers::Count(count) => (count <= blocks, count > blocks),
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
                        && ram.free.0 < mapped.saturating_add(kept)
                }
                Os::MacOs => false,
            }
        }
    }
}
