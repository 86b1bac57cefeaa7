//! A llama-server command that reproduces a plan: what the user set, and what else makes a difference.
//! Options: `common/arg.cpp`, 0.1.161.

use super::comment;
use super::{ExportInput, ModelLocation};
use crate::answer::verdict;
use crate::engine::PlanRequest;
use crate::engine::{EngineId, Launch, ServerCommand};
use crate::machine::{Machine, rpc};
use crate::plan::Plan;
use crate::settings::{Context, Flag, GpuLayers, InEffect, MmprojDevice, Outputs, Settings};
use crate::text::{exact, shell_word, without_secrets};
use std::path::Path;
use std::sync::Arc;

/// The options that a fit decides.
const FITTED: [Flag; 4] = [Flag::Context, Flag::GpuLayers, Flag::TensorSplit, Flag::OverrideTensor];

/// The complete command with which Ollama starts llama-server: its environment, then all arguments.
///
/// # Errors
/// As [`exact`].
fn complete(input: &ExportInput<'_>, server: &ServerCommand) -> Result<String, String> {
    let version = input.request.settings.ollama.version;
    let mut lines = comment(&format!("how Ollama {version} starts llama-server for this plan"));
    if let Some(why) = &input.plan.refusal {
        lines += &comment(&format!("which it refuses: {why}"));
    }
    let model = match input.location {
        ModelLocation::File(path) => path.clone(),
        ModelLocation::HuggingFace(name)
        | ModelLocation::Url(name)
        | ModelLocation::Ollama(name)
        | ModelLocation::Unknown(name) => {
            lines += &comment(&format!("replace model.gguf with the file of {}", without_secrets(name)));
            "model.gguf".to_owned()
        }
    };
    let places =
        [("PROJECTOR", "projector.gguf"), ("DRAFT", "draft.gguf"), ("ADAPTER", "adapter.gguf"), ("PORT", "8080")];
    for (place, name) in places.into_iter().filter(|(place, _)| *place != "PORT") {
        if server.args.iter().any(|argument| argument == place) {
            lines += &comment(&format!("replace {name} with the model's {}", place.to_lowercase()));
        }
    }
    let argument = |argument: &String| match places.iter().find(|(place, _)| argument == place) {
        Some((_, name)) => (*name).to_owned(),
        None if argument == "MODEL" => shell_word(&model),
        None => shell_word(argument),
    };
    for word in server.env.values().chain(&server.args).chain([&model]) {
        exact(word)?;
    }
    let mut words: Vec<String> =
        server.env.iter().map(|(name, value)| format!("{name}={}", shell_word(value))).collect();
    words.push("llama-server".to_owned());
    words.extend(server.args.iter().map(argument));
    Ok(lines + &words.join(" ") + "\n")
}

/// The command, preceded by comments on what it cannot express.
///
/// # Errors
/// One sentence, if llama-server refuses the settings, or a path would become another one.
pub fn command(input: &ExportInput<'_>) -> Result<String, String> {
    let launched = input.request.launch().map_err(|error| error.to_string())?;
    let (comments, words) = words(input, launched)?;
    let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    Ok(comments + &words.join(" ") + "\n")
}

/// The command with which Ollama starts llama-server, with its environment.
///
/// # Errors
/// As [`command`]; and if the engine has none of its own.
pub fn by_ollama(input: &ExportInput<'_>) -> Result<String, String> {
    let launched = input.request.launch().map_err(|error| error.to_string())?;
    let server =
        launched.and_then(|launch| launch.command).ok_or("Ollama does not start llama-server for this model")?;
    complete(input, &server)
}

/// The program and its arguments, and comments on what they cannot express.
///
/// # Errors
/// As [`command`]; and if the engine has a command of its own.
pub fn command_words(input: &ExportInput<'_>) -> Result<(String, Vec<String>), String> {
    let PlanRequest { engine, .. } = input.request;
    if *engine != EngineId::LlamaCpp {
        return Err(format!("{engine} starts its servers itself: use --engine llama.cpp"));
    }
    let launched = input.request.launch().map_err(|error| error.to_string())?;
    words(input, launched)
}

