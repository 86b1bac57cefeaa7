//! What a log shows: the machine that it names, settings, and the release of llama.cpp.

use crate::engine::{EngineId, PreparedModel};
use crate::machine::presets::{self, Preset};
use crate::machine::spec::MachineSpec;
use crate::machine::{Backend, Cpu, Gpu, Machine, Origin, Os, Ram, short_name};
use crate::observed::{
    CacheSize, Event, Fit, FitLayers, FitResult, Load, Mib, ObservedContext, ObservedDevice, OllamaEstimate, PROGRAMS,
    Program, TablePhase, TableRow, Term, device_name, is_gpu,
};
use crate::settings::{
    self, BUILDS, Context, DeviceName, DraftSettings, Flag, FlashAttn, GpuLayers, KvOverride, LlamaProgram,
    OLDEST_BUILD, OllamaVersion, Outputs, Release, Settings, Ships, SpecType, SplitMode, flag::Takes,
};
use crate::units::Bytes;

/// Memory of the computer where the log does not tell it; it limits no plan that is compared.
const ASSUMED_RAM: Bytes = Bytes::gib(1024);

/// Builds since then all reserve logits of one token per sequence, unless they are asked for more.
const LAST_UNSURE: u64 = 9_885;

/// A machine with the log's names for its GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedMachine {
    /// The machine.
    pub machine: Machine,
    /// Its GPUs as the log names them: `CUDA0`.
    pub names: Vec<String>,
    /// Whether the log tells what was free on each of them before the load.
    pub free_known: bool,
}

/// The machine of `load`; what the user described stands over the log.
pub fn machine(load: &Load, described: &MachineSpec) -> ObservedMachine {
    let names = gpu_names(load);
    let mut free_known = true;
    let found: Vec<Gpu> = names.iter().map(|name| gpu(load, name, names.len(), &mut free_known)).collect();
    let (gpus, names) = match &described.gpus {
        Some(given) => {
            free_known = true;
            let own = |at: usize| names.get(at).cloned().unwrap_or_else(|| format!("GPU{at}"));
            (given.clone(), (0..given.len()).map(own).collect())
        }
        None => (found, names),
    };
    let cpu = cpu(load, &gpus, described);
    ObservedMachine { machine: machine_with(load, gpus, cpu, described), names, free_known }
}

fn machine_with(load: &Load, gpus: Vec<Gpu>, cpu: Cpu, described: &MachineSpec) -> Machine {
    Machine {
        disk: None,
        os: described.os.unwrap_or_else(|| system(load, &gpus)),
        cpu,
        gpus,
        ram: described.ram.unwrap_or_else(|| ram(load)),
        origin: Origin::Described,
        drivers: crate::machine::Drivers::default(),
    }
}

/// The machine that an estimate of Ollama names: what was available on each GPU.
pub fn machine_of_estimate(load: &Load, seen: &OllamaEstimate, described: &MachineSpec) -> Machine {
    let backend = match seen.library.as_deref() {
        Some("rocm") => Backend::Rocm,
        Some("metal") => Backend::Metal,
        Some("oneapi") => Backend::Sycl,
        Some("vulkan") => Backend::Vulkan,
        _ => Backend::Cuda,
    };
    let listed: Vec<&ObservedDevice> = load.devices.iter().filter(|device| is_gpu(&device.name)).collect();
    let is_cpu = seen.library.as_deref() == Some("cpu");
    let found = seen.available.iter().filter(|_| !is_cpu).enumerate().map(|(at, &free)| {
        let device = listed.get(at).filter(|_| listed.len() == seen.available.len());
        let name = device.and_then(|device| device.description.as_deref());
        let free = free.bytes();
        let total = device.and_then(|device| device.total).map_or(free, Mib::bytes).max(free);
        Gpu { integrated: false, ..gpu_with(name, &format!("GPU{at}"), backend, (total, free)) }
    });
    let gpus = described.gpus.clone().unwrap_or_else(|| found.collect());
    machine_with(load, gpus, Cpu::default(), described)
}

