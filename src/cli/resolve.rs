//! From arguments to a plan request: settings, machine and model.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::args::{KnobArgs, MachineArgs};
use super::config::Config;
use super::error::CliError;
use super::knobs;
use super::status_line::ProgressLine;
use super::value::Interval;
use crate::answer::KnobLimits;
use crate::answer::best::Minimums;
use crate::engine::{DraftFile, EngineId, PlanRequest, PreparedModel, ServerStarts};
use crate::export::ModelSource;
use crate::hardware::remembered::{SavedMachines, THIS_MACHINE};
use crate::hardware::{CollectorResult, DetectOptions, Detected, watch};
use crate::library::{SurveyRequest, check};
use crate::machine::spec::{MachineSpec, RamLimit};
use crate::machine::{Cpu, Drivers, Machine, visible};
use crate::model::Model;
use crate::model::mixture::Quantisation;
use crate::plan::Plan;
use crate::settings::knob::Knob;
use crate::settings::{Context, Flag, Settings, Source};
use crate::source::{OpenedModel, Package, Progress, Roots};
use crate::tui::device_monitor::DeviceMonitor;
use crate::tui::theme::Appearance;
use crate::{engine, hardware, source, tui};

/// The parsed arguments; nothing is detected or opened yet.
#[derive(Debug)]
pub(super) struct ParsedArgs {
    pub engine: EngineId,
    pub settings: Settings,
    pub described: MachineSpec,
    pub search: DetectOptions,
    pub notes: Vec<String>,
    pub config: Config,
}

/// The machine from the arguments; nothing is detected yet.
#[derive(Debug)]
pub(super) struct MachineSource {
    pub described: MachineSpec,
    pub search: DetectOptions,
}

impl MachineSource {
    /// This machine, unless the arguments describe another one.
    pub(super) fn read(machine: &MachineArgs) -> Result<Self, CliError> {
        Self::of(machine, machine.machine.as_deref().filter(|name| *name != THIS_MACHINE), "--machine")
    }

    /// The machine `named` by `who` with what the arguments describe.
    fn of(machine: &MachineArgs, named: Option<&str>, who: &str) -> Result<Self, CliError> {
        MachineSpec::read(&machine.gpu, None).map_err(|sentence| CliError::flag("--gpu", &sentence))?;
        let spec = MachineSpec::read(&machine.gpu, machine.ram.as_deref());
        let mut described = spec.map_err(|sentence| CliError::flag("--ram", &sentence))?;
        if let Some(name) = named {
            let other = SavedMachines::find(name).map_err(|sentence| CliError::flag(who, &sentence))?;
            described = described.over(other.into());
        }
        (described.os, described.disk) = (machine.os.or(described.os), machine.disk.or(described.disk));
        described.link = machine.link.or(described.link);
        described.cpu = machine.cpu.map(Cpu::with).or(described.cpu);
        described.drivers = Drivers { nvidia: machine.driver, jetpack: machine.jetpack }.or(described.drivers);
        for name in &machine.join {
            let joined = SavedMachines::find(name).and_then(|other| described.join(computer(name), &other));
            joined.map_err(|sentence| CliError::flag("--join", &sentence))?;
        }
        if let Some(folder) = machine.sysfs.as_ref().filter(|folder| !folder.is_dir()) {
            let sentence = format!("'{}' is not a folder: use one that contains class/drm", folder.display());
            return Err(CliError::flag("--sysfs", &sentence));
        }
        let mut search = DetectOptions {
            gpus: described.gpus.is_none(),
            nvml: machine.nvml.clone(),
            sysfs: machine.sysfs.clone(),
            ..DetectOptions::here()
        };
        let hidden = described.see_by(&machine.variables);
        described.notes.extend(hidden);
        let ignored = machine.variables.iter().filter_map(|(name, value)| ignored(&mut search, name, value));
        described.notes.extend(ignored.collect::<Vec<_>>());
        described.notes.extend(machine.ram_limit.as_ref().map(RamLimit::note));
        described.ram_limit.clone_from(&machine.ram_limit);
        Ok(Self { described, search })
    }

