//! The GPUs that may be used, and which of them are tried together.

use super::layout::signed;
use crate::engine::PlanRequest;
use crate::plan::Plan;
use crate::speed::family::known;
use crate::speed::terms::FITTED;

/// All sets of so many GPUs are tried; of more GPUs each alone, and the fastest together.
const FEW_GPUS: usize = 4;

/// A GPU that may be used.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Card {
    /// Its index in the machine.
    pub gpu: usize,
    /// Bytes that may be taken.
    pub room: i64,
    /// Bytes of weights that it reads in a second.
    pub speed: f64,
    /// Cards of one kind are tried once.
    kind: usize,
}

/// The GPUs that may be used, in the order of devices in effect.
#[derive(Clone, Debug)]
pub(super) struct Cards(pub Vec<Card>);

impl Cards {
    /// The GPUs among `used` with what the engine and the driver leave of them; none if the bandwidth of one is not known.
    pub fn new(request: &PlanRequest, now: &Plan, used: &[usize]) -> Option<Self> {
        let headrooms = now.headrooms();
        let mut cards: Vec<Card> = Vec::new();
        for &gpu in used {
            let card = request.machine.gpus.get(gpu)?;
            let found = known(card)?;
            let kept = headrooms.get(gpu)?;
            let room = signed(now.devices.get(gpu)?.free) - signed(kept.kept.max(kept.driver));
            let speed = found.bandwidth.per_second() * FITTED.of(found.family).weights;
            let is_alike = |other: &&Card| {
                let there = &request.machine.gpus[other.gpu];
                (&there.name, there.backend, there.compute, other.room)
                    == (&card.name, card.backend, card.compute, room)
            };
            let kind = cards.iter().find(is_alike).map_or(cards.len(), |same| same.kind);
            cards.push(Card { gpu, room, speed, kind });
        }
        Some(Self(cards))
    }

    /// The sets of cards that are tried, the fastest card first, and whether they are filled from the output layer on; in
    /// the user's order where devices are listed.
    pub fn sets(&self, is_listed: bool) -> Vec<(Vec<usize>, bool)> {
        let count = self.0.len();
        let all: Vec<usize> = (0..count).collect();
        if is_listed {
            return vec![(all.clone(), false), (all.into_iter().rev().collect(), true)];
        }
        let mut fastest = all;
        fastest.sort_by(|a, b| self.0[*b].speed.total_cmp(&self.0[*a].speed));
        let mut sets: Vec<Vec<usize>> = if count <= FEW_GPUS {
            let has = |set: usize, at: usize| set >> at & 1 == 1;
            (1..1 << count).map(|set| (0..count).filter(|at| has(set, *at)).map(|at| fastest[at]).collect()).collect()
        } else {
            let prefixes = (2..=count).map(|length| fastest[..length].to_vec());
            fastest.iter().map(|card| vec![*card]).chain(prefixes).collect()
        };
        let mut known: Vec<Vec<usize>> = Vec::new();
        sets.retain(|set| {
            let kinds: Vec<usize> = set.iter().map(|card| self.0[*card].kind).collect();
            let is_new = !known.contains(&kinds);
            known.push(kinds);
            is_new
        });
        let orders = |set: Vec<usize>| {
            let mut orders = vec![(set.clone(), false)];
            if set.len() > 1 {
                orders.push((set.clone(), true));
            }
            if set.len() > 2 {
                // so the second fastest is the first device
                let second_last = [&set[..1], &set[2..], &set[1..2]].concat();
                orders.push((second_last, true));
            }
            orders
        };
        sets.into_iter().flat_map(orders).collect()
    }
}
