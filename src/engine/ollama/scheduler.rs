//! Several models at once: which are unloaded for another, and what Ollama believes to be free.
//! Source: `processPending`, `findRunnerToUnload`, `needsReload` and `updateFreeSpace`, `server/sched.go`,
//! `GPUDevices`, `discover/runner.go`, and `VRAMByGPU`, `llm/llama_server.go`, Ollama, August 2026.

use super::discovery::{CountedGpu, discover, share};
use super::llama_cpp;
use super::release::ReleaseTraits;
use super::server_launch::{self, Retry, ServerLaunch};
use crate::engine::error::EngineError;
use crate::engine::launch::ServerStart;
use crate::engine::llama_cpp::PreparedModel;
use crate::engine::plan_request::RequestParts;
use crate::machine::{Machine, Os};
use crate::settings::{EngineId, GpuLayers, Settings};
use crate::units::Bytes;

/// Maximum of prediction and batch surcharge, in percent of the available memory.
const PERCENT: u64 = 80;

/// How long a model stays loaded if nobody says, in seconds. Source: `envconfig/config.go`.
const KEEP_ALIVE: i64 = 300;

/// A request to load a model.
#[derive(Clone, Copy, Debug)]
pub struct ScheduledRequest<'a> {
    /// The model.
    pub model: &'a PreparedModel,
    /// The path of its file, by which Ollama knows it.
    pub path: &'a str,
    /// Its settings.
    pub settings: &'a Settings,
    /// How long it stays, in seconds after its last request; below 1 it goes at once.
    pub keep_alive: Option<i64>,
    /// Its request does not end.
    pub busy: bool,
}

/// A loaded model.
#[derive(Clone, Debug)]
struct Runner {
    number: usize,
    path: String,
    settings: Settings,
    start: ServerStart,
    keep_alive: i64,
    busy: bool,
    /// Bytes that the operating system and the drivers count, per GPU.
    taken: Vec<(usize, Bytes)>,
    /// Bytes that Ollama counts, per GPU that it chose.
    accounts: Vec<(usize, Bytes)>,
    /// What it reports as free, per GPU that Ollama chose.
    reports: Vec<(usize, Bytes)>,
    /// Bytes of its file that are mapped.
    mapped: Bytes,
}

/// What is done for a request.
#[derive(Clone, Debug)]
pub enum Scheduled {
    /// The model is loaded already, by the request with this number.
    Serves(usize),
    /// llama-server is started.
    Starts(Box<ScheduledStart>),
}

/// A start of llama-server beside other models.
#[derive(Clone, Debug)]
pub struct ScheduledStart {
    /// The start.
    pub start: ServerStart,
    /// The numbers of the requests whose models had to go before, with a reason each; a sentence without a full stop.
    pub unloaded: Vec<(usize, String)>,
    /// The request whose model is loaded anew.
    pub reloaded: Option<usize>,
    /// The machine with what Ollama believes to be free.
    pub believed: Machine,
    number: usize,
    launch: ServerLaunch,
}

/// Ollama's scheduler.
#[derive(Clone, Debug)]
pub struct Scheduler<'m> {
    machine: &'m Machine,
    loaded: Vec<Runner>,
    requests: usize,
}

impl<'m> Scheduler<'m> {
    /// Nothing is loaded on `machine`.
    pub const fn new(machine: &'m Machine) -> Self {
        Self { machine, loaded: Vec::new(), requests: 0 }
    }

