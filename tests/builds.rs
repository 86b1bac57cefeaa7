//! The llama.cpp engine against what llama.cpp's own builds reserve, build by build: their libraries, as published, were
//! asked for memory on simulated cards, with no weights loaded. `tests/llama_cpp/README.md` says more.
//!
//! A line of `builds/NAME.jsonl.gz` holds a question (`in`; options that are absent have llama.cpp's defaults), an answer
//! (`out`: bytes by buffer type, or that the build refuses) and the builds that gave it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use plimsoll::engine::{self, EngineError, EngineId, PreparedModel};
use plimsoll::machine::{Backend, CpuInstructions, Gpu, Machine, Ram};
use plimsoll::plan::{Confidence, Plan};
use plimsoll::settings::{
    ALL_LAYERS, Build, CacheType, Context, FlashAttn, GpuLayers, NearestRelease, Outputs, Pooling, Settings,
};
use plimsoll::units::Bytes;
use serde_json::Value;

use crate::fixtures;
use crate::llama_cpp::lines;
use crate::readme::check_table;
use crate::support;

/// More than any model takes.
const LARGE: Bytes = Bytes::gib(900);

/// An answer of some builds.
struct Line {
    model: String,
    builds: Vec<u64>,
    asked: Value,
    answer: Value,
}

fn read(name: &str) -> Vec<Line> {
    let lines = lines(&support::tests().join(format!("builds/{name}.jsonl.gz")));
    let read = |line: Value| Line {
        model: line["model"].as_str().unwrap().to_owned(),
        builds: line["builds"].as_array().unwrap().iter().map(|build| build.as_u64().unwrap()).collect(),
        asked: line["in"].clone(),
        answer: line["out"].clone(),
    };
    lines.into_iter().map(read).collect()
}

fn machine(asked: &Value) -> Machine {
    let cards = asked["devices"].as_array().map_or(0, Vec::len);
    let remote = asked["rpc"].as_array().map_or(0, Vec::len);
    let card = || Gpu::of("card", Backend::Plain, LARGE);
    let elsewhere = |at: usize| Gpu { computer: Some(format!("other{at}").into()), ..card() };
    let gpus = (0..cards).map(|_| card()).chain((0..remote).map(elsewhere)).collect();
    let ram = Ram { total: Bytes::gib(1024), free: Bytes::gib(1024), swap_free: Bytes::ZERO, bandwidth: None };
    let mut machine = Machine { ram, ..fixtures::machine(gpus) };
    if asked["repack"] == true {
        machine.cpu.instructions = CpuInstructions::Avx2;
    }
    machine
}

fn settings(asked: &Value, build: u64) -> Settings {
    let number = |key: &str, default: u64| asked[key].as_u64().unwrap_or(default);
    let flag = |key: &str, default: bool| asked[key].as_bool().unwrap_or(default);
    let cache = |key: &str| asked[key].as_str().map(|name| name.parse::<CacheType>().unwrap());
    let NearestRelease { release, build } = NearestRelease::to(&format!("b{build}")).unwrap();
    let batch = number("n_batch", 2048);
    Settings {
        ctx: Context::Tokens(number("n_ctx", 4096)),
        parallel: Some(number("n_seq_max", 1)),
        batch: Some(batch),
        ubatch: Some(number("n_ubatch", 512).min(batch)),
        cache_type_k: cache("type_k"),
        cache_type_v: cache("type_v"),
        flash_attn: asked["flash_attn"].as_str().map_or(FlashAttn::Auto, |word| FlashAttn::of(word).unwrap()),
        kv_unified: flag("kv_unified", false),
        no_kv_offload: !flag("offload_kqv", true),
        no_op_offload: !flag("op_offload", true),
        swa_full: flag("swa_full", false),
        embeddings: flag("embeddings", false).then_some(true),
        pooling: asked["pooling"].as_str().map(|name| name.parse::<Pooling>().unwrap()),
        outputs: asked["n_outputs_max"].as_u64().map_or(Outputs::Ubatch, Outputs::Tokens),
        gpu_layers: match asked["ngl"].as_u64() {
            Some(layers) => GpuLayers::Count(layers),
            None => GpuLayers::All,
        },
        tensor_split: asked["tensor_split"]
            .as_array()
            .map_or_else(Vec::new, |shares| shares.iter().map(|share| share.as_f64().unwrap()).collect()),
        n_cpu_moe: flag("cpu_moe", false).then_some(ALL_LAYERS),
        moe_cache: asked["moe_cache"].as_u64().map(Bytes),
        no_repack: !flag("repack", false),
        release: Some(release),
        build,
        ..Settings::default()
    }
}

/// Weights, caches and compute buffers per device, RAM last, and what of the weights is repacked.
type Figures = ([Vec<u64>; 3], u64);

/// What a build measured; none if it refused.
fn measured(line: &Line) -> Option<Figures> {
    if line.answer.get("error").is_some() {
        return None;
    }
    let cards = line.asked["devices"].as_array().map_or(0, Vec::len);
    let remote: Vec<&str> = line.asked["rpc"]
        .as_array()
        .map_or_else(Vec::new, |list| list.iter().map(|one| one.as_str().unwrap()).collect());
    let all = cards + remote.len();
    let place = |buffer: &str| {
        let card = (0..cards).find(|at| buffer == format!("SIM{at}"));
        card.or_else(|| remote.iter().position(|name| buffer.contains(&format!("[{name}]"))).map(|at| cards + at))
    };
    let figures = ["model", "context", "compute"].map(|part| {
        let mut bytes = vec![0; all + 1];
        for (buffer, of) in line.answer[part].as_object().unwrap() {
            bytes[place(buffer).unwrap_or(all)] += of.as_u64().unwrap();
        }
        bytes
    });
    Some((figures, line.answer["model"]["CPU_REPACK"].as_u64().unwrap_or(0)))
}

