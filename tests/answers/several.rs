//! Which of several models stay loaded together, and what starts and ends them.

use plimsoll::answer::ram::RamUse;
use plimsoll::answer::together::sets::ResidentSets;
use plimsoll::answer::together::{LoadOutcome, LoadRequest, ServedModels, load_behind, load_together};
use plimsoll::command::Router;
use plimsoll::engine::{EngineId, PlanRequest, PreparedModel};
use plimsoll::machine::{Gpu, Machine};
use plimsoll::plan::Outcome;
use plimsoll::settings::{Context, Settings};
use plimsoll::units::Bytes;
use rstest::rstest;

use super::{model, one_gpu};

const NAMES: [&str; 4] = ["qwen3-0.6b", "llama3.1-8b", "gemma3-4b", "llama3.2-1b"];

fn models() -> Vec<(PreparedModel, Settings)> {
    let contexts = [8192, 16_384, 4096, 65_536];
    let settings = |ctx| Settings { ctx: Context::Tokens(ctx), ..Settings::default() };
    NAMES.iter().zip(contexts).map(|(name, ctx)| (model(name), settings(ctx))).collect()
}

fn requests(models: &[(PreparedModel, Settings)]) -> Vec<LoadRequest<'_>> {
    models.iter().map(|(model, settings)| LoadRequest { model, path: None, settings }).collect()
}

fn two_gpus(gib: u64) -> Machine {
    let mut machine = one_gpu(gib);
    let other = Gpu { free: Bytes::gib(gib), ..machine.gpus[0].clone() };
    machine.gpus.push(other);
    machine
}

/// The members of every set of so many models.
fn all_sets(models: usize) -> impl Iterator<Item = Vec<usize>> {
    (1..1_u32 << models).map(move |bits| (0..models).filter(|at| bits >> at & 1 == 1).collect())
}

#[rstest]
fn every_set_is_what_loading_it_comes_to(
    #[values(EngineId::LlamaCpp, EngineId::Ollama, EngineId::Ollama024)] engine: EngineId,
    #[values(one_gpu(8), one_gpu(12), one_gpu(16), two_gpus(8))] machine: Machine,
) {
    let models = models();
    let requests = requests(&models);
    let sets = ResidentSets::of(&Router::None, engine, &machine, &requests).unwrap();
    for members in all_sets(models.len()) {
        let of_set: Vec<_> = members.iter().map(|&member| requests[member]).collect();
        let loaded = load_together(engine, &machine, &of_set).unwrap();
        let found = sets.all().iter().find(|set| set.members == members);
        assert_eq!(found.is_some(), loaded.all_loaded(), "{members:?}");
        let Some(found) = found else { continue };
        let contexts: Vec<_> = loaded.loaded().map(|(_, plan)| plan.settings.ctx).collect();
        assert_eq!((&found.contexts, found.outcome), (&contexts, loaded.outcome()), "{members:?}");
    }
    let largest = sets.largest();
    for (at, set) in largest.iter().enumerate() {
        let is_within = |other: &&plimsoll::answer::together::sets::ResidentSet| {
            set.members.len() < other.members.len()
                && set.members.iter().all(|member| other.members.contains(member))
                && (other.is_in_vram() || !set.is_in_vram())
        };
        assert!(!largest.iter().any(is_within), "{at} {largest:?}");
    }
    // any so many are in VRAM together, and not any one more
    let in_vram = |count: usize| {
        let mut of_count = all_sets(models.len()).filter(|members| members.len() == count);
        of_count.all(|members| sets.all().iter().any(|set| set.members == members && set.is_in_vram()))
    };
    assert!((1..=sets.any()).all(in_vram) && (sets.any() == models.len() || !in_vram(sets.any() + 1)));
}

