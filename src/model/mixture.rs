//! Files as published: the tensors that packagers give a model under the names of their files.
//!
//! - `header`: what the header of a file would say, and how large it is.
//! - `name`: names of quantisations and packagers.
//! - `recipe`: which tensor has which type, a row per recipe.
//! - `published`: sizes in bytes of published files, by repository and day.
//! - `repository`: files of any repository, by the header of one of them.
//! - `ratio`: sizes of files without a recipe against those of a plain type.
//!
//! In this order: the published size, its layers by the recipe, scaled where the recipe gives another size; the recipe
//! alone; the ratio to a plain type; nothing. A name of a packager is never taken for the plain type.

pub(super) mod basis;
mod header;
pub(super) mod name;
mod published;
mod ratio;
mod recipe;
mod repository;

use crate::gguf::{FileType, GgmlType, Tensor};
use crate::units::Bytes;

use super::Model;
use super::quantise::{Method, QuantiseError, Quantiser};

pub use basis::{Basis, Mixture};
pub use header::{BYTES_PER_TOKEN, ExactAfter};
pub use name::{NotAQuantisation, Packager, Quantisation};
pub use published::{Edition, PublishedFile, all as editions, file as published_file, of_model, of_name};
pub use ratio::{RATIOS, Ratio, RatioClass};
pub use recipe::{RECIPES, Recipe, RecipeError};
pub use repository::{Beside, BesideError};

use repository::Sized;

/// A recipe's size that differs by less than one part of this from the published one is the published one: headers of a
/// repository differ by some bytes.
const SAME: u64 = 100_000;
/// A published size that differs by more than one part of this is that of other tensors.
const OTHER_MODEL: u64 = 100;

impl Model {
    /// The same with its name in the catalogue, and what is known of its tensors' sizes.
    #[must_use]
    pub fn from_catalogue(self, entry: Option<Box<str>>, mixture: Option<Mixture>) -> Self {
        let own_name = mixture.as_ref().map(|mixture| mixture.quantisation.name());
        Self { entry, file_type: own_name.or(self.file_type), mixture, ..self }
    }

    /// The model as files under this name have it, without a note if it was quantised before.
    ///
    /// # Errors
    /// If the quantiser itself would refuse, or nothing is known of such files.
    pub fn in_quantisation(&self, to: impl Into<Quantisation>) -> Result<Self, QuantiseError> {
        let to = to.into();
        if let Some(model) = self.in_mlx_mode(to)? {
            return Ok(model);
        }
        let native = published::trained_in_four_bits(self).filter(|recipe| recipe.keeps_experts(to));
        // of experts that were trained in MXFP4, llama-quantize's MXFP4 is the file that their makers publish
        let is_makers = matches!(to.packager(), None | Some(Packager::GgmlOrg)) && to.nearest() == FileType::Mxfp4;
        let native = native.filter(|recipe| !is_makers || !recipe.trains_in_mxfp4());
        match to.file_type() {
            // what llama-quantize would make of experts trained in 4 bits is not what anybody publishes
            Some(file_type) if native.is_none() => self.quantised(file_type),
            _ => self.published_as(to, native),
        }
    }

    /// Bytes of the tensors of [`Model::in_quantisation`].
    ///
    /// # Errors
    /// As there.
    pub fn bytes_in(&self, to: impl Into<Quantisation>) -> Result<Bytes, QuantiseError> {
        Quantiser::of(self).bytes_in(to)
    }

    /// The published files of this model.
    pub fn published_files(&self) -> impl Iterator<Item = PublishedFile> {
        let editions = of_model(self).filter(|edition| self.has_tensors_of(edition));
        editions.flat_map(Edition::files)
    }

    fn published_as(&self, to: Quantisation, native: Option<&'static Recipe>) -> Result<Self, QuantiseError> {
        let mine = |edition: &&'static Edition| self.has_tensors_of(edition);
        match published_file(of_model(self).filter(mine), to) {
            Some(file) => self.as_published(to, &file),
            None => self.as_usual(to, native),
        }
    }

