//! From arguments to everything that an engine needs.

use std::path::Path;
use std::sync::Arc;

use super::args::{Interval, Knobs, MachineArgs};
use super::fault::Fault;
use super::knobs;
use super::progress::Shown;
use crate::answer::{Case, Glance, Limits};
use crate::engine::{self, EngineError, EngineId};
use crate::gguf::FileType;
use crate::hardware::saved::Saved;
use crate::hardware::{self, Detected, Search, Tried};
use crate::machine::Machine;
use crate::machine::described::Described;
use crate::model::Model;
use crate::plan::Plan;
use crate::settings::knob::LARGEST;
use crate::settings::{Context, GpuLayers, Settings};
use crate::source::{self, Progress, Roots, TagKnobs};
use crate::tui;
use crate::tui::lookout::Lookout;
use crate::tui::theme::Look;
use crate::units::Bytes;

/// What the arguments ask for; nothing is detected or opened yet.
#[derive(Debug)]
pub(super) struct Start {
    pub engine: EngineId,
    pub settings: Settings,
    pub described: Described,
    pub search: Search,
    pub notes: Vec<String>,
    /// Knobs that the arguments name: a model's tag does not change them.
    named: Named,
}

/// Which of the knobs that a tag may set were named.
#[derive(Clone, Copy, Debug)]
struct Named {
    ctx: bool,
    gpu_layers: bool,
}

/// The machine that the arguments ask for; nothing is detected yet.
#[derive(Debug)]
pub(super) struct Asked {
    pub described: Described,
    pub search: Search,
}

impl Asked {
    pub(super) fn read(machine: &MachineArgs) -> Result<Self, Fault> {
        Described::read(&machine.gpu, None).map_err(|sentence| Fault::flag("--gpu", &sentence))?;
        let said = Described::read(&machine.gpu, machine.ram.as_deref());
        let mut described = said.map_err(|sentence| Fault::flag("--ram", &sentence))?;
        if let Some(name) = &machine.machine {
            let other = Saved::find(name).map_err(|sentence| Fault::flag("--machine", &sentence))?;
            described = described.over(other.into());
        }
        if let Some(folder) = machine.sysfs.as_ref().filter(|folder| !folder.is_dir()) {
            let sentence = format!("'{}' is no folder: name one that holds class/drm", folder.display());
            return Err(Fault::flag("--sysfs", &sentence));
        }
        let search = Search {
            gpus: described.gpus.is_none(),
            nvml: machine.nvml.clone(),
            sysfs: machine.sysfs.clone(),
            ..Search::here()
        };
        Ok(Self { described, search })
    }

    /// The machine, with what is known of the part of it that is here.
    pub(super) fn look(self) -> Detected {
        let mut detected = hardware::detect(&self.search);
        if self.described.ram.is_some() {
            detected.facts.retain(|fact| fact.device != "CPU");
            detected.tried.retain(|tried| !["ram", "cgroup"].contains(&tried.collector));
        }
        let tried = self.described.notes.iter().map(|note| Tried { collector: "assumed", outcome: note.clone() });
        detected.tried.extend(tried);
        detected.machine = self.described.complete(detected.machine);
        detected
    }
}

/// A model, and what comes with it.
#[derive(Debug)]
pub(super) struct Opened {
    pub model: Model,
    /// Bytes of the adapters' tensors that belong to it.
    pub adapters: Bytes,
    /// Bytes of the tensors of the projector that belongs to it.
    pub projector: Bytes,
    /// What its tag sets by itself.
    pub knobs: TagKnobs,
}

impl Opened {
    /// The same model in another quantisation, where one is asked for.
    pub(super) fn quantised(mut self, to: Option<FileType>) -> Result<Self, Fault> {
        let Some(to) = to else { return Ok(self) };
        let was = self.model.is_quantised();
        self.model = self.model.quantised(to).map_err(|error| Fault::flag("--quant", &error.to_string()))?;
        if was {
            let note = format!("the file is quantised already: this is what its original would be as {to}");
            self.model.header.notes.push(note);
        }
        Ok(self)
    }
}

