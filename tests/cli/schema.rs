//! The promise to scripts: the schemas of what is printed, and that everything printed is as they say.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::sync::{LazyLock, Mutex};

use assert_cmd::Command;
use rstest::rstest;
use serde_json::Value;

use super::{Sandbox, described, refused};
use crate::support::tests;

/// The schema of this name, as the program prints it.
fn schema_of(name: &str) -> Value {
    static KNOWN: LazyLock<Mutex<HashMap<String, Value>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap();
    let print = || {
        let output = Sandbox::new().plimsoll().args(["schema", name]).assert().success().get_output().clone();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    known.entry(name.to_owned()).or_insert_with(print).clone()
}

/// The schema's name of what a command printed.
fn name_of(arguments: &[&str], answer: &Value) -> String {
    let has = |argument: &str| arguments.contains(&argument);
    match arguments[0] {
        "plan" if answer.get("together").is_some() => "together".to_owned(),
        "export" => "plan".to_owned(),
        "devices" if has("--presets") => "devices-presets".to_owned(),
        "machine" => "machine-list".to_owned(),
        "check" if has("--ps") => "check-ps".to_owned(),
        "check" if answer.get("terms").is_some() => "check-context-fit".to_owned(),
        "check" if answer.get("running").is_some() => "check-running".to_owned(),
        command => command.to_owned(),
    }
}

/// What `command` printed, which must be as its schema says.
pub(crate) fn printed(command: &Command, text: &[u8]) -> Value {
    let answer: Value = serde_json::from_slice(text).unwrap();
    let arguments: Vec<&str> = command.get_args().filter_map(OsStr::to_str).collect();
    let name = name_of(&arguments, &answer);
    if let Err(why) = described::check(&schema_of(&name), &answer) {
        panic!("{name}: {why}\n{arguments:?}");
    }
    assert_eq!((&answer["plimsoll"], &answer["schema"]), (&env!("CARGO_PKG_VERSION").into(), &1.into()));
    answer
}

fn names() -> Vec<String> {
    let output = Sandbox::new().plimsoll().arg("schema").assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.lines().filter(|line| !line.starts_with(' '));
    first.map(|line| line.split_once("  ").unwrap().0.to_owned()).collect()
}

/// `PLIMSOLL_REGENERATE=1` writes them again. What they share with the schema of a plan stands in that one alone.
#[test]
fn schemas_are_the_promised_ones() {
    let folder = tests().join("cli/schemas");
    let names = names();
    for name in &names {
        let path = folder.join(format!("{name}.json"));
        let (mut now, plan) = (schema_of(name), schema_of("plan"));
        if name != "plan" {
            let own = now["$defs"].as_object_mut().unwrap();
            own.retain(|key, of| plan["$defs"][key] != *of);
        }
        let now = serde_json::to_string_pretty(&now).unwrap() + "\n";
        if std::env::var_os("PLIMSOLL_REGENERATE").is_some() {
            fs::write(&path, now).unwrap();
        } else {
            let promised = fs::read_to_string(&path).unwrap_or_default();
            assert!(
                promised == now,
                "{name} is another schema: PLIMSOLL_REGENERATE=1 cargo test schema writes it anew"
            );
        }
    }
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = files.collect();
    let mut wanted: Vec<String> = names.iter().map(|name| format!("{name}.json")).collect();
    files.sort();
    wanted.sort();
    assert_eq!(files, wanted);
}

/// Every object has all of its keys, and every key a type.
#[test]
fn keys_are_required_and_typed() {
    fn each(name: &str, schema: &Value, place: &str) {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            let required =
                schema["required"].as_array().unwrap_or_else(|| panic!("{name} {place}: nothing is required"));
            for (key, of) in properties {
                assert!(required.contains(&Value::from(key.as_str())), "{name} {place}: {key} may be missing");
                assert!(of.is_object(), "{name} {place}: {key} may be anything");
            }
        }
        match schema {
            Value::Object(object) => object.iter().for_each(|(key, of)| each(name, of, &format!("{place}.{key}"))),
            Value::Array(items) => items.iter().for_each(|of| each(name, of, place)),
            _ => {}
        }
    }
    for name in names() {
        let schema = schema_of(&name);
        each(&name, &schema, "");
        for key in ["plimsoll", "schema"] {
            assert!(schema["properties"][key].is_object(), "{name} has no {key}");
        }
    }
}

