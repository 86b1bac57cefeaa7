//! Lines of `--fit`.

use crate::observed::fit::{FitDevice, FitLayers, FitProjection, FitResult};
use crate::observed::hole::{clip, holes};
use crate::observed::kind::Kind;
use crate::observed::row::{Row, patterns};

/// Lines of `common_params_fit_impl` and `common_fit_params`, or of their names before April 2026.
pub(super) const ROWS: &[Row] = patterns! {
    /// common_params_fit_impl: projected to use 1635 MiB of host memory vs. 6858 MiB of total host memory
    "projected to use {} vs. {} of total host memory" (projected: u64, total: u64) => Kind::Fit, |now| {
        now.load.fit.host.get_or_insert(FitProjection { projected, total, margin: None });
    };
    /// common_params_fit_impl: projected to use 20903 MiB of device memory vs. 22869 MiB of free device memory
    "projected to use {} vs. {}" (projected: u64, free: u64) => Kind::Fit, |now| now.load.fit.project(projected, free);
    /// common_params_fit_impl: will leave 5223 >= 2693 MiB of system memory, no changes needed
    "will leave {}>= {} of system memory" (_: &str, margin: u64) => Kind::Fit, |now| {
        if let Some(host) = &mut now.load.fit.host {
            host.margin.get_or_insert(margin);
        }
    };
    /// common_params_fit_impl: will leave 1966 >= 1024 MiB of free device memory, no changes needed
    "will leave {}>= {}" (_: &str, margin: u64) => Kind::Fit, |now, line| {
        now.load.fit.margin.get_or_insert(margin);
        if line.contains("no changes needed") {
            now.end_fit(FitResult::Fits);
        }
    };
    /// common_fit_params: fitting params to free memory took 0.35 seconds
    "fitting params to free memory took" => Kind::Fit, |now| now.fitting = false;
    /// common_params_fit_impl: cannot meet free memory target of 1024 MiB, need to reduce device memory by 2036 MiB
    "cannot meet free memory target of {}" (target: u64) => Kind::Fit, |now| {
        now.load.fit.target.get_or_insert(target);
    };
    /// llama_params_fit_impl: context size reduced from 131072 to 98304 -> need 1024 MiB less memory in total
    "context size reduced from {} to {}" (from: u64, to: u64) => Kind::Fit, |now| {
        let first = now.load.fit.context.map_or(from, |(first, _)| first);
        now.load.fit.context = Some((first, to));
    };
    /// common_fit_params: successfully fit params to free device memory
    /// common_params_fit_impl: targets for free memory can be met on all devices, no changes needed
    "successfully fit params" | "no changes needed" => Kind::Fit, |now| now.end_fit(FitResult::Fits);
    /// common_fit_params: failed to fit params to free device memory: n_gpu_layers already set by user to 99, abort
    /// common_fit_params: encountered an error while trying to fit params to free device memory: failed to load model
    "failed to fit params {}memory: {}" | "trying to fit params {}memory: {}" (_: &str, why: &str) =>
        Kind::Fit, |now| now.end_fit(FitResult::GaveUp(clip(why, 256)));
    /// common_params_fit_impl:   - CUDA0 (NVIDIA GeForce RTX 4070 SUPER): 15 layers (1 overflowing),   9853 MiB used,   1043 MiB free
    "- {} ({}): {} layers ({} overflowing),{} used,{}"
        (name: &str, _: &str, layers: u64, overflowing: u64, used: u64, free: i64) =>
        Kind::Fit, |now| now.load.fit.add_layers(name, FitLayers { layers, overflowing, used, free });
    /// common_params_fit_impl:   - CUDA0 (NVIDIA GeForce RTX 4070 SUPER): 15 layers,   9853 MiB used,   1043 MiB free
    "- {} ({}): {} layers,{} used,{}" (name: &str, _: &str, layers: u64, used: u64, free: i64) =>
        Kind::Fit, |now| now.load.fit.add_layers(name, FitLayers { layers, overflowing: 0, used, free });
    /// common_params_fit_impl:   - CUDA0 (NVIDIA GeForce RTX 3090): 24117 total, 20903 used,   2869 free vs. target of 1024
    "- {} ({}): {} total,{} used,{} free vs. target of{}"
        (name: &str, _: &str, total: u64, used: u64, left: i64, margin: u64) =>
        Kind::Fit, |now| now.load.fit.add_device(name, FitDevice { total, used, left, margin: Some(margin) });
    /// common_params_fit_impl:   - CUDA0 (NVIDIA GeForce RTX 3090): 24117 total, 20903 used,   2869 free
    "- {} ({}): {} total,{} used,{}" (name: &str, _: &str, total: u64, used: u64, left: i64) =>
        Kind::Fit, |now| now.load.fit.add_device(name, FitDevice { total, used, left, margin: None });
    /// common_params_fit_impl: getting device memory data for initial parameters:
    /// common_fit_params: getting device memory data for initial parameters:
    /// llama_params_fit: getting device memory data for initial parameters:
    "_fit_impl: " | "fit_params: " | "params_fit: " => Kind::Fit, |now| now.fitting = true;
};

/// Output of `llama-fit-params` and `--fit-print`, which has no words of its own.
pub(super) const PRINTED: &[Row] = patterns! {
    /// CUDA0 16386 4950 495
    "^{} {} {} {}" (device: PrintedDevice<'_>, model: u64, context: u64, compute: LastCount) =>
        Kind::Fit, |now| now.load.fit.add_printed(device.0, (model, context, compute.0));
};

struct PrintedDevice<'a>(&'a str);

struct LastCount(u64);

holes! {
    PrintedDevice<'a>: |name| {
        let backend = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let known = ["CUDA", "ROCm", "Vulkan", "SYCL", "MTL", "OpenCL", "RPC", "CANN", "MUSA", "HIP"];
        (name == "Host" || known.contains(&backend) && backend.len() < name.len()).then_some(Self(name))
    };
    LastCount: |text| text.parse().ok().map(Self);
}
