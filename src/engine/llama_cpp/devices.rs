//! The devices of llama.cpp: which of a machine's GPUs it uses, and what their backends decide.

use std::sync::Arc;

use super::release::ReleaseTraits;
use crate::engine::error::EngineError;
use crate::engine::ggml::BackendRef;
use crate::engine::ggml::backend::cuda::MatrixUnits;
use crate::engine::ggml::backend::{Cuda, Metal, Plain, Remote, Sycl, Vulkan};
use crate::engine::ggml::tensor::{BackendId, NO_BACKEND};
use crate::machine::budget::VulkanLimits;
use crate::machine::{Backend, Gpu, Machine, Os, check_count, presets};
use crate::settings::{DeviceName, Settings, SplitMode};

/// A GPU as needed by llama.cpp's arithmetic.
#[derive(Clone, Debug)]
pub struct Device {
    /// Properties of its buffers and operations.
    pub backend: BackendRef,
    /// Free bytes.
    pub free: u64,
}

/// The devices' backends, the CPU last. RAM is allocated in the host buffers of the first GPU if that has some.
pub fn backends(devices: &[Device]) -> Vec<BackendRef> {
    let cpu = devices.first().and_then(|device| device.backend.host()).unwrap_or_default();
    let gpus = devices.iter().map(|device| Arc::clone(&device.backend));
    gpus.chain([Arc::new(cpu) as BackendRef]).collect()
}

/// What llama.cpp's backend for `gpu` decides in this release.
pub fn backend(gpu: &Gpu, os: Os, release: &ReleaseTraits) -> BackendRef {
    let cuda = |units| Cuda { units, rules: release.cuda, events: true };
    let own: BackendRef = match gpu.backend {
        Backend::Cuda => Arc::new(cuda(MatrixUnits::of(gpu.compute))),
        Backend::Rocm => Arc::new(cuda(MatrixUnits::of_gfx(gfx(gpu)))),
        Backend::Metal => Arc::new(Metal { rules: release.metal }),
        Backend::Vulkan => Arc::new(vulkan(gpu, os, release)),
        Backend::Sycl => Arc::new(Sycl),
        Backend::Plain => Arc::new(Plain),
    };
    if gpu.computer.is_some() { Arc::new(Remote(own)) } else { own }
}

/// ROCm's name of a GPU's architecture, as it is listed, or that of the card of its name.
fn gfx(gpu: &Gpu) -> Option<&str> {
    let named = || presets::all().iter().find(|preset| preset.gfx.is_some() && gpu.name.ends_with(preset.name));
    gpu.listed.gfx.as_deref().or_else(|| named()?.gfx)
}

fn vulkan(gpu: &Gpu, os: Os, release: &ReleaseTraits) -> Vulkan {
    let (VulkanLimits { align, host_align, max_tensor, max_buffer }, ..) = VulkanLimits::of(gpu, os);
    Vulkan { alignment: align, host_alignment: host_align, max_tensor, max_buffer, rules: release.vulkan }
}

/// GPUs that a schedule takes beside the CPU; with more, llama.cpp ends (`GGML_SCHED_MAX_BACKENDS` in `ggml-backend.cpp`,
/// 0.1.161).
const MAX_GPUS: usize = 15;

// the CPU's place is behind them
const _: () = assert!(MAX_GPUS < NO_BACKEND as usize);

/// The machine's GPUs that are used, in the order in which they get layers: those that the user lists, else those of other
/// computers first, then the local ones, integrated ones only if there are no others; without a split one of them
/// (`llama_prepare_model_devices` in `llama.cpp`, 0.1.161).
///
/// # Errors
/// When the user names a GPU that the machine lacks, or there are more than llama.cpp can use.
pub fn gpus(machine: &Machine, settings: &Settings) -> Result<Vec<usize>, EngineError> {
    check_count(machine.gpus.len()).map_err(EngineError::Settings)?;
    let gpus = all_or_one(machine, settings)?;
    if gpus.len() > MAX_GPUS {
        return Err(EngineError::Settings(format!(
            "llama.cpp ends with an error where it uses more than {MAX_GPUS} GPUs, and here it would use {}: name some \
             with --device",
            gpus.len()
        )));
    }
    Ok(gpus)
}

