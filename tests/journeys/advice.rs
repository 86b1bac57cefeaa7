//! Why a layer is in RAM and what brings it back, the best settings, and stepping between thresholds.

use std::sync::Arc;

use plimsoll::answer::best::Objective;
use plimsoll::answer::{Goal, why};
use plimsoll::plan::Outcome;
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{Context, Settings};
use plimsoll::tui::action::{Action, Command, Gesture};
use plimsoll::tui::app::AnswerState;
use plimsoll::tui::effect::Effect;
use plimsoll::tui::query::QueryPart;
use plimsoll::tui::screens::best::BestPage;
use plimsoll::tui::screens::why::WhyPage;
use plimsoll::tui::theme::Appearance;

use crate::harness::{self, Harness};

/// Llama 3.1 8B on 12 GiB with a context that is too large.
fn spilled() -> Harness {
    let settings = Settings { ctx: Context::Tokens(49_152), ..Settings::default() };
    let machine = harness::machine(1, "RTX 3060", 12, 64);
    Harness::with(Some(harness::model("llama3.1-8b")), machine, (140, 50), settings, Appearance::BEST)
}

#[test]
fn a_layer_in_ram_shows_the_failed_inequality_and_each_remedy_works() {
    let mut harness = spilled();
    harness.press("Tab Enter");
    let plan = harness.host.app.request.plan.clone().unwrap();
    let answer = why::layer(&plan, 0).unwrap();
    let inequality = answer.inequality.unwrap();
    assert!(!inequality.enough);
    let text = harness.text();
    for bytes in [inequality.free, inequality.room, inequality.needed, inequality.placed_bytes] {
        assert!(text.contains(&bytes.to_string()), "{bytes}\n{text}");
    }
    assert!(text.contains("The layer does not fit") && text.contains(&plan.source()), "{text}");
    let page = harness.showing::<WhyPage>().clone();
    assert_eq!(page.progress, AnswerState::Done);
    assert!(page.remedies.len() > 3);
    let before = harness.host.app.request.plan_request().unwrap();
    for (at, offer) in page.remedies.iter().enumerate() {
        assert!(text.contains(&offer.change.to_string()), "{}\n{text}", offer.change);
        let downs = "↓ ".repeat(at);
        harness.press(&format!("{downs} Enter"));
        assert!(harness.host.screens.is_empty());
        let after = harness.host.app.request.plan.clone().unwrap();
        assert!(offer.goal.is_met_by(&after), "{}", offer.change);
        assert_eq!(after.on_gpus(), offer.on_gpus);
        harness.press("u");
        assert!(
            harness.host.app.request.plan_request() == Some(before.clone()),
            "one step back undoes {}",
            offer.change
        );
        harness.press("Home Enter");
    }
}

#[test]
fn the_layer_page_steps_to_neighbours() {
    let mut harness = spilled();
    harness.press("Tab Enter →");
    assert!(harness.text().contains("Layer 1 is in RAM"), "{}", harness.text());
    harness.press("← ← Esc End Enter");
    assert!(harness.text().contains("Output layer is in RAM"), "{}", harness.text());
    harness.press("PgDn PgUp q");
    assert!(harness.host.screens.is_empty());
}

#[test]
fn the_page_says_if_nothing_helps_or_is_needed() {
    let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), (140, 50));
    harness.press("Tab Enter");
    assert!(harness.text().contains("Nothing needs to change"), "{}", harness.text());
    let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::machine(0, "", 0, 64), (140, 50));
    harness.press("Tab Enter");
    assert!(harness.text().contains("There is no GPU to move it to"), "{}", harness.text());
    harness.press("Esc s");
    assert!(harness.text().contains("Safe: no settings were found"), "{}", harness.text());
}