fn words(input: &ExportInput<'_>, launched: Option<Launch>) -> Result<(String, Vec<String>), String> {
    let PlanRequest { engine, model, machine, settings, .. } = input.request;
    let estimated = launched.is_none();
    let launch = launched.unwrap_or_else(|| launch_as_estimated(input.plan));
    let visible = launch.machine(machine);
    let server = PlanRequest::new(EngineId::LlamaCpp, Arc::clone(model), visible.clone(), launch.options.clone());
    let mut set = if input.minimal { Settings::default() } else { settings.clone() };
    let server = if input.pinned { pinned(&server, &mut set)? } else { server };
    let server_plan = server.plan().map_err(|error| error.to_string())?;
    let mut options = needed_options(&server, &server_plan, &set);
    // llama-server has to be told, whatever the model is for
    options.embeddings = server_plan.settings.embeddings.map(|_| true);

    let mut lines = String::new();
    let release = server_plan.settings.release.unwrap_or_default();
    if estimated {
        let same = same_placement(input.plan, &server_plan, &launch.gpus);
        let layers = if same { "the same layers on the same devices" } else { "the same number of layers on GPU" };
        lines +=
            &comment(&format!("{layers}; llama.cpp's sizes differ from those of {engine} (planned for {release})"));
    } else {
        lines += &comment(&format!("planned for llama.cpp release {release}"));
    }
    if input.pinned {
        lines += &comment(&what_is_pinned(&server.settings, &launch.options));
    }
    if options.outputs != Outputs::Parallel {
        lines +=
            &comment("--outputs is not an option of llama-server, which computes the logits of one token per slot");
    }
    let (place, name) = match input.location {
        ModelLocation::File(path) => ("-m", path.clone()),
        ModelLocation::HuggingFace(repository) => ("-hf", repository.clone()),
        ModelLocation::Url(address) => ("-mu", address.clone()),
        ModelLocation::Ollama(name) | ModelLocation::Unknown(name) => {
            lines += &comment(&format!("replace model.gguf with the file of {}", without_secrets(name)));
            ("-m", "model.gguf".to_owned())
        }
    };
    let computers = if estimated { Vec::new() } else { rpc::names(&visible.gpus) };
    for computer in &computers {
        let (host, port) = rpc::host_and_port(computer);
        let start = format!("ggml-rpc-server -H 0.0.0.0 -p {port}");
        lines += &comment(&format!("first, on {host}, in a trusted network: {start}"));
    }
    if let Some(each) = verdict::context_of_each(&server_plan.settings) {
        lines += &comment(&each);
    }
    let mut words = vec![settings.program.to_string(), place.to_owned(), name];
    // from a repository, llama-server takes the projector beside the model by itself
    let is_repository = matches!(input.location, ModelLocation::HuggingFace(_));
    if let Some(projector) = options.projector.as_ref().filter(|_| !is_repository) {
        let file = if projector.is_file() { projector.file.as_str() } else { "mmproj.gguf" };
        if !projector.is_file() {
            lines += &comment("replace mmproj.gguf with the file of the model's projector");
        }
        words.extend(["--mmproj".to_owned(), file.to_owned()]);
    }
    // devices are looked up as their options are read, which those of --rpc have to stand before
    if !computers.is_empty() {
        let servers: Vec<String> = computers.iter().map(|computer| rpc::address(computer)).collect();
        words.extend(["--rpc".to_owned(), servers.join(",")]);
    }
    words.extend(arguments(&options.by_own_names(machine, &launch.gpus)));
    if options.devices.is_none() {
        words.extend(devices(machine, &launch));
    }
    if let (Some(_), MmprojDevice::Gpu(gpu)) = (&options.projector, options.mmproj.device) {
        words.extend(visible.device_name(gpu).into_iter().flat_map(|name| ["--mmproj-device".to_owned(), name]));
    }
    if let Some(draft) = model.draft() {
        let is_file = Path::new(&draft.file).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"));
        if !is_file {
            lines += &comment(&format!("replace draft.gguf with the file of {}", draft.file));
        }
        words.extend(["-md".to_owned(), (if is_file { draft.file.as_str() } else { "draft.gguf" }).to_owned()]);
    }
    for word in &words {
        exact(word)?;
    }
    Ok((lines, words))
}

