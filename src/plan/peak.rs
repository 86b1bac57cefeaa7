//! What fills a device's compute buffer at its fullest moment.

use serde::Serialize;

use crate::units::Bytes;

/// The fullest moment of one device's compute buffer, and all that is alive in it then.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peak {
    /// Index into [`super::Plan::devices`].
    pub device: usize,
    /// What the buffer takes: the sum of what is alive.
    pub bytes: Bytes,
    /// The tensor that is computed or copied at that moment, as llama.cpp names it: `ffn_moe_gate-12`.
    pub node: String,
    /// Its place in the order of computation, from 1.
    pub step: usize,
    /// Steps in all.
    pub steps: usize,
    /// Kind by kind, largest first.
    pub alive: Vec<Alive>,
}

/// Tensors of one kind that are alive at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alive {
    /// What they are.
    pub kind: Kind,
    /// Their sum.
    pub bytes: Bytes,
    /// Each of them, largest first; none for gaps.
    pub tensors: Vec<Held>,
}

/// Tensors that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// As llama.cpp names them: `attn_inp_kq_mask`; a nameless one by its operation.
    pub name: String,
    /// `f16 · 32768 × 512`.
    pub shape: String,
    /// How many of them.
    pub count: usize,
    /// Their sum.
    pub bytes: Bytes,
}

/// What tensors in a compute buffer are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each has a sentence of its own")]
pub enum Kind {
    Logits,
    Scores,
    Attention,
    Masks,
    Experts,
    Routing,
    FeedForward,
    States,
    Hidden,
    StreamedWeights,
    StreamedCaches,
    Crossings,
    Inputs,
    Steps,
    Gaps,
}

impl Kind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Logits => "logits",
            Self::Scores => "attention scores",
            Self::Attention => "queries, keys, values",
            Self::Masks => "attention masks",
            Self::Experts => "expert activations",
            Self::Routing => "choice of experts",
            Self::FeedForward => "feed-forward activations",
            Self::States => "recurrent states",
            Self::Hidden => "hidden states",
            Self::StreamedWeights => "weights streamed here",
            Self::StreamedCaches => "caches streamed here",
            Self::Crossings => "copies between devices",
            Self::Inputs => "inputs",
            Self::Steps => "steps in between",
            Self::Gaps => "gaps",
        }
    }

    /// What it is, in one sentence.
    pub const fn says(self) -> &'static str {
        match self {
            Self::Logits => "A number for every word of the vocabulary, for each token whose answer is wanted.",
            Self::Scores => {
                "How much every token of the ubatch attends to every place of the cache, head by head; flash attention \
                 never holds them as a whole."
            }
            Self::Attention => "What attention computes with: queries, keys and values, and what it makes of them.",
            Self::Masks => {
                "Which token may attend to which place of the cache: the ubatch times the whole context, so it grows \
                 with both."
            }
            Self::Experts => "What the chosen experts of a block compute, several for each token of the ubatch.",
            Self::Routing => "Which experts each token goes to, and how much each of them counts.",
            Self::FeedForward => "What the feed-forward part of a block computes, wider than the hidden state.",
            Self::States => "What recurrent blocks carry from token to token, and their steps.",
            Self::Hidden => "The tokens of the ubatch on their way from block to block.",
            Self::StreamedWeights => {
                "Weights that lie in RAM, copied here for one operation because a GPU is faster with many tokens \
                 (--no-op-offload keeps them where they are)."
            }
            Self::StreamedCaches => "Parts of the KV cache that lie on another device, copied here for attention.",
            Self::Crossings => "Results of another device that are read here.",
            Self::Inputs => "What is filled in before the graph runs: tokens, places, and the like.",
            Self::Steps => "Results that only the next operation reads.",
            Self::Gaps => "Room that no tensor alive at this moment has, but one before did or one after will.",
        }
    }
}
