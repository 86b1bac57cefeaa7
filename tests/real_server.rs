//! Starts of a real llama-server on a CPU with AVX-512, alone and with devices over RPC (`starts.jsonl.gz`): the buffers
//! that it printed, and what the kernel counted after the load and after a prompt of 700 tokens.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use plimsoll::answer::check::{CheckRequest, CheckedTerm, check};
use plimsoll::answer::ram::RamUse;
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::gguf::Header;
use plimsoll::machine::spec::MachineSpec;
use plimsoll::machine::{Backend, Cpu, CpuInstructions, Drivers, Gpu, Machine, Origin, Os, Ram};
use plimsoll::model::Model;
use plimsoll::observed::{Load, Observation, Term};
use plimsoll::plan::Plan;
use plimsoll::settings::{CacheType, Context, GpuLayers, Release, Settings};
use plimsoll::units::Bytes;
use serde_json::Value;

use crate::support;

/// What a buffer's line may be off, in MiB.
const LINE: f64 = 0.02;
/// Memory of a program besides its buffers.
const PROGRAM: Bytes = Bytes::mib(40);

struct Start {
    id: String,
    request: PlanRequest,
    load: Load,
    after_load: Bytes,
    /// None where the prompt was not answered.
    after_prompt: Option<Bytes>,
    embeds: bool,
    command: String,
    text: String,
}

impl Start {
    /// How `check` is asked of it by a user who has the file.
    fn as_checked<'a>(&self, nothing: &'a MachineSpec, release: Option<Release>) -> CheckRequest<'a> {
        CheckRequest {
            model: Arc::clone(&self.request.model),
            projector: None,
            is_same_file: true,
            machine: nothing,
            engine: None,
            release,
            knobs: &|_| {},
        }
    }

    fn plan(&self, release: Release) -> Plan {
        let settings = Settings { release: Some(release), ..self.request.settings.clone() };
        PlanRequest { settings, ..self.request.clone() }.plan().unwrap()
    }
}

fn starts() -> Vec<Start> {
    lines("starts").iter().map(start).collect()
}

fn lines(name: &str) -> Vec<Value> {
    let path = support::tests().join(format!("real_server/{name}.jsonl.gz"));
    let mut text = String::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn start(line: &Value) -> Start {
    let text = |key: &str| line[key].as_str().unwrap();
    let words: Vec<&str> = text("command").split(' ').collect();
    let anonymous = |when: &str| line[when]["RssAnon"].as_u64().map(|kib| Bytes(kib << 10));
    let model = Model::from_header(header(text("model")), text("model")).unwrap();
    let rpc = words.iter().position(|word| *word == "--rpc").map_or(0, |at| words[at + 1].split(',').count());
    let request = PlanRequest::new(EngineId::LlamaCpp, Arc::new(model.into()), machine(rpc), settings(&words));
    Start {
        id: text("id").to_owned(),
        load: Observation::of(text("raw")).load().unwrap().clone(),
        request,
        after_load: anonymous("after_load").unwrap(),
        after_prompt: anonymous("after_prompt"),
        embeds: words.contains(&"--embeddings"),
        command: text("command").to_owned(),
        text: text("raw").to_owned(),
    }
}

/// The header of a model of `tests/models`, or of one whose later blocks were cut off.
fn header(name: &str) -> Header {
    let path = support::tests().join(format!("real_server/{name}.json.gz"));
    let Ok(file) = File::open(path) else { return support::model(name) };
    let mut json = String::new();
    GzDecoder::new(file).read_to_string(&mut json).unwrap();
    support::description::header(&json).unwrap()
}

/// A machine without a GPU, and `rpc` others that offer their RAM.
fn machine(rpc: usize) -> Machine {
    let gpu = |at: usize| Gpu {
        computer: Some(format!("server {at}").into()),
        ..Gpu::of("CPU", Backend::Plain, Bytes::mib(24_105))
    };
    let ram = Ram { total: Bytes::mib(24_105), free: Bytes::mib(24_105), swap_free: Bytes::ZERO, bandwidth: None };
    Machine {
        disk: None,
        os: Os::Linux,
        cpu: Cpu::with(CpuInstructions::Avx512),
        gpus: (0..rpc).map(gpu).collect(),
        ram,
        origin: Origin::Described,
        drivers: Drivers::default(),
    }
}

fn settings(words: &[&str]) -> Settings {
    let value = |name: &str| words.iter().position(|word| *word == name).map(|at| words[at + 1]);
    let number = |name: &str| value(name).map(|text| text.parse::<u64>().unwrap());
    let cache = |name: &str| value(name).map(|text| text.parse::<CacheType>().unwrap());
    let default = Settings::default();
    Settings {
        ctx: number("-c").map_or(Context::Auto, Context::Tokens),
        parallel: number("-np"),
        batch: number("-b"),
        ubatch: number("-ub"),
        cache_type_k: cache("-ctk"),
        cache_type_v: cache("-ctv"),
        flash_attn: match value("-fa") {
            Some("on") => plimsoll::settings::FlashAttn::On,
            Some("off") => plimsoll::settings::FlashAttn::Off,
            _ => default.flash_attn,
        },
        gpu_layers: number("-ngl").map_or(default.gpu_layers, GpuLayers::Count),
        n_cpu_moe: number("-ncmoe"),
        load_mode: value("--load-mode").map(|text| text.parse().unwrap()),
        no_repack: words.contains(&"--no-repack"),
        ..default
    }
}

/// The buffers that were printed, in MiB, of devices whose name begins so.
fn printed(load: &Load, device: &str, term: Term) -> f64 {
    let of = load.observed.iter().filter(|(name, _)| name.starts_with(device));
    of.filter_map(|(_, terms)| terms.get(&term)).map(|mib| mib.0).sum()
}

fn mib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / f64::from(1 << 20)
}

