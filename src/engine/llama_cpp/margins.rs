//! What a fit leaves free on each device: the user's target, and what llama-server adds for what it loads beside the model.
//!
//! llama-server writes the list of margins by the devices that ggml's backends have registered, and the fit reads it by
//! the devices of the model (`load_model` in `server-context.cpp`, b9352, b10488 and b11434; `common_params_fit_impl` in
//! `fit.cpp`). Both orders agree where GPUs are registered first. A backend named by `GGML_BACKEND_PATH` is loaded last
//! (`ggml_backend_load_all_from_path` in `ggml-backend-reg.cpp`, 0.1.161), so that each share is one place further on:
//! the first GPU keeps free what is in RAM, and nobody what is on the last GPU.

use super::devices;
use crate::engine::error::EngineError;
use crate::machine::{Backend, Machine};
use crate::plan::{FitMargin, MarginShare, PartKind};
use crate::settings::Settings;
use crate::units::Bytes;

/// A device: a GPU by its index in the machine, or the CPU.
type Place = Option<usize>;

/// What is loaded beside the model.
#[derive(Clone, Copy, Debug)]
struct Share {
    kind: PartKind,
    /// Where it is.
    place: Place,
    bytes: u64,
    /// The device of the model whose margin it is added to; none if no device has it.
    margin: Option<usize>,
}

/// The margins of a fit.
#[derive(Clone, Debug)]
pub(super) struct Margins {
    /// What is asked for, by the model's devices; of RAM, if there are none.
    targets: Vec<u64>,
    /// The devices in the order of their registration.
    registered: Vec<Place>,
    /// The devices that the user lists.
    listed: Option<Vec<Place>>,
    shares: Vec<Share>,
}

impl Margins {
    /// The margins before anything is added.
    ///
    /// # Errors
    /// When the user lists a GPU that the machine lacks.
    pub fn new(targets: Vec<u64>, machine: &Machine, settings: &Settings) -> Result<Self, EngineError> {
        let listed = settings.devices.as_ref().map(|names| {
            names.iter().map(|name| devices::gpu(machine, name).map(Some)).collect::<Result<Vec<Place>, _>>()
        });
        Ok(Self { targets, registered: registered(machine, settings), listed: listed.transpose()?, shares: Vec::new() })
    }

    /// Adds a projector's `bytes` on a device; to a margin only if they are `counted`.
    pub fn add_projector(&mut self, kind: PartKind, place: Place, bytes: u64, counted: bool) {
        let margin = self.registered.iter().position(|one| *one == place).filter(|_| counted);
        self.add(kind, place, bytes, margin);
    }

    /// Adds a draft's `bytes` on a GPU of the machine. Its devices are looked up among those that the user lists, if there are
    /// some.
    pub fn add_draft(&mut self, gpu: usize, bytes: u64) {
        let margin = self.listed.as_ref().unwrap_or(&self.registered).iter().position(|one| *one == Some(gpu));
        self.add(PartKind::Draft, Some(gpu), bytes, margin);
    }

    fn add(&mut self, kind: PartKind, place: Place, bytes: u64, margin: Option<usize>) {
        let margin = margin.filter(|at| *at < self.targets.len());
        if bytes > 0 {
            self.shares.push(Share { kind, place, bytes, margin });
        }
    }

    /// Bytes to leave free, by the model's devices.
    pub fn list(&self) -> Vec<u64> {
        (0..self.targets.len()).map(|at| self.at(at)).collect()
    }

    fn at(&self, device: usize) -> u64 {
        let added = self.shares.iter().filter(|share| share.margin == Some(device));
        added.fold(self.targets.get(device).copied().unwrap_or(0), |sum, share| sum.saturating_add(share.bytes))
    }

    /// What is loaded beside the model on a device.
    fn beside(&self, place: Place) -> Bytes {
        Bytes(self.shares.iter().filter(|share| share.place == place).map(|share| share.bytes).sum())
    }

    /// How the margin of the model's `device` came about, for a plan whose CPU is device `cpu`.
    pub fn explained(&self, device: usize, gpu: usize, cpu: usize) -> FitMargin {
        let share = |share: &Share| MarginShare {
            part: share.kind,
            device: share.place.unwrap_or(cpu),
            bytes: Bytes(share.bytes),
        };
        FitMargin {
            place: device,
            target: Bytes(self.targets.get(device).copied().unwrap_or(0)),
            added: self.shares.iter().filter(|share| share.margin == Some(device)).map(share).collect(),
            taken: self.beside(Some(gpu)),
        }
    }
}

