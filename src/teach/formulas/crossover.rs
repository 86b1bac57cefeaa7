//! Crossovers: a `max` whose larger side depends on a knob. They are found by evaluating both sides along the knob,
//! with the other settings as the engine would derive them.

use serde::Serialize;

use crate::engine::formulas::{
    DEFAULT_BATCH, Expr, GraphRule, Letter, LetterValues, ModelTraits, PlanFormulas, TermRule,
};
use crate::page::chart::{Curves, Series, legend};
use crate::page::{Hue, Page};
use crate::plan::{GraphUse, Plan};
use crate::settings::knob::Knob;
use crate::settings::{InEffect, Settings};
use crate::units::{Bytes, grouped};

/// Number of samples for drawing a curve.
const SAMPLES: usize = 64;
/// Number of values probed for a change of the winner, which is then bisected.
const PROBES: usize = 256;
/// Upper limit of the context if the model has none.
const MAX_VALUE: u64 = 1 << 20;
/// Upper limits of sequences and of the batch.
const MAX_SEQUENCES: u64 = 64;
const MAX_BATCH: u64 = 1 << 16;

/// A `max` in a formula.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Crossover {
    /// The size that it determines.
    pub name: String,
    /// Whether its result is counted in this plan.
    pub in_force: bool,
    /// The operands of the `max`.
    pub sides: Vec<CrossoverSide>,
    /// Index into `sides` of the larger one.
    pub winner: usize,
    /// The curves along each knob that it depends on.
    pub along: Vec<KnobCurve>,
}

/// One operand of a `max`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CrossoverSide {
    /// `attention`, `logits`, or the formula itself.
    pub name: String,
    /// Its size with the current settings, in bytes for graph branches.
    pub size: u64,
}

/// The sizes along a knob, the others held.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KnobCurve {
    /// The knob.
    #[serde(serialize_with = "named")]
    pub knob: Knob,
    /// Its current value.
    pub now: u64,
    /// Where another side becomes the larger.
    pub crossings: Vec<CrossoverPoint>,
    /// The sizes of all sides, at values evenly spread on a logarithmic scale.
    pub samples: Vec<Sample>,
}

/// A change of the winner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CrossoverPoint {
    /// The first value with another winner.
    pub at: u64,
    /// Index of the larger side from there on.
    pub winner: usize,
    /// The size of that side there.
    pub size: u64,
}

/// The sizes of all sides at one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// The knob's value.
    pub at: u64,
    /// One size per side.
    pub sizes: Vec<u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn named<S: serde::Serializer>(knob: &Knob, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(knob.name())
}

/// The operands of a `max`.
enum Max<'a> {
    Branches(&'a GraphRule),
    Terms(&'a Expr, &'a Expr),
}

/// The crossovers of `plan`.
pub(super) fn crossovers(plan: &Plan, settings: &Settings, formulas: &PlanFormulas) -> Vec<Crossover> {
    let knobs = KnobValues::of(formulas.traits, plan, settings);
    let sizes = [
        (GraphUse::Partial, "compute buffer, some layers in RAM", formulas.partial),
        (GraphUse::Full, "compute buffer, all layers on GPU", formulas.full),
    ];
    let mut crossovers_found = Vec::new();
    for (when, name, rule) in sizes {
        let Some(rule) = rule else { continue };
        let in_force = when == plan.graph.used;
        let inner = rule.always.iter().chain(rule.choices.iter().flat_map(|choice| choice.parts));
        let inner = inner.filter_map(|part| Some((format!("{name}: {}", part.name), larger_in(part)?)));
        let outer = (rule.choices.len() > 1).then(|| (name.to_owned(), Max::Branches(rule)));
        let found = outer.into_iter().chain(inner);
        crossovers_found
            .extend(found.filter_map(|(name, max)| knobs.crossover(name, in_force, &max, &formulas.values)));
    }
    crossovers_found.sort_by_key(|contest| !contest.in_force);
    crossovers_found
}

/// The first `max` within a term.
fn larger_in(part: &TermRule) -> Option<Max<'_>> {
    fn find(expr: &Expr) -> Option<Max<'_>> {
        match expr {
            Expr::Max(a, b) => Some(Max::Terms(a, b)),
            Expr::Sum(parts) | Expr::Product(parts) => parts.iter().find_map(find),
            Expr::Difference(a, b) | Expr::Quotient(a, b) => find(a).or_else(|| find(b)),
            Expr::Elements(count) => find(count),
            Expr::Number(_) | Expr::Letter(_) => None,
        }
    }
    find(&part.bytes)
}

