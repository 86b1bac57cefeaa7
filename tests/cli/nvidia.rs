//! Detection through NVML, with a stub of the library: no GPU is needed.
#![cfg(unix)]

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use plimsoll::hardware::DetectOptions;
use plimsoll::hardware::watch::{MemoryUpdate, MemoryWatch, WatchEvent};
use plimsoll::machine::Machine;
use rstest::rstest;
use serde_json::Value;
use tempfile::TempDir;

use super::{Sandbox, json};
use crate::observed::samples::samples;

/// The shared library, built once. Without environment variables it reads the file next to it.
pub(crate) fn stub() -> PathBuf {
    static BUILT: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libnvidia-ml.so.1");
        let compiler = Path::new(env!("CARGO")).with_file_name("rustc");
        let source = crate::support::tests().join("cli/stub_nvml.rs");
        let mut build = Command::new(compiler);
        build.args(["--edition", "2024", "--crate-type", "cdylib", "-o"]).arg(&path).arg(source);
        build.env("STUB_FILE", folder.path().join("gpus"));
        let output = build.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (folder, path)
    });
    path.clone()
}

const THREE: &str = "NVIDIA GeForce RTX 3090;GPU-aa11;25769803776;24696061952;8.6|\
                     NVIDIA A100-SXM4-80GB;GPU-aa22;85899345920;85520809984;8.0|\
                     NVIDIA H200;GPU-bb33;150754820096;150123456789;9.0";

fn devices(gpus: &str, visible: Option<&str>) -> Value {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.args(["devices", "--nvml"]).arg(stub()).env("STUB_GPUS", gpus);
    if let Some(visible) = visible {
        command.env("CUDA_VISIBLE_DEVICES", visible);
    }
    json(&mut command)
}

fn gpus(devices: &Value) -> Vec<&Value> {
    devices["devices"].as_array().unwrap().iter().filter(|device| device["kind"] == "gpu").collect()
}

#[test]
fn every_figure_of_the_driver_is_reported() {
    let devices = devices(THREE, None);
    let gpus = gpus(&devices);
    assert_eq!(gpus.len(), 3);
    let first = gpus[0];
    assert_eq!((&first["id"], &first["name"]), (&"GPU0".into(), &"NVIDIA GeForce RTX 3090".into()));
    assert_eq!((&first["total"], &first["free"]), (&25_769_803_776_u64.into(), &24_696_061_952_u64.into()));
    assert_eq!(
        (&first["backend"], &first["compute"], &first["driver_major"]),
        (&"CUDA".into(), &"8.6".into(), &12.into())
    );
    assert_eq!((&first["facts"]["UUID"], &first["facts"]["PCI"]), (&"GPU-aa11".into(), &"00000000:01:00.0".into()));
    assert_eq!((&gpus[2]["id"], &gpus[2]["free"]), (&"GPU2".into(), &150_123_456_789_u64.into()));
    let outcome = devices["tried"][0]["outcome"].as_str().unwrap();
    assert!(outcome.starts_with("3 GPUs") && outcome.contains("driver 570.124.06, CUDA 12.8"), "{outcome}");
}

#[rstest]
#[case("2,0", &["GPU-bb33", "GPU-aa11"])]
#[case("GPU-aa22", &["GPU-aa22"])]
#[case("1,-1,0", &["GPU-aa22"])]
#[case("", &[])]
fn cuda_visible_devices_is_respected(#[case] visible: &str, #[case] uuids: &[&str]) {
    let devices = devices(THREE, Some(visible));
    let seen: Vec<_> = gpus(&devices).iter().map(|gpu| gpu["facts"]["UUID"].as_str().unwrap()).collect();
    assert_eq!(seen, uuids);
}

