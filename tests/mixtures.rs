//! Files as published: recipes against the sizes of files on Hugging Face, `assets/mixtures.tsv`.
//!
//! Lines of that table whose model is not in the catalogue are left out; there are fewer of them than files compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use plimsoll::catalogue;
use plimsoll::engine::{self, EngineId, PreparedModel};
use plimsoll::gguf::{FileType, GgmlType};
use plimsoll::model::Model;
use plimsoll::model::mixture::{self, Basis, Edition, PublishedFile, Quantisation, RATIOS, RECIPES, RatioClass};
use plimsoll::plan::{Confidence, Plan};
use plimsoll::settings::Settings;
use plimsoll::source::{self, Roots};
use proptest::prelude::*;
use proptest::sample::select;
use rstest::rstest;

/// One published file beside its recipe.
struct Compared {
    repository: &'static str,
    recipe: &'static str,
    name: &'static str,
    /// Whether the recipe says every type.
    known: bool,
    /// Bytes of tensors by the recipe, against those published: in percent.
    error: f64,
    basis: Basis,
    /// Bytes of the model's tensors, and those published.
    bytes: (u64, u64),
}

/// The model that has the tensors of a repository, in no quantisation.
fn base(edition: &Edition) -> Option<Model> {
    catalogue::find(edition.header)?.model(FileType::F32).ok()
}

/// Every published file whose model is in the catalogue.
static COMPARED: LazyLock<Vec<Compared>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for edition in mixture::editions().iter().filter(|edition| edition.files().next().is_some()) {
        let Some(base) = base(edition) else { continue };
        for file in edition.files() {
            let to = file.quantisation().unwrap();
            let model = base.as_published(to, &file).unwrap();
            let made = edition.recipe.tensor_bytes(to, &base).unwrap();
            all.push(Compared {
                repository: edition.repository,
                recipe: edition.recipe.name,
                name: file.name,
                known: edition.recipe.knows(to),
                error: (made as f64 / file.tensor_bytes() as f64 - 1.0) * 100.0,
                basis: model.mixture.as_ref().unwrap().basis,
                bytes: (model.bytes.0, file.tensor_bytes()),
            });
        }
    }
    all
});

/// The same number, but for what headers of a repository differ by.
const EXACT: f64 = 0.001;

/// Repositories whose files are not exact by their recipe, and how far they are off, in percent.
const OFF: [(&str, f64); 20] = [
    // some attention tensors of these got more bits
    ("unsloth/Qwen3-Coder-Next-GGUF", 0.18),
    ("unsloth/Qwen3-Next-80B-A3B-Instruct-GGUF", 0.34),
    ("unsloth/granite-4.0-h-small-GGUF", 1.81),
    ("unsloth/Phi-4-mini-instruct-GGUF", 3.06),
    ("unsloth/Mistral-Large-3-675B-Instruct-2512-GGUF", 0.93),
    ("unsloth/r1-1776-GGUF", 0.05),
    ("unsloth/GLM-4.7-Flash-GGUF", 2.67),
    ("unsloth/GLM-4.5-Air-GGUF", 0.17),
    ("unsloth/ERNIE-4.5-21B-A3B-PT-GGUF", 0.66),
    // one file each
    ("unsloth/LFM2.5-1.2B-Instruct-GGUF", 0.31),
    ("unsloth/Llama-4-Maverick-17B-128E-Instruct-GGUF-UD", 0.47),
    ("unsloth/c4ai-command-a-03-2025-GGUF", 1.97),
    ("unsloth/gpt-oss-20b-GGUF", 0.26),
    ("unsloth/gpt-oss-120b-GGUF", 0.05),
    // their headers are those of a model with the same vocabulary
    ("unsloth/Kimi-K3-GGUF", 0.01),
    ("unsloth/DeepSeek-V4-Flash-0731-GGUF", 0.02),
    // which tensors the catalogue lacks is not known
    ("mradermacher/K-EXAONE-236B-A23B-GGUF", 0.24),
    ("ggml-org/Qwen3-Omni-30B-A3B-Instruct-GGUF", 0.004),
    // the embeddings per layer are by counts of one file
    ("unsloth/gemma-4-E2B-it-GGUF", 1.15),
    ("unsloth/gemma-4-E4B-it-GGUF", 1.74),
];

