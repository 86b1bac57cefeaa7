//! What a program's process took on a GPU besides the buffers that it printed: the driver's and the backend's part.

use super::machine::{backend, is_one_gpu, number};
use crate::machine::Backend;
use crate::observed::{Load, Mib, ProcessMemory, device_name};

/// Programs whose log has the buffers of the process that the driver names.
const PROGRAMS: [&str; 4] = ["llama-", "ollama", "koboldcpp", "lm studio"];

/// What one process held on one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Besides {
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

impl Besides {
    /// What is in no buffer.
    pub fn mib(&self) -> Mib {
        Mib(self.process.0 - self.buffers.0)
    }
}

/// What the process of `load` took besides its buffers, per GPU; `processes` are those that hold memory of GPUs now.
///
/// # Errors
/// One sentence, if the log or the driver does not tell it.
pub fn of(load: &Load, processes: &[ProcessMemory]) -> Result<Vec<Besides>, String> {
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
        Ok(Besides { device: device.to_owned(), gpu, backend: backend(device).0, process, buffers })
    });
    let found: Vec<Besides> = found.collect::<Result<_, _>>()?;
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
