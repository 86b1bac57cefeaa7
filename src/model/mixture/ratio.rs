//! Sizes of Unsloth's dynamic files against those of a plain type of the same repository, for models of which no file is
//! known.
//!
//! Their types follow an importance matrix block by block. Source: `assets/mixtures.tsv`; `tests/mixtures.rs` computes
//! the table from it.

use std::fmt;

use crate::gguf::FileType;

use crate::model::Model;

use super::name::Quantisation;
use super::recipe::Recipe;

/// Models whose files are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RatioClass {
    /// Without experts.
    Dense,
    /// With experts, and a recipe for them.
    Experts,
    /// With experts, from before March 2026: the recipe is that of other models.
    EarlierExperts,
}

impl RatioClass {
    /// Of a model, whose files follow a recipe.
    pub fn of(model: &Model, recipe: Option<&Recipe>) -> Self {
        match (&model.hyper.experts, recipe) {
            (None, _) => Self::Dense,
            (Some(_), Some(recipe)) if recipe.name == "unsloth" => Self::EarlierExperts,
            (Some(_), _) => Self::Experts,
        }
    }
}

/// How large files of a name are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// The name of the files.
    pub name: &'static str,
    /// What is quantised.
    pub class: RatioClass,
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
pub const RATIOS: &[Ratio] = &[
    dense("UD-IQ1_M", FileType::Iq1S, [930, 1125, 1148], 12),
    dense("UD-IQ1_S", FileType::Iq1S, [855, 1054, 1090], 12),
    dense("UD-IQ2_M", FileType::Iq2M, [964, 1014, 1084], 18),
    dense("UD-IQ2_XXS", FileType::Iq2Xs, [788, 937, 1033], 18),
    dense("UD-IQ3_XXS", FileType::Q3KS, [872, 901, 971], 19),
    dense("UD-Q2_K_XL", FileType::Iq2M, [969, 1132, 1185], 20),
    dense("UD-Q3_K_XL", FileType::Q3KM, [954, 1037, 1082], 20),
    dense("UD-Q4_K_XL", FileType::Q4KM, [1000, 1017, 1063], 21),
    dense("UD-Q5_K_XL", FileType::Q5KM, [998, 1002, 1054], 20),
    dense("UD-Q6_K_XL", FileType::Q5KM, [1181, 1271, 1332], 20),
    dense("UD-Q8_K_XL", FileType::Q8_0, [1073, 1166, 1468], 20),
    of_experts("UD-IQ1_M", FileType::Q2K, [738, 790, 833], 8),
    of_experts("UD-IQ2_M", FileType::Iq2M, [950, 970, 988], 10),
    of_experts("UD-IQ2_XXS", FileType::Iq2Xs, [986, 1024, 1087], 10),
    of_experts("UD-IQ3_S", FileType::Q2K, [1011, 1067, 1126], 10),
    of_experts("UD-IQ3_XXS", FileType::Iq2M, [1084, 1133, 1152], 10),
    of_experts("UD-Q2_K_XL", FileType::Iq2M, [1016, 1037, 1054], 9),
    of_experts("UD-Q8_K_XL", FileType::Q8_0, [1001, 1029, 1319], 10),
    of_earlier_experts("UD-IQ1_M", FileType::Iq1S, [1323, 1515, 1582], 10),
    of_earlier_experts("UD-IQ1_S", FileType::Iq1S, [1311, 1424, 1492], 9),
    of_earlier_experts("UD-IQ2_M", FileType::Iq2M, [954, 1079, 1110], 7),
    of_earlier_experts("UD-IQ2_XXS", FileType::Iq2Xs, [988, 1143, 1186], 10),
    of_earlier_experts("UD-IQ3_XXS", FileType::Q3KS, [824, 967, 990], 9),
    of_earlier_experts("UD-Q2_K_XL", FileType::Q2K, [914, 1047, 1077], 10),
    of_earlier_experts("UD-Q3_K_XL", FileType::Q3KM, [922, 939, 1005], 11),
    of_earlier_experts("UD-Q4_K_XL", FileType::Q4KM, [949, 956, 1023], 10),
    of_earlier_experts("UD-Q5_K_XL", FileType::Q5KM, [998, 1009, 1049], 9),
    of_earlier_experts("UD-Q6_K_XL", FileType::Q6K, [1037, 1050, 1116], 9),
    of_earlier_experts("UD-Q8_K_XL", FileType::Q8_0, [1018, 1097, 1119], 9),
];

/// The least, usual and most in thousandths, and repositories.
const fn dense(name: &'static str, to: FileType, [least, usual, most]: [u64; 3], files: u64) -> Ratio {
    Ratio { name, class: RatioClass::Dense, to, usual, least, most, files }
}

const fn of_experts(name: &'static str, to: FileType, seen: [u64; 3], files: u64) -> Ratio {
    Ratio { class: RatioClass::Experts, ..dense(name, to, seen, files) }
}

const fn of_earlier_experts(name: &'static str, to: FileType, seen: [u64; 3], files: u64) -> Ratio {
    Ratio { class: RatioClass::EarlierExperts, ..dense(name, to, seen, files) }
}

impl Ratio {
    /// The ratio of files of this name.
    pub fn of(name: Quantisation, class: RatioClass) -> Option<&'static Self> {
        RATIOS.iter().find(|ratio| ratio.name == name.name() && ratio.class == class)
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