    /// The model with the size of a published file.
    ///
    /// # Errors
    /// If the quantiser refuses.
    pub fn as_published(&self, to: Quantisation, file: &PublishedFile) -> Result<Self, QuantiseError> {
        let PublishedFile { edition, .. } = file;
        let method = edition.recipe.method(to, self);
        let tensors = self.quantised_tensors(&method)?;
        let is_known = edition.recipe.knows(to);
        let by = if is_known { edition.recipe.title.to_owned() } else { format!("{} of llama-quantize", method.to) };
        let said = format!("{} of {}, as of {}", to.name(), edition.repository, edition.day);
        Ok(self.sized(method.to, tensors, file.tensor_bytes(), &Sized { to, is_known, by, said }))
    }

    /// The model with these tensors and notes, scaled to the size of a file.
    fn sized(&self, like: FileType, made: (Vec<Tensor>, Vec<String>), published: u64, file: &Sized) -> Self {
        let ((mut tensors, notes), Sized { to, is_known, by, said }) = (made, file);
        let made = total(&tensors);
        let (basis, reason) = if *is_known && made.abs_diff(published) <= published / SAME {
            (Basis::Published, format!("{said}: {by} gives its size to the byte or nearly so"))
        } else {
            scale(&mut tensors, published);
            let reason = format!(
                "{said}: the size is the published one; which layers have how much of it is not known, here it \
                 is that of {by} scaled by {}",
                percent(published, made)
            );
            (Basis::Scaled, reason)
        };
        self.with_mixture(like, tensors, notes, Mixture { quantisation: *to, basis, reason })
    }

    /// The model by a recipe or a ratio.
    fn as_usual(&self, to: Quantisation, native: Option<&'static Recipe>) -> Result<Self, QuantiseError> {
        // files of one packager alone have these names
        let packager = to.packager().unwrap_or(Packager::Bartowski);
        let known = of_model(self).find(|edition| edition.packager() == Some(packager)).map(|edition| edition.recipe);
        let recipe = native.or(known).or_else(|| recipe::usual(packager, self));
        if let Some(recipe) = recipe.filter(|recipe| recipe.knows(to)) {
            let method = recipe.method(to, self);
            let (tensors, notes) = self.quantised_tensors(&method)?;
            let reason = format!("no file {to} of this model is known: {}", recipe.said());
            let basis = Basis::Recipe;
            return Ok(self.with_mixture(method.to, tensors, notes, Mixture { quantisation: to, basis, reason }));
        }
        let nearest = to.nearest();
        let Some(ratio) = Ratio::of(to, RatioClass::of(self, recipe)) else {
            return Err(QuantiseError::NotKnown { name: to, nearest });
        };
        let plain =
            recipe.filter(|recipe| recipe.knows(ratio.to.into())).map(|recipe| recipe.method(ratio.to.into(), self));
        let method = plain.unwrap_or_else(|| Method::of(ratio.to));
        let (mut tensors, notes) = self.quantised_tensors(&method)?;
        let size = u128::from(total(&tensors)) * u128::from(ratio.usual) / 1000;
        scale(&mut tensors, size as u64);
        let reason = format!("no file {to} of this model is known, and no recipe: {ratio}");
        Ok(self.with_mixture(ratio.to, tensors, notes, Mixture { quantisation: to, basis: Basis::Ratio, reason }))
    }

    fn with_mixture(&self, to: FileType, tensors: Vec<Tensor>, notes: Vec<String>, mixture: Mixture) -> Self {
        let mut model = self.with_tensors(to, tensors, notes);
        model.file_type = Some(mixture.quantisation.name());
        if mixture.uncertainty().is_none() {
            model.header.notes.push(mixture.reason.clone());
        }
        Self { mixture: Some(mixture), ..model }
    }

