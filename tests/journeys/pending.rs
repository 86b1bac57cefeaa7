//! What is being computed is shown as such: no screen shows an answer to an older question.

use plimsoll::engine::EngineId;
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{Context, Settings};
use plimsoll::tui::action::{Action, Command};
use plimsoll::tui::app::AnswerState;
use plimsoll::tui::effect::Effect;
use plimsoll::tui::query::QueryPart;
use plimsoll::tui::screens::best::BestPage;
use plimsoll::tui::screens::matrix::MatrixPage;
use plimsoll::tui::theme::Appearance;

use crate::harness::{self, Harness};

fn go(harness: &mut Harness, knob: Knob) {
    for _ in 0..Knob::ALL.len() {
        harness.press("↑");
    }
    while harness.host.app.knobs.focus != knob {
        harness.press("↓");
    }
}

/// A screen with all answers, after which a knob is changed and no answer comes, is that of a planner that never had an
/// answer: but for the row of the knob itself, whose limits do not depend on its value.
#[test]
fn after_a_change_nothing_of_an_older_answer_is_shown() {
    let knobs = [Knob::Parallel, Knob::CacheType, Knob::FlashAttn, Knob::Batch, Knob::GpuLayers];
    for (tokens, gib) in [(49_152, 12), (8192, 24)] {
        for knob in knobs {
            let settings = Settings { ctx: Context::Tokens(tokens), ..Settings::default() };
            let machine = || harness::machine(1, "RTX 3060", gib, 64);
            let (size, engine) = ((140, 50), EngineId::Ollama024);
            let model = || harness::model("llama3.1-8b");
            let mut known = Harness::seen(engine, Some(model()), machine(), size, settings.clone(), Appearance::BEST);
            known.think();
            assert!(!known.text().contains(" …"), "everything is known\n{}", known.text());
            known.no_limits = true;
            go(&mut known, knob);
            known.press(if knob == Knob::GpuLayers { "←" } else { "→" });
            assert_ne!(known.host.app.settings, settings, "{knob:?} was changed");
            known.rest();
            go(&mut known, Knob::Context);
            let mut fresh = Harness::by(engine, model(), machine(), size, known.host.app.settings.clone());
            fresh.rest();
            go(&mut fresh, Knob::Context);
            let others = |harness: &Harness| -> Vec<String> {
                harness.text().lines().filter(|line| !line.contains(knob.title())).map(str::to_owned).collect()
            };
            assert!(known.text().contains('…'), "{}", known.text());
            assert_eq!(others(&known), others(&fresh), "{knob:?}");
            for page in ["s", "Tab Enter"] {
                known.press(page);
                assert!(!known.text().contains("Testing"), "pages are answered at once here\n{}", known.text());
                known.press("Esc");
            }
        }
    }
}

/// An answer to the planner's own question, such as that its search for thresholds has ended, ends no page's search.
#[test]
fn a_page_takes_no_answer_to_another_question() {
    let settings = Settings { ctx: Context::Tokens(49_152), ..Settings::default() };
    let machine = harness::machine(1, "RTX 3060", 12, 64);
    let mut harness =
        Harness::with(Some(harness::model("llama3.1-8b")), machine, (140, 50), settings, Appearance::BEST);
    let host = &mut harness.host;
    let asked = |effects: Vec<Effect>| -> Vec<u64> {
        effects
            .into_iter()
            .filter_map(|effect| if let Effect::Ask(query) = effect { Some(query.id) } else { None })
            .collect()
    };
    let mut ids = Vec::new();
    for open in [Command::Best, Command::Matrix, Command::Sweep] {
        for _ in 0..3 {
            drop(host.update(Action::Press(Command::Less)));
            ids.extend(asked(host.refresh()));
            let of_planner = *ids.last().unwrap();
            let of_page = asked(host.update(Action::Press(open)));
            assert_eq!(of_page.len(), 1);
            ids.extend(of_page);
            drop(host.update(Action::QueryAnswered { id: of_planner, part: QueryPart::End }));
            let best = host.showing::<BestPage>().map(|page| page.progress);
            let progress = best.or(host.showing::<MatrixPage>().map(|page| page.progress));
            let progress = progress.unwrap_or(AnswerState::Working);
            assert_eq!(progress, AnswerState::Working, "{open:?} still searches");
            drop(host.update(Action::Press(Command::Back)));
        }
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "no two questions have one id");
}
