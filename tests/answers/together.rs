//! Several models on one machine.

use plimsoll::answer::together::{LoadOutcome, LoadRequest, LoadedModels, load_together};
use plimsoll::engine::EngineId;
use plimsoll::engine::PreparedModel;
use plimsoll::plan::Verdict;
use plimsoll::settings::{Context, GpuLayers, Settings};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use rstest::rstest;

use super::{any_engine, machine, model, one_gpu, settings};
use crate::laws;

fn with(tokens: u64) -> Settings {
    Settings { ctx: Context::Tokens(tokens), ..Settings::default() }
}

/// The tenants that stay.
fn stay(loaded_models: &LoadedModels) -> Vec<usize> {
    loaded_models.loaded().map(|(tenant, _)| tenant).collect()
}

#[test]
fn small_models_live_together_and_a_large_one_makes_the_first_go() {
    let (small, large) = (model("llama3.2-1b"), model("llama3.1-8b"));
    let settings = with(4096);
    let tenant = |model| LoadRequest { model, path: None, settings: &settings };
    let machine = one_gpu(12);

    let two = load_together(EngineId::Ollama024, &machine, &[tenant(&large), tenant(&small)]).unwrap();
    assert!(two.all_loaded());
    let used: Bytes = two.loaded().map(|(_, plan)| plan.totals.gpu).sum();
    assert_eq!(two.left.gpus[0].free, machine.gpus[0].free - used);
    assert!(two.loaded().all(|(_, plan)| plan.verdict == Verdict::Gpu));

    let another = large.clone();
    let tenants = [tenant(&small), tenant(&large), tenant(&another)];
    let three = load_together(EngineId::Ollama024, &machine, &tenants).unwrap();
    assert!(
        matches!(&three.outcomes[0], LoadOutcome::Evicted { by: 2, why } if why.contains("all layers are required on GPU"))
    );
    assert_eq!(stay(&three), [1, 2]);
    assert!(!three.all_loaded());
}

#[rstest]
fn alone_a_model_may_be_split_but_not_beside_another(
    #[values(EngineId::Ollama, EngineId::Ollama024, EngineId::Ollama011)] engine: EngineId,
) {
    let (small, large) = (model("llama3.2-1b"), model("llama3.1-8b"));
    let settings = with(32_768);
    let tenant = |model| LoadRequest { model, path: None, settings: &settings };
    let both = load_together(engine, &one_gpu(8), &[tenant(&small), tenant(&large)]).unwrap();
    assert!(matches!(&both.outcomes[0], LoadOutcome::Evicted { by: 1, .. }));
    assert!(matches!(&both.outcomes[1], LoadOutcome::Loaded(plan) if plan.verdict == Verdict::Split));
}

#[test]
fn servers_of_llama_cpp_know_nothing_of_each_other() {
    let (small, large) = (model("llama3.2-1b"), model("llama3.1-8b"));
    let settings = with(32_768);
    let tenant = |model| LoadRequest { model, path: None, settings: &settings };
    let both = load_together(EngineId::LlamaCpp, &one_gpu(8), &[tenant(&small), tenant(&large)]).unwrap();
    assert_eq!(stay(&both), [0, 1]);
    assert!(matches!(&both.outcomes[1], LoadOutcome::Loaded(plan) if plan.verdict == Verdict::Split));
}

/// What Ollama expects a model to need: its file, and an f16 cache of its context. `PredictServerVRAM`, written down anew.
fn predicted(model: &PreparedModel, tokens: u64) -> u64 {
    let file: u64 = model.header.tensors.iter().map(|tensor| tensor.bytes.0.next_multiple_of(32)).sum();
    let (blocks, kv_heads, head) = (32, 8, 4096 / 32);
    model.header.data_start + file + 2 * blocks * kv_heads * head * tokens * 2
}

