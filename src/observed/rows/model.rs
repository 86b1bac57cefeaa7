//! Lines of weights and devices, and of a program's build.

use crate::machine::CpuInstructions;
use crate::observed::amount::Mib;
use crate::observed::hole::{self, DeviceName, holes};
use crate::observed::kind::Kind;
use crate::observed::load::Program;
use crate::observed::model::{Folder, ObservedDevice};
use crate::observed::row::{Row, patterns};
use crate::settings::BUILDS;

pub(super) const ROWS: &[Row] = patterns! {
    /// print_info: no_alloc              = 1
    "print_info: no_alloc{}={}" (_: &str, trial: &str) =>
        Kind::Model, |now| now.set_no_alloc(trial == "1");
    /// print_info: n_layer               = 36
    /// llm_load_print_meta: model ftype      = Q4_K - Medium
    "print_info: {}={}" | "print_meta: {}={}" (key: Key<'_>, value: &str) => Kind::Part, |now| now.model().set(key.0, value);
    /// llama_model_loader: loaded meta data with 28 key-value pairs and 399 tensors from /m/q.gguf (version GGUF V3 (latest))
    "loaded meta data with {}pairs and {} tensors from {}" (_: &str, tensors: u64, path: &str) => Kind::Model, |now| {
        let path = path.rsplit_once(" (version").map_or(path, |(path, _)| path);
        let model = now.open_model();
        (model.tensors, model.path) = (Some(tensors), Some(hole::name(path)));
    };
    /// load_tensors: loading model tensors, this can take a while... (mmap = true, direct_io = false)
    "loading model tensors{}" (rest: &str) =>
        Kind::Model, |now| now.open_model().load_mode = hole::between(rest, "(", ")").map(load_mode);
    /// load_tensors: offloaded 20/49 layers to GPU
    "offloaded {}/{} layers to GPU" (on: u64, all: u64) => Kind::Model, |now| now.model().offloaded = Some((on, all));
    /// done_getting_tensors: partial load — used 18 of 866 tensors in the file (rest belong to a sibling model on the same .gguf)
    ": partial load {}used {} of {}" (_: &str, used: u64, of: u64) =>
        Kind::Model, |now| now.model().partial = Some((used, of));
    /// llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 3090) (0000:c1:00.0) - 23774 MiB free
    "using device {} ({..}) ({}) - {}" (name: DeviceName<'_>, text: &str, bus: &str, free: Mib) =>
        Kind::Loading, |now| now.add_device(ObservedDevice {
            bus: bus.contains(':').then(|| hole::clip(bus, 32)),
            ..ObservedDevice::of(name, text, None, Some(free))
        });
    /// llama_model_load_from_file_impl: using device Metal (Apple M2 Max) - 73727 MiB free
    "using device {} ({..}) - {}" (name: DeviceName<'_>, text: &str, free: Mib) =>
        Kind::Loading, |now| now.add_device(ObservedDevice::of(name, text, None, Some(free)));
    ///   Device 0: NVIDIA GeForce RTX 5090, compute capability 12.0, VMM: yes, VRAM: 32105 MiB (31599 MiB free)
    "Device {}:{}VRAM: {} ({} free" (index: u64, text: &str, total: Mib, free: Mib) =>
        Kind::Loading, |now| now.add_device(ObservedDevice::of_cuda(index, text, total, Some(free)));
    ///   Device 0: AMD Radeon RX 7900 XTX, gfx1100 (0x1100), VMM: no, Wave Size: 32, VRAM: 24560 MiB
    "Device {}:{}VRAM: {}" (index: u64, text: &str, total: Mib) =>
        Kind::Loading, |now| now.add_device(ObservedDevice::of_cuda(index, text, total, None));
    /// cmn  common_param:   - CPU     : AMD EPYC (24105 MiB, 24105 MiB free)
    /// Vulkan1 : NVIDIA GeForce RTX 4060 Laptop GPU (7956 MiB, 7188 MiB free)
    "common_param:{}:{..} ({}, {} free" | "^{}:{..} ({}, {} free"
        (name: DeviceName<'_>, text: &str, total: Mib, free: Mib) =>
        Kind::Loading, |now| now.add_device(ObservedDevice::of(name, text, Some(total), Some(free)));
    /// system_info: n_threads = 2 (n_threads_batch = 2) / 2 | CPU : SSE3 = 1 | AVX2 = 1 | AVX512 = 1 | REPACK = 1 |
    "system_info: {}" (features: CpuInstructions) => Kind::Other, |now| now.load.cpu = Some(features);
    /// Welcome to KoboldCpp - Version 1.104
    "Welcome to KoboldCpp - Version {}" (version: &str) =>
        Kind::Start, |now| now.set_version(Program::KoboldCpp, version);
    /// 7:16AM INF LocalAI version: v3.8.0 (9cc8d9086580bd2a96f5c96a6b873242879c70bc)
    /// Aug 22 22:44:03 INFO  LocalAI version version="v4.9.0 (82c191afadf5f005281e798ccfa0ffd0d5805030)"
    "LocalAI version: {}" | "LocalAI version version={}" (version: &str) => Kind::Start, |now| {
        let version = version.trim_matches('"').split(' ').next().unwrap_or_default();
        now.set_version(Program::LocalAi, version.trim_start_matches('v'));
    };
    /// load_backend: loaded CUDA backend from /home/me/.lmstudio/extensions/backends/llama.cpp-linux-x86_64-nvidia-cuda12-avx2-2.41.0/libggml-cuda.so
    /// load_backend: loaded Metal backend from /Users/me/Jan/data/llamacpp/backends/b8892/macos-x64/build/bin/libggml-metal.dylib
    "load_backend: loaded {} backend from {}" (_: &str, folder: Folder<'_>) =>
        Kind::Loading, |now| now.set_folder(&folder);
    /// common_params_print_info: build 9694 (4a79037b8) with Clang 20.1.8 for Windows x86_64
    /// build: 7315 (4a79037b8) with MSVC 19.44
    /// main: build = 3452 (a14e8b2d)
    /// build_info: b9694-4a79037b8
    /// main: build_info = b9694-4a79037b8
    /// version: 9694 (4a79037b8)
    /// version: 0.3.0-dev (build 10621, commit c1d0e7a00)
    "print_info: build {}" | "^build: {}" | "main: build = {}" | "build_info: {}" | "build_info = {}" | "^version: {}"
        (build: Build<'_>) => Kind::Start, |now| {
            now.set_build(build.number);
            now.load.commit = Some(hole::clip(build.commit, 64));
        };
    /// # llama.cpp b11342, Vulkan
    /// llama-server b11342
    /// version b11342 of llama.cpp
    /// build b11342
    "llama.cpp b{}" | "llama-server b{}" | "version b{}" | "build b{}" (tag: Tag) => Kind::Start, |now| now.set_build(tag.0);
};

/// llama.cpp's build: `9694 (4a79037b8)`, `b9694-4a79037b8` or `0.3.0-dev (build 10621, commit c1d0e7a00)`.
struct Build<'a> {
    number: u64,
    commit: &'a str,
}

/// The number of a build that people wrote above a log, in a line that is no command.
struct Tag(u64);

/// A property of a model: words before its `=`, and no further colon.
struct Key<'a>(&'a str);

/// Options that llama.cpp prints where it prints properties.
const OF_THE_PROGRAM: [&str; 1] = ["verbosity"];

holes! {
    Key<'a>: |text| (!text.contains(':') && !OF_THE_PROGRAM.contains(&text)).then_some(Self(text));
    Build<'a>: |text| {
        let word = text.split(' ').next()?;
        if let Some((number, commit)) = word.strip_prefix('b').and_then(|word| word.split_once('-')) {
            return Some(Self { number: number.parse().ok()?, commit });
        }
        let inner = hole::between(text, "(", ")")?.trim();
        if let Some((number, commit)) = inner.strip_prefix("build ").and_then(|inner| inner.split_once(", commit ")) {
            return Some(Self { number: number.parse().ok()?, commit });
        }
        Some(Self { number: word.parse().ok()?, commit: inner })
    };
    Tag: |text| {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, rest) = text.split_at_checked(end)?;
        let number = number.parse().ok().filter(|number| BUILDS.contains(number))?;
        (!rest.starts_with(char::is_alphanumeric) && !rest.contains(" -")).then_some(Self(number))
    };
    Folder<'a>: |path| Folder::of(path);
    // in llama.cpp's line of features: `CPU : AVX2 = 1 | AVX512 = 1 | … |`
    CpuInstructions: |features| {
        let has = |name: &str| {
            features.split('|').any(|part| part.trim().trim_start_matches("CPU : ").trim() == format!("{name} = 1"))
        };
        let known = [
            ("AMX_INT8", CpuInstructions::Amx),
            ("AVX512", CpuInstructions::Avx512),
            ("AVX2", CpuInstructions::Avx2),
            ("MATMUL_INT8", CpuInstructions::NeonI8mm),
            ("DOTPROD", CpuInstructions::NeonDotprod),
        ];
        known.into_iter().find(|(name, _)| has(name)).map(|(_, instructions)| instructions)
    };
}

/// `load_mode = none`, or before August 2026 `mmap = true, direct_io = false`.
fn load_mode(text: &str) -> String {
    let given = |key: &str| hole::after(text, key).map(|rest| rest.split(',').next().unwrap_or(rest).trim());
    if let Some(mode) = given("load_mode = ") {
        return hole::clip(mode, 32);
    }
    match (given("mmap = "), given("direct_io = ")) {
        (Some("true"), _) => "mmap".to_owned(),
        (_, Some("true")) => "dio".to_owned(),
        _ => "none".to_owned(),
    }
}
