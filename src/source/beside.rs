//! Which projector belongs to a model, by the names of the files beside it.
//!
//! llama-server loads the one of a repository by a rule ([`of_repository`]). In a folder, a projector belongs to a model if
//! its name says so, or if the folder has no other model ([`in_folder`]).

use std::collections::BTreeSet;

use super::file_name::{PROJECTOR, is_gguf, is_model, is_projector, label, last};
use crate::gguf::read::ShardName;

/// Words of a file's name that say nothing of the model.
const SAY_NOTHING: [&str; 11] =
    ["audio", "clip", "encoder", "gguf", "i1", "imat", "imatrix", PROJECTOR, "model", "projector", "vision"];

/// The projectors among the `files` of a folder that may be of the model in `file`: those whose name says so best, or all
/// if the folder has no other model.
pub(super) fn in_folder<'f>(file: &str, files: &'f [String]) -> Vec<&'f String> {
    let files = || files.iter().filter(|file| is_gguf(file));
    let own = Name::of(file);
    let named = files().filter(|file| is_projector(file)).filter_map(|file| Some((own.fit(&Name::of(file))?, file)));
    let named: Vec<_> = named.collect();
    let best = named.iter().map(|(fit, _)| *fit).max();
    let models: BTreeSet<Name> = files().filter(|file| is_model(file)).map(|file| Name::of(file)).collect();
    match best {
        Some(best) => named.into_iter().filter(|(fit, _)| *fit == best).map(|(_, file)| file).collect(),
        None if models.iter().all(|other| *other == own) => files().filter(|file| is_projector(file)).collect(),
        None => Vec::new(),
    }
}

/// The projector among the `files` of a repository that llama-server loads with `file`: in its folder or the nearest above,
/// with the bits nearest to its own (`find_best_sibling` in `common/download.cpp`, llama-cpp-sys-2 0.1.161).
pub(super) fn of_repository<'f>(file: &str, files: &'f [String]) -> Option<&'f String> {
    let folder = |file: &str| file.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default();
    let (own, own_bits) = (folder(file), bits(file));
    let above = files.iter().filter(|file| is_gguf(file) && file.contains(PROJECTOR));
    let above = above.filter(|file| own.starts_with(&folder(file)));
    above.min_by_key(|file| (std::cmp::Reverse(folder(file).len()), bits(file).abs_diff(own_bits)))
}

/// The first number of what stands behind the last hyphen or dot of a file's name; 0 if there is none.
fn bits(file: &str) -> u64 {
    let stem = file.strip_suffix(".gguf").unwrap_or(file);
    let stem = ShardName::parse(file).map_or_else(|| stem.to_owned(), |shard| shard.stem);
    let tag = stem.rsplit_once(['-', '.']).map_or("", |(_, tag)| tag);
    let is_tag = tag.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let digits = tag.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok().filter(|_| is_tag).unwrap_or(0)
}

/// The words of a file's name without its quantisation and what says nothing of the model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name(Vec<String>);

impl Name {
    fn of(file: &str) -> Self {
        let file = last(file);
        let stem = file.get(..file.len().saturating_sub(".gguf".len())).filter(|_| is_gguf(file)).unwrap_or(file);
        let stem = ShardName::parse(file).map_or_else(|| stem.to_owned(), |shard| shard.stem);
        let label = label(&stem);
        let name = stem.strip_suffix(&label).filter(|rest| !rest.is_empty()).unwrap_or(&stem).to_lowercase();
        let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        Self(words.filter(|word| !SAY_NOTHING.contains(word)).map(str::to_owned).collect())
    }

