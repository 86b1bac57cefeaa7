//! Pinned plans: compared side by side, and resumed.

use plimsoll::answer::compare::{ComparedPlan, ComparedValue, Difference, compare};
use plimsoll::settings::{CacheType, Context};
use plimsoll::speed::range::Times;

use crate::harness::{self, Harness};

fn split() -> Harness {
    Harness::new(harness::model("llama3.1-8b"), harness::machine(1, "RTX 3060", 12, 64), (140, 45))
}

#[test]
fn two_pinned_plans_show_their_differences() {
    let mut harness = split();
    harness.press("c");
    assert!(harness.host.screens.is_empty(), "one plan is compared with nothing yet");
    assert!(harness.text().contains("Pinned as A"), "{}", harness.text());
    let before = harness.host.app.request.plan.clone().unwrap();
    harness.press("End ↓ ↓ ↓ ↓ → ↑ → c");
    let now = harness.host.app.request.plan.clone().unwrap();
    let text = harness.text();
    assert!(text.contains("B · now") && text.contains("≠ context"), "{text}");
    let more = now.totals.cache - before.totals.cache;
    assert!(text.contains(&format!("{} ▲ {more}", now.totals.cache)), "{text}");
    assert!(!text.contains("≠ size"), "the model is the same\n{text}");
}

#[test]
fn the_current_plan_is_compared_without_pinning() {
    let mut harness = split();
    harness.press("c → c Esc → c");
    assert_eq!(harness.host.app.pins.len(), 3);
    harness.press("x");
    assert_eq!(harness.host.app.pins.len(), 2);
    assert!(harness.text().contains("▸now"), "{}", harness.text());
    harness.press("x");
    assert!(harness.text().contains("is not pinned"), "{}", harness.text());
    harness.press("← x ← x");
    assert!(harness.host.app.pins.is_empty() && harness.host.screens.is_empty(), "nothing is left to compare");
}

#[test]
fn a_fifth_plan_is_refused() {
    let mut harness = split();
    harness.press("Home c → c Esc → c Esc → c Esc → c");
    assert_eq!(harness.host.app.pins.len(), 4);
    assert!(harness.text().contains("Four plans are pinned"), "{}", harness.text());
    harness.press("x Esc c");
    let letters: Vec<char> = harness.host.app.pins.iter().map(|pin| pin.letter).collect();
    assert_eq!(letters, ['B', 'C', 'D', 'A'], "a letter stays with its plan");
}

#[test]
fn resuming_a_pinned_plan_restores_model_engine_and_knobs() {
    let mut harness = split();
    harness.fakes.models.insert("./small.gguf".into(), Ok(harness::package("llama3.2-1b")));
    harness.press("→ c");
    let first = harness.host.app.request.plan_request().unwrap();
    harness.press("o");
    harness.write("./small.gguf");
    harness.press("Enter e ↑ Enter ↓ ↓ ↓ → c");
    let second = harness.host.app.request.plan_request().unwrap();
    assert!(first != second && first.engine != second.engine);
    assert!(harness.text().contains("Llama 3.2 1B"), "{}", harness.text());
    harness.press("← Enter");
    assert!(harness.host.app.request.plan_request() == Some(first.clone()));
    assert_eq!(harness.host.app.request.plan.as_deref(), Some(&first.plan().unwrap()));
    harness.press("u");
    assert!(harness.host.app.request.plan_request() == Some(second), "going on is one step");
    harness.press("u u u");
    assert!(harness.host.app.request.plan_request() == Some(first), "and so is opening a model");
}

/// Two events may arrive before a redraw.
#[test]
fn a_plan_is_pinned_up_to_date_before_it_is_drawn() {
    use plimsoll::tui::action::{Action, Command};
    let mut harness = split();
    harness.host.update(Action::Press(Command::Last));
    harness.host.update(Action::Press(Command::Compare));
    let pin = &harness.host.app.pins[0];
    assert_eq!(pin.plan_request.settings.ctx, Context::Tokens(131_072));
    assert!(pin.planned.is_none(), "it is not what the screen shows");
    harness.press("← c");
    let Some(Ok(planned)) = &harness.host.app.pins[0].planned else { panic!("{:?}", harness.host.app.pins) };
    assert_eq!(planned.plan.settings.ctx, 131_072);
}

#[test]
fn comparison_rows_match_the_plans() {
    let mut harness = split();
    let (one, before) =
        (harness.host.app.request.plan.clone().unwrap(), harness.host.app.request.speeds.clone().unwrap());
    harness.press("↓ ↓ ↓ ↓ → ↑ → →");
    let (other, after) =
        (harness.host.app.request.plan.clone().unwrap(), harness.host.app.request.speeds.clone().unwrap());
    assert_eq!(other.settings.cache_type_k, CacheType::Q4_0);
    let of = |plan, speeds| Some(ComparedPlan { plan, speeds: Some(speeds) });
    let groups = compare(&[of(&one, &before), None, of(&other, &after)]);
    let row = |name: &str| groups.iter().flat_map(|group| &group.rows).find(|row| row.name == name).unwrap();
    assert_eq!(
        row("cache").figures,
        [ComparedValue::Size(one.totals.cache), ComparedValue::Nothing, ComparedValue::Size(other.totals.cache)]
    );
    let ratio = after.full.tokens_per_second / before.full.tokens_per_second;
    let full = &row("context full").figures;
    assert_eq!(full[2].against(&full[0]), Difference::Times(Times(ratio)));
    assert!(
        row("KV cache").differs() && row("name").differs(),
        "a plan that is missing differs from one that is there"
    );
}
