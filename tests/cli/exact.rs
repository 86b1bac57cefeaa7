//! Arguments reach the engine exactly.

use plimsoll::engine::{self, EngineId};
use plimsoll::export;
use plimsoll::machine::{Backend, Gpu, Machine, Origin, Os, Ram};
use plimsoll::settings::{CacheType, Context, FlashAttn, GpuLayers, Settings};
use plimsoll::units::Bytes;

use super::{Sandbox, json};
use crate::fixtures;

fn dev0() -> Gpu {
    Gpu {
        name: "dev0".to_owned(),
        backend: Backend::Cuda,
        total: Bytes(26_285_199_851),
        free: Bytes(25_769_803_776),
        integrated: false,
        compute: Some((8, 6)),
        driver_major: None,
        computer: None,
        vulkan: None,
        listed: plimsoll::machine::Listed::default(),
        dedicated: None,
        driver_memory: None,
        display: None,
        link: None,
    }
}

const RAM: Ram =
    Ram { total: Bytes(68_719_476_736), free: Bytes(51_539_607_552), swap_free: Bytes(2_147_483_648), bandwidth: None };
const RAM_TEXT: &str = "total=68719476736,free=51539607552,swap=2147483648";

/// The library's plan of the same model, machine and settings.
fn expected(model: &str, machine: &Machine, settings: &Settings) -> serde_json::Value {
    let model = fixtures::model(model);
    let plan = engine::plan(EngineId::Ollama024, &model, machine, settings).unwrap();
    serde_json::from_str(&export::json(&plan).unwrap()).unwrap()
}

/// Without the notes, as the program adds its own and the file on disk has no weights, and without what it says of RAM and prompts.
fn silent(mut plan: serde_json::Value) -> serde_json::Value {
    plan.as_object_mut().unwrap().remove("notes").unwrap();
    // what the command adds to a plan
    for key in ["ram", "prompt", "source", "reference", "exact_after"] {
        plan.as_object_mut().unwrap().remove(key);
    }
    plan
}

#[test]
fn raw_settings_are_used_as_given() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.arg("plan").arg(sandbox.model("llama3.1-8b")).args([
        "--engine",
        "ollama-0.24",
        "--raw-settings",
        "--ctx",
        "8192",
        "--parallel",
        "1",
        "--batch",
        "512",
        "--kv-type",
        "q8_0",
        "--flash-attn",
        "on",
        "--gpu-layers",
        "20",
        "--gpu-overhead",
        "536870912",
        "--spread",
        "--require-full",
        "--gpu",
        "name=dev0,total=26285199851,free=25769803776,backend=CUDA,integrated=false,compute=8.6",
        "--ram",
        RAM_TEXT,
    ]);
    let settings = Settings {
        ctx: Context::Tokens(8192),
        parallel: Some(1),
        batch: Some(512),
        cache_type_k: Some(CacheType::Q8_0),
        cache_type_v: Some(CacheType::Q8_0),
        flash_attn: FlashAttn::On,
        gpu_layers: GpuLayers::Count(20),
        gpu_overhead: Bytes(536_870_912),
        spread: true,
        require_full: true,
        raw: true,
        ..Settings::default()
    };
    let machine = Machine {
        disk: None,
        os: Os::here(),
        cpu: plimsoll::machine::Cpu::default(),
        gpus: vec![dev0()],
        ram: RAM,
        origin: Origin::Described,
        drivers: plimsoll::machine::Drivers::default(),
    };
    assert_eq!(silent(json(&mut command)), silent(expected("llama3.1-8b", &machine, &settings)));
}

