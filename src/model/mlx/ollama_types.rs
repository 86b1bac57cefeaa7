//! The type that `ollama create --quantize` gives each tensor of a model that is published in floating types.
//! Source: `x/create/create.go`, `quantpolicy.go` and a file for each architecture, Ollama fb30760 (August 2026).

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::array::Array;
use super::modes::{Scheme, Width};
use crate::model::config::ModelConfig;
use crate::safetensors::Dtype;

/// A type of Ollama's importer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum OllamaType {
    Int4,
    Int8,
    Nvfp4,
    Mxfp4,
    Mxfp8,
}

/// The types with their names.
const TYPES: [(OllamaType, &str); 5] = [
    (OllamaType::Int4, "int4"),
    (OllamaType::Int8, "int8"),
    (OllamaType::Nvfp4, "nvfp4"),
    (OllamaType::Mxfp4, "mxfp4"),
    (OllamaType::Mxfp8, "mxfp8"),
];

/// The fewest elements of a tensor that is quantised.
const FEWEST_ELEMENTS: u64 = 1024;
/// Layers of a Laguna model whose `config.json` does not say.
const LAGUNA_LAYERS: u64 = 40;

impl OllamaType {
    /// How its matrices are written.
    pub const fn width(self) -> Width {
        match self {
            Self::Int4 => Width::affine(4, 64),
            Self::Int8 => Width::affine(8, 64),
            Self::Nvfp4 => Width { scheme: Scheme::Float, bits: 4, group: 16 },
            Self::Mxfp4 => Width { scheme: Scheme::Float, bits: 4, group: 32 },
            Self::Mxfp8 => Width { scheme: Scheme::Float, bits: 8, group: 32 },
        }
    }

    /// The type of eight bits in its family.
    const fn eight_bit(self) -> Self {
        match self {
            Self::Int4 | Self::Int8 => Self::Int8,
            Self::Nvfp4 | Self::Mxfp4 | Self::Mxfp8 => Self::Mxfp8,
        }
    }

    /// Itself, if rows of this shape are whole groups.
    fn fitting(self, shape: &[u64]) -> Option<Self> {
        shape.last().is_some_and(|columns| columns % self.width().group == 0).then_some(self)
    }
}

impl fmt::Display for OllamaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(TYPES.iter().find(|(known, _)| known == self).map_or("", |(_, name)| name))
    }
}

impl FromStr for OllamaType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let known = TYPES.iter().find(|(_, name)| *name == lower).map(|(known, _)| *known);
        known.ok_or_else(|| {
            format!("ollama create --quantize has no '{text}': it takes {}", TYPES.map(|(_, name)| name).join(", "))
        })
    }
}

/// An importer: the rules of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    General,
    Qwen35,
    Gemma4,
    Cohere2Moe,
    Glimmer,
    NemotronH,
    Laguna,
}

/// Architectures with rules of their own, by how the first of `architectures` begins.
const ARCHITECTURES: [(&str, Rules); 9] = [
    ("Qwen3_5", Rules::Qwen35),
    ("Qwen3Next", Rules::Qwen35),
    ("Gemma4", Rules::Gemma4),
    ("gemma4_unified", Rules::Gemma4),
    ("Cohere2Moe", Rules::Cohere2Moe),
    ("MuseGlimmer", Rules::Glimmer),
    ("NemotronH", Rules::NemotronH),
    ("NemotronH_Nano", Rules::NemotronH),
    ("LagunaForCausalLM", Rules::Laguna),
];

/// The importer of one model.
#[derive(Clone, Debug)]
pub struct Importer<'c> {
    rules: Rules,
    config: &'c ModelConfig,
    layers: u64,
    asked: OllamaType,
}

