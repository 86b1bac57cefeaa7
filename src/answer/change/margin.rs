//! A lower margin: how little a fit may keep free of each GPU, so that what its driver takes still has room.
//!
//! A fit keeps 1 GiB of every GPU free (`--fit-target`), or what Ollama asks for beside a projector. What of that is needed
//! is what the driver takes, and on the card that shows the desktop what the desktop may take. The plan says to the byte what
//! is left then, at the whole context and with the largest image.

use super::Change;
use crate::answer::Goal;
use crate::engine::PlanRequest;
use crate::machine::Gpu;
use crate::machine::budget::{Basis, DriverMemory};
use crate::plan::{DevicePlan, Outcome, Plan, PlanSummary, headrooms};
use crate::settings::Flag;
use crate::units::{Bytes, Difference};

/// What a desktop may take more while a model runs on its card. Assumed: what it has is no longer free anyway.
const DESKTOP: Bytes = Bytes::mib(256);

/// Targets are whole steps of this where that suffices.
const STEP: Bytes = Bytes::mib(64);

/// At least so much more is tried where a GPU has less left than it must.
const LEAST_MORE: Bytes = Bytes::mib(16);

/// Plans of one search.
const TRIES: usize = 8;

/// A lower margin that meets a goal.
#[derive(Clone, Debug, PartialEq)]
pub struct LowerMargin {
    /// The change.
    pub change: Change,
    /// What stays free then, as a clause.
    pub stays: Option<String>,
}

/// The least that must stay free of `gpu` once all is loaded: all that its driver may take, and what its desktop may; none
/// where nothing is known of the driver.
pub fn least_kept(gpu: &Gpu, driver: Option<&DriverMemory>, has_experts: bool) -> Option<Bytes> {
    Some(driver?.most(has_experts) + desktop(gpu))
}

fn desktop(gpu: &Gpu) -> Bytes {
    if gpu.shows_desktop() { DESKTOP } else { Bytes::ZERO }
}

/// The target of one GPU.
#[derive(Clone, Copy)]
struct Target {
    /// Its place in the list of targets.
    place: usize,
    /// Its index in the machine.
    gpu: usize,
    /// As it is.
    now: Bytes,
    /// The least that must stay free.
    least: Bytes,
    /// What must be asked for, so that this stays free beside what is loaded there.
    lowest: Bytes,
}

impl Target {
    /// That of the GPU with this index, if the fit keeps something of it free.
    fn of(request: &PlanRequest, gpu: usize, device: &DevicePlan) -> Option<Self> {
        let margin = device.margin.as_ref()?;
        let has_experts = request.model.hyper.experts.is_some();
        let least = least_kept(request.machine.gpus.get(gpu)?, device.driver.as_ref(), has_experts);
        let added = margin.total() - margin.target;
        let lowest = least.map_or(margin.target, |least| (least + margin.taken - added).max(least));
        Some(Self { place: margin.place, gpu, now: margin.target, least: least.unwrap_or_default(), lowest })
    }

    /// The lowest in whole steps, but not above what it is.
    fn rounded(&self, step: Bytes) -> Bytes {
        Bytes(self.lowest.0.checked_next_multiple_of(step.0).unwrap_or(self.lowest.0)).min(self.now)
    }
}

impl PlanRequest {
    /// The lowest margin with which `goal` is met, where `plan`, this request's plan, has something in RAM. None where no
    /// margin helps, or the engine cannot be told one.
    pub fn lower_margin(&self, plan: &Plan, goal: Goal) -> Option<LowerMargin> {
        let is_all_in_vram = plan.outcome() <= Outcome::Tight;
        if is_all_in_vram || plan.refusal.is_some() || !Flag::FitTarget.is_read_by(self.engine) {
            return None;
        }
        let gpus = plan.gpus().iter().enumerate();
        let mut targets: Vec<Target> = gpus.filter_map(|(gpu, device)| Target::of(self, gpu, device)).collect();
        targets.sort_by_key(|target| target.place);
        if goal == Goal::Vram && !may_suffice(plan, &targets) {
            return None;
        }
        let mib = Bytes::mib(1);
        let rounded = targets.iter().map(|target| target.rounded(STEP)).collect();
        let exact: Vec<Bytes> = targets.iter().map(|target| target.rounded(mib)).collect();
        let highest = exact.iter().copied().max().unwrap_or_default();
        let same = targets.iter().map(|target| highest.min(target.now)).collect();
        let mut first: Vec<Vec<Bytes>> = vec![rounded, exact, same];
        first.dedup();
        first.into_iter().find_map(|asked| self.margin_from(asked, &targets, goal))
    }

