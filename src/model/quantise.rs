//! Tensor types and sizes that `llama-quantize` would give a model.
//!
//! The quantiser decides by names, shapes and a few hyperparameters, never by weights, so a header is enough.
//! What an importance matrix changes is a parameter, and packagers' own types stand over the mix's (`super::mixture`).
//!
//! - `kinds`: category of a tensor by its name, and tensors that are never quantised.
//! - `mix`: the types that each file type uses per category.
//! - `position`: position of a tensor in the model, for rules like "the first eighth of the blocks".
//! - `traits`: properties of a model that the rules depend on.
//! - `fallback`: types for rows that are not a multiple of the block size.
//!
//! Source of the rules: src/llama-quant.cpp (llama-cpp-sys-2 0.1.161).
mod fallback;
mod kinds;
mod mix;
mod position;
mod traits;

use fallback::fitting;
use kinds::{TensorCategory, TensorKind, TensorKinds, block};
use mix::{Mix, Scheme, mix};
use position::TensorCounters;
use traits::{QuantFamily, QuantTraits};

use crate::gguf::{FileType, GgmlType, Header, Metadata, Tensor, Value};
use crate::model::Model;
use crate::model::mixture::name::Quantisation;
use crate::units::Bytes;

/// `general.quantization_version`: `GGML_QNT_VERSION` in ggml/include/ggml.h (llama-cpp-sys-2 0.1.161).
const QUANTISATION_VERSION: u32 = 2;

/// Tells of each tensor of a model, by its name, whether it is never quantised.
pub fn keeps<'n>(architecture: &str) -> impl FnMut(&'n str) -> bool + use<'n> {
    let mut kinds = TensorKinds::new(QuantFamily::of(architecture));
    move |name| kinds.of(name).kept
}

/// Why a model cannot be quantised to a file type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantiseError {
    /// A mode of MLX for another model, or a model of MLX in another mode.
    #[error("{0}")]
    Mlx(String),
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
            mlx: None,
            made_of_original: self.made_of_original,
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
        // a type that no quantiser of GGUF files makes may be a mode of MLX
        let made = self.in_quantisation(to);
        let mut model = made.or_else(|error| self.as_original(to.name()).map_err(|_| error))?;
        if self.is_quantised() && model.mlx.is_none() {
            model.header.notes.push(format!("requantised: the size of the original weights as {to}"));
        }
        Ok(model)
    }

    /// Bytes of the tensors of [`Model::quantised`].
    ///
    /// # Errors
    /// If the quantiser itself would refuse.
    pub fn quantised_bytes(&self, to: FileType) -> Result<Bytes, QuantiseError> {
        Quantiser::of(self).quantised_bytes(to)
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
        let quantiser = Quantiser::of(self);
        let suitable = FileType::ALL.iter().copied().filter(|&to| suits(to));
        let mut sizes: Vec<_> = suitable.filter_map(|to| Some((to, quantiser.bytes_in(to).ok()?))).collect();
        sizes.sort_by_key(|&(_, bytes)| bytes);
        sizes
    }

    /// Whether any tensor is quantised.
    pub fn is_quantised(&self) -> bool {
        self.header.tensors.iter().any(|tensor| tensor.ty.block() > 1)
    }

    /// The tensors that a method gives the model, and notes.
    pub(super) fn quantised_tensors(&self, method: &Method<'_>) -> Result<(Vec<Tensor>, Vec<String>), QuantiseError> {
        Quantiser::of(self).tensors(method)
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

/// The quantiser with one model: what it does with the tensors whatever their types are to be, which is the same for any
/// number of file types.
#[derive(Debug)]
pub struct Quantiser<'m> {
    model: &'m Model,
    traits: QuantTraits,
    /// Per tensor of the header.
    kinds: Vec<TensorKind>,
    /// The tensors that are quantised, as indices in the header, in the quantiser's order.
    order: Vec<usize>,
}

impl<'m> Quantiser<'m> {
    /// That of a model; the current types do not matter.
    pub fn of(model: &'m Model) -> Self {
        let tensors = &model.header.tensors;
        let mut known = TensorKinds::new(QuantFamily::of(&model.architecture));
        let kinds: Vec<TensorKind> = tensors.iter().map(|tensor| known.of(&tensor.name)).collect();
        let order = in_quantiser_order(tensors, &kinds);
        Self { model, traits: QuantTraits::of(model), kinds, order }
    }

