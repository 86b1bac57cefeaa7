//! Starts of Ollama with a projector or a draft: what users' logs show, and the fit's own rule asked of many models.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use plimsoll::catalogue;
use plimsoll::engine::{self, EngineId, PreparedModel, RequestParts};
use plimsoll::machine::{Backend, Gpu, Machine, Ram};
use plimsoll::plan::{PartKind, Plan};
use plimsoll::settings::{CacheType, Context, OllamaVersion, Settings};
use plimsoll::units::Bytes;
use rstest::rstest;

use crate::fixtures::{card, cards, machine};

fn gpu(total: u64, free: u64, compute: (u32, u32)) -> Gpu {
    let memory = (Bytes::mib(total), Bytes::mib(free));
    Gpu { free: memory.1, compute: Some(compute), ..card(Backend::Cuda, memory.0) }
}

/// A machine with this card and hundreds of GiB of RAM.
fn with(gpu: Gpu) -> Machine {
    let ram = Ram { total: Bytes::gib(503), free: Bytes::gib(400), swap_free: Bytes::ZERO, bandwidth: None };
    Machine { ram, ..machine(vec![gpu]) }
}

/// A model of the catalogue with its projector, as Ollama runs it.
fn opened(name: &str) -> (PreparedModel, Settings) {
    let entry = catalogue::find(name).unwrap();
    let settings = Settings { projector: entry.projector().cloned(), ..Settings::default() };
    (entry.model(entry.quantisation).unwrap().into(), settings)
}

fn version(text: &str) -> OllamaVersion {
    text.parse().unwrap()
}

/// Layers on GPUs and the columns of `ollama ps` as users' logs of Qwen3.8 27B with its own MTP block and projector show
/// them: an RTX 3090 and an RTX 5090 with Ollama 0.32.15, a 24 GB card with 0.33.3.
#[rstest]
#[case("0.32.15", gpu(24_124, 23_109, (8, 6)), 65_536, CacheType::F16, 66, Some("17 GB 100% GPU"))]
#[case("0.32.15", gpu(24_124, 23_109, (8, 6)), 131_072, CacheType::F16, 54, None)]
#[case("0.32.15", gpu(32_160, 30_861, (12, 0)), 65_536, CacheType::F16, 66, Some("17 GB 100% GPU"))]
#[case("0.32.15", gpu(32_160, 30_861, (12, 0)), 131_072, CacheType::F16, 66, Some("17 GB 100% GPU"))]
#[case("0.32.15", gpu(32_160, 30_861, (12, 0)), 196_608, CacheType::F16, 66, Some("18 GB 100% GPU"))]
#[case("0.32.15", gpu(32_160, 30_861, (12, 0)), 262_144, CacheType::F16, 54, Some("22 GB 32%/68% CPU/GPU"))]
#[case("0.33.3", gpu(24_564, 23_002, (8, 9)), 200_704, CacheType::Q4_0, 63, None)]
#[case("0.33.3", gpu(24_564, 23_002, (8, 9)), 200_704, CacheType::Q8_0, 53, None)]
fn users_logs_of_a_model_that_sees_and_drafts_agree(
    #[case] ollama: &str,
    #[case] gpu: Gpu,
    #[case] ctx: u64,
    #[case] cache: CacheType,
    #[case] layers: usize,
    #[case] ps: Option<&str>,
) {
    let (model, mut settings) = opened("qwen3.8-27b");
    settings.ctx = Context::Tokens(ctx);
    (settings.cache_type_k, settings.cache_type_v) = (Some(cache), Some(cache));
    (settings.ollama.version, settings.ollama.draft_num_predict) = (version(ollama), Some(4));
    let plan = engine::plan(EngineId::Ollama, &model, &with(gpu), &settings).unwrap();
    assert_eq!((plan.offloaded, plan.layers.len()), (layers, 66));
    let shown = plan.ollama_ps.unwrap();
    if let Some(ps) = ps {
        assert_eq!(format!("{} {}", shown.size_column(), shown.processor_column()), ps);
    }
}

/// A margin of 2170 MiB was logged where Ollama asks for 2164: the projector's share of RAM.
#[test]
fn a_first_gpu_keeps_free_what_the_projector_takes_of_ram() {
    let (model, mut settings) = opened("gemma4-26b-a4b");
    (settings.ctx, settings.ollama.version) = (Context::Tokens(4096), version("0.32.12"));
    let plan = engine::plan(EngineId::Ollama, &model, &with(gpu(7780, 6903, (7, 5))), &settings).unwrap();
    let margin = plan.devices[0].margin.as_ref().unwrap();
    assert_eq!((margin.target.0 >> 20, margin.total().0 >> 20), (2164, 2170));
}

