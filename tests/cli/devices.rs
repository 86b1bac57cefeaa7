//! `plimsoll devices`: the devices, how they were detected, and what was tried. No test needs a GPU.

use super::{Sandbox, json};

#[test]
fn a_missing_driver_is_reported() {
    let sandbox = Sandbox::new();
    let devices = json(sandbox.plimsoll().args(["devices", "--nvml", "/nowhere/libnvidia-ml.so.1"]));
    let list = devices["devices"].as_array().unwrap();
    assert_eq!(list.len(), 1);
    let ram = &list[0];
    assert_eq!((&ram["id"], &ram["kind"], ram["backend"].is_null()), (&"CPU".into(), &"cpu".into(), true));
    assert!(ram["total"].as_u64() >= ram["free"].as_u64() && ram["free"].as_u64() > Some(0));
    for key in ["name", "swap_free", "weights", "cache", "graph", "reserved", "layers"] {
        assert!(!ram[key].is_null(), "{key}");
    }
    let tried = devices["tried"].as_array().unwrap();
    let nvml = tried.iter().find(|tried| tried["collector"] == "nvml").unwrap();
    assert!(nvml["outcome"].as_str().unwrap().contains("/nowhere/libnvidia-ml.so.1"), "{nvml}");
    assert!(tried.iter().any(|tried| tried["collector"] == "ram"));
}

#[test]
fn the_text_can_be_pasted_into_a_report() {
    let sandbox = Sandbox::new();
    let devices = sandbox.plimsoll().args(["devices", "--nvml", "/nowhere/nvml.so"]).assert().success().stderr("");
    // line breaks depend on the name of this computer's processor
    let text = String::from_utf8_lossy(&devices.get_output().stdout);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["No GPU was found", "Detection", "nvml", "bytes free of"] {
        assert!(words.contains(said), "{said}: {text}");
    }
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn a_plan_without_a_gpu_says_why() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.arg("plan").arg(sandbox.model("llama")).args(["--engine", "ollama-0.24", "--nvml", "/nowhere/nvml.so"]);
    let plan = json(&mut command);
    assert!(plan["notes"].to_string().contains("no GPU was found"), "{}", plan["notes"]);
    assert_eq!(plan["devices"].as_array().unwrap().len(), 1);
}

#[test]
fn described_gpus_are_not_detected() {
    let sandbox = Sandbox::new();
    for gpu in ["none", "24GiB"] {
        let plan = json(sandbox.plan("llama").args(["--gpu", gpu, "--nvml", "/nowhere/nvml.so"]));
        assert!(!plan["notes"].to_string().contains("no GPU was found"), "{}", plan["notes"]);
    }
}
