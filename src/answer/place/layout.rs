//! Which layers are on which card, within the room that each has.

use crate::engine::PlanRequest;
use crate::model::TensorGroup;
use crate::plan::Plan;
use crate::settings::{ALL_LAYERS, Flag, GpuLayers, Settings};
use crate::units::Bytes;

/// A layer's bytes where it is on a GPU as a whole.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    /// What a GPU holds of it, without experts that the user keeps in RAM.
    pub weights: i64,
    /// Its cache.
    pub cache: i64,
    /// Its experts by matrix (`ffn_up_exps`) in the order in which they go to RAM.
    pub experts: Vec<(String, i64)>,
    /// Experts that the user keeps in RAM, which are not in `weights`.
    pub kept: i64,
}

impl Layer {
    /// Bytes on its GPU with its first `away` matrices of experts in RAM.
    pub fn here(&self, away: usize, kv_in_ram: bool) -> i64 {
        self.weights - self.away(away) + if kv_in_ram { 0 } else { self.cache }
    }

    /// Bytes of its first so many matrices of experts.
    pub fn away(&self, matrices: usize) -> i64 {
        self.experts.iter().take(matrices).map(|(_, bytes)| bytes).sum()
    }
}

/// What goes to RAM first where not all fits on GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToRam {
    /// The experts of whole blocks.
    Experts,
    /// The same, and of a block that is the first not to fit on a GPU some matrices.
    ExpertsInPart,
    /// Layers.
    Layers,
}

/// A way to place layers within what room there is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Task {
    /// Indices of cards, in the order in which they are filled.
    pub cards: Vec<usize>,
    /// They are filled from the output layer on instead of from the first block.
    pub from_output: bool,
    /// What goes to RAM first.
    pub first: ToRam,
    /// All caches are in RAM.
    pub kv_in_ram: bool,
}

/// The card and the matrices of experts in RAM of every layer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    /// An index into the task's cards; none for RAM.
    pub cards: Vec<Option<usize>>,
    /// How many matrices of its experts are in RAM.
    pub away: Vec<usize>,
}

/// Every block, then the output layer.
#[derive(Clone, Debug)]
pub(super) struct Layers(pub Vec<Layer>);

impl Layers {
    /// The bytes of `blocks` blocks and of the output layer.
    pub fn new(request: &PlanRequest, now: &Plan, blocks: usize) -> Self {
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
        Self(layers)
    }

    /// A layout within `rooms`, with as few bytes in RAM as the task's way allows; none if not even one layer fits.
    pub fn fill(&self, task: &Task, rooms: &[i64], gpu_layers: GpuLayers) -> Option<Layout> {
        let count = self.0.len();
        let (least, most) = match gpu_layers {
            GpuLayers::Auto => (0, count - 1),
            GpuLayers::All => (0, 0),
            GpuLayers::Count(on_gpus) => {
                let in_ram = count.saturating_sub(usize::try_from(on_gpus).unwrap_or(count));
                (in_ram, in_ram)
            }
        };
        let all = if task.first == ToRam::Layers { 0 } else { count };
        let fits = |in_ram: usize, experts: usize| self.lay_out(task, rooms, in_ram, experts).is_some();
        let in_ram = first(least, most, |in_ram| fits(in_ram, all))?;
        let experts = first(0, all, |experts| fits(in_ram, experts))?;
        self.lay_out(task, rooms, in_ram, experts)
    }

    /// The layout with the first `in_ram` layers in RAM, and of the blocks on GPUs the experts of the first `experts` that
    /// are placed.
    fn lay_out(&self, task: &Task, rooms: &[i64], in_ram: usize, experts: usize) -> Option<Layout> {
        let count = self.0.len();
        let mut layout = Layout { cards: vec![None; count], away: vec![0; count] };
        let (mut card, mut room) = (0, *rooms.first()?);
        for step in 0..count - in_ram {
            let at = if task.from_output { count - 1 - step } else { in_ram + step };
            let layer = &self.0[at];
            // the output layer is no block
            let step = if task.from_output { step.saturating_sub(1) } else { step };
            let all = layer.experts.len();
            let least = if step < experts { all } else { 0 };
            loop {
                let most = if task.first == ToRam::ExpertsInPart && least < all { all - 1 } else { least };
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

    /// Keeps the experts in RAM that the layout has there: those of the first blocks by their number, others by their
    /// names.
    pub fn keep_experts(&self, layout: &Layout, settings: &mut Settings) -> Option<()> {
        let is_whole = |block: usize| layout.away[block] == self.0[block].experts.len();
        let has_some = |block: &usize| !self.0[*block].experts.is_empty() && layout.cards[*block].is_some();
        let all: Vec<usize> = (0..self.0.len()).filter(has_some).collect();
        let leading = all.iter().take_while(|block| is_whole(**block)).count();
        let mut patterns: Vec<String> = Vec::new();
        let whole: Vec<String> =
            all[leading..].iter().filter(|block| is_whole(**block)).map(ToString::to_string).collect();
        if !whole.is_empty() {
            patterns.push(format!(r"blk\.({})\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU", whole.join("|")));
        }
        for block in all[leading..].iter().filter(|block| !is_whole(**block) && layout.away[**block] > 0) {
            let names = self.0[*block].experts.iter().take(layout.away[*block]).map(|(name, _)| name.as_str());
            patterns.push(match names.collect::<Vec<_>>().as_slice() {
                [one] => format!(r"blk\.{block}\.{one}\.=CPU"),
                several => format!(r"blk\.{block}\.({})\.=CPU", several.join("|")),
            });
        }
        if !patterns.is_empty() {
            Flag::OverrideTensor.read(settings, &patterns.join(",")).ok()?;
        }
        // set before, it would be written among the patterns too
        if let Some(last) = leading.checked_sub(1).and_then(|last| all.get(last)) {
            settings.n_cpu_moe = Some(*last as u64 + 1);
        }
        Some(())
    }
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

pub(super) fn signed(bytes: Bytes) -> i64 {
    i64::try_from(bytes.0).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(bytes: i64) -> Bytes {
    Bytes(u64::try_from(bytes).unwrap_or(0))
}
