//! Things that happen to a load besides its buffers: memory that is refused, grows or is taken later, and switches that
//! the program turns itself.

use serde::Serialize;

use super::said::{EstimatePart, Said};
use super::{Mib, command, scan};

/// Something worth telling of a load; sizes in MiB.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A buffer was refused: its size and its device's number where they are said.
    OutOfMemory {
        /// Size of the buffer.
        size: Option<Mib>,
        /// Device by the driver's number or the backend's name.
        device: Option<String>,
    },
    /// One buffer is larger than the driver allows, whatever is free.
    BufferLimit,
    /// The load failed, in the program's words.
    Failed(String),
    /// Flash attention was turned off, or runs on the CPU.
    FlashAttentionOff {
        /// The program's words.
        reason: String,
    },
    /// An operation was turned off or runs elsewhere, in the program's words.
    Unsupported(String),
    /// Graph inputs are copied: pipeline parallelism.
    PipelineParallelism,
    /// The compute buffers of a pipeline were refused, and reserved again without one.
    PipelineGivenUp,
    /// A buffer grew while the program ran.
    Grew {
        /// Its device.
        device: String,
        /// Size before.
        from: Mib,
        /// Size after.
        to: Mib,
    },
    /// A saved state took memory on a device after the load.
    SavedState {
        /// Its device.
        device: String,
        /// Its size.
        size: Mib,
    },
    /// A prompt was saved in RAM.
    SavedPrompt {
        /// Tokens of the prompt.
        tokens: u64,
        /// Its size.
        size: Mib,
    },
    /// A context checkpoint was made.
    Checkpoint {
        /// Its size.
        size: Mib,
    },
    /// A tensor is read from the file row by row.
    LazyTensor {
        /// Its name.
        name: String,
        /// Its size.
        size: Mib,
    },
    /// Sliding-window layers have caches of the whole context.
    FullSizeWindows,
    /// Weights are not mapped, for this reason.
    MmapOff(String),
    /// Tensors cannot be in the buffer type that was meant for them, in the program's words.
    TensorsElsewhere(String),
    /// A projector's context began; with the backend's name.
    ProjectorOn(String),
    /// Estimates before the load: a projector's memory.
    ProjectorEstimate(Mib),
    /// A draft's memory.
    DraftEstimate(Mib),
    /// Limit of saved prompts.
    PromptCacheLimit(Mib),
    /// Checkpoints per slot.
    Checkpoints(u64),
    /// Copies of the graph.
    SchedCopies(u64),
    /// LM Studio's own estimate, of weights and context; without compute buffers.
    OwnEstimate {
        /// Weights.
        model: Mib,
        /// Caches.
        context: Mib,
    },
    /// Memory that KoboldCpp's fit keeps free, in MB as it says it.
    AutofitReserve(u64),
}

/// A line that tells an event, or that a program is ready or ends.
pub(super) fn read(text: &str) -> Option<Said<'_>> {
    // the projector's loader
    if let Some(size) = scan::after(text, "load_hparams: model size:").and_then(scan::mib) {
        return Some(Said::Projector(size.0));
    }
    if let Some(slots) = slots(text) {
        return Some(slots);
    }
    if text.contains("MiB")
        && let Some(event) = sized(text)
    {
        return Some(Said::Event(event));
    }
    let words = || scan::clip(text, 256);
    let event = if text.contains("server is listening") || text.contains(": model loaded") {
        return Some(Said::Ready);
    } else if text.contains("cleaning up before exit") {
        return Some(Said::Closing);
    } else if let Some(path) = scan::between(text, "load_model: loading model '", "'") {
        return Some(Said::Load(path));
    } else if let Some(rest) = scan::after(text, "Autofit Result: ") {
        return Some(Said::Autofit(command::arguments(rest)));
    } else if let Some(rest) = scan::after(text, "Autofit Reserve Space: ") {
        Event::AutofitReserve(scan::count(rest)?.0)
    } else if ["Flash Attention", "flash attention", "flash_attn"].iter().any(|name| text.contains(name)) {
        let off = text.contains("set to disabled")
            || text.contains("forcing off")
            || text.contains("is assigned to device CPU")
            || text.contains("disabling flash attention");
        let known = off || text.contains("set to enabled");
        return known.then_some(Said::FlashAttention(!off, text));
    } else if text.contains("not supported, set to disabled") || text.contains("due to missing support") {
        Event::Unsupported(words())
    } else if text.contains("pipeline parallelism enabled") {
        Event::PipelineParallelism
    } else if text.contains("retrying without pipeline parallelism") {
        Event::PipelineGivenUp
    } else if text.contains("using full-size SWA cache") {
        Event::FullSizeWindows
    } else if text.contains("exceeds device memory allocation limit") {
        Event::BufferLimit
    } else if text.contains("cannot be used with preferred buffer type") {
        Event::TensorsElsewhere(words())
    } else if text.contains("out of memory") || text.contains("ErrorOutOfDeviceMemory") {
        Event::OutOfMemory { size: None, device: None }
    } else if text.contains("failed to initialize the context") && !text.contains("normal during memory fitting") {
        Event::Failed(words())
    } else if text.contains("failed to allocate ") {
        return failed_buffer(text).map(Said::Event);
    } else if text.contains("error loading model") || text.contains("failed to load model") {
        Event::Failed(words())
    } else if let Some(backend) = scan::between(text, "CLIP using ", " backend") {
        Event::ProjectorOn(scan::clip(backend, 64))
    } else if text.contains("prompt cache is disabled") {
        Event::PromptCacheLimit(Mib(0.0))
    } else if let Some(copies) = scan::count_after(text, "sched copies = ") {
        Event::SchedCopies(copies)
    } else if let Some(rest) = scan::after(text, "context checkpoints enabled, max = ") {
        Event::Checkpoints(scan::count(rest)?.0)
    } else if text.contains("Model load size estimate") {
        return Some(Said::OwnEstimate(EstimatePart::Heading)).filter(|_| !text.contains("Model: ")).or_else(|| {
            let size = |mark: &str| scan::after(text, mark).and_then(scan::size);
            let (model, context) = (size("Model: ")?, size("Context: ")?);
            Some(Said::Event(Event::OwnEstimate { model, context }))
        });
    } else if let Some(size) = text.strip_prefix("Model: ").and_then(scan::size) {
        return Some(Said::OwnEstimate(EstimatePart::Model(size)));
    } else if let Some(size) = text.strip_prefix("Context: ").and_then(scan::size) {
        return Some(Said::OwnEstimate(EstimatePart::Context(size)));
    } else {
        return None;
    };
    Some(Said::Event(event))
}

