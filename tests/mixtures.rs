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
            if one.error.abs() > 0.001 && std::env::var("ONLY").is_ok_and(|only| one.file.edition.repository.contains(&only)) {
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

/// Ratios of files without a recipe: name, whether of experts, the published size by that of a plain type.
#[test]
#[ignore = "prints"]
fn print_ratios() {
    let plain = ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_M", "Q2_K", "IQ3_XXS", "Q3_K_S", "Q3_K_M", "Q4_K_S", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0"];
    let mut by: BTreeMap<(bool, &str), BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for edition in mixture::editions() {
        let experts = match edition.recipe.name {
            "unsloth" | "unsloth-delta" | "unsloth-delta-2026-03" | "unsloth-gemma4" => false,
            "unsloth-experts" | "unsloth-experts-2026-03" => true,
            _ => continue,
        };
        let Some(model) = base(edition) else { continue };
        if model.hyper.experts.is_some() != experts { continue; }
        let plain: Vec<(&str, u64)> = plain.iter().map(|name| (*name, edition.recipe.tensor_bytes(name.parse().unwrap(), &model).unwrap())).collect();
        for (name, _) in &edition.sizes {
            let file = edition.file(name).unwrap();
            if edition.recipe.knows(file.quantisation().unwrap()) { continue; }
            for (to, bytes) in &plain {
                by.entry((experts, name)).or_default().entry(to).or_default().push(file.tensor_bytes() as f64 / *bytes as f64);
            }
        }
    }
    for ((experts, name), to) in by {
        let mut best: Option<(f64, &str, Vec<f64>)> = None;
        for (to, mut ratios) in to {
            ratios.sort_by(f64::total_cmp);
            let median = ratios[ratios.len() / 2];
            let spread = ratios.iter().map(|ratio| (ratio / median - 1.0).abs()).sum::<f64>() / ratios.len() as f64;
            if ratios.len() > 3 && median.ln().abs() < 0.25 && best.as_ref().is_none_or(|best| spread < best.0) { best = Some((spread, to, ratios)); }
        }
        let Some((spread, to, ratios)) = best else { continue };
        println!("RATIO {name} {experts} {to} {:.3} {:.3} {:.3} {} {:.4}", ratios[ratios.len()/2], ratios[0], ratios[ratios.len()-1], ratios.len(), spread);
    }
}
