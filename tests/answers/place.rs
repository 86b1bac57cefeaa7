//! Placements that are faster than the fit's.

use std::sync::Arc;

use plimsoll::answer::place::Placed;
use plimsoll::catalogue;
use plimsoll::engine::{EngineId, PlanRequest, PreparedModel};
use plimsoll::export::{ModelLocation, llama_server};
use plimsoll::machine::{Machine, Ram, presets};
use plimsoll::plan::{Outcome, Plan};
use plimsoll::settings::{Context, DeviceName, GpuLayers, Settings, SplitMode};
use plimsoll::speed::{Speed, Speeds};
use plimsoll::units::Bytes;
use rayon::prelude::*;
use rstest::rstest;

use crate::{fixtures, pinned};

const CARDS: [&str; 18] = [
    "RTX 3060",
    "RTX 3070",
    "RTX 3080",
    "RTX 3090",
    "RTX 3090 Ti",
    "RTX 4060",
    "RTX 4060 Ti 16GB",
    "RTX 4070",
    "RTX 4070 Ti",
    "RTX 4080",
    "RTX 4090",
    "RTX 5060 Ti 16GB",
    "RTX 5070",
    "RTX 5080",
    "RTX 5090",
    "RTX 2080 Ti",
    "GTX 1080 Ti",
    "RTX A6000",
];

const MODELS: [&str; 20] = [
    "llama3.1-8b",
    "llama3.3-70b",
    "mistral-nemo-12b",
    "mistral-small-24b",
    "mixtral-8x7b",
    "qwen2.5-14b",
    "qwen2.5-32b",
    "qwen3-14b",
    "qwen3-30b-a3b",
    "qwen3-235b-a22b",
    "qwen3-next-80b-a3b",
    "qwen3.5-27b",
    "gemma2-27b",
    "gemma3-12b",
    "gpt-oss-20b",
    "gpt-oss-120b",
    "phi-4-14b",
    "glm-4.5-air",
    "deepseek-v2-lite",
    "llama4-scout",
];

fn machine(cards: &[&str], gibibytes: u64) -> Machine {
    let gpus = cards.iter().map(|name| presets::find(name).unwrap().gpu()).collect();
    let ram =
        Ram { total: Bytes::gib(gibibytes), free: Bytes::gib(gibibytes - 8), ..fixtures::machine(Vec::new()).ram };
    Machine { ram, ..fixtures::machine(gpus) }
}

fn request(name: &str, machine: Machine, settings: Settings) -> PlanRequest {
    PlanRequest::new(EngineId::LlamaCpp, catalogue::model(name).unwrap(), machine, settings)
}

fn with_context(tokens: u64) -> Settings {
    Settings { ctx: Context::Tokens(tokens), ..Settings::default() }
}

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// The placement, checked: it is faster at every depth, keeps what the fit keeps, and its command plans the same.
fn placed(request: &PlanRequest, plan: &Plan) -> Option<Placed> {
    let placed = request.placed(plan)?;
    let now = Speeds::of(&request.model, &request.machine, plan, 0);
    let what =
        format!("{} on {:?}", plan.model.name, request.machine.gpus.iter().map(|gpu| &gpu.name).collect::<Vec<_>>());
    assert!(placed.plan.outcome() < Outcome::FromDisk || placed.plan.outcome() == plan.outcome(), "{what}");
    if let Some(now) = &now {
        let faster = |then: &Speed, now: &Speed| then.tokens_per_second >= now.tokens_per_second;
        assert!(faster(&placed.after.start, &now.start) && faster(&placed.after.full, &now.full), "{what}");
    }
    assert_eq!(placed.plan.settings.ctx_total, plan.settings.ctx_total, "{what}");
    for ((then, before), left) in placed.plan.gpus().iter().zip(plan.gpus()).zip(placed.plan.headrooms()) {
        assert!(then.layers.is_empty() || left.left.left() >= before.reserved(), "{what}: {}", then.id);
    }
    let start = if now.is_some() { "It is faster because " } else { "As it is, the model does not fit" };
    assert!(placed.reason.starts_with(start) && placed.reason.ends_with('.'), "{what}: {}", placed.reason);
    agree_with_its_milliseconds(&placed, &what);
    let (command, _) =
        llama_server::with_remarks(&placed.request, &placed.plan, &ModelLocation::File("model.gguf".to_owned()))
            .unwrap();
    assert!(!command.contains('\n') && command.contains(" --fit off"), "{command}");
    let again = request.with(pinned::options(&command)).plan().unwrap();
    pinned::assert_same(&placed.plan, &again, &command);
    Some(placed)
}

