//! `plimsoll plan --mmproj`: the projector as a part of the plan.

use predicates::prelude::*;
use predicates::str::contains;
use rstest::rstest;
use serde_json::Value;

use super::{Sandbox, json, refused};

const MACHINE: [&str; 2] = ["--gpu", "name=card,total=80GiB,backend=plain"];

fn plan(sandbox: &Sandbox, model: &str, projector: &str, more: &[&str]) -> Value {
    let projector = sandbox.projector(projector);
    let mut command = sandbox.plan_by("llama.cpp", model);
    command.args(MACHINE).arg("--ctx").arg("4096").arg("--mmproj").arg(projector).args(more);
    json(&mut command)
}

fn part<'p>(plan: &'p Value, name: &str) -> &'p Value {
    plan["parts"].as_array().unwrap().iter().find(|part| part["name"] == name).unwrap()
}

/// A part's figure on the GPU and on the CPU.
fn figures(part: &Value, key: &str) -> [u64; 2] {
    [0, 1].map(|device| part["devices"][device][key].as_u64().unwrap())
}

#[test]
fn a_projector_is_a_part_of_the_plan() {
    let sandbox = Sandbox::new();
    let with = plan(&sandbox, "gemma3-4b", "gemma3-4b-f16", &[]);
    let vision = part(&with, "vision");
    assert!(vision["file"].as_str().unwrap().ends_with("mmproj-gemma3-4b-f16.gguf"));
    assert_eq!(figures(vision, "cache"), [0, 0]);
    // every device is the sum of its parts
    for (at, device) in with["devices"].as_array().unwrap().iter().enumerate() {
        for key in ["weights", "cache", "graph"] {
            let sum: u64 =
                with["parts"].as_array().unwrap().iter().map(|p| p["devices"][at][key].as_u64().unwrap()).sum();
            assert_eq!(device[key], sum, "{key} of device {at}");
        }
    }
}

/// A model of the catalogue is planned with its projector, as a file with the same header is.
#[test]
fn the_catalogue_has_projectors() {
    let sandbox = Sandbox::new();
    let of_catalogue = |more: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.args(["plan", "catalogue:gemma3-4b", "--engine", "llama.cpp", "--ctx", "4096", "--ram", "64GiB"]);
        json(command.args(MACHINE).args(more))
    };
    let from_file = plan(&sandbox, "gemma3-4b", "gemma3-4b-f16", &[]);
    let by_itself = of_catalogue(&[]);
    assert_eq!(part(&by_itself, "vision")["devices"], part(&from_file, "vision")["devices"]);
    assert_eq!(part(&by_itself, "vision")["file"], "catalogue:gemma3-4b");
    assert_eq!(of_catalogue(&["--no-mmproj"])["parts"].as_array().unwrap().len(), 1);
    // for a file without a projector beside it
    let mut command = sandbox.plan_by("llama.cpp", "gemma3-4b");
    let named = json(command.args(MACHINE).args(["--ctx", "4096", "--mmproj", "catalogue:gemma3-4b"]));
    assert_eq!(named["devices"], from_file["devices"]);
    let mut none = sandbox.plimsoll();
    let said = refused(none.args(["plan", "catalogue:gemma3-4b", "--mmproj", "catalogue:llama3.1-8b"]), 3);
    assert!(said.contains("no projector of 'llama3.1-8b': it has those of") && said.contains("gemma3-4b"), "{said}");
}

/// llama-server has no such file: the command says where one is to be put.
#[test]
fn an_exported_command_names_a_projector_that_is_a_file() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.args(["export", "catalogue:gemma3-4b", "--engine", "llama.cpp", "--ctx", "4096", "--ram", "64GiB"]);
    let said = contains("replace mmproj.gguf with").and(contains("--mmproj mmproj.gguf"));
    command.args(MACHINE).assert().success().stdout(said.and(contains("catalogue:").not()));
}

