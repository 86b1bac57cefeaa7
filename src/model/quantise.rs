//! Tensor types and sizes that `llama-quantize` would give a model.
//!
//! The quantiser decides by names, shapes and a few hyperparameters, never by weights, so a header is enough.
//! What an importance matrix changes is a parameter, and packagers' own types stand over the mix's (`super::mixture`).
//!
//! - `category`: category of a tensor by its name, and tensors that are never quantised.
//! - `mix`: the types that each file type uses per category.
//! - `position`: position of a tensor in the model, for rules like "the first eighth of the blocks".
//! - `traits`: properties of a model that the rules depend on.
//! - `fallback`: types for rows that are not a multiple of the block size.
//!
//! Source of the rules: src/llama-quant.cpp (llama-cpp-sys-2 0.1.161).
#![allow(clippy::enum_glob_use, reason = "a table of formats is read by their names alone")]

use std::collections::HashMap;

use PositionRule::*;

use crate::gguf::GgmlType::*;
use crate::gguf::{FileType, GgmlType, Header, Metadata, Tensor, Value};
use crate::model::Model;
use crate::model::mixture::name::Quantisation;
use crate::units::Bytes;

/// `general.quantization_version`: `GGML_QNT_VERSION` in ggml/include/ggml.h (llama-cpp-sys-2 0.1.161).
const QUANTISATION_VERSION: u32 = 2;

/// Why a model cannot be quantised to a file type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantiseError {
    /// The file type exists, but the quantiser does not produce it.
    #[error("llama.cpp's quantiser cannot produce {0}: use another quantisation, such as Q4_K_M or Q8_0")]
    NotMade(FileType),
    /// A mixture of experts with feed-forward tensors outside its blocks.
    #[error(
        "tensor '{tensor}' is outside the model's {blocks} blocks, which llama.cpp's quantiser refuses in a mixture \
         of experts: keep the quantisation as it is"
    )]
    Block {
        /// The tensor.
        tensor: String,
        /// Number of blocks.
        blocks: u64,
    },
    /// Row length without a usable type.
    #[error(
        "tensor '{tensor}' has rows of {row} weights, not a multiple of the {wanted} block size, and llama.cpp's \
         quantiser has no fallback type: use another quantisation"
    )]
    Row {
        /// The tensor.
        tensor: String,
        /// Weights per row.
        row: u64,
        /// The type that the file type asks for.
        wanted: GgmlType,
    },
    /// No file of this name is known, and no rule for one.
    #[error(
        "which tensor has which type in {name} of this model is not known: use the file itself, or a type that \
         llama-quantize makes, such as {nearest}"
    )]
    NotKnown {
        /// The name.
        name: Quantisation,
        /// The type with tensors of about the same types.
        nearest: FileType,
    },
    /// A tensor that would take more than 2^64 bytes.
    #[error("tensor '{tensor}' would take more than 2^64 bytes as {ty}: the header describes no real model")]
    TooLarge {
        /// The tensor.
        tensor: String,
        /// The type that the file type asks for.
        ty: GgmlType,
    },
}

impl Model {
    /// The model that llama.cpp's quantiser would produce from the original weights without an importance matrix: the
    /// same tensors with other types. The current types do not matter.
    ///
    /// `data_start` and the notes of the opened header are kept, and new notes are appended: always call this on the
    /// opened model, not on a quantised one.
    ///
    /// # Errors
    /// If the quantiser itself would refuse.
    pub fn quantised(&self, to: FileType) -> Result<Self, QuantiseError> {
        let (tensors, notes) = self.quantised_tensors(&Method::of(to))?;
        Ok(self.with_tensors(to, tensors, notes))
    }

    /// The model with other tensors, of this file type, and more notes.
    pub(super) fn with_tensors(&self, to: FileType, tensors: Vec<Tensor>, notes: Vec<String>) -> Self {
        let bytes = tensors.iter().map(|tensor| tensor.bytes).sum();
        let header = Header {
            version: self.header.version,
            endian: self.header.endian,
            misplaced: None,
            metadata: metadata(&self.header.metadata, to),
            tensors,
            data_start: self.header.data_start,
            notes: self.header.notes.iter().cloned().chain(notes).collect(),
        };
        Self {
            file_bytes: header.file_bytes(),
            header,
            name: self.name.clone(),
            entry: self.entry.clone(),
            mixture: None,
            architecture: self.architecture.clone(),
            file_type: Some(to.name()),
            parameters: self.parameters,
            active_parameters: self.active_parameters,
            bytes,
            hyper: self.hyper.clone(),
            missing_projector: self.missing_projector,
            dated: self.dated.clone(),
            groups: self.groups.clone(),
        }
    }