/// The command of `plan`, the plan of `request`, on one line, and what it cannot express.
///
/// # Errors
/// As [`command`].
pub fn with_remarks(
    request: &PlanRequest,
    plan: &Plan,
    location: &ModelLocation,
) -> Result<(String, Vec<String>), String> {
    let text = command(&ExportInput { request, plan, location, minimal: false, pinned: false, scenario: None })?;
    let (comments, words): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('#'));
    let comments = comments.into_iter().map(|line| line.trim_start_matches(['#', ' ']).to_owned());
    Ok((words.concat(), comments.collect()))
}

/// Options that place layers as an estimating engine placed them.
fn launch_as_estimated(plan: &Plan) -> Launch {
    let InEffect { ctx_total, parallel, batch, cache_type_k, cache_type_v, flash_attn, .. } = plan.settings;
    let counts: Vec<usize> = plan.gpus().iter().map(|gpu| gpu.layers.len()).collect();
    let gpus: Vec<usize> = (0..counts.len()).filter(|&gpu| plan.offloaded == 0 || counts[gpu] > 0).collect();
    let options = Settings {
        ctx: Context::Tokens(ctx_total),
        parallel: Some(parallel),
        batch: Some(batch),
        ubatch: Some(batch),
        cache_type_k: Some(cache_type_k),
        cache_type_v: Some(cache_type_v),
        flash_attn,
        gpu_layers: GpuLayers::Count(plan.offloaded as u64),
        tensor_split: if gpus.len() > 1 { gpus.iter().map(|&gpu| counts[gpu] as f64).collect() } else { Vec::new() },
        ..Settings::default()
    };
    Launch { options, gpus, command: None, failures: 0 }
}

/// Whether llama.cpp places every block as estimated; `gpus` are the indices of its GPUs in the full machine.
fn same_placement(estimated: &Plan, placed: &Plan, gpus: &[usize]) -> bool {
    let full_index = |device: usize| gpus.get(device).copied().unwrap_or(estimated.devices.len() - 1);
    estimated.layers.len() == placed.layers.len()
        && estimated.layers.iter().zip(&placed.layers).all(|(a, b)| a.device == full_index(b.device))
}

/// `server`'s settings without those that make no difference to `plan`, its plan, and that are not set in `set`.
pub fn needed_options(server: &PlanRequest, plan: &Plan, set: &Settings) -> Settings {
    let mut settings = server.settings.clone();
    let single = Flag::ALL.iter().filter(|flag| flag.row().argument.is_some() && flag.row().may_be_left_out);
    // a context that is left out changes most
    let (context, others): (Vec<_>, Vec<_>) = single.partition(|flag| **flag == Flag::Context);
    let pairs = RELATED.iter().map(<[Flag; 2]>::as_slice);
    for flags in pairs.chain(others.into_iter().chain(context).map(std::slice::from_ref)) {
        let without = |from: &Settings| {
            let mut without = from.clone();
            for flag in flags {
                flag.reset(&mut without);
            }
            without
        };
        let fewer = without(&settings);
        let same = |other: Plan| same_effect(&other, plan);
        if without(set) == *set && fewer != settings && server.with(fewer.clone()).plan().is_ok_and(same) {
            settings = fewer;
        }
    }
    settings
}

/// The request with what its fit decides; those options are set in `set` too.
fn pinned(server: &PlanRequest, set: &mut Settings) -> Result<PlanRequest, String> {
    let pinned = server.pinned().map_err(|error| error.to_string())?.unwrap_or_else(|| server.clone());
    for flag in FITTED {
        flag.copy(&pinned.settings, set);
    }
    Ok(pinned)
}

/// What is set in `pinned` and not in `asked`, in one sentence.
fn what_is_pinned(pinned: &Settings, asked: &Settings) -> String {
    let fitted = FITTED.iter().filter(|flag| flag.write(pinned) != flag.write(asked));
    let names: Vec<&str> = fitted.filter_map(|flag| flag.row().argument).collect();
    match names.as_slice() {
        [] => "nothing was left to llama-server's fit".to_owned(),
        names => format!("pinned as llama-server's fit decides for this machine: {}", names.join(" ")),
    }
}