    /// Detects the parts of the machine that are not described.
    pub(super) fn detect(self) -> Detected {
        let mut detected = hardware::detect(&self.search);
        if self.described.ram.is_some() {
            detected.facts.retain(|fact| fact.device != "CPU");
            detected.tried.retain(|tried| !["ram", "cgroup"].contains(&tried.collector));
        }
        let tried =
            self.described.notes.iter().map(|note| CollectorResult { collector: "assumed", outcome: note.clone() });
        detected.tried.extend(tried);
        detected.machine = self.described.complete(detected.machine);
        detected
    }
}

/// Searches as a program does that has this variable; a sentence where it cannot.
fn ignored(search: &mut DetectOptions, name: &str, value: &str) -> Option<String> {
    let is_described = !search.gpus;
    let is_hidden = is_described && visible::hides_gpus(name);
    let seen = match name {
        "CUDA_VISIBLE_DEVICES" => Some(&mut search.cuda_visible_devices),
        visible::CONTAINER if value == visible::EVERY_CARD => return None,
        // of those, CUDA's own variable chooses
        visible::CONTAINER if search.cuda_visible_devices.is_none() => Some(&mut search.cuda_visible_devices),
        "CUDA_DEVICE_ORDER" => Some(&mut search.cuda_device_order),
        "ROCR_VISIBLE_DEVICES" => Some(&mut search.rocr_visible_devices),
        "HIP_VISIBLE_DEVICES" => Some(&mut search.hip_visible_devices),
        _ => None,
    };
    match seen {
        Some(seen) if !is_described => *seen = Some(value.to_owned()),
        // described GPUs are in the order that was stated
        Some(_) if name == "CUDA_DEVICE_ORDER" => {
            return Some(format!("{name}={value} is ignored: the GPUs are counted as described"));
        }
        None if (name.starts_with("GGML_") || name == "ONEAPI_DEVICE_SELECTOR") && !is_hidden => {
            return Some(format!("{name}={value} is ignored"));
        }
        // of no concern, or what it hides of described GPUs is hidden
        _ => {}
    }
    None
}

/// The name of a computer given as a machine file or as a saved machine.
fn computer(named: &str) -> &str {
    let path = Path::new(named);
    let is_file = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_file).unwrap_or(named)
}

/// `package` with the keys that were asked for.
pub(super) fn with_keys(package: Package, settings: &Settings) -> Result<Package, CliError> {
    if settings.override_kv.is_empty() {
        return Ok(package);
    }
    package.with_keys(&settings.override_kv).map_err(|error| CliError::flag("--override-kv", &error.to_string()))
}

/// `package` as the engine that was asked for reads it.
pub(super) fn for_engine(package: Package, knobs: &KnobArgs) -> Result<Package, CliError> {
    let configured = || if knobs.is_complete { Ok(None) } else { Config::here().map(|config| config.engine) };
    let engine = match knobs.engine {
        Some(engine) => engine,
        None => configured()?.unwrap_or_default(),
    };
    let facts = engine.facts();
    match &package.model.mlx {
        // a mode that is asked for is that of the model as it was opened
        None if !facts.runs_gguf && knobs.settings.quant.is_none() => {
            package.for_mlx().map_err(|error| CliError::Model(error.to_string()))
        }
        Some(_) if !facts.runs_safetensors => package.converted().map_err(|error| CliError::Model(error.to_string())),
        _ => Ok(package),
    }
}

/// The same in the quantisation that was asked for.
pub(super) fn changed(package: Package, settings: &Settings) -> Result<Package, CliError> {
    let package = with_keys(package, settings)?;
    let Some(to) = settings.quant else { return Ok(package) };
    package.quantised(to).map_err(|error| CliError::flag("--quant", &error.to_string()))
}

impl ParsedArgs {
    /// With what the configuration file sets.
    pub(super) fn read(knobs: &KnobArgs, machine: &MachineArgs) -> Result<Self, CliError> {
        Self::by(knobs, machine, Config::here()?)
    }

