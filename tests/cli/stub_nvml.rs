//! A stub of NVIDIA's management library with the functions that detection calls.
//! The tests build it as a shared library of its own.
//!
//! - `STUB_GPUS`: one `name;uuid;total;free;major.minor;instances;programs` per GPU, separated by `|`. A `!` before the
//!   number of `total` makes it the error code of asking for memory; a `~` before that of `free` lets it shrink by a page at
//!   each call. The last two fields are optional: `instances` switches MIG on, with a comma-separated
//!   `uuid/total/free/name` for each instance (`none`: without one), and `programs` is `pid/bytes/name`.
//! - `STUB_FILE`: a file with the same text, used without `STUB_GPUS` and read again at each call. Its name can also be given
//!   when the stub is built.
//! - `STUB_INIT`: the error code of initialisation.
//! - `STUB_LIE`: what is told instead of the truth: `devices`, `programs` or `instances` (far more than there can be), or
//!   `sleep` (initialisation takes a minute).
//! - `STUB_GATE`: a file that must exist before initialisation ends.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, ptr};

const NOT_SUPPORTED: c_uint = 3;
const NOT_FOUND: c_uint = 6;
const INSUFFICIENT_SIZE: c_uint = 7;
/// Added to a GPU's handle to make an instance's.
const INSTANCE: usize = 1 << 16;

#[repr(C)]
pub struct Memory {
    version: c_uint,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

#[repr(C)]
pub struct Process {
    pid: c_uint,
    bytes: u64,
    instances: [c_uint; 2],
}

#[repr(C)]
pub struct Pci {
    legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    ids: [c_uint; 2],
    bus_id: [c_char; 32],
}

fn gpus() -> Vec<Vec<String>> {
    let named = || env::var("STUB_FILE").ok().or_else(|| option_env!("STUB_FILE").map(str::to_owned));
    let file = || named().and_then(|path| std::fs::read_to_string(path).ok());
    let text = env::var("STUB_GPUS").ok().or_else(file).unwrap_or_default();
    let text = text.trim();
    let gpus = text.split('|').filter(|gpu| !gpu.is_empty());
    gpus.map(|gpu| gpu.split(';').map(str::to_owned).collect()).collect()
}

fn gpu(device: *mut c_void) -> Vec<String> {
    let gpus = gpus();
    gpus[(device as usize % INSTANCE - 1).min(gpus.len() - 1)].clone()
}

/// A field of a GPU or an instance, in the same order for both.
fn of(device: *mut c_void, field: usize) -> String {
    let gpu = gpu(device);
    match (device as usize / INSTANCE).checked_sub(1) {
        None => gpu[field].clone(),
        Some(number) => {
            let instance = &list(&gpu, 5)[number];
            match field {
                0 => instance[3].clone(),
                1 => instance[0].clone(),
                2 => instance[1].clone(),
                3 => instance[2].clone(),
                _ => String::new(),
            }
        }
    }
}

fn list(gpu: &[String], field: usize) -> Vec<Vec<String>> {
    let text = gpu.get(field).map_or("", String::as_str);
    let entries = text.split(',').filter(|entry| !entry.is_empty() && *entry != "none");
    entries.map(|entry| entry.split('/').map(str::to_owned).collect()).collect()
}

unsafe fn put(text: &str, out: *mut c_char, room: usize) {
    assert!(text.len() < room);
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr().cast(), out, text.len());
        *out.add(text.len()) = 0;
    }
}

