//! The JSON that scripts depend on: every key is present and has its type, and parts add up.

use rstest::rstest;
use serde_json::{Map, Value};

use super::{Sandbox, json};

/// A key's type, as scripts may rely on it.
#[derive(Clone, Copy, Debug)]
enum Is {
    Text,
    Number,
    TextOrNull,
    NumberOrNull,
    List,
    Object,
}

use Is::{List, Number, NumberOrNull, Object, Text, TextOrNull};

fn check(what: &str, value: &Value, keys: &[(&str, Is)]) -> Map<String, Value> {
    let object = value.as_object().unwrap_or_else(|| panic!("{what} is no object: {value}"));
    for &(key, is) in keys {
        let value = object.get(key).unwrap_or_else(|| panic!("{what} has no {key}"));
        let right = match is {
            Text => value.is_string(),
            Number => value.is_i64() || value.is_u64(),
            TextOrNull => value.is_string() || value.is_null(),
            NumberOrNull => value.is_u64() || value.is_null(),
            List => value.is_array(),
            Object => value.is_object(),
        };
        assert!(right, "{what}.{key} should be {is:?}: {value}");
    }
    object.clone()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap()
}

fn sum(values: &[Value], key: &str) -> u64 {
    values.iter().map(|value| value[key].as_u64().unwrap()).sum()
}

#[rstest]
#[case("llama3.1-8b", &["--gpu", "24GiB"], "gpu")]
#[case("llama3.1-8b", &["--gpu", "name=A,total=6GiB", "--ctx", "32768"], "split")]
#[case("llama3.1-8b", &["--gpu", "none"], "cpu")]
#[case("llama3.1-70b", &["--gpu", "8GiB", "--ctx", "max"], "does-not-fit")]
#[case("gemma3-27b", &["--gpu", "RTX 4090", "--gpu", "RTX 3060", "--flash-attn", "on", "--kv-type", "q8_0"], "gpu")]
#[case("mamba-2.8b", &["--gpu", "name=M,total=16GiB,backend=Metal"], "gpu")]
#[case("mllama", &["--gpu", "4GiB", "--parallel", "4"], "gpu")]
#[case("deepseek-v2-lite", &["--gpu", "total=8GiB,free=0"], "cpu")]
fn every_key_is_present(#[case] model: &str, #[case] machine: &[&str], #[case] verdict: &str) {
    let sandbox = Sandbox::new();
    let plan = json(sandbox.plan(model).args(machine));
    check(
        "the plan",
        &plan,
        &[
            ("plimsoll", Text),
            ("engine", Text),
            ("confidence", Text),
            ("source", Text),
            ("reference", Text),
            ("model", Object),
            ("settings", Object),
            ("devices", List),
            ("layers", List),
            ("graph", Object),
            ("totals", Object),
            ("offloaded", Number),
            ("layer_count", Number),
            ("parts_in_ram", Number),
            ("verdict", Text),
            ("refused", TextOrNull),
            ("notes", List),
        ],
    );
    assert_eq!(plan["plimsoll"], env!("CARGO_PKG_VERSION"));
    assert_eq!((plan["engine"].as_str(), plan["confidence"].as_str()), (Some("ollama-0.24"), Some("exact")));
    assert_eq!(plan["verdict"], verdict);
    check(
        "model",
        &plan["model"],
        &[
            ("name", Text),
            ("architecture", Text),
            ("file_type", TextOrNull),
            ("parameters", Number),
            ("bytes", Number),
            ("layers", Number),
            ("context_train", NumberOrNull),
        ],
    );
    check(
        "settings",
        &plan["settings"],
        &[
            ("ctx", Number),
            ("ctx_per_sequence", Number),
            ("ctx_total", Number),
            ("parallel", Number),
            ("batch", Number),
            ("ubatch", Number),
            ("cache_type_k", Text),
            ("cache_type_v", Text),
            ("flash_attn", Text),
            ("gpu_layers", Number),
        ],
    );
    let devices = list(&plan, "devices");
    for (index, device) in devices.iter().enumerate() {
        let keys = check(
            "a device",
            device,
            &[
                ("id", Text),
                ("kind", Text),
                ("name", Text),
                ("backend", TextOrNull),
                ("total", Number),
                ("free", Number),
                ("weights", Number),
                ("cache", Number),
                ("graph", Number),
                ("reserved", Number),
                ("layers", List),
            ],
        );
        let cpu = index + 1 == devices.len();
        let (id, kind) = if cpu { ("CPU".to_owned(), "cpu") } else { (format!("GPU{index}"), "gpu") };
        assert_eq!((&keys["id"], &keys["kind"], keys["backend"].is_null()), (&id.into(), &kind.into(), cpu));
    }
    let layers = list(&plan, "layers");
    for (index, layer) in layers.iter().enumerate() {
        check(
            "a layer",
            layer,
            &[("index", Number), ("device", Text), ("weights", Number), ("cache", Number), ("why", Text)],
        );
        assert_eq!(layer["index"], index);
        let homes = devices.iter().filter(|device| list(device, "layers").contains(&layer["index"]));
        let homes: Vec<_> = homes.map(|device| &device["id"]).collect();
        assert_eq!(homes, [&layer["device"]], "layer {index} has one home");
    }
    assert_eq!(plan["layer_count"], layers.len());
    assert_eq!(plan["model"]["layers"], layers.len() - 1);
    let on_gpus: usize = devices.iter().filter(|d| d["kind"] == "gpu").map(|d| list(d, "layers").len()).sum();
    assert_eq!(plan["offloaded"], on_gpus);

    let totals = check(
        "totals",
        &plan["totals"],
        &[("weights", Number), ("cache", Number), ("graph", Number), ("gpu", Number), ("cpu", Number), ("all", Number)],
    );
    for key in ["weights", "cache", "graph"] {
        assert_eq!(totals[key], sum(devices, key), "{key}");
    }
    for key in ["weights", "cache"] {
        assert_eq!(sum(devices, key), sum(layers, key), "{key}");
    }
    assert_eq!(totals["all"], totals["gpu"].as_u64().unwrap() + totals["cpu"].as_u64().unwrap());
}