#[rstest]
fn a_router_keeps_the_last_ones_and_each_process_has_a_context_of_its_driver(
    #[values(1, 2, 3)] most: usize,
    #[values(one_gpu(12), one_gpu(24), two_gpus(12))] machine: Machine,
) {
    let models = models();
    let requests = requests(&models);
    let loaded = load_behind(&Router::LlamaServer(most), EngineId::LlamaCpp, &machine, &requests).unwrap();
    let stay: Vec<_> = loaded.loaded().map(|(at, _)| at).collect();
    assert_eq!(stay, (models.len() - most..models.len()).collect::<Vec<_>>());
    for (at, outcome) in loaded.outcomes[..models.len() - most].iter().enumerate() {
        assert!(matches!(outcome, LoadOutcome::Evicted { by, .. } if *by == at + most));
    }
    // what the last one found: what the others that were there then, and their drivers, have left
    let (_, last) = loaded.loaded().last().unwrap();
    for (at, gpu) in machine.gpus.iter().enumerate() {
        let others = loaded.loaded().filter(|(other, _)| other + 1 < models.len());
        let taken: Bytes = others
            .map(|(_, plan)| {
                let device = &plan.gpus()[at];
                let driver = device.driver.unwrap().most(plan.model.experts.is_some());
                device.needed() + if device.layers.is_empty() { Bytes::ZERO } else { driver }
            })
            .sum();
        assert_eq!(last.gpus()[at].free, gpu.free - taken);
    }
}

#[test]
fn llama_swap_runs_one_at_a_time_unless_told() {
    let models = models();
    let requests = requests(&models);
    let machine = one_gpu(24);
    let router = Router::one_at_a_time(models.len());
    let loaded = load_behind(&router, EngineId::LlamaCpp, &machine, &requests).unwrap();
    assert_eq!(loaded.loaded().map(|(at, _)| at).collect::<Vec<_>>(), [models.len() - 1]);
    let sets = ResidentSets::of(&router, EngineId::LlamaCpp, &machine, &requests).unwrap();
    assert!(sets.all().iter().all(|set| set.members.len() == 1) && sets.all().len() == models.len());
    // alone, each is what it is on the whole machine
    let alone = load_together(EngineId::LlamaCpp, &machine, &requests[3..]).unwrap();
    let (_, plan) = loaded.loaded().next().unwrap();
    assert_eq!(plan.devices, alone.loaded().next().unwrap().1.devices);
}

#[rstest]
fn what_grows_in_use_is_stated_beside_what_remains(
    #[values("8GiB", "32GiB", "64GiB")] ram: &str,
    #[values(Some(Bytes::ZERO), None, Some(Bytes::mib(512)))] cache_ram: Option<Bytes>,
) {
    let machine = Machine::described(&["24GiB"], ram).unwrap();
    let mut models = models();
    for (_, settings) in &mut models {
        settings.cache_ram = cache_ram;
    }
    let served = ServedModels::of(Router::None, EngineId::LlamaCpp, &machine, &requests(&models)).unwrap();
    let loaded = served.loaded.loaded().count() as u64;
    let caches: Bytes = served.grows.iter().map(|grows| grows.prompt_cache).sum();
    assert_eq!(caches.0, loaded * cache_ram.unwrap_or(Bytes::gib(8)).0);
    for (at, plan) in served.loaded.loaded() {
        let (model, settings) = models[at].clone();
        let ram = RamUse::of(&PlanRequest::new(EngineId::LlamaCpp, model, machine.clone(), settings), plan);
        assert_eq!(served.grows[at].checkpoints, ram.checkpoints);
    }
    let checkpoints: Bytes = served.grows.iter().map(|grows| grows.checkpoints).sum();
    let Some(said) = served.growth() else {
        assert_eq!(caches + checkpoints, Bytes::ZERO);
        return;
    };
    assert_eq!(said.contains("short"), caches + checkpoints > served.loaded.left.ram.free, "{said}");
    assert_eq!(said.contains("prompt cache"), caches > Bytes::ZERO, "{said}");
    assert!(said.contains(&served.loaded.left.ram.free.to_string()), "{said}");
    assert!(served.loaded.outcome() <= Outcome::Tight);
}
