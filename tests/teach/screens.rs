//! Every page at three sizes, with and without colour.

use plimsoll::catalogue;
use plimsoll::engine::{EngineId, PlanRequest, PreparedModel};
use plimsoll::settings::{Context, Settings};
use plimsoll::teach::lessons::LessonsPage;
use plimsoll::teach::{Tab, lessons};
use plimsoll::tui::action::{Action, Gesture};
use plimsoll::tui::screens::teach::TeachScreen;
use plimsoll::tui::theme::{Appearance, Tone};
use rstest::rstest;

use crate::harness::{self, Harness};
use crate::screens::picture;

/// A model that only fits in part, planned by llama.cpp, with the teach screen open.
fn open(size: (u16, u16), tone: Tone, page: Tab, keys: &str) -> Harness {
    let machine = harness::machine(1, "RTX 3060", 12, 32);
    let settings = Settings { ctx: Context::Tokens(24_576), ..Settings::default() };
    let look = Appearance { tone, ..Appearance::BEST };
    let model = Some(harness::model("llama3.1-8b"));
    let harness = Harness::seen(EngineId::LlamaCpp, model, machine, size, settings, look);
    on(harness, page, keys)
}

/// The teach screen open on `page`.
fn on(mut harness: Harness, page: Tab, keys: &str) -> Harness {
    harness.press("t");
    while harness.showing::<TeachScreen>().tab != page {
        harness.press("Tab");
    }
    harness.press(keys);
    harness
}

/// A model that only fits in part, planned by Ollama's estimator.
fn estimated(model: &str, size: (u16, u16), tone: Tone, page: Tab, keys: &str) -> Harness {
    let machine = harness::machine(1, "RTX 3060", 12, 32);
    let settings = Settings { ctx: Context::Tokens(24_576), parallel: Some(2), ..Settings::default() };
    let look = Appearance { tone, ..Appearance::BEST };
    on(Harness::with(Some(harness::model(model)), machine, size, settings, look), page, keys)
}

#[rstest]
#[case::formulas("formulas", "llama3.1-8b", Tab::Formulas, "↓ ↓ ↓ ↓ ↓ ↓ ↓ ↓")]
#[case::letters("formulas-letters", "llama3.1-8b", Tab::Formulas, "↓ → ↓ ↓ ↓ ↓ → → → c")]
#[case::caches("caches", "llama3.1-8b", Tab::Caches, "PgDn PgDn → →")]
#[case::windows("caches-windows", "gemma3-4b", Tab::Caches, "PgDn PgDn PgDn PgDn ↓")]
#[case::state("caches-state", "qwen3-coder-next", Tab::Caches, "PgDn")]
#[case::only_states("caches-only-states", "mamba-2.8b", Tab::Caches, "PgDn")]
#[case::lesson("lessons", "llama3.1-8b", Tab::Lessons, "↓")]
#[case::answer("lessons-answer", "llama3.1-8b", Tab::Lessons, "↓ a PgDn")]
fn estimated_pages_at_three_sizes(#[case] name: &str, #[case] model: &str, #[case] page: Tab, #[case] keys: &str) {
    for size in [(60, 20), (80, 24), (140, 45)] {
        let (columns, rows) = size;
        let colour = estimated(model, size, Tone::Dark, page, keys);
        insta::assert_snapshot!(format!("{name}-{columns}x{rows}"), colour.text());
        insta::assert_snapshot!(format!("{name}-{columns}x{rows}-colours"), colour.colours());
        let mono = estimated(model, size, Tone::Mono, page, keys);
        insta::assert_snapshot!(format!("{name}-{columns}x{rows}-mono"), mono.text());
    }
}

#[test]
fn the_formulas_and_the_caches_as_pictures() {
    let size = (140, 45);
    picture("formulas", &mut estimated("llama3.1-8b", size, Tone::Dark, Tab::Formulas, "↓ ↓ ↓ ↓ ↓ → ↓ ↓ ↓ ↓ ↓ ↓"));
    picture("caches", &mut estimated("gemma3-4b", size, Tone::Dark, Tab::Caches, "PgDn PgDn PgDn PgDn"));
    picture("lessons", &mut estimated("llama3.1-8b", size, Tone::Dark, Tab::Lessons, "↓ ↓ ↓ a"));
}

#[test]
fn knobs_change_the_formulas() {
    let mut harness = estimated("llama3.1-8b", (140, 45), Tone::Dark, Tab::Formulas, "");
    let before = harness.text();
    harness.press(".");
    assert_ne!(harness.text(), before);
    harness.press("u");
    harness.rest();
    assert_eq!(harness.text(), before);
}

