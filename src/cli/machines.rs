//! Machines: what was detected and how, the known cards and systems, the saved ones, and what `--measured` teaches of RAM.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::args::{DevicesArgs, MachineCommand, PlanArgs};
use super::error;
use super::error::{CliError, one_line};
use super::out::print;
use super::report::cell;
use super::resolve::{self, ResolvedArgs};
use super::style::Style;
use crate::engine::{PreparedModel, backend};
use crate::export::{Head, csv, record};
use crate::hardware::remembered::{Measurements, Remembered, RememberedRam, SavedMachine, SavedMachines, is_file};
use crate::hardware::{CollectorResult, Detected, Process};
use crate::machine::budget::{self, Budget, DriverMemory};
use crate::machine::presets::{self, Preset};
use crate::machine::{Backend, CpuInstructions, DeviceKind, Drivers, Gpu, Link, Machine, Origin, Os, file, short_name};
use crate::page::{Hue, Page, joined};
use crate::plan::Plan;
use crate::speed::prompt::work::PromptWork;
use crate::speed::prompt::{LONG, link_bandwidth};
use crate::speed::terms::ram_bandwidth;
use crate::speed::work::Work;
use crate::text;
use crate::units::{Bandwidth, Bytes};

/// Prints what was detected, or the known cards and systems.
pub(super) fn devices(args: &DevicesArgs) -> Result<(), CliError> {
    if let Some(search) = &args.presets {
        let found = presets_found(search.as_deref())?;
        let text = if args.json {
            error::json("presets", presets_json(&found))?
        } else if args.csv {
            presets_csv(&found)
        } else {
            presets_text(&found, &Style::of_stdout())
        };
        return print(&text);
    }
    let detected = resolve::MachineSource::read(&args.machine)?.detect();
    let text = if args.json {
        error::json("devices", devices_json(&detected))?
    } else if args.csv {
        devices_csv(&detected)
    } else {
        devices_text(&detected, &Style::of_stdout())
    };
    print(&text)
}

/// Saves, lists or removes machines.
pub(super) fn saved_ones(command: &MachineCommand) -> Result<(), CliError> {
    let kept = SavedMachines::here().map_err(CliError::Arguments)?;
    let text = match command {
        MachineCommand::Save { name, machine, force } => {
            let machine = resolve::MachineSource::read(machine)?.detect().machine;
            let path = kept.save(name, &machine, *force).map_err(CliError::Arguments)?;
            saved(name, &machine, &path)
        }
        MachineCommand::List { json, csv } => {
            let entries = kept.list().map_err(CliError::Arguments)?;
            match (json, csv) {
                (true, _) => saved_json(&entries)?,
                (_, true) => saved_csv(&entries),
                _ => saved_text(&entries, &Style::of_stdout()),
            }
        }
        MachineCommand::Forget => {
            forgotten(&Remembered::here().and_then(|remembered| remembered.forget()).map_err(CliError::Arguments)?)
        }
        MachineCommand::Remove { name } => {
            kept.remove(name).map_err(CliError::Arguments)?;
            format!("removed '{name}'\n")
        }
    };
    print(&text)
}

