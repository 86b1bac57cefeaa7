//! Scenario files: a plan as it is asked for, which [`crate::export::Scenario`] writes. What the command line says stands
//! above the file; the environment and config.toml say nothing of a plan that a file describes.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::args::{Asked, KnobArgs, MachineArgs};
use super::error::{CliError, one_line};
use super::resolve::{self, ParsedArgs};
use super::value;
use crate::engine::PlanRequest;
use crate::export::Scenario;
use crate::files;
use crate::machine::drivers;
use crate::machine::spec::MachineSpec;
use crate::settings::flag::Takes;
use crate::settings::written::is_on;
use crate::settings::{OllamaVersion, ServerOption, Source};
use crate::source::roots;

/// A plan that the file has pinned beside its own.
#[derive(Debug, Default)]
pub(super) struct PinnedArgs {
    pub(super) model: Option<PathBuf>,
    pub(super) knobs: KnobArgs,
    pub(super) machine: MachineArgs,
}

impl PinnedArgs {
    /// What it asks, and the reference of its model.
    pub(super) fn request(&mut self) -> Result<(PlanRequest, Option<String>), CliError> {
        let parsed = ParsedArgs::read(&self.knobs, &self.machine)?;
        let opened = match &self.model {
            Some(named) => resolve::model(named)?,
            None => resolve::default_model()?,
        };
        let reference =
            opened.reference.clone().or(self.model.as_ref().map(|named| roots::reference(&named.to_string_lossy())));
        let opened = resolve::for_engine(opened, &self.knobs)?;
        let opened = resolve::with_draft(resolve::with_keys(opened, &self.knobs.settings)?, &self.knobs)?;
        let ready = parsed.with(&opened).complete();
        let request = ready.request(&opened.model);
        let quantised = match self.knobs.settings.quant {
            Some(quant) => request.quantised(quant),
            None => None,
        };
        Ok((quantised.unwrap_or(request), reference))
    }
}

/// The plan that the planner had when it was left last.
///
/// # Errors
/// One sentence if there is none.
pub(super) fn last() -> Result<PathBuf, String> {
    let path = last_file()?;
    if path.is_file() {
        Ok(path)
    } else {
        Err("--last: no plan is kept yet: the planner keeps one that it has changed".to_owned())
    }
}

/// Keeps the plan for `--last`, without what may be secret in the address of its model.
///
/// # Errors
/// One sentence if it cannot be written, or what is there is no text that this program wrote.
pub(super) fn keep_last(scenario: &Scenario) -> Result<(), String> {
    files::change(&last_file()?, files::TEXT, |_| Ok(scenario.without_secrets().toml()))
}

/// The file of [`last`].
pub(super) fn last_file() -> Result<PathBuf, String> {
    let dirs = directories::ProjectDirs::from("", "", "plimsoll")
        .ok_or("there is no home folder to keep a plan in: set HOME")?;
    let folder = dirs.state_dir().unwrap_or_else(|| dirs.data_local_dir());
    Ok(folder.join("last.toml"))
}