    /// With what `config` sets.
    pub(super) fn by(knobs: &KnobArgs, machine: &MachineArgs, config: Config) -> Result<Self, CliError> {
        let config = if knobs.is_complete { config.without_plans() } else { config };
        let engine = knobs.engine.or(config.engine).unwrap_or_default();
        if let Some(version) = knobs.ollama.ollama {
            engine.takes(version).map_err(|sentence| CliError::flag("--ollama", &sentence))?;
        }
        let other = config.other_machine().filter(|_| machine.machine.is_none());
        let MachineSource { described, search } = match other {
            Some(other) => MachineSource::of(machine, Some(other), &config.machine_key())?,
            None => MachineSource::read(machine)?,
        };
        let machine_note = other.and_then(|_| config.machine_note());
        let variables = knobs::variables(knobs, described.gpus.is_some());
        let (mut settings, mut notes) = knobs::settings(knobs, engine, &variables, &config, machine_note)?;
        if let Some(projector) = knobs.mmproj.as_ref().filter(|_| engine.facts().counts_projectors) {
            settings.projector = Some(source::projector(projector, &mut source::no_progress)?);
        }
        for lora in &mut settings.loras {
            let Some(file) = lora.unread().map(Path::new) else { continue };
            let header = source::open(file, &mut source::no_progress)?.header;
            lora.read(&header).map_err(|sentence| CliError::flag("--lora", &sentence))?;
        }
        notes.extend(described.notes.iter().cloned());
        Ok(Self { engine, settings, described, search, notes, config })
    }

    /// Plans every model at this context, whatever its tag says.
    pub(super) fn judge_by(&mut self, need: Option<Context>) {
        if let Some(ctx) = need {
            self.settings.ctx = ctx;
            self.settings.remember(Flag::Context, Source::CommandLine);
        }
    }

    /// Adds the model's adapters and projector, and its tag parameters for knobs not given as options. As in Ollama,
    /// tag parameters override the environment.
    pub(super) fn with(mut self, package: &Package) -> Self {
        self.notes.extend(package.apply_to(&mut self.settings));
        self
    }

    /// The planner's start. RAM is detected now; GPUs, which may take seconds, are detected by the device monitor
    /// unless they are described. `named` is the model as the user named it; without it the welcome hint is shown.
    pub(super) fn planner(
        self,
        mut package: Package,
        named: Option<&Path>,
        refresh: Option<Interval>,
    ) -> tui::PlannerStart {
        let Self { engine, mut settings, described, search, config, .. } = self;
        if Flag::OF_PROJECTOR.into_iter().any(|flag| settings.is_given(flag)) {
            // it belongs to this model only
            package.projector.clone_from(&settings.projector);
            settings.forget(&Flag::OF_PROJECTOR);
        }
        let refresh = refresh.or(config.refresh).unwrap_or(Interval(Some(watch::DEFAULT_INTERVAL)));
        let without_gpus = hardware::detect(&DetectOptions { gpus: false, ..search.clone() });
        let machine = described.complete(without_gpus.machine);
        let monitor = search.gpus.then_some(DeviceMonitor { search, every: refresh.0, described });
        let (get, mut preferred) = (|name: &str| std::env::var(name).ok(), config.look);
        if Appearance::guesses_tone(get, preferred) {
            preferred.tone = tui::background();
        }
        let look = Appearance::from_env(get, preferred);
        let preferences = config.preferences;
        let reference = named.map(|named| named.to_string_lossy().into_owned());
        tui::PlannerStart {
            engine,
            settings,
            package,
            reference,
            found: None,
            machine,
            monitor,
            look,
            preferences,
            pins: Vec::new(),
            pinned: Vec::new(),
            teach: None,
        }
    }

    /// Detects the parts of the machine that are not described.
    pub(super) fn complete(self) -> ResolvedArgs {
        let detected = hardware::detect(&self.search);
        self.complete_on(detected)
    }

    /// The machine, detected and described.
    pub(super) fn detect(&self) -> Detected {
        MachineSource { described: self.described.clone(), search: self.search.clone() }.detect()
    }

