//! Hyperparameters from the header, of any integer type. Engines have their own rules for missing and mistyped ones.

use crate::gguf::{Elements, Metadata, Value};

/// Hyperparameters; lists have one entry per block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hyperparameters {
    /// Context that the model was trained for, in tokens.
    pub context_train: Option<u64>,
    /// Size of the vocabulary, in tokens.
    pub vocabulary: Option<u64>,
    /// Embedding length (`n_embd`).
    pub embedding: Option<u64>,
    /// Attention heads per block; zero for blocks without attention.
    pub heads: Vec<u64>,
    /// KV heads per block; by default as many as attention heads.
    pub kv_heads: Vec<u64>,
    /// Length of a K head (`n_embd_head_k`).
    pub key_length: Option<u64>,
    /// Length of a V head (`n_embd_head_v`).
    pub value_length: Option<u64>,
    /// Feed-forward length per block.
    pub feed_forward: Vec<u64>,
    /// Sliding window, in tokens.
    pub sliding_window: Option<u64>,
    /// Which blocks use sliding-window attention; empty if the header lacks it.
    pub sliding: Vec<bool>,
    /// Sizes of recurrent blocks.
    pub ssm: Option<Ssm>,
    /// Experts of a mixture of experts.
    pub experts: Option<Experts>,
}

/// Sizes of recurrent blocks (state space models).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ssm {
    /// Width of the convolution.
    pub conv_kernel: u64,
    /// Inner size.
    pub inner_size: u64,
    /// State size.
    pub state_size: u64,
    /// Number of groups.
    pub group_count: u64,
    /// Rank of the time step.
    pub time_step_rank: u64,
}

/// Experts of a mixture of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    /// Number of experts (`n_expert`).
    pub count: u64,
    /// Experts used per token (`n_expert_used`).
    pub used: u64,
}

impl Hyperparameters {
    pub(super) fn read(metadata: &Metadata, architecture: &str, blocks: usize) -> Self {
        let reader = Reader { metadata, architecture };
        let number = |key| reader.number(key);
        let heads = reader.per_block("attention.head_count", blocks).unwrap_or_else(|| vec![0; blocks]);
        let kv_heads = reader.per_block("attention.head_count_kv", blocks).unwrap_or_else(|| heads.clone());
        let embedding = number("embedding_length");
        let head_length = || {
            let fewest = heads.iter().copied().filter(|&heads| heads > 0).min()?;
            Some(embedding? / fewest)
        };
        let ssm = number("ssm.state_size").map(|state_size| Ssm {
            conv_kernel: number("ssm.conv_kernel").unwrap_or(0),
            inner_size: number("ssm.inner_size").unwrap_or(0),
            state_size,
            group_count: number("ssm.group_count").unwrap_or(0),
            time_step_rank: number("ssm.time_step_rank").unwrap_or(0),
        });
        let experts = number("expert_count").filter(|&count| count > 0);
        let tokens = metadata.get("tokenizer.ggml.tokens").and_then(Value::as_array);
        Self {
            context_train: number("context_length").filter(|&tokens| tokens > 0),
            vocabulary: tokens.map(|array| array.len).or_else(|| number("vocab_size")),
            embedding,
            key_length: number("attention.key_length").or_else(head_length),
            value_length: number("attention.value_length").or_else(head_length),
            feed_forward: reader.per_block("feed_forward_length", blocks).unwrap_or_else(|| vec![0; blocks]),
            sliding_window: number("attention.sliding_window").filter(|&tokens| tokens > 0),
            sliding: reader.flags("attention.sliding_window_pattern"),
            ssm,
            experts: experts.map(|count| Experts { count, used: number("expert_used_count").unwrap_or(0) }),
            heads,
            kv_heads,
        }
    }
}

struct Reader<'h> {
    metadata: &'h Metadata,
    architecture: &'h str,
}

impl Reader<'_> {
    fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(&format!("{}.{key}", self.architecture))
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.value(key)?.as_u64()
    }

    /// One number for all blocks, or a list with one per block; a short list is padded with zeros.
    fn per_block(&self, key: &str, blocks: usize) -> Option<Vec<u64>> {
        let mut numbers: Vec<u64> = match self.value(key)? {
            Value::Array(array) => match &array.elements {
                Elements::U32(list) => list.iter().map(|&n| n.into()).collect(),
                Elements::I32(list) => list.iter().map(|&n| u64::try_from(n).unwrap_or(0)).collect(),
                _ => return None,
            },
            value => vec![value.as_u64()?; blocks],
        };
        numbers.resize(blocks, 0);
        Some(numbers)
    }

    fn flags(&self, key: &str) -> Vec<bool> {
        match self.value(key) {
            Some(Value::Array(array)) => match &array.elements {
                Elements::Bool(flags) => flags.clone(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}