#[test]
fn a_gpu_that_does_not_answer_is_skipped_and_reported() {
    // 15: the GPU is lost; 3: not supported, as on systems whose memory is shared
    let devices = devices("A;GPU-a;!15;0;8.6|B;GPU-b;!3;0;|C;GPU-c;8589934592;8589934592;", None);
    let gpus = gpus(&devices);
    assert_eq!(gpus.len(), 1);
    assert_eq!((&gpus[0]["id"], &gpus[0]["name"], gpus[0]["compute"].is_null()), (&"GPU0".into(), &"C".into(), true));
    let tried = devices["tried"].to_string();
    assert!(tried.contains("GPU 0 of the driver is left out") && tried.contains("GPU 1 of the driver"), "{tried}");
}

#[test]
fn an_empty_or_mismatched_driver_is_reported() {
    assert!(gpus(&devices("", None)).is_empty());
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    // 18: the library and the driver are of different versions
    let devices = json(command.args(["devices", "--nvml"]).arg(stub()).env("STUB_INIT", "18"));
    assert!(gpus(&devices).is_empty());
    assert!(devices["tried"].to_string().contains("different versions"), "{devices}");
}

#[test]
fn a_plan_is_made_on_what_was_detected() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.arg("plan").arg(sandbox.model("llama3.1-8b")).args(["--ram", "64GiB", "--nvml"]).arg(stub());
    let plan = json(command.env("STUB_GPUS", THREE).env("CUDA_VISIBLE_DEVICES", "1"));
    let gpu = &plan["devices"][0];
    assert_eq!((&gpu["name"], &gpu["free"]), (&"NVIDIA A100-SXM4-80GB".into(), &85_520_809_984_u64.into()));
    assert_eq!((&plan["verdict"], &plan["settings"]["ctx"]), (&"gpu".into(), &131_072.into()));
}