    /// The model.
    pub const fn model(&self) -> &'m Model {
        self.model
    }

    /// [`Model::quantised_bytes`].
    ///
    /// # Errors
    /// As there.
    pub fn quantised_bytes(&self, to: FileType) -> Result<Bytes, QuantiseError> {
        let types = self.types(&Method::of(to))?;
        self.model.header.tensors.iter().zip(types.formats).map(|(tensor, ty)| bytes(tensor, ty)).sum()
    }

    /// The tensors that a method gives the model, and notes.
    fn tensors(&self, method: &Method<'_>) -> Result<(Vec<Tensor>, Vec<String>), QuantiseError> {
        let Types { formats, notes } = self.types(method)?;
        let described = self.model.header.tensors.iter().zip(formats).map(|(tensor, ty)| {
            let bytes = bytes(tensor, ty)?;
            let old_mxfp4 = tensor.old_mxfp4 && ty == tensor.ty;
            Ok(Tensor { name: tensor.name.clone(), dims: tensor.dims.clone(), ty, bytes, old_mxfp4 })
        });
        Ok((described.collect::<Result<_, _>>()?, notes))
    }

    fn types(&self, method: &Method<'_>) -> Result<Types, QuantiseError> {
        let Self { model, kinds, order, .. } = self;
        let to = method.to;
        let tensors = &model.header.tensors;
        let mut chooser = TypeChooser::new(self, method)?;

        let mut formats: Vec<GgmlType> = tensors.iter().map(|tensor| tensor.ty).collect();
        if let Some(other) = &method.other {
            let kept = tensors.iter().zip(kinds).map(|(tensor, kind)| other(tensor, true).filter(|_| kind.kept));
            formats.iter_mut().zip(kept).for_each(|(ty, kept)| *ty = kept.unwrap_or(*ty));
        }
        let (mut fallbacks, mut importance) = (0, false);
        for &index in order {
            // never out of bounds: the indices come from enumerating the same tensors
            let (tensor, kind) = (&tensors[index], kinds[index]);
            let wanted = match method.other.as_ref().and_then(|other| other(tensor, false)) {
                Some(ty) => ty,
                None => chooser.wanted(tensor, kind)?,
            };
            let row = row(tensor);
            let ty = fitting(wanted, row);
            let ty = ty.ok_or_else(|| QuantiseError::Row { tensor: tensor.name.to_string(), row, wanted })?;
            fallbacks += usize::from(ty != wanted);
            importance |= needs_importance(&tensor.name, ty, to);
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
}

/// Weights per row.
fn row(tensor: &Tensor) -> u64 {
    tensor.dims.first().copied().unwrap_or(1)
}

/// The tensors that are quantised, as indices, in the quantiser's order: those outside of blocks, then block by block, each
/// sorted by name (`weight_name_comparer` in src/llama-model-loader.h, llama-cpp-sys-2 0.1.161).
fn in_quantiser_order(tensors: &[Tensor], kinds: &[TensorKind]) -> Vec<usize> {
    let is_matrix = |tensor: &Tensor| tensor.dims.iter().skip(1).any(|&dim| dim > 1);
    let all = tensors.iter().zip(kinds).enumerate();
    let quantised = all.filter(|(_, (tensor, kind))| !kind.kept && is_matrix(tensor));
    let mut ordered: Vec<_> =
        quantised.map(|(index, (tensor, _))| (block(&tensor.name), &*tensor.name, index)).collect();
    ordered.sort_unstable();
    ordered.into_iter().map(|(.., index)| index).collect()
}

/// Chooses the type of one tensor after the other, in the quantiser's order.
struct TypeChooser {
    mix: Mix,
    traits: QuantTraits,
    counters: TensorCounters,
}

impl TypeChooser {
    fn new(Quantiser { traits, kinds, .. }: &Quantiser<'_>, method: &Method<'_>) -> Result<Self, QuantiseError> {
        let (traits, to) = (*traits, method.to);
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
