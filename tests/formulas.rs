//! The formulas as shown, as snapshots to compare with the guide they come from.

use std::fmt::Write;

use plimsoll::engine::{self, EngineId};
use plimsoll::machine::{Machine, Origin, Os, Ram};
use plimsoll::plan::{GraphSize, Plan};
use plimsoll::settings::{Context, FlashAttn, Settings};
use plimsoll::units::Bytes;
use rstest::rstest;

use crate::fixtures;

fn plan(engine: EngineId, name: &str, flash_attn: FlashAttn) -> Plan {
    let model = fixtures::model(name);
    let ram = Ram { total: Bytes::gib(512), free: Bytes::gib(512), swap_free: Bytes::ZERO, bandwidth: None };
    let machine = Machine {
        disk: None,
        os: Os::Linux,
        cpu: plimsoll::machine::Cpu::default(),
        gpus: Vec::new(),
        ram,
        origin: Origin::Described,
        drivers: plimsoll::machine::Drivers::default(),
    };
    let settings =
        Settings { ctx: Context::Tokens(8192), parallel: Some(2), raw: true, flash_attn, ..Settings::default() };
    engine::plan(engine, &model, &machine, &settings).unwrap()
}

fn describe(plan: &Plan) -> String {
    let mut text = String::new();
    for (name, size) in [("partial", &plan.graph.partial), ("full", &plan.graph.full)] {
        graph(&mut text, name, size);
    }
    let blocks = &plan.layers[..plan.layers.len() - 1];
    let mut last = None;
    writeln!(text, "caches").unwrap();
    for layer in blocks {
        if last != Some(&layer.cache_term) {
            let term = &layer.cache_term;
            writeln!(text, "  from block {}: {}", layer.index, term.name).unwrap();
            writeln!(text, "    {} = {} = {}", term.formula, term.numbers, term.bytes.0).unwrap();
        }
        last = Some(&layer.cache_term);
        if layer.index > 7 {
            break;
        }
    }
    for term in plan.estimate.iter().flat_map(|estimate| &estimate.projector_terms) {
        writeln!(text, "projector {}: {} = {} = {}", term.name, term.formula, term.numbers, term.bytes.0).unwrap();
    }
    writeln!(text, "letters").unwrap();
    for symbol in &plan.graph.legend {
        writeln!(text, "  {} = {}: {}", symbol.letter, symbol.value, symbol.meaning).unwrap();
    }
    text
}

fn graph(text: &mut String, name: &str, size: &GraphSize) {
    writeln!(text, "{name}: {} bytes, by its own formula {}", size.bytes.0, size.own.0).unwrap();
    for (at, branch) in size.branches.iter().enumerate() {
        let mark = if at == size.winner { "wins" } else { "" };
        writeln!(text, "  {} {} {mark}", branch.name, branch.bytes.0).unwrap();
        for term in &branch.terms {
            writeln!(text, "    {}: {} = {} = {}", term.name, term.formula, term.numbers, term.bytes.0).unwrap();
        }
    }
}

#[rstest]
fn formulas_match_the_guide(
    #[values(
        "llama",
        "llama4-scout",
        "mixtral8x7b",
        "mllama",
        "gemma2",
        "gemma3",
        "gemma3n",
        "command-r",
        "qwen2",
        "phi2",
        "stablelm",
        "deepseek2",
        "chatglm3-6b",
        "chatglm-bias",
        "gptoss",
        "qwen3",
        "hybrid",
        "hybrid-noconv"
    )]
    name: &str,
) {
    insta::assert_snapshot!(format!("formulas_{name}"), describe(&plan(EngineId::Ollama024, name, FlashAttn::Off)));
}

#[test]
fn formulas_of_gpt_oss_with_flash_attention() {
    insta::assert_snapshot!(describe(&plan(EngineId::Ollama024, "gptoss", FlashAttn::On)));
}

/// Formulas that differ in the older release: no recurrent layers, no flash attention, and images.
#[rstest]
fn formulas_of_the_older_release(#[values("hybrid", "gptoss", "mllama", "gemma3", "qwen25vl")] name: &str) {
    let plan = plan(EngineId::Ollama011, name, FlashAttn::On);
    insta::assert_snapshot!(format!("formulas_0.11_{name}"), describe(&plan));
}

#[rstest]
fn the_releases_share_their_formulas(
    #[values(
        "llama",
        "mixtral8x7b",
        "gemma2",
        "gemma3n",
        "command-r",
        "qwen2",
        "phi2",
        "stablelm",
        "deepseek2",
        "chatglm-bias"
    )]
    name: &str,
) {
    let [newer, older] = [EngineId::Ollama024, EngineId::Ollama011].map(|engine| plan(engine, name, FlashAttn::Off));
    assert_eq!((newer.graph.partial, newer.graph.full), (older.graph.partial, older.graph.full));
}
