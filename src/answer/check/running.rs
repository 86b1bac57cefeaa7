//! What drivers and `ollama ps` say of a running program: the overhead of driver and backend besides the buffers in its
//! log, its memory beside a plan where its log tells nothing, and settings that would show a column PROCESSOR.

use super::log::{backend, is_one_gpu, number};
use crate::engine::PlanRequest;
use crate::machine::budget::DriverMemory;
use crate::machine::{Backend, Machine};
use crate::observed::{Load, Mib, ProcessMemory, PsRow, device_name, gpu_percent};
use crate::plan::{OllamaPs, Plan};
use crate::settings::{CacheType, Context, FlashAttn, GpuLayers, Settings};
use crate::units::Bytes;

/// Programs whose log has the buffers of the process that the driver names.
const PROGRAMS: [&str; 4] = ["llama-", "ollama", "koboldcpp", "lm studio"];

/// What a process may hold besides its buffers and still be as planned, where less is known of its driver.
const USUAL_OVERHEAD: Bytes = Bytes::gib(1);
/// Ollama adds up lines that are rounded to 0.01 MiB.
const ROUNDED: Bytes = Bytes(100 << 10);

/// Contexts that are tried if none is given, in tokens.
const CONTEXTS: [u64; 7] = [4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144];
/// How far a share may be off and still be the same, in percent: free memory is never known to the byte.
const NEAR: u8 = 1;
/// Settings that are named.
const SHOWN: usize = 6;

/// What one process held on one GPU, beside the buffers in its log.
#[derive(Clone, Debug, PartialEq)]
pub struct DriverOverhead {
    /// The log's name of the device.
    pub device: String,
    /// The GPU's name by its driver, where the log tells it.
    pub gpu: Option<String>,
    /// The backend.
    pub backend: Backend,
    /// What the driver says that the process holds.
    pub process: Mib,
    /// The buffers in the log.
    pub buffers: Mib,
}

impl DriverOverhead {
    /// What is in no buffer.
    pub fn mib(&self) -> Mib {
        Mib(self.process.0 - self.buffers.0)
    }
}

/// What the process of `load` took besides its buffers, per GPU; `processes` are those that hold memory of GPUs now.
///
/// # Errors
/// One sentence, if the log or the driver does not tell it.
pub fn driver_overhead(load: &Load, processes: &[ProcessMemory]) -> Result<Vec<DriverOverhead>, String> {
    if load.projector.is_some() || load.settings.mmproj.is_some() {
        return Err("the load has a projector, whose buffers are not all in the log".to_owned());
    }
    if !load.has_all_buffers() {
        return Err("the log does not have every buffer: start the server with -lv 4".to_owned());
    }
    let mut devices: Vec<&str> = load.observed.keys().map(|name| device_name(name)).filter(|n| is_one_gpu(n)).collect();
    devices.dedup();
    let own: Vec<&ProcessMemory> = processes.iter().filter(|process| is_program(&process.name)).collect();
    let found = devices.iter().map(|&device| {
        let held = own.iter().filter(|process| devices.len() == 1 || is_on(process, device));
        let mut held = held.filter_map(|process| process.used);
        let (process, more) = (held.next(), held.next());
        let (Some(process), None) = (process, more) else {
            let count = if more.is_some() { "more than one process" } else { "no process" };
            return Err(format!("{count} of such a program holds memory of {device} by what the driver says"));
        };
        let buffers = load.observed.iter().filter(|(name, _)| device_name(name) == device);
        let buffers = Mib(buffers.flat_map(|(_, terms)| terms.values()).map(|mib| mib.0).sum());
        if process.0 < buffers.0 {
            return Err(format!("the process holds less of {device} than the log's buffers: it is another load"));
        }
        let described = load.devices.iter().find(|known| known.name == device);
        let gpu = described.and_then(|known| known.description.clone());
        Ok(DriverOverhead { device: device.to_owned(), gpu, backend: backend(device).0, process, buffers })
    });
    let found: Vec<DriverOverhead> = found.collect::<Result<_, _>>()?;
    if found.is_empty() { Err("the load uses no GPU".to_owned()) } else { Ok(found) }
}

fn is_program(path: &str) -> bool {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path).to_ascii_lowercase();
    PROGRAMS.iter().any(|program| name.starts_with(program))
}

/// Whether a process is on the card that has this device's number.
fn is_on(process: &ProcessMemory, device: &str) -> bool {
    process.card.is_some_and(|card| number(device) == card)
}

/// Memory of a process on one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldMemory {
    /// `GPU0`
    pub device: String,
    /// The buffers that are planned there.
    pub planned: Bytes,
    /// What the driver says that the process holds.
    pub observed: Bytes,
    /// What is known of the driver's own part.
    pub driver: Option<DriverMemory>,
    /// Whether the model has experts, on which the driver's part depends.
    has_experts: bool,
}

