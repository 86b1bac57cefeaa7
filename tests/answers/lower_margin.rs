//! A lower margin as an answer: what is proposed keeps what drivers and desktops need, and nothing that it would bring into VRAM
//! is passed over in silence.

use std::sync::{Arc, LazyLock};

use plimsoll::answer::change::{Change, least_kept};
use plimsoll::answer::{Goal, verdict};
use plimsoll::catalogue;
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::machine::{Backend, Gpu, Machine, Ram, presets};
use plimsoll::plan::{Outcome, Plan};
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{Context, Flag, Settings};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::fixtures;

/// Models of the catalogue that cards may hold, with their bytes.
static MODELS: LazyLock<Vec<(&str, Bytes)>> = LazyLock::new(|| {
    let bytes = |entry: &catalogue::CatalogueEntry| entry.model(entry.quantisation).map(|model| model.bytes);
    let all = catalogue::all().iter().filter_map(|entry| Some((entry.name.as_str(), bytes(entry).ok()?)));
    all.filter(|(_, bytes)| *bytes < Bytes::gib(30)).collect()
});

fn machine(gpus: Vec<Gpu>) -> Machine {
    let ram = Ram { total: Bytes::gib(128), free: Bytes::gib(120), swap_free: Bytes::ZERO, bandwidth: None };
    Machine { ram, ..fixtures::machine(gpus) }
}

fn card(name: &str) -> Gpu {
    presets::find(name).unwrap().gpu()
}

/// What must stay free of each GPU that holds layers, and what stays.
fn kept(request: &PlanRequest, plan: &Plan) -> Vec<(Bytes, i64)> {
    let has_experts = request.model.hyper.experts.is_some();
    let gpus = plan.gpus().iter().zip(plan.headrooms()).zip(&request.machine.gpus);
    let used = gpus.filter(|((device, _), _)| !device.layers.is_empty());
    used.map(|((device, headroom), gpu)| {
        let least = least_kept(gpu, device.driver.as_ref(), has_experts).unwrap();
        (least, headroom.left.0)
    })
    .collect()
}

fn is_safe(request: &PlanRequest, plan: &Plan) -> bool {
    kept(request, plan).iter().all(|(least, left)| *left >= i64::try_from(least.0).unwrap())
}

fn target(request: &PlanRequest) -> Option<Vec<u64>> {
    let list = Flag::FitTarget.write(&request.settings)?;
    Some(list.split(',').map(|mib| mib.parse().unwrap()).collect())
}

/// `request` with a context that is past the last one with all in VRAM by `hundredths` of what it is; none where there is no
/// such edge, or the model was not trained for that.
fn past_the_edge(request: &PlanRequest, hundredths: u64) -> Option<(PlanRequest, Plan)> {
    let edge = request.largest(Knob::Context, Goal::Vram)?.value;
    let tokens = (edge + edge * hundredths / 100).next_multiple_of(256) + 256;
    let past = request.changed(|settings| settings.ctx = Context::Tokens(tokens));
    let plan = past.plan().ok()?;
    let is_past = plan.outcome() > Outcome::Tight && plan.outcome() < Outcome::FromDisk && plan.refusal.is_none();
    is_past.then_some((past, plan))
}

/// The highest margin in whole steps of 16 MiB that brings all into VRAM and leaves what must stay free.
fn by_trying(request: &PlanRequest, plan: &Plan) -> Option<u64> {
    let margins = plan.gpus().iter().filter_map(|gpu| Some(gpu.margin.as_ref()?.target.0 >> 20));
    let highest = margins.max()?;
    let has_experts = request.model.hyper.experts.is_some();
    let least = request.machine.gpus.iter().zip(plan.gpus());
    let least = least.filter_map(|(gpu, device)| least_kept(gpu, device.driver.as_ref(), has_experts)).max()?;
    (least.0.div_ceil(1 << 20)..highest).rev().step_by(16).find(|mib| {
        let then = request.changed(|settings| settings.fit_target = Some(Bytes::mib(*mib)));
        then.plan().is_ok_and(|plan| plan.outcome() == Outcome::Vram && is_safe(&then, &plan))
    })
}

/// A card with what was measured of its driver, whether it shows a desktop, and what it has free beside its share of a model,
/// in MiB.
type Picked = (Index, Option<u64>, Option<bool>, u64);

fn picked() -> impl Strategy<Value = Vec<Picked>> {
    let measured = proptest::option::of(300..900u64);
    proptest::collection::vec((any::<Index>(), measured, proptest::option::of(any::<bool>()), 1200..4000u64), 1..=2)
}