#[test]
fn cells_fill_automatically_until_paused() {
    let mut harness = estimated("llama3.1-8b", (80, 24), Tone::Dark, Tab::Caches, "");
    let steps = |harness: &Harness| harness.showing::<TeachScreen>().cursors.caches.steps;
    harness.press("Space");
    assert_eq!((harness.ticks, steps(&harness)), (1, 0));
    let first = harness.last_tick;
    for _ in 0..3 {
        let id = harness.last_tick;
        harness.act(Action::Tick { id });
    }
    assert_eq!((harness.ticks, steps(&harness)), (4, 3));
    // outdated ticks, and ticks while paused, change nothing
    harness.act(Action::Tick { id: first });
    harness.press("Space");
    let id = harness.last_tick;
    harness.act(Action::Tick { id });
    assert_eq!((harness.ticks, steps(&harness)), (4, 3));
    harness.press("←");
    assert_eq!(steps(&harness), 2);
}

/// Every page with steps plays them to its end, and then pauses; a key plays them faster.
#[rstest]
fn walks_play_to_their_end(#[values(Tab::Schedule, Tab::Layers, Tab::Allocation)] page: Tab) {
    let mut harness = open((140, 45), Tone::Dark, page, "Home Space ]");
    assert!(harness.text().contains("playing 2×"), "{}", harness.text());
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..2000 {
        seen.insert(harness.text());
        let (id, ticks) = (harness.last_tick, harness.ticks);
        harness.act(Action::Tick { id });
        if harness.ticks == ticks {
            break;
        }
    }
    assert!(harness.text().contains("paused 2×"), "{}", harness.text());
    assert!(seen.len() > 5, "{page:?}: {} pictures", seen.len());
    harness.press("Space");
    assert!(harness.text().contains("playing"), "it begins anew");
    harness.press("Tab");
    assert!(!harness.text().contains("playing"), "another page does not play");
}

/// The screen goes on where it was left, and at what fits the selection if that has changed.
#[test]
fn the_screen_goes_on_where_it_was() {
    let mut harness = open((140, 45), Tone::Dark, Tab::Allocation, "Home → → → z b");
    let before = harness.text();
    harness.press("Esc b Esc t");
    assert_eq!(harness.text(), before);
    // the next knob
    harness.press("Esc ↓ t");
    let lesson = lessons::on_knob(harness.host.app.panels.knobs.focus).unwrap();
    let teach: &TeachScreen = harness.showing();
    assert_eq!((teach.tab, teach.cursors.lessons.at), (Tab::Allocation, lesson));
}

/// Where a number comes from offers the lesson on it, a layer its place in the walk, a tensor its term.
#[test]
fn a_number_leads_to_its_lesson() {
    let mut harness = open((140, 45), Tone::Dark, Tab::Formulas, "Esc ↓ i t");
    let lesson = lessons::on_knob(harness.host.app.panels.knobs.focus).unwrap();
    let teach: &TeachScreen = harness.showing();
    assert_eq!((teach.tab, teach.cursors.lessons.at), (Tab::Lessons, lesson));
    harness.press("Esc Tab End i t");
    assert!(harness.text().contains("▸Layers") && harness.text().contains("output layer: "), "{}", harness.text());
    // a term leads to its lesson too
    harness.press("Tab Tab Tab Tab Tab Home ↓ ↓ ↓ ↓");
    assert!(harness.text().contains("▸ parallel"), "{}", harness.text());
    harness.press("Enter");
    let teach: &TeachScreen = harness.showing();
    assert_eq!(Some(teach.cursors.lessons.at), lessons::on_knob(plimsoll::settings::knob::Knob::Parallel));
    // and the knobs of a lesson are those that it is about
    harness.press("v");
    assert_eq!(harness.host.app.panels.knobs.focus, plimsoll::settings::knob::Knob::Parallel);
}

