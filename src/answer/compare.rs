//! Plans compared row by row, each with the first; the same plan by other releases.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::PlanRequest;
use crate::machine::DeviceKind;
use crate::plan::{DevicePlan, Part, PartKind, Plan};
use crate::settings::Release;
use crate::speed::range::Times;
use crate::speed::turn::{Seconds, TurnTime};
use crate::speed::{SpeedRange, Speeds};
use crate::units::{Bytes, Tokens};

/// A plan to compare, and how fast it is.
#[derive(Clone, Copy, Debug)]
pub struct ComparedPlan<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its speeds, where they can be known.
    pub speeds: Option<&'a Speeds>,
}

/// One plan's value in one row.
#[derive(Clone, Debug, PartialEq)]
pub enum ComparedValue {
    /// Text.
    Words(String),
    /// A number of tokens, sequences or layers.
    Count(u64),
    /// Layers on GPUs of all layers.
    Share(usize, usize),
    /// An amount of memory.
    Size(Bytes),
    /// Tokens per second.
    Speed(SpeedRange),
    /// This plan has no such value, or there is no plan.
    Nothing,
}

/// One value of every plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonRow {
    /// Label of the row.
    pub name: String,
    /// One value for each plan, in order.
    pub figures: Vec<ComparedValue>,
}

/// Rows that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonGroup {
    /// Title of the group.
    pub title: &'static str,
    /// The rows.
    pub rows: Vec<ComparisonRow>,
}

/// How a value differs from the first plan's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Difference {
    /// The same.
    Same,
    /// More memory, by this amount.
    More(Bytes),
    /// Less memory, by this amount.
    Less(Bytes),
    /// So many times as fast.
    Times(Times),
    /// A larger number.
    Higher,
    /// A smaller number.
    Lower,
    /// Different, without an order.
    Other,
}

impl ComparedValue {
    /// How it differs from the first plan's value.
    pub fn against(&self, first: &Self) -> Difference {
        let ordered = |ordering: std::cmp::Ordering| match ordering {
            std::cmp::Ordering::Less => Difference::Lower,
            std::cmp::Ordering::Equal => Difference::Same,
            std::cmp::Ordering::Greater => Difference::Higher,
        };
        match (self, first) {
            _ if self == first => Difference::Same,
            (Self::Size(size), Self::Size(of)) if size > of => Difference::More(*size - *of),
            (Self::Size(size), Self::Size(of)) => Difference::Less(*of - *size),
            (Self::Speed(speed), Self::Speed(of)) => speed.against(of).map_or(Difference::Same, Difference::Times),
            (Self::Count(count), Self::Count(of)) => ordered(count.cmp(of)),
            (Self::Share(part, whole), Self::Share(of, all)) if whole == all => ordered(part.cmp(of)),
            _ => Difference::Other,
        }
    }
}

impl fmt::Display for ComparedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => f.pad(words),
            Self::Count(count) => f.pad(&Tokens(*count).to_string()),
            Self::Share(part, whole) => f.pad(&format!("{part} of {whole}")),
            Self::Size(size) => f.pad(&size.to_string()),
            Self::Speed(range) => range.fmt(f),
            Self::Nothing => f.pad("–"),
        }
    }
}

impl ComparisonRow {
    /// Whether the plans differ in this row.
    pub fn differs(&self) -> bool {
        self.figures.windows(2).any(|pair| pair.first() != pair.last())
    }
}

