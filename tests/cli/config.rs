//! The configuration file: options over the environment, the environment over the file.

use std::fs;
use std::path::PathBuf;

use predicates::str::contains;
use serde_json::Value;

use super::{Sandbox, json, refused};

const MACHINE: [&str; 4] = ["--gpu", "24GiB", "--ram", "64GiB"];

/// Writes the file, and returns its path.
fn configure(sandbox: &Sandbox, text: &str) -> PathBuf {
    let said = sandbox.plimsoll().arg("config").assert().success().get_output().stdout.clone();
    let path = PathBuf::from(String::from_utf8(said).unwrap().lines().next().unwrap());
    assert!(path.starts_with(sandbox.folder.path()), "{}", path.display());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

fn planned(sandbox: &Sandbox, more: &[&str]) -> Value {
    json(sandbox.plimsoll().args(["plan", "catalogue:qwen3-8b", "--ctx", "8192"]).args(more))
}

#[test]
fn options_stand_over_variables_and_variables_over_the_file() {
    let sandbox = Sandbox::new();
    let engine = |variable: Option<&str>, more: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.envs(variable.map(|value| ("PLIMSOLL_ENGINE", value)));
        let command = command.args(["plan", "catalogue:qwen3-8b"]).args(MACHINE).args(more);
        json(command)["engine"].as_str().unwrap().to_owned()
    };
    assert_eq!(engine(None, &[]), "ollama");
    configure(&sandbox, "engine = \"llama.cpp\"\nrelease = \"2026-08\"\n");
    assert_eq!(engine(None, &[]), "llama.cpp");
    assert_eq!(planned(&sandbox, &MACHINE)["release"], "2026-08");
    assert_eq!(engine(Some("ollama-0.24"), &[]), "ollama-0.24");
    assert_eq!(engine(Some("ollama-0.24"), &["--engine", "ollama-0.11"]), "ollama-0.11");
}

#[test]
fn margins_are_kept_and_said() {
    let sandbox = Sandbox::new();
    configure(&sandbox, "engine = 'ollama-0.24'\nmargin = '3GiB'\ngpu-overhead = '2GiB'\n");
    let plan = planned(&sandbox, &MACHINE);
    let notes = plan["notes"].to_string();
    assert!(notes.contains("--gpu-overhead 2.0 GiB, by config.toml"), "{notes}");
    let other = json(
        sandbox.plimsoll().env("OLLAMA_GPU_OVERHEAD", "1073741824").args(["plan", "catalogue:qwen3-8b"]).args(MACHINE),
    );
    assert!(!other["notes"].to_string().contains("config.toml"), "{other}");
    let raw = planned(&sandbox, &[&MACHINE[..], &["--raw-settings"]].concat());
    assert!(!raw["notes"].to_string().contains("config.toml"), "{raw}");
    let best = sandbox.plimsoll().args(["best", "catalogue:qwen3-8b"]).args(MACHINE).assert().success();
    best.stdout(contains("3.0 GiB"));
}

#[test]
fn the_file_names_a_machine_and_this_is_the_present_one() {
    let sandbox = Sandbox::new();
    sandbox.plimsoll().args(["machine", "save", "garage", "--gpu", "RTX 3060", "--ram", "32GiB"]).assert().success();
    configure(&sandbox, "machine = \"garage\"\n");
    let plan = planned(&sandbox, &[]);
    assert_eq!(plan["devices"][0]["name"], "RTX 3060");
    assert!(plan["notes"].to_string().contains("machine 'garage', by config.toml"), "{plan}");
    let nowhere = ["--nvml", "/nowhere/nvml.so", "--sysfs", sandbox.folder.path().to_str().unwrap()];
    let here = planned(&sandbox, &[&["--machine", "this"], &nowhere[..]].concat());
    assert_eq!(here["devices"][0]["id"], "CPU");
    // what is about this machine stays so
    let devices = json(sandbox.plimsoll().arg("devices").args(nowhere));
    assert_eq!((&devices["origin"], devices["devices"].as_array().unwrap().len()), (&"detected".into(), 1));
    configure(&sandbox, "machine = \"garag\"\n");
    let said = refused(sandbox.plimsoll().args(["plan", "catalogue:qwen3-8b"]), 2);
    assert!(said.starts_with("error: machine in config.toml: 'garag' is neither"), "{said}");
}

