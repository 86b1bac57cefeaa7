//! Ollama's rules one by one; complete plans are tested in `tests/ollama.rs`.

use rstest::rstest;

use super::super::estimator::OLLAMA_024;
use super::super::fixtures::{card, gpu, machine, model};
use super::server_launch::prediction;
use super::*;
use crate::gguf::{GgmlType, Header, Tensor, Value};
use crate::machine::{Backend, Gpu};
use crate::model::{Model, Projector};
use crate::settings::{CacheType, Context, FlashAttn, Outputs};
use crate::units::Bytes;

const CUDA: Backend = Backend::Cuda;

fn ctx(tokens: u64) -> Settings {
    Settings { ctx: Context::Tokens(tokens), ..Settings::default() }
}

fn started(model: &Model, machine: &Machine, settings: &Settings) -> ServerLaunch {
    server_launch::decide(model, machine, settings, Retry::default()).unwrap()
}

fn has_note(start: &ServerLaunch, words: &str) -> bool {
    start.notes.iter().any(|note| note.contains(words))
}

fn batch(start: &ServerLaunch) -> u64 {
    assert_eq!(start.options.batch, start.options.ubatch);
    start.options.batch.unwrap()
}

/// A model file of `bytes` bytes, with a cache of 1 KiB per token.
fn sized(architecture: &str, bytes: u64, tensor: &str) -> Model {
    let model = model(architecture, &[]);
    let tensor =
        Tensor { name: tensor.into(), dims: vec![bytes / 2], ty: GgmlType::F16, bytes: Bytes(bytes), old_mxfp4: false };
    Model::from_header(Header { tensors: vec![tensor], ..model.header }, "toy").unwrap()
}

fn large(gibibytes: u64) -> Model {
    sized("llama", gibibytes << 30, "blk.0.ffn_up.weight")
}

fn cards(gibibytes: &[u64]) -> Machine {
    machine(gibibytes.iter().map(|&n| gpu(CUDA, Bytes::gib(n))).collect())
}

#[rstest]
#[case(&[], 0, 4096)]
#[case(&[22], 0, 4096)]
#[case(&[23], 0, 32_768)]
#[case(&[12, 12], 0, 32_768)]
#[case(&[24], 2, 4096)]
#[case(&[47], 0, 262_144)]
#[case(&[24, 24], 1, 32_768)]
fn the_default_context_follows_the_memory_of_all_gpus(
    #[case] gibibytes: &[u64],
    #[case] overhead: u64,
    #[case] context: u64,
) {
    let settings = Settings { gpu_overhead: Bytes::gib(overhead), ..Settings::default() };
    let start = started(&model("llama", &[]), &cards(gibibytes), &settings);
    assert_eq!((start.ctx, start.options.ctx), (context, Context::Tokens(context)));
    assert!(has_note(&start, "by VRAM"));
    assert_eq!(has_note(&start, "OLLAMA_GPU_OVERHEAD no longer keeps memory free"), overhead > 0);
}

#[test]
fn the_context_is_limited_by_the_training_context() {
    let llama = model("llama", &[("context_length", Value::U32(8192))]);
    let start = started(&llama, &cards(&[48]), &Settings::default());
    assert_eq!(start.ctx, 8192);
    assert!(has_note(&start, "the model's training context"));
    assert_eq!(started(&llama, &card(), &ctx(2)).ctx, 4);
    let sees = model("gemma3", &[("vision.block_count", Value::U32(27))]);
    assert_eq!(started(&sees, &card(), &ctx(512)).ctx, 2048);
    let projector = Settings { projector: Projector::sized(Bytes::mib(600)), ..ctx(512) };
    assert_eq!(started(&llama, &card(), &projector).ctx, 2048);
}

#[test]
fn llama_server_gets_the_context_of_all_sequences() {
    let start = started(&model("llama", &[]), &card(), &Settings { parallel: Some(3), ..ctx(2048) });
    assert_eq!((start.ctx, start.options.ctx, start.options.parallel), (2048, Context::Tokens(6144), Some(3)));
    assert_eq!(started(&model("llama", &[]), &card(), &ctx(2048)).options.parallel, Some(1));
}

