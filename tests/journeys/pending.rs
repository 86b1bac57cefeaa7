//! What is being computed is shown as such: no screen shows an answer to an older question.

use plimsoll::engine::EngineId;
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{Context, Settings};
use plimsoll::tui::action::{Action, Command};
use plimsoll::tui::app::AnswerState;
use plimsoll::tui::effect::{Effect, PlanJob};
use plimsoll::tui::pasted::Pasted;
use plimsoll::tui::query::QueryPart;
use plimsoll::tui::screens::best::BestPage;
use plimsoll::tui::screens::matrix::MatrixPage;
use plimsoll::tui::theme::Appearance;

use crate::harness::{self, Harness};

fn go(harness: &mut Harness, knob: Knob) {
    for _ in 0..Knob::ALL.len() {
        harness.press("↑");
    }
    while harness.host.app.panels.knobs.focus != knob {
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
            assert_ne!(known.host.app.request.settings, settings, "{knob:?} was changed");
            known.rest();
            go(&mut known, Knob::Context);
            let mut fresh = Harness::by(engine, model(), machine(), size, known.host.app.request.settings.clone());
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

/// While a plan is being made, keys are answered, and what is shown of the plan before is said to be none of now.
#[test]
fn a_plan_that_takes_long_is_pending() {
    let settings = Settings { ctx: Context::Tokens(49_152), ..Settings::default() };
    let machine = harness::machine(1, "RTX 3060", 12, 64);
    let mut harness =
        Harness::with(Some(harness::model("llama3.1-8b")), machine, (140, 50), settings, Appearance::BEST);
    let jobs = |effects: Vec<Effect>| -> Vec<PlanJob> {
        let job = |effect| if let Effect::Plan(job) = effect { Some(*job) } else { None };
        effects.into_iter().filter_map(job).collect()
    };
    let drawn = |harness: &mut Harness| {
        let host = &harness.host;
        harness.terminal.draw(|frame| host.draw(frame.buffer_mut())).unwrap();
        harness.text()
    };
    let before = harness.host.app.request.plan.clone();
    drop(harness.host.update(Action::Press(Command::Last)));
    let first = jobs(harness.host.begin_refresh());
    assert_eq!(first.len(), 1);
    assert!(jobs(harness.host.begin_refresh()).is_empty(), "it is asked for once");
    assert!(drawn(&mut harness).contains("… Planning"), "{}", harness.text());
    // another key meanwhile: the answer to the first is of no use any more, whenever it comes
    drop(harness.host.update(Action::Press(Command::Less)));
    let (first, early) = (first[0].answer(), first[0].answer());
    drop(harness.host.update(early));
    let second = jobs(harness.host.begin_refresh());
    drop(harness.host.update(first));
    assert_eq!(harness.host.app.request.plan, before);
    assert!(drawn(&mut harness).contains("… Planning"), "{}", harness.text());
    // history and pins say so too
    harness.host.update(Action::Press(Command::Compare));
    assert!(harness.host.app.pins[0].planned.is_none());
    drop(harness.host.update(second[0].answer()));
    let now = harness.host.app.request.plan_request().unwrap().plan().unwrap();
    assert_eq!(harness.host.app.request.plan.as_deref(), Some(&now));
    assert!(!drawn(&mut harness).contains("… Planning"), "{}", harness.text());
    harness.press("H");
    assert!(!harness.text().contains("Refused"), "{}", harness.text());
}

/// A long text is read beside the screen, and what comes of it is that of a short one.
#[test]
fn a_long_paste_is_read_beside_the_screen() {
    let command = "llama-server -m a.gguf -c 4096 ";
    let long = format!("{command}{}", "--metrics ".repeat(1000));
    let open = || {
        let machine = harness::machine(1, "RTX 3060", 12, 64);
        Harness::with(Some(harness::model("llama3.1-8b")), machine, (140, 50), Settings::default(), Appearance::BEST)
    };
    let mut short = open();
    short.act(Action::Paste(command.to_owned()));
    let mut harness = open();
    let effects = harness.host.update(Action::Paste(long));
    let [Effect::ReadPaste(text)] = effects.as_slice() else { panic!("{effects:?}") };
    assert!(harness.host.app.notice.as_deref().is_some_and(|notice| notice.starts_with("Reading")));
    harness.act(Action::PasteRead(Box::new(Pasted::of(text))));
    assert_eq!(harness.host.app.request.settings.ctx, short.host.app.request.settings.ctx);
    assert!(harness.host.app.notice.as_deref().is_none_or(|notice| !notice.starts_with("Reading")));
}
