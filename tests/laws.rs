//! Properties that hold for every model, machine and settings.

use std::sync::OnceLock;

use plimsoll::engine::PreparedModel;
use plimsoll::engine::{self, EngineError, EngineId, FitGoal, RequestParts, UpperBound};
use plimsoll::machine::{Backend, Gpu, Machine, Origin, Os, Ram};
use plimsoll::model::Projector;
use plimsoll::model::mlx::Mode;
use plimsoll::plan::{GraphSize, LayerPlan, Plan, PlanSummary, Verdict, Why};
use plimsoll::settings::{CacheType, Context, FlashAttn, GpuLayers, Settings};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::{fixtures, support};

pub fn models() -> &'static [PreparedModel] {
    static MODELS: OnceLock<Vec<PreparedModel>> = OnceLock::new();
    MODELS.get_or_init(|| support::model_names().iter().map(|name| fixtures::model(name)).collect())
}

pub fn any_model() -> impl Strategy<Value = &'static PreparedModel> {
    any::<Index>().prop_map(|index| index.get(models()))
}

pub fn gpu() -> impl Strategy<Value = Gpu> {
    let memory = prop_oneof![Just(0), 0..=4u64 << 30, 0..=96u64 << 30, Just(1 << 50)];
    (memory, 0.0..=1.0f64, select(&Backend::ALL[..]), any::<bool>()).prop_map(|(total, free, backend, integrated)| {
        Gpu {
            name: "card".to_owned(),
            backend,
            total: Bytes(total),
            free: Bytes((total as f64 * free) as u64),
            integrated,
            compute: None,
            driver_major: None,
            computer: None,
            vulkan: None,
            listed: plimsoll::machine::Listed::default(),
            dedicated: None,
            driver_memory: None,
            display: None,
            link: None,
        }
    })
}

pub fn machine() -> impl Strategy<Value = Machine> {
    let gpus = prop_oneof![
        4 => proptest::collection::vec(gpu(), 0..=4),
        1 => (gpu(), 1..=64usize).prop_map(|(gpu, count)| vec![gpu; count]),
    ];
    (gpus, 0..=256u64 << 30, 0.0..=1.0f64, 0..=8u64 << 30).prop_map(|(gpus, total, free, swap)| Machine {
        disk: None,
        os: Os::for_gpus(&gpus),
        cpu: plimsoll::machine::Cpu::default(),
        gpus,
        ram: Ram {
            total: Bytes(total),
            free: Bytes((total as f64 * free) as u64),
            swap_free: Bytes(swap),
            bandwidth: None,
        },
        origin: Origin::Described,
        drivers: plimsoll::machine::Drivers::default(),
    })
}

/// The same machines, where some of the last GPUs belong to another computer.
pub fn joined() -> impl Strategy<Value = Machine> {
    (machine(), prop_oneof![2 => Just(0), 1 => 1..=2usize]).prop_map(|(mut machine, away)| {
        for gpu in machine.gpus.iter_mut().rev().take(away) {
            gpu.computer = Some("garage".into());
        }
        machine
    })
}

pub fn settings() -> impl Strategy<Value = Settings> {
    let ctx = prop_oneof![
        Just(Context::Auto),
        Just(Context::Max),
        (0..=1u64 << 17).prop_map(Context::Tokens),
        select(vec![0, 1, 4, 1 << 40]).prop_map(Context::Tokens),
    ];
    let layers = prop_oneof![
        4 => Just(GpuLayers::Auto),
        1 => Just(GpuLayers::All),
        2 => (0..100u64).prop_map(GpuLayers::Count),
        1 => Just(GpuLayers::Count(u64::MAX)),
    ];
    let knobs = (ctx, 0..=64u64, prop_oneof![0..=4096u64, Just(u64::MAX)], select(&CacheType::ALL[..]), layers);
    let flash = select(vec![FlashAttn::Auto, FlashAttn::On, FlashAttn::Off]);
    let overhead = prop_oneof![3 => Just(0), 1 => 0..=4u64 << 30];
    (knobs, flash, overhead, any::<[bool; 3]>()).prop_map(
        |((ctx, parallel, batch, cache, gpu_layers), flash_attn, overhead, [spread, require_full, raw])| Settings {
            ctx,
            parallel: Some(parallel),
            batch: Some(batch),
            cache_type_k: Some(cache),
            cache_type_v: Some(cache),
            flash_attn,
            gpu_layers,
            gpu_overhead: Bytes(overhead),
            spread,
            require_full,
            raw,
            ..Settings::default()
        },
    )
}

