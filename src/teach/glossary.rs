//! The glossary: every term that pages use, with its definition and what it is in the plan. The definitions stand with what
//! they define; here they are only brought together.

mod page;

use std::collections::HashMap;

use serde::Serialize;

use super::caches::{Attention, BlockMemory, CachesPage};
use super::lessons;
use super::schedule::{pass_description, source_name};
use super::trace::{Phase, Trace};
use crate::engine::ggml::schedule::Pass;
use crate::engine::ggml::tensor::Op;
use crate::engine::{EngineId, PlanRequest};
use crate::page::{Hue, Page, Span};
use crate::plan::{BufferKind, BufferUse, Peak, Plan};
use crate::settings::knob::Knob;
use crate::units::Bytes;

/// The page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GlossaryPage {
    /// The terms, in groups.
    pub entries: Vec<GlossaryEntry>,
}

/// A term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GlossaryEntry {
    /// What it is.
    #[serde(skip)]
    pub term: Term,
    /// Its name.
    pub name: String,
    /// Its definition, in one or two sentences.
    pub meaning: String,
    /// What it is in the plan: `24 MiB on GPU0`.
    pub here: Option<String>,
    /// The lesson that is about it, counted from 0.
    #[serde(serialize_with = "numbered")]
    pub lesson: Option<usize>,
}

/// What a term stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// A kind of memory.
    Memory(BufferUse),
    /// A knob.
    Knob(Knob),
    /// How heads share keys and values.
    Attention(Attention),
    /// A kind of tensors in a compute buffer.
    Buffer(BufferKind),
    /// An operation of the graph.
    Op(Op),
    /// A pass of the scheduler; none for the state before the first.
    Pass(Option<Pass>),
    /// A letter of an estimator's formulas.
    Letter(&'static str),
}

impl Term {
    /// The heading of its group.
    pub const fn group(self) -> &'static str {
        match self {
            Self::Memory(_) => "Memory",
            Self::Knob(_) => "Knobs",
            Self::Attention(_) => "Attention",
            Self::Buffer(_) => "In compute buffers",
            Self::Op(_) => "Operations of this graph",
            Self::Pass(_) => "Passes of the scheduler",
            Self::Letter(_) => "Letters of the formulas",
        }
    }

    /// The knob that a lesson on it is about.
    pub const fn knob(self) -> Option<Knob> {
        match self {
            Self::Knob(knob) => Some(knob),
            Self::Buffer(kind) => Some(kind.moved_by()),
            Self::Memory(BufferUse::Weights) => Some(Knob::GpuLayers),
            Self::Memory(BufferUse::Cache) => Some(Knob::Context),
            Self::Memory(BufferUse::Graph) => Some(Knob::Ubatch),
            Self::Attention(_) | Self::Op(_) | Self::Pass(_) | Self::Letter(_) => None,
        }
    }
}

/// As the number of a lesson, from 1.
#[expect(clippy::ref_option, reason = "serde asks for it")]
fn numbered<S: serde::Serializer>(lesson: &Option<usize>, to: S) -> Result<S::Ok, S::Error> {
    lesson.map(|lesson| lesson + 1).serialize(to)
}

/// The knobs that mean something for this model and machine: those that an engine with llama.cpp offers for them.
fn known_knobs(request: &PlanRequest, plan: &Plan) -> Vec<Knob> {
    let by_llama_cpp = PlanRequest { engine: EngineId::LlamaCpp, ..request.clone() };
    let mut known = [request.knobs(), by_llama_cpp.knobs()].concat();
    if known.contains(&Knob::CacheType) {
        known.extend([Knob::CacheTypeK, Knob::CacheTypeV]);
    }
    known.retain(|knob| !knob.is_of_a_turn() || plan.settings.turn.is_some());
    known
}

