//! Text from files that would move the cursor, colour the screen or turn the direction of what follows is never printed.

use plimsoll::gguf::write::Encoding;
use plimsoll::machine::spec::MachineSpec;
use plimsoll::settings::Settings;
use plimsoll::text::is_printable;
use plimsoll::tui::theme::Appearance;

use super::Sandbox;
use crate::harness::{self, Harness};
use crate::support::{self, description};

/// Escape sequences, control characters and marks of direction.
const HOSTILE: &str = "a\u{1b}[2J\u{1b}]0;t\u{7}\u{1b}[31mb\u{9b}1mc\u{202e}d\u{2066}e\u{200f}f\u{61c}g\r\nh\u{2028}i";

/// A model's file whose strings are hostile, as far as they are not needed to read it; also the names of two tensors.
fn hostile(model: &str) -> String {
    let mut json: serde_json::Value = serde_json::from_str(&support::model_json(model)).unwrap();
    let kv = json["kv"].as_object_mut().unwrap();
    for key in ["general.name", "general.basename", "general.author", "general.description", &format!("x{HOSTILE}")] {
        kv.insert(key.to_owned(), serde_json::json!(["string", HOSTILE]));
    }
    json.to_string()
}

fn assert_clean(what: &str, out: &[u8]) {
    let text = String::from_utf8_lossy(out);
    let wrong = text.chars().find(|&c| !(is_printable(c) || matches!(c, '\n' | '\t')));
    assert_eq!(wrong, None, "{what}\n{text:?}");
}

#[test]
fn no_command_prints_what_is_not_printable() {
    let sandbox = Sandbox::new();
    let bytes = description::bytes(&hostile("qwen2.5-0.5b"), Encoding::default()).unwrap();
    let file = sandbox.file(&format!("m{}.gguf", HOSTILE.replace(['/', '\n', '\r'], "")), &bytes);
    let file = file.to_str().unwrap();
    let log = sandbox.file(
        "log",
        format!(
            "{HOSTILE}\nllama_model_loader: loaded meta data with 26 key-value pairs and 291 tensors from \
             /m/{}.gguf (version GGUF V3 (latest))\nload_tensors: CUDA0{HOSTILE} model buffer size = 400.00 MiB\n\
             load_tensors:        CUDA0 model buffer size =   400.00 MiB\n",
            HOSTILE.replace('\n', "")
        )
        .as_bytes(),
    );
    let machine = ["--gpu", "name=a\u{1b}[31m\u{202e}b,total=2GiB", "--ram", "64GiB", "--engine", "llama.cpp"];
    let mut runs: Vec<Vec<&str>> = Vec::new();
    for command in ["plan", "max", "why", "best", "place", "sweep", "matrix", "together"] {
        runs.push(vec![command, file]);
        runs.push(vec![command, file, "--json"]);
    }
    for command in ["sweep", "matrix"] {
        runs.push(vec![command, file, "--csv"]);
    }
    for form in ["json", "markdown", "svg", "scenario"] {
        runs.push(vec!["export", file, "--as", form]);
    }
    for page in ["formulas", "cache", "schedule", "allocation", "lessons"] {
        for form in ["--markdown", "--json", "--svg"] {
            runs.push(vec!["explain", file, "--page", page, form]);
        }
        runs.push(vec!["explain", file, "--page", page]);
    }
    runs.push(vec!["explain", file, "--page", "all", "--markdown"]);
    runs.push(vec!["report", file]);
    runs.push(vec!["plan", "--verbose", file]);
    let log = log.to_str().unwrap();
    for run in runs {
        let output = sandbox.plimsoll().args(&run).args(machine).output().unwrap();
        assert!(!output.stdout.is_empty(), "{run:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_clean(&format!("{run:?}"), &output.stdout);
        assert_clean(&format!("{run:?}"), &output.stderr);
    }
    for run in [vec!["need", file], vec!["need", file, "--json"], vec!["need", file, "--csv"]] {
        let output = sandbox.plimsoll().args(&run).args(["--ram", "64GiB"]).output().unwrap();
        assert!(!output.stdout.is_empty(), "{run:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_clean(&format!("{run:?}"), &output.stdout);
    }
    for run in [vec!["check", log, "--model", file], vec!["check", log, "--model", file, "--json"], vec!["check", log]]
    {
        let output = sandbox.plimsoll().args(&run).output().unwrap();
        assert_clean(&format!("{run:?}"), &output.stdout);
        assert_clean(&format!("{run:?}"), &output.stderr);
    }
    // what a shell reads would name another file
    let output = sandbox.plimsoll().args(["export", file, "--as", "llama-server"]).args(machine).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
    assert_clean("export", &output.stderr);
    // errors quote paths and names
    for run in [vec!["plan", HOSTILE], vec!["plan", "qwen\u{202e}3-8b\u{1b}[2J"], vec!["list", HOSTILE]] {
        let output = sandbox.plimsoll().args(&run).args(["--ram", "8GiB", "--gpu", "none"]).output().unwrap();
        assert_clean(&format!("{run:?}"), &output.stdout);
        assert_clean(&format!("{run:?}"), &output.stderr);
    }
}

#[test]
fn no_screen_shows_what_is_not_printable() {
    let header = description::header(&hostile("qwen2.5-0.5b")).unwrap();
    let model = plimsoll::model::Model::from_header(header, "file").unwrap();
    assert!(model.name.chars().all(is_printable), "{:?}", model.name);
    let card = format!("name={},total=24GiB", HOSTILE.replace(',', ""));
    let machine = MachineSpec::read(&[card], Some("64GiB")).unwrap().complete(harness::machine(1, "RTX 3090", 24, 64));
    let mut harness = Harness::with(Some(model), machine, (140, 45), Settings::default(), Appearance::BEST);
    for keys in ["", "i", "Esc n", "Esc w", "Esc W", "Esc s", "Esc x", "Esc g", "Esc t", "Esc e"] {
        harness.press(keys);
        let text = harness.text();
        let wrong = text.chars().find(|&c| !(is_printable(c) || c == '\n'));
        assert_eq!(wrong, None, "after {keys}\n{text}");
        assert!(harness.svg().chars().all(|c| is_printable(c) || c == '\n'), "the picture after {keys}");
    }
}
