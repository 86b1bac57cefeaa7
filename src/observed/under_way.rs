//! A load while its lines come in: which lines begin another load, another model or another context, and which take
//! the place of earlier ones instead of adding to them.

mod finish;

use super::buffers::add;
use super::context::{self, CacheSize};
use super::fit::FitLine;
use super::model::ModelFact;
use super::ollama::Request;
use super::said::{EstimatePart, Said};
use super::{
    Buffers, CommandLine, Event, Load, Mib, ObservedContext, ObservedDevice, ObservedModel, ObservedSettings, Program,
    TablePhase, TableRow, Term, limits, scan,
};

/// A load under way.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own about the lines before")]
pub(super) struct LoadUnderWay {
    pub load: Load,
    /// What was asked for besides the command: a runner's request, KoboldCpp's fit, limits that a server tells.
    asked: ObservedSettings,
    /// What the fit works out is printed between these lines.
    fitting: bool,
    /// The fit spoke after these buffers, so that they were a trial's.
    tried: bool,
    /// The model at hand is read without memory, for a trial.
    no_alloc: bool,
    /// The line before was a compute buffer of the same reservation.
    reserving: bool,
    /// The line before was a row of the breakdown table.
    in_table: bool,
    /// Weights were read since the last context's lines, and the other way round.
    model_since: bool,
    context_since: bool,
    /// What Ollama's own engine took, and whether that group of lines is over.
    own: Buffers,
    own_over: bool,
    /// Weights of LM Studio's estimate, once its heading was there.
    own_estimate: Option<Mib>,
    /// Compute buffers of projectors.
    projector: Buffers,
    /// The program served or ended; what loads next is another load.
    over: bool,
    clock: u64,
}

impl LoadUnderWay {
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

    /// Whether this line begins another load.
    pub fn is_ended_by(&self, said: &Said<'_>, clock: Option<u64>) -> bool {
        let loads = matches!(said, Said::Fit(_) | Said::Device(_) | Said::Own { .. } | Said::Request(_))
            || matches!(said, Said::Buffer(buffer) if buffer.term == Term::Model)
            || matches!(said, Said::Model(fact) if !matches!(fact, ModelFact::Property(..)))
            || matches!(said, Said::Row(_, row) if row.phase() == Some(TablePhase::Fit));
        // one second, as threads may print a little out of order
        let restarted = clock.is_some_and(|clock| clock.saturating_add(1_000_000) < self.clock);
        let weighed = self.load.models.iter().any(|model| !model.observed.is_empty());
        match said {
            Said::Build(..) | Said::Version(..) | Said::Load(_) | Said::Estimate(_) => self.is_begun(),
            Said::Start(..) | Said::Typed(_) => self.is_begun() || self.load.command.is_some(),
            Said::Buffer(_) if restarted => loads && weighed,
            _ => loads && (self.over || restarted && self.is_begun()),
        }
    }

    /// A line that says nothing of a load; `aside` if another program wrote it in between.
    pub fn pass(&mut self, aside: bool) {
        self.reserving &= aside;
        self.in_table &= aside;
    }