/// Whether this is the name of a scenario.
pub(super) fn is_one(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

/// Takes in the scenario that is named as the model, if it is one. Returns the plans that it has pinned.
///
/// # Errors
/// One sentence with path, line and key.
pub(super) fn take(asked: Asked<'_>) -> Result<Vec<PinnedArgs>, CliError> {
    let Asked { mut model, knobs, machine } = asked;
    let Some(path) = model.get().filter(|path| is_one(path)).map(Path::to_owned) else { return Ok(Vec::new()) };
    let text = files::text(&path, files::TEXT).map_err(CliError::Model)?;
    let text =
        text.ok_or_else(|| CliError::Model(format!("'{}' does not exist: name a scenario file", path.display())))?;
    let mut read = Reader { folder: path.parent().unwrap_or(Path::new("")), text: &text, model: None, knobs, machine };
    let pins = read.whole().map_err(|wrong| CliError::Arguments(wrong.in_file(&path)))?;
    let named = read.model.take();
    model.set(named).map_err(|sentence| CliError::Arguments(format!("'{}': {sentence}", path.display())))?;
    Ok(pins)
}

/// Reads `text` as a scenario; returns what is wrong in it.
///
/// # Errors
/// One sentence.
#[cfg(any(fuzzing, test))]
pub fn check(text: &str) -> Result<(), String> {
    let (mut knobs, mut machine) = (KnobArgs::default(), MachineArgs::default());
    let mut read = Reader { folder: Path::new(""), text, model: None, knobs: &mut knobs, machine: &mut machine };
    let read = read.whole().map(drop).map_err(|wrong| wrong.in_file(Path::new("a.toml")));
    let spec = MachineSpec::read(&machine.gpu, machine.ram.as_deref());
    read.and_then(|()| spec.map(drop).map_err(|why| one_line(&why)))
}

/// What is wrong in the file.
struct Wrong {
    line: usize,
    key: String,
    sentence: String,
}

impl Wrong {
    fn in_file(self, path: &Path) -> String {
        let key = if self.key.is_empty() { String::new() } else { format!(", {}", self.key) };
        one_line(&format!("'{}', line {}{key}: {}", path.display(), self.line, self.sentence))
    }
}

/// A key with its value and its line.
struct Entry<'t> {
    line: usize,
    key: String,
    value: DeValue<'t>,
}

struct Reader<'a> {
    folder: &'a Path,
    text: &'a str,
    model: Option<PathBuf>,
    knobs: &'a mut KnobArgs,
    machine: &'a mut MachineArgs,
}

/// The keys outside tables.
const KEYS: [&str; 6] = ["model", "engine", "note", "machine", "knobs", "pins"];

/// The keys of the machine.
const MACHINE_KEYS: [&str; 10] = ["gpu", "ram", "link", "disk", "machine", "join", "os", "cpu", "driver", "jetpack"];

