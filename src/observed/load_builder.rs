//! A load while its lines are read: which lines begin another load, another model or another context, and which replace
//! earlier ones instead of adding to them.

use super::amount::{Buffers, Mib, Term};
use super::command::CommandLine;
use super::context::{self, ObservedContext, ObservedSettings};
use super::event::Event;
use super::fit::FitResult;
use super::hole::clip;
use super::kind::Kind;
use super::limits;
use super::load::{Load, Program, is_gpu};
use super::memory::{BufferName, CacheSize, TablePhase, TableRow, add, sum};
use super::model::{Folder, ObservedDevice, ObservedModel};
use super::ollama::Request;
use super::row::Parsed;
use crate::settings::BUILDS;

/// Words that llama.cpp no longer prints, and the approximate build that dropped them: few logs name their build.
const GIVEN_UP: [(&str, u64); 6] = [
    // a negative remainder is signed since
    ("llama_memory_breakdown_print", 8_900),
    ("llama_print_memory_breakdown", 8_900),
    ("llama_params_fit", 8_900),
    ("alloc_compute_meta", 10_300),
    ("(mmap = ", 10_300),
    ("direct_io = ", 10_300),
];
/// Words that llama.cpp did not print before, and the approximate build that brought them.
const BROUGHT: [(&str, u64); 2] = [
    // `--fit`, ggml-org/llama.cpp 16653 of 15 December 2025
    ("_params_fit", 7_400),
    // ggml-org/llama.cpp 18547 of 15 January 2026, which 0.1.132 has not
    ("sched_reserve: ", RESERVED_BY_THE_CONTEXT),
];
/// Compute buffers are printed by `sched_reserve` since.
const RESERVED_BY_THE_CONTEXT: u64 = 7_745;
/// llama-server's lines begin with its clock since.
const HAS_CLOCK: u64 = 9_181;
/// The line of recurrent states has those saved for a draft since.
const TELLS_KEPT_STATES: u64 = 9_200;

/// A load of which more lines may come.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own about the lines before")]
pub(super) struct LoadBuilder {
    pub load: Load,
    /// The build that a folder of the program says.
    folder: Option<u64>,
    /// Settings requested besides the command: by a runner's request, KoboldCpp's fit, or a server's limits.
    pub asked: ObservedSettings,
    /// Whether the fit is at work.
    pub fitting: bool,
    /// Whether the fit printed lines after these buffers, which were therefore a trial's.
    tried: bool,
    /// Whether the current model is read without allocating, for a trial.
    no_alloc: bool,
    /// Whether the line before was a compute buffer of the same reservation.
    reserving: bool,
    /// Whether the line before was a row of the breakdown table.
    in_table: bool,
    /// Weights were read since the last context's lines, and the other way round.
    model_since: bool,
    context_since: bool,
    /// Memory of Ollama's own engine, and whether that group of lines is over.
    own: Buffers,
    pub own_over: bool,
    /// Weights of LM Studio's estimate, once its heading was there.
    pub own_estimate: Option<Mib>,
    /// Compute buffers of projectors.
    projector: Buffers,
    /// Whether the program was ready or has ended, so that whatever loads next is another load.
    pub over: bool,
    clock: u64,
    /// Devices of servers that no line lists, in order.
    addresses: Vec<String>,
}

impl LoadBuilder {
    /// An empty load on the machine of an earlier one.
    pub fn on(earlier: Option<&Self>) -> Self {
        let mut load = Load::default();
        if let Some(Load { program, version, build, commit, devices, writer, .. }) =
            earlier.map(|earlier| &earlier.load)
        {
            (load.program, load.build, load.devices) = (*program, *build, devices.clone());
            (load.version, load.commit, load.writer) = (version.clone(), commit.clone(), writer.clone());
        }
        Self { load, ..Self::default() }
    }

    fn has_buffers(&self) -> bool {
        !self.own.is_empty()
            || self.load.models.iter().any(|model| !model.observed.is_empty())
            || self.load.contexts.iter().any(|context| !context.observed.is_empty())
    }

    /// Whether more than a command and the machine is known.
    fn is_begun(&self) -> bool {
        let load = &self.load;
        self.over || self.has_buffers() || !load.table.is_empty() || !load.fit.is_empty() || !load.models.is_empty()
    }

