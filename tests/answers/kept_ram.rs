//! RAM that is kept for the system: it changes what is offered, and no figure; and what helps where RAM is short.

use std::sync::Arc;

use plimsoll::answer::best::{BestRequest, DEFAULT_MARGIN, Minimums};
use plimsoll::answer::ram::RamUse;
use plimsoll::answer::ram_remedy::is_short;
use plimsoll::answer::{Change, Goal, verdict, why};
use plimsoll::catalogue;
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::machine::Machine;
use plimsoll::plan::{Outcome, Plan};
use plimsoll::settings::{Context, Flag, Settings};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::select;

fn request(model: &str, machine: Machine, settings: Settings) -> PlanRequest {
    PlanRequest::new(EngineId::LlamaCpp, Arc::new(catalogue::model(model).unwrap().into()), machine, settings)
}

fn keeping(request: &PlanRequest, text: &str) -> PlanRequest {
    request.changed(|settings| Flag::KeepRam.read(settings, text).unwrap())
}

/// The bytes of all devices.
fn figures(plan: &Plan) -> Vec<(Bytes, Bytes, Bytes, Bytes)> {
    plan.devices.iter().map(|device| (device.weights, device.cache, device.graph, device.free)).collect()
}

/// A machine that is described has all its RAM free, of which something is kept; where free RAM is known, it is not.
#[test]
fn what_is_known_to_be_free_keeps_nothing_more() {
    let of = |ram: &str| {
        let request = request("qwen3-30b-a3b", Machine::described(&["RTX 3060"], ram).unwrap(), Settings::default());
        request.plan().unwrap().cpu().ram.kept
    };
    assert_eq!(of("64GiB"), Bytes::gib(8));
    assert_eq!(of("16GiB"), Bytes::gib(2));
    assert_eq!(of("total=64GiB,free=50GiB"), Bytes::ZERO);
    let asked =
        request("qwen3-8b", Machine::described(&["RTX 3060"], "total=64GiB,free=50GiB").unwrap(), Settings::default());
    assert_eq!(keeping(&asked, "10%").plan().unwrap().cpu().ram.kept, Bytes(Bytes::gib(64).0 / 10));
    assert_eq!(keeping(&asked, "0").plan().unwrap().cpu().ram.kept, Bytes::ZERO);
}

/// A model that fills all but a gigabyte of RAM runs, and is not offered.
#[test]
fn full_ram_is_said_and_not_offered() {
    let machine = |ram: &str| Machine::described(&["RTX 3060"], ram).unwrap();
    let settings = Settings { ctx: Context::Tokens(8192), ..Settings::default() };
    let whole = request("gpt-oss-120b", machine("128GiB"), settings.clone());
    let taken = whole.plan().unwrap().ram().asked;
    let ram = format!("{}", (taken + Bytes::gib(1)).0);
    let full = request("gpt-oss-120b", machine(&ram), settings);
    let plan = full.plan().unwrap();
    assert!(plan.outcome() < Outcome::FromDisk && !Goal::AtLeast(0).is_met_by(&plan) && is_short(&plan));
    let said = verdict::sentence(&plan, None, None);
    assert!(said.contains("RAM is full: 1.0 GiB of") && said.contains("(--keep-ram)"), "{said}");
    let all = keeping(&full, "0");
    let free = all.plan().unwrap();
    assert_eq!(figures(&free), figures(&plan));
    assert!(Goal::AtLeast(0).is_met_by(&free) && !is_short(&free));
    let question = BestRequest {
        held: Vec::new(),
        margin: DEFAULT_MARGIN,
        minimums: Minimums::default(),
        prefers_published: false,
    };
    for card in full.best(&plan, &question) {
        assert!(!is_short(&card.plan), "{}", card.headline());
    }
}

/// A model whose layers are all on a GPU that shares RAM may lack RAM: then that is said, and not that a layer must move.
#[test]
fn what_is_short_is_named() {
    let settings = Settings { ctx: Context::Tokens(131_072), ..Settings::default() };
    let request =
        request("gpt-oss-120b", Machine::described(&["M4 Max 64GB"], "total=64GiB,free=62GiB").unwrap(), settings);
    let plan = request.plan().unwrap();
    assert!(is_short(&plan), "{}", verdict::headline(&plan));
    assert!(why::nothing_to_move(&plan).unwrap().starts_with("RAM is short"));
    for remedy in request.ram_remedies(&plan) {
        assert!(!is_short(&remedy.then.plan().unwrap()), "{}", remedy.says());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn what_helps_ram_helps(
        model in select(vec!["qwen3-30b-a3b", "gpt-oss-20b", "glm-4.5-air", "llama3.3-70b", "gemma3-27b", "qwen3-8b"]),
        card in select(vec!["RTX 3060", "RTX 4060", "RTX 3090", "none"]), gib in 6..80u64, swa in any::<bool>(),
        ctx in 4096..100_000u64,
    ) {
        let machine = Machine::described(&[card], &format!("{gib}GiB")).unwrap();
        let settings = Settings { ctx: Context::Tokens(ctx), swa_full: swa, ..Settings::default() };
        let request = request(model, machine, settings);
        let Ok(plan) = request.plan() else { return Ok(()) };
        // what is kept changes no figure
        let without = keeping(&request, "0").plan().unwrap();
        prop_assert_eq!(figures(&without), figures(&plan));
        prop_assert_eq!(without.outcome(), plan.outcome());
        let was_short = is_short(&plan);
        let may_grow = RamUse::of(&request, &plan).at_most() > RamUse::free(&plan);
        let found = request.ram_remedies(&plan);
        prop_assert!(found.is_empty() || was_short || may_grow);
        for remedy in &found {
            let after = remedy.then.plan().unwrap();
            prop_assert!(!is_short(&after), "{} on {gib} GiB: {}", model, remedy.says());
            if matches!(remedy.change, Change::CacheRam(_) | Change::Checkpoints(_)) {
                prop_assert!(RamUse::of(&remedy.then, &after).at_most() <= RamUse::free(&after), "{}", remedy.says());
                prop_assert!(RamUse::of(&remedy.then, &after).shortage(&after).is_none());
            }
        }
        let said = verdict::sentence(&plan, None, None);
        prop_assert_eq!(said.contains("RAM is full"), plan.outcome() < Outcome::FromDisk && (was_short || plan.ram().left().left() < Bytes::mib(512) && plan.ram().asked > Bytes::mib(512)), "{}", said);
    }
}
