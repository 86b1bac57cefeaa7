//! The teach screen: every figure on its pages is the plan's.

mod allocation;
mod caches;
mod drawn;
mod formulas;
mod glossary;
mod layers;
mod lessons;
mod random_input;
mod schedule;
mod screens;

use std::sync::Arc;

use plimsoll::engine::EngineId;
use plimsoll::engine::PlanRequest;
use plimsoll::engine::PreparedModel;
use plimsoll::machine::Machine;
use plimsoll::plan::Plan;
use plimsoll::settings::{Context, Settings};
use plimsoll::teach::{TeachPage, Topic};
use proptest::prelude::*;

use crate::laws;

/// A page, or why there is none.
type Shown = Result<Arc<dyn TeachPage>, String>;

/// A plan and a page about it, or none if the engine makes no plan.
fn shown(
    engine: EngineId,
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
    topic: Topic,
) -> Option<(Plan, Shown)> {
    let request = PlanRequest::new(engine, model.clone(), machine.clone(), settings.clone());
    let plan = request.plan().ok()?;
    let content = topic.content(&request, &plan).map_err(|error| error.to_string());
    Some((plan, content))
}

/// Machines of up to four cards; more add nothing here.
fn machine() -> impl Strategy<Value = Machine> {
    laws::machine().prop_map(|mut machine| {
        machine.gpus.truncate(4);
        machine
    })
}

/// Whether the page shows the plan's own graph, and not llama.cpp's in place of an estimate.
const fn builds_a_graph(engine: EngineId) -> bool {
    matches!(engine, EngineId::LlamaCpp | EngineId::Ollama)
}

/// One sequence with a context of `ctx`.
fn settings_of(ctx: u64) -> Settings {
    Settings { ctx: Context::Tokens(ctx), parallel: Some(1), ..Settings::default() }
}