#[test]
fn a_lesson_is_applied_and_given_back() {
    let mut harness = estimated("llama3.1-8b", (140, 45), Tone::Dark, Tab::Lessons, "");
    let now = |harness: &Harness| {
        let app = &harness.host.app;
        (
            app.request.engine,
            app.request.settings.clone(),
            app.request.model.as_ref().unwrap().name.clone(),
            app.request.machine.clone(),
        )
    };
    let before = now(&harness);
    for lesson in 0..lessons::all().len() {
        harness.press("a");
        let teach: &TeachScreen = harness.showing();
        assert_eq!(teach.cursors.lessons.at, lesson);
        assert_ne!(now(&harness), before, "lesson {lesson}");
        assert!(
            harness.host.app.request.plan.is_some() && harness.host.app.request.refused.is_none(),
            "lesson {lesson}"
        );
        assert!(harness.text().contains("Answer:"), "{}", harness.text());
        match lesson % 3 {
            // leaving it gives the plan back, whatever was changed since
            0 => harness.press("."),
            1 => harness.press("u"),
            _ => harness.press("Enter"),
        }
        harness.press("↓");
        harness.rest();
        assert_eq!(now(&harness), before, "lesson {lesson}");
    }
    harness.press("Home a Tab");
    assert_ne!(now(&harness), before, "other pages show the lesson's plan");
    harness.press("Esc");
    assert_eq!(now(&harness), before);
    harness.press("U");
    assert_ne!(now(&harness), before, "the lesson's plan can be had again");
}

/// The screen on the lesson with this identifier.
fn lesson(id: &str, size: (u16, u16)) -> Harness {
    let mut harness = estimated("llama3.1-8b", size, Tone::Dark, Tab::Lessons, "");
    let at = lessons::all().iter().position(|lesson| lesson.id == id).unwrap();
    for _ in 0..at {
        harness.press("↓");
    }
    harness
}

#[rstest]
fn a_guess_is_taken_and_judged(#[values((80, 24), (140, 45))] size: (u16, u16)) {
    let mut harness = lesson("context", size);
    assert!(harness.text().contains("Question:") && !harness.text().contains("Answer:"), "{}", harness.text());
    harness.press("Enter");
    harness.write("8");
    harness.press("Enter");
    assert!(harness.text().contains("1.5 GiB"), "a number alone is none: {}", harness.text());
    harness.write(" GiB");
    harness.press("Enter");
    let text = harness.text();
    assert!(text.contains("You guessed 8.0 GiB: it is") && text.contains("Answer:"), "{text}");
    // of several answers, and of layers, one is clicked
    let mut harness = lesson("disk", size);
    click(&mut harness, "it cannot be loaded");
    assert!(harness.text().contains("You chose “it cannot be loaded”: no"), "{}", harness.text());
    let mut harness = lesson("placement", size);
    let (x, y) = place(&harness, "█████");
    harness.mouse(Gesture::Down, x + 3, y);
    assert!(harness.text().contains("You guessed layer 3: it is layer"), "{}", harness.text());
    // Esc leaves the field, not the screen
    let mut harness = lesson("disk", size);
    harness.press("Enter Esc");
    assert!(harness.text().contains("Question:"), "{}", harness.text());
}

/// At 80×24 every line of every lesson comes into view, and what is not in view is announced.
#[test]
fn all_of_a_lesson_can_be_read_by_scrolling() {
    let mut harness = estimated("llama3.1-8b", (80, 24), Tone::Dark, Tab::Lessons, "");
    for at in 0..lessons::all().len() {
        for answered in [false, true] {
            harness.press(if answered { "a" } else { "" });
            let mut seen = harness.text();
            while harness.text().contains("PgDn") {
                harness.press("PgDn");
                seen.push_str(&harness.text());
            }
            let words: String = seen.split_whitespace().collect();
            let page = LessonsPage::of(at, &estimated_request(), &catalogue::model_and_projector).unwrap().lesson;
            let mut texts = vec![page.question];
            if answered {
                texts.extend(page.bars.into_iter().map(|bar| bar.label));
                texts.push(page.answer);
                texts.push(page.look);
            }
            for word in texts.iter().flat_map(|text| text.split_whitespace()) {
                assert!(words.contains(word), "lesson {at} cuts «{word}»:\n{seen}");
            }
        }
        harness.press("↓");
    }
}

fn estimated_request() -> PlanRequest {
    let settings = Settings { ctx: Context::Tokens(24_576), parallel: Some(2), ..Settings::default() };
    let model: PreparedModel = harness::model("llama3.1-8b").into();
    PlanRequest::new(EngineId::default(), model, harness::machine(1, "RTX 3060", 12, 32), settings)
}

#[test]
fn lines_and_lessons_can_be_clicked() {
    let mut harness = estimated("llama3.1-8b", (140, 45), Tone::Dark, Tab::Formulas, "");
    let before = harness.text();
    harness.mouse(Gesture::Down, 10, 5);
    harness.mouse(Gesture::Down, 10, 5);
    assert_ne!(harness.text(), before, "the weights are open");
    let mut harness = estimated("llama3.1-8b", (140, 45), Tone::Dark, Tab::Lessons, "");
    harness.mouse(Gesture::Down, 10, 6);
    let third = format!("3 of {}", lessons::all().len());
    assert!(harness.text().contains(&third), "{}", harness.text());
}