    /// Whether a line of this kind begins another load.
    pub fn is_ended_by(&self, kind: Kind, clock: Option<u64>) -> bool {
        let loads = matches!(
            kind,
            Kind::Loading | Kind::Fit | Kind::Model | Kind::Weights | Kind::Table(Some(TablePhase::Fit))
        );
        // one second, as threads may print a little out of order
        let restarted = clock.is_some_and(|clock| clock.saturating_add(1_000_000) < self.clock);
        let weighed = self.load.models.iter().any(|model| !model.observed.is_empty());
        match kind {
            Kind::Start => self.is_begun(),
            Kind::Command => self.is_begun() || self.load.command.is_some(),
            Kind::Weights if restarted => weighed,
            // a fit says that it is at work before its tables
            Kind::Table(_) if self.has_buffers() && !self.fitting => false,
            _ => loads && (self.over || restarted && self.is_begun()),
        }
    }

    /// Skips a line that is not about a load; `of_another` if another program wrote it.
    pub fn pass(&mut self, of_another: bool) {
        self.reserving &= of_another;
        self.in_table &= of_another;
    }

    /// Applies the parsed line `text`.
    pub fn enter(&mut self, text: &str, parsed: Parsed<'_>, clock: Option<u64>) {
        let Parsed { kind, sets } = parsed;
        self.clock = clock.unwrap_or(self.clock);
        let is_buffer = matches!(kind, Kind::Weights | Kind::Compute | Kind::Memory);
        let opens = matches!(kind, Kind::Model) || kind == Kind::Weights && !self.load.contexts.is_empty();
        let tried = self.tried && (is_buffer || matches!(kind, Kind::Model | Kind::Part));
        if tried || opens && self.load.weighs_nothing() {
            self.forget_trial();
        }
        self.reserving &= kind == Kind::Compute;
        self.in_table &= matches!(kind, Kind::Table(_));
        if kind == Kind::Fit {
            self.fitting = true;
            self.tried |= self.has_buffers();
        }
        if is_buffer || matches!(kind, Kind::Table(_) | Kind::Fit | Kind::Model) {
            GIVEN_UP.iter().filter(|(words, _)| text.contains(words)).for_each(|&(_, build)| self.is_older_than(build));
            let clock = clock.map(|_| HAS_CLOCK);
            let brought = BROUGHT.iter().filter(|(words, _)| text.contains(words)).map(|&(_, build)| build);
            self.load.not_older_than = brought.chain(clock).chain(self.load.not_older_than).max();
        }
        sets(self);
    }

    fn is_older_than(&mut self, build: u64) {
        self.load.older_than = Some(self.load.older_than.map_or(build, |known| known.min(build)));
    }

    /// The current model.
    pub fn model(&mut self) -> &mut ObservedModel {
        last(&mut self.load.models)
    }

    /// The model whose file is opened or whose weights are about to be read: after another's weights it is a draft, or
    /// a further part.
    pub fn open_model(&mut self) -> &mut ObservedModel {
        let models = &mut self.load.models;
        if models.last().is_some_and(|model| !model.observed.is_empty()) && models.len() < limits::PARTS {
            models.push(ObservedModel::default());
            self.model_since = true;
        }
        last(models)
    }

    /// Whether nothing is allocated, for a trial.
    pub fn set_no_alloc(&mut self, trial: bool) {
        if std::mem::replace(&mut self.no_alloc, trial) && !trial {
            self.forget_trial();
        }
    }

    /// The current context.
    pub fn context(&mut self) -> &mut ObservedContext {
        last(&mut self.load.contexts)
    }

    /// The parameters of the current context, which is begun if there is none.
    pub fn context_settings(&mut self) -> &mut ObservedSettings {
        if self.load.contexts.is_empty() {
            self.begin_context();
        }
        &mut self.context().settings
    }

    pub fn set_version(&mut self, program: Program, version: &str) {
        (self.load.program, self.load.version) = (Some(program), Some(clip(version, 64)));
    }

    /// The printed build; a folder says more than a distributor's count.
    pub fn set_build(&mut self, number: u64) {
        self.load.build = self.folder.filter(|_| !BUILDS.contains(&number)).or(Some(number));
    }

    /// A folder of the program or of its backends.
    pub fn set_folder(&mut self, folder: &Folder<'_>) {
        match *folder {
            Folder::Engine(version) => self.set_version(Program::LmStudio, version),
            Folder::Build(build) => {
                self.folder = Some(build);
                self.load.build = self.load.build.filter(|known| BUILDS.contains(known)).or(self.folder);
            }
        }
    }

    /// The load is complete and the program ready.
    pub fn serve(&mut self) {
        (self.load.is_ready, self.over) = (true, true);
    }

    /// A program starts with a command, or a command was pasted.
    pub fn start(&mut self, program: Option<Program>, command: CommandLine) {
        self.load.program = program.or(self.load.program);
        if let Some(folder) = Folder::of_command(command.text.as_str()) {
            self.set_folder(&folder);
        }
        self.load.asked = command.model.clone().or(self.load.asked.take());
        self.load.command = Some(command);
    }

