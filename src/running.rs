//! What runs: loads a plan on it, and follows what it holds.
//!
//! - [`apply`]: a plan on a running Ollama, or as llama-server, and what came of it beside the plan.
//! - [`follow`]: samples of the programs that serve models on this machine.
//! - [`plans`]: what a program that runs was asked for, planned.
//! - [`router`]: llama-server as a router, and its load call.
//! - [`record`]: samples in a file, and back.
//!
//! Nothing here starts, loads or ends anything but [`apply::Prepared::run`] and what it returns.

pub mod apply;
mod asker;
pub mod follow;
mod listening;
pub mod ollama;
pub mod plans;
pub mod record;
pub mod router;
pub mod server;

use crate::hardware;
use crate::observed::{Mib, ProcessMemory};

/// Processes as a comparison takes them.
pub fn held(processes: &[hardware::Process]) -> Vec<ProcessMemory> {
    let process = |process: &hardware::Process| ProcessMemory {
        card: process.device.strip_prefix("GPU").and_then(|number| number.parse().ok()),
        pid: u64::from(process.pid),
        name: process.name.clone().unwrap_or_default(),
        used: process.bytes.map(Mib::of),
    };
    processes.iter().map(process).collect()
}
