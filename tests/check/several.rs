//! Logs of several cards: what a fit measured is beside what a fit measures, and a pipeline that was given up is planned so.

use std::fmt::Write;
use std::sync::Arc;

use plimsoll::answer::check::{Check, CheckRequest, CheckedTerm, check};
use plimsoll::engine::llama_cpp::Reservation;
use plimsoll::engine::{EngineId, plan};
use plimsoll::machine::Backend;
use plimsoll::machine::spec::MachineSpec;
use plimsoll::observed::Observation;
use plimsoll::plan::{DevicePlan, Plan};
use plimsoll::settings::{Context, GivenOption, GpuLayers, Release, ServerOption, Settings};
use plimsoll::units::Bytes;
use rstest::rstest;

use crate::fixtures::{card, machine, model};

const FREE: [Bytes; 2] = [Bytes::mib(48 << 10); 2];

/// All layers of a model over two cards.
fn planned(name: &str, free: [Bytes; 2]) -> Plan {
    plan(EngineId::LlamaCpp, &model(name), &machine(free.map(|free| card(Backend::Cuda, free)).into()), &settings())
        .unwrap()
}

fn settings() -> Settings {
    Settings {
        ctx: Context::Tokens(16_384),
        parallel: Some(1),
        gpu_layers: GpuLayers::All,
        tensor_split: vec![1.0, 1.0],
        release: Some(Release::November2026),
        ..Settings::default()
    }
}

/// The comparison of a log of these lines, under the command.
fn checked(name: &str, lines: &str) -> Check {
    checked_with(name, "", lines)
}

fn checked_with(name: &str, options: &str, lines: &str) -> Check {
    let text = format!("llama-server -m {name}.gguf -c 16384 -np 1 -ngl 99 -ts 1,1 {options}\n{lines}");
    let seen = Observation::of(&text);
    let nothing = MachineSpec::default();
    let request = CheckRequest {
        model: Arc::new(model(name)),
        projector: None,
        is_same_file: true,
        machine: &nothing,
        engine: None,
        release: Some(Release::November2026),
        knobs: &|_| {},
    };
    check(seen.load().unwrap_or_else(|| panic!("{text}")), &request).unwrap()
}

/// A table whose compute buffers are those of `graph`; free memory is what it was before the load, or after it.
fn table(plan: &Plan, loaded: bool, graph: impl Fn(&DevicePlan) -> Bytes) -> String {
    let mut text = String::new();
    for (at, gpu) in plan.gpus().iter().enumerate() {
        let mib = |bytes: Bytes| bytes.0 >> 20;
        let [model, context, compute] = [mib(gpu.weights), mib(gpu.cache), mib(graph(gpu))];
        let (own, total) = (model + context + compute, mib(gpu.total));
        let free = if loaded { total - own - 400 } else { total - 400 };
        let rest = total.cast_signed() - free.cast_signed() - own.cast_signed();
        writeln!(
            text,
            "common_memory_breakdown_print: |   - CUDA{at} (RTX 4090) | {total} = {free} + ({own} = {model} + {context} + \
             {compute}) + {rest} |"
        )
        .unwrap();
    }
    text
}

/// A line of each card's buffer, and of that in RAM.
fn buffers(plan: &Plan, function: &str, word: &str, of: impl Fn(&DevicePlan) -> Bytes) -> String {
    let mut text = String::new();
    let names = (0..plan.gpus().len()).map(|at| format!("CUDA{at}")).chain(["CPU".to_owned()]);
    for (device, name) in plan.devices.iter().zip(names).filter(|(device, _)| of(device) > Bytes::ZERO) {
        let mib = of(device).0 as f64 / f64::from(1 << 20);
        writeln!(text, "{function}: {name} {word} buffer size = {mib:.2} MiB").unwrap();
    }
    text
}

fn compute(check: &Check) -> Vec<(Reservation, bool)> {
    let rows = check.rows.iter().filter(|row| row.term == CheckedTerm::Compute && row.device.starts_with("CUDA"));
    rows.map(|row| (row.of, row.is_same() && row.reason.is_none())).collect()
}