    /// What is done for the next request.
    ///
    /// # Errors
    /// When Ollama refuses it.
    pub fn schedule(&mut self, request: &ScheduledRequest<'_>) -> Result<Scheduled, EngineError> {
        let number = self.requests;
        self.requests += 1;
        let (mut unloaded, mut reloaded) = (Vec::new(), None);
        if let Some(place) = self.loaded.iter().position(|runner| runner.path == request.path) {
            let alone = decide(request, &self.believed(request.settings), 0)?;
            if self.loaded.get(place).is_some_and(|runner| !runner.needs_reload(request.settings, &alone.start)) {
                return Ok(Scheduled::Serves(self.serve(place, request)));
            }
            reloaded = Some(self.loaded.remove(place).number);
        }
        loop {
            let believed = self.believed(request.settings);
            let launch = decide(request, &believed, self.mapped())?;
            let most = limit(request.settings, launch.counted.len());
            let why = if self.loaded.len() >= most {
                format!("Ollama keeps at most {most} models loaded here")
            } else if let Some(why) = self.lacks_room(request, &launch) {
                why
            } else {
                let start = launch.start.clone();
                let start = ScheduledStart { start, unloaded, reloaded, believed, number, launch };
                return Ok(Scheduled::Starts(Box::new(start)));
            };
            let Some(first) = self.next_to_go() else { return Err(EngineError::Settings(why)) };
            unloaded.push((self.loaded.remove(first).number, why));
        }
    }

    /// The start after one that ran out of memory, if there is one: all others are unloaded. `retried` is how often
    /// that was so.
    ///
    /// # Errors
    /// As [`Self::schedule`].
    pub fn schedule_again(
        &mut self,
        request: &ScheduledRequest<'_>,
        failed: &ScheduledStart,
        retried: Retried,
    ) -> Result<Option<(ScheduledStart, Retried)>, EngineError> {
        let mut again = failed.clone();
        if failed.launch.has_projector_on_gpu {
            let retry = Retry { ctx: retried.ctx, projector_in_ram: true };
            again.launch = server_launch::decide(request.model, &failed.believed, request.settings, retry)?;
            again.start = again.launch.start.clone();
            return Ok(Some((again, retried)));
        }
        let lower = server_launch::lower_context(request.settings, failed.launch.ctx);
        if retried.all_unloaded || lower.is_none() && self.loaded.is_empty() {
            return Ok(None);
        }
        while let Some(first) = self.next_to_go() {
            let why = "the first attempt to load it runs out of memory".to_owned();
            again.unloaded.push((self.loaded.remove(first).number, why));
        }
        again.believed = self.believed(request.settings);
        let retry = Retry { ctx: lower, projector_in_ram: false };
        again.launch = server_launch::decide(request.model, &again.believed, request.settings, retry)?;
        again.start = again.launch.start.clone();
        Ok(Some((again, Retried { ctx: lower, all_unloaded: true })))
    }

    /// The model is loaded; `used` is what its llama-server takes on each GPU that it sees by its own log, and `besides`
    /// what drivers take there for its process, in bytes.
    /// Returns what Ollama counts on each GPU, where that is something.
    pub fn loaded(
        &mut self,
        request: &ScheduledRequest<'_>,
        start: &ScheduledStart,
        used: &[Bytes],
        besides: &[Bytes],
    ) -> Vec<(usize, Bytes)> {
        let sees = &start.start.command.sees;
        let besides = besides.iter().copied().chain(std::iter::repeat(Bytes::ZERO));
        let taken = used.iter().zip(besides).map(|(used, besides)| *used + besides);
        let taken = sees.iter().copied().zip(taken).collect();
        let chosen = &start.launch.chosen;
        // a GPU's own name has its number among those of its backend, and llama-server counts what it sees
        let logged = |one: &CountedGpu| used.get(one.number).copied();
        let free_then = |one: &CountedGpu| {
            let seen = sees.get(one.number)?;
            chosen.iter().find(|other| other.index == *seen).map(|other| other.gpu.free)
        };
        let account = |one: &CountedGpu| (one.index, logged(one).unwrap_or(Bytes::ZERO));
        let report = |one: &CountedGpu| {
            let logged = logged(one).unwrap_or(Bytes::ZERO);
            let by_total = one.gpu.total - logged;
            (one.index, free_then(one).map_or(by_total, |free| by_total.min(free - logged)))
        };
        let keep_alive = request.keep_alive.or(request.settings.ollama.server.keep_alive.map(for_ever));
        let is_mapped = !start.start.command.args.iter().any(|word| word == "--load-mode" || word == "--no-mmap");
        let runner = Runner {
            number: start.number,
            path: request.path.to_owned(),
            settings: request.settings.clone(),
            start: start.start.clone(),
            keep_alive: keep_alive.unwrap_or(KEEP_ALIVE),
            busy: request.busy,
            taken,
            accounts: chosen.iter().map(account).collect(),
            reports: chosen.iter().map(report).collect(),
            mapped: if is_mapped { request.model.file_bytes } else { Bytes::ZERO },
        };
        let accounts = runner.accounts.iter().copied().filter(|(_, bytes)| *bytes > Bytes::ZERO).collect();
        if runner.busy || runner.keep_alive > 0 {
            self.loaded.push(runner);
        }
        accounts
    }

