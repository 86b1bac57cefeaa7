//! Every page at three sizes, in colour and without.

use plimsoll::engine::EngineId;
use plimsoll::settings::{Context, Settings};
use plimsoll::tui::theme::{Look, Tone};
use rstest::rstest;

use crate::screens::picture;
use crate::stage::{self, Stage};

/// llama.cpp's plan of a model that does not fit whole, with the teach screen open.
fn open(size: (u16, u16), tone: Tone, keys: &str) -> Stage {
    let machine = stage::machine(1, "RTX 3060", 12, 32);
    let settings = Settings { ctx: Context::Tokens(24_576), ..Settings::default() };
    let look = Look { tone, ..Look::BEST };
    let model = Some(stage::model("llama3.1-8b"));
    let mut stage = Stage::seen(EngineId::LlamaCpp, model, machine, size, settings, look);
    stage.press("t");
    stage.press(keys);
    stage
}

#[rstest]
#[case::schedule("schedule", "→ →")]
#[case::splits("schedule-splits", "→ → → → → → → →")]
#[case::block("schedule-block", "→ ↓ ↓ Enter ↓ ↓ ↓")]
#[case::taken_away("schedule-taken-away", "x → → → → → → → → ↓ ↓")]
#[case::allocation("allocation", "Tab")]
#[case::beside("allocation-beside", "Tab c → →")]
#[case::ram("allocation-ram", "Tab ↓ Home PgDn PgDn PgDn")]
#[case::help("teach-help", "?")]
fn pages_at_three_sizes(#[case] name: &str, #[case] keys: &str) {
    for size in [(60, 20), (80, 24), (140, 45)] {
        let (columns, rows) = size;
        let colour = open(size, Tone::Dark, keys);
        insta::assert_snapshot!(format!("{name}-{columns}x{rows}"), colour.text());
        insta::assert_snapshot!(format!("{name}-{columns}x{rows}-colours"), colour.colours());
        let mono = open(size, Tone::Mono, keys);
        insta::assert_snapshot!(format!("{name}-{columns}x{rows}-mono"), mono.text());
    }
}

#[test]
fn the_timeline_as_a_picture() {
    picture("allocation", &mut open((140, 45), Tone::Dark, "Tab c"));
}

#[test]
fn the_passes_as_a_picture() {
    picture("schedule", &mut open((140, 45), Tone::Dark, "→ ↓ ↓ x"));
}

#[test]
fn a_page_follows_the_knobs_and_the_mouse() {
    use plimsoll::tui::action::Gesture;
    let mut stage = open((140, 45), Tone::Dark, "Tab");
    let before = stage.text();
    stage.press(".");
    assert_ne!(stage.text(), before, "more context needs larger masks");
    stage.press(",");
    stage.rest();
    assert_eq!(stage.text(), before);
    stage.mouse(Gesture::Down, 70, 12);
    assert!(!stage.text().contains("Step 1 of"));
    assert_ne!(stage.text(), before, "the moment under the mouse is shown");
    stage.press("Esc");
    assert!(stage.text().contains("Verdict"), "Esc leads back to the planner");
}