fn planned(plan: &Plan) -> Figures {
    let of =
        |part: fn(&plimsoll::plan::DevicePlan) -> Bytes| plan.devices.iter().map(|device| part(device).0).collect();
    let figures = [
        of(|device| device.weights),
        of(|device| device.cache),
        // of several cards a load can take less than what is measured
        of(|device| device.graph_measured.unwrap_or(device.graph)),
    ];
    (figures, plan.cpu().ram.repacked.0)
}

/// How a plan compares with what a build said.
#[derive(Clone, Copy, Default)]
pub struct Count {
    pub lines: usize,
    pub exact: usize,
    /// Said to be exact.
    pub said: usize,
    /// Said to be exact, and are not.
    pub wrong: usize,
}

/// What the lines of a file say, per build; a description of each kind of plan that differs.
fn compare(name: &str) -> (BTreeMap<u64, Count>, BTreeSet<String>) {
    let lines = read(name);
    let counts: Mutex<BTreeMap<u64, Count>> = Mutex::default();
    let differ: Mutex<BTreeSet<String>> = Mutex::default();
    let models: BTreeSet<&str> = lines.iter().map(|line| line.model.as_str()).collect();
    let models: Vec<&str> = models.into_iter().collect();
    let next = Mutex::new(models.into_iter());
    let work = || {
        while let Some(name) = next.lock().unwrap_or_else(PoisonError::into_inner).next() {
            let model = fixtures::model(name);
            for line in lines.iter().filter(|line| line.model == name) {
                compare_line(&model, line, &counts, &differ);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    (counts.into_inner().unwrap(), differ.into_inner().unwrap())
}

fn compare_line(
    model: &PreparedModel,
    line: &Line,
    counts: &Mutex<BTreeMap<u64, Count>>,
    differ: &Mutex<BTreeSet<String>>,
) {
    let measured = measured(line);
    let machine = machine(&line.asked);
    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for &build in &line.builds {
        let settings = settings(&line.asked, build);
        let plan: Result<Plan, EngineError> = engine::plan(EngineId::LlamaCpp, model, &machine, &settings);
        let (confidence, figures) = match &plan {
            Ok(plan) => (plan.confidence, Some(planned(plan))),
            Err(_) => (Confidence::Exact, None),
        };
        let exact = match (&figures, &measured) {
            (Some((planned, repacked)), Some((measured, in_layout))) => {
                if line.asked["repack"] == true {
                    repacked == in_layout
                } else {
                    planned == measured
                }
            }
            (None, None) => true,
            _ => false,
        };
        let said = confidence == Confidence::Exact && (plan.is_ok() || measured.is_none());
        {
            let mut counts = counts.lock().unwrap();
            let count = counts.entry(build).or_default();
            count.lines += 1;
            count.exact += usize::from(exact);
            count.said += usize::from(said);
            count.wrong += usize::from(said && !exact);
        }
        if !exact {
            let refusal = plan.err().map(|why| why.to_string());
            let text = format!(
                "{} {}: planned {:?} {:?} {refusal:?}, measured {:?}",
                line.model, line.asked, confidence, figures, measured
            );
            found.entry(text).or_default().push(build);
        }
    }
    differ.lock().unwrap().extend(found.into_iter().map(|(text, builds)| format!("{builds:?} {text}")));
}

pub fn table(counts: &BTreeMap<u64, Count>) -> String {
    let mut table = String::from("| build | answers | exact | said to be exact |\n| --- | ---: | ---: | ---: |\n");
    for (build, Count { lines, exact, said, .. }) in counts {
        writeln!(table, "| {} | {lines} | {exact} | {said} |", Build(*build)).unwrap();
    }
    let sum = |of: fn(&Count) -> usize| counts.values().map(of).sum::<usize>();
    write!(table, "| all | {} | {} | {} |", sum(|one| one.lines), sum(|one| one.exact), sum(|one| one.said)).unwrap();
    table
}

fn add(all: &mut BTreeMap<u64, Count>, more: BTreeMap<u64, Count>) {
    for (build, Count { lines, exact, said, wrong }) in more {
        let count = all.entry(build).or_default();
        (count.lines, count.exact) = (count.lines + lines, count.exact + exact);
        (count.said, count.wrong) = (count.said + said, count.wrong + wrong);
    }
}

/// What all lines of these files say: per build, and the plans that differ.
pub fn compare_all(files: &[&str]) -> (BTreeMap<u64, Count>, BTreeSet<String>) {
    let (mut counts, mut differ) = (BTreeMap::new(), BTreeSet::new());
    for name in files {
        let (of_file, text) = compare(name);
        add(&mut counts, of_file);
        differ.extend(text);
    }
    (counts, differ)
}

/// Where plans differ they are not called exact, and the table says how many do.
#[test]
fn plans_are_what_builds_reserve_or_say_that_they_are_modelled() {
    let (counts, differ) = compare_all(&["models", "mini", "experts"]);
    for text in &differ {
        println!("{text}");
    }
    let wrong: BTreeMap<u64, usize> =
        counts.iter().map(|(build, count)| (*build, count.wrong)).filter(|(_, wrong)| *wrong > 0).collect();
    assert!(wrong.is_empty(), "said to be exact, and are not: {wrong:?}");
    check_table("tests/exactness.md", "builds", &table(&counts));
}

/// Remote CPUs pad buffers less than the cards that are planned for.
#[test]
fn plans_with_remote_servers_are_not_called_exact() {
    let (counts, _) = compare_all(&["rpc"]);
    assert!(counts.values().all(|count| count.said == 0), "{}", table(&counts));
}
