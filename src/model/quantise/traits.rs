//! Properties of a model that the rules depend on.

use crate::gguf::Value;
use crate::model::Model;

/// Architectures with special rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuantFamily {
    /// Some mixes use other types.
    Falcon,
    /// Tensors other than experts have three dimensions too, so experts are recognised by name.
    BailingMoe3,
    /// More tensors are not quantised, and some are always `Q8_0`.
    Glm5Next,
    Any,
}

impl QuantFamily {
    pub fn of(architecture: &str) -> Self {
        match architecture {
            "falcon" => Self::Falcon,
            "bailingmoe3" => Self::BailingMoe3,
            "glm5-next" => Self::Glm5Next,
            _ => Self::Any,
        }
    }
}

/// Properties of a model that the quantiser's rules depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuantTraits {
    pub family: QuantFamily,
    /// Number of blocks, as llama.cpp counts them.
    pub blocks: u64,
    /// Number of experts; zero without any.
    pub experts: u64,
    /// Whether at least four attention heads share a KV head.
    pub shared_heads: bool,
    /// Whether llama.cpp classifies it as `LLM_TYPE_70B`.
    pub size_70b: bool,
    /// Whether the token embeddings are also the output tensor.
    pub tied: bool,
}

/// Architectures and block counts that llama.cpp classifies as `LLM_TYPE_70B`: src/models (llama-cpp-sys-2 0.1.161).
pub(super) const SIZE_70B: [(&str, u64); 6] =
    [("llama", 80), ("llama-embed", 80), ("qwen2", 80), ("deci", 80), ("olmo", 80), ("jais2", 68)];

impl QuantTraits {
    pub fn of(model: &Model) -> Self {
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

/// Number of blocks as llama.cpp counts them: it counts each loop of Nanbeige over its blocks, and the router after the
/// last block of Granite Switch (src/models/nanbeige.cpp and granite-switch.cpp, llama-cpp-sys-2 0.1.161).
pub(super) fn blocks(model: &Model) -> u64 {
    let declared = model.block_count() as u64;
    match model.architecture.as_str() {
        "nanbeige" => declared.saturating_mul(number(model, "num_loops").unwrap_or(1)),
        "graniteswitch" => without_nextn(model) + 1,
        _ => declared,
    }
}

pub(super) fn is_size_70b(model: &Model, fewer_kv_heads: bool) -> bool {
    let architecture = model.architecture.as_str();
    let llama = matches!(architecture, "llama" | "llama-embed");
    SIZE_70B.contains(&(architecture, without_nextn(model))) && (!llama || fewer_kv_heads)
}

/// Number of blocks without the `NextN` (MTP) blocks at the end.
pub(super) fn without_nextn(model: &Model) -> u64 {
    (model.block_count() as u64).saturating_sub(number(model, "nextn_predict_layers").unwrap_or(0))
}

pub(super) fn number(model: &Model, key: &str) -> Option<u64> {
    model.value(key).and_then(Value::as_u64)
}