impl<'c> Importer<'c> {
    /// The importer of this model with `--quantize asked`.
    pub fn new(config: &'c ModelConfig, asked: OllamaType) -> Self {
        let architecture = config.architecture().unwrap_or_default();
        let rules = ARCHITECTURES.iter().find(|(begin, _)| architecture.starts_with(begin));
        let rules = rules.map_or(Rules::General, |(_, rules)| *rules);
        let listed = config.get("mlp_layer_types").and_then(Value::as_array).map(|list| list.len() as u64);
        let nested = config.outer().get("llm_config").and_then(|inner| inner.get("num_hidden_layers")?.as_u64());
        let layers = config.number("num_hidden_layers").or(nested).or(listed).filter(|&layers| layers > 0);
        let missing = if rules == Rules::Laguna { LAGUNA_LAYERS } else { 0 };
        Self { rules, config, layers: layers.unwrap_or(missing), asked }
    }

    /// The type of a tensor under its published name, with the experts of one projection as one; none: it is kept.
    pub fn type_of(&self, name: &str, shape: &[u64]) -> Option<OllamaType> {
        if let Some(own) = name.strip_prefix("draft.") {
            let is_end = is_embedding(own) || own.ends_with("lm_head.weight");
            return if is_end { self.asked.fitting(shape) } else { self.of_model(own, shape) };
        }
        self.of_model(name, shape)
    }

    fn of_model(&self, name: &str, shape: &[u64]) -> Option<OllamaType> {
        match self.rules {
            Rules::General => self.general(name, shape),
            Rules::Qwen35 => {
                let low_rank = ["in_proj_a", "in_proj_b", "in_proj_ba"];
                let is_kept = low_rank.iter().any(|end| name.ends_with(&format!(".linear_attn.{end}.weight")));
                if is_kept { None } else { self.general(name, shape) }
            }
            Rules::Gemma4 => self.gemma4(name, shape),
            Rules::Cohere2Moe => self.cohere2_moe(name, shape),
            Rules::Glimmer => self.glimmer(name, shape),
            Rules::NemotronH => self.nemotron_h(name, shape),
            Rules::Laguna => self.laguna(name, shape),
        }
    }

    /// The rules of every other architecture, in their order.
    fn general(&self, name: &str, shape: &[u64]) -> Option<OllamaType> {
        let experts = is_stacked_expert(name);
        if !experts && !is_plain_weight(name) {
            return None;
        }
        if !(shape.len() == 2 || shape.len() == 3 && experts) {
            return None;
        }
        if shape.iter().copied().fold(1, u64::saturating_mul) < FEWEST_ELEMENTS || is_router(name) {
            return None;
        }
        if name.ends_with("lm_head.weight") {
            return self.asked.eight_bit().fitting(shape);
        }
        if is_vision(name) {
            return None;
        }
        let asked = self.asked.fitting(shape)?;
        let promotes = match asked {
            OllamaType::Int4 => true,
            OllamaType::Nvfp4 | OllamaType::Mxfp4 => !experts,
            OllamaType::Int8 | OllamaType::Mxfp8 => false,
        };
        let promoted = asked.eight_bit().fitting(shape).filter(|_| promotes && is_sensitive(name));
        Some(promoted.unwrap_or(asked))
    }

    /// Eight bits where `promotes`, or else what was asked for, as far as the shape allows.
    fn sensitive(&self, promotes: bool, shape: &[u64]) -> Option<OllamaType> {
        let eight = self.asked.eight_bit().fitting(shape).filter(|_| promotes);
        eight.or_else(|| self.asked.fitting(shape))
    }

    /// Whether this layer's sensitive tensors get more bits: the first and the last eighth, and every third up to `end`.
    fn more_bits(&self, name: &str, end: u64) -> bool {
        let Some(layer) = layer_of(name).filter(|_| self.layers > 0) else { return false };
        let (first, last) = (self.layers / 8, 7 * self.layers / 8);
        layer < first || layer >= last || layer < end && (layer - first) % 3 == 2
    }

    fn all_more_bits(&self, name: &str) -> bool {
        self.more_bits(name, 7 * self.layers / 8)
    }

    fn is_eight(&self) -> bool {
        self.asked.eight_bit() == self.asked
    }