    /// [`Model::in_quantisation`], with a note if the model was quantised before.
    ///
    /// # Errors
    /// If the quantiser itself would refuse, or nothing is known of such files.
    pub fn requantised(&self, to: impl Into<Quantisation>) -> Result<Self, QuantiseError> {
        let to = to.into();
        let mut model = self.in_quantisation(to)?;
        if self.is_quantised() {
            model.header.notes.push(format!("requantised: the size of the original weights as {to}"));
        }
        Ok(model)
    }

    /// Bytes of the tensors of [`Model::quantised`].
    ///
    /// # Errors
    /// If the quantiser itself would refuse.
    pub fn quantised_bytes(&self, to: FileType) -> Result<Bytes, QuantiseError> {
        let types = types(self, &Method::of(to))?;
        self.header.tensors.iter().zip(types.formats).map(|(tensor, ty)| bytes(tensor, ty)).sum()
    }

    /// The file types that the model can be quantised to, with their sizes, from the smallest to the largest. Types
    /// that only suit models trained for them are left out.
    ///
    /// This computes the types of all tensors about 30 times: call it once per model.
    pub fn quantisations(&self) -> Vec<(FileType, Bytes)> {
        let mixture = self.hyper.experts.is_some();
        let suits = |to: FileType| match to {
            FileType::Tq1_0 | FileType::Tq2_0 | FileType::Q1_0 | FileType::Q2_0 | FileType::Nvfp4 => false,
            // without experts, the same as Q8_0
            FileType::Mxfp4 => mixture,
            _ => true,
        };
        let suitable = FileType::ALL.iter().copied().filter(|&to| suits(to));
        let mut sizes: Vec<_> = suitable.filter_map(|to| Some((to, self.bytes_in(to).ok()?))).collect();
        sizes.sort_by_key(|&(_, bytes)| bytes);
        sizes
    }

    /// Whether any tensor is quantised.
    pub fn is_quantised(&self) -> bool {
        self.header.tensors.iter().any(|tensor| tensor.ty.block() > 1)
    }

    /// The tensors that a method gives the model, and notes.
    pub(super) fn quantised_tensors(&self, method: &Method<'_>) -> Result<(Vec<Tensor>, Vec<String>), QuantiseError> {
        let Types { formats, notes } = types(self, method)?;
        let described = self.header.tensors.iter().zip(formats).map(|(tensor, ty)| {
            let bytes = bytes(tensor, ty)?;
            let old_mxfp4 = tensor.old_mxfp4 && ty == tensor.ty;
            Ok(Tensor { name: tensor.name.clone(), dims: tensor.dims.clone(), ty, bytes, old_mxfp4 })
        });
        Ok((described.collect::<Result<_, _>>()?, notes))
    }
}

/// How tensors get their types.
pub(super) struct Method<'a> {
    /// The mix.
    pub to: FileType,
    /// Whether there is an importance matrix.
    pub importance: bool,
    /// Types that stand over the mix's, of tensors that llama-quantize leaves as they are (true) and of others.
    pub other: Option<OtherTypes<'a>>,
}

/// The type of a tensor that has another one than the mix's.
pub(super) type OtherTypes<'a> = Box<dyn Fn(&Tensor, bool) -> Option<GgmlType> + 'a>;

impl Method<'_> {
    /// As llama-quantize without an importance matrix.
    pub fn of(to: FileType) -> Self {
        Self { to, importance: false, other: None }
    }
}

/// Bits per weight of the type that most tensors of a file type have.
pub(super) fn bits(to: FileType) -> f64 {
    mix(to).map_or(4.0, |mix| match mix.scheme {
        Scheme::Experts(ty) => ty.block_bytes() as f64 * 8.0 / ty.block() as f64,
        _ => mix.base.block_bytes() as f64 * 8.0 / mix.base.block() as f64,
    })
}

fn bytes(tensor: &Tensor, ty: GgmlType) -> Result<Bytes, QuantiseError> {
    let elements = tensor.dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim));
    elements
        .and_then(|elements| ty.bytes(elements))
        .map(Bytes)
        .ok_or_else(|| QuantiseError::TooLarge { tensor: tensor.name.to_string(), ty })
}

