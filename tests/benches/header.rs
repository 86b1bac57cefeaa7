//! Opening a header with a large tokenizer: 262,144 tokens, as many scores and types, 524,288 merges.
//!
//! `cargo bench --bench header`. Targets: 10 ms, 16 MB of added resident memory, and three times one linear read of the
//! same bytes. Resident memory is measured once, in a separate process (Linux only). Benches named `cold` start with
//! the file evicted from the page cache (by GNU dd); their target is one linear read, as the disk dominates.

#![allow(clippy::expect_used, reason = "a bench that cannot go on ends")]

use std::ffi::OsString;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use divan::Bencher;
use plimsoll::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use plimsoll::gguf::{ElementType, GgmlType};
use plimsoll::source::{no_progress, open};

const TOKENS: usize = 262_144;
/// Environment variable with the file to open in the process that measures its memory.
const MEASURE: &str = "PLIMSOLL_BENCH_MEASURE";

fn main() {
    if let Some(path) = std::env::var_os(MEASURE) {
        measure(Path::new(&path));
        return;
    }
    let header = open(file(), &mut no_progress).expect("the file was written by this program").header;
    println!("header: {} bytes, {} tensors", header.data_start, header.tensors.len());
    let this = std::env::current_exe().expect("a program knows its path");
    Command::new(this).env(MEASURE, file()).status().expect("this program runs again");
    divan::main();
    fs::remove_dir_all(folder()).expect("the folder was made by this program");
}

#[divan::bench(sample_count = 200)]
fn linear_read() -> u64 {
    read_all()
}

#[divan::bench(sample_count = 30, sample_size = 1)]
fn linear_read_cold(bencher: Bencher<'_, '_>) {
    bencher.with_inputs(evict).bench_values(|()| read_all());
}

#[divan::bench(sample_count = 30, sample_size = 1)]
fn open_header_cold(bencher: Bencher<'_, '_>) {
    bencher.with_inputs(evict).bench_values(|()| open_header());
}

/// Evicts the file from the page cache.
fn evict() {
    File::open(file()).and_then(|file| file.sync_all()).expect("as above");
    let mut of = OsString::from("of=");
    of.push(file());
    let mut dd = Command::new("dd");
    dd.arg(of).args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"]);
    assert!(dd.status().is_ok_and(|status| status.success()), "dd drops the file from the cache");
}

fn read_all() -> u64 {
    static SIZE: OnceLock<u64> = OnceLock::new();
    let size = *SIZE.get_or_init(|| open(file(), &mut no_progress).expect("as above").header.data_start);
    let mut buffer = vec![0; 1 << 20];
    let mut file = File::open(file()).expect("as above").take(size);
    let mut read = 0;
    loop {
        let n = file.read(&mut buffer).expect("a local file reads");
        black_box(&buffer);
        if n == 0 {
            return read;
        }
        read += n as u64;
    }
}

#[divan::bench(sample_count = 200)]
fn open_header() -> usize {
    open(black_box(file()), &mut no_progress).expect("as above").header.tensors.len()
}

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("plimsoll-bench-{}", std::process::id()))
}

fn file() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let path = folder().join("header.gguf");
        fs::create_dir_all(folder()).expect("the temporary folder takes files");
        fs::write(&path, write(&header_spec(), Encoding::default())).expect("the temporary folder takes files");
        path
    })
}

fn header_spec() -> HeaderSpec {
    let strings = |n: usize, text: &dyn Fn(usize) -> String| {
        ValueSpec::Array(ElementType::String, (0..n).map(|i| ValueSpec::String(text(i))).collect())
    };
    let metadata = vec![
        ("general.architecture".to_owned(), ValueSpec::String("llama".to_owned())),
        ("tokenizer.ggml.tokens".to_owned(), strings(TOKENS, &|i| format!("tok{i}"))),
        ("tokenizer.ggml.token_type".to_owned(), ValueSpec::Array(ElementType::I32, vec![ValueSpec::I32(1); TOKENS])),
        ("tokenizer.ggml.scores".to_owned(), ValueSpec::Array(ElementType::F32, vec![ValueSpec::F32(0.0); TOKENS])),
        ("tokenizer.ggml.merges".to_owned(), strings(2 * TOKENS, &|i| format!("tok{i} tok{}", i + 1))),
    ];
    let tensors = (0..94)
        .flat_map(|block| {
            (0..12).map(move |i| (format!("blk.{block}.tensor_{i}.weight"), GgmlType::Q4K, vec![4096, 4096]))
        })
        .collect();
    HeaderSpec { metadata, tensors }
}

/// Opens `path` and prints how much the peak resident memory of this process grew.
fn measure(path: &Path) {
    let kib = |key: &str| -> Option<u64> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().ok()
    };
    // resets the peak (proc(5))
    let reset = fs::write("/proc/self/clear_refs", "5");
    let before = kib("VmRSS");
    let opened = open(path, &mut no_progress).expect("the file was written by this program");
    match (reset, before, kib("VmHWM"), kib("VmRSS")) {
        (Ok(()), Some(before), Some(peak), Some(after)) => println!(
            "added resident memory: {} KiB at its highest, {} KiB afterwards",
            peak.saturating_sub(before),
            after.saturating_sub(before)
        ),
        _ => println!("added resident memory: not measured on this system"),
    }
    black_box(opened);
}