    fn gemma4(&self, name: &str, shape: &[u64]) -> Option<OllamaType> {
        if is_embedding(name) {
            return self.sensitive(true, shape);
        }
        if is_vision(name) || is_audio(name) || !is_sensitive(name) || self.is_eight() {
            return self.general(name, shape);
        }
        let of_attention = name.contains(".v_proj") || name.contains(".k_proj");
        let few = of_attention && self.config.number("num_experts") == Some(8);
        let promotes = self.layers > 0 && (few || !name.contains(".k_proj") && self.all_more_bits(name));
        self.sensitive(promotes, shape)
    }

    fn cohere2_moe(&self, name: &str, shape: &[u64]) -> Option<OllamaType> {
        if is_embedding(name) && shape.len() == 2 {
            return self.asked.eight_bit().fitting(shape);
        }
        if name.ends_with(".mlp.gate.weight") {
            return None;
        }
        if is_sensitive(name) && !self.is_eight() && self.layers > 0 && layer_of(name).is_some() {
            return self.sensitive(self.all_more_bits(name), shape);
        }
        self.general(name, shape)
    }

    fn glimmer(&self, name: &str, shape: &[u64]) -> Option<OllamaType> {
        if is_vision(name) {
            return None;
        }
        if is_embedding(name) {
            return self.sensitive(true, shape);
        }
        let of_attention = |ends: &[&str]| ends.iter().any(|end| name.contains(&format!(".self_attn.{end}")));
        let attends = of_attention(&["q_proj", "o_proj", "k_proj", "v_proj"]);
        let others = of_attention(&["gate_proj", "output_gate_proj"]) || name.contains(".mlp.down_proj");
        if (attends || others) && !self.is_eight() {
            return self.sensitive(attends || self.all_more_bits(name), shape);
        }
        self.general(name, shape)
    }

    fn nemotron_h(&self, name: &str, shape: &[u64]) -> Option<OllamaType> {
        let unread = ["vision_model.", "mlp1.", "sound_encoder.", "sound_projection."];
        let kept = [".mixer.gate.weight", ".mixer.conv1d.weight"];
        if unread.iter().any(|begin| name.starts_with(begin)) || kept.iter().any(|end| name.ends_with(end)) {
            return None;
        }
        if name.ends_with("embeddings.weight") || name.ends_with("lm_head.weight") {
            return self.asked.eight_bit().fitting(shape);
        }
        let attends = ["q_proj", "k_proj", "v_proj", "o_proj"];
        let attends = attends.iter().any(|end| name.ends_with(&format!(".mixer.{end}.weight")));
        let downs = ["out_proj", "down_proj", "shared_experts.down_proj"];
        let is_down = downs.iter().any(|end| name.ends_with(&format!(".mixer.{end}.weight")))
            || name.contains(".mixer.experts.") && name.ends_with(".down_proj.weight");
        if matches!(self.asked, OllamaType::Nvfp4 | OllamaType::Mxfp4) && (attends || is_down) {
            let promotes = attends || layer_of(name).is_none() || self.all_more_bits(name);
            return self.sensitive(promotes, shape);
        }
        self.general(name, shape)
    }