/// The quantiser's changes to a file's metadata.
fn metadata(of: &Metadata, to: FileType) -> Metadata {
    const OURS: [&str; 5] =
        ["general.file_type", "general.quantization_version", "split.no", "split.count", "split.tensors.count"];
    let others = of.iter().filter(|(key, _)| !OURS.contains(key)).map(|(key, value)| (key.into(), value.clone()));
    let ours = [
        ("general.file_type".into(), Value::U32(to.number())),
        ("general.quantization_version".into(), Value::U32(QUANTISATION_VERSION)),
    ];
    others.chain(ours).collect()
}

/// The types of a model's tensors in the order of its header, and notes.
struct Types {
    formats: Vec<GgmlType>,
    notes: Vec<String>,
}

fn types(model: &Model, method: &Method<'_>) -> Result<Types, QuantiseError> {
    let to = method.to;
    let tensors = &model.header.tensors;
    let mut kinds = TensorKinds::new(QuantFamily::of(&model.architecture));
    let kinds: Vec<TensorKind> = tensors.iter().map(|tensor| kinds.of(&tensor.name)).collect();
    let mut chooser = TypeChooser::new(model, &kinds, method)?;

    let mut formats: Vec<GgmlType> = tensors.iter().map(|tensor| tensor.ty).collect();
    if let Some(other) = &method.other {
        let kept = tensors.iter().zip(&kinds).map(|(tensor, kind)| other(tensor, true).filter(|_| kind.kept));
        formats.iter_mut().zip(kept).for_each(|(ty, kept)| *ty = kept.unwrap_or(*ty));
    }
    let (mut fallbacks, mut importance) = (0, false);
    for (index, tensor, kind) in in_quantiser_order(tensors, &kinds) {
        let wanted = match method.other.as_ref().and_then(|other| other(tensor, false)) {
            Some(ty) => ty,
            None => chooser.wanted(tensor, kind)?,
        };
        let row = row(tensor);
        let ty = fitting(wanted, row);
        let ty = ty.ok_or_else(|| QuantiseError::Row { tensor: tensor.name.to_string(), row, wanted })?;
        fallbacks += usize::from(ty != wanted);
        importance |= needs_importance(&tensor.name, ty, to);
        // never out of bounds: the index comes from enumerating the same tensors
        formats[index] = ty;
    }

    let mut notes = Vec::new();
    if fallbacks > 0 {
        notes.push(format!(
            "Tensors whose rows are not a multiple of the block size of {to} and which fall back to other types: \
             {fallbacks}."
        ));
    }
    if importance && !method.importance {
        notes.push(format!(
            "llama.cpp produces {to} only with an importance matrix, which may change the size slightly: it is \
             modelled."
        ));
    }
    Ok(Types { formats, notes })
}

/// Weights per row.
fn row(tensor: &Tensor) -> u64 {
    tensor.dims.first().copied().unwrap_or(1)
}

/// The tensors that are quantised, in the quantiser's order: those outside of blocks, then block by block, each sorted
/// by name (`weight_name_comparer` in src/llama-model-loader.h, llama-cpp-sys-2 0.1.161).
fn in_quantiser_order<'m>(
    tensors: &'m [Tensor],
    kinds: &[TensorKind],
) -> impl Iterator<Item = (usize, &'m Tensor, TensorKind)> {
    let is_matrix = |tensor: &Tensor| tensor.dims.iter().skip(1).any(|&dim| dim > 1);
    let all = tensors.iter().zip(kinds.iter().copied()).enumerate();
    let quantised = all.filter(|(_, (tensor, kind))| !kind.kept && is_matrix(tensor));
    let mut ordered: Vec<_> =
        quantised.map(|(index, (tensor, kind))| (block(&tensor.name), index, tensor, kind)).collect();
    ordered.sort_by(|(block, _, tensor, _), (other_block, _, other, _)| {
        block.cmp(other_block).then_with(|| tensor.name.cmp(&other.name))
    });
    ordered.into_iter().map(|(_, index, tensor, kind)| (index, tensor, kind))
}

/// Chooses the type of one tensor after the other, in the quantiser's order.
struct TypeChooser {
    mix: Mix,
    traits: QuantTraits,
    counters: TensorCounters,
}

impl TypeChooser {
    fn new(model: &Model, kinds: &[TensorKind], method: &Method<'_>) -> Result<Self, QuantiseError> {
        let (traits, to) = (QuantTraits::of(model), method.to);
        let mut mix = Mix::of(to, &traits).ok_or(QuantiseError::NotMade(to))?;
        if method.importance {
            mix.adjust_to_importance(to);
        }
        let values = kinds.iter().filter(|kind| kind.category == TensorCategory::Value).count() as u64;
        let counters = TensorCounters::new(values, &mix, &traits);
        Ok(Self { mix, traits, counters })
    }

