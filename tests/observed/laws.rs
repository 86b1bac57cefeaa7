//! Any text is safe, and how it arrives makes no difference.

use std::fmt::Write;

use plimsoll::observed::{Observation, Reader, limits};
use proptest::collection::vec;
use proptest::prelude::*;

use super::samples::samples;

fn all() -> String {
    samples().iter().map(|sample| sample["raw"].as_str().unwrap().to_owned() + "\n").collect()
}

fn in_pieces(bytes: &[u8], cuts: &[usize]) -> Observation {
    let mut reader = Reader::default();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    let mut from = 0;
    for cut in cuts {
        reader.feed(&bytes[from..cut]);
        from = cut;
    }
    reader.feed(&bytes[from..]);
    reader.finish()
}

/// Words that logs are made of, so that random texts reach the parsers.
const WORDS: [&str; 40] = [
    "llama_kv_cache:",
    "load_tensors:",
    "sched_reserve:",
    "llama_context:",
    "CUDA0",
    "CPU_Mapped",
    "RPC0[::1]",
    "model",
    "KV",
    "RS",
    "compute",
    "output",
    "DSV4 csa state",
    "buffer size",
    "=",
    "12.34",
    "99999999999999999999",
    "MiB",
    "|",
    "-",
    "common_memory_breakdown_print: |",
    "common_params_fit_impl:",
    "projected to use",
    "msg=",
    "\"",
    "\\",
    "size=",
    "{",
    "}",
    "[",
    "[57651]",
    "0.00.123.456 I",
    "llama-1  |",
    "n_ctx",
    "\n",
    "\r\n",
    "\u{1b}[34m",
    "loading model tensors",
    "llama-server -c",
    "Aug 08 23:02:37 h ollama[1]:",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cuts_make_no_difference(cuts in vec(any::<usize>(), 0..40)) {
        let text = all();
        prop_assert_eq!(in_pieces(text.as_bytes(), &cuts), Observation::of(&text));
    }

    #[test]
    fn rubbish_is_read_without_harm(bytes in vec(any::<u8>(), 0..2000), cuts in vec(any::<usize>(), 0..5)) {
        prop_assert_eq!(in_pieces(&bytes, &cuts), in_pieces(&bytes, &[]));
    }

    #[test]
    fn words_in_any_order_are_read_without_harm(words in vec(0..WORDS.len(), 0..300), cuts in vec(any::<usize>(), 0..5)) {
        let text: Vec<&str> = words.iter().map(|&word| WORDS[word]).collect();
        let text = text.join(" ");
        let whole = in_pieces(text.as_bytes(), &[]);
        prop_assert!(serde_json::to_string(&whole).is_ok());
        prop_assert_eq!(in_pieces(text.as_bytes(), &cuts), whole);
    }

    #[test]
    fn damaged_logs_are_read_without_harm(at in any::<prop::sample::Index>(), byte in any::<u8>(), length in 0..200_usize) {
        let mut bytes = all().into_bytes();
        let from = at.index(bytes.len());
        let to = (from + length).min(bytes.len());
        bytes.splice(from..to, [byte]);
        in_pieces(&bytes, &[]);
    }

    #[test]
    fn lines_of_two_writers_may_mix(order in vec(any::<bool>(), 0..80)) {
        let samples = samples();
        let raw = |id: &str| -> Vec<String> {
            let sample = samples.iter().find(|sample| sample["id"] == id).unwrap();
            sample["raw"].as_str().unwrap().lines().map(str::to_owned).collect()
        };
        let (first, second) = (raw("r26-110"), raw("r26-062"));
        let (mut a, mut b) = (first.iter().peekable(), second.iter().peekable());
        let mut text = String::new();
        let mut order = order.into_iter();
        while a.peek().is_some() || b.peek().is_some() {
            let from_first = b.peek().is_none() || a.peek().is_some() && order.next().unwrap_or(true);
            let (port, line) = if from_first { (4623, a.next()) } else { (57651, b.next()) };
            writeln!(text, "[{port:5}] {}", line.unwrap()).unwrap();
        }
        let seen = Observation::of(&text);
        prop_assert_eq!(seen.loads.len(), 2);
        for (port, id) in [("4623", "r26-110"), ("57651", "r26-062")] {
            let load = seen.loads.iter().find(|load| load.writer.as_deref() == Some(port)).unwrap();
            let alone = samples.iter().find(|sample| sample["id"] == id).unwrap();
            let alone = Observation::of(alone["raw"].as_str().unwrap());
            prop_assert_eq!(&load.observed, &alone.load().unwrap().observed);
            prop_assert_eq!(&load.settings, &alone.load().unwrap().settings);
        }
    }
}

#[test]
fn nothing_grows_without_end() {
    let mut reader = Reader::default();
    let long = "x".repeat(1000);
    for n in 0..3000 {
        reader.line(&format!("[{}] common_params_print_info: build {n} (abc)", n % 90_000));
        reader.line(&format!("[{}] load_tensors: CUDA{n} model buffer size = 1.00 MiB", n % 90_000));
        reader.line("905038, /usr/bin/x, 29 MiB");
        reader.line("llama3.2:latest    a80c4f17acd5    4.0 GB    100% GPU     4096       4 minutes from now");
        reader.line(&format!("sched_reserve: CUDA error: out of memory {long}"));
    }
    let device = |n: usize| format!("load_tensors: D{n} model buffer size = 1.00 MiB");
    (0..3000).for_each(|n| reader.line(&device(n)));
    for n in 0..3000 {
        reader.line(&format!("llama_kv_cache: D{n} KV buffer size = 1.00 MiB"));
        reader.line(&format!("sched_reserve: D{n} compute buffer size = 1.00 MiB"));
        reader.line(&format!("common_memory_breakdown_print: |   - D{n} | 5 = 3 + 1 + 1 |"));
        reader.line(&format!("common_params_fit_impl:   - D{n} (x): 5 total, 3 used, 2 free vs. target of 1"));
    }
    reader.feed("y".repeat(10 << 20).as_bytes());
    let seen = reader.finish();
    assert!(seen.loads.len() <= limits::LOADS && seen.loads_left_out > 0);
    assert_eq!((seen.ps.len(), seen.processes.len()), (limits::ROWS, limits::ROWS));
    for load in &seen.loads {
        assert!(load.observed.len() <= limits::DEVICES && load.table.len() <= limits::DEVICES);
        assert!(load.contexts.len() <= limits::PARTS && load.models.len() <= limits::PARTS);
        assert!(load.fit.devices.len() <= limits::DEVICES && load.events.len() <= limits::EVENTS);
    }
}

#[test]
fn a_file_in_utf_16_is_read() {
    let text = "\u{feff}load_tensors:        CUDA0 model buffer size = 37.86 MiB\r\n";
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut reader = Reader::default();
    reader.feed(&wide);
    assert_eq!(reader.finish().load().unwrap().observed["CUDA0"].len(), 1);
}
