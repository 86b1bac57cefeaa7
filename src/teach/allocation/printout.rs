//! The timelines as JSON and as a page.

use serde_json::{Value, json};

use super::{AllocationPage, AllocationWalk, TensorLife, Timeline, TimelineKind};
use crate::page::chart::{Stacks, legend};
use crate::page::{Block, Column, Hue, Narrow, Page, Span, Table};
use crate::units::{Bytes, grouped};

impl AllocationPage {
    /// `{"devices":[{"id","peak","peak_node","naive","alive":[…]}],"compared":…}`: the bytes reserved, the first
    /// operation at that size, the bytes without reuse, and the tensors alive at the peak.
    pub fn json(&self) -> Value {
        let compared = self.other.as_ref().map(|other| match &other.walk {
            Ok(walk) => json!({ "with": other.label, "instead_of": self.label, "devices": devices(walk) }),
            Err(refusal) => {
                json!({ "with": other.label, "instead_of": self.label, "refused": refusal.to_string() })
            }
        });
        json!({ "page": "allocation", "remark": self.remark, "devices": devices(&self.walk), "compared": compared })
    }

    /// For each device its timeline, its peak and the tensors alive then, in `cells` cells; `textured` where there are no
    /// colours.
    pub fn page(&self, cells: usize, textured: bool) -> Page {
        let mut page = Page::default();
        page.heading("Where the memory of the compute buffers goes");
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

fn devices(walk: &AllocationWalk) -> Vec<Value> {
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

fn life(life: &TensorLife) -> Value {
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
    let chart = timeline.chart(walk, textured);
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
    page.push(Block::Table(Table { columns, rows, gap: 2, narrow: Narrow::Below(1) }));
}

impl Timeline {
    /// What is alive on the device, from the first step to the last.
    pub fn chart(&self, walk: &AllocationWalk, textured: bool) -> Stacks<'_, { TimelineKind::ALL.len() }> {
        let mut seen = None;
        let mut first =
            |layer: Option<usize>| layer.filter(|&layer| seen.replace(layer).is_none_or(|seen| layer > seen));
        let names = walk.moments.iter().enumerate();
        let names = names.filter_map(|(at, moment)| Some((at, first(moment.layer)?.to_string()))).collect();
        Stacks {
            series: TimelineKind::ALL.map(TimelineKind::series),
            steps: &self.alive,
            grown: &self.grown,
            most: self.reserved,
            peak: (self.reserved > Bytes::ZERO).then_some(self.peak),
            cursor: None,
            names,
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
    page.push(Block::Table(Table { columns, rows, gap: 2, narrow: Narrow::Cut(0) }));
}