    /// Adds requested settings, which override earlier ones.
    pub fn ask(&mut self, settings: ObservedSettings) {
        self.asked = settings.or(std::mem::take(&mut self.asked));
    }

    /// The last line of LM Studio's estimate, which comes a part per line.
    pub fn end_own_estimate(&mut self, context: Mib) {
        if let Some(model) = self.own_estimate.take() {
            self.load.program = Some(Program::LmStudio);
            self.add_event(Event::OwnEstimate { model, context });
        }
    }

    /// Adds figures that only this program has; the same line said again adds nothing.
    pub fn tell(&mut self, program: Program, figures: &[(&str, Mib)]) {
        self.load.program = Some(program);
        for &(of, size) in figures {
            let figure = Event::Figure { of: clip(of, 64), size };
            if !self.load.events.contains(&figure) {
                self.add_event(figure);
            }
        }
    }

    /// Drops a trial, which the lines of the real load replace.
    fn forget_trial(&mut self) {
        self.tried = false;
        self.load.models.truncate(1);
        self.load.models.iter_mut().for_each(|model| model.observed.clear());
        self.load.contexts.clear();
        self.projector.clear();
        (self.model_since, self.context_since) = (false, false);
    }

    pub fn add_device(&mut self, device: ObservedDevice) {
        let devices = &mut self.load.devices;
        if let Some(known) = devices.iter_mut().find(|known| known.name == device.name) {
            known.update(device);
        } else if devices.len() < limits::DEVICES {
            devices.push(device);
        }
    }

    /// The name of a buffer's device as it is listed: `RPC1` for `RPC0[host:port]`, as servers count their own devices.
    fn listed_name(&mut self, device: &str) -> String {
        let Some((name, address)) = device.strip_suffix(']').and_then(|name| name.split_once('[')) else {
            return device.to_owned();
        };
        let (kind, index) = name.split_at(name.trim_end_matches(|c: char| c.is_ascii_digit()).len());
        let listed = self.load.devices.iter().filter(|known| known.description.as_deref() == Some(address));
        if let Some(known) = listed.into_iter().nth(index.parse().unwrap_or(0)) {
            return known.name.clone();
        }
        let places = &mut self.addresses;
        let of = |(at, known): (usize, &String)| (known == device).then_some(at);
        let at = places.iter().enumerate().find_map(of).unwrap_or_else(|| {
            if places.len() < limits::DEVICES {
                places.push(device.to_owned());
            }
            places.len() - 1
        });
        format!("{kind}{at}")
    }

    pub fn add_buffer(&mut self, buffer: BufferName<'_>, mib: Mib) {
        let BufferName { function, device, term } = buffer;
        let device = &*self.listed_name(device);
        let program = &mut self.load.program;
        match function {
            // llama.cpp's own name until January 2025, as is the next; its fork kept the first
            "llm_load_tensors" => *program = program.or(Some(Program::IkLlamaCpp)),
            "llama_new_context_with_model" if *program == Some(Program::IkLlamaCpp) => {
                *program = Some(Program::LlamaCpp);
            }
            _ => {}
        }
        match term {
            Term::Model => self.add_weights(device, mib),
            Term::Lora => add(&mut self.model().observed, device, term, mib),
            Term::ProjectorCompute => add(&mut self.projector, device, term, mib),
            Term::Compute => {
                if function.starts_with("llama_") {
                    self.is_older_than(RESERVED_BY_THE_CONTEXT);
                }
                self.reserve(device, mib);
            }
            term => self.add_to_context(device, term, mib),
        }
    }

    fn add_weights(&mut self, device: &str, mib: Mib) {
        let models = &mut self.load.models;
        let weighed = models.last().is_some_and(|model| !model.observed.is_empty());
        // a file's weights are in one buffer of each type, but for mappings of several files
        let again =
            !device.ends_with("_Mapped") && models.last().is_some_and(|model| model.observed.contains_key(device));
        if (weighed && self.context_since || again) && models.len() < limits::PARTS {
            models.push(ObservedModel::default());
        }
        (self.model_since, self.context_since) = (true, false);
        let (model, others) = match models.split_last_mut() {
            Some((model, others)) => (model, &*others),
            None => (last(models), [].as_slice()),
        };
        // a further part of one file: the mapping spans the whole file, and stands above already
        let mapped_before = others.iter().any(|other| other.observed.contains_key(device));
        if !(model.partial.is_some() && device.ends_with("_Mapped") && mapped_before) {
            add(&mut model.observed, device, Term::Model, mib);
        }
    }

