//! What a fit decided, exported: planned again it is the same plan.

use std::sync::Arc;

use plimsoll::engine::{DraftFile, EngineId, PlanRequest, PreparedModel};
use plimsoll::export::{ExportFormat, ExportInput, ModelLocation};
use plimsoll::machine::{Backend, Gpu, Machine};
use plimsoll::model::Projector;
use plimsoll::plan::{DevicePlan, Plan};
use plimsoll::settings::{
    CacheType, Context, DraftSettings, Flag, GpuLayers, InEffect, LlamaProgram, Release, Settings, SpecType, SplitMode,
};
use plimsoll::units::Bytes;
use rstest::rstest;

use crate::{fixtures, support};

/// The words of a command line as a shell divides it.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words
}

/// The options of a command.
pub fn options(command: &str) -> Settings {
    let line = command.lines().find(|line| !line.starts_with('#')).unwrap();
    let mut settings = Settings::default();
    let mut words = words(line).into_iter().skip(1);
    while let Some(word) = words.next() {
        if ["-m", "-md", "--mmproj", "--rpc"].contains(&word.as_str()) {
            words.next();
            continue;
        }
        let named = Flag::ALL.iter().find(|flag| flag.row().argument == Some(&word));
        let flag = named.unwrap_or_else(|| panic!("{word} in {line}"));
        let value = if flag.row().takes == plimsoll::settings::flag::Takes::Nothing {
            "true".to_owned()
        } else {
            words.next().unwrap()
        };
        flag.read(&mut settings, &value).unwrap();
    }
    settings
}

fn figures(device: &DevicePlan) -> String {
    let DevicePlan { id, weights, cache, graph, growth, layers, .. } = device;
    format!("{id}: {} {} {} {}, layers {layers:?}\n", weights.0, cache.0, graph.0, growth.0)
}

/// That two plans place the same bytes on the same devices.
pub fn assert_same(plan: &Plan, again: &Plan, what: &str) {
    let devices = |plan: &Plan| plan.devices.iter().map(figures).collect::<String>();
    assert!(devices(plan) == devices(again), "{what}{}and again\n{}", devices(plan), devices(again));
    let effect = |plan: &Plan| InEffect { gpu_layers: 0, override_tensor: Vec::new(), ..plan.settings.clone() };
    assert_eq!(effect(plan), effect(again), "{what}");
    assert_eq!((plan.verdict, plan.layers.len()), (again.verdict, again.layers.len()), "{what}");
    let homes = |plan: &Plan| plan.layers.iter().map(|layer| (layer.device, layer.elsewhere())).collect::<Vec<_>>();
    assert_eq!(homes(plan), homes(again), "{what}");
}

fn exported(request: &PlanRequest, plan: &Plan, pinned: bool) -> String {
    let location = ModelLocation::File("model.gguf".to_owned());
    let input = ExportInput { request, plan, location: &location, minimal: false, pinned, scenario: None };
    ExportFormat::LlamaServer.write(&input).unwrap()
}

/// The pinned command of a request, whose plan is the same. What no command line of llama.cpp says is taken from the
/// request.
fn pinned(request: &PlanRequest) -> Option<String> {
    let plan = request.plan().ok()?;
    let command = exported(request, &plan, true);
    let read = options(&command);
    let Settings { projector, program, release, draft, .. } = &request.settings;
    let settings = Settings {
        projector: projector.clone(),
        program: *program,
        release: *release,
        draft: DraftSettings { types: read.draft.types.clone().or(draft.types.clone()), ..read.draft.clone() },
        ..read
    };
    let again = request.with(settings).plan().unwrap_or_else(|error| panic!("{error}: {command}"));
    assert_same(&plan, &again, &command);
    Some(command)
}

fn request(model: PreparedModel, machine: Machine, settings: Settings) -> PlanRequest {
    PlanRequest::new(EngineId::LlamaCpp, model, machine, settings)
}

/// Machines that hold a part of the model, or all of it, on GPUs of one size and of several.
fn machines(model: &PreparedModel) -> Vec<Machine> {
    let share = |percent: u64| Bytes(model.bytes.0 / 100 * percent + (1 << 30));
    let gpus = |shares: &[u64]| {
        let cards = shares.iter().map(|percent| fixtures::card(Backend::Cuda, share(*percent)));
        let ram = fixtures::server(0, Bytes::ZERO).ram;
        Machine { ram, ..fixtures::machine(cards.collect()) }
    };
    let mut machines: Vec<Machine> = fixtures::machines(model).into_iter().step_by(2).collect();
    machines.extend([
        gpus(&[]),
        gpus(&[3]),
        gpus(&[40]),
        gpus(&[90]),
        gpus(&[60, 20]),
        gpus(&[20, 60]),
        gpus(&[15, 5, 45]),
        gpus(&[100, 60, 10]),
        fixtures::cards(&[1]),
        fixtures::cards(&[2, 1]),
    ]);
    machines
}

