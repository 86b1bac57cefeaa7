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
    assert!(harness.host.screens.is_empty());
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

#[test]
fn a_router_is_chosen_and_what_starts_the_models_is_exported() {
    let mut harness = harness();
    harness.press("End e Home ↓ ↓ ↓ ↓ ↓ Enter c");
    open(&mut harness, "other");
    harness.press("L");
    assert!(harness.text().contains("no server is ended for another"), "{}", harness.text());
    harness.press("Tab");
    assert!(harness.text().contains("--models-max 4"), "{}", harness.text());
    harness.press("← ← ←");
    assert!(harness.text().contains("the router keeps one model loaded"), "{}", harness.text());
    harness.press("Tab");
    assert!(harness.text().contains("runs one model at a time"), "{}", harness.text());
    harness.press("Tab");
    assert!(harness.text().contains("no server is ended for another"), "{}", harness.text());
    harness.press("x");
    assert!(harness.text().contains("[Llama") && harness.text().contains("version = 1"), "{}", harness.text());
    harness.press("→ y");
    let copied = harness.copied.last().unwrap();
    assert!(copied.starts_with("models:") && copied.matches("cmd:").count() == 2, "{copied}");
    harness.press("Esc");
    assert!(harness.host.screens.is_empty());
    // alone there is nothing to start together
    let mut harness = self::harness();
    harness.press("L x");
    assert!(harness.text().contains("Load together"), "{}", harness.text());
}
