//! The timelines as JSON and as Markdown.
#![allow(clippy::format_push_string, reason = "written once; readability wins")]

use serde_json::{Value, json};

use super::{AllocationPage, AllocationWalk, TensorLife, Timeline, TimelineKind};
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

    /// A section for each device: its peak and the tensors alive then.
    pub fn markdown(&self) -> String {
        let mut out = "# Where the memory of the compute buffers goes\n".to_owned();
        if let Some(remark) = &self.remark {
            out += &format!("\n{remark}\n");
        }
        for timeline in &self.walk.timelines {
            out += &section(timeline, &self.walk);
        }
        if let Some(other) = &self.other {
            out += &format!("\n## With {} instead of {}\n\n", other.label, self.label);
            match &other.walk {
                Ok(walk) => out += &comparison(&self.walk, walk, [&self.label, &other.label]),
                Err(refusal) => out += &format!("llama.cpp refuses: {refusal}\n"),
            }
        }
        out
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

fn section(timeline: &Timeline, walk: &AllocationWalk) -> String {
    let at = walk.moments.get(timeline.peak);
    let node = at.map(|moment| format!("{} ({})", moment.name, moment.op)).unwrap_or_default();
    let bytes = |bytes: u64| grouped(bytes, '\u{2009}');
    let mut out = format!(
        "\n## {}: {}\n\nReserved: {} bytes, first needed by {node}, step {} of {}. Without reuse: {}.\n\n",
        timeline.id,
        timeline.reserved,
        bytes(timeline.reserved.0),
        timeline.peak + 1,
        walk.moments.len(),
        timeline.naive,
    );
    let lives = timeline.alive_at(timeline.peak);
    if lives.is_empty() {
        return out + "Nothing is computed on this device.\n";
    }
    out += "| tensor | shape | kind | offset | bytes | in place of |\n| --- | --- | --- | ---: | ---: | --- |\n";
    for life in &lives {
        let TensorLife { name, shape, kind, offset, .. } = life;
        let took = life.takes_over.as_deref().unwrap_or_default();
        out += &format!(
            "| `{name}` | {shape} | {} | {} | {} | {took} |\n",
            kind.word(),
            bytes(*offset),
            bytes(life.bytes)
        );
    }
    let held: u64 = lives.iter().map(|life| life.bytes).sum();
    out += &format!("| fragmentation | | | | {} | |\n", bytes(timeline.reserved.0.saturating_sub(held)));
    out
}

fn comparison(one: &AllocationWalk, two: &AllocationWalk, [label, other]: [&str; 2]) -> String {
    let mut out = format!("| device | {label} | {other} |\n| --- | ---: | ---: |\n");
    for (one, two) in one.timelines.iter().zip(&two.timelines) {
        out += &format!("| {} | {} | {} |\n", one.id, one.reserved, two.reserved);
    }
    for kind in TimelineKind::ALL {
        let most = |walk: &AllocationWalk| {
            let of = |timeline: &Timeline| timeline.alive.iter().map(|kinds| kinds[kind.index()]).max().unwrap_or(0);
            Bytes(walk.timelines.iter().map(of).max().unwrap_or(0))
        };
        if most(one).max(most(two)) > Bytes::ZERO {
            out += &format!("| peak {} on a device | {} | {} |\n", kind.word(), most(one), most(two));
        }
    }
    out
}
