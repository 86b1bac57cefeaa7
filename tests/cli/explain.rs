//! `plimsoll explain`: the teach screen's pages, printed.

use plimsoll::page::markdown::Escaped;
use plimsoll::teach::{Tab, lessons};
use rstest::rstest;
use serde_json::Value;

use super::{Sandbox, json, refused};

const MACHINE: [&str; 4] = ["--gpu", "name=card,total=8GiB,free=7600MiB", "--ram", "64GiB"];

fn explained(sandbox: &Sandbox, arguments: &[&str]) -> assert_cmd::Command {
    let mut command = sandbox.plimsoll();
    command.arg("explain").arg(sandbox.model("llama3.1-8b")).args(MACHINE).args(arguments);
    command
}

/// The one page that it prints.
fn page(command: &mut assert_cmd::Command) -> Value {
    let mut answer = json(command);
    let pages = answer["pages"].as_array_mut().unwrap();
    assert_eq!(pages.len(), 1);
    pages.remove(0)
}

#[rstest]
#[case("llama.cpp", &["--ctx", "8192"])]
#[case("llama.cpp", &["--ctx", "32768", "--flash-attn", "off"])]
#[case("ollama", &["--ctx", "16384", "--parallel", "2"])]
fn the_allocation_is_the_plans_graph_device_by_device(#[case] engine: &str, #[case] knobs: &[&str]) {
    let sandbox = Sandbox::new();
    let arguments = [&["--engine", engine], knobs].concat();
    let page = page(explained(&sandbox, &arguments).args(["--page", "allocation"]));
    let mut planned = sandbox.plimsoll();
    planned.arg("plan").arg(sandbox.model("llama3.1-8b")).args(MACHINE).args(&arguments);
    let plan = json(&mut planned);
    let graphs = |value: &Value, key: &str| -> Vec<(Value, Value)> {
        let devices = value["devices"].as_array().unwrap();
        devices.iter().map(|device| (device["id"].clone(), device[key].clone())).collect()
    };
    assert_eq!(graphs(&page, "peak"), graphs(&plan, "graph"));
    for device in page["devices"].as_array().unwrap() {
        assert!(device["peak_node"].is_string());
        let alive = device["alive"].as_array().unwrap();
        let end = |life: &Value| life["offset"].as_u64().unwrap() + life["bytes"].as_u64().unwrap();
        assert_eq!(alive.iter().map(end).max(), device["peak"].as_u64(), "something reaches the end of the buffer");
    }
}

/// What is loaded beside the model is named where a page shows the memory of devices, and the parts sum to the whole.
#[test]
fn pages_name_projectors_and_drafts() {
    let sandbox = Sandbox::new();
    let page = |name: &str| {
        let mut command = sandbox.plimsoll();
        command.args(["explain", "catalogue:gemma3-4b", "--engine", "llama.cpp", "--ctx", "4096", "--page", name]);
        command.args(["--model-draft", "catalogue:gemma3-270m", "--spec-type", "draft-simple"]).args(MACHINE);
        page(&mut command)
    };
    let formulas = page("formulas");
    let bytes = |node: &Value| node["amount"]["bytes"].as_u64().unwrap();
    for (kind, beside) in [(0, 2), (1, 1), (2, 2)] {
        let node = &formulas["whole"]["parts"][kind];
        let parts = node["parts"].as_array().unwrap();
        let named = parts.iter().filter(|part| part["name"].as_str().unwrap().ends_with("loaded beside"));
        assert_eq!(named.count(), beside, "{node:#}");
        assert_eq!(parts.iter().map(bytes).sum::<u64>(), bytes(node), "{}", node["name"]);
    }
    let remark = page("allocation")["remark"].as_str().unwrap().to_owned();
    assert!(remark.contains("for the vision projector and") && remark.ends_with("for the draft."), "{remark}");
    assert_eq!(page("schedule")["remark"], remark.as_str());
    let cache = page("cache");
    let caches = &formulas["whole"]["parts"][1];
    assert_eq!(cache["planned"].as_u64().unwrap() + cache["draft"].as_u64().unwrap(), bytes(caches));
}