impl Reader<'_> {
    fn line_of(&self, at: usize) -> usize {
        self.text.get(..at).map_or(1, |before| before.matches('\n').count() + 1)
    }

    /// The entries of a table, in the order of their lines.
    fn entries<'t>(&self, table: DeTable<'t>) -> Vec<Entry<'t>> {
        let entry = |(key, value): (toml::Spanned<std::borrow::Cow<'t, str>>, toml::Spanned<DeValue<'t>>)| Entry {
            line: self.line_of(key.span().start),
            key: key.into_inner().into_owned(),
            value: value.into_inner(),
        };
        let mut entries: Vec<Entry<'t>> = table.into_iter().map(entry).collect();
        entries.sort_by_key(|entry| entry.line);
        entries
    }

    fn whole(&mut self) -> Result<Vec<PinnedArgs>, Wrong> {
        let text = self.text;
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| self.line_of(span.start));
            let sentence = format!("{}: write KEY = \"VALUE\", one in each line", error.message());
            Wrong { line, key: String::new(), sentence }
        })?;
        self.knobs.is_complete = true;
        let mut pins = Vec::new();
        // what the command line says of the machine as a whole
        let other_machine = self.machine.machine.is_some();
        for entry in self.entries(table.into_inner()) {
            if entry.key == "pins" {
                let DeValue::Array(tables) = entry.value else {
                    return Err(wrong_kind(&entry, "write each as a table [[pins]]"));
                };
                for pin in tables {
                    let line = self.line_of(pin.span().start);
                    let DeValue::Table(pin) = pin.into_inner() else {
                        let sentence = "write each as a table [[pins]]".to_owned();
                        return Err(Wrong { line, key: entry.key, sentence });
                    };
                    pins.push(self.pin(pin)?);
                }
            } else {
                self.entry(entry, other_machine)?;
            }
        }
        for pin in &mut pins {
            if pin.machine == MachineArgs::default() {
                pin.machine = self.machine.clone();
            }
        }
        Ok(pins)
    }

    fn pin(&self, table: DeTable<'_>) -> Result<PinnedArgs, Wrong> {
        let mut pin = PinnedArgs::default();
        pin.knobs.is_complete = true;
        let (folder, text) = (self.folder, self.text);
        let mut reader = Reader { folder, text, model: None, knobs: &mut pin.knobs, machine: &mut pin.machine };
        for entry in reader.entries(table) {
            reader.entry(entry, false)?;
        }
        pin.model = reader.model;
        Ok(pin)
    }

    /// Takes in a key outside tables, or a table.
    fn entry(&mut self, entry: Entry<'_>, other_machine: bool) -> Result<(), Wrong> {
        match (entry.key.as_str(), entry.value) {
            ("machine", DeValue::Table(table)) => {
                for inner in self.entries(table) {
                    let values = texts(&inner)?;
                    let taken = if other_machine { Ok(()) } else { self.machine_key(&inner.key, &values) };
                    taken.map_err(|sentence| Wrong {
                        line: inner.line,
                        key: format!("machine.{}", inner.key),
                        sentence,
                    })?;
                }
                Ok(())
            }
            ("knobs", DeValue::Table(table)) => {
                for inner in self.entries(table) {
                    let values = texts(&inner)?;
                    let taken = self.knob(&inner.key, &values);
                    taken.map_err(|sentence| Wrong {
                        line: inner.line,
                        key: format!("knobs.{}", inner.key),
                        sentence,
                    })?;
                }
                Ok(())
            }
            (_, value) => {
                let (line, key) = (entry.line, entry.key);
                let entry = Entry { line, key, value };
                let values = texts(&entry)?;
                let Entry { line, key, .. } = entry;
                self.top(&key, &values).map_err(|sentence| Wrong { line, key, sentence })
            }
        }
    }

    fn top(&mut self, key: &str, values: &[String]) -> Result<(), String> {
        let [value] = values else { return Err("one value is expected".to_owned()) };
        match key {
            "model" => self.model = Some(from(self.folder, value)),
            "engine" => {
                let engine = value.parse()?;
                self.knobs.engine.get_or_insert(engine);
            }
            "machine" => return self.machine_key(key, values),
            "note" => self.knobs.remarks.push(one_line(value)),
            "knobs" | "pins" => return Err(format!("write it as a table: [{key}]")),
            _ => return Err(unknown(key, &KEYS)),
        }
        Ok(())
    }

    fn machine_key(&mut self, key: &str, values: &[String]) -> Result<(), String> {
        let one = || match values {
            [one] => Ok(one.as_str()),
            _ => Err("one value is expected".to_owned()),
        };
        let folder = self.folder;
        let named = |name: &str| from(folder, name).display().to_string();
        let machine = &mut *self.machine;
        match key {
            "gpu" => {
                MachineSpec::read(values, None)?;
                if machine.gpu.is_empty() {
                    machine.gpu = values.to_vec();
                }
            }
            "ram" => {
                MachineSpec::read(&[], Some(one()?))?;
                keep(&mut machine.ram, one()?.to_owned());
            }
            "link" => keep(&mut machine.link, one()?.parse()?),
            "disk" => {
                let speed = one()?.parse().map_err(|wrong: crate::units::NotABandwidth| wrong.to_string())?;
                keep(&mut machine.disk, speed);
            }
            "machine" => keep(&mut machine.machine, named(one()?)),
            "join" if machine.join.is_empty() => machine.join = values.iter().map(|name| named(name)).collect(),
            "join" => {}
            "os" => keep(&mut machine.os, one()?.parse()?),
            "cpu" => keep(&mut machine.cpu, one()?.parse()?),
            "driver" => keep(&mut machine.driver, drivers::major(one()?)?),
            "jetpack" => keep(&mut machine.jetpack, drivers::major(one()?)?),
            _ => return Err(unknown(key, &MACHINE_KEYS)),
        }
        Ok(())
    }

    fn knob(&mut self, key: &str, values: &[String]) -> Result<(), String> {
        let text = values.join(",");
        if let Some(ServerOption::Sets(flag)) = ServerOption::named(&format!("--{key}")) {
            return match flag.row().takes {
                Takes::NotTyped => Err(unknown(key, &[])),
                Takes::Nothing if !is_on(&text) => Ok(()),
                Takes::File(_) => {
                    self.knobs.give(flag, &from(self.folder, &text).display().to_string(), Source::Command)
                }
                _ => self.knobs.give(flag, &text, Source::Command),
            };
        }
        let path = from(self.folder, &text);
        let ollama = &mut self.knobs.ollama;
        let pairs = |given: &mut Vec<(String, String)>| -> Result<(), String> {
            for pair in values {
                let (name, value) = value::pair(pair)?;
                if given.iter().all(|(other, _)| *other != name) {
                    given.push((name, value));
                }
            }
            Ok(())
        };
        let truth = || text.parse::<bool>().map_err(|_| format!("'{text}' is neither true nor false"));
        match key {
            "ollama" => keep(&mut ollama.ollama, OllamaVersion::any(&text)?),
            "server-env" => pairs(&mut ollama.server_env)?,
            "option" => pairs(&mut ollama.option)?,
            "modelfile" => keep(&mut ollama.modelfile, path),
            "endpoint" => keep(&mut ollama.endpoint, text.parse()?),
            "shift" => keep(&mut ollama.shift, truth()?),
            "go-template" => ollama.go_template |= truth()?,
            _ => return Err(unknown(key, &[])),
        }
        Ok(())
    }
}