/// A model on cards that it fills, past the edge.
fn request(model: Index, picked: &[Picked], engine: EngineId, hundredths: u64) -> Option<(PlanRequest, Plan)> {
    let (name, bytes) = model.get(&MODELS);
    let (model, projector) = catalogue::model_and_projector(name)?;
    let beside = projector.as_ref().map_or(Bytes::ZERO, |projector| projector.tensor_bytes);
    let share = Bytes((*bytes + beside).0 / picked.len() as u64);
    let cards: Vec<_> = presets::all().iter().filter(|preset| !preset.integrated).collect();
    let card = |(card, measured, display, more): &Picked| {
        let gpu = card.get(&cards).gpu();
        let total = gpu.total.max(share + Bytes::gib(5));
        Gpu {
            total,
            free: share + Bytes::mib(*more),
            driver_memory: measured.map(Bytes::mib),
            display: *display,
            ..gpu
        }
    };
    let settings = Settings { projector, ..Settings::default() };
    let machine = machine(picked.iter().map(card).collect());
    past_the_edge(&PlanRequest::new(engine, Arc::new(model.into()), machine, settings), hundredths)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_global_rejects: 2000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_proposed_leaves_what_must_stay_free(
        model in any::<Index>(), picked in picked(), engine in select(vec![EngineId::LlamaCpp, EngineId::Ollama]),
        hundredths in 0..40u64, goal in select(vec![Goal::Vram, Goal::AllLayers]),
    ) {
        let asked = request(model, &picked, engine, hundredths);
        prop_assume!(asked.is_some());
        let (request, plan) = asked.unwrap();
        let lower = request.lower_margin(&plan, goal);
        prop_assume!(lower.is_some());
        let lower = lower.unwrap();
        let then = request.after(&lower.change).unwrap();
        let after = then.plan().unwrap();
        prop_assert!(goal.is_met_by(&after), "{}", lower.change);
        prop_assert_eq!(after.settings.ctx, plan.settings.ctx);
        prop_assert!(is_safe(&then, &after), "{}: {:?}", lower.change, kept(&then, &after));
        let lowest: Vec<u64> = target(&then).unwrap();
        let before: Vec<u64> = plan.gpus().iter().filter_map(|gpu| Some(gpu.margin.as_ref()?.target.0 >> 20)).collect();
        prop_assert!(lowest.iter().zip(&before).any(|(then, now)| then < now), "{lowest:?} of {before:?}");
        let has_experts = request.model.hyper.experts.is_some();
        let least = request.machine.gpus.iter().zip(plan.gpus());
        let least: Vec<Bytes> = least.filter_map(|(gpu, device)| least_kept(gpu, device.driver.as_ref(), has_experts)).collect();
        prop_assert!(lowest.iter().all(|mib| Bytes::mib(*mib) >= *least.iter().min().unwrap()));
        // what is said is what the plan leaves
        let said = lower.stays.unwrap();
        let spare = kept(&then, &after).into_iter().map(|(least, left)| left - i64::try_from(least.0).unwrap()).min().unwrap();
        let spare = Bytes(u64::try_from(spare).unwrap());
        prop_assert!(said.starts_with(&format!("{spare} stay free")), "{said}");
        let is_assumed = plan.gpus().iter().all(|gpu| gpu.driver.is_some_and(|driver| driver.known_from() == "assumed"));
        prop_assert!(!is_assumed || said.contains("--remember"), "{said}");
    }

    #[test]
    fn what_a_lower_margin_brings_into_vram_is_told(
        model in any::<Index>(), picked in picked(), engine in select(vec![EngineId::LlamaCpp, EngineId::Ollama]),
        hundredths in 0..25u64,
    ) {
        let asked = request(model, &picked, engine, hundredths);
        prop_assume!(asked.is_some());
        let (request, plan) = asked.unwrap();
        let tried = by_trying(&request, &plan);
        prop_assume!(tried.is_some());
        let mib = tried.unwrap();
        let found = request.remedies(plan.clone(), None).flatten().find(|remedy| remedy.change.knob() == "fit-target");
        prop_assert!(found.is_some(), "{} MiB is enough for {} on {}", mib, request.model.name, request.machine);
        let limits = request.limits(&plan);
        prop_assert!(matches!(limits.remedies.first().map(|way| &way.change), Some(Change::FitTarget(_))));
        let said = verdict::sentence(&plan, Some(&limits), None);
        let how = if engine == EngineId::LlamaCpp { "--fit-target" } else { "LLAMA_ARG_FIT_TARGET" };
        prop_assert!(said.contains(how) && said.contains("stay free"), "{said}");
    }
}

