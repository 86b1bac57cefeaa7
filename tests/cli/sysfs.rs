//! AMD's and Intel's GPUs in a fake `/sys`: neither a GPU nor Linux is needed.

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use rstest::rstest;
use serde_json::Value;

use super::{Sandbox, json, refused};

const GIB: u64 = 1 << 30;

/// A tree with the cards' files.
struct Tree {
    sandbox: Sandbox,
}

impl Tree {
    fn new() -> Self {
        let tree = Self { sandbox: Sandbox::new() };
        fs::create_dir_all(tree.root().join("class/drm/renderD128")).unwrap();
        tree
    }

    fn root(&self) -> PathBuf {
        self.sandbox.folder.path().join("sys")
    }

    fn card(self, number: u32, files: &[(&str, &str)]) -> Self {
        let device = self.root().join(format!("class/drm/card{number}/device"));
        fs::create_dir_all(&device).unwrap();
        // connectors have folders too, which are not cards
        fs::create_dir_all(self.root().join(format!("class/drm/card{number}-HDMI-A-1"))).unwrap();
        for (name, text) in files {
            let path = device.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        self
    }

    fn command(&self) -> Command {
        let mut command = self.sandbox.plimsoll();
        command.args(["devices", "--nvml", "/nowhere/nvml.so", "--sysfs"]).arg(self.root());
        command
    }

    fn devices(&self) -> Value {
        json(&mut self.command())
    }
}

fn gpus(devices: &Value) -> Vec<&Value> {
    devices["devices"].as_array().unwrap().iter().filter(|device| device["kind"] == "gpu").collect()
}

fn names(devices: &Value) -> Vec<&str> {
    gpus(devices).into_iter().map(|gpu| gpu["name"].as_str().unwrap()).collect()
}

/// Two cards and an integrated GPU, not in the order of their addresses.
fn three() -> Tree {
    Tree::new()
        .card(
            1,
            &[
                ("vendor", "0x1002"),
                ("device", "0x744c"),
                ("revision", "0xc8"),
                ("uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0"),
                ("unique_id", "aa11"),
                ("mem_info_vram_total", "25753026560"),
                ("mem_info_vram_used", "1234567890"),
                ("mem_info_gtt_total", "33554432000"),
                ("mem_info_gtt_used", "1000"),
            ],
        )
        .card(
            0,
            &[
                ("vendor", "0x1002"),
                ("uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:43:00.0"),
                ("product_name", "AMD Instinct MI210"),
                ("unique_id", "bb22"),
                ("mem_info_vram_total", "68702699520"),
                ("mem_info_vram_used", "0"),
            ],
        )
        .card(
            2,
            &[
                ("vendor", "0x1002"),
                ("device", "0x1586"),
                ("uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:c4:00.0"),
                ("mem_info_vram_total", "536870912"),
                ("mem_info_vram_used", "36870912"),
                ("mem_info_gtt_total", "66571993088"),
                ("mem_info_gtt_used", "71993088"),
            ],
        )
}

#[test]
fn the_card_whose_connector_is_lit_shows_the_desktop() {
    let tree = three();
    let state = |connector: &str, text: &str| {
        let folder = tree.root().join("class/drm").join(connector);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("enabled"), text).unwrap();
    };
    state("card1-DP-1", "disabled\n");
    state("card1-HDMI-A-1", "enabled\n");
    state("card0-DP-2", "disabled\n");
    // another card's, whose name begins alike
    state("card21-DP-2", "enabled\n");
    let devices = tree.devices();
    let shown: Vec<_> = gpus(&devices).into_iter().map(|gpu| gpu["display"].as_bool()).collect();
    assert_eq!(shown, [Some(true), Some(false), None]);
}

