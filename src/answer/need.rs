//! Which cards and systems run a model: every preset that is bought anew alone, and two of a card.

use std::sync::Arc;

use rayon::prelude::*;

use crate::engine::PlanRequest;
use crate::machine::Ram;
use crate::machine::presets::{self, Preset};
use crate::machine::spec::MachineSpec;
use crate::plan::{Outcome, Plan};
use crate::settings::Context;
use crate::speed::Speed;
use crate::units::Bytes;

/// Most cards of one kind that are tried.
const MOST_CARDS: usize = 2;

/// RAM beside cards, unless it is stated.
pub const BESIDE_CARDS: Ram =
    Ram { total: Bytes::gib(64), free: Bytes::gib(60), swap_free: Bytes::ZERO, bandwidth: None };

/// What the machines must do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NeedRequest {
    /// RAM beside cards; systems have their own.
    pub ram: Ram,
    /// Tokens per second that are generated with the context full, as shown.
    pub speed: f64,
}

/// The context that machines are judged by where none is given: one that most uses are served by, in tokens.
pub const USUAL_CONTEXT: u64 = 16_384;

/// The context that machines are judged by, which is full when their speeds are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededContext {
    /// In tokens.
    pub tokens: u64,
    /// Whether it was given; an engine's own choice would depend on the machine.
    pub is_given: bool,
}

/// A machine that does it.
#[derive(Clone, Debug)]
pub struct NeededMachine {
    /// `RTX 3090`
    pub preset: &'static Preset,
    /// How many.
    pub count: usize,
    /// Memory of its GPUs together.
    pub memory: Bytes,
    /// The plan there.
    pub plan: Plan,
    /// With the context full.
    pub speed: Speed,
}

impl NeededMachine {
    /// `2 × RTX 3090`
    pub fn name(&self) -> String {
        if self.count == 1 { self.preset.name.to_owned() } else { format!("{} × {}", self.count, self.preset.name) }
    }

    /// Whether it is a card, which goes into a computer.
    pub fn is_card(&self) -> bool {
        self.preset.ram().is_none()
    }

    /// Whether nothing runs from RAM.
    pub fn is_in_vram(&self) -> bool {
        self.plan.outcome() <= Outcome::Vram
    }
}

impl PlanRequest {
    /// The presets that run this model with these settings as fast as asked, those with the least memory first. Where one
    /// card holds all in VRAM, two of it are not tried.
    pub fn needed(&self, question: &NeedRequest) -> Vec<NeededMachine> {
        // what a machine is bought for is a file that every engine runs
        let of = self.made().with_needed_context();
        let of_preset = |preset: &'static Preset| -> Vec<NeededMachine> {
            let most = if preset.ram().is_some() { 1 } else { MOST_CARDS };
            let mut found: Vec<NeededMachine> = Vec::new();
            for count in 1..=most {
                if !found.iter().any(NeededMachine::is_in_vram) {
                    found.extend(of.needed_of(preset, count, question));
                }
            }
            found
        };
        let bought: Vec<&'static Preset> = presets::all().iter().filter(|preset| !preset.by_name).collect();
        let mut found: Vec<NeededMachine> = bought.into_par_iter().with_max_len(1).flat_map_iter(of_preset).collect();
        found.sort_by(|a, b| {
            let cost = |one: &NeededMachine| (one.memory, one.count, one.plan.cpu().asked());
            cost(a).cmp(&cost(b)).then_with(|| b.speed.shown().total_cmp(&a.speed.shown()))
        });
        found
    }

    /// The context that machines are judged by.
    pub fn needed_context(&self) -> NeededContext {
        let trained = self.model.hyper.context_train;
        match self.settings.ctx {
            Context::Tokens(tokens) => NeededContext { tokens, is_given: true },
            Context::Max => NeededContext { tokens: trained.unwrap_or(0), is_given: true },
            Context::Auto => NeededContext { tokens: USUAL_CONTEXT.min(trained.unwrap_or(u64::MAX)), is_given: false },
        }
    }

    fn with_needed_context(&self) -> Self {
        let NeededContext { tokens, is_given } = self.needed_context();
        if is_given { self.clone() } else { self.changed(|settings| settings.ctx = Context::Tokens(tokens)) }
    }

    /// `count` of a preset, if it does what is asked.
    fn needed_of(&self, preset: &'static Preset, count: usize, question: &NeedRequest) -> Option<NeededMachine> {
        let spec = MachineSpec::read(&vec![preset.name.to_owned(); count], None).ok()?;
        let machine = spec.complete_with(question.ram);
        let memory: Bytes = machine.gpus.iter().map(|gpu| gpu.total).sum();
        // weights that no place is left for need no plan
        if self.model.bytes > memory + machine.ram.free {
            return None;
        }
        let request = Self { machine: Arc::new(machine), ..self.clone() };
        let plan = request.trial().ok()?;
        let runs = plan.outcome() < Outcome::FromDisk && plan.outcome() != Outcome::Tight;
        let speed = Speed::of(&request.model, &request.machine, &plan, plan.settings.ctx_per_sequence)
            .filter(|speed| runs && speed.shown() >= question.speed)?;
        Some(NeededMachine { preset, count, memory, plan: request.explained(plan), speed })
    }
}