#[rstest]
#[case("llama", 4)]
#[case("gemma3", 4)]
#[case("mllama", 1)]
#[case("qwen3vl", 1)]
#[case("qwen3vlmoe", 1)]
#[case("qwen35", 1)]
#[case("qwen35moe", 1)]
#[case("qwen3next", 1)]
#[case("lfm2", 1)]
#[case("lfm2moe", 1)]
#[case("nemotron_h", 1)]
#[case("nemotron_h_moe", 1)]
#[case("nemotron_h_omni", 1)]
fn some_architectures_serve_one_sequence(#[case] architecture: &str, #[case] parallel: u64) {
    let start = started(&model(architecture, &[]), &card(), &Settings { parallel: Some(4), ..ctx(2048) });
    assert_eq!(start.options.parallel, Some(parallel));
    assert_eq!(has_note(&start, "only one sequence at a time"), parallel == 1);
}

#[test]
fn the_prediction_is_the_file_size_and_an_f16_cache() {
    let predicted = |model: &Model, tokens| prediction(model, tokens).unwrap();
    // 2 · 4 blocks · 1 KV head by default · 1024 ÷ 16 · tokens · 2
    assert_eq!(predicted(&model("llama", &[]), 1000), 2 * 4 * 64 * 1000 * 2);
    let grouped = model("llama", &[("attention.head_count_kv", Value::U32(8))]);
    assert_eq!(predicted(&grouped, 1000), 2 * 4 * 8 * 64 * 1000 * 2);
    let recurrent = model("llama", &[("attention.head_count_kv", Value::U32(0))]);
    assert_eq!(predicted(&recurrent, 1000), 2 * 4 * 64 * 1000 * 2);
    let header = Header { data_start: 64, ..sized("llama", 1000, "blk.0.ffn_up.weight").header };
    let file = Model::from_header(header, "toy").unwrap();
    // tensors end at a multiple of 32
    assert_eq!(predicted(&file, 0), 64 + 1024);
}

fn chosen(model: &Model, gpus: Vec<Gpu>, settings: &Settings) -> Vec<usize> {
    started(model, &machine(gpus), settings).gpus
}

#[test]
fn a_model_that_fits_with_a_fifth_to_spare_runs_on_one_gpu() {
    let cuda = |gibibytes| gpu(CUDA, Bytes::gib(gibibytes));
    let integrated = |gibibytes| Gpu { integrated: true, ..gpu(Backend::Vulkan, Bytes::gib(gibibytes)) };
    let llama = large(8);
    // most available memory, the first of equals
    assert_eq!(chosen(&llama, vec![cuda(12), cuda(24), cuda(24)], &ctx(4096)), [1]);
    // 80 % of 10 GiB is not enough for 8 GiB and a cache
    assert_eq!(chosen(&llama, vec![cuda(10), cuda(10)], &ctx(4096)), [0, 1]);
    // discrete before integrated, even if smaller
    let mut with_integrated = ctx(4096);
    with_integrated.ollama.server.igpu_enable = Some(true);
    assert_eq!(chosen(&llama, vec![integrated(40), cuda(12)], &with_integrated), [1]);
    assert_eq!(chosen(&llama, vec![integrated(40), cuda(8)], &with_integrated), [0]);
    // which it leaves out by itself
    assert_eq!(chosen(&llama, vec![integrated(40), cuda(8)], &ctx(4096)), [1]);
    // by free memory, not total
    let busy = Gpu { free: Bytes::gib(6), ..cuda(24) };
    assert_eq!(chosen(&llama, vec![busy, cuda(12)], &ctx(4096)), [1]);
    let start = started(&llama, &cards(&[12, 24]), &ctx(4096));
    assert!(has_note(&start, "1 of 2 GPUs"), "{:?}", start.notes);
    assert_eq!(start.machine.gpus.len(), 1);
    assert!(started(&llama, &cards(&[24]), &ctx(4096)).notes.is_empty());
}

