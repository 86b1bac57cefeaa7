//! Apple GPUs: they share all memory with the CPU, and Metal recommends how much of it a program should use.
#![cfg_attr(
    not(all(target_os = "macos", target_arch = "aarch64")),
    allow(dead_code, reason = "Metal is not available")
)]

use super::{CollectedGpus, CollectorResult, FoundGpu, GpuProbes};
use crate::machine::budget::{WorkingSet, newest_macos};
use crate::machine::{Backend, Gpu, Ram};
use crate::units::Bytes;

/// Memory as Metal reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Metal {
    /// `recommendedMaxWorkingSetSize`
    pub working_set: Bytes,
    /// `currentAllocatedSize`: bytes allocated by this process.
    pub allocated: Bytes,
}

/// The GPU of a Mac with `ram`, the processor `chip` and the system `macos`, if its version is known. Metal itself says
/// what it may use, by the system's rule or by `iogpu.wired_limit_mb`; without `metal`, [`WorkingSet`] does.
pub(super) fn collect(ram: Ram, chip: &str, macos: Option<u32>, metal: Option<Metal>) -> CollectedGpus {
    let by_rule = WorkingSet::of(ram.total, macos.unwrap_or_else(newest_macos));
    let rule = Metal { working_set: by_rule.bytes, allocated: Bytes::ZERO };
    let Metal { working_set, allocated } = metal.unwrap_or(rule);
    let how = match metal {
        Some(_) => "as Metal recommends".to_owned(),
        None => format!("assumed as usual on {}, because Metal does not respond", by_rule.systems()),
    };
    let facts = vec![
        ("integrated", "yes, CPU and GPU share memory".to_owned()),
        ("pool", format!("{working_set} of {} {how}; sysctl iogpu.wired_limit_mb changes it", ram.total)),
    ];
    let all = Gpu::of(chip, Backend::Metal, working_set);
    let gpu = Gpu { free: working_set - allocated, integrated: true, ..all };
    let probe = move |_: &Ram| Ok(working_set - query().map_or(allocated, |metal| metal.allocated));
    let holders = |_: &[u32]| Err("Metal does not tell what each program holds".to_owned());
    let probes = GpuProbes { free: Box::new(probe), holders: Box::new(holders) };
    let outcome = format!("1 GPU, {working_set} {how}");
    let found = FoundGpu { gpu, facts, processes: Vec::new(), probes };
    CollectedGpus {
        list: vec![found],
        tried: vec![CollectorResult { collector: "metal", outcome }],
        ..CollectedGpus::default()
    }
}

/// The major version of macOS.
pub(super) fn macos() -> Option<u32> {
    crate::machine::drivers::major(&sysinfo::System::os_version().ok()?).ok()
}

/// Queries Metal; none if it has no device.
#[cfg(all(target_os = "macos", target_arch = "aarch64"))]
pub(super) fn query() -> Option<Metal> {
    metal::query()
}

#[cfg(not(all(target_os = "macos", target_arch = "aarch64")))]
pub(super) const fn query() -> Option<Metal> {
    None
}

#[cfg(all(target_os = "macos", target_arch = "aarch64"))]
mod metal {
    use std::ffi::{CStr, c_char, c_void};

    use super::Metal;
    use crate::units::Bytes;

    type Object = *mut c_void;

    #[link(name = "Metal", kind = "framework")]
    unsafe extern "C" {
        fn MTLCreateSystemDefaultDevice() -> Object;
    }
    // without CoreGraphics, a command-line program gets no default device
    #[link(name = "CoreGraphics", kind = "framework")]
    unsafe extern "C" {}
    #[link(name = "objc")]
    unsafe extern "C" {
        fn sel_registerName(name: *const c_char) -> Object;
        fn objc_msgSend();
    }

    fn send(device: Object, message: &CStr) -> u64 {
        // SAFETY: `objc_msgSend` is called with the signature of the method that it dispatches to: an object and a
        // selector in, an unsigned 64-bit number out (`release` returns nothing, and its result is not used).
        // `device` is a live object that responds to `message`.
        unsafe {
            let call: unsafe extern "C" fn(Object, Object) -> u64 =
                std::mem::transmute::<unsafe extern "C" fn(), _>(objc_msgSend);
            call(device, sel_registerName(message.as_ptr()))
        }
    }

    pub(super) fn query() -> Option<Metal> {
        // SAFETY: it takes no arguments and returns an owned object or null.
        let device = unsafe { MTLCreateSystemDefaultDevice() };
        if device.is_null() {
            return None;
        }
        let working_set = Bytes(send(device, c"recommendedMaxWorkingSetSize"));
        let allocated = Bytes(send(device, c"currentAllocatedSize"));
        send(device, c"release");
        Some(Metal { working_set, allocated }).filter(|metal| metal.working_set > Bytes::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAM: Ram = Ram { total: Bytes::gib(64), free: Bytes::gib(50), swap_free: Bytes::ZERO, bandwidth: None };

    #[test]
    fn without_metal_the_working_set_is_assumed() {
        let metal = Metal { working_set: Bytes::gib(56), allocated: Bytes::gib(1) };
        let gpu = &collect(RAM, "Apple M4 Max", Some(26), Some(metal)).list[0].gpu;
        assert_eq!((gpu.total, gpu.free, gpu.integrated), (Bytes::gib(56), Bytes::gib(55), true));
        let gpus = collect(RAM, "Apple M4 Max", Some(15), None);
        assert_eq!(gpus.list[0].gpu.total, Bytes::gib(48));
        assert!(gpus.tried[0].outcome.contains("assumed as usual on macOS 13 to 15"));
        let newer = collect(RAM, "Apple M4 Max", Some(26), None);
        assert!(newer.list[0].gpu.total > Bytes::gib(48));
    }
}