/// Compares `plans`; a missing one gets [`ComparedValue::Nothing`] in every row.
pub fn compare(compared: &[Option<ComparedPlan<'_>>]) -> Vec<ComparisonGroup> {
    let plans: Vec<Option<&Plan>> = compared.iter().map(|one| one.map(|one| one.plan)).collect();
    let row = |name: &str, of: &dyn Fn(&Plan) -> ComparedValue| ComparisonRow {
        name: name.to_owned(),
        figures: plans.iter().map(|plan| plan.map_or(ComparedValue::Nothing, of)).collect(),
    };
    let words = |text: &str| ComparedValue::Words(text.to_owned());
    let layers = row("layers on GPU", &|plan| ComparedValue::Share(plan.on_gpus(), plan.layers.len()));
    let mut memory = vec![
        row("weights", &|plan| ComparedValue::Size(plan.totals.weights)),
        row("cache", &|plan| ComparedValue::Size(plan.totals.cache)),
        row("compute", &|plan| ComparedValue::Size(plan.totals.graph)),
        row("on GPU", &|plan| ComparedValue::Size(plan.totals.gpu)),
        row("in RAM", &|plan| ComparedValue::Size(plan.totals.cpu)),
    ];
    if plans.iter().flatten().any(|plan| plan.parts_in_ram() > Bytes::ZERO) {
        memory.push(row("parts in RAM", &|plan| ComparedValue::Size(plan.parts_in_ram())));
    }
    for kind in [PartKind::Vision, PartKind::Audio, PartKind::Draft, PartKind::Adapters] {
        let part = |plan: &Plan| plan.parts.iter().find(|part| part.kind == kind).map(Part::total);
        if plans.iter().flatten().any(|plan| part(plan).is_some()) {
            let size = |plan: &Plan| part(plan).map_or(ComparedValue::Nothing, ComparedValue::Size);
            memory.push(row(&format!("{} in all", kind.name()), &size));
        }
    }
    if plans.iter().flatten().any(|plan| plan.gpus().len() > 1) {
        let most = plans.iter().flatten().map(|plan| plan.gpus().len()).max().unwrap_or(0);
        let on = |gpu: usize| move |plan: &Plan| plan.gpus().get(gpu).map_or(ComparedValue::Nothing, size_on);
        memory.extend((0..most).map(|gpu| row(&format!("on GPU{gpu}"), &on(gpu))));
    }
    let mut settings = vec![
        row("context", &|plan| ComparedValue::Count(plan.settings.ctx)),
        row("parallel", &|plan| ComparedValue::Count(plan.settings.parallel)),
        row("KV cache", &|plan| words(&cache_types(plan))),
        row("flash attn", &|plan| words(&plan.settings.flash_attn.to_string())),
        row("batch", &|plan| ComparedValue::Count(plan.settings.batch)),
        row("ubatch", &|plan| ComparedValue::Count(plan.settings.ubatch)),
    ];
    let optional = [
        row("unified KV", &|plan| {
            plan.settings.kv_unified.map_or(ComparedValue::Nothing, |on| words(if on { "on" } else { "off" }))
        }),
        row("outputs", &|plan| plan.settings.outputs.map_or(ComparedValue::Nothing, ComparedValue::Count)),
        row("draft", &|plan| plan.settings.spec_type.as_deref().map_or(ComparedValue::Nothing, words)),
        row("draft n-max", &|plan| plan.settings.spec_draft_n_max.map_or(ComparedValue::Nothing, ComparedValue::Count)),
        row("MoE in RAM", &|plan| plan.settings.n_cpu_moe.map_or(ComparedValue::Nothing, ComparedValue::Count)),
    ];
    // rows that only some engines fill are shown if at least one plan has a value
    settings
        .extend(optional.into_iter().filter(|row| row.figures.iter().any(|figure| *figure != ComparedValue::Nothing)));
    let model = vec![
        row("name", &|plan| words(&plan.model.name)),
        row("quantisation", &|plan| plan.model.file_type.as_deref().map_or(ComparedValue::Nothing, words)),
        row("size", &|plan| ComparedValue::Size(plan.model.bytes)),
    ];
    let planned_for = vec![
        row("engine", &|plan| words(plan.engine.title())),
        row("release", &|plan| plan.settings.release.map_or(ComparedValue::Nothing, |release| words(release.name()))),
        row("figures", &|plan| words(&plan.confidence.to_string())),
        row("GPUs", &|plan| words(&cards(plan))),
        row("GPU memory", &|plan| ComparedValue::Size(plan.gpus().iter().map(|gpu| gpu.total).sum())),
        row("RAM", &|plan| ComparedValue::Size(plan.cpu().total)),
    ];
    let speed = |name: &str, of: fn(&Speeds) -> Option<SpeedRange>| ComparisonRow {
        name: name.to_owned(),
        figures: compared
            .iter()
            .map(|one| one.and_then(|one| of(one.speeds?)).map_or(ComparedValue::Nothing, ComparedValue::Speed))
            .collect(),
    };
    let turn = |name: &str, of: fn(&TurnTime) -> Seconds| ComparisonRow {
        name: name.to_owned(),
        figures: compared
            .iter()
            .map(|one| one.and_then(|one| one.speeds?.turn.as_ref()?.as_ref().ok()))
            .map(|time| time.map_or(ComparedValue::Nothing, |time| words(&of(time).to_string())))
            .collect(),
    };
    let mut speeds = vec![
        speed("at the start", |speeds| Some(speeds.start.range())),
        speed("context full", |speeds| Some(speeds.full.range())),
        speed("prompt", |speeds| Some(speeds.prompt.as_ref().ok()?.range())),
    ];
    let turns = [turn("first token", |time| time.first), turn("last token", |time| time.last)];
    speeds.extend(turns.into_iter().filter(|row| row.figures.iter().any(|figure| *figure != ComparedValue::Nothing)));
    vec![
        ComparisonGroup { title: "Speed, modelled", rows: speeds },
        ComparisonGroup { title: "Memory", rows: std::iter::once(layers).chain(memory).collect() },
        ComparisonGroup { title: "Knobs in effect", rows: settings },
        ComparisonGroup { title: "Model", rows: model },
        ComparisonGroup { title: "Planned for", rows: planned_for },
    ]
}

fn size_on(gpu: &DevicePlan) -> ComparedValue {
    ComparedValue::Size(gpu.asked())
}

/// `f16`, or `q8_0, f16` if K and V differ.
fn cache_types(plan: &Plan) -> String {
    let (k, v) = (plan.settings.cache_type_k, plan.settings.cache_type_v);
    if k == v { k.to_string() } else { format!("{k}, {v}") }
}

/// `2 × RTX 3090`, or the name of every GPU if they differ.
fn cards(plan: &Plan) -> String {
    match plan.gpus() {
        [] => "none".to_owned(),
        [one] => one.name.clone(),
        [first, rest @ ..] if rest.iter().all(|gpu| gpu.name == first.name) => {
            format!("{} × {}", plan.gpus().len(), first.name)
        }
        all => all.iter().map(|gpu| gpu.name.as_str()).collect::<Vec<_>>().join(", "),
    }
}

/// Another release, and how its plan differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherRelease {
    /// The release.
    pub release: Release,
    /// Its plan beside the one at hand; why it refuses otherwise.
    pub difference: ReleaseDifference,
}

/// How the plan of another release differs.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_measured_against_the_first() {
        let size = |mib| ComparedValue::Size(Bytes::mib(mib));
        assert_eq!(size(512).against(&size(300)), Difference::More(Bytes::mib(212)));
        assert_eq!(size(300).against(&size(512)), Difference::Less(Bytes::mib(212)));
        assert_eq!(size(300).against(&size(300)), Difference::Same);
        assert_eq!(ComparedValue::Share(12, 33).against(&ComparedValue::Share(33, 33)), Difference::Lower);
        assert_eq!(
            ComparedValue::Share(12, 33).against(&ComparedValue::Share(9, 81)),
            Difference::Other,
            "layers of other models"
        );
        assert_eq!(ComparedValue::Nothing.against(&size(1)), Difference::Other);
    }
}