#[test]
fn buffers_in_ram_are_those_that_were_printed() {
    let starts = starts();
    assert_eq!(starts.len(), 28);
    for start in &starts {
        let plan = start.plan(Release::August2026);
        let cpu = plan.cpu();
        let near = |planned: Bytes, printed: f64, what: &str| {
            assert!((mib(planned) - printed).abs() <= LINE, "{}: {what} {planned}, printed {printed}", start.id);
        };
        let of = |device: &str, term: Term| printed(&start.load, device, term);
        near(cpu.weights, of("CPU", Term::Model), "weights");
        near(cpu.ram.repacked, of("CPU_REPACK", Term::Model), "repacked weights");
        near(cpu.cache, of("CPU", Term::Kv) + of("CPU", Term::Rs), "caches");
    }
}

/// The build is between two releases. Logits of embeddings, and what several devices in a pipeline take of RAM, are no
/// matter of repacked weights.
#[test]
fn repacked_weights_leave_the_compute_buffer_as_it_is() {
    for start in starts().iter().filter(|start| !start.embeds && start.request.machine.gpus.len() < 2) {
        let printed = printed(&start.load, "CPU", Term::Compute);
        let planned = [Release::August2026, Release::September2026].map(|release| mib(start.plan(release).cpu().graph));
        assert!(
            planned.iter().any(|planned| (planned - printed).abs() <= LINE),
            "{}: {planned:?}, {printed}",
            start.id
        );
    }
}

/// Anonymous memory is what must stay: after the load up to the compute buffer less, whose pages are touched with use.
#[test]
fn what_must_stay_is_what_the_kernel_counts() {
    for start in starts() {
        let plan = start.plan(Release::August2026);
        let ram = RamUse::of(&start.request, &plan);
        let (must, loaded, id) = (ram.must, start.after_load, &start.id);
        assert!(loaded <= must + PROGRAM, "{id}: {loaded} after the load, {must} planned");
        assert!(loaded >= must - plan.cpu().graph, "{id}: {loaded} after the load, {must} planned");
        let most = must + ram.prompt_cache.unwrap_or_default() + ram.checkpoints + PROGRAM;
        assert!(start.after_prompt.is_none_or(|prompt| prompt <= most), "{id}: after a prompt, {most} planned");
        assert_eq!(ram.must + ram.warm + ram.may_page, plan.cpu().asked(), "{id}");
    }
}

/// Pages of repacked weights are read once, while loading: nothing waits for them.
#[test]
fn pages_of_repacked_weights_may_go() {
    let starts = starts();
    let start = starts.iter().find(|start| start.id == "real-24").unwrap();
    let plan = start.plan(Release::August2026);
    let cpu = plan.cpu();
    let of_tensors = start.request.model.header.tensors.iter().map(|tensor| tensor.bytes).sum::<Bytes>();
    assert!(cpu.weights > of_tensors && cpu.weights - cpu.ram.read_once >= of_tensors);
    assert_eq!(cpu.needed(), cpu.asked() - cpu.ram.read_once);
    let in_the_file = PlanRequest {
        settings: Settings { no_repack: true, ..start.request.settings.clone() },
        ..start.request.clone()
    };
    let plan = in_the_file.plan().unwrap();
    assert_eq!((plan.cpu().ram.repacked, plan.cpu().ram.read_once), (Bytes::ZERO, Bytes::ZERO));
    assert_eq!(RamUse::of(&in_the_file, &plan).must, plan.cpu().cache + plan.cpu().graph);
}

/// Weights in the mapped file and repacked ones are rows of their own, and neither is called a span. The text does not
/// tell `-ncmoe`.
#[test]
fn check_has_a_row_for_repacked_weights() {
    let nothing = MachineSpec::default();
    let told = |start: &&Start| start.load.repacks() && start.request.settings.n_cpu_moe.is_none();
    for start in starts().iter().filter(told) {
        let request = start.as_checked(&nothing, Some(Release::August2026));
        let check = check(&start.load, &request).unwrap();
        for term in [CheckedTerm::Model, CheckedTerm::Repacked] {
            let row = check.rows.iter().find(|row| row.device == "CPU" && row.term == term);
            let row = row.unwrap_or_else(|| panic!("{}: no row of {term}", start.id));
            let (planned, observed) = (row.planned.unwrap_or_default().0, row.observed.unwrap_or_default().0);
            assert!((planned - observed).abs() <= LINE, "{}: {term} {planned} and {observed}", start.id);
            assert_eq!(row.reason, None, "{}: {term}", start.id);
        }
    }
}

