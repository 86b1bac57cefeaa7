//! Exports read back: the settings they contain make the same plan.

use plimsoll::engine::PlanRequest;
use plimsoll::engine::{self, EngineId};
use plimsoll::export::{ExportFormat, ExportInput, ModelLocation, llama_server};
use plimsoll::machine::{Backend, Gpu, Machine, Os, Ram};
use plimsoll::model::Model;
use plimsoll::plan::{DevicePlan, Plan};
use plimsoll::settings::{CacheType, Context, Flag, FlashAttn, GpuLayers, InEffect, Settings};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::select;

use crate::{fixtures, laws};

/// Applies one of Ollama's options.
fn with_options(settings: &mut Settings, options: impl IntoIterator<Item = (String, u64)>) {
    for (name, value) in options {
        match name.as_str() {
            "num_ctx" => settings.ctx = Context::Tokens(value),
            "num_batch" => settings.batch = Some(value),
            "num_gpu" => settings.gpu_layers = GpuLayers::Count(value),
            other => panic!("Ollama has no option {other}"),
        }
    }
}

fn of_modelfile(text: &str) -> Vec<(String, u64)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("PARAMETER "));
    lines
        .map(|line| line.split_once(' ').map(|(name, value)| (name.to_owned(), value.parse().unwrap())).unwrap())
        .collect()
}

fn of_json(text: &str) -> Vec<(String, u64)> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).unwrap();
    object.into_iter().map(|(name, value)| (name, value.as_u64().unwrap())).collect()
}

/// `export NAME=value`, and `Environment="NAME=value"`.
fn of_variables(text: &str) -> Vec<(String, String)> {
    let bare = |line: &str| line.strip_prefix("export ").or(line.strip_prefix("Environment=")).map(str::to_owned);
    let lines = text.lines().filter_map(bare);
    lines
        .map(|line| line.trim_matches('"').split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())).unwrap())
        .collect()
}

fn with_variables(settings: &mut Settings, variables: Vec<(String, String)>) {
    for (name, value) in variables {
        let flag = || value == "1";
        match name.as_str() {
            "OLLAMA_CONTEXT_LENGTH" => settings.ctx = Context::Tokens(value.parse().unwrap()),
            "OLLAMA_NUM_PARALLEL" => settings.parallel = Some(value.parse().unwrap()),
            "OLLAMA_KV_CACHE_TYPE" => {
                let ty: CacheType = value.parse().unwrap();
                (settings.cache_type_k, settings.cache_type_v) = (Some(ty), Some(ty));
            }
            "OLLAMA_FLASH_ATTENTION" => settings.flash_attn = if flag() { FlashAttn::On } else { FlashAttn::Off },
            "OLLAMA_GPU_OVERHEAD" => settings.gpu_overhead = Bytes(value.parse().unwrap()),
            "OLLAMA_SCHED_SPREAD" => settings.spread = flag(),
            "LLAMA_ARG_CACHE_TYPE_K" => settings.cache_type_k = Some(value.parse().unwrap()),
            "LLAMA_ARG_CACHE_TYPE_V" => settings.cache_type_v = Some(value.parse().unwrap()),
            "LLAMA_ARG_KV_UNIFIED" => settings.kv_unified = flag(),
            "LLAMA_ARG_KV_OFFLOAD" => settings.no_kv_offload = !flag(),
            "LLAMA_ARG_SWA_FULL" => settings.swa_full = flag(),
            "LLAMA_ARG_TENSOR_SPLIT" => settings.tensor_split = shares(&value),
            "LLAMA_ARG_FIT_TARGET" => settings.fit_target = Some(Bytes::mib(value.parse().unwrap())),
            "LLAMA_ARG_N_CPU_MOE" => settings.n_cpu_moe = Some(value.parse().unwrap()),
            other => panic!("no server reads {other}"),
        }
    }
}

fn shares(text: &str) -> Vec<f64> {
    text.split(',').map(|share| share.parse().unwrap()).collect()
}