    /// How many words say that a projector of this name is of this model; none if they do not.
    fn fit(&self, projector: &Self) -> Option<usize> {
        let (own, other) = (&self.0, &projector.0);
        let is_part = !other.is_empty() && own.windows(other.len()).any(|words| words == other.as_slice());
        // packagers put the maker in front
        let has_maker = !own.is_empty() && other.ends_with(own);
        (is_part || has_maker).then_some(other.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    // the name says it
    #[case(
        "Qwen3-VL-8B-Instruct-Q4_K_M.gguf",
        "mmproj-Qwen3-VL-8B-Instruct-F16.gguf Qwen3-8B-Q8_0.gguf",
        "mmproj-Qwen3-VL-8B-Instruct-F16.gguf"
    )]
    #[case(
        "gemma-3-4b-it-Q4_K_M.gguf",
        "mmproj-google_gemma-3-4b-it-f16.gguf mmproj-google_gemma-3-27b-it-f16.gguf x.gguf",
        "mmproj-google_gemma-3-4b-it-f16.gguf"
    )]
    #[case(
        "google_gemma-3-4b-it-qat-Q4_0.gguf",
        "gemma-3-4b-it-mmproj-model-f16.gguf x.gguf",
        "gemma-3-4b-it-mmproj-model-f16.gguf"
    )]
    #[case(
        "a_b-GGUF_b-Q4_K_M.gguf",
        "a_b-GGUF_mmproj-f16.gguf c_d-GGUF_mmproj-f16.gguf c_d-GGUF_d-Q8_0.gguf",
        "a_b-GGUF_mmproj-f16.gguf"
    )]
    #[case("big-Q8_0-00001-of-00002.gguf", "mmproj-big-BF16.gguf small-Q8_0.gguf", "mmproj-big-BF16.gguf")]
    // the only model
    #[case("M-Q4_K_M.gguf", "M-Q8_0.gguf M-UD-Q6_K_XL.gguf mmproj-F16.gguf", "mmproj-F16.gguf")]
    #[case("M.gguf", "mmproj-model-f16.gguf notes.txt", "mmproj-model-f16.gguf")]
    #[case("ggml-model-q4_k.gguf", "mmproj-model-f16.gguf", "mmproj-model-f16.gguf")]
    // another's, or nobody's
    #[case("Qwen3-8B-Q4_K_M.gguf", "mmproj-Qwen3-VL-8B-Instruct-F16.gguf Qwen3-VL-8B-Instruct-Q4_K_M.gguf", "")]
    #[case("M-Q4_K_M.gguf", "N-Q4_K_M.gguf mmproj-F16.gguf", "")]
    #[case("gemma-3-4b-it-Q4_K_M.gguf", "mmproj-gemma-3-27b-it-f16.gguf gemma-3-27b-it-Q4_K_M.gguf", "")]
    // more than one
    #[case("M-Q4_K_M.gguf", "mmproj-BF16.gguf mmproj-F16.gguf", "mmproj-BF16.gguf mmproj-F16.gguf")]
    #[case("M-Q4_K_M.gguf", "mmproj-M-BF16.gguf mmproj-F16.gguf", "mmproj-M-BF16.gguf")]
    fn projectors_in_a_folder_belong_by_their_names(#[case] file: &str, #[case] beside: &str, #[case] expected: &str) {
        let files: Vec<String> = beside.split_whitespace().chain([file]).map(str::to_owned).collect();
        let found: Vec<&str> = in_folder(file, &files).into_iter().map(String::as_str).collect();
        assert_eq!(found.join(" "), expected);
    }

    #[rstest]
    #[case("M-Q4_K_M.gguf", "mmproj-BF16.gguf mmproj-F16.gguf mmproj-Q8_0.gguf", Some("mmproj-Q8_0.gguf"))]
    #[case("M-F16.gguf", "mmproj-Q8_0.gguf mmproj-F32.gguf mmproj-F16.gguf", Some("mmproj-F16.gguf"))]
    #[case("UD-Q4_K_XL/M-00001-of-00002.gguf", "mmproj-F16.gguf BF16/mmproj-Q8_0.gguf", Some("mmproj-F16.gguf"))]
    #[case("sub/M-Q4_K_M.gguf", "mmproj-F16.gguf sub/mmproj-F32.gguf", Some("sub/mmproj-F32.gguf"))]
    #[case("M-Q4_K_M.gguf", "sub/mmproj-F16.gguf", None)]
    fn llama_server_chooses_the_projector_of_a_repository(
        #[case] file: &str,
        #[case] beside: &str,
        #[case] expected: Option<&str>,
    ) {
        let files: Vec<String> = beside.split_whitespace().chain([file]).map(str::to_owned).collect();
        assert_eq!(of_repository(file, &files).map(String::as_str), expected);
    }
}
