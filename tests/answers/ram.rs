//! RAM in three figures, and what may happen silently.

use plimsoll::answer::ram::{self, RamUse};
use plimsoll::answer::verdict;
use plimsoll::catalogue;
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::gguf::FileType;
use plimsoll::machine::{Backend, Machine, Os};
use plimsoll::plan::Outcome;
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{Context, LazyMode, LoadMode, PROMPT_CACHE, Release, Settings};
use plimsoll::units::Bytes;
use rstest::rstest;

use crate::harness;

fn request(model: &str, machine: Machine, ctx: u64) -> PlanRequest {
    let settings = Settings { ctx: Context::Tokens(ctx), parallel: Some(1), ..Settings::default() };
    PlanRequest::new(EngineId::LlamaCpp, std::sync::Arc::new(harness::model(model).into()), machine, settings)
}

#[rstest]
#[case("llama3.1-8b", 65_536)]
#[case("qwen3-30b-a3b", 16_384)]
fn the_figures_sum_to_what_is_planned(#[case] model: &str, #[case] ctx: u64) {
    let request = request(model, harness::machine(1, "RTX 3060", 12, 32), ctx);
    let plan = request.plan().unwrap();
    let mapped = RamUse::of(&request, &plan);
    assert_eq!(mapped.must + mapped.warm + mapped.may_page, plan.cpu().asked());
    assert_eq!((mapped.load_mode, mapped.prompt_cache), (LoadMode::Mmap, Some(PROMPT_CACHE)));
    // of the mixture only experts are in RAM, and the embeddings: a token uses 8 of 128
    assert!(mapped.warm > Bytes::ZERO && mapped.may_page > mapped.idle_experts, "{mapped:?}");
    let idle = if model == "llama3.1-8b" { 0 } else { 15 * mapped.warm.0 };
    assert_eq!(mapped.idle_experts, Bytes(idle));
    assert_eq!(mapped.sentence().contains("experts that the next token may need"), idle > 0);
    let locked = request.changed(|settings| settings.load_mode = Some(LoadMode::Locked));
    let locked = RamUse::of(&locked, &locked.plan().unwrap());
    assert_eq!((locked.must, locked.warm, locked.may_page), (plan.cpu().asked(), Bytes::ZERO, Bytes::ZERO));
    // one sequence has all of the cache
    assert_eq!(mapped.one_prompt, plan.totals.cache);
}

#[test]
fn a_large_table_is_read_on_demand_whatever_the_load_mode() {
    let read = request("gemma-4-e2b", harness::machine(1, "RTX 3090", 24, 32), 8192)
        .changed(|settings| settings.load_mode = Some(LoadMode::Read));
    let of = |mode: LazyMode, release: Release| {
        let request = read.changed(|settings| (settings.lazy_mode, settings.release) = (mode, Some(release)));
        let plan = request.plan().unwrap();
        let ram = RamUse::of(&request, &plan);
        assert_eq!(ram.must + ram.warm + ram.may_page, plan.cpu().asked());
        assert_eq!(ram.sentence().contains("on demand"), ram.may_page > Bytes::ZERO);
        (plan.cpu().weights, ram.may_page)
    };
    let table = read.model.header.tensors.iter().find(|tensor| *tensor.name == *"per_layer_token_embd.weight").unwrap();
    let newest = Release::November2026;
    let (weights, none) = of(LazyMode::Off, newest);
    assert_eq!(none, Bytes::ZERO);
    assert_eq!(of(LazyMode::On, newest), (weights, table.bytes));
    // it is below 4 GiB
    assert_eq!(of(LazyMode::Auto, newest), (weights, Bytes::ZERO));
    assert_eq!(of(LazyMode::On, Release::EarlyAugust2026).1, Bytes::ZERO);
}

#[test]
fn a_prompt_cache_that_ram_lacks_is_said_and_can_be_limited() {
    let request = request("llama3.1-8b", harness::machine(1, "RTX 3090", 24, 8), 8192);
    let plan = request.plan().unwrap();
    let short = RamUse::of(&request, &plan).shortage(&plan).unwrap();
    assert!(
        short.contains("8.0 GiB of prompt cache = 8.0 GiB, and 7.0 GiB are free") && short.contains("--cache-ram"),
        "{short}"
    );
    let limited = request.changed(|settings| settings.cache_ram = Some(Bytes::gib(1)));
    let plan = limited.plan().unwrap();
    assert_eq!(RamUse::of(&limited, &plan).shortage(&plan), None);
    let off = request.changed(|settings| settings.cache_ram = Some(Bytes::ZERO));
    assert_eq!(RamUse::of(&off, &off.plan().unwrap()).in_use().as_deref(), Some("The prompt cache is off."));
}