#[test]
fn eight_gpus_print_as_text() {
    let sandbox = Sandbox::new();
    let eight: Vec<_> =
        (1..=8_u64).map(|n| format!("NVIDIA GeForce RTX 4090;GPU-{n};25757220864;{};8.9", n << 30)).collect();
    let mut command = sandbox.plimsoll();
    command.args(["devices", "--nvml"]).arg(stub()).env("STUB_GPUS", eight.join("|"));
    let output = command.assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    for n in 1..=8_u64 {
        assert!(text.contains(&format!("GPU{}  RTX 4090", n - 1)) && text.contains(&format!("{n}.0 GiB")), "{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn eight_gpus_keep_their_exact_sizes() {
    let figures = |n: u64| (24_000_000_000 + n * 1_234_567, 20_000_000_000 + n * 7_654_321);
    let eight: Vec<_> = (0..8)
        .map(|n| {
            let (total, free) = figures(n);
            format!("Card {n};GPU-{n};{total};{free};9.0")
        })
        .collect();
    let all = devices(&eight.join("|"), None);
    let told = |gpu: &Value| (gpu["total"].as_u64().unwrap(), gpu["free"].as_u64().unwrap());
    assert_eq!(gpus(&all).into_iter().map(told).collect::<Vec<_>>(), (0..8).map(figures).collect::<Vec<_>>());
    let some = devices(&eight.join("|"), Some("7,GPU-1"));
    assert_eq!(gpus(&some).into_iter().map(told).collect::<Vec<_>>(), [figures(7)]);
    let some = devices(&eight.join("|"), Some("7,3"));
    assert_eq!(gpus(&some).into_iter().map(told).collect::<Vec<_>>(), [figures(7), figures(3)]);
}

const DIVIDED: &str = "NVIDIA H100;GPU-aa;85899345920;1073741824;9.0;\
                       MIG-11/42949672960/42000000000/H100 MIG 3g.40gb,MIG-22/10737418240/10000000000/H100 MIG 1g.10gb|\
                       NVIDIA L4;GPU-bb;24152899584;24000000000;8.9";

#[rstest]
#[case(None, "H100 MIG 3g.40gb", 42_000_000_000)]
#[case(Some("MIG-22"), "H100 MIG 1g.10gb", 10_000_000_000)]
#[case(Some("0"), "H100 MIG 3g.40gb", 42_000_000_000)]
#[case(Some("GPU-bb"), "NVIDIA L4", 24_000_000_000)]
fn a_mig_gpu_is_one_of_its_instances(#[case] visible: Option<&str>, #[case] name: &str, #[case] free: u64) {
    let devices = devices(DIVIDED, visible);
    let gpus = gpus(&devices);
    assert_eq!(gpus.len(), 1);
    assert_eq!((&gpus[0]["name"], &gpus[0]["free"]), (&name.into(), &free.into()));
    if name.contains("MIG") {
        // an instance inherits what is not given from its GPU
        assert_eq!((&gpus[0]["compute"], &gpus[0]["facts"]["PCI"]), (&"9.0".into(), &"00000000:01:00.0".into()));
        assert!(gpus[0]["facts"]["MIG"].as_str().unwrap().contains("MIG-22"), "{devices}");
    }
}

#[test]
fn a_mig_gpu_without_instances_is_skipped() {
    let devices = devices("NVIDIA H100;GPU-aa;85899345920;1073741824;9.0;none", None);
    assert!(gpus(&devices).is_empty());
    assert!(devices["tried"].to_string().contains("MIG is on, but it has no instance"), "{devices}");
}

#[test]
fn programs_that_hold_memory_are_named() {
    let card = "NVIDIA L4;GPU-a;24152899584;9000000000;8.9;;77/1073741824/Xorg,4242/13958643712/ollama,9/unknown/vm";
    let devices = devices(card, None);
    let programs = serde_json::json!([
        { "pid": 4242, "name": "ollama", "bytes": 13_958_643_712_u64 },
        { "pid": 77, "name": "Xorg", "bytes": 1_073_741_824 },
        { "pid": 9, "name": "vm", "bytes": null },
    ]);
    assert_eq!(gpus(&devices)[0]["processes"], programs);
    assert_eq!(gpus(&devices)[0]["facts"]["driver"], "570.124.06");
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.args(["devices", "--nvml"]).arg(stub()).env("STUB_GPUS", card);
    let output = command.assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["ollama (process 4242): 13.0 GiB", "PCI 00000000:01:00.0", "CUDA context, assumed 350 MiB"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_the_driver_took_is_remembered_until_it_is_forgotten() {
    let sandbox = Sandbox::new();
    let samples = samples();
    let sample = samples.iter().find(|sample| sample["id"] == "r26-038").unwrap();
    let log = sandbox.file("server.log", sample["raw"].as_str().unwrap().as_bytes());
    let on_card = |words: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.args(words).arg("--nvml").arg(stub());
        command.env("STUB_GPUS", "NVIDIA GeForce RTX 5060 Ti;GPU-a;16609443840;16000000000;12.0");
        command.output().unwrap()
    };
    let model = ["--model", "catalogue:deepseek-coder-v2-16b@Q5_K_M"];
    let output = on_card(&[&["check", log.to_str().unwrap(), "--remember"][..], &model].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("remembered: CUDA takes 305 MiB besides buffers on RTX 5060 Ti"), "{said}");
    let devices = || String::from_utf8(on_card(&["devices"]).stdout).unwrap().replace("\n      ", " ");
    assert!(devices().contains("besides buffers CUDA takes 305 MiB, as measured on this machine"), "{}", devices());
    let forget = || sandbox.plimsoll().args(["machine", "forget"]).assert().success().get_output().stdout.clone();
    assert_eq!(forget(), b"forgot what CUDA takes on NVIDIA GeForce RTX 5060 Ti\n");
    assert!(devices().contains("besides buffers CUDA takes 304 MiB to 1.0 GiB, as seen on"), "{}", devices());
    assert_eq!(forget(), b"nothing that was measured on this machine is remembered\n");
}

#[test]
fn an_integrated_gpu_uses_main_memory() {
    // 3: not supported, as the driver of these processors answers
    let devices = devices("NVIDIA GB10;GPU-a;!3;0;12.1", None);
    let gpu = gpus(&devices)[0];
    let ram = devices["devices"].as_array().unwrap().last().unwrap();
    assert_eq!((&gpu["total"], &gpu["free"], &gpu["integrated"]), (&ram["total"], &ram["free"], &true.into()));
}

/// Runs `command` to its end: what it printed, how long it took, and the most KiB that it held.
#[cfg(target_os = "linux")]
fn measured(command: &mut Command) -> (std::process::Output, Duration, u64) {
    let since = std::time::Instant::now();
    let (mut out, mut err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command.stdout(out.try_clone().unwrap()).stderr(err.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = peak.max(line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse().unwrap()));
        std::thread::sleep(Duration::from_millis(5));
    };
    let took = since.elapsed();
    let text = |file: &mut std::fs::File| {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    };
    (std::process::Output { status: ended, stdout: text(&mut out), stderr: text(&mut err) }, took, peak)
}

#[cfg(target_os = "linux")]
#[rstest]
#[case("devices", "4294967295 GPUs: only the first 254", 254)]
#[case("programs", "GPU 0 of the driver: it counts 4000000000 programs, more than 4096", 1)]
#[case("instances", "4294967295 MIG instances at most, of which the first 64", 1)]
#[case("sleep", "has not answered for 5 seconds: its GPUs are left out", 0)]
fn a_driver_that_lies_costs_little_and_is_said(#[case] lie: &str, #[case] said: &str, #[case] count: usize) {
    let sandbox = Sandbox::new();
    let card = if lie == "instances" { DIVIDED.split('|').next().unwrap() } else { THREE.split('|').next().unwrap() };
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["devices", "--json", "--nvml"]).arg(stub()).env("STUB_GPUS", card).env("STUB_LIE", lie);
    command.env("HOME", sandbox.folder.path());
    let (output, took, peak) = measured(&mut command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(took < Duration::from_secs(6) && peak < 200 << 10, "{took:?}, {peak} KiB");
    let devices: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tried = devices["tried"].to_string();
    assert!(tried.contains(said), "{tried}");
    assert_eq!(gpus(&devices).len(), count, "{tried}");
}

/// The next report of the watch: free bytes per GPU, and messages about GPUs that do not answer.
fn next(news: &Receiver<WatchEvent>, wanted: impl Fn(&MemoryUpdate) -> bool) -> MemoryUpdate {
    loop {
        // far longer than needed, so that a failing test ends
        match news.recv_timeout(Duration::from_mins(1)).unwrap() {
            WatchEvent::MemoryChanged(moved) if wanted(&moved) => return moved,
            _ => {}
        }
    }
}

#[test]
fn free_memory_is_followed_while_a_gpu_disappears_and_returns() {
    let library = stub();
    let file = library.with_file_name("gpus");
    let play = |first: &str, second: &str| {
        let text = format!("A;GPU-a;1000000000;{first};8.6|B;GPU-b;{second};0;8.6");
        let new = file.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &file).unwrap();
    };
    play("900000000", "2000000000");
    let (send, news) = channel();
    let search = DetectOptions {
        gpus: true,
        nvml: Some(library),
        sysfs: Some("/nowhere".into()),
        cuda_visible_devices: None,
        ..DetectOptions::here()
    };
    let watch = MemoryWatch::start(search, Duration::from_millis(5), move |news| send.send(news).is_ok()).unwrap();
    let WatchEvent::Found(found) = news.recv().unwrap() else { panic!("what was found is told first") };
    let free = |machine: &Machine| machine.gpus.iter().map(|gpu| gpu.free.0).collect::<Vec<_>>();
    assert_eq!(free(&found.machine), [900_000_000, 0]);

    play("123456789", "2000000000");
    let moved = next(&news, |moved| free(&moved.machine) == [123_456_789, 0]);
    assert!(moved.notes.is_empty(), "{:?}", moved.notes);

    // 15: the GPU is lost
    play("5", "!15");
    let moved = next(&news, |moved| free(&moved.machine) == [5, 0] && !moved.notes.is_empty());
    assert!(moved.notes[0].starts_with("GPU1 B no longer responds"), "{:?}", moved.notes);
    play("6", "2000000000");
    next(&news, |moved| free(&moved.machine) == [6, 0] && moved.notes.is_empty());

    // never more than the total
    play("5000000000", "2000000000");
    next(&news, |moved| free(&moved.machine) == [1_000_000_000, 0]);
    watch.join();
}