#[rstest]
fn a_pinned_command_makes_the_same_plan(
    #[values(
        "llama3.1-8b",
        "llama3.1-70b",
        "gemma3-27b",
        "phi-2",
        "mamba-2.8b",
        "qwen3.5-9b",
        "gemma-4-e2b",
        "mixtral-8x7b",
        "gpt-oss-20b",
        "qwen3-30b-a3b",
        "qwen3-235b-a22b",
        "glm-4.5-air",
        "llama4-scout",
        "deepseek-v2-lite",
        "qwen3-coder-next",
        "nemotron-3-nano-30b-a3b"
    )]
    name: &str,
) {
    let model: Arc<PreparedModel> = fixtures::model(name).into();
    let mut overrides = 0;
    for machine in machines(&model) {
        let request = PlanRequest::new(EngineId::LlamaCpp, Arc::clone(&model), machine, Settings::default());
        let command = pinned(&request).unwrap_or_default();
        overrides += usize::from(command.contains(" -ot "));
    }
    assert_eq!(overrides > 0, model.hyper.experts.is_some(), "{name}");
}

#[rstest]
fn other_options_stay(
    #[values("llama3.1-8b", "gpt-oss-20b", "glm-4.5-air")] name: &str,
    #[values(Release::August2026, Release::September2026, Release::November2026)] release: Release,
) {
    let types = (Some(CacheType::Q8_0), Some(CacheType::Q8_0));
    let ctx = Context::Tokens(16_384);
    let cases = [
        Settings { ctx, ..Settings::default() },
        Settings { ctx: Context::Max, cache_type_k: types.0, cache_type_v: types.1, ..Settings::default() },
        Settings { gpu_layers: GpuLayers::Count(11), ..Settings::default() },
        Settings { gpu_layers: GpuLayers::All, ..Settings::default() },
        Settings { tensor_split: vec![3.0, 1.0], ..Settings::default() },
        Settings { parallel: Some(4), ubatch: Some(256), ..Settings::default() },
        Settings { n_cpu_moe: Some(7), ..Settings::default() },
        Settings { no_kv_offload: true, fit_target: Some(Bytes::mib(300)), ..Settings::default() },
        Settings { split_mode: SplitMode::None, main_gpu: 1, ..Settings::default() },
        Settings { devices: Some(vec!["1".parse().unwrap(), "0".parse().unwrap()]), ..Settings::default() },
        Settings { no_fit: true, ..Settings::default() },
        Settings { ctx_per_slot: Some(4096), fit_ctx: Some(8192), ..Settings::default() },
    ];
    let model: Arc<PreparedModel> = fixtures::model(name).into();
    let model = &model;
    for settings in cases {
        let settings = Settings { release: Some(release), ..settings };
        for machine in [fixtures::cards(&[8, 6]), fixtures::cards(&[24, 12]), fixtures::cards(&[12])] {
            pinned(&PlanRequest::new(EngineId::LlamaCpp, Arc::clone(model), machine, settings.clone()));
        }
    }
}

#[rstest]
#[case("llama3.1-8b", "llama3.1-8b-eagle3", SpecType::DraftEagle3)]
#[case("qwen3-235b-a22b", "qwen3-0.6b", SpecType::DraftSimple)]
#[case("qwen2.5-32b", "qwen2.5-0.5b", SpecType::DraftSimple)]
fn drafts_stay_where_they_are(#[case] name: &str, #[case] draft: &str, #[case] kind: SpecType) {
    let draft = DraftFile { model: fixtures::model(draft).into(), file: "draft.gguf".to_owned() };
    let model = fixtures::model(name).with_draft(Some(draft));
    for machine in machines(&model) {
        let draft = DraftSettings { types: Some(vec![kind]), ..DraftSettings::default() };
        pinned(&request(model.clone(), machine, Settings { draft, ..Settings::default() }));
    }
}

#[test]
fn mtp_blocks_are_pinned() {
    let model = fixtures::model("glm-4.5-air");
    for machine in machines(&model) {
        let draft = DraftSettings { types: Some(vec![SpecType::DraftMtp]), ..DraftSettings::default() };
        pinned(&request(model.clone(), machine, Settings { draft, ..Settings::default() }));
    }
}

#[test]
fn a_projector_is_beside_the_same_layers() {
    let header = support::description::header(&support::projector_json("ultravox-v0.5-8b-f16")).unwrap();
    let projector = Some(Projector::new("mmproj.gguf".to_owned(), header));
    let model = fixtures::model("llama3.1-8b");
    for machine in machines(&model) {
        pinned(&request(model.clone(), machine, Settings { projector: projector.clone(), ..Settings::default() }));
    }
}