impl HeldMemory {
    /// Compares a plan with `processes` of its program, per GPU; several on one GPU count together.
    pub fn of(plan: &Plan, processes: &[ProcessMemory]) -> Vec<Self> {
        // what MLX holds changes from request to request
        let changes = plan.devices.iter().any(|device| device.after_prompt.is_some());
        let gpus = plan.gpus().iter().enumerate().filter(|_| !changes);
        let one = |(index, gpu): (usize, &crate::plan::DevicePlan)| {
            let here = processes.iter().filter(|process| process.card == Some(index as u64));
            let held = here.filter_map(|process| process.used).map(|mib| (mib.0 * f64::from(1 << 20)) as u64);
            let held = held.reduce(|a, b| a + b).map(Bytes)?;
            let (planned, has_experts) = (gpu.asked(), plan.model.experts.is_some());
            Some(Self { device: gpu.id.clone(), planned, observed: held, driver: gpu.driver, has_experts })
        };
        gpus.filter_map(one).collect()
    }

    /// Whether it holds what is planned, and no more besides than a driver takes.
    pub fn agrees(&self) -> bool {
        let most = self.driver.map_or(USUAL_OVERHEAD, |driver| driver.most(self.has_experts).max(USUAL_OVERHEAD));
        self.observed >= self.planned && self.observed - self.planned <= most
    }

    /// The comparison as a clause.
    pub fn clause(&self) -> String {
        let Self { device, planned, observed, .. } = self;
        if observed < planned {
            return format!("{observed} on {device}, {} less than the {planned} planned", *planned - *observed);
        }
        let driver = self.driver.map_or_else(String::new, |driver| format!("; {driver}"));
        format!("{observed} on {device}, {} besides the {planned} planned{driver}", *observed - *planned)
    }
}

/// A model that Ollama lists as loaded, beside its plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedModel {
    /// What is planned; none from an engine whose list is not known.
    pub planned: Option<OllamaPs>,
    /// The least and the most that may be listed, of a model whose size changes while it is loaded.
    pub range: Option<(Bytes, Bytes)>,
    /// What is listed.
    pub observed: OllamaPs,
    /// How far that may be off, where only the column is known.
    rounded: Bytes,
}

impl ListedModel {
    /// Compares a plan with a row of `/api/ps` or of `ollama ps`; none where that has no size.
    pub fn of(plan: &Plan, row: &PsRow) -> Option<Self> {
        let (size, vram, rounded) = if let Some(size) = row.size_bytes {
            (Bytes(size), Bytes(row.vram_bytes.unwrap_or_default()), ROUNDED)
        } else {
            let (size, unit) = row.in_column()?;
            (size, Bytes(size.0 / 100 * u64::from(row.gpu_percent?)), unit)
        };
        let observed = OllamaPs { size, vram };
        Some(Self { planned: listed(plan), range: plan.ps_range(), observed, rounded })
    }

    /// Whether both figures are the same, but for rounding; of a size that changes, whether it is within its range.
    pub fn agrees(&self) -> bool {
        if let Some((least, most)) = self.range {
            return self.observed.size + self.rounded >= least && self.observed.size <= most + self.rounded;
        }
        let near = |a: Bytes, b: Bytes| a.0.abs_diff(b.0) <= self.rounded.0;
        self.planned
            .is_some_and(|planned| near(planned.size, self.observed.size) && near(planned.vram, self.observed.vram))
    }
}

/// What Ollama lists of a plan once it is loaded: what llama-server's log adds up to, or an estimator's own figures.
pub fn listed(plan: &Plan) -> Option<OllamaPs> {
    let estimated = || {
        let estimate = plan.estimate.as_ref()?;
        Some(OllamaPs { size: estimate.total_size, vram: estimate.vram_size })
    };
    plan.ollama_ps.or_else(estimated)
}

/// The machine as it was before programs of this name took `processes`' memory.
pub fn machine_before(machine: &Machine, processes: &[ProcessMemory]) -> Machine {
    let mut machine = machine.clone();
    for (index, gpu) in machine.gpus.iter_mut().enumerate() {
        let here = processes.iter().filter(|process| process.card == Some(index as u64));
        let held: u64 = here.filter_map(|process| process.used).map(|mib| (mib.0 * f64::from(1 << 20)) as u64).sum();
        gpu.free = (gpu.free + Bytes(held)).min(gpu.total);
    }
    machine
}

/// What a request with some changes would show.
#[derive(Clone, Debug, PartialEq)]
pub struct PsCandidate {
    /// The changes, as options; none for the request itself.
    pub changes: Vec<String>,
    /// The columns SIZE and PROCESSOR.
    pub shows: OllamaPs,
    /// Percent on GPUs, as in the column.
    pub gpu_percent: u8,
    /// Layers on GPUs, and in all.
    pub layers: (usize, usize),
}

