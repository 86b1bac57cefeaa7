//! A faster placement than the fit's: which GPUs, in which order, with which layers, and whose experts are in RAM.
//!
//! Sets of GPUs are tried in the order of a bound: how fast they were if compute buffers took no memory. A set's layers
//! are placed on its fastest GPU first, then on the next; where not all fit, the experts of as few blocks as possible are
//! in RAM, or as few layers. What that takes is planned exactly, which tells what compute buffers leave to layers.

mod cards;
mod layout;
mod reason;

use std::collections::BTreeMap;

use crate::engine::{EngineId, PlanRequest};
use crate::plan::{Outcome, Plan, Why};
use crate::settings::{Context, DeviceName, Flag, GpuLayers, Settings, SplitMode};
use crate::speed::range::Times;
use crate::speed::terms::FITTED;
use crate::speed::work::Work;
use crate::speed::{Speed, Speeds};
use crate::units::Bytes;
use cards::{Card, Cards};
use layout::{Layer, Layers, Layout, Task, ToRam, signed, unsigned};

/// The options that place a model, and the context that they are for.
const OPTIONS: [Flag; 8] = [
    Flag::Context,
    Flag::GpuLayers,
    Flag::Device,
    Flag::TensorSplit,
    Flag::NCpuMoe,
    Flag::OverrideTensor,
    Flag::NoKvOffload,
    Flag::Fit,
];

/// A placement that is faster by less is not worth another command.
const WORTH: f64 = 1.02;

/// How much faster a placement must be than one that takes a shorter command, or was found before.
const BETTER: f64 = 1.005;

/// How much faster it must be where a slower GPU becomes the first: it computes prompts with the weights that are in RAM,
/// of which speeds say nothing.
const FIRST: f64 = 1.05;

/// Plans of one set of GPUs in one order.
const TRIES: usize = 8;

/// A placement that is faster than the one before.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The request with everything placed, and nothing left to a fit.
    pub request: PlanRequest,
    /// Its plan.
    pub plan: Plan,
    /// The speeds before; none where that does not fit.
    pub before: Option<Speeds>,
    /// The speeds now.
    pub after: Speeds,
    /// Whether it is compared with the context full, as it is hardly faster at the start.
    pub when_full: bool,
    /// Why it is faster, in one sentence.
    pub reason: String,
}

impl Placed {
    /// How many times as fast it is, at the start or with the context full; none where there was no speed before.
    pub fn times(&self) -> Option<Times> {
        let (before, after) = (Seconds::of(self.before.as_ref()?), Seconds::of(&self.after));
        let of = |seconds: Seconds| if self.when_full { seconds.full } else { seconds.start };
        Some(Times(of(before) / of(after)))
    }

    /// `1.6 times as fast.`
    pub fn headline(&self) -> String {
        let full = if self.when_full { " with the context full" } else { "" };
        self.times().map_or_else(|| "It fits.".to_owned(), |times| format!("{times}{full}."))
    }

    /// The options that place it, as llama-server has them, by their names here.
    pub fn options(&self) -> BTreeMap<&'static str, String> {
        let gpus: Vec<usize> = (0..self.request.machine.gpus.len()).collect();
        let settings = self.request.settings.by_own_names(&self.request.machine, &gpus);
        OPTIONS.iter().filter_map(|flag| Some((flag.name(), flag.write(&settings)?))).collect()
    }
}

impl PlanRequest {
    /// Faster and faster placements than that of `plan`, which is this request's plan: one or none per step, so that the
    /// caller can show the best so far, or stop. What the user has set stays. There are none where the engine is told no
    /// placement, speeds are not known, or the user has placed layers or tensors.
    pub fn placements(&self, plan: &Plan) -> impl Iterator<Item = Option<Placed>> + use<> {
        let mut search = PlaceSearch::new(self, plan);
        let tasks = search.as_ref().map(PlaceSearch::tasks).unwrap_or_default();
        tasks.into_iter().map(move |task| search.as_mut()?.step(&task))
    }

    /// The fastest placement that is found; none where that of `plan`, this request's plan, is as fast.
    pub fn placed(&self, plan: &Plan) -> Option<Placed> {
        self.placements(plan).flatten().last()
    }

