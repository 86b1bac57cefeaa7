//! Knobs that only some engines, models and machines have.

use plimsoll::answer::Goal;
use plimsoll::engine::EngineId;
use plimsoll::gguf::FileType;
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, Context, GpuLayers, Outputs, Settings};

use crate::harness::{self, Harness};

fn by(engine: EngineId, model: &str, gpus: usize, size: (u16, u16)) -> Harness {
    let machine = harness::machine(gpus, "RTX 3090", 24, 64);
    Harness::by(engine, harness::model(model), machine, size, Settings::default())
}

/// Moves to `knob` with keys.
fn go(harness: &mut Harness, knob: Knob) {
    for _ in 0..Knob::ALL.len() {
        harness.press("↑");
    }
    while harness.host.app.panels.knobs.focus != knob {
        let here = harness.host.app.panels.knobs.focus;
        harness.press("↓");
        assert_ne!(harness.host.app.panels.knobs.focus, here, "{knob:?} is not there");
    }
}

#[test]
fn only_effective_knobs_are_shown() {
    let knobs = |engine, model, gpus| by(engine, model, gpus, (140, 45)).host.app.panels.knobs.offered;
    let dense = knobs(EngineId::LlamaCpp, "llama3.1-8b", 1);
    assert!(dense.contains(&Knob::Ubatch) && dense.contains(&Knob::CacheType) && !dense.contains(&Knob::CacheTypeV));
    assert!(!dense.contains(&Knob::CpuMoe) && !dense.contains(&Knob::TensorSplit));
    let experts = knobs(EngineId::LlamaCpp, "gpt-oss-20b", 2);
    assert!(experts.contains(&Knob::CpuMoe) && experts.contains(&Knob::TensorSplit));
    let recurrent = knobs(EngineId::LlamaCpp, "mamba-2.8b", 1);
    assert!(!recurrent.contains(&Knob::CacheType) && !recurrent.contains(&Knob::FlashAttn));
    // Ollama's batch is also llama-server's ubatch
    assert!(!knobs(EngineId::Ollama, "llama3.1-8b", 1).contains(&Knob::Ubatch));
    assert_eq!(knobs(EngineId::Ollama024, "gpt-oss-20b", 2).len(), 10);
}

/// A knob without a largest value is no dead end: the context takes the key.
#[test]
fn the_largest_context_is_found_from_any_knob() {
    let mut harness = by(EngineId::LlamaCpp, "llama3.1-8b", 1, (140, 45));
    go(&mut harness, Knob::CacheType);
    harness.press("→");
    harness.answer_limits();
    harness.press("m");
    harness.answer_limits();
    let most = harness.host.app.request.limit(Knob::Context).unwrap();
    assert_eq!(harness.host.app.panels.knobs.focus, Knob::CacheType);
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(most), "{}", harness.text());
    assert_eq!(harness.host.app.request.settings.cache_type_k, Some(CacheType::Q8_0));
}

#[test]
fn hidden_knobs_scroll_into_view() {
    let mut harness = by(EngineId::LlamaCpp, "gpt-oss-20b", 2, (60, 20));
    assert!(harness.text().contains("1-6 of 17") && !harness.text().contains("GPU split"), "{}", harness.text());
    let first = harness.host.app.panels.knob_row(Knob::Parallel);
    harness.press("↓ ↓ ↓ ↓ ↓");
    assert_eq!(harness.host.app.panels.knob_row(Knob::Parallel), first, "nothing moves while the knob is in sight");
    harness.press("↓ ↓ ↓ ↓ ↓ ↓");
    assert_eq!(harness.host.app.panels.knobs.focus, Knob::TensorSplit);
    assert!(harness.text().contains("7-12 of 17") && harness.text().contains("▸ GPU split"), "{}", harness.text());
    harness.resize(140, 60);
    assert_eq!(harness.host.app.panels.knobs.first, 0, "where all have room none is hidden");
    assert!(harness.text().contains("GPU split") && harness.text().contains("context"), "{}", harness.text());
}