/// The devices and the outcome of every collector, as text for bug reports.
pub(super) fn devices_text(detected: &Detected, style: &Style) -> String {
    let machine = &detected.machine;
    let name = style.width - 6 - 4 * 11;
    let mut page = Page::default();
    let (version, os, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    page.line(vec![format!("plimsoll {version} on {os} {arch}").into()]);
    if machine.origin == Origin::Described {
        page.text("Simulated machine: at least partly specified, not detected.", Hue::Text);
    }
    page.heading(&if style.is_narrow() {
        "Devices".to_owned()
    } else {
        format!("{:<6}{:<name$}{:>11}{:>11}{:>11}{:>11}", "", "Devices", "backend", "total", "free", "in use")
    });
    for device in file::MachineRecord::of(machine).devices {
        let what = if device.kind == DeviceKind::Gpu { short_name(device.name) } else { device.name };
        let backend = device.backend.map(Backend::name);
        let amounts = [("total", device.total), ("free", device.free), ("in use", device.total - device.free)];
        if style.is_narrow() {
            page.spans(&format!("{:<6}", device.id), vec![what.into()]);
            let figures = amounts.map(|(name, bytes)| format!("{name} {bytes}"));
            let figures = backend.map(str::to_owned).into_iter().chain(figures);
            page.spans("      ", vec![joined(figures).into()]);
        } else {
            let amounts = amounts.map(|(_, bytes)| format!("{:>11}", bytes.to_string())).concat();
            let (what, backend) = (cell(what, name - 1), backend.unwrap_or_default());
            page.line(vec![format!("{:<6}{what:<name$}{backend:>11}{amounts}", device.id).into()]);
        }
        let facts = detected.facts.iter().filter(|fact| fact.device == device.id);
        let mut facts: Vec<_> = facts.map(|fact| format!("{} {}", fact.what, fact.value)).collect();
        facts.extend(device.compute.map(|compute| format!("compute capability {compute}")));
        facts.extend(driver(&machine.gpus, &device.id).map(|memory| memory.to_string()));
        facts.extend(device.link.map(|link| format!("connected by {link}")));
        facts.push(format!("{} bytes free of {}", device.free.0, device.total.0));
        page.text_indented(&facts.join(" · "), 6, Hue::Text);
        let held = detected.processes.iter().filter(|process| process.device == device.id);
        let held: Vec<String> = held.map(ToString::to_string).collect();
        if !held.is_empty() {
            page.text_indented(&format!("in use by {}", held.join(" · ")), 6, Hue::Text);
        }
    }
    if machine.gpus.is_empty() && machine.origin == Origin::Detected {
        let how = "No GPU was found. To plan for one, specify it: plimsoll plan MODEL --gpu 24GiB";
        page.text(how, Hue::Text);
    }
    for (index, gpu) in machine.gpus.iter().enumerate() {
        let Some(Budget { bytes, rule, raise, .. }) = Budget::of(machine, gpu) else { continue };
        let raise = raise.map_or_else(String::new, |raise| format!(" {raise}"));
        let text = format!("GPU{index} shares RAM: {bytes} of its memory is a budget in it. {rule}{raise}");
        page.text(&text, Hue::Text);
    }
    page.heading("Detection");
    for tried in &detected.tried {
        page.spans(&format!("{:<8}", tried.collector), vec![tried.outcome.as_str().into()]);
    }
    style.report(&page)
}

/// What driver and backend take besides on the device `id`.
fn driver(gpus: &[Gpu], id: &str) -> Option<DriverMemory> {
    let index: usize = id.strip_prefix("GPU")?.parse().ok()?;
    gpus.get(index).and_then(DriverMemory::of)
}

/// A line for each device.
pub(super) fn devices_csv(detected: &Detected) -> String {
    let columns = ["id", "kind", "name", "backend", "total", "free", "swap_free", "integrated", "compute"];
    let row = |device: file::DeviceRecord<'_>| {
        let file::DeviceRecord { id, kind, name, backend, total, free, swap_free, integrated, compute, .. } = device;
        let kind = if kind == DeviceKind::Gpu { "gpu" } else { "cpu" };
        let sizes = [total, free, swap_free].map(|bytes| bytes.0.to_string());
        let what = [id, kind.to_owned(), name.to_owned(), csv::cell(backend.map(Backend::name))];
        what.into_iter().chain(sizes).chain([integrated.to_string(), csv::cell(compute)])
    };
    csv::table(columns, file::MachineRecord::of(&detected.machine).devices.into_iter().map(row))
}

/// One JSON object with the keys of a plan's devices and more of real devices. It is a machine file for `--machine`.
pub(super) fn devices_json(detected: &Detected) -> serde_json::Result<String> {
    text::json(&DetectedRecord::of(detected, file::MachineRecord::of(&detected.machine)))
}

record! {
    /// A machine. It is a machine file for `--machine`.
    DetectedRecord<'a>(detected: &'a Detected, machine: file::MachineRecord<'a>) {
        #[serde(flatten)]
        head: Head = Head::THIS,
        /// Whether it was detected, or described.
        origin: Origin = machine.origin,
        os: Os = machine.os,
        /// How fast its disk is read; null unless it was stated.
        disk: Option<Bandwidth> = machine.disk,
        /// Vector instructions of its CPU; null where they are assumed.
        cpu: Option<CpuInstructions> = machine.cpu,
        drivers: Drivers = machine.drivers,
        /// GPUs in order, the CPU last.
        devices: Vec<DeviceRecord<'a>> = {
            let each = machine.devices.into_iter().map(|device| (device.id.clone(), device));
            each.map(|(id, device)| DeviceRecord::of(detected, &id, device)).collect()
        },
        /// What is planned by for each backend of the GPUs.
        backends: Vec<BackendRecord> = {
            let mut used: Vec<Backend> = detected.machine.gpus.iter().map(|gpu| gpu.backend).collect();
            used.sort_unstable();
            used.dedup();
            used.into_iter().map(|used| BackendRecord { backend: used, rules: backend::of(used).facts() }).collect()
        },
        /// How it was detected.
        tried: &'a [CollectorResult] = &detected.tried,
    }
}

