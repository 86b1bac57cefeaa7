//! `plimsoll list`: the catalogue and local models, and how each would fit.

use std::collections::BTreeSet;
use std::fs;

use plimsoll::catalogue;
use plimsoll::model::Modalities;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

use super::{Sandbox, json};

const MACHINE: [&str; 4] = ["--gpu", "24GiB", "--ram", "64GiB"];

fn models(sandbox: &Sandbox, more: &[&str]) -> Vec<Value> {
    let list = json(sandbox.plimsoll().args(["list", "--raw-settings"]).args(more));
    assert_eq!((&list["plimsoll"], list["engine"].is_string()), (&env!("CARGO_PKG_VERSION").into(), true));
    list["models"].as_array().unwrap().clone()
}

fn named<'m>(models: &'m [Value], name: &str) -> &'m Value {
    models.iter().find(|model| model["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn every_catalogue_model_has_a_verdict() {
    let sandbox = Sandbox::new();
    let models = models(&sandbox, &MACHINE);
    assert_eq!(models.len(), catalogue::all().len());
    for model in &models {
        assert_eq!((&model["source"], &model["error"]), (&"catalogue".into(), &Value::Null), "{model}");
        let number = |key: &str| model[key].as_u64();
        assert!(number("parameters") > Some(10_000_000) && number("bytes") > Some(10_000_000), "{model}");
        assert!(number("context_train").is_some() && model["title"].is_string() && model["architecture"].is_string());
        let share = model["on_gpu"].as_f64().unwrap();
        let in_vram = number("context_in_vram");
        match model["verdict"].as_str().unwrap() {
            // llama.cpp keeps the token embeddings in RAM even with all layers on GPU
            "gpu" => assert!(share > 0.0 && (in_vram.is_some() || model["outcome"] != "vram"), "{model}"),
            "split" => assert!(share > 0.0 && share < 1.0, "{model}"),
            verdict => assert!(["cpu", "does-not-fit"].contains(&verdict), "{model}"),
        }
        assert!(in_vram <= number("context_train").max(Some(4096)), "{model}");
    }
    assert_eq!(named(&models, "qwen3-0.6b")["verdict"], "gpu");
    assert_eq!(named(&models, "deepseek-v3-0324")["verdict"], "does-not-fit");
}

#[test]
fn rows_match_the_plans() {
    let sandbox = Sandbox::new();
    let models = models(&sandbox, &[&MACHINE[..], &["--ctx", "8192"]].concat());
    let part = |name: &str| named(&models, name)["parts_in_ram"].as_u64();
    assert!(part("gpt-oss-120b") > Some(10 << 30) && part("llama3.1-8b") == Some(0));
    for name in ["llama3.1-8b", "qwen3-32b", "gpt-oss-20b", "gpt-oss-120b"] {
        let row = named(&models, name);
        let mut command = sandbox.plimsoll();
        let plan = json(
            command.args(["plan", row["reference"].as_str().unwrap(), "--raw-settings", "--ctx", "8192"]).args(MACHINE),
        );
        assert_eq!((&row["verdict"], &row["bytes"]), (&plan["verdict"], &plan["model"]["bytes"]), "{name}");
        assert_eq!((&row["file_type"], &row["parts_in_ram"]), (&plan["model"]["file_type"], &plan["parts_in_ram"]));
        let share = plan["totals"]["gpu"].as_f64().unwrap() / plan["totals"]["all"].as_f64().unwrap();
        assert!((row["on_gpu"].as_f64().unwrap() - share).abs() < 1e-9, "{name}");

        // all is in VRAM at the largest context and not at one token more
        let Some(most) = row["context_in_vram"].as_u64() else { continue };
        let outcome = |tokens: u64| {
            let mut command = sandbox.plimsoll();
            let args = ["plan", row["reference"].as_str().unwrap(), "--raw-settings", "--ctx", &tokens.to_string()];
            json(command.args(args).args(MACHINE))["outcome"].clone()
        };
        assert_eq!(outcome(most), "vram", "{name}");
        assert!(row["context_train"] == most || outcome(most + 1) != "vram", "{name}");
    }
}

#[test]
fn the_list_filters_by_fit_and_takes_a_quantisation() {
    let sandbox = Sandbox::new();
    let all = models(&sandbox, &MACHINE);
    let fitting = models(&sandbox, &[&MACHINE[..], &["--fits"]].concat());
    let expected: Vec<_> = all.iter().filter(|model| model["verdict"] != "does-not-fit").collect();
    assert!(fitting.len() < all.len());
    assert_eq!(fitting.iter().collect::<Vec<_>>(), expected);

    let small = models(&sandbox, &[&MACHINE[..], &["--quant", "q2_K"]].concat());
    assert_eq!(named(&small, "qwen3-32b")["file_type"], "Q2_K");
    assert!(named(&small, "qwen3-32b")["bytes"].as_u64() < named(&all, "qwen3-32b")["bytes"].as_u64());
}

/// Of the catalogue, the widest quantisation that can be had and is all in VRAM with a margin is listed.
#[test]
fn the_best_quantisation_is_listed() {
    let sandbox = Sandbox::new();
    let at = |quant: &[&str]| models(&sandbox, &[&MACHINE[..], &["--need", "16k", "qwen3-30b-a3b"], quant].concat());
    let best = at(&[]);
    assert_eq!((&best[0]["file_type"], &best[0]["ctx"]), (&"Q4_K_M".into(), &16_384.into()));
    assert_eq!(best[0]["place"]["tag"], "qwen3:30b");
    let wider = at(&["--quant", "Q5_K_S"]);
    assert_eq!((&wider[0]["outcome"], &wider[0]["to_be_made"]), (&"vram".into(), &true.into()));
    assert_eq!(wider[0]["reference"], "catalogue:qwen3-30b-a3b@Q5_K_S");
    assert_eq!(at(&["--quant", "Q6_K"])[0]["outcome"], "experts-in-ram");
}

/// Of models in two conversions the list says which one a name of Ollama's means.
#[test]
fn the_list_says_which_conversion_is_meant() {
    let sandbox = Sandbox::new();
    let listed = models(&sandbox, &[&MACHINE[..], &["deepseek-v2"]].concat());
    let said = |name: &str| named(&listed, name)["conversion"].as_str().unwrap().to_owned();
    assert!(said("deepseek-v2-lite").starts_with("a newer conversion"));
    assert!(said("deepseek-v2-lite-2024").starts_with("an older conversion, the one in Ollama's library"));
    assert!(models(&sandbox, &[&MACHINE[..], &["qwen3-8b"]].concat())[0]["conversion"].is_null());
    let text = |words: &str| {
        let out = sandbox.plimsoll().args(["list", words]).args(MACHINE).assert().code(0).get_output().stdout.clone();
        String::from_utf8(out).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let note = "- deepseek-v2-lite-2024: an older conversion, the one in Ollama's library, which caches whole heads:";
    assert!(text("deepseek-v2").contains(note), "{}", text("deepseek-v2"));
    assert!(!text("qwen3-8b").contains("conversion"));
}

#[test]
fn the_list_takes_words_and_limits() {
    let sandbox = Sandbox::new();
    let names = |more: &[&str]| -> Vec<Value> {
        models(&sandbox, &[&MACHINE[..], more].concat()).iter().map(|model| model["name"].clone()).collect()
    };
    let large = names(&["--moe", "--min", "100b", "--max", "120b"]);
    assert!(large.contains(&"gpt-oss-120b".into()) && !large.contains(&"llama3.1-70b".into()), "{large:?}");
    assert_eq!(names(&["moe", ">100b", "<120b"]), large);
    let qwen = names(&["qwen3", "--dense", "--fits", "vram"]);
    assert!(qwen.contains(&"qwen3-8b".into()) && !qwen.contains(&"qwen3-30b-a3b".into()), "{qwen:?}");
    for wrong in [["--min", "many"], ["--fits", "well"]] {
        sandbox.plimsoll().arg("list").args(wrong).assert().code(2).stderr(contains(wrong[1]).and(contains("use ")));
    }
}

#[test]
fn models_that_see_or_hear_are_marked() {
    let sandbox = Sandbox::new();
    let names = |more: &[&str]| -> Vec<Value> {
        models(&sandbox, &[&MACHINE[..], more].concat()).iter().map(|model| model["name"].clone()).collect()
    };
    // whether or not their projector is known
    let known = |reads: fn(Modalities) -> bool| -> BTreeSet<String> {
        let of_gemma = catalogue::all().iter().filter(|entry| entry.names().any(|name| name.contains("gemma")));
        of_gemma.filter(|entry| reads(entry.reads())).map(|entry| entry.name.clone()).collect()
    };
    let as_set = |names: &[Value]| names.iter().map(|name| name.as_str().unwrap().to_owned()).collect::<BTreeSet<_>>();
    let seeing = names(&["gemma", "--vision"]);
    assert_eq!(as_set(&seeing), known(|reads| reads.vision));
    assert_eq!(names(&["gemma", "vision"]), seeing);
    assert_eq!(as_set(&names(&["gemma", "--audio"])), known(|reads| reads.audio));
    let one = &models(&sandbox, &[&MACHINE[..], &["gemma3-4b"]].concat())[0];
    assert_eq!((&one["vision"], &one["audio"]), (&true.into(), &false.into()));
    let text = contains("gemma4-e2b VA ").and(contains("gemma3-4b vision ")).and(contains("plimsoll list --help"));
    sandbox.plimsoll().args(["list", "gemma"]).args(MACHINE).assert().success().stdout(text);

    // a projector beside a model of this machine
    let store = sandbox.folder.path().join(".cache/llama.cpp");
    fs::create_dir_all(&store).unwrap();
    fs::rename(sandbox.model("gemma3-4b"), store.join("here.gguf")).unwrap();
    fs::rename(sandbox.projector("gemma3-4b-f16"), store.join("mmproj-here.gguf")).unwrap();
    assert_eq!(names(&["here", "--vision"]), ["here.gguf"].map(Value::from));
    assert!(names(&["here", "--audio"]).is_empty());
}

#[test]
fn local_models_come_first() {
    let sandbox = Sandbox::new();
    let store = sandbox.folder.path().join(".cache/llama.cpp");
    fs::create_dir_all(&store).unwrap();
    fs::rename(sandbox.model("llama3.2-1b"), store.join("llama3.2-1b.gguf")).unwrap();
    fs::write(store.join("broken.gguf"), "<html>").unwrap();
    let models = models(&sandbox, &[&MACHINE[..], &["--ctx", "4096"]].concat());
    let (broken, here) = (named(&models, "broken.gguf"), named(&models, "llama3.2-1b.gguf"));
    // what cannot be planned stands after what runs
    assert_eq!((&models[0], &models[1]), (here, broken));
    assert_eq!(
        (&here["source"], &here["verdict"], &here["file_type"]),
        (&"llama.cpp".into(), &"gpu".into(), &"Q4_K_M".into())
    );
    assert!(broken["error"].as_str().is_some_and(|reason| reason.contains("web page")), "{broken}");
}

#[test]
fn the_text_is_a_table() {
    let sandbox = Sandbox::new();
    let said = contains("llama3.1-8b")
        .and(contains("  VRAM\n"))
        .and(contains("  disk\n"))
        .and(contains(format!("{} models for", catalogue::all().len())))
        .and(contains("no models found on this machine").and(contains(".ollama/models")));
    let plain = said.and(contains("\u{1b}").not());
    sandbox.plimsoll().arg("list").args(MACHINE).assert().success().stdout(plain).stderr("");
}

/// A model that was trained for less than what is needed does not count as fitting, whatever its plan says.
#[test]
fn a_context_that_is_needed_is_required() {
    let sandbox = Sandbox::new();
    let need = ["--need", "64k", "--gpu", "24GiB", "--ram", "64GiB"];
    let all = models(&sandbox, &need);
    for model in &all {
        let trained = model["context_train"].as_u64().is_none_or(|trained| trained >= 65_536);
        assert_eq!(model["trained_for_need"], trained, "{model}");
    }
    assert_eq!(named(&all, "gpt2")["trained_for_need"], false);
    let fitting = models(&sandbox, &[&need[..], &["--fits", "vram"]].concat());
    assert!(!fitting.is_empty() && fitting.iter().all(|model| model["trained_for_need"] == true));
    assert!(models(&sandbox, &["--gpu", "24GiB", "--ram", "64GiB", "gpt2"])[0]["trained_for_need"].is_null());
    let text = sandbox.plimsoll().args(["list", "gpt2"]).args(need).assert().success().get_output().stdout.clone();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("trained 1k") && !text.contains("VRAM\n"), "{text}");
    assert!(text.contains("trained for less and do"), "{text}");
}
