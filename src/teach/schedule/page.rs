//! The page of the scheduler's passes.

use serde_json::{Value, json};

use super::super::page::{Paper, Tab, TeachPage};
use super::{DeviceCount, GraphSplit, SchedulePage, ScheduleStep, SplitInput};
use crate::page::{Column, Hue, Narrow, Page, Span, chart};
use crate::units::grouped;

impl TeachPage for SchedulePage {
    fn tab(&self) -> Tab {
        Tab::Schedule
    }

    /// `{"steps":[…],"splits":[…],"pipeline":…,"nodes":[…]}`: counts per device after each pass, the tensors copied
    /// into each split, the conditions of pipeline parallelism, and every operation with its device after each pass.
    fn json(&self) -> Value {
        let backends = self.backends();
        let id = |backend: Option<usize>| {
            backend.and_then(|backend| backends.get(backend)).map(|backend| backend.id.as_str())
        };
        let step = |step: &ScheduleStep| {
            let device = |(backend, count): (usize, &DeviceCount)| json!({ "id": id(Some(backend)), "operations": count.operations, "others": count.others });
            json!({
                "step": step.name(),
                "source": step.source_name(),
                "says": step.description(),
                "changed": step.changed,
                "devices": step.counts.iter().enumerate().map(device).collect::<Vec<_>>(),
            })
        };
        let crossing = |crossing: &SplitInput| {
            json!({
                "tensor": crossing.name,
                "shape": crossing.shape,
                "from": id(Some(crossing.from)),
                "bytes": crossing.bytes,
                "copies": crossing.copies,
                "weight": crossing.weight,
            })
        };
        let cut = |cut: &GraphSplit| {
            json!({
                "device": id(Some(cut.backend)),
                "operations": cut.nodes.len(),
                "crossing": cut.crossings.iter().map(crossing).collect::<Vec<_>>(),
            })
        };
        let node = |at: usize| {
            let node = self.node(at)?;
            let devices: Vec<_> = (0..self.steps.len()).map(|step| id(self.backend_of(at, step))).collect();
            Some(json!({
                "name": node.name,
                "operation": node.op,
                "shape": node.shape,
                "sources": node.sources,
                "devices": devices,
            }))
        };
        let pipeline = self.trace().details.pipeline;
        let conditions =
            pipeline.conditions().map(|(description, met)| json!({ "condition": description, "met": met }));
        json!({
            "remark": self.remark,
            "phase": self.trace.phase.name(),
            "tokens": self.trace.tokens(),
            "without": self.without.map(|(op, _)| op.name()),
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
            "splits": self.cuts.iter().map(cut).collect::<Vec<_>>(),
            "pipeline": { "on": pipeline.is_on(), "copies": self.trace().details.schedule.copies, "conditions": conditions },
            "nodes": (0..self.node_count()).filter_map(node).collect::<Vec<_>>(),
        })
    }

    fn printed(&self, paper: Paper) -> Page {
        self.page(paper.cells)
    }

    fn last_step(&self) -> Option<u64> {
        Some(self.steps.len().saturating_sub(1) as u64)
    }
}

impl SchedulePage {
    /// The passes, the graph after the last one, the splits, and the conditions of pipeline parallelism, in `cells`
    /// cells.
    pub fn page(&self, cells: usize) -> Page {
        let mut page = Page::default();
        page.heading("Which device computes what");
        self.remark.iter().for_each(|remark| page.text(remark, Hue::Cache));
        if let Some((op, whole)) = self.without {
            let now = self.crossed();
            let sentence = format!(
                "GPUs are assumed not to support {}: {} graph splits instead of {}, and {} copied instead of {}.",
                op.name(),
                now.cuts,
                whole.cuts,
                now.bytes,
                whole.bytes
            );
            page.text(&sentence, Hue::Over);
        }
        page.text(&self.shown_graph(), Hue::Text);
        page.blank();
        self.steps_onto(&mut page);
        page.heading("The graph after the last pass");
        self.graph_onto(cells, &mut page);
        self.splits_onto(&mut page);
        let pipeline = self.trace().details.pipeline;
        let word = if pipeline.is_on() { "on (n_copies = 4)" } else { "off" };
        page.heading(&format!("Pipeline parallelism is {word}"));
        if let Some(overlap) = self.overlap() {
            overlap.onto(&mut page);
            page.blank();
        }
        for (description, met) in pipeline.conditions() {
            page.item(&format!("{} {description}", if met { "yes:" } else { "no:" }));
        }
        page
    }