    /// The first margin that meets `goal` and leaves what must stay free: what is `asked`, or more where a GPU has less left. Several
    /// GPUs get other layers and compute buffers with other margins, so that more kept free of one may leave less of it.
    fn margin_from(&self, mut asked: Vec<Bytes>, targets: &[Target], goal: Goal) -> Option<LowerMargin> {
        for _ in 0..TRIES {
            let pairs = || targets.iter().zip(&asked);
            if pairs().any(|(target, asked)| *asked > target.now) || pairs().all(|(target, asked)| *asked == target.now)
            {
                return None;
            }
            let change = Change::FitTarget(together(&asked));
            let then = self.after_without_notes(&change)?;
            let summary = then.nearly(goal)?;
            let largest = match then.with_any_image() {
                Some(then) => Some(then.nearly(goal)?),
                None => None,
            };
            let all = [Some(&summary), largest.as_ref()].into_iter().flatten();
            let Some(lacks) = all.into_iter().find_map(|summary| lacks(&summary.devices, targets)) else {
                let stays = what_stays(&then, &summary.devices);
                return goal.is_met_in(&summary).then_some(LowerMargin { change, stays });
            };
            for (asked, lacks) in asked.iter_mut().zip(lacks).filter(|(_, lacks)| *lacks > Bytes::ZERO) {
                *asked += Bytes(lacks.max(LEAST_MORE).0.next_multiple_of(Bytes::mib(1).0));
            }
        }
        None
    }

    /// The summary of its plan, if that meets `goal` but for what stays free.
    fn nearly(&self, goal: Goal) -> Option<PlanSummary> {
        if !self.may_meet(goal) {
            return None;
        }
        let summary = self.summary(goal.fit_goal()).ok().flatten()?;
        let is_near = match goal {
            Goal::Vram | Goal::VramWith(_) => summary.outcome() <= Outcome::Tight,
            Goal::AllLayers => summary.outcome() <= Outcome::ExpertsInRam,
            Goal::AtLeast(_) | Goal::Layer(_) => goal.is_met_in(&summary),
        };
        is_near.then_some(summary)
    }

    /// The same for the largest image, if a smaller one is planned for.
    fn with_any_image(&self) -> Option<Self> {
        self.settings.mmproj.image.is_some().then(|| self.changed(|settings| settings.mmproj.image = None))
    }
}

/// How much less than the least stays free of each GPU, if that is so of any.
fn lacks(devices: &[DevicePlan], targets: &[Target]) -> Option<Vec<Bytes>> {
    let headrooms = headrooms(devices);
    let lack = |target: &Target| match (devices.get(target.gpu), headrooms.get(target.gpu)) {
        (Some(device), Some(headroom)) if !device.layers.is_empty() => {
            (headroom.left - target.least.max(headroom.kept)).lacking()
        }
        _ => Bytes::ZERO,
    };
    let lacks: Vec<Bytes> = targets.iter().map(lack).collect();
    lacks.iter().any(|lack| *lack > Bytes::ZERO).then_some(lacks)
}

/// Whether what runs from RAM could have room at all: in what no longer stays free, what is left, and the compute buffers,
/// which may be smaller then.
fn may_suffice(plan: &Plan, targets: &[Target]) -> bool {
    let headrooms = plan.headrooms();
    let room = |target: &Target| {
        let (device, left) = (plan.devices.get(target.gpu)?, headrooms.get(target.gpu)?.above_kept());
        Some(left.left() + (target.now - target.rounded(Bytes::mib(1))) + device.graph)
    };
    let room: Bytes = targets.iter().filter_map(room).sum();
    plan.cpu().ram.run + plan.cpu().cache <= room
}

/// One target where all are the same.
fn together(targets: &[Bytes]) -> Vec<Bytes> {
    match targets {
        [first, others @ ..] if others.iter().all(|other| other == first) => vec![*first],
        list => list.to_vec(),
    }
}

/// What stays free of the devices of `request`'s plan beside what drivers take, as a clause: `178 MiB stay free on GPU0. Beside
/// that CUDA has 451 MiB to 456 MiB (as seen on an RTX 4090)`.
pub(super) fn what_stays(request: &PlanRequest, devices: &[DevicePlan]) -> Option<String> {
    let (machine, has_experts) = (&request.machine, request.model.hyper.experts.is_some());
    let used =
        devices.iter().zip(headrooms(devices)).zip(&machine.gpus).filter(|((device, _), _)| !device.layers.is_empty());
    let spares = used.filter_map(|((device, headroom), gpu)| {
        let driver = device.driver?;
        Some((headroom.left - least_kept(gpu, Some(&driver), has_experts)?, device, driver, gpu))
    });
    let used: Vec<(Difference, &DevicePlan, DriverMemory, &Gpu)> = spares.collect();
    let (spare, device, driver, gpu) = used.iter().min_by_key(|(spare, ..)| *spare)?;
    let place = if used.len() > 1 { format!(" on {}", device.id) } else { String::new() };
    let mut beside = Vec::new();
    if driver.most(has_experts) > Bytes::ZERO {
        let first = match driver.first_prompt(has_experts) {
            Bytes::ZERO => String::new(),
            growth => format!(" and {growth} at the first prompt"),
        };
        let known = match driver.basis {
            Basis::Assumed => "assumed; plimsoll check LOG --remember measures it".to_owned(),
            _ => driver.known_from(),
        };
        beside.push(format!("{} has {}{first} ({known})", driver.backend.name(), driver.held()));
    }
    if gpu.shows_desktop() {
        beside.push(format!("its desktop has {DESKTOP} (assumed)"));
    }
    let beside: Vec<String> = beside.iter().map(|what| format!(". Beside that {what}")).collect();
    let beside = beside.concat();
    Some(format!("{} stay free{place}{beside}", spare.left()))
}