#[test]
fn an_integrated_gpu_has_at_most_the_free_ram() {
    let shared = Gpu { integrated: true, ..gpu(CUDA, Bytes::gib(64)) };
    let mut small = machine(vec![shared, gpu(CUDA, Bytes::gib(6))]);
    small.ram.free = Bytes::gib(9);
    // 8 GiB is more than 80 % of 9 GiB, so both are used
    assert_eq!(started(&large(8), &small, &ctx(4096)).gpus, [0, 1]);
    small.ram.free = Bytes::gib(12);
    assert_eq!(started(&large(8), &small, &ctx(4096)).gpus, [0]);
}

#[test]
fn a_larger_model_runs_on_all_gpus_of_one_backend() {
    let of = |backend, gibibytes| gpu(backend, Bytes::gib(gibibytes));
    let mixed = vec![of(Backend::Vulkan, 12), of(CUDA, 8), of(Backend::Vulkan, 10), of(CUDA, 8)];
    assert_eq!(chosen(&large(30), mixed.clone(), &ctx(4096)), [0, 2]);
    let spread = Settings { spread: true, ..ctx(4096) };
    assert_eq!(chosen(&large(1), mixed.clone(), &spread), [0, 2]);
    let start = started(&large(30), &machine(mixed), &ctx(4096));
    assert!(has_note(&start, "2 of 4 GPUs"), "{:?}", start.notes);
    // a group with a discrete GPU before a larger one without
    let integrated = Gpu { integrated: true, ..of(Backend::Vulkan, 40) };
    assert_eq!(chosen(&large(60), vec![integrated, of(CUDA, 8)], &ctx(4096)), [1]);
}

#[rstest]
#[case(4096, 1, 24, 512)]
#[case(4097, 1, 24, 1024)]
#[case(32_768, 1, 24, 1024)]
#[case(32_769, 1, 24, 2048)]
// up to 60 % of the available memory for 2048, up to 75 % for 1024
#[case(65_536, 14, 24, 2048)]
#[case(65_536, 14, 23, 1024)]
#[case(65_536, 14, 19, 1024)]
#[case(65_536, 14, 18, 512)]
// the surcharge must also fit within 80 %
#[case(8192, 4, 6, 1024)]
#[case(65_536, 1, 4, 2048)]
#[case(65_536, 1, 3, 1024)]
#[case(8192, 1, 2, 512)]
fn the_batch_depends_on_context_and_available_memory(
    #[case] tokens: u64,
    #[case] gibibytes: u64,
    #[case] memory: u64,
    #[case] expected: u64,
) {
    let start = started(&large(gibibytes), &cards(&[memory]), &ctx(tokens));
    assert_eq!(batch(&start), expected);
    assert_eq!(has_note(&start, &format!("batch {expected}")), tokens > 4096, "{:?}", start.notes);
}

#[test]
fn the_batch_depends_on_the_total_context_even_without_gpus() {
    assert_eq!(batch(&started(&large(1), &card(), &Settings { parallel: Some(2), ..ctx(4096) })), 1024);
    assert_eq!(batch(&started(&large(100), &machine(Vec::new()), &ctx(65_536))), 2048);
    assert_eq!(batch(&started(&large(1), &card(), &Settings { batch: Some(300), ..ctx(65_536) })), 300);
}

#[rstest]
#[case(8, 8192, 256)]
#[case(8, 4096, 512)]
#[case(9, 65_536, 512)]
fn without_flash_attention_the_batch_stays_small_on_cuda(
    #[case] memory: u64,
    #[case] tokens: u64,
    #[case] expected: u64,
) {
    let off = Settings { flash_attn: FlashAttn::Off, ..ctx(tokens) };
    assert_eq!(batch(&started(&large(1), &cards(&[memory]), &off)), expected);
    // not on other backends
    let metal = machine(vec![gpu(Backend::Metal, Bytes::gib(8))]);
    assert_eq!(batch(&started(&large(1), &metal, &Settings { flash_attn: FlashAttn::Off, ..ctx(8192) })), 1024);
}