    /// With what was detected for the parts of the machine that are not described.
    pub(super) fn complete_on(mut self, detected: Detected) -> ResolvedArgs {
        if self.search.gpus && detected.machine.gpus.is_empty() {
            let of_gpus = |tried: &&CollectorResult| !["ram", "cgroup"].contains(&tried.collector);
            let why: Vec<&str> = detected.tried.iter().filter(of_gpus).map(|tried| tried.outcome.as_str()).collect();
            // leave out a reason that begins another: some collectors look in the same place
            let repeated =
                |at: usize| why.iter().enumerate().any(|(other, more)| other > at && more.starts_with(why[at]));
            let why: Vec<&str> = (0..why.len()).filter(|&at| !repeated(at)).map(|at| why[at]).collect();
            self.notes.push(format!("no GPU was found: {}", why.join("; ")));
        }
        let machine = self.described.complete(detected.machine);
        ResolvedArgs {
            engine: self.engine,
            settings: self.settings,
            machine: Arc::new(machine),
            notes: self.notes,
            config: self.config,
        }
    }
}

/// What an engine needs besides a model.
#[derive(Debug)]
pub(super) struct ResolvedArgs {
    pub(super) engine: EngineId,
    pub(super) settings: Settings,
    pub(super) machine: Arc<Machine>,
    pub(super) notes: Vec<String>,
    pub(super) config: Config,
}

impl ResolvedArgs {
    /// The request of a survey over many models.
    pub(super) fn survey_request(&self, quant: Option<Quantisation>, minimums: Minimums) -> SurveyRequest {
        let (machine, settings) = (Arc::clone(&self.machine), self.settings.clone());
        SurveyRequest { engine: self.engine, machine, settings, quant, minimums }
    }

    /// The settings of one model of several, with its own `knobs`; and the notes on its tag parameters.
    pub(super) fn settings_for(
        &self,
        package: &Package,
        knobs: &[(Knob, &str)],
    ) -> Result<(Settings, Vec<String>), CliError> {
        let mut settings = self.settings.clone();
        let bounds = self.request(&package.model).bounds();
        for (knob, text) in knobs {
            let read = knob.read(text, &mut settings, &bounds);
            read.map_err(|sentence| CliError::flag(knob.name(), &sentence))?;
            if let Some(flag) = Flag::named(knob.name()) {
                settings.remember(flag, Source::CommandLine);
            }
        }
        let notes = package.apply_to(&mut settings);
        Ok((settings, notes))
    }

    /// The plan, with the notes on arguments added to the engine's.
    pub(super) fn plan(&self, model: &PreparedModel) -> Result<Plan, CliError> {
        let since = Instant::now();
        let mut plan = engine::plan(self.engine, model, &self.machine, &self.settings)
            .inspect_err(|error| tracing::warn!("no plan: {error}"))?;
        tracing::info!("planned in {:.1?}: {}", since.elapsed(), plan.line());
        plan.notes.extend(self.notes.iter().cloned());
        Ok(plan)
    }

    /// The starts of llama-server for the plan.
    pub(super) fn starts(&self, model: &Arc<PreparedModel>) -> Result<Option<ServerStarts>, CliError> {
        Ok(self.request(model).starts()?)
    }

    /// The limits of the knobs of `plan`.
    pub(super) fn limits(&self, model: &Arc<PreparedModel>, plan: &Plan) -> KnobLimits {
        self.request(model).limits(plan)
    }

    /// The request for `model`.
    pub(super) fn request(&self, model: &Arc<PreparedModel>) -> PlanRequest {
        PlanRequest::new(self.engine, Arc::clone(model), Arc::clone(&self.machine), self.settings.clone())
    }
}

/// The model that the user named, in the quantisation and with the draft that were asked for.
pub(super) fn package(named: &Path, knobs: &KnobArgs) -> Result<Package, CliError> {
    with_draft(changed(for_engine(model(named)?, knobs)?, &knobs.settings)?, knobs)
}

/// The same; a file that is not here is planned as the model of its name that is.
pub(super) fn package_or_namesake(named: &Path, knobs: &KnobArgs) -> Result<Package, CliError> {
    let package = changed(for_engine(model_or_namesake(named)?, knobs)?, &knobs.settings)?;
    let Some(named) = &knobs::draft(knobs)? else { return Ok(package) };
    let file = named.display().to_string();
    Ok(package.with_draft(DraftFile { model: model_or_namesake(named)?.model, file }))
}

