//! Knobs that only some engines, models and machines have.

use plimsoll::engine::EngineId;
use plimsoll::plan::Verdict;
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, GpuLayers, Outputs, Settings};

use crate::stage::{self, Stage};

fn by(engine: EngineId, model: &str, gpus: usize, size: (u16, u16)) -> Stage {
    let machine = stage::machine(gpus, "RTX 3090", 24, 64);
    Stage::by(engine, stage::model(model), machine, size, Settings::default())
}

/// Moves to `knob` with keys.
fn go(stage: &mut Stage, knob: Knob) {
    for _ in 0..Knob::ALL.len() {
        stage.press("↑");
    }
    while stage.app.knobs.focus != knob {
        let here = stage.app.knobs.focus;
        stage.press("↓");
        assert_ne!(stage.app.knobs.focus, here, "{knob:?} is not there");
    }
}

#[test]
fn only_effective_knobs_are_shown() {
    let knobs = |engine, model, gpus| by(engine, model, gpus, (140, 45)).app.knobs.offered;
    let dense = knobs(EngineId::LlamaCpp, "llama3.1-8b", 1);
    assert!(dense.contains(&Knob::Ubatch) && dense.contains(&Knob::CacheTypeV) && !dense.contains(&Knob::CacheType));
    assert!(!dense.contains(&Knob::CpuMoe) && !dense.contains(&Knob::TensorSplit));
    let experts = knobs(EngineId::LlamaCpp, "gpt-oss-20b", 2);
    assert!(experts.contains(&Knob::CpuMoe) && experts.contains(&Knob::TensorSplit));
    let recurrent = knobs(EngineId::LlamaCpp, "mamba-2.8b", 1);
    assert!(!recurrent.contains(&Knob::CacheTypeK) && !recurrent.contains(&Knob::FlashAttn));
    // Ollama's batch is also llama-server's ubatch
    assert!(!knobs(EngineId::Ollama, "llama3.1-8b", 1).contains(&Knob::Ubatch));
    assert_eq!(knobs(EngineId::Ollama024, "gpt-oss-20b", 2).len(), 7);
}

#[test]
fn hidden_knobs_scroll_into_view() {
    let mut stage = by(EngineId::LlamaCpp, "gpt-oss-20b", 2, (60, 20));
    assert!(stage.text().contains("1-6 of 13") && !stage.text().contains("GPU split"), "{}", stage.text());
    let first = stage.app.knob_row(Knob::Parallel);
    stage.press("↓ ↓ ↓ ↓ ↓");
    assert_eq!(stage.app.knob_row(Knob::Parallel), first, "nothing moves while the knob is in sight");
    stage.press("↓ ↓ ↓ ↓ ↓ ↓ ↓");
    assert_eq!(stage.app.knobs.focus, Knob::TensorSplit);
    assert!(stage.text().contains("8-13 of 13") && stage.text().contains("▸ GPU split"), "{}", stage.text());
    stage.resize(140, 60);
    assert_eq!(stage.app.knobs.first, 0, "where all have room none is hidden");
    assert!(stage.text().contains("GPU split") && stage.text().contains("context"), "{}", stage.text());
}

#[test]
fn every_knob_is_turned_typed_and_reset() {
    let mut stage = by(EngineId::LlamaCpp, "gpt-oss-20b", 2, (140, 60));
    let fresh = stage.app.settings.clone();
    for (knob, typed) in [
        (Knob::CacheTypeK, "q5_1"),
        (Knob::CacheTypeV, "bf16"),
        (Knob::Ubatch, "300"),
        (Knob::Outputs, "17"),
        (Knob::CpuMoe, "11"),
        (Knob::TensorSplit, "35"),
    ] {
        go(&mut stage, knob);
        let before = stage.app.settings.clone();
        stage.press("Home →");
        assert_ne!(stage.app.settings, before, "{knob:?}");
        stage.press("Enter Back Back Back Back Back Back");
        stage.write(typed);
        stage.press("Enter");
        assert_eq!(knob.plain(stage.app.value(knob)), typed);
        assert!(stage.text().contains(&knob.show(stage.app.value(knob))), "{}", stage.text());
        stage.press("r");
        assert_eq!(knob.chosen(&stage.app.settings, &stage.app.bounds), None, "{knob:?}");
    }
    go(&mut stage, Knob::Outputs);
    stage.press("Enter Back Back Back Back Back Back");
    stage.write("ubatch");
    stage.press("Enter");
    assert_eq!(stage.app.settings.outputs, Outputs::Ubatch);
    stage.press("r");
    go(&mut stage, Knob::KvUnified);
    stage.press("→");
    assert!(stage.app.settings.kv_unified);
    stage.press("r");
    assert_eq!(stage.app.settings, fresh);
}

