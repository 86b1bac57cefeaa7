//! The machines that run a model, as JSON and CSV.

use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::need::{NeedRequest, NeededMachine};
use crate::export::{ModelSource, PlanSource, csv, record};
use crate::plan::{Outcome, Plan};
use crate::speed::Speed;
use crate::text;
use crate::units::Bytes;

/// The known cards and systems that run a model.
#[derive(JsonSchema, Serialize)]
pub(crate) struct NeedAnswer<'a> {
    #[serde(flatten)]
    head: PlanSource<'a>,
    /// The least tokens per second that were asked for.
    speed: f64,
    /// RAM that is free beside cards.
    ram: Bytes,
    machines: Vec<MachineRecord<'a>>,
}

/// `NeedAnswer` to `question` about the model of `plan`, which was read from `source`.
///
/// # Errors
/// None that an answer can cause.
pub fn need_json(
    (plan, source): (&Plan, &ModelSource),
    question: &NeedRequest,
    found: &[NeededMachine],
) -> serde_json::Result<String> {
    text::json(&NeedAnswer {
        head: PlanSource::of(plan, source),
        speed: question.speed,
        ram: question.ram.free,
        machines: found.iter().map(MachineRecord::of).collect(),
    })
}

record! {
    /// A machine that runs it.
    MachineRecord<'a>(one: &'a NeededMachine) {
        name: String = one.name(),
        /// The card's or the system's name.
        preset: &'a str = &one.preset.name,
        /// How many of it.
        count: usize = one.count,
        /// Memory of all its GPUs.
        memory: Bytes = one.memory,
        /// What the plan takes of RAM.
        ram: Bytes = one.plan.cpu().asked(),
        outcome: Outcome = one.plan.outcome(),
        ctx: u64 = one.plan.settings.ctx,
        speed: &'a Speed = &one.speed,
    }
}

/// A line for each machine.
pub fn need_csv(found: &[NeededMachine]) -> String {
    let row = |one: &NeededMachine| {
        let MachineRecord { name, preset, count, memory, ram, outcome, ctx, speed } = MachineRecord::of(one);
        let Speed { tokens_per_second, low, high, .. } = speed;
        let speeds = [tokens_per_second, low, high].map(|speed| format!("{speed:.2}"));
        let sizes = [count.to_string(), memory.0.to_string(), ram.0.to_string()];
        let facts = [outcome.name().to_owned(), ctx.to_string()];
        [name, preset.to_owned()].into_iter().chain(sizes).chain(facts).chain(speeds)
    };
    let columns = ["name", "preset", "count", "memory", "ram", "outcome", "ctx", "tokens_per_second", "low", "high"];
    csv::table(columns, found.iter().map(row))
}
