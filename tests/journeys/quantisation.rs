//! The quantisation as a knob: every step plans for other tensors, and undo restores the model.

use std::sync::Arc;

use plimsoll::engine::EngineId;
use plimsoll::gguf::FileType;
use plimsoll::model::mixture::Quantisation;
use plimsoll::plan::{Plan, Verdict};
use plimsoll::settings::Settings;
use plimsoll::settings::knob::Knob;

use crate::harness::{self, Harness};

fn on(gib: u64) -> Harness {
    let machine = harness::machine(1, "a card", gib, 64);
    Harness::by(EngineId::Ollama024, harness::model("llama3.1-8b"), machine, (140, 45), Settings::default())
}

fn plan(harness: &Harness) -> &Plan {
    harness.host.app.request.plan.as_deref().unwrap()
}

#[test]
fn each_step_replans_and_undo_restores_the_same_model() {
    let mut harness = on(24);
    let (opened, first) = (harness.host.app.request.model.clone().unwrap(), plan(&harness).totals.weights);
    harness.press("↓ ↓ →");
    assert_eq!(harness.host.app.panels.knobs.focus, Knob::Quant);
    assert_eq!(
        (plan(&harness).model.file_type.as_deref(), harness.host.app.request.settings.quant),
        (Some("Q4_1"), Some(FileType::Q4_1.into()))
    );
    assert!(plan(&harness).totals.weights > first);
    // the same model as with --quant
    let other = opened.requantised(FileType::Q4_1).unwrap();
    assert_eq!(harness.host.app.request.model.as_ref().unwrap().header.tensors, other.header.tensors);
    assert!(harness.text().contains("Q4_1") && harness.text().contains("original weights"), "{}", harness.text());

    let made = harness.host.app.request.model.clone().unwrap();
    harness.press("→ ←");
    assert!(Arc::ptr_eq(harness.host.app.request.model.as_ref().unwrap(), &made), "each is made once");
    harness.press("u u u");
    assert!(Arc::ptr_eq(harness.host.app.request.model.as_ref().unwrap(), &opened));
    assert_eq!((harness.host.app.request.settings.quant, plan(&harness).totals.weights), (None, first));

    harness.press("Enter Back Back Back Back Back Back");
    harness.write("q8_0");
    harness.press("Enter");
    assert_eq!(harness.host.app.request.settings.quant, Some(FileType::Q8_0.into()));
    harness.press("r");
    assert!(Arc::ptr_eq(harness.host.app.request.model.as_ref().unwrap(), &opened));
}

#[test]
fn m_finds_the_largest_value_that_fits() {
    let machine = harness::machine(1, "a card", 12, 64);
    let mut harness = Harness::new(harness::model("llama3.1-8b"), machine, (140, 45));
    harness.press("↓ ↓ m");
    assert_eq!(plan(&harness).verdict, Verdict::Gpu);
    let most = harness.host.app.request.settings.quant.unwrap_or_else(|| panic!("{}", harness.text()));
    harness.press("→");
    assert_ne!(plan(&harness).verdict, Verdict::Gpu, "{most} was not the most");
}

#[test]
fn another_model_opens_unquantised_and_a_matrix_cell_sets_the_knob() {
    let mut harness = on(24);
    harness.press("↓ ↓ End");
    assert_eq!(harness.host.app.request.settings.quant, Some(FileType::F32.into()));
    harness.press("W Tab Tab");
    harness.think();
    harness.press("End Enter");
    let quant = harness.host.app.request.settings.quant.map(Quantisation::name);
    assert!(quant.is_some() && quant == plan(&harness).model.file_type.as_deref(), "{quant:?}");
    let notes = &harness.host.app.request.model.as_ref().unwrap().header.notes;
    assert_eq!(notes.iter().filter(|note| note.contains("original weights")).count(), 1, "{notes:?}");

    harness.host.app.open(harness::package("qwen3-8b"), None);
    harness.rest();
    assert_eq!(
        (harness.host.app.request.settings.quant, plan(&harness).model.file_type.as_deref()),
        (None, Some("Q4_K_M"))
    );
    harness.press("u");
    assert_eq!(harness.host.app.request.settings.quant.map(Quantisation::name), quant);
}

#[test]
fn refused_quantisations_change_nothing() {
    let mut harness = on(24);
    let before = plan(&harness).clone();
    harness.press("↓ ↓ Enter Back Back Back Back Back Back");
    harness.write("NVFP4");
    harness.press("Enter");
    assert!(harness.text().contains("'NVFP4' is not a known quantisation"), "{}", harness.text());
    harness.press("Esc");
    assert_eq!(plan(&harness), &before);
}

#[test]
fn original_weights_are_planned_as_the_file_that_the_engine_runs() {
    let machine = harness::machine(1, "a card", 24, 64);
    let mut harness =
        Harness::by(EngineId::LlamaCpp, harness::model("llama3.1-8b"), machine, (140, 45), Settings::default());
    harness.host.app.open(crate::original::opened("qwen3-8b").into(), None);
    harness.rest();
    let file_type = |harness: &Harness| plan(harness).model.file_type.clone().unwrap();
    assert_eq!(file_type(&harness), "BF16");
    harness.press("↓ ↓");
    assert_eq!(harness.host.app.panels.knobs.focus, Knob::Quant);
    harness.answer_limits();
    harness.press("m");
    let most = harness.host.app.request.settings.quant.unwrap_or_else(|| panic!("{}", harness.text()));
    assert_eq!((plan(&harness).verdict, file_type(&harness).as_str()), (Verdict::Gpu, most.name()));
    harness.press("Home");
    assert_eq!(file_type(&harness), harness.host.app.request.settings.quant.unwrap().name());
    harness.press("r e End Enter");
    assert_eq!((harness.host.app.request.engine, file_type(&harness).as_str()), (EngineId::Mlx, "bf16"));
    harness.press("u");
    assert_eq!((harness.host.app.request.engine, file_type(&harness).as_str()), (EngineId::LlamaCpp, "BF16"));
}
