//! The machines that run a model, as JSON and CSV.

use std::fmt::Write;

use serde::Serialize;

use super::AnswerSource;
use crate::answer::need::{NeedRequest, NeededMachine};
use crate::engine::PlanRequest;
use crate::plan::Outcome;
use crate::speed::Speed;
use crate::text;
use crate::units::Bytes;

/// `{…,"model","speed","ram","machines":[{"name","count","preset","memory","ram","outcome","ctx","speed":{…}}]}`: `speed` of
/// the question is the least one, `ram` what is free beside cards, and of a machine what the plan takes of its RAM.
///
/// # Errors
/// None that an answer can cause.
pub fn need_json(request: &PlanRequest, question: &NeedRequest, found: &[NeededMachine]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Object<'a> {
        #[serde(flatten)]
        source: AnswerSource,
        model: &'a str,
        file_type: Option<String>,
        speed: f64,
        ram: Bytes,
        machines: Vec<Machine<'a>>,
    }
    #[derive(Serialize)]
    struct Machine<'a> {
        name: String,
        preset: &'a str,
        count: usize,
        memory: Bytes,
        ram: Bytes,
        outcome: Outcome,
        ctx: u64,
        speed: &'a Speed,
    }
    impl<'a> From<&'a NeededMachine> for Machine<'a> {
        fn from(one: &'a NeededMachine) -> Self {
            Self {
                name: one.name(),
                preset: &one.preset.name,
                count: one.count,
                memory: one.memory,
                ram: one.plan.cpu().asked(),
                outcome: one.plan.outcome(),
                ctx: one.plan.settings.ctx,
                speed: &one.speed,
            }
        }
    }
    text::json(&Object {
        source: AnswerSource::of_request(request),
        model: request.model.name.as_str(),
        file_type: request.model.file_type.as_ref().map(ToString::to_string),
        speed: question.speed,
        ram: question.ram.free,
        machines: found.iter().map(Machine::from).collect(),
    })
}

/// A line for each machine.
pub fn need_csv(found: &[NeededMachine]) -> String {
    let mut out = "name,preset,count,memory,ram,outcome,ctx,tokens_per_second,low,high\n".to_owned();
    for one in found {
        let NeededMachine { preset, count, memory, plan, speed } = one;
        let (ram, outcome, ctx) = (plan.cpu().asked().0, plan.outcome().name(), plan.settings.ctx);
        let Speed { tokens_per_second, low, high, .. } = speed;
        let (name, preset) = (one.name(), &preset.name);
        // writing to a string cannot fail
        let _ = writeln!(
            out,
            "{name},{preset},{count},{},{ram},{outcome},{ctx},{tokens_per_second:.2},{low:.2},{high:.2}",
            memory.0
        );
    }
    out
}
