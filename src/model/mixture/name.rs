//! Names of quantisations as people type them: `Q4_K_M`, `UD-Q4_K_XL`, `bartowski:Q4_K_L`.

use std::fmt;
use std::str::FromStr;

use crate::gguf::{FileType, NotAFileType};
use crate::model::mlx::modes::MODE_NAMES;

/// Who makes files of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Packager {
    Unsloth,
    Bartowski,
    Mradermacher,
    GgmlOrg,
}

/// Packagers by the owner of their repositories on Hugging Face, and their names in sentences.
const PACKAGERS: [(&str, &str, Packager); 4] = [
    ("unsloth", "Unsloth", Packager::Unsloth),
    ("bartowski", "bartowski", Packager::Bartowski),
    ("mradermacher", "mradermacher", Packager::Mradermacher),
    ("ggml-org", "ggml-org", Packager::GgmlOrg),
];

/// Begins the names of Unsloth's dynamic files.
const DYNAMIC: &str = "UD-";

/// Names that are no file types of llama.cpp, and the file type whose tensors are nearest to theirs.
const OWN_NAMES: [(&str, FileType); 39] = [
    ("Q2_K_L", FileType::Q2K),
    ("Q3_K_XL", FileType::Q3KL),
    ("Q4_K_L", FileType::Q4KM),
    ("Q5_K_L", FileType::Q5KM),
    ("Q6_K_L", FileType::Q6K),
    ("UD-Q1_0", FileType::Iq1S),
    ("UD-Q2_0", FileType::Q2K),
    ("UD-IQ1_S", FileType::Iq1S),
    ("UD-IQ1_M", FileType::Iq1M),
    ("UD-IQ2_XXS", FileType::Iq2Xxs),
    ("UD-IQ2_XS", FileType::Iq2Xs),
    ("UD-IQ2_S", FileType::Iq2S),
    ("UD-IQ2_M", FileType::Iq2M),
    ("UD-Q2_K", FileType::Q2K),
    ("UD-Q2_K_L", FileType::Q2K),
    ("UD-Q2_K_XL", FileType::Q2K),
    ("UD-IQ3_XXS", FileType::Iq3Xxs),
    ("UD-IQ3_S", FileType::Iq3S),
    ("UD-IQ3_M", FileType::Iq3M),
    ("UD-Q3_K_S", FileType::Q3KS),
    ("UD-Q3_K_M", FileType::Q3KM),
    ("UD-Q3_K_L", FileType::Q3KL),
    ("UD-Q3_K_XL", FileType::Q3KM),
    ("UD-IQ4_XS", FileType::Iq4Xs),
    ("UD-IQ4_NL", FileType::Iq4Nl),
    ("UD-Q4_K_S", FileType::Q4KS),
    ("UD-Q4_K_M", FileType::Q4KM),
    ("UD-Q4_K_L", FileType::Q4KM),
    ("UD-Q4_K_XL", FileType::Q4KM),
    ("UD-Q5_K_S", FileType::Q5KS),
    ("UD-Q5_K_M", FileType::Q5KM),
    ("UD-Q5_K_XL", FileType::Q5KM),
    ("UD-Q6_K_S", FileType::Q6K),
    ("UD-Q6_K", FileType::Q6K),
    ("UD-Q6_K_M", FileType::Q6K),
    ("UD-Q6_K_L", FileType::Q6K),
    ("UD-Q6_K_XL", FileType::Q6K),
    ("UD-Q8_K_L", FileType::Q8_0),
    ("UD-Q8_K_XL", FileType::Q8_0),
];

impl Packager {
    /// All packagers whose files are known.
    pub fn all() -> impl Iterator<Item = Self> {
        PACKAGERS.into_iter().map(|(_, _, packager)| packager)
    }

    /// The owner of its repositories, which is its name in references.
    pub fn owner(self) -> &'static str {
        self.row().0
    }

    /// Its name in sentences.
    pub fn title(self) -> &'static str {
        self.row().1
    }

    /// The packager with repositories of this owner.
    pub fn by_owner(owner: &str) -> Option<Self> {
        let row = PACKAGERS.into_iter().find(|(known, ..)| known.eq_ignore_ascii_case(owner));
        row.map(|(_, _, packager)| packager)
    }

    fn row(self) -> (&'static str, &'static str, Self) {
        let row = PACKAGERS.into_iter().find(|(.., packager)| *packager == self);
        row.unwrap_or(PACKAGERS[0])
    }
}

