//! Category of a tensor by its name, and tensors that are never quantised.

use super::traits::QuantFamily;

use std::collections::HashMap;

/// Tensor category as in llama-quant (`tensor_category`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TensorCategory {
    /// `output`.
    Output,
    /// Token embeddings, including those per layer.
    Embedding,
    /// Tensors that compute V: `attn_v`, the fused `attn_qkv`, and `attn_kv_b` of MLA.
    Value,
    Key,
    Query,
    AttnOutput,
    FfnUp,
    FfnGate,
    FfnDown,
    Other,
}

/// How a tensor is treated, from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TensorKind {
    pub category: TensorCategory,
    /// It keeps its type.
    pub kept: bool,
    /// It is always `Q8_0`, as some tensors of GLM 5 Next.
    pub precise: bool,
}

/// Parts of names and their categories; the first match counts: `tensor_get_category` in src/llama-quant.cpp
/// (llama-cpp-sys-2 0.1.161).
pub(super) const CATEGORIES: [(&str, TensorCategory); 9] = [
    ("attn_qkv.weight", TensorCategory::Value),
    ("attn_kv_b.weight", TensorCategory::Value),
    ("attn_v.weight", TensorCategory::Value),
    ("attn_k.weight", TensorCategory::Key),
    ("attn_q.weight", TensorCategory::Query),
    ("attn_output.weight", TensorCategory::AttnOutput),
    ("ffn_up", TensorCategory::FfnUp),
    ("ffn_gate", TensorCategory::FfnGate),
    ("ffn_down", TensorCategory::FfnDown),
];

/// Parts of the names of weights that are never quantised: `tensor_allows_quantization` in src/llama-quant.cpp
/// (llama-cpp-sys-2 0.1.161).
pub(super) const KEPT: &[&str] = &[
    "_norm.weight",
    // routers of experts
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    // Gemma 3n and 4
    "altup",
    "laurel",
    "per_layer_model_proj",
    // convolutions of recurrent blocks
    "ssm_conv1d",
    "shortconv.conv.weight",
    // MiniMax indexer
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    // RWKV
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    // relative positions of T5
    "attn_rel_b.weight",
    // vision encoders
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    // audio encoders
    "a.rvq.codebook",
    "mm.a.code_embd",
];

/// Full names of further such weights: the positions and token types of BERT.
pub(super) const KEPT_NAMES: [&str; 2] = ["position_embd.weight", "token_types.weight"];

/// Further parts of names for GLM 5 Next.
pub(super) const KEPT_BY_GLM5_NEXT: &[&str] = &[
    "hc_",
    "indexer.attn_q_b",
    "indexer.attn_k",
    "indexer.proj",
    "indexer_compressor_gate",
    "indexer_compressor_ape",
    "ssm_f_a.weight",
    "ssm_f_b.weight",
    "ssm_g_a.weight",
    "ssm_g_b.weight",
    "ssm_beta.weight",
    "attn_kv_a_mqa.weight",
    "attn_k_b.weight",
    "attn_v_b.weight",
];

/// Tensors of GLM 5 Next that are always `Q8_0`: `llama_tensor_get_type_impl` in src/llama-quant.cpp (llama-cpp-sys-2
/// 0.1.161).
pub(super) const PRECISE_IN_GLM5_NEXT: &[&str] = &["attn_q_a", "attn_q_b", "nextn.eh_proj"];

/// Cached kinds by name without the block, as the names repeat in every block.
pub(super) struct TensorKinds<'m> {
    family: QuantFamily,
    known: HashMap<&'m str, TensorKind>,
}

impl<'m> TensorKinds<'m> {
    pub fn new(family: QuantFamily) -> Self {
        Self { family, known: HashMap::new() }
    }

    pub fn of(&mut self, name: &'m str) -> TensorKind {
        let glm5_next = self.family == QuantFamily::Glm5Next;
        let own = without_block(name);
        *self.known.entry(own).or_insert_with(|| kind(own, glm5_next))
    }
}