    /// Enters what a line says.
    pub fn apply(&mut self, said: Said<'_>, clock: Option<u64>) {
        self.clock = clock.unwrap_or(self.clock);
        if self.tried && matches!(said, Said::Buffer(_) | Said::Constructing | Said::Model(_) | Said::Cache(_)) {
            self.forget_trial();
        }
        let is_compute = matches!(&said, Said::Buffer(buffer) if buffer.term == Term::Compute);
        self.reserving &= is_compute;
        self.in_table &= matches!(said, Said::Row(..));
        if matches!(said, Said::Own { .. } | Said::Request(_) | Said::Estimate(_)) {
            self.load.program = self.load.program.or(Some(Program::Ollama));
        }
        let load = &mut self.load;
        match said {
            Said::Buffer(buffer) => {
                match buffer.function {
                    // llama.cpp's own name until January 2025, as is the next; its fork kept the first
                    "llm_load_tensors" => load.program = load.program.or(Some(Program::IkLlamaCpp)),
                    "llama_new_context_with_model" if load.program == Some(Program::IkLlamaCpp) => {
                        load.program = Some(Program::LlamaCpp);
                    }
                    _ => {}
                }
                match buffer.term {
                    Term::Model => self.add_weights(buffer.device, buffer.mib),
                    Term::Lora => add(&mut last(&mut load.models).observed, buffer.device, Term::Lora, buffer.mib),
                    Term::ProjectorCompute => add(&mut self.projector, buffer.device, buffer.term, buffer.mib),
                    Term::Compute => self.reserve(buffer.device, buffer.mib),
                    term => self.add_to_context(buffer.device, term, buffer.mib),
                }
            }
            Said::Cache(cache) => self.add_cache(cache),
            Said::Row(name, row) => self.add_row(name, row),
            Said::Fit(line) => self.fit(&line),
            Said::Constructing => self.begin_context(),
            Said::Parameter(key, value) => self.set(key, value),
            Said::Model(fact) => self.add_model_fact(fact),
            Said::Device(device) => self.add_device(device),
            Said::Cpu(instructions) => load.cpu = Some(instructions),
            Said::Build(number, commit) => {
                (load.build, load.commit) = (number.or(load.build), Some(scan::clip(commit, 64)));
            }
            Said::Version(program, version) => {
                (load.program, load.version) = (Some(program), Some(scan::clip(version, 64)));
            }
            Said::Start(program, command) => {
                load.program = Some(program);
                self.add_command(command);
            }
            Said::Typed(command) => {
                if command.program.starts_with("koboldcpp") {
                    load.program = Some(Program::KoboldCpp);
                }
                self.add_command(command);
            }
            Said::Load(path) => load.asked = Some(scan::name(path)),
            Said::Named(name) => load.asked = Some(scan::name(name)),
            Said::Slots { sequences, context, unified } => {
                let asked = &mut self.asked;
                asked.n_seq_max = sequences.or(asked.n_seq_max);
                asked.n_ctx_seq = context.or(asked.n_ctx_seq);
                asked.kv_unified = unified.or(asked.kv_unified);
            }
            Said::Ready => (load.is_ready, self.over) = (true, true),
            Said::Closing => self.over = true,
            Said::Own { device, term, mib } => self.add_own(device, term, mib),
            Said::OwnTotal => self.own_over = true,
            Said::Request(request) => self.request(request),
            Said::Estimate(estimate) => load.estimate = Some(*estimate),
            Said::Projector(size) => load.projector = Some(size),
            Said::Autofit(command) => {
                load.program = Some(Program::KoboldCpp);
                self.asked = command.settings.or(std::mem::take(&mut self.asked));
            }
            Said::FlashAttention(on, words) => {
                last(&mut load.contexts).settings.flash_attn_in_use = Some(on);
                if !on {
                    self.add_event(Event::FlashAttentionOff { reason: scan::clip(words, 256) });
                }
            }
            Said::OwnEstimate(part) => self.own_estimate(part),
            Said::Event(event) => self.add_event(event),
        }
    }

    /// LM Studio's estimate, a part per line.
    fn own_estimate(&mut self, part: EstimatePart) {
        match part {
            EstimatePart::Heading => self.own_estimate = Some(Mib::default()),
            EstimatePart::Model(model) => self.own_estimate = self.own_estimate.and(Some(model)),
            EstimatePart::Context(context) => {
                if let Some(model) = self.own_estimate.take() {
                    self.load.program = Some(Program::LmStudio);
                    self.add_event(Event::OwnEstimate { model, context });
                }
            }
        }
    }

    /// The real load's lines take the place of a trial's.
    fn forget_trial(&mut self) {
        self.tried = false;
        self.load.models.truncate(1);
        self.load.models.iter_mut().for_each(|model| model.observed.clear());
        self.load.contexts.clear();
        self.projector.clear();
        (self.model_since, self.context_since) = (false, false);
    }

    fn add_command(&mut self, command: CommandLine) {
        if command.model.is_some() {
            self.load.asked.clone_from(&command.model);
        }
        self.load.command = Some(command);
    }

    fn add_device(&mut self, device: ObservedDevice) {
        let devices = &mut self.load.devices;
        if let Some(known) = devices.iter_mut().find(|known| known.name == device.name) {
            known.update(device);
        } else if devices.len() < limits::DEVICES {
            devices.push(device);
        }
    }