    fn laguna(&self, name: &str, shape: &[u64]) -> Option<OllamaType> {
        if matches!(self.asked, OllamaType::Int4 | OllamaType::Int8) {
            return self.general(name, shape);
        }
        // as asked, where the general rules would give more bits
        let as_asked =
            || self.general(name, shape).map(|own| if own == self.asked.eight_bit() { self.asked } else { own });
        let eight = self.asked == OllamaType::Mxfp8;
        if is_embedding(name) || name.ends_with("lm_head.weight") {
            return self.asked.eight_bit().fitting(shape);
        }
        if name.ends_with(".mlp.gate.weight") {
            return None;
        }
        let attends = ["q_proj", "k_proj", "v_proj", "o_proj", "g_proj"];
        if attends.iter().any(|end| name.contains(&format!(".self_attn.{end}.weight"))) {
            return if eight { None } else { as_asked() };
        }
        let projection = ["gate_proj", "up_proj", "down_proj"];
        let is_dense = projection.iter().any(|end| name.contains(&format!(".mlp.{end}.weight")));
        if is_dense && layer_of(name).is_some_and(|layer| self.laguna_is_dense(layer)) {
            return as_asked();
        }
        let more = self.more_bits(name, (self.layers / 2).saturating_sub(4));
        if name.contains(".mlp.experts.") && name.ends_with(".down_proj.weight") && eight {
            return if more { None } else { as_asked() };
        }
        if name.contains(".mlp.shared_expert.down_proj.weight") {
            return match (eight, more) {
                (true, _) => None,
                (false, true) => self.general(name, shape),
                (false, false) => as_asked(),
            };
        }
        let is_projection = projection.iter().any(|end| name.ends_with(&format!(".{end}.weight")));
        let of_experts = name.contains(".mlp.shared_expert.") || name.contains(".mlp.experts.");
        if is_projection && of_experts { as_asked() } else { None }
    }

    fn laguna_is_dense(&self, layer: u64) -> bool {
        let listed = |key: &str| self.config.get(key).and_then(Value::as_array);
        let types = listed("mlp_layer_types");
        let by_type = |layer: u64| {
            let of_layer = types.zip(usize::try_from(layer).ok()).and_then(|(types, at)| types.get(at)?.as_str());
            of_layer == Some("dense")
        };
        let only = listed("mlp_only_layers");
        let is_only = |layer: u64| only.is_some_and(|list| list.iter().any(|value| value.as_u64() == Some(layer)));
        let any = types.is_some_and(|types| types.iter().any(|kind| kind.as_str() == Some("dense")));
        let none = !any && only.is_none_or(Vec::is_empty);
        by_type(layer) || is_only(layer) || none && layer == 0
    }
}

/// The arrays of a tensor that is kept or quantised, in the order of a file.
pub fn arrays(name: &str, shape: &[u64], dtype: Dtype, to: Option<OllamaType>) -> Vec<Array> {
    if let Some(to) = to {
        to.width().arrays(shape, dtype).into_iter().map(|(_, array)| array).collect()
    } else {
        // computed with in float32, and so kept in it
        let float32 = name.ends_with("A_log") || name.ends_with("e_score_correction_bias");
        vec![Array { dtype: if float32 { Dtype::F32 } else { dtype }, shape: shape.to_vec() }]
    }
}

fn layer_of(name: &str) -> Option<u64> {
    let (_, rest) = name.split_once(".layers.")?;
    let (number, _) = rest.split_once('.')?;
    number.parse().ok()
}

fn is_embedding(name: &str) -> bool {
    name.ends_with("embed_tokens.weight") && !name.contains("per_layer")
}

fn is_sensitive(name: &str) -> bool {
    [".v_proj", ".k_proj", "down_proj"].iter().any(|part| name.contains(part))
}

pub(super) fn is_vision(name: &str) -> bool {
    name.contains("vision") || name.contains("visual")
}

pub(super) fn is_audio(name: &str) -> bool {
    name.contains("audio_tower") || name.contains("embed_audio")
}

fn is_router(name: &str) -> bool {
    let ends = [".mlp.gate.weight", ".mixer.gate.weight", ".shared_expert_gate.weight", ".router.proj.weight"];
    ends.iter().any(|end| name.ends_with(end))
}

fn is_plain_weight(name: &str) -> bool {
    !is_audio(name) && !["embed", "norm", "ln_"].iter().any(|part| name.contains(part)) && name.ends_with(".weight")
}

fn is_stacked_expert(name: &str) -> bool {
    let parts = [".experts.", ".mlp.switch_mlp.", ".mlp.shared_experts.", ".mixer.shared_experts."];
    ![".bias", ".scale", ".qbias"].iter().any(|end| name.ends_with(end)) && parts.iter().any(|part| name.contains(part))
}