#[rstest]
fn devices_have_llama_cpps_names(
    #[values(Backend::Cuda, Backend::Rocm, Backend::Vulkan, Backend::Sycl)] backend: Backend,
) {
    let card = |gib: u64| fixtures::card(backend, Bytes::gib(gib));
    let integrated = Gpu { integrated: true, ..card(8) };
    let machine = fixtures::machine(vec![integrated, card(9), card(6), card(5)]);
    let command = pinned(&request(fixtures::model("qwen3-30b-a3b"), machine, Settings::default())).unwrap();
    let devices: Vec<String> =
        command.split('=').skip(1).map(|rest| rest.split([',', '\'']).next().unwrap().into()).collect();
    let own: Vec<String> = ["2", "3"].map(|index| format!("{}{index}", backend.name())).into();
    assert!(devices.starts_with(&own) && devices.contains(&"CPU".to_owned()), "{devices:?}");
    assert!(devices[2..].iter().all(|device| device == "CPU"), "{devices:?}");
}

#[test]
fn gpus_of_other_computers_are_named_by_their_buffers() {
    let there =
        |computer: &str| Gpu { computer: Some(computer.into()), ..fixtures::card(Backend::Cuda, Bytes::gib(5)) };
    let gpus = vec![fixtures::card(Backend::Cuda, Bytes::gib(5)), there("garage"), there("attic"), there("attic")];
    let command =
        pinned(&request(fixtures::model("qwen3-30b-a3b"), fixtures::machine(gpus), Settings::default())).unwrap();
    let at = |what: &str| command.find(what).unwrap_or_else(|| panic!("no {what} in {command}"));
    assert!(at(" --rpc garage:50052,attic:50052") < at(" -ot "), "{command}");
    assert!(at("=RPC0[attic:50052]") < at("=RPC1[attic:50052]"), "{command}");
}

#[test]
fn a_split_of_three_gpus_is_what_llama_fit_params_prints() {
    let machine = fixtures::cards(&[9, 6, 5]);
    let command = pinned(&request(fixtures::model("qwen3-30b-a3b"), machine, Settings::default())).unwrap();
    insta::assert_snapshot!(command);
}

#[test]
fn what_is_not_fitted_is_exported_as_it_is() {
    let machine = fixtures::cards(&[12, 8]);
    let set = Settings {
        ctx: Context::Tokens(8192),
        gpu_layers: GpuLayers::Count(20),
        tensor_split: vec![2.0, 1.0],
        ..Settings::default()
    };
    let tensors = Settings { split_mode: SplitMode::Tensor, ..Settings::default() };
    for settings in [set, tensors, Settings { no_fit: true, ..Settings::default() }] {
        let request = request(fixtures::model("llama3.1-8b"), machine.clone(), settings);
        let plan = request.plan().unwrap();
        let command = |pinned: bool| {
            let text = exported(&request, &plan, pinned);
            text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(command(true), command(false));
        assert!(exported(&request, &plan, true).contains("# nothing was left to llama-server's fit\n"));
    }
}

#[test]
fn programs_keep_their_own_context() {
    for program in LlamaProgram::ALL {
        let settings = Settings { program, ..Settings::default() };
        let request = request(fixtures::model("llama3.1-8b"), fixtures::cards(&[6]), settings);
        let plan = request.plan().unwrap();
        let pinned = request.pinned().unwrap().unwrap();
        assert_same(&plan, &pinned.plan().unwrap(), program.name());
    }
}

#[test]
fn a_server_of_ones_own_is_pinned_for_ollamas_plan_too() {
    let request =
        PlanRequest::new(EngineId::Ollama, fixtures::model("llama3.1-8b"), fixtures::cards(&[6]), Settings::default());
    let command = exported(&request, &request.plan().unwrap(), true);
    assert!(command.contains("# pinned as llama-server's fit decides for this machine: "), "{command}");
    let again = exported(&request, &request.plan().unwrap(), false);
    assert!(again.contains("\nllama-server -m model.gguf ") && !again.contains("--port"), "{again}");
}

#[test]
fn an_estimators_layers_are_pinned_as_they_are() {
    let request = PlanRequest::new(
        EngineId::Ollama024,
        fixtures::model("llama3.1-8b"),
        fixtures::cards(&[6, 3]),
        Settings::default(),
    );
    let plan = request.plan().unwrap();
    let command = exported(&request, &plan, true);
    let read = options(&command);
    assert_eq!(read.gpu_layers, GpuLayers::Count(plan.offloaded as u64), "{command}");
    assert_eq!((read.tensor_split.len(), read.ctx), (2, Context::Tokens(plan.settings.ctx_total)), "{command}");
}

#[test]
fn options_without_effect_are_left_out_and_what_is_pinned_is_not() {
    let settings = Settings { fit_target: Some(Bytes::mib(300)), batch: Some(2048), ..Settings::default() };
    let request = request(fixtures::model("llama3.1-8b"), fixtures::cards(&[24, 24]), settings);
    let (plan, location) = (request.plan().unwrap(), ModelLocation::File("model.gguf".to_owned()));
    let input = ExportInput {
        request: &request,
        plan: &plan,
        location: &location,
        minimal: true,
        pinned: true,
        scenario: None,
    };
    let command = ExportFormat::LlamaServer.write(&input).unwrap();
    assert_eq!(command.lines().last(), Some("llama-server -m model.gguf -c 131072 -ngl 33 -ts 17,16"));
}