#[test]
fn every_figure_of_the_driver_is_reported() {
    let devices = three().devices();
    assert_eq!(names(&devices), ["AMD Radeon RX 7900 XTX", "AMD Instinct MI210", "AMD Radeon 8060S (Strix Halo)"]);
    let gpus = gpus(&devices);
    let first = gpus[0];
    assert_eq!(
        (&first["total"], &first["free"]),
        (&25_753_026_560_u64.into(), &(25_753_026_560_u64 - 1_234_567_890).into())
    );
    assert_eq!((&first["backend"], &first["integrated"]), (&"ROCm".into(), &false.into()));
    assert_eq!((&first["facts"]["PCI"], &first["facts"]["driver"]), (&"0000:03:00.0".into(), &"amdgpu".into()));
    let shared = gpus[2];
    assert_eq!(shared["integrated"], true);
    assert_eq!(shared["total"], 536_870_912_u64 + 66_571_993_088);
    assert_eq!(shared["free"], 500_000_000_u64 + 66_500_000_000);
    let pool = shared["facts"]["pool"].as_str().unwrap();
    assert!(pool.contains("carve-out of 512 MiB") && pool.contains("62.0 GiB of shared RAM (GTT)"), "{pool}");
    assert!(devices["tried"].to_string().contains("3 GPUs through"), "{devices}");
}

#[rstest]
#[case("ROCR_VISIBLE_DEVICES", "1", &["AMD Instinct MI210"])]
#[case("ROCR_VISIBLE_DEVICES", "GPU-bb22,GPU-aa11", &["AMD Instinct MI210", "AMD Radeon RX 7900 XTX"])]
#[case("HIP_VISIBLE_DEVICES", "1,0", &["AMD Instinct MI210", "AMD Radeon RX 7900 XTX"])]
#[case("CUDA_VISIBLE_DEVICES", "1", &["AMD Instinct MI210"])]
#[case("HIP_VISIBLE_DEVICES", "", &[])]
fn variables_select_and_order_gpus(#[case] name: &str, #[case] value: &str, #[case] expected: &[&str]) {
    let devices = json(three().command().env(name, value));
    assert_eq!(names(&devices), expected);
    assert!(devices["tried"].to_string().contains(name), "{devices}");
}

#[test]
fn variables_apply_one_after_the_other() {
    let tree = three();
    let mut command = tree.command();
    let devices = json(command.env("ROCR_VISIBLE_DEVICES", "2,1").env("HIP_VISIBLE_DEVICES", "1"));
    assert_eq!(names(&devices), ["AMD Instinct MI210"]);
}

#[rstest]
// the format of gpu_metrics: 1 for cards, 2 and 3 for integrated GPUs
#[case(&[("gpu_metrics", "\u{10}\u{0}\u{2}\u{1}"), ("mem_info_vram_total", "17179869184")], true)]
#[case(&[("gpu_metrics", "\u{10}\u{0}\u{1}\u{3}"), ("mem_info_vram_total", "536870912")], false)]
#[case(&[("device", "0x15bf"), ("mem_info_vram_total", "17179869184")], true)]
#[case(&[("mem_info_vram_total", "536870912")], true)]
#[case(&[("mem_info_vram_total", "17179869184")], false)]
fn integrated_gpus_are_recognised(#[case] files: &[(&str, &str)], #[case] integrated: bool) {
    let shared = [("mem_info_vram_used", "0"), ("mem_info_gtt_total", "34359738368"), ("mem_info_gtt_used", "0")];
    let tree = Tree::new().card(0, &[files, &shared].concat());
    let devices = tree.devices();
    let gpu = gpus(&devices)[0];
    let own: u64 = files.iter().find(|(name, _)| *name == "mem_info_vram_total").unwrap().1.parse().unwrap();
    assert_eq!(gpu["integrated"], integrated);
    assert_eq!(gpu["total"], if integrated { own + 32 * GIB } else { own });
}

#[test]
fn an_unreadable_card_is_skipped() {
    let tree = three()
        .card(7, &[("vendor", "0x1002"), ("mem_info_vram_total", "much")])
        .card(8, &[("vendor", "0x1002"), ("mem_info_vram_total", "5"), ("mem_info_vram_used", "6")]);
    let devices = tree.devices();
    assert_eq!(gpus(&devices).len(), 3);
    let tried = devices["tried"].to_string();
    assert!(tried.contains("'much' is not a number") && tried.contains("mem_info_vram_used is 6"), "{tried}");
}

