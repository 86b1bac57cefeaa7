//! Real logs with the figures that a person reads in them (`samples.jsonl.gz`).

use std::fs::File;
use std::io::Read;

use flate2::read::GzDecoder;
use plimsoll::observed::{CardMemory, Complete, Load, Mib, Observation, Program, PsRow};
use serde_json::{Value, json};

use crate::support;

/// All samples.
pub fn samples() -> Vec<Value> {
    let path = support::tests().join("observed/samples.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text<'a>(sample: &'a Value, key: &str) -> &'a str {
    sample[key].as_str().unwrap_or_default()
}

fn each(check: impl Fn(&Value, &Observation, &Load)) {
    let samples = samples();
    assert_eq!(samples.len(), 92);
    for sample in &samples {
        let seen = Observation::of(text(sample, "raw"));
        let none = Load::default();
        check(sample, &seen, seen.load().unwrap_or(&none));
    }
}

/// Equal but for the type of numbers, `24.0` is `24`, and for keys that are null in one and missing in the other.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Object(a), Value::Object(b)) => {
            let null = &Value::Null;
            a.keys().chain(b.keys()).all(|key| same(a.get(key).unwrap_or(null), b.get(key).unwrap_or(null)))
        }
        _ => a == b,
    }
}

#[test]
fn every_figure_is_read() {
    each(|sample, _, load| {
        let load = serde_json::to_value(load).unwrap();
        for (ours, theirs) in [("observed", "parsed"), ("table", "table"), ("fit", "fit")] {
            assert!(same(&load[ours], &sample[theirs]), "{}: {} is not {}", sample["id"], load[ours], sample[theirs]);
        }
        let complete = &load["complete"];
        assert_eq!(*complete, sample["complete"], "{}", sample["id"]);
    });
}

#[test]
fn an_excerpt_is_one_load() {
    each(|sample, seen, _| assert!(seen.loads.len() <= 1, "{}: {} loads", sample["id"], seen.loads.len()));
}

#[test]
fn free_memory_is_what_a_device_a_table_or_the_fit_says() {
    each(|sample, seen, load| {
        let Some(free) = sample["free_mib"].as_object() else { return };
        for (device, mib) in free {
            let wanted = mib.as_f64().unwrap();
            if !text(sample, "raw").contains(&wanted.to_string()) && load.fit.devices.is_empty() {
                continue;
            }
            let listed = load.devices.iter().filter(|known| known.name == *device).filter_map(|known| known.free);
            let in_table = load.table.get(device).and_then(|row| row.free).map(|mib| mib as f64);
            let in_fit = load.fit.devices.get(device).map(|fit| fit.used as f64 + fit.left as f64);
            let estimated = load.estimate.iter().flat_map(|estimate| &estimate.available).map(|mib| mib.0);
            let mut said: Vec<f64> = listed.map(|mib| mib.0).chain(in_table).chain(in_fit).chain(estimated).collect();
            said.extend(load.fit.free.map(|mib| mib as f64));
            // quoted from `memory.used, memory.free` without its heading
            let unheaded = seen.cards.iter().any(|card| card.total.is_none());
            assert!(said.contains(&wanted) || unheaded, "{} {device}: {wanted} is not of {said:?}", sample["id"]);
        }
    });
}

#[test]
fn programs_are_told_apart_where_the_text_does() {
    let expected = |program| match program {
        Program::LlamaCpp => "llama.cpp",
        Program::IkLlamaCpp => "ik_llama.cpp",
        Program::Ollama => "ollama",
        Program::LmStudio => "LM Studio",
        Program::KoboldCpp => "koboldcpp",
        Program::LocalAi => "LocalAI",
        Program::Ds4 => "ds4",
    };
    each(|sample, _, load| {
        let Some(program) = load.program else { return };
        // nothing but llama.cpp's lines are in some excerpts of programs around it
        let wanted = text(sample, "program");
        let excerpt = ["r26-022", "r26-030", "r26-032", "r26-034", "r26-038", "r26-039", "found-17"];
        let hidden = excerpt.contains(&text(sample, "id"));
        assert!(wanted.starts_with(expected(program)) || hidden, "{}: {program} is not {wanted}", sample["id"]);
    });
}

#[test]
fn listings_of_ollama_are_read() {
    each(|sample, seen, _| {
        let (Some(rows), true) = (sample["ps"].as_array(), text(sample, "raw").contains("100% GPU")) else {
            assert_eq!(seen.ps, [], "{}", sample["id"]);
            return;
        };
        let read = |row: &PsRow| json!({"name": row.name, "size": row.size, "processor": row.processor, "context": row.context});
        let found: Vec<Value> = seen.ps.iter().map(read).collect();
        assert_eq!(found, *rows, "{}", sample["id"]);
    });
}