/// Where a few blocks have more bits, and which is not known.
const WITH_EXPERTS: [&str; 2] = ["unsloth-experts", "unsloth-experts-2026-03"];

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn recipes_give_the_published_sizes() {
    let mut exact: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for one in COMPARED.iter().filter(|one| one.known) {
        let count = exact.entry(one.recipe).or_default();
        *count = (count.0 + usize::from(one.error.abs() <= EXACT), count.1 + 1);
        if one.recipe.starts_with("unsloth-experts") {
            continue;
        }
        let off = OFF.into_iter().find(|(repository, _)| *repository == one.repository);
        let bar = off.map_or(EXACT, |(_, off)| off);
        if one.error.abs() > bar {
            wrong.push(format!("{} {}: {:+.4} %", one.repository, one.name, one.error));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // most are exact, by recipe: (exact, all)
    for (recipe, least) in [
        ("static", (36, 46)),
        ("importance", (20, 20)),
        ("bartowski", (18, 18)),
        ("unsloth", (198, 238)),
        ("unsloth-delta", (13, 13)),
        ("unsloth-delta-2026-03", (32, 32)),
        ("unsloth-gemma4", (18, 18)),
        ("mxfp4-experts", (23, 25)),
        ("q4_0-experts", (1, 1)),
        ("unsloth-experts", (22, 94)),
        ("unsloth-experts-2026-03", (36, 51)),
    ] {
        let found = exact[recipe];
        assert!(found.0 >= least.0 && found.1 >= least.1, "{recipe}: {found:?}, not {least:?}");
    }
}

#[test]
fn experts_are_within_a_percent_by_half_and_three_by_all() {
    let of = |one: &&Compared| one.known && WITH_EXPERTS.contains(&one.recipe);
    let errors: Vec<f64> = COMPARED.iter().filter(of).map(|one| one.error.abs()).collect();
    assert!(errors.len() >= 140, "{}", errors.len());
    let worst = errors.iter().copied().fold(0.0, f64::max);
    assert!(median(errors) <= 1.0 && worst <= 3.0, "{worst}");
}

/// To the byte where layers are scaled; where the recipe gives the size, but for the header.
#[test]
fn published_sizes_are_the_published_ones() {
    let mut bases = BTreeMap::new();
    for one in COMPARED.iter() {
        let (made, published) = one.bytes;
        match one.basis {
            Basis::Scaled => assert_eq!(made, published, "{} {}", one.repository, one.name),
            Basis::Published => assert!(made.abs_diff(published) <= published / 100_000, "{}", one.repository),
            other => panic!("{} {}: {other:?}", one.repository, one.name),
        }
        *bases.entry(format!("{:?}", one.basis)).or_insert(0) += 1;
    }
    assert!(COMPARED.len() >= 1000 && bases.len() == 2, "{bases:?}");
}

/// The figures that answers state.
#[test]
fn recipes_say_how_far_they_were_off() {
    let mut wrong = Vec::new();
    for recipe in RECIPES {
        let of = |one: &&Compared| one.known && one.recipe == recipe.name;
        let mut errors: Vec<f64> = COMPARED.iter().filter(of).map(|one| one.error.abs() * 1000.0).collect();
        errors.sort_by(f64::total_cmp);
        let half = errors.get(errors.len() / 2).map_or(0, |error| error.ceil() as u64);
        let all = errors.last().map_or(0, |error| error.ceil() as u64);
        let (files, stated) = (errors.len() as u64, recipe.error);
        // more models in the catalogue are more files
        let holds = files >= stated.files && half <= stated.half_within && all <= stated.all_within;
        if !holds || stated.all_within > all.max(1) {
            wrong.push(format!("{}: within({files}, {half}, {all})", recipe.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The table in `assets/README.md`.
pub fn table() -> String {
    let mut rows = vec!["| recipe | files | exact | half within | all within |".to_owned()];
    rows.push("| --- | ---: | ---: | ---: | ---: |".to_owned());
    for recipe in RECIPES {
        let of = |one: &&Compared| one.known && one.recipe == recipe.name;
        let mut errors: Vec<f64> = COMPARED.iter().filter(of).map(|one| one.error.abs()).collect();
        errors.sort_by(f64::total_cmp);
        let (Some(half), Some(all)) = (errors.get(errors.len() / 2), errors.last()) else { continue };
        let exact = errors.iter().filter(|error| **error <= EXACT).count();
        let percent = |error: f64| if error <= EXACT { "0.001 %".to_owned() } else { format!("{error:.2} %") };
        rows.push(format!("| {} | {} | {exact} | {} | {} |", recipe.name, errors.len(), percent(*half), percent(*all)));
    }
    rows.join("\n")
}

#[test]
fn ratios_are_those_of_the_published_files() {
    let mut seen: BTreeMap<(&str, RatioClass), Vec<f64>> = BTreeMap::new();
    let recipes = [
        "unsloth",
        "unsloth-delta",
        "unsloth-delta-2026-03",
        "unsloth-gemma4",
        "unsloth-experts",
        "unsloth-experts-2026-03",
    ];
    for edition in mixture::editions().iter().filter(|edition| recipes.contains(&edition.recipe.name)) {
        let Some(base) = base(edition) else { continue };
        let class = RatioClass::of(&base, Some(edition.recipe));
        for ratio in RATIOS.iter().filter(|ratio| ratio.class == class) {
            let Some(file) = edition.file(ratio.name) else { continue };
            let plain = edition.recipe.tensor_bytes(ratio.to.into(), &base).unwrap();
            seen.entry((ratio.name, class)).or_default().push(file.tensor_bytes() as f64 / plain as f64 * 1000.0);
        }
    }
    let mut wrong = Vec::new();
    for ratio in RATIOS {
        let mut values = seen.remove(&(ratio.name, ratio.class)).unwrap();
        values.sort_by(f64::total_cmp);
        let (least, most) = (values[0].round() as u64, values[values.len() - 1].round() as u64);
        let usual = values[values.len() / 2].round() as u64;
        let found = format!("[{least}, {usual}, {most}], {}", values.len());
        let holds = values.len() as u64 >= ratio.files && least <= ratio.least && most >= ratio.most;
        if !holds || usual.abs_diff(ratio.usual) > 20 {
            wrong.push(format!("{ratio:?}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_table_is_whole() {
    let recipes: BTreeSet<&str> = RECIPES.iter().map(|recipe| recipe.name).collect();
    assert_eq!(recipes.len(), RECIPES.len());
    let mut repositories = BTreeSet::new();
    for edition in mixture::editions() {
        let Edition { repository, day, .. } = edition;
        assert!(repositories.insert((*repository, *day, edition.header)), "{repository} of {day} twice");
        for PublishedFile { name, bytes, .. } in edition.files() {
            let to: Quantisation = name.parse().unwrap();
            assert_eq!(to.name(), name, "{repository}");
            assert!(bytes > 100_000_000, "{repository} {name}");
        }
        // without files it says what is trained in 4 bits, or which recipe a packager had
        assert!(edition.packager().is_some() || edition.files().next().is_none(), "{repository}");
    }
    let known = mixture::editions().iter().filter(|edition| catalogue::find(edition.header).is_some()).count();
    assert!(known >= 55, "{known}");
}

/// A table of n-grams has 4.5 bits in every quantised file, whatever the rest has.
#[test]
fn a_table_of_ngrams_is_narrow() {
    /// Bytes of Unsloth's UD-Q4_K_XL of all parts, as its page on Hugging Face says in November 2026.
    const PUBLISHED: f64 = 111.3e9;
    let entry = catalogue::find("qwen3.8-flash-next").unwrap();
    for to in ["UD-Q4_K_XL", "UD-Q2_K_XL", "unsloth:UD-Q5_K_M"] {
        let model = entry.model(to.parse::<Quantisation>().unwrap()).unwrap();
        let table = model.tensor("per_layer_token_embd.weight").unwrap();
        assert_eq!(table.ty, GgmlType::Q4_0, "{to}");
        if to == "UD-Q4_K_XL" {
            let error = model.bytes.0 as f64 / PUBLISHED - 1.0;
            assert!(error.abs() < 0.03, "{to}: {} bytes, {:+.1} %", model.bytes.0, error * 100.0);
        }
    }
}

fn open(reference: &str) -> source::Package {
    let opened = source::load(reference, &Roots::default(), &mut source::no_progress).unwrap();
    opened.package(&mut source::no_progress).unwrap()
}

#[rstest]
// without the MTP block that the catalogue's own entry has
#[case("catalogue:qwen3.6-27b@UD-Q4_K_XL", 17_612_564_704 - 10_993_824, "UD-Q4_K_XL", 64)]
#[case("catalogue:qwen3.6-27b@ud-q4-k-xl", 17_612_564_704 - 10_993_824, "UD-Q4_K_XL", 64)]
#[case("catalogue:Qwen3.6-27B@unsloth:q4_k_m", 16_817_244_384 - 10_993_824, "Q4_K_M", 64)]
#[case("catalogue:qwen3.6-35b-a3b@unsloth:UD-Q4_K_M", 22_134_528_992 - 10_990_304, "UD-Q4_K_M", 40)]
#[case("catalogue:qwen3.5-35b-a3b@UD-Q4_K_XL", 22_241_950_336 - 10_989_952, "UD-Q4_K_XL", 40)]
#[case("catalogue:hy3@bartowski:Q4_K_L", 0, "Q4_K_L", 81)]
// no file of MLX, though MLX has a mode of this name
#[case("catalogue:gpt-oss-20b@ggml-org:MXFP4", 12_109_566_624 - 13_008_288, "MXFP4", 24)]
// no importance matrix decides what these are
#[case("catalogue:hy3@bartowski:Q8_0", 0, "Q8_0", 81)]
fn references_name_published_files(
    #[case] reference: &str,
    #[case] bytes: u64,
    #[case] name: &str,
    #[case] blocks: usize,
) {
    let package = open(reference);
    let model = &package.model;
    assert_eq!(model.file_type, Some(name));
    if bytes > 0 {
        assert!(model.bytes.0.abs_diff(bytes) <= bytes / 100_000, "{} {bytes}", model.bytes.0);
        assert_eq!(model.block_count(), blocks);
    }
    // so does the same name as an option
    let (entry, quant) = reference.split_once('@').unwrap();
    assert_eq!(open(entry).quantised(quant.parse::<Quantisation>().unwrap()).unwrap().model.bytes, model.bytes);
    // the lasting reference opens the same
    assert_eq!(open(package.reference.as_deref().unwrap()).model.bytes, model.bytes);
}

#[rstest]
#[case("catalogue:qwen3-8b@tom:Q4_K_M", "the files of 'tom' are not known: known packagers are unsloth, bartowski")]
#[case("catalogue:qwen3-8b@UD-Q8_K_L", "which tensor has which type in UD-Q8_K_L of this model is not known")]
#[case("catalogue:qwen3-8b@UD-Q4_K_Z", "'UD-Q4_K_Z' is not a llama.cpp quantisation")]
fn unknown_files_are_refused(#[case] reference: &str, #[case] sentence: &str) {
    let refused = source::load(reference, &Roots::default(), &mut source::no_progress).unwrap_err().to_string();
    assert!(refused.contains(sentence), "{refused}");
}

fn plan(reference: &str) -> Plan {
    let package = open(reference);
    engine::plan(EngineId::LlamaCpp, &package.model, &crate::fixtures::cards(&[24]), &Settings::default()).unwrap()
}

#[rstest]
#[case(
    "catalogue:qwen3.6-27b@UD-Q4_K_XL",
    "of unsloth/Qwen3.6-27B-GGUF, as of 2026-08-22: the size is the published one"
)]
#[case(
    "catalogue:qwen2.5-32b@UD-Q4_K_XL",
    "no file UD-Q4_K_XL of this model is known, and no recipe: it is taken to be 1.02 times"
)]
#[case(
    "catalogue:ling-3.0-flash@UD-Q4_K_XL",
    "no file UD-Q4_K_XL of this model is known: the types are those of Unsloth's"
)]
// older than the recipe for experts
#[case(
    "catalogue:qwen3-30b-a3b@UD-Q4_K_XL",
    "no file UD-Q4_K_XL of this model is known, and no recipe: it is taken to be 0.9"
)]
fn what_is_not_exact_is_modelled_and_says_by_how_much(#[case] reference: &str, #[case] reason: &str) {
    let plan = plan(reference);
    assert_eq!(plan.confidence, Confidence::Modelled);
    assert!(plan.uncertainties.iter().any(|one| one.reason.contains(reason)), "{:?}", plan.uncertainties);
    assert!(plan.notes.iter().any(|note| note.contains(reason)), "{:?}", plan.notes);
}

#[rstest]
#[case("catalogue:qwen3.5-9b@unsloth:Q4_K_M", 5_680_522_464 - 10_968_032)]
#[case("catalogue:gpt-oss-20b@q4_k_m", 11_624_759_488 - 13_008_832)]
#[case("catalogue:gpt-oss-20b@unsloth:q4_k_m", 11_624_759_488 - 13_008_832)]
#[case("catalogue:gpt-oss-120b@F16", 65_369_017_728 - 13_023_360)]
fn a_published_size_by_its_recipe_is_exact(#[case] reference: &str, #[case] bytes: u64) {
    let plan = plan(reference);
    assert_eq!(plan.confidence, Confidence::Exact, "{:?}", plan.uncertainties);
    assert!(plan.model.bytes.0.abs_diff(bytes) <= bytes / 100_000, "{}", plan.model.bytes.0);
    assert!(plan.notes.iter().any(|note| note.contains("gives its size")), "{:?}", plan.notes);
}

/// Whoever makes the file, and under whatever name.
#[test]
fn experts_trained_in_four_bits_stay() {
    for (name, ty, narrow) in [("gpt-oss-20b", GgmlType::Mxfp4, true), ("kimi-k2.5", GgmlType::Q4_0, false)] {
        let entry = catalogue::find(name).unwrap();
        for to in ["Q4_K_M", "Q8_0", "unsloth:Q5_K_M", "bartowski:Q6_K", "UD-Q8_K_XL", "Q2_K"] {
            let model = entry.model(to.parse::<Quantisation>().unwrap()).unwrap();
            let stay = model
                .header
                .tensors
                .iter()
                .filter(|tensor| tensor.name.ends_with("_exps.weight"))
                .all(|it| it.ty == ty);
            assert_eq!(stay, narrow || to != "Q2_K", "{name} {to}");
        }
        let opened = PreparedModel::from(entry.model(entry.quantisation).unwrap());
        assert_eq!(
            opened.requantised(FileType::Q4KM).unwrap().bytes,
            entry.model(FileType::Q4KM).unwrap().bytes,
            "{name}"
        );
    }
}

/// A file's name with `UD` never means the plain type.
#[test]
fn names_of_packagers_are_no_file_types() {
    for name in Quantisation::own_names() {
        for text in [name.to_owned(), name.to_lowercase(), name.replace('_', "-"), name.replace('-', "_")] {
            assert!(text.parse::<FileType>().is_err(), "{text}");
            let read: Quantisation = text.parse().unwrap();
            assert_eq!((read.name(), read.file_type()), (name, None), "{text}");
            let named = format!("hf://unsloth/Qwen3-8B-GGUF/Qwen3-8B-{text}.gguf");
            let said = catalogue::described_by(&named).and_then(|(_, found)| found).map(Quantisation::name);
            assert!(said.is_none_or(|said| said == name), "{named}: {said:?}");
            let in_file = Quantisation::own_name_in(&format!("Qwen3-8B-{text}-00001-of-00002.gguf"));
            assert_eq!(in_file.map(Quantisation::name), Some(name), "{text}");
        }
    }
}

proptest! {
    /// Under a packager's name there is what is known of it, with a word on it, or nothing: never the plain type alone.
    #[test]
    fn no_packagers_name_is_the_plain_type(
        entry in select(catalogue::all().iter().collect::<Vec<_>>()),
        name in select(Quantisation::own_names().collect::<Vec<_>>()),
    ) {
        let to: Quantisation = name.parse().unwrap();
        if let Ok(model) = entry.model(to) {
            let known = model.mixture.unwrap();
            prop_assert_eq!(known.quantisation, to);
            prop_assert_eq!(model.file_type, Some(name));
            prop_assert!(known.basis == Basis::Published || known.uncertainty().is_some_and(|why| !why.is_empty()));
        }
    }
}

#[test]
fn headers_are_about_as_large_as_their_vocabularies_say() {
    let known = |edition: &&Edition| edition.before_tensors.1;
    let per_token = |edition: &Edition| {
        let tokens = catalogue::model(edition.header)?.hyper.vocabulary?;
        Some(edition.before_tensors.0 / tokens)
    };
    let mut all: Vec<u64> = mixture::editions().iter().filter(known).filter_map(per_token).collect();
    all.sort_unstable();
    let median = all[all.len() / 2];
    assert!(all.len() > 50 && median.abs_diff(mixture::BYTES_PER_TOKEN) <= 5, "{median} of {}", all.len());
    let near = all.iter().filter(|bytes| (mixture::BYTES_PER_TOKEN / 2..mixture::BYTES_PER_TOKEN * 2).contains(bytes));
    assert!(near.count() * 10 > all.len() * 9, "{all:?}");
}