#[test]
fn another_engine_keeps_shared_knobs_and_remembers_the_rest() {
    let mut stage = by(EngineId::LlamaCpp, "gpt-oss-20b", 2, (140, 60));
    for (knob, value) in [(Knob::Ubatch, "256"), (Knob::CpuMoe, "7"), (Knob::CacheTypeK, "q8_0"), (Knob::Batch, "1024")]
    {
        go(&mut stage, knob);
        stage.press("Enter Back Back Back Back Back Back");
        stage.write(value);
        stage.press("Enter");
    }
    let first = stage.app.settings.clone();
    assert_eq!((first.ubatch, first.n_cpu_moe, first.cache_type_v), (Some(256), Some(7), None));
    stage.press("e End ↑ Enter");
    assert_eq!(stage.app.engine, EngineId::Ollama024);
    let there = &stage.app.settings;
    assert_eq!((there.ubatch, there.n_cpu_moe, there.batch), (None, None, Some(1024)), "what it ignores is laid aside");
    assert_eq!((there.cache_type_k, there.cache_type_v), (Some(CacheType::Q8_0), Some(CacheType::Q8_0)));
    assert!(stage.app.refused.is_none() && !stage.text().contains("is ignored"), "{}", stage.text());
    stage.press("e Home ↓ ↓ Enter");
    assert_eq!((stage.app.engine, &stage.app.settings), (EngineId::LlamaCpp, &first));
    stage.press("u");
    assert_eq!((stage.app.engine, stage.app.settings.ubatch), (EngineId::Ollama024, None));
    stage.press("u");
    assert_eq!((stage.app.engine, &stage.app.settings), (EngineId::LlamaCpp, &first));
    assert!(stage.app.knobs.offered.contains(&Knob::Ubatch));
}

#[test]
fn m_finds_the_fewest_layers_of_experts_that_must_stay_in_ram() {
    let machine = stage::machine(1, "RTX 3060", 8, 64);
    let model = stage::model("gpt-oss-20b");
    let mut stage = Stage::by(EngineId::LlamaCpp, model, machine, (140, 60), Settings::default());
    stage.no_limits = false;
    stage.press("→");
    go(&mut stage, Knob::CpuMoe);
    stage.press("m");
    let fewest = stage.app.settings.n_cpu_moe.unwrap();
    assert!(fewest > 0);
    assert_eq!(stage.app.plan.as_ref().unwrap().verdict, Verdict::Gpu);
    stage.press("⇧←");
    assert_eq!(stage.app.settings.n_cpu_moe, Some(fewest - 1));
    assert_ne!(stage.app.plan.as_ref().unwrap().verdict, Verdict::Gpu, "one fewer does not fit");
}

#[test]
fn a_split_is_dragged_from_the_engines_value() {
    let mut stage = by(EngineId::LlamaCpp, "llama3.1-8b", 4, (140, 60));
    go(&mut stage, Knob::TensorSplit);
    let before = stage.app.plan.as_ref().unwrap().shares();
    assert_eq!(before.len(), 4);
    stage.press("End ← ← ← ← ← ← ← ←");
    let split = stage.app.settings.tensor_split.clone();
    assert_eq!((split.len(), split[0]), (4, 60.0));
    let proportion = |shares: &[f64]| shares[1] / shares[3];
    // at 100 % the other GPUs have no shares to scale, so they split the rest evenly
    assert!((proportion(&split) - 1.0).abs() < 0.01, "{split:?}");
    let layers = stage.app.plan.as_ref().unwrap().shares();
    assert!(layers[0] > 3.0 * layers[1], "{layers:?}");
    stage.press("i");
    assert!(stage.text().contains("60,13.33"), "{}", stage.text());
}

#[test]
fn unified_kv_follows_parallel_auto() {
    let mut stage = by(EngineId::LlamaCpp, "llama3.1-8b", 1, (140, 60));
    go(&mut stage, Knob::KvUnified);
    assert_eq!(stage.app.in_effect(Knob::KvUnified), Some(1), "without -np there is one cache");
    stage.press("i");
    assert!(stage.text().contains("when parallel is auto"), "{}", stage.text());
    stage.press("Esc");
    go(&mut stage, Knob::Parallel);
    stage.press("→");
    assert_eq!(stage.app.in_effect(Knob::KvUnified), Some(0));
    assert_eq!(stage.app.settings.gpu_layers, GpuLayers::Auto);
}