fn all_or_one(machine: &Machine, settings: &Settings) -> Result<Vec<usize>, EngineError> {
    let gpus = match &settings.devices {
        Some(names) => names.iter().map(|name| gpu(machine, name)).collect::<Result<Vec<usize>, _>>()?,
        None => usual_gpus(machine),
    };
    if settings.split_mode != SplitMode::None || gpus.is_empty() || settings.main_gpu < 0 {
        return Ok(if settings.split_mode == SplitMode::None && settings.main_gpu < 0 { Vec::new() } else { gpus });
    }
    let main = usize::try_from(settings.main_gpu).ok().and_then(|at| gpus.get(at).copied());
    let refuse = || {
        let (at, count) = (settings.main_gpu, gpus.len());
        EngineError::Settings(format!("llama.cpp refuses --main-gpu {at}: it uses {count}, counted from 0"))
    };
    Ok(vec![main.ok_or_else(refuse)?])
}

/// The GPU of this name.
///
/// # Errors
/// When the machine lacks it.
pub fn gpu(machine: &Machine, name: &DeviceName) -> Result<usize, EngineError> {
    let own = |at: &usize| machine.device_name(*at).is_some_and(|own| own.eq_ignore_ascii_case(name.as_str()));
    let buffers = |at: &usize| machine.buffer_name(*at).is_some_and(|own| own.eq_ignore_ascii_case(name.as_str()));
    let known = 0..machine.gpus.len();
    let by_index = name.index().filter(|at| known.contains(at));
    let found = by_index.or_else(|| known.clone().find(buffers)).or_else(|| known.clone().find(own));
    found.ok_or_else(|| {
        // a server of another computer behind the name
        let server = name.as_str().split_once('[').and_then(|(_, rest)| rest.strip_suffix(']'));
        let names: Vec<String> = known
            .filter_map(|at| if server.is_some() { machine.buffer_name(at) } else { machine.device_name(at) })
            .collect();
        let listed = if names.is_empty() { "it has no GPU".to_owned() } else { format!("it has {}", names.join(", ")) };
        let describe = server
            .map_or_else(String::new, |server| format!("; --gpu …,computer={server} describes a card of that server"));
        EngineError::Settings(format!("the machine has no device '{name}': {listed}{describe}"))
    })
}

/// The place of the device of this name among those used, the CPU last.
///
/// # Errors
/// When it is not used.
pub fn place(machine: &Machine, used: &[usize], name: &DeviceName) -> Result<BackendId, EngineError> {
    if name.is_cpu() {
        return Ok(used.len() as BackendId);
    }
    let gpu = gpu(machine, name)?;
    let at = used.iter().position(|used| *used == gpu);
    let refuse = || EngineError::Settings(format!("{name} is not one of the GPUs that llama.cpp uses here"));
    at.map(|at| at as BackendId).ok_or_else(refuse)
}

/// Those that are used unless the user lists some.
pub fn usual_gpus(machine: &Machine) -> Vec<usize> {
    let of = |wanted: &dyn Fn(&Gpu) -> bool| -> Vec<usize> {
        let list = machine.gpus.iter().enumerate();
        list.filter(|(_, gpu)| wanted(gpu)).map(|(at, _)| at).collect()
    };
    let remote = of(&|gpu| gpu.computer.is_some());
    let discrete = of(&|gpu| gpu.computer.is_none() && !gpu.integrated);
    let local = if discrete.is_empty() { of(&|gpu| gpu.computer.is_none()) } else { discrete };
    [remote, local].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fixtures;

    #[test]
    fn gpus_are_counted_before_they_get_a_place() {
        let card = fixtures::card().gpus[0].clone();
        let refused = |count: usize| {
            gpus(&fixtures::machine(vec![card.clone(); count]), &Settings::default()).unwrap_err().to_string()
        };
        assert!(refused(16).contains("more than 15 GPUs"));
        assert!(refused(255).contains("at most 254 GPUs"));
    }
}
