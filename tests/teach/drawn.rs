//! Walks and lessons drawn without a terminal, frame by frame.

use plimsoll::catalogue;
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::settings::{Context, Settings};
use plimsoll::teach::Tab;
use plimsoll::teach::lessons::{self, LessonsPage};
use plimsoll::tui::picture::{animation, text};
use plimsoll::tui::screens::teach::{DrawnTeach, TeachScreen, TeachStart};
use plimsoll::tui::theme::{Appearance, Tone};

use crate::harness::{self, Harness};

fn request(model: &str) -> PlanRequest {
    let settings = Settings { ctx: Context::Tokens(16_384), ..Settings::default() };
    let machine = harness::machine(1, "RTX 3060", 12, 32);
    PlanRequest::new(EngineId::LlamaCpp, harness::model(model), machine, settings)
}

fn open(model: &str, start: TeachStart) -> DrawnTeach {
    DrawnTeach::open(request(model), &start, Appearance::BEST).unwrap()
}

/// A frame shows what the planner shows after as many presses of the arrow.
#[test]
fn frames_are_the_steps_that_keys_take() {
    for model in ["llama3.1-8b", "gpt-oss-20b", "gemma3-4b"] {
        for page in [Tab::Layers, Tab::Schedule, Tab::Caches] {
            let drawn = open(model, TeachStart { page, lesson: None, step: None });
            let last = drawn.last_step().unwrap();
            let mut drawn = drawn;
            let frames = drawn.frames();
            assert_eq!(frames.len() as u64, last.min(64) + 1, "{model}, {page:?}");
            let PlanRequest { engine, opened, machine, settings, .. } = request(model);
            let mut planner = Harness::by(engine, opened, (*machine).clone(), (120, 36), settings);
            planner.press("t");
            while planner.showing::<TeachScreen>().tab != page {
                planner.press("Tab");
            }
            let mut step = 0;
            for (at, frame) in frames.iter().enumerate() {
                while step < at as u64 * last / (frames.len() as u64 - 1) {
                    planner.press("→");
                    step += 1;
                }
                // without the header, which has a plan's changes, and the footer
                let body = |all: &str| {
                    all.lines().skip(1).take(33).map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
                };
                assert_eq!(body(&text(&frame.buffer)), body(&planner.text()), "{model}, {page:?}, step {step}");
            }
        }
    }
}

#[test]
fn long_walks_show_their_first_step_and_their_last_in_few_frames() {
    let mut drawn = open("llama3.1-8b", TeachStart { page: Tab::Allocation, lesson: None, step: None });
    let last = drawn.last_step().unwrap();
    assert!(last > 500, "{last}");
    let frames = drawn.frames();
    assert_eq!(frames.len(), 65);
    for (frame, step) in [(frames.first(), 0), (frames.last(), last)] {
        let start = TeachStart { page: Tab::Allocation, lesson: None, step: Some(step as usize + 1) };
        assert_eq!(frame.unwrap().buffer, open("llama3.1-8b", start).drawn(), "step {step}");
    }
    let picture = animation::svg(&frames, 0, Tone::Dark, "a walk");
    assert!(picture.len() < 1_000_000, "{} bytes", picture.len());
}

/// Each idea of every lesson has a frame, and the answer is not before the last.
#[test]
fn lessons_end_with_their_answers() {
    let request = request("llama3.1-8b");
    for (at, lesson) in lessons::all().iter().enumerate() {
        let frames = open("llama3.1-8b", TeachStart { page: Tab::Lessons, lesson: Some(at + 1), step: None }).frames();
        let shown = LessonsPage::of(at, &request, &catalogue::model_and_projector).unwrap();
        assert_eq!(frames.len(), shown.ideas().len(), "{}", lesson.id);
        let texts: Vec<String> = frames.iter().map(|frame| text(&frame.buffer)).collect();
        assert!(texts[0].contains("Question:"), "{}: {}", lesson.id, texts[0]);
        for (idea, drawn) in texts.iter().enumerate() {
            assert_eq!(drawn.contains("Answer:"), idea + 1 == texts.len(), "{}: {drawn}", lesson.id);
            assert!(!drawn.contains('…'), "{}: an idea is cut:\n{drawn}", lesson.id);
        }
    }
}

#[test]
fn pages_without_steps_have_no_frames() {
    for page in [Tab::Formulas, Tab::Glossary] {
        let mut drawn = open("llama3.1-8b", TeachStart { page, lesson: None, step: None });
        assert!(drawn.frames().is_empty() && drawn.last_step().is_none(), "{page:?}");
    }
}
