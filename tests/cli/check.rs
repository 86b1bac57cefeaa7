//! `check`: a log beside its plan.

use assert_cmd::Command;
use rstest::rstest;
use serde_json::Value;

use super::schema::printed;
use super::{Sandbox, json, refused};
use crate::observed::samples::samples;

/// The text of a sample.
fn raw(id: &str) -> String {
    let samples = samples();
    let sample = samples.iter().find(|sample| sample["id"] == id).unwrap();
    let (raw, command) = (sample["raw"].as_str().unwrap(), sample["command"].as_str().unwrap_or_default());
    let command = if command.starts_with("llama-server -") && !raw.contains(" -c ") { command } else { "" };
    format!("{command}\n{raw}")
}

/// `plimsoll check` of a sample.
fn check(sandbox: &Sandbox, id: &str, arguments: &[&str]) -> Command {
    let log = sandbox.file(&format!("{id}.log"), raw(id).as_bytes());
    let mut command = sandbox.plimsoll();
    command.arg("check").arg(log).args(arguments);
    command
}

fn text(command: &mut Command, status: i32) -> String {
    let output = command.assert().code(status).stderr("").get_output().clone();
    String::from_utf8(output.stdout).unwrap()
}

#[rstest]
#[case("exact", "r26-110", &[], 0)]
#[case("projector", "r26-035", &["--model", "catalogue:ministral-3-3b"], 0)]
#[case("draft", "r26-054", &["--model", "catalogue:qwen3.6-27b"], 1)]
#[case("other-conversion", "r26-039", &["--model", "catalogue:deepseek-coder-v2-16b@Q5_K_M"], 1)]
#[case("trial", "r26-058", &[], 1)]
#[case("table", "r26-049", &["--model", "catalogue:qwen3-vl-4b"], 0)]
fn a_log_stands_beside_its_plan(#[case] name: &str, #[case] id: &str, #[case] arguments: &[&str], #[case] status: i32) {
    let text = text(&mut check(&Sandbox::new(), id, arguments), status);
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= 80, "{longest} columns:\n{text}");
    assert!(text.lines().all(|line| line.trim_end() == line), "spaces at the end of a line:\n{text}");
    insta::assert_snapshot!(format!("cli-check-{name}"), text);
}

#[test]
fn json_has_the_logs_own_figures_and_the_plans() {
    let answer = json(&mut check(&Sandbox::new(), "r26-110", &[]));
    assert_eq!((&answer["chosen"], &answer["loads"][0]["agrees"]), (&0.into(), &true.into()));
    let load = &answer["loads"][0];
    assert_eq!((&load["program"], &load["release"]), (&"llama.cpp".into(), &"2026-08-05".into()));
    assert_eq!(load["observed"]["Vulkan0"]["kv"], 760.0);
    assert_eq!(load["settings"]["n_ctx"], 8192);
    let compared = load["compared"].as_array().unwrap();
    let weights = compared.iter().find(|row| row["device"] == "Vulkan0" && row["term"] == "model").unwrap();
    assert_eq!(
        (&weights["part"], &weights["planned"], &weights["exact"]),
        (&"model".into(), &13_755.36.into(), &true.into())
    );
    assert!(compared.iter().all(|row| row["difference"] == 0.0 && row["reason"].is_null()), "{compared:?}");
}

#[test]
fn markdown_is_a_table_with_numbered_reasons() {
    let text = text(&mut check(&Sandbox::new(), "r26-058", &["--markdown"]), 1);
    assert!(text.starts_with("| device | part | planned MiB | observed MiB | difference |\n|---"), "{text}");
    assert!(text.contains("\n1. ") && text.contains("| MTL0 | KV cache | 2176.00 | 2176.00 | exact |"), "{text}");
}

#[test]
fn the_example_agrees_to_the_printed_digit() {
    let text = text(Sandbox::new().plimsoll().args(["check", "example"]), 0);
    assert!(text.starts_with("Agrees: 7 of 7 figures are exact.") && text.contains("26 of 33, as planned"), "{text}");
}

