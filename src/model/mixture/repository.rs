//! Files of a repository by their names and sizes, where the header of one of them was read.

use crate::gguf::FileType;
use crate::model::Model;
use crate::model::quantise::{Method, QuantiseError};
use crate::units::Bytes;

use super::name::{Packager, Quantisation};
use super::recipe::{self, Recipe};
use super::{Basis, Mixture, published, total};

/// A file beside the one whose header was read.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'a> {
    /// `unsloth/Qwen3-8B-GGUF`
    pub repository: &'a str,
    /// What its name says of its quantisation.
    pub label: &'a str,
    /// Bytes of all its files, if they are known.
    pub bytes: Option<Bytes>,
}

/// Why nothing can be said of a file.
#[derive(Debug, thiserror::Error)]
pub enum BesideError {
    /// The quantiser refuses.
    #[error(transparent)]
    Quantise(#[from] QuantiseError),
    /// Neither name nor size say anything.
    #[error(
        "'{0}' names no quantisation that is known, and its size is not known: only its own header says what it is"
    )]
    NoName(String),
    /// Other tensors have this size.
    #[error(
        "its size of {bytes} is not that of this model in {like}, which has {made}: only its own header says what it is"
    )]
    OtherModel {
        /// Its size.
        bytes: Bytes,
        /// The type that its name says.
        like: Quantisation,
        /// The size in that type.
        made: Bytes,
    },
}

/// Other spellings of names that are read.
const SPELLINGS: [(&str, &str); 3] = [("FP16", "F16"), ("FP32", "F32"), ("MXFP4_MOE", "MXFP4")];

/// A size this many times as large or as small as a recipe's is that of another model: dynamic files differ by half.
const MOST_TIMES: u64 = 2;

impl Beside<'_> {
    /// The quantisation that its name says, as far as it is known.
    fn named(&self) -> Option<Quantisation> {
        let owner = self.repository.split('/').next().unwrap_or_default();
        let packager = Packager::by_owner(owner);
        let read = |name: &str| {
            let name =
                SPELLINGS.into_iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map_or(name, |it| it.1);
            let own = packager.and_then(|packager| format!("{}:{name}", packager.owner()).parse().ok());
            own.or_else(|| name.parse().ok())
        };
        // what follows a hyphen is a remark, unless it is part of the name
        let ends = self.label.match_indices('-').map(|(at, _)| at).rev();
        let shorter = ends.filter_map(|at| self.label.get(..at));
        std::iter::once(self.label).chain(shorter).find_map(read)
    }
}

impl Model {
    /// This model as a file beside its own has it: by the recipe of the packager or by llama-quantize, scaled to the size
    /// of the file. The present types do not matter.
    ///
    /// # Errors
    /// If the quantiser refuses, or neither name nor size fit this model.
    pub fn beside(&self, file: &Beside<'_>) -> Result<Self, BesideError> {
        // headers of one repository differ by the names of their types alone
        let tensor_bytes = file.bytes.map(|bytes| bytes.0.saturating_sub(self.header.data_start));
        let named = file.named();
        let to = match (named, tensor_bytes) {
            (Some(named), _) => named,
            (None, Some(bytes)) => self.nearest_in_size(bytes)?,
            (None, None) => return Err(BesideError::NoName(file.label.to_owned())),
        };
        let recipe = self.recipe_of(file.repository, to);
        let method = recipe.map_or_else(|| Method::of(to.nearest()), |recipe| recipe.method(to, self));
        let (tensors, notes) = self.quantised_tensors(&method)?;
        let is_known = named.is_some() && recipe.map_or_else(|| to.file_type().is_some(), |recipe| recipe.knows(to));
        let by = match recipe.filter(|_| is_known) {
            Some(recipe) => recipe.title.to_owned(),
            None => format!("{} of llama-quantize", method.to),
        };
        let what = format!("{} of {}", file.label, file.repository);
        let Some(wanted) = tensor_bytes else {
            let reason =
                format!("{what}: its size is not known, and its header was not read; the types are those of {by}");
            let basis = Basis::Recipe;
            return Ok(self.with_mixture(method.to, tensors, notes, Mixture { quantisation: to, basis, reason }));
        };
        let made = total(&tensors);
        if wanted > made.saturating_mul(MOST_TIMES) || wanted < made / MOST_TIMES {
            let bytes = Bytes(wanted);
            return Err(BesideError::OtherModel { bytes, like: to, made: Bytes(made) });
        }
        let said = format!("{what}, whose header was not read");
        Ok(self.sized(method.to, (tensors, notes), wanted, &Sized { to, is_known, by, said }))
    }

    /// What files of this repository follow; none for llama-quantize itself.
    fn recipe_of(&self, repository: &str, to: Quantisation) -> Option<&'static Recipe> {
        let native = published::trained_in_four_bits(self).filter(|recipe| recipe.keeps_experts(to));
        let own = || published::all().iter().find(|edition| edition.repository.eq_ignore_ascii_case(repository));
        let packager = || Packager::by_owner(repository.split('/').next()?);
        native.or_else(|| own().map(|edition| edition.recipe)).or_else(|| recipe::usual(packager()?, self))
    }

    /// The type of llama-quantize with the size that is nearest.
    fn nearest_in_size(&self, bytes: u64) -> Result<Quantisation, QuantiseError> {
        const TYPES: [FileType; 10] = [
            FileType::Iq1M,
            FileType::Iq2M,
            FileType::Q2K,
            FileType::Q3KM,
            FileType::Iq4Xs,
            FileType::Q4KM,
            FileType::Q5KM,
            FileType::Q6K,
            FileType::Q8_0,
            FileType::Bf16,
        ];
        let mut nearest = (u64::MAX, FileType::Q4KM);
        for to in TYPES {
            let off = self.quantised_bytes(to)?.0.abs_diff(bytes);
            nearest = if off < nearest.0 { (off, to) } else { nearest };
        }
        Ok(nearest.1.into())
    }
}

/// A file whose size is known.
pub(super) struct Sized {
    pub to: Quantisation,
    /// Whether the types of all tensors are known by the name.
    pub is_known: bool,
    /// Whose types these are.
    pub by: String,
    /// What it is, for the beginning of a sentence.
    pub said: String,
}