impl Start {
    pub(super) fn read(knobs: &Knobs, machine: &MachineArgs) -> Result<Self, Fault> {
        let variables = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        let (mut settings, mut notes) = knobs::settings(knobs, &variables);
        if let Some(projector) = knobs.others.mmproj.as_ref().filter(|_| knobs.engine.counts_projectors()) {
            settings.projector = source::open(projector, &mut source::unwatched)?.tensor_bytes();
        }
        let Asked { described, search } = Asked::read(machine)?;
        notes.extend(described.notes.iter().cloned());
        let named = Named { ctx: knobs.ctx.is_some(), gpu_layers: knobs.gpu_layers.is_some() };
        Ok(Self { engine: knobs.engine, settings, described, search, notes, named })
    }

    /// Itself with what `opened` brings: its projector, and the knobs that its tag sets, where no argument
    /// names them. As in Ollama, a tag goes before the environment.
    pub(super) fn with(mut self, opened: &Opened) -> Self {
        if self.settings.projector == Bytes::ZERO {
            self.settings.projector = opened.projector;
        }
        if let Some(tokens) = opened.knobs.num_ctx.filter(|_| !self.named.ctx && !self.settings.raw) {
            self.settings.ctx = Context::Tokens(tokens.min(LARGEST));
            self.notes.push(format!("the context starts at {tokens} tokens, which the model's tag sets (num_ctx)"));
        }
        if let Some(layers) = opened.knobs.num_gpu.filter(|_| !self.named.gpu_layers && !self.settings.raw) {
            self.settings.gpu_layers =
                u64::try_from(layers).map_or(GpuLayers::Auto, |n| GpuLayers::Count(n.min(LARGEST)));
            self.notes.push(format!("GPU layers start at {layers}, which the model's tag sets (num_gpu)"));
        }
        self
    }

    /// What the planner opens on. Main memory is known at once; GPUs may take their driver seconds, and are followed
    /// where none are described.
    /// `greet`: no model was named, so perhaps this is the first time.
    pub(super) fn planner(self, opened: Opened, greet: bool, refresh: Interval) -> tui::Start {
        let Self { engine, mut settings, described, search, .. } = self;
        settings.adapters = opened.adapters;
        let at_once = hardware::detect(&Search { gpus: false, ..search.clone() });
        let machine = described.complete(at_once.machine);
        let lookout = search.gpus.then_some(Lookout { search, every: refresh.0, described });
        let look = Look::from_env(|name| std::env::var(name).ok());
        tui::Start { engine, settings, model: Some(Arc::new(opened.model)), open: None, machine, lookout, look, greet }
    }

    /// Everything an engine needs: what was not described of the machine is detected now.
    pub(super) fn complete(mut self, adapters: Bytes) -> Ready {
        let detected = hardware::detect(&self.search);
        if self.search.gpus && detected.machine.gpus.is_empty() {
            let of_gpus = |tried: &&Tried| !["ram", "cgroup"].contains(&tried.collector);
            let why: Vec<&str> = detected.tried.iter().filter(of_gpus).map(|tried| tried.outcome.as_str()).collect();
            self.notes.push(format!("no GPU was found: {}", why.join("; ")));
        }
        let machine = self.described.complete(detected.machine);
        self.settings.adapters = adapters;
        Ready { engine: self.engine, settings: self.settings, machine, notes: self.notes }
    }
}

/// What an engine needs beside a model.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) engine: EngineId,
    settings: Settings,
    pub(super) machine: Machine,
    pub(super) notes: Vec<String>,
}

impl Ready {
    /// What a list says of `model`, which so many bytes of adapters belong to.
    pub(super) fn glance(&self, model: &Model, adapters: Bytes) -> Result<Glance, EngineError> {
        let settings = Settings { adapters, ..self.settings.clone() };
        Case { engine: self.engine, model, machine: &self.machine, settings: &settings }.glance()
    }

