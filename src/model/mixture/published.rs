//! Sizes of published files: `assets/mixtures.tsv`.

use std::sync::LazyLock;

use crate::model::Model;

use super::name::{Packager, Quantisation};
use super::recipe::{self, Recipe};

/// The files of a repository on a day.
#[derive(Debug)]
pub struct Edition {
    /// `unsloth/Qwen3.6-27B-GGUF`
    pub repository: &'static str,
    /// The model of the catalogue that has the same tensors.
    pub header: &'static str,
    names: Vec<&'static str>,
    /// The same and the repository's, as names are compared.
    plain: Vec<String>,
    /// What its files follow.
    pub recipe: &'static Recipe,
    /// Bytes of a file before its tensors, and whether they are known.
    pub before_tensors: (u64, bool),
    /// The day on which the sizes were read.
    pub day: &'static str,
    /// `NAME=BYTES` of each file.
    files: &'static str,
}

/// One published file.
#[derive(Clone, Copy, Debug)]
pub struct PublishedFile {
    /// Where it is.
    pub edition: &'static Edition,
    /// Its name among quantisations.
    pub name: &'static str,
    /// Bytes of the whole file.
    pub bytes: u64,
}

impl PublishedFile {
    /// Its name with that of its packager.
    pub fn quantisation(&self) -> Option<Quantisation> {
        format!("{}:{}", self.edition.packager()?.owner(), self.name).parse().ok()
    }

    /// Bytes of its tensors.
    pub fn tensor_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.edition.before_tensors.0)
    }
}

/// Every edition, the newest of a repository first.
///
/// # Panics
/// Never: the asset is part of the program and a test reads it.
#[expect(clippy::expect_used, reason = "the asset is compiled in, and the tests parse it")]
pub fn all() -> &'static [Edition] {
    static EDITIONS: LazyLock<Vec<Edition>> = LazyLock::new(|| {
        let lines = include_str!("../../../assets/mixtures.tsv").lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| Edition::read(line).expect("assets/mixtures.tsv is well formed")).collect()
    });
    &EDITIONS
}

impl Edition {
    fn read(line: &'static str) -> Option<Self> {
        let mut columns = line.split('\t');
        let mut next = || columns.next();
        let (repository, header, names) = (next()?, next()?, next()?);
        let recipe = recipe::named(next()?)?;
        let before = next()?;
        let exact = before.strip_prefix('~');
        let day = next()?;
        let files = next()?;
        let before_tensors = match exact.unwrap_or(before) {
            "-" => (0, false),
            number => (number.parse().ok()?, exact.is_none()),
        };
        let names: Vec<&'static str> = names.split(',').collect();
        let plain = names.iter().copied().chain([model_name(repository)]).map(plain).collect();
        Some(Self { repository, header, names, plain, recipe, before_tensors, day, files })
    }

    /// Who made it.
    pub fn packager(&self) -> Option<Packager> {
        Packager::by_owner(self.repository.split('/').next()?)
    }

    /// The repository's name without its owner and format: `Qwen3.6-27B`.
    pub fn model_name(&self) -> &'static str {
        model_name(self.repository)
    }

    /// Whether one of these, as names are compared, is a name of its model.
    fn is_one_of(&self, wanted: &[String]) -> bool {
        self.plain.iter().any(|own| wanted.contains(own))
    }

    fn is_architecture(&self, architecture: &str) -> bool {
        self.names.iter().any(|name| name.strip_prefix("architecture:") == Some(architecture))
    }

    /// Its files.
    pub fn files(&'static self) -> impl Iterator<Item = PublishedFile> {
        self.files.split(' ').filter_map(move |file| {
            let (name, bytes) = file.split_once('=')?;
            Some(PublishedFile { edition: self, name, bytes: bytes.parse().ok()? })
        })
    }

    /// The file with this name.
    pub fn file(&'static self, name: &str) -> Option<PublishedFile> {
        self.files().find(|file| file.name == name)
    }
}

fn model_name(repository: &'static str) -> &'static str {
    let own = repository.rsplit('/').next().unwrap_or(repository);
    own.strip_suffix("-GGUF").unwrap_or(own)
}

/// A name as it is compared: letter case and punctuation do not matter.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The editions of a model by its name in the catalogue or in its header.
pub fn of_name(name: &str) -> impl Iterator<Item = &'static Edition> {
    of_names([Some(name), None])
}

/// The editions of `model`.
pub fn of_model(model: &Model) -> impl Iterator<Item = &'static Edition> {
    of_names([model.entry.as_deref(), Some(&model.name)])
}

fn of_names(names: [Option<&str>; 2]) -> impl Iterator<Item = &'static Edition> {
    let wanted: Vec<String> = names.into_iter().flatten().map(plain).filter(|name| !name.is_empty()).collect();
    all().iter().filter(move |edition| edition.is_one_of(&wanted))
}

/// The newest file of these editions with this name; that of the packager, if one is named.
pub fn file<'e>(
    editions: impl IntoIterator<Item = &'static Edition> + 'e,
    quantisation: Quantisation,
) -> Option<PublishedFile> {
    let is_wanted =
        |edition: &&Edition| quantisation.packager().is_none_or(|packager| edition.packager() == Some(packager));
    editions.into_iter().filter(is_wanted).find_map(|edition| edition.file(quantisation.name()))
}

/// The recipe of a model whose experts are trained in 4 bits.
pub fn trained_in_four_bits(model: &Model) -> Option<&'static Recipe> {
    let is_of = |edition: &&Edition| edition.is_architecture(&model.architecture);
    let known = of_model(model).chain(all().iter().filter(is_of));
    known.map(|edition| edition.recipe).find(|recipe| recipe.has_own_experts())
}