/// Parses a llama-server command into settings and the devices it names.
fn of_command(text: &str) -> (Settings, Option<Vec<String>>) {
    let line = text.lines().find(|line| !line.starts_with('#')).unwrap();
    let mut words = line.split(' ');
    assert_eq!(words.next(), Some("llama-server"));
    let (mut settings, mut devices) = (Settings::default(), None);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap();
        match word {
            "-m" => assert_eq!(value(), "model.gguf"),
            "-c" => {
                settings.ctx = match value() {
                    "0" => Context::Max,
                    tokens => Context::Tokens(tokens.parse().unwrap()),
                }
            }
            "-np" => settings.parallel = Some(value().parse().unwrap()),
            "-b" => settings.batch = Some(value().parse().unwrap()),
            "-ub" => settings.ubatch = Some(value().parse().unwrap()),
            "-ctk" => settings.cache_type_k = Some(value().parse().unwrap()),
            "-ctv" => settings.cache_type_v = Some(value().parse().unwrap()),
            "-fa" => settings.flash_attn = if value() == "on" { FlashAttn::On } else { FlashAttn::Off },
            "-ngl" => {
                settings.gpu_layers = match value() {
                    "all" => GpuLayers::All,
                    count => GpuLayers::Count(count.parse().unwrap()),
                }
            }
            "-ts" => settings.tensor_split = shares(value()),
            "-ncmoe" => settings.n_cpu_moe = Some(value().parse().unwrap()),
            "-fitt" => settings.fit_target = Some(Bytes::mib(value().parse().unwrap())),
            "-fitc" => settings.fit_ctx = Some(value().parse().unwrap()),
            "-kvu" => settings.kv_unified = true,
            "-nkvo" => settings.no_kv_offload = true,
            "--no-op-offload" => settings.no_op_offload = true,
            "--swa-full" => settings.swa_full = true,
            "--device" => devices = Some(value().split(',').map(str::to_owned).collect()),
            other => panic!("llama-server has no option {other}"),
        }
    }
    (settings, devices)
}

/// `machine` with the GPUs that `--device` names, in its order.
fn seen(machine: &Machine, names: Option<&[String]>) -> Machine {
    let Some(names) = names else { return machine.clone() };
    let mut gpus = Vec::new();
    for name in names.iter().filter(|name| *name != "none") {
        let digits = name.find(|c: char| c.is_ascii_digit()).unwrap();
        let (word, number) = name.split_at(digits);
        let of = |gpu: &&Gpu| word == if gpu.backend == Backend::Metal { "MTL" } else { gpu.backend.name() };
        gpus.push(machine.gpus.iter().filter(of).nth(number.parse().unwrap()).unwrap().clone());
    }
    Machine { gpus, ..machine.clone() }
}

fn figures(device: &DevicePlan) -> (Bytes, Bytes, Bytes, &[usize]) {
    (device.weights, device.cache, device.graph, &device.layers)
}

fn same_plan(a: &Plan, b: &Plan) -> Result<(), TestCaseError> {
    // what was chosen is now asked for
    let sources = std::collections::BTreeMap::new;
    let effect = |plan: &Plan| InEffect { gpu_layers: 0, sources: sources(), ..plan.settings.clone() };
    prop_assert_eq!(effect(a), effect(b));
    prop_assert_eq!(a.verdict, b.verdict);
    let figures = |plan: &Plan| format!("{:?}", plan.devices.iter().map(figures).collect::<Vec<_>>());
    prop_assert_eq!(figures(a), figures(b));
    Ok(())
}

fn settings() -> impl Strategy<Value = Settings> {
    let ctx = prop_oneof![Just(Context::Auto), Just(Context::Max), (1..=1u64 << 16).prop_map(Context::Tokens)];
    let layers =
        prop_oneof![3 => Just(GpuLayers::Auto), 1 => Just(GpuLayers::All), 1 => (0..40u64).prop_map(GpuLayers::Count)];
    let ty = || prop_oneof![2 => Just(None), 1 => select(&[CacheType::F16, CacheType::Q8_0, CacheType::Q4_0][..]).prop_map(Some)];
    let flash = select(vec![FlashAttn::Auto, FlashAttn::On, FlashAttn::Off]);
    let batch = prop_oneof![Just(None), (1..=2048u64).prop_map(Some)];
    let parallel = prop_oneof![Just(None), (1..=8u64).prop_map(Some)];
    let overhead = prop_oneof![3 => Just(0), 1 => 0..=1u64 << 30];
    ((ctx, layers, ty(), ty()), (flash, batch, parallel, overhead), any::<[bool; 5]>()).prop_map(
        |(
            (ctx, gpu_layers, k, v),
            (flash_attn, batch, parallel, overhead),
            [spread, kv_unified, nkvo, swa_full, one],
        )| {
            Settings {
                ctx,
                gpu_layers,
                cache_type_k: k,
                cache_type_v: if one { k } else { v },
                flash_attn,
                batch,
                parallel,
                gpu_overhead: Bytes(overhead),
                spread,
                kv_unified,
                no_kv_offload: nkvo,
                swa_full,
                ..Settings::default()
            }
        },
    )
}

