//! The contents of a device's compute buffer at its peak.

use serde::Serialize;

use crate::units::Bytes;

/// The peak of one device's compute buffer, and the tensors alive at that step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peak {
    /// Index into [`super::Plan::devices`].
    pub device: usize,
    /// Size of the buffer: the sum of what is alive.
    pub bytes: Bytes,
    /// The tensor that is computed or copied at the peak, by llama.cpp's name: `ffn_moe_gate-12`.
    pub node: String,
    /// The step of the peak, from 1.
    pub step: usize,
    /// Number of steps.
    pub steps: usize,
    /// By kind, largest first.
    pub alive: Vec<AliveKind>,
}

/// Tensors of one kind that are alive at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AliveKind {
    /// The kind.
    pub kind: BufferKind,
    /// Their total size.
    pub bytes: Bytes,
    /// Tensors of this kind, largest first; none for fragmentation.
    pub tensors: Vec<AliveTensors>,
}

/// Tensors with the same name and shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AliveTensors {
    /// llama.cpp's name: `attn_inp_kq_mask`; for an unnamed one its operation.
    pub name: String,
    /// `f16 · 32768 × 512`.
    pub shape: String,
    /// Their number.
    pub count: usize,
    /// Their total size.
    pub bytes: Bytes,
}

/// The purpose of tensors in a compute buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each has a sentence of its own")]
pub enum BufferKind {
    Logits,
    Scores,
    Attention,
    Masks,
    Experts,
    Routing,
    FeedForward,
    States,
    Hidden,
    CopiedWeights,
    CopiedCaches,
    SplitInputs,
    Inputs,
    Intermediates,
    Fragmentation,
}

impl BufferKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Logits => "logits",
            Self::Scores => "attention scores",
            Self::Attention => "queries, keys, values",
            Self::Masks => "attention masks",
            Self::Experts => "expert activations",
            Self::Routing => "expert routing",
            Self::FeedForward => "feed-forward activations",
            Self::States => "recurrent states",
            Self::Hidden => "hidden states",
            Self::CopiedWeights => "weights copied from RAM",
            Self::CopiedCaches => "KV cache copied from RAM",
            Self::SplitInputs => "copies between devices",
            Self::Inputs => "inputs",
            Self::Intermediates => "intermediate tensors",
            Self::Fragmentation => "fragmentation",
        }
    }

    /// A description, as one sentence.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Logits => "One score per vocabulary entry, for each token whose output is requested.",
            Self::Scores => {
                "How strongly each token of the ubatch attends to each cell of the KV cache, per head; flash \
                 attention never stores them in full."
            }
            Self::Attention => "The inputs and outputs of attention: queries, keys, values and their products.",
            Self::Masks => {
                "Which token may attend to which cell of the KV cache: ubatch × context, so it grows with both."
            }
            Self::Experts => "The outputs of the selected experts of a block, several per token of the ubatch.",
            Self::Routing => "The experts selected for each token, and their weights.",
            Self::FeedForward => "The outputs of a block's feed-forward network, wider than the hidden state.",
            Self::States => {
                "The states that recurrent blocks carry from token to token, and their intermediate \
                             results."
            }
            Self::Hidden => "The tokens of the ubatch as they pass from block to block.",
            Self::CopiedWeights => {
                "Weights in RAM that are copied here for one operation, because a GPU is faster for many tokens \
                 (--no-op-offload turns this off)."
            }
            Self::CopiedCaches => "Parts of the KV cache on another device that are copied here for attention.",
            Self::SplitInputs => "Results from another device that are read here.",
            Self::Inputs => "Data set before the graph runs: tokens, positions and similar.",
            Self::Intermediates => "Results that only the next operation reads.",
            Self::Fragmentation => {
                "Space that no live tensor occupies at this point, but an earlier or later one does."
            }
        }
    }
}