#[test]
fn figures_of_nvidia_smi_are_read() {
    let used = |card: &CardMemory| card.used.map(|mib| mib.0);
    each(|sample, seen, _| {
        let given = &sample["nvidia_smi"];
        let figure = |key: &str| given[key].as_f64();
        if let Some(wanted) = figure("process_mib") {
            let process = seen.processes.iter().find(|process| process.name.ends_with("llama-server")).unwrap();
            assert_eq!(process.used, Some(Mib(wanted)), "{}", sample["id"]);
            assert_eq!(seen.processes.len(), 3, "{}", sample["id"]);
            let cards: Vec<_> = seen.cards.iter().map(used).collect();
            assert_eq!(cards, [figure("used_before_mib"), figure("used_after_mib")], "{}", sample["id"]);
        } else if let Some(wanted) = figure("used_mib") {
            let card = seen.cards.first().unwrap();
            assert_eq!((used(card), card.total.map(|mib| mib.0)), (Some(wanted), figure("total_mib")));
            assert_eq!(card.name.as_deref(), Some("NVIDIA GeForce RTX 3090"));
        } else {
            assert_eq!(seen.processes, [], "{}", sample["id"]);
        }
    });
}

#[test]
fn ollamas_estimate_is_read() {
    each(|sample, _, load| {
        let given = &sample["ollama_estimate"];
        let Some(estimate) = load.estimate.as_ref() else {
            assert!(given.is_null(), "{}", sample["id"]);
            return;
        };
        let figures = json!({
            "full_mib": estimate.full, "partial_mib": estimate.partial, "kv_mib": estimate.kv,
            "weights_mib": estimate.weights, "graph_full_mib": estimate.graph_full,
            "graph_partial_mib": estimate.graph_partial, "projector_weights_mib": estimate.projector_weights,
            "projector_graph_mib": estimate.projector_graph, "layers_offload": estimate.layers_offload,
            "layers_model": estimate.layers_model,
        });
        assert!(same(&figures, given), "{figures} is not {given}");
    });
}

#[test]
fn figures_given_besides_the_log_agree_with_it() {
    let samples = samples();
    let load = |id: &str| {
        let sample = samples.iter().find(|sample| sample["id"] == id).unwrap();
        Observation::of(text(sample, "raw")).load().unwrap().clone()
    };
    let settings = load("r26-035").settings;
    assert_eq!((settings.n_ctx, settings.n_ctx_seq, settings.n_seq_max), (Some(8192), Some(4096), Some(2)));
    assert_eq!((settings.n_batch, settings.n_ubatch, settings.kv_unified), (Some(1024), Some(1024), Some(false)));
    assert_eq!((settings.load_mode.as_deref(), settings.cache_ram), (Some("none"), Some(8192)));
    let host = load("r26-035").fit.host.unwrap();
    assert_eq!((host.projected, host.total, host.margin), (1635, 6858, Some(2693)));
    assert_eq!(load("r26-035").projector, Some(Mib(802.5)));

    // two contexts and a projector
    let mtp = load("r26-054");
    assert_eq!((mtp.contexts.len(), mtp.models.len(), mtp.layers_on_gpus()), (2, 1, Some((66, 66))));
    assert_eq!(mtp.projector, Some(Mib(887.99)));
    assert!(load("r26-037").flash_attention_off().is_some_and(|reason| reason.contains("device CPU")));
    // the reservation grew while the server ran
    let grown = load("r26-057");
    assert_eq!(grown.contexts.first().unwrap().reserved_before.get("ROCm0"), Some(&Mib(3392.33)));
    assert!(load("r26-058").is_trial && !load("r26-054").is_trial);
    let request = load("r26-027");
    assert_eq!((request.settings.n_ctx, request.settings.n_batch), (Some(8192), Some(512)));
    assert_eq!(request.models.first().unwrap().architecture.as_deref(), Some("gemma4"));
    let built = load("r26-108");
    assert_eq!((built.build, built.commit.as_deref(), built.devices.len()), (Some(9694), Some("4a79037b8"), 3));
    assert_eq!(load("r26-044").settings.n_ctx, Some(8320));
    assert_eq!(load("r26-034").settings.n_ctx_seq, Some(20_992));
    assert_eq!(load("r26-104").writer.as_deref(), Some("llama-cpp 57651"));
    assert_eq!(load("r26-110").complete, Some(Complete::Buffers));
    let states = load("found-07").settings;
    assert_eq!((states.n_rs_seq, states.kv_unified, states.n_ctx), (Some(2), Some(true), Some(8192)));
    let mapped = load("found-08");
    assert_eq!((mapped.build, mapped.commit.as_deref()), (Some(9010), Some("d05fe1d7d")));
    // what the server says of its slots, and what a graph is reserved for
    let slots = load("r26-064").settings;
    assert_eq!((slots.n_ctx_seq, slots.n_seq_max, slots.cache_ram), (Some(177_152), Some(1), Some(8192)));
    assert_eq!((load("r26-065").settings.n_ubatch, load("r26-065").settings.n_outputs_max), (Some(512), Some(512)));
    // how old a build is at least, by the form of its lines
    let older = |id: &str| load(id).older_than;
    assert_eq!((older("r26-049"), older("r26-054"), older("r26-035")), (Some(8900), Some(9200), None));
    let lazy = format!("{:?}", load("r26-095").events);
    assert!(lazy.contains("per_layer_token_embd.weight"), "{lazy}");
}
