//! What the mixes ask of a model.

use crate::gguf::Value;
use crate::model::Model;

/// Architectures that the rules make an exception of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuantFamily {
    /// A few mixes treat it differently.
    Falcon,
    /// Other tensors than experts have three dimensions too, so that experts are told by their names.
    BailingMoe3,
    /// More tensors are kept, and some held at `Q8_0`.
    Glm5Next,
    Any,
}

impl QuantFamily {
    pub(super) fn of(architecture: &str) -> Self {
        match architecture {
            "falcon" => Self::Falcon,
            "bailingmoe3" => Self::BailingMoe3,
            "glm5-next" => Self::Glm5Next,
            _ => Self::Any,
        }
    }
}

/// What the mixes ask of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuantTraits {
    /// The architecture, where the rules make an exception of it.
    pub family: QuantFamily,
    /// Blocks, as llama.cpp counts them.
    pub blocks: u64,
    /// Experts; zero where there are none.
    pub experts: u64,
    /// At least four attention heads share a KV head.
    pub shared_heads: bool,
    /// llama.cpp takes it for a model of 70 billion weights.
    pub size_70b: bool,
    /// There is no output tensor: the token embeddings serve as one.
    pub tied: bool,
}

/// Architectures and their numbers of blocks that llama.cpp takes for models of 70 billion weights: `LLM_TYPE_70B` in
/// src/models (llama-cpp-sys-2 0.1.161).
const SIZE_70B: [(&str, u64); 6] =
    [("llama", 80), ("llama-embed", 80), ("qwen2", 80), ("deci", 80), ("olmo", 80), ("jais2", 68)];

impl QuantTraits {
    pub(super) fn of(model: &Model) -> Self {
        let hyper = &model.hyper;
        let heads = hyper.heads.first().copied().unwrap_or(0);
        let kv_heads = hyper.kv_heads.first().copied().unwrap_or(0);
        let experts = hyper.experts.map_or(0, |experts| experts.count);
        Self {
            family: QuantFamily::of(&model.architecture),
            blocks: blocks(model),
            experts,
            shared_heads: heads.checked_div(kv_heads).is_some_and(|sharing| sharing >= 4),
            size_70b: is_size_70b(model, heads != kv_heads),
            tied: model.tensor("output.weight").is_none(),
        }
    }
}

/// A Nanbeige model runs through its blocks several times over, and Granite Switch has a router behind the last one;
/// llama.cpp counts both as blocks (src/models/nanbeige.cpp and granite-switch.cpp, llama-cpp-sys-2 0.1.161).
fn blocks(model: &Model) -> u64 {
    let declared = model.block_count() as u64;
    match model.architecture.as_str() {
        "nanbeige" => declared.saturating_mul(number(model, "num_loops").unwrap_or(1)),
        "graniteswitch" => without_predicting(model) + 1,
        _ => declared,
    }
}

fn is_size_70b(model: &Model, fewer_kv_heads: bool) -> bool {
    let architecture = model.architecture.as_str();
    let llama = matches!(architecture, "llama" | "llama-embed");
    SIZE_70B.contains(&(architecture, without_predicting(model))) && (!llama || fewer_kv_heads)
}

/// Blocks, but for those at the end that only predict further tokens.
fn without_predicting(model: &Model) -> u64 {
    (model.block_count() as u64).saturating_sub(number(model, "nextn_predict_layers").unwrap_or(0))
}

fn number(model: &Model, key: &str) -> Option<u64> {
    model.value(key).and_then(Value::as_u64)
}