#[test]
fn descriptions_are_for_people() {
    for name in names() {
        let text = schema_of(&name).to_string();
        for marks in ["[`", "`]", "crate::", "](", "serde", "`None`", "`Some"] {
            assert!(
                !text.contains(marks),
                "{name} has {marks}: {}",
                &text[text.find(marks).unwrap().saturating_sub(80)..][..160]
            );
        }
    }
}

#[test]
fn unknown_schemas_are_refused() {
    assert!(refused(Sandbox::new().plimsoll().args(["schema", "plans"]), 2).contains("'plimsoll schema' lists"));
}

const MACHINES: [&[&str]; 5] = [
    &["--gpu", "none", "--ram", "64GiB"],
    &["--gpu", "RTX 4090", "--ram", "64GiB"],
    &[
        "--gpu",
        "RTX 3090",
        "--gpu",
        "name=card,total=8GiB,free=7600MiB,backend=Vulkan",
        "--ram",
        "total=64GiB,swap=8GiB",
    ],
    &["--gpu", "M2 Max 64GB"],
    &["--gpu", "RTX 3060", "--ram", "32GiB", "--join", "garage.json"],
];
const ENGINES: [&str; 3] = ["ollama", "llama.cpp", "ollama-0.24"];

const QUESTIONS: [&[&str]; 13] = [
    &["plan", "--turn", "2000,300", "--depth", "1000"],
    &["plan", "--releases", "--ctx", "max"],
    &["max"],
    &["max", "--for", "quant", "--ctx", "8192"],
    &["why", "--ctx", "32768"],
    &["best"],
    &["place"],
    &["need", "--speed", "20"],
    &["sweep", "--points", "4"],
    &["sweep", "--over", "kv-type", "--points", "3"],
    &["matrix", "--rows", "parallel", "--row-values", "1,4", "--column-values", "f16,q8_0,q4_0"],
    &["explain", "--page", "all"],
    &["export", "--as", "json"],
];

/// A sandbox with another computer for `--join`.
fn with_garage() -> Sandbox {
    let sandbox = Sandbox::new();
    let garage =
        sandbox.plimsoll().args(["devices", "--gpu", "RTX 4080", "--ram", "32GiB", "--json"]).output().unwrap();
    sandbox.file("garage.json", &garage.stdout);
    sandbox
}

/// Plans on every machine and other answers on one each, as they are promised to be. A combination may be refused in a
/// sentence.
#[rstest]
#[case::dense("llama3.1-8b")]
#[case::windows("gemma3-27b")]
#[case::experts("gpt-oss-20b")]
#[case::many_experts("qwen3-235b-a22b")]
#[case::recurrent("mamba-2.8b")]
#[case::hybrid("qwen3.5-9b")]
#[case::vision("mllama")]
fn answers_about_a_model_are_as_promised(#[case] model: &str) {
    let sandbox = with_garage();
    let file = sandbox.model(model);
    let mut answers = 0;
    let engines = ENGINES.iter().enumerate();
    for (of, question) in QUESTIONS.iter().enumerate() {
        for (by, engine) in engines.clone() {
            let machines = match question[0] {
                "plan" => &MACHINES[..],
                "need" => &[&["--ram", "64GiB"][..]],
                _ => &MACHINES[(of + by) % MACHINES.len()..][..1],
            };
            for machine in machines {
                let mut command = sandbox.plimsoll();
                command.arg(question[0]).arg(&file).args(["--engine", engine]).args(*machine).args(&question[1..]);
                if question[0] != "export" {
                    command.arg("--json");
                }
                let output = command.output().unwrap();
                if output.status.success() {
                    printed(&command, &output.stdout);
                    answers += 1;
                } else {
                    assert!([2, 3].contains(&output.status.code().unwrap()), "{question:?} {engine} {output:?}");
                }
            }
        }
    }
    assert!(answers > 20, "{answers}");
}

