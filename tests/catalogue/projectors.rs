//! The projectors of the catalogue are the published ones, and fit their models.

use std::sync::Arc;

use plimsoll::catalogue::{self, CatalogueEntry};
use plimsoll::engine::llama_cpp::Architecture;
use plimsoll::engine::llama_cpp::projector::kind::ProjectorType;
use plimsoll::engine::llama_cpp::projector::{self, Encoder, LoadedProjector};
use plimsoll::engine::{self, EngineId};
use plimsoll::gguf::{Header, Value};
use plimsoll::model::{Modalities, Projector};
use plimsoll::settings::{Context, Release, Settings};
use plimsoll::source::{self, SourceError};

use rstest::rstest;

use super::entry;
use crate::support::{self, description};

fn with_projectors() -> impl Iterator<Item = (&'static CatalogueEntry, &'static Arc<Projector>)> {
    catalogue::all().iter().filter_map(|entry| Some((entry, entry.projector()?)))
}

fn title(header: &Header) -> Option<&str> {
    header.metadata.get("general.name").and_then(Value::as_str)
}

/// Whether both values are the same; of whole numbers the width may differ.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => one.elements == other.elements,
        _ => one == other || (one.as_u64().is_some() && one.as_u64() == other.as_u64()),
    }
}

#[test]
fn every_projector_is_of_a_type_that_its_model_takes() {
    for (entry, projector) in with_projectors() {
        let kinds = projector::types(projector.header.as_ref().unwrap());
        assert!(!kinds.is_empty(), "{}", entry.name);
        for kind in kinds {
            assert!(kind.is_of(&entry.architecture), "{}: {} for {}", entry.name, kind.name(), entry.architecture);
        }
    }
}

/// The types are listed by the names of architectures in headers.
#[test]
fn every_type_of_projector_is_of_architectures_that_are_known() {
    for kind in ProjectorType::ALL {
        for name in kind.models() {
            let is_known = Architecture::named(name).is_some() || ["pockettts", "qwen3tts"].contains(name);
            assert!(is_known, "{}: {name}", kind.name());
        }
    }
}

#[test]
fn every_projector_is_a_published_one() {
    let names = support::names_in(&["projectors/models"]);
    let published: Vec<Header> =
        names.iter().map(|name| description::header(&support::projector_json(name)).unwrap()).collect();
    let of_published = || with_projectors().filter(|(entry, _)| entry.projector_is_published());
    assert_eq!(of_published().count(), 14);
    for (entry, projector) in of_published() {
        let header = projector.header.as_ref().unwrap();
        let same_name = |other: &&Header| title(other) == title(header);
        let other = published.iter().find(same_name).unwrap_or_else(|| panic!("{}: not published", entry.name));
        assert!(header.tensors.iter().eq(other.tensors.iter()), "{}: its tensors differ", entry.name);
        for (key, value) in other.metadata.iter().filter(|(key, _)| *key != "tokenizer.ggml.tokens") {
            let own = header.metadata.get(key);
            assert!(own.is_some_and(|own| same(own, value)), "{}: {key} is {own:?}, not {value:?}", entry.name);
        }
    }
}

/// As llama-server checks it: the projector's tokens are as wide as the model's embeddings.
#[test]
fn every_projector_fits_its_model() {
    for (entry, projector) in with_projectors() {
        let loaded = LoadedProjector::new(projector.header.as_ref().unwrap()).unwrap();
        let model = plimsoll::engine::PreparedModel::from(entry.model(entry.quantisation).unwrap());
        let reads = model.llama_cpp(Release::default()).unwrap().hparams.n_embd_inp();
        let widths: Vec<_> = loaded.encoders.iter().map(Encoder::n_embd_out).collect();
        assert!(widths.iter().all(|width| *width == reads), "{}: {widths:?}, not {reads}", entry.name);
    }
}

