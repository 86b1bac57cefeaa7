//! The glossary has every term that pages use, once, and what it says of the plan is the plan's.

use std::collections::BTreeSet;

use plimsoll::engine::{EngineId, PlanRequest, PreparedModel};
use plimsoll::plan::BufferKind;
use plimsoll::settings::knob::Knob;
use plimsoll::teach::allocation::AllocationWalk;
use plimsoll::teach::glossary::{GlossaryPage, Term};
use plimsoll::teach::lessons;
use plimsoll::teach::trace::{Phase, Trace};
use rstest::rstest;

use crate::harness;

fn glossary(engine: EngineId, model: &str) -> (PlanRequest, plimsoll::plan::Plan, GlossaryPage) {
    let machine = harness::machine(1, "RTX 3060", 12, 64);
    let model: PreparedModel = harness::model(model).into();
    let request = PlanRequest::new(engine, model, machine, super::settings_of(8192));
    let plan = request.plan().unwrap();
    let page = GlossaryPage::of(&request, &plan);
    (request, plan, page)
}

#[rstest]
fn every_term_of_the_plan_is_there_once(
    #[values(EngineId::LlamaCpp, EngineId::Ollama, EngineId::Ollama024)] engine: EngineId,
    #[values("llama3.1-8b", "gpt-oss-20b", "qwen3-coder-next", "mamba-2.8b")] model: &str,
) {
    let (request, plan, page) = glossary(engine, model);
    let names: Vec<(&str, &str)> = page.entries.iter().map(|entry| (entry.term.group(), entry.name.as_str())).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "a name has one meaning: {names:?}");
    let trace = Trace::of(&request, &plan, Phase::Prompt).unwrap();
    for moment in AllocationWalk::of(&trace).moments.iter().filter(|moment| !["COPY", "KEEP"].contains(&moment.op)) {
        let known = page.entries.iter().any(|entry| matches!(entry.term, Term::Op(op) if op.name() == moment.op));
        assert!(known, "{} has no definition", moment.op);
    }
    for alive in plan.graph.peaks.iter().flat_map(|peak| &peak.alive) {
        let entry = &page.entries[page.place(Term::Buffer(alive.kind)).unwrap()];
        assert!(entry.here.is_some() && entry.meaning == alive.kind.description());
    }
    for symbol in &plan.graph.legend {
        let entry = &page.entries[page.place(Term::Letter(symbol.letter)).unwrap()];
        assert_eq!(entry.here.as_deref(), Some(symbol.value.as_str()));
    }
    for entry in &page.entries {
        assert!(entry.meaning.ends_with('.') || matches!(entry.term, Term::Letter(_)), "{}", entry.meaning);
        assert!(entry.lesson.is_none_or(|lesson| lesson < lessons::all().len()));
    }
}

/// The lesson that a knob links to sets that knob in different ways.
#[test]
fn lessons_and_knobs_link_to_each_other() {
    let linked: Vec<Knob> = Knob::ALL.into_iter().filter(|knob| lessons::on_knob(*knob).is_some()).collect();
    for knob in &linked {
        let lesson = &lessons::all()[lessons::on_knob(*knob).unwrap()];
        assert!(lesson.knobs().contains(knob), "{}", lesson.id);
    }
    for knob in [Knob::Context, Knob::Parallel, Knob::CacheType, Knob::FlashAttn, Knob::Ubatch, Knob::GpuLayers] {
        assert!(linked.contains(&knob), "{} has no lesson", knob.title());
    }
}

/// A result is held until the last operation that reads it, which for some is one much later: what the definition says.
#[test]
fn intermediate_tensors_are_held_to_their_last_reader() {
    let (request, plan, _) = glossary(EngineId::LlamaCpp, "llama3.1-8b");
    let trace = Trace::of(&request, &plan, Phase::Prompt).unwrap();
    let walk = AllocationWalk::of(&trace);
    let lives = || walk.timelines[0].lives.iter().filter(|life| life.name.starts_with("DUP"));
    assert!(lives().count() > 0);
    assert!(lives().any(|life| life.end - life.from > 100), "one is held for long");
    assert!(!BufferKind::Intermediates.description().contains("only"));
}

/// What a model or a machine has no use for has no value in this plan.
#[test]
fn knobs_without_a_use_have_no_value_here() {
    for (model, used, unused) in [
        ("llama3.1-8b", &[Knob::CacheTypeK, Knob::Ubatch, Knob::FlashAttn][..], &[Knob::CpuMoe, Knob::DraftMax][..]),
        ("gpt-oss-20b", &[Knob::CpuMoe, Knob::CacheType], &[Knob::TensorSplit, Knob::DraftMax]),
        ("mamba-2.8b", &[Knob::Context, Knob::Batch], &[Knob::CacheTypeK, Knob::CacheTypeV, Knob::CpuMoe]),
    ] {
        // the estimators count a cache of that type for every model
        for engine in [EngineId::LlamaCpp, EngineId::Ollama] {
            let (_, _, page) = glossary(engine, model);
            let here = |knob| page.entries[page.place(Term::Knob(knob)).unwrap()].here.is_some();
            for knob in used {
                assert!(here(*knob), "{engine}, {model}: {knob:?}");
            }
            for knob in
                [unused, &[Knob::MmprojDevice, Knob::ImageTokens, Knob::PromptTokens, Knob::AnswerTokens]].concat()
            {
                assert!(!here(knob), "{engine}, {model}: {knob:?}");
            }
        }
    }
}