/// A quantisation under the name that its maker gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quantisation {
    packager: Option<Packager>,
    name: &'static str,
}

/// A text that names no quantisation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAQuantisation {
    /// The name is unknown.
    #[error(transparent)]
    Name(#[from] NotAFileType),
    /// The packager is unknown.
    #[error("the files of '{0}' are not known: known packagers are {known}", known = owners())]
    Packager(String),
}

fn owners() -> String {
    PACKAGERS.map(|(owner, ..)| owner).join(", ")
}

impl Quantisation {
    /// Every name that is no file type of llama.cpp.
    pub fn own_names() -> impl Iterator<Item = &'static str> {
        OWN_NAMES.into_iter().map(|(name, _)| name)
    }

    /// A name that is no file type of llama.cpp, in the name of a file: `Qwen3.6-27B-UD-Q4_K_XL.gguf`.
    pub fn own_name_in(file: &str) -> Option<Self> {
        let text = plain(file);
        let ends = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        let is_in = |name: &str| {
            let name = plain(name);
            text.match_indices(&name).any(|(at, _)| {
                let (before, after) = (text.get(..at), text.get(at + name.len()..));
                ends(before.and_then(|text| text.chars().next_back()))
                    && ends(after.and_then(|text| text.chars().next()))
            })
        };
        let found = OWN_NAMES.into_iter().map(|(name, _)| name).filter(|name| is_in(name));
        found.max_by_key(|name| name.len())?.parse().ok()
    }

    /// Who makes it, where that is part of the name.
    pub const fn packager(self) -> Option<Packager> {
        self.packager
    }

    /// The name alone: `UD-Q4_K_XL`.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The file type that llama-quantize makes under this name, if nobody else is meant.
    pub fn file_type(self) -> Option<FileType> {
        if self.packager.is_some() { None } else { self.name.parse().ok() }
    }

    /// Whether GGUF files have it, rather than MLX alone.
    pub fn is_of_gguf(self) -> bool {
        !MODE_NAMES.contains(&self.name)
    }

    /// The file type of this name, or the one whose tensors are nearest.
    pub fn nearest(self) -> FileType {
        let own = OWN_NAMES.into_iter().find(|(name, _)| *name == self.name).map(|(_, nearest)| nearest);
        // every other name is that of a file type
        own.or_else(|| self.name.parse().ok()).unwrap_or(FileType::Q4KM)
    }
}

/// A name in one letter case, without hyphens.
fn plain(name: &str) -> String {
    name.trim().replace('-', "_").to_ascii_uppercase()
}

impl From<FileType> for Quantisation {
    fn from(file_type: FileType) -> Self {
        Self { packager: None, name: file_type.name() }
    }
}

impl fmt::Display for Quantisation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.packager.filter(|_| !self.name.starts_with(DYNAMIC)) {
            Some(packager) => f.pad(&format!("{}:{}", packager.owner(), self.name)),
            None => f.pad(self.name),
        }
    }
}

impl FromStr for Quantisation {
    type Err = NotAQuantisation;

    /// Parses a name in any letter case, with hyphens or underscores: `ud-iq4-xs`, `unsloth:q4_k_m`.
    fn from_str(text: &str) -> Result<Self, NotAQuantisation> {
        let (packager, name) = match text.trim().split_once(':') {
            Some((owner, name)) => {
                let known = Packager::by_owner(owner.trim());
                (Some(known.ok_or_else(|| NotAQuantisation::Packager(owner.trim().to_owned()))?), name)
            }
            None => (None, text),
        };
        let wanted = plain(name);
        if let Some((own, _)) = OWN_NAMES.into_iter().find(|(own, _)| plain(own) == wanted) {
            let packager = packager.or_else(|| own.starts_with(DYNAMIC).then_some(Packager::Unsloth));
            return Ok(Self { packager, name: own });
        }
        let Ok(file_type) = wanted.parse::<FileType>() else {
            let of_mlx = MODE_NAMES.into_iter().find(|mode| plain(mode) == wanted).filter(|_| packager.is_none());
            let name = of_mlx.ok_or_else(|| NotAFileType::of(text))?;
            return Ok(Self { packager, name });
        };
        Ok(Self { packager, name: file_type.name() })
    }
}
