//! The planner in lines: every change is answered by one line that says the verdict of the plan that it makes.

use plimsoll::answer::verdict;
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::machine::Machine;
use plimsoll::settings::{CacheType, Context, Settings};
use plimsoll::text::one_line;
use plimsoll::tui::app::App;
use plimsoll::tui::plain;
use plimsoll::tui::regions::MIN_SCREEN;
use plimsoll::tui::theme::{Appearance, Theme};
use proptest::prelude::*;
use proptest::sample::select;

use crate::fixtures;
use crate::harness;

/// What is answered to `lines`, after the three lines of the beginning.
fn answers(engine: EngineId, model: &str, machine: Machine, lines: &str) -> Vec<String> {
    let request = PlanRequest::new(engine, fixtures::model(model), machine, Settings::default());
    let app = App::on(request, Theme::new(Appearance::BEST), MIN_SCREEN);
    let mut out = Vec::new();
    plain::run(app, lines.as_bytes(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines().skip(3).map(str::to_owned).collect()
}

#[test]
fn changes_are_answered_by_the_verdict_of_their_plan() {
    for engine in [EngineId::LlamaCpp, EngineId::Ollama024] {
        for model in ["llama3.1-8b", "gpt-oss-20b", "mamba-2.8b"] {
            for machine in
                [harness::machine(1, "RTX 3060", 12, 32), harness::machine(2, "RTX 3090", 24, 64), fixtures::cards(&[])]
            {
                let said = answers(engine, model, machine.clone(), "context 8192\nparallel 2\nundo\nquit\nknobs\n");
                assert_eq!(said.len(), 3, "one line each, and none after the end: {said:#?}");
                let plan = |parallel| {
                    let settings = Settings { ctx: Context::Tokens(8192), parallel, ..Settings::default() };
                    PlanRequest::new(engine, fixtures::model(model), machine.clone(), settings).plan()
                };
                for (line, parallel) in said.iter().zip([None, Some(2), None]) {
                    let headline = match plan(parallel) {
                        Ok(plan) => verdict::headline(&plan).replace('\u{2009}', ""),
                        Err(_) => "no plan".to_owned(),
                    };
                    assert!(line.contains(&headline), "{engine}, {model}: {line}\n{headline}");
                    assert!(!line.contains(['\u{2009}', '·', '≥', '≤']), "{line}");
                }
            }
        }
    }
}

#[test]
fn memory_moves_as_the_plans_say() {
    let machine = harness::machine(1, "RTX 3090", 24, 64);
    let said =
        answers(EngineId::LlamaCpp, "llama3.1-8b", machine.clone(), "context 16384\ncache-type-k\nkv cache q8_0\n");
    let plan = |ty| {
        let settings =
            Settings { ctx: Context::Tokens(16_384), cache_type_k: ty, cache_type_v: ty, ..Settings::default() };
        PlanRequest::new(EngineId::LlamaCpp, fixtures::model("llama3.1-8b"), machine.clone(), settings).plan().unwrap()
    };
    let taken = |ty| {
        let device = &plan(ty).devices[0];
        device.weights + device.cache + device.graph
    };
    let less = taken(None) - taken(Some(CacheType::Q8_0));
    assert!(said[2].contains(&format!("GPU0 takes {less} less.")), "{said:#?}");
}

#[test]
fn what_is_not_understood_says_what_is() {
    let ask = |line: &str| answers(EngineId::Ollama, "llama3.1-8b", harness::one_gpu(), line).join("\n");
    assert!(ask("frobnicate").contains("'knobs' says the knobs"));
    assert!(ask("context lots").contains("'lots' is not a number"));
    assert!(ask("undo").contains("Nothing to undo."));
    assert!(ask("context").contains("context: ") && ask("context").contains("all in VRAM up to"));
    assert_eq!(ask("most context"), ask("MOST CONTEXT"));
    assert!(ask("help").lines().count() > 5 && ask("memory").contains("GPU0 RTX 3090: weights"));
}

proptest! {
    /// Whatever is typed, every line is answered, and nothing panics.
    #[test]
    fn any_lines_are_answered(words in proptest::collection::vec(select(vec![
        "context", "kv cache", "parallel", "most", "undo", "redo", "auto", "q8_0", "0", "999999999999999999999", "32k", "=", "knobs",
        "memory", "flash attn", "on", "batch", "-1", "GPU layers", "\u{202e}", "\u{1b}[2J", "weights", "Q2_K",
    ]), 1..12)) {
        let lines: String = words.chunks(2).map(|pair| pair.join(" ") + "\n").collect();
        let said = answers(EngineId::Ollama, "llama3.2-1b", harness::one_gpu(), &lines);
        // nothing is left of a line of marks of direction
        let asked = lines.lines().filter(|line| !one_line(line).trim().is_empty()).count();
        prop_assert!(said.len() >= asked, "{}: {:?}", lines, said);
        prop_assert!(said.iter().all(|line| !line.contains(['\u{1b}', '\u{202e}'])), "{:?}", said);
    }
}