    /// How many times as fast as `plan`, this request's plan, any placement may be, as if compute buffers took no memory;
    /// none where no speed is known.
    pub fn may_gain(&self, plan: &Plan) -> Option<f64> {
        let search = PlaceSearch::new(self, plan)?;
        let now = search.before?.mean();
        Some(search.tasks().iter().map(|(bound, _)| now / bound).fold(1.0, f64::max))
    }
}

/// Seconds per token with the cache as it is at first, and full.
#[derive(Clone, Copy, Debug)]
struct Seconds {
    start: f64,
    full: f64,
}

impl Seconds {
    fn of(speeds: &Speeds) -> Self {
        let of = |speed: &Speed| speed.tokens_per_second.recip();
        Self { start: of(&speeds.start), full: of(&speeds.full) }
    }

    /// Over a context that fills up.
    fn mean(self) -> f64 {
        f64::midpoint(self.start, self.full)
    }

    fn is_slower(self, than: Self) -> bool {
        self.start > than.start || self.full > than.full
    }
}

/// The search for placements that are faster than that of a plan.
struct PlaceSearch {
    /// With the context in effect, and no placement but what the user has set.
    request: PlanRequest,
    now: Plan,
    /// Of `now`; none where it does not fit.
    speeds: Option<Speeds>,
    before: Option<Seconds>,
    /// The fastest so far.
    best: Option<Seconds>,
    cards: Cards,
    layers: Layers,
    /// The least that the card filled first was seen to take besides layers, and the least that others were.
    besides: [i64; 2],
}

impl PlaceSearch {
    fn new(request: &PlanRequest, now: &Plan) -> Option<Self> {
        let asked = &request.settings;
        let is_placed =
            !asked.tensor_split.is_empty() || !asked.override_tensor.is_empty() || asked.n_cpu_ffn.is_some();
        if request.engine != EngineId::LlamaCpp || is_placed || asked.split_mode != SplitMode::Layer {
            return None;
        }
        let speeds = Speeds::of(&request.model, &request.machine, now, 0);
        if speeds.is_none() && now.outcome() != Outcome::DoesNotFit {
            return None;
        }
        let resolved = request.resolved().ok()??;
        let cards = Cards::new(request, now, &resolved.gpus)?;
        let layers = Layers::new(request, now, resolved.loaded.hparams.n_layer_all);
        let request = request.changed(|settings| {
            settings.no_fit = true;
            if !matches!(settings.ctx, Context::Tokens(_)) {
                settings.ctx = Context::Tokens(now.settings.ctx_total);
            }
        });
        let graphs = cards.0.iter().filter_map(|card| now.devices.get(card.gpu)).map(|device| signed(device.graph));
        let besides = [graphs.min()?; 2];
        let before = speeds.as_ref().map(Seconds::of);
        Some(Self { request, now: now.clone(), speeds, before, best: before, cards, layers, besides })
    }

    /// What may be tried with a bound of its seconds, the most promising first.
    fn tasks(&self) -> Vec<(f64, Task)> {
        let has_experts = self.layers.0.iter().any(|layer| !layer.experts.is_empty());
        let ways: &[ToRam] =
            if has_experts { &[ToRam::Experts, ToRam::ExpertsInPart, ToRam::Layers] } else { &[ToRam::Layers] };
        let caches: &[bool] = if self.request.settings.no_kv_offload { &[true] } else { &[false, true] };
        let mut tasks = Vec::new();
        for (cards, from_output) in self.cards.sets(self.request.settings.devices.is_some()) {
            for (&first, &kv_in_ram) in ways.iter().flat_map(|way| caches.iter().map(move |in_ram| (way, in_ram))) {
                let task = Task { cards: cards.clone(), from_output, first, kv_in_ram };
                let rooms: Vec<i64> = task.cards.iter().map(|card| self.cards.0[*card].room).collect();
                let bound = self.fill(&task, &rooms).and_then(|layout| self.sketch(&task, &layout));
                let bound = bound.filter(|bound| self.before.is_none_or(|before| !bound.is_slower(before)));
                tasks.extend(bound.map(|bound| (bound.mean(), task)));
            }
        }
        // a shorter command comes first
        let cost = |(bound, task): &(f64, Task)| {
            let names_tensors = match task.first {
                ToRam::Experts => task.from_output,
                ToRam::ExpertsInPart => true,
                ToRam::Layers => false,
            };
            if names_tensors { bound * BETTER } else { *bound }
        };
        tasks.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        tasks
    }