    /// The plan, with the notes of the door added to the engine's.
    pub(super) fn plan(&self, model: &Model) -> Result<Plan, Fault> {
        let mut plan = engine::plan(self.engine, model, &self.machine, &self.settings)?;
        plan.notes.extend(self.notes.iter().cloned());
        Ok(plan)
    }

    /// How far the knobs of `plan` can go.
    pub(super) fn limits(&self, model: &Model, plan: &Plan) -> Limits {
        self.case(model).limits(plan)
    }

    /// What questions are asked about.
    pub(super) const fn case<'a>(&'a self, model: &'a Model) -> Case<'a> {
        Case { engine: self.engine, model, machine: &self.machine, settings: &self.settings }
    }
}

/// The model that is built in.
pub(super) fn default_model() -> Result<Opened, Fault> {
    let header = source::default_header().map_err(|error| Fault::Model(error.to_string()))?;
    let model = Model::from_header(header, "built-in model")?;
    Ok(Opened { model, adapters: Bytes::ZERO, projector: Bytes::ZERO, knobs: TagKnobs::default() })
}

/// Opens the model that a person named.
pub(super) fn model(named: &Path) -> Result<Opened, Fault> {
    let mut shown = Shown::on_stderr();
    let mut watch = |progress: Progress| shown.tell(progress);
    let opened = match named.to_str() {
        Some(reference) => source::load(reference, &Roots::of_this_machine(), &mut watch)?,
        None => source::open(named, &mut watch)?,
    };
    let adapters = opened.adapter_bytes(&mut watch)?;
    let projector = opened.projector_bytes(&mut watch)?;
    let model = Model::from_header(opened.header, &opened.name).map_err(|error| {
        let Fault::Model(sentence) = error.into() else { return Fault::Model("the model cannot be planned".into()) };
        Fault::Model(format!("'{}': {sentence}", named.display()))
    })?;
    Ok(Opened { model, adapters, projector, knobs: opened.knobs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::watch;
    use crate::machine::Origin;

    fn start(gpu: &[&str], ram: Option<&str>) -> Start {
        let gpu = gpu.iter().map(|text| (*text).to_owned()).collect();
        let machine = MachineArgs {
            gpu,
            ram: ram.map(str::to_owned),
            nvml: Some("/nowhere/nvml.so".into()),
            ..MachineArgs::default()
        };
        let knobs = Knobs { engine: EngineId::Ollama024, raw_settings: true, ..Knobs::default() };
        Start::read(&knobs, &machine).unwrap()
    }

    #[test]
    fn the_planner_looks_for_gpus_only_where_none_are_described() {
        let every = Interval(Some(watch::EVERY));
        let described = start(&["24GiB", "RTX 3060"], Some("64GiB")).planner(default_model().unwrap(), false, every);
        assert_eq!((described.machine.gpus.len(), described.lookout.is_none()), (2, true));
        assert_eq!((described.machine.ram.total, described.machine.origin), (Bytes::gib(64), Origin::Described));

        let open = start(&[], Some("64GiB")).planner(default_model().unwrap(), false, every);
        assert!(open.machine.gpus.is_empty());
        assert_eq!(open.lookout.and_then(|lookout| lookout.every), Some(watch::EVERY));
    }

    #[test]
    fn what_a_preset_assumes_is_said_with_the_plan() {
        let opened = default_model().unwrap();
        let plan = start(&["RTX 4090"], Some("64GiB")).complete(opened.adapters).plan(&opened.model).unwrap();
        assert!(plan.notes.iter().any(|note| note.contains("assumed")), "{:?}", plan.notes);
    }

    #[test]
    fn adapters_reach_the_engine() {
        let opened = default_model().unwrap();
        let plan = start(&["24GiB"], Some("64GiB")).complete(Bytes::mib(300)).plan(&opened.model).unwrap();
        assert!(plan.devices[0].reserves.iter().any(|reserve| reserve.bytes == Bytes::mib(300)));
    }
}