#[test]
fn every_knob_is_turned_typed_and_reset() {
    let mut harness = by(EngineId::LlamaCpp, "gpt-oss-20b", 2, (140, 60));
    harness.press("K");
    let fresh = harness.host.app.request.settings.clone();
    for (knob, typed) in [
        (Knob::CacheTypeK, "q5_1"),
        (Knob::CacheTypeV, "bf16"),
        (Knob::Ubatch, "300"),
        (Knob::Outputs, "17"),
        (Knob::CpuMoe, "11"),
        (Knob::TensorSplit, "35"),
    ] {
        go(&mut harness, knob);
        let before = harness.host.app.request.settings.clone();
        harness.press("Home →");
        assert_ne!(harness.host.app.request.settings, before, "{knob:?}");
        harness.press("Enter Back Back Back Back Back Back");
        harness.write(typed);
        harness.press("Enter");
        assert_eq!(knob.plain(harness.host.app.request.value(knob)), typed);
        assert!(harness.text().contains(&knob.show(harness.host.app.request.value(knob))), "{}", harness.text());
        harness.press("r");
        assert_eq!(knob.chosen(&harness.host.app.request.settings, &harness.host.app.request.bounds), None, "{knob:?}");
    }
    go(&mut harness, Knob::Outputs);
    harness.press("Enter Back Back Back Back Back Back");
    harness.write("ubatch");
    harness.press("Enter");
    assert_eq!(harness.host.app.request.settings.outputs, Outputs::Ubatch);
    harness.press("r");
    go(&mut harness, Knob::KvUnified);
    harness.press("→");
    assert!(harness.host.app.request.settings.kv_unified);
    harness.press("r");
    assert_eq!(harness.host.app.request.settings, fresh);
}

#[test]
fn another_engine_keeps_shared_knobs_and_remembers_the_rest() {
    let mut harness = by(EngineId::LlamaCpp, "gpt-oss-20b", 2, (140, 60));
    harness.press("K");
    for (knob, value) in [(Knob::Ubatch, "256"), (Knob::CpuMoe, "7"), (Knob::CacheTypeK, "q8_0"), (Knob::Batch, "1024")]
    {
        go(&mut harness, knob);
        harness.press("Enter Back Back Back Back Back Back");
        harness.write(value);
        harness.press("Enter");
    }
    let first = harness.host.app.request.settings.clone();
    assert_eq!((first.ubatch, first.n_cpu_moe, first.cache_type_v), (Some(256), Some(7), None));
    harness.press("e End ↑ ↑ Enter");
    assert_eq!(harness.host.app.request.engine, EngineId::Ollama024);
    let there = &harness.host.app.request.settings;
    assert_eq!((there.ubatch, there.n_cpu_moe, there.batch), (None, None, Some(1024)), "what it ignores is laid aside");
    assert_eq!((there.cache_type_k, there.cache_type_v), (Some(CacheType::Q8_0), Some(CacheType::Q8_0)));
    assert!(harness.host.app.request.refused.is_none() && !harness.text().contains("is ignored"), "{}", harness.text());
    harness.press("e Home ↓ ↓ ↓ ↓ ↓ Enter");
    assert_eq!((harness.host.app.request.engine, &harness.host.app.request.settings), (EngineId::LlamaCpp, &first));
    harness.press("u");
    assert_eq!(
        (harness.host.app.request.engine, harness.host.app.request.settings.ubatch),
        (EngineId::Ollama024, None)
    );
    harness.press("u");
    assert_eq!((harness.host.app.request.engine, &harness.host.app.request.settings), (EngineId::LlamaCpp, &first));
    assert!(harness.host.app.panels.knobs.offered.contains(&Knob::Ubatch));
}

#[test]
fn m_finds_the_fewest_layers_of_experts_that_must_stay_in_ram() {
    let machine = harness::machine(1, "RTX 3060", 8, 64);
    let model = harness::model("gpt-oss-20b");
    let mut harness = Harness::by(EngineId::LlamaCpp, model, machine, (140, 60), Settings::default());
    harness.no_limits = false;
    harness.press("→");
    go(&mut harness, Knob::CpuMoe);
    harness.press("m");
    let fewest = harness.host.app.request.settings.n_cpu_moe.unwrap();
    assert!(fewest > 0);
    assert!(Goal::AllLayers.is_met_by(harness.host.app.request.plan.as_ref().unwrap()));
    harness.press("⇧←");
    assert_eq!(harness.host.app.request.settings.n_cpu_moe, Some(fewest - 1));
    assert!(
        !Goal::AllLayers.is_met_by(harness.host.app.request.plan.as_ref().unwrap()),
        "one fewer leaves too little free"
    );
}

#[test]
fn a_split_is_dragged_from_the_engines_value() {
    let mut harness = by(EngineId::LlamaCpp, "llama3.1-8b", 4, (140, 60));
    go(&mut harness, Knob::TensorSplit);
    let before = harness.host.app.request.plan.as_ref().unwrap().shares();
    assert_eq!(before.len(), 4);
    harness.press("End ← ← ← ← ← ← ← ←");
    let split = harness.host.app.request.settings.tensor_split.clone();
    assert_eq!((split.len(), split[0]), (4, 60.0));
    let proportion = |shares: &[f64]| shares[1] / shares[3];
    // at 100 % the other GPUs have no shares to scale, so they split the rest evenly
    assert!((proportion(&split) - 1.0).abs() < 0.01, "{split:?}");
    let layers = harness.host.app.request.plan.as_ref().unwrap().shares();
    assert!(layers[0] > 3.0 * layers[1], "{layers:?}");
    harness.press("i");
    assert!(harness.text().contains("60,13.33"), "{}", harness.text());
}

