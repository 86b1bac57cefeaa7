//! Why a layer is in RAM and what brings it back, the best settings, and stepping between thresholds.

use plimsoll::answer::best::Wish;
use plimsoll::answer::{Goal, why};
use plimsoll::plan::Verdict;
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{Context, Settings};
use plimsoll::tui::action::{Action, Command};
use plimsoll::tui::app::Mode;
use plimsoll::tui::app::advice::Progress;
use plimsoll::tui::effect::Effect;
use plimsoll::tui::inquiry::Part;
use plimsoll::tui::theme::Look;

use crate::stage::{self, Stage};

/// Llama 3.1 8B on 12 GiB with a context that is too large.
fn spilled() -> Stage {
    let settings = Settings { ctx: Context::Tokens(49_152), ..Settings::default() };
    let machine = stage::machine(1, "RTX 3060", 12, 64);
    Stage::with(Some(stage::model("llama3.1-8b")), machine, (140, 50), settings, Look::BEST)
}

#[test]
fn a_layer_in_ram_shows_the_failed_inequality_and_each_remedy_works() {
    let mut stage = spilled();
    stage.press("Tab Enter");
    let plan = stage.app.plan.clone().unwrap();
    let answer = why::layer(&plan, 0).unwrap();
    let inequality = answer.inequality.unwrap();
    assert!(!inequality.enough);
    let text = stage.text();
    for bytes in [inequality.free, inequality.room, inequality.needed, inequality.placed_bytes] {
        assert!(text.contains(&bytes.to_string()), "{bytes}\n{text}");
    }
    assert!(text.contains("The layer does not fit") && text.contains(&plan.source()), "{text}");
    let Mode::Because(page) = stage.app.mode.clone() else { panic!("Enter asks why") };
    assert_eq!(page.progress, Progress::Done);
    assert!(page.offers.len() > 3);
    let before = stage.app.situation().unwrap();
    for (at, offer) in page.offers.iter().enumerate() {
        assert!(text.contains(&offer.change.to_string()), "{}\n{text}", offer.change);
        let downs = "↓ ".repeat(at);
        stage.press(&format!("{downs} Enter"));
        assert!(matches!(stage.app.mode, Mode::Plan));
        let after = stage.app.plan.clone().unwrap();
        assert!(offer.goal.is_met_by(&after), "{}", offer.change);
        assert_eq!(after.offloaded, offer.offloaded);
        stage.press("u");
        assert!(stage.app.situation() == Some(before.clone()), "one step back undoes {}", offer.change);
        stage.press("Home Enter");
    }
}

#[test]
fn the_layer_page_steps_to_neighbours() {
    let mut stage = spilled();
    stage.press("Tab Enter →");
    assert!(stage.text().contains("Layer 1 is in RAM"), "{}", stage.text());
    stage.press("← ← Esc End Enter");
    assert!(stage.text().contains("Output layer is in RAM"), "{}", stage.text());
    stage.press("PgDn PgUp q");
    assert!(matches!(stage.app.mode, Mode::Plan));
}

#[test]
fn the_page_says_if_nothing_helps_or_is_needed() {
    let mut stage = Stage::new(stage::model("llama3.1-8b"), stage::one_gpu(), (140, 50));
    stage.press("Tab Enter");
    assert!(stage.text().contains("Nothing needs to change"), "{}", stage.text());
    let mut stage = Stage::new(stage::model("llama3.1-8b"), stage::machine(0, "", 0, 64), (140, 50));
    stage.press("Tab Enter");
    assert!(stage.text().contains("There is no GPU to move it to"), "{}", stage.text());
    stage.press("Esc s");
    assert!(stage.text().contains("There is no GPU."), "{}", stage.text());
}

#[test]
fn best_settings_keep_locked_knobs_and_apply_in_one_step() {
    let mut stage = spilled();
    stage.press("l s");
    let Mode::Best(page) = stage.app.mode.clone() else { panic!("s asks for the best settings") };
    let text = stage.text();
    assert!(text.contains("context is locked") && text.contains("locked: context 49\u{2009}152"), "{text}");
    let of = |wish| page.found.iter().find(|(other, _)| *other == wish).unwrap().1.clone();
    assert!(of(Wish::Context).is_empty() && !of(Wish::CacheType).is_empty());
    let before = stage.app.situation().unwrap();
    for (at, one) in page.suggestions().enumerate() {
        assert!(text.contains(&one.gain.to_string()), "{text}");
        let downs = "↓ ".repeat(at);
        stage.press(&format!("{downs} Enter"));
        assert_eq!(stage.app.plan.as_deref(), Some(&one.plan));
        assert_eq!(stage.app.plan.as_ref().unwrap().verdict, Verdict::Gpu);
        assert_eq!(stage.app.settings.ctx, Context::Tokens(49_152));
        stage.press("u");
        assert!(stage.app.situation() == Some(before.clone()));
        stage.press("s");
    }
    stage.press("Esc l s");
    let Mode::Best(page) = &stage.app.mode else { panic!() };
    assert!(!page.found[0].1.is_empty(), "with nothing held the context can be chosen");
}

#[test]
fn brackets_step_between_thresholds() {
    let mut stage = spilled();
    stage.press("Home ]");
    assert!(stage.text().contains("Still computing"), "{}", stage.text());
    stage.think();
    let mut last = 1024;
    for _ in 0..4 {
        stage.press("]");
        let here = stage.app.value(Knob::Context);
        assert!(here > last, "{here} is above {last}");
        let at = |tokens: u64| {
            let mut settings = stage.app.settings.clone();
            settings.ctx = Context::Tokens(tokens);
            stage.app.situation().unwrap().with(settings).plan().unwrap()
        };
        let (before, after) = (at(here), at(here + 1));
        assert!(after.offloaded < before.offloaded, "a layer is lost after {here}");
        assert!(Goal::AtLeast(before.offloaded).is_met_by(&at(last)), "and none before");
        assert!(
            stage.text().contains(&format!("{} → {} layers", before.offloaded, after.offloaded)),
            "{}",
            stage.text()
        );
        last = here;
    }
    stage.press("[ u");
    assert_eq!(stage.app.value(Knob::Context), last);
    assert!(stage.text().contains('╵'), "the lost layers are marked\n{}", stage.text());
    stage.press("↓ ↓ ]");
    assert!(stage.text().contains("has no thresholds"), "{}", stage.text());
}

#[test]
fn thresholds_of_a_knob_stay_known_while_only_it_moves() {
    let mut stage = spilled();
    stage.think();
    stage.app.update(Action::Press(Command::More));
    let effects = stage.app.settle();
    let asked = effects.iter().any(|effect| match effect {
        Effect::Ask(inquiry) => format!("{:?}", inquiry.about).contains("Context"),
        _ => false,
    });
    assert!(!asked, "where things change along the context does not depend on where it stands");
    let situation = stage.app.situation().unwrap();
    assert!(stage.app.cliffs.of(Knob::Context, &situation).is_some());
    assert!(stage.app.cliffs.of(Knob::Parallel, &situation).is_none());
}

#[test]
fn outdated_answers_are_ignored() {
    let mut stage = spilled();
    stage.press("Tab Enter");
    let Mode::Because(page) = stage.app.mode.clone() else { panic!() };
    stage.act(Action::Answered { id: 0, part: Part::Offers(page.offers.clone()) });
    let Mode::Because(now) = &stage.app.mode else { panic!() };
    assert_eq!(now.offers.len(), page.offers.len());
    stage.press("Esc");
    stage.act(Action::Answered { id: u64::MAX, part: Part::End });
    assert!(matches!(stage.app.mode, Mode::Plan));
}