#[test]
fn from_0_30_a_further_model_is_to_need_four_fifths_of_what_is_left_at_most() {
    let (small, large) = (model("llama3.2-1b"), model("llama3.1-8b"));
    let settings = with(4096);
    let tenants = [&small, &large].map(|model| LoadRequest { model, path: None, settings: &settings });
    let left_for_the_second = |free: u64| {
        let mut machine = one_gpu(24);
        machine.gpus[0].free = Bytes(free);
        let loaded_models = load_together(EngineId::Ollama, &machine, &tenants).unwrap();
        let first = load_together(EngineId::Ollama, &machine, &tenants[..1]).unwrap();
        // Ollama goes by what its llama-server logged, without what the driver takes for that
        (loaded_models.all_loaded(), first.left.gpus[0].free.0 + first.held_by_drivers()[0].0)
    };
    // the least that is free with which both live together
    let (mut out, mut stays) = (4 << 30, 20 << 30);
    while stays - out > 1 {
        let middle = out + (stays - out) / 2;
        if left_for_the_second(middle).0 { stays = middle } else { out = middle }
    }
    let (enough, too_little) = (left_for_the_second(stays).1, left_for_the_second(out).1);
    let needed = predicted(&large, 4096);
    // Ollama knows whole MiB of what is free before and after the first
    let whole = |free: u64| (free >> 20 << 20) * 80 / 100;
    assert!(needed <= whole(enough + (2 << 20)) && needed > whole(too_little - (2 << 20)), "{needed} of {enough}");
}

#[test]
fn from_0_30_a_part_that_was_asked_for_is_not_foretold() {
    let (small, large) = (model("llama3.2-1b"), model("llama3.1-8b"));
    let part = Settings { gpu_layers: GpuLayers::Count(10), ..with(4096) };
    let whole = with(4096);
    let both = |settings| {
        let tenants = [
            LoadRequest { model: &small, path: None, settings: &whole },
            LoadRequest { model: &large, path: None, settings },
        ];
        load_together(EngineId::Ollama, &one_gpu(7), &tenants).unwrap()
    };
    assert!(matches!(both(&whole).outcomes[0], LoadOutcome::Evicted { by: 1, .. }));
    assert!(both(&part).all_loaded());
}

#[test]
fn from_0_30_a_load_that_runs_out_of_memory_makes_all_others_go() {
    let (small, large) = (model("llama3.2-1b"), model("llama3.1-8b"));
    // a part is asked for, and it is more than there is
    let part = Settings { gpu_layers: GpuLayers::Count(32), ..with(4096) };
    let whole = with(4096);
    let other = small.clone();
    let tenants = [
        LoadRequest { model: &small, path: None, settings: &whole },
        LoadRequest { model: &other, path: None, settings: &whole },
        LoadRequest { model: &large, path: None, settings: &part },
    ];
    let three = load_together(EngineId::Ollama, &one_gpu(7), &tenants).unwrap();
    for outcome in &three.outcomes[..2] {
        assert!(matches!(outcome, LoadOutcome::Evicted { by: 2, why } if why.contains("runs out of memory")));
    }
    assert_eq!(stay(&three), [2]);
}

#[test]
fn one_file_is_loaded_once() {
    let model = model("llama3.2-1b");
    let (one, two) = (with(4096), with(8192));
    let tenant = |settings| LoadRequest { model: &model, path: None, settings };
    let shared = load_together(EngineId::Ollama, &one_gpu(24), &[tenant(&one), tenant(&one)]).unwrap();
    assert!(matches!(shared.outcomes[1], LoadOutcome::Shares(0)) && shared.all_loaded());

    let anew = load_together(EngineId::Ollama, &one_gpu(24), &[tenant(&one), tenant(&one), tenant(&two)]).unwrap();
    let goes =
        |outcome: &LoadOutcome| matches!(outcome, LoadOutcome::Evicted { by: 2, why } if why.contains("other knobs"));
    assert!(goes(&anew.outcomes[0]) && goes(&anew.outcomes[1]), "who was served by it goes too");

    let servers = load_together(EngineId::LlamaCpp, &one_gpu(24), &[tenant(&one), tenant(&one)]).unwrap();
    assert_eq!(stay(&servers), [0, 1]);
}

