//! Machines that run a model.

use plimsoll::answer::need::{BESIDE_CARDS, NeedRequest, NeededMachine};
use plimsoll::catalogue;
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::machine::{Machine, presets};
use plimsoll::plan::Outcome;
use plimsoll::settings::{Context, Settings};
use plimsoll::speed::Speed;
use rstest::rstest;

fn request(model: &str, ctx: u64) -> PlanRequest {
    let model = catalogue::model_and_projector(model).unwrap().0;
    let settings = Settings { ctx: Context::Tokens(ctx), ..Settings::default() };
    PlanRequest::new(EngineId::LlamaCpp, model, Machine::described(&["RTX 3090"], "64GiB").unwrap(), settings)
}

/// What a machine says holds when it is described and planned again, and what is left out does not do what is asked.
#[rstest]
#[case("qwen3-30b-a3b", 32_768, 30.0)]
#[case("llama3.3-70b", 16_384, 5.0)]
#[case("gemma3-4b", 8192, 60.0)]
fn every_card_that_runs_it_is_named_and_no_other(#[case] model: &str, #[case] ctx: u64, #[case] speed: f64) {
    let request = request(model, ctx);
    let found = request.needed(&NeedRequest { ram: BESIDE_CARDS, speed });
    assert!(found.is_sorted_by_key(|one| one.memory), "the least memory first");
    let named = |name: &str, count: usize| found.iter().find(|one| one.preset.name == name && one.count == count);
    for preset in presets::all().iter().filter(|preset| preset.ram().is_none() && !preset.by_name) {
        let mut in_vram = false;
        for count in 1..=2 {
            let machine = Machine::described(&vec![preset.name; count], "total=64GiB,free=60GiB").unwrap();
            let there = PlanRequest { machine: machine.into(), ..request.clone() };
            let plan = there.plan().ok();
            let fast = plan.as_ref().and_then(|plan| {
                let fast = Speed::of(&there.model, &there.machine, plan, plan.settings.ctx_per_sequence)?;
                let runs = plan.outcome() < Outcome::FromDisk && plan.outcome() != Outcome::Tight;
                (runs && fast.tokens_per_second >= speed).then_some(fast.tokens_per_second)
            });
            let found = named(preset.name, count).map(|one: &NeededMachine| one.speed.tokens_per_second);
            assert_eq!(found, fast.filter(|_| !in_vram), "{count} × {}", preset.name);
            in_vram |= named(preset.name, count).is_some_and(NeededMachine::is_in_vram);
        }
    }
}

#[test]
fn systems_have_their_own_ram_and_nothing_runs_what_is_too_large() {
    let found = request("gpt-oss-120b", 8192).needed(&NeedRequest { ram: BESIDE_CARDS, speed: 5.0 });
    assert!(found.iter().any(|one| !one.is_card() && one.count == 1), "a system holds it");
    let unreachable = request("gpt-oss-120b", 8192).needed(&NeedRequest { ram: BESIDE_CARDS, speed: 100_000.0 });
    assert!(unreachable.is_empty());
}