#[test]
fn what_windows_does_silently_is_said_there_only() {
    let mut machine = harness::machine(1, "RTX 3060", 12, 32);
    let mut tight = request("llama3.1-8b", machine.clone(), 32_768);
    tight.settings.gpu_layers = plimsoll::settings::GpuLayers::All;
    let plan = tight.plan().unwrap();
    machine.gpus[0].free = plan.gpus()[0].asked() + Bytes::mib(300);
    let on = |os: Os, machine: &Machine| {
        let request = tight.on_machine(Machine { os, ..machine.clone() });
        ram::spills(&request.machine, &request.plan().unwrap())
    };
    assert_eq!(on(Os::Linux, &machine), Vec::<String>::new());
    assert!(on(Os::Windows, &machine)[0].contains("With 300 MiB left on GPU0, Windows may move memory"));
    let plan = tight.on_machine(machine.clone()).plan().unwrap();
    let sentence = verdict::sentence(&plan, None, None);
    let said = "GPU0 lacks 724 MiB of the 1.0 GiB kept free. GPU0 has 300 MiB left for CUDA's 350 MiB (assumed): the load may fail.";
    assert_eq!((sentence.as_str(), plan.outcome()), (said, Outcome::Tight));
    (machine.gpus[0].backend, machine.gpus[0].free) = (Backend::Vulkan, machine.gpus[0].total - Bytes::mib(768));
    assert!(on(Os::Windows, &machine)[0].contains("Vulkan driver says that all but 768 MiB of GPU0 is free"));
}

/// Of gpt-oss, 12 blocks have windows of 128 tokens: 768 cells with a batch of 512, of 2 KiB each in every block.
#[test]
fn checkpoints_hold_windows_and_states_but_no_full_caches() {
    let checkpoints = |model: &str, swa_full: bool| {
        let mut request = request(model, harness::machine(1, "RTX 3090", 24, 64), 16_384);
        request.settings.swa_full = swa_full;
        RamUse::of(&request, &request.plan().unwrap()).checkpoints
    };
    assert_eq!(checkpoints("gpt-oss-20b", false), Bytes::mib(32 * 18));
    assert_eq!(checkpoints("gpt-oss-20b", true), Bytes::ZERO);
    assert_eq!(checkpoints("llama3.1-8b", false), Bytes::ZERO);
    assert!(checkpoints("qwen3.5-9b", false) > Bytes::gib(1));
}

/// Weights, prompt cache and checkpoints are one sum.
#[test]
fn checkpoints_are_multiplied_by_their_number_and_added_up() {
    let ram = |count: Option<u64>| {
        let mut request = request("qwen3.5-9b", harness::machine(1, "RTX 3090", 24, 32), 16_384);
        request.settings.ctx_checkpoints = count;
        let plan = request.plan().unwrap();
        let ram = RamUse::of(&request, &plan);
        (ram, ram.shortage(&plan))
    };
    let (default, enough) = ram(None);
    assert_eq!((default.checkpoint_count, enough), (32, None));
    let (many, short) = ram(Some(512));
    assert_eq!(many.checkpoints.0, 16 * default.checkpoints.0);
    assert_eq!(many.at_most(), many.needed() + PROMPT_CACHE + many.checkpoints);
    let short = short.unwrap();
    assert!(short.contains(&format!("= {}, and", many.at_most())) && short.contains("--ctx-checkpoints"), "{short}");
    let (none, _) = ram(Some(0));
    assert_eq!(none.checkpoints, Bytes::ZERO);
}

#[test]
fn load_mode_and_prompt_cache_are_knobs_that_move_only_what_is_said_of_ram() {
    let request = request("llama3.1-8b", harness::machine(1, "RTX 3060", 12, 32), 65_536);
    let plan = request.plan().unwrap();
    assert_eq!((Knob::LoadMode.in_effect(&plan), Knob::CacheRam.in_effect(&plan)), (0, 8192));
    let changed = request.changed(|settings| {
        Knob::LoadMode.set(settings, 2);
        Knob::CacheRam.set(settings, 2048);
    });
    let other = changed.plan().unwrap();
    let unmapped = |mut plan: plimsoll::plan::Plan| {
        plan.devices.iter_mut().for_each(|device| device.ram.mapped = Bytes::ZERO);
        (plan.devices, plan.totals)
    };
    assert_eq!(unmapped(plan), unmapped(other.clone()));
    let ram = RamUse::of(&changed, &other);
    assert_eq!((ram.load_mode, ram.prompt_cache), (LoadMode::Read, Some(Bytes::gib(2))));
    let command = plimsoll::export::llama_server::arguments(&changed.settings).join(" ");
    assert!(command.contains("--load-mode none") && command.contains("--cache-ram 2048"), "{command}");
}