/// A file is looked for from the folder of the scenario, wherever the program is started.
fn from(folder: &Path, named: &str) -> PathBuf {
    let here = folder.join(named);
    if here.is_file() { here } else { PathBuf::from(named) }
}

/// Sets what the command line does not.
fn keep<T>(place: &mut Option<T>, value: T) {
    place.get_or_insert(value);
}

/// `keys` are those that there are; without, the options of a plan.
fn unknown(key: &str, keys: &[&str]) -> String {
    if keys.is_empty() {
        let near = ServerOption::nearest(&format!("--{key}"));
        let near = near.map_or_else(String::new, |near| format!(": did you mean '{}'?", near.trim_start_matches('-')));
        return format!("no option of a plan has this name{near}");
    }
    format!("there is no such key: the keys are {}", keys.join(", "))
}

fn wrong_kind(entry: &Entry<'_>, sentence: &str) -> Wrong {
    Wrong { line: entry.line, key: entry.key.clone(), sentence: sentence.to_owned() }
}

/// A value, or the values of a list, as text.
fn texts(entry: &Entry<'_>) -> Result<Vec<String>, Wrong> {
    let one = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        _ => None,
    };
    let texts = match &entry.value {
        DeValue::Array(list) => list.iter().map(|value| one(value.get_ref())).collect::<Option<Vec<_>>>(),
        single => one(single).map(|text| vec![text]),
    };
    texts.ok_or_else(|| wrong_kind(entry, "this is neither text, a number, true or false, nor a list of these"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::command;
    use super::super::commands::Cli;
    use super::super::{config::Config, manual};
    use super::*;
    use crate::engine::EngineId;
    use crate::export::json;
    use crate::machine::Machine;
    use crate::settings::flag::tests::sample;
    use crate::settings::{Context, Flag, GpuLayers, Settings};
    use crate::source::{Roots, no_progress};
    use clap::Parser as _;
    use std::ffi::OsString;

    fn package(name: &str) -> crate::source::Package {
        let opened = crate::source::load(name, &Roots::default(), &mut no_progress).unwrap();
        opened.package(&mut no_progress).unwrap()
    }

    /// The request that arguments ask.
    fn asked(knobs: &KnobArgs, machine: &MachineArgs, model: &str) -> PlanRequest {
        let parsed = ParsedArgs::by(knobs, machine, Config::default()).unwrap();
        let package = super::super::resolve::changed(package(model), &knobs.settings).unwrap();
        let ready = parsed.with(&package).complete();
        ready.request(&package.model)
    }

    fn same(asked: &PlanRequest, again: &PlanRequest, how: &str) -> Result<(), TestCaseError> {
        let projector = |request: &PlanRequest| {
            let counted = request.settings.projector.clone().filter(|_| request.engine.facts().counts_projectors);
            counted.map(|projector| projector.file.clone())
        };
        prop_assert_eq!(projector(asked), projector(again));
        prop_assert_eq!(asked.engine, again.engine);
        prop_assert_eq!(&*asked.machine, &*again.machine, "{}", how);
        match (asked.plan(), again.plan()) {
            (Ok(one), Ok(other)) => {
                let [mut one, mut other] = [one, other];
                // who set what may differ: an option stands for what a variable or a tag had said
                one.notes.clear();
                other.notes.clear();
                one.settings.sources.clear();
                other.settings.sources.clear();
                prop_assert_eq!(json(&one).unwrap(), json(&other).unwrap(), "{}", how);
            }
            (one, other) => prop_assert_eq!(one.is_err(), other.is_err(), "{}", how),
        }
        Ok(())
    }

    const MODELS: [&str; 4] =
        ["catalogue:qwen3-8b", "catalogue:gemma3-4b", "catalogue:qwen3-30b-a3b@q4_K_M", "catalogue:gpt-oss-20b"];
    const MACHINES: [(&[&str], &str); 4] = [
        (&["RTX 4090"], "64GiB"),
        (&["RTX 3060", "name=odd,total=11GiB,free=9.7GiB,backend=vulkan"], "total=31.2GiB,free=17GiB,swap=3GiB"),
        (&["M4 Max 64GB"], "64GiB"),
        (&[], "24GiB"),
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn a_plan_is_reopened_as_it_was(
            model in 0..MODELS.len(),
            machine in 0..MACHINES.len(),
            engine in 0..EngineId::ALL.len(),
            flags in proptest::collection::vec(0..Flag::ALL.len(), 0..9),
            ctx in prop_oneof![Just(Context::Auto), Just(Context::Max), (256..200_000u64).prop_map(Context::Tokens)],
            layers in prop_oneof![Just(GpuLayers::Auto), Just(GpuLayers::All), (0..60u64).prop_map(GpuLayers::Count)],
            endings in any::<bool>(),
        ) {
            let opened = package(MODELS[model]);
            let (gpus, ram) = MACHINES[machine];
            let mut here = Machine::described(gpus, ram).unwrap();
            here.gpus.iter_mut().for_each(|gpu| gpu.driver_major = Some(13).filter(|_| endings));
            let mut settings = Settings { ctx, gpu_layers: layers, ..Settings::default() };
            // keys of another architecture's header
            let other = [Flag::OverrideKv, Flag::Lora, Flag::ControlVector];
            for flag in flags.into_iter().map(|at| Flag::ALL[at]).filter(|flag| !other.contains(flag)) {
                let Some(text) = sample(flag) else { continue };
                flag.read(&mut settings, text).unwrap();
            }
            // an engine that ignores projectors is given none
            if endings && EngineId::ALL[engine].facts().counts_projectors {
                settings.projector.clone_from(&opened.projector);
            }
            settings.ollama.num_thread = endings.then_some(7);
            let Ok(quantised) = super::super::resolve::changed(opened, &settings) else { return Ok(()) };
            let request = PlanRequest::new(EngineId::ALL[engine], quantised.model, here, settings);
            let mut scenario = Scenario::of(&request, Some(MODELS[model]));

            let words = ["plimsoll", "plan"].into_iter().map(OsString::from);
            let words = words.chain(scenario.arguments().into_iter().map(OsString::from));
            let expanded = command::expand(words, &manual::command());
            prop_assert!(expanded.remarks.is_empty(), "{:?}", expanded.remarks);
            let mut cli = Cli::try_parse_from(&expanded.arguments).map_err(|error| TestCaseError::fail(error.to_string()))?;
            let Asked { knobs, machine, .. } = cli.asked_mut().unwrap();
            knobs.is_complete = true;
            same(&request, &asked(knobs, machine, MODELS[model]), "command")?;

            scenario.note = Some("a \"note\"".to_owned());
            let text = scenario.toml();
            let (mut knobs, mut machine) = (KnobArgs::default(), MachineArgs::default());
            let mut reader =
                Reader { folder: Path::new(""), text: &text, model: None, knobs: &mut knobs, machine: &mut machine };
            let pins = reader.whole().map_err(|wrong| TestCaseError::fail(wrong.in_file(Path::new(&text))))?;
            prop_assert!(pins.is_empty());
            prop_assert_eq!(reader.model.take(), Some(PathBuf::from(MODELS[model])));
            same(&request, &asked(&knobs, &machine, MODELS[model]), "file")?;
        }
    }
}