/// Settings in the range that users choose.
pub fn sane() -> impl Strategy<Value = Settings> {
    (settings(), 1..=4u64, 1..=2048u64, 1..=1u64 << 18).prop_map(|(settings, parallel, batch, ctx)| Settings {
        ctx: Context::Tokens(ctx),
        parallel: Some(parallel),
        batch: Some(batch),
        raw: true,
        ..settings
    })
}

fn any_engine() -> impl Strategy<Value = EngineId> {
    select(&EngineId::ALL[..])
}

/// Engines with an estimator of their own, whose sums obey simple laws.
fn estimator() -> impl Strategy<Value = EngineId> {
    select(vec![EngineId::Ollama024, EngineId::Ollama011])
}

fn planned(engine: EngineId, model: &PreparedModel, machine: &Machine, settings: &Settings) -> Option<Plan> {
    engine::plan(engine, model, machine, settings).ok()
}

/// llama.cpp's options are 32-bit numbers with a sign.
const fn is_too_large(number: u64) -> bool {
    number > i32::MAX as u64
}

/// Whether `engine` refuses these settings for every model on every machine.
fn must_be_refused(engine: EngineId, model: &PreparedModel, settings: &Settings) -> bool {
    let zero = settings.parallel == Some(0) || settings.batch == Some(0);
    match engine {
        EngineId::Ollama | EngineId::Ollama024 | EngineId::Ollama011 => zero,
        // these models are GGUF files, of which MLX has those whose type is a mode of its own
        EngineId::Mlx => zero || model.file_type.is_none_or(|name| name.parse::<Mode>().is_err()),
        EngineId::LlamaCpp => {
            settings.batch.is_some_and(is_too_large)
                || matches!(settings.ctx, Context::Tokens(tokens) if is_too_large(tokens))
        }
    }
}

/// Whether anything in these settings gives `engine` a reason to refuse them for `model`.
fn may_be_refused(engine: EngineId, model: &PreparedModel, machine: &Machine, settings: &Settings) -> bool {
    let no_context = match settings.ctx {
        Context::Auto => false,
        Context::Max => model.value("context_length").is_none(),
        Context::Tokens(tokens) => tokens == 0 && settings.raw && engine == EngineId::Ollama,
    };
    if must_be_refused(engine, model, settings) || no_context {
        return true;
    }
    let types = [settings.cache_type_k, settings.cache_type_v];
    if engine == EngineId::Mlx {
        // one type for both, of those that MLX has
        let has_none =
            |ty: &CacheType| matches!(ty, CacheType::Q5_0 | CacheType::Q5_1 | CacheType::Q4_1 | CacheType::Iq4Nl);
        return types.iter().flatten().any(has_none) || types[0].zip(types[1]).is_some_and(|(k, v)| k != v);
    }
    if !matches!(engine, EngineId::Ollama | EngineId::LlamaCpp) {
        return false;
    }
    // more than a schedule of llama.cpp takes
    if machine.gpus.len() > 15 {
        return true;
    }
    // a quantised cache needs flash attention, which may turn out not to run, and heads that its blocks divide
    let quantised = types.iter().flatten().any(|ty| ![CacheType::F32, CacheType::F16, CacheType::Bf16].contains(ty));
    let tokens = match settings.ctx {
        Context::Tokens(tokens) => tokens.saturating_mul(settings.parallel.unwrap_or(1)),
        Context::Auto | Context::Max => 0,
    };
    // and a GPU may have a limit for a tensor, above which no cache may be
    let limited = machine.gpus.iter().any(|gpu| gpu.backend == Backend::Vulkan);
    quantised || limited || is_too_large(tokens) || settings.batch.is_some_and(is_too_large)
}