/// The factor in the headline is that of the milliseconds beside it, and no sentence denies what is in RAM.
fn agree_with_its_milliseconds(placed: &Placed, what: &str) {
    let (headline, reason) = (placed.headline(), &placed.reason);
    if let Some((_, takes)) = reason.split_once("a token takes ") {
        let number = |word: &str| word.trim_end_matches(['.', ',']).parse::<f64>().ok();
        let (now, before) = takes.split_once(", not ").unwrap();
        let (now, before) = (number(now.split(' ').next().unwrap()).unwrap(), number(before).unwrap());
        let times = number(headline.split(' ').next().unwrap()).unwrap();
        assert!(times > 1.0 && (before / now / times - 1.0).abs() < 0.03, "{what}: {headline} {reason}");
    }
    let in_ram = placed.plan.parts_in_ram() > Bytes::ZERO || placed.plan.cpu().cache > Bytes::ZERO;
    assert!(!in_ram || !reason.contains("no layer is in RAM"), "{what}: {reason}");
    assert!(placed.plan.notes.iter().all(|note| !note.contains("as you asked")), "{what}: {:?}", placed.plan.notes);
}

#[test]
fn uneven_cards_are_placed_faster_than_by_the_fit() {
    let models: Vec<Arc<PreparedModel>> =
        MODELS.iter().map(|name| Arc::new(PreparedModel::from(catalogue::model(name).unwrap()))).collect();
    let mut numbers = Numbers(2026);
    let mut requests = Vec::new();
    for _ in 0..30 {
        let count = 2 + numbers.below(3);
        let mut cards: Vec<&str> = (0..count).map(|_| CARDS[numbers.below(CARDS.len())]).collect();
        if cards.iter().all(|card| *card == cards[0]) {
            cards[0] = CARDS[(CARDS.iter().position(|card| *card == cards[0]).unwrap() + 5) % CARDS.len()];
        }
        let machine = Arc::new(machine(&cards, [64, 128, 256][numbers.below(3)]));
        for model in &models {
            let ctx = [Context::Auto, Context::Tokens(8192), Context::Tokens(32_768)][numbers.below(3)];
            let (model, machine) = (Arc::clone(model), Arc::clone(&machine));
            requests.push(PlanRequest::new(
                EngineId::LlamaCpp,
                model,
                machine,
                Settings { ctx, ..Settings::default() },
            ));
        }
    }
    let gains: Vec<f64> = requests
        .par_iter()
        .filter_map(|request| {
            let plan = request.plan().ok()?;
            let placed = placed(request, &plan);
            let may_gain = request.may_gain(&plan)?;
            let times = placed.and_then(|placed| placed.times()).map_or(1.0, |times| times.0);
            (may_gain > 1.02).then_some(times)
        })
        .collect();
    let large = gains.iter().filter(|times| **times >= 1.2).count();
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    println!("{large} of {} are at least 1.2 times as fast, the least {least:.2}", gains.len());
    assert!(gains.len() > 400 && large * 10 >= gains.len() * 4 && least >= 1.0, "{large} of {}", gains.len());
}