    /// Notes that the context with this compute buffer is gone: one that is made later takes its place.
    pub fn end_context(&mut self, device: &str, compute: Mib) {
        let is_it = |context: &&mut ObservedContext| {
            let reserved = context.observed.get(device).and_then(|terms| terms.get(&Term::Compute));
            reserved.is_some_and(|mib| (mib.0 - compute.0).abs() < 0.01)
        };
        if let Some(context) = self.load.contexts.iter_mut().filter(|context| !context.is_over).find(is_it) {
            context.is_over = true;
        }
    }

    /// Makes another context if the last one has anything.
    pub fn begin_context(&mut self) {
        let contexts = &mut self.load.contexts;
        contexts.retain(|context| !context.is_over);
        let is_new = contexts.last().is_none_or(|context| *context != ObservedContext::default());
        if is_new && contexts.len() < limits::PARTS {
            contexts.push(ObservedContext::default());
        }
        (self.context_since, self.model_since) = (true, false);
    }

    pub fn set(&mut self, key: &str, value: &str) {
        let context = self.load.contexts.last();
        let again = context
            .is_some_and(|context| !context.observed.is_empty() || key == "n_ctx" && context.settings.n_ctx.is_some());
        if context.is_none() || again && context::is_first(key) {
            self.begin_context();
        }
        context::set(&mut last(&mut self.load.contexts).settings, key, value);
    }

    /// Caches and outputs come before compute buffers; one after them is another context's.
    fn add_to_context(&mut self, device: &str, term: Term, mib: Mib) {
        let another = self.load.contexts.last().is_none_or(|context| {
            context.has(Term::Compute)
                || self.model_since && !context.observed.is_empty()
                || term == Term::Output && context.has(Term::Output)
        });
        if another {
            self.begin_context();
        }
        (self.context_since, self.model_since) = (true, false);
        add(&mut last(&mut self.load.contexts).observed, device, term, mib);
    }

    pub fn add_cache(&mut self, cache: CacheSize) {
        if cache.term == Term::Rs && cache.saved_states.is_none() {
            self.is_older_than(TELLS_KEPT_STATES);
        }
        if self.load.contexts.is_empty() {
            self.begin_context();
        }
        let caches = &mut last(&mut self.load.contexts).caches;
        if caches.len() < limits::DEVICES {
            caches.push(cache);
        }
    }

    /// A context that is reserved anew gives its compute buffers back first. The lines of one reservation name a device
    /// once, but the CPU twice where a second backend computes on it (Metal with BLAS).
    fn reserve(&mut self, device: &str, mib: Mib) {
        if self.load.contexts.last().is_none_or(|context| self.model_since && context.has(Term::Compute)) {
            self.begin_context();
        }
        let context = last(&mut self.load.contexts);
        let known = context.observed.get(device).is_some_and(|terms| terms.contains_key(&Term::Compute));
        let same = self.reserving && (device.starts_with("CPU") || device.starts_with("BLAS"));
        if known && !same {
            context.release_compute();
        } else if known {
            context.cpu_backends = Some(context.cpu_backends.unwrap_or(1) + 1);
        }
        add(&mut context.observed, device, Term::Compute, mib);
        (self.reserving, self.context_since, self.model_since) = (true, true, false);
    }

    pub fn add_row(&mut self, name: String, row: TableRow) {
        let taken = self.has_buffers() && !self.tried && !self.fitting;
        let phase = match row.phase() {
            // at the end Metal and other computers may say that all of it is free
            _ if self.over && taken => TablePhase::Loaded,
            Some(TablePhase::Loaded) if self.fitting => TablePhase::Fit,
            Some(phase) => phase,
            // a row without the device's memory, as those before it in the table
            None if self.in_table => self.load.table_phase.unwrap_or(TablePhase::Fit),
            None if taken => TablePhase::Loaded,
            None => TablePhase::Fit,
        };
        let first = !std::mem::replace(&mut self.in_table, true);
        let load = &mut self.load;
        let known = load.free_before.len() < limits::DEVICES;
        if let Some(free) = row.free.filter(|_| known && phase == TablePhase::Fit) {
            load.free_before.entry(name.clone()).or_insert(free);
        }
        if first && load.table_phase == Some(TablePhase::Fit) && phase == TablePhase::Loaded && taken {
            load.table.clear();
        }
        if load.table.len() < limits::DEVICES || load.table.contains_key(&name) {
            load.table.insert(name, row);
        }
        load.table_phase = Some(phase);
        self.over |= phase == TablePhase::Loaded && taken;
        self.tried |= phase == TablePhase::Fit && self.has_buffers();
    }

