//! A model as llama.cpp's quantiser would make it in another mix of number formats.
//!
//! The quantiser looks at names, shapes and a few hyperparameters, never at weights, so that a header is enough to
//! know which format every tensor gets. What it does with an importance matrix at hand is not told here.
//!
//! - `category`: what a tensor is, by its name, and which ones stay as they are.
//! - `mix`: what each file type spends on what. The table to read.
//! - `position`: which tensors "the first eighth of the blocks" are.
//! - `traits`: what the mixes ask of a model.
//! - `fallback`: rows that are no whole number of blocks.
//!
//! Source of the rules: src/llama-quant.cpp (llama-cpp-sys-2 0.1.161).

mod category;
mod fallback;
mod mix;
mod position;
mod traits;

use super::Model;
use crate::gguf::{FileType, GgmlType, Header, Metadata, Tensor, Value};
use crate::units::Bytes;
use category::{TensorCategory, TensorKind, TensorKinds};
use mix::{Mix, Scheme};
use position::TensorCounters;
use traits::{QuantFamily, QuantTraits};

/// What `general.quantization_version` says: `GGML_QNT_VERSION` in ggml/include/ggml.h (llama-cpp-sys-2 0.1.161).
const QUANTISATION_VERSION: u32 = 2;

/// Why a model cannot be had in a mix of number formats.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantiseError {
    /// The file type exists, but the quantiser does not make it.
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
    /// Rows that no format of this mix can hold.
    #[error(
        "tensor '{tensor}' has rows of {row} weights, not a multiple of the {wanted} block size, and llama.cpp's \
         quantiser has no fallback type: use another quantisation"
    )]
    Row {
        /// The tensor.
        tensor: String,
        /// Weights in a row.
        row: u64,
        /// The format that it would have.
        wanted: GgmlType,
    },
    /// A tensor that would take more than 2^64 bytes.
    #[error("tensor '{tensor}' would take more than 2^64 bytes as {ty}: the header describes no real model")]
    TooLarge {
        /// The tensor.
        tensor: String,
        /// The format that it would have.
        ty: GgmlType,
    },
}

impl Model {
    /// The model as llama.cpp's quantiser would make it from its original weights, without an importance matrix: the
    /// same tensors in other formats. What the model's own tensors are quantised to does not matter.
    ///
    /// The header is one of a file that does not exist: `data_start` is still that of the file that was read, and notes
    /// are added to those that were there. Ask the model that was opened, for each step of a slider anew.
    ///
    /// # Errors
    /// Where the quantiser itself would refuse.
    pub fn quantised(&self, to: FileType) -> Result<Self, QuantiseError> {
        let (tensors, notes) = self.quantised_tensors(to)?;
        let bytes = tensors.iter().map(|tensor| tensor.bytes).sum();
        let header = Header {
            version: self.header.version,
            metadata: metadata(&self.header.metadata, to),
            tensors,
            data_start: self.header.data_start,
            notes: self.header.notes.iter().cloned().chain(notes).collect(),
        };
        Ok(Self {
            file_bytes: header.file_bytes(),
            header,
            name: self.name.clone(),
            architecture: self.architecture.clone(),
            file_type: Some(to.name()),
            parameters: self.parameters,
            bytes,
            hyper: self.hyper.clone(),
            groups: self.groups.clone(),
        })
    }

    /// [`Model::quantised`] as it is shown to people: where the model was quantised before, a note says that this is what
    /// its original would be.
    ///
    /// # Errors
    /// Where the quantiser itself would refuse.
    pub fn requantised(&self, to: FileType) -> Result<Self, QuantiseError> {
        let mut model = self.quantised(to)?;
        if self.is_quantised() {
            model.header.notes.push(format!("requantised: the size of the original weights as {to}"));
        }
        Ok(model)
    }

    /// What [`Model::quantised`] would take, in bytes.
    ///
    /// # Errors
    /// Where the quantiser itself would refuse.
    pub fn quantised_bytes(&self, to: FileType) -> Result<Bytes, QuantiseError> {
        let types = types(self, to)?;
        self.header.tensors.iter().zip(types.formats).map(|(tensor, ty)| bytes(tensor, ty)).sum()
    }

