//! Manual pages and completions.

use std::fs;

use predicates::str::{contains, starts_with};
use rstest::rstest;

use super::{Sandbox, refused};

#[test]
fn the_manual_page_describes_the_program() {
    let sandbox = Sandbox::new();
    let page = sandbox.plimsoll().arg("man").assert().success();
    page.stdout(contains(".TH plimsoll 1")).stdout(contains("plimsoll\\-plan(1)")).stdout(contains("PLIMSOLL_THEME"));
}

#[test]
fn a_folder_gets_a_page_per_command() {
    let sandbox = Sandbox::new();
    sandbox.plimsoll().args(["man", "--folder", "share/man1"]).assert().success().stdout("");
    let pages: Vec<_> = fs::read_dir(sandbox.folder.path().join("share/man1")).unwrap().collect();
    let read = |name: &str| fs::read_to_string(sandbox.folder.path().join("share/man1").join(name)).unwrap();
    assert!(pages.len() > 15, "{pages:?}");
    assert!(read("plimsoll-plan.1").contains("\\-\\-kv\\-type"), "{}", read("plimsoll-plan.1"));
    assert!(read("plimsoll-machine-save.1").contains("\\-\\-force"));
    sandbox.file("taken", b"");
    refused(sandbox.plimsoll().args(["man", "--folder", "taken"]), 1);
}

#[rstest]
#[case("bash", "_plimsoll()")]
#[case("zsh", "#compdef plimsoll")]
#[case("fish", "# Print")]
fn completions_are_written(#[case] shell: &str, #[case] start: &str) {
    let script = Sandbox::new().plimsoll().args(["completions", shell]).assert().success();
    if shell == "fish" {
        script.stdout(contains("-a \"report\""));
    } else {
        script.stdout(starts_with(start)).stdout(contains("report"));
    }
}
