//! The overlap of a pipeline in time: while one GPU computes an ubatch, the one before it computes the next.

use super::SchedulePage;
use crate::page::chart::signs;
use crate::page::{Hue, Ink, Page, Span};
use crate::units::Tokens;

/// Ubatches that are drawn at most.
const DRAWN: usize = 8;

/// The turns of a batch in a pipeline, if every stage takes as long as another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The GPUs, in the order in which a token passes them.
    pub stages: Vec<String>,
    /// Tokens of a batch.
    pub batch: u64,
    /// Ubatches of that batch.
    pub ubatches: usize,
}

impl SchedulePage {
    /// The overlap of a whole batch; none without a pipeline.
    pub fn overlap(&self) -> Option<Overlap> {
        let (backends, trace) = (self.backends(), self.trace());
        let mut stages: Vec<usize> = Vec::new();
        for cut in self.cuts.iter().filter(|cut| cut.backend + 1 < backends.len()) {
            if !stages.contains(&cut.backend) {
                stages.push(cut.backend);
            }
        }
        let parameters = &trace.measured.parameters;
        let ubatches = parameters.n_batch.div_ceil(parameters.n_ubatch.max(1));
        let ids = stages.into_iter().filter_map(|backend| backends.get(backend)).map(|backend| backend.id.clone());
        trace.details.pipeline.is_on().then(|| Overlap {
            stages: ids.collect(),
            batch: parameters.n_batch,
            ubatches: usize::try_from(ubatches).unwrap_or(usize::MAX),
        })
    }
}

impl Overlap {
    /// The turns that the batch takes.
    pub fn turns(&self) -> usize {
        self.ubatches.saturating_add(self.stages.len()).saturating_sub(1)
    }

    /// The turns that it would take if one GPU worked at a time.
    pub fn turns_without(&self) -> usize {
        self.ubatches.saturating_mul(self.stages.len())
    }

    /// The ubatch that a stage computes in a turn, counted from 0.
    pub fn ubatch(&self, stage: usize, turn: usize) -> Option<usize> {
        turn.checked_sub(stage).filter(|ubatch| *ubatch < self.ubatches)
    }

    /// Adds a row for each GPU with the number of its ubatch in each turn, and what that saves.
    pub fn onto(&self, page: &mut Page) {
        let drawn = Self { ubatches: self.ubatches.min(DRAWN), ..self.clone() };
        for (stage, id) in self.stages.iter().enumerate() {
            let hues = [Hue::EvenGpu, Hue::OddGpu];
            let cell = |turn: usize| -> [(char, Ink); 2] {
                let sign = drawn.ubatch(stage, turn).and_then(|ubatch| char::from_digit(ubatch as u32 + 1, 10));
                let ink: Ink = sign.map_or(Hue::Dim, |_| hues[stage % hues.len()]).into();
                [(sign.unwrap_or('·'), ink), (' ', ink)]
            };
            let more = if drawn.ubatches < self.ubatches { "…" } else { "" };
            let mut spans = vec![Span::new(&format!("{id:<8}"), Hue::Text)];
            spans.extend(signs((0..drawn.turns()).flat_map(cell)));
            spans.push(Span::new(more, Hue::Dim));
            page.line(spans);
        }
        let Self { batch, ubatches, .. } = self;
        let sentence = match ubatches {
            1 => format!("A batch of {} tokens is one ubatch, so there is nothing to overlap.", Tokens(*batch)),
            _ => format!(
                "The {ubatches} ubatches of a batch of {} tokens, turn by turn: {} turns instead of {}, if every GPU \
                 takes as long as another.",
                Tokens(*batch),
                self.turns(),
                self.turns_without()
            ),
        };
        page.text(&sentence, Hue::Dim);
    }
}