fn size_adds_up(size: &GraphSize) -> Result<(), TestCaseError> {
    let wrapping = |terms: &[plimsoll::plan::Term]| terms.iter().fold(0u64, |sum, term| sum.wrapping_add(term.bytes.0));
    for branch in &size.branches {
        prop_assert_eq!(branch.bytes.0, wrapping(&branch.terms), "{}", branch.name);
        prop_assert!(branch.terms.is_sorted_by(|a, b| a.bytes >= b.bytes));
    }
    prop_assert_eq!(size.bytes, size.branches[size.winner].bytes);
    Ok(())
}

proptest! {
    #[test]
    fn inequalities_of_layers_hold(
        engine in any_engine(), model in any_model(), machine in machine(), settings in sane(),
    ) {
        let settings = Settings { gpu_layers: GpuLayers::Auto, ..settings };
        let Some(plan) = planned(engine, model, &machine, &settings) else { return Ok(()) };
        if plan.refusal.is_some() {
            return Ok(());
        }
        let usual = machine.gpus.iter().all(|gpu| gpu.free > Bytes::gib(2));
        for layer in &plan.layers {
            match layer.why {
                // Ollama compares free memory as 32-bit floats, which have 24 bits of precision
                Why::NoRoom { needed, room, .. } => {
                    prop_assert!(needed + Bytes(room.0 >> 23) >= room && needed > Bytes::ZERO, "{}: {:?}", layer.index, layer.why);
                    prop_assert!(needed > room || room.0 >> 24 > 0, "{}: {:?}", layer.index, layer.why);
                }
                // a fit may exceed its target where even an empty GPU would
                Why::Fits { needed, room } if usual => prop_assert!(needed <= room, "{}: {:?}", layer.index, layer.why),
                _ => {}
            }
        }
    }

    #[test]
    fn every_question_gets_a_plan_or_a_refusal_with_a_cause(
        engine in any_engine(), model in any_model(), machine in machine(), settings in settings(),
    ) {
        match engine::plan(engine, model, &machine, &settings) {
            Ok(plan) => {
                size_adds_up(&plan.graph.partial)?;
                size_adds_up(&plan.graph.full)?;
                prop_assert_eq!(plan.devices.len(), machine.gpus.len() + 1);
                prop_assert_eq!(plan.layers.len(), model.block_count() + 1);
                prop_assert!(!must_be_refused(engine, model, &settings), "{engine} plans {settings:?}");
            }
            Err(EngineError::Settings(why)) => {
                prop_assert!(may_be_refused(engine, model, &machine, &settings), "{engine}, {}: {why}: {settings:?}", model.name);
            }
            // what is wrong with a header is wrong with any settings on any machine
            Err(EngineError::Model(why)) => {
                let plain = engine::plan(engine, model, &fixtures::cards(&[]), &Settings::default());
                prop_assert_eq!(plain, Err(EngineError::Model(why)), "{}, {}", engine, model.name);
            }
        }
    }

    #[test]
    fn each_layer_is_placed_exactly_once(
        engine in any_engine(), model in any_model(), machine in machine(), settings in settings(),
    ) {
        let Some(plan) = planned(engine, model, &machine, &settings) else { return Ok(()) };
        let mut placed: Vec<usize> = plan.devices.iter().flat_map(|device| device.layers.clone()).collect();
        placed.sort_unstable();
        prop_assert_eq!(placed, (0..plan.layers.len()).collect::<Vec<_>>());
        for layer in &plan.layers {
            prop_assert!(plan.devices[layer.device].layers.contains(&layer.index));
            prop_assert!(layer.cache == layer.cache_term.bytes || layer.cache == Bytes::ZERO);
        }
        let on_gpus: usize = plan.gpus().iter().map(|gpu| gpu.layers.len()).sum();
        prop_assert_eq!(on_gpus, plan.offloaded);
    }

    #[test]
    fn parts_in_ram_are_the_layers_bytes_outside_gpus(
        engine in select(vec![EngineId::Ollama, EngineId::LlamaCpp]), model in any_model(), machine in joined(),
        settings in settings(), in_ram in proptest::option::of(0..=64u64),
    ) {
        let settings = Settings { n_cpu_moe: in_ram, ..settings };
        let Some(plan) = planned(engine, model, &machine, &settings) else { return Ok(()) };
        let all: Bytes = plan.layers.iter().map(LayerPlan::elsewhere).sum();
        // each tensor begins at a multiple of 32 bytes
        let gaps = Bytes(32 * model.header.tensors.len() as u64);
        let used = plan.gpus().iter().filter(|gpu| gpu.weights > Bytes::ZERO).count();
        if !plan.cpu().layers.is_empty() {
            prop_assert_eq!(plan.parts_in_ram(), Bytes::ZERO);
        } else if used == 1 {
            prop_assert!((all..=all + gaps).contains(&plan.parts_in_ram()), "{all}: {}", plan.parts_in_ram());
        } else {
            prop_assert!(plan.parts_in_ram() <= all + gaps, "{all}: {}", plan.parts_in_ram());
        }
    }

    #[test]
    fn what_is_known_beforehand_and_in_short_is_what_the_plan_says(
        engine in any_engine(), model in any_model(), machine in joined(), settings in settings(),
    ) {
        let request = RequestParts { model, machine: &machine, settings: &settings };
        let preflight = engine::of(engine).preflight(request);
        let summary = |aim| engine::of(engine).summary(request, aim);
        let plan = match engine::plan(engine, model, &machine, &settings) {
            Ok(plan) => plan,
            Err(error) => {
                prop_assert_eq!(summary(FitGoal::Most), Err(error));
                return Ok(());
            }
        };
        prop_assert_eq!(summary(FitGoal::Most), Ok(Some(PlanSummary::of(&plan))));
        // none where the goal is missed
        let every_layer =
            summary(FitGoal::AllLayers).map(|summary| summary.is_some_and(|summary| summary.verdict == Verdict::Gpu));
        prop_assert_eq!(every_layer, Ok(plan.verdict == Verdict::Gpu));
        if let Some(preflight) = preflight.expect("what is planned has an outlook") {
            let turned_out = match plan.verdict {
                Verdict::Gpu => UpperBound::AllLayers,
                Verdict::Split | Verdict::Cpu => UpperBound::SomeLayers,
                Verdict::DoesNotFit => UpperBound::DoesNotFit,
            };
            prop_assert!(turned_out <= preflight.upper_bound, "{:?} against {:?}", plan.verdict, preflight.upper_bound);
            let used = plan.gpus().iter().map(|gpu| gpu.asked() > Bytes::ZERO);
            prop_assert!(used.zip(&preflight.gpus).all(|(used, considered)| *considered || !used));
        }
    }

    #[test]
    fn the_parts_sum_to_the_whole(
        engine in estimator(), model in any_model(), machine in machine(), settings in sane(),
    ) {
        let Some(plan) = planned(engine, model, &machine, &settings) else { return Ok(()) };
        for (at, device) in plan.devices.iter().enumerate() {
            let own = || plan.layers.iter().filter(|layer| layer.device == at);
            prop_assert_eq!(device.weights, own().map(|layer| layer.weights).sum());
            prop_assert_eq!(device.cache, own().map(|layer| layer.cache).sum());
            prop_assert!(device.layers.is_sorted());
        }
        let totals = plan.totals;
        prop_assert_eq!(totals.weights + totals.cache + totals.graph, totals.all);
        prop_assert_eq!(totals.gpu + totals.cpu, totals.all);
        for (at, device) in plan.devices.iter().enumerate() {
            let of_parts: Bytes = plan.parts.iter().map(|part| part.devices[at].asked()).sum();
            prop_assert_eq!(of_parts, device.asked());
        }
        prop_assert_eq!(totals.gpu, plan.gpus().iter().map(plimsoll::plan::DevicePlan::asked).sum());
    }

    #[test]
    fn an_estimate_is_the_sum_of_what_is_counted_on_each_device(
        model in any_model(), machine in machine(), settings in sane(), projector in 0..=2u64 << 30,
    ) {
        let settings = Settings { projector: Projector::sized(Bytes(projector)), ..settings };
        let plan = planned(EngineId::Ollama011, model, &machine, &settings).expect("sane settings are planned");
        let estimate = plan.estimate.as_ref().expect("this engine estimates");
        // with shared memory, layers estimated for the GPU may be loaded into RAM after all
        prop_assume!(estimate.layers == plan.offloaded);
        let overhead = settings.gpu_overhead;
        let mut sum = plan.cpu().asked() + plan.cpu().reserved();
        for (id, &size) in estimate.devices.iter().zip(&estimate.gpu_sizes) {
            let device = plan.devices.iter().find(|device| &device.id == id).expect("a device of the plan");
            prop_assert_eq!(device.asked() + device.reserved() - overhead, size);
            prop_assert!(size == Bytes::ZERO || size + overhead <= device.free);
            sum += size;
        }
        prop_assert_eq!(sum, estimate.total_size);
        prop_assert_eq!(estimate.gpu_sizes.iter().copied().sum::<Bytes>(), estimate.vram_size);
    }

    #[test]
    fn the_largest_branch_wins(engine in any_engine(), model in any_model(), machine in machine(), settings in sane()) {
        let Some(plan) = planned(engine, model, &machine, &settings) else { return Ok(()) };
        for size in [&plan.graph.partial, &plan.graph.full] {
            prop_assert_eq!(Some(size.bytes), size.branches.iter().map(|branch| branch.bytes).max());
        }
    }

    #[test]
    fn more_context_never_needs_less_memory(
        engine in estimator(), model in any_model(), settings in sane(), more in 0..=1u64 << 18,
    ) {
        let Context::Tokens(tokens) = settings.ctx else { unreachable!() };
        let machine = Machine {
            disk: None,
            os: Os::Linux,
            cpu: plimsoll::machine::Cpu::default(),
            gpus: Vec::new(),
            ram: Ram { total: Bytes::ZERO, free: Bytes::ZERO, swap_free: Bytes::ZERO, bandwidth: None },
            origin: Origin::Described,
            drivers: plimsoll::machine::Drivers::default(),
        };
        let with = |ctx| planned(engine, model, &machine, &Settings { ctx: Context::Tokens(ctx), ..settings.clone() });
        let (Some(less), Some(more)) = (with(tokens), with(tokens + more)) else { return Ok(()) };
        prop_assert!(less.totals.all <= more.totals.all);
        prop_assert!(less.graph.partial.bytes <= more.graph.partial.bytes);
        prop_assert!(less.graph.full.bytes <= more.graph.full.bytes);
    }

    #[test]
    fn more_memory_never_holds_fewer_layers(
        engine in estimator(), model in any_model(), settings in sane(),
        mut gpu in gpu(), ram in 0..=256u64 << 30, more in 0..=32u64 << 30,
    ) {
        gpu.backend = Backend::Cuda;
        let mut machine = Machine {
            disk: None,
            os: Os::Linux,
            cpu: plimsoll::machine::Cpu::default(),
            gpus: vec![gpu],
            ram: Ram { total: Bytes(ram), free: Bytes(ram), swap_free: Bytes::ZERO, bandwidth: None },
            origin: Origin::Described,
            drivers: plimsoll::machine::Drivers::default(),
        };
        let less = planned(engine, model, &machine, &settings);
        machine.gpus[0].free += Bytes(more);
        let (Some(less), Some(more)) = (less, planned(engine, model, &machine, &settings)) else { return Ok(()) };
        // a refusal ends the search in the round in which it arises
        if less.refusal.is_some() || more.refusal.is_some() {
            return Ok(());
        }
        prop_assert!(less.offloaded <= more.offloaded);
        if settings.gpu_layers == GpuLayers::Auto {
            prop_assert!(!less.gpus()[0].is_over() || less.offloaded == 0);
        }
    }
}