    /// The machine with what is really free.
    pub fn left(&self) -> Machine {
        let mut left = self.machine.clone();
        for (index, bytes) in self.loaded.iter().flat_map(|runner| &runner.taken) {
            if let Some(gpu) = left.gpus.get_mut(*index) {
                gpu.free = gpu.free - *bytes;
            }
        }
        left
    }

    /// The loaded model serves the request too.
    fn serve(&mut self, place: usize, request: &ScheduledRequest<'_>) -> usize {
        let Some(runner) = self.loaded.get_mut(place) else { return 0 };
        runner.keep_alive = request.keep_alive.unwrap_or(runner.keep_alive);
        runner.busy |= request.busy;
        let number = runner.number;
        if runner.keep_alive < 1 && !runner.busy {
            self.loaded.remove(place);
        }
        number
    }

    /// Bytes of files that loaded models have mapped.
    fn mapped(&self) -> u64 {
        self.loaded.iter().map(|runner| runner.mapped).sum::<Bytes>().0
    }

    /// Why there is no room beside others.
    fn lacks_room(&self, request: &ScheduledRequest<'_>, launch: &ServerLaunch) -> Option<String> {
        let start = &launch.start;
        let is_part = match request.settings.gpu_layers {
            GpuLayers::Count(layers) => (1..=request.model.block_count() as u64).contains(&layers),
            GpuLayers::Auto | GpuLayers::All => false,
        };
        if self.loaded.is_empty() || is_part || start.gpus.is_empty() || request.settings.raw {
            return None;
        }
        let surcharge = if launch.embedding { 0 } else { server_launch::surcharge(Some(start.num_batch)) };
        let needed = start.predicted.saturating_add(surcharge);
        (needed > share(start.available, PERCENT)).then(|| {
            format!(
                "Ollama expects it to need {}, more than {PERCENT} % of the {} available",
                Bytes(needed),
                Bytes(start.available)
            )
        })
    }

    /// Idle before busy, then by keep-alive, then by path.
    fn next_to_go(&self) -> Option<usize> {
        let key = |runner: &Runner| (runner.busy, runner.keep_alive, runner.path.clone());
        (0..self.loaded.len()).min_by_key(|&place| self.loaded.get(place).map(key))
    }

    /// The machine with what Ollama believes to be free: of its own accounts where every GPU has a model of its own,
    /// else of the drivers.
    fn believed(&self, settings: &Settings) -> Machine {
        let mut believed = self.machine.clone();
        if self.loaded.is_empty() {
            return believed;
        }
        let traits = ReleaseTraits::of(settings.ollama.version);
        let counted = discover(self.machine, settings, &traits).counted;
        let mut reports: Vec<(usize, Bytes)> = Vec::new();
        for runner in &self.loaded {
            reports.retain(|(index, _)| !runner.reports.iter().any(|(other, _)| other == index));
            reports.extend(&runner.reports);
            if reports.len() == counted.len() {
                break;
            }
        }
        let by_reports = reports.len() == counted.len();
        // on a Mac it is what was free at the server's start
        let on_mac = self.machine.os == Os::MacOs;
        let driver = if on_mac { self.machine.clone() } else { self.left() };
        for one in &counted {
            let Some(gpu) = believed.gpus.get_mut(one.index) else { continue };
            let reported = reports.iter().find(|(index, _)| *index == one.index).map(|(_, free)| *free);
            let by_driver = driver.gpus.get(one.index).map_or(gpu.free, |gpu| gpu.free);
            gpu.free = reported.filter(|_| by_reports && !on_mac).unwrap_or(by_driver);
            let accounts = self.loaded.iter().flat_map(|runner| &runner.accounts);
            let sum: Bytes = accounts.filter(|(index, _)| *index == one.index).map(|(_, bytes)| *bytes).sum();
            gpu.free = gpu.free.min(one.gpu.total - sum);
        }
        believed
    }
}

