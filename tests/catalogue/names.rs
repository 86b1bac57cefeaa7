//! What names of other places mean: `names.tsv` has those of public repositories and files, `typed.tsv` those that people
//! type.

use std::collections::BTreeSet;

use plimsoll::catalogue;
use proptest::prelude::*;

use super::entry;

fn meant(name: &str) -> Option<&'static str> {
    catalogue::named(name).first().map(|entry| entry.name.as_str())
}

#[test]
fn a_name_means_its_own_model_or_none() {
    let rows = include_str!("names.tsv").lines().filter(|line| !line.starts_with('#'));
    let mut found = BTreeSet::new();
    for row in rows {
        let [name, wanted, quantisation] = row.split('\t').collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(meant(name).unwrap_or("-"), wanted, "{name}");
        let read = catalogue::quantisation_in(name);
        let bits = |name: &str| name.split('_').next().unwrap_or_default().to_owned();
        let is_right = match read {
            None => quantisation == "-",
            // a packager's own name has the bits of the type that is nearest
            Some(own) if own.file_type().is_none() => bits(own.name().trim_start_matches("UD-")) == bits(quantisation),
            Some(plain) => plain.name() == quantisation,
        };
        assert!(is_right, "{name}: {read:?}");
        found.extend(meant(name));
    }
    assert!(found.len() >= 90, "{}", found.len());
}

/// What `plimsoll plan NAME` plans or offers where nothing else has the name.
#[test]
fn a_name_that_people_type_means_its_own_model_or_none() {
    let rows: Vec<_> = include_str!("typed.tsv").lines().filter(|line| !line.starts_with('#')).collect();
    assert!(rows.len() >= 400, "{}", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let (name, wanted) = row.split_once('\t').unwrap();
        let found = catalogue::find(name).map(|entry| entry.name);
        let found = found.or_else(|| Some(catalogue::described_by(name)?.0.name.clone()));
        if found.as_deref().unwrap_or("-") != wanted {
            wrong.push(format!("{name}: {found:?}, not {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_entry_is_meant_by_its_own_names() {
    for entry in catalogue::all() {
        for name in entry.names().chain(entry.hf.iter().map(String::as_str)) {
            assert_eq!(meant(name), Some(entry.name.as_str()), "{name}");
        }
        assert_eq!(meant(&format!("{}-UD-Q4_K_XL.gguf", entry.name)), Some(entry.name.as_str()));
    }
}

/// A file without a block that predicts tokens may stand beside the same with one; nothing else may.
#[test]
fn several_entries_of_a_name_are_files_of_one_model() {
    let names = |name| catalogue::named(name).into_iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names("Qwen3.5-9B-UD-Q4_K_XL.gguf"), ["qwen3.5-9b", "qwen3.5-9b-mtp"]);
    assert_eq!(names("Qwen3.8-27B-Q8_0.gguf"), ["qwen3.8-27b", "qwen3.8-27b-nomtp"]);
    assert_eq!(names("ggml-org/Qwen3.8-27B-GGUF:Q8_0"), ["qwen3.8-27b-nomtp"]);
    assert_eq!(names("DeepSeek-R1-0528-Qwen3-8B-Q4_K_M.gguf"), ["deepseek-r1-0528-qwen3-8b"]);
}

/// A model that was trained on from one of the catalogue has its shape, but the catalogue does not have it.
#[test]
fn what_was_trained_on_is_not_offered() {
    assert_eq!(meant("NousResearch/Hermes-3-Llama-3.1-8B-GGUF"), Some("llama3.1-8b"));
    assert_eq!(catalogue::described_by("hf://NousResearch/Hermes-3-Llama-3.1-8B-GGUF:Q4_K_M"), None);
    let offered = catalogue::described_by("hf://bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M");
    assert_eq!(offered.map(|(entry, _)| entry.name.as_str()), Some("llama3.1-8b"));
}

/// The numbers before `b` and `m` in a name, as byte ranges: `8` in `qwen3-8b`.
fn sizes(name: &str) -> Vec<(usize, usize)> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let ends = name.match_indices(['b', 'm']).map(|(at, _)| at);
    let numbers = ends.filter_map(|end| {
        let start = name[..end].rfind(|c| !is_digit(c)).map_or(0, |at| at + 1);
        let is_whole = name[end + 1..].chars().next().is_none_or(|c| !c.is_alphanumeric());
        (start < end && is_whole).then_some((start, end))
    });
    numbers.collect()
}

proptest! {
    #[test]
    fn no_entry_is_meant_by_its_name_with_another_size(
        index in any::<prop::sample::Index>(),
        which in any::<prop::sample::Index>(),
        number in 1_u32..2000,
    ) {
        let entry = index.get(catalogue::all());
        let sizes = sizes(&entry.name);
        prop_assume!(!sizes.is_empty());
        let (start, end) = *which.get(&sizes);
        let own: f64 = entry.name[start..end].parse().unwrap();
        let ratio = f64::from(number) / own;
        prop_assume!(!(0.6..=1.6).contains(&ratio));
        for ending in ["", "-Instruct-2507-UD-Q4_K_XL.gguf", ".Q8_0.gguf", ":q4_K_M"] {
            let changed = format!("{}{number}{}{ending}", &entry.name[..start], &entry.name[end..]);
            prop_assert!(catalogue::named(&changed).iter().all(|found| found.name != entry.name), "{changed}");
            prop_assert!(catalogue::find(&changed).is_none_or(|found| found.name != entry.name), "{changed}");
        }
    }
}

#[test]
fn sizes_and_versions_are_no_punctuation() {
    assert_eq!(catalogue::find("Qwen3.8B"), None);
    assert_eq!(catalogue::find("gemma-4:e4b").as_ref(), Some(entry("gemma4-e4b")));
}