#[test]
fn a_projector_says_what_it_reads() {
    let reads = |name: &str| entry(name).projector().map(|projector| projector.modalities());
    assert_eq!(reads("gemma3-4b"), Some(Modalities { vision: true, audio: false }));
    assert_eq!(reads("gemma4-e2b"), Some(Modalities { vision: true, audio: true }));
    assert_eq!(reads("gemma3-12b"), Some(Modalities { vision: true, audio: false }));
    // nothing of its header is known
    assert_eq!(reads("mistral-medium-3.5-128b"), None);
}

#[test]
fn a_projector_of_the_catalogue_is_opened_by_name() {
    let open = |name: &str| source::projector(name.as_ref(), &mut source::no_progress);
    assert_eq!(open("catalogue:gemma3-4b").unwrap(), *entry("gemma3-4b").projector().unwrap());
    for none in ["catalogue:llama3.1-8b", "catalogue:nothing"] {
        let error = open(none).unwrap_err();
        assert!(matches!(&error, SourceError::NoProjector { known, .. } if known.contains("gemma3-4b")), "{error}");
    }
}

/// Files whose headers were made from facts, against the sizes that Hugging Face listed in August 2026: MiB to one digit,
/// which include the file's header.
#[rstest]
#[case("qwen3.5-0.8b", 197.7)]
#[case("qwen3.5-2b", 640.3)]
#[case("qwen3.5-4b-mtp", 644.3)]
#[case("qwen3.5-27b", 888.0)]
#[case("qwen3.5-35b-a3b-mtp", 861.0)]
#[case("qwen3.5-122b-a10b", 870.0)]
#[case("qwen3.5-397b-a17b-mtp", 875.6)]
#[case("qwen3.5-9b-mtp", 875.6)]
#[case("qwen3.6-27b", 888.0)]
#[case("qwen3.6-35b-a3b-nomtp", 861.0)]
#[case("qwen3.8-27b", 888.0)]
fn a_projector_made_from_facts_has_the_published_size(#[case] name: &str, #[case] mib: f64) {
    let bytes = entry(name).projector().unwrap().tensor_bytes.0 as f64;
    let apart = mib - bytes / 1_048_576.0;
    assert!((-0.05..0.15).contains(&apart), "{name}: {apart} MiB");
}

#[test]
fn a_model_that_reads_more_than_text_has_a_projector_or_says_that_it_lacks_one() {
    let mut lacking = 0;
    for entry in catalogue::all() {
        match (entry.projector(), entry.missing_projector()) {
            (Some(projector), None) => assert_eq!(projector.modalities(), entry.reads(), "{}", entry.name),
            (None, Some(missing)) => {
                assert_eq!(missing.reads, entry.reads());
                lacking += 1;
            }
            (None, None) => assert_eq!(entry.reads(), Modalities::default(), "{}", entry.name),
            (Some(_), Some(_)) => panic!("{}", entry.name),
        }
    }
    assert!(lacking <= 13, "{lacking}");
}

/// The size is its own where that was published, that of the nearest relative otherwise, and left out where there is none.
#[rstest]
#[case("mistral-medium-3.5-128b", Some("; it adds about 5.0 GiB"))]
#[case("kimi-k3", Some("; it adds about 910 MiB"))]
#[case("muse-glimmer-30b", None)]
fn a_missing_projector_is_a_note_until_it_is_given(#[case] name: &str, #[case] adds: Option<&str>) {
    let model = plimsoll::engine::PreparedModel::from(entry(name).model(entry(name).quantisation).unwrap());
    let other = entry("gemma3-4b").projector().unwrap();
    for engine in EngineId::ALL {
        let mut settings = Settings { ctx: Context::Tokens(2048), ..Settings::default() };
        let machine = crate::fixtures::cards(&[]);
        let Ok(plan) = engine::plan(engine, &model, &machine, &settings) else { continue };
        let note = plan.notes.iter().find(|note| note.starts_with("text only")).unwrap();
        assert_eq!(note.contains("it adds about"), adds.is_some(), "{note}");
        assert!(adds.is_none_or(|adds| note.contains(adds)), "{note}");
        settings.projector = Some(Arc::clone(other));
        if let Ok(plan) = engine::plan(engine, &model, &machine, &settings) {
            assert!(!plan.notes.iter().any(|note| note.starts_with("text only")), "{:?}", plan.notes);
        }
    }
}
