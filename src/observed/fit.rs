//! The output of `--fit`: the memory that it projects and must leave free, and what it changes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::limits;

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
    pub(super) fn project(&mut self, projected: u64, free: u64) {
        if self.projected.is_none() {
            (self.projected, self.free) = (Some(projected), Some(free));
        }
    }

    pub(super) fn add_device(&mut self, name: &str, device: FitDevice) {
        if self.devices.len() < limits::DEVICES {
            self.devices.entry(name.to_owned()).or_insert(device);
        }
    }

    pub(super) fn add_layers(&mut self, name: &str, layers: FitLayers) {
        if self.layers.len() < limits::DEVICES || self.layers.contains_key(name) {
            self.layers.insert(name.to_owned(), layers);
        }
    }

    pub(super) fn add_printed(&mut self, name: &str, figures: (u64, u64, u64)) {
        if self.printed.len() < limits::DEVICES {
            self.printed.insert(name.to_owned(), figures);
        }
    }
}
