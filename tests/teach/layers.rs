//! The walk through the layers ends at what the plan says is left, and every layer is taken once, for what it needs.

use plimsoll::engine::EngineId;
use plimsoll::plan::{Plan, Why};
use plimsoll::teach::layers::{LayersPage, SubtractionKind};
use plimsoll::units::{Bytes, Difference};
use proptest::prelude::*;
use proptest::sample::select;

use super::machine;
use crate::harness;
use crate::laws::{any_model, sane, settings};

fn plan(
    engine: EngineId,
    model: &plimsoll::engine::PreparedModel,
    machine: &plimsoll::machine::Machine,
    settings: &plimsoll::settings::Settings,
) -> Option<Plan> {
    plimsoll::engine::PlanRequest::new(engine, model.clone(), machine.clone(), settings.clone()).plan().ok()
}

fn ends_at_what_is_left(page: &LayersPage, plan: &Plan) -> Result<(), TestCaseError> {
    let mut layers: Vec<usize> = Vec::new();
    for (walk, device) in page.devices.iter().zip(&plan.devices) {
        let left = Difference::between(device.free, device.needed() + device.growth) - device.reserved();
        // beyond the range of 64 bits a sum depends on its order
        if left == Difference(i64::MIN) {
            return Ok(());
        }
        prop_assert_eq!(walk.left(), left, "{}", device.id);
        let mut now = Difference::between(device.free, Bytes::ZERO);
        for step in &walk.steps {
            let next = if step.given_back { Difference(now.0 + step.taken.0.cast_signed()) } else { now - step.taken };
            prop_assert_eq!(step.left, next, "{}", step.title);
            now = next;
            if let SubtractionKind::Layer(layer) = step.kind {
                prop_assert_eq!(step.taken, plan.layers[layer].here());
                layers.push(layer);
            }
        }
        let rows = walk.rows();
        let in_rows: Vec<usize> = rows.iter().flat_map(|row| row.steps.clone()).collect();
        prop_assert_eq!(in_rows, (0..walk.steps.len()).collect::<Vec<_>>());
        prop_assert_eq!(rows.last().map(|row| row.left), walk.steps.last().map(|step| step.left));
    }
    layers.sort_unstable();
    prop_assert_eq!(layers, (0..plan.layers.len()).collect::<Vec<_>>());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_walk_ends_at_what_is_left(
        engine in select(&EngineId::ALL[..]), model in any_model(), machine in machine(),
        settings in prop_oneof![sane(), settings()],
    ) {
        if let Some(plan) = plan(engine, model, &machine, &settings) {
            ends_at_what_is_left(&LayersPage::of(&plan), &plan)?;
        }
    }
}

/// What the engine says was free before a layer is what the walk has left there, with or without the margin.
#[test]
fn a_layer_finds_what_the_walk_has_left() {
    for (model, gib, ctx) in [("llama3.1-8b", 8, 24_576), ("gemma3-4b", 12, 8192), ("qwen3-coder-next", 24, 8192)] {
        let model = harness::model(model).into();
        let plan =
            plan(EngineId::LlamaCpp, &model, &harness::machine(1, "RTX 3060", gib, 64), &super::settings_of(ctx))
                .unwrap();
        let page = LayersPage::of(&plan);
        let walk = &page.devices[0];
        let mut found = 0;
        for (at, step) in walk.steps.iter().enumerate() {
            let SubtractionKind::Layer(layer) = step.kind else { continue };
            if let Why::Fits { needed, room } = plan.layers[layer].why {
                let before = walk.left_after(at);
                assert_eq!(needed, step.taken);
                let with_margin = Difference(before.0 + plan.devices[0].reserved().0.cast_signed());
                let room = Difference::between(room, Bytes::ZERO);
                assert!(room == before || room == with_margin, "{}: {room} {before}", step.title);
                found += 1;
            }
        }
        let refused = plan.layers.iter().any(|layer| matches!(layer.why, Why::NoRoom { device: 0, .. }));
        assert_eq!(refused, walk.end.contains("Next would be"), "{}", walk.end);
        assert!(found > 0 || plan.layers.iter().all(|layer| !matches!(layer.why, Why::Fits { .. })));
    }
}
