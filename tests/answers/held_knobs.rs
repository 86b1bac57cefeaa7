//! The best settings while some knobs are held.

use plimsoll::answer::best::{BestRequest, Card, DEFAULT_MARGIN, Loss, Minimums, Objective};
use plimsoll::answer::{Goal, quality};
use plimsoll::catalogue;
use plimsoll::engine::{self, EngineId};
use plimsoll::gguf::FileType;
use plimsoll::machine::{Machine, presets};
use plimsoll::plan::{Outcome, Plan};
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, Context, Settings};
use plimsoll::speed::Speed;
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

use super::{any_engine, machine, model, one_gpu, request, settings};
use crate::laws;

fn question(held: &[Knob]) -> BestRequest {
    BestRequest { held: held.to_vec(), margin: DEFAULT_MARGIN, minimums: Minimums::default() }
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
        prop_assert!(cards.len() <= Objective::ALL.len());
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
        prop_assert!(titles.len() <= Objective::ALL.len() && titles.iter().enumerate().all(|(at, one)| !titles[..at].contains(one)));
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
    // 65 536 tokens fit with a q8_0 cache, which all else gains from
    let safe = card(&cards, Objective::Safe);
    assert_eq!((safe.plan.settings.ctx, safe.plan.settings.cache_type_k), (65_536, CacheType::Q8_0));
    assert!(left(safe) >= DEFAULT_MARGIN);
    assert!(
        safe.gives_up.contains(&Loss::CacheType { from: CacheType::F16, to: CacheType::Q8_0 }),
        "{:?}",
        safe.gives_up
    );
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

/// On any machine with any model of the catalogue, a card is the best of its name among all that are shown and what is
/// there now, and what it does not name it does not give up.
fn keep_their_promise(model: &plimsoll::catalogue::CatalogueEntry, gpus: &[&presets::Preset], ctx: Option<u64>) {
    let machine = Machine { gpus: gpus.iter().map(|preset| preset.gpu()).collect(), ..one_gpu(12) };
    let model = model.model(model.quantisation).unwrap().into();
    let settings = Settings { ctx: ctx.map_or(Context::Auto, Context::Tokens), ..Settings::default() };
    let request = request(EngineId::LlamaCpp, &model, &machine, &settings);
    let Ok(plan) = request.plan() else { return };
    let held: Vec<Knob> = ctx.map(|_| Knob::Context).into_iter().collect();
    let cards = request.best(&plan, &question(&held));
    let named = |objective| cards.iter().find(|card| card.objectives.contains(&objective));
    let speed_at = |request: &plimsoll::engine::PlanRequest, plan: &Plan, depth: u64| {
        let speed = Speed::of(&request.model, &request.machine, plan, depth)?;
        Some(speed.tokens_per_second)
    };
    let asked = ctx.unwrap_or(u64::MAX);
    let margin = |plan: &Plan| plan.tightest_gpu().map(|(_, headroom)| headroom.above());
    for card in &cards {
        let shown = || format!("{}: {} {}", card.title(), card.headline(), card.gives_up_text());
        let depth = asked.min(card.plan.settings.ctx_per_sequence);
        if let (Some(_), Some(fastest)) = (ctx, named(Objective::Speed)) {
            let than = speed_at(&fastest.request, &fastest.plan, depth);
            assert!(speed_at(&card.request, &card.plan, depth) <= than, "{} is faster than the fastest", shown());
        }
        if let Some(quality) = named(Objective::Quality) {
            assert!(card.loss >= quality.loss, "{} loses less", shown());
        }
        if let Some(longest) = named(Objective::Context) {
            assert!(card.plan.settings.ctx <= longest.plan.settings.ctx, "{} is longer", shown());
        }
        if let Some(safe) = named(Objective::Safe).filter(|_| Goal::VramWith(DEFAULT_MARGIN).is_met_by(&card.plan)) {
            assert!(margin(&card.plan) <= margin(&safe.plan), "{} is safer", shown());
        }
        // what is lost is named
        let names = |what: &str| card.gives_up.iter().any(|loss| loss.name() == what);
        assert_eq!(card.plan.outcome() > plan.outcome(), names("vram"), "{}", shown());
        assert_eq!(card.plan.on_gpus() < plan.on_gpus(), names("layers"), "{}", shown());
        assert_eq!(card.plan.settings.ctx < plan.settings.ctx, names("ctx"), "{}", shown());
        let both = card.plan.settings.ctx_per_sequence.min(plan.settings.ctx_per_sequence);
        let slower = |depth| {
            let (now, then) = (speed_at(&request, &plan, depth), speed_at(&card.request, &card.plan, depth));
            now.zip(then).is_some_and(|(now, then)| then < now * 0.97)
        };
        assert_eq!(slower(0) || slower(both), names("speed"), "{}", shown());
        let is_whole = card.changes.iter().any(|change| change.knob == Knob::Context);
        assert_eq!(card.plan.settings.ctx != plan.settings.ctx, is_whole, "{}", shown());
    }
    // balanced takes nothing that loses much where something precise runs as fast as one reads
    if let Some(balanced) = named(Objective::Balanced)
        && let Some(quality) = named(Objective::Quality)
        && quality::of_plan(&balanced.request.model, &balanced.plan) > 0.3
    {
        let speed = speed_at(&quality.request, &quality.plan, 0);
        assert!(speed.is_none_or(|speed| speed < 10.0), "{}", balanced.headline());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_card_keeps_the_promise_of_its_name(
        model in any::<Index>(), cards in proptest::collection::vec(any::<Index>(), 1..=2),
        ctx in proptest::option::of(1024u64..40_000),
    ) {
        let is_card = |preset: &&presets::Preset| !preset.integrated;
        let presets: Vec<_> = presets::all().iter().filter(is_card).collect();
        let gpus: Vec<_> = cards.iter().map(|card| *card.get(&presets)).collect();
        keep_their_promise(model.get(catalogue::all()), &gpus, ctx);
    }
}

#[test]
fn floors_limit_what_is_suggested() {
    let (model, machine) = (model("qwen3-30b-a3b"), preset("RTX 3060"));
    let request = request(EngineId::LlamaCpp, &model, &machine, &Settings::default());
    let plan = request.plan().unwrap();
    let with = |quant, cache| BestRequest { minimums: Minimums { quant, cache }, ..question(&[]) };
    for floor in [FileType::Q6K, FileType::Q4KM, FileType::Iq2M, FileType::Iq1M] {
        for card in request.best(&plan, &with(Some(floor), None)) {
            let loss = quality::of_model(&card.request.model);
            let is_now = card.request == request;
            assert!(loss <= quality::of_weights(floor) || is_now, "{floor}: {}", card.headline());
        }
    }
    let narrow = request.best(&plan, &with(None, Some(CacheType::Q4_0)));
    assert!(narrow.iter().any(|card| card.plan.settings.cache_type_k == CacheType::Q4_0));
    // none that loses much without being asked
    for card in request.best(&plan, &question(&[])) {
        assert!(!quality::is_last_resort(quality::of_model(&card.request.model)), "{}", card.headline());
        assert_ne!(card.plan.settings.cache_type_k, CacheType::Q4_0);
    }
}
