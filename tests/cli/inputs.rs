//! Every file that a person names, or that is found, is read within limits: one sentence, at once, whatever stands there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;

use rstest::rstest;

use super::{Sandbox, refused};

/// No run may take longer, on a busy computer too.
const LIMIT: Duration = Duration::from_secs(20);

/// A way to a file: where it is put, the arguments that lead to it, and the exit status if it cannot be read.
pub(super) struct Input {
    pub(super) place: &'static str,
    pub(super) arguments: &'static [&'static str],
    status: i32,
}

const fn input(place: &'static str, arguments: &'static [&'static str], status: i32) -> Input {
    Input { place, arguments, status }
}

const MODEL: &str = "catalogue:qwen3-8b";

pub(super) const INPUTS: [Input; 14] = [
    input(".config/plimsoll/config.toml", &["config"], 2),
    input(".config/plimsoll/machines/garage.json", &["devices", "--machine", "garage"], 2),
    input(".config/plimsoll/lessons/own.toml", &["explain", MODEL, "--page", "lessons"], 2),
    input("machine.json", &["devices", "--machine", "machine.json"], 2),
    input("joined.json", &["devices", "--gpu", "8GiB", "--ram", "8GiB", "--join", "joined.json"], 2),
    input("course/own.toml", &["explain", MODEL, "--page", "lessons", "--lessons", "course"], 2),
    input("Modelfile", &["plan", MODEL, "--modelfile", "Modelfile"], 2),
    input("compose.yaml", &["plan", "--command", "compose.yaml"], 2),
    input("plan.toml", &["plan", "plan.toml"], 3),
    input("server.log", &["check", "server.log"], 3),
    input("recording.jsonl", &["watch", "--once", "--replay", "recording.jsonl"], 3),
    input("model.gguf", &["plan", "model.gguf"], 3),
    input("mmproj.gguf", &["plan", MODEL, "--engine", "llama.cpp", "--mmproj", "mmproj.gguf"], 3),
    input("draft.gguf", &["plan", MODEL, "--engine", "llama.cpp", "--model-draft", "draft.gguf"], 3),
];

impl Input {
    /// Its one line of error.
    fn refused(&self, sandbox: &Sandbox) -> String {
        refused(sandbox.plimsoll().args(self.arguments).timeout(LIMIT), self.status)
    }

    fn is_a(&self, ending: &str) -> bool {
        Path::new(self.place).extension().is_some_and(|of| of == ending)
    }

    /// The place, whose folder is made.
    pub(super) fn place(&self, sandbox: &Sandbox) -> PathBuf {
        let place = sandbox.folder.path().join(self.place);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        place
    }
}

/// What is no file of a person, and what is said of it.
#[cfg(unix)]
#[rstest]
#[case::pipe("a pipe", &["a device or a pipe", "a pipe or a device"])]
#[case::zeros("/dev/zero", &["a device or a pipe", "a pipe or a device"])]
#[case::folder("a folder", &["is a folder"])]
#[case::endless("five gigabytes", &["longer than", "starts with zeros", "not a GGUF file", "five gigabytes"])]
fn what_is_no_file_is_refused_at_once(#[case] what: &str, #[case] said: &[&str]) {
    for input in &INPUTS {
        let sandbox = Sandbox::new();
        let place = input.place(&sandbox);
        match what {
            "a pipe" => assert!(Process::new("mkfifo").arg(&place).status().unwrap().success()),
            "a folder" => fs::create_dir(&place).unwrap(),
            "five gigabytes" => fs::File::create(&place).unwrap().set_len(5 << 30).unwrap(),
            device => std::os::unix::fs::symlink(device, &place).unwrap(),
        }
        let line = input.refused(&sandbox);
        let name = Path::new(input.place).file_stem().unwrap().to_str().unwrap();
        assert!(line.contains(name), "{line}");
        let is_header = input.is_a("gguf") && what == "five gigabytes";
        assert!(is_header || said.iter().any(|part| line.contains(part)), "{}: {line}", input.place);
    }
}

#[test]
fn what_is_no_text_is_refused() {
    // a log may have any bytes in it, and a header is none
    let texts = INPUTS.iter().filter(|input| !input.is_a("gguf") && !input.is_a("log"));
    for input in texts {
        let sandbox = Sandbox::new();
        fs::write(input.place(&sandbox), b"\xff\xfe\x00engine = 1\n").unwrap();
        let line = input.refused(&sandbox);
        assert!(line.contains("not UTF-8 text") || input.is_a("jsonl"), "{}: {line}", input.place);
    }
}

/// Text that nests, or that stands for a longer one.
fn deep(depth: usize) -> Vec<(&'static str, String)> {
    let nested = |open: &str, inner: &str, close: &str| open.repeat(depth) + inner + &close.repeat(depth);
    let alias = |n: usize| format!("  a{}: &a{} [{}]\n", n + 1, n + 1, format!("*a{n},").repeat(9));
    let aliases = (0..40).map(alias).collect::<Vec<_>>().concat();
    vec![
        ("toml", format!("note = {}\n", nested("[", "1", "]"))),
        ("toml", format!("note = {}\n", nested("{a=", "1", "}"))),
        ("toml", format!("{} = 1\n", vec!["a"; depth].join("."))),
        ("toml", format!("[{}]\n", vec!["a"; depth].join("."))),
        ("json", nested("[", "1", "]")),
        ("json", nested("{\"devices\":", "1", "}")),
        ("yaml", format!("services:\n  a:\n    command: {}\n", nested("[", "x", "]"))),
        ("yaml", format!("services:\n  a:\n    command: {}\n", nested("{a: ", "x", "}"))),
        ("yaml", format!("x-a:\n  a0: &a0 [x]\n{aliases}services:\n  b:\n    image: *a40\n    command: *a40\n")),
    ]
}

#[test]
fn what_nests_is_refused_at_once() {
    for input in &INPUTS {
        let ending = match Path::new(input.place).extension().and_then(|ending| ending.to_str()) {
            Some("jsonl") => "json",
            Some(ending @ ("json" | "toml" | "yaml")) => ending,
            _ => continue,
        };
        for (_, text) in deep(100_000).into_iter().chain(deep(300)).filter(|(kind, _)| *kind == ending) {
            let sandbox = Sandbox::new();
            fs::write(input.place(&sandbox), &text).unwrap();
            // it can be read, and what it says is wrong
            let status = if input.place == "plan.toml" { 2 } else { input.status };
            let line = refused(sandbox.plimsoll().args(input.arguments).timeout(LIMIT), status);
            assert!(line.len() < 2000, "{}: {line}", input.place);
        }
    }
}

#[test]
fn standard_input_has_limits_too() {
    let sandbox = Sandbox::new();
    let endless = vec![b'a'; (1 << 20) + 1];
    let said = refused(sandbox.plimsoll().args(["plan", "--command", "-"]).write_stdin(endless).timeout(LIMIT), 2);
    assert!(said.contains("standard input cannot be read: it is longer than 1 MiB"), "{said}");
    let bytes: &[u8] = b"llama-server -m \xff";
    let said = refused(sandbox.plimsoll().args(["plan", "--command", "-"]).write_stdin(bytes), 2);
    assert!(said.contains("not UTF-8"), "{said}");
}

/// Files that are found and may be missing: what cannot be read there is as if it were not, at once.
#[cfg(unix)]
#[test]
fn what_is_found_does_not_wait_for_a_pipe() {
    let places = [
        ".config/plimsoll/measured.json",
        ".cache/plimsoll/recent",
        ".cache/huggingface/token",
        ".cache/huggingface/hub/models--o--r/refs/main",
        ".ollama/models/manifests/registry.ollama.ai/library/m/1b",
    ];
    for place in places {
        let sandbox = Sandbox::new();
        let path = input(place, &[], 0).place(&sandbox);
        assert!(Process::new("mkfifo").arg(&path).status().unwrap().success());
        for arguments in [&["list", "m:1b", "--gpu", "8GiB"][..], &["devices", "--ram", "8GiB"], &["list", "hf://o/r"]]
        {
            let output = sandbox.plimsoll().args(arguments).timeout(LIMIT).output().unwrap();
            assert!(output.status.code().is_some(), "{place}: {arguments:?}");
        }
    }
}

/// What the fuzzers begin with, and what they found: an answer, or one sentence.
#[test]
fn the_texts_of_the_corpus_are_read() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    for (folder, arguments) in [
        ("scenario", &["plan", "FILE", "--gpu", "24GiB"][..]),
        ("machine", &["devices", "--machine", "FILE"]),
        ("command", &["plan", "--command", "FILE", "--gpu", "24GiB", "--offline"]),
        ("lessons", &["explain", MODEL, "--page", "lessons", "--lessons", "FOLDER", "--gpu", "24GiB"]),
        ("config", &["config"]),
    ] {
        let files: Vec<PathBuf> =
            fs::read_dir(corpus.join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!files.is_empty(), "{folder}");
        for file in files {
            let sandbox = Sandbox::new();
            let (course, config) =
                (sandbox.folder.path().join("course"), sandbox.folder.path().join(".config/plimsoll"));
            fs::create_dir_all(&course).unwrap();
            fs::create_dir_all(&config).unwrap();
            fs::copy(&file, course.join("own.toml")).unwrap();
            if folder == "config" {
                fs::copy(&file, config.join("config.toml")).unwrap();
            }
            let arguments = arguments.iter().map(|word| match *word {
                "FILE" => file.to_str().unwrap(),
                "FOLDER" => "course",
                word => word,
            });
            let output = sandbox.plimsoll().args(arguments).timeout(LIMIT).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(matches!(output.status.code(), Some(0 | 2 | 3)), "{}: {said}", file.display());
            assert!(output.status.success() || said.lines().count() == 1, "{}: {said}", file.display());
        }
    }
}

