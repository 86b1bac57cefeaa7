//! Models loaded together.

use crate::harness::{self, Harness};

fn harness() -> Harness {
    let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::machine(1, "card", 12, 64), (120, 40));
    harness.fakes.models.insert("other".to_owned(), Ok(harness::package("llama3.2-1b")));
    harness
}

fn open(harness: &mut Harness, name: &str) {
    harness.press("b");
    harness.write(name);
    harness.press("Enter");
}

#[test]
fn a_single_model_explains_how_to_add_another() {
    let mut harness = harness();
    harness.press("L");
    assert!(harness.text().contains("Together: all its layers are on GPU."), "{}", harness.text());
    assert!(harness.text().contains("Only one model: pin it with c"), "{}", harness.text());
    harness.press("Esc");
    assert!(harness.host.screen.is_none());
}

#[test]
fn pinned_models_load_first_and_unload_first() {
    let mut harness = harness();
    harness.press("c");
    open(&mut harness, "other");
    harness.press("L");
    assert!(harness.text().contains("✓ Together: all layers of all models are on GPU."), "{}", harness.text());
    assert!(harness.text().contains("AAAA") && harness.text().contains("tt"), "{}", harness.text());
    harness.press("Esc End L");
    assert!(harness.text().contains("✗ Do not fit together: only 1 of 2 stays loaded."), "{}", harness.text());
    assert!(harness.text().contains("is unloaded to make room for this:"), "{}", harness.text());
}

#[test]
fn the_answer_follows_the_engine() {
    let mut harness = harness();
    harness.press("c");
    open(&mut harness, "other");
    harness.press("End e Home ↓ ↓ ↓ ↓ ↓ Enter L");
    assert!(harness.text().contains("llama.cpp, release 2026-11 · exact"), "{}", harness.text());
    assert!(!harness.text().contains("is unloaded"), "{}", harness.text());
}
