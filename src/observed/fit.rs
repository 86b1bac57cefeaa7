//! What `--fit` says: how much it expects, how much it must leave, and what it changes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{limits, scan};

/// What `--fit` said, of the first parameters that it tried unless stated otherwise; whole MiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Fit {
    /// Memory expected on all devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projected: Option<u64>,
    /// Memory free on all devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    /// Memory to be left free, where it is met at once; with what the server adds for a projector or a draft.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<u64>,
    /// The devices one by one, where there are several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<String, FitDevice>,
    /// Memory to be left free, where it is not met at once.
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
    /// What that leaves of what is free.
    pub left: i64,
    /// What is to be left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<u64>,
}

/// What the fit puts on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FitLayers {
    /// Layers.
    pub layers: u64,
    /// Those of them that keep some tensors elsewhere.
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
    /// It gave up, for this reason; the load goes on with what was given.
    GaveUp(String),
}

impl Fit {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn apply(&mut self, line: &FitLine<'_>) {
        match *line {
            FitLine::Projected(projected, free) => {
                if self.projected.is_none() {
                    (self.projected, self.free) = (Some(projected), Some(free));
                }
            }
            FitLine::Host(projected, total) => {
                self.host = self.host.or(Some(FitProjection { projected, total, margin: None }));
            }
            FitLine::HostMargin(margin) => {
                if let Some(host) = &mut self.host {
                    host.margin = host.margin.or(Some(margin));
                }
            }
            FitLine::Margin(margin) => self.margin = self.margin.or(Some(margin)),
            FitLine::Target(target) => self.target = self.target.or(Some(target)),
            FitLine::Device(name, device) => {
                if self.devices.len() < limits::DEVICES {
                    self.devices.entry(name.to_owned()).or_insert(device);
                }
            }
            FitLine::Layers(name, layers) => {
                if self.layers.len() < limits::DEVICES || self.layers.contains_key(name) {
                    self.layers.insert(name.to_owned(), layers);
                }
            }
            FitLine::Context(from, to) => {
                let from = self.context.map_or(from, |(first, _)| first);
                self.context = Some((from, to));
            }
            FitLine::Fits => self.result = Some(FitResult::Fits),
            FitLine::GaveUp(why) => self.result = Some(FitResult::GaveUp(scan::clip(why, 256))),
            FitLine::Printed(name, figures) => {
                if self.printed.len() < limits::DEVICES {
                    self.printed.insert(name.to_owned(), figures);
                }
            }
            FitLine::Took | FitLine::Other => {}
        }
    }
}

/// What one line of the fit says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FitLine<'a> {
    Projected(u64, u64),
    Host(u64, u64),
    HostMargin(u64),
    Margin(u64),
    Target(u64),
    Device(&'a str, FitDevice),
    Layers(&'a str, FitLayers),
    Context(u64, u64),
    Fits,
    GaveUp(&'a str),
    /// A row of `llama-fit-params`: weights, context and compute of a device.
    Printed(&'a str, (u64, u64, u64)),
    /// It is over.
    Took,
    /// It is at work.
    Other,
}

/// A line of `common_params_fit_impl` and `common_fit_params`, or of their names before April 2026.
pub(super) fn read(text: &str) -> Option<FitLine<'_>> {
    let start = text.find("_fit_impl: ").or_else(|| text.find("fit_params: ")).or_else(|| text.find("params_fit: "))?;
    let (_, rest) = text.get(start..)?.split_once(": ")?;
    let rest = rest.trim();
    Some(line(rest).unwrap_or(FitLine::Other))
}

fn line(rest: &str) -> Option<FitLine<'_>> {
    if let Some(rest) = rest.strip_prefix("projected to use ") {
        let (projected, rest) = scan::count(rest)?;
        let (whole, _) = scan::count(scan::after(rest, " vs. ")?)?;
        let host = rest.contains("host memory");
        return Some(if host { FitLine::Host(projected, whole) } else { FitLine::Projected(projected, whole) });
    }
    if let Some(rest) = rest.strip_prefix("will leave ") {
        let (margin, rest) = scan::count(scan::after(rest, ">= ")?)?;
        let host = rest.contains("system memory");
        return Some(if host { FitLine::HostMargin(margin) } else { FitLine::Margin(margin) });
    }
    if rest.starts_with("fitting params to free memory took") {
        return Some(FitLine::Took);
    }
    if rest.starts_with("cannot meet free memory target") {
        return scan::count_after(rest, "target of ").map(FitLine::Target);
    }
    if let Some(rest) = rest.strip_prefix("context size reduced from ") {
        let (from, rest) = scan::count(rest)?;
        return Some(FitLine::Context(from, scan::count_after(rest, " to ")?));
    }
    if rest.starts_with("successfully fit params") || rest.contains("no changes needed") {
        return Some(FitLine::Fits);
    }
    if rest.contains("trying to fit params") || rest.starts_with("failed to fit params") {
        return Some(FitLine::GaveUp(scan::after(rest, "memory: ").unwrap_or(rest)));
    }
    device(rest.strip_prefix("- ")?)
}

/// `CUDA0 (…): 24117 total, 20903 used, 2869 free vs. target of 1024` or `CUDA0 (…): 15 layers (1 overflowing), …`
fn device(rest: &str) -> Option<FitLine<'_>> {
    let (name, rest) = rest.split_once(" (")?;
    let (_, figures) = rest.rsplit_once("):")?;
    let (first, rest) = scan::count(figures)?;
    if let Some(rest) = rest.strip_prefix(" layers") {
        let overflowing = scan::count_after(rest, "(").unwrap_or_default();
        let rest = rest.split_once(',').map_or(rest, |(_, rest)| rest);
        let (used, rest) = scan::count(rest)?;
        let (free, _) = scan::integer(scan::after(rest, "used,")?)?;
        return Some(FitLine::Layers(name, FitLayers { layers: first, overflowing, used, free }));
    }
    let (used, rest) = scan::count(rest.strip_prefix(" total,")?)?;
    let (left, rest) = scan::integer(scan::after(rest, "used,")?)?;
    let margin = scan::count_after(rest, "target of ");
    Some(FitLine::Device(name, FitDevice { total: first, used, left, margin }))
}

/// `CUDA0 16386 4950 495`, a row of `llama-fit-params` or `--fit-print`.
pub(super) fn printed(text: &str) -> Option<FitLine<'_>> {
    let (name, figures) = text.trim().split_once(' ')?;
    let backend = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let known = ["CUDA", "ROCm", "Vulkan", "SYCL", "MTL", "OpenCL", "RPC", "CANN", "MUSA", "HIP"];
    if name != "Host" && !(known.contains(&backend) && backend.len() < name.len()) {
        return None;
    }
    let (model, rest) = scan::count(figures)?;
    let (context, rest) = scan::count(rest.strip_prefix(' ')?)?;
    let (compute, rest) = scan::count(rest.strip_prefix(' ')?)?;
    rest.trim().is_empty().then_some(FitLine::Printed(name, (model, context, compute)))
}