record! {
    /// A device.
    DeviceRecord<'a>(detected: &'a Detected, id: &str, device: file::DeviceRecord<'a>) {
        #[serde(flatten)]
        device: file::DeviceRecord<'a> = device,
        /// What driver and backend take on it besides, at most; null where that is not known.
        context_assumed: Option<Bytes> = driver(&detected.machine.gpus, id).map(|memory| memory.loaded.most),
        /// The same, with how it is known.
        driver: Option<DriverMemory> = driver(&detected.machine.gpus, id),
        /// Programs that use its memory.
        processes: Vec<&'a Process> = {
            detected.processes.iter().filter(|process| process.device == id).collect()
        },
        /// What else its driver says.
        facts: BTreeMap<&'static str, &'a str> = {
            let facts = detected.facts.iter().filter(|fact| fact.device == id);
            facts.map(|fact| (fact.what, fact.value.as_str())).collect()
        },
    }
}

/// The rules of a backend.
#[derive(JsonSchema, Serialize)]
pub(crate) struct BackendRecord {
    backend: Backend,
    rules: Vec<backend::BackendFact>,
}

/// The presets that match `search`, or all.
pub(super) fn presets_found(search: Option<&str>) -> Result<Vec<&'static Preset>, CliError> {
    let text = search.unwrap_or_default();
    let found = presets::matching(text);
    if found.is_empty() {
        let near = presets::nearest(text);
        let hint = if near.is_empty() { String::new() } else { format!("; similar names are {}", near.join(", ")) };
        return Err(CliError::flag("--presets", &format!("no card or system matches '{text}'{hint}")));
    }
    Ok(found)
}

/// The presets as text.
pub(super) fn presets_text(found: &[&Preset], style: &Style) -> String {
    let name = style.width - 5 * 11;
    let mut page = Page::default();
    page.heading(&if style.is_narrow() {
        "Presets".to_owned()
    } else {
        format!("{:<name$}{:>11}{:>11}{:>11}{:>11}{:>11}", "Presets", "backend", "total", "free", "compute", "GB/s")
    });
    for preset in found {
        let gpu = preset.gpu();
        let compute = gpu.compute.map_or_else(|| "–".to_owned(), |(major, minor)| format!("{major}.{minor}"));
        let (backend, total, free) = (gpu.backend.name(), gpu.total.to_string(), gpu.free.to_string());
        if style.is_narrow() {
            page.line(vec![preset.name.into()]);
            let facts =
                [format!("{total}, {free} free"), format!("compute {compute}"), format!("{} GB/s", preset.gbps)];
            page.spans("    ", vec![joined([backend.to_owned()].into_iter().chain(facts)).into()]);
        } else {
            let row =
                format!("{:<name$}{backend:>11}{total:>11}{free:>11}{compute:>11}{:>11}", preset.name, preset.gbps);
            page.line(vec![row.into()]);
        }
    }
    page.blank();
    let use_one = "Free memory is assumed. Use one with --gpu \"NAME\"; add ,free=20GiB to state the free memory.";
    page.text(use_one, Hue::Text);
    if found.iter().any(|preset| preset.working_set(0).is_some()) {
        let newest = budget::newest_macos();
        page.text(
            &format!(
                "Macs are assumed to run macOS {newest}, which says how much Metal may use; ,macos=15 states another."
            ),
            Hue::Text,
        );
    }
    style.report(&page)
}

/// The cards and systems that `--gpu` knows by name.
#[derive(JsonSchema, Serialize)]
pub(super) struct PresetsAnswer<'a> {
    #[serde(flatten)]
    head: Head,
    presets: Vec<PresetRecord<'a>>,
}