pub(super) fn kind(name: &str, glm5_next: bool) -> TensorKind {
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let category = match name {
        "output.weight" => TensorCategory::Output,
        "token_embd.weight" | "per_layer_token_embd.weight" => TensorCategory::Embedding,
        _ => CATEGORIES
            .iter()
            .find(|(part, _)| name.contains(part))
            .map_or(TensorCategory::Other, |&(_, category)| category),
    };
    let kept =
        !name.ends_with("weight") || KEPT_NAMES.contains(&name) || has(KEPT) || (glm5_next && has(KEPT_BY_GLM5_NEXT));
    TensorKind { category, kept, precise: glm5_next && has(PRECISE_IN_GLM5_NEXT) }
}

/// The block index in a name such as `blk.7.ffn_up.weight`.
pub(super) fn block(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("blk.")?;
    digits.get(..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len()))?.parse().ok()
}

/// `.ffn_up.weight` of `blk.7.ffn_up.weight`; the dot stays because some of the parts above begin with one.
pub(super) fn without_block(name: &str) -> &str {
    let Some(numbered) = name.strip_prefix("blk.") else { return name };
    let own = numbered.trim_start_matches(|c: char| c.is_ascii_digit());
    if own.starts_with('.') { own } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_category() {
        for (name, category, kept) in [
            ("output.weight", TensorCategory::Output, false),
            ("blk.3.output.weight", TensorCategory::Other, false),
            ("token_embd.weight", TensorCategory::Embedding, false),
            ("per_layer_token_embd.weight", TensorCategory::Embedding, false),
            ("token_embd_norm.weight", TensorCategory::Other, true),
            ("blk.12.attn_qkv.weight", TensorCategory::Value, false),
            ("blk.0.attn_kv_b.weight", TensorCategory::Value, false),
            ("dec.blk.0.cross_attn_v.weight", TensorCategory::Value, false),
            ("blk.0.attn_v_b.weight", TensorCategory::Other, false),
            ("blk.0.attn_k_norm.weight", TensorCategory::Other, true),
            ("blk.0.ffn_gate_inp.weight", TensorCategory::FfnGate, true),
            ("blk.0.ffn_gate_inp_shexp.weight", TensorCategory::FfnGate, false),
            ("blk.0.ffn_down_exps.weight", TensorCategory::FfnDown, false),
            ("blk.0.ffn_down.bias", TensorCategory::FfnDown, true),
            ("v.patch_embd.weight", TensorCategory::Other, true),
            ("position_embd.weight", TensorCategory::Other, true),
            ("v.position_embd.weight", TensorCategory::Other, true),
            ("", TensorCategory::Other, true),
        ] {
            assert_eq!(
                TensorKinds::new(QuantFamily::Any).of(name),
                TensorKind { category, kept, precise: false },
                "{name}"
            );
        }
    }

    #[test]
    fn glm_5_next_has_exceptions() {
        let mut kinds = TensorKinds::new(QuantFamily::Glm5Next);
        assert!(kinds.of("blk.0.attn_q_a.weight").precise);
        assert!(kinds.of("blk.0.attn_v_b.weight").kept);
        assert!(!TensorKinds::new(QuantFamily::Any).of("blk.0.attn_q_a.weight").precise);
    }

    #[test]
    fn block_indices_are_parsed() {
        assert_eq!(block("blk.17.ffn_up.weight"), Some(17));
        assert_eq!(block("v.blk.17.ffn_up.weight"), None);
        assert_eq!(block("blk.x"), None);
        assert_eq!(block("blk.99999999999999999999.x"), None);
        assert_eq!(without_block("blk.17.ffn_up.weight"), ".ffn_up.weight");
        assert_eq!(without_block("blk.17output.weight"), "blk.17output.weight");
    }
}