/// A GPU as its driver or else the log names it, with what is known of such cards.
fn gpu_with(described: Option<&str>, name: &str, backend: Backend, (total, free): (Bytes, Bytes)) -> Gpu {
    let preset = described.and_then(|text| presets::find(short_name(text)));
    Gpu {
        name: described.map_or(name, short_name).to_owned(),
        backend,
        total,
        free,
        integrated: preset.is_some_and(|preset| preset.integrated),
        compute: preset.and_then(|preset| preset.compute),
        driver_major: None,
        computer: None,
        vulkan: None,
        listed: crate::machine::Listed::default(),
        dedicated: None,
        driver_memory: None,
        display: None,
        link: None,
    }
}

/// Whether a name stands for one GPU; `CUDA_Split` and `Meta()` stand for all of them.
pub fn is_one_gpu(name: &str) -> bool {
    is_gpu(name) && !name.ends_with("_Split") && !name.contains(['{', '('])
}

/// GPUs that the load uses, else all that are named, in the order in which they are.
fn gpu_names(load: &Load) -> Vec<String> {
    let holding = load.observed.keys().chain(load.table.keys());
    let fitted = load.fit.devices.keys().chain(load.fit.layers.keys()).chain(load.fit.printed.keys());
    let mut used: Vec<&str> = holding.chain(fitted).map(|name| device_name(name)).filter(|n| is_one_gpu(n)).collect();
    used.sort_by_key(|name| (backend(name).0, number(name)));
    used.dedup();
    let listed: Vec<&str> = load.devices.iter().map(|device| device.name.as_str()).filter(|n| is_one_gpu(n)).collect();
    let (mut names, rest): (Vec<&str>, Vec<&str>) = if used.is_empty() {
        (listed, Vec::new())
    } else {
        (listed.into_iter().filter(|name| used.contains(name)).collect(), used)
    };
    for name in rest {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if let Some(given) = &load.settings.device {
        let given: Vec<&str> = given.split(',').map(str::trim).collect();
        names.sort_by_key(|name| given.iter().position(|other| other == name).unwrap_or(given.len()));
    }
    names.into_iter().map(str::to_owned).collect()
}

/// The number at the end of a device's name.
pub fn number(name: &str) -> u64 {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.parse().unwrap_or(0)
}

/// The backend of a device's name, and whether it is on another computer.
pub fn backend(name: &str) -> (Backend, bool) {
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match kind {
        "ROCm" | "HIP" => (Backend::Rocm, false),
        "Vulkan" => (Backend::Vulkan, false),
        "SYCL" => (Backend::Sycl, false),
        "MTL" | "Metal" => (Backend::Metal, false),
        "RPC" => (Backend::Cuda, true),
        _ => (Backend::Cuda, false),
    }
}

fn gpu(load: &Load, name: &str, count: usize, free_known: &mut bool) -> Gpu {
    let device = load.devices.iter().find(|device| device.name == name);
    let row = load.table.get(name);
    let fitted = load.fit.devices.get(name);
    let described = device.and_then(|device| device.description.as_deref());
    let described = described.or(row.and_then(|row| row.described.as_deref()));
    let preset = described.and_then(|text| presets::find(short_name(text)));
    let whole = |mib: i64| u64::try_from(mib).ok().map(Bytes::mib);
    let total = device.and_then(|device| device.total).map(Mib::bytes);
    let total = total.or_else(|| whole(row?.total?)).or_else(|| Some(Bytes::mib(fitted?.total)));
    let total = total.or_else(|| preset.map(Preset::total));

    let before = load.table_phase == Some(TablePhase::Fit);
    let free = device.and_then(|device| device.free).map(Mib::bytes);
    let free = free.or_else(|| whole(i64::try_from(fitted?.used).ok()? + fitted?.left));
    let free = free.or_else(|| row.filter(|_| before).and_then(|row| whole(row.free?)));
    let free = free.or_else(|| load.free_before.get(name).and_then(|&mib| whole(mib)));
    let free = free.or_else(|| load.fit.free.filter(|_| count == 1).map(Bytes::mib));
    *free_known &= free.is_some();

    let held: f64 = load.observed.get(name).map_or(0.0, |terms| terms.values().map(|mib| mib.0).sum());
    // a card as large as what it held; a load whose layers are told needs no more
    let total = total.or(free).unwrap_or_else(|| Mib(held).bytes());
    let (backend, remote) = backend(name);
    let known = gpu_with(described, name, backend, (total.max(free.unwrap_or_default()), free.unwrap_or(total)));
    // several that are used together get layers alike
    let computer = remote.then(|| described.unwrap_or(name).into());
    Gpu { integrated: known.integrated && count == 1, computer, ..known }
}

fn ram(load: &Load) -> Ram {
    let cpu = load.devices.iter().find(|device| device.name == "CPU");
    let total = cpu.and_then(|cpu| cpu.total).map(Mib::bytes);
    let total = total.or_else(|| load.fit.host.map(|host| Bytes::mib(host.total))).unwrap_or(ASSUMED_RAM);
    let free = cpu.and_then(|cpu| cpu.free).map_or(total, Mib::bytes).min(total);
    Ram { total, free, swap_free: Bytes::ZERO, bandwidth: None }
}

/// The CPU of a load that repacked weights; of another one its instructions do not matter.
fn cpu(load: &Load, gpus: &[Gpu], described: &MachineSpec) -> Cpu {
    if !load.repacks() {
        return Cpu::default();
    }
    described.cpu.or(load.cpu.map(Cpu::with)).unwrap_or_else(|| Cpu::beside(gpus))
}

/// Windows shows in paths.
fn system(load: &Load, gpus: &[Gpu]) -> Os {
    let is_told = load.command.as_ref().is_some_and(|command| command.is_windows);
    let mut paths = load.models.iter().filter_map(|model| model.path.as_deref());
    if is_told || paths.any(|path| path.contains(":\\")) { Os::Windows } else { Os::for_gpus(gpus) }
}

/// The engine whose decisions the log shows.
pub fn engine(load: &Load) -> EngineId {
    let prints = load.models.iter().any(|model| !model.observed.is_empty())
        || load.contexts.iter().any(|context| !context.observed.is_empty())
        || !load.table.is_empty();
    match load.program {
        Some(Program::Ollama) if prints || load.command.is_some() => EngineId::LlamaCpp,
        Some(Program::Ollama) if load.estimate.is_some() => EngineId::Ollama011,
        Some(Program::Ollama) => EngineId::Ollama024,
        _ => EngineId::LlamaCpp,
    }
}

/// Whether the load is of a build that is older than every release that is known here.
pub fn is_older(load: &Load) -> bool {
    if let Some(build) = build(load) {
        return build < OLDEST_BUILD;
    }
    let shipped = ships(load).is_some_and(|ships| ships.is_older());
    shipped || load.older_than.is_some_and(|build| build <= OLDEST_BUILD)
}

/// The release that is nearest to the one in the log, with the build or version that says so, or that says nothing of
/// one; none where it names neither.
pub fn release(load: &Load) -> Option<(Option<Release>, String)> {
    if let Some(build) = printed_build(load) {
        return Some((Some(Release::nearest_to_build(build)), format!("b{build}")));
    }
    let shipped = ships(load).map(|ships| {
        let version = load.version.as_deref().filter(|_| load.program == Some(Program::Ollama));
        let own = version.and_then(|version| version.parse::<OllamaVersion>().ok());
        (own.map_or_else(|| ships.release(), |version| Some(version.release())), ships.to_string())
    });
    let by_lines = match (possible_releases(load).collect::<Vec<_>>().as_slice(), load.older_than) {
        (&[only], Some(before)) => Some((Some(only), format!("builds before b{before}, whose lines these are"))),
        _ => None,
    };
    let is_known = |shipped: &(Option<Release>, String)| shipped.0.is_some();
    shipped.clone().filter(is_known).or(by_lines).or(shipped)
}

/// The build of llama.cpp itself that the log names.
fn printed_build(load: &Load) -> Option<u64> {
    load.build.filter(|build| BUILDS.contains(build))
}

/// The build of llama.cpp itself that the log names, or that the version of its program ships.
pub fn build(load: &Load) -> Option<u64> {
    printed_build(load).or_else(|| ships(load)?.build())
}

/// What is published of the llama.cpp that the program in the log ships.
fn ships(load: &Load) -> Option<Ships> {
    Ships::of(load.program?.name(), load.version.as_deref()?)
}

/// Settings of a plan for `engine` that follow from the log, but for the placement of layers.
pub fn settings(load: &Load, engine: EngineId) -> Settings {
    let seen = &load.settings;
    let context = load.contexts.first();
    let cache = context.and_then(|context| {
        let caches = context.caches.iter().filter(|cache| cache.term == Term::Kv && cache.cells > 0);
        caches.max_by_key(|cache| cache.cells)
    });
    let states = context.and_then(|context| context.caches.iter().find(|cache| cache.term == Term::Rs));
    let sequences = seen.n_seq_max.or(cache.or(states).and_then(|cache| cache.sequences));
    let total = seen.n_ctx.or_else(|| {
        let each = seen.n_ctx_seq.or(cache.map(|cache| cache.cells))?;
        Some(if seen.kv_unified == Some(true) { each } else { each * sequences.unwrap_or(1) })
    });
    // one cache for all sequences is as long as the whole context
    let unified = || sequences > Some(1) && cache.is_some_and(|cache| Some(cache.cells) == total);
    let per_sequence = |tokens: u64| {
        if engine.facts().is_ollama { tokens / sequences.unwrap_or(1).max(1) } else { tokens }
    };
    Settings {
        ctx: total.filter(|tokens| *tokens > 0).map_or(Context::Auto, |tokens| Context::Tokens(per_sequence(tokens))),
        parallel: sequences.or_else(|| embeds(load).then_some(1)),
        embeddings: seen.embeddings,
        reranking: seen.reranking == Some(true),
        pooling: seen.pooling,
        program: program(load),
        batch: seen.n_batch,
        ubatch: seen.n_ubatch.filter(|_| !engine.facts().is_ollama),
        cache_type_k: seen.cache_type_k,
        cache_type_v: seen.cache_type_v.or(seen.cache_type_k.filter(|_| engine.facts().is_ollama)),
        flash_attn: flash_attention(load),
        gpu_layers: seen.gpu_layers.unwrap_or_default(),
        kv_unified: seen.kv_unified.unwrap_or_else(unified),
        no_kv_offload: seen.no_kv_offload == Some(true),
        no_op_offload: seen.no_op_offload == Some(true),
        swa_full: seen.swa_full == Some(true) || load.events.contains(&Event::FullSizeWindows),
        tensor_split: seen.tensor_split.clone().unwrap_or_default(),
        outputs: outputs(load),
        fit_target: margin(load).map(Bytes::mib),
        fit_targets: seen.fit_target.iter().filter(|list| list.len() > 1).flatten().copied().map(Bytes::mib).collect(),
        fit_ctx: seen.fit_ctx,
        no_fit: seen.fit == Some(false),
        n_cpu_moe: seen.n_cpu_moe,
        n_cpu_ffn: seen.n_cpu_ffn,
        no_host: seen.no_host == Some(true),
        pipeline_refused: gave_up_pipeline(load),
        load_mode: seen.load_mode.as_deref().and_then(|mode| mode.parse().ok()),
        split_mode: split_mode(load).unwrap_or_default(),
        override_tensor: seen
            .override_tensor
            .as_deref()
            .and_then(|text| settings::written::overrides(text).ok())
            .unwrap_or_default(),
        build: build(load),
        ..untold(load)
    }
}

/// The devices that were given, in their order; as GPUs of other computers come first otherwise.
pub fn devices(load: &Load, names: &[String]) -> Option<Vec<DeviceName>> {
    let given: Vec<&str> = load.settings.device.as_deref()?.split(',').map(str::trim).collect();
    let used = names.iter().enumerate().filter(|(_, name)| given.contains(&name.as_str()));
    let used: Vec<DeviceName> = used.map(|(at, _)| DeviceName::gpu(at)).collect();
    (used.len() == given.len()).then_some(used)
}

/// What only its command tells. Files that it names are not here.
fn untold(load: &Load) -> Settings {
    let mut settings = Settings::default();
    for (flag, text) in load.command.iter().flat_map(|command| &command.untold) {
        let row = flag.row();
        let text = if matches!(row.takes, Takes::Nothing | Takes::Truth(_)) { "true" } else { text };
        if *flag != Flag::ControlVector {
            // a value that is no value changed nothing in the program either
            let _ = flag.read(&mut settings, text);
        }
    }
    settings
}

/// Keys of the header that its command gives other values.
pub fn override_kv(load: &Load) -> Vec<KvOverride> {
    untold(load).override_kv
}

/// A split of every layer over the GPUs, as its command has it.
fn split_mode(load: &Load) -> Option<SplitMode> {
    let mode = load.settings.split_mode.as_deref()?.parse().ok()?;
    matches!(mode, SplitMode::Row | SplitMode::Tensor).then_some(mode)
}

/// The settings with devices by their places among `names`, as the log calls them; without placements that name a device
/// which the log does not.
pub fn by_place(settings: Settings, names: &[String]) -> Settings {
    let places: Vec<usize> = (0..names.len()).collect();
    let find = |name: &DeviceName| names.iter().position(|own| own == device_name(name.as_str()));
    let mut settings = settings.seen_by_server(&places, find).unwrap_or(settings);
    let is_known = |name: &DeviceName| name.is_cpu() || name.index().is_some_and(|index| index < names.len());
    for overrides in [&mut settings.override_tensor, &mut settings.draft.override_tensor] {
        if overrides.iter().any(|to| !is_known(&to.device)) {
            overrides.clear();
        }
    }
    settings.draft.devices = settings.draft.devices.filter(|devices| devices.iter().all(is_known));
    settings
}

/// Settings of Ollama's estimator that follow from the log.
pub fn settings_of_estimate(load: &Load, seen: &OllamaEstimate) -> Settings {
    let asked = seen.layers_requested.and_then(|count| u64::try_from(count).ok());
    Settings {
        gpu_layers: asked.map_or(GpuLayers::Auto, GpuLayers::Count),
        gpu_overhead: seen.gpu_overhead.map_or(Bytes::ZERO, |mib| Bytes((mib.0 * f64::from(1 << 20)) as u64)),
        ..settings(load, EngineId::Ollama011)
    }
}

/// The program of llama.cpp that its command names, whatever stands around it (`llama-server-cuda`); a server where it
/// names none that is known.
fn program(load: &Load) -> LlamaProgram {
    let named = load.command.as_ref().map(|command| command.program.as_str()).unwrap_or_default();
    let within = || LlamaProgram::ALL.into_iter().find(|program| named.contains(program.name()));
    named.parse().ok().or_else(within).unwrap_or_default()
}

/// Whether a name has that of a program of llama.cpp in it.
pub fn is_known_program(name: &str) -> bool {
    LlamaProgram::ALL.into_iter().any(|program| name.contains(program.name())) || PROGRAMS.contains(&name)
}

/// Whether the target's context gave its pipeline up; none where no compute buffer of the load is told.
fn gave_up_pipeline(load: &Load) -> Option<bool> {
    let told = load.contexts.first().is_some_and(ObservedContext::computes) && !load.is_trial;
    let gave_up = match load.contexts.first() {
        // one copy on several GPUs is none, for whatever reason
        Some(context) => context.gave_up_pipeline || context.settings.sched_copies == Some(1),
        None => load.events.contains(&Event::PipelineGivenUp),
    };
    (told || gave_up).then_some(gave_up)
}

fn flash_attention(load: &Load) -> FlashAttn {
    match load.settings.flash_attn_in_use {
        Some(true) => FlashAttn::On,
        Some(false) => FlashAttn::Off,
        None => load.settings.flash_attn.unwrap_or_default(),
    }
}

fn outputs(load: &Load) -> Outputs {
    match load.settings.n_outputs_max {
        Some(tokens) => Outputs::Tokens(tokens),
        None if embeds(load) => Outputs::Ubatch,
        None => Outputs::Parallel,
    }
}

/// Whether nothing says that logits are reserved for one token of each sequence only, as they are since mid-2026.
pub fn may_compute_all(load: &Load) -> bool {
    load.settings.n_outputs_max.is_none() && printed_build(load).is_none_or(|build| build < LAST_UNSURE)
}

/// Releases that what ran may be like: those beside the nearest one, where that is known, and else those of the builds
/// whose lines the log has.
pub fn possible_releases(load: &Load) -> impl Iterator<Item = Release> + use<> {
    let nearest = |build| Release::nearest_to_build(build) as usize;
    let range = if let Some(at) = printed_build(load).map(nearest) {
        at.saturating_sub(1)..=at + 1
    } else {
        let newest = load.older_than.map_or(0, |build| nearest(build.saturating_sub(1)));
        let oldest = load.not_older_than.map_or(usize::MAX, nearest);
        // lines of several programs may contradict each other
        newest.min(oldest)..=newest.max(oldest)
    };
    Release::ALL.into_iter().filter(move |release| range.contains(&(*release as usize)))
}

/// Whether no build tells how many outputs are reserved.
pub fn outputs_untold(load: &Load) -> bool {
    let is_told = printed_build(load).is_some() || load.version.is_some();
    load.settings.n_outputs_max.is_none() && !is_told && outputs(load) == Outputs::Parallel
}

/// Whether the program uses llama.cpp as a library, whose own default of outputs is a whole batch, with one sequence.
/// Those of llama.cpp's tools follow from [`LlamaProgram`].
fn embeds(load: &Load) -> bool {
    matches!(load.program, Some(Program::LmStudio | Program::KoboldCpp))
}

/// The draft that the log shows, if the model that was found can draft in that way.
pub fn draft(load: &Load, model: &PreparedModel) -> Option<DraftSettings> {
    let seen = &load.settings;
    let shown = seen.model_draft.is_some() || load.contexts.len() > 1 || seen.n_rs_seq.is_some_and(|saved| saved > 0);
    let types: Vec<SpecType> = match seen.spec_type.as_deref() {
        Some(names) => names.split(',').filter_map(|name| name.trim().parse().ok()).collect(),
        None => shown.then(|| model.drafts_by()).flatten().into_iter().collect(),
    };
    let can = types.iter().any(|kind| Some(*kind) == model.drafts_by());
    let n_max = seen.n_rs_seq.filter(|&saved| saved > 0).or(seen.spec_draft_n_max);
    let caches = load.contexts.get(1).into_iter().flat_map(|context| &context.caches);
    let (cache_type_k, cache_type_v) = caches.map(CacheSize::types).find(|(k, _)| k.is_some()).unwrap_or_default();
    let own = untold(load).draft;
    let (cache_type_k, cache_type_v) = (cache_type_k.or(own.cache_type_k), cache_type_v.or(own.cache_type_v));
    can.then_some(DraftSettings { types: Some(types), n_max, cache_type_k, cache_type_v, ..own })
}

/// Whether the log shows a projector.
pub fn has_projector(load: &Load) -> bool {
    let computes = load.observed.values().any(|terms| terms.contains_key(&Term::ProjectorCompute));
    load.projector.is_some() || load.settings.mmproj.is_some() || computes
}

/// What the fit leaves free, with what the server adds for a projector or a draft.
fn margin(load: &Load) -> Option<u64> {
    let asked = || load.settings.fit_target.as_ref().and_then(|list| list.first().copied());
    load.fit.margin.or(load.fit.target).or_else(asked)
}

/// Whether llama.cpp chose the placement itself.
pub fn is_fitted(load: &Load) -> bool {
    let asked = load.settings.gpu_layers.is_some_and(|layers| layers != GpuLayers::Auto);
    let fitted = load.fit.projected.is_some() || load.fit.result == Some(FitResult::Fits);
    // since December 2025
    let old = build(load).is_some_and(|build| build < 7_500);
    let gave_up = matches!(load.fit.result, Some(FitResult::GaveUp(_)));
    !(asked || gave_up || load.settings.fit == Some(false) || old && !fitted)
}

/// What the fit came to on the only GPU, if its table is of that.
pub fn fitted(load: &Load) -> Option<FitLayers> {
    let mut devices = load.fit.layers.iter();
    let (name, fitted) = devices.next().filter(|_| load.fit.result == Some(FitResult::Fits))?;
    let is_of_it = |row: &TableRow| row.own.abs_diff(i64::try_from(fitted.used).unwrap_or(0)) <= 1;
    (devices.next().is_none() && load.table.get(name).is_none_or(is_of_it)).then_some(*fitted)
}

/// The placement that the log tells, where it tells one: layers on GPUs, and their shares per GPU in the order of
/// `names`.
pub fn placement(load: &Load, names: &[String]) -> Option<(GpuLayers, Vec<f64>)> {
    let Fit { layers, result, context, .. } = &load.fit;
    let counted = |name: &String| layers.get(name).map_or(0.0, |fitted| fitted.layers as f64);
    let shares = if names.len() > 1 && !layers.is_empty() { names.iter().map(counted).collect() } else { Vec::new() };
    let unchanged = *result == Some(FitResult::Fits) && layers.is_empty() && context.is_none();
    match load.layers_on_gpus() {
        Some((on, all)) if on == all => Some((GpuLayers::All, shares)),
        Some((on, _)) => Some((GpuLayers::Count(on), shares)),
        None if fitted(load).is_some() => fitted(load).map(|fitted| (GpuLayers::Count(fitted.layers), shares)),
        None if unchanged => Some((GpuLayers::All, shares)),
        None => None,
    }
}