#[test]
fn a_small_card_holds_a_small_model_that_sees() {
    let (model, mut settings) = opened("qwen3.5-9b");
    settings.ctx = Context::Tokens(4096);
    let plan = engine::plan(EngineId::Ollama, &model, &with(gpu(8188, 7778, (8, 9))), &settings).unwrap();
    assert_eq!(plan.offloaded, plan.layers.len());
}

/// What clip counts of the projector on each device: its tensors and compute buffers; GPUs in order, RAM last.
fn shares(plan: &Plan, settings: &Settings) -> Vec<u64> {
    let projectors = || plan.parts.iter().filter(|part| matches!(part.kind, PartKind::Vision | PartKind::Audio));
    let graphs = |device: usize| projectors().map(|part| part.devices[device].graph.0).sum::<u64>();
    let own = |device: usize| projectors().any(|part| part.devices[device].weights > Bytes::ZERO);
    let weights = |device: usize| if own(device) { settings.projector_bytes().0 } else { 0 };
    (0..plan.devices.len()).map(|device| graphs(device) + weights(device)).collect()
}

/// The margins of a start by its own environment: what is asked for, and each share of the projector at the place of its
/// device among all that are registered.
fn margins(plan: &Plan, settings: &Settings, env: &BTreeMap<String, String>) -> Vec<Bytes> {
    let gpus = plan.gpus().len();
    let shares = shares(plan, settings);
    let asked = env.get("LLAMA_ARG_FIT_TARGET").map_or(1024, |mib| mib.parse().unwrap());
    let order: Vec<usize> = if env.contains_key("GGML_BACKEND_PATH") {
        [gpus].into_iter().chain(0..gpus).collect()
    } else {
        (0..=gpus).collect()
    };
    (0..gpus).map(|place| Bytes(Bytes::mib(asked).0 + shares[order[place]])).collect()
}

/// llama-server started as Ollama says, but without the projector, and with margins by hand, puts the layers where the plan
/// has them.
#[test]
fn ollamas_plans_with_projectors_are_those_of_the_starts_that_they_describe() {
    let metal = Gpu { compute: None, ..card(Backend::Metal, Bytes::gib(24)) };
    let vulkan = Gpu { compute: None, ..card(Backend::Vulkan, Bytes::gib(16)) };
    let machines = [
        cards(&[8]),
        cards(&[12]),
        cards(&[24]),
        cards(&[12, 8]),
        cards(&[24, 24]),
        cards(&[10, 8, 6]),
        machine(vec![metal]),
        machine(vec![vulkan]),
    ];
    let seeing = catalogue::all().iter().filter(|entry| entry.projector().is_some_and(|one| one.header.is_some()));
    let (mut models, mut compared) = (0, 0);
    for entry in seeing {
        let model = Arc::new(PreparedModel::from(entry.model(entry.quantisation).unwrap()));
        // the fit of hundreds of layers and experts takes seconds here
        if model.bytes > Bytes::gib(30) || models == 60 {
            continue;
        }
        models += 1;
        for machine in &machines {
            let settings =
                Settings { projector: entry.projector().cloned(), ctx: Context::Tokens(16_384), ..Settings::default() };
            let request = RequestParts { model: &model, machine, settings: &settings };
            let Ok(plan) = engine::plan(EngineId::Ollama, &model, machine, &settings) else { continue };
            let launch = engine::running_llama_cpp(EngineId::Ollama).unwrap().launch(request).unwrap();
            let env = &launch.command.as_ref().unwrap().env;
            // a subset of the GPUs is another machine
            if launch.gpus.len() != machine.gpus.len() || launch.failures > 0 {
                continue;
            }
            let alone = Settings {
                projector: None,
                fit_target: None,
                fit_targets: margins(&plan, &settings, env),
                gpus_registered_last: false,
                ..launch.options
            };
            let bare = engine::plan(EngineId::LlamaCpp, &model, machine, &alone).unwrap();
            let held = |plan: &Plan| plan.devices.iter().map(|device| device.layers.clone()).collect::<Vec<_>>();
            let name = (&entry.name, machine.gpus.len(), machine.gpus[0].backend);
            assert_eq!(held(&plan), held(&bare), "{name:?}");
            assert_eq!(plan.parts[0].devices, bare.parts[0].devices, "{name:?}");
            compared += 1;
        }
    }
    assert!(models >= 30 && compared >= 4 * models, "{compared} of {models} models");
}

