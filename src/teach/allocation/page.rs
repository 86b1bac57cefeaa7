//! The page of the timelines: for each device a chart, its peak and the tensors alive then.

use serde_json::{Value, json};

use super::super::page::{Paper, Tab, TeachPage};
use super::kind::TimelineKind;
use super::{AllocationPage, AllocationWalk, TensorLife, Timeline, WalkView, Zoom};
use crate::page::chart::{Stacks, legend};
use crate::page::{Column, Hue, Narrow, Page, Span};
use crate::units::{Bytes, grouped};

impl TeachPage for AllocationPage {
    fn tab(&self) -> Tab {
        Tab::Allocation
    }

    /// `{"devices":[{"id","peak","peak_node","naive","alive":[…]}],"compared":…}`: the bytes reserved, the first
    /// operation at that size, the bytes without reuse, and the tensors alive at the peak.
    fn json(&self) -> Value {
        let compared = self.other.as_ref().map(|other| match &other.walk {
            Ok(walk) => json!({ "with": other.label, "instead_of": self.label, "devices": devices(walk) }),
            Err(refusal) => {
                json!({ "with": other.label, "instead_of": self.label, "refused": refusal.to_string() })
            }
        });
        json!({ "phase": self.phase.name(), "remark": self.remark, "devices": devices(&self.walk), "compared": compared })
    }

    fn printed(&self, paper: Paper) -> Page {
        self.page(paper.cells, paper.textured)
    }

    fn last_step(&self) -> Option<u64> {
        Some(self.walk.moments.len().saturating_sub(1) as u64)
    }
}

impl AllocationPage {
    /// For each device its timeline, its peak and the tensors alive then, in `cells` cells; `textured` where there are no
    /// colours.
    pub fn page(&self, cells: usize, textured: bool) -> Page {
        let mut page = Page::default();
        page.heading("Where the memory of the compute buffers goes");
        page.text(&self.batch, Hue::Text);
        self.remark.iter().for_each(|remark| page.text(remark, Hue::Cache));
        for timeline in &self.walk.timelines {
            section(timeline, &self.walk, (cells, textured), &mut page);
        }
        if let Some(other) = &self.other {
            page.heading(&format!("With {} instead of {}", other.label, self.label));
            match &other.walk {
                Ok(walk) => comparison(&self.walk, walk, [&self.label, &other.label], &mut page),
                Err(refusal) => page.text(&format!("llama.cpp refuses: {refusal}"), Hue::Over),
            }
        }
        page
    }
}

pub(super) fn devices(walk: &AllocationWalk) -> Vec<Value> {
    let device = |timeline: &Timeline| {
        json!({
            "id": timeline.id,
            "peak": timeline.reserved,
            "peak_node": walk.moments.get(timeline.peak).map(|moment| &moment.name),
            "naive": timeline.naive,
            "alive": timeline.alive_at(timeline.peak).into_iter().map(life).collect::<Vec<_>>(),
        })
    };
    walk.timelines.iter().map(device).collect()
}

pub(super) fn life(life: &TensorLife) -> Value {
    json!({
        "tensor": life.name,
        "shape": life.shape,
        "kind": life.kind.word(),
        "offset": life.offset,
        "bytes": life.bytes,
        "in_place_of": life.takes_over,
    })
}