    /// The type of the next tensor before fallbacks.
    fn wanted(&mut self, tensor: &Tensor, kind: TensorKind) -> Result<GgmlType, QuantiseError> {
        let Self { mix, traits, counters } = self;
        if mix.base.block() == 1 {
            return Ok(mix.base);
        }
        if kind.precise {
            return Ok(GgmlType::Q8_0);
        }
        if kind.category == TensorCategory::Output || (traits.tied && kind.category == TensorCategory::Embedding) {
            let fits = row(tensor).is_multiple_of(mix.base.block());
            return Ok(if fits { mix.output } else { GgmlType::Q8_0 });
        }
        if let Scheme::Experts(experts) = mix.scheme {
            let stacked = tensor.dims.get(2).is_some_and(|&matrices| matrices > 1);
            let is_ffn =
                matches!(kind.category, TensorCategory::FfnUp | TensorCategory::FfnGate | TensorCategory::FfnDown);
            return Ok(if stacked && (is_ffn || traits.family != QuantFamily::BailingMoe3) {
                experts
            } else {
                mix.base
            });
        }
        let place = counters.next(kind.category, &tensor.name)?;
        let rule = mix.rule(kind.category).iter().find(|(when, _)| when.applies(place, traits));
        let ty = rule.map_or(mix.base, |&(_, ty)| ty);
        let upgraded = traits.size_70b && mix.scheme == Scheme::Usual && kind.category == TensorCategory::Value;
        Ok(if upgraded && matches!(ty, GgmlType::Q3K | GgmlType::Q4K) { GgmlType::Q5K } else { ty })
    }
}

/// Whether the quantiser requires an importance matrix for this tensor: `tensor_requires_imatrix` in
/// src/llama-quant.cpp (llama-cpp-sys-2 0.1.161).
fn needs_importance(name: &str, ty: GgmlType, to: FileType) -> bool {
    use GgmlType::{Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3Xxs, Q2K};
    let coarse = matches!(ty, Iq3Xxs | Iq2Xxs | Iq2Xs | Iq2S | Iq1M | Iq1S) || (ty == Q2K && to == FileType::Q2KS);
    coarse && !matches!(name, "token_embd.weight" | "per_layer_token_embd.weight" | "output.weight")
}

/// Tensor category as in llama-quant (`tensor_category`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TensorCategory {
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
struct TensorKind {
    pub category: TensorCategory,
    /// It keeps its type.
    pub kept: bool,
    /// It is always `Q8_0`, as some tensors of GLM 5 Next.
    pub precise: bool,
}

/// Parts of names and their categories; the first match counts: `tensor_get_category` in src/llama-quant.cpp
/// (llama-cpp-sys-2 0.1.161).
const CATEGORIES: [(&str, TensorCategory); 9] = [
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
const KEPT_NAMES: [&str; 2] = ["position_embd.weight", "token_types.weight"];

/// Further parts of names for GLM 5 Next.
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

/// Tensors of GLM 5 Next that are always `Q8_0`: `llama_tensor_get_type_impl` in src/llama-quant.cpp (llama-cpp-sys-2
/// 0.1.161).
const PRECISE_IN_GLM5_NEXT: &[&str] = &["attn_q_a", "attn_q_b", "nextn.eh_proj"];

/// Cached kinds by name without the block, as the names repeat in every block.
struct TensorKinds<'m> {
    family: QuantFamily,
    known: HashMap<&'m str, TensorKind>,
}

impl<'m> TensorKinds<'m> {
    fn new(family: QuantFamily) -> Self {
        Self { family, known: HashMap::new() }
    }

    fn of(&mut self, name: &'m str) -> TensorKind {
        let glm5_next = self.family == QuantFamily::Glm5Next;
        let own = without_block(name);
        *self.known.entry(own).or_insert_with(|| kind(own, glm5_next))
    }
}

fn kind(name: &str, glm5_next: bool) -> TensorKind {
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
fn block(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("blk.")?;
    digits.get(..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len()))?.parse().ok()
}

/// `.ffn_up.weight` of `blk.7.ffn_up.weight`; the dot stays because some of the parts above begin with one.
fn without_block(name: &str) -> &str {
    let Some(numbered) = name.strip_prefix("blk.") else { return name };
    let own = numbered.trim_start_matches(|c: char| c.is_ascii_digit());
    if own.starts_with('.') { own } else { name }
}

