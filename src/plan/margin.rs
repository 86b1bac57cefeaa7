//! How what a fit keeps free on a GPU came about, in figures and in sentences.

use schemars::JsonSchema;
use serde::Serialize;

use super::{DevicePlan, PartKind, Plan};
use crate::units::Bytes;

/// The margin of a fit on a GPU: the fit leaves as much free for what is loaded after it.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct FitMargin {
    /// Its place in the list of margins.
    #[serde(skip)]
    pub place: usize,
    /// What is asked for: `--fit-target`, or what Ollama sets.
    pub target: Bytes,
    /// What llama-server adds to that.
    pub added: Vec<MarginShare>,
    /// What takes its room after the fit: what is loaded beside the model, and not counted by the fit.
    pub taken: Bytes,
}

/// A share of a projector or a draft that llama-server adds to a margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct MarginShare {
    /// What is loaded.
    pub part: PartKind,
    /// The device on which this share of it is: its place among all devices, GPUs in order and RAM last.
    pub device: usize,
    /// Its size.
    pub bytes: Bytes,
}

impl FitMargin {
    /// The margin.
    pub fn total(&self) -> Bytes {
        self.target + self.added.iter().map(|share| share.bytes).sum()
    }

    /// What of it stays free once all is loaded.
    pub fn left(&self) -> Bytes {
        self.total() - self.taken
    }

    /// Whether something is kept free for another device, or for nothing.
    fn is_misplaced(&self, own: usize) -> bool {
        let own: Bytes = self.added.iter().filter(|share| share.device == own).map(|share| share.bytes).sum();
        own != self.taken || self.total() != self.target + own
    }

    /// What device `own` keeps free and for what.
    fn sentence(&self, own: usize, plan: &Plan) -> String {
        let name = |device: usize| match plan.devices.get(device) {
            Some(device) if device.backend.is_some() => device.id.clone(),
            _ => "RAM".to_owned(),
        };
        let share = |share: &MarginShare| {
            let part = share.part.title();
            if share.device == own {
                format!("{} for the {part} on it", share.bytes)
            } else {
                format!("{} (the {part}'s share of {})", share.bytes, name(share.device))
            }
        };
        let shares: Vec<String> = self.added.iter().filter(|share| share.bytes > Bytes::ZERO).map(share).collect();
        let more = match shares.as_slice() {
            [] => String::new(),
            shares => format!(" llama-server adds {}.", shares.join(" and ")),
        };
        let taken = match (self.taken, self.left()) {
            (Bytes::ZERO, _) => String::new(),
            (taken, Bytes::ZERO) => format!(" What is loaded beside the model takes {taken}, which is no less."),
            (taken, left) => {
                format!(" What is loaded beside the model takes {taken} of that, so that {left} stay free.")
            }
        };
        format!("The fit keeps {} of {} free: {} as asked.{more}{taken}", self.total(), name(own), self.target)
    }
}

impl Plan {
    /// What the fit keeps free of GPUs that hold layers, where that is more than was asked for, one sentence each.
    pub fn kept_free(&self) -> Vec<String> {
        self.margins(|_, gpu, margin| !margin.added.is_empty() && !gpu.layers.is_empty())
    }

    /// The same of GPUs whose margin has something for another device, or nothing for what is loaded there.
    pub fn misplaced_margins(&self) -> Vec<String> {
        self.margins(|at, _, margin| margin.is_misplaced(at))
    }

    fn margins(&self, is_said: impl Fn(usize, &DevicePlan, &FitMargin) -> bool) -> Vec<String> {
        let of = |(at, gpu): (usize, &DevicePlan)| {
            let margin = gpu.margin.as_ref().filter(|margin| is_said(at, gpu, margin))?;
            Some(margin.sentence(at, self))
        };
        self.gpus().iter().enumerate().filter_map(of).collect()
    }
}