/// The presets as one JSON object.
pub(super) fn presets_json(found: &[&'static Preset]) -> serde_json::Result<String> {
    let presets = found.iter().map(|preset| PresetRecord::of(preset, &preset.gpu())).collect();
    text::json(&PresetsAnswer { head: Head::THIS, presets })
}

/// A line for each preset.
pub(super) fn presets_csv(found: &[&'static Preset]) -> String {
    let columns = ["name", "backend", "total", "free_assumed", "integrated", "compute", "bytes_per_second", "ram"];
    let row = |preset: &&'static Preset| {
        let PresetRecord { name, backend, total, free_assumed, integrated, compute, bytes_per_second, ram } =
            PresetRecord::of(preset, &preset.gpu());
        [
            name.to_owned(),
            backend.name().to_owned(),
            total.0.to_string(),
            free_assumed.0.to_string(),
            integrated.to_string(),
            csv::cell(compute),
            bytes_per_second.to_string(),
            csv::cell(ram.map(|ram| ram.0)),
        ]
    };
    csv::table(columns, found.iter().map(row))
}

record! {
    /// A card or a system.
    PresetRecord<'a>(preset: &'a Preset, gpu: &Gpu) {
        name: &'a str = preset.name,
        backend: Backend = gpu.backend,
        total: Bytes = gpu.total,
        /// What is free before a model is loaded: assumed.
        free_assumed: Bytes = gpu.free,
        /// Whether it shares its memory with the CPU.
        integrated: bool = gpu.integrated,
        /// CUDA's compute capability; null of other backends.
        compute: Option<String> = gpu.compute.map(|(major, minor)| format!("{major}.{minor}")),
        bytes_per_second: u64 = u64::from(preset.gbps) * 1_000_000_000,
        /// RAM of a system; null of a card.
        ram: Option<Bytes> = preset.ram().map(|ram| ram.total),
    }
}

/// A sentence on the machine that was saved.
pub(super) fn saved(name: &str, machine: &Machine, path: &Path) -> String {
    format!(
        "saved '{name}' ({}) in {}; plan for it with --machine '{name}'\n",
        one_line(&machine.to_string()),
        path.display()
    )
}

/// A sentence on what was forgotten.
pub(super) fn forgotten(measured: &Measurements) -> String {
    let drivers = measured.drivers.iter();
    let mut each: Vec<String> =
        drivers.map(|entry| format!("what {} takes on {}", entry.backend.name(), one_line(&entry.gpu))).collect();
    each.extend(measured.ram.map(|_| "how fast RAM is read".to_owned()));
    if each.is_empty() {
        return "nothing that was measured on this machine is remembered\n".to_owned();
    }
    format!("forgot {}\n", each.join(", "))
}

/// The saved machines as text.
pub(super) fn saved_text(entries: &[SavedMachine], style: &Style) -> String {
    if entries.is_empty() {
        return style.paragraph(
            "No saved machines: 'plimsoll machine save NAME' saves this one, or with --gpu and --ram another.",
        );
    }
    let mut page = Page::default();
    page.heading("Saved machines");
    let width = entries.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(8);
    for (name, machine) in entries {
        let what = machine.as_ref().map_or_else(|why| format!("cannot be read: {why}"), ToString::to_string);
        page.spans(&format!("{name:<width$}  "), vec![what.into()]);
    }
    style.report(&page)
}

/// The saved machines.
#[derive(JsonSchema, Serialize)]
pub(super) struct SavedAnswer<'a> {
    #[serde(flatten)]
    head: Head,
    machines: Vec<SavedRecord<'a>>,
}

record! {
    /// A saved machine; of one that cannot be read, `error` says why.
    SavedRecord<'a>(name: &'a str, machine: Option<&'a Machine>, error: Option<&'a String>) {
        name: &'a str = name,
        origin: Option<Origin> = machine.map(|machine| machine.origin),
        /// Names of its GPUs.
        gpus: Vec<&'a str> = machine.iter().flat_map(|machine| &machine.gpus).map(|gpu| gpu.name.as_str()).collect(),
        /// All of its RAM.
        ram: Option<Bytes> = machine.map(|machine| machine.ram.total),
        error: Option<&'a str> = error.map(String::as_str),
    }
}

fn saved_records(entries: &[SavedMachine]) -> impl Iterator<Item = SavedRecord<'_>> {
    entries.iter().map(|(name, machine)| SavedRecord::of(name, machine.as_ref().ok(), machine.as_ref().err()))
}

