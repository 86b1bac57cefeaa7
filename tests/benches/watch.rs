//! CPU time of polling the free memory of eight GPUs, and of a sample of what runs, through a stub of NVML.
//!
//! `cargo bench --bench watch`. Target: 1 % of a core at one refresh per second, which is 10 ms each.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports, reason = "the kernel counts a thread's time"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot start should say so")]

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use plimsoll::hardware::DetectOptions;
use plimsoll::hardware::watch::{MemoryWatch, WatchEvent};
use plimsoll::running::follow::Follower;
use plimsoll::source::Roots;

/// Refreshes measured.
const COUNT: u64 = 500;

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libnvidia-ml.so.1");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/stub_nvml.rs");
    // free memory shrinks with each call, so that each refresh is reported
    let card = |n: u64| format!("NVIDIA GeForce RTX 4090;GPU-{n};25757220864;~20000000000;8.9");
    let gpus = folder.path().join("gpus");
    std::fs::write(&gpus, (0..8).map(card).collect::<Vec<_>>().join("|")).unwrap();
    let compiler = Path::new(env!("CARGO")).with_file_name("rustc");
    let mut build = Command::new(compiler);
    build.args(["--edition", "2024", "-O", "--crate-type", "cdylib", "-o"]).arg(&library).arg(source);
    assert!(build.env("STUB_FILE", gpus).status().unwrap().success());

    let options = DetectOptions { nvml: Some(library), sysfs: Some("/nowhere".into()), ..DetectOptions::here() };
    sample(&options);
    let (send, ends) = channel();
    let (mut seen, mut begun) = (0, 0);
    let on_event = move |event| {
        let WatchEvent::MemoryChanged(moved) = event else { return true };
        assert_eq!(moved.machine.gpus.len(), 8, "{:?}", moved.notes);
        seen += 1;
        if seen == 1 {
            begun = nanoseconds();
        }
        seen <= COUNT || send.send(nanoseconds() - begun).is_err()
    };
    let watch = MemoryWatch::start(options, Duration::from_millis(2), on_event).unwrap();
    let each = ends.recv().unwrap() / COUNT;
    watch.join();
    println!("8 GPUs: {} µs of a core for a refresh, {:.3} % at one a second", each / 1000, each as f64 / 1e7);
    assert!(each < 10_000_000, "more than 1 % of a core");
}

/// A sample of `plimsoll watch`, once a second: processes are looked for at each fifth.
#[cfg(target_os = "linux")]
fn sample(options: &DetectOptions) {
    let (_, mut follower) = Follower::start(options, Roots::default());
    let begun = nanoseconds();
    for _ in 0..COUNT {
        follower.sample();
    }
    let each = (nanoseconds() - begun) / COUNT;
    let begun = nanoseconds();
    plimsoll::hardware::processes::serving();
    let look = nanoseconds() - begun;
    let all = each + look / 5;
    println!(
        "a sample: {} µs, and a look for processes {} µs: {:.3} % at one a second",
        each / 1000,
        look / 1000,
        all as f64 / 1e7
    );
    assert!(all < 10_000_000, "more than 1 % of a core");
}

/// CPU time of this thread so far.
#[cfg(target_os = "linux")]
fn nanoseconds() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}
