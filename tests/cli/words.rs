//! One name an idea: what CONTRIBUTING says an idea is not called is nowhere in what the program prints.

use plimsoll::engine::EngineId;
use plimsoll::machine::spec::MachineSpec;
use plimsoll::settings::{Context, Settings};

use super::Sandbox;
use crate::fixtures;
use crate::harness::Harness;
use crate::support::root;

/// Names that are not used, from the table of CONTRIBUTING.
fn unused() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let (_, table) = text.split_once("<!-- words:begin -->").unwrap();
    let (table, _) = table.split_once("<!-- words:end -->").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(2);
    let names = rows.filter_map(|row| row.split('|').nth(3));
    let names = names.flat_map(|names| names.split(',')).map(|name| name.trim().to_owned());
    let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    assert!(names.len() >= 20, "{names:?}");
    names
}

/// A graph has no size: `graph 180 MiB`, `180 MiB of graph` and a column of that name are compute buffers.
fn sized_graphs(printed: &str) -> Vec<&str> {
    const SIZED: [&str; 4] = ["ib graph", "ib of graph", "■ graph", "▒ graph"];
    let is_sized = |line: &&str| {
        // a row of columns
        if ["weights", "cache", "graph"].iter().all(|title| line.split_whitespace().any(|word| word == *title)) {
            return true;
        }
        let after = line.split("graph ").skip(1);
        let mut numbers = after.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains("ib"));
        SIZED.iter().any(|sized| line.contains(sized)) || numbers.next().is_some()
    };
    printed.lines().filter(is_sized).collect()
}

/// None of the `unused` names is in what is `printed` by `what`.
fn check(unused: &[String], what: &str, printed: &str) {
    let printed = printed.to_lowercase();
    let found: Vec<&String> = unused.iter().filter(|name| printed.contains(&name.to_lowercase())).collect();
    assert!(found.is_empty(), "{what}: {found:?} in\n{printed}");
    let sized = sized_graphs(&printed);
    assert!(sized.is_empty(), "{what}: {sized:#?}");
}

/// Every page of the planner, on a card that holds a model, one that does not, and unified memory.
#[test]
fn each_idea_has_one_name_on_screens() {
    let unused = unused();
    let keys = [
        "",
        "n",
        "⇧Tab Enter",
        "⇧Tab i",
        "Tab Enter",
        "Tab Tab Enter",
        "i",
        "s",
        "w",
        "W",
        "c H",
        "x",
        "p",
        "g",
        "e",
        "E",
        "L",
        "v",
        "a",
        "b",
        "t",
        "?",
        "H",
        "o",
        "V",
    ];
    for (machine, engine) in
        [("RTX 3060", EngineId::LlamaCpp), ("RTX 3060", EngineId::Ollama024), ("M4 Max 64GB", EngineId::Ollama)]
    {
        let machine = MachineSpec::read(&[machine.to_owned()], None).unwrap();
        let (gpus, ram) = (machine.gpus.unwrap(), machine.ram);
        let mut described = fixtures::machine(gpus);
        described.ram = ram.unwrap_or(described.ram);
        for keys in keys {
            let settings = Settings { ctx: Context::Tokens(32_768), ..Settings::default() };
            let model = plimsoll::catalogue::model("qwen3-14b").unwrap();
            let mut harness = Harness::by(engine, model, described.clone(), (140, 45), settings);
            harness.press(keys);
            harness.answer_limits();
            harness.think();
            check(&unused, &format!("{engine} {keys}"), &harness.text());
        }
    }
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
            for question in ["plan", "why", "max", "best", "place", "sweep", "matrix", "export", "need", "report"] {
                let mut command = sandbox.plimsoll();
                command.args([question, model, "--ctx", "32k", "--engine", "llama.cpp"]).args(machine);
                let output = command.output().unwrap();
                let printed = [output.stdout, output.stderr].concat();
                let printed = String::from_utf8(printed).unwrap().to_lowercase();
                check(&unused, &format!("{question} {model} {machine:?}"), &printed);
                asked += usize::from(!printed.is_empty());
            }
        }
    }
    assert!(asked > 80, "{asked}");
    let commands =
        ["plan", "list", "best", "why", "need", "check", "max", "sweep", "matrix", "place", "together", "export"];
    for command in commands.into_iter().chain(["explain", "devices", "machine", "apply", "watch", "report", "config"]) {
        let help = String::from_utf8(sandbox.plimsoll().args([command, "--help"]).output().unwrap().stdout).unwrap();
        assert!(!help.is_empty(), "{command}");
        check(&unused, &format!("{command} --help"), &help);
    }
}