/// The saved machines as one JSON object.
pub(super) fn saved_json(entries: &[SavedMachine]) -> Result<String, CliError> {
    let answer = SavedAnswer { head: Head::THIS, machines: saved_records(entries).collect() };
    error::json("list", text::json(&answer))
}

/// A line for each saved machine.
pub(super) fn saved_csv(entries: &[SavedMachine]) -> String {
    let row = |record: SavedRecord<'_>| {
        let SavedRecord { name, gpus, ram, error, .. } = record;
        [name.to_owned(), gpus.join(" + "), csv::cell(ram.map(|ram| ram.0)), csv::cell(error)]
    };
    csv::table(["name", "gpus", "ram", "error"], saved_records(entries).map(row))
}

/// Sets the bandwidth that explains the measured speed, and remembers it where the machine is kept: a saved machine
/// with it, and this one for later plans. Says so in a note.
pub(super) fn apply(
    args: &PlanArgs,
    ready: &mut ResolvedArgs,
    model: &PreparedModel,
    plan: &mut Plan,
) -> Result<(), CliError> {
    let Some(tokens_per_second) = args.measured else { return Ok(()) };
    let cannot = |why: String| CliError::flag("--measured", &why);
    let work = Work::of(model, &ready.machine, plan, args.depth)
        .ok_or_else(|| cannot("the bandwidth of a GPU is not known, so no speed is modelled".to_owned()))?;
    let found = ram_bandwidth(&work, tokens_per_second).map_err(cannot)?;
    let machine = Arc::make_mut(&mut ready.machine);
    machine.ram.bandwidth = Some(found);
    let kept = keep(args, machine, found).map_err(cannot)?;
    plan.notes.push(format!("{tokens_per_second} tokens per second mean that RAM is read at {found}; {kept}"));
    Ok(())
}

/// Sets the link that explains the measured speed of a prompt, and saves it with a machine that has a name. Says so in a
/// note.
pub(super) fn apply_prompt(
    args: &PlanArgs,
    ready: &mut ResolvedArgs,
    model: &PreparedModel,
    plan: &mut Plan,
) -> Result<(), CliError> {
    let Some(tokens_per_second) = args.measured_prompt else { return Ok(()) };
    let cannot = |why: String| CliError::flag("--measured-prompt", &why);
    let work = PromptWork::of(model, &ready.machine, plan).map_err(cannot)?;
    let tokens = plan.settings.turn.map_or(LONG, |turn| turn.prompt).min(plan.settings.ctx_per_sequence).max(1);
    let found = Link::Reached(link_bandwidth(&work, args.depth, tokens, tokens_per_second).map_err(cannot)?);
    let connect = |machine: &mut Machine| {
        machine.gpus.iter_mut().filter(|gpu| !gpu.integrated).for_each(|gpu| gpu.link = Some(found));
    };
    connect(Arc::make_mut(&mut ready.machine));
    let described = &args.machine;
    let kept = match described.machine.as_ref().filter(|name| !is_file(name) && described.gpu.is_empty()) {
        Some(name) => {
            let mut saved = SavedMachines::find(name).map_err(cannot)?;
            connect(&mut saved);
            SavedMachines::here().and_then(|all| all.save(name, &saved, true)).map_err(cannot)?;
            format!("saved with the machine '{name}'")
        }
        None => format!("for later plans, use --link {}", found.to_string().replace(' ', "")),
    };
    plan.notes
        .push(format!("{tokens_per_second} tokens of a prompt per second mean a link from RAM of {found}; {kept}"));
    Ok(())
}

/// Keeps it; returns where, as part of a sentence.
fn keep(args: &PlanArgs, machine: &Machine, found: Bandwidth) -> Result<String, String> {
    let described = &args.machine;
    if let Some(name) = described.machine.as_ref().filter(|name| !is_file(name) && described.ram.is_none()) {
        let mut saved = SavedMachines::find(name)?;
        saved.ram.bandwidth = Some(found);
        SavedMachines::here()?.save(name, &saved, true)?;
        return Ok(format!("saved with the machine '{name}'"));
    }
    if described.machine.is_some() || described.ram.is_some() {
        return Ok(format!("for later plans, describe the RAM with bandwidth={}", found.to_string().replace(' ', "")));
    }
    Remembered::here()?.keep_ram(RememberedRam::of(&machine.ram, found))?;
    Ok("remembered for later plans on this machine".to_owned())
}
