//! Answers are checked by asking the engine again.

mod glance;
mod held_knobs;
mod kept_ram;
mod lower_margin;
mod margins;
mod need;
mod one_outcome;
mod one_pool;
mod place;
mod ram;
mod sentences;
mod several;
mod tensors;
mod together;

use plimsoll::answer::sweep::Axis;
use plimsoll::answer::sweep::PlanFigures;
use plimsoll::answer::{Change, Goal, verdict, why};
use plimsoll::catalogue;
use plimsoll::engine::PlanRequest;
use plimsoll::engine::PreparedModel;
use plimsoll::engine::{self, EngineId};
use plimsoll::gguf::FileType;
use plimsoll::machine::{Backend, Gpu, Machine, Os, Ram};
use plimsoll::plan::{Outcome, Plan, Verdict, Why};
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, Context, FlashAttn, GpuLayers, Settings};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::select;

use crate::fixtures::{self, cards, model};
use crate::laws;

const NUMBERS: [Knob; 4] = [Knob::Context, Knob::Parallel, Knob::Batch, Knob::GpuLayers];

/// A machine with one card of so many GiB, 600 MiB of which are in use, and 28 GiB of free RAM.
fn one_gpu(gib: u64) -> Machine {
    let card = Gpu::of(&format!("{gib} GiB card"), Backend::Cuda, Bytes::gib(gib));
    let gpu = Gpu { free: card.total - Bytes::mib(600), ..card };
    let ram = Ram { total: Bytes::gib(32), free: Bytes::gib(28), swap_free: Bytes::ZERO, bandwidth: None };
    Machine { os: Os::Linux, ram, ..fixtures::machine(vec![gpu]) }
}

fn request(engine: EngineId, model: &PreparedModel, machine: &Machine, settings: &Settings) -> PlanRequest {
    PlanRequest::new(engine, model.clone(), machine.clone(), settings.clone())
}

/// Every engine. One case of four goes to those that allocate as llama.cpp does, because they take longer.
fn any_engine() -> impl Strategy<Value = EngineId> {
    prop_oneof![
        3 => select(vec![EngineId::Ollama024, EngineId::Ollama011]),
        1 => select(vec![EngineId::Ollama, EngineId::LlamaCpp]),
    ]
}

fn at(request: &PlanRequest, knob: Knob, value: u64) -> Option<Plan> {
    let mut settings = request.settings.clone();
    knob.set(&mut settings, value);
    engine::plan(request.engine, &request.model, &request.machine, &settings).ok()
}

fn meets(request: &PlanRequest, knob: Knob, value: u64, goal: Goal) -> bool {
    let goal = if knob == Knob::GpuLayers { Goal::AtLeast(value as usize) } else { goal };
    at(request, knob, value).is_some_and(|plan| goal.is_met_by(&plan))
}

