//! The output of `--fit`: the memory that it projects and must leave free, and what it changes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::limits;
use super::pattern::{Hole, Kind, Row, clip, holes, patterns};

/// The output of `--fit`, for the first parameters that it tried unless stated otherwise; whole MiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Fit {
    /// Memory expected on all devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projected: Option<u64>,
    /// Memory free on all devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    /// Memory to be left free, if these leave it; includes what the server adds for a projector or a draft.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<u64>,
    /// Each device, if there are several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<String, FitDevice>,
    /// Memory to be left free, if these do not leave it.
    #[serde(skip)]
    pub target: Option<u64>,
    /// The same without a GPU: expected, all there is, and to be left free in RAM.
    #[serde(skip)]
    pub host: Option<FitProjection>,
    /// Context before and after it was reduced, in tokens.
    #[serde(skip)]
    pub context: Option<(u64, u64)>,
    /// Layers per device, of the result.
    #[serde(skip)]
    pub layers: BTreeMap<String, FitLayers>,
    /// How it ended.
    #[serde(skip)]
    pub result: Option<FitResult>,
    /// Figures of `llama-fit-params` or `--fit-print`: weights, context, compute per device.
    #[serde(skip)]
    pub printed: BTreeMap<String, (u64, u64, u64)>,
}

/// Memory expected in RAM where there is no GPU, in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FitProjection {
    /// Memory expected.
    pub projected: u64,
    /// All memory.
    pub total: u64,
    /// Memory to be left free.
    pub margin: Option<u64>,
}

/// A device before the fit changes anything, in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FitDevice {
    /// Its memory.
    pub total: u64,
    /// Memory expected.
    pub used: u64,
    /// Memory left free.
    pub left: i64,
    /// Memory to be left free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<u64>,
}

/// The layers that the fit places on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FitLayers {
    /// Layers.
    pub layers: u64,
    /// Those with some tensors elsewhere.
    pub overflowing: u64,
    /// Memory used, in MiB.
    pub used: u64,
    /// Memory left free, in MiB.
    pub free: i64,
}

/// How the fit ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FitResult {
    /// The parameters fit.
    Fits,
    /// It gave up, for this reason; the load goes on with the given parameters.
    GaveUp(String),
}

impl Fit {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The figures of the first parameters that it tries.
    fn project(&mut self, projected: u64, free: u64) {
        if self.projected.is_none() {
            (self.projected, self.free) = (Some(projected), Some(free));
        }
    }

    fn add_device(&mut self, name: &str, device: FitDevice) {
        if self.devices.len() < limits::DEVICES {
            self.devices.entry(name.to_owned()).or_insert(device);
        }
    }

    fn add_layers(&mut self, name: &str, layers: FitLayers) {
        if self.layers.len() < limits::DEVICES || self.layers.contains_key(name) {
            self.layers.insert(name.to_owned(), layers);
        }
    }

    fn add_printed(&mut self, name: &str, figures: (u64, u64, u64)) {
        if self.printed.len() < limits::DEVICES {
            self.printed.insert(name.to_owned(), figures);
        }
    }
}

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