/// Every start as its user would check it: the command above its lines. The build is between two releases, and it ran on
/// a CPU, also behind other computers' addresses.
#[test]
fn starts_agree_whole_with_their_plans() {
    let (starts, mut differ) = (starts(), Vec::new());
    for start in &starts {
        let seen = Observation::of(&format!("{}\n{}", start.command, start.text));
        assert_eq!(seen.loads.len(), 1, "{}", start.id);
        let nothing = MachineSpec::default();
        let request = start.as_checked(&nothing, None);
        let check = check(seen.load().unwrap(), &request).unwrap();
        if !check.agrees() {
            differ.push(format!("{}: {:?} {:#?}", start.id, check.split, check.rows));
        }
    }
    assert!(differ.len() * 20 <= starts.len(), "{} of {} differ\n{}", differ.len(), starts.len(), differ.join("\n"));
}

/// Starts with random settings (`further.jsonl.gz`), on one CPU and with one to three servers over RPC: of the first 17,
/// 15 agreed when they were first seen, and of the next 11 all.
#[test]
fn further_starts_agree_whole() {
    let mut differ = Vec::new();
    for line in lines("further") {
        let [id, command, model, raw] = ["id", "command", "model", "raw"].map(|key| line[key].as_str().unwrap());
        let seen = Observation::of(&format!("{command}\n{raw}"));
        let request = CheckRequest {
            model: Arc::new(Model::from_header(header(model), model).unwrap().into()),
            projector: None,
            is_same_file: true,
            machine: &MachineSpec::default(),
            engine: None,
            release: None,
            knobs: &|_| {},
        };
        let check = check(seen.load().unwrap(), &request).unwrap();
        if !check.agrees() {
            differ.push(format!("{id} {command}: {:?} {:#?}", check.split, check.rows));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// What tells settings in a log: without it, `check` has to find them by the figures.
const TELLS_SETTINGS: [&str; 14] = [
    "n_ctx",
    "n_seq_max",
    "n_batch",
    "n_ubatch",
    "flash_attn",
    "kv_unified",
    "Flash Attention",
    " cells,",
    "n_slots",
    "n_parallel",
    "reserving a graph",
    "fit",
    "memory breakdown",
    "n_outputs",
];

/// The settings that a reason names, with their values.
fn named(reason: &str) -> Vec<(&str, &str)> {
    let words: Vec<&str> = reason.split([' ', ',', ';']).collect();
    words.windows(2).filter(|pair| pair[0].starts_with("--")).map(|pair| (pair[0], pair[1])).collect()
}

/// Starts of which nothing tells the settings, the type of their caches included: what a reason names is what the server
/// was started with. When first asked, 142 of 158 were so; most others have caches in f32, which take what f16 does at
/// twice the context.
#[test]
fn reasons_name_the_settings_that_a_log_does_not_tell() {
    let (mut judged, mut wrong) = (0, Vec::new());
    for line in lines("starts").into_iter().chain(lines("further")) {
        let [id, command, model, raw] = ["id", "command", "model", "raw"].map(|key| line[key].as_str().unwrap());
        let truth = Observation::of(&format!("{command}\n{raw}")).load().unwrap().settings.clone();
        let tells = |line: &&str| !TELLS_SETTINGS.iter().any(|word| line.contains(word));
        let hidden = raw.lines().filter(tells).collect::<Vec<_>>().join("\n");
        let seen = Observation::of(&hidden);
        let request = CheckRequest {
            model: Arc::new(Model::from_header(header(model), model).unwrap().into()),
            projector: None,
            is_same_file: true,
            machine: &MachineSpec::default(),
            engine: None,
            release: None,
            knobs: &|_| {},
        };
        let Some(load) = seen.load() else { continue };
        let check = check(load, &request).unwrap();
        for row in check.rows.iter().filter(|row| row.reason.is_some()) {
            let reason = row.reason.as_ref().unwrap().to_string();
            for (option, value) in named(&reason) {
                let is = match option {
                    "--ctx" => truth.n_ctx.map(|n| n.to_string()),
                    "--parallel" => truth.n_seq_max.map(|n| n.to_string()),
                    "--ubatch" => truth.n_ubatch.map(|n| n.to_string()),
                    "--flash-attn" => Some(if command.contains("-fa off") { "off" } else { "on" }.to_owned()),
                    // other lines tell it
                    _ => continue,
                };
                judged += 1;
                if is.as_deref() != Some(value) {
                    wrong.push(format!("{id}: {option} {value}, and it was {is:?}: {command}"));
                }
            }
        }
    }
    println!("{} of {judged} as they were", judged - wrong.len());
    assert!(judged > 100 && wrong.len() * 10 <= judged, "{} of {judged} are wrong\n{}", wrong.len(), wrong.join("\n"));
}
