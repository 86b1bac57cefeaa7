//! The plan that the README shows is the one that the program prints.

use assert_cmd::Command;

use super::check_table;

/// Shown as far as the table of devices.
#[test]
fn the_plan_on_the_front_page_is_what_the_program_prints() {
    let arguments = ["plan", "catalogue:qwen3-14b", "--gpu", "RTX 3060", "--ram", "32GiB", "--ctx", "16k"];
    let nowhere = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(arguments).env_clear().env("HOME", nowhere.path()).env("NO_COLOR", "1");
    let output = command.assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    let shown: Vec<&str> = text.lines().take_while(|line| !line.starts_with("besides,")).collect();
    assert!(shown.iter().any(|line| line.starts_with("GPU0")), "{text}");
    let typed = "plimsoll plan catalogue:qwen3-14b --gpu \"RTX 3060\" --ram 32GiB --ctx 16k";
    check_table("README.md", "plan", &format!("```console\n$ {typed}\n{}\n```", shown.join("\n").trim_end()));
}
