//! Models loaded by Ollama from 0.30, whose scheduler keeps accounts of its own.

use super::{LoadOutcome, LoadRequest, LoadedModels, evict, free_after};
use crate::engine::EngineError;
use crate::engine::ollama::scheduler::{Retried, Scheduled, ScheduledRequest, ScheduledStart, Scheduler};
use crate::machine::Machine;
use crate::plan::{DevicePlan, Plan};
use crate::units::Bytes;

/// Loads `requests` one after the other.
pub(super) fn load(machine: &Machine, requests: &[LoadRequest<'_>]) -> Result<LoadedModels, EngineError> {
    let local = machine.without_rpc_gpus();
    let machine = local.as_ref().unwrap_or(machine);
    let mut scheduler = Scheduler::new(machine);
    let mut outcomes: Vec<LoadOutcome> = Vec::with_capacity(requests.len());
    let paths: Vec<String> = (0..requests.len()).map(|number| path(requests, number)).collect();
    for ((number, request), path) in requests.iter().enumerate().zip(&paths) {
        let LoadRequest { model, settings, .. } = *request;
        let asked = ScheduledRequest { model, path, settings, keep_alive: None, busy: false };
        let start = match scheduler.schedule(&asked)? {
            Scheduled::Serves(host) => {
                outcomes.push(LoadOutcome::Shares(host));
                continue;
            }
            Scheduled::Starts(start) => *start,
        };
        let outcome = started(&mut scheduler, &asked, start, number, &mut outcomes, machine)?;
        outcomes.push(outcome);
    }
    let left = free_after(machine, &outcomes);
    Ok(LoadedModels { outcomes, left })
}

/// The outcome of a start, and of the next ones where it runs out of memory.
fn started(
    scheduler: &mut Scheduler<'_>,
    asked: &ScheduledRequest<'_>,
    mut start: ScheduledStart,
    number: usize,
    outcomes: &mut [LoadOutcome],
    machine: &Machine,
) -> Result<LoadOutcome, EngineError> {
    let mut retried = Retried::default();
    loop {
        for (gone, why) in &start.unloaded {
            evict(outcomes, &[*gone], number, why);
        }
        if let Some(same) = start.reloaded {
            evict(outcomes, &[same], number, "the same file is reloaded with other knobs");
        }
        let actual = free_after(machine, outcomes);
        let plan = start.plan(asked.model, &actual, asked.settings)?;
        if let Some(why) = plan.refusal {
            return Ok(LoadOutcome::Refused(why));
        }
        let out_of_memory = start.runs_out_of_memory(&plan, &actual);
        let again = if out_of_memory { scheduler.schedule_again(asked, &start, retried)? } else { None };
        if let Some((next, tried)) = again {
            (start, retried) = (next, tried);
        } else {
            drop(scheduler.loaded(asked, &start, &used(&plan, &start)));
            return Ok(LoadOutcome::Loaded(Box::new(plan)));
        }
    }
}

/// What a plan takes on each GPU that llama-server sees.
fn used(plan: &Plan, start: &ScheduledStart) -> Vec<Bytes> {
    let of = |&index: &usize| plan.devices.get(index).map_or(Bytes::ZERO, DevicePlan::asked);
    start.start.command.sees.iter().map(of).collect()
}

/// The path of a request's file; without one, a place in the order of the files' first requests.
fn path(requests: &[LoadRequest<'_>], number: usize) -> String {
    let Some(request) = requests.get(number) else { return String::new() };
    let first = requests.iter().position(|other| std::ptr::eq(other.model, request.model)).unwrap_or(number);
    request.path.map_or_else(|| format!("{first:08}"), str::to_owned)
}