/// How often a load was tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retried {
    ctx: Option<u64>,
    all_unloaded: bool,
}

impl ScheduledStart {
    /// The plan on `actual`, the machine with what is really free.
    ///
    /// # Errors
    /// When llama-server refuses the settings.
    pub fn plan(
        &self,
        model: &PreparedModel,
        actual: &Machine,
        settings: &Settings,
    ) -> Result<crate::plan::Plan, EngineError> {
        let mut launch = self.launch.clone();
        for (gpu, index) in launch.machine.gpus.iter_mut().zip(&self.start.command.sees) {
            gpu.free = actual.gpus.get(*index).map_or(gpu.free, |gpu| gpu.free);
        }
        launch.machine.ram = actual.ram;
        let place = |settings: &Settings| llama_cpp::plan(RequestParts { model, machine: &launch.machine, settings });
        let (mut plan, refusal) = super::accepted(&launch, place)?;
        plan.refusal = plan.refusal.or(refusal);
        let mut plan = super::in_ollama_terms(plan, launch, model, actual, settings);
        super::explain_further(&mut plan, settings);
        Ok(plan)
    }

    /// Whether `plan` does not fit where it was placed.
    pub fn runs_out_of_memory(&self, plan: &crate::plan::Plan, actual: &Machine) -> bool {
        super::starts::runs_out_of_memory(&plan.devices, actual)
    }
}

impl Runner {
    /// Whether the same model with other options is loaded anew; what Ollama chose itself is kept.
    fn needs_reload(&self, settings: &Settings, start: &ServerStart) -> bool {
        let (now, new) = (&self.settings, settings);
        let same = |a: &Settings, b: &Settings| {
            (a.ollama.num_thread, a.ollama.main_gpu, a.ollama.draft_num_predict, a.ollama.adapters)
                == (b.ollama.num_thread, b.ollama.main_gpu, b.ollama.draft_num_predict, b.ollama.adapters)
                && (a.ollama.shift, &a.projector, a.adapters) == (b.ollama.shift, &b.projector, b.adapters)
                && (a.cache_type_k, a.cache_type_v, a.flash_attn) == (b.cache_type_k, b.cache_type_v, b.flash_attn)
        };
        let ctx = !(self.start.ctx_auto && start.ctx_auto) && self.start.num_ctx != start.num_ctx;
        let batch = new.batch.is_some_and(|batch| self.start.num_batch != batch);
        let mmap = new.ollama.use_mmap.is_some() && new.ollama.use_mmap != now.ollama.use_mmap;
        let layers = new.gpu_layers != GpuLayers::Auto && new.gpu_layers != now.gpu_layers;
        ctx || batch || mmap || layers || !same(now, new)
    }
}

fn decide(request: &ScheduledRequest<'_>, believed: &Machine, mapped: u64) -> Result<ServerLaunch, EngineError> {
    server_launch::decide_beside(request.model, believed, request.settings, Retry::default(), mapped)
}

/// How many models may be loaded.
fn limit(settings: &Settings, gpus: usize) -> usize {
    let by_gpus = EngineId::Ollama.facts().max_loaded_per_gpu.unwrap_or(usize::MAX).saturating_mul(gpus.max(1));
    let asked = settings.ollama.server.max_loaded_models;
    asked.map_or(by_gpus, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

/// Seconds of a keep-alive of the server; negative is for ever.
const fn for_ever(seconds: i64) -> i64 {
    if seconds < 0 { i64::MAX } else { seconds }
}