/// `wanted` if `row` is a multiple of its block size, else llama.cpp's fallback with smaller blocks; none if there is
/// no fallback. `tensor_type_fallback` in src/llama-quant.cpp (llama-cpp-sys-2 0.1.161).
const fn fitting(wanted: GgmlType, row: u64) -> Option<GgmlType> {
    if fits(wanted, row) {
        return Some(wanted);
    }
    let smaller = match wanted {
        Iq1S | Iq1M | Iq2Xxs | Iq2Xs | Iq2S | Iq3Xxs | Iq3S | Iq4Xs => Iq4Nl,
        Q2_0 | Q2K | Q3K | Tq1_0 | Tq2_0 => Q4_0,
        Q4K => Q5_0,
        Q5K => Q5_1,
        Q6K => Q8_0,
        _ if wanted.block() <= 32 => F16,
        _ => return None,
    };
    Some(if fits(smaller, row) { smaller } else { F16 })
}

const fn fits(ty: GgmlType, row: u64) -> bool {
    row.is_multiple_of(ty.block())
}

/// A condition for another type than the mix's base. `i` and `n` as in
/// [`TensorPosition`](TensorPosition).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PositionRule {
    Always,
    /// `i` is less than this.
    First(u64),
    /// `i` is less than `n` divided by this.
    FirstPart(u64),
    /// Neither in the first eighth nor in the last.
    Middle,
    /// `use_more_bits`: in the first eighth, the last eighth, or every third in between.
    MoreBits,
    /// At least four attention heads share a KV head.
    SharedHeads,
    /// At least four experts.
    FourExperts,
}

/// The type of the first condition that applies, else the mix's base.
type FormatRule = &'static [(PositionRule, GgmlType)];

/// Which adjustments apply to a mix, and how it determines the block of an expert tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Usual,
    /// The mixes of one and two bits: the block index of expert tensors is unknown, and there is no rule for 70B
    /// models.
    Low,
    /// One type for experts, one for all else.
    Experts(GgmlType),
}

/// The types of a file type: the base, that of the output tensor, and rules per category.
#[derive(Clone, Copy, Debug)]
struct Mix {
    pub scheme: Scheme,
    pub base: GgmlType,
    pub output: GgmlType,
    pub embedding: FormatRule,
    pub value: FormatRule,
    pub key: FormatRule,
    pub query: FormatRule,
    pub attn_output: FormatRule,
    pub ffn_down: FormatRule,
    pub ffn_gate_and_up: FormatRule,
}

impl Mix {
    /// The mix of `to` for a model with these traits; none if the quantiser does not produce it.
    fn of(to: FileType, traits: &QuantTraits) -> Option<Self> {
        let mut mix = mix(to)?;
        if traits.family == QuantFamily::Falcon {
            mix.adjust_to_falcon(to);
        }
        if traits.experts == 8 {
            mix.adjust_to_eight_experts(to, traits.family);
        }
        Some(mix)
    }

    const fn rule(&self, category: TensorCategory) -> FormatRule {
        match category {
            TensorCategory::Output | TensorCategory::Other => &[],
            TensorCategory::Embedding => self.embedding,
            TensorCategory::Value => self.value,
            TensorCategory::Key => self.key,
            TensorCategory::Query => self.query,
            TensorCategory::AttnOutput => self.attn_output,
            TensorCategory::FfnUp | TensorCategory::FfnGate => self.ffn_gate_and_up,
            TensorCategory::FfnDown => self.ffn_down,
        }
    }

    /// With an importance matrix some types need no wider one in the first blocks (`has_imatrix` in src/llama-quant.cpp,
    /// llama-cpp-sys-2 0.1.161).
    const fn adjust_to_importance(&mut self, to: FileType) {
        match to {
            FileType::Iq4Xs | FileType::Iq4Nl => self.ffn_down = &[],
            FileType::Q4_0 => self.ffn_down = &[(FirstPart(8), Q4_1)],
            FileType::Q5_0 => self.ffn_down = &[(FirstPart(8), Q5_1)],
            FileType::Iq3Xxs => {
                self.ffn_down = &[];
                self.value = &[(SharedHeads, Q4K)];
            }
            _ => {}
        }
    }