    fn fill(&self, task: &Task, rooms: &[i64]) -> Option<Layout> {
        self.layers.fill(task, rooms, self.request.settings.gpu_layers)
    }

    /// How fast the layout would be, by the bytes on each device.
    fn sketch(&self, task: &Task, layout: &Layout) -> Option<Seconds> {
        let mut plan = self.now.clone();
        let cpu = plan.devices.len() - 1;
        let blocks = plan.layers.len() - 1;
        for device in &mut plan.devices[..cpu] {
            (device.weights, device.cache) = (Bytes::ZERO, Bytes::ZERO);
        }
        let mut on_gpus = Bytes::ZERO;
        for (at, layer) in plan.layers.iter_mut().enumerate() {
            let own = if at < blocks { at } else { self.layers.0.len() - 1 };
            let Some(card) = layout.cards[own] else {
                (layer.device, layer.why) = (cpu, Why::NotAskedFor);
                continue;
            };
            layer.device = self.cards.0[task.cards[card]].gpu;
            let elsewhere = unsigned(self.layers.0[own].away(layout.away[own]) + self.layers.0[own].kept);
            layer.why = Why::InPart { needed: layer.weights + layer.cache - elsewhere, elsewhere };
            let device = plan.devices.get_mut(layer.device)?;
            device.weights += layer.weights - elsewhere;
            device.cache += if task.kv_in_ram { Bytes::ZERO } else { layer.cache };
            on_gpus += layer.weights - elsewhere;
        }
        let before: Bytes = self.now.gpus().iter().map(|gpu| gpu.weights).sum();
        let cpu = &mut plan.devices[cpu];
        cpu.weights = cpu.weights + before - on_gpus;
        cpu.ram.mapped = cpu.ram.mapped + before - on_gpus;
        let seconds = |depth: u64| {
            let work = Work::of(&self.request.model, &self.request.machine, &plan, depth)?;
            Some(work.seconds(&FITTED, None))
        };
        Some(Seconds { start: seconds(0)?, full: seconds(plan.settings.ctx_per_sequence)? })
    }

    /// What prompts cost where a slower first device computes them with weights in RAM, as a factor.
    fn cost(&self, task: &Task, layout: &Layout) -> f64 {
        let first = if task.from_output { task.cards.last() } else { task.cards.first() };
        let speed = |card: Option<&usize>| card.map_or(0.0, |card| self.cards.0[*card].speed);
        let is_slower = speed(first) < speed(Some(&0));
        let is_away = |(layer, away): (&Layer, &usize)| layer.kept > 0 || *away > 0;
        let is_in_ram = layout.cards.contains(&None) || self.layers.0.iter().zip(&layout.away).any(is_away);
        if is_slower && is_in_ram { FIRST } else { 1.0 }
    }

    /// Whether so many seconds per token are worth another command, and better than the best so far.
    fn gains(&self, seconds: f64) -> bool {
        let beats = |other: Option<Seconds>, factor: f64| other.is_none_or(|other| seconds * factor < other.mean());
        beats(self.before, WORTH) && beats(self.best, BETTER)
    }

    /// The fastest placement of a task whose bound is this many seconds, if it is faster than the fastest so far.
    fn step(&mut self, (bound, task): &(f64, Task)) -> Option<Placed> {
        let mut found: Option<Placed> = None;
        let mut tried: Vec<Layout> = Vec::new();
        let mut besides: Vec<i64> = (0..task.cards.len()).map(|at| self.besides[usize::from(at > 0)]).collect();
        while self.gains(*bound) && tried.len() < TRIES {
            let rooms = task.cards.iter().zip(&besides).map(|(card, besides)| self.cards.0[*card].room - besides);
            let Some(layout) = self.fill(task, &rooms.collect::<Vec<_>>()) else { break };
            let is_promising = self
                .sketch(task, &layout)
                .is_some_and(|sketched| self.gains(sketched.mean() * self.cost(task, &layout)));
            if tried.contains(&layout) || !is_promising {
                break;
            }
            tried.push(layout.clone());
            let Some((request, plan)) = self.plan(task, &layout) else { break };
            for (at, taken) in self.besides(task, &layout, &plan).into_iter().enumerate() {
                let Some(taken) = taken else { continue };
                besides[at] = taken;
                let least = &mut self.besides[usize::from(at > 0)];
                *least = taken.min(*least);
            }
            let speeds = Speeds::of(&request.model, &request.machine, &plan, 0).filter(|_| self.fits(&plan));
            let Some(after) = speeds else { continue };
            let (seconds, cost) = (Seconds::of(&after), self.cost(task, &layout));
            if self.before.is_none_or(|before| !seconds.is_slower(before)) && self.gains(seconds.mean() * cost) {
                self.best = Some(seconds);
                let when_full = self.before.is_some_and(|before| before.start < seconds.start * WORTH);
                let depth = if when_full { plan.settings.ctx_per_sequence } else { 0 };
                let reason = reason::of(&self.request, &self.now, &plan, depth);
                found = Some(Placed { request, plan, before: self.speeds.clone(), after, when_full, reason });
            }
        }
        found
    }