impl Max<'_> {
    fn sizes(&self, values: &LetterValues) -> Option<Vec<u64>> {
        match self {
            Self::Branches(rule) => rule.contenders(values).ok(),
            Self::Terms(a, b) => Some(vec![a.value(values).ok()?, b.value(values).ok()?]),
        }
    }

    fn names(&self) -> Vec<String> {
        match self {
            Self::Branches(rule) => rule.choices.iter().map(|choice| choice.name.to_owned()).collect(),
            Self::Terms(a, b) => vec![a.formula(), b.formula()],
        }
    }
}

/// Index of the largest size, the first if several are equal.
fn winner(sizes: &[u64]) -> usize {
    let largest = sizes.iter().max();
    sizes.iter().position(|size| Some(size) == largest).unwrap_or(0)
}

/// Derives the other settings from the moved knob by the engine's rules.
#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
struct KnobValues<'a> {
    effect: &'a InEffect,
    /// The requested batch.
    batch: u64,
    raw: bool,
    embedding: bool,
    vision: bool,
    one_sequence: bool,
    context_train: Option<u64>,
}

impl<'a> KnobValues<'a> {
    fn of(traits: ModelTraits, plan: &'a Plan, settings: &Settings) -> Self {
        let ModelTraits { embedding, vision, one_sequence, .. } = traits;
        Self {
            effect: &plan.settings,
            batch: settings.batch.unwrap_or(DEFAULT_BATCH),
            raw: settings.raw,
            embedding,
            vision: vision || settings.projector.is_some(),
            one_sequence,
            context_train: plan.model.context_train.filter(|_| !settings.raw),
        }
    }

    fn crossover(&self, name: String, in_force: bool, max: &Max<'_>, values: &LetterValues) -> Option<Crossover> {
        let sizes = max.sizes(values)?;
        let along = [Knob::Context, Knob::Batch, Knob::Parallel].into_iter();
        let along: Vec<KnobCurve> = along.filter_map(|knob| self.along(knob, max, values)).collect();
        if along.is_empty() {
            return None;
        }
        let winner = winner(&sizes);
        let sides = max.names().into_iter().zip(sizes).map(|(name, size)| CrossoverSide { name, size }).collect();
        Some(Crossover { name, in_force, sides, winner, along })
    }

    /// `None` if the knob has no range, or nothing depends on it.
    fn along(&self, knob: Knob, max: &Max<'_>, values: &LetterValues) -> Option<KnobCurve> {
        let (from, to) = self.range(knob)?;
        let sizes = |at: u64| max.sizes(&self.letters(knob, at, values));
        let samples: Vec<Sample> =
            spread(from, to, SAMPLES).into_iter().filter_map(|at| Some(Sample { at, sizes: sizes(at)? })).collect();
        if samples.windows(2).all(|pair| pair[0].sizes == pair[1].sizes) {
            return None;
        }
        let winner_at = |at: u64| sizes(at).map(|sizes| winner(&sizes));
        let mut crossings = Vec::new();
        let probes = spread(from, to, PROBES);
        for (&low, &high) in probes.iter().zip(probes.iter().skip(1)) {
            let (before, after) = (winner_at(low)?, winner_at(high)?);
            if before == after {
                continue;
            }
            let (mut low, mut high) = (low, high);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if winner_at(middle)? == before { low = middle } else { high = middle }
            }
            let size = sizes(high)?.into_iter().max().unwrap_or(0);
            crossings.push(CrossoverPoint { at: high, winner: winner_at(high)?, size });
        }
        Some(KnobCurve { knob, now: self.now(knob), crossings, samples })
    }

    const fn now(&self, knob: Knob) -> u64 {
        match knob {
            Knob::Batch => self.effect.batch,
            Knob::Parallel => self.effect.parallel,
            _ => self.effect.ctx,
        }
    }

    /// The values that the engine accepts.
    fn range(&self, knob: Knob) -> Option<(u64, u64)> {
        let (from, to) = match knob {
            Knob::Context => {
                let least = if self.raw {
                    1
                } else if self.vision {
                    2048
                } else {
                    4
                };
                (least, self.context_train.unwrap_or(MAX_VALUE))
            }
            // embedding models process the whole context in one batch
            Knob::Batch if self.embedding => return None,
            Knob::Batch if self.raw => (1, MAX_BATCH),
            Knob::Batch => (1, self.effect.ctx.min(MAX_BATCH)),
            Knob::Parallel if self.one_sequence && !self.raw => return None,
            Knob::Parallel => (1, MAX_SEQUENCES),
            _ => return None,
        };
        (from < to).then_some((from, to))
    }

    /// The letters with `knob` at `at`.
    fn letters(&self, knob: Knob, at: u64, values: &LetterValues) -> LetterValues {
        let (mut ctx, mut batch, mut parallel) = (self.effect.ctx, self.effect.batch, self.effect.parallel);
        match knob {
            Knob::Context => {
                ctx = at;
                batch = if self.raw { self.batch } else { self.batch.min(ctx) };
                if self.embedding {
                    batch = batch.max(ctx);
                }
            }
            Knob::Batch => batch = at,
            _ => parallel = at,
        }
        let total = ctx.wrapping_mul(parallel);
        values.clone().with(Letter::B, batch).with(Letter::C, total).with(Letter::Np, parallel)
    }
}