/// Options that may make no difference only together.
const RELATED: [[Flag; 2]; 2] = [[Flag::Parallel, Flag::KvUnified], [Flag::Batch, Flag::Ubatch]];

/// Whether two plans have the same settings in effect and the same bytes on every device. The requested number of
/// layers and the reserves may differ.
fn same_effect(a: &Plan, b: &Plan) -> bool {
    let effect = |plan: &Plan| InEffect { gpu_layers: 0, ..plan.settings.clone() };
    let device = |(a, b): (&crate::plan::DevicePlan, &crate::plan::DevicePlan)| {
        (a.weights, a.cache, a.graph, a.growth, &a.layers) == (b.weights, b.cache, b.graph, b.growth, &b.layers)
    };
    effect(a) == effect(b) && a.devices.len() == b.devices.len() && a.devices.iter().zip(&b.devices).all(device)
}

/// The options as command line arguments, switches last.
pub fn arguments(settings: &Settings) -> Vec<String> {
    let given = Flag::ALL.iter().filter_map(|flag| Some((flag.row().argument?, flag.write(settings)?)));
    let (switches, values): (Vec<_>, Vec<_>) = given.partition(|(_, value)| value.is_empty());
    let values = values.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    values.chain(switches.into_iter().map(|(name, _)| name.to_owned())).collect()
}

/// `--device`, if llama-server must not use its default devices.
fn devices(machine: &Machine, launch: &Launch) -> Vec<String> {
    // GPUs of other computers come from --rpc
    let own = |at: usize| machine.gpus.get(at).filter(|gpu| gpu.computer.is_none());
    let shown: Vec<usize> = launch.gpus.iter().copied().filter(|&at| own(at).is_some()).collect();
    let discrete = machine.gpus.iter().any(|gpu| gpu.computer.is_none() && !gpu.integrated);
    let is_usual = |&at: &usize| own(at).is_some_and(|gpu| gpu.integrated != discrete);
    let usual: Vec<usize> = (0..machine.gpus.len()).filter(is_usual).collect();
    if shown == usual || machine.gpus.is_empty() {
        return Vec::new();
    }
    // a list is used in its order; by default GPUs of other computers come first (`src/llama.cpp`)
    let (here, away): (Vec<usize>, Vec<usize>) = launch.gpus.iter().partition(|&&at| own(at).is_some());
    let names: Vec<String> = away.into_iter().chain(here).filter_map(|gpu| machine.device_name(gpu)).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(",") };
    vec!["--device".to_owned(), names]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Gpu, Origin, Os, Ram, presets};
    use crate::units::Bytes;

    #[test]
    fn rpc_devices_are_named_and_counted_separately() {
        let card = |name: &str, computer: Option<&str>| Gpu {
            computer: computer.map(Into::into),
            ..presets::find(name).unwrap().gpu()
        };
        let there = |name| card(name, Some("garage"));
        let gpus = vec![card("RTX 3090", None), card("RTX 4090", None), there("RTX 4090"), there("RTX 3060")];
        let ram = Ram { total: Bytes::gib(64), free: Bytes::gib(60), swap_free: Bytes::ZERO, bandwidth: None };
        let machine = Machine {
            disk: None,
            os: Os::Linux,
            cpu: crate::machine::Cpu::default(),
            gpus,
            ram,
            origin: Origin::Described,
            drivers: crate::machine::Drivers::default(),
        };
        let launch =
            |gpus: &[usize]| Launch { options: Settings::default(), gpus: gpus.to_vec(), command: None, failures: 0 };
        assert_eq!(devices(&machine, &launch(&[0, 1, 2, 3])), Vec::<String>::new());
        assert_eq!(devices(&machine, &launch(&[1, 2, 3])), ["--device", "RPC0,RPC1,CUDA1"]);
        assert_eq!(devices(&machine, &launch(&[])), ["--device", "none"]);
    }
}