/// Texts whose work grows faster than they do, found by fuzzing: each is answered at once.
#[rstest]
#[case::a_long_option("command", &format!("llama-server -m a.gguf --{}", "k".repeat(200_000)))]
#[case::many_options("command", &format!("llama-server -m a.gguf {}", "--zzopt 1 ".repeat(20_000)))]
#[case::many_keys("command", &format!("[own]\nmodel = a.gguf\n{}", numbered("zz# = 1\n")))]
#[case::doubling("command", &format!("a=x\n{}llama-server -m $a", "a=\"$a$a\"\n".repeat(60)))]
#[case::open_braces("command", &format!("llama-server -m {}", "${".repeat(50_000)))]
#[case::many_servers("command", &format!("services:\n{}", numbered("  a#: {image: ollama/ollama, command: serve}\n")))]
#[case::many_commands("command", &"ollama run a\n".repeat(50_000))]
#[case::a_long_card("scenario", &format!("model = \"catalogue:qwen3-8b\"\n[machine]\ngpu = [\"RTX {}\"]", "0".repeat(200_000)))]
#[case::a_long_knob("scenario", &format!("[knobs]\n{} = 1", "k".repeat(200_000)))]
#[case::a_long_model("scenario", &format!("model = \"{}\"", "k".repeat(200_000)))]
#[case::a_long_engine("scenario", &format!("engine = \"{}\"", "k".repeat(200_000)))]
#[case::a_long_key("config", &format!("{} = 1", "k".repeat(200_000)))]
#[case::a_long_figure("lessons", &lesson_of(&"k".repeat(200_000)))]
fn no_text_takes_long(#[case] kind: &str, #[case] text: &str) {
    let sandbox = Sandbox::new();
    let (place, arguments): (&'static str, &[&str]) = match kind {
        "command" => ("a.txt", &["plan", "--command", "a.txt", "--gpu", "24GiB", "--offline"]),
        "scenario" => ("a.toml", &["plan", "a.toml", "--gpu", "24GiB", "--offline"]),
        "lessons" => ("course/a.toml", &["explain", MODEL, "--page", "lessons", "--lessons", "course"]),
        _ => (".config/plimsoll/config.toml", &["config"]),
    };
    fs::write(input(place, &[], 2).place(&sandbox), text).unwrap();
    let output = sandbox.plimsoll().args(arguments).timeout(LIMIT).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 2 | 3)), "{:?}: {said}", output.status);
    assert!(said.len() < 8000, "{}", said.len());
}

fn numbered(line: &str) -> String {
    (0..20_000).map(|n: u32| line.replace('#', &n.to_string())).collect::<Vec<_>>().concat()
}

/// A lesson of the corpus, one of whose figures is of `this`.
fn lesson_of(this: &str) -> String {
    include_str!("../corpus/lessons/lesson-1.toml").replace("of = \"graph\"", &format!("of = \"{this}\""))
}