#[test]
fn three_models_a_gpu_are_the_most() {
    let model = model("llama3.2-1b");
    let copies: Vec<PreparedModel> = vec![model; 4];
    let settings = with(1024);
    let tenants: Vec<_> = copies.iter().map(|model| LoadRequest { model, path: None, settings: &settings }).collect();
    let four = load_together(EngineId::Ollama, &one_gpu(96), &tenants).unwrap();
    assert!(matches!(&four.outcomes[0], LoadOutcome::Evicted { by: 3, why } if why.contains("at most 3")));
    assert_eq!(stay(&four), [1, 2, 3]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nobody_is_given_what_another_holds(
        engine in any_engine(), tenants in proptest::collection::vec((laws::any_model(), settings()), 1..=4), machine in machine(),
    ) {
        let tenants: Vec<_> = tenants.iter().map(|(model, settings)| LoadRequest { model, path: None, settings }).collect();
        let Ok(loaded_models) = load_together(engine, &machine, &tenants) else { return Ok(()) };
        prop_assert_eq!(loaded_models.outcomes.len(), tenants.len());
        for (index, gpu) in machine.gpus.iter().enumerate() {
            let asked: Bytes = loaded_models.loaded().map(|(_, plan)| plan.devices[index].asked()).sum();
            let drivers = loaded_models.held_by_drivers()[index];
            prop_assert_eq!(loaded_models.left.gpus[index].free, gpu.free - (asked + drivers));
        }
        for outcome in &loaded_models.outcomes {
            match outcome {
                LoadOutcome::Evicted { by, .. } => prop_assert!(engine.facts().evicts && *by < tenants.len()),
                LoadOutcome::Shares(host) => prop_assert!(matches!(loaded_models.outcomes[*host], LoadOutcome::Loaded(_))),
                LoadOutcome::Loaded(plan) => prop_assert!(plan.refusal.is_none()),
                LoadOutcome::Refused(why) => prop_assert!(!why.is_empty()),
            }
        }
        let estimator = matches!(engine, EngineId::Ollama024 | EngineId::Ollama011);
        for (tenant, plan) in loaded_models.loaded().skip(1).filter(|_| estimator) {
            // beside others a model is whole on the GPUs, unless fewer layers were asked for
            let whole = plan.offloaded == plan.layers.len() || machine.gpus.is_empty();
            prop_assert!(whole || tenants[tenant].settings.gpu_layers != GpuLayers::Auto);
        }
        if let Some(most) = engine.facts().max_loaded_models(&machine) {
            prop_assert!(loaded_models.loaded().count() <= most);
        }
    }
}

/// A byte that a GPU shares with RAM is free once: what is left of both is never more than there was.
#[rstest]
fn what_is_left_of_a_shared_pool_counts_once(
    #[values("M4 Max 64GB", "Ryzen AI Max+ 395 128GB", "GB10", "RTX 4090")] preset: &str,
    #[values(EngineId::LlamaCpp, EngineId::Ollama, EngineId::Ollama024)] engine: EngineId,
) {
    let preset = plimsoll::machine::presets::find(preset).unwrap();
    let mut machine = one_gpu(24);
    machine.gpus = vec![preset.gpu()];
    machine.ram = preset.ram().unwrap_or(machine.ram);
    let (small, large) = (model("llama3.2-1b"), model("qwen3-30b-a3b"));
    let gpu = with(8192);
    // in RAM, so that RAM has less left than the GPU's budget
    let cpu = Settings { gpu_layers: GpuLayers::Count(0), ..with(65_536) };
    let requests =
        [(&small, &gpu), (&large, &cpu)].map(|(model, settings)| LoadRequest { model, path: None, settings });
    let loaded = load_together(engine, &machine, &requests).unwrap();
    let (left, in_ram) = loaded.left_on(0, &machine);
    let own = machine.own_memory(&machine.gpus[0]).min(machine.gpus[0].free);
    let shares = machine.own_memory(&machine.gpus[0]) < machine.gpus[0].total;
    assert!(in_ram <= loaded.left.ram.free && left - in_ram <= own);
    assert_eq!(in_ram > Bytes::ZERO, shares, "{left} {in_ram}");
    let taken: Bytes = loaded.loaded().map(|(_, plan)| plan.totals.all).sum();
    let all = (left - in_ram) + loaded.left.ram.free;
    // pages that nothing reads may stay in the file
    let unread: Bytes = loaded.loaded().map(|(_, plan)| plan.cpu().ram.read_once).sum();
    assert!(all <= own + machine.ram.free - (taken - unread).min(own + machine.ram.free), "{all} after {taken}");
}
