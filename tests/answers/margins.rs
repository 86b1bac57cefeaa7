//! What must stay free: every answer keeps the engine's margin and what drivers take, and no sentence hides a shortage.

use plimsoll::answer::best::{BestRequest, DEFAULT_MARGIN, Minimums};
use plimsoll::answer::{Goal, verdict};
use plimsoll::catalogue;
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::gguf::FileType;
use plimsoll::machine::{Gpu, Machine, Ram, presets};
use plimsoll::plan::{Outcome, Plan};
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, Context, FlashAttn, GpuLayers, Settings};
use plimsoll::speed::Speed;
use plimsoll::speed::prompt::PromptSpeed;
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::fixtures;

fn machine(gpus: Vec<Gpu>) -> Machine {
    let ram = Ram { total: Bytes::gib(64), free: Bytes::gib(60), swap_free: Bytes::ZERO, bandwidth: None };
    Machine { ram, ..fixtures::machine(gpus) }
}

fn card(name: &str, free: u64) -> Gpu {
    let gpu = presets::all().iter().find(|preset| preset.name == name).unwrap().gpu();
    Gpu { free: Bytes::mib(free), ..gpu }
}

fn request(model: &str, quant: FileType, gpus: Vec<Gpu>, settings: Settings) -> PlanRequest {
    let model = catalogue::find(model).unwrap().model(quant).unwrap();
    PlanRequest::new(EngineId::LlamaCpp, std::sync::Arc::new(model.into()), machine(gpus), settings)
}

/// Whether, with the largest share known of its driver, the load succeeds on every card.
fn loads_beside_drivers(plan: &Plan) -> bool {
    plan.refusal.is_none()
        && plan.gpus().iter().filter(|gpu| !gpu.layers.is_empty()).all(|gpu| {
            let driver = gpu.driver.map_or(Bytes::ZERO, |driver| driver.loaded.most);
            gpu.asked() + gpu.growth + driver <= gpu.free
        })
}

/// The same, and the margin is kept.
fn loads(plan: &Plan) -> bool {
    let mut used = plan.gpus().iter().filter(|gpu| !gpu.layers.is_empty());
    loads_beside_drivers(plan) && used.all(|gpu| gpu.asked() + gpu.growth + gpu.reserved() <= gpu.free)
}