    fn steps_onto(&self, page: &mut Page) {
        let ids: Vec<&str> = self.backends().iter().map(|backend| backend.id.as_str()).chain(["nowhere"]).collect();
        let mut columns = vec![Column::left("step", 0)];
        columns.extend(ids.iter().copied().chain(["changed"]).map(|title| Column::right(title, 0)));
        let row = |step: &ScheduleStep| {
            let counts = step.counts.iter().map(|count| format!("{} + {}", count.operations, count.others));
            let name = std::iter::once(step.source_name().to_owned());
            name.chain(counts).chain([step.changed.to_string()]).map(Span::from).collect()
        };
        let rows = self.steps.iter().map(row).collect();
        page.table(columns, rows, Narrow::Below(1));
        page.blank();
        let sentence = "Operations + views, weights, caches and inputs. The passes have their names in llama.cpp's \
                        source (ggml_backend_sched_split_graph).";
        page.text(sentence, Hue::Text);
        page.blank();
        for step in &self.steps {
            let name = Span::new(step.source_name(), Hue::Text.bold());
            page.spans("- ", vec![name, format!(": {}", step.description()).into()]);
        }
    }

    /// Adds a row per block with the device of each operation.
    fn graph_onto(&self, cells: usize, page: &mut Page) {
        const HUES: [Hue; 2] = [Hue::EvenGpu, Hue::OddGpu];
        let backends = self.backends();
        let sign = |backend: Option<usize>| match backend {
            None => ('·', Hue::Dim.into()),
            Some(backend) if backend + 1 == backends.len() => ('R', Hue::Ram.into()),
            Some(backend) => {
                (char::from_digit(backend as u32 % 36, 36).unwrap_or('?'), HUES[backend % HUES.len()].into())
            }
        };
        let meaning = backends.iter().enumerate().map(|(at, backend)| format!("{} {}", sign(Some(at)).0, backend.id));
        page.text(&format!("Each character is an operation: {}.", meaning.collect::<Vec<_>>().join(", ")), Hue::Text);
        page.blank();
        let last = self.steps.len().saturating_sub(1);
        for blocks in &self.alike {
            let Some(block) = blocks.first().and_then(|at| self.blocks.get(*at)) else { continue };
            let name = self.blocks_title(blocks);
            let shown = block.nodes.clone().filter(|node| !self.is_view(*node));
            let signs: Vec<_> = shown.map(|node| sign(self.backend_of(node, last))).collect();
            for (at, row) in signs.chunks(cells.saturating_sub(NAMES).max(1)).enumerate() {
                let name = if at == 0 { name.as_str() } else { "" };
                let mut spans = vec![Span::new(&format!("{name:<NAMES$}"), Hue::Dim)];
                spans.extend(chart::signs(row.iter().copied()));
                page.line(spans);
            }
        }
    }

    fn splits_onto(&self, page: &mut Page) {
        let crossed = self.crossed();
        page.heading(&crossed.sentence());
        let id = |backend: usize| self.backends().get(backend).map_or("", |backend| backend.id.as_str()).to_owned();
        let mut rows: Vec<Vec<Span>> = Vec::new();
        for (at, cut) in self.cuts.iter().enumerate() {
            let mut head = [at.to_string(), id(cut.backend), cut.nodes.len().to_string()];
            let copied = |crossing: &SplitInput| {
                [crossing.name.clone(), id(crossing.from), grouped(crossing.bytes.0, '\u{2009}')]
            };
            let copies = cut.crossings.iter().map(copied);
            let none = cut.crossings.is_empty().then_some([const { String::new() }; 3]);
            for copy in copies.chain(none) {
                // the split stands once, before its first tensor
                rows.push(std::mem::take(&mut head).into_iter().chain(copy).map(Span::from).collect());
            }
        }
        let columns = vec![
            Column::right("split", 0),
            Column::left("device", 0),
            Column::right("operations", 0),
            Column::left("copied tensor", 0),
            Column::left("from", 0),
            Column::right("bytes", 0),
        ];
        page.table(columns, rows, Narrow::Cut(3));
    }
}

/// Width of a block's name.
const NAMES: usize = 14;