    fn adjust_to_falcon(&mut self, to: FileType) {
        self.output = Q8_0;
        if self.scheme != Scheme::Usual {
            return;
        }
        self.attn_output = if to == FileType::Q3KL { &[(Always, Q4K)] } else { &[] };
        self.ffn_down = match to {
            FileType::Q3KM => &[(FirstPart(16), Q5K), (MoreBits, Q4K)],
            FileType::Q3KL => &[(Always, Q4K)],
            FileType::Q4KS => &[],
            FileType::Q4KM => &[(FirstPart(16), Q6K), (MoreBits, Q5K)],
            _ => self.ffn_down,
        };
    }

    /// With eight experts, attention is a small part of the model and gets more bits.
    fn adjust_to_eight_experts(&mut self, to: FileType, family: QuantFamily) {
        match self.scheme {
            Scheme::Usual => {
                self.value = &[(Always, Q8_0)];
                self.key = &[(Always, Q8_0)];
                if to == FileType::Iq3M {
                    self.ffn_down = &[(FirstPart(8), Q4K), (MoreBits, Q4K)];
                }
                if family != QuantFamily::Falcon {
                    self.attn_output = if has_larger_attn_output(to) { &[(Always, Q5K)] } else { &[] };
                }
            }
            Scheme::Low => {
                self.key = &[(Always, Q4K)];
                self.attn_output = &[(Always, Q5K)];
            }
            Scheme::Experts(_) => {}
        }
    }
}

/// Mixes with more bits for `attn_output` in models of eight experts.
const fn has_larger_attn_output(to: FileType) -> bool {
    use FileType as T;
    matches!(
        to,
        T::Q2K | T::Q3KS | T::Q3KM | T::Q4KS | T::Q4KM | T::Iq3Xxs | T::Iq3Xs | T::Iq3S | T::Iq3M | T::Iq4Nl | T::Iq4Xs
    )
}

const fn plain(base: GgmlType) -> Mix {
    Mix {
        scheme: Scheme::Usual,
        base,
        output: if matches!(base, Q8_0) { Q8_0 } else { Q6K },
        embedding: &[],
        value: &[],
        key: &[],
        query: &[],
        attn_output: &[],
        ffn_down: &[],
        ffn_gate_and_up: &[],
    }
}

const fn low(base: GgmlType) -> Mix {
    Mix {
        scheme: Scheme::Low,
        output: Q5K,
        embedding: &[(Always, Q2K)],
        value: &[(SharedHeads, Q4K), (FourExperts, Q4K), (Always, Q2K)],
        ffn_down: &[(FirstPart(8), Q2K)],
        ..plain(base)
    }
}

/// `IQ2_S` and `IQ2_M`, which have more bits than the other low mixes.
const fn iq2_s_m(base: GgmlType) -> Mix {
    Mix {
        embedding: &[(Always, Iq3S)],
        value: &[(SharedHeads, Q4K), (FourExperts, Q4K), (Always, Iq3S)],
        attn_output: &[(Always, Iq3S)],
        ffn_down: &[(FirstPart(8), Iq3S)],
        ..low(base)
    }
}

const fn iq4(base: GgmlType) -> Mix {
    Mix { value: &[(SharedHeads, Q5K)], ffn_down: &[(FirstPart(8), Q5K)], ..plain(base) }
}

const fn k_m(base: GgmlType) -> Mix {
    Mix { value: &[(MoreBits, Q6K)], ffn_down: &[(MoreBits, Q6K)], ..plain(base) }
}