    pub fn end_fit(&mut self, result: FitResult) {
        self.fitting = false;
        self.load.fit.result = Some(result);
    }

    /// Adds memory of Ollama's own engine.
    pub fn add_own(&mut self, device: &str, term: Term, mib: Mib) {
        self.note_ollama();
        if std::mem::take(&mut self.own_over) {
            self.own.clear();
        }
        if self.own.contains_key(device) || self.own.len() < limits::DEVICES {
            self.own.entry(device.to_owned()).or_default().insert(term, mib);
        }
    }

    /// Applies a request of Ollama to its runner.
    pub fn request(&mut self, request: Request) {
        self.note_ollama();
        match request.operation.as_str() {
            "close" => self.over = true,
            _ => self.ask(request.settings),
        }
    }

    pub fn note_ollama(&mut self) {
        self.load.program.get_or_insert(Program::Ollama);
    }

    pub fn add_event(&mut self, event: Event) {
        if self.load.events.len() < limits::EVENTS {
            self.load.events.push(event);
        }
    }

    /// The compute buffers for pipeline parallelism were refused: the load goes on without it.
    pub fn give_up_pipeline(&mut self) {
        while matches!(self.load.events.last(), Some(Event::OutOfMemory { .. })) {
            self.load.events.pop();
        }
        if let Some(context) = self.load.contexts.last_mut() {
            context.gave_up_pipeline = true;
        }
        self.load.events.push(Event::PipelineGivenUp);
    }

    /// The load, if anything but the machine is known of it.
    pub fn finish(mut self) -> Option<Load> {
        let any_cache = |mib: f64| {
            let terms = self.load.contexts.iter().flat_map(|context| context.observed.values());
            terms.filter_map(|terms| terms.get(&Term::Kv)).any(|kv| kv.0 > mib)
        };
        self.load.is_trial =
            self.no_alloc || self.load.weighs_nothing() || self.tried && any_cache(-1.0) && !any_cache(0.0);
        let llama_cpp = self.load.models.iter().any(|model| !model.observed.is_empty()) || any_cache(-1.0);
        let settings = self.settings_in_effect();
        let load = &mut self.load;
        for model in &load.models {
            sum(&mut load.observed, &model.observed);
        }
        for context in &mut load.contexts {
            sum(&mut load.observed, &context.observed);
            let observed = &context.observed;
            let now = |device: &str| observed.get(device).and_then(|terms| terms.get(&Term::Compute));
            context.reserved_before.retain(|device, mib| now(device).is_some_and(|now| now != mib));
        }
        // where llama.cpp says itself what it took, Ollama's lines are its estimate of the same
        if !llama_cpp {
            sum(&mut load.observed, &self.own);
        }
        sum(&mut load.observed, &self.projector);
        load.settings = settings;
        load.complete = load.completeness();
        let llama = load.has_memory() || load.build.is_some() || !load.models.is_empty() || !load.contexts.is_empty();
        let program = load.program.or(llama.then_some(Program::LlamaCpp));
        let says = !load.is_bare() || load.devices.iter().any(|device| is_gpu(&device.name));
        self.load.program = program;
        says.then_some(self.load)
    }

    /// The settings that a context reports, with gaps filled from those requested.
    fn settings_in_effect(&self) -> ObservedSettings {
        let load = &self.load;
        let mut settings = ObservedSettings::default();
        if let Some(context) = load.contexts.first() {
            settings = context.settings.clone();
            let types = context.caches.iter().map(CacheSize::types).find(|(k, _)| k.is_some()).unwrap_or_default();
            (settings.cache_type_k, settings.cache_type_v) = types;
            let saved = context.caches.iter().find_map(|cache| cache.saved_states);
            settings.n_rs_seq = settings.n_rs_seq.or(saved);
        }
        if let Some(model) = load.models.first() {
            settings.load_mode.clone_from(&model.load_mode);
            settings.n_ctx_train = settings.n_ctx_train.or(model.n_ctx_train);
        }
        let command = load.command.as_ref().map(|command| command.settings.clone()).unwrap_or_default();
        let mut settings = settings.or(command).or(self.asked.clone());
        settings.n_ctx = settings.n_ctx.or(load.fit.context.map(|(_, reduced)| reduced));
        settings
    }
}

/// The last element, added if there is none.
fn last<T: Default>(list: &mut Vec<T>) -> &mut T {
    if list.is_empty() {
        list.push(T::default());
    }
    let at = list.len() - 1;
    &mut list[at]
}