/// Machines on which models of all sizes get near the edge: one to four GPUs of one kind or of several.
fn machine() -> impl Strategy<Value = Machine> {
    let gpu = (2..=48u64, 0.5..=1.0f64, select(&[Backend::Cuda, Backend::Cuda, Backend::Cuda, Backend::Vulkan][..]));
    (proptest::collection::vec(gpu, 1..=4), 8..=256u64).prop_map(|(gpus, ram)| {
        let gpus: Vec<_> = gpus
            .into_iter()
            .map(|(gib, free, backend)| Gpu {
                free: Bytes((Bytes::gib(gib).0 as f64 * free) as u64),
                ..Gpu::of(&format!("{gib} GiB card"), backend, Bytes::gib(gib))
            })
            .collect();
        let ram = Ram { total: Bytes::gib(ram), free: Bytes::gib(ram), swap_free: Bytes::ZERO, bandwidth: None };
        Machine { os: Os::Linux, ram, ..fixtures::machine(gpus) }
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    let ctx = prop_oneof![Just(Context::Auto), (1..=1u64 << 17).prop_map(Context::Tokens)];
    let layers = prop_oneof![6 => Just(GpuLayers::Auto), 1 => (0..60u64).prop_map(GpuLayers::Count)];
    let flash = select(&[FlashAttn::Auto, FlashAttn::On, FlashAttn::Off][..]);
    (ctx, 1..=8u64, 1..=2048u64, flash, layers, any::<[bool; 2]>()).prop_map(
        |(ctx, parallel, batch, flash_attn, gpu_layers, [spread, raw])| Settings {
            ctx,
            parallel: Some(parallel),
            batch: Some(batch),
            flash_attn,
            gpu_layers,
            spread,
            raw,
            ..Settings::default()
        },
    )
}

fn goal() -> impl Strategy<Value = Goal> {
    prop_oneof![Just(Goal::Vram), (1..=40usize).prop_map(Goal::AtLeast), (0..=40usize).prop_map(Goal::Layer)]
}

proptest! {
    #[test]
    fn the_largest_fits_and_the_next_does_not(
        engine in any_engine(), model in laws::any_model(), machine in machine(), settings in settings(), goal in goal(),
        knob in select(&NUMBERS[..]), elsewhere in any::<[proptest::sample::Index; 8]>(),
    ) {
        let request = request(engine, model, &machine, &settings);
        let last = knob.stops(&request.bounds()).last();
        let largest = request.largest(knob, goal);
        let mut above = knob.least();
        if let Some(largest) = &largest {
            prop_assert!(meets(&request, knob, largest.value, goal));
            let plan = at(&request, knob, largest.value);
            prop_assert_eq!(Some(&largest.plan), plan.as_ref());
            let Some(next) = largest.next else {
                // the end of the range, or of what the engine accepts
                let end = at(&request, knob, last).unwrap();
                prop_assert_eq!(&end.settings, &largest.plan.settings);
                return Ok(());
            };
            prop_assert_eq!(next, largest.value + 1);
            prop_assert!(!meets(&request, knob, next, goal));
            above = next;
        }
        for elsewhere in elsewhere {
            let value = above + elsewhere.index((last.saturating_sub(above) + 1) as usize) as u64;
            if value <= last {
                prop_assert!(!meets(&request, knob, value, goal), "{knob:?} {value} fits too: {largest:?}");
            }
        }
    }

    #[test]
    fn an_inequality_is_its_own_sum(engine in any_engine(), model in laws::any_model(), machine in machine(), settings in laws::sane()) {
        let request = request(engine, model, &machine, &settings);
        let Ok(plan) = request.plan() else { return Ok(()) };
        for answer in why::layers(&plan) {
            let by_room = matches!(plan.layers[answer.index].why, Why::Fits { .. } | Why::NoRoom { .. });
            prop_assert!(answer.inequality.is_some() || !by_room, "{engine} {} {answer:?}", model.name);
            let Some(inequality) = answer.inequality else { continue };
            let kept: Bytes = inequality.kept.iter().map(|part| part.bytes).sum();
            prop_assert_eq!(inequality.free - kept - inequality.placed_bytes, inequality.room, "{} {} {:?} {:?}", engine, model.name, inequality, plan.layers[answer.index].why);
            match plan.layers[answer.index].why {
                Why::Fits { .. } => {
                    // llama.cpp's fit may give up, and the layers then go where they would without it
                    let over = plan.devices[plan.layers[answer.index].device].is_over();
                    prop_assert!(inequality.room >= inequality.needed || over || settings.gpu_layers != GpuLayers::Auto);
                    prop_assert!(inequality.enough);
                }
                Why::NoRoom { .. } => prop_assert!(!inequality.enough),
                _ => {}
            }
        }
    }
}

// These make many plans in each case.
proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn anything_can_be_answered(engine in any_engine(), model in laws::any_model(), machine in laws::machine(), settings in laws::settings()) {
        let request = request(engine, model, &machine, &settings);
        let Ok(plan) = request.plan() else { return Ok(()) };
        let answers = why::layers(&plan);
        prop_assert_eq!(answers.len(), plan.layers.len());
        prop_assert!(answers.iter().all(|answer| !answer.reason.is_empty()));
        for change in request.changes(&plan, Goal::Vram) {
            prop_assert!(request.works(&change, Goal::Vram), "{change:?}");
        }
    }

    #[test]
    fn every_change_that_is_proposed_works(
        engine in any_engine(), model in laws::any_model(), machine in machine(), settings in settings(), layer in any::<proptest::sample::Index>(),
    ) {
        let request = request(engine, model, &machine, &settings);
        let Ok(plan) = request.plan() else { return Ok(()) };
        for goal in [Goal::Vram, Goal::Layer(layer.index(plan.layers.len()))] {
            let changes = request.changes(&plan, goal);
            prop_assert!(!goal.is_met_by(&plan) || changes.is_empty());
            for change in &changes {
                let (mut settings, mut machine) = (settings.clone(), machine.clone());
                change.apply(&mut settings, &mut machine);
                let model = match *change {
                    Change::Quantisation(to) => &model.in_quantisation(to).unwrap().into(),
                    _ => model,
                };
                let changed = engine::plan(engine, model, &machine, &settings).unwrap();
                prop_assert!(goal.is_met_by(&changed), "{change:?}");
            }
        }
        let limits = request.limits(&plan);
        for way in limits.remedies {
            prop_assert!(limits.remedied.is_some_and(|goal| request.works(&way.change, goal)), "{way:?}");
        }
    }

    #[test]
    fn the_largest_quantisation_fits_and_larger_ones_do_not(
        engine in any_engine(), model in laws::any_model(), machine in machine(), settings in settings(), goal in goal(),
    ) {
        let request = request(engine, model, &machine, &settings);
        let meets = |to| {
            let model = model.in_quantisation(to).unwrap().into();
            engine::plan(engine, &model, &machine, &settings).is_ok_and(|plan| goal.is_met_by(&plan))
        };
        let sizes = model.quantisations();
        let largest = request.largest_quantisation(goal);
        let found = largest.found.as_ref().map(|&(to, _)| to);
        prop_assert!(found.is_none_or(meets));
        let at = found.map_or(0, |found| sizes.iter().position(|&(to, _)| to == found).unwrap() + 1);
        prop_assert_eq!(largest.next, sizes.get(at).map(|&(to, _)| to));
        prop_assert!(sizes.iter().skip(at).all(|&(to, _)| !meets(to)));
    }

    #[test]
    fn thresholds_are_where_neighbours_differ(
        engine in any_engine(), model in laws::any_model(), machine in machine(), settings in settings(), knob in select(&Knob::ALL[..]),
    ) {
        let request = request(engine, model, &machine, &settings);
        let thresholds = request.thresholds(knob);
        prop_assert!(thresholds.windows(2).all(|pair| pair[0].first <= pair[1].last));
        for threshold in &thresholds {
            prop_assert_eq!(threshold.first, threshold.last + 1);
            for (value, side) in [(threshold.last, threshold.before), (threshold.first, threshold.after)] {
                let plan = at(&request, knob, value);
                let told = plan.map_or((0, None), |plan| (plan.offloaded, Some(plan.outcome())));
                prop_assert_eq!((side.offloaded, side.outcome), told);
            }
            prop_assert!(threshold.before != threshold.after || !threshold.jumps.is_empty());
        }
        if knob == Knob::Context {
            let edge = thresholds.iter().rev().find(|threshold| threshold.is_vram_limit()).map(|threshold| threshold.last);
            match request.largest(knob, Goal::Vram) {
                Some(largest) if largest.next.is_some() => prop_assert_eq!(edge, Some(largest.value)),
                Some(_) => {}
                None => prop_assert_eq!(edge, None),
            }
        }
    }

    #[test]
    fn cells_and_points_equal_single_plans(
        engine in any_engine(), model in laws::any_model(), machine in machine(), settings in settings(),
        knobs in select(vec![(Knob::Context, Knob::CacheType), (Knob::Parallel, Knob::Context), (Knob::Batch, Knob::GpuLayers)]),
    ) {
        let request = request(engine, model, &machine, &settings);
        let values = |knob: Knob, count| knob.spread(&request.bounds(), count);
        let (rows, columns) = (values(knobs.0, 4), values(knobs.1, 3));
        let matrix = request.matrix(Axis::Knob(knobs.0, rows.clone()), Axis::Knob(knobs.1, columns.clone()));
        prop_assert_eq!(matrix.cells.len(), rows.len() * columns.len());
        for (row, &value) in rows.iter().enumerate() {
            for (column, &other) in columns.iter().enumerate() {
                let mut settings = settings.clone();
                knobs.0.set(&mut settings, value);
                knobs.1.set(&mut settings, other);
                let figures = PlanFigures::of_request(&request.with(settings)).map_err(|error| error.to_string());
                prop_assert_eq!(matrix.cell(row, column), Some(&figures));
            }
        }
        let sweep = request.sweep(knobs.0, &rows);
        for point in &sweep.points {
            let there = request.changed(|settings| knobs.0.set(settings, point.value));
            prop_assert_eq!(point.figures.clone().ok(), PlanFigures::of_request(&there).ok());
        }
    }

    #[test]
    fn cells_of_quantisations_equal_single_plans(engine in any_engine(), model in laws::any_model(), machine in machine(), settings in settings()) {
        let request = request(engine, model, &machine, &settings);
        let rows = Axis::quantisations(&request, 3);
        let Axis::Quantisation(to) = rows.clone() else { unreachable!() };
        let matrix = request.matrix(Axis::Knob(Knob::Context, vec![4096, 10_000]), rows);
        prop_assert_eq!(matrix.cells.len(), 2 * to.len());
        for (column, &to) in to.iter().enumerate() {
            let there = request.with_model(model.in_quantisation(to).unwrap());
            let there = there.changed(|settings| settings.ctx = Context::Tokens(10_000));
            let figures = PlanFigures::of_request(&there).map_err(|error| error.to_string());
            prop_assert_eq!(matrix.cell(1, column), Some(&figures));
        }
    }
}

/// The memory that is proposed, in MiB, and the GPU.
fn more_memory(request: &PlanRequest) -> (u64, usize) {
    let changes = request.changes(&request.plan().unwrap(), Goal::Vram);
    let memory = |change: &Change| match *change {
        Change::Free { gpu, bytes } | Change::MoreMemory { gpu, bytes } => Some((bytes.0 >> 20, gpu)),
        _ => None,
    };
    changes.iter().find_map(memory).unwrap()
}

#[test]
fn less_memory_is_proposed_than_what_makes_ollama_choose_a_longer_context() {
    let (model, machine) = (model("phi-4-14b"), one_gpu(8));
    let f32 = Some(CacheType::F32);
    let settings = Settings { parallel: Some(5), cache_type_k: f32, cache_type_v: f32, ..Settings::default() };
    let request = request(EngineId::Ollama024, &model, &machine, &settings);
    let (mib, gpu) = more_memory(&request);
    // from 23 GiB on, 32 768 tokens are the default, and need far more
    assert!(mib > 8192 && machine.gpus[gpu].total + Bytes::mib(mib) < Bytes::gib(23), "{mib} MiB");
}

#[test]
fn of_gpus_alike_the_one_whose_share_is_too_large_is_to_have_more() {
    let (model, mut machine) = (model("llama3.1-8b"), one_gpu(6));
    machine.gpus.push(machine.gpus[0].clone());
    let settings = Settings { ctx: Context::Tokens(32_768), tensor_split: vec![1.0, 3.0], ..Settings::default() };
    assert_eq!(more_memory(&request(EngineId::LlamaCpp, &model, &machine, &settings)).1, 1);
}

#[test]
fn where_more_is_kept_back_than_is_free_nothing_is_called_enough() {
    let model = model("nomic-embed");
    let mut machine = one_gpu(1);
    machine.gpus[0].free = Bytes::mib(300);
    let settings = Settings::default();
    let plan = request(EngineId::LlamaCpp, &model, &machine, &settings).plan().unwrap();
    assert_eq!(plan.verdict, Verdict::Cpu);
    for answer in why::layers(&plan) {
        assert!(answer.reason.ends_with("leaves nothing: that exceeds the free memory."), "{}", answer.reason);
    }
}

#[test]
fn layers_in_part_count_with_what_is_on_the_gpu() {
    let (model, machine) = (model("qwen3-30b-a3b"), one_gpu(8));
    let settings = Settings { ctx: Context::Tokens(65_536), ..Settings::default() };
    let plan = request(EngineId::LlamaCpp, &model, &machine, &settings).plan().unwrap();
    assert!(plan.layers.iter().any(|layer| matches!(layer.why, Why::InPart { .. })));
    let spilled = plan.layers.iter().rposition(|layer| matches!(layer.why, Why::NoRoom { .. })).unwrap();
    insta::assert_snapshot!(why::layer(&plan, spilled).unwrap().reason);
}

/// Every layer counts as on the GPU, which goals ask for; people are told that experts are not.
#[test]
fn experts_in_ram_are_said_wherever_a_plan_is_judged() {
    let (model, machine) = (model("qwen3-30b-a3b"), one_gpu(24));
    let settings = Settings { ctx: Context::Tokens(4096), n_cpu_moe: Some(20), ..Settings::default() };
    for engine in [EngineId::LlamaCpp, EngineId::Ollama] {
        let request = request(engine, &model, &machine, &settings);
        let plan = request.plan().unwrap();
        let of_first = |tensor: &&plimsoll::gguf::Tensor| {
            let block = tensor.name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
            block.is_some_and(|(block, name)| block.parse::<u64>().unwrap() < 20 && name.contains("_exps"))
        };
        let experts: Bytes = model.header.tensors.iter().filter(of_first).map(|tensor| tensor.bytes).sum();
        assert!(experts > Bytes::gib(5));
        assert_eq!((plan.verdict, plan.outcome()), (Verdict::Gpu, Outcome::ExpertsInRam), "{engine}");
        assert!(Goal::AllLayers.is_met_by(&plan) && !Goal::Vram.is_met_by(&plan));
        assert!(why::nothing_to_move(&plan).unwrap().ends_with("parts of layers are."));
        let sentence = verdict::sentence(&plan, None, None);
        assert!(sentence.contains(&format!("{experts} of weights run from RAM")), "{sentence}");
        assert_eq!(request.fit_summary(&plan, 0).outcome, plan.outcome());
        let figures = request.sweep(Knob::Context, &[4096]).points.remove(0).figures.unwrap();
        assert_eq!((figures.outcome, figures), (plan.outcome(), PlanFigures::of_request(&request).unwrap()));

        let whole = Settings { n_cpu_moe: None, ..settings.clone() };
        let plan = request.with(whole.clone()).plan().unwrap();
        assert_eq!((plan.offloaded, plan.outcome()), (plan.layers.len(), Outcome::Vram), "{engine}");
    }
}

/// Weights that a card refuses, and a cache that is kept in RAM, are parts of layers and no experts.
#[test]
fn parts_in_ram_are_called_experts_only_where_they_are() {
    let ctx = Context::Tokens(4096);
    let refused = model("plamo2-mini");
    let cache = Settings { ctx, no_kv_offload: true, ..Settings::default() };
    for (model, settings) in [(&refused, Settings { ctx, ..Settings::default() }), (&model("llama3.1-8b"), cache)] {
        let plan = request(EngineId::LlamaCpp, model, &one_gpu(24), &settings).plan().unwrap();
        assert_eq!((plan.verdict, plan.outcome()), (Verdict::Gpu, Outcome::PartsInRam), "{}", model.architecture);
        assert_eq!(plan.cpu().ram.experts, Bytes::ZERO);
        assert!(Goal::AllLayers.is_met_by(&plan) && !Goal::Vram.is_met_by(&plan));
        assert!(verdict::headline(&plan).starts_with("Parts in RAM at 4\u{2009}096 tokens"));
        let part = if plan.cpu().cache > Bytes::ZERO { "of cache" } else { "of weights" };
        let sentence = verdict::sentence(&plan, None, None);
        assert!(sentence.contains(&format!("{part} run from RAM")), "{sentence}");
        assert_eq!(why::nothing_to_move(&plan), Some("No whole layer is in RAM: only parts of layers are."));
    }
}

/// Blocks that only predict further tokens are no layers of the plan, whatever an engine counts.
#[test]
fn a_layer_in_ram_is_said_of_models_that_predict_further_tokens() {
    let (model, machine) = (PreparedModel::from(plimsoll::catalogue::model("glm-4.5-air").unwrap()), one_gpu(96));
    assert_eq!(model.value("nextn_predict_layers").and_then(plimsoll::gguf::Value::as_u64), Some(1));
    let of = |layers: u64| {
        let settings =
            Settings { ctx: Context::Tokens(4096), gpu_layers: GpuLayers::Count(layers), ..Settings::default() };
        let plan = request(EngineId::LlamaCpp, &model, &machine, &settings).plan().unwrap();
        assert_eq!(plan.on_gpus() + plan.cpu().layers.len(), plan.layers.len());
        (plan.cpu().layers.len(), plan.verdict, verdict::sentence(&plan, None, None))
    };
    let blocks = model.block_count() as u64;
    let (in_ram, one_short, sentence) = of(blocks);
    assert_eq!((in_ram, one_short), (1, Verdict::Split));
    assert!(sentence.contains("1 of 47 layers is in RAM"), "{sentence}");
    let (in_ram, all, _) = of(blocks + 1);
    assert_eq!((in_ram, all), (0, Verdict::Gpu));
}

#[test]
fn a_split_model_is_explained_and_brought_back() {
    let (model, machine) = (model("llama3.1-8b"), one_gpu(8));
    let settings = Settings { ctx: Context::Tokens(32_768), ..Settings::default() };
    let request = request(EngineId::Ollama024, &model, &machine, &settings);
    let plan = request.plan().unwrap();
    assert_eq!(plan.verdict, Verdict::Split);
    let spilled = plan.layers.iter().rposition(|layer| matches!(layer.why, Why::NoRoom { .. })).unwrap();
    insta::assert_snapshot!(why::layer(&plan, spilled).unwrap().reason);
    let changes: Vec<_> = request.changes(&plan, Goal::Vram).iter().map(ToString::to_string).collect();
    insta::assert_debug_snapshot!(changes);
    let largest = request.largest(Knob::Context, Goal::Vram).unwrap();
    assert_eq!(largest.next, Some(largest.value + 1));
}

/// A fit over two GPUs leaves layers in RAM at some contexts, and places all of them again at larger ones.
#[test]
fn a_context_that_fits_beyond_others_that_do_not_is_found() {
    for (name, share) in [("qwen3-coder-30b-a3b", Bytes::mib(15_360)), ("gemma4-e2b", Bytes::mib(2980))] {
        let model = catalogue::find(name).unwrap().model(FileType::Q4KM).unwrap().into();
        let gpu = |name: &str| Gpu { name: name.to_owned(), free: share, ..one_gpu(24).gpus.remove(0) };
        let machine = Machine { gpus: vec![gpu("first"), gpu("second")], ..one_gpu(24) };
        let settings = Settings::default();
        let request = request(EngineId::Ollama, &model, &machine, &settings);
        let largest = request.largest(Knob::Context, Goal::Vram).unwrap();
        let fits = |n_ctx| at(&request, Knob::Context, n_ctx).is_some_and(|plan| Goal::Vram.is_met_by(&plan));
        // the search ends at the training context
        let trained = request.bounds().context_train.unwrap();
        let edge = (fits(largest.value), largest.value < trained && fits(largest.value + 1));
        assert_eq!(edge, (true, false), "{name}: {}", largest.value);
        let (found, last) = (largest.value / 1024, trained / 1024);
        assert!((1..found).any(|kib| !fits(1024 * kib)), "{name}: {found} Ki");
        assert!(!(found + 1..=last).any(|kib| fits(1024 * kib)), "{name}: {found} Ki of {last} Ki");
    }
}

/// Every value of the split, although the engine knows the same of all of them beforehand.
#[test]
fn thresholds_of_a_split_are_all_seen() {
    let (model, machine) = (model("llama3.1-8b"), cards(&[24, 4]));
    let settings = Settings { ctx: Context::Tokens(8192), ..Settings::default() };
    let request = request(EngineId::LlamaCpp, &model, &machine, &settings);
    let thresholds = request.thresholds(Knob::TensorSplit);
    let figures = |value| at(&request, Knob::TensorSplit, value).map(|plan| (plan.offloaded, plan.verdict));
    let mut changed = 0;
    for value in 0..100 {
        let differs = figures(value) != figures(value + 1);
        changed += usize::from(differs);
        assert!(!differs || thresholds.iter().any(|threshold| threshold.last == value), "at {value}: {thresholds:?}");
    }
    assert!(changed > 0);
}

/// Where nothing is asked for, the fit leaves its margin free, and layers in RAM; where a single layer is to keep its
/// experts there, it leaves things as they are, and less is left than must stay free.
#[test]
fn the_margin_is_kept_where_experts_are_asked_into_ram() {
    let (model, machine) = (model("qwen3-30b-a3b"), one_gpu(24));
    let fit_target = Some(Bytes::gib(23));
    let settings = Settings { ctx: Context::Tokens(16_384), fit_target, ..Settings::default() };
    let request = request(EngineId::LlamaCpp, &model, &machine, &settings);
    assert!(!meets(&request, Knob::CpuMoe, 0, Goal::AllLayers));
    let one = at(&request, Knob::CpuMoe, 1).unwrap();
    assert_eq!((one.outcome(), one.headrooms()[0].above_kept().is_short()), (Outcome::ExpertsInRam, true));
    assert_eq!(request.smallest(Knob::CpuMoe, Goal::AllLayers), None);
}