fn machine() -> impl Strategy<Value = Machine> {
    let backend = select(vec![Backend::Cuda, Backend::Rocm, Backend::Vulkan]);
    let gpu =
        (backend, 4..=48u64, 0.5..=1.0f64, prop::bool::weighted(0.2)).prop_map(|(backend, gib, free, integrated)| {
            let free = Bytes((Bytes::gib(gib).0 as f64 * free) as u64);
            Gpu { free, integrated, ..Gpu::of("card", backend, Bytes::gib(gib)) }
        });
    (prop::collection::vec(gpu, 0..=3), 8..=256u64).prop_map(|(gpus, ram)| Machine {
        os: Os::Linux,
        ram: Ram { total: Bytes::gib(ram), free: Bytes::gib(ram), swap_free: Bytes::ZERO, bandwidth: None },
        ..fixtures::machine(gpus)
    })
}

fn location() -> ModelLocation {
    ModelLocation::File("model.gguf".to_owned())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn exported_ollama_settings_make_the_same_plan(
        engine in select(vec![EngineId::Ollama, EngineId::Ollama024, EngineId::Ollama011]),
        model in laws::any_model(), machine in machine(), settings in settings(),
    ) {
        let apart = settings.cache_type_k != settings.cache_type_v;
        prop_assume!(engine == EngineId::Ollama || !apart, "Ollama's estimators know one type for K and V");
        let request = PlanRequest::new(engine, model.clone(), machine.clone(), settings.clone());
        let Ok(plan) = request.plan() else { return Ok(()) };
        let input = ExportInput { request: &request, plan: &plan, location: &location(), minimal: true, pinned: false, scenario: None };
        for (options, server) in [(ExportFormat::Modelfile, ExportFormat::Environment), (ExportFormat::Options, ExportFormat::Systemd)] {
            let told = options.write(&input).unwrap();
            let options = if options == ExportFormat::Options { of_json(&told) } else { of_modelfile(&told) };
            let mut again = Settings::default();
            with_variables(&mut again, of_variables(&server.write(&input).unwrap()));
            with_options(&mut again, options);
            same_plan(&plan, &engine::plan(engine, model, &machine, &again).unwrap())?;
        }
    }

}

proptest! {
    // each case makes about twenty plans
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn the_exported_llama_server_command_makes_the_same_plan_and_has_what_is_set_unless_it_is_minimal(
        model in laws::any_model(), machine in machine(), settings in settings(), minimal: bool,
    ) {
        let request = PlanRequest::new(EngineId::LlamaCpp, model.clone(), machine.clone(), settings.clone());
        let Ok(plan) = request.plan() else { return Ok(()) };
        let input = ExportInput { request: &request, plan: &plan, location: &location(), minimal, pinned: false, scenario: None };
        let command = ExportFormat::LlamaServer.write(&input).unwrap();
        let (again, devices) = of_command(&command);
        let machine = seen(&machine, devices.as_deref());
        let server = PlanRequest::new(EngineId::LlamaCpp, model.clone(), machine.clone(), again.clone());
        let started = server.plan().unwrap();
        // Ollama's plan lists every GPU, llama-server's only those it was started with
        let used = |plan: &Plan| {
            let own = plan.devices.iter().map(figures).filter(|(weights, cache, graph, _)| *weights + *cache + *graph > Bytes::ZERO);
            format!("{:?}", own.collect::<Vec<_>>())
        };
        prop_assert_eq!(used(&plan), used(&started), "{}", command);
        let effect = |plan: &Plan| InEffect { gpu_layers: 0, ctx: 0, ..plan.settings.clone() };
        prop_assert_eq!(effect(&plan), effect(&started), "{}", command);
        if minimal {
            let needed = llama_server::needed_options(&server, &started, &Settings::default());
            prop_assert_eq!(needed, again.clone(), "{}", command);
        } else {
            let set = |settings: &Settings| {
                let Settings { ctx, parallel, batch, ubatch, cache_type_k, cache_type_v, .. } = *settings;
                (ctx, parallel, batch, ubatch, cache_type_k, cache_type_v)
            };
            prop_assert_eq!(set(&again), set(&settings), "{}", command);
        }
    }

    #[test]
    fn notes_on_an_estimators_placement_are_true(
        model in laws::any_model(), machine in machine(), settings in settings(),
    ) {
        let request = PlanRequest::new(EngineId::Ollama024, model.clone(), machine.clone(), settings.clone());
        let Ok(plan) = request.plan() else { return Ok(()) };
        let Ok(command) = ExportFormat::LlamaServer.write(&ExportInput { request: &request, plan: &plan, location: &location(), minimal: true, pinned: false, scenario: None }) else { return Ok(()) };
        let (again, devices) = of_command(&command);
        let seen = seen(&machine, devices.as_deref());
        let started = engine::plan(EngineId::LlamaCpp, model, &seen, &again).unwrap();
        if command.starts_with("# the same layers on the same devices") {
            let homes = |plan: &Plan| {
                plan.layers.iter().map(|layer| plan.devices[layer.device].total).collect::<Vec<_>>()
            };
            prop_assert_eq!(homes(&plan), homes(&started), "{}", command);
        }
    }
}

