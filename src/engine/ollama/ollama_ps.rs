//! The sizes in `ollama ps`, which Ollama adds up from llama-server's log. Source: `memoryParsingWriter` and
//! `MemorySize`, `llm/llama_server.go`, Ollama, August 2026.

use crate::engine::llama_cpp::PreparedModel;
use crate::plan::{DevicePlan, LayerPlan, OllamaPs, Plan};
use crate::settings::Release;
use crate::units::Bytes;

/// Bytes of one logit.
const LOGIT: u64 = 4;

/// The columns SIZE and PROCESSOR of `plan`.
pub(super) fn of(plan: &Plan, model: &PreparedModel) -> OllamaPs {
    let logged = |amounts: [Bytes; 3]| amounts.into_iter().map(as_logged).sum::<Bytes>();
    let windows = Windows::of(model);
    let vram = plan.gpus().iter().map(|gpu| logged([gpu.weights, windows.counted(gpu, plan), gpu.graph])).sum();
    // with all layers on GPUs, the rest in RAM is not counted, unless the fit had to leave parts of layers there
    let spills = plan.parts_in_ram() > Bytes::ZERO && plan.settings.gpu_layers < 0;
    if plan.offloaded == plan.layers.len() && !spills {
        return OllamaPs { size: vram, vram };
    }
    let cpu = plan.cpu();
    let logits = plan.settings.parallel.saturating_mul(model.hyper.vocabulary.unwrap_or(0)).saturating_mul(LOGIT);
    // a mapped file counts at most once
    let on_gpus: Bytes = plan.gpus().iter().map(|gpu| as_logged(gpu.weights)).sum();
    let weights = as_logged(cpu.weights);
    let weights = if on_gpus > Bytes::ZERO { weights.min(model.file_bytes - on_gpus) } else { weights };
    let rest = [windows.counted(cpu, plan), cpu.graph, Bytes(logits)];
    OllamaPs { size: vram + weights + logged(rest), vram }
}

/// The blocks with a sliding window. Their cache is separate and logged after the other one in the same format, and
/// Ollama only keeps the last such line: the other cache is missing in SIZE.
struct Windows(Vec<bool>);

impl Windows {
    fn of(model: &PreparedModel) -> Self {
        // without a readable header there is no plan
        Self(model.llama_cpp(Release::default()).map_or_else(|_| Vec::new(), |loaded| loaded.hparams.is_swa.clone()))
    }

    /// The part of a device's cache that is counted.
    fn counted(&self, device: &DevicePlan, plan: &Plan) -> Bytes {
        let windowed = |layer: &&LayerPlan| self.0.get(layer.index).copied().unwrap_or(false);
        let layers = device.layers.iter().filter_map(|&index| plan.layers.get(index));
        let counted: Bytes = layers.filter(windowed).map(|layer| layer.cache).sum();
        if counted > Bytes::ZERO { counted.min(device.cache) } else { device.cache }
    }
}

/// Log lines have MiB with two decimals.
fn as_logged(bytes: Bytes) -> Bytes {
    let mib = Bytes::mib(1).0 as f64;
    let hundredths = (bytes.0 as f64 / mib * 100.0).round_ties_even();
    Bytes((hundredths / 100.0 * mib) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_rounds_to_hundredths_of_a_mebibyte() {
        for (bytes, logged) in [(0, 0), (5242, 0), (5300, 10_485), (1 << 20, 1 << 20), (894_322_524, 894_319_984)] {
            assert_eq!(as_logged(Bytes(bytes)), Bytes(logged), "{bytes}");
        }
    }
}
