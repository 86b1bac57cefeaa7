//! Sizes of Unsloth's dynamic files against those of a plain type of the same repository, for models of which no file is
//! known.
//!
//! Their types follow an importance matrix block by block. Source: `assets/mixtures.tsv`; `tests/mixtures.rs` computes
//! the table from it.

use std::fmt;

use crate::gguf::FileType;

use super::name::Quantisation;

/// How large files of a name are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// The name of the files.
    pub name: &'static str,
    /// Whether their models have experts.
    pub experts: bool,
    /// The plain type that they are compared with.
    pub to: FileType,
    /// The median, in thousandths.
    pub usual: u64,
    /// The least that was seen.
    pub least: u64,
    /// The most that was seen.
    pub most: u64,
    /// Repositories that were compared.
    pub files: u64,
}

/// Ratios of files that no recipe knows.
pub const RATIOS: &[Ratio] = &[];

impl Ratio {
    /// The ratio of files of this name.
    pub fn of(name: Quantisation, experts: bool) -> Option<&'static Self> {
        RATIOS.iter().find(|ratio| ratio.name == name.name() && ratio.experts == experts)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |thousandths: u64| format!("{:.2}", thousandths as f64 / 1000.0);
        let Self { to, usual, least, most, files, .. } = self;
        write!(
            f,
            "it is taken to be {} times as large as {to}, as such files of {files} other models usually are ({} to {})",
            times(*usual),
            times(*least),
            times(*most)
        )
    }
}