#[test]
fn the_graph_is_listed_term_by_term() {
    let sandbox = Sandbox::new();
    let plan = json(sandbox.plan("llama3.1-8b").args(["--gpu", "6GiB", "--ctx", "16384"]));
    let graph = &plan["graph"];
    check(
        "graph",
        graph,
        &[
            ("partial", Number),
            ("full", Number),
            ("used", Text),
            ("why", Text),
            ("terms", List),
            ("branches", Object),
            ("letters", List),
        ],
    );
    let used = graph["used"].as_str().unwrap();
    assert_eq!(used, "partial");
    for size in ["partial", "full"] {
        let branches = list(&graph["branches"], size);
        let winners: Vec<_> = branches.iter().filter(|branch| branch["wins"] == true).collect();
        assert_eq!(winners.len(), 1);
        assert_eq!(winners[0]["bytes"], graph[size]);
        assert!(branches.iter().all(|branch| branch["bytes"].as_u64() <= graph[size].as_u64()));
        for branch in branches {
            assert_eq!(branch["bytes"], sum(list(branch, "terms"), "bytes"));
        }
        if size == used {
            assert_eq!(graph["terms"], winners[0]["terms"]);
        }
    }
    let terms = list(graph, "terms");
    for term in terms {
        check("a term", term, &[("name", Text), ("formula", Text), ("numbers", Text), ("bytes", Number)]);
    }
    assert!(terms.is_sorted_by(|one, next| one["bytes"].as_u64() >= next["bytes"].as_u64()));
    for letter in list(graph, "letters") {
        check("a letter", letter, &[("letter", Text), ("meaning", Text), ("value", Text)]);
    }
}

#[test]
fn a_draft_is_a_part_beside_the_model() {
    let sandbox = Sandbox::new();
    let draft = sandbox.model("llama3.2-1b");
    let machine = ["--gpu", "24GiB", "--gpu", "12GiB", "--ctx", "8192"];
    let drafts = ["--spec-type", "draft-simple", "-ctkd", "q8_0", "-devd", "GPU1", "-md"];
    let plan = json(sandbox.plan_by("llama.cpp", "llama3.1-8b").args(machine).args(drafts).arg(&draft));
    let [model, draft_part] = list(&plan, "parts") else { panic!("{}", plan["parts"]) };
    assert_eq!((&model["name"], &draft_part["name"]), (&Value::from("model"), &Value::from("draft")));
    assert_eq!(draft_part["file"], draft.to_str().unwrap());
    for key in ["weights", "cache", "graph"] {
        for (at, device) in list(&plan, "devices").iter().enumerate() {
            let of = |part: &Value| {
                let here = &part["devices"][at];
                assert_eq!(here["id"], device["id"]);
                here[key].as_u64().unwrap()
            };
            assert_eq!(device[key], of(model) + of(draft_part), "{key} of {}", device["id"]);
        }
    }
    // only its second card holds the draft, with the cache types asked for
    assert_eq!(draft_part["devices"][0]["cache"], 0);
    assert_eq!(draft_part["devices"][1]["cache"], 16 * 8192 * (512 * 34 / 32 + 512 * 2));
    assert_eq!((&plan["settings"]["spec_type"], &plan["settings"]["outputs"]), (&"draft-simple".into(), &16.into()));
}

#[test]
fn drafting_without_what_it_needs_is_refused() {
    let sandbox = Sandbox::new();
    let refused = |more: &[&str]| {
        let mut command = sandbox.plan_by("llama.cpp", "llama3.1-8b");
        let output = command.args(["--gpu", "24GiB"]).args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["--spec-type", "draft-simple"]).contains("--model-draft"));
    assert!(refused(&["--spec-type", "draft-mtp"]).contains("no MTP blocks"));
    assert!(refused(&["--spec-type", "draft-quick"]).contains("draft-eagle3"));
    let draft = sandbox.model("llama3.2-1b");
    let draft = draft.to_str().unwrap();
    assert!(refused(&["-md", draft, "--spec-type", "draft-eagle3"]).contains("not one for draft-eagle3"));
}

#[test]
fn keys_keep_their_order() {
    let sandbox = Sandbox::new();
    let text = sandbox.plan("llama3.1-8b").args(["--gpu", "24GiB", "--json"]).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    let keys = [
        "\"plimsoll\"",
        "\"engine\"",
        "\"confidence\"",
        "\"model\"",
        "\"settings\"",
        "\"devices\"",
        "\"layers\": [\n    {",
        "\"graph\": {",
        "\"totals\"",
        "\"offloaded\"",
        "\"layer_count\"",
        "\"verdict\"",
        "\"refused\"",
        "\"notes\"",
    ];
    let places: Vec<_> = keys.iter().map(|key| text.find(key).unwrap_or_else(|| panic!("{key}"))).collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn a_refusal_is_a_plan_with_a_reason() {
    let sandbox = Sandbox::new();
    let plan = json(sandbox.plan("llama3.1-8b").args(["--gpu", "4GiB", "--require-full"]));
    assert_eq!(plan["verdict"], "does-not-fit");
    assert!(plan["refused"].is_string());
}
