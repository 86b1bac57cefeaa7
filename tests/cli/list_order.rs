//! The order of `plimsoll list`, what it keeps, and what it says to type.

use plimsoll::catalogue::{self, Use};
use plimsoll::gguf::FileType;
use plimsoll::model::mixture;
use serde_json::Value;

use super::{Sandbox, json};

const MACHINE: [&str; 4] = ["--gpu", "RTX 3090", "--ram", "64GiB"];

fn listed(more: &[&str]) -> Vec<Value> {
    let sandbox = Sandbox::new();
    let list = json(sandbox.plimsoll().args(["list", "--raw-settings", "qwen"]).args(MACHINE).args(more));
    list["models"].as_array().unwrap().clone()
}

fn speed(model: &Value) -> f64 {
    model["speed"]["tokens_per_second"].as_f64().unwrap_or(0.0)
}

#[test]
fn what_runs_well_comes_first_and_every_row_has_the_same_keys() {
    let models = listed(&[]);
    let runs = |model: &Value| {
        let is_loaded = !["disk", "does-not-fit"].contains(&model["outcome"].as_str().unwrap());
        is_loaded && speed(model) >= 10.0
    };
    let first_slow = models.iter().position(|model| !runs(model) && speed(model) > 0.0).unwrap();
    let writes = |model: &&Value| model["speed"].is_object();
    assert!(models[first_slow..].iter().filter(writes).all(|model| !runs(model)), "after the first slow one all are");
    let newest = models.iter().take(5).map(|model| model["released"].as_str().unwrap());
    assert!(newest.clone().all(|released| released >= "2025-06"), "{:?}", newest.collect::<Vec<_>>());
    let keys = |model: &Value| model.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert!(models.iter().all(|model| keys(model) == keys(&models[0])));
}

#[test]
fn rows_are_sorted_limited_and_kept_by_use_and_speed() {
    let sizes: Vec<u64> =
        listed(&["--sort", "size", "--limit", "7"]).iter().map(|model| model["bytes"].as_u64().unwrap()).collect();
    assert!(sizes.len() == 7 && sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    let names = |models: &[Value]| models.iter().map(|model| model["name"].as_str().unwrap().to_owned()).collect();
    let coders: Vec<String> = names(&listed(&["coding"]));
    assert!(!coders.is_empty());
    for name in &coders {
        assert!(catalogue::find(name).unwrap().uses.contains(&Use::Code), "{name}");
    }
    let embedding: Vec<String> = names(&listed(&["embed"]));
    let known = catalogue::all().iter().filter(|entry| entry.uses.contains(&Use::Embedding));
    assert_eq!(embedding.len(), known.filter(|entry| entry.name.contains("qwen")).count());
    assert!(listed(&["--min-tps", "60"]).iter().all(|model| speed(model) >= 60.0));
}

/// Whatever is said to be typed gets a file of the model in the quantisation that is planned.
#[test]
fn what_to_type_leads_to_the_file_that_is_planned() {
    let models = listed(&[]);
    let mut found = 0;
    for model in &models {
        let entry = catalogue::find(model["name"].as_str().unwrap()).unwrap();
        let quantisation = model["file_type"].as_str().unwrap();
        let Some(pull) = model["pull"].as_str() else { continue };
        found += 1;
        if let Some(tag) = pull.strip_prefix("ollama pull ") {
            assert!(entry.tags.iter().any(|own| own == tag), "{pull}");
            assert_eq!(quantisation.parse::<FileType>(), Ok(entry.quantisation), "{pull}");
        } else {
            let file = pull.strip_prefix("llama-server -hf ").unwrap();
            let (repository, name) = file.split_once(':').unwrap();
            assert_eq!(name, quantisation, "{pull}");
            let edition = mixture::editions().iter().find(|edition| edition.repository == repository).unwrap();
            assert!(edition.header == entry.name && edition.file(name).is_some(), "{pull}");
        }
    }
    // of types that nobody is known to publish nothing is said
    assert!(found >= 10, "{found} of {}", models.len());
}

/// What can be had stands before what is to be made, and every row says from where.
#[test]
fn what_is_to_be_made_stands_below_and_says_so() {
    let models = listed(&[]);
    let text = [Use::Chat, Use::Code, Use::Reasoning, Use::Vision];
    let mut of_what_runs = Vec::new();
    for model in &models {
        let entry = catalogue::find(model["name"].as_str().unwrap()).unwrap();
        let to_be_made = model["to_be_made"].as_bool().unwrap();
        assert_eq!((model["place"].is_null(), model["pull"].is_null()), (to_be_made, to_be_made), "{model}");
        match (model["place"]["tag"].as_str(), model["place"]["repository"].as_str(), &model["pull"]) {
            (Some(tag), None, pull) => assert_eq!(*pull, format!("ollama pull {tag}")),
            (None, Some(repository), pull) => {
                let file = model["place"]["file"].as_str().unwrap();
                assert_eq!(*pull, format!("llama-server -hf {repository}:{file}"));
            }
            (tag, repository, _) => assert!(to_be_made && tag.is_none() && repository.is_none(), "{model}"),
        }
        let runs = speed(model) >= 10.0 && !["from-disk", "does-not-fit"].contains(&model["outcome"].as_str().unwrap());
        if runs && entry.uses.iter().any(|use_| text.contains(use_)) {
            of_what_runs.push(to_be_made);
        }
    }
    assert!(of_what_runs.is_sorted() && of_what_runs.contains(&false), "{of_what_runs:?}");
}

#[test]
fn comma_separated_values_have_a_line_for_each_model() {
    let sandbox = Sandbox::new();
    let output = sandbox.plimsoll().args(["list", "llama3", "--csv"]).args(MACHINE).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (head, rows) = text.split_once('\n').unwrap();
    assert!(head.starts_with("name,reference,source,released,"), "{head}");
    assert!(rows.lines().count() > 3 && rows.lines().all(|row| row.matches(',').count() >= head.matches(',').count()));
}