#[test]
fn embedding_models_read_up_to_2048_tokens_at_once() {
    let embeds = |trained| model("bert", &[("pooling_type", Value::U32(1)), ("context_length", Value::U32(trained))]);
    let several = Settings { parallel: Some(4), ..ctx(8192) };
    let start = started(&embeds(8192), &card(), &several);
    assert_eq!((batch(&start), start.options.parallel), (2048, Some(1)));
    assert_eq!(batch(&started(&embeds(512), &card(), &several)), 512);
    let asked = Settings { batch: Some(4096), ..ctx(8192) };
    assert_eq!(batch(&started(&embeds(8192), &card(), &asked)), 4096);
    assert_eq!(batch(&started(&embeds(512), &card(), &asked)), 512);
}

#[rstest]
#[case(CUDA, Some((5, 2)), FlashAttn::Off)]
#[case(CUDA, Some((6, 0)), FlashAttn::Auto)]
#[case(CUDA, Some((7, 2)), FlashAttn::Off)]
#[case(CUDA, Some((7, 5)), FlashAttn::Auto)]
#[case(CUDA, None, FlashAttn::Auto)]
#[case(Backend::Metal, None, FlashAttn::Auto)]
#[case(Backend::Rocm, None, FlashAttn::Auto)]
#[case(Backend::Vulkan, None, FlashAttn::Auto)]
#[case(Backend::Sycl, None, FlashAttn::Off)]
fn flash_attention_stays_auto_if_all_gpus_support_it(
    #[case] backend: Backend,
    #[case] compute: Option<(u32, u32)>,
    #[case] expected: FlashAttn,
) {
    // 7.2 is only in Jetsons
    let integrated = compute == Some((7, 2));
    let machine = machine(vec![Gpu { integrated, compute, ..gpu(backend, Bytes::gib(24)) }]);
    let start = started(&large(1), &machine, &ctx(2048));
    assert_eq!(start.options.flash_attn, expected);
    assert_eq!(has_note(&start, "flash attention is off"), expected == FlashAttn::Off);
    for asked in [FlashAttn::On, FlashAttn::Off] {
        let settings = Settings { flash_attn: asked, ..ctx(2048) };
        assert_eq!(started(&large(1), &machine, &settings).options.flash_attn, asked);
    }
}

#[test]
fn only_selected_gpus_count_for_flash_attention() {
    let old = Gpu { compute: Some((5, 2)), ..gpu(CUDA, Bytes::gib(4)) };
    let start = started(&large(1), &machine(vec![old, gpu(CUDA, Bytes::gib(24))]), &ctx(2048));
    assert_eq!((start.gpus, start.options.flash_attn), (vec![1], FlashAttn::Auto));
}

#[test]
fn the_cache_type_is_passed_unchanged() {
    let both = Settings { cache_type_k: Some(CacheType::Q5_1), cache_type_v: Some(CacheType::Q5_1), ..ctx(2048) };
    let start = started(&large(1), &card(), &both);
    assert_eq!(
        (start.options.cache_type_k, start.options.cache_type_v),
        (Some(CacheType::Q5_1), Some(CacheType::Q5_1))
    );
    assert!(start.notes.is_empty());
    let apart = Settings { cache_type_v: None, ..both };
    assert!(has_note(&started(&large(1), &card(), &apart), "LLAMA_ARG_CACHE_TYPE_K"));
}

#[test]
fn without_gpu_layers_no_gpu_is_visible() {
    let layers = |gpu_layers| started(&large(1), &cards(&[24]), &Settings { gpu_layers, ..ctx(2048) });
    let none = layers(GpuLayers::Count(0));
    assert!(none.gpus.is_empty() && none.machine.gpus.is_empty() && has_note(&none, "no GPU is used"));
    for asked in [GpuLayers::Auto, GpuLayers::All, GpuLayers::Count(3)] {
        let start = layers(asked);
        assert_eq!((start.gpus, start.options.gpu_layers), (vec![0], asked));
    }
}