fn settings() -> impl Strategy<Value = Settings> {
    let layers = select(vec![GpuLayers::Auto, GpuLayers::All, GpuLayers::Count(12)]);
    let cache = proptest::option::of(select(vec![CacheType::Q8_0, CacheType::Q4_0]));
    let prompt = proptest::option::of(500..20_000u64);
    (layers, cache, (1024..=1u64 << 17), prompt).prop_map(|(gpu_layers, cache, ctx, prompt_tokens)| Settings {
        prompt_tokens,
        gpu_layers,
        cache_type_k: cache,
        cache_type_v: cache,
        flash_attn: if cache.is_some() { FlashAttn::On } else { FlashAttn::Auto },
        ctx: Context::Tokens(ctx),
        ..Settings::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn what_is_advised_loads_with_the_largest_share_known(
        model in any::<Index>(), cards in proptest::collection::vec(any::<Index>(), 1..=2), settings in settings(),
        knob in select(vec![Knob::Context, Knob::Parallel, Knob::Ubatch, Knob::CpuMoe]),
        goal in select(vec![Goal::Vram, Goal::AllLayers, Goal::AtLeast(8)]),
    ) {
        let entry = model.get(catalogue::all());
        let is_card = |preset: &&presets::Preset| !preset.integrated;
        let presets: Vec<_> = presets::all().iter().filter(is_card).collect();
        let gpus = cards.iter().map(|card| card.get(&presets).gpu()).collect();
        let model = std::sync::Arc::new(entry.model(entry.quantisation).unwrap().into());
        let request = PlanRequest::new(EngineId::LlamaCpp, model, machine(gpus), settings);
        let Ok(plan) = request.plan() else { return Ok(()) };
        if let Some(most) = request.largest(knob, goal) {
            prop_assert!(loads(&most.plan), "{} at {knob:?} {}", entry.name, most.value);
        }
        for remedy in request.remedies(plan.clone(), None).flatten() {
            let then = remedy.then.plan().unwrap();
            prop_assert!(loads(&then), "{}: {}", entry.name, remedy.change);
            // nobody would take less than this, or what is slower
            match (remedy.change.knob(), then.settings.ctx, then.settings.batch) {
                ("ctx", ctx, _) => {
                    let prompt = request.settings.prompt_tokens.unwrap_or(0);
                    prop_assert!(ctx >= 1024 && ctx < plan.settings.ctx, "{}: {}", entry.name, remedy.change);
                    prop_assert!(then.settings.ctx_per_sequence >= prompt, "{}: {} for {prompt}", entry.name, remedy.change);
                }
                ("batch", _, batch) => prop_assert!(batch >= 256, "{}: {}", entry.name, remedy.change),
                _ => {}
            }
            let now = Speed::of(&request.model, &request.machine, &plan, 0).map(|speed| speed.tokens_per_second);
            let is_slower = remedy.speed.zip(now).is_some_and(|(then, now)| then.tokens_per_second < 0.97 * now);
            prop_assert!(!is_slower, "{}: {} is slower", entry.name, remedy.change);
            // what it costs is said, and nothing else
            let cost = remedy.cost.unwrap_or_default();
            let (before, after) = (&plan.settings, &then.settings);
            prop_assert_eq!(cost.contains("of context are given up"), after.ctx < before.ctx && remedy.change.knob() == "ctx");
            prop_assert_eq!(cost.contains("weights are less precise"), then.model.bytes < plan.model.bytes);
            let prompt = |request: &PlanRequest, plan: &Plan| {
                let tokens = 4096.min(before.ctx_per_sequence).min(after.ctx_per_sequence);
                let speed = PromptSpeed::of(&request.model, &request.machine, plan, 0, tokens).ok();
                speed.map(|speed| speed.tokens_per_second)
            };
            let slower = prompt(&request, &plan).zip(prompt(&remedy.then, &then)).map(|(now, then)| now / then);
            prop_assert_eq!(cost.contains("prompts take"), slower.is_some_and(|times| times >= 1.1), "{}", cost);
        }
        for card in request.best(&plan, &BestRequest { held: Vec::new(), margin: DEFAULT_MARGIN, minimums: Minimums::default(), prefers_published: false }) {
            // one may have less left than the fit keeps, as it says
            prop_assert!(loads_beside_drivers(&card.plan), "{}: {}", entry.name, card.headline());
        }
        // no sentence says that nothing is left where something is missing
        let said = verdict::sentence(&plan, None, None);
        prop_assert!(!said.contains("only 0 MiB"), "{}: {said}", entry.name);
        if plan.outcome() < Outcome::FromDisk && !loads(&plan) {
            let lack = verdict::lack_of_room(&plan).unwrap();
            prop_assert!(lack.contains(" lacks ") || lack.contains(" left") || lack.contains("more than is free"), "{lack}");
            prop_assert!(said.contains(&lack), "{said}");
        }
    }
}

/// Both cards have 346 MiB left of the 1 GiB that the fit keeps free where the total suffices.
#[test]
fn a_shortage_is_said_with_what_is_left_for_the_driver() {
    let settings = Settings {
        ctx: Context::Tokens(262_144),
        cache_type_k: Some(CacheType::Q8_0),
        cache_type_v: Some(CacheType::Q8_0),
        flash_attn: FlashAttn::On,
        parallel: Some(3),
        kv_unified: true,
        gpu_layers: GpuLayers::All,
        ..Settings::default()
    };
    let request = request("gemma4-26b-a4b", FileType::Q5KM, vec![card("RTX 3090", 23_347)], settings);
    let plan = request.plan().unwrap();
    let left = plan.headrooms()[0];
    assert!(left.above_kept().is_short() && !left.is_tight(), "{left:?}");
    let limits = request.limits(&plan);
    let said = verdict::sentence(&plan, Some(&limits), None);
    insta::assert_snapshot!(format!("{}: {said}", verdict::headline(&plan)));
    let most = limits.vram.context.unwrap();
    assert!(most < plan.settings.ctx && said.contains("keeps free what must stay free"));
}

/// Such a card took 1049 MiB besides buffers, so that less than that is not all in VRAM.
#[test]
fn a_card_that_was_seen_to_take_more_is_tight() {
    let settings = Settings {
        ctx: Context::Tokens(262_144),
        cache_type_k: Some(CacheType::Q8_0),
        cache_type_v: Some(CacheType::Q8_0),
        flash_attn: FlashAttn::On,
        gpu_layers: GpuLayers::All,
        ..Settings::default()
    };
    let request = request("qwen3.5-9b", FileType::Q8_0, vec![card("RTX 5060 Ti 16GB", 14_800)], settings);
    let plan = request.plan().unwrap();
    assert_eq!(plan.outcome(), Outcome::Tight);
    insta::assert_snapshot!(format!("{}: {}", verdict::headline(&plan), verdict::sentence(&plan, None, None)));
    let most = request.largest(Knob::Context, Goal::Vram).unwrap();
    assert!(most.value < 262_144 && most.plan.headrooms()[0].left.left() >= Bytes::mib(1049));
}

#[test]
fn a_context_beyond_training_is_said_and_can_grow() {
    let settings = Settings { ctx: Context::Tokens(60_000), ..Settings::default() };
    let request = request("qwen3-0.6b", FileType::Q8_0, vec![card("RTX 4090", 23_000)], settings);
    let plan = request.plan().unwrap();
    let limits = request.limits(&plan);
    assert_eq!(limits.vram.context, Some(65_536));
    let said = verdict::sentence(&plan, Some(&limits), None);
    assert!(said.contains("A context of up to 65\u{2009}536 stays in VRAM."), "{said}");
    assert!(said.ends_with("beyond them quality drops, and positions need scaling, such as YaRN's of RoPE."), "{said}");
    let stops = Knob::Context.stops(&request.bounds());
    assert_eq!((stops.step(60_000, 1), stops.step(60_000, -1)), (65_536, 49_152));
    let within = request.changed(|settings| settings.ctx = Context::Tokens(40_960));
    assert_eq!(Knob::Context.stops(&within.bounds()).last(), 40_960);
    assert!(!verdict::sentence(&within.plan().unwrap(), None, None).contains("trained"));
}

/// One layer is in RAM as a whole, and experts of most others.
#[test]
fn layers_and_experts_in_ram_are_both_said() {
    let request = request(
        "glm-4.5-air",
        FileType::Q4KM,
        vec![card("RTX 3090", 23_347), card("RTX 3090", 23_347)],
        Settings::default(),
    );
    let plan = request.plan().unwrap();
    let (cpu, said) = (plan.cpu(), verdict::sentence(&plan, None, None));
    assert_eq!((plan.outcome(), plan.mainly()), (Outcome::LayersInRam, Outcome::ExpertsInRam));
    assert!(cpu.ram.run_in_part > Bytes::gib(20) && cpu.ram.run > cpu.ram.run_in_part && cpu.ram.run < cpu.weights);
    let expected = format!("1 of 47 layers is in RAM, with {} of other layers' weights", cpu.ram.run_in_part);
    assert!(said.contains(&expected), "{said}");
}
