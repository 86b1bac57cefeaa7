//! Engine `ollama` on the command line.

use serde_json::Value;

use super::{Sandbox, json};

fn notes(plan: &Value) -> String {
    plan["notes"].to_string()
}

#[test]
fn the_plan_shows_what_ollama_ps_prints() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plan_by("ollama", "llama3.1-8b");
    let plan = json(command.args(["--gpu", "24GiB", "--ctx", "8192"]));
    assert_eq!((&plan["engine"], &plan["settings"]["batch"]), (&"ollama".into(), &1024.into()));
    assert!(notes(&plan).contains("batch 1024: Ollama raises it"), "{}", notes(&plan));
    let listed = &plan["ollama_ps"];
    assert_eq!((&listed["processor_column"], &listed["size"]), (&"100% GPU".into(), &listed["vram"]));
    assert!(listed["size_column"].as_str().unwrap().ends_with(" GB"));

    let text = sandbox.plan_by("ollama", "llama3.1-8b").args(["--gpu", "24GiB"]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap().replace('\u{a0}', " ");
    assert!(text.contains("ollama ps shows: "), "{text}");
}

#[test]
fn a_projector_file_is_measured() {
    let sandbox = Sandbox::new();
    let projector = sandbox.projector("gemma3-4b-f16");
    let plan = |more: &[&str]| json(sandbox.plan_by("ollama", "gemma3-4b").args(["--gpu", "24GiB"]).args(more));
    let without = plan(&[]);
    let with = plan(&["--mmproj", projector.to_str().unwrap()]);
    let reserved = |plan: &Value| plan["devices"][0]["reserved"].as_u64().unwrap();
    assert!(reserved(&with) > reserved(&without));
    assert!(notes(&with).contains("for the projector"), "{}", notes(&with));
    assert!(!notes(&without).contains("projector"), "{}", notes(&without));
}

#[test]
fn ollama_variables_are_used() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plan_by("ollama", "llama3.1-8b");
    command.args(["--gpu", "24GiB"]).env("OLLAMA_CONTEXT_LENGTH", "16384").env("OLLAMA_NUM_PARALLEL", "2");
    let plan = json(command.env("OLLAMA_FLASH_ATTENTION", "0"));
    let settings = &plan["settings"];
    assert_eq!((&settings["ctx"], &settings["ctx_total"]), (&16_384.into(), &32_768.into()));
    assert_eq!((&settings["flash_attn"], &settings["batch"]), (&"off".into(), &512.into()));
}
