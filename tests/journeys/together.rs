//! Whether models can live together.

use plimsoll::tui::app::Mode;

use crate::stage::{self, Stage};

fn stage() -> Stage {
    let mut stage = Stage::new(stage::model("llama3.1-8b"), stage::machine(1, "card", 12, 64), (120, 40));
    stage.props.models.insert("other".to_owned(), Ok(stage::package("llama3.2-1b")));
    stage
}

fn open(stage: &mut Stage, name: &str) {
    stage.press("b");
    stage.write(name);
    stage.press("Enter");
}

#[test]
fn alone_it_is_told_how_another_comes() {
    let mut stage = stage();
    stage.press("L");
    assert!(stage.text().contains("Together: all its layers are on GPU."), "{}", stage.text());
    assert!(stage.text().contains("Only one model: pin it with c"), "{}", stage.text());
    stage.press("Esc");
    assert!(matches!(stage.app.mode, Mode::Plan));
}

#[test]
fn what_is_pinned_comes_first_and_goes_first() {
    let mut stage = stage();
    stage.press("c");
    open(&mut stage, "other");
    stage.press("L");
    assert!(stage.text().contains("✓ Together: all layers of all models are on GPU."), "{}", stage.text());
    assert!(stage.text().contains("AAAA") && stage.text().contains("tt"), "{}", stage.text());
    stage.press("Esc End L");
    assert!(stage.text().contains("✗ Do not fit together: only 1 of 2 stays loaded."), "{}", stage.text());
    assert!(stage.text().contains("is unloaded to make room for this:"), "{}", stage.text());
}

#[test]
fn the_answer_follows_the_engine() {
    let mut stage = stage();
    stage.press("c");
    open(&mut stage, "other");
    stage.press("End e Home ↓ ↓ Enter L");
    assert!(stage.text().contains("llama.cpp, release 2026-11 · exact"), "{}", stage.text());
    assert!(!stage.text().contains("is unloaded"), "{}", stage.text());
}
