//! Several models, one after the other: which go, which GPUs the next gets, and what Ollama believes to be taken.

use plimsoll::engine::PreparedModel;
use plimsoll::engine::ollama::scheduler::{Retried, Scheduled, ScheduledRequest, Scheduler};
use plimsoll::settings::Settings;
use plimsoll::settings::ollama::seconds;
use plimsoll::units::Bytes;
use serde_json::{Value as Json, json};

use super::compare::{Difference, Differences};
use super::line::{Line, Models};

pub fn differences(line: &Line, models: &mut Models) -> Vec<Difference> {
    let mut all = Differences::default();
    let loads = line.question["loads"].as_array().unwrap();
    let asked: Vec<(PreparedModel, Settings)> =
        (0..loads.len()).map(|place| (models.of(name(&loads[place])).clone(), line.settings(place).unwrap())).collect();
    let mut scheduler = Scheduler::new(&line.machine);
    for (place, load) in loads.iter().enumerate() {
        let (model, settings) = &asked[place];
        let request = ScheduledRequest {
            model,
            path: name(load),
            settings,
            // the lines hand the scheduler durations as they are: below zero is over at once
            keep_alive: load["keep_alive"].as_str().and_then(seconds),
            busy: load["busy"].as_bool().unwrap_or(false),
        };
        one(&mut all, &mut scheduler, &request, load, &line.answer["loads"][place], loads);
    }
    all.0
}

fn name(load: &Json) -> &str {
    load["model"].as_str().unwrap()
}

fn one(
    all: &mut Differences,
    scheduler: &mut Scheduler<'_>,
    request: &ScheduledRequest<'_>,
    load: &Json,
    answer: &Json,
    loads: &[Json],
) {
    let expected = answer["starts"].as_array().unwrap();
    let mut start = match scheduler.schedule(request).unwrap() {
        Scheduled::Serves(_) => return all.field("serves", &json!(expected.len()), json!(0)),
        Scheduled::Starts(start) => *start,
    };
    let mut starts = vec![start.start.clone()];
    let mut retried = Retried::default();
    let mut loaded = true;
    for _ in 0..load["fail"].as_u64().unwrap_or(0) {
        let Some(next) = scheduler.schedule_again(request, &start, retried).unwrap() else {
            loaded = false;
            break;
        };
        (start, retried) = next;
        starts.push(start.start.clone());
    }
    let unloaded: Vec<&str> = start.unloaded.iter().map(|(number, _)| name(&loads[*number])).collect();
    all.field("unloaded", &answer["unloaded"], json!(unloaded));
    all.field("starts", &json!(expected.len()), json!(starts.len()));
    for (expected, got) in expected.iter().zip(&starts) {
        all.field("args", &expected["args"], json!(got.command.args));
        all.field("env", &expected["env"], json!(got.command.env));
        all.field("sees", &expected["sees"], json!(got.command.sees));
    }
    all.field("loaded", &json!(answer["error"].is_null()), json!(loaded));
    if !loaded {
        return;
    }
    super::compare::decisions(all, answer, starts.last().unwrap());
    let sees = &start.start.command.sees;
    // each line of the log has two decimals
    let part = load["use_mib"].as_f64().unwrap_or(0.0) / sees.len().max(1) as f64;
    let part: f64 = format!("{part:.2}").parse().unwrap();
    let part = Bytes((part * Bytes::mib(1).0 as f64) as u64);
    let accounts = scheduler.loaded(request, &start, &vec![part; sees.len()], &[]);
    let accounts: Vec<Json> = accounts.into_iter().map(|(gpu, bytes)| json!({"gpu": gpu, "vram": bytes.0})).collect();
    if !answer["vram_by_gpu"].is_null() {
        all.field("vram_by_gpu", &answer["vram_by_gpu"], json!(accounts));
    }
}