/// The position of `text` on the screen.
fn place(harness: &Harness, text: &str) -> (u16, u16) {
    let screen = harness.text();
    let mut lines = (0..).zip(screen.lines());
    let found = lines.find_map(|(y, line)| Some((line[..line.find(text)?].chars().count() as u16, y)));
    found.unwrap_or_else(|| panic!("{text} is not on the screen:\n{screen}"))
}

fn click(harness: &mut Harness, text: &str) {
    let (x, y) = place(harness, text);
    harness.mouse(Gesture::Down, x, y);
}

#[rstest]
fn what_can_be_selected_can_be_clicked(#[values((80, 24), (140, 45))] size: (u16, u16)) {
    let mut harness = open(size, Tone::Dark, Tab::Schedule, "z");
    click(&mut harness, "block 2");
    place(&harness, "▸block 2");
    harness.press("Enter");
    click(&mut harness, "Qcur-2");
    assert_eq!(place(&harness, "│▸").1, place(&harness, "Qcur-2").1);
    let mut harness = open(size, Tone::Dark, Tab::Allocation, "");
    click(&mut harness, "CPU 56 MiB");
    place(&harness, "▸ CPU 56 MiB");
    place(&harness, "▸CPU ─");
    let mut harness = estimated("llama3.1-8b", size, Tone::Dark, Tab::Formulas, "");
    click(&mut harness, "▶ caches");
    place(&harness, "▸caches ─");
    let mut harness = estimated("llama3.1-8b", size, Tone::Dark, Tab::Schedule, "");
    click(&mut harness, "Lessons");
    place(&harness, "▸Lessons");
    click(&mut harness, "parallel 2");
    place(&harness, "▸parallel 2");
}

#[test]
fn steps_and_kinds_of_blocks_can_be_clicked_where_all_fit() {
    let mut harness = open((140, 45), Tone::Dark, Tab::Schedule, "");
    click(&mut harness, "2 gpu up");
    place(&harness, "▸2 gpu up");
    let mut harness = open((80, 24), Tone::Dark, Tab::Schedule, "→ →");
    harness.mouse(Gesture::Down, 2, 3);
    place(&harness, "▸2 gpu down");
    let mut harness = estimated("gemma3-4b", (140, 45), Tone::Dark, Tab::Caches, "");
    place(&harness, "▸29 blocks");
    click(&mut harness, "5 blocks");
    place(&harness, "▸5 blocks");
}

#[rstest]
#[case::schedule(Tab::Schedule, "▸blocks 0–32")]
#[case::layers(Tab::Layers, "▸ ■")]
#[case::allocation(Tab::Allocation, "▸ CPU")]
#[case::formulas(Tab::Formulas, "▸weights ─")]
#[case::caches(Tab::Caches, "▸5 blocks")]
fn the_wheel_moves_on_every_page(#[case] page: Tab, #[case] selected: &str) {
    let machine = harness::machine(1, "RTX 3060", 12, 32);
    for size in [(80, 24), (140, 45)] {
        let model = Some(harness::model("gemma3-4b"));
        let seen =
            Harness::seen(EngineId::LlamaCpp, model, machine.clone(), size, Settings::default(), Appearance::BEST);
        let mut harness = on(seen, page, "Home");
        harness.mouse(Gesture::WheelDown, 10, 12);
        place(&harness, selected);
        harness.mouse(Gesture::WheelUp, 10, 12);
        assert!(!harness.text().contains(selected), "{}", harness.text());
    }
}

#[test]
fn the_wheel_reads_a_lesson_and_chooses_among_them() {
    let mut harness = estimated("llama3.1-8b", (120, 24), Tone::Dark, Tab::Lessons, "a");
    let lesson = |harness: &Harness| {
        let teach: &TeachScreen = harness.showing();
        (teach.cursors.lessons.at, teach.cursors.lessons.scroll)
    };
    harness.mouse(Gesture::WheelDown, 100, 10);
    assert!(matches!(lesson(&harness), (0, 1..)), "{:?}", lesson(&harness));
    harness.mouse(Gesture::WheelUp, 100, 10);
    assert_eq!(lesson(&harness), (0, 0));
    harness.mouse(Gesture::WheelDown, 10, 10);
    assert_eq!(lesson(&harness), (1, 0));
}