    /// What each card of a task takes besides its layers, if it has some: compute buffers, a draft, a projector.
    fn besides(&self, task: &Task, layout: &Layout, plan: &Plan) -> Vec<Option<i64>> {
        let layers = self.layers.0.iter().enumerate();
        let of_card = |(at, card): (usize, &usize)| {
            let device = plan.devices.get(self.cards.0[*card].gpu)?;
            let here = layers.clone().filter(|(layer, _)| layout.cards[*layer] == Some(at));
            let here: i64 = here.map(|(index, layer)| layer.here(layout.away[index], task.kv_in_ram)).sum();
            (!device.layers.is_empty()).then(|| signed(device.asked() + device.growth) - here)
        };
        task.cards.iter().enumerate().map(of_card).collect()
    }

    /// Whether `plan` keeps what the fit's keeps, and reads nothing from disk unless that does.
    fn fits(&self, plan: &Plan) -> bool {
        let headrooms = plan.headrooms();
        let keeps = |card: &Card| {
            let device = &plan.devices[card.gpu];
            device.layers.is_empty() || headrooms[card.gpu].left.0 >= signed(device.free) - card.room
        };
        let outcome = plan.outcome();
        let runs = outcome < Outcome::FromDisk || outcome == Outcome::FromDisk && self.now.outcome() == outcome;
        plan.refusal.is_none() && runs && self.cards.0.iter().all(keeps)
    }

    /// The plan of a layout, if the engine places layers so.
    fn plan(&self, task: &Task, layout: &Layout) -> Option<(PlanRequest, Plan)> {
        let mut settings = self.request.settings.clone();
        self.set(task, layout, &mut settings)?;
        let request = self.request.with(settings);
        let plan = request.trial().ok()?;
        let (blocks, output) = (plan.layers.len() - 1, self.layers.0.len() - 1);
        let ram = plan.devices.len() - 1;
        let device = |layer: usize| layout.cards[layer].map_or(ram, |card| self.cards.0[task.cards[card]].gpu);
        let wanted = (0..blocks).chain([output]).map(device);
        let is_as_wanted = plan.layers.iter().map(|layer| layer.device).eq(wanted);
        is_as_wanted.then_some((request, plan))
    }

    /// Writes a layout into `settings`.
    fn set(&self, task: &Task, layout: &Layout, settings: &mut Settings) -> Option<()> {
        let mut order: Vec<usize> = (0..task.cards.len()).collect();
        if task.from_output {
            order.reverse();
        }
        let on = |card: usize| layout.cards.iter().filter(|on| **on == Some(card)).count();
        // a list of devices is the user's, and so is its order
        if settings.devices.is_none() {
            order.retain(|card| on(*card) > 0);
            let gpus: Vec<usize> = order.iter().map(|card| self.cards.0[task.cards[*card]].gpu).collect();
            // those that are used anyway need no name
            if gpus != self.cards.0.iter().map(|card| card.gpu).collect::<Vec<_>>() {
                settings.devices = Some(gpus.into_iter().map(DeviceName::gpu).collect());
            }
        }
        settings.tensor_split = Vec::new();
        if order.len() > 1 {
            settings.tensor_split = order.iter().map(|card| on(*card) as f64).collect();
        }
        if settings.gpu_layers == GpuLayers::Auto {
            settings.gpu_layers = GpuLayers::Count(layout.cards.iter().flatten().count() as u64);
        }
        settings.no_kv_offload = task.kv_in_ram;
        self.layers.keep_experts(layout, settings)
    }
}