#[test]
fn lists_are_judged_by_the_context_in_the_file() {
    let sandbox = Sandbox::new();
    configure(&sandbox, "need = \"16k\"\n");
    let judged = |more: &[&str]| {
        let list = json(sandbox.plimsoll().args(["list", "qwen3-0.6b"]).args(MACHINE).args(more));
        list["models"][0]["ctx"].as_u64().unwrap()
    };
    assert_eq!((judged(&[]), judged(&["--need", "8k"]), judged(&["--ctx", "4096"])), (16_384, 8192, 4096));
}

#[test]
fn a_broken_file_is_one_sentence_and_status_2() {
    let sandbox = Sandbox::new();
    for (text, wanted) in [
        ("engine = llama.cpp\n", ", line 1, engine: "),
        ("\nmargn = '1GiB'\n", ", line 2, margn: there is no such key: did you mean 'margin'?"),
        ("theme = 'pink'\n", ", line 1, theme: 'pink' is not a theme: use dark"),
        ("refresh = []\n", ", line 1, refresh: this is neither text nor a number: write refresh = 5"),
    ] {
        let path = configure(&sandbox, text);
        for command in [&["plan", "catalogue:qwen3-8b", "--gpu", "none"][..], &["config"], &["list"], &["report"]] {
            let said = refused(sandbox.plimsoll().args(command), 2);
            assert!(said.starts_with(&format!("error: '{}'{wanted}", path.display())), "{command:?}: {said}");
        }
        // what needs no defaults still works
        sandbox.plimsoll().args(["config", "--example"]).assert().success();
        sandbox.plimsoll().args(["devices", "--presets", "4090"]).assert().success();
        fs::remove_file(path).unwrap();
    }
    let path = configure(&sandbox, "");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(refused(sandbox.plimsoll().arg("config"), 2).contains("it is a folder"));
    fs::remove_dir(&path).unwrap();
    fs::write(&path, b"\xff\xfe").unwrap();
    assert!(refused(sandbox.plimsoll().arg("config"), 2).contains("not UTF-8"));
}

#[test]
fn values_in_effect_are_shown_with_who_set_them() {
    let sandbox = Sandbox::new();
    let before = sandbox.plimsoll().arg("config").assert().success();
    before.stdout(contains("it does not exist yet")).stdout(contains("engine        ollama"));
    configure(&sandbox, "engine = 'llama.cpp'\n# mine\nneed = 12000\ntheme = 'light'\n");
    let said = sandbox
        .plimsoll()
        .arg("config")
        .env_remove("NO_COLOR")
        .envs([("PLIMSOLL_NEED", "8k"), ("LLAMA_ARG_FIT_TARGET", "512"), ("TERM", "xterm"), ("COLORFGBG", "15;0")])
        .assert()
        .success();
    let text = String::from_utf8(said.get_output().stdout.clone()).unwrap();
    let row = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{key} "))).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("engine"), "engine llama.cpp line 1");
    assert_eq!(row("need"), "need 8k PLIMSOLL_NEED");
    assert_eq!(row("fit-target"), "fit-target 512 LLAMA_ARG_FIT_TARGET");
    assert_eq!(row("theme"), "theme light line 4");
    assert_eq!(row("machine"), "machine this default");
    let dumb = sandbox.plimsoll().arg("config").env("NO_COLOR", "1").assert().success();
    dumb.stdout(contains("mono")).stdout(contains("terminal"));
}
