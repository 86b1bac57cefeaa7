//! A faster placement than the fit's: which GPUs, in which order, with which layers, and whose experts are in RAM.
//!
//! Sets of GPUs are tried in the order of a bound: how fast they were if compute buffers took no memory. A set's layers
//! are placed on its fastest GPU first, then on the next; where not all fit, the experts of as few blocks as possible are
//! in RAM, or as few layers. What that takes is planned exactly, which tells what compute buffers leave to layers.

mod reason;

use crate::engine::{self, EngineId, PlanRequest};
use crate::model::TensorGroup;
use crate::plan::{Outcome, Plan, Why};
use crate::settings::{ALL_LAYERS, Context, DeviceName, Flag, GpuLayers, Settings, SplitMode};
use crate::speed::terms::{FITTED, known};
use crate::speed::work::Work;
use crate::speed::{Speed, Speeds};
use crate::units::Bytes;

/// All sets of so many GPUs are tried; of more GPUs each alone, and the fastest together.
const FEW_GPUS: usize = 4;

/// A placement that is faster by less is not worth another command.
const WORTH: f64 = 1.02;

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
    /// Why it is faster, in one sentence.
    pub reason: String,
}

impl Placed {
    /// How many times as fast it is, over a context that fills up; none where there was no speed before.
    pub fn times(&self) -> Option<f64> {
        Some(Seconds::of(self.before.as_ref()?).mean() / Seconds::of(&self.after).mean())
    }
}

impl PlanRequest {
    /// Faster and faster placements than that of `plan`, which is this request's plan: one or none per step, so that the
    /// caller can show the best so far, or stop. What the user has set stays. There are none where the engine is told no
    /// placement, speeds are not known, or the user has placed layers or tensors.
    pub fn placements(&self, plan: &Plan) -> impl Iterator<Item = Option<Placed>> + use<> {
        let mut search = PlaceSearch::new(self, plan);
        let tasks = search.as_mut().map(PlaceSearch::tasks).unwrap_or_default();
        tasks.into_iter().map(move |task| search.as_mut()?.step(&task))
    }