fn section(timeline: &Timeline, walk: &AllocationWalk, (cells, textured): (usize, bool), page: &mut Page) {
    let at = walk.moments.get(timeline.peak);
    let node = at.map(|moment| format!("{} ({})", moment.name, moment.op)).unwrap_or_default();
    let bytes = |bytes: u64| grouped(bytes, '\u{2009}');
    page.heading(&format!("{}: {}", timeline.id, timeline.reserved));
    let sentence = format!(
        "Reserved: {} bytes, first needed by {node}, step {} of {}. {} without reuse.",
        bytes(timeline.reserved.0),
        timeline.peak + 1,
        walk.moments.len(),
        timeline.naive,
    );
    page.text(&sentence, Hue::Text);
    let lives = timeline.alive_at(timeline.peak);
    if lives.is_empty() {
        return page.text("Nothing is computed on this device.", Hue::Dim);
    }
    page.blank();
    let view = walk.view(Zoom::All, timeline.peak);
    let rows = timeline.rows(&view);
    let chart = rows.chart(&view, timeline.reserved, textured);
    chart.onto(page, cells, 11, 10);
    legend(chart.used(), page);
    page.blank();
    let row = |life: &&TensorLife| {
        let took = life.takes_over.clone().unwrap_or_default();
        let texts = [life.name.clone(), life.shape.clone(), life.kind.word().to_owned()];
        texts.into_iter().chain([bytes(life.offset), bytes(life.bytes), took]).map(Span::from).collect()
    };
    let held: u64 = lives.iter().map(|life| life.bytes).sum();
    let rest = bytes(timeline.reserved.0.saturating_sub(held));
    let last = ["fragmentation", "", "", "", &rest, ""].map(Span::from).to_vec();
    let columns = vec![
        Column::left("tensor", 0),
        Column::left("shape", 0),
        Column::left("kind", 0),
        Column::right("offset", 0),
        Column::right("bytes", 0),
        Column::left("in place of", 0),
    ];
    let rows = lives.iter().map(row).chain([last]).collect();
    page.table(columns, rows, Narrow::Below(1));
}

impl Timeline {
    /// What is alive on the device in each of the shown steps.
    pub fn rows(&self, view: &WalkView) -> TimelineRows {
        let grown = |at: &usize| self.grown.get(*at).copied().unwrap_or(0);
        let alive = |at: &usize| self.alive.get(*at).copied().unwrap_or_default();
        TimelineRows {
            alive: view.moments.iter().map(alive).collect(),
            grown: view.moments.iter().map(grown).collect(),
            peak: view.moments.iter().position(|at| *at == self.peak).filter(|_| self.reserved > Bytes::ZERO),
        }
    }
}

/// What is alive on a device in the shown steps of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineRows {
    alive: Vec<[u64; TimelineKind::ALL.len()]>,
    grown: Vec<u64>,
    /// The first step at which the buffer has its final size, if it is shown.
    peak: Option<usize>,
}

impl TimelineRows {
    /// As a chart of at most `most` bytes.
    pub fn chart(&self, view: &WalkView, most: Bytes, textured: bool) -> Stacks<'_, { TimelineKind::ALL.len() }> {
        Stacks {
            series: TimelineKind::ALL.map(TimelineKind::series),
            steps: &self.alive,
            grown: &self.grown,
            most,
            peak: self.peak,
            cursor: None,
            step: view.named(),
            names: view.names.clone(),
            textured,
        }
    }
}

fn comparison(one: &AllocationWalk, two: &AllocationWalk, [label, other]: [&str; 2], page: &mut Page) {
    let devices = one.timelines.iter().zip(&two.timelines);
    let mut rows: Vec<Vec<Span>> = devices
        .map(|(one, two)| [one.id.clone(), one.reserved.to_string(), two.reserved.to_string()].map(Span::from).to_vec())
        .collect();
    for kind in TimelineKind::ALL {
        let most = |walk: &AllocationWalk| {
            let of = |timeline: &Timeline| timeline.alive.iter().map(|kinds| kinds[kind.index()]).max().unwrap_or(0);
            Bytes(walk.timelines.iter().map(of).max().unwrap_or(0))
        };
        if most(one).max(most(two)) > Bytes::ZERO {
            let name = format!("peak {} on a device", kind.word());
            rows.push([name, most(one).to_string(), most(two).to_string()].map(Span::from).to_vec());
        }
    }
    let columns = vec![Column::left("device", 0), Column::right(label, 0), Column::right(other, 0)];
    page.table(columns, rows, Narrow::Cut(0));
}