#[test]
fn a_larger_image_grows_the_buffers() {
    let sandbox = Sandbox::new();
    let plan = |more: &[&str]| plan(&sandbox, "qwen3-vl-30b-a3b", "qwen3-vl-4b-q8_0", more);
    let (small, largest) = (plan(&["--image", "640x384"]), plan(&[]));
    let vision = part(&small, "vision");
    assert_eq!(figures(vision, "graph"), [338_153_728, 26_136_832]);
    assert_eq!(figures(vision, "graph_ready"), figures(vision, "graph"), "smaller than the dummy image");
    assert!(small["notes"].to_string().contains("640x384 becomes 640x384, 240 tokens"), "{}", small["notes"]);
    assert!(figures(part(&largest, "vision"), "graph_ready")[0] > 338_153_728);
    let limited = plan(&["--image-max-tokens", "1024"]);
    let vision = part(&limited, "vision");
    assert_eq!(figures(vision, "graph_ready"), figures(vision, "graph"), "the dummy image is the largest");
}

#[test]
fn a_projector_may_stay_in_ram() {
    let sandbox = Sandbox::new();
    let in_ram = |more: &[&str]| plan(&sandbox, "gemma3-4b", "gemma3-4b-f16", more);
    let [one, other] = [in_ram(&["--no-mmproj-offload"]), in_ram(&["--mmproj-device", "none"])];
    assert_eq!(figures(part(&one, "vision"), "weights")[0], 0);
    assert!(figures(part(&one, "vision"), "weights")[1] > 800 << 20);
    assert_eq!(one["parts"], other["parts"]);
}

#[test]
fn two_encoders_are_two_parts() {
    let sandbox = Sandbox::new();
    let both = plan(&sandbox, "gemma-4-e2b", "gemma-4-e2b-bf16", &[]);
    assert_eq!(figures(part(&both, "vision"), "weights"), [369_827_840, 0]);
    assert_eq!(figures(part(&both, "audio"), "graph"), [106_109_824, 1_661_824]);
}

#[test]
fn the_fit_leaves_room_for_the_projector() {
    let sandbox = Sandbox::new();
    let gpu = ["--gpu", "name=card,total=12GiB,free=12GiB,backend=plain", "--ram", "64GiB", "--engine", "llama.cpp"];
    let model = sandbox.model("gemma3-27b");
    let projector = sandbox.projector("gemma3-27b-bf16");
    let offloaded = |more: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.arg("plan").arg(&model).args(gpu).args(["--ctx", "4096"]).args(more);
        json(&mut command)["offloaded"].as_u64().unwrap()
    };
    let (alone, beside) = (offloaded(&["--no-mmproj"]), offloaded(&["--mmproj", projector.to_str().unwrap()]));
    assert!(beside < alone, "{beside} of {alone} layers");
    let in_ram = offloaded(&["--mmproj", projector.to_str().unwrap(), "--no-mmproj-offload"]);
    assert_eq!(in_ram, alone);
}

#[test]
fn what_is_no_projector_is_refused_in_one_sentence() {
    let sandbox = Sandbox::new();
    let file = sandbox.model("llama3.2-1b");
    let mut command = sandbox.plan_by("llama.cpp", "gemma3-4b");
    command.args(MACHINE).arg("--mmproj").arg(file);
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), error.lines().count()), (Some(3), 1), "{error}");
    assert!(error.contains("is no projector"), "{error}");
    let mut command = sandbox.plan_by("llama.cpp", "gemma3-4b");
    command.args(MACHINE).arg("--mmproj").arg(sandbox.projector("gemma3-4b-f16")).args(["--mmproj-device", "GPU7"]);
    assert_eq!(command.output().unwrap().status.code(), Some(2));
}