fn model_or_namesake(named: &Path) -> Result<Package, CliError> {
    model(named).or_else(|error| {
        let namesake = named.to_str().and_then(|named| check::namesake(named, &Roots::of_this_machine()));
        namesake.ok_or(error)
    })
}

/// `package` with the draft that was asked for, if any.
pub(super) fn with_draft(package: Package, knobs: &KnobArgs) -> Result<Package, CliError> {
    let Some(named) = &knobs::draft(knobs)? else { return Ok(package) };
    let file = named.display().to_string();
    Ok(package.with_draft(DraftFile { model: model(named)?.model, file }))
}

/// The built-in model.
pub(super) fn default_model() -> Result<Package, CliError> {
    let header = source::default_header().map_err(|error| CliError::Model(error.to_string()))?;
    Ok(Model::from_header(header, "built-in model")?.into())
}

/// Opens the model that the user named.
pub(super) fn model(named: &Path) -> Result<Package, CliError> {
    Ok(open(named)?.package(&mut source::no_progress)?)
}

/// Where a model was read that the user `named`.
pub(super) fn source(opened: &Package, named: &Path) -> ModelSource {
    let reference = opened.reference.clone().unwrap_or_else(|| source::roots::reference(&named.to_string_lossy()));
    ModelSource {
        source: Some(opened.read_from.name()),
        reference: Some(source::without_secrets(&reference)),
        exact_after: opened.exact_after(),
    }
}

/// Reads the header of the model that the user named.
pub(super) fn open(named: &Path) -> Result<OpenedModel, CliError> {
    let mut line = ProgressLine::on_stderr();
    let mut watch = |progress: Progress| line.show(progress);
    Ok(match named.to_str() {
        Some(reference) => source::load(reference, &Roots::of_this_machine(), &mut watch)?,
        None => source::open(named, &mut watch)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Origin;
    use crate::units::Bytes;

    fn start(gpu: &[&str], ram: Option<&str>) -> ParsedArgs {
        let gpu = gpu.iter().map(|text| (*text).to_owned()).collect();
        let machine = MachineArgs {
            gpu,
            ram: ram.map(str::to_owned),
            nvml: Some("/nowhere/nvml.so".into()),
            ..MachineArgs::default()
        };
        let mut knobs = KnobArgs { engine: Some(EngineId::Ollama024), ..KnobArgs::default() };
        knobs.give(Flag::RawSettings, "true", Source::CommandLine).unwrap();
        ParsedArgs::by(&knobs, &machine, Config::default()).unwrap()
    }

    #[test]
    fn the_planner_detects_gpus_only_if_none_are_described() {
        let every = Some(Interval(Some(watch::DEFAULT_INTERVAL)));
        let described = start(&["24GiB", "RTX 3060"], Some("64GiB")).planner(default_model().unwrap(), None, every);
        assert_eq!((described.machine.gpus.len(), described.monitor.is_none()), (2, true));
        assert_eq!((described.machine.ram.total, described.machine.origin), (Bytes::gib(64), Origin::Described));

        let open = start(&[], Some("64GiB")).planner(default_model().unwrap(), None, every);
        assert!(open.machine.gpus.is_empty());
        assert_eq!(open.monitor.and_then(|monitor| monitor.every), Some(watch::DEFAULT_INTERVAL));
    }

    #[test]
    fn assumptions_of_presets_are_noted_in_the_plan() {
        let opened = default_model().unwrap();
        let plan = start(&["RTX 4090"], Some("64GiB")).complete().plan(&opened.model).unwrap();
        assert!(plan.notes.iter().any(|note| note.contains("assumed")), "{:?}", plan.notes);
    }

    #[test]
    fn adapters_reach_the_engine() {
        let package = Package { adapters: Bytes::mib(300), ..default_model().unwrap() };
        let plan = start(&["24GiB"], Some("64GiB")).with(&package).complete().plan(&package.model).unwrap();
        assert!(plan.devices[0].reserves.iter().any(|reserve| reserve.bytes == Bytes::mib(300)));
    }
}