/// The lines that llama-server prints for a plan, in its order: component, backend, kind, MiB with two decimals.
fn log(plan: &Plan, model: &PreparedModel) -> Vec<(&'static str, String, &'static str, f64)> {
    let loaded = model.llama_cpp(plan.settings.release.unwrap_or_default()).unwrap();
    let mut lines = Vec::new();
    let mut say = |component, device: usize, kind, bytes: Bytes| {
        if bytes > Bytes::ZERO {
            let mib = (bytes.0 as f64 / 1_048_576.0 * 100.0).round_ties_even() / 100.0;
            lines.push((component, plan.devices[device].id.clone(), kind, mib));
        }
    };
    let devices = 0..plan.devices.len();
    let of_blocks = |device: usize, wanted: &dyn Fn(usize) -> bool| -> Bytes {
        let own = plan.devices[device].layers.iter().filter(|layer| **layer < loaded.hparams.is_swa.len());
        own.filter(|layer| wanted(**layer)).map(|layer| plan.layers[*layer].cache).sum()
    };
    let (swa, recurrent) = (&loaded.hparams.is_swa, &loaded.hparams.is_recr);
    let main = &plan.parts[0];
    devices.clone().for_each(|at| say("load_tensors", at, "model", main.devices[at].weights));
    for kind in [false, true] {
        let attention = |at: usize| of_blocks(at, &|layer| !recurrent[layer] && swa[layer] == kind);
        devices.clone().for_each(|at| say("llama_kv_cache", at, "KV", attention(at)));
    }
    devices.clone().for_each(|at| say("llama_memory_recurrent", at, "RS", of_blocks(at, &|layer| recurrent[layer])));
    devices.clone().for_each(|at| say("sched_reserve", at, "compute", main.devices[at].graph));
    for draft in plan.parts.iter().filter(|part| part.kind == PartKind::Draft) {
        devices.clone().for_each(|at| say("load_tensors", at, "model", draft.devices[at].weights));
        devices.clone().for_each(|at| say("llama_kv_cache", at, "KV", draft.devices[at].cache));
        devices.clone().for_each(|at| say("sched_reserve", at, "compute", draft.devices[at].graph));
    }
    for projector in plan.parts.iter().filter(|part| matches!(part.kind, PartKind::Vision | PartKind::Audio)) {
        devices.clone().for_each(|at| say("alloc_compute_meta", at, "compute", projector.devices[at].graph));
    }
    lines
}

/// `ollama ps` counts the last line of each component, backend and kind, as the log would have them.
#[test]
fn ollama_ps_is_what_the_last_lines_of_the_log_add_up_to() {
    let mut seen = HashMap::new();
    for entry in catalogue::all() {
        let model = PreparedModel::from(entry.model(entry.quantisation).unwrap());
        let drafts = model.drafts_by().is_some();
        if !drafts && entry.projector().is_none() || model.bytes > Bytes::gib(40) {
            continue;
        }
        let mut settings =
            Settings { projector: entry.projector().cloned(), ctx: Context::Tokens(8192), ..Settings::default() };
        settings.ollama.draft_num_predict = drafts.then_some(3);
        let Ok(plan) = engine::plan(EngineId::Ollama, &model, &cards(&[64]), &settings) else { continue };
        let mut last = HashMap::new();
        for (component, backend, kind, mib) in log(&plan, &model) {
            last.insert((component, backend, kind), mib);
        }
        let vram: u64 = last
            .iter()
            .filter(|((_, backend, _), _)| *backend != "CPU")
            .map(|(_, mib)| (mib * 1_048_576.0) as u64)
            .sum();
        let shown = plan.ollama_ps.unwrap();
        // caches of layers are rounded up to whole buffers
        assert!(shown.vram.0.abs_diff(vram) <= 64 << 10, "{}: {} {vram}", entry.name, shown.vram.0);
        *seen.entry((drafts, entry.projector().is_some())).or_insert(0) += 1;
    }
    assert!(seen.len() >= 3, "{seen:?}");
}
