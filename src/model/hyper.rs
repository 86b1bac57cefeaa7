//! Hyperparameters from the header, of any integer type. Engines have their own rules for missing and mistyped ones. And the
//! groups of a model's tensors, and its summary.

use schemars::JsonSchema;
use serde::Serialize;

use super::Model;
use crate::gguf::{Elements, Metadata, Tensor, Value};
use crate::units::{Bytes, parameters};

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
            Value::Array(array) => {
                array.elements.integers()?.into_iter().map(|number| u64::try_from(number).unwrap_or(0)).collect()
            }
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

/// A part of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorGroup {
    /// A block, by index: `blk.N.…`.
    Block(usize),
    /// `output_norm` and `output`.
    Output,
    /// `token_embd` and all tensors that are not in another group.
    Input,
    /// The image or audio projector: `v`, `mm`, `a`.
    Projector,
    /// Blocks beyond the block count of the header.
    Beyond,
}

/// Indices of tensors, per group.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TensorGroups {
    blocks: Vec<Vec<usize>>,
    output: Vec<usize>,
    input: Vec<usize>,
    projector: Vec<usize>,
    beyond: Vec<usize>,
}

impl TensorGroups {
    pub(super) fn of(tensors: &[Tensor], blocks: usize) -> Self {
        let mut groups = Self { blocks: vec![Vec::new(); blocks], ..Self::default() };
        for (index, tensor) in tensors.iter().enumerate() {
            groups.push(group_of(&tensor.name), index);
        }
        groups
    }

    fn push(&mut self, group: TensorGroup, index: usize) {
        let list = match group {
            TensorGroup::Block(number) => self.blocks.get_mut(number).unwrap_or(&mut self.beyond),
            TensorGroup::Output => &mut self.output,
            TensorGroup::Input => &mut self.input,
            TensorGroup::Projector => &mut self.projector,
            TensorGroup::Beyond => &mut self.beyond,
        };
        list.push(index);
    }

    pub(super) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn of_group(&self, group: TensorGroup) -> &[usize] {
        match group {
            TensorGroup::Block(number) => self.blocks.get(number).map_or(&[], Vec::as_slice),
            TensorGroup::Output => &self.output,
            TensorGroup::Input => &self.input,
            TensorGroup::Projector => &self.projector,
            TensorGroup::Beyond => &self.beyond,
        }
    }
}

/// The group by name alone. `blk.N.` only counts as a block if N is a plain number and a tensor's name follows.
fn group_of(name: &str) -> TensorGroup {
    let mut parts = name.split('.');
    match parts.next().unwrap_or_default() {
        "blk" => match (parts.next().and_then(plain_number), parts.next()) {
            (Some(number), Some(_)) => TensorGroup::Block(number),
            _ => TensorGroup::Beyond,
        },
        "output_norm" | "output" => TensorGroup::Output,
        "v" | "mm" | "a" => TensorGroup::Projector,
        _ => TensorGroup::Input,
    }
}

/// `7`, but not `07` or `+7`.
fn plain_number(text: &str) -> Option<usize> {
    let plain = text == "0" || (!text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()));
    text.parse().ok().filter(|_| plain)
}

/// Key facts of a model.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ModelSummary {
    /// `general.name`, or else the file's name.
    pub name: String,
    /// `general.architecture`.
    pub architecture: String,
    /// The quantisation, `Q4_K_M`; none if the header lacks it.
    pub file_type: Option<String>,
    /// Number of weights.
    pub parameters: u64,
    /// Those of them that a token reads: of the experts, as many as are used; no tables of which it looks up a row, unless
    /// they are the output layer too; no blocks that predict further tokens.
    pub active_parameters: u64,
    /// Number of experts; none for a dense model.
    pub experts: Option<u64>,
    /// Sum of the tensors' bytes.
    pub bytes: Bytes,
    /// Number of blocks.
    pub layers: usize,
    /// How many of them, the last ones, predict further tokens (`NextN`, or MTP).
    pub nextn_layers: usize,
    /// Context that the model was trained for, in tokens.
    pub context_train: Option<u64>,
}

impl ModelSummary {
    /// Whether it was trained for a context of `tokens`, as far as its header says.
    pub fn is_trained_for(&self, tokens: u64) -> bool {
        self.context_train.is_none_or(|trained| trained >= tokens)
    }

    /// Its parameters, with experts also those that a token needs: `30.5 B (3.3 B)`.
    pub fn parameters_text(&self) -> String {
        let all = parameters(self.parameters);
        if self.experts.is_some() { format!("{all} ({})", parameters(self.active_parameters)) } else { all }
    }
}

impl Model {
    /// Blocks at the end that predict further tokens, by `nextn_predict_layers`.
    pub fn nextn_layers(&self) -> usize {
        let declared = self.value("nextn_predict_layers").and_then(Value::as_u64).unwrap_or(0);
        usize::try_from(declared).unwrap_or(usize::MAX).min(self.block_count())
    }

    /// Key facts of the model.
    pub fn summary(&self) -> ModelSummary {
        ModelSummary {
            name: self.name.clone(),
            architecture: self.architecture.clone(),
            file_type: self.file_type.map(str::to_owned),
            parameters: self.parameters,
            active_parameters: self.active_parameters,
            experts: self.hyper.experts.map(|experts| experts.count),
            bytes: self.bytes,
            layers: self.block_count(),
            nextn_layers: self.nextn_layers(),
            context_train: self.hyper.context_train,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_grouped_by_name() {
        for (name, group) in [
            ("blk.0.attn_q.weight", TensorGroup::Block(0)),
            ("blk.93.ffn_gate.7.weight", TensorGroup::Block(93)),
            ("blk.07.attn_q.weight", TensorGroup::Beyond),
            ("blk.1", TensorGroup::Beyond),
            ("blk.x.attn_q.weight", TensorGroup::Beyond),
            ("output.weight", TensorGroup::Output),
            ("output_norm.weight", TensorGroup::Output),
            ("token_embd.weight", TensorGroup::Input),
            ("rope_freqs.weight", TensorGroup::Input),
            ("v.blk.0.attn_q.weight", TensorGroup::Projector),
            ("mm.0.weight", TensorGroup::Projector),
            ("a.conv1d.weight", TensorGroup::Projector),
            ("", TensorGroup::Input),
        ] {
            assert_eq!(group_of(name), group, "{name}");
        }
    }
}
