//! What a tensor is to the quantiser, by its name alone: which rule speaks of it, and whether any does.

use std::collections::HashMap;

use super::traits::QuantFamily;

/// The part that a tensor plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TensorCategory {
    /// `output`.
    Output,
    /// The embeddings of tokens, those per layer too.
    Embedding,
    /// Whatever makes the values of attention: V alone, Q, K and V in one, or the KV projection of MLA.
    Value,
    Key,
    Query,
    AttnOutput,
    FfnUp,
    FfnGate,
    FfnDown,
    Other,
}

/// What a name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TensorKind {
    pub role: TensorCategory,
    /// It stays in the format that it has.
    pub kept: bool,
    /// GLM 5 Next holds it at `Q8_0` in every mix.
    pub precise: bool,
}

/// Names and parts of names, and the first of them that is found tells the role: `tensor_get_category` in
/// src/llama-quant.cpp (llama-cpp-sys-2 0.1.161).
const ROLES: [(&str, TensorCategory); 9] = [
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
const KEPT: &[&str] = &[
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
    // MiniMax's indexer
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
    // T5's relative positions
    "attn_rel_b.weight",
    // images
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    // sound
    "a.rvq.codebook",
    "mm.a.code_embd",
];

/// The same, by whole name: the positions and token types of BERT.
const KEPT_NAMES: [&str; 2] = ["position_embd.weight", "token_types.weight"];

/// The same, for GLM 5 Next only.
const KEPT_BY_GLM5_NEXT: &[&str] = &[
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

/// What GLM 5 Next holds at `Q8_0`: `llama_tensor_get_type_impl` in src/llama-quant.cpp (llama-cpp-sys-2 0.1.161).
const PRECISE_IN_GLM5_NEXT: &[&str] = &["attn_q_a", "attn_q_b", "nextn.eh_proj"];

/// Tells kinds, and remembers them: the blocks of a model have the same names but for their number.
pub(super) struct TensorKinds<'m> {
    family: QuantFamily,
    known: HashMap<&'m str, TensorKind>,
}

impl<'m> TensorKinds<'m> {
    pub(super) fn new(family: QuantFamily) -> Self {
        Self { family, known: HashMap::new() }
    }

    pub(super) fn of(&mut self, name: &'m str) -> TensorKind {
        let glm5_next = self.family == QuantFamily::Glm5Next;
        let own = without_block(name);
        *self.known.entry(own).or_insert_with(|| kind(own, glm5_next))
    }
}

fn kind(name: &str, glm5_next: bool) -> TensorKind {
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let role = match name {
        "output.weight" => TensorCategory::Output,
        "token_embd.weight" | "per_layer_token_embd.weight" => TensorCategory::Embedding,
        _ => ROLES.iter().find(|(part, _)| name.contains(part)).map_or(TensorCategory::Other, |&(_, role)| role),
    };
    let kept =
        !name.ends_with("weight") || KEPT_NAMES.contains(&name) || has(KEPT) || (glm5_next && has(KEPT_BY_GLM5_NEXT));
    TensorKind { role, kept, precise: glm5_next && has(PRECISE_IN_GLM5_NEXT) }
}

/// The block that a name begins with, as in `blk.7.ffn_up.weight`.
pub(super) fn block(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("blk.")?;
    digits.get(..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len()))?.parse().ok()
}

/// `.ffn_up.weight` of `blk.7.ffn_up.weight`; the point stays, because it begins some of the parts looked for.
fn without_block(name: &str) -> &str {
    let Some(numbered) = name.strip_prefix("blk.") else { return name };
    let own = numbered.trim_start_matches(|c: char| c.is_ascii_digit());
    if own.starts_with('.') { own } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_role() {
        for (name, role, kept) in [
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
                TensorKind { role, kept, precise: false },
                "{name}"
            );
        }
    }

    #[test]
    fn glm_5_next_has_its_own() {
        let mut kinds = TensorKinds::new(QuantFamily::Glm5Next);
        assert!(kinds.of("blk.0.attn_q_a.weight").precise);
        assert!(kinds.of("blk.0.attn_v_b.weight").kept);
        assert!(!TensorKinds::new(QuantFamily::Any).of("blk.0.attn_q_a.weight").precise);
    }

    #[test]
    fn blocks_are_numbered() {
        assert_eq!(block("blk.17.ffn_up.weight"), Some(17));
        assert_eq!(block("v.blk.17.ffn_up.weight"), None);
        assert_eq!(block("blk.x"), None);
        assert_eq!(block("blk.99999999999999999999.x"), None);
        assert_eq!(without_block("blk.17.ffn_up.weight"), ".ffn_up.weight");
        assert_eq!(without_block("blk.17output.weight"), "blk.17output.weight");
    }
}
