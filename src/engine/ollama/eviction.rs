//! Why Ollama unloads other models before it starts llama-server for another one.
//! Source: `processPending`, `load`, `explicitPartialGPUOffload` and `reduceAutoNumCtxForLoadOOM`, `server/sched.go`,
//! Ollama, August 2026.

use super::gpu_selection::{available, share};
use super::{batch, llama_cpp, runs_out_of_memory, server_launch};
use crate::engine::admission::Admission;
use crate::engine::id::{EngineError, FitGoal};
use crate::engine::prepared::PreparedModel;
use crate::machine::Machine;
use crate::settings::{GpuLayers, Settings};
use crate::units::Bytes;

/// Maximum of prediction and batch surcharge, in percent of the available memory.
const PERCENT: u64 = 80;

/// What must be evicted before `model` is loaded, and why; none if nothing.
pub(in crate::engine) fn eviction_reason(
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
) -> Result<Option<Admission>, EngineError> {
    let start = server_launch::decide(model, machine, settings, None)?;
    let is_partial = match settings.gpu_layers {
        GpuLayers::Count(layers) => (1..=model.block_count() as u64).contains(&layers),
        GpuLayers::Auto | GpuLayers::All => false,
    };
    if !is_partial && !start.gpus.is_empty() && !settings.raw {
        let surcharge = if start.embedding { 0 } else { batch::surcharge(start.options.batch) };
        let (needed, free) =
            (start.predicted.saturating_add(surcharge), available(&start.machine.gpus, machine.ram.free));
        if needed > share(free, PERCENT) {
            return Ok(Some(Admission::EvictOne(format!(
                "Ollama expects it to need {}, more than {PERCENT} % of the {} available",
                Bytes(needed),
                Bytes(free)
            ))));
        }
    }
    let first = llama_cpp::summary(model, &start.machine, &start.options, FitGoal::Most)?;
    Ok(runs_out_of_memory(&first.devices, machine).then(|| Admission::EvictAll {
        why: "the first attempt to load it runs out of memory".to_owned(),
        ctx: server_launch::lower_context(settings, start.ctx),
    }))
}