#[test]
fn a_projector_reserves_one_more_gibibyte() {
    let with = |gibibytes: &[u64], gpu_layers, bytes| {
        let settings = Settings { projector: Projector::sized(bytes), gpu_layers, ..ctx(4096) };
        started(&large(1), &cards(gibibytes), &settings)
    };
    let odd = Bytes(Bytes::mib(600).0 + 1);
    let on_gpu = with(&[24], GpuLayers::Auto, odd);
    assert_eq!(on_gpu.options.fit_target, Some(Bytes::mib(1625)));
    assert!(has_note(&on_gpu, "for the projector"));
    // 4 blocks and the output layer
    assert_eq!(with(&[24], GpuLayers::Count(5), odd).options.fit_target, Some(Bytes::mib(1625)));
    for (gibibytes, gpu_layers) in [(24, GpuLayers::Count(4)), (1, GpuLayers::Auto)] {
        let in_ram = with(&[gibibytes], gpu_layers, odd);
        assert_eq!(in_ram.options.fit_target, None);
        assert!(has_note(&in_ram, "stays in RAM"), "{:?}", in_ram.notes);
    }
    let cpu_only = with(&[24], GpuLayers::Count(0), odd);
    assert_eq!(cpu_only.options.fit_target, None);
    assert_eq!(with(&[24], GpuLayers::Auto, Bytes::ZERO).options.fit_target, None);

    let given = Settings { projector: Projector::sized(odd), fit_target: Some(Bytes::mib(300)), ..ctx(4096) };
    assert_eq!(started(&large(1), &card(), &given).options.fit_target, Some(Bytes::mib(300)));
}

#[test]
fn a_projector_in_the_model_file_counts() {
    let inside = |architecture| started(&sized(architecture, 600 << 20, "v.blk.0.attn_q.weight"), &card(), &ctx(4096));
    assert_eq!(inside("gemma3").options.fit_target, Some(Bytes::mib(1624)));
    // an architecture without a projector in Ollama
    assert_eq!(inside("llama").options.fit_target, None);
}

#[test]
fn options_that_ollama_lacks_are_noted() {
    let settings = Settings {
        ubatch: Some(64),
        kv_unified: true,
        no_kv_offload: true,
        no_op_offload: true,
        swa_full: true,
        tensor_split: vec![1.0, 2.0],
        outputs: Outputs::Ubatch,
        n_cpu_moe: Some(2),
        fit_ctx: Some(8192),
        require_full: true,
        ..ctx(2048)
    };
    let start = started(&large(1), &card(), &settings);
    for option in ["--ubatch", "--no-op-offload", "--outputs", "--fit-ctx", "--require-full"] {
        assert!(has_note(&start, &format!("{option} is ignored")), "{option}");
    }
    for variable in ["KV_UNIFIED", "NO_KV_OFFLOAD", "SWA_FULL", "TENSOR_SPLIT", "N_CPU_MOE"] {
        assert!(has_note(&start, &format!("LLAMA_ARG_{variable} ")), "{variable}");
    }
    let Settings { ubatch, kv_unified, no_op_offload, outputs, n_cpu_moe, require_full, .. } = start.options;
    assert_eq!((ubatch, kv_unified, n_cpu_moe), (Some(512), true, Some(2)));
    assert_eq!((no_op_offload, outputs, require_full), (false, Outputs::default(), false));
}

#[test]
fn raw_settings_are_taken_as_given() {
    let settings = Settings {
        parallel: Some(4),
        ubatch: Some(64),
        outputs: Outputs::Ubatch,
        projector: Projector::sized(Bytes::mib(600)),
        gpu_layers: GpuLayers::Count(0),
        raw: true,
        ..ctx(65_536)
    };
    let old = Gpu { compute: Some((5, 2)), ..gpu(CUDA, Bytes::gib(24)) };
    let qwen = model("qwen35", &[("context_length", Value::U32(4096))]);
    let start = started(&qwen, &machine(vec![old.clone(), old]), &settings);
    assert_eq!((start.ctx, start.gpus.len(), start.notes.len()), (65_536, 2, 0));
    let Settings { parallel, batch, ubatch, outputs, fit_target, flash_attn, .. } = start.options;
    assert_eq!((parallel, batch, ubatch, outputs), (Some(4), Some(512), Some(64), Outputs::Ubatch));
    assert_eq!((fit_target, flash_attn), (None, FlashAttn::Auto));
}