/// The devices in the order in which ggml's backends register them: local GPUs by their backends, the CPU, and those of
/// other computers, which `--rpc` adds when everything is loaded (`ggml_backend_load_all_from_path` and the constructor of
/// the registry in `ggml-backend-reg.cpp`, and `add_rpc_devices` in `common/arg.cpp`, 0.1.161).
fn registered(machine: &Machine, settings: &Settings) -> Vec<Place> {
    let order = |backend: Backend| match backend {
        Backend::Cuda | Backend::Plain => 0,
        Backend::Rocm => 1,
        Backend::Metal => 2,
        Backend::Sycl => 3,
        Backend::Vulkan => 4,
    };
    let (remote, mut local): (Vec<usize>, Vec<usize>) =
        (0..machine.gpus.len()).partition(|gpu| machine.gpus[*gpu].computer.is_some());
    local.sort_by_key(|gpu| order(machine.gpus[*gpu].backend));
    let (local, cpu, remote) = (local.into_iter().map(Some), [None], remote.into_iter().map(Some));
    if settings.gpus_registered_last {
        cpu.into_iter().chain(local).chain(remote).collect()
    } else {
        local.chain(cpu).chain(remote).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fixtures;

    const TARGET: u64 = 1912;

    /// The margins of a machine with `gpus` GPUs for a projector that takes 1000 on the first and 25 of RAM.
    fn margins(gpus: usize, last: bool) -> Margins {
        let machine = fixtures::machine(vec![fixtures::gpu(Backend::Cuda, Bytes::gib(24)); gpus]);
        let settings = Settings { gpus_registered_last: last, ..Settings::default() };
        let mut margins = Margins::new(vec![TARGET; gpus.max(1)], &machine, &settings).unwrap();
        let first = (gpus > 0).then_some(0);
        margins.add_projector(PartKind::Vision, first, 1000, true);
        margins.add_projector(PartKind::Vision, None, 25, true);
        margins
    }

    /// What stays free of a margin.
    fn left(margins: &Margins, device: usize, gpu: usize) -> Bytes {
        margins.explained(device, gpu, 9).left()
    }

    #[test]
    fn shares_are_their_own_devices_where_gpus_are_registered_first() {
        assert_eq!(margins(1, false).list(), [TARGET + 1000]);
        assert_eq!(margins(2, false).list(), [TARGET + 1000, TARGET]);
        assert_eq!(left(&margins(2, false), 0, 0), Bytes(TARGET));
        assert_eq!(margins(0, false).list(), [TARGET + 1025]);
    }

    #[test]
    fn shares_are_the_next_devices_where_the_cpu_is_registered_first() {
        assert_eq!(margins(1, true).list(), [TARGET + 25]);
        assert_eq!(left(&margins(1, true), 0, 0), Bytes(TARGET + 25 - 1000));
        assert_eq!(margins(2, true).list(), [TARGET + 25, TARGET + 1000]);
        assert_eq!(left(&margins(2, true), 1, 1), Bytes(TARGET + 1000));
    }

    #[test]
    fn a_draft_is_looked_up_among_the_devices_that_are_listed() {
        let machine = fixtures::machine(vec![fixtures::gpu(Backend::Cuda, Bytes::gib(24)); 2]);
        let of = |devices: Option<Vec<crate::settings::DeviceName>>| {
            let settings = Settings { gpus_registered_last: true, devices, ..Settings::default() };
            let mut margins = Margins::new(vec![TARGET; 2], &machine, &settings).unwrap();
            margins.add_draft(1, 7);
            margins.list()
        };
        assert_eq!(of(None), [TARGET, TARGET]);
        let listed = [1, 0].map(crate::settings::DeviceName::gpu).to_vec();
        assert_eq!(of(Some(listed)), [TARGET + 7, TARGET]);
    }

    #[test]
    fn other_computers_are_registered_after_the_cpu() {
        let mut gpus =
            vec![fixtures::gpu(Backend::Vulkan, Bytes::gib(8)), fixtures::gpu(Backend::Cuda, Bytes::gib(24))];
        gpus.push(crate::machine::Gpu { computer: Some("other".into()), ..gpus[1].clone() });
        let registered = registered(&fixtures::machine(gpus), &Settings::default());
        assert_eq!(registered, [Some(1), Some(0), None, Some(2)]);
    }
}
