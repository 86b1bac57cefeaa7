//! A log beside its plan: pasted, from a file, and taken over.

use std::fmt::Write;

use plimsoll::engine::EngineId;
use plimsoll::settings::{Context, Settings};
use plimsoll::tui::action::Action;

use crate::harness::{self, Harness};
use crate::observed::samples::samples;
use crate::screens::picture;

/// The text of a sample, with its command above it.
fn log(id: &str) -> String {
    let samples = samples();
    let sample = samples.iter().find(|sample| sample["id"] == id).unwrap();
    let (raw, command) = (sample["raw"].as_str().unwrap(), sample["command"].as_str().unwrap_or_default());
    let command = if command.starts_with("llama-server -") { command } else { "" };
    format!("{command}\n{raw}")
}

fn planner(size: (u16, u16)) -> Harness {
    let settings = Settings { ctx: Context::Tokens(16_384), ..Settings::default() };
    Harness::by(EngineId::default(), harness::model("llama3.1-8b"), harness::one_gpu(), size, settings)
}

fn pasted(size: (u16, u16), id: &str) -> Harness {
    let mut harness = planner(size);
    harness.press("v");
    harness.act(Action::Paste(log(id)));
    harness
}

#[test]
fn a_pasted_log_stands_beside_its_plan_at_three_sizes() {
    for size in [(60, 20), (80, 24), (140, 45)] {
        let mut harness = planner(size);
        harness.press("v");
        insta::assert_snapshot!(format!("verify-asks-{}x{}", size.0, size.1), harness.text());
        harness.act(Action::Paste(log("r26-058")));
        insta::assert_snapshot!(format!("verify-{}x{}", size.0, size.1), harness.text());
    }
    picture("verify", &mut pasted((140, 45), "r26-058"));
}

#[test]
fn a_terminal_that_pastes_carriage_returns_pastes_a_log_too() {
    let mut harness = planner((140, 45));
    harness.press("v");
    harness.event(&ratatui::crossterm::event::Event::Paste(log("r26-110").replace('\n', "\r")));
    assert!(harness.text().contains("✓ Agrees: 6 of 6 figures are the same"), "{}", harness.text());
}

#[test]
fn enter_explains_a_difference_and_takes_over_what_is_observed() {
    let mut harness = pasted((140, 45), "r26-110");
    assert!(harness.text().contains("✓ Agrees: 6 of 6 figures are the same"), "{}", harness.text());
    harness.press("↓ Enter");
    assert!(harness.text().contains("The same, as far as the log tells."), "{}", harness.text());
    harness.press("Home Enter");
    assert!(harness.host.screens.is_empty());
    let (app, gpu) = (&harness.host.app, &harness.host.app.request.machine.gpus[0]);
    assert_eq!((app.request.engine, app.request.settings.ctx), (EngineId::LlamaCpp, Context::Tokens(8192)));
    assert_eq!((gpu.name.as_str(), app.request.settings.ubatch), ("RTX 3090", Some(2048)));
    assert!(harness.text().contains("u undoes it"), "{}", harness.text());
    harness.assert_plan_is_current();
    harness.press("u");
    assert_eq!(harness.host.app.request.engine, EngineId::default());
}

#[test]
fn a_long_log_pasted_onto_the_planner_is_read() {
    let mut harness = planner((80, 24));
    let mut text = String::new();
    for number in 0..10_000 {
        let _ = writeln!(text, "slot update_slots: id 0 | task {number} | prompt processing progress");
    }
    text += &log("r26-110");
    harness.act(Action::Paste(text));
    assert!(harness.text().contains("Agrees"), "{}", harness.text());
    harness.press("Esc");
    assert!(harness.host.screens.is_empty());
}

#[test]
fn a_file_is_read_by_name_and_what_is_wrong_is_said() {
    let mut harness = planner((80, 24));
    harness.fakes.files.lock().unwrap().insert("server.log".to_owned(), log("r26-110"));
    harness.press("v");
    harness.write("nowhere.log");
    harness.press("Enter");
    assert!(harness.text().contains("'nowhere.log' is not there"), "{}", harness.text());
    harness.press("Enter");
    assert!(harness.text().contains("Nothing runs here"), "{}", harness.text());
    harness.write("server.log");
    harness.press("Enter");
    assert!(harness.text().contains("Agrees"), "{}", harness.text());
    harness.press("o");
    harness.write("example");
    harness.press("Enter");
    assert!(harness.text().contains("Agrees: 7 of 7"), "{}", harness.text());
    harness.press("o");
    harness.act(Action::Paste("a poem\nof two lines\n".to_owned()));
    assert!(harness.text().contains("Nothing here says"), "{}", harness.text());
}