#[rstest]
#[case::together(&["together", "MODEL", "LARGE,ctx=64k", "--engine", "ollama", "--gpu", "24GiB", "--gpu", "name=card,total=8GiB,backend=ROCm", "--ram", "64GiB"])]
#[case::router(&["together", "MODEL", "LARGE", "--router", "llama-server", "--models-max", "1", "--engine", "llama.cpp", "--gpu", "M2 Max 64GB"])]
#[case::refused(&["together", "LARGE", "--engine", "ollama-0.24", "--gpu", "none", "--ram", "8GiB"])]
#[case::list(&["list", "qwen3", "--gpu", "RTX 3060", "--ram", "32GiB", "--turn", "1000,100"])]
#[case::list_for_a_need(&["list", "embedding", "--need", "1m", "--gpu", "none", "--ram", "8GiB"])]
#[case::list_by_an_estimator(&["list", "gemma", "--engine", "ollama-0.24", "--gpu", "24GiB", "--ram", "32GiB"])]
#[case::devices(&["devices"])]
#[case::devices_described(&["devices", "--gpu", "RTX 4090", "--gpu", "name=card,total=8GiB,backend=Vulkan", "--join", "garage.json"])]
#[case::presets(&["devices", "--presets"])]
#[case::machines(&["machine", "list"])]
#[case::a_log(&["check", "example", "--gpu", "24GiB", "--ram", "64GiB"])]
#[case::a_column(&["check", "MODEL", "--ps", "27%/73% CPU/GPU", "--gpu", "6GiB", "--ram", "32GiB"])]
#[case::config(&["config"])]
#[case::cache(&["cache"])]
#[case::nothing_to_remove(&["cache", "clear"])]
fn other_answers_are_as_promised(#[case] arguments: &[&str]) {
    let sandbox = with_garage();
    sandbox.plimsoll().args(["machine", "save", "garage", "--machine", "garage.json"]).assert().success();
    let named = |argument: &&str| {
        let model = |name| sandbox.model(name).to_str().unwrap().to_owned();
        match argument.strip_prefix("LARGE") {
            Some(knobs) => model("llama3.1-70b") + knobs,
            None if *argument == "MODEL" => model("llama3.2-1b"),
            None => (*argument).to_owned(),
        }
    };
    let mut command = sandbox.plimsoll();
    let output = command.args(arguments.iter().map(named)).arg("--json").output().unwrap();
    // 1: a check differs
    assert!([0, 1].contains(&output.status.code().unwrap()), "{output:?}");
    printed(&command, &output.stdout);
}

/// A row of CSV has as many cells as the first line has names.
#[rstest]
#[case(&["why", "MODEL", "--ctx", "32768"])]
#[case(&["best", "MODEL"])]
#[case(&["need", "MODEL"])]
#[case(&["sweep", "MODEL", "--points", "3"])]
#[case(&["matrix", "MODEL", "--row-values", "4096"])]
#[case(&["together", "MODEL", "MODEL,ctx=32k"])]
#[case(&["list", "qwen3"])]
#[case(&["list", "no-model-has-this-name"])]
#[case(&["devices"])]
#[case(&["devices", "--presets"])]
#[case(&["machine", "list"])]
#[case(&["check", "example"])]
#[case(&["cache"])]
#[case(&["config"])]
fn rows_are_printed_as_csv(#[case] arguments: &[&str]) {
    let sandbox = with_garage();
    sandbox.plimsoll().args(["machine", "save", "my garage", "--machine", "garage.json"]).assert().success();
    let mut command = sandbox.plimsoll();
    for argument in arguments {
        let model = || sandbox.model("llama3.1-8b").to_str().unwrap().to_owned();
        command.arg(argument.strip_prefix("MODEL").map_or_else(|| (*argument).to_owned(), |knobs| model() + knobs));
    }
    if !["machine", "cache", "config", "need"].contains(&arguments[0]) && !arguments.contains(&"--presets") {
        command.args(["--gpu", "name=card,total=8GiB,free=7600MiB"]);
    }
    let output = command.arg("--csv").output().unwrap();
    assert!([0, 1].contains(&output.status.code().unwrap()), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let cells = |line: &str| {
        let mut quoted = false;
        let ends = |c: &char| {
            quoted ^= *c == '"';
            *c == ',' && !quoted
        };
        line.chars().filter(ends).count() + 1
    };
    let mut lines = text.lines();
    let columns = cells(lines.next().unwrap());
    assert!(columns > 2, "{text}");
    let rows: Vec<&str> = lines.collect();
    assert!(rows.iter().all(|row| cells(row) == columns), "{text}");
    let may_be_empty = arguments.contains(&"no-model-has-this-name") || arguments[0] == "cache";
    assert_eq!(rows.is_empty(), may_be_empty, "{text}");
}

#[rstest]
#[case(&["sweep"])]
#[case(&["matrix"])]
#[case(&["need"])]
fn what_cannot_be_planned_is_refused_in_every_form(#[case] question: &[&str]) {
    let sandbox = Sandbox::new();
    let refuse = |form: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.args(question).arg(sandbox.model("llama3.1-8b")).args(["--engine", "llama.cpp", "--spec-type"]);
        refused(command.args(["draft-mtp", "--ram", "64GiB"]).args(form), 2)
    };
    let said = refuse(&[]);
    for form in ["--json", "--csv"] {
        assert_eq!(refuse(&[form]), said);
    }
}
