//! The text report, the help and the completions.

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use rstest::rstest;

use super::Sandbox;
use crate::support;

fn text(command: &mut Command) -> String {
    let output = command.assert().success().stderr("").get_output().clone();
    String::from_utf8(output.stdout).unwrap()
}

#[rstest]
#[case("fits", "llama3.1-8b", &["--gpu", "name=RTX 4090,total=24GiB,free=23GiB"])]
#[case("split", "gemma3-27b", &["--gpu", "name=RTX 3060,total=12GiB,free=11GiB", "--ctx", "16384"])]
#[case("two-gpus", "mixtral-8x7b", &["--gpu", "16GiB", "--gpu", "name=B,total=24GiB,free=20GiB,backend=ROCm", "--parallel", "4"])]
#[case("too-much", "llama3.1-70b", &["--gpu", "8GiB", "--ctx", "131072", "--ubatch", "64"])]
fn a_plan_reads_well(#[case] name: &str, #[case] model: &str, #[case] arguments: &[&str]) {
    let text = text(Sandbox::new().plan(model).args(arguments));
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= 80, "{longest} columns:\n{text}");
    assert!(text.lines().all(|line| line.trim_end() == line), "spaces at the end of a line:\n{text}");
    insta::assert_snapshot!(format!("cli-{name}"), text);
}

#[test]
fn experts_in_ram_are_mentioned() {
    let output = Sandbox::new()
        .plimsoll()
        .args(["plan", "catalogue:qwen3-30b-a3b", "--raw-settings", "--gpu", "total=8GiB", "--ram", "64GiB"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().nth(1).unwrap().starts_with("◐ Experts in RAM    49 of 49 "), "{text}");
    let state = text.split("\n\n").nth(1).unwrap().replace('\n', " ");
    assert!(state.starts_with("At 4\u{2009}096 tokens, f16 KV: 10.7 GiB of weights run from RAM. GPU0 "), "{text}");
}

#[test]
fn every_model_reads_well() {
    let sandbox = Sandbox::new();
    for name in support::model_names() {
        for machine in [
            &["--gpu", "4GiB", "--flash-attn", "off"][..],
            &["--gpu", "48GiB", "--ctx", "1099511627776"],
            &["--gpu", "none"],
        ] {
            let output = sandbox.plan(&name).args(machine).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            match output.status.code() {
                Some(0) => {
                    let text = String::from_utf8(output.stdout).unwrap();
                    let wide = text.lines().find(|line| line.chars().count() > 80 || line.trim_end() != *line);
                    assert_eq!((wide, said.as_ref()), (None, ""), "{name} {machine:?}");
                }
                // the model lacks something that the engine needs
                Some(3) => assert_eq!(said.lines().count(), 1, "{name} {machine:?}: {said}"),
                other => panic!("{name} {machine:?}: {other:?} {said}"),
            }
        }
    }
}

#[test]
fn names_from_files_cannot_control_the_terminal() {
    let sandbox = Sandbox::new();
    let mut bytes = std::fs::read(sandbox.model("llama3.1-8b")).unwrap();
    let name = b"Llama 3.1 8B";
    let at = bytes.windows(name.len()).position(|found| found == name).unwrap();
    bytes[at..at + 4].copy_from_slice(b"\x1b[2J");
    let path = sandbox.file("bold.gguf", &bytes);
    let text = text(sandbox.plimsoll().arg("plan").arg(path).args(["--gpu", "24GiB", "--ram", "64GiB"]));
    assert!(!text.contains('\u{1b}') && text.contains("[2Ja 3.1 8B"), "{text}");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let sandbox = Sandbox::new();
    let model = sandbox.model("llama3.1-8b");
    let program = sandbox.plimsoll().get_program().to_owned();
    let mut child = std::process::Command::new(program)
        .arg("plan")
        .arg(model)
        .args(["--gpu", "24GiB", "--ram", "64GiB", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn help_is_grouped_and_has_examples() {
    let sandbox = Sandbox::new();
    let groups =
        || contains("Knobs:").and(contains("Machine:")).and(contains("Examples:")).and(contains("--gpu-layers"));
    sandbox.plimsoll().arg("--help").assert().success().stdout(groups()).stderr("");
    sandbox
        .plimsoll()
        .args(["plan", "--help"])
        .assert()
        .success()
        .stdout(groups().and(contains("Exit status:")))
        .stderr("");
    sandbox.plimsoll().arg("--version").assert().success().stdout(contains(env!("CARGO_PKG_VERSION")));
}

#[rstest]
#[case("bash")]
#[case("zsh")]
#[case("fish")]
#[case("powershell")]
#[case("elvish")]
fn completions_know_the_flags(#[case] shell: &str) {
    let text = text(Sandbox::new().plimsoll().args(["completions", shell]));
    assert!(text.contains("gpu-layers") && text.contains("devices"), "{text}");
}
