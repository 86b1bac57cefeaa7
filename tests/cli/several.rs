//! Several models: files that start them are read back as the same set.

use plimsoll::settings::ollama::apply_variables;
use plimsoll::settings::{Context, Settings};
use rstest::rstest;
use serde_json::Value;

use super::{Sandbox, json, refused};

const NAMES: [&str; 3] = ["llama3.1-8b", "qwen3-0.6b", "gemma3-4b"];
const KNOBS: [&str; 3] = ["ctx=16384,kv-type=q8_0", "parallel=2,ctx=8192", "ctx=4096,flash-attn=off"];

fn models(sandbox: &Sandbox) -> Vec<String> {
    NAMES.iter().zip(KNOBS).map(|(name, knobs)| format!("{},{knobs}", sandbox.model(name).display())).collect()
}

/// What each model takes on each device, and what is left.
fn figures(answer: &Value) -> Vec<Value> {
    let models = answer["models"].as_array().unwrap();
    let plan = |model: &Value| (model["fate"].clone(), model["plan"]["devices"].clone(), model["prompt_cache"].clone());
    models.iter().map(|model| serde_json::to_value(plan(model)).unwrap()).chain([answer["devices"].clone()]).collect()
}

#[rstest]
fn a_file_that_starts_several_is_read_back_as_the_same_set(
    #[values("presets", "llama-swap")] form: &str,
    #[values(&["--gpu", "24GiB"], &["--gpu", "8GiB", "--gpu", "RTX 3060"])] gpus: &[&str],
    #[values(false, true)] pinned: bool,
) {
    let sandbox = Sandbox::new();
    let machine = [gpus, &["--ram", "64GiB"]].concat();
    let together = |more: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.arg("together").args(models(&sandbox)).args(["--engine", "llama.cpp"]).args(&machine).args(more);
        command
    };
    let asked = json(&mut together(&["--models-max", "3"]));
    let file = sandbox.folder.path().join("file");
    let output = ["--as", form, "--output", file.to_str().unwrap()];
    together(&[&output[..], if pinned { &["--pin"] } else { &[] }].concat()).assert().success();
    let text = std::fs::read_to_string(&file).unwrap();
    let mut command = sandbox.plimsoll();
    command.arg("plan").arg("--command").arg(&file).args(&machine);
    let read = json(&mut command);
    // llama-swap's matrix has the sets that are all in VRAM, which these are
    assert_eq!(figures(&read), figures(&asked), "{text}");
    assert_eq!(read["together"], true, "{text}");
    assert!(read["router"].as_str().unwrap().contains(form.trim_end_matches("presets")), "{read}");
}

/// Where not all fit, the file has the sets that do.
#[test]
fn the_matrix_for_llama_swap_has_the_sets_that_fit() {
    let sandbox = Sandbox::new();
    let machine = ["--gpu", "total=9GiB,free=9GiB", "--ram", "64GiB"];
    let run = |more: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.arg("together").args(models(&sandbox)).args(["--engine", "llama.cpp"]).args(machine).args(more);
        command
    };
    let asked = json(&mut run(&[]));
    let in_vram = |set: &&Value| set["outcome"] == "vram" || set["outcome"] == "tight";
    let several = |set: &&Value| set["models"].as_array().unwrap().len() > 1;
    let sets: Vec<&Value> = asked["sets"].as_array().unwrap().iter().filter(in_vram).filter(several).collect();
    assert!(!sets.is_empty() && sets.iter().all(|set| set["models"].as_array().unwrap().len() < 3), "{asked}");
    let text = String::from_utf8(run(&["--as", "llama-swap"]).assert().success().get_output().stdout.clone()).unwrap();
    for set in &sets {
        let names: Vec<String> =
            set["models"].as_array().unwrap().iter().map(|at| format!("m{}", at.as_u64().unwrap() + 1)).collect();
        assert!(text.contains(&format!("\"{}\"", names.join(" & "))), "{text}");
    }
    assert_eq!(text.matches(" & ").count(), sets.len(), "{text}");
    // llama-server's router only counts: of which any fit
    let presets = String::from_utf8(run(&["--as", "presets"]).assert().success().get_output().stdout.clone()).unwrap();
    assert!(presets.contains(&format!("--models-max {}", asked["any"].as_u64().unwrap().max(1))), "{presets}");
    // read back, whoever is in no set with another ends it
    let file = sandbox.folder.path().join("swap.yaml");
    std::fs::write(&file, &text).unwrap();
    let mut command = sandbox.plimsoll();
    command.arg("plan").arg("--command").arg(&file).args(machine);
    let read = json(&mut command);
    let allowed: Vec<&Value> = read["sets"].as_array().unwrap().iter().filter(several).collect();
    assert_eq!(allowed.len(), sets.len(), "{read}");
}

