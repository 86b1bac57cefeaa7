//! `plimsoll apply` and `watch` as a script meets them.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;

use super::schema::printed;
use super::{Sandbox, refused};

/// `plimsoll apply` with a program in place of llama-server.
fn apply(sandbox: &Sandbox, script: &str) -> assert_cmd::Command {
    let server = sandbox.file("llama-server", format!("#!/bin/sh\n{script}\n").as_bytes());
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = sandbox.plimsoll();
    command.arg("apply").arg(sandbox.model("qwen3-0.6b")).args([
        "--engine",
        "llama.cpp",
        "--ctx",
        "4096",
        "--gpu",
        "none",
    ]);
    command.args(["--ram", "64GiB", "--server"]).arg(server);
    command
}

#[test]
fn nothing_is_started_without_a_terminal_to_ask_on() {
    let sandbox = Sandbox::new();
    let output = apply(&sandbox, "touch started").assert().code(2).get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("llama-server is started: ") && said.contains("--yes"), "{said}");
    assert!(!sandbox.folder.path().join("started").exists());
}

#[test]
fn a_server_that_does_not_load_is_status_4() {
    let sandbox = Sandbox::new();
    let output = apply(&sandbox, "echo 'E srv load_model: failed to load model'; exit 1").arg("--yes").assert().code(4);
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(said.contains("failed to load model") && said.contains("(exit status: 1)"), "{said}");
    let log = said.split("Its log: ").nth(1).and_then(|rest| rest.split(".log").next()).unwrap();
    std::fs::remove_file(format!("{log}.log")).unwrap();
}

#[test]
fn an_ollama_that_is_not_there_is_status_2() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    let said = refused(command.args(["apply", "catalogue:qwen3-0.6b", "--yes"]), 2);
    assert!(said.contains("Ollama loads models by their names"), "{said}");
}

#[test]
fn a_recording_is_replayed_as_text_and_as_json() {
    let sandbox = Sandbox::new();
    let recording = crate::support::tests().join("running/first-prompt.jsonl.gz");
    let replay = |more: &str| {
        let output = sandbox.plimsoll().args(["watch", "--replay"]).arg(&recording).arg(more).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).unwrap()
    };
    let text = replay("--once");
    // the recorded file is not here: what stands for it is said
    assert!(text.contains("llama-server (process") && text.contains("of the catalogue"), "{text}");
    let mut command = sandbox.plimsoll();
    let output = command.args(["watch", "--json", "--replay"]).arg(&recording).assert().success().get_output().clone();
    let lines = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let lines: Vec<serde_json::Value> = lines.map(|line| printed(&command, line)).collect();
    assert!(lines.len() > 10 && lines.iter().all(|line| line["programs"][0]["ram"]["resident"].is_u64()));
    let rubbish = sandbox.file("no.jsonl", b"hello\n");
    let said = refused(sandbox.plimsoll().args(["watch", "--replay"]).arg(rubbish), 3);
    assert!(said.contains("no recording of plimsoll watch"), "{said}");
}