#[rstest]
#[case("llama3.1-8b")]
#[case("qwen3-30b-a3b")]
#[case("gemma3-27b")]
fn the_table_of_a_fit_is_compared_with_what_the_fit_measures(#[case] name: &str) {
    let plan = planned(name, FREE);
    let measured = |gpu: &DevicePlan| gpu.graph_measured.unwrap_or(gpu.graph);
    assert!(plan.gpus().iter().any(|gpu| (measured(gpu).0 >> 20) > (gpu.graph.0 >> 20)), "{:?}", plan.gpus());

    let fit = checked(name, &table(&plan, false, measured));
    assert_eq!(compute(&fit), [(Reservation::Measured, true); 2], "{:?}", fit.rows);
    let load = checked(name, &table(&plan, true, |gpu| gpu.graph));
    assert_eq!(compute(&load), [(Reservation::Loaded, true); 2], "{:?}", load.rows);
    // the load's figures are no fit's
    let wrong = checked(name, &table(&plan, false, |gpu| gpu.graph));
    assert!(compute(&wrong).iter().any(|(_, same)| !same), "{:?}", wrong.rows);
}

fn device(at: u8) -> String {
    let of = "llama_prepare_model_devices: using device CUDA";
    format!("{of}{at} (NVIDIA GeForce RTX 4090) (0000:0{at}:00.0) - 49152 MiB free\n")
}

#[rstest]
#[case("llama3.1-8b")]
#[case("qwen3-30b-a3b")]
#[case("gemma3-27b")]
fn a_pipeline_that_a_log_gives_up_is_planned_without(#[case] name: &str) {
    let with = planned(name, FREE);
    let asked = [with.gpus()[0].asked(), with.gpus()[1].asked()];
    let without = planned(name, [asked[0] - Bytes(1), asked[1]]);
    assert!(without.gpus().iter().all(|gpu| gpu.graph_pipelined.is_some()));
    let log = |plan: &Plan, given_up: bool| {
        let refused = "ggml_gallocr_reserve_n_impl: failed to allocate CUDA0 buffer of size 847618048\n\
             sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism\n";
        let lines = [
            device(0),
            device(1),
            buffers(plan, "load_tensors", "model", |gpu| gpu.weights),
            buffers(plan, "llama_kv_cache", "KV", |gpu| gpu.cache),
            if given_up { refused.to_owned() } else { String::new() },
            buffers(plan, "sched_reserve", "compute", |gpu| gpu.graph),
        ];
        lines.concat()
    };
    let given_up = checked(name, &log(&without, true));
    assert_eq!(given_up.request.settings.pipeline_refused, Some(true));
    assert_eq!(compute(&given_up), [(Reservation::Loaded, true); 2], "{:?}", given_up.rows);
    // without that line it has its pipeline
    let kept = checked(name, &log(&with, false));
    assert_eq!(kept.request.settings.pipeline_refused, Some(false));
    assert_eq!(compute(&kept), [(Reservation::Loaded, true); 2], "{:?}", kept.rows);
    let unsaid = checked(name, &log(&without, false));
    assert!(compute(&unsaid).iter().any(|(_, same)| !same), "{:?}", unsaid.rows);
}

/// A log of a command with an option is planned with it: its figures agree, and without the option some do not.
#[rstest]
fn options_of_a_command_are_planned(
    #[values("qwen3-30b-a3b", "gemma3-27b")] name: &str,
    #[values(
        "-ot blk\\.[0-9]\\.ffn_.*=CPU",
        "-ot blk\\.1[0-9]\\.=CUDA1",
        "-ncffn 7",
        "-sm tensor",
        "-ctk q8_0",
        "-np 4 --kv-unified-per-slot 4096"
    )]
    options: &str,
) {
    let model = model(name);
    let gpus = machine(FREE.map(|free| card(Backend::Cuda, free)).into());
    let mut given = settings();
    let mut words = options.split(' ').map(std::ffi::OsString::from).collect();
    while let Some(option) = GivenOption::take(&mut words) {
        let ServerOption::Sets(flag) = option.option else { panic!("{option:?}") };
        let value = option.value.map_or_else(|| "true".to_owned(), |value| value.into_string().unwrap());
        flag.read(&mut given, &value).unwrap();
    }
    let plan = plan(EngineId::LlamaCpp, &model, &gpus, &given).unwrap();
    let lines = [
        device(0),
        device(1),
        buffers(&plan, "load_tensors", "model", |gpu| gpu.weights),
        buffers(&plan, "llama_kv_cache", "KV", |gpu| gpu.cache),
        buffers(&plan, "sched_reserve", "compute", |gpu| gpu.graph),
    ]
    .concat();
    let check = checked_with(name, options, &lines);
    assert!(check.agrees() && check.rows.iter().all(|row| row.reason.is_none()), "{:#?}", check.rows);
    let without = checked(name, &lines);
    assert!(!without.agrees() || without.rows.iter().any(|row| row.reason.is_some()), "{:#?}", without.rows);
}