const fn mix(to: FileType) -> Option<Mix> {
    use FileType as T;
    Some(match to {
        T::F32 => plain(F32),
        T::F16 => plain(F16),
        T::Bf16 => plain(Bf16),
        T::Q4_0 => plain(Q4_0),
        T::Q4_1 => plain(Q4_1),
        T::Q5_0 => plain(Q5_0),
        T::Q5_1 => plain(Q5_1),
        T::Q8_0 => plain(Q8_0),
        T::Q1_0 => plain(Q1_0),
        T::Q2_0 => Mix { embedding: &[(Always, Q4K)], ..plain(Q2_0) },
        T::Tq1_0 => Mix { embedding: &[(Always, Q4K)], ..plain(Tq1_0) },
        T::Tq2_0 => Mix { embedding: &[(Always, Q4K)], ..plain(Tq2_0) },
        T::Mxfp4 => Mix { scheme: Scheme::Experts(Mxfp4), ..plain(Q8_0) },
        T::Nvfp4 => return None,

        T::Q2K => Mix {
            value: &[(SharedHeads, Q4K), (Always, Q3K)],
            attn_output: &[(Always, Q3K)],
            ffn_down: &[(Always, Q3K)],
            ..plain(Q2K)
        },
        T::Q2KS => Mix { value: &[(SharedHeads, Q4K)], ffn_down: &[(FirstPart(8), Q4K)], ..plain(Q2K) },
        T::Q3KS => plain(Q3K),
        T::Q3KM => Mix {
            value: &[(First(2), Q5K), (Always, Q4K)],
            attn_output: &[(Always, Q4K)],
            ffn_down: &[(FirstPart(16), Q5K), (Always, Q4K)],
            ..plain(Q3K)
        },
        T::Q3KL => {
            Mix { value: &[(Always, Q5K)], attn_output: &[(Always, Q5K)], ffn_down: &[(Always, Q5K)], ..plain(Q3K) }
        }
        T::Q4KS => Mix { value: &[(First(4), Q5K)], ffn_down: &[(FirstPart(8), Q5K)], ..plain(Q4K) },
        T::Q4KM => k_m(Q4K),
        T::Q5KS => plain(Q5K),
        T::Q5KM => k_m(Q5K),
        T::Q6K => plain(Q6K),

        T::Iq1S => Mix { attn_output: &[(Always, Iq2Xxs)], ..low(Iq1S) },
        T::Iq1M => Mix { attn_output: &[(Always, Iq2Xxs)], ..low(Iq1M) },
        T::Iq2Xxs => low(Iq2Xxs),
        T::Iq2Xs => low(Iq2Xs),
        T::Iq2S => iq2_s_m(Iq2Xs),
        T::Iq2M => iq2_s_m(Iq2S),
        T::Iq3Xxs => Mix {
            output: Q5K,
            embedding: &[(Always, Iq3S)],
            value: &[(SharedHeads, Q4K), (Always, Iq3S)],
            key: &[(Always, Iq2S)],
            query: &[(Always, Iq2S)],
            attn_output: &[(Always, Iq3S)],
            ffn_down: &[(FirstPart(8), Q4K), (Always, Q3K)],
            ..plain(Iq3Xxs)
        },
        T::Iq3Xs => Mix {
            value: &[(SharedHeads, Q4K)],
            key: &[(Always, Iq3Xxs)],
            query: &[(Always, Iq3Xxs)],
            ffn_gate_and_up: &[(Middle, Iq3Xxs)],
            ..plain(Iq3S)
        },
        T::Iq3S => Mix { value: &[(SharedHeads, Q4K)], ..plain(Iq3S) },
        T::Iq3M => Mix {
            value: &[(Always, Q4K)],
            attn_output: &[(Always, Q4K)],
            ffn_down: &[(FirstPart(8), Q4K)],
            ..plain(Iq3S)
        },
        T::Iq4Nl => iq4(Iq4Nl),
        T::Iq4Xs => iq4(Iq4Xs),
    })
}

/// A tensor is number `i` of `n`, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TensorPosition {
    pub i: u64,
    pub n: u64,
}

impl PositionRule {
    /// Whether the rule applies to a tensor at this position in a model with these traits.
    fn applies(self, position: TensorPosition, traits: &QuantTraits) -> bool {
        let TensorPosition { i, n } = position;
        let eighth = n / 8;
        let last_eighth = n.saturating_mul(7) / 8;
        match self {
            Self::Always => true,
            Self::First(count) => i < count,
            Self::FirstPart(parts) => i < n / parts,
            Self::Middle => (eighth..last_eighth).contains(&i),
            Self::MoreBits => i < eighth || i >= last_eighth || (i - eighth) % 3 == 2,
            Self::SharedHeads => traits.shared_heads,
            Self::FourExperts => traits.experts >= 4,
        }
    }
}

/// Counts the tensors per category, in the quantiser's order.
///
/// As upstream, the `i`-th feed-forward tensor of a category is taken for that of block `i`, which is right if each
/// block has one. In a mixture of experts, which may have several, the block is taken from the name.
#[derive(Debug)]
struct TensorCounters {
    /// Number of tensors in [`TensorCategory::Value`], quantised or not.
    all_values: u64,
    blocks: u64,
    by_name: bool,
    values: u64,
    ffn_down: u64,
    ffn_gate: u64,
    ffn_up: u64,
}