impl GlossaryPage {
    /// All terms, with what they are in `plan`, the plan of `request`.
    pub fn of(request: &PlanRequest, plan: &Plan) -> Self {
        let mut page = Self { entries: Vec::new() };
        let totals = plan.totals;
        for (kind, bytes) in BufferUse::ALL.into_iter().zip([totals.weights, totals.cache, totals.graph]) {
            page.add(Term::Memory(kind), kind.title(), kind.description(), Some(format!("{bytes} in all")));
        }
        let known = known_knobs(request, plan);
        for knob in Knob::ALL {
            let here = known.contains(&knob).then(|| knob.shown_in(plan));
            page.add(Term::Knob(knob), knob.title(), knob.description(), here);
        }
        let caches = CachesPage::of(request, plan).ok();
        for attention in Attention::ALL {
            let blocks = caches.as_ref().map_or(0, |caches| blocks_with(caches, attention));
            let here = (blocks > 0).then(|| format!("in {blocks} of {} blocks", plan.model.layers));
            page.add(Term::Attention(attention), attention.title(), attention.description(), here);
        }
        for kind in BufferKind::ALL {
            let here = largest(&plan.graph.peaks, kind, plan);
            page.add(Term::Buffer(kind), kind.name(), kind.description(), here);
        }
        page.add_graph(request, plan);
        for symbol in &plan.graph.legend {
            page.add(Term::Letter(symbol.letter), symbol.letter, symbol.meaning, Some(symbol.value.clone()));
        }
        page
    }

    /// Adds the operations of the graph of a prompt, and the passes that place them.
    fn add_graph(&mut self, request: &PlanRequest, plan: &Plan) {
        let Ok(trace) = Trace::of(request, plan, Phase::Prompt) else { return };
        let graph = &trace.details.graph;
        let mut counts: HashMap<Op, usize> = HashMap::new();
        for id in &graph.nodes {
            *counts.entry(graph[*id].op).or_default() += 1;
        }
        let mut counts: Vec<(Op, usize)> = counts.into_iter().collect();
        counts.sort_unstable_by_key(|(op, _)| op.name());
        for (op, count) in counts {
            let here = format!("{count} in the graph of {}", trace.batch());
            self.add(Term::Op(op), op.name(), op.description(), Some(here));
        }
        for pass in std::iter::once(None).chain(trace.passes.iter().map(|(pass, _)| Some(*pass))) {
            self.add(Term::Pass(pass), source_name(pass), pass_description(pass), None);
        }
    }

    fn add(&mut self, term: Term, name: &str, meaning: &str, here: Option<String>) {
        let lesson = term.knob().and_then(lessons::on_knob);
        self.entries.push(GlossaryEntry { term, name: name.to_owned(), meaning: meaning.to_owned(), here, lesson });
    }

    /// The place of a term.
    pub fn place(&self, term: Term) -> Option<usize> {
        self.entries.iter().position(|entry| entry.term == term)
    }
}

/// Blocks whose attention is of this kind.
fn blocks_with(caches: &CachesPage, asked: Attention) -> usize {
    let is_of = |keeps: BlockMemory| matches!(keeps, BlockMemory::Tokens { attention, .. } if attention == asked);
    caches.kinds.iter().filter(|kind| is_of(kind.keeps)).map(|kind| kind.blocks.len()).sum()
}

/// Where most of a kind is alive at a peak.
fn largest(peaks: &[Peak], kind: BufferKind, plan: &Plan) -> Option<String> {
    let of = |peak: &Peak| peak.alive.iter().find(|alive| alive.kind == kind).map(|alive| alive.bytes);
    let (bytes, peak) = peaks.iter().filter_map(|peak| Some((of(peak)?, peak))).max_by_key(|(bytes, _)| *bytes)?;
    let id = plan.devices.get(peak.device).map_or("", |device| device.id.as_str());
    (bytes > Bytes::ZERO).then(|| format!("{bytes} of the {} at the peak on {id}", peak.bytes))
}

impl GlossaryEntry {
    /// What is said of it: its definition, what it is here, and its lesson.
    pub fn onto(&self, page: &mut Page) {
        page.text(&self.meaning, Hue::Text);
        if let Some(here) = &self.here {
            page.spans("", vec![Span::new("In this plan: ", Hue::Dim), Span::new(here, Hue::Graph)]);
        }
        if let Some(lesson) = self.lesson.and_then(|at| Some((at + 1, lessons::all().get(at)?))) {
            let (number, lesson) = lesson;
            page.text(&format!("Lesson {number}: {}", lesson.title), Hue::Dim);
        }
    }
}
