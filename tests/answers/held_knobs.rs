//! The best settings while some knobs are held.

use plimsoll::answer::Goal;
use plimsoll::answer::best::{BestRequest, Card, DEFAULT_MARGIN, Loss, Objective};
use plimsoll::engine::{self, EngineId};
use plimsoll::machine::{Machine, presets};
use plimsoll::plan::Outcome;
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, Context, Settings};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::{any_engine, machine, model, one_gpu, request, settings};
use crate::laws;

fn question(held: &[Knob]) -> BestRequest {
    BestRequest { held: held.to_vec(), margin: DEFAULT_MARGIN }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn cards_are_whole_plans_that_fit_and_leave_held_knobs_alone(
        engine in any_engine(), model in laws::any_model(), machine in machine(), settings in settings(),
        held in subsequence(Knob::ALL.to_vec(), 0..=3), margin in 0..2000u64,
    ) {
        let request = request(engine, model, &machine, &settings);
        let Ok(plan) = request.plan() else { return Ok(()) };
        let question = BestRequest { margin: Bytes::mib(margin), ..question(&held) };
        let cards = request.best(&plan, &question);
        prop_assert!(cards.len() <= 4);
        for card in &cards {
            let again = engine::plan(card.request.engine, &card.request.model, &machine, &card.request.settings).unwrap();
            prop_assert_eq!(&again, &card.plan);
            prop_assert!(again.outcome() != Outcome::DoesNotFit);
            for knob in &held {
                let value = |settings: &Settings| knob.chosen(settings, &request.bounds());
                prop_assert_eq!(value(&card.request.settings), value(&settings), "{:?} was held", knob);
            }
            if card.objectives.contains(&Objective::Safe) {
                prop_assert!(Goal::VramWith(Bytes::mib(margin)).is_met_by(&again));
            }
        }
        let titles: Vec<_> = cards.iter().flat_map(|card| &card.objectives).collect();
        prop_assert!(titles.len() <= 4 && titles.iter().enumerate().all(|(at, one)| !titles[..at].contains(one)));
    }
}

fn preset(name: &str) -> Machine {
    Machine { gpus: vec![presets::find(name).unwrap().gpu()], ..one_gpu(12) }
}

fn card(cards: &[Card], objective: Objective) -> &Card {
    cards.iter().find(|card| card.objectives.contains(&objective)).unwrap()
}

#[test]
fn each_card_serves_its_objective() {
    let (model, machine) = (model("llama3.1-8b"), preset("RTX 3060"));
    let settings = Settings { ctx: Context::Tokens(65_536), ..Settings::default() };
    let request = request(EngineId::LlamaCpp, &model, &machine, &settings);
    let plan = request.plan().unwrap();
    assert_eq!(plan.outcome(), Outcome::LayersInRam);
    let cards = request.best(&plan, &question(&[]));
    let left = |card: &Card| card.plan.tightest_gpu().unwrap().1.above_kept().left();
    // 65 536 tokens fit with a q8_0 cache, so that q4_0 is not tried
    let safe = card(&cards, Objective::Safe);
    assert_eq!((safe.plan.settings.ctx, safe.plan.settings.cache_type_k), (65_536, CacheType::Q8_0));
    assert!(left(safe) >= DEFAULT_MARGIN);
    assert_eq!(safe.gives_up, Some(Loss::CacheType { from: CacheType::F16, to: CacheType::Q8_0 }));
    let longest = card(&cards, Objective::Context);
    assert!(cards.iter().all(|card| card.plan.settings.ctx <= longest.plan.settings.ctx));
    let fastest = card(&cards, Objective::Speed);
    let speed = |card: &Card| card.speeds.as_ref().unwrap().start.tokens_per_second;
    assert!(cards.iter().all(|card| speed(card) <= speed(fastest) * 1.05));
    // the largest quantisation with this context, and the widest cache that leaves room for it
    let quality = card(&cards, Objective::Quality);
    assert!(cards.iter().all(|card| card.plan.model.bytes <= quality.plan.model.bytes));
    assert_eq!(quality.plan.settings.ctx, 65_536);
}

#[test]
fn nothing_is_safe_where_nothing_fits() {
    let (model, machine) = (model("llama3.1-8b"), one_gpu(2));
    let request = request(EngineId::Ollama, &model, &machine, &Settings::default());
    let cards = request.best(&request.plan().unwrap(), &question(&[Knob::Quant]));
    assert!(cards.iter().all(|card| !card.objectives.contains(&Objective::Safe)));
    assert!(cards.iter().any(|card| card.objectives.contains(&Objective::Context)), "layers in RAM have a card");
}

#[test]
fn a_held_context_stays() {
    let (model, machine) = (model("llama3.1-8b"), one_gpu(12));
    let settings = Settings { ctx: Context::Tokens(49_152), ..Settings::default() };
    let request = request(EngineId::Ollama, &model, &machine, &settings);
    let cards = request.best(&request.plan().unwrap(), &question(&[Knob::Context, Knob::Quant]));
    assert!(!cards.is_empty() && cards.iter().all(|card| card.plan.settings.ctx == 49_152));
}
