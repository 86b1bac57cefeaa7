//! The changes made since the planner was opened: what each did, going back to any, and forward again.

use plimsoll::answer::sweep::PlanFigures;
use plimsoll::engine::EngineId;
use plimsoll::settings::Settings;
use plimsoll::tui::action::Gesture;
use plimsoll::tui::app::StateFigures;
use plimsoll::tui::screens::history::HistoryPage;
use plimsoll::tui::theme::Appearance;
use rstest::rstest;

use crate::harness::{self, Harness};

#[rstest]
#[case("llama3.1-8b", 12)]
#[case("llama3.1-8b", 24)]
#[case("qwen3-30b-a3b", 24)]
#[case("gpt-oss-20b", 6)]
#[case("mamba-2.8b", 4)]
fn each_state_is_listed_with_what_it_gives(#[case] model: &str, #[case] gib: u64) {
    for size in [(60, 20), (80, 24), (140, 45)] {
        let mut harness = Harness::new(harness::model(model), harness::machine(1, "RTX 3090", gib, 64), size);
        harness.press("→ → → ↓ → e ↓ Enter u H");
        let (states, now) = harness.host.app.states();
        assert_eq!(states.len(), now + 2, "one was undone");
        assert!(now >= 2, "{states:?}");
        let text = harness.text();
        let lines = text.lines().skip_while(|line| !line.contains("before these changes"));
        for (state, line) in states.iter().zip(lines) {
            let figures = PlanFigures::of_request(&state.plan_request).unwrap();
            assert_eq!(state.figures, StateFigures::Planned(Box::new(figures.clone())));
            assert!(line.contains(figures.outcome.headline()), "{line}\n{text}");
            if let Some(speed) = figures.speed {
                assert!(line.contains(&format!("≈ {} tok/s", speed.short())), "{line}\n{text}");
            }
        }
        harness.press("Home Enter");
        assert_eq!(harness.host.app.request.plan_request().as_ref(), Some(&states[0].plan_request));
        harness.assert_plan_is_current();
        assert_eq!(harness.host.app.states(), (states.clone(), 0), "the others are kept");
        for state in &states[1..] {
            harness.press("U");
            assert_eq!(harness.host.app.request.plan_request().as_ref(), Some(&state.plan_request));
        }
        harness.press("U");
        assert!(harness.text().contains("Nothing to redo"), "{}", harness.text());
        harness.press("u ← H");
        assert_eq!(harness.host.app.states().1, states.len() - 1, "a new change ends what could be redone");
    }
}

#[test]
fn a_press_of_the_mouse_selects_a_state_and_the_next_goes_there() {
    let settings = Settings::default();
    let machine = harness::machine(1, "RTX 3090", 24, 64);
    let model = harness::model("llama3.1-8b");
    let mut harness = Harness::with(Some(model), machine, (100, 30), settings.clone(), Appearance::BEST);
    assert_eq!(harness.host.app.request.engine, EngineId::Ollama024);
    harness.press("→ → H");
    let text = harness.text();
    let y = text.lines().position(|line| line.contains("before these changes")).unwrap() as u16;
    harness.mouse(Gesture::Down, 20, y);
    let _open: &HistoryPage = harness.showing();
    harness.mouse(Gesture::Down, 20, y);
    assert!(harness.host.screens.is_empty());
    assert_eq!(harness.host.app.request.settings, settings);
    harness.press("H");
    harness.mouse(Gesture::Down, 1, 1);
    assert!(harness.host.screens.is_empty(), "a press beside the page goes back");
}
