//! The README files say what is true: their tables are generated, what they link to exists, and their test command is the
//! one that CI runs.
//!
//! `PLIMSOLL_REGENERATE=1 cargo test readme` writes the tables again.

mod accuracy;
mod catalogue;
mod estimators;
mod keys;
mod plan;
mod speeds;

use std::env;
use std::fs;
use std::sync::{Mutex, PoisonError};

use crate::support::root;

/// The README files, from the project's folder.
const FILES: [&str; 9] = [
    "README.md",
    "CONTRIBUTING.md",
    "assets/README.md",
    "packaging/README.md",
    "tests/README.md",
    "tests/check/README.md",
    "tests/llama_cpp/README.md",
    "tests/ollama_030/README.md",
    "tests/speeds/README.md",
];

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

/// Asserts that `table` stands between the markers of `section` in `file`, or writes it there.
pub fn check_table(file: &str, section: &str, table: &str) {
    // two sections of one file may be written at once
    static WRITING: Mutex<()> = Mutex::new(());
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let (begin, end) = (format!("<!-- {section}:begin -->"), format!("<!-- {section}:end -->"));
    let readme = read(file);
    let (before, rest) = readme.split_once(&begin).unwrap_or_else(|| panic!("{file} has no line {begin}"));
    let (shown, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{file} has no line {end}"));
    if env::var_os("PLIMSOLL_REGENERATE").is_some() {
        fs::write(root().join(file), format!("{before}{begin}\n\n{}\n\n{end}{after}", table.trim())).unwrap();
    } else {
        assert_eq!(shown.trim(), table.trim(), "{file} is out of date: run PLIMSOLL_REGENERATE=1 cargo test readme");
    }
}

#[test]
fn the_front_page_is_short_and_begins_with_a_picture() {
    let readme = read("README.md");
    let lines: Vec<_> = readme.lines().collect();
    assert!(lines.len() <= 260, "{} lines", lines.len());
    assert!(lines[2].starts_with("!["), "{}", lines[2]);
}

#[test]
fn links_lead_to_files() {
    let mut links = 0;
    for file in FILES {
        let text = read(file);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
        for target in targets.filter(|target| !target.starts_with("https://")) {
            let path = root().join(file).parent().unwrap().join(target);
            assert!(path.exists(), "{file} links to {target}, which does not exist");
            links += 1;
        }
    }
    assert!(links >= 8, "{links}");
}

#[test]
fn the_test_command_is_what_ci_runs_first() {
    let readme = read("README.md");
    let promised = readme.lines().find(|line| line.starts_with("cargo test")).unwrap();
    let promised = promised.split('#').next().unwrap().trim();
    let ci = read(".ci/run");
    let steps: Vec<_> = ci.lines().filter_map(|line| line.strip_prefix("step cargo ")).collect();
    let first = steps.iter().find(|step| !step.starts_with("metadata")).unwrap();
    assert_eq!(format!("cargo {first}"), promised);
}
