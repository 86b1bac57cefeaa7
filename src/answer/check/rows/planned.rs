//! A plan in the terms of a log.

use std::collections::BTreeMap;

use super::{ALL, CPU};
use crate::answer::check::{CheckedTerm, Compared, Part};
use crate::engine::llama_cpp::weight_buffers::WeightsInRam;
use crate::engine::llama_cpp::{RequestBuffers, Reservation};
use crate::engine::{EngineError, PlanRequest};
use crate::observed::Mib;
use crate::plan::{DevicePlan, PartKind};
use crate::settings::SplitMode;
use crate::units::Bytes;

/// Memory by device and term, with the layers on GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Planned {
    /// The model's, by the log's name of the device.
    pub terms: BTreeMap<(String, CheckedTerm), Mib>,
    /// Compute buffers as the fit measures them, where the log tells figures of a fit.
    pub measured: BTreeMap<String, Mib>,
    /// What is loaded beside it, where the log shows that.
    pub beside: Beside,
    /// From the first to the last of the weights in RAM in the mapped files, where they are mapped.
    pub span: Option<Mib>,
    /// Layers on GPUs, and in all, the output's included.
    pub layers: (usize, usize),
    /// Tokens of context over all sequences.
    pub tokens: u64,
    /// What the masks of a ubatch over the whole context take, at 2 bytes a cell.
    pub masks: Mib,
}

/// What a log shows of its devices and figures.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// Its names of the machine's GPUs.
    pub names: &'a [String],
    /// Whether some of its figures are those that a fit measured.
    pub measured: bool,
    /// The backends that compute in the CPU's memory, each of which a measurement counts.
    pub cpu_backends: u64,
}

/// The plan of `request`, in the terms of the log.
///
/// # Errors
/// As [`crate::engine::Engine::plan`].
pub fn plan(request: &PlanRequest, shown: Shown<'_>) -> Result<Planned, EngineError> {
    let name = |gpu: usize| shown.names.get(gpu).cloned().unwrap_or_else(|| format!("GPU{gpu}"));
    let mut terms = BTreeMap::new();
    // its buffers are of all GPUs together
    let by_tensors = request.settings.split_mode == SplitMode::Tensor;
    if let Some(resolved) = request.resolved()?.filter(|_| !by_tensors) {
        let buffers = resolved.buffers()?;
        let mut measured: BTreeMap<String, Mib> = BTreeMap::new();
        if shown.measured {
            let gpus = buffers.gpus.iter().map(|&gpu| name(gpu)).chain([CPU.to_owned()]);
            measured = gpus.zip(resolved.compute_measured()?.into_iter().map(Mib::of)).collect();
            if let Some(of_cpu) = measured.get_mut(CPU) {
                *of_cpu = Mib(of_cpu.0 * shown.cpu_backends as f64);
            }
        }
        let gpus = buffers.gpus.iter().map(|&gpu| name(gpu));
        for (device, held) in gpus.chain([CPU.to_owned()]).zip(&buffers.devices) {
            let of_device = [
                (
                    CheckedTerm::Model,
                    if device == CPU { in_ram(held.weights, &buffers, request) } else { held.weights },
                ),
                (CheckedTerm::Kv, held.kv),
                (CheckedTerm::Rs, held.states),
                (CheckedTerm::Compute, held.compute),
            ];
            put(&mut terms, &device, &of_device);
        }
        let repacked = Bytes(buffers.in_ram.repacked);
        let maps = request.settings.load_mode.unwrap_or_default().maps();
        let output = buffers.outputs.unwrap_or_default();
        put(&mut terms, CPU, &[(CheckedTerm::Repacked, repacked), (CheckedTerm::Output, output)]);
        return Ok(Planned {
            terms,
            measured,
            beside: Beside::new(),
            span: maps.then(|| Mib::of(Bytes(buffers.in_ram.span))),
            layers: (buffers.offloaded, buffers.layers),
            tokens: buffers.n_ctx,
            masks: Mib::of(Bytes(2 * buffers.n_ctx * buffers.n_ubatch)),
        });
    }
    let plan = request.plan()?;
    for (index, device) in plan.devices.iter().enumerate() {
        let DevicePlan { weights, cache, graph, .. } = *device;
        let name = if index + 1 == plan.devices.len() { CPU.to_owned() } else { name(index) };
        let of_device = [(CheckedTerm::Model, weights), (CheckedTerm::Kv, cache), (CheckedTerm::Compute, graph)];
        put(&mut terms, &name, &of_device);
    }
    Ok(Planned {
        terms,
        measured: BTreeMap::new(),
        beside: Beside::new(),
        span: None,
        layers: (plan.offloaded, plan.layers.len()),
        tokens: plan.settings.ctx_total,
        masks: Mib::default(),
    })
}