fn lies(about: &str) -> bool {
    env::var("STUB_LIE").is_ok_and(|lie| lie == about)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_uint {
    if lies("sleep") {
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
    while env::var_os("STUB_GATE").is_some_and(|gate| !std::path::Path::new(&gate).exists()) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    env::var("STUB_INIT").ok().and_then(|code| code.parse().ok()).unwrap_or(0)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_uint {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, room: c_uint) -> c_uint {
    unsafe { put("570.124.06", out, room as usize) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(out: *mut c_int) -> c_uint {
    unsafe { *out = 12080 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(out: *mut c_uint) -> c_uint {
    unsafe { *out = if lies("devices") { c_uint::MAX } else { gpus().len() as c_uint } };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, out: *mut *mut c_void) -> c_uint {
    unsafe { *out = ptr::without_provenance_mut(index as usize + 1) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(device: *mut c_void, out: *mut c_char, room: c_uint) -> c_uint {
    unsafe { put(&of(device, 0), out, room as usize) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(device: *mut c_void, out: *mut c_char, room: c_uint) -> c_uint {
    unsafe { put(&of(device, 1), out, room as usize) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: *mut c_void, out: *mut Memory) -> c_uint {
    let total = of(device, 2);
    if let Some(code) = total.strip_prefix('!') {
        return code.parse().unwrap();
    }
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let (total, free): (u64, String) = (total.parse().unwrap(), of(device, 3));
    let free: u64 = match free.strip_prefix('~') {
        Some(first) => first.parse::<u64>().unwrap().saturating_sub(4096 * CALLS.fetch_add(1, Ordering::Relaxed)),
        None => free.parse().unwrap(),
    };
    unsafe {
        (*out).total = total;
        (*out).free = free;
        (*out).used = total.saturating_sub(free);
        (*out).reserved = 0;
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    device: *mut c_void,
    major: *mut c_int,
    minor: *mut c_int,
) -> c_uint {
    let text = of(device, 4);
    let Some((first, second)) = text.split_once('.') else { return NOT_SUPPORTED };
    unsafe {
        *major = first.parse().unwrap();
        *minor = second.parse().unwrap();
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: *mut c_void, out: *mut Pci) -> c_uint {
    let bus = device as usize as c_uint;
    unsafe {
        ptr::write_bytes(out, 0, 1);
        (*out).bus = bus;
        put(&format!("00000000:{bus:02X}:00.0"), (*out).bus_id.as_mut_ptr(), 32);
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: *mut c_void,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> c_uint {
    let on = gpu(device).get(5).is_some_and(|instances| !instances.is_empty());
    unsafe {
        *current = on.into();
        *pending = on.into();
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(_: *mut c_void, out: *mut c_uint) -> c_uint {
    unsafe { *out = if lies("instances") { c_uint::MAX } else { 7 } };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: *mut c_void,
    index: c_uint,
    out: *mut *mut c_void,
) -> c_uint {
    let index = index as usize;
    if index >= list(&gpu(device), 5).len() {
        return NOT_FOUND;
    }
    unsafe { *out = ptr::without_provenance_mut(device as usize + (index + 1) * INSTANCE) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: *mut c_void,
    count: *mut c_uint,
    out: *mut Process,
) -> c_uint {
    let programs = list(&gpu(device), 6);
    unsafe {
        let room = if out.is_null() { 0 } else { *count as usize };
        *count = if lies("programs") { 4_000_000_000 } else { programs.len() as c_uint };
        if *count as usize > room {
            return INSUFFICIENT_SIZE;
        }
        for (index, program) in programs.iter().enumerate() {
            // all bits set means not available
            let bytes = program[1].parse().unwrap_or(u64::MAX);
            out.add(index).write(Process { pid: program[0].parse().unwrap(), bytes, instances: [c_uint::MAX; 2] });
        }
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    _: *mut c_void,
    _: *mut c_uint,
    _: *mut Process,
) -> c_uint {
    NOT_SUPPORTED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetProcessName(pid: c_uint, out: *mut c_char, room: c_uint) -> c_uint {
    let programs: Vec<_> = gpus().iter().flat_map(|gpu| list(gpu, 6)).collect();
    let Some(program) = programs.iter().find(|program| program[0] == pid.to_string()) else { return NOT_FOUND };
    unsafe { put(&program[2], out, room as usize) };
    0
}