#[test]
fn ollama_reads_weights_as_it_decides() {
    let with = |machine: Machine| {
        let request = PlanRequest { engine: EngineId::Ollama, ..request("llama3.1-8b", machine, 8192) };
        let plan = request.plan().unwrap();
        (RamUse::of(&request, &plan).load_mode, plan.settings.load_mode)
    };
    assert_eq!(with(harness::machine(1, "RTX 3090", 24, 64)), (LoadMode::Mmap, Some(LoadMode::Mmap)));
    assert_eq!(with(harness::machine(0, "", 0, 64)), (LoadMode::Read, Some(LoadMode::Read)));
}

#[test]
fn a_prompt_of_windows_or_states_is_read_back_whole() {
    let said = |model: &str| {
        let request = request(model, harness::machine(1, "RTX 3090", 24, 64), 8192);
        RamUse::of(&request, &request.plan().unwrap()).in_use().unwrap()
    };
    assert!(!said("llama3.1-8b").contains("cannot be cut"));
    assert!(said("gemma3-4b").contains("cannot be cut") && said("qwen3.5-9b").contains("cannot be cut"));
}

#[test]
fn the_largest_buffer_stands_beside_its_drivers_limit() {
    let plan = |backend: Backend, quant: FileType| {
        let model = catalogue::find("llama4-maverick").unwrap().model(quant).unwrap();
        let mut machine = harness::machine(1, "Arc", 600, 64);
        machine.gpus[0].backend = backend;
        let settings = Settings { ctx: Context::Tokens(8192), parallel: Some(1), ..Settings::default() };
        let request = PlanRequest::new(EngineId::LlamaCpp, std::sync::Arc::new(model.into()), machine, settings);
        let plan = request.plan().unwrap();
        (plan.gpus()[0].largest_buffer.unwrap(), ram::spills(&request.machine, &plan), ram::largest_buffers(&plan))
    };
    let (cuda, silent, unlimited) = plan(Backend::Cuda, FileType::Q4_0);
    assert!(cuda.limit.is_none() && cuda.bytes > Bytes::gib(100) && silent.is_empty() && unlimited.is_none());
    // experts of a layer: 128 matrices of 5120 x 8192
    let (sycl, silent, said) = plan(Backend::Sycl, FileType::Q4_0);
    assert_eq!((sycl.bytes, silent), (Bytes::gib(4), Vec::new()));
    assert!(said.unwrap().contains("the driver allows 4.0 GiB"));
    let (sycl, silent, _) = plan(Backend::Sycl, FileType::Q8_0);
    assert_eq!(sycl.bytes, Bytes(128 * 5120 * 8192 / 32 * 34));
    assert!(sycl.is_refused() && silent[0].contains("too large for its driver"), "{silent:?}");
}

/// One-bit experts are read from the file where their release has no layout for them.
#[rstest]
fn one_bit_experts_are_idle_in_the_file_unless_their_release_repacks_them(
    #[values(("2026-08", false), ("2026-11", true))] release: (&str, bool),
    #[values("qwen3-30b-a3b", "mixtral-8x7b")] model: &str,
) {
    let (release, repacked) = release;
    let entry = catalogue::find(model).unwrap();
    let model: plimsoll::engine::PreparedModel = entry.model(FileType::Q1_0).unwrap().into();
    let one_bit = model.header.tensors.iter().filter(|tensor| tensor.ty == plimsoll::gguf::GgmlType::Q1_0);
    let experts: Bytes = one_bit.filter(|tensor| tensor.name.contains("_exps.")).map(|tensor| tensor.bytes).sum();
    let mut machine = harness::machine(1, "RTX 3060", 12, 32);
    machine.gpus.clear();
    machine.cpu.instructions = "neon-dotprod".parse().unwrap();
    let release = Some(release.parse().unwrap());
    let settings = Settings { ctx: Context::Tokens(4096), parallel: Some(1), release, ..Settings::default() };
    let request = PlanRequest::new(EngineId::LlamaCpp, model, machine, settings);
    let plan = request.plan().unwrap();
    let used = RamUse::of(&request, &plan);
    assert!(experts > Bytes::gib(2) && plan.cpu().ram.repacked > Bytes::ZERO);
    assert_eq!(plan.cpu().ram.repacked > experts, repacked);
    // a token uses a quarter of them at most
    assert_eq!(used.idle_experts.0 >= experts.0 * 3 / 4, !repacked, "{used:?} of {experts}");
}