impl TensorCounters {
    fn new(all_values: u64, mix: &Mix, traits: &QuantTraits) -> Self {
        let by_name = mix.scheme == Scheme::Usual && traits.experts > 1;
        Self { all_values, blocks: traits.blocks, by_name, values: 0, ffn_down: 0, ffn_gate: 0, ffn_up: 0 }
    }

    /// The position of the next tensor of `category`, whose name is `name`.
    fn next(&mut self, category: TensorCategory, name: &str) -> Result<TensorPosition, QuantiseError> {
        let count = match category {
            TensorCategory::Value => &mut self.values,
            TensorCategory::FfnDown => &mut self.ffn_down,
            TensorCategory::FfnGate => &mut self.ffn_gate,
            TensorCategory::FfnUp => &mut self.ffn_up,
            _ => return Ok(TensorPosition { i: 0, n: 0 }),
        };
        let i = *count;
        *count += 1;
        let n = self.blocks;
        if category == TensorCategory::Value {
            return Ok(TensorPosition { i, n: self.all_values });
        }
        if !self.by_name {
            return Ok(TensorPosition { i, n });
        }
        match block(name) {
            Some(i) if i < n => Ok(TensorPosition { i, n }),
            _ => Err(QuantiseError::Block { tensor: name.to_owned(), blocks: n }),
        }
    }
}

/// Architectures with special rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuantFamily {
    /// Some mixes use other types.
    Falcon,
    /// Tensors other than experts have three dimensions too, so experts are recognised by name.
    BailingMoe3,
    /// More tensors are not quantised, and some are always `Q8_0`.
    Glm5Next,
    Any,
}

impl QuantFamily {
    fn of(architecture: &str) -> Self {
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
struct QuantTraits {
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
const SIZE_70B: [(&str, u64); 6] =
    [("llama", 80), ("llama-embed", 80), ("qwen2", 80), ("deci", 80), ("olmo", 80), ("jais2", 68)];

impl QuantTraits {
    fn of(model: &Model) -> Self {
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
fn blocks(model: &Model) -> u64 {
    let declared = model.block_count() as u64;
    match model.architecture.as_str() {
        "nanbeige" => declared.saturating_mul(number(model, "num_loops").unwrap_or(1)),
        "graniteswitch" => without_nextn(model) + 1,
        _ => declared,
    }
}

fn is_size_70b(model: &Model, fewer_kv_heads: bool) -> bool {
    let architecture = model.architecture.as_str();
    let llama = matches!(architecture, "llama" | "llama-embed");
    SIZE_70B.contains(&(architecture, without_nextn(model))) && (!llama || fewer_kv_heads)
}

/// Number of blocks without the `NextN` (MTP) blocks at the end.
fn without_nextn(model: &Model) -> u64 {
    (model.block_count() as u64).saturating_sub(number(model, "nextn_predict_layers").unwrap_or(0))
}

fn number(model: &Model, key: &str) -> Option<u64> {
    model.value(key).and_then(Value::as_u64)
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

#[cfg(test)]
mod fallback_tests {
    use super::*;

    #[test]
    fn odd_rows_fall_back_to_smaller_blocks() {
        for (wanted, row, taken) in [
            (Q4K, 4096, Some(Q4K)),
            (Q4K, 896, Some(Q5_0)),
            (Q6K, 896, Some(Q8_0)),
            (Q6K, 100, Some(F16)),
            (Q8_0, 100, Some(F16)),
            (Iq2Xs, 160, Some(Iq4Nl)),
            (Q1_0, 160, None),
        ] {
            assert_eq!(fitting(wanted, row), taken, "{wanted} {row}");
        }
    }
}

#[cfg(test)]
mod position_tests {
    use super::*;
    use crate::model::quantise::QuantFamily;

    #[test]
    fn of_32_blocks_half_get_more_bits() {
        let traits = QuantTraits {
            family: QuantFamily::Any,
            blocks: 32,
            experts: 0,
            shared_heads: false,
            size_70b: false,
            tied: false,
        };
        let applicable = |when: PositionRule| {
            (0..32).filter(|&i| when.applies(TensorPosition { i, n: 32 }, &traits)).collect::<Vec<_>>()
        };
        assert_eq!(applicable(PositionRule::MoreBits), [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]);
        assert_eq!(applicable(PositionRule::Middle), (4..28).collect::<Vec<_>>());
        assert_eq!(applicable(PositionRule::FirstPart(16)), [0, 1]);
        assert_eq!(applicable(PositionRule::First(4)), [0, 1, 2, 3]);
        assert!(applicable(PositionRule::SharedHeads).is_empty());
    }
}
