//! The quantisation as a knob: every step plans for other tensors, and undo restores the model.

use std::sync::Arc;

use plimsoll::engine::EngineId;
use plimsoll::gguf::FileType;
use plimsoll::plan::{Plan, Verdict};
use plimsoll::settings::Settings;
use plimsoll::settings::knob::Knob;

use crate::stage::{self, Stage};

fn on(gib: u64) -> Stage {
    let machine = stage::machine(1, "a card", gib, 64);
    Stage::by(EngineId::Ollama024, stage::model("llama3.1-8b"), machine, (140, 45), Settings::default())
}

fn plan(stage: &Stage) -> &Plan {
    stage.app.plan.as_deref().unwrap()
}

#[test]
fn each_step_replans_and_undo_restores_the_same_model() {
    let mut stage = on(24);
    let (opened, first) = (stage.app.model.clone().unwrap(), plan(&stage).totals.weights);
    stage.press("↓ ↓ →");
    assert_eq!(stage.app.knobs.focus, Knob::Quant);
    assert_eq!(
        (plan(&stage).model.file_type.as_deref(), stage.app.settings.quant),
        (Some("Q4_1"), Some(FileType::Q4_1))
    );
    assert!(plan(&stage).totals.weights > first);
    // the same model as with --quant
    let other = opened.requantised(FileType::Q4_1).unwrap();
    assert_eq!(stage.app.model.as_ref().unwrap().header.tensors, other.header.tensors);
    assert!(stage.text().contains("Q4_1") && stage.text().contains("original weights"), "{}", stage.text());

    let made = stage.app.model.clone().unwrap();
    stage.press("→ ←");
    assert!(Arc::ptr_eq(stage.app.model.as_ref().unwrap(), &made), "each is made once");
    stage.press("u u u");
    assert!(Arc::ptr_eq(stage.app.model.as_ref().unwrap(), &opened));
    assert_eq!((stage.app.settings.quant, plan(&stage).totals.weights), (None, first));

    stage.press("Enter Back Back Back Back Back Back");
    stage.write("q8_0");
    stage.press("Enter");
    assert_eq!(stage.app.settings.quant, Some(FileType::Q8_0));
    stage.press("r");
    assert!(Arc::ptr_eq(stage.app.model.as_ref().unwrap(), &opened));
}

#[test]
fn m_finds_the_largest_value_that_fits() {
    let machine = stage::machine(1, "a card", 12, 64);
    let mut stage = Stage::new(stage::model("llama3.1-8b"), machine, (140, 45));
    stage.press("↓ ↓ m");
    assert_eq!(plan(&stage).verdict, Verdict::Gpu);
    let most = stage.app.settings.quant.unwrap_or_else(|| panic!("{}", stage.text()));
    stage.press("→");
    assert_ne!(plan(&stage).verdict, Verdict::Gpu, "{most} was not the most");
}

#[test]
fn another_model_opens_unquantised_and_a_matrix_cell_sets_the_knob() {
    let mut stage = on(24);
    stage.press("↓ ↓ End");
    assert_eq!(stage.app.settings.quant, Some(FileType::F32));
    stage.press("W Tab Tab");
    stage.think();
    stage.press("End Enter");
    let quant = stage.app.settings.quant.map(FileType::name);
    assert!(quant.is_some() && quant == plan(&stage).model.file_type.as_deref(), "{quant:?}");
    let notes = &stage.app.model.as_ref().unwrap().header.notes;
    assert_eq!(notes.iter().filter(|note| note.contains("original weights")).count(), 1, "{notes:?}");

    stage.app.open(stage::package("qwen3-8b"), None);
    stage.rest();
    assert_eq!((stage.app.settings.quant, plan(&stage).model.file_type.as_deref()), (None, Some("Q4_K_M")));
    stage.press("u");
    assert_eq!(stage.app.settings.quant.map(FileType::name), quant);
}

#[test]
fn refused_quantisations_change_nothing() {
    let mut stage = on(24);
    let before = plan(&stage).clone();
    stage.press("↓ ↓ Enter Back Back Back Back Back Back");
    stage.write("NVFP4");
    stage.press("Enter");
    assert!(stage.text().contains("'NVFP4' is not a known quantisation"), "{}", stage.text());
    stage.press("Esc");
    assert_eq!(plan(&stage), &before);
}