    /// What a slider passes: the file types that this model can be had in and their sizes, from the smallest to the
    /// largest. Those that only suit models trained for them are left out.
    ///
    /// This quantises thirty times over: ask once for each model, not for each step of the slider.
    pub fn quantisations(&self) -> Vec<(FileType, Bytes)> {
        let mixture = self.hyper.experts.is_some();
        let suits = |to: FileType| match to {
            FileType::Tq1_0 | FileType::Tq2_0 | FileType::Q1_0 | FileType::Q2_0 | FileType::Nvfp4 => false,
            // without experts, it is another name of Q8_0
            FileType::Mxfp4 => mixture,
            _ => true,
        };
        let suitable = FileType::ALL.iter().copied().filter(|&to| suits(to));
        let mut sizes: Vec<_> = suitable.filter_map(|to| Some((to, self.quantised_bytes(to).ok()?))).collect();
        sizes.sort_by_key(|&(_, bytes)| bytes);
        sizes
    }

    /// Whether some tensor is quantised. llama.cpp's quantiser starts from models of which none is.
    pub fn is_quantised(&self) -> bool {
        self.header.tensors.iter().any(|tensor| tensor.ty.block() > 1)
    }

    fn quantised_tensors(&self, to: FileType) -> Result<(Vec<Tensor>, Vec<String>), QuantiseError> {
        let Types { formats, notes } = types(self, to)?;
        let described = self.header.tensors.iter().zip(formats).map(|(tensor, ty)| {
            let bytes = bytes(tensor, ty)?;
            let old_mxfp4 = tensor.old_mxfp4 && ty == tensor.ty;
            Ok(Tensor { name: tensor.name.clone(), dims: tensor.dims.clone(), ty, bytes, old_mxfp4 })
        });
        Ok((described.collect::<Result<_, _>>()?, notes))
    }
}

fn bytes(tensor: &Tensor, ty: GgmlType) -> Result<Bytes, QuantiseError> {
    if ty == tensor.ty {
        return Ok(tensor.bytes);
    }
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

/// The formats of a model's tensors in the order of its header, and what is odd about them.
struct Types {
    formats: Vec<GgmlType>,
    notes: Vec<String>,
}

fn types(model: &Model, to: FileType) -> Result<Types, QuantiseError> {
    let tensors = &model.header.tensors;
    let mut kinds = TensorKinds::new(QuantFamily::of(&model.architecture));
    let kinds: Vec<TensorKind> = tensors.iter().map(|tensor| kinds.of(&tensor.name)).collect();
    let mut chooser = Chooser::new(model, &kinds, to)?;

    let mut formats: Vec<GgmlType> = tensors.iter().map(|tensor| tensor.ty).collect();
    let (mut fallbacks, mut importance) = (0, false);
    for (index, tensor, kind) in in_order(tensors, &kinds) {
        let wanted = chooser.wanted(tensor, kind)?;
        let row = row(tensor);
        let ty = fallback::fitting(wanted, row);
        let ty = ty.ok_or_else(|| QuantiseError::Row { tensor: tensor.name.to_string(), row, wanted })?;
        fallbacks += usize::from(ty != wanted);
        importance |= needs_importance(&tensor.name, ty, to);
        // the index came out of this list's own enumeration
        formats[index] = ty;
    }

    let mut notes = Vec::new();
    if fallbacks > 0 {
        notes.push(format!(
            "Tensors whose rows are not a multiple of the block size of {to} and which fall back to other types: \
             {fallbacks}."
        ));
    }
    if importance {
        notes.push(format!(
            "llama.cpp produces {to} only with an importance matrix, which may change the size slightly: it is \
             modelled."
        ));
    }
    Ok(Types { formats, notes })
}

/// Weights in a row.
fn row(tensor: &Tensor) -> u64 {
    tensor.dims.first().copied().unwrap_or(1)
}

/// The tensors that are quantised, in the quantiser's order: what is outside of blocks, then block by block, each by
/// name (`weight_name_comparer` in src/llama-model-loader.h, llama-cpp-sys-2 0.1.161).
fn in_order<'m>(tensors: &'m [Tensor], kinds: &[TensorKind]) -> impl Iterator<Item = (usize, &'m Tensor, TensorKind)> {
    let is_matrix = |tensor: &Tensor| tensor.dims.iter().skip(1).any(|&dim| dim > 1);
    let all = tensors.iter().zip(kinds.iter().copied()).enumerate();
    let quantised = all.filter(|(_, (tensor, kind))| !kind.kept && is_matrix(tensor));
    let mut ordered: Vec<_> =
        quantised.map(|(index, (tensor, kind))| (category::block(&tensor.name), index, tensor, kind)).collect();
    ordered.sort_by(|(block, _, tensor, _), (other_block, _, other, _)| {
        block.cmp(other_block).then_with(|| tensor.name.cmp(&other.name))
    });
    ordered.into_iter().map(|(_, index, tensor, kind)| (index, tensor, kind))
}