#[test]
fn gpus_keep_their_order_and_backend() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command
        .arg("plan")
        .arg(sandbox.model("gemma3-4b"))
        .args(["--ram", RAM_TEXT, "--gpu-layers", "-1", "--ctx", "50000"])
        .args(["--engine", "ollama-0.24"]);
    let mut gpus = Vec::new();
    for (name, backend, integrated) in
        [("a", Backend::Vulkan, true), ("b", Backend::Rocm, false), ("c", Backend::Vulkan, false)]
    {
        let total = 4_294_967_296 + gpus.len() as u64;
        let text = format!(
            "name={name},total={total},free={total},backend={},integrated={integrated},compute=8.6",
            backend.name()
        );
        command.args(["--gpu", &text]);
        gpus.push(Gpu {
            name: name.to_owned(),
            backend,
            integrated,
            total: Bytes(total),
            free: Bytes(total),
            ..dev0()
        });
    }
    let machine = Machine {
        disk: None,
        os: Os::here(),
        cpu: plimsoll::machine::Cpu::default(),
        gpus,
        ram: RAM,
        origin: Origin::Described,
        drivers: plimsoll::machine::Drivers::default(),
    };
    let settings = Settings { ctx: Context::Tokens(50_000), ..Settings::default() };
    assert_eq!(silent(json(&mut command)), silent(expected("gemma3-4b", &machine, &settings)));
}

#[test]
fn ollama_variables_are_used_and_reported() {
    let sandbox = Sandbox::new();
    let variables = [
        ("OLLAMA_CONTEXT_LENGTH", "16384"),
        ("OLLAMA_NUM_PARALLEL", "2"),
        ("OLLAMA_KV_CACHE_TYPE", "q8_0"),
        ("OLLAMA_FLASH_ATTENTION", "1"),
    ];
    let plan = json(sandbox.plan("llama3.1-8b").args(["--gpu", "24GiB"]).envs(variables));
    let settings = &plan["settings"];
    assert_eq!((&settings["ctx"], &settings["parallel"]), (&16_384.into(), &2.into()));
    assert_eq!((&settings["cache_type_k"], &settings["flash_attn"]), (&"q8_0".into(), &"on".into()));
    let notes = plan["notes"].to_string();
    for (name, value) in variables {
        assert!(notes.contains(&format!("{name}={value}")), "{name} in {notes}");
    }
    let raw = json(sandbox.plan("llama3.1-8b").args(["--gpu", "24GiB", "--raw-settings"]).envs(variables));
    assert!(!raw["notes"].to_string().contains("OLLAMA_"), "{}", raw["notes"]);
    assert_eq!(raw["settings"]["parallel"], 1);
}

#[test]
fn unused_knobs_are_reported() {
    let sandbox = Sandbox::new();
    let plan = json(sandbox.plan("llama3.1-8b").args([
        "--gpu",
        "24GiB",
        "--ubatch",
        "256",
        "--kv-unified",
        "--no-kv-offload",
        "--no-op-offload",
        "--swa-full",
        "--tensor-split",
        "3,1",
        "--outputs",
        "ubatch",
        "--fit-target",
        "1024",
        "--fit-ctx",
        "4096",
        "--n-cpu-moe",
        "2",
        "--mmproj",
        "mmproj.gguf",
        "--release",
        "2026-08",
    ]));
    let notes = plan["notes"].to_string();
    for flag in [
        "--ubatch",
        "--kv-unified",
        "--no-kv-offload",
        "--no-op-offload",
        "--swa-full",
        "--tensor-split",
        "--outputs",
        "--fit-target",
        "--fit-ctx",
        "--n-cpu-moe",
        "--mmproj",
        "--release",
    ] {
        assert!(notes.contains(&format!("{flag} is ignored")), "{flag} in {notes}");
    }
}

#[test]
fn a_quantisation_is_planned_before_it_is_made() {
    let sandbox = Sandbox::new();
    let same = json(sandbox.plan("llama3.1-8b").args(["--gpu", "24GiB", "--quant", "Q4_K_M"]));
    assert_eq!(same["layers"], json(sandbox.plan("llama3.1-8b").args(["--gpu", "24GiB"]))["layers"]);
    let plan = json(sandbox.plan("llama3.1-8b").args(["--gpu", "24GiB", "--quant", "q8_0"]));
    // what llama.cpp's quantiser printed: tests/vectors/quant
    assert_eq!(plan["model"]["bytes"], 8_532_934_912u64);
    assert_eq!(plan["model"]["file_type"], "Q8_0");
    let refused = sandbox.plan("llama3.1-8b").args(["--quant", "Q9_K"]).assert().code(2);
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("Q9_K") && said.contains("Q4_K_M") && said.lines().count() == 1, "{said}");
}
