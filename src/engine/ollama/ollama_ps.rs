//! The sizes in `ollama ps`, which Ollama adds up from llama-server's log. Source: `memoryParsingWriter` and
//! `MemorySize`, `llm/llama_server.go`, Ollama, August 2026.

use crate::engine::llama_cpp::PreparedModel;
use crate::plan::{OllamaPs, Part, PartKind, PartMemory, Plan};
use crate::units::Bytes;

/// Bytes of one logit.
const LOGIT: u64 = 4;

/// The columns SIZE and PROCESSOR of `plan`.
pub(super) fn of(plan: &Plan, model: &PreparedModel) -> OllamaPs {
    let log = Log::of(plan, model);
    let vram = (0..plan.gpus().len()).map(|gpu| log.weights(gpu) + log.besides(gpu)).sum();
    // with all layers on GPUs, the rest in RAM is not counted, unless the fit had to leave parts of layers there
    let spills = plan.parts_in_ram() > Bytes::ZERO && plan.settings.gpu_layers < 0;
    if log.offloads_all() && !spills {
        return OllamaPs { size: vram, vram };
    }
    let cpu = plan.gpus().len();
    let logits = plan.settings.parallel.saturating_mul(model.hyper.vocabulary.unwrap_or(0)).saturating_mul(LOGIT);
    // a mapped file counts at most once
    let on_gpus: Bytes = (0..cpu).map(|gpu| log.weights(gpu)).sum();
    let weights = log.weights(cpu);
    let weights = if on_gpus > Bytes::ZERO { weights.min(model.file_bytes - on_gpus) } else { weights };
    OllamaPs { size: vram + weights + log.besides(cpu) + as_logged(Bytes(logits)), vram }
}

/// The lines of the log that Ollama keeps: of each component of llama.cpp, device and kind of memory the last one.
///
/// A context of a model with sliding windows has two caches of one component, that of the windows last. A draft's context
/// is made after the model's, and a draft of its own file is loaded after it. A projector's compute buffer is a component
/// of its own, its weights are in no such line.
struct Log<'p> {
    plan: &'p Plan,
    main: &'p Part,
    draft: Option<&'p Part>,
    /// The encoder that is loaded last.
    encoder: Option<&'p Part>,
    blocks: Vec<Block>,
}

/// What kind of cache a block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Attention,
    Window,
    Recurrent,
}

impl<'p> Log<'p> {
    fn of(plan: &'p Plan, model: &PreparedModel) -> Self {
        let kind = |(window, recurrent): (&bool, &bool)| match (window, recurrent) {
            (_, true) => Block::Recurrent,
            (true, _) => Block::Window,
            _ => Block::Attention,
        };
        // without a readable header there is no plan
        let blocks = model.llama_cpp(plan.settings.llama_cpp_build()).map_or_else(
            |_| Vec::new(),
            |loaded| loaded.hparams.is_swa.iter().zip(&loaded.hparams.is_recr).map(kind).collect(),
        );
        let last = |wanted: &[PartKind]| plan.parts.iter().rev().find(|part| wanted.contains(&part.kind));
        Self {
            plan,
            main: &plan.parts[0],
            draft: last(&[PartKind::Draft]),
            encoder: last(&[PartKind::Vision, PartKind::Audio]),
            blocks,
        }
    }

    /// The weights on a device.
    fn weights(&self, device: usize) -> Bytes {
        let of = |part: &Part| part.devices.get(device).map_or(Bytes::ZERO, |memory| memory.weights);
        let draft = self.draft.map(of).filter(|bytes| *bytes > Bytes::ZERO);
        as_logged(draft.unwrap_or_else(|| of(self.main)))
    }

    /// Caches, recurrent states and compute buffers on a device.
    fn besides(&self, device: usize) -> Bytes {
        let of = |part: &Part| part.devices.get(device).copied().unwrap_or_default();
        let last = |own: Bytes, of_draft: fn(&PartMemory) -> Bytes| {
            self.draft.map(|draft| of_draft(&of(draft))).filter(|bytes| *bytes > Bytes::ZERO).unwrap_or(own)
        };
        let main = of(self.main);
        let (windows, states) = (self.caches(device, Block::Window), self.caches(device, Block::Recurrent));
        let cache = if windows > Bytes::ZERO { windows.min(main.cache) } else { main.cache - states };
        let encoder = self.encoder.map_or(Bytes::ZERO, |encoder| of(encoder).graph);
        let kept = [last(cache, |draft| draft.cache), states, last(main.graph, |draft| draft.graph), encoder];
        kept.map(as_logged).into_iter().sum()
    }

    /// The caches of the model's blocks of one kind on a device.
    fn caches(&self, device: usize, kind: Block) -> Bytes {
        let layers = self.plan.devices.get(device).map(|device| device.layers.as_slice()).unwrap_or_default();
        let layers = layers.iter().filter_map(|&index| self.plan.layers.get(index));
        layers.filter(|layer| self.blocks.get(layer.index) == Some(&kind)).map(|layer| layer.cache).sum()
    }

    /// Whether the last line on layers says that all are on GPUs: that of the draft if it has a file.
    fn offloads_all(&self) -> bool {
        match self.draft.filter(|draft| draft.file.is_some()) {
            Some(draft) => draft.devices.iter().rev().skip(1).any(|gpu| gpu.cache > Bytes::ZERO),
            None => self.plan.offloaded == self.plan.layers.len(),
        }
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