    /// A file after another, or weights after a context's lines, are another model's: a draft's.
    fn add_model_fact(&mut self, fact: ModelFact<'_>) {
        if let ModelFact::NoAlloc(trial) = fact {
            if std::mem::replace(&mut self.no_alloc, trial) && !trial {
                self.forget_trial();
            }
            return;
        }
        let models = &mut self.load.models;
        let weighed = models.last().is_some_and(|model| !model.observed.is_empty());
        let another = match fact {
            ModelFact::File(..) | ModelFact::Loading(_) | ModelFact::Described { .. } => weighed,
            _ => false,
        };
        if another && models.len() < limits::PARTS {
            models.push(ObservedModel::default());
            self.model_since = true;
        }
        last(models).apply(fact);
    }

    fn add_weights(&mut self, device: &str, mib: Mib) {
        let models = &mut self.load.models;
        let weighed = models.last().is_some_and(|model| !model.observed.is_empty());
        if weighed && self.context_since && models.len() < limits::PARTS {
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

    /// Makes another context if the last one has anything.
    fn begin_context(&mut self) {
        let contexts = &mut self.load.contexts;
        let is_new = contexts.last().is_none_or(|context| *context != ObservedContext::default());
        if is_new && contexts.len() < limits::PARTS {
            contexts.push(ObservedContext::default());
        }
        (self.context_since, self.model_since) = (true, false);
    }

    fn set(&mut self, key: &str, value: &str) {
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

    fn add_cache(&mut self, cache: CacheSize) {
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
        }
        add(&mut context.observed, device, Term::Compute, mib);
        (self.reserving, self.context_since, self.model_since) = (true, true, false);
    }

    fn add_row(&mut self, name: String, row: TableRow) {
        let taken = self.has_buffers() && !self.tried && !self.fitting;
        let phase = match row.phase() {
            Some(TablePhase::Loaded) if self.fitting => TablePhase::Fit,
            Some(phase) => phase,
            // a row without the device's memory, as those before it in the table
            None if self.in_table => self.load.table_phase.unwrap_or(TablePhase::Fit),
            None if taken => TablePhase::Loaded,
            None => TablePhase::Fit,
        };
        let first = !std::mem::replace(&mut self.in_table, true);
        let load = &mut self.load;
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

    fn fit(&mut self, line: &FitLine<'_>) {
        self.fitting = !matches!(line, FitLine::Fits | FitLine::GaveUp(_) | FitLine::Took);
        self.tried |= self.has_buffers();
        self.load.fit.apply(line);
    }

    fn add_own(&mut self, device: &str, term: Term, mib: Mib) {
        if std::mem::take(&mut self.own_over) {
            self.own.clear();
        }
        if self.own.contains_key(device) || self.own.len() < limits::DEVICES {
            self.own.entry(device.to_owned()).or_default().insert(term, mib);
        }
    }

    fn request(&mut self, request: Request) {
        match request.operation.as_str() {
            "close" => self.over = true,
            _ => self.asked = request.settings.or(std::mem::take(&mut self.asked)),
        }
    }

    fn add_event(&mut self, event: Event) {
        match event {
            Event::ProjectorEstimate(size) => self.asked.projector_estimate = Some(size),
            Event::DraftEstimate(size) => self.asked.draft_estimate = Some(size),
            Event::PromptCacheLimit(limit) => self.asked.cache_ram = Some(limit.0 as i64),
            Event::Checkpoints(count) => self.asked.ctx_checkpoints = Some(count),
            Event::PipelineGivenUp => {
                // what was refused just before is tried again with less, and the load goes on
                while matches!(self.load.events.last(), Some(Event::OutOfMemory { .. })) {
                    self.load.events.pop();
                }
                if let Some(context) = self.load.contexts.last_mut() {
                    context.gave_up_pipeline = true;
                }
                self.load.events.push(event);
            }
            Event::SchedCopies(copies) => {
                if let Some(context) = self.load.contexts.last_mut() {
                    context.settings.sched_copies = Some(copies);
                }
            }
            event => {
                if matches!(event, Event::AutofitReserve(_)) {
                    self.load.program = Some(Program::KoboldCpp);
                }
                if matches!(event, Event::FullSizeWindows) {
                    self.asked.swa_full = Some(true);
                }
                if self.load.events.len() < limits::EVENTS {
                    self.load.events.push(event);
                }
            }
        }
    }
}

/// The last of a list, made where there is none.
fn last<T: Default>(list: &mut Vec<T>) -> &mut T {
    if list.is_empty() {
        list.push(T::default());
    }
    let at = list.len() - 1;
    &mut list[at]
}
