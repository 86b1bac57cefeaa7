//! One name an idea: what CONTRIBUTING says an idea is not called is nowhere in what the program prints.

use super::Sandbox;
use crate::support::root;

/// Names that are not used, from the table of CONTRIBUTING.
fn unused() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let (_, table) = text.split_once("<!-- words:begin -->").unwrap();
    let (table, _) = table.split_once("<!-- words:end -->").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(2);
    let names = rows.filter_map(|row| row.split('|').nth(3));
    let names: Vec<String> = names.flat_map(|names| names.split(',')).map(|name| name.trim().to_owned()).collect();
    assert!(names.len() >= 10 && names.iter().all(|name| !name.is_empty()), "{names:?}");
    names
}

#[test]
fn each_idea_has_one_name() {
    let unused = unused();
    let sandbox = Sandbox::new();
    let machines: [&[&str]; 4] = [
        &["--gpu", "RTX 3060", "--ram", "32GiB"],
        &["--gpu", "RTX 4090", "--gpu", "RTX 3060", "--ram", "64GiB"],
        &["--gpu", "M4 Max 64GB"],
        &["--gpu", "none", "--ram", "16GiB"],
    ];
    let models = ["catalogue:qwen3-14b", "catalogue:gpt-oss-20b", "catalogue:gemma4-12b"];
    let mut asked = 0;
    for machine in machines {
        for model in models {
            for question in ["plan", "why", "max", "best", "place", "sweep", "matrix", "export"] {
                let mut command = sandbox.plimsoll();
                command.args([question, model, "--ctx", "32k", "--engine", "llama.cpp"]).args(machine);
                let output = command.output().unwrap();
                let printed = [output.stdout, output.stderr].concat();
                let printed = String::from_utf8(printed).unwrap().to_lowercase();
                let found: Vec<&String> = unused.iter().filter(|name| printed.contains(&name.to_lowercase())).collect();
                assert!(found.is_empty(), "{question} {model} {machine:?}: {found:?} in\n{printed}");
                asked += usize::from(!printed.is_empty());
            }
        }
    }
    assert!(asked > 80, "{asked}");
    for command in ["plan", "list", "best", "why", "need", "check"] {
        let help = String::from_utf8(sandbox.plimsoll().args([command, "--help"]).output().unwrap().stdout).unwrap();
        assert!(unused.iter().all(|name| !help.to_lowercase().contains(name)), "{command} --help");
    }
}
