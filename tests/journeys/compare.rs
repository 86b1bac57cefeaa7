//! Pinned plans: compared side by side, and resumed.

use plimsoll::answer::compare::{Figure, compare};
use plimsoll::settings::{CacheType, Context};
use plimsoll::tui::app::Mode;

use crate::stage::{self, Stage};

fn split() -> Stage {
    Stage::new(stage::model("llama3.1-8b"), stage::machine(1, "RTX 3060", 12, 64), (140, 45))
}

#[test]
fn two_pinned_plans_show_their_differences() {
    let mut stage = split();
    stage.press("c");
    assert!(matches!(stage.app.mode, Mode::Plan), "one plan is compared with nothing yet");
    assert!(stage.text().contains("Pinned as A"), "{}", stage.text());
    let before = stage.app.plan.clone().unwrap();
    stage.press("End ↓ ↓ ↓ ↓ → ↑ → c");
    let now = stage.app.plan.clone().unwrap();
    let text = stage.text();
    assert!(text.contains("B · now") && text.contains("≠ context"), "{text}");
    let more = now.totals.cache - before.totals.cache;
    assert!(text.contains(&format!("{} ▲ {more}", now.totals.cache)), "{text}");
    assert!(!text.contains("≠ size"), "the model is the same\n{text}");
}

#[test]
fn the_current_plan_is_compared_without_pinning() {
    let mut stage = split();
    stage.press("c → c Esc → c");
    assert_eq!(stage.app.pins.len(), 3);
    stage.press("x");
    assert_eq!(stage.app.pins.len(), 2);
    assert!(stage.text().contains("▸now"), "{}", stage.text());
    stage.press("x");
    assert!(stage.text().contains("is not pinned"), "{}", stage.text());
    stage.press("← x ← x");
    assert!(stage.app.pins.is_empty() && matches!(stage.app.mode, Mode::Plan), "nothing is left to compare");
}

#[test]
fn a_fifth_plan_is_refused() {
    let mut stage = split();
    stage.press("Home c → c Esc → c Esc → c Esc → c");
    assert_eq!(stage.app.pins.len(), 4);
    assert!(stage.text().contains("Four plans are pinned"), "{}", stage.text());
    stage.press("x Esc c");
    let letters: Vec<char> = stage.app.pins.iter().map(|pin| pin.letter).collect();
    assert_eq!(letters, ['B', 'C', 'D', 'A'], "a letter stays with its plan");
}

#[test]
fn resuming_a_pinned_plan_restores_model_engine_and_knobs() {
    let mut stage = split();
    stage.props.models.insert("./small.gguf".into(), Ok(stage::package("llama3.2-1b")));
    stage.press("→ c");
    let first = stage.app.situation().unwrap();
    stage.press("o");
    stage.write("./small.gguf");
    stage.press("Enter e ↑ Enter ↓ ↓ ↓ → c");
    let second = stage.app.situation().unwrap();
    assert!(first != second && first.engine != second.engine);
    assert!(stage.text().contains("Llama 3.2 1B"), "{}", stage.text());
    stage.press("← Enter");
    assert!(stage.app.situation() == Some(first.clone()));
    assert_eq!(stage.app.plan.as_deref(), Some(&first.plan().unwrap()));
    stage.press("u");
    assert!(stage.app.situation() == Some(second), "going on is one step");
    stage.press("u u u");
    assert!(stage.app.situation() == Some(first), "and so is opening a model");
}

/// Two events may arrive before a redraw.
#[test]
fn a_plan_is_pinned_up_to_date_before_it_is_drawn() {
    use plimsoll::tui::action::{Action, Command};
    let mut stage = split();
    stage.app.update(Action::Press(Command::Last));
    stage.app.update(Action::Press(Command::Compare));
    let pin = &stage.app.pins[0];
    assert_eq!(pin.situation.settings.ctx, Context::Tokens(131_072));
    assert_eq!(pin.plan.settings.ctx, 131_072);
}

#[test]
fn comparison_rows_match_the_plans() {
    let mut stage = split();
    let one = stage.app.plan.clone().unwrap();
    stage.press("↓ ↓ ↓ ↓ → ↑ → →");
    let other = stage.app.plan.clone().unwrap();
    assert_eq!(other.settings.cache_type_k, CacheType::Q4_0);
    let groups = compare(&[Some(&one), None, Some(&other)]);
    let row = |name: &str| groups.iter().flat_map(|group| &group.rows).find(|row| row.name == name).unwrap();
    assert_eq!(
        row("cache").figures,
        [Figure::Size(one.totals.cache), Figure::Nothing, Figure::Size(other.totals.cache)]
    );
    assert!(
        row("KV cache").differs() && row("name").differs(),
        "a plan that is missing differs from one that is there"
    );
}