#[test]
fn a_key_or_a_press_makes_a_change_that_the_verdict_names() {
    let mut harness = spilled();
    let before = harness.host.app.request.plan_request().unwrap();
    let text = harness.text();
    let (y, row) = text.lines().enumerate().find(|(_, line)| line.trim_start().starts_with("F2 ")).unwrap();
    let tokens: u64 = row.split("--ctx ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(row.contains("all in VRAM"), "{row}");
    let x = row.chars().take_while(|c| *c != 'F').count() as u16;
    for by_mouse in [false, true] {
        if by_mouse {
            harness.mouse(Gesture::Down, x, y as u16);
        } else {
            harness.press("F2");
        }
        let app = &harness.host.app.request;
        assert_eq!(app.settings.ctx, Context::Tokens(tokens));
        assert!(app.plan.as_ref().unwrap().outcome() <= Outcome::Tight);
        assert!(harness.text().contains("✓ All in VRAM"), "{}", harness.text());
        harness.press("u");
        assert!(harness.host.app.request.plan_request().as_ref() == Some(&before));
    }
    harness.press("F4");
    assert!(harness.text().contains("There is no such change"), "{}", harness.text());
    assert!(harness.host.app.request.plan_request() == Some(before));
}

#[test]
fn best_settings_keep_locked_knobs_and_apply_in_one_step() {
    let mut harness = spilled();
    harness.press("l s");
    let page = harness.showing::<BestPage>().clone();
    let text = harness.text();
    assert!(text.contains("locked: context 49\u{2009}152"), "{text}");
    let has = |page: &BestPage, objective| page.cards.iter().any(|card| card.objectives.contains(&objective));
    assert!(!has(&page, Objective::Context) && has(&page, Objective::Quality));
    let before = harness.host.app.request.plan_request().unwrap();
    for (at, one) in page.cards.iter().enumerate() {
        assert!(text.contains(&one.title()), "{text}");
        let downs = "↓ ".repeat(at);
        harness.press(&format!("{downs} Enter"));
        assert_eq!(harness.host.app.request.plan.as_deref(), Some(&one.plan));
        assert_eq!(harness.host.app.request.plan.as_ref().unwrap().verdict, one.plan.verdict);
        assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(49_152));
        harness.press("u");
        assert!(harness.host.app.request.plan_request() == Some(before.clone()));
        harness.press("s");
    }
    harness.press("Esc l s");
    let page: &BestPage = harness.showing();
    assert!(has(page, Objective::Context), "with nothing held the context can be chosen");
}

#[test]
fn brackets_step_between_thresholds() {
    let mut harness = spilled();
    harness.press("Home ]");
    assert!(harness.text().contains("Still computing"), "{}", harness.text());
    harness.think();
    let mut last = 1024;
    for _ in 0..4 {
        harness.press("]");
        let here = harness.host.app.request.value(Knob::Context);
        assert!(here > last, "{here} is above {last}");
        let at = |tokens: u64| {
            let mut settings = harness.host.app.request.settings.clone();
            settings.ctx = Context::Tokens(tokens);
            harness.host.app.request.plan_request().unwrap().with(settings).plan().unwrap()
        };
        let (before, after) = (at(here), at(here + 1));
        assert!(after.offloaded < before.offloaded, "a layer is lost after {here}");
        assert!(Goal::AtLeast(before.offloaded).is_met_by(&at(last)), "and none before");
        assert!(
            harness.text().contains(&format!("{} → {} layers", before.offloaded, after.offloaded)),
            "{}",
            harness.text()
        );
        last = here;
    }
    harness.press("[ u");
    assert_eq!(harness.host.app.request.value(Knob::Context), last);
    assert!(harness.text().contains('╵'), "the lost layers are marked\n{}", harness.text());
    harness.press("↓ ↓ ]");
    assert!(harness.text().contains("has no thresholds"), "{}", harness.text());
}

#[test]
fn thresholds_of_a_knob_stay_known_while_only_it_moves() {
    let mut harness = spilled();
    harness.think();
    harness.host.update(Action::Press(Command::More));
    let effects = harness.host.refresh();
    let asked = effects.iter().any(|effect| match effect {
        Effect::Ask(query) => format!("{:?}", query.about).contains("Context"),
        _ => false,
    });
    assert!(!asked, "where things change along the context does not depend on where it stands");
    let plan_request = harness.host.app.request.plan_request().unwrap();
    assert!(harness.host.app.request.thresholds.of(Knob::Context, &plan_request).is_some());
    assert!(harness.host.app.request.thresholds.of(Knob::Parallel, &plan_request).is_none());
}

#[test]
fn outdated_answers_are_ignored() {
    let mut harness = spilled();
    harness.press("Tab Enter");
    let page = harness.showing::<WhyPage>().clone();
    harness.act(Action::QueryAnswered { id: 0, part: QueryPart::Part(Arc::new(page.remedies.clone())) });
    let now: &WhyPage = harness.showing();
    assert_eq!(now.remedies.len(), page.remedies.len());
    harness.press("Esc");
    harness.act(Action::QueryAnswered { id: u64::MAX, part: QueryPart::End });
    assert!(harness.host.screens.is_empty());
}