    /// Whether the files of an edition have the tensors of this model, by the size of an unquantised one.
    fn has_tensors_of(&self, edition: &'static Edition) -> bool {
        let plain = [FileType::Bf16, FileType::F16, FileType::Q8_0];
        let found = plain.into_iter().find_map(|to| Some((to, edition.file(to.name())?)));
        let Some((to, file)) = found else { return true };
        let method = edition.recipe.method(to.into(), self);
        let made = self.quantised_tensors(&method).map(|(tensors, _)| total(&tensors));
        made.is_ok_and(|made| made.abs_diff(file.tensor_bytes()) <= made / OTHER_MODEL)
    }
}

impl Quantiser<'_> {
    /// [`Model::bytes_in`].
    ///
    /// # Errors
    /// As there.
    pub fn bytes_in(&self, to: impl Into<Quantisation>) -> Result<Bytes, QuantiseError> {
        let (to, model) = (to.into(), self.model());
        match to.file_type() {
            Some(file_type) if published::trained_in_four_bits(model).is_none() => self.quantised_bytes(file_type),
            _ => Ok(model.in_quantisation(to)?.bytes),
        }
    }
}

impl Recipe {
    /// Bytes of the tensors that it gives a model, as the nearest file type where it does not know the name.
    ///
    /// # Errors
    /// If the quantiser refuses.
    pub fn tensor_bytes(&'static self, to: Quantisation, model: &Model) -> Result<u64, QuantiseError> {
        Ok(total(&model.quantised_tensors(&self.method(to, model))?.0))
    }

    /// Whose it is, and how far such answers were off.
    fn said(&self) -> String {
        let RecipeError { files, half_within, all_within } = self.error;
        if files == 0 {
            return format!("the types are those of {}, which was compared with no file", self.title);
        }
        let percent = |thousandths: u64| match thousandths {
            0..=1 => "0.001".to_owned(),
            _ => format!("{:.1}", (thousandths as f64 / 1000.0).max(0.1)),
        };
        format!(
            "the types are those of {}; of {} published files it gave half to {} %, and all to {} %",
            self.title,
            files,
            percent(half_within),
            percent(all_within)
        )
    }
}

fn total(tensors: &[Tensor]) -> u64 {
    tensors.iter().fold(0, |sum, tensor| sum.saturating_add(tensor.bytes.0))
}

/// `+1.3 %`
fn percent(to: u64, from: u64) -> String {
    format!("{:+.1} %", (to as f64 / from.max(1) as f64 - 1.0) * 100.0)
}

/// Gives the matrices of blocks more or fewer bytes, all by the same factor, so that the sum is `wanted`. Their
/// types stay.
fn scale(tensors: &mut [Tensor], wanted: u64) {
    /// Tensors begin at multiples of this.
    const STEP: u128 = 32;
    let in_block = |tensor: &Tensor| tensor.ty != GgmlType::F32 && tensor.name.starts_with("blk.");
    let all = total(tensors);
    let layers = tensors.iter().filter(|tensor| in_block(tensor)).fold(0, |sum, tensor| sum + tensor.bytes.0);
    let goal = layers.checked_add(wanted).and_then(|sum| sum.checked_sub(all));
    let (Some(goal), true) = (goal, layers > 0) else { return };
    let mut last = None;
    for (at, tensor) in tensors.iter_mut().enumerate().filter(|(_, tensor)| in_block(tensor)) {
        let share = u128::from(tensor.bytes.0) * u128::from(goal) / u128::from(layers);
        // a share is no larger than the goal, which is 64 bits
        tensor.bytes = Bytes((share / STEP * STEP) as u64);
        last = Some(at);
    }
    let missing = wanted.saturating_sub(total(tensors));
    if let Some(tensor) = last.and_then(|at| tensors.get_mut(at)) {
        tensor.bytes += Bytes(missing);
    }
}
