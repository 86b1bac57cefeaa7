//! Files as published: recipes against the sizes of files on Hugging Face (`assets/mixtures.tsv`).

use std::collections::BTreeMap;

use plimsoll::gguf::FileType;
use plimsoll::model::Model;
use plimsoll::model::mixture::{self, Basis, Edition, PublishedFile, Quantisation};
use plimsoll::source::catalogue;

/// One published file beside its recipe.
struct Compared {
    file: PublishedFile,
    to: Quantisation,
    /// Whether the recipe says every type.
    known: bool,
    /// Of the file, in percent, without scaling; of files without a recipe that of the nearest type.
    error: f64,
    model: Model,
}

fn base(edition: &Edition) -> Option<Model> {
    catalogue::find(edition.header)?.model(FileType::F32).ok()
}

/// Every published file whose model is in the catalogue.
fn compared() -> Vec<Compared> {
    let mut all = Vec::new();
    for edition in mixture::editions().iter().filter(|edition| !edition.sizes.is_empty()) {
        let Some(entry) = catalogue::find(edition.header) else { continue };
        for (name, _) in &edition.sizes {
            let file = edition.file(name).unwrap();
            let to = file.quantisation().unwrap();
            let model = entry.published(to, &file).unwrap();
            let made = edition.recipe.tensor_bytes(to, &base(edition).unwrap()).unwrap();
            let published = file.tensor_bytes();
            let error = (made as f64 / published as f64 - 1.0) * 100.0;
            all.push(Compared { file, to, known: edition.recipe.knows(to), error, model });
        }
    }
    all
}

#[test]
#[ignore = "prints"]
fn print() {
    let mut by: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for one in compared() {
        if one.known {
            by.entry(one.file.edition.recipe.name).or_default().push(one.error);
            if one.error.abs() > 0.001 {
                println!("{} {} {} {:.4}", one.file.edition.recipe.name, one.file.edition.repository, one.file.name, one.error);
            }
        }
    }
    for (name, mut errors) in by {
        errors.iter_mut().for_each(|error| *error = error.abs());
        errors.sort_by(f64::total_cmp);
        let exact = errors.iter().filter(|error| **error <= 0.001).count();
        println!("{name}: {exact} of {} exact, median {:.4}, worst {:.4}", errors.len(), errors[errors.len() / 2], errors.last().unwrap());
    }
}