/// Up to `count` distinct values from `from` to `to`, including both, evenly spread on a logarithmic scale.
fn spread(from: u64, to: u64, count: usize) -> Vec<u64> {
    let ratio = to as f64 / from.max(1) as f64;
    let last = count.max(2) - 1;
    let place = |step: usize| (from as f64 * ratio.powf(step as f64 / last as f64)).round() as u64;
    let mut places: Vec<u64> = (0..=last).map(|step| place(step).clamp(from, to)).collect();
    places.extend([from, to]);
    places.sort_unstable();
    places.dedup();
    places
}

impl Crossover {
    /// A sentence on where another side becomes the larger along a knob.
    pub fn sentence(&self, along: &KnobCurve) -> String {
        let number = |n: u64| grouped(n, '\u{2009}');
        let end = |sample: Option<&Sample>| number(sample.map_or(0, |sample| sample.at));
        let (from, to) = (end(along.samples.first()), end(along.samples.last()));
        let (word, now) = (along.knob.title(), number(along.now));
        let name = |side: usize| self.sides.get(side).map_or("", |side| side.name.as_str());
        if along.crossings.is_empty() {
            let winner = name(self.winner);
            return format!("For any {word}, {winner} is larger (now {now}, range {from} to {to}).");
        }
        let turns: Vec<String> = along
            .crossings
            .iter()
            .map(|crossing| format!("from a {word} of {} up, {} is larger", number(crossing.at), name(crossing.winner)))
            .collect();
        let turns = turns.join("; ");
        let (first, rest) = turns.split_at(turns.len().min(1));
        format!("{}{rest} (now {now}, range {from} to {to}).", first.to_uppercase())
    }

    /// Adds its sides along a knob in words and as curves, in `cells` cells and `rows` rows of the curves.
    pub fn onto(&self, along: &KnobCurve, cells: usize, rows: usize, page: &mut Page) {
        const SIGNS: [(&str, Hue); 2] = [("●", Hue::Graph), ("×", Hue::Cache)];
        page.text(&self.sentence(along), Hue::Text);
        let size = |size: u64| Bytes(size).to_string();
        let names: Vec<String> = self.sides.iter().map(|side| format!("{} {}", side.name, size(side.size))).collect();
        let series: Vec<Series> =
            names.iter().zip(SIGNS).map(|(name, (sign, hue))| Series { name, sign, hue }).collect();
        legend(series.iter().copied(), page);
        if cells < 20 || rows < 2 {
            return;
        }
        let end = |sample: Option<&Sample>| sample.map_or(1, |sample| sample.at).max(1);
        let (from, to) = (end(along.samples.first()), end(along.samples.last()));
        let number = |n: u64| grouped(n, '\u{2009}');
        let curves = Curves {
            series,
            range: (from as f64, to as f64),
            at: &|value| (0..self.sides.len()).filter_map(|side| along.size_at(side, value)).collect(),
            now: (along.now as f64, number(along.now)),
            crossings: along.crossings.iter().map(|crossing| (crossing.at as f64, crossing.size as f64)).collect(),
            ends: [number(from), number(to)],
            name: &size,
        };
        curves.onto(page, cells, rows);
    }
}

impl KnobCurve {
    /// The size of `side` at `value`, interpolated between the two nearest samples.
    fn size_at(&self, side: usize, value: f64) -> Option<f64> {
        let after =
            self.samples.partition_point(|sample| (sample.at as f64) < value).min(self.samples.len().checked_sub(1)?);
        let (low, high) = (self.samples.get(after.saturating_sub(1))?, self.samples.get(after)?);
        let (a, b) = (*low.sizes.get(side)? as f64, *high.sizes.get(side)? as f64);
        let span = high.at as f64 - low.at as f64;
        let between = if span > 0.0 { ((value - low.at as f64) / span).clamp(0.0, 1.0) } else { 1.0 };
        Some(a + (b - a) * between)
    }
}
