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

/// The targets that the release workflow builds for.
#[cfg(target_os = "linux")]
fn targets() -> Vec<String> {
    let workflow = std::fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    let named = workflow.lines().filter_map(|line| line.split_once("{ target: ")?.1.split_once(','));
    named.map(|(target, _)| target.to_owned()).collect()
}

/// Runs a command of a shell in `folder`, with the variables.
#[cfg(target_os = "linux")]
fn shell(folder: &Path, command: &str, variables: &[(&str, &str)]) -> String {
    let mut bash = Command::new("bash");
    let output = bash.args(["-euc", command]).envs(variables.iter().copied()).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{command}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The archive of this very program, and for other targets something under their name.
#[cfg(target_os = "linux")]
fn manifests_of_all_targets(folder: &Path) -> String {
    let here = "x86_64-unknown-linux-gnu";
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let archives = folder.join("archives");
    let said = shell(&root(), &format!(".ci/archive {here} {program} {}", archives.display()), &[]);
    let name = Path::new(said.lines().last().unwrap()).file_name().unwrap().to_str().unwrap().to_owned();
    for target in targets().iter().filter(|target| *target != here) {
        let other = name.replace(here, target);
        let other = if target.contains("windows") { other.replace(".tar.gz", ".zip") } else { other };
        std::fs::write(archives.join(other), target).unwrap();
    }
    shell(&root(), &format!(".ci/manifests {0}/archives {0}/manifests", folder.display()), &[]);
    name
}

#[cfg(target_os = "linux")]
#[test]
fn every_manifest_names_what_is_in_the_archives() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let name = manifests_of_all_targets(folder);
    let read = |file: &str| std::fs::read_to_string(folder.join("manifests").join(file)).unwrap();
    let sums = read("SHA256SUMS");
    assert_eq!(sums.lines().count(), targets().len(), "{sums}");
    let sum_of = |target: &str| {
        let line = sums.lines().find(|line| line.contains(target)).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };

    let scoop: serde_json::Value = serde_json::from_str(&read("plimsoll.json")).unwrap();
    assert_eq!(scoop["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(scoop["architecture"]["64bit"]["hash"], sum_of("windows"));
    let url = scoop["architecture"]["64bit"]["url"].as_str().unwrap();
    assert!(url.starts_with(env!("CARGO_PKG_REPOSITORY")) && url.ends_with("windows-msvc.zip"), "{url}");

    let formula = read("plimsoll.rb");
    for target in targets().iter().filter(|target| !target.contains("windows") && !target.contains("musl")) {
        assert!(formula.contains(&sum_of(target)) && formula.contains(&format!("{target}.tar.gz")), "{target}");
    }

    // what Homebrew installs and what Arch Linux packs is in the archive
    shell(folder, &format!("mkdir src && tar -xzf archives/{name} -C src"), &[]);
    let inside = folder.join("src").join(name.strip_suffix(".tar.gz").unwrap());
    for quoted in formula.lines().filter(|line| line.contains(".install")) {
        let file = quoted.split('"').nth(1).unwrap().replace("*.1", "plimsoll.1");
        assert!(inside.join(&file).is_file(), "{file}");
    }
    let pack = "source ../manifests/PKGBUILD; package";
    let pkgdir = folder.join("packed");
    shell(&folder.join("src"), pack, &[("CARCH", "x86_64"), ("pkgdir", pkgdir.to_str().unwrap())]);
    for file in ["bin/plimsoll", "share/man/man1/plimsoll-plan.1", "share/zsh/site-functions/_plimsoll"] {
        assert!(pkgdir.join("usr").join(file).is_file(), "{file}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_steps_of_the_container_install_a_program_that_plans() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    manifests_of_all_targets(folder);
    std::fs::create_dir_all(folder.join("root/bin")).unwrap();
    let root = folder.join("root").display().to_string();
    let steps = std::fs::read_to_string(folder.join("manifests/Containerfile")).unwrap();
    let (mut plan, mut target) = (String::new(), String::new());
    for step in steps.lines() {
        let inside = |text: &str| text.replace("/usr/local/bin", "$ROOT/bin").replace("/tmp/", "$ROOT/");
        let command = match step.split_once(' ') {
            Some(("ARG", default)) => {
                target = default.to_owned();
                continue;
            }
            Some(("COPY", what)) => format!("{target}; cp {}", inside(what)),
            Some(("RUN", command)) => format!("{target}; {}", inside(command)),
            _ => continue,
        };
        let path = format!("{root}/bin:{}", std::env::var("PATH").unwrap());
        plan = shell(&folder.join("archives"), &command, &[("ROOT", &root), ("PATH", &path)]);
    }
    assert!(plan.contains("Qwen3 8B"), "{plan}");
    assert!(steps.contains("FROM ") && steps.contains("ENTRYPOINT [\"plimsoll\"]"), "{steps}");
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
