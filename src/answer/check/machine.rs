//! The machine that a log names.

use crate::machine::presets::{self, Preset};
use crate::machine::spec::MachineSpec;
use crate::machine::{Backend, Cpu, Gpu, Machine, Origin, Os, Ram, short_name};
use crate::observed::{Load, Mib, ObservedDevice, OllamaEstimate, TablePhase, device_name, is_gpu};
use crate::units::Bytes;

/// Memory of the computer where the log does not tell it; it limits no plan that is compared.
const ASSUMED_RAM: Bytes = Bytes::gib(1024);

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
pub fn of(load: &Load, described: &MachineSpec) -> ObservedMachine {
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
    let os = described.os.unwrap_or_else(|| system(load, &gpus));
    let ram = described.ram.unwrap_or_else(|| ram(load));
    ObservedMachine {
        machine: Machine {
            disk: None,
            os,
            cpu: cpu(load, &gpus, described),
            gpus,
            ram,
            origin: Origin::Described,
            drivers: crate::machine::Drivers::default(),
        },
        names,
        free_known,
    }
}

/// The machine that an estimate of Ollama names: what was available on each GPU.
pub fn of_estimate(load: &Load, seen: &OllamaEstimate, described: &MachineSpec) -> Machine {
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
        let preset = name.and_then(|name| presets::find(short_name(name)));
        let free = bytes(free);
        Gpu {
            name: name.map_or_else(|| format!("GPU{at}"), |name| short_name(name).to_owned()),
            backend,
            total: device.and_then(|device| device.total).map_or(free, bytes).max(free),
            free,
            integrated: false,
            compute: preset.and_then(|preset| preset.compute),
            driver_major: None,
            computer: None,
            vulkan: None,
            dedicated: None,
            driver_memory: None,
            listed: crate::machine::Listed::default(),
        }
    });
    let gpus = described.gpus.clone().unwrap_or_else(|| found.collect());
    let os = described.os.unwrap_or_else(|| system(load, &gpus));
    let ram = described.ram.unwrap_or_else(|| ram(load));
    Machine {
        disk: None,
        os,
        cpu: crate::machine::Cpu::default(),
        gpus,
        ram,
        origin: Origin::Described,
        drivers: crate::machine::Drivers::default(),
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
    let total = device.and_then(|device| device.total).map(bytes);
    let total = total.or_else(|| whole(row?.total?)).or_else(|| Some(Bytes::mib(fitted?.total)));
    let total = total.or_else(|| preset.map(Preset::total));

    let before = load.table_phase == Some(TablePhase::Fit);
    let free = device.and_then(|device| device.free).map(bytes);
    let free = free.or_else(|| whole(i64::try_from(fitted?.used).ok()? + fitted?.left));
    let free = free.or_else(|| row.filter(|_| before).and_then(|row| whole(row.free?)));
    let free = free.or_else(|| load.fit.free.filter(|_| count == 1).map(Bytes::mib));
    *free_known &= free.is_some();

    let held: f64 = load.observed.get(name).map_or(0.0, |terms| terms.values().map(|mib| mib.0).sum());
    // a card as large as what it held; a load whose layers are told needs no more
    let total = total.or(free).unwrap_or_else(|| bytes(Mib(held)));
    let (backend, remote) = backend(name);
    Gpu {
        name: described.map_or_else(|| name.to_owned(), |text| short_name(text).to_owned()),
        backend,
        total: total.max(free.unwrap_or_default()),
        free: free.unwrap_or(total),
        // several that are used together get layers alike
        integrated: count == 1 && preset.is_some_and(|preset| preset.integrated),
        compute: preset.and_then(|preset| preset.compute),
        driver_major: None,
        computer: remote.then(|| name.into()),
        vulkan: None,
        listed: crate::machine::Listed::default(),
        dedicated: None,
        driver_memory: None,
    }
}

fn ram(load: &Load) -> Ram {
    let cpu = load.devices.iter().find(|device| device.name == "CPU");
    let total = cpu.and_then(|cpu| cpu.total).map(bytes);
    let total = total.or_else(|| load.fit.host.map(|host| Bytes::mib(host.total))).unwrap_or(ASSUMED_RAM);
    let free = cpu.and_then(|cpu| cpu.free).map_or(total, bytes).min(total);
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
    let command = load.command.as_ref().map(|command| command.text.as_str());
    let mut paths = command.into_iter().chain(load.models.iter().filter_map(|model| model.path.as_deref()));
    if paths.any(|path| path.contains(":\\")) { Os::Windows } else { Os::for_gpus(gpus) }
}

fn bytes(mib: Mib) -> Bytes {
    Bytes((mib.0.max(0.0) * f64::from(1 << 20)).round() as u64)
}
