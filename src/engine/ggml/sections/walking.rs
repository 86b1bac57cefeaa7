//! Who takes and gives what in a section.

use super::ahead::entering;
use super::door::State;
use super::kind::{self, Played};
use super::{Sections, Settled, Whereabouts};
use crate::engine::ggml::allocate::{self, Held, Part, Turnovers};
use crate::engine::ggml::number::Number;
use crate::engine::ggml::schedule::{Copies, Schedule, Scheduler, Split};
use crate::engine::ggml::tensor::Id;
use crate::engine::ggml::workbench::Workbench;

impl Sections {
    /// What is allocated before anything runs.
    pub(super) fn begin(
        &mut self,
        cuts: &[usize],
        ahead: &[usize],
        scheduler: &Scheduler<'_>,
        settled: &mut Settled<'_>,
        bench: &mut Workbench,
    ) -> (usize, Turnovers) {
        let Settled { graph, whereabouts: Whereabouts { places, .. }, .. } = settled;
        let tensors = graph.tensors.len();
        let mut copies = Copies::new(scheduler.pipeline, 0);
        let mut schedule = Schedule::new(std::mem::take(places), tensors, copies.count);
        if scheduler.pipeline {
            for &input in &self.multiplied {
                schedule.multiply(input, graph);
            }
            for at in 0..self.all.len() {
                for (split, inputs) in self.entries(at, cuts[at], ahead[at + 1]) {
                    for input in inputs {
                        let input = self.order.id(input, self.all[at].bases[0]);
                        copies.make(input, split.place, graph, &mut schedule);
                        schedule.keep(input, split.place, &copies);
                    }
                }
            }
        }
        for &input in &self.inputs {
            schedule.leafs.push((input, schedule.places[input.index()]));
        }
        allocate::go_on(graph, &schedule, Part::default(), scheduler.backends, bench);
        let door = &mut self.doors[self.all[0].doors[0]];
        let state = State::on(bench, &door.holders, &[], &copies, (&self.order, 0));
        graph.truncate(tensors);
        *places = schedule.into_places();
        (door.state(state), kind::turnovers(bench, &self.order, 0))
    }

    /// What is taken and given in a section.
    pub(super) fn play(
        &mut self,
        at: usize,
        found: (usize, usize, usize),
        scheduler: &Scheduler<'_>,
        settled: &mut Settled<'_>,
        bench: &mut Workbench,
    ) -> &Played {
        let kind = self.all[at].kind;
        if !self.kinds[kind].played.contains_key(&found) {
            let played = self.walk(at, found, scheduler, settled, bench);
            self.kinds[kind].played.insert(found, played);
        }
        &self.kinds[kind].played[&found]
    }

    /// The same, where nobody has found it out: that part of the schedule is put together and carried out alone.
    fn walk(
        &mut self,
        at: usize,
        (state, cut, behind): (usize, usize, usize),
        scheduler: &Scheduler<'_>,
        settled: &mut Settled<'_>,
        bench: &mut Workbench,
    ) -> Played {
        let entries = self.entries(at, cut, behind);
        let Self { all: sections, kinds, doors, order, .. } = self;
        let Settled { graph, whereabouts: Whereabouts { places, .. }, .. } = settled;
        let section = &sections[at];
        let ([before, after], [base, next_base], start) = (section.doors, section.bases, section.nodes.start);
        let id = |number: Number| order.id(number, base);
        let cut = &kinds[section.kind].cuts[cut];
        let tensors = graph.tensors.len();
        let mut copies = Copies::new(scheduler.pipeline, 0);
        let mut schedule = Schedule::new(std::mem::take(places), tensors, copies.count);
        // what there is
        let State { holders, copies: copied } = &doors[before].states[state];
        let there = doors[before].holders.iter().map(|number| id(*number));
        let mut held: Vec<(Id, Held)> = there.zip(holders.iter().copied()).collect();
        for &(number, place, copy) in copied {
            held.push((copies.make(id(number), place, graph, &mut schedule), copy));
        }
        let of_a_pipeline = cut.copies.iter().filter(|_| scheduler.pipeline).copied();
        for (number, place) in of_a_pipeline.chain(entering(&entries)) {
            if !copies.has(id(number), place) {
                let copy = copies.make(id(number), place, graph, &mut schedule);
                held.extend(scheduler.pipeline.then_some((copy, Held::kept(place))));
            }
        }
        // what is done
        let nodes = |split: &Split| split.nodes.start + start..split.nodes.end + start;
        if at > 0 {
            schedule.compute(nodes(&cut.splits[0]), graph);
        }
        for (split, inputs) in &entries {
            for &input in inputs {
                schedule.enter(id(input), split.place, graph, &copies);
            }
            schedule.compute(nodes(split), graph);
        }
        let rewired = cut.rewired.iter();
        schedule.rewired =
            rewired.map(|(node, operand, source)| (graph.nodes[start + node], *operand, id(*source))).collect();
        schedule.rewire(graph, &copies);
        // what is wanted of it later
        let ahead = &doors[after].aheads[behind];
        let next_id = |number: Number| order.id(number, next_base);
        let originals = ahead.originals.iter().map(|number| next_id(*number));
        let read = originals.chain(ahead.copies.iter().map(|(number, place)| copies.of(next_id(*number), *place)));
        let here = ahead.counted_from(next_base, base);
        let mut viewed: Vec<Id> = here.viewed_from(cut, &entries, section.views(order)).map(id).collect();
        // some cross before they are there themselves, and are read for the last time
        let mut early: Vec<Number> = entering(&entries).map(|(input, _)| input).collect();
        early.sort_unstable();
        early.dedup();
        early.retain(|input| !order.is_there(id(*input), at + 1) && !here.originals.contains(input));
        viewed.extend(early.into_iter().filter_map(|input| graph[id(input)].view_of.get()));
        let viewed_later = ahead.viewed.iter().map(|number| next_id(*number)).collect();
        let part = Part { held, read: read.collect(), viewed, viewed_later };
        allocate::go_on(graph, &schedule, part, scheduler.backends, bench);
        let next = State::on(bench, &doors[after].holders, &ahead.copies, &copies, (order, next_base));
        schedule.undo(graph);
        graph.truncate(tensors);
        *places = schedule.into_places();
        Played { next: doors[after].state(next), turnovers: kind::turnovers(bench, order, base) }
    }
}