#[test]
fn intel_figures_are_read_or_assumed() {
    let tree = Tree::new()
        .card(0, &[("vendor", "0x8086"), ("device", "0xa7a0")])
        .card(1, &[("vendor", "0x8086"), ("device", "0x56a0"), ("tile0/physical_vram_size_bytes", "17179869184")])
        .card(2, &[("vendor", "0x8086"), ("device", "0xe20b")])
        .card(3, &[("vendor", "0x10de")]);
    fs::write(tree.root().join("class/drm/card1/lmem_avail_bytes"), "16000000000").unwrap();
    let devices = tree.devices();
    assert_eq!(names(&devices), ["Intel Arc A770", "Intel Arc B580"]);
    let gpus = gpus(&devices);
    assert_eq!((&gpus[0]["total"], &gpus[0]["free"]), (&(16 * GIB).into(), &16_000_000_000_u64.into()));
    assert_eq!((&gpus[1]["total"], &gpus[1]["backend"]), (&(12 * GIB).into(), &"Vulkan".into()));
    assert!(gpus[1]["facts"]["total"].as_str().unwrap().starts_with("assumed"), "{devices}");
    assert!(devices["tried"].to_string().contains("so it shares RAM"), "{devices}");
}

#[test]
fn without_drivers_every_reason_is_listed() {
    let tree = Tree::new();
    let devices = tree.devices();
    assert!(gpus(&devices).is_empty());
    assert_eq!(devices["origin"], "detected");
    let tried = devices["tried"].to_string();
    for reason in ["/nowhere/nvml.so", "no AMD GPU in", "no Intel GPU in"] {
        assert!(tried.contains(reason), "{tried}");
    }
    let empty = Sandbox::new();
    let mut command = empty.plimsoll();
    command.args(["devices", "--nvml", "/nowhere/nvml.so", "--sysfs"]).arg(empty.folder.path());
    assert!(json(&mut command)["tried"].to_string().contains("class/drm: missing"));
    refused(empty.plimsoll().args(["devices", "--sysfs", "/nowhere/sys"]), 2);
}

#[test]
fn a_plan_is_made_on_what_was_detected() {
    let tree = three();
    let mut command = tree.sandbox.plimsoll();
    command.arg("plan").arg(tree.sandbox.model("llama3.1-8b")).args(["--nvml", "/nowhere/nvml.so", "--ram", "64GiB"]);
    let plan = json(command.arg("--sysfs").arg(tree.root()).env("HIP_VISIBLE_DEVICES", "0"));
    assert_eq!((&plan["devices"][0]["backend"], &plan["verdict"]), (&"ROCm".into(), &"gpu".into()));
}

#[cfg(not(all(target_os = "macos", target_arch = "aarch64")))]
#[test]
fn unsupported_cards_are_named() {
    let said = |tree: Tree| {
        let devices = tree.devices();
        let tried = devices["tried"].as_array().unwrap().iter().find(|tried| tried["collector"] == "vulkan").cloned();
        tried.unwrap()["outcome"].as_str().unwrap().to_owned()
    };
    assert!(said(three()).contains("no other GPU in"), "{}", said(three()));
    let nouveau = ("uevent", "DRIVER=nouveau\nPCI_SLOT_NAME=0000:07:00.0");
    let tree = three().card(7, &[("vendor", "0x10de"), ("device", "0x1c82"), nouveau]);
    let tree = tree.card(8, &[("vendor", "0x10de"), ("uevent", "DRIVER=nvidia\nPCI_SLOT_NAME=0000:08:00.0")]);
    let outcome = said(tree);
    assert!(outcome.contains("0000:07:00.0 (driver nouveau)") && !outcome.contains("0000:08"), "{outcome}");
}
