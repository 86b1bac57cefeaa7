//! Applying the open plan, and watching what runs.

use std::sync::Arc;

use plimsoll::answer::check;
use plimsoll::answer::live::RunningPlan;
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::library::check::Checked;
use plimsoll::observed::Load;
use plimsoll::running::apply::Failure;
use plimsoll::settings::{Context, Release, Settings};
use plimsoll::tui::effect::{ApplyPreview, Followed};
use plimsoll::tui::screens::apply::ApplyPage;
use plimsoll::tui::screens::check::CheckPage;

use crate::harness::{self, Harness};

fn planner() -> Harness {
    let settings = Settings { ctx: Context::Tokens(2048), ..Settings::default() };
    let machine = harness::machine(0, "card", 0, 24);
    Harness::by(EngineId::LlamaCpp, harness::model("qwen3-0.6b"), machine, (140, 60), settings)
}

fn preview() -> ApplyPreview {
    ApplyPreview {
        what: "llama-server is started: llama-server -m qwen3-0.6b.gguf -c 4096".to_owned(),
        unloads: vec!["mistral:7b is unloaded for it: there is no room".to_owned()],
        notes: Vec::new(),
    }
}

/// A load beside the open plan, in which nothing could be compared.
fn checked(harness: &Harness) -> Checked {
    let request = harness.host.app.request.plan_request().unwrap();
    Checked {
        load: (1, 1),
        about: "Qwen3 0.6B, loaded by llama-server".to_owned(),
        check: check::beside(&Load::default(), &request).unwrap(),
        also: vec!["the driver says nothing".to_owned()],
        server: Some("llama-server (process 7) runs at http://127.0.0.1:8080".to_owned()),
    }
}

#[test]
fn a_plan_is_applied_after_one_question_and_shown_beside_what_came_of_it() {
    let mut harness = planner();
    harness.fakes.applies = Some((preview(), Ok(checked(&harness))));
    harness.press("a");
    let asked = harness.text();
    assert!(asked.contains("Mistral:7b is unloaded") && asked.contains("Enter goes on"), "{asked}");
    harness.press("Enter");
    harness.showing::<CheckPage>();
    let shown = harness.text();
    assert!(shown.contains("The driver says nothing") && shown.contains("It ends with the planner"), "{shown}");
    harness.press("s");
    assert_eq!(*harness.fakes.kept.lock().unwrap(), [true]);
}

#[test]
fn without_an_answer_nothing_happens() {
    let mut harness = planner();
    // an answer would be a panic
    harness.fakes.applies = Some((preview(), Err(Failure { sentence: "no".to_owned(), advice: Vec::new() })));
    harness.press("a Esc");
    assert!(harness.host.screens.is_empty());
    harness.fakes.applies = None;
    harness.press("a");
    assert!(harness.text().contains("No server is here: start one."), "{}", harness.text());
    harness.press("Enter");
    assert!(harness.host.screens.is_empty());
}

#[test]
fn a_failure_leaves_the_planner_with_its_words_and_advice() {
    let mut harness = planner();
    let failure = Failure {
        sentence: "llama-server ended (exit status: 1): failed to allocate buffer".to_owned(),
        advice: vec!["context 2048 (--ctx 2048) would help".to_owned()],
    };
    harness.fakes.applies = Some((preview(), Err(failure)));
    harness.press("a Enter");
    let shown = harness.text();
    assert!(shown.contains("failed to allocate buffer") && shown.contains("would help"), "{shown}");
    harness.press("Esc");
    harness.assert_plan_is_current();
}

#[test]
fn a_load_under_way_is_stopped_by_esc() {
    let mut harness = planner();
    harness.fakes.applies = Some((preview(), Ok(checked(&harness))));
    harness.slow_loads = true;
    harness.press("a Enter");
    assert!(harness.text().contains("Loading for 3 s"), "{}", harness.text());
    harness.press("Esc");
    harness.showing::<ApplyPage>();
    assert!(harness.text().contains("Stopped."), "{}", harness.text());
    harness.press("Esc");
    assert!(harness.host.screens.is_empty());
}

#[test]
fn what_runs_is_followed_and_a_restart_previewed_with_the_knobs() {
    let mut harness = planner();
    let samples = crate::running::live::recording();
    let machine = plimsoll::running::plans::machine(&samples[0]);
    let settings =
        Settings { ctx: Context::Tokens(4096), release: Some(Release::September2026), ..Settings::default() };
    let model = crate::fixtures::model("qwen3-0.6b");
    let running = RunningPlan::of(PlanRequest::new(EngineId::LlamaCpp, model, machine, settings)).unwrap();
    let plans = vec![Some(Ok(Arc::new(running)))];
    harness.fakes.follows = samples.into_iter().map(|sample| Followed { sample, plans: plans.clone() }).collect();
    harness.press("V");
    assert_eq!(harness.followed, [true]);
    let before = harness.text();
    assert!(before.contains("4 slots of 4") && before.contains("first prompt"), "{before}");
    // the open plan has half of the context
    assert!(before.contains("less, which would be free"), "{before}");
    harness.press(".");
    let after = harness.text();
    let restarted = |text: &str| {
        let line = text.lines().find(|line| line.contains(" MiB less") || line.contains("the same"));
        line.and_then(|line| line.split('│').find(|part| part.contains("MiB")).map(str::to_owned))
    };
    assert_ne!(restarted(&before), restarted(&after), "{after}");
    harness.press("u");
    assert_eq!(restarted(&before), restarted(&harness.text()));
    harness.press("Esc");
    assert_eq!(harness.followed, [true, false]);
    assert!(harness.host.screens.is_empty());
}

#[test]
fn nothing_runs() {
    let mut harness = planner();
    let sample = plimsoll::observed::sample::Sample::default();
    harness.fakes.follows = vec![Followed { sample, plans: Vec::new() }];
    harness.press("V");
    assert!(harness.text().contains("No program that serves models runs here"), "{}", harness.text());
}
