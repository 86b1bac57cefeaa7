//! Which of several models stay loaded together: every set of them, loaded in their order.

use rayon::prelude::*;

use super::{LoadOutcome, LoadRequest, Loader, loaded, machine_of};
use crate::command::Router;
use crate::engine::EngineId;
use crate::machine::Machine;
use crate::plan::Outcome;

/// Models of which all sets are tried.
pub const MOST: usize = 12;

/// Models that stay loaded together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResidentSet {
    /// The numbers of their requests, in order.
    pub members: Vec<usize>,
    /// The context of each, per sequence.
    pub contexts: Vec<u64>,
    /// The worst outcome among them.
    pub outcome: Outcome,
}

/// All sets that stay loaded together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResidentSets {
    /// How many models there are.
    models: usize,
    /// Each set, in the order of its members.
    sets: Vec<ResidentSet>,
}

impl ResidentSet {
    fn has_all_of(&self, other: &Self) -> bool {
        other.members.iter().all(|member| self.members.contains(member))
    }

    /// Whether all layers of all of them are on GPUs.
    pub fn is_in_vram(&self) -> bool {
        self.outcome <= Outcome::Tight
    }
}

impl ResidentSets {
    /// Tries every set of `requests`, each loaded in their order; none if there are too many, or too few for a set.
    ///
    /// A set whose first models do not stay loaded is not there, whatever follows, so that no set is loaded twice.
    pub fn of(router: &Router, engine: EngineId, machine: &Machine, requests: &[LoadRequest<'_>]) -> Option<Self> {
        if !(2..=MOST).contains(&requests.len()) {
            return None;
        }
        let machine = machine_of(engine, machine);
        let mut sets = beyond(&Loader::new(router, engine, &machine, requests), 0);
        sets.sort_by(|a, b| a.members.cmp(&b.members));
        Some(Self { models: requests.len(), sets })
    }

    /// The sets to which no other model can be added: first those in VRAM, the larger before the smaller, then those that
    /// need RAM.
    pub fn largest(&self) -> Vec<&ResidentSet> {
        let in_vram = self.largest_of(ResidentSet::is_in_vram);
        let rest = self.largest_of(|_| true).into_iter().filter(|set| !set.is_in_vram());
        in_vram.iter().copied().chain(rest).collect()
    }

    fn largest_of(&self, counts: impl Fn(&ResidentSet) -> bool) -> Vec<&ResidentSet> {
        let all: Vec<&ResidentSet> = self.sets.iter().filter(|set| counts(set)).collect();
        let is_largest = |set: &&&ResidentSet| {
            !all.iter().any(|other| other.members.len() > set.members.len() && other.has_all_of(set))
        };
        let mut largest: Vec<&ResidentSet> = all.iter().filter(is_largest).copied().collect();
        largest.sort_by_key(|set| std::cmp::Reverse(set.members.len()));
        largest
    }

    /// The largest number of which any models stay in VRAM together.
    pub fn any(&self) -> usize {
        let in_vram =
            |count: usize| self.sets.iter().filter(|set| set.members.len() == count && set.is_in_vram()).count() as u64;
        (1..=self.models).take_while(|&count| in_vram(count) == choose(self.models as u64, count as u64)).count()
    }

    /// All sets.
    pub fn all(&self) -> &[ResidentSet] {
        &self.sets
    }
}

/// How many sets of `count` there are among `all`.
fn choose(all: u64, count: u64) -> u64 {
    (0..count).fold(1, |sets, at| sets * (all - at) / (at + 1))
}

/// The sets that begin with what is loaded, and go on with requests from `next`.
fn beyond(loader: &Loader<'_>, next: usize) -> Vec<ResidentSet> {
    let with = |number: usize| {
        let mut loader = loader.clone();
        if loader.load(number).is_err() {
            return Vec::new();
        }
        let Some(set) = resident(&loader) else { return Vec::new() };
        let mut sets = vec![set];
        sets.extend(beyond(&loader, number + 1));
        sets
    };
    (next..loader.requests.len()).into_par_iter().flat_map_iter(with).collect()
}

/// What is loaded as a set, if all of it stays and fits.
fn resident(loader: &Loader<'_>) -> Option<ResidentSet> {
    let stays = |outcome: &LoadOutcome| matches!(outcome, LoadOutcome::Loaded(_) | LoadOutcome::Shares(_));
    if !loader.outcomes.iter().all(stays) {
        return None;
    }
    let outcome = loaded(&loader.outcomes).map(|(_, plan)| plan.outcome()).max()?;
    let context = |outcome: &LoadOutcome| {
        let host = if let LoadOutcome::Shares(host) = outcome { loader.outcomes.get(*host)? } else { outcome };
        if let LoadOutcome::Loaded(plan) = host { Some(plan.settings.ctx) } else { None }
    };
    let contexts = loader.outcomes.iter().filter_map(context).collect();
    (outcome != Outcome::DoesNotFit).then(|| ResidentSet { members: loader.asked.clone(), contexts, outcome })
}