#[test]
fn unified_kv_follows_parallel_auto() {
    let mut harness = by(EngineId::LlamaCpp, "llama3.1-8b", 1, (140, 60));
    go(&mut harness, Knob::KvUnified);
    assert_eq!(harness.host.app.request.in_effect(Knob::KvUnified), Some(1), "without -np there is one cache");
    harness.press("i");
    assert!(harness.text().contains("when parallel is auto"), "{}", harness.text());
    harness.press("Esc");
    go(&mut harness, Knob::Parallel);
    harness.press("→");
    assert_eq!(harness.host.app.request.in_effect(Knob::KvUnified), Some(0));
    assert_eq!(harness.host.app.request.settings.gpu_layers, GpuLayers::Auto);
}

#[test]
fn one_key_gives_k_and_v_a_type_each() {
    let mut harness = by(EngineId::LlamaCpp, "llama3.1-8b", 1, (140, 45));
    harness.press("K");
    assert!(
        harness.host.app.panels.knobs.offered.contains(&Knob::CacheTypeV)
            && !harness.host.app.panels.knobs.offered.contains(&Knob::CacheType)
    );
    go(&mut harness, Knob::CacheTypeK);
    harness.press("Enter Back Back Back Back");
    harness.write("q8_0");
    harness.press("Enter K");
    assert!(harness.host.app.panels.knobs.offered.contains(&Knob::CacheType));
    let settings = &harness.host.app.request.settings;
    assert_eq!((settings.cache_type_k, settings.cache_type_v), (Some(CacheType::Q8_0), Some(CacheType::Q8_0)));
    let mut harness = by(EngineId::Ollama024, "llama3.1-8b", 1, (140, 45));
    harness.press("K");
    assert!(harness.text().contains("one type for K and V"), "{}", harness.text());
}

#[test]
fn a_value_that_is_typed_belongs_to_the_knob_until_enter() {
    let mut harness = by(EngineId::Ollama, "llama3.1-8b", 1, (140, 45));
    go(&mut harness, Knob::CacheType);
    let cache = |harness: &Harness| harness.host.app.request.settings.cache_type_k;
    for (typed, expected) in
        [("q8", CacheType::Q8_0), ("Q4_0", CacheType::Q4_0), ("q", CacheType::Q8_0), ("f", CacheType::F16)]
    {
        let before = cache(&harness);
        harness.press("Enter");
        harness.write(typed);
        assert_eq!(cache(&harness), before, "{typed} alone chooses nothing");
        let says = format!("Enter chooses {} for", expected.name());
        assert!(harness.text().contains(&says), "{}", harness.text());
        harness.press("Enter");
        assert_eq!(cache(&harness), Some(expected), "{typed}");
    }
    // what begins nothing is said, chooses nothing, and stays until Esc
    harness.write("q5");
    assert!(harness.text().contains("begins with 'q5'"), "{}", harness.text());
    harness.press("Enter Esc");
    assert_eq!(cache(&harness), Some(CacheType::F16));
    // no choice begins with it
    harness.press("w");
    assert!(harness.text().contains("Memory by"), "{}", harness.text());
}

#[test]
fn letters_of_a_quantisation_neither_quit_nor_open_anything() {
    let mut harness = by(EngineId::LlamaCpp, "llama3.1-8b", 1, (140, 45));
    go(&mut harness, Knob::Quant);
    assert!(!harness.text().contains("q quit"), "{}", harness.text());
    harness.write("q5_k_m");
    assert!(harness.host.app.leave.is_none());
    assert_eq!(harness.host.screens.len(), 1);
    harness.press("Enter");
    assert_eq!(harness.host.app.request.settings.quant, Some(FileType::Q5KM.into()));
    // the knobs' own keys stay theirs
    harness.press("m");
    assert!(harness.host.screens.is_empty());
    go(&mut harness, Knob::Context);
    assert!(harness.text().contains("q quit"), "{}", harness.text());
}

#[test]
fn a_context_beyond_training_grows_with_the_arrow() {
    let machine = harness::machine(1, "RTX 4090", 24, 64);
    let settings = Settings { ctx: Context::Tokens(60_000), ..Settings::default() };
    let mut harness = Harness::by(EngineId::LlamaCpp, harness::model("qwen3-0.6b"), machine, (140, 60), settings);
    go(&mut harness, Knob::Context);
    for expected in [65_536, 98_304, 131_072] {
        harness.press("→");
        assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(expected));
    }
    harness.press("⇧→");
    assert!(matches!(harness.host.app.request.settings.ctx, Context::Tokens(tokens) if tokens > 131_072));
    harness.press("Home ←");
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(1024));
}
