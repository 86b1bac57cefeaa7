//! The passes as JSON and as Markdown.
#![allow(clippy::format_push_string, reason = "written once; readability wins")]

use serde_json::{Value, json};

use super::{GraphSplit, SchedulePage, ScheduleStep, SplitInput};
use crate::units::{Bytes, grouped};

impl SchedulePage {
    /// `{"steps":[…],"splits":[…],"pipeline":…,"nodes":[…]}`: counts per device after each pass, the tensors copied
    /// into each split, the conditions of pipeline parallelism, and every operation with its device after each pass.
    pub fn json(&self) -> Value {
        let homes = self.homes();
        let id = |home: Option<usize>| home.and_then(|home| homes.get(home)).map(|home| home.id.as_str());
        let step = |step: &ScheduleStep| {
            let device = |(home, count): (usize, &super::DeviceCount)| json!({ "id": id(Some(home)), "operations": count.operations, "others": count.others });
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
                "device": id(Some(cut.home)),
                "operations": cut.nodes.len(),
                "crossing": cut.crossings.iter().map(crossing).collect::<Vec<_>>(),
            })
        };
        let node = |at: usize| {
            let node = self.node(at)?;
            let devices: Vec<_> = (0..self.steps.len()).map(|step| id(self.home_of(at, step))).collect();
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
            "page": "schedule",
            "remark": self.remark,
            "without": self.without.map(|(op, _)| op.name()),
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
            "splits": self.cuts.iter().map(cut).collect::<Vec<_>>(),
            "pipeline": { "on": pipeline.is_on(), "copies": self.trace().details.schedule.copies, "conditions": conditions },
            "nodes": (0..self.node_count()).filter_map(node).collect::<Vec<_>>(),
        })
    }

    /// A table of the passes, one of the splits, and the conditions of pipeline parallelism.
    pub fn markdown(&self) -> String {
        let mut out = "# Which device computes what\n".to_owned();
        if let Some(remark) = &self.remark {
            out += &format!("\n{remark}\n");
        }
        if let Some((op, whole)) = self.without {
            let now = self.crossed();
            out += &format!(
                "\nGPUs are assumed not to support {}: {} graph splits instead of {}, and {} copied instead of {}.\n",
                op.name(),
                now.cuts,
                whole.cuts,
                now.bytes,
                whole.bytes
            );
        }
        let ids: Vec<&str> = self.homes().iter().map(|home| home.id.as_str()).chain(["nowhere"]).collect();
        out += &format!("\n| step | {} | changed |\n| --- | {}---: |\n", ids.join(" | "), "---: | ".repeat(ids.len()));
        for step in &self.steps {
            let counts: Vec<String> =
                step.counts.iter().map(|count| format!("{} + {}", count.operations, count.others)).collect();
            out += &format!("| {} | {} | {} |\n", step.source_name(), counts.join(" | "), step.changed);
        }
        out += "\nOperations + views, weights, caches and inputs. The passes have their names in llama.cpp's source \
                (`ggml_backend_sched_split_graph`).\n\n";
        out.extend(self.steps.iter().map(|step| format!("- **{}**: {}\n", step.source_name(), step.description())));
        let crossed = self.crossed();
        out +=
            &format!("\n## {} graph splits, {} tensors copied, {}\n\n", crossed.cuts, crossed.tensors, crossed.bytes);
        out += "| split | device | operations | copied tensor | from | bytes |\n| ---: | --- | ---: | --- | --- | \
                ---: |\n";
        for (at, cut) in self.cuts.iter().enumerate() {
            out += &self.rows(at, cut);
        }
        let pipeline = self.trace().details.pipeline;
        let word = if pipeline.is_on() { "on (n_copies = 4)" } else { "off" };
        out += &format!("\n## Pipeline parallelism is {word}\n\n");
        for (description, met) in pipeline.conditions() {
            out += &format!("- {} {description}\n", if met { "yes:" } else { "no:" });
        }
        out
    }

    fn rows(&self, at: usize, cut: &GraphSplit) -> String {
        let id = |home: usize| self.homes().get(home).map_or("", |home| home.id.as_str());
        let head = format!("| {at} | {} | {} |", id(cut.home), cut.nodes.len());
        if cut.crossings.is_empty() {
            return format!("{head} | | |\n");
        }
        let row = |(first, crossing): (bool, &SplitInput)| {
            let head = if first { head.as_str() } else { "| | | |" };
            let Bytes(bytes) = crossing.bytes;
            format!("{head} `{}` | {} | {} |\n", crossing.name, id(crossing.from), grouped(bytes, '\u{2009}'))
        };
        cut.crossings.iter().enumerate().map(|(at, crossing)| row((at == 0, crossing))).collect()
    }
}
