//! The modelled speed of `plan`.

use serde_json::Value;

use super::{Sandbox, json};

#[test]
fn a_plan_has_a_speed_at_a_depth() {
    let sandbox = Sandbox::new();
    let model = sandbox.model("llama3.1-8b");
    let machine = ["--gpu", "RTX 4090", "--ram", "total=64GiB,bandwidth=80GB/s", "--ctx", "32768"];
    let plan = |more: &[&str]| json(sandbox.plimsoll().arg("plan").arg(&model).args(machine).args(more));
    let (start, deep) = (plan(&[]), plan(&["--depth", "32768"]));
    let at = |plan: &Value, key: &str| plan["speed"][key].as_f64().unwrap();
    assert!(at(&start, "tokens_per_second") > at(&deep, "tokens_per_second"));
    assert!(
        at(&start, "low") < at(&start, "tokens_per_second") && at(&start, "tokens_per_second") < at(&start, "high")
    );
    assert_eq!((&start["speed"]["depth"], &deep["speed"]["depth"]), (&0.into(), &32_768.into()));
    assert_eq!(start["speed"]["confidence"], "modelled");
    let term = &deep["speed"]["terms"][1];
    assert_eq!(term["name"], "GPU0 cache");
    assert!(term["milliseconds"].as_f64().unwrap() > 0.0 && term["formula"].as_str().unwrap().contains("GB/s"));

    let text = sandbox.plimsoll().arg("plan").arg(&model).args(machine).assert().success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    assert!(text.starts_with("                      on GPU       ≈ tok/s     when full "), "{text}");
    let figures = text.lines().nth(1).unwrap();
    assert!(figures.matches('(').count() == 2, "both speeds with their ends: {figures}");
}

#[test]
fn a_card_that_is_not_known_has_none() {
    let sandbox = Sandbox::new();
    let model = sandbox.model("llama3.1-8b");
    let plan = json(sandbox.plimsoll().arg("plan").arg(&model).args(["--gpu", "24GiB", "--ram", "64GiB"]));
    assert!(plan["speed"].is_null());
    let assumed = json(sandbox.plimsoll().arg("plan").arg(&model).args(["--gpu", "none", "--ram", "64GiB"]));
    assert_eq!(assumed["speed"]["confidence"], "assumed");
    assert!(assumed["speed"]["reason"].as_str().unwrap().contains("60 GB/s"));
}

#[test]
fn a_measured_speed_is_remembered_with_the_machine() {
    let sandbox = Sandbox::new();
    let model = sandbox.model("llama3.1-8b");
    let plan = |machine: &[&str], more: &[&str]| {
        let mut command = sandbox.plimsoll();
        json(command.arg("plan").arg(&model).args(["--gpu-layers", "20", "--ctx", "4096"]).args(machine).args(more))
    };
    let speed = |plan: &Value| plan["speed"]["tokens_per_second"].as_f64().unwrap();
    let described = ["--gpu", "RTX 3060", "--ram", "64GiB"];
    let measured = plan(&described, &["--measured", "11.5"]);
    assert!((speed(&measured) / 11.5 - 1.0).abs() < 1e-3, "{}", measured["speed"]);
    let notes = measured["notes"].to_string();
    assert!(
        notes.contains("11.5 tokens per second mean that RAM is read at ") && notes.contains("bandwidth="),
        "{notes}"
    );

    let save = ["machine", "save", "desk", "--gpu", "RTX 3060", "--ram", "64GiB"];
    sandbox.plimsoll().args(save).assert().success();
    let desk = ["--machine", "desk"];
    let assumed = plan(&desk, &[]);
    assert_eq!(assumed["speed"]["confidence"], "assumed");
    plan(&desk, &["--measured", "11.5"]);
    let known = plan(&desk, &[]);
    assert!((speed(&known) / 11.5 - 1.0).abs() < 1e-3 && known["speed"]["confidence"] == "modelled", "{known}");

    let here = ["--gpu", "RTX 3060"];
    plan(&here, &["--measured", "9"]);
    assert!((speed(&plan(&here, &[])) / 9.0 - 1.0).abs() < 1e-3);
    let forgot = sandbox.plimsoll().args(["machine", "forget"]).assert().success().get_output().stdout.clone();
    assert_eq!(forgot, b"forgot how fast RAM is read\n");
    assert_eq!(plan(&here, &[])["speed"]["confidence"], "assumed");
}
