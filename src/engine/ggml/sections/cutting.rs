//! How sections are cut, what crosses where, and what is wanted of it later.

use super::ahead::Ahead;
use super::door::Bound;
use super::kind::Noted;
use super::order::Order;
use super::{Entry, Section, Sections, Settled};
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::number::Number;
use crate::engine::ggml::schedule::{Crossed, Scheduler, Split};
use crate::engine::ggml::tensor::{Id, Place};

impl Sections {
    /// How each section is cut.
    pub(super) fn cut_all(&mut self, scheduler: &Scheduler<'_>, settled: &Settled<'_>) -> Vec<usize> {
        let Settled { graph, whereabouts, .. } = settled;
        let places = &whereabouts.places;
        let Self { all: sections, kinds, order, placings, .. } = self;
        for (at, (section, placing)) in sections.iter().zip(&mut *placings).enumerate() {
            let moved = whereabouts.moved_in(at);
            if placing.0 < moved {
                let computed = graph.computed[section.computed.clone()].iter().map(|id| places[id.index()]);
                let which = kinds[section.kind].placing(section.placing(order, graph, places), || devices(computed));
                *placing = (moved, which);
            }
        }
        let placings: Vec<usize> = placings.iter().map(|(_, placing)| *placing).collect();
        let mut devices_behind = vec![0; sections.len()];
        for at in (1..sections.len()).rev() {
            let devices = kinds[sections[at].kind].devices[placings[at]];
            devices_behind[at - 1] = devices_behind[at] | devices;
        }
        let beginning = scheduler.beginning(graph, places);
        let mut bound = self.doors[self.all[0].doors[0]].bound(Bound { beginning, crossed: Vec::new() });
        let mut cuts = Vec::with_capacity(self.all.len());
        for (at, placing) in placings.into_iter().enumerate() {
            let (cut, next) = self.cut(at, (bound, placing, devices_behind[at]), scheduler, settled);
            cuts.push(cut);
            bound = next;
        }
        cuts
    }

    fn cut(
        &mut self,
        at: usize,
        found: (usize, usize, u32),
        scheduler: &Scheduler<'_>,
        settled: &Settled<'_>,
    ) -> (usize, usize) {
        let Self { all: sections, kinds, doors, order, .. } = self;
        let Settled { graph, whereabouts, .. } = settled;
        let section = &sections[at];
        let kind = &mut kinds[section.kind];
        if let Some(known) = kind.cut_at.get(&found) {
            return *known;
        }
        let ([before, behind], [base, next_base]) = (section.doors, section.bases);
        let (bound, placing, devices_behind) = found;
        let Bound { beginning, crossed } = &doors[before].bounds[bound];
        let mut crossed: Crossed = crossed.iter().map(|(number, place)| (order.id(*number, base), *place)).collect();
        let ranges = (section.nodes.clone(), section.computed.clone());
        let cut = scheduler.cut(graph, &whereabouts.places, &mut crossed, beginning, ranges);
        let beginning = cut.end(beginning, scheduler.rules.most_inputs.is_some());
        // where nothing is computed any more, nobody asks what was copied there
        let wanted = crossed.into_iter().filter(|(_, place)| devices_behind & device(*place) != 0);
        let crossed = wanted.map(|(id, place)| (order.number(id, next_base), place)).collect();
        let next = doors[behind].bound(Bound { beginning, crossed });
        let cut = kind.cuts.which(Noted::new(section, order, settled, &cut, placing));
        kind.cut_at.insert(found, (cut, next));
        (cut, next)
    }

    /// What is still wanted of what there is before each section, and behind the last.
    pub(super) fn look_ahead_of_all(&mut self, cuts: &[usize], pipeline: bool) -> Vec<usize> {
        let count = self.all.len();
        let mut ahead = vec![0; count + 1];
        ahead[count] = self.doors[self.all[count - 1].doors[1]].ahead(Ahead::default());
        for at in (0..count).rev() {
            ahead[at] = self.look_ahead(at, cuts[at], ahead[at + 1], pipeline);
        }
        ahead
    }

    fn look_ahead(&mut self, at: usize, cut: usize, behind: usize, pipeline: bool) -> usize {
        let section = &self.all[at];
        if let Some(known) = self.kinds[section.kind].ahead_of.get(&(cut, behind)) {
            return *known;
        }
        let entries = self.entries(at, cut, behind);
        let ahead = self.doors[section.doors[1]].aheads[behind].counted_from(section.bases[1], section.bases[0]);
        let is_there = |number: Number| self.order.is_there(self.order.id(number, section.bases[0]), at);
        let noted = &self.kinds[section.kind].cuts[cut];
        let ahead = ahead.before(noted, &entries, section.views(&self.order), (at > 0, pipeline), is_there);
        let ahead = self.doors[section.doors[0]].ahead(ahead);
        self.kinds[section.kind].ahead_of.insert((cut, behind), ahead);
        ahead
    }

    /// The splits that begin in a section, the first of all included.
    pub(super) fn entries(&self, at: usize, cut: usize, behind: usize) -> Vec<Entry> {
        let section = &self.all[at];
        let cut = &self.kinds[section.kind].cuts[cut];
        let pending = &self.doors[section.doors[1]].aheads[behind].pending;
        let entry = |(number, split): (usize, &Split)| {
            let mut inputs = cut.inputs[split.inputs.clone()].to_vec();
            if number + 1 == cut.splits.len() {
                inputs.extend(pending.iter().map(|input| input.counted_from(section.bases[1], section.bases[0])));
            }
            (split.clone(), inputs)
        };
        cut.splits.iter().enumerate().skip(usize::from(at > 0)).map(entry).collect()
    }
}

impl Section {
    /// Its nodes that look at a tensor in another way, where anybody ever reads them, and that tensor.
    pub(super) fn views(&self, order: &Order) -> impl Iterator<Item = (Option<Number>, Number)> {
        let number = |id: Id| order.number(id, self.bases[0]);
        self.views.iter().map(move |view| (view.is_read.then(|| number(view.id)), number(view.of)))
    }

    /// Where its tensors are, and which of those that can be exchanged it reads.
    fn placing(&self, order: &Order, graph: &Graph, places: &[Place]) -> Vec<u8> {
        let mut placing: Vec<u8> = Vec::with_capacity(self.touched.len() + 5 * self.exchanged.len());
        placing.extend(self.touched.iter().map(|id| places[id.index()]));
        for &(_, operand) in &self.exchanged {
            let source = graph.operands[operand];
            placing.extend(order.number(source, 0).from(0).to_le_bytes());
            placing.push(places[source.index()]);
        }
        placing
    }
}

/// Some devices; those that are very many may stand for one another.
fn devices(places: impl Iterator<Item = Place>) -> u32 {
    places.fold(0, |devices, place| devices | device(place))
}

fn device(place: Place) -> u32 {
    1 << place.min(31)
}