#[test]
fn the_variables_of_an_ollama_make_the_same_set() {
    let sandbox = Sandbox::new();
    let machine = ["--gpu", "24GiB", "--ram", "64GiB"];
    let names: Vec<String> = NAMES.iter().map(|name| sandbox.model(name).display().to_string()).collect();
    let run = |more: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.arg("together").args(&names).args(["--engine", "ollama"]).args(machine).args(more);
        command
    };
    let knobs = ["--ctx", "8192", "--parallel", "2", "--kv-type", "q8_0", "--flash-attn", "on"];
    let asked = json(&mut run(&knobs));
    let written = run(&[&knobs[..], &["--as", "env"]].concat()).assert().success().get_output().stdout.clone();
    let written = String::from_utf8(written).unwrap();
    let lines = written.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
    let variables: Vec<(&str, &str)> = lines.collect();
    let given: Vec<String> =
        variables.iter().flat_map(|(name, value)| ["--server-env".into(), format!("{name}={value}")]).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    assert_eq!(figures(&json(&mut run(&given))), figures(&asked), "{written}");
    let mut settings = Settings::default();
    let variables: Vec<(String, String)> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    apply_variables(&mut settings, &variables, true);
    assert_eq!((settings.parallel, settings.ollama.server.max_loaded_models), (Some(2), Some(3)), "{written}");
    assert_ne!(settings.ctx, Context::Tokens(4096));
    // contexts of their own are no variable
    let one = [format!("{},ctx=4096", names[0]), format!("{},ctx=8192", names[1])];
    let mut command = sandbox.plimsoll();
    command.arg("together").args(&one).args(["--engine", "ollama", "--as", "env"]).args(machine);
    let text = String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap();
    assert!(
        !text.contains("OLLAMA_CONTEXT_LENGTH") && text.contains("num_ctx 4096") && text.contains("num_ctx 8192"),
        "{text}"
    );
    let one = [format!("{},kv-type=q8_0", names[0]), names[1].clone()];
    let mut command = sandbox.plimsoll();
    command.arg("together").args(&one).args(["--engine", "ollama", "--as", "env"]).args(machine);
    assert!(refused(&mut command, 2).contains("OLLAMA_KV_CACHE_TYPE holds for all models"));
}

#[rstest]
#[case(&["--as", "env", "--engine", "llama.cpp"], "use one of presets, llama-swap")]
#[case(&["--as", "presets", "--engine", "ollama"], "use one of env")]
#[case(&["--router", "llama-swap", "--engine", "ollama"], "--router")]
#[case(&["--router", "llama-swap", "--models-max", "2", "--engine", "llama.cpp"], "--models-max")]
#[case(&["--as", "env", "--pin", "--engine", "ollama"], "--pin")]
#[case(&["--pin", "--engine", "ollama"], "--as")]
fn what_cannot_be_is_refused(#[case] more: &[&str], #[case] part: &str) {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.arg("together").args(models(&sandbox)).args(["--gpu", "24GiB", "--ram", "64GiB"]).args(more);
    let said = refused(&mut command, 2);
    assert!(said.contains(part), "{said}");
}

/// llama-swap's own rules, in both places where its configuration has them.
#[rstest]
#[case::groups("groups:\n  both:\n    swap: false\n    members: [small, large]\n", true)]
#[case::groups_in_routing(
    "routing:\n  router:\n    settings:\n      groups:\n        both:\n          swap: false\n          members: [small, large]\n",
    true
)]
#[case::apart("groups:\n  one:\n    members: [small]\n  other:\n    members: [large]\n", false)]
#[case::persistent(
    "groups:\n  one:\n    persistent: true\n    members: [small]\n  other:\n    members: [large]\n",
    true
)]
#[case::matrix("matrix:\n  vars: {s: small}\n  sets:\n    both: s & large\n", true)]
#[case::matrix_in_routing(
    "routing:\n  router:\n    use: matrix\n    settings:\n      matrix:\n        sets:\n          one: small | large\n",
    false
)]
#[case::nothing("", false)]
fn the_routing_of_llama_swap_is_read(#[case] routing: &str, #[case] both: bool) {
    let sandbox = Sandbox::new();
    let model = |name: &str, file: &str| {
        format!("  {name}:\n    cmd: llama-server --port ${{PORT}} -m /m/{file}.gguf -c 4096\n")
    };
    let text = format!("models:\n{}{}{routing}", model("small", "Qwen3-0.6B-Q8_0"), model("large", "Qwen3-8B-Q4_K_M"));
    let mut command = sandbox.plimsoll();
    command.args(["plan", "--gpu", "24GiB", "--ram", "64GiB", "--command", &text]);
    let read = json(&mut command);
    let fate = if both { "loaded" } else { "evicted" };
    assert_eq!(read["models"][0]["fate"], fate, "{text}{read}");
    let wrong = format!("{text}\nmatrix:\n  sets:\n    x: small & none\n");
    if routing.is_empty() {
        let mut command = sandbox.plimsoll();
        command.args(["plan", "--gpu", "24GiB", "--ram", "64GiB", "--command", &wrong]);
        assert!(refused(&mut command, 2).contains("'none' is no model"));
    }
}
