//! Logs as people hand them on: with marks of a quote, a list or code, the prefixes of whatever ran the program, other
//! line ends, broken lines.

use plimsoll::observed::{Load, Observation};

use super::samples::samples;

type Handed = (&'static str, fn(&str) -> String);

fn each(text: &str, of: impl Fn(&str) -> String) -> String {
    text.lines().map(|line| of(line) + "\n").collect()
}

/// Lines of at most `width` characters, as a terminal breaks them.
fn broken(text: &str, width: usize) -> String {
    let pieces = |line: &str| {
        let line: Vec<char> = line.chars().collect();
        line.chunks(width).map(String::from_iter).collect::<Vec<_>>().join("\n")
    };
    each(text, pieces)
}

fn json(key: &str, text: &str) -> String {
    each(text, |line| serde_json::json!({ key: format!("{line}\n"), "time": "2026-05-14T22:14:13Z" }).to_string())
}

const HANDED_ON: [Handed; 33] = [
    ("CRLF", |text| text.replace('\n', "\r\n")),
    ("carriage returns alone", |text| text.replace('\n', "\r")),
    ("no-break spaces", |text| text.replace(' ', "\u{a0}")),
    ("a quote", |text| each(text, |line| format!("> {line}"))),
    ("a quote in a quote", |text| each(text, |line| format!("> > {line}"))),
    ("indented", |text| each(text, |line| format!("\t    {line}"))),
    ("a list", |text| each(text, |line| format!("- {line}"))),
    ("a list with stars", |text| each(text, |line| format!("* {line}"))),
    ("a numbered list", |text| each(text, |line| format!("12. {line}"))),
    ("code", |text| each(text, |line| format!("`{line}`"))),
    ("bold type", |text| each(text, |line| format!("**{line}**"))),
    ("a fence", |text| format!("```text\n{text}\n```")),
    ("a table", |text| each(text, |line| format!("| {line} |"))),
    ("a difference", |text| each(text, |line| format!("+{line}"))),
    ("grep -n", |text| each(text, |line| format!("server.log:117:{line}"))),
    ("compose", |text| each(text, |line| format!("llama-1  | {line}"))),
    ("pm2", |text| each(text, |line| format!("0|llama  | {line}"))),
    ("docker logs -t", |text| each(text, |line| format!("2026-05-14T22:14:13.292123456Z {line}"))),
    ("a container's file", |text| each(text, |line| format!("2026-05-14T22:14:13.292123456Z stderr F {line}"))),
    ("kubectl --prefix", |text| each(text, |line| format!("[pod/ollama-0/ollama] {line}"))),
    ("ROS", |text| each(text, |line| format!("[llm-1] {line}"))),
    ("Jan", |text| each(text, |line| format!("[2025-09-27][09:18:10][plugin::commands][INFO] [llamacpp] {line}"))),
    ("LocalAI", |text| each(text, |line| format!("3:44PM DBG GRPC(m.Q5_K_M.gguf-127.0.0.1:36827): stderr {line}"))),
    ("Python's logging", |text| each(text, |line| format!("2026-05-14 22:14:13,292 - INFO - {line}"))),
    ("a clock", |text| each(text, |line| format!("22:14:13.123 [INFO] {line}"))),
    ("LM Studio", |text| each(text, |line| format!("2026-01-07 10:11:12 [DEBUG]\n {line}"))),
    ("colours", |text| each(text, |line| format!("\u{1b}[34m0.00.612.795\u{1b}[0m \u{1b}[32mI \u{1b}[0m{line}"))),
    ("colours without the escape", |text| each(text, |line| format!("[34m0.00.612.795[0m [32mI [0m{line}"))),
    ("colours by cat -v", |text| each(text, |line| format!("^[[34m0.00.612.795^[[0m ^[[32mI ^[[0m{line}"))),
    ("colours written out", |text| each(text, |line| format!("\\u001b[34m0.00.612.795\\u001b[0m I {line}"))),
    ("journald's JSON", |text| json("MESSAGE", text)),
    ("Docker's JSON", |text| json("log", text)),
    ("a collector's JSON", |text| json("message", text)),
];

#[test]
fn figures_are_the_same_however_a_log_is_handed_on() {
    let read = |text: &str| {
        let seen = Observation::of(text);
        let Load { observed, table, settings, .. } = seen.load().cloned().unwrap_or_default();
        (seen.loads.len(), observed, table, settings)
    };
    for (how, hand_on) in HANDED_ON {
        // of found-04, somebody took the functions off: a further prefix hides what is left
        for sample in samples().iter().filter(|sample| sample["id"] != "found-04") {
            let raw = sample["raw"].as_str().unwrap();
            assert_eq!(read(&hand_on(raw)), read(raw), "{how}: {}", sample["id"]);
        }
    }
}

#[test]
fn a_broken_line_of_memory_is_read_with_its_rest() {
    let text = "llama_kv_cache:     Vulkan0 KV buffer size =  4352.00 MiB\n\
                sched_reserve:    Vulkan0 compute buffer size =   832.60 MiB\n\
                common_memory_breakdown_print: |   - CUDA1 (RTX 5090)   | 32606 = 30330 + (21832 = 16386 +    4950 +     \
                495) +      -19555 |\n";
    let whole = Observation::of(text);
    let load = whole.load().unwrap();
    assert_eq!((load.observed.len(), load.table.len()), (1, 1));
    let figures = |load: &Load| {
        let table: Vec<_> = load.table.values().map(|row| (row.total, row.model, row.context, row.compute)).collect();
        (load.observed.clone(), table)
    };
    for width in 48..128 {
        let seen = Observation::of(&broken(text, width));
        assert_eq!(figures(seen.load().unwrap()), figures(whole.load().unwrap()), "{width}");
    }
}

#[test]
fn lines_without_a_function_are_read_and_prose_and_a_destructor_are_not() {
    let seen = Observation::of(
        "`CUDA0 model buffer size = 100.00 MiB`, the log says, and **CUDA0** is full.\n\
         > CUDA0 KV buffer size = 12.00 MiB\n\
         ~llama_context:      CUDA0 compute buffer size = 252.0000 MiB\n\
         |   - CUDA1 (RTX 4090)   | 24080 = 23608 + (21275 =  9109 +    9927 +    2237) +      -20802 |\n",
    );
    let load = seen.load().unwrap();
    let observed = serde_json::to_value(&load.observed).unwrap();
    assert_eq!(observed, serde_json::json!({ "CUDA0": { "kv": 12.0 } }));
    assert_eq!(load.table.get("CUDA1").map(|row| (row.model, row.context, row.compute)), Some((9109, 9927, 2237)));
}
