//! The planner follows the free memory of GPUs simulated by a stub of NVML.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::Session;
use crate::cli::nvidia::stub;

/// The file that tells the stub what to report; it may change at any time.
struct Play {
    folder: TempDir,
}

impl Play {
    fn new(text: &str) -> Self {
        let play = Self { folder: tempfile::tempdir().unwrap() };
        play.now(text);
        play
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("gpus")
    }

    fn now(&self, text: &str) {
        let new = self.file().with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, self.file()).unwrap();
    }

    /// The planner with the stub, refreshing ten times a second.
    fn planner(&self, gate: Option<&Path>) -> Session {
        let (library, file) = (stub(), self.file());
        let mut env = vec![("STUB_FILE", file.to_str().unwrap())];
        env.extend(gate.map(|gate| ("STUB_GATE", gate.to_str().unwrap())));
        let nvml = library.to_str().unwrap();
        let arguments = ["--ram", "64GiB", "--nvml", nvml, "--sysfs", "/", "--refresh", "0.1"];
        Session::run((140, 45), &arguments, &env)
    }
}

/// Two cards of 24 GiB with so many GiB free.
fn two(first: u64, second: u64) -> String {
    format!("NVIDIA L4;GPU-a;25769803776;{};8.9|NVIDIA L4;GPU-b;25769803776;{};8.9", first << 30, second << 30)
}

#[test]
fn the_plan_follows_the_free_memory_of_the_gpus_until_it_is_frozen() {
    let play = Play::new(&two(20, 23));
    let mut session = play.planner(None);
    session.until_text("2 × L4 · 64.0 GiB · simulated · live");
    // the memory in use before the model is loaded, which only this free memory gives
    session.until_text("in use 4.0 GiB");
    play.now(&two(9, 23));
    session.until_text("in use 15.0 GiB");

    session.send("f");
    session.until_text("· frozen");
    play.now(&two(20, 12));
    session.send("f");
    session.until_text("· live");
    session.until_text("in use 12.0 GiB");

    // 15: the GPU is lost
    play.now("NVIDIA L4;GPU-a;25769803776;21474836480;8.9|NVIDIA L4;GPU-b;!15;0;8.9");
    session.until_text("GPU1 NVIDIA L4 no longer responds");
    session.until_text("2 × L4");
    play.now(&two(20, 23));
    session.until("what came back is said no more", |screen| !screen.contents().contains("no longer responds"));
    session.send("q");
    assert!(session.ends().0.success());
}

#[test]
fn the_planner_is_drawn_before_the_driver_answers() {
    let play = Play::new(&two(20, 20));
    let gate = play.folder.path().join("open");
    let mut session = play.planner(Some(&gate));
    session.until_text("detecting GPUs");
    session.until_text("Verdict");
    // keys work before the driver answers
    session.send("\x1b[C");
    session.until_text("▲");
    assert!(!session.screen.screen().contents().contains("× L4"));
    fs::write(&gate, "").unwrap();
    session.until_text("2 × L4");
    // a changed plan would be asked about
    session.send("\x03");
    assert!(session.ends().0.success());
}