/// What settings would show a column PROCESSOR.
#[derive(Clone, Debug, PartialEq)]
pub struct PsAnswer {
    /// Percent on GPUs that was asked about.
    pub gpu_percent: u8,
    /// What the request itself would show.
    pub planned: PsCandidate,
    /// Settings that would show it, the likeliest first; the nearest one if there is none.
    pub candidates: Vec<PsCandidate>,
}

impl PsAnswer {
    /// Whether the request itself would show it.
    pub fn agrees(&self) -> bool {
        self.planned.is_near(self.gpu_percent)
    }
}

impl PsCandidate {
    /// Whether it would show this share.
    pub fn is_near(&self, gpu_percent: u8) -> bool {
        self.gpu_percent.abs_diff(gpu_percent) <= NEAR
    }

    fn of(plan: &Plan, changes: Vec<String>) -> Option<Self> {
        let shows = listed(plan).filter(|shows| shows.size > Bytes::ZERO)?;
        let gpu_percent = gpu_percent(&shows.processor_column())?;
        Some(Self { changes, shows, gpu_percent, layers: (plan.offloaded, plan.layers.len()) })
    }
}

/// Plans `request`, and changes of it that a user may have made, and returns those that would show `column`.
///
/// # Errors
/// One sentence, if `column` is not one, or nothing can be planned.
pub fn explain_column(request: &PlanRequest, column: &str) -> Result<PsAnswer, String> {
    let wanted = gpu_percent(column.trim())
        .ok_or_else(|| format!("'{column}' is not a column PROCESSOR: use \"27%/73% CPU/GPU\" or \"100% GPU\""))?;
    let plan = request.plan().map_err(|error| error.to_string())?;
    let planned = PsCandidate::of(&plan, Vec::new())
        .ok_or_else(|| format!("{} shows no such column: use an engine of Ollama", request.engine.title()))?;
    let mut tried = variants(request);
    if !tried.iter().any(|candidate| candidate.is_near(wanted)) && !planned.is_near(wanted) {
        tried.extend(by_layers(request, plan.layers.len()));
    }
    let off = |candidate: &PsCandidate| candidate.gpu_percent.abs_diff(wanted);
    tried.sort_by_key(|candidate| (!candidate.is_near(wanted), candidate.changes.len(), off(candidate)));
    let near = tried.iter().filter(|candidate| candidate.is_near(wanted)).count();
    tried.truncate(if near == 0 { 0 } else { near.min(SHOWN) });
    if near == 0
        && let Some(nearest) = variants(request).into_iter().min_by_key(off)
    {
        tried.push(nearest);
    }
    Ok(PsAnswer { gpu_percent: wanted, planned, candidates: tried })
}

/// A change with the option that makes it.
type Change = (String, Box<dyn Fn(&mut Settings)>);

/// One or two changes of context, cache type, sequences and flash attention.
fn variants(request: &PlanRequest) -> Vec<PsCandidate> {
    let types = [CacheType::Q8_0, CacheType::Q4_0].map(|ty| -> Change {
        let change = move |settings: &mut Settings| {
            (settings.cache_type_k, settings.cache_type_v) = (Some(ty), Some(ty));
            settings.flash_attn = FlashAttn::On;
        };
        (format!("--kv-type {ty} --flash-attn on"), Box::new(change))
    });
    let sequences = [2, 4].map(|count| -> Change {
        (format!("--parallel {count}"), Box::new(move |settings| settings.parallel = Some(count)))
    });
    let off: Change = ("--flash-attn off".to_owned(), Box::new(|settings| settings.flash_attn = FlashAttn::Off));
    let contexts: Vec<Change> = match request.settings.ctx {
        Context::Auto => {
            let change = |tokens: u64| -> Change {
                (format!("--ctx {tokens}"), Box::new(move |settings| settings.ctx = Context::Tokens(tokens)))
            };
            CONTEXTS.into_iter().map(change).collect()
        }
        _ => Vec::new(),
    };
    let groups: [Vec<Change>; 4] = [contexts, types.into(), sequences.into(), vec![off]];
    let mut found = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        for (name, change) in group {
            let one = request.changed(change);
            found.extend(candidate(&one, vec![name.clone()]));
            for (further, also) in groups.iter().skip(at + 1).flatten() {
                // flash attention is a part of the cache types' change
                if name.contains("--flash-attn") && further.contains("--flash-attn") {
                    continue;
                }
                found.extend(candidate(&one.changed(also), vec![name.clone(), further.clone()]));
            }
        }
    }
    found
}

/// Fewer layers on GPUs.
fn by_layers(request: &PlanRequest, layers: usize) -> Vec<PsCandidate> {
    let counts = (0..=layers as u64).map(|count| {
        let request = request.changed(|settings| settings.gpu_layers = GpuLayers::Count(count));
        candidate(&request, vec![format!("--gpu-layers {count}")])
    });
    counts.flatten().collect()
}

fn candidate(request: &PlanRequest, changes: Vec<String>) -> Option<PsCandidate> {
    PsCandidate::of(&request.plan().ok()?, changes)
}