/// Settings a few hundred tokens past the edge: of those that a lower target would bring into VRAM, none is passed over.
#[test]
fn of_ten_settings_past_the_edge_those_that_a_lower_target_helps_are_told() {
    let cases = [
        ("llama3.1-8b", "RTX 4060"),
        ("qwen3-14b", "RTX 3060"),
        ("qwen3-8b", "RTX 3070"),
        ("qwen2.5-14b", "RTX 4070"),
        ("mistral-nemo-12b", "RTX 3060"),
        ("gemma3-12b", "RTX 3080"),
        ("phi-4-14b", "RTX 3060"),
        ("qwen2.5-32b", "RTX 4090"),
        ("qwen3-32b", "RTX 3090"),
        ("llama3.1-8b", "RTX 3070"),
        ("qwen3.5-9b", "RTX 2080 Ti"),
        ("mistral-small-24b", "RTX 4080"),
    ];
    let mut told = Vec::new();
    for (name, preset) in cases {
        let entry = catalogue::find(name).unwrap();
        let model = Arc::new(entry.model(entry.quantisation).unwrap().into());
        let request = PlanRequest::new(EngineId::LlamaCpp, model, machine(vec![card(preset)]), Settings::default());
        let Some((past, plan)) = past_the_edge(&request, 2) else { continue };
        let found = past.remedy_by_margin(&plan);
        assert_eq!(found.is_some(), by_trying(&past, &plan).is_some(), "{name} on {preset}");
        told.push(match found {
            Some(remedy) => {
                format!(
                    "{name} on {preset}: {} ({}): {}",
                    remedy.says(),
                    remedy.options().unwrap(),
                    remedy.cost.unwrap()
                )
            }
            None => format!("{name} on {preset}: no target"),
        });
    }
    assert!(told.len() >= 10, "{told:?}");
    insta::assert_snapshot!(told.join("\n"));
}

/// An engine that reads no such option is told none, and a plan that is all in VRAM needs none.
#[test]
fn nothing_is_proposed_that_no_program_reads() {
    let entry = catalogue::find("qwen3-14b").unwrap();
    let model: Arc<_> = Arc::new(entry.model(entry.quantisation).unwrap().into());
    let of = |engine: EngineId, settings: Settings| {
        PlanRequest::new(engine, Arc::clone(&model), machine(vec![card("RTX 3060")]), settings)
    };
    for engine in [EngineId::Ollama024, EngineId::Ollama011] {
        let request = of(engine, Settings { ctx: Context::Tokens(32_768), ..Settings::default() });
        let plan = request.plan().unwrap();
        assert!(plan.outcome() > Outcome::Tight);
        assert_eq!(request.lower_margin(&plan, Goal::Vram), None);
    }
    let in_vram = of(EngineId::LlamaCpp, Settings { ctx: Context::Tokens(1024), ..Settings::default() });
    let plan = in_vram.plan().unwrap();
    assert!(plan.outcome() == Outcome::Vram && in_vram.lower_margin(&plan, Goal::Vram).is_none());
    // without its fit, llama-server reads no target
    let unfitted =
        of(EngineId::LlamaCpp, Settings { no_fit: true, ctx: Context::Tokens(32_768), ..Settings::default() });
    let plan = unfitted.plan().unwrap();
    assert_eq!(unfitted.lower_margin(&plan, Goal::Vram), None);
}

/// The card that shows the desktop keeps more, and a share that was measured stands over the table.
#[test]
fn each_card_keeps_what_it_needs() {
    let driver = |gpu: &Gpu| plimsoll::machine::budget::DriverMemory::of(gpu);
    let least = |gpu: &Gpu| least_kept(gpu, driver(gpu).as_ref(), false).unwrap();
    let plain = card("RTX 4090");
    assert_eq!(least(&plain), Bytes::mib(456));
    assert_eq!(least(&Gpu { display: Some(true), ..plain.clone() }), Bytes::mib(456 + 256));
    assert_eq!(least(&Gpu { driver_memory: Some(Bytes::mib(410)), ..plain.clone() }), Bytes::mib(410));
    assert_eq!(least(&Gpu::of("some card", Backend::Cuda, Bytes::gib(8))), Bytes::mib(350));
    let vulkan = Gpu::of("some card", Backend::Vulkan, Bytes::gib(8));
    assert_eq!(least(&vulkan), Bytes::mib(32 + 191));

    // two cards, one of which shows the desktop: a value a card
    let entry = catalogue::find("qwen2.5-32b").unwrap();
    let model = Arc::new(entry.model(entry.quantisation).unwrap().into());
    let gpus = vec![Gpu { display: Some(true), ..card("RTX 4070") }, card("RTX 4070")];
    let request = PlanRequest::new(EngineId::LlamaCpp, model, machine(gpus), Settings::default());
    let told = (0..30).find_map(|hundredths| {
        let (past, plan) = past_the_edge(&request, hundredths)?;
        let remedy = past.remedy_by_margin(&plan)?;
        let targets = target(&remedy.then)?;
        assert_eq!(targets.len(), 2, "{targets:?}");
        assert!(targets[0] > targets[1], "{targets:?}");
        Some(())
    });
    assert_eq!(told, Some(()));
}
