//! The models among a repository's files, by their names.
//!
//! The default `Q4_K_M` is that of llama.cpp (common/download.cpp, llama-cpp-sys-2 0.1.161) and of Ollama.

use std::collections::BTreeMap;

use super::HfReference;
use crate::gguf::read::ShardName;
use crate::source::file_name::{is_model, label};
use crate::source::store::missing_shard;

/// A model of a repository, in one quantisation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::source) struct RepoModel {
    /// `Q4_K_M`, or the file's name if it contains no quantisation.
    pub label: String,
    /// Its files in order.
    pub files: Vec<String>,
    /// Number of shards.
    pub shards: u64,
    /// The first missing shard, counted from one.
    pub missing: Option<u64>,
    stem: String,
}

impl RepoModel {
    /// The first of its files, unless a shard is missing.
    pub fn first_file(&self) -> Result<String, String> {
        if let Some(missing) = self.missing {
            return Err(format!(
                "shard {missing} of {} of '{}' is missing from the repository: use another quantisation",
                self.shards, self.label
            ));
        }
        self.files.first().cloned().ok_or_else(|| "it has no files".to_owned())
    }

    /// The path of its files without shard and ending.
    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// The name of its files without the quantisation: `Qwen3-8B` of `Q8_0/Qwen3-8B-Q8_0`.
    pub fn of_model(&self) -> String {
        let name = self.stem.rsplit('/').next().unwrap_or(&self.stem);
        let name = name.strip_suffix(&self.label).unwrap_or(name);
        let name = name.trim_end_matches(['-', '.', '_']).to_lowercase();
        // how it was quantised is no part of what it is
        let plain = ["imatrix", "imat", "i1"].iter().find_map(|remark| name.strip_suffix(remark));
        let plain =
            plain.filter(|rest| rest.ends_with(['-', '.', '_'])).map(|rest| rest.trim_end_matches(['-', '.', '_']));
        plain.unwrap_or(&name).to_owned()
    }
}

/// The one of `groups` that `wanted` means; `files` are all of the repository.
pub(in crate::source) fn choose<'g>(
    groups: &'g [RepoModel],
    files: &[String],
    wanted: &HfReference,
) -> Result<&'g RepoModel, String> {
    if groups.is_empty() {
        let safetensors = files.iter().any(|file| file.ends_with(".safetensors"));
        let advice = match (safetensors, &wanted.quant) {
            (true, Some(quant)) => format!(
                "it holds safetensors; 'hf://{} --quant {quant}' plans the file that can be made of them",
                wanted.repository
            ),
            (true, None) => "it holds safetensors; look for a GGUF version of the model".to_owned(),
            (false, _) => "look for another".to_owned(),
        };
        return Err(format!("the repository has no GGUF files: {advice}"));
    }
    let labels: Vec<_> = groups.iter().map(|group| group.label.as_str()).collect();
    if let Some(file) = &wanted.file {
        let of_file = groups.iter().find(|group| group.files.contains(file));
        return of_file.ok_or_else(|| format!("'{file}' is no model of the repository; it has {}", listed(&labels)));
    }
    if let Some(quant) = &wanted.quant {
        let named = named(groups, quant);
        return named.ok_or_else(|| format!("the repository has no '{quant}'; it has {}", listed(&labels)));
    }
    let usual = ["Q4_K_M", "Q8_0"].iter().find_map(|usual| named(groups, usual));
    usual.or(groups.first()).ok_or_else(|| "it has no files".to_owned())
}

/// The models among `files`, or among those in `folder`.
pub(in crate::source) fn groups(files: &[String], folder: Option<&str>) -> Vec<RepoModel> {
    let inside = |file: &&String| folder.is_none_or(|folder| file.starts_with(&format!("{folder}/")));
    let mut shards: BTreeMap<(String, u64), Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(inside).filter(|file| is_model(file)) {
        let stem = ShardName::parse(file).map_or_else(
            || (file.get(..file.len() - ".gguf".len()).unwrap_or(file).to_owned(), 1),
            |name| (name.stem, name.count),
        );
        shards.entry(stem).or_default().push(file.clone());
    }
    let group = |((stem, count), mut files): ((String, u64), Vec<String>)| {
        files.sort();
        let missing = missing_shard(files.iter(), count).filter(|_| count > 1);
        RepoModel { label: label(&stem), files, shards: count, missing, stem }
    };
    shards.into_iter().map(group).collect()
}

/// The group named `quant`, in any letter case: by its label, the end of its file name, or the whole file name.
pub(in crate::source) fn named<'g>(groups: &'g [RepoModel], quant: &str) -> Option<&'g RepoModel> {
    let wanted = quant.to_lowercase();
    let exact = groups.iter().find(|group| group.label.to_lowercase() == wanted);
    let ends = |group: &&RepoModel| {
        let stem = group.stem.to_lowercase();
        stem.strip_suffix(&wanted).is_some_and(|rest| rest.is_empty() || rest.ends_with(['-', '.', '_', '/']))
    };
    // `q4_k_m` also matches `UD-Q4_K_M` if there is no plain one
    let file = format!("{}.gguf", wanted.trim_end_matches(".gguf"));
    let by_file =
        |group: &&RepoModel| group.files.iter().any(|name| name.to_lowercase().rsplit('/').next() == Some(&file));
    exact.or_else(|| groups.iter().find(ends)).or_else(|| groups.iter().find(by_file))
}

/// The labels, comma-separated; at most 24.
fn listed(labels: &[&str]) -> String {
    const MAX_SHOWN: usize = 24;
    let shown = labels.iter().take(MAX_SHOWN).copied().collect::<Vec<_>>().join(", ");
    if labels.len() > MAX_SHOWN { format!("{shown} and {} more", labels.len() - MAX_SHOWN) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn shards_are_one_model_and_projectors_none() {
        let files = [
            "b/M-Q8_0-00002-of-00002.gguf",
            "b/M-Q8_0-00001-of-00002.gguf",
            "M-Q4_K_M.gguf",
            "mmproj-F16.gguf",
            "README.md",
            "M-F16-00001-of-00003.gguf",
        ];
        let groups = groups(&files.map(str::to_owned), None);
        let shown: Vec<_> =
            groups.iter().map(|group| (group.label.as_str(), group.files.len(), group.missing)).collect();
        assert_eq!(shown, [("F16", 1, Some(2)), ("Q4_K_M", 1, None), ("Q8_0", 2, None)]);
        assert_eq!(named(&groups, "q8_0").unwrap().files[0], "b/M-Q8_0-00001-of-00002.gguf");
        assert_eq!(named(&groups, "m-q4_k_m.gguf").unwrap().label, "Q4_K_M");
        assert_eq!(named(&groups, "Q4_0"), None);
        assert!(groups.iter().all(|group| group.of_model() == "m"));
    }

    #[test]
    fn a_model_is_known_by_its_name_without_the_quantisation() {
        let files = ["M-i1-Q4_K_M.gguf", "M-UD-Q6_K_XL.gguf", "x/M-imat.Q8_0.gguf", "N-Q8_0.gguf", "mtp-M-Q8_0.gguf"];
        let names: Vec<_> = groups(&files.map(str::to_owned), None).iter().map(RepoModel::of_model).collect();
        assert_eq!(names, ["m", "m", "n", "m"]);
    }
}