/// What a server says of its slots: `initializing slots, n_slots = 1`, `new slot, n_ctx = 8192`, `n_ctx_slot = 8192`,
/// `n_parallel is set to auto, using n_parallel = 4 and kv_unified = true`; and what a graph is reserved for.
fn slots(text: &str) -> Option<Said<'_>> {
    if let Some(rest) = scan::after(text, "reserving a graph for ubatch with ") {
        return Some(Said::Parameter("reserved graph", rest));
    }
    let auto = scan::after(text, "n_parallel is set to auto, using ");
    let sequences =
        auto.map_or_else(|| scan::count_after(text, "n_slots = "), |rest| scan::count_after(rest, "n_parallel = "));
    let context = scan::count_after(text, "new slot, n_ctx = ").or_else(|| scan::count_after(text, "n_ctx_slot = "));
    let unified = auto.filter(|rest| rest.contains("kv_unified = true")).map(|_| true);
    (sequences.is_some() || context.is_some()).then_some(Said::Slots { sequences, context, unified })
}

/// Events with a size in MiB.
fn sized(text: &str) -> Option<Event> {
    if let Some(rest) = scan::after(text, "allocating ") {
        let (size, rest) = scan::mib(rest)?;
        let device = scan::between(rest, "on device ", ":").map(|device| scan::clip(device, 64));
        return rest.contains("failed").then_some(Event::OutOfMemory { size: Some(size), device });
    }
    if let Some(rest) = scan::after(text, "~llama_io_write_device: allocated '") {
        let (device, rest) = rest.split_once('\'')?;
        return Some(Event::SavedState { device: scan::clip(device, 64), size: scan::mib_after(rest, "buffer")? });
    }
    if let Some(rest) = scan::after(text, "reallocating ") {
        let (device, rest) = rest.split_once(" buffer from size ")?;
        let (from, rest) = scan::mib(rest)?;
        return Some(Event::Grew { device: scan::clip(device, 64), from, to: scan::mib_after(rest, "to")? });
    }
    if let Some((head, rest)) = text.split_once("compute buffer size of ") {
        let device = head.split_whitespace().next_back()?;
        let (to, rest) = scan::mib(rest)?;
        let from = scan::mib_after(rest, "does not match expectation of")?;
        return Some(Event::Grew { device: scan::clip(device, 64), from, to });
    }
    if let Some(rest) = scan::after(text, "saving prompt with length ") {
        let (tokens, rest) = scan::count(rest)?;
        return Some(Event::SavedPrompt { tokens, size: scan::mib_after(rest, "state size =")? });
    }
    if text.contains("created context checkpoint") {
        return scan::mib_after(text, "size =").map(|size| Event::Checkpoint { size });
    }
    if text.contains("lazy read enabled") {
        let (name, rest) = scan::after(text, "tensor ")?.split_once(" (size =")?;
        return Some(Event::LazyTensor { name: scan::clip(name, 128), size: scan::mib(rest)?.0 });
    }
    if text.contains("memory usage of mmproj is") {
        return scan::mib_after(text, "mmproj is").map(Event::ProjectorEstimate);
    }
    if text.contains("[spec] estimated memory usage of") {
        return scan::mib_after(text, " is").map(Event::DraftEstimate);
    }
    if text.contains("prompt cache is enabled") {
        return scan::mib_after(text, "size limit:").map(Event::PromptCacheLimit);
    }
    None
}

/// `alloc_tensor_range: failed to allocate ROCm0 buffer of size 4718592000`
fn failed_buffer(text: &str) -> Option<Event> {
    let rest = scan::after(text, "failed to allocate ")?;
    let (device, rest) = rest.split_once(" buffer")?;
    let bytes = scan::count_after(rest, "of size ")?;
    let size = Some(Mib(scan::round(bytes as f64 / 1_048_576.0)));
    Some(Event::OutOfMemory { size, device: Some(scan::clip(device, 64)) })
}