/// Gives one tensor after the other the format that the mix wants for it.
struct Chooser {
    mix: Mix,
    traits: QuantTraits,
    places: TensorCounters,
}

impl Chooser {
    fn new(model: &Model, kinds: &[TensorKind], to: FileType) -> Result<Self, QuantiseError> {
        let traits = QuantTraits::of(model);
        let mix = Mix::of(to, &traits).ok_or(QuantiseError::NotMade(to))?;
        let values = kinds.iter().filter(|kind| kind.role == TensorCategory::Value).count() as u64;
        let places = TensorCounters::new(values, &mix, &traits);
        Ok(Self { mix, traits, places })
    }

    /// The format that the mix wants for the next tensor, whatever its rows are.
    fn wanted(&mut self, tensor: &Tensor, kind: TensorKind) -> Result<GgmlType, QuantiseError> {
        let Self { mix, traits, places } = self;
        if mix.base.block() == 1 {
            return Ok(mix.base);
        }
        if kind.precise {
            return Ok(GgmlType::Q8_0);
        }
        if kind.role == TensorCategory::Output || (traits.tied && kind.role == TensorCategory::Embedding) {
            let whole = row(tensor).is_multiple_of(mix.base.block());
            return Ok(if whole { mix.output } else { GgmlType::Q8_0 });
        }
        if let Scheme::Experts(experts) = mix.scheme {
            let stacked = tensor.dims.get(2).is_some_and(|&matrices| matrices > 1);
            let is_ffn = matches!(kind.role, TensorCategory::FfnUp | TensorCategory::FfnGate | TensorCategory::FfnDown);
            return Ok(if stacked && (is_ffn || traits.family != QuantFamily::BailingMoe3) {
                experts
            } else {
                mix.base
            });
        }
        let place = places.next(kind.role, &tensor.name)?;
        let rule = mix.rule(kind.role).iter().find(|(when, _)| when.applies(place, traits));
        let ty = rule.map_or(mix.base, |&(_, ty)| ty);
        let lifted = traits.size_70b && mix.scheme == Scheme::Usual && kind.role == TensorCategory::Value;
        Ok(if lifted && matches!(ty, GgmlType::Q3K | GgmlType::Q4K) { GgmlType::Q5K } else { ty })
    }
}

/// Whether the quantiser refuses to make this tensor without an importance matrix: `tensor_requires_imatrix` in
/// src/llama-quant.cpp (llama-cpp-sys-2 0.1.161).
fn needs_importance(name: &str, ty: GgmlType, to: FileType) -> bool {
    use GgmlType::{Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3Xxs, Q2K};
    let coarse = matches!(ty, Iq3Xxs | Iq2Xxs | Iq2Xs | Iq2S | Iq1M | Iq1S) || (ty == Q2K && to == FileType::Q2KS);
    coarse && !matches!(name, "token_embd.weight" | "per_layer_token_embd.weight" | "output.weight")
}