#[test]
fn pages_print_in_four_formats() {
    let sandbox = Sandbox::new();
    let output = |form: &[&str]| {
        let arguments = [&["--engine", "llama.cpp", "--ctx", "8192", "--page", "allocation"], form].concat();
        let output = explained(&sandbox, &arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = output(&[]);
    assert!(text.contains("without reuse") && !text.contains('\u{1b}'), "{text}");
    let markdown = output(&["--markdown"]);
    assert!(markdown.starts_with("# ") && markdown.contains("| tensor | shape |"), "{markdown}");
    assert!(output(&["--svg"]).starts_with("<svg "));
    assert!(serde_json::from_str::<Value>(&output(&["--json"])).is_ok());
}

#[rstest]
#[case("formulas", "llama.cpp", "allocated memory")]
#[case("formulas", "ollama-0.24", "Larger branch")]
#[case("cache", "ollama-0.24", "GQA, 32 Q heads, 8 KV heads")]
fn formulas_and_caches_print_in_four_formats(#[case] page: &str, #[case] engine: &str, #[case] description: &str) {
    let sandbox = Sandbox::new();
    let output = |form: &[&str]| {
        let arguments = [&["--engine", engine, "--ctx", "8192", "--page", page], form].concat();
        let output = explained(&sandbox, &arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(output(&[]).contains(description), "{}", output(&[]));
    assert!(output(&["--markdown"]).starts_with("# "));
    assert!(output(&["--svg"]).starts_with("<svg "));
    let value: Value = serde_json::from_str(&output(&["--json"])).unwrap();
    assert_eq!(value["pages"][0]["page"], page);
}

#[test]
fn the_formulas_add_up_to_the_plan() {
    let sandbox = Sandbox::new();
    let arguments = ["--engine", "ollama-0.24", "--ctx", "32768"];
    let page = page(explained(&sandbox, &arguments).args(["--page", "formulas"]));
    let mut planned = sandbox.plimsoll();
    planned.arg("plan").arg(sandbox.model("llama3.1-8b")).args(MACHINE).args(arguments);
    let plan = json(&mut planned);
    assert_eq!(page["whole"]["amount"]["bytes"], plan["totals"]["all"]);
    let parts = page["whole"]["parts"].as_array().unwrap();
    let bytes: Vec<&Value> = parts.iter().map(|part| &part["amount"]["bytes"]).collect();
    assert_eq!(bytes, [&plan["totals"]["weights"], &plan["totals"]["cache"], &plan["totals"]["graph"]]);
}

#[test]
fn one_lesson_or_all_of_them_are_printed() {
    let sandbox = Sandbox::new();
    let output = |arguments: &[&str]| {
        let output = explained(&sandbox, &["--page", "lessons"]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let all: Value = serde_json::from_str(&output(&["--json"])).unwrap();
    let all = all["pages"].as_array().unwrap();
    assert!(all.len() >= 8);
    let second: Value = serde_json::from_str(&output(&["--lesson", "2", "--json"])).unwrap();
    let second = &second["pages"][0];
    assert_eq!(*second, all[1]);
    let title = second["title"].as_str().unwrap();
    let drawn = output(&["--lesson", "2"]);
    assert!(drawn.contains(title) && drawn.contains("Question: ") && !drawn.contains("Answer: "), "{drawn}");
    let answered = output(&["--lesson", "2", "--answers"]);
    assert!(answered.contains("Answer: "), "{answered}");
    let markdown = output(&["--markdown"]);
    let titles: Vec<&str> = markdown.lines().filter_map(|line| line.strip_prefix("# ")).collect();
    let escaped = |lesson: &Value| Escaped::of(lesson["title"].as_str().unwrap()).to_string();
    assert_eq!(titles, all.iter().map(escaped).collect::<Vec<_>>());
}

#[test]
fn a_handout_has_every_page_with_its_picture_and_caption() {
    let sandbox = Sandbox::new();
    let folder = sandbox.folder.path().join("handout");
    let arguments = ["--engine", "llama.cpp", "--ctx", "8192", "--page", "all", "--markdown", "--output"];
    let output = explained(&sandbox, &arguments).arg(&folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let handout = std::fs::read_to_string(folder.join("handout.md")).unwrap();
    let pictures: Vec<&str> =
        handout.lines().filter_map(|line| line.strip_prefix("![")?.split_once("](")?.1.strip_suffix(')')).collect();
    let (contents, rest) = handout.split_once("\n<a id=").unwrap();
    assert!(contents.starts_with("# Contents\n"), "{contents}");
    let linked: Vec<&str> = contents.lines().filter_map(|line| line.rsplit_once("](#")?.1.strip_suffix(')')).collect();
    let anchors: Vec<&str> =
        handout.lines().filter_map(|line| line.strip_prefix("<a id=\"")?.strip_suffix("\"></a>")).collect();
    assert_eq!(linked, anchors);
    assert_eq!(linked[linked.len() - 2..], ["glossary", "answers"], "after the pages");
    for title in rest.lines().filter_map(|line| line.strip_prefix("# ")) {
        assert!(contents.contains(&format!("[{title}]")), "{title}");
    }
    // the lessons are a page of many pictures
    let pages = Tab::ALL.len() - 1 + lessons::all().len();
    assert_eq!(pictures.len(), pages, "{pictures:?}");
    for name in pictures {
        let picture = std::fs::read_to_string(folder.join(name)).unwrap();
        assert!(picture.contains("#fbfcfd"), "{name} is for paper");
        for words in [">Press<", ">press<", ">Enter<", "PgDn", "Space:"] {
            assert!(!picture.contains(words), "{name} speaks of keys: {words}");
        }
    }
    let (before, answers) = handout.split_once("\n# Answers\n").unwrap();
    assert!(!before.contains("Answer: "), "answers are on the last page");
    assert_eq!(answers.lines().filter(|line| line.starts_with("## ")).count(), plimsoll::teach::lessons::all().len());
    let captions = handout.lines().filter(|line| line.starts_with('*') && line.contains("plimsoll"));
    assert_eq!(captions.clone().count(), pages);
    for caption in captions {
        for part in ["GiB of RAM", "context ", "parallel "] {
            assert!(caption.contains(part), "{caption} lacks {part}");
        }
        let weights = caption.split(" · ").nth(1).unwrap();
        assert!(weights.contains(|c: char| c.is_ascii_digit()) && weights.len() < 12, "{caption} lacks the weights");
        assert!(!caption.contains('?'), "{caption}");
        assert!(caption.contains("file of 20") || caption.contains("catalogue of 20"), "{caption}");
    }
}

#[test]
fn a_handout_overwrites_nothing_unless_forced() {
    let sandbox = Sandbox::new();
    let folder = sandbox.folder.path().join("handout");
    let written = |more: &[&str]| {
        let mut command = explained(&sandbox, &["--engine", "llama.cpp", "--ctx", "8192", "--markdown", "--output"]);
        command.arg(&folder).args(["--page", "formulas"]).args(more);
        command
    };
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("formulas.svg"), "mine").unwrap();
    let said = refused(&mut written(&[]), 1);
    assert!(said.contains("formulas.svg' exists") && said.contains("--force"), "{said}");
    let names = || std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(names(), 1, "all or none");
    assert_eq!(std::fs::read_to_string(folder.join("formulas.svg")).unwrap(), "mine");
    written(&["--force"]).assert().success();
    assert_eq!(names(), 3, "a page, the glossary and the handout");
    assert_ne!(std::fs::read_to_string(folder.join("formulas.svg")).unwrap(), "mine");
    refused(&mut written(&[]), 1);
}

#[test]
fn formulas_stand_beside_those_of_another_engine() {
    let sandbox = Sandbox::new();
    let arguments = ["--engine", "llama.cpp", "--ctx", "8192", "--page", "formulas", "--versus", "ollama-0.24"];
    let page = page(&mut explained(&sandbox, &arguments));
    let versus = &page["versus"];
    assert_eq!(versus["whole"][0], page["whole"]["amount"]["bytes"]);
    for (at, part) in page["whole"]["parts"].as_array().unwrap().iter().enumerate() {
        assert_eq!(versus["parts"][at]["bytes"][0], part["amount"]["bytes"]);
    }
    let output = explained(&sandbox, &arguments).arg("--markdown").output().unwrap();
    let markdown = String::from_utf8(output.stdout).unwrap();
    assert!(markdown.contains("## llama.cpp, release 2026-11 beside Ollama ≤ 0.24"), "{markdown}");
    assert!(refused(explained(&sandbox, &["--page", "cache"]).args(["--versus", "ollama"]), 2).contains("formulas"));
}

#[test]
fn unknown_lessons_are_refused() {
    let sandbox = Sandbox::new();
    let ask = |page: &str, number: &str| refused(&mut explained(&sandbox, &["--page", page, "--lesson", number]), 2);
    let count = plimsoll::teach::lessons::all().len();
    let numbers = format!("1 to {count}");
    assert!(ask("lessons", "0").contains(&numbers));
    assert!(ask("lessons", &(count + 1).to_string()).contains(&numbers));
    assert!(ask("cache", "1").contains("--page lessons"));
}

#[test]
fn unknown_pages_are_refused() {
    let sandbox = Sandbox::new();
    let sentence = refused(explained(&sandbox, &[]).args(["--page", "nowhere"]), 2);
    assert!(sentence.contains("allocation"), "{sentence}");
}

/// A walk moves, one step of it stands, as text or as a picture; what has no steps says what has.
#[test]
fn walks_are_drawn_step_by_step() {
    let sandbox = Sandbox::new();
    let printed = |arguments: &[&str]| {
        let output = explained(&sandbox, arguments).assert().success().get_output().stdout.clone();
        String::from_utf8(output).unwrap()
    };
    let moving = printed(&["--page", "layers", "--animate", "--light"]);
    assert!(
        moving.starts_with("<svg ") && moving.contains("@keyframes") && moving.contains("#fbfcfd"),
        "{moving:.400}"
    );
    let lesson = printed(&["--lesson", "3", "--animate"]);
    assert!(lesson.contains(&*lessons::all()[2].title), "{lesson:.400}");
    let step = printed(&["--page", "layers", "--step", "3"]);
    assert!(step.contains("2 of") && step.contains("▸Layers"), "{step}");
    assert!(printed(&["--page", "layers", "--step", "3", "--svg"]).starts_with("<svg "));
    for (arguments, named) in [
        (&["--page", "formulas", "--animate"][..], "layers, schedule, allocation, cache"),
        (&["--page", "glossary", "--step", "1"], "layers, schedule, allocation, cache"),
        (&["--page", "lessons", "--animate"], "--lesson N"),
        (&["--page", "all", "--animate"], "choose one"),
        (&["--page", "layers", "--step", "999"], "from 1 to"),
        (&["--page", "layers", "--step", "0"], "--step"),
        (&["--page", "layers", "--light"], "--svg or --animate"),
        (&["--lesson", "99", "--animate"], "1 to"),
    ] {
        let sentence = refused(&mut explained(&sandbox, arguments), 2);
        assert!(sentence.contains(named), "{arguments:?}: {sentence}");
    }
}

/// Whether a tag of HTML stands in Markdown, outside of blocks of plain text.
fn tags(text: &str) -> Vec<String> {
    let mut plain = false;
    let lines = text.lines().filter(|line| {
        plain ^= line.starts_with("```");
        !plain
    });
    let raw = |line: &&str| {
        let line = line.replace("\\<", "");
        line.contains('<') && !line.starts_with("<a id=\"")
    };
    lines.filter(raw).map(str::to_owned).collect()
}

#[test]
fn no_name_becomes_a_tag_of_markdown() {
    let sandbox = Sandbox::new();
    let mut model: Value = serde_json::from_str(&crate::support::model_json("qwen2.5-0.5b")).unwrap();
    model["kv"]["general.name"] = serde_json::json!(["string", "</text><b>x"]);
    let bytes =
        crate::support::description::bytes(&model.to_string(), plimsoll::gguf::write::Encoding::default()).unwrap();
    let file = sandbox.file("m.gguf", &bytes);
    let asked =
        [file.to_str().unwrap(), "--gpu", "name=<img src=x>,total=8GiB", "--ram", "64GiB", "--engine", "llama.cpp"];
    let mut command = sandbox.plimsoll();
    command.arg("explain").args(asked).args(["--page", "all", "--markdown"]);
    let text = String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap();
    assert!(text.contains(r"\</text\>\<b\>x") && text.contains(r"\<img src=x\>"), "{text}");
    assert_eq!(tags(&text), Vec::<String>::new());
    sandbox
        .plimsoll()
        .arg("explain")
        .args(asked)
        .args(["--page", "all", "--markdown", "--output", "handout"])
        .assert()
        .success();
    let handout = std::fs::read_to_string(sandbox.folder.path().join("handout/handout.md")).unwrap();
    assert!(handout.contains(r"\</text\>\<b\>x"), "{handout}");
    assert_eq!(tags(&handout), Vec::<String>::new());
    let mut export = sandbox.plimsoll();
    export.arg("export").args(asked).args(["--as", "markdown"]);
    let text = String::from_utf8(export.assert().success().get_output().stdout.clone()).unwrap();
    assert_eq!(tags(&text), Vec::<String>::new());
}