#[test]
fn numbers_beyond_c_int_are_refused() {
    let refused =
        |settings: &Settings| server_launch::decide(&large(1), &card(), settings, Retry::default()).unwrap_err();
    for settings in [
        Settings { parallel: Some(2), ..ctx(1 << 30) },
        Settings { parallel: Some(0), ..ctx(1) },
        Settings { batch: Some(1 << 31), ..ctx(1) },
        Settings { parallel: Some(u64::MAX), ..ctx(u64::MAX) },
    ] {
        assert!(matches!(refused(&settings), EngineError::Settings(_)));
    }
}

#[rstest]
#[case(Context::Auto, 262_144, Some(32_768))]
#[case(Context::Auto, 32_768, Some(4096))]
#[case(Context::Auto, 4096, None)]
#[case(Context::Tokens(32_768), 32_768, None)]
#[case(Context::Max, 131_072, None)]
fn an_automatic_context_can_be_lowered(#[case] asked: Context, #[case] ctx: u64, #[case] lower: Option<u64>) {
    let settings = Settings { ctx: asked, ..Settings::default() };
    assert_eq!(server_launch::lower_context(&settings, ctx), lower);
    assert_eq!(server_launch::lower_context(&Settings { raw: true, ..settings }, ctx), None);
}

/// A plan by another engine's layout, where the graph on the first GPU depends on the context.
fn by(graph: impl Fn(u64) -> Bytes, machine: &Machine, settings: &Settings) -> Plan {
    let place = |request: RequestParts<'_>, _| {
        let mut plan = OLLAMA_024.plan(request)?;
        plan.devices[0].graph = graph(plan.settings.ctx);
        Ok(Some(plan))
    };
    let request = RequestParts { model: &large(1).into(), machine, settings };
    placed_by(&place, request, FitGoal::Most).unwrap().unwrap()
}

#[test]
fn an_automatic_context_is_lowered_once_when_memory_runs_out() {
    let over_4096 = |ctx: u64| if ctx > 4096 { Bytes::gib(100) } else { Bytes::ZERO };
    let plan = by(over_4096, &card(), &Settings::default());
    assert_eq!((plan.settings.ctx, plan.verdict), (4096, Verdict::Gpu));
    assert_eq!(plan.notes[0], "context lowered from 32768 to 4096: the first attempt to load runs out of memory");
    // only once: 48 GiB has a default of 262144, then 32768, which is also too much
    let plan = by(over_4096, &cards(&[48]), &Settings::default());
    assert_eq!((plan.settings.ctx, plan.verdict), (32_768, Verdict::DoesNotFit));
    let plan = by(over_4096, &card(), &ctx(32_768));
    assert_eq!((plan.settings.ctx, plan.verdict), (32_768, Verdict::DoesNotFit));
    assert_eq!(by(|_| Bytes::ZERO, &card(), &Settings::default()).settings.ctx, 32_768);
}

#[test]
fn unselected_gpus_are_listed_empty() {
    let plan = by(|_| Bytes::mib(300), &cards(&[8, 24, 12]), &ctx(2048));
    let ids: Vec<_> = plan.devices.iter().map(|device| device.id.as_str()).collect();
    assert_eq!(ids, ["GPU0", "GPU1", "GPU2", "CPU"]);
    assert_eq!((plan.engine, plan.offloaded, plan.devices[1].layers.len()), (EngineId::Ollama, 5, 5));
    assert!(plan.layers.iter().all(|layer| layer.device == 1));
    for unused in [0, 2] {
        assert_eq!((plan.devices[unused].asked(), plan.devices[unused].reserved()), (Bytes::ZERO, Bytes::ZERO));
    }
    assert_eq!(plan.totals.gpu, plan.devices[1].asked());
    let ollama_ps = plan.ollama_ps.unwrap();
    assert_eq!(ollama_ps.processor_column(), "100% GPU");
}
