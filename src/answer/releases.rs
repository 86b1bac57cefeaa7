//! What other releases of llama.cpp would take for the same plan.

use std::fmt;

use serde::Serialize;

use crate::engine::PlanRequest;
use crate::machine::DeviceKind;
use crate::plan::{DevicePlan, Plan};
use crate::settings::Release;
use crate::units::{Bytes, Tokens};

/// Another release, and how its plan differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtherRelease {
    /// The release.
    pub release: Release,
    /// Its plan beside the one at hand; why it refuses otherwise.
    #[serde(flatten)]
    pub difference: ReleaseDifference,
}

/// How the plan of another release differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ReleaseDifference {
    /// It plans the same model with the same settings.
    Planned {
        /// All that it would take.
        total: Bytes,
        /// Bytes more than the plan at hand; negative for less.
        more: i64,
        /// The same for each device, GPUs in order, the CPU last.
        devices: Vec<DeviceDifference>,
        /// What it would decide otherwise, each as part of a sentence.
        decisions: Vec<String>,
    },
    /// It refuses.
    Refused {
        /// Why.
        refused: String,
    },
}

/// What another release would take on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceDifference {
    /// The device: `GPU0`, `CPU`.
    pub id: String,
    /// What it would take there.
    pub total: Bytes,
    /// Bytes more than the plan at hand; negative for less.
    pub more: i64,
    /// Whether it is RAM.
    #[serde(skip)]
    pub in_ram: bool,
}

impl PlanRequest {
    /// The releases just before and just after that of `plan`, which is this request's, the newer one first; none if the
    /// engine does not run llama.cpp.
    pub fn neighbouring_releases(&self, plan: &Plan) -> Vec<OtherRelease> {
        self.releases_at(plan, |distance| distance == 1)
    }

    /// The same for all releases but that of `plan`.
    pub fn other_releases(&self, plan: &Plan) -> Vec<OtherRelease> {
        self.releases_at(plan, |distance| distance > 0)
    }

    /// Those at a distance from that of `plan`, in releases, that is `asked` for.
    fn releases_at(&self, plan: &Plan, asked: impl Fn(usize) -> bool) -> Vec<OtherRelease> {
        let releases = self.engine.facts().releases;
        let Some(now) = releases.iter().position(|release| Some(*release) == plan.settings.release) else {
            return Vec::new();
        };
        let wanted = releases.iter().enumerate().filter(|(at, _)| asked(at.abs_diff(now)));
        wanted
            .map(|(_, &release)| {
                let planned = self.changed(|settings| settings.release = Some(release)).plan();
                let difference = match planned {
                    Err(error) => ReleaseDifference::Refused { refused: error.to_string() },
                    Ok(other) => match other.refusal.clone().filter(|_| plan.refusal.is_none()) {
                        Some(refused) => ReleaseDifference::Refused { refused },
                        None => ReleaseDifference::between(plan, &other),
                    },
                };
                OtherRelease { release, difference }
            })
            .collect()
    }
}

impl ReleaseDifference {
    fn between(plan: &Plan, other: &Plan) -> Self {
        let devices = plan.devices.iter().zip(&other.devices).map(|(here, there)| DeviceDifference {
            id: here.id.clone(),
            total: there.asked(),
            more: signed(here.asked(), there.asked()),
            in_ram: here.kind == DeviceKind::Cpu,
        });
        Self::Planned {
            total: other.totals.all,
            more: signed(plan.totals.all, other.totals.all),
            devices: devices.collect(),
            decisions: decisions(plan, other),
        }
    }
}

/// `to` minus `from`.
fn signed(from: Bytes, to: Bytes) -> i64 {
    let apart = i64::try_from(from.0.abs_diff(to.0)).unwrap_or(i64::MAX);
    if to < from { -apart } else { apart }
}

/// What `other` decides otherwise.
fn decisions(plan: &Plan, other: &Plan) -> Vec<String> {
    let mut found = Vec::new();
    let (now, then) = (&plan.settings, &other.settings);
    if now.ctx != then.ctx {
        found.push(format!("the context would be {} instead of {}", Tokens(then.ctx), Tokens(now.ctx)));
    }
    if now.flash_attn != then.flash_attn {
        found.push(format!("flash attention would be {} instead of {}", then.flash_attn, now.flash_attn));
    }
    let layers = |device: &DevicePlan| device.layers.clone();
    if plan.devices.iter().map(layers).ne(other.devices.iter().map(layers)) {
        let on_gpus = |plan: &Plan| format!("{} of {}", plan.on_gpus(), plan.layers.len());
        let (now, then) = (on_gpus(plan), on_gpus(other));
        found.push(if now == then {
            "the layers would be on other devices".to_owned()
        } else {
            format!("{then} layers would be on GPU instead of {now}")
        });
    }
    found
}

impl OtherRelease {
    /// The difference in total, as the end of a sentence: `would take 3.1 MiB less`.
    pub fn in_short(&self) -> String {
        match &self.difference {
            ReleaseDifference::Refused { .. } => "would refuse".to_owned(),
            ReleaseDifference::Planned { more, .. } => format!("would take {}", amount(*more)),
        }
    }
}

/// `2026-08 would take 3.1 MiB less: 2.0 MiB less on GPU0, 1.1 MiB less in RAM.`
impl fmt::Display for OtherRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.release, self.in_short())?;
        let (total, devices, decisions) = match &self.difference {
            ReleaseDifference::Refused { refused } => return write!(f, ": {refused}"),
            ReleaseDifference::Planned { more, devices, decisions, .. } => (*more, devices, decisions),
        };
        let differing: Vec<_> = devices.iter().filter(|device| device.more != 0).collect();
        let place = |device: &DeviceDifference| {
            if device.in_ram { "in RAM".to_owned() } else { format!("on {}", device.id) }
        };
        match differing.as_slice() {
            [] => f.write_str(" on every device")?,
            [one] if one.more == total => write!(f, " {}", place(one))?,
            all => {
                let parts: Vec<_> = all.iter().map(|it| format!("{} {}", amount(it.more), place(it))).collect();
                write!(f, ": {}", parts.join(", "))?;
            }
        }
        decisions.iter().try_for_each(|decision| write!(f, "; {decision}"))?;
        f.write_str(".")
    }
}

/// `3.1 MiB less`, or `the same`.
fn amount(more: i64) -> String {
    let size = Bytes(more.unsigned_abs());
    match more {
        0 => "the same".to_owned(),
        ..0 => format!("{size} less"),
        _ => format!("{size} more"),
    }
}