fn small() -> (Model, Machine) {
    let ram = Ram { total: Bytes::gib(16), free: Bytes::gib(12), swap_free: Bytes::ZERO, bandwidth: None };
    let machine = Machine { os: Os::Linux, ram, ..fixtures::machine(Vec::new()) };
    let model = Model::clone(&fixtures::model("qwen3-0.6b"));
    (model, machine)
}

#[test]
fn unsupported_formats_are_refused_with_the_supported_ones() {
    let (model, machine) = small();
    let settings = Settings::default();
    let request = PlanRequest::new(EngineId::LlamaCpp, model.clone(), machine.clone(), settings.clone());
    let plan = request.plan().unwrap();
    let input = ExportInput {
        request: &request,
        plan: &plan,
        location: &location(),
        minimal: true,
        pinned: false,
        scenario: None,
    };
    let refused = ExportFormat::Modelfile.write(&input).unwrap_err();
    assert!(refused.contains("llama-server, compose, k8s, plimsoll, scenario, json, markdown, svg"), "{refused}");
    for format in ExportFormat::of(EngineId::LlamaCpp) {
        assert!(format.write(&input).unwrap().ends_with('\n'));
    }
}

#[test]
fn names_from_files_are_escaped_in_exports() {
    let (mut model, machine) = small();
    model.name = "a<b>&\"|\u{7}'\nEnvironment=".to_owned();
    let settings = Settings::default();
    let request = PlanRequest::new(EngineId::Ollama024, model.clone(), machine.clone(), settings.clone());
    let plan = request.plan().unwrap();
    let location = ModelLocation::File("./it's\nmine.gguf".to_owned());
    let input = ExportInput {
        request: &request,
        plan: &plan,
        location: &location,
        minimal: true,
        pinned: false,
        scenario: None,
    };
    let svg = ExportFormat::Svg.write(&input).unwrap();
    assert!(svg.contains("a&lt;b&gt;&amp;&quot;| ' Environment="), "{svg}");
    assert!(ExportFormat::Markdown.write(&input).unwrap().starts_with("**a\\<b\\>\\&\"\\| ' Environment=**"));
    let refused = ExportFormat::Modelfile.write(&input).unwrap_err();
    assert!(refused.starts_with(r"'./it's\nmine.gguf' has the character \u{a} in it"), "{refused}");
}

#[test]
fn llama_server_is_told_devices_by_the_names_that_it_has_for_them() {
    let card = |name: &str, gib: u64| Gpu::of(name, Backend::Cuda, Bytes::gib(gib));
    let machine = fixtures::machine(vec![card("small", 2), card("first", 12), card("second", 12)]);
    let mut settings = Settings { ctx: Context::Tokens(4096), spread: true, ..Settings::default() };
    Flag::OverrideTensor.read(&mut settings, r"blk\.0\.ffn_.*=GPU2,blk\.1\.ffn_.*=CPU").unwrap();
    for engine in [EngineId::LlamaCpp, EngineId::Ollama] {
        let request = PlanRequest::new(engine, fixtures::model("llama3.1-8b"), machine.clone(), settings.clone());
        let plan = request.plan().unwrap();
        assert!(plan.layers[1].elsewhere() > Bytes::ZERO, "{engine}: {plan:#?}");
        let input = ExportInput {
            request: &request,
            plan: &plan,
            location: &location(),
            minimal: false,
            pinned: false,
            scenario: None,
        };
        let command = ExportFormat::LlamaServer.write(&input).unwrap();
        let patterns = r"blk\.0\.ffn_.*=CUDA2,blk\.1\.ffn_.*=CPU";
        assert!(command.contains(&format!("'{patterns}'")), "{command}");
        if engine == EngineId::Ollama {
            let variable = format!("LLAMA_ARG_OVERRIDE_TENSOR='{patterns}'\n");
            assert!(ExportFormat::Environment.write(&input).unwrap().contains(&variable), "{variable}");
            let escaped = format!("=\"LLAMA_ARG_OVERRIDE_TENSOR={}\"\n", patterns.replace('\\', r"\\"));
            let unit = ExportFormat::Systemd.write(&input).unwrap();
            assert!(unit.contains(&escaped), "{unit}");
            let says =
                "--override-tensor: Ollama has no option for it, but llama-server reads LLAMA_ARG_OVERRIDE_TENSOR";
            assert!(plan.notes.iter().any(|note| note.starts_with(says)), "{:?}", plan.notes);
            let alone = request.changed(|settings| settings.spread = false).plan().unwrap_err().to_string();
            assert_eq!(alone, "GPU2 is none of the GPUs that llama-server sees");
        }
    }
}
