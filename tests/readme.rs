//! What README.md shows of the program is made of the program: tables between two markers, pictures that exist, and the
//! commands that it promises.
//!
//! `PLIMSOLL_REGENERATE=1 cargo test readme` writes the tables anew.

mod accuracy;
mod catalogue;
mod keys;

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::support::root;

fn path() -> PathBuf {
    root().join("README.md")
}

/// Compares what stands between the markers of `section` with `table`, or writes it there.
fn keeps(section: &str, table: &str) {
    // two sections may be written at once
    static README: Mutex<()> = Mutex::new(());
    let _alone = README.lock().unwrap_or_else(PoisonError::into_inner);
    let (begin, end) = (format!("<!-- {section}:begin -->"), format!("<!-- {section}:end -->"));
    let readme = fs::read_to_string(path()).unwrap();
    let (before, rest) = readme.split_once(&begin).unwrap_or_else(|| panic!("README.md has no line {begin}"));
    let (shown, after) = rest.split_once(&end).unwrap_or_else(|| panic!("README.md has no line {end}"));
    if env::var_os("PLIMSOLL_REGENERATE").is_some() {
        fs::write(path(), format!("{before}{begin}\n\n{}\n\n{end}{after}", table.trim())).unwrap();
    } else {
        assert_eq!(shown.trim(), table.trim(), "run PLIMSOLL_REGENERATE=1 cargo test readme");
    }
}

#[test]
fn its_pictures_exist() {
    let readme = fs::read_to_string(path()).unwrap();
    let pictures: Vec<_> =
        readme.split("](screenshots/").skip(1).filter_map(|rest| rest.split_once(')').map(|(name, _)| name)).collect();
    assert!(pictures.len() >= 3, "{pictures:?}");
    for name in pictures {
        assert!(
            root().join("screenshots").join(name).exists(),
            "README.md shows screenshots/{name}, which is not there"
        );
    }
}

#[test]
fn its_test_command_is_what_ci_runs_first() {
    let readme = fs::read_to_string(path()).unwrap();
    let promised = readme.lines().find(|line| line.starts_with("cargo test")).unwrap();
    let promised = promised.split('#').next().unwrap().trim();
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    let steps: Vec<_> = ci.lines().filter_map(|line| line.strip_prefix("step cargo ")).collect();
    let first = steps.iter().find(|step| !step.starts_with("metadata")).unwrap();
    assert_eq!(format!("cargo {first}"), promised);
}
