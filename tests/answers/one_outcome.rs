//! One outcome everywhere: in list, plan, verdict, matrix, sweep, max, marks and JSON, for random models of the
//! catalogue, machines and knobs.

use plimsoll::answer::sweep::Axis;
use plimsoll::answer::{Goal, verdict};
use plimsoll::catalogue;
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::machine::{Machine, Ram, presets};
use plimsoll::plan::{DevicePlan, Outcome, Plan};
use plimsoll::settings::knob::{CACHE_CHOICES, Knob};
use plimsoll::settings::{Context, Settings};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::fixtures;

fn machine() -> impl Strategy<Value = Machine> {
    (proptest::collection::vec(any::<Index>(), 0..=3), 8..=256u64).prop_map(|(cards, ram)| {
        let gpus: Vec<_> = cards.iter().map(|card| card.get(presets::all()).gpu()).collect();
        let (total, free) = (Bytes::gib(ram), Bytes::gib(ram) - Bytes::gib(4));
        let ram = Ram { total, free, swap_free: Bytes::ZERO, bandwidth: None };
        Machine { ram, ..fixtures::machine(gpus) }
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    let ctx = prop_oneof![1 => Just(Context::Auto), 4 => (1024..=1u64 << 17).prop_map(Context::Tokens)];
    let cache_type = proptest::option::of(select(&CACHE_CHOICES[..]));
    (ctx, cache_type, proptest::option::of(1..=4u64)).prop_map(|(ctx, cache_type, parallel)| Settings {
        ctx,
        parallel,
        cache_type_k: cache_type,
        cache_type_v: cache_type,
        ..Settings::default()
    })
}

/// Whether no byte that a layer on a GPU needs, and no layer, is in RAM, and no memory is short, the driver's included.
fn is_in_vram(plan: &Plan) -> bool {
    let cpu = plan.cpu();
    plan.refusal.is_none()
        && !plan.gpus().is_empty()
        && plan.devices.iter().all(|device| !device.is_over())
        && plan.ram().asked <= plan.ram().free
        && used(plan).all(|(device, left)| left >= device.driver.map_or(Bytes::ZERO, |driver| driver.loaded.most))
        && cpu.layers.is_empty()
        && cpu.ram.parts + cpu.cache == Bytes::ZERO
        && plan.layers.iter().all(|layer| layer.device + 1 < plan.devices.len())
}

/// The GPUs with layers, and what is left there.
fn used(plan: &Plan) -> impl Iterator<Item = (&DevicePlan, Bytes)> {
    let in_ram = plan.ram().free - plan.ram().asked;
    let gpus = plan.gpus().iter().filter(|gpu| !gpu.layers.is_empty());
    gpus.map(move |gpu| {
        let left = gpu.free - gpu.asked() - gpu.growth;
        (gpu, if gpu.shares_ram() { left.min(in_ram) } else { left })
    })
}

/// All in VRAM, with what the engine keeps free.
fn keeps_margin(plan: &Plan) -> bool {
    is_in_vram(plan) && used(plan).all(|(device, left)| left >= device.reserved())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_outcome_is_the_same_everywhere(
        model in any::<Index>(), machine in machine(), settings in settings(), marks in 0..8u8,
        engine in select(vec![EngineId::Ollama, EngineId::LlamaCpp, EngineId::Ollama024]),
    ) {
        let entry = model.get(catalogue::all());
        let model = engine_model(entry);
        let request = PlanRequest::new(engine, model, machine, settings);
        let Ok(plan) = request.plan() else { return Ok(()) };
        let outcome = plan.outcome();
        prop_assert_eq!(outcome == Outcome::Vram, is_in_vram(&plan), "{}", entry.name);

        prop_assert_eq!(request.fit_summary(&plan, 0).outcome, outcome, "in the list");
        prop_assert!(verdict::headline(&plan).starts_with(outcome.headline()));
        let json: serde_json::Value = serde_json::from_str(&plimsoll::export::json(&plan).unwrap()).unwrap();
        prop_assert_eq!(&json["outcome"], outcome.name());
        let here = Knob::Context.in_effect(&plan);
        let point = request.sweep(Knob::Context, &[here]).points.remove(0);
        prop_assert_eq!(point.figures.map(|figures| figures.outcome), Ok(outcome), "in a sweep");
        let cache_type = Knob::CacheType.in_effect(&plan);
        let matrix = request.matrix(Axis::Knob(Knob::Context, vec![here]), Axis::Knob(Knob::CacheType, vec![cache_type]));
        // a cache type that the engine refuses is not the one in effect, which the matrix plans
        if plan.refusal.is_none() {
            prop_assert_eq!(matrix.cells[0].as_ref().map(|figures| figures.outcome), Ok(outcome), "in a matrix");
        }

        let most = request.largest(Knob::Context, Goal::Vram);
        let at = |tokens: u64| request.changed(|settings| settings.ctx = Context::Tokens(tokens)).plan();
        if let Some(most) = &most {
            prop_assert!(keeps_margin(&at(most.value).unwrap()), "{} at {}", entry.name, most.value);
            if let Some(next) = most.next {
                prop_assert!(!at(next).is_ok_and(|plan| keeps_margin(&plan)), "{} at {next}", entry.name);
            }
        } else {
            prop_assert!(request.machine.gpus.is_empty() || !keeps_margin(&plan) || plan.settings.ctx == 0);
        }
        if marks == 0 {
            let limits = request.limits(&plan);
            prop_assert_eq!(limits.vram.context, most.map(|most| most.value), "the mark on the slider");
        }
    }
}

fn engine_model(entry: &catalogue::CatalogueEntry) -> plimsoll::engine::PreparedModel {
    entry.model(entry.quantisation).unwrap().into()
}
