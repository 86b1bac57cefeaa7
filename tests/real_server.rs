//! Starts of a real llama-server on a CPU with AVX-512, alone and with devices over RPC (`starts.jsonl.gz`): the buffers
//! that it printed, and what the kernel counted after the load and after a prompt of 700 tokens.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use plimsoll::answer::ram::RamUse;
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::machine::{Backend, Cpu, CpuInstructions, Drivers, Gpu, Listed, Machine, Origin, Os, Ram};
use plimsoll::model::Model;
use plimsoll::observed::{Load, Observation, Term};
use plimsoll::settings::{CacheType, Context, GpuLayers, Settings};
use plimsoll::units::Bytes;
use serde_json::Value;

use crate::support;

/// What a buffer's line may be off, in MiB.
const LINE: f64 = 0.02;
/// Memory of a program besides its buffers.
const PROGRAM: Bytes = Bytes::mib(40);

struct Start {
    id: String,
    request: PlanRequest,
    load: Load,
    after_load: Bytes,
    after_prompt: Bytes,
    embeds: bool,
}

fn starts() -> Vec<Start> {
    let path = support::tests().join("real_server/starts.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(start).collect()
}

fn start(line: &str) -> Start {
    let line: Value = serde_json::from_str(line).unwrap();
    let text = |key: &str| line[key].as_str().unwrap();
    let words: Vec<&str> = text("command").split(' ').collect();
    let anonymous = |when: &str| Bytes(line[when]["RssAnon"].as_u64().unwrap() << 10);
    let model = Model::from_header(support::model(text("model")), text("model")).unwrap();
    let rpc = words.iter().position(|word| *word == "--rpc").map_or(0, |at| words[at + 1].split(',').count());
    let request = PlanRequest::new(EngineId::LlamaCpp, Arc::new(model.into()), machine(rpc), settings(&words));
    Start {
        id: text("id").to_owned(),
        load: Observation::of(text("raw")).load().unwrap().clone(),
        request,
        after_load: anonymous("after_load"),
        after_prompt: anonymous("after_prompt"),
        embeds: words.contains(&"--embeddings"),
    }
}

/// A machine without a GPU, and `rpc` others that offer their RAM.
fn machine(rpc: usize) -> Machine {
    let gpu = |at: usize| Gpu {
        name: "CPU".to_owned(),
        backend: Backend::Plain,
        total: Bytes::mib(24_105),
        free: Bytes::mib(24_105),
        integrated: false,
        compute: None,
        driver_major: None,
        computer: Some(format!("server {at}").into()),
        vulkan: None,
        listed: Listed::default(),
        driver_memory: None,
    };
    let ram = Ram { total: Bytes::mib(24_105), free: Bytes::mib(24_105), swap_free: Bytes::ZERO, bandwidth: None };
    Machine {
        os: Os::Linux,
        cpu: Cpu::with(CpuInstructions::Avx512),
        gpus: (0..rpc).map(gpu).collect(),
        ram,
        origin: Origin::Described,
        drivers: Drivers::default(),
    }
}

fn settings(words: &[&str]) -> Settings {
    let value = |name: &str| words.iter().position(|word| *word == name).map(|at| words[at + 1]);
    let number = |name: &str| value(name).map(|text| text.parse::<u64>().unwrap());
    let cache = |name: &str| value(name).map(|text| text.parse::<CacheType>().unwrap());
    let default = Settings::default();
    Settings {
        ctx: number("-c").map_or(Context::Auto, Context::Tokens),
        parallel: number("-np"),
        batch: number("-b"),
        ubatch: number("-ub"),
        cache_type_k: cache("-ctk"),
        cache_type_v: cache("-ctv"),
        flash_attn: match value("-fa") {
            Some("on") => plimsoll::settings::FlashAttn::On,
            Some("off") => plimsoll::settings::FlashAttn::Off,
            _ => default.flash_attn,
        },
        gpu_layers: number("-ngl").map_or(default.gpu_layers, GpuLayers::Count),
        n_cpu_moe: number("-ncmoe"),
        load_mode: value("--load-mode").map(|text| text.parse().unwrap()),
        release: std::env::var("REL").ok().map(|text| text.parse().unwrap()),
        no_repack: words.contains(&"--no-repack"),
        ..default
    }
}

/// The buffers that were printed, in MiB, of devices whose name begins so.
fn printed(load: &Load, device: &str, term: Term) -> f64 {
    let of = load.observed.iter().filter(|(name, _)| name.starts_with(device));
    of.filter_map(|(_, terms)| terms.get(&term)).map(|mib| mib.0).sum()
}

fn mib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / f64::from(1 << 20)
}

#[test]
fn buffers_in_ram_are_those_that_were_printed() {
    for start in starts() {
        let plan = start.request.plan().unwrap();
        let cpu = plan.cpu();
        let near = |planned: Bytes, printed: f64, what: &str| {
            println!(
                "{} {what}: planned {:.2}, printed {printed:.2} {}",
                start.id,
                mib(planned),
                if (mib(planned) - printed).abs() > LINE { "XXX" } else { "" }
            );
        };
        near(cpu.weights, printed(&start.load, "CPU", Term::Model), "weights");
        near(cpu.repacked, printed(&start.load, "CPU_REPACK", Term::Model), "repacked");
        near(cpu.cache, printed(&start.load, "CPU", Term::Kv) + printed(&start.load, "CPU", Term::Rs), "caches");
        near(cpu.graph, printed(&start.load, "CPU", Term::Compute), "compute");
        let ram = RamUse::of(&start.request, &plan);
        println!(
            "{} must {} after load {} after prompt {} cache {:?} ckpt {}",
            start.id, ram.must, start.after_load, start.after_prompt, ram.prompt_cache, ram.checkpoints
        );
        let _ = (start.embeds, PROGRAM);
    }
}
