//! What the packaged crate holds: all that it is built from, and no test data.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::support::root;

#[test]
fn the_package_has_its_sources_and_assets_and_nothing_of_the_tests() {
    let mut list = Command::new(env!("CARGO"));
    list.args(["package", "--list", "--allow-dirty", "--offline"]);
    let output = list.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap().replace('\\', "/");
    let packed: BTreeSet<&str> = text.lines().collect();
    let mut wanted = BTreeSet::new();
    for folder in ["src", "assets"] {
        files(&root().join(folder), folder, &mut wanted);
    }
    let missing: Vec<_> = wanted.iter().filter(|file| !packed.contains(file.as_str())).collect();
    assert!(missing.is_empty() && wanted.len() > 300, "not packed: {missing:?}");
    // cargo itself adds the last three
    let besides = ["README.md", "CHANGELOG.md", "LICENSE", "Cargo.toml", "Cargo.toml.orig", "Cargo.lock"];
    let known = |file: &&&str| wanted.contains(**file) || besides.contains(*file) || **file == ".cargo_vcs_info.json";
    let others: Vec<_> = packed.iter().filter(|file| !known(file)).collect();
    assert!(others.is_empty(), "packed without need: {others:?}");
}

/// Adds the paths of all files in `folder`, which is called `name`.
fn files(folder: &Path, name: &str, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{name}/{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            files(&entry.path(), &name, found);
        } else {
            found.insert(name);
        }
    }
}
