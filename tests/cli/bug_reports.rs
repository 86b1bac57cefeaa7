//! `--log` and `plimsoll report`.

use std::fs;

use super::{Sandbox, refused};

const MACHINE: [&str; 4] = ["--gpu", "24GiB", "--ram", "64GiB"];

#[test]
fn the_log_says_what_was_done_and_keeps_secrets() {
    let sandbox = Sandbox::new();
    let model = sandbox.model("llama3.1-8b");
    let log = sandbox.folder.path().join("plimsoll.log");
    let mut command = sandbox.plimsoll();
    command.arg("--log").arg(&log).arg("plan").arg(&model).args(MACHINE);
    command.args(["--server-env", "OLLAMA_API_KEY=hush"]);
    command.env("HF_TOKEN", "hush").env("HTTPS_PROXY", "http://me:hush@proxy").assert().success();
    let text = fs::read_to_string(&log).unwrap();
    for part in
        ["arguments: ", "opened '", "292 tensors", "detected 0 GPUs", "planned in ", "HF_TOKEN=…", "HTTPS_PROXY=…"]
    {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(!text.contains("hush") && !text.contains('\u{1b}'), "{text}");

    // behind what is in it, and also for what fails
    let mut failing = sandbox.plimsoll();
    failing.args(["plan", "https://me:hush@127.0.0.1:9/m.gguf?sig=hush"]).args(MACHINE).env("PLIMSOLL_LOG", &log);
    refused(&mut failing, 3);
    let more = fs::read_to_string(&log).unwrap();
    assert!(more.starts_with(&text) && more.contains("exit status 3"), "{more}");
    assert!(!more.contains("hush"), "{more}");
    if cfg!(feature = "net") {
        assert!(more.contains("GET https://127.0.0.1:9/m.gguf: "), "{more}");
    }
}

#[test]
fn a_log_that_cannot_be_written_is_refused() {
    let sandbox = Sandbox::new();
    let said = refused(sandbox.plimsoll().args(["devices", "--log", "/no/such/folder/log"]), 2);
    assert!(said.starts_with("error: --log: '/no/such/folder/log' cannot be written: "), "{said}");
    let said = refused(sandbox.plimsoll().arg("devices").env("PLIMSOLL_LOG", "/no/such/folder/log"), 2);
    assert!(said.starts_with("error: PLIMSOLL_LOG: "), "{said}");
}

#[test]
fn a_report_has_what_an_issue_needs() {
    let sandbox = Sandbox::new();
    let model = sandbox.model("llama3.1-8b");
    let mut command = sandbox.plimsoll();
    command.arg("report").arg(&model).args(MACHINE).args(["--ctx", "32768"]).env("HF_TOKEN", "hush");
    let text = String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap();
    for part in [
        concat!("plimsoll ", env!("CARGO_PKG_VERSION"), " on "),
        "--ctx 32768",
        "### Configuration",
        "### Machine",
        "### Model",
        "GGUF version 3",
        "292 tensors of ",
        "general.architecture = llama",
        "llama.attention.head_count_kv = 8",
        "### Plan",
        "All in VRAM",
        "~/llama3.1-8b.gguf",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let home = sandbox.folder.path().display().to_string();
    assert!(!text.contains("hush") && !text.contains(&home), "{text}");
    assert_eq!(text.matches("```").count() % 2, 0, "{text}");
}

#[test]
fn a_report_says_what_failed() {
    let sandbox = Sandbox::new();
    let report = |model: &str, more: &[&str]| {
        let said = sandbox.plimsoll().args(["report", model]).args(MACHINE).args(more).assert().success();
        String::from_utf8(said.get_output().stdout.clone()).unwrap()
    };
    sandbox.file("broken.gguf", b"GGUF\x03\0\0\0");
    let text = report("broken.gguf", &[]);
    assert!(text.contains("### Machine") && text.contains("### Model\n\n```text\nerror: "), "{text}");
    let text = report("catalogue:qwen3-8b", &["--engine", "llama.cpp", "--kv-type", "q4_0", "--flash-attn", "off"]);
    assert!(text.contains("### Plan\n\n```text\nerror: ") || text.contains("refuses"), "{text}");
    let text = String::from_utf8(
        sandbox.plimsoll().arg("report").args(MACHINE).assert().success().get_output().stdout.clone(),
    )
    .unwrap();
    assert!(text.contains("the built-in one") && text.contains("### Plan"), "{text}");
}