#[test]
fn a_log_is_read_from_standard_input_and_of_several_loads_one_is_chosen() {
    let sandbox = Sandbox::new();
    let both = format!("{}\n{}", raw("r26-110"), raw("r26-110").replace("--ctx-size 8192", "--ctx-size 8448"));
    let run = |arguments: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.args(["check", "-"]).args(arguments).write_stdin(both.clone());
        command
    };
    let last = text(&mut run(&[]), 0);
    assert!(last.contains("this is load 2 of 2; --load N compares another: 1"), "{last}");
    let first = text(&mut run(&["--load", "1"]), 0);
    assert!(first.contains("this is load 1 of 2"), "{first}");
    let none = refused(&mut run(&["--load", "3"]), 2);
    assert!(none.contains("there is no load 3: the log has 2"), "{none}");
}

#[test]
fn options_stand_over_the_log() {
    let text = text(&mut check(&Sandbox::new(), "r26-110", &["--ctx", "16384", "--release", "2026-11"]), 1);
    assert!(text.contains("planned for release 2026-11") && !text.contains("KV cache     760.00     760.00"), "{text}");
}

/// Logs of programs that say their version, and no build of llama.cpp.
#[rstest]
#[case(
    "Welcome to KoboldCpp - Version 1.118.1",
    "release 2026-08-05, the nearest to KoboldCpp 1.118.1 with a llama.cpp of 2026-08-01 or before."
)]
#[case("Welcome to KoboldCpp - Version 1.98", "release 2025-09, the nearest to KoboldCpp 1.98, between 1.94 with")]
#[case(
    "Aug 22 22:44:03 INFO  LocalAI version version=\"v4.9.0 (82c191a)\"",
    "release 2026-08-05, the nearest to LocalAI 4.9.0 with llama.cpp b10498."
)]
#[case(
    "load_backend: loaded CUDA backend from /home/me/.lmstudio/extensions/backends/\
     llama.cpp-linux-x86_64-nvidia-cuda12-avx2-2.41.0/libggml-cuda.so",
    "release 2026-09, the nearest to LM Studio 2.41.0 with llama.cpp b11026."
)]
#[case(
    "load_backend: loaded CUDA backend from /data/jan/llamacpp/backends/b9967/linux-cuda/libggml-cuda.so",
    "release 2026-08, the nearest to b9967."
)]
#[case(
    "Aug 22 22:44:03 INFO  LocalAI version version=\"v5.0.0 (82c191a)\"",
    "which agrees best, as the llama.cpp of LocalAI 5.0.0, after 4.9.0 with llama.cpp b10498, is not known here."
)]
#[case(
    "Aug 22 22:44:03 INFO  LocalAI version version=\"v4.9.0 (82c191a)\"\nbuild: 11342 (abcdef0) with GNU",
    "release 2026-11, the nearest to b11342."
)]
fn a_log_of_a_program_is_planned_by_what_that_ships(#[case] banner: &str, #[case] said: &str) {
    let sandbox = Sandbox::new();
    // lines of builds that nothing dates
    let lines = "llama_prepare_model_devices: using device CUDA0 (NVIDIA GeForce RTX 3090) (0000:01:00.0) - 23774 MiB free\n\
        load_tensors: loading model tensors, this can take a while... (load_mode = mmap)\n\
        load_tensors: offloaded 37/37 layers to GPU\n\
        load_tensors:   CPU_Mapped model buffer size =   303.22 MiB\n\
        load_tensors:        CUDA0 model buffer size =  2375.91 MiB\n\
        llama_context: n_seq_max     = 1\n\
        llama_context: n_ctx         = 8192\n\
        llama_kv_cache:      CUDA0 KV buffer size =  1152.00 MiB\n\
        sched_reserve:      CUDA0 compute buffer size =   301.75 MiB\n";
    let log = sandbox.file("program.log", format!("{banner}\n{lines}").as_bytes());
    let mut command = sandbox.plimsoll();
    let output = command.arg("check").arg(log).args(["--model", "catalogue:qwen3-4b"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(said), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_cannot_be_read_is_said_with_what_to_do() {
    let sandbox = Sandbox::new();
    let missing = refused(sandbox.plimsoll().args(["check", "nowhere.log"]), 3);
    assert!(missing.contains("the log 'nowhere.log' cannot be read"), "{missing}");
    let poem = sandbox.file("poem.log", b"rose, thou art sick\n");
    let empty = refused(sandbox.plimsoll().arg("check").arg(&poem), 3);
    assert!(empty.contains("nothing here says what a model took"), "{empty}");
    // what was read is printed all the same
    for (json, figure) in [(&[][..], "SYCL0"), (&["--json"][..], "\"observed\"")] {
        let unknown = check(&sandbox, "r26-109", json).assert().code(3).get_output().clone();
        let [read, said] = [unknown.stdout, unknown.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(said.contains("give the model with --model") && read.contains(figure), "{said} {read}");
    }
    let quiet = sandbox.file("quiet.log", b"srv  load_model: initializing, n_slots = 1, n_ctx_slot = 8192\nmain: server is listening on http://127.0.0.1:8080\n");
    let said = sandbox.plimsoll().arg("check").arg(&quiet).assert().code(3).get_output().clone();
    assert!(String::from_utf8(said.stderr).unwrap().contains("-lv 4"));
}

#[test]
fn without_a_log_ollamas_own_file_is_read() {
    let sandbox = Sandbox::new();
    let folder = sandbox.folder.path().join(".ollama/logs");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("server.log"), raw("r26-110")).unwrap();
    let output = sandbox.plimsoll().arg("check").assert().code(0).get_output().clone();
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(note.starts_with("note: this is from ") && note.ends_with("server.log\n"), "{note}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_llama_server_that_says_nothing_is_planned_by_its_command_line() {
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;

    let sandbox = Sandbox::new();
    // a shell that waits, under the server's name and with its options
    let mut server = std::process::Command::new("/bin/sh")
        .arg0("llama-server")
        .args(["-s", "--", "-m", "/models/Qwen3-8B-Q4_K_M.gguf", "-c", "8192", "-np", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut command = sandbox.plimsoll();
    let output = command.args(["check", "--gpu", "24GiB", "--ram", "64GiB"]).output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("llama-server (process {})", server.id())), "{text}{:?}", output.stderr);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("8 192 tokens") && text.contains("no driver tells"), "{text}");
    assert!(text.contains("-lv 4 2> server.log"), "{text}");
}

const CARD: [&str; 6] = ["--gpu", "name=card,total=8GiB,free=7600MiB", "--ram", "64GiB", "--ctx", "32768"];

#[test]
fn settings_are_found_that_show_a_share_of_ollama_ps() {
    let sandbox = Sandbox::new();
    let run = |column: &str, arguments: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.args(["check", "catalogue:llama3.1-8b", "--ps", column]).args(CARD).args(arguments);
        command
    };
    let json = |column: &str, status: i32| -> Value {
        let mut command = run(column, &["--json"]);
        let output = command.assert().code(status).get_output().clone();
        printed(&command, &output.stdout)
    };
    let other = json("27%/73% CPU/GPU", 1);
    assert_eq!((&other["wanted"], &other["agrees"]), (&73.into(), &false.into()));
    let shown = other["planned"]["processor"].as_str().unwrap().to_owned();
    assert_eq!(json(&shown, 0)["agrees"], true, "what is planned agrees with itself");
    let candidates = other["candidates"].as_array().unwrap();
    assert!(!candidates.is_empty());
    let text = text(&mut run("27%/73% CPU/GPU", &[]), 1);
    assert!(text.starts_with("Differs: these settings show another share."), "{text}");
    let wrong = refused(&mut run("most of it", &[]), 2);
    assert!(wrong.contains("'most of it' is not a column PROCESSOR"), "{wrong}");
}
