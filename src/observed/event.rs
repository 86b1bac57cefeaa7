//! Events of a load: it is ready or over, memory is refused, grows or is allocated later, and the program changes
//! settings itself.

use serde::Serialize;

use super::amount::Mib;

/// An event of a load; sizes in MiB.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A buffer could not be allocated.
    OutOfMemory {
        /// Its size, if printed.
        size: Option<Mib>,
        /// Its device, by the driver's number or the backend's name, if printed.
        device: Option<String>,
    },
    /// A buffer is larger than the driver allows, however much is free.
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
    /// The compute buffers for pipeline parallelism were refused, and reserved again without it.
    PipelineGivenUp,
    /// A buffer grew while the program ran.
    Grew {
        /// The backend's name for it: `CUDA0`.
        device: String,
        /// Size before.
        from: Mib,
        /// Size after.
        to: Mib,
    },
    /// A saved state took memory on a device after the load.
    SavedState {
        /// The backend's name for it: `CUDA0`.
        device: String,
        /// Size of the state there.
        size: Mib,
    },
    /// A prompt was saved in RAM.
    SavedPrompt {
        /// Tokens of the prompt.
        tokens: u64,
        /// Size of its part of the caches.
        size: Mib,
    },
    /// A context checkpoint was made.
    Checkpoint {
        /// Its size in RAM.
        size: Mib,
    },
    /// A tensor is read from the file row by row.
    LazyTensor {
        /// Its name in the file: `per_layer_token_embd.weight`.
        name: String,
        /// Size of the whole tensor.
        size: Mib,
    },
    /// Sliding-window layers have caches of the whole context.
    FullSizeWindows,
    /// Weights are not mapped, for this reason.
    MmapOff(String),
    /// Tensors cannot use their preferred buffer type, in the program's words.
    TensorsElsewhere(String),
    /// A projector is loaded on this backend.
    ProjectorOn(String),
    /// LM Studio's own estimate, of weights and context; without compute buffers.
    OwnEstimate {
        /// Weights.
        model: Mib,
        /// Caches.
        context: Mib,
    },
    /// A figure that only this program has, as it prints it.
    Figure {
        /// What it is of, in a few words.
        of: String,
        /// Its size.
        size: Mib,
    },
    /// Memory that KoboldCpp's fit keeps free, in the MB that it prints.
    AutofitReserve(u64),
}