/// A projector beside a file is planned with it, as in a store; one of another model is named and left out.
#[test]
fn a_projector_beside_a_file_is_planned_with_it() {
    let sandbox = Sandbox::new();
    let given = plan(&sandbox, "gemma3-4b", "gemma3-4b-f16", &[]);
    let beside = |model: &str, more: &[&str]| {
        let mut command = sandbox.plan_by("llama.cpp", model);
        json(command.args(MACHINE).args(["--ctx", "4096"]).args(more))
    };
    let found = beside("gemma3-4b", &[]);
    assert_eq!(part(&found, "vision")["devices"], part(&given, "vision")["devices"]);
    assert_eq!(beside("gemma3-4b", &["--no-mmproj"])["parts"].as_array().unwrap().len(), 1);
    // another model in the folder: its name says that it is not of that
    let other = beside("llama3.2-1b", &[]);
    assert_eq!(other["parts"].as_array().unwrap().len(), 1);
    assert!(!other["notes"].to_string().contains("projector"), "{}", other["notes"]);
}

/// The plan of a model alone in a folder with these projectors, under other names.
fn alone_with(model: &str, projectors: &[(&str, &str)]) -> Value {
    let sandbox = Sandbox::new();
    let path = sandbox.model(model);
    for (name, file) in projectors {
        std::fs::rename(sandbox.projector(name), sandbox.folder.path().join(file)).unwrap();
    }
    let mut command = sandbox.plimsoll();
    command.arg("plan").arg(path).args(["--engine", "llama.cpp"]).args(MACHINE);
    json(command.args(["--ctx", "4096"]))
}

#[rstest]
// tokens of the same width, but of other architectures
#[case(
    "qwen3-30b-a3b",
    "kimi-vl-a3b-f16",
    "its type 'kimivl' belongs to models of deepseek2, and this is one of qwen3moe"
)]
#[case(
    "qwen3-30b-a3b",
    "smolvlm2-2.2b-f16",
    "its type 'idefics3' belongs to models of llama, and this is one of qwen3moe"
)]
// of the same architecture, but of other widths
#[case("gemma3-27b", "gemma3-4b-f16", "it belongs to another model")]
fn a_projector_of_another_model_is_not_planned(#[case] model: &str, #[case] projector: &str, #[case] why: &str) {
    let plan = alone_with(model, &[(projector, "mmproj-F16.gguf")]);
    assert_eq!(plan["parts"].as_array().unwrap().len(), 1);
    assert!(plan["notes"].to_string().contains(why), "{}", plan["notes"]);
}

#[test]
fn of_several_projectors_none_is_guessed() {
    let both = [("gemma3-4b-f16", "mmproj-F16.gguf"), ("gemma3-27b-bf16", "mmproj-BF16.gguf")];
    // only one has tokens of this width
    assert_eq!(alone_with("gemma3-4b", &both)["parts"].as_array().unwrap().len(), 2);
    let sandbox = Sandbox::new();
    let path = sandbox.model("gemma3-4b");
    for file in ["mmproj-F16.gguf", "mmproj-model-f32.gguf"] {
        std::fs::rename(sandbox.projector("gemma3-4b-f16"), sandbox.folder.path().join(file)).unwrap();
    }
    let planned = |more: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.arg("plan").arg(&path).args(["--engine", "llama.cpp", "--ctx", "4096"]).args(MACHINE);
        json(command.args(more))
    };
    let plan = planned(&[]);
    assert_eq!(plan["parts"].as_array().unwrap().len(), 1);
    let says =
        "2 beside the file may be its own (mmproj-F16.gguf, mmproj-model-f32.gguf), and --mmproj FILE says which";
    assert!(plan["notes"].to_string().contains(says), "{}", plan["notes"]);
    assert_eq!(planned(&["--mmproj", "mmproj-F16.gguf"])["parts"].as_array().unwrap().len(), 2);
}

/// Where no server can be asked, the catalogue stands in: with the projector, and a word on Ollama's own file.
#[test]
fn a_name_of_ollamas_library_is_planned_with_its_projector() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    let plan = json(command.args(["plan", "gemma4:e4b", "--ctx", "4096", "--offline"]).args(MACHINE));
    let notes = plan["notes"].to_string();
    assert!(notes.contains("is planned with it; Ollama's file of this name may have other types"), "{notes}");
    assert!(plan["parts"].as_array().unwrap().len() > 1, "{plan:#}");
}
