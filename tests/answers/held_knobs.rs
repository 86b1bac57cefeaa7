//! The best settings while some knobs are held.

use plimsoll::answer::best::{BestRequest, Card, DEFAULT_MARGIN, Loss, Minimums, Objective};
use plimsoll::answer::{Goal, quality};
use plimsoll::catalogue;
use plimsoll::engine::{self, EngineId, PlanRequest};
use plimsoll::gguf::FileType;
use plimsoll::machine::{Machine, presets};
use plimsoll::plan::{Outcome, Plan, used_gpus};
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, Context, Settings};
use plimsoll::speed::{Speed, USABLE};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};
use rayon::prelude::*;

use super::{any_engine, machine, model, one_gpu, request, settings};
use crate::laws;

fn question(held: &[Knob]) -> BestRequest {
    BestRequest { held: held.to_vec(), margin: DEFAULT_MARGIN, minimums: Minimums::default(), prefers_published: false }
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
    let cards = request.best(&plan, &question(&[Knob::Context]));
    let left = |card: &Card| card.plan.tightest_gpu().unwrap().1.above_kept().left();
    // 65 536 tokens fit with a q8_0 cache, which all else gains from
    let safe = card(&cards, Objective::Safe);
    assert_eq!((safe.plan.settings.ctx, safe.plan.settings.cache_type_k), (65_536, CacheType::Q8_0));
    assert!(left(safe) >= DEFAULT_MARGIN && cards.iter().all(|card| left(card) <= left(safe)));
    assert!(
        safe.gives_up.contains(&Loss::CacheType { from: CacheType::F16, to: CacheType::Q8_0 }),
        "{:?}",
        safe.gives_up
    );
    let fastest = card(&cards, Objective::Speed);
    assert_eq!(fastest.fill, Some(65_536));
    let speed = |card: &Card| card.speeds.as_ref().unwrap().full.shown();
    assert!(cards.iter().all(|card| speed(card) <= speed(fastest)));
    // the largest quantisation with this context, and the widest cache that leaves room for it
    let quality = card(&cards, Objective::Quality);
    assert!(cards.iter().all(|card| card.plan.model.bytes <= quality.plan.model.bytes));
    assert!(cards.iter().all(|card| card.plan.settings.ctx == 65_536));
    // a context that is not held is chosen
    let cards = request.best(&plan, &question(&[]));
    let longest = card(&cards, Objective::Context);
    assert!(cards.iter().all(|card| card.plan.settings.ctx <= longest.plan.settings.ctx));
    assert_eq!(card(&cards, Objective::Speed).fill, Some(32_768));
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
    let speed_at = |request: &PlanRequest, plan: &Plan, depth: u64| {
        Some(Speed::of(&request.model, &request.machine, plan, depth)?.shown())
    };
    let margin = |plan: &Plan| plan.tightest_gpu().map(|(_, headroom)| headroom.above());
    // as much as any has of the context that is wanted
    let fill = named(Objective::Speed).and_then(|fastest| fastest.fill);
    for card in &cards {
        let shown = || format!("{}: {} {}", card.title(), card.headline(), card.gives_up_text());
        let holds = |fill: &u64| card.plan.settings.ctx >= *fill;
        if let (Some(fill), Some(fastest)) = (fill.filter(holds), named(Objective::Speed)) {
            let than = speed_at(&fastest.request, &fastest.plan, fill);
            assert!(speed_at(&card.request, &card.plan, fill) <= than, "{} is faster than the fastest", shown());
            let is_usable = speed_at(&card.request, &card.plan, fill) >= Some(USABLE);
            if let Some(quality) = named(Objective::Quality).filter(|_| is_usable) {
                assert!(card.loss >= quality.loss, "{} loses less", shown());
            }
            // what nobody would take is not called safe
            let may_be_safe = Goal::VramWith(DEFAULT_MARGIN).is_met_by(&card.plan)
                && !quality::is_last_resort(quality::of_model(&card.request.model));
            if let Some(safe) = named(Objective::Safe).filter(|_| may_be_safe) {
                assert!(margin(&card.plan) <= margin(&safe.plan), "{} is safer", shown());
            }
        }
        let is_usable = card.speeds.as_ref().is_none_or(|speeds| speeds.full.shown() >= USABLE);
        if let Some(longest) = named(Objective::Context).filter(|_| is_usable) {
            assert!(card.plan.settings.ctx <= longest.plan.settings.ctx, "{} is longer", shown());
        }
        // what is lost is named
        let names = |what: &str| card.gives_up.iter().any(|loss| loss.name() == what);
        assert_eq!(card.plan.outcome() > plan.outcome(), names("vram"), "{}", shown());
        assert_eq!(card.plan.on_gpus() < plan.on_gpus(), names("layers"), "{}", shown());
        assert_eq!(card.plan.settings.ctx < plan.settings.ctx, names("ctx"), "{}", shown());
        let both = card.plan.settings.ctx_per_sequence.min(plan.settings.ctx_per_sequence);
        let slower = |depth| {
            let (now, then) = (speed_at(&request, &plan, depth), speed_at(&card.request, &card.plan, depth));
            now.zip(then).is_some_and(|(now, then)| then < now)
        };
        assert_eq!(slower(0) || slower(both), names("speed"), "{}", shown());
        let full = |request: &PlanRequest, plan: &Plan| speed_at(request, plan, plan.settings.ctx_per_sequence);
        let is_slower_when_full = full(&card.request, &card.plan) < full(&request, &plan);
        assert!(!is_slower_when_full || names("speed") || names("speed_when_full"), "{}", shown());
        let lost =
            margin(&plan).zip(margin(&card.plan)).is_some_and(|(now, then)| then.left() + Bytes::mib(32) <= now.left());
        assert_eq!(lost, names("margin"), "{}", shown());
        let is_whole = card.changes.iter().any(|change| change.knob == Knob::Context);
        assert_eq!(card.plan.settings.ctx != plan.settings.ctx, is_whole, "{}", shown());
    }
    // balanced takes nothing that loses much where something precise runs as fast as one reads, with what is kept free
    let loss = |card: &Card| quality::of_plan(&card.request.model, &card.plan);
    let is_precise = |card: &&Card| loss(card) <= 0.3 && Goal::AtLeast(0).is_met_by(&card.plan);
    if let Some(balanced) = named(Objective::Balanced)
        && let Some(quality) = named(Objective::Quality).filter(is_precise)
        && loss(balanced) > 0.3
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

const NAMES: [&str; 9] = [
    "llama3.2-3b",
    "qwen3.5-9b",
    "gemma3-12b",
    "qwen3-14b",
    "qwen2.5-coder-32b",
    "llama3.3-70b",
    "gpt-oss-20b",
    "qwen3-30b-a3b",
    "deepseek-v2-lite",
];
const MACHINES: [&[&str]; 6] = [
    &["GTX 1660 SUPER"],
    &["RTX 3060"],
    &["RTX 4090"],
    &["RTX 3090", "RTX 3090"],
    &["RTX 3060", "RTX 4060"],
    &["M4 32GB"],
];

/// What makes two cards the same: their names, and their plans but for who asked.
fn identity(card: &Card) -> (String, Option<String>, u64, String, Vec<u64>) {
    let Card { plan, .. } = card;
    let types = format!("{} {}", plan.settings.cache_type_k, plan.settings.cache_type_v);
    let devices = plan.devices.iter().map(|device| device.asked().0).collect();
    (card.title(), plan.model.file_type.clone(), plan.settings.ctx, types, devices)
}

/// Over models and machines: no card is beaten at its name by another card or by any settings that may be suggested, and
/// after one is applied the same cards come.
#[test]
fn cards_are_true_and_stay_what_they_are() {
    are_true(&NAMES, &MACHINES);
}

/// The same of others, none of which the search was made with.
#[test]
#[ignore = "252 searches and their cards' own take many minutes"]
fn cards_are_true_of_many_more() {
    let chat = |entry: &&catalogue::CatalogueEntry| entry.uses.contains(&catalogue::Use::Chat);
    let others = catalogue::all().iter().filter(chat).map(|entry| entry.name.as_str());
    let others: Vec<&str> = others.filter(|name| !NAMES.contains(name)).step_by(6).take(21).collect();
    let machines: [&[&str]; 12] = [
        &["RTX 2060"],
        &["RTX 4060 Ti 16GB"],
        &["RTX 5070"],
        &["RTX 3090"],
        &["RTX 5090"],
        &["RX 7900 XTX"],
        &["Arc B580"],
        &["M2 Max 64GB"],
        &["M4 Pro 24GB"],
        &["RTX 4090", "RTX 3060"],
        &["RTX 3060", "RTX 3060"],
        &["A100 80GB"],
    ];
    assert_eq!(others.len() * machines.len(), 252);
    are_true(&others, &machines);
}

fn are_true(names: &[&str], machines: &[&[&str]]) {
    let asked: Vec<(&str, &[&str])> =
        names.iter().flat_map(|name| machines.iter().map(move |machine| (*name, *machine))).collect();
    let wrong: Vec<String> = asked
        .par_iter()
        .with_max_len(1)
        .flat_map_iter(|(name, cards)| {
            let gpus = cards.iter().map(|card| presets::find(card).unwrap().gpu()).collect();
            let machine = Machine { gpus, ..one_gpu(12) };
            let model = catalogue::find(name)
                .unwrap()
                .model(FileType::Q4KM)
                .unwrap_or_else(|_| catalogue::model(name).unwrap());
            let request = request(EngineId::LlamaCpp, &model.into(), &machine, &Settings::default());
            let Ok(plan) = request.plan() else { return Vec::new() };
            let found = request.best(&plan, &question(&[]));
            let mut wrong = beaten(&request, &found);
            for card in found.iter().take(if name.contains("3.2") { usize::MAX } else { 2 }) {
                let again = card.request.best(&card.plan, &question(&[]));
                let [before, after] = [&found, &again].map(|cards| cards.iter().map(identity).collect::<Vec<_>>());
                if before != after {
                    wrong.push(format!("after {}: {before:#?} became {after:#?}", card.title()));
                }
            }
            wrong.into_iter().map(|one| format!("{name} on {cards:?}: {one}")).collect()
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}: {}", wrong.len(), asked.len(), wrong[0]);
}

/// Where settings that may be suggested, each planned, beat a card at its name.
fn beaten(request: &PlanRequest, cards: &[Card]) -> Vec<String> {
    let named = |objective| cards.iter().find(|card| card.objectives.contains(&objective));
    let Some(fill) = named(Objective::Speed).and_then(|fastest| fastest.fill) else { return Vec::new() };
    let speed = |request: &PlanRequest, plan: &Plan| {
        Some(Speed::of(&request.model, &request.machine, plan, fill.min(plan.settings.ctx_per_sequence))?.shown())
    };
    let is_trained_in = quality::is_trained_in(&request.opened);
    let types = quality::ladder().filter(|to| !is_trained_in && !quality::is_last_resort(quality::of_weights(*to)));
    let models = types.filter_map(|to| request.quantised(to)).chain([request.clone()]);
    let with = |model: PlanRequest| {
        [None, Some(CacheType::Q8_0)].map(|ty| {
            model.changed(|settings| {
                settings.ctx = Context::Tokens(fill);
                (settings.cache_type_k, settings.cache_type_v) = (ty, ty);
            })
        })
    };
    let mut wrong = Vec::new();
    for other in models.flat_map(with) {
        let Ok(plan) = other.plan() else { continue };
        let is_tight = used_gpus(&plan.devices).any(|(_, headroom)| headroom.is_tight());
        if plan.refusal.is_some() || plan.outcome() >= Outcome::FromDisk || is_tight || plan.settings.ctx < fill {
            continue;
        }
        let says = |card: &Card| format!("{:?} beats {}", other.settings.quant.map(|to| to.to_string()), card.title());
        if let Some(card) = named(Objective::Speed)
            && speed(&other, &plan) > speed(&card.request, &card.plan)
        {
            wrong.push(says(card));
        }
        if let Some(card) = named(Objective::Quality)
            && speed(&other, &plan) >= Some(USABLE)
            && quality::of_plan(&other.model, &plan) < card.loss
        {
            wrong.push(says(card));
        }
        let margin = |plan: &Plan| plan.tightest_gpu().map(|(_, headroom)| headroom.above());
        let is_safe = Goal::VramWith(DEFAULT_MARGIN).is_met_by(&plan);
        match named(Objective::Safe) {
            Some(card) if is_safe && margin(&plan) > margin(&card.plan) => wrong.push(says(card)),
            None if is_safe => wrong.push("something is safe".to_owned()),
            _ => {}
        }
    }
    wrong
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