    /// The fastest placement that is found; none where that of `plan`, this request's plan, is as fast.
    pub fn placed(&self, plan: &Plan) -> Option<Placed> {
        self.placements(plan).flatten().last()
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

/// A layer's bytes where it is on a GPU as a whole.
#[derive(Clone, Debug, Default)]
struct Layer {
    weights: i64,
    cache: i64,
    /// Its experts by matrix (`ffn_up_exps`) in the order in which they go to RAM.
    experts: Vec<(String, i64)>,
    /// Experts that the user keeps in RAM, which are in no other field.
    kept: i64,
}

impl Layer {
    /// Bytes on its GPU with its first `away` matrices of experts in RAM.
    fn here(&self, away: usize, kv_in_ram: bool) -> i64 {
        self.weights - self.away(away) + if kv_in_ram { 0 } else { self.cache }
    }

    fn away(&self, matrices: usize) -> i64 {
        self.experts.iter().take(matrices).map(|(_, bytes)| bytes).sum()
    }
}

/// A GPU that may be used.
#[derive(Clone, Debug, PartialEq)]
struct Card {
    /// Its index in the machine.
    gpu: usize,
    /// Bytes that may be taken.
    room: i64,
    /// Bytes of weights that it reads in a second.
    speed: f64,
    /// Cards of one kind are tried once.
    kind: usize,
}

/// A way to place layers, which `layers` and rooms complete.
#[derive(Clone, Debug, PartialEq)]
struct Task {
    /// Indices of cards, in the order in which they are filled.
    cards: Vec<usize>,
    /// They are filled from the output layer on instead of from the first block.
    from_output: bool,
    /// Experts go to RAM before layers do.
    experts: bool,
    /// A layer that does not fit as a whole may be on a GPU with some matrices of its experts in RAM.
    parts: bool,
    kv_in_ram: bool,
}

/// The card and the matrices of experts in RAM of every layer.
#[derive(Clone, Debug, PartialEq)]
struct Layout {
    /// An index into the task's cards; none for RAM.
    cards: Vec<Option<usize>>,
    away: Vec<usize>,
}

/// The search for placements that are faster than that of a plan.
struct PlaceSearch {
    /// With the context in effect, and no placement but what the user has set.
    request: PlanRequest,
    now: Plan,
    /// Of `now`; none where it does not fit.
    before: Option<Speeds>,
    /// The fastest so far.
    best: Option<Seconds>,
    /// In the order of devices in effect.
    cards: Vec<Card>,
    /// Every block, then the output layer.
    layers: Vec<Layer>,
    /// What the first device takes besides layers, as far as is known, and what others take.
    besides: [i64; 2],
}

impl PlaceSearch {
    fn new(request: &PlanRequest, now: &Plan) -> Option<Self> {
        let asked = &request.settings;
        let is_placed = !asked.tensor_split.is_empty() || !asked.override_tensor.is_empty() || asked.n_cpu_ffn.is_some();
        if request.engine != EngineId::LlamaCpp || is_placed || asked.split_mode != SplitMode::Layer {
            return None;
        }
        let before = Speeds::of(&request.model, &request.machine, now, 0);
        if before.is_none() && now.outcome() != Outcome::DoesNotFit {
            return None;
        }
        let resolved = engine::of(request.engine).resolve(request.parts()).ok()??;
        let cards = cards(request, now, &resolved.gpus)?;
        let layers = layers(request, now, resolved.loaded.hparams.n_layer_all);
        let request = request.changed(|settings| {
            settings.no_fit = true;
            if !matches!(settings.ctx, Context::Tokens(_)) {
                settings.ctx = Context::Tokens(now.settings.ctx_total);
            }
        });
        let graphs = || cards.iter().filter_map(|card| now.devices.get(card.gpu)).map(|device| signed(device.graph));
        let besides = [graphs().max()?, graphs().min()?];
        let best = before.as_ref().map(Seconds::of);
        Some(Self { request, now: now.clone(), before, best, cards, layers, besides })
    }

    /// What may be tried, the most promising first.
    fn tasks(&mut self) -> Vec<(f64, Task)> {
        let has_experts = self.layers.iter().any(|layer| !layer.experts.is_empty());
        let mut tasks = Vec::new();
        for cards in self.sets() {
            for from_output in [false, true] {
                for (experts, parts) in [(true, false), (true, true), (false, false)] {
                    let caches: &[bool] = if self.request.settings.no_kv_offload { &[true] } else { &[false, true] };
                    for &kv_in_ram in caches.iter().filter(|_| has_experts || !experts) {
                        let task = Task { cards: cards.clone(), from_output, experts, parts, kv_in_ram };
                        let rooms: Vec<i64> = task.cards.iter().map(|card| self.cards[*card].room).collect();
                        let bound = self.fill(&task, &rooms).and_then(|layout| self.sketch(&task, &layout));
                        let bound = bound.filter(|bound| !self.before().is_some_and(|before| bound.is_slower(before)));
                        tasks.extend(bound.map(|bound| (bound.mean(), task)));
                    }
                }
            }
        }
        tasks.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        tasks
    }

    fn before(&self) -> Option<Seconds> {
        self.before.as_ref().map(Seconds::of)
    }

    /// The sets of cards that are tried, each with the fastest card first; as they are where the user lists devices.
    fn sets(&self) -> Vec<Vec<usize>> {
        let count = self.cards.len();
        if self.request.settings.devices.is_some() {
            return vec![(0..count).collect()];
        }
        let mut fastest: Vec<usize> = (0..count).collect();
        fastest.sort_by(|a, b| self.cards[*b].speed.total_cmp(&self.cards[*a].speed));
        let mut sets: Vec<Vec<usize>> = if count <= FEW_GPUS {
            let has = |set: usize, at: usize| set >> at & 1 == 1;
            (1..1 << count).map(|set| (0..count).filter(|at| has(set, *at)).map(|at| fastest[at]).collect()).collect()
        } else {
            let prefixes = (2..=count).map(|length| fastest[..length].to_vec());
            fastest.iter().map(|card| vec![*card]).chain(prefixes).collect()
        };
        let mut kinds: Vec<Vec<usize>> = Vec::new();
        sets.retain(|set| {
            let of_set: Vec<usize> = set.iter().map(|card| self.cards[*card].kind).collect();
            let is_new = !kinds.contains(&of_set);
            kinds.push(of_set);
            is_new
        });
        sets
    }

    /// A layout within `rooms`, with as few bytes in RAM as the task's way allows; none if not even one layer fits.
    fn fill(&self, task: &Task, rooms: &[i64]) -> Option<Layout> {
        let count = self.layers.len();
        let (least, most) = match self.request.settings.gpu_layers {
            GpuLayers::Auto => (0, count - 1),
            GpuLayers::All => (0, 0),
            GpuLayers::Count(on_gpus) => {
                let in_ram = count.saturating_sub(usize::try_from(on_gpus).unwrap_or(count));
                (in_ram, in_ram)
            }
        };
        let all = if task.experts { count } else { 0 };
        let fits = |in_ram: usize, experts: usize| self.lay_out(task, rooms, in_ram, experts).is_some();
        if !task.experts && fits(least, 0) {
            return self.lay_out(task, rooms, least, 0);
        }
        if fits(least, all) {
            return self.lay_out(task, rooms, least, first(0, all, |experts| fits(least, experts))?);
        }
        let in_ram = first(least, most, |in_ram| fits(in_ram, all))?;
        let experts = first(0, all, |experts| fits(in_ram, experts))?;
        self.lay_out(task, rooms, in_ram, experts)
    }

    /// The layout with the first `in_ram` layers in RAM, and of the blocks on GPUs the experts of the first `experts` that
    /// are placed.
    fn lay_out(&self, task: &Task, rooms: &[i64], in_ram: usize, experts: usize) -> Option<Layout> {
        let count = self.layers.len();
        let mut layout = Layout { cards: vec![None; count], away: vec![0; count] };
        let (mut card, mut room) = (0, *rooms.first()?);
        for step in 0..count - in_ram {
            let at = if task.from_output { count - 1 - step } else { in_ram + step };
            let layer = &self.layers[at];
            // the output layer is no block
            let step = if task.from_output { step.saturating_sub(1) } else { step };
            let all = layer.experts.len();
            let least = if step < experts { all } else { 0 };
            loop {
                let most = if task.parts && least < all { all - 1 } else { least };
                let away = (least..=most).find(|away| layer.here(*away, task.kv_in_ram) <= room);
                if let Some(away) = away {
                    room -= layer.here(away, task.kv_in_ram);
                    (layout.cards[at], layout.away[at]) = (Some(card), away);
                    break;
                }
                card += 1;
                room = *rooms.get(card)?;
            }
        }
        Some(layout)
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
            let own = if at < blocks { at } else { self.layers.len() - 1 };
            let Some(card) = layout.cards[own] else {
                (layer.device, layer.why) = (cpu, Why::NotAskedFor);
                continue;
            };
            layer.device = self.cards[task.cards[card]].gpu;
            let elsewhere = unsigned(self.layers[own].away(layout.away[own]) + self.layers[own].kept);
            layer.why = Why::InPart { needed: layer.weights + layer.cache - elsewhere, elsewhere };
            let device = plan.devices.get_mut(layer.device)?;
            device.weights += layer.weights - elsewhere;
            device.cache += if task.kv_in_ram { Bytes::ZERO } else { layer.cache };
            on_gpus += layer.weights - elsewhere;
        }
        let before: Bytes = self.now.gpus().iter().map(|gpu| gpu.weights).sum();
        let ram = &mut plan.devices[cpu];
        ram.weights = ram.weights + before - on_gpus;
        ram.mapped = ram.mapped + before - on_gpus;
        let seconds = |depth: u64| {
            let work = Work::of(&self.request.model, &self.request.machine, &plan, depth)?;
            Some(work.seconds(&FITTED, None))
        };
        Some(Seconds { start: seconds(0)?, full: seconds(plan.settings.ctx_per_sequence)? })
    }

    /// The fastest placement of a task whose bound is this many seconds, if it is faster than the fastest so far.
    fn step(&mut self, (bound, task): &(f64, Task)) -> Option<Placed> {
        let worth = |seconds: f64, best: Option<Seconds>, factor: f64| best.is_none_or(|best| seconds * factor < best.mean());
        let mut found: Option<Placed> = None;
        let mut tried: Vec<Layout> = Vec::new();
        let last = task.cards.len() - 1;
        // in the order in which cards are filled
        let first = if task.from_output { last } else { 0 };
        let mut besides: Vec<i64> = (0..=last).map(|at| self.besides[usize::from(at != first)]).collect();
        if !worth(*bound, self.before(), WORTH) || !worth(*bound, self.best, 1.0) {
            return None;
        }
        while tried.len() < TRIES {
            let rooms = task.cards.iter().zip(&besides).map(|(card, besides)| self.cards[*card].room - besides);
            let layout = self.fill(task, &rooms.collect::<Vec<_>>())?;
            if tried.contains(&layout) {
                break;
            }
            tried.push(layout.clone());
            let sketched = self.sketch(task, &layout)?;
            if !worth(sketched.mean(), self.before(), WORTH) || !worth(sketched.mean(), self.best, 1.0) {
                break;
            }
            let Some((request, plan)) = self.plan(task, &layout) else { break };
            let mut fits = plan.refusal.is_none() && plan.outcome() <= self.now.outcome().max(Outcome::Cpu);
            let headrooms = plan.headrooms();
            for (at, card) in task.cards.iter().enumerate() {
                let Card { gpu, room, .. } = self.cards[*card];
                let (device, headroom) = (&plan.devices[gpu], headrooms[gpu]);
                let here: i64 = (0..self.layers.len())
                    .filter(|layer| layout.cards[*layer] == Some(at))
                    .map(|layer| self.layers[layer].here(layout.away[layer], task.kv_in_ram))
                    .sum();
                besides[at] = signed(device.asked() + device.growth) - here;
                self.besides[usize::from(at != first)] = besides[at];
                let kept = signed(device.free) - room;
                fits &= device.layers.is_empty() || headroom.left.0 >= kept;
            }
            let Some(after) = Speeds::of(&request.model, &request.machine, &plan, 0).filter(|_| fits) else { continue };
            let seconds = Seconds::of(&after);
            let is_slower = self.before().is_some_and(|before| seconds.is_slower(before));
            if !is_slower && worth(seconds.mean(), self.before(), WORTH) && worth(seconds.mean(), self.best, 1.0) {
                self.best = Some(seconds);
                let reason = reason::of(&self.request, &self.now, &plan);
                found = Some(Placed { request, plan, before: self.before.clone(), after, reason });
            }
        }
        found
    }

    /// The plan of a layout, if the engine places layers so.
    fn plan(&self, task: &Task, layout: &Layout) -> Option<(PlanRequest, Plan)> {
        let mut settings = self.request.settings.clone();
        self.set(task, layout, &mut settings)?;
        let request = self.request.with(settings);
        let plan = request.plan().ok()?;
        let (blocks, output) = (plan.layers.len() - 1, self.layers.len() - 1);
        let ram = plan.devices.len() - 1;
        let device = |layer: usize| layout.cards[layer].map_or(ram, |card| self.cards[task.cards[card]].gpu);
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
        if settings.devices.is_none() {
            order.retain(|card| on(*card) > 0);
            let gpus: Vec<usize> = order.iter().map(|card| self.cards[task.cards[*card]].gpu).collect();
            // those that are used anyway need no name
            if gpus != self.cards.iter().map(|card| card.gpu).collect::<Vec<_>>() {
                settings.devices = Some(gpus.into_iter().map(DeviceName::gpu).collect());
            }
        } else if task.from_output {
            // the order is the user's
            return None;
        }
        settings.tensor_split = Vec::new();
        if order.len() > 1 {
            settings.tensor_split = order.iter().map(|card| on(*card) as f64).collect();
        }
        if settings.gpu_layers == GpuLayers::Auto {
            settings.gpu_layers = GpuLayers::Count(layout.cards.iter().flatten().count() as u64);
        }
        settings.no_kv_offload = task.kv_in_ram;
        self.set_experts(layout, settings)
    }

    /// Keeps the experts in RAM that the layout has there: those of the first blocks by their number, others by their
    /// names.
    fn set_experts(&self, layout: &Layout, settings: &mut Settings) -> Option<()> {
        let is_whole = |block: usize| layout.away[block] == self.layers[block].experts.len();
        let has_some = |block: &usize| !self.layers[*block].experts.is_empty() && layout.cards[*block].is_some();
        let all: Vec<usize> = (0..self.layers.len()).filter(has_some).collect();
        let leading = all.iter().take_while(|block| is_whole(**block)).count();
        if let Some(last) = leading.checked_sub(1).and_then(|last| all.get(last)) {
            settings.n_cpu_moe = Some(*last as u64 + 1);
        }
        let mut patterns: Vec<String> = Vec::new();
        let whole: Vec<String> =
            all[leading..].iter().filter(|block| is_whole(**block)).map(ToString::to_string).collect();
        if !whole.is_empty() {
            patterns.push(format!(r"blk\.({})\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU", whole.join("|")));
        }
        for block in all[leading..].iter().filter(|block| !is_whole(**block) && layout.away[**block] > 0) {
            let names = self.layers[*block].experts.iter().take(layout.away[*block]).map(|(name, _)| name.as_str());
            patterns.push(format!(r"blk\.{block}\.({})\.=CPU", names.collect::<Vec<_>>().join("|")));
        }
        if !patterns.is_empty() {
            Flag::OverrideTensor.read(settings, &patterns.join(",")).ok()?;
        }
        Some(())
    }
}

/// The GPUs among `used` with what the engine and the driver leave of them; none if the bandwidth of one is not known.
fn cards(request: &PlanRequest, now: &Plan, used: &[usize]) -> Option<Vec<Card>> {
    let headrooms = now.headrooms();
    let mut cards: Vec<Card> = Vec::new();
    for &gpu in used {
        let card = request.machine.gpus.get(gpu)?;
        let (family, bandwidth) = known(card)?;
        let kept = headrooms.get(gpu)?;
        let room = signed(now.devices.get(gpu)?.free) - signed(kept.kept.max(kept.driver));
        let speed = bandwidth.per_second() * FITTED.of(family).weights;
        let is_alike = |other: &&Card| {
            let there = &request.machine.gpus[other.gpu];
            (&there.name, there.backend, there.compute, other.room) == (&card.name, card.backend, card.compute, room)
        };
        let kind = cards.iter().find(is_alike).map_or(cards.len(), |same| same.kind);
        cards.push(Card { gpu, room, speed, kind });
    }
    Some(cards)
}

/// The bytes of `blocks` blocks and of the output layer.
fn layers(request: &PlanRequest, now: &Plan, blocks: usize) -> Vec<Layer> {
    let mut layers = vec![Layer::default(); blocks + 1];
    let output = now.layers.len() - 1;
    for (at, planned) in now.layers.iter().enumerate() {
        let Some(layer) = layers.get_mut(if at < output { at } else { blocks }) else { continue };
        (layer.weights, layer.cache) = (signed(planned.weights), signed(planned.cache));
        if at == output {
            continue;
        }
        for tensor in request.model.tensors(TensorGroup::Block(at)) {
            let name = tensor.name.split('.').nth(2).unwrap_or_default();
            if !name.ends_with("_exps") && !name.ends_with("_chexps") {
                continue;
            }
            match layer.experts.iter_mut().find(|(known, _)| known == name) {
                Some((_, bytes)) => *bytes += signed(tensor.bytes),
                None => layer.experts.push((name.to_owned(), signed(tensor.bytes))),
            }
        }
        // a token passes up and gate first
        layer.experts.sort_by_key(|(name, _)| name.contains("down"));
        let given = request.settings.n_cpu_moe;
        if given.is_some_and(|count| count == ALL_LAYERS || (at as u64) < count) {
            layer.kept = layer.away(layer.experts.len());
            layer.weights -= layer.kept;
        }
        // what the user says of experts stays
        if given.is_some() {
            layer.experts.clear();
        }
    }
    layers
}

/// The first of `least..=most` that `holds`, where all after one that holds do too.
fn first(least: usize, most: usize, holds: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut low, mut high) = (least, most);
    if least > most || !holds(most) {
        return None;
    }
    while low < high {
        let middle = usize::midpoint(low, high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(high)
}

fn signed(bytes: Bytes) -> i64 {
    i64::try_from(bytes.0).unwrap_or(i64::MAX)
}

fn unsigned(bytes: i64) -> Bytes {
    Bytes(u64::try_from(bytes).unwrap_or(0))
}