/// Measured by users: 24.3 tokens per second as fitted and 37.4 placed for the second.
#[rstest]
#[case("qwen3-8b", &["RTX 4090", "RTX 3060"], 0, 1.4..1.8)]
#[case("qwen3.5-27b", &["RTX 3090 Ti", "RTX 3060", "RTX 4070"], 0, 1.4..1.7)]
#[case("gemma3-27b", &["RTX 3060", "RTX 3090 Ti", "RTX 4070"], 1, 1.4..1.7)]
fn a_fast_card_alone_beats_it_with_slow_ones(
    #[case] model: &str,
    #[case] cards: &[&str],
    #[case] fastest: usize,
    #[case] times: std::ops::Range<f64>,
) {
    let request = request(model, machine(cards, 64), with_context(8192));
    let plan = request.plan().unwrap();
    let placed = placed(&request, &plan).unwrap();
    assert!(times.contains(&placed.times().unwrap().0), "{:?}", placed.times());
    let with_layers: Vec<usize> = (0..cards.len()).filter(|gpu| !placed.plan.devices[*gpu].layers.is_empty()).collect();
    assert_eq!(with_layers, [fastest]);
    assert_eq!(placed.options()["device"], format!("CUDA{fastest}"));
    assert!(placed.reason.contains("left out") && placed.reason.contains("GB a token"), "{}", placed.reason);
}

#[test]
fn fewer_experts_are_in_ram() {
    let cards = ["RTX 4090", "RTX 3090", "RTX 3060", "RTX 4070"];
    let request = request("qwen3-235b-a22b", machine(&cards, 192), with_context(32_768));
    let plan = request.plan().unwrap();
    let placed = placed(&request, &plan).unwrap();
    assert!(
        placed.reason.contains("experts of ") && placed.reason.contains(" are in RAM, not of "),
        "{}",
        placed.reason
    );
    let steps: Vec<Placed> = request.placements(&plan).flatten().collect();
    let seconds =
        |placed: &Placed| placed.after.start.tokens_per_second.recip() + placed.after.full.tokens_per_second.recip();
    assert!(steps.windows(2).all(|two| seconds(&two[1]) < seconds(&two[0])));
}

#[test]
fn what_is_set_stays() {
    let machine = machine(&["RTX 3060", "RTX 4090", "RTX 3090"], 128);
    let devices = || Some(["GPU0", "GPU1"].map(|name| name.parse::<DeviceName>().unwrap()).to_vec());
    let cases = [
        Settings { devices: devices(), ..with_context(8192) },
        Settings { gpu_layers: GpuLayers::Count(20), ..with_context(8192) },
        Settings { gpu_layers: GpuLayers::All, ..with_context(8192) },
        Settings { n_cpu_moe: Some(9), ..with_context(8192) },
        Settings { no_kv_offload: true, ..with_context(8192) },
    ];
    for model in ["qwen3-14b", "qwen3-30b-a3b", "glm-4.5-air"] {
        for settings in &cases {
            let request = request(model, machine.clone(), settings.clone());
            let Ok(plan) = request.plan() else { continue };
            let Some(placed) = placed(&request, &plan) else { continue };
            let then = &placed.request.settings;
            let is_kept = |is_set: bool, is_same: bool| assert!(!is_set || is_same, "{model} {settings:?}");
            is_kept(settings.devices.is_some(), then.devices == settings.devices);
            is_kept(settings.gpu_layers != GpuLayers::Auto, then.gpu_layers == settings.gpu_layers);
            is_kept(
                settings.n_cpu_moe.is_some(),
                then.n_cpu_moe == settings.n_cpu_moe && then.override_tensor.is_empty(),
            );
            is_kept(settings.no_kv_offload, then.no_kv_offload);
        }
    }
    for settings in [
        Settings { tensor_split: vec![1.0, 1.0, 1.0], ..with_context(8192) },
        Settings { split_mode: SplitMode::None, ..with_context(8192) },
    ] {
        let request = request("qwen3-14b", machine.clone(), settings);
        assert!(request.placed(&request.plan().unwrap()).is_none());
    }
}

#[test]
fn nothing_is_faster_on_one_card_or_without_speeds() {
    for (machine, engine) in [
        (machine(&["RTX 4090"], 64), EngineId::LlamaCpp),
        (machine(&[], 64), EngineId::LlamaCpp),
        (fixtures::cards(&[24, 12]), EngineId::LlamaCpp),
        (machine(&["RTX 4090", "RTX 3060"], 64), EngineId::Ollama),
    ] {
        let request = PlanRequest { engine, ..request("qwen3-8b", machine, with_context(8192)) };
        assert!(request.placed(&request.plan().unwrap()).is_none());
    }
}