#[rstest]
#[case::allocated("formulas-allocated", Tab::Formulas, "↓ → ↓ ↓")]
#[case::schedule("schedule", Tab::Schedule, "→ →")]
#[case::splits("schedule-splits", Tab::Schedule, "→ → → → → → → →")]
#[case::block("schedule-block", Tab::Schedule, "→ ↓ ↓ Enter ↓ ↓ ↓")]
#[case::taken_away("schedule-taken-away", Tab::Schedule, "x → → → → → → → → ↓ ↓")]
#[case::unfolded("schedule-unfolded", Tab::Schedule, "z b → → → → → → → → ↓ ↓")]
#[case::layers("layers", Tab::Layers, "→ → → → → →")]
#[case::glossary("glossary", Tab::Glossary, "PgDn PgDn PgDn ↓ ↓")]
#[case::folded("allocation-folded", Tab::Allocation, "z")]
#[case::one_block("allocation-block", Tab::Allocation, "z z b → →")]
#[case::allocation("allocation", Tab::Allocation, "")]
#[case::beside("allocation-beside", Tab::Allocation, "c → →")]
#[case::ram("allocation-ram", Tab::Allocation, "↓ Home PgDn PgDn PgDn")]
#[case::help("teach-help", Tab::Allocation, "?")]
fn pages_at_three_sizes(#[case] name: &str, #[case] page: Tab, #[case] keys: &str) {
    for size in [(60, 20), (80, 24), (140, 45)] {
        let (columns, rows) = size;
        let colour = open(size, Tone::Dark, page, keys);
        insta::assert_snapshot!(format!("{name}-{columns}x{rows}"), colour.text());
        insta::assert_snapshot!(format!("{name}-{columns}x{rows}-colours"), colour.colours());
        let mono = open(size, Tone::Mono, page, keys);
        insta::assert_snapshot!(format!("{name}-{columns}x{rows}-mono"), mono.text());
    }
}

#[test]
fn the_timeline_as_a_picture() {
    picture("allocation", &mut open((140, 45), Tone::Dark, Tab::Allocation, "c"));
}

#[test]
fn the_passes_as_a_picture() {
    picture("schedule", &mut open((140, 45), Tone::Dark, Tab::Schedule, "→ ↓ ↓ x"));
}

#[test]
fn a_page_follows_the_knobs_and_the_mouse() {
    let mut harness = open((140, 45), Tone::Dark, Tab::Allocation, "");
    let before = harness.text();
    harness.press(".");
    assert_ne!(harness.text(), before, "more context needs larger masks");
    harness.press(",");
    harness.rest();
    assert_eq!(harness.text(), before);
    harness.mouse(Gesture::Down, 70, 12);
    assert!(!harness.text().contains("Step 1 of"));
    assert_ne!(harness.text(), before, "the moment under the mouse is shown");
    harness.press("Esc");
    assert!(harness.text().contains("Verdict"), "Esc leads back to the planner");
}

/// Presented, a lesson is alone on the screen: its question first, one sentence after the other, its answer last.
#[test]
fn a_lesson_is_presented_idea_by_idea() {
    for size in [(60, 20), (80, 24), (140, 45)] {
        let mut harness = estimated("llama3.1-8b", size, Tone::Dark, Tab::Lessons, "0 P");
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let request = harness.host.app.request.plan_request().unwrap();
        let at = harness.showing::<TeachScreen>().cursors.lessons.at;
        let page = LessonsPage::of(at, &request, &catalogue::model_and_projector).unwrap();
        let screen = |harness: &Harness| squeezed(&harness.text());
        assert!(
            !screen(&harness).contains("Esc back") && !screen(&harness).contains("plimsoll"),
            "no header, no footer"
        );
        assert!(screen(&harness).contains(&squeezed(&page.lesson.question)), "{}", harness.text());
        for sentence in page.lesson.text.iter().flatten() {
            harness.press("→");
            assert!(screen(&harness).contains(&squeezed(&sentence.text)), "{}\n{}", sentence.text, harness.text());
            assert!(!screen(&harness).contains(&squeezed(&page.lesson.question)), "one idea");
        }
        harness.press("n");
        assert!(screen(&harness).contains("Try it: "), "{}", harness.text());
        harness.press("n End");
        assert!(screen(&harness).contains(&squeezed(&page.lesson.answer)), "{}", harness.text());
        assert!(!screen(&harness).contains("Try it: "));
        harness.press("↓");
        assert_eq!(harness.showing::<TeachScreen>().cursors.lessons.at, at + 1);
        assert!(screen(&harness).contains("Question: ") && screen(&harness).contains("1 of "), "{}", harness.text());
        harness.press("Esc");
        assert!(screen(&harness).contains("Esc back"), "{}", harness.text());
        assert_eq!(harness.showing::<TeachScreen>().tab, Tab::Lessons);
    }
}
