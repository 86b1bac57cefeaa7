//! The projectors of the catalogue are the published ones, and fit their models.

use std::sync::Arc;

use plimsoll::engine::llama_cpp::projector::{Encoder, LoadedProjector};
use plimsoll::gguf::{Header, Value};
use plimsoll::model::{Modalities, Projector};
use plimsoll::settings::Release;
use plimsoll::source::catalogue::{self, CatalogueEntry};
use plimsoll::source::{self, SourceError};

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
fn every_projector_is_a_published_one() {
    let names = support::names_in(&["projectors/models"]);
    let published: Vec<Header> =
        names.iter().map(|name| description::header(&support::projector_json(name)).unwrap()).collect();
    assert_eq!(with_projectors().count(), 14);
    for (entry, projector) in with_projectors() {
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
    // its header is not among the published ones
    assert_eq!(reads("gemma3-12b"), None);
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
