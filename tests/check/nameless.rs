//! Logs without the name of their model: it is found by its figures, or said to be unknown.

use std::fmt::Write;

use plimsoll::catalogue::{self, CatalogueEntry};
use plimsoll::library::check;
use plimsoll::observed::{Load, Observation};
use plimsoll::source::Roots;

use rstest::rstest;

use super::samples::{self, MODELS};
use super::unseen::LOGS;
use crate::observed::samples::samples;

/// Every log whose model is one of the catalogue, with its name there.
fn logs() -> impl Iterator<Item = (String, String, Load)> {
    let unseen = LOGS.iter().filter_map(|(id, (log, seen, _))| {
        Some((id.clone(), log["planned"].as_str()?.to_owned(), seen.load()?.clone()))
    });
    let known = samples().into_iter().filter_map(|sample| {
        let id = sample["id"].as_str()?.to_owned();
        let (_, reference, _) = MODELS.iter().find(|(known, ..)| *known == id)?;
        Some((id, (*reference).to_owned(), Observation::of(&samples::text(&sample)).load()?.clone()))
    });
    unseen.chain(known)
}

/// The log without what names its model.
fn without_name(mut load: Load) -> Load {
    load.asked = None;
    if let Some(command) = &mut load.command {
        command.model = None;
    }
    for model in &mut load.models {
        (model.name, model.path) = (None, None);
        (model.architecture, model.parameters, model.size_label) = (None, None, None);
    }
    load
}

#[test]
fn a_model_is_found_by_its_figures_or_not_at_all() {
    let told =
        |load: &Load| load.models.first().is_some_and(|model| model.offloaded.is_some() || model.blocks.is_some());
    let (mut found, mut all, mut wrong) = (0, 0, String::new());
    for (id, reference, load) in logs().filter(|(.., load)| told(load)) {
        let name = reference.trim_start_matches("catalogue:").split('@').next().unwrap();
        let Some(entry) = catalogue::find(name) else { continue };
        all += 1;
        let Ok(model) = check::find(&without_name(load), &Roots::default()) else { continue };
        found += 1;
        // models of one shape cannot be told apart
        let other = catalogue::find(model.package.model.entry.as_deref().unwrap()).unwrap();
        let shape =
            |entry: &CatalogueEntry| ["embedding_length", "attention.head_count_kv"].map(|key| entry.value(key));
        if shape(&entry) != shape(&other) || entry.blocks().abs_diff(other.blocks()) > 1 {
            let _ = writeln!(wrong, "{id} {reference}: {}", model.how);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(found * 2 >= all, "{found} of {all}");
}

/// Lines of a thread about Hy-MT2 1.8B that name no model, with their cache.
#[rstest]
#[case("128.00", Some("Hy-MT2 1.8B"))]
#[case("131.00", None)]
fn an_excerpt_without_a_name_is_that_of_its_figures(#[case] cache: &str, #[case] title: Option<&str>) {
    let log = format!(
        "load_tensors: offloaded 33/33 layers to GPU\n\
         load_tensors:      Vulkan0 model buffer size =  1075.74 MiB\n\
         load_tensors:  Vulkan_Host model buffer size =   193.57 MiB\n\
         llama_kv_cache:    Vulkan0 KV buffer size =   {cache} MiB\n\
         sched_reserve:    Vulkan0 compute buffer size =   243.97 MiB\n"
    );
    let found = check::find(Observation::of(&log).load().unwrap(), &Roots::default()).map(|found| found.how);
    match title {
        Some(title) => assert!(found.as_ref().is_ok_and(|how| how.contains(title)), "{found:?}"),
        None => assert!(found.as_ref().is_err_and(|why| why.contains("has its figures")), "{found:?}"),
    }
}

#[test]
fn a_name_is_not_enough() {
    let log = |more: &str| {
        format!(
            "llama_model_loader: loaded meta data with 28 key-value pairs and 399 tensors from \
        /m/Qwen3-8B-Q4_K_M.gguf (version GGUF V3 (latest))\nprint_info: arch = qwen3\n{more}load_tensors: CUDA0 model \
        buffer size = 4455.00 MiB\n"
        )
    };
    let find = |more: &str| check::find(Observation::of(&log(more)).load().unwrap(), &Roots::default());
    assert!(find("print_info: n_vocab = 151936\n").unwrap().how.starts_with("by its name"));
    for (more, says) in [
        ("print_info: n_vocab = 32000\n", "vocab_size"),
        ("print_info: n_layer = 28\n", "blocks"),
        ("print_info: n_embd = 2048\n", "embedding_length"),
        ("print_info: model params = 1.72 B\n", "parameters"),
    ] {
        let why = find(more).map(|found| found.how).unwrap_err();
        assert!(why.contains("Qwen3 8B") && why.contains(says), "{why}");
    }
}