/// Weights in RAM that are not repacked: beside those that are, their span in the mapped file.
fn in_ram(held: Bytes, buffers: &RequestBuffers, request: &PlanRequest) -> Bytes {
    let WeightsInRam { repacked, others, span } = buffers.in_ram;
    match request.settings.load_mode.unwrap_or_default().maps() {
        _ if repacked == 0 => held,
        true => Bytes(span),
        false => Bytes(others),
    }
}

/// Memory of adapters, a draft and a projector. A draft's caches count as KV caches, and a projector's weights for no device, as
/// logs tell them.
pub type Beside = BTreeMap<(String, Part, CheckedTerm), Mib>;

/// What `request`, which has adapters, a draft or a projector, takes for them.
pub fn beside(request: &PlanRequest, names: &[String]) -> Option<Beside> {
    let plan = request.plan().ok()?;
    let gpus = plan.gpus().len();
    let name = |at: usize| match names.get(at) {
        _ if at == gpus => CPU.to_owned(),
        Some(name) => name.clone(),
        None => format!("GPU{at}"),
    };
    let mut beside = Beside::new();
    for part in &plan.parts {
        let of = match part.kind {
            PartKind::Model => continue,
            PartKind::Adapters => Part::Model,
            PartKind::Vision | PartKind::Audio => Part::Projector,
            PartKind::Draft => Part::Draft,
        };
        for (at, memory) in part.devices.iter().enumerate() {
            let weights = if of == Part::Projector { String::new() } else { name(at) };
            let terms = [
                (
                    weights,
                    if of == Part::Model { CheckedTerm::Lora } else { CheckedTerm::Model },
                    memory.weights - memory.repacked,
                ),
                (name(at), CheckedTerm::Repacked, memory.repacked),
                (name(at), CheckedTerm::Kv, memory.cache),
                (name(at), CheckedTerm::Compute, memory.graph),
            ];
            for (device, term, bytes) in terms.into_iter().filter(|(.., bytes)| *bytes > Bytes::ZERO) {
                let sum = beside.entry((device, of, term)).or_default();
                *sum = Mib(sum.0 + Mib::of(bytes).0);
            }
        }
    }
    Some(beside)
}

fn put(terms: &mut BTreeMap<(String, CheckedTerm), Mib>, device: &str, of_device: &[(CheckedTerm, Bytes)]) {
    for &(term, bytes) in of_device {
        if bytes > Bytes::ZERO {
            terms.insert((device.to_owned(), term), Mib::of(bytes));
        }
    }
}

impl Planned {
    /// A term of a device, of the load or as the fit measures it.
    pub fn of(&self, device: &str, term: CheckedTerm, of: Reservation) -> Option<Mib> {
        let measured = || self.measured.get(device).copied();
        match of {
            _ if device == ALL => self.over_all(term),
            Reservation::Measured if term == CheckedTerm::Compute => measured().or_else(|| self.get(device, term)),
            _ => self.get(device, term),
        }
    }

    /// A term over all devices.
    fn over_all(&self, term: CheckedTerm) -> Option<Mib> {
        let figures = self.terms.iter().filter(|((_, of), _)| *of == term);
        figures.map(|(_, mib)| mib.0).reduce(|a, b| a + b).map(Mib)
    }

    /// What the plan has for a row of the target.
    pub fn of_row(&self, row: &Compared) -> Option<Mib> {
        self.of(&row.device, row.term, row.of)
    }

    /// A term of a device; of `Context`, KV caches and recurrent states together.
    pub fn get(&self, device: &str, term: CheckedTerm) -> Option<Mib> {
        let of = |term| self.terms.get(&(device.to_owned(), term)).copied();
        match term {
            CheckedTerm::Context => match (of(CheckedTerm::Kv), of(CheckedTerm::Rs)) {
                (None, None) => None,
                (kv, rs) => Some(Mib(kv.unwrap_or_default().0 + rs.unwrap_or_default().0)),
            },
            _ => of(term),
        }
    }
}
