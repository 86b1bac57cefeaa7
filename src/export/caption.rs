//! What a picture or a handout is about: without it nobody could tell later what its figures hold for.

use std::fmt;

use crate::engine::PlanRequest;
use crate::plan::Plan;

/// Model, quantisation, engine, release, machine, knobs, and where the header is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caption {
    /// `Llama 3.1 8B · Q4_K_M · llama.cpp, release 2026-11 · RTX 4090, 64.0 GiB of RAM`
    pub subject: String,
    /// `context 8 192 · parallel 1 · …`, as in effect.
    pub knobs: String,
    /// `plimsoll 0.1.0 · catalogue of 2026-11-22`
    pub source: String,
}

impl Caption {
    /// The caption of `plan`, the plan of `request`.
    pub fn of(request: &PlanRequest, plan: &Plan) -> Self {
        let model = [Some(plan.model.name.clone()), plan.model.file_type.clone()].into_iter().flatten();
        let subject = model.chain([plan.engine_title(), request.machine.to_string()]);
        let knobs = request.knobs().into_iter();
        let knobs = knobs.map(|knob| format!("{} {}", knob.title(), knob.show(knob.in_effect(plan))));
        let program = concat!("plimsoll ", env!("CARGO_PKG_VERSION")).to_owned();
        let source = std::iter::once(program).chain(request.model.dated().map(str::to_owned));
        Self { subject: joined(subject), knobs: joined(knobs), source: joined(source) }
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(" · ")
}

impl fmt::Display for Caption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, knobs, source } = self;
        write!(f, "{subject} · {knobs} · {source}")
    }
}
