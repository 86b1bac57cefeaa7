//! `plimsoll devices --presets`: known cards and systems, as text or JSON.

use serde::Serialize;

use super::error::CliError;
use super::style::Style;
use crate::export::record;
use crate::machine::presets::{self, Preset};
use crate::machine::{Backend, Gpu};
use crate::text;
use crate::units::Bytes;

/// The presets that match `search`, or all.
pub(super) fn found(search: Option<&str>) -> Result<Vec<&'static Preset>, CliError> {
    let text = search.unwrap_or_default();
    let found = presets::matching(text);
    if found.is_empty() {
        let near = presets::nearest(text);
        let hint = if near.is_empty() { String::new() } else { format!("; similar names are {}", near.join(", ")) };
        return Err(CliError::flag("--presets", &format!("no card or system matches '{text}'{hint}")));
    }
    Ok(found)
}

/// The presets as text.
pub(super) fn text(found: &[&Preset], style: &Style) -> String {
    let name = style.width - 5 * 11;
    let head = if style.is_narrow() {
        "Presets".to_owned()
    } else {
        format!("{:<name$}{:>11}{:>11}{:>11}{:>11}{:>11}", "Presets", "backend", "total", "free", "compute", "GB/s")
    };
    let mut out = format!("{}\n", style.strong(&head));
    for preset in found {
        let gpu = preset.gpu();
        let compute = gpu.compute.map_or_else(|| "–".to_owned(), |(major, minor)| format!("{major}.{minor}"));
        let (backend, total, free) = (gpu.backend.name(), gpu.total.to_string(), gpu.free.to_string());
        if style.is_narrow() {
            out += &format!("{}\n", preset.name);
            let figures =
                [format!("{total}, {free} free"), format!("compute {compute}"), format!("{} GB/s", preset.gbps)];
            out += &style.below(4, &[&[backend.to_owned()], &figures[..]].concat());
        } else {
            out +=
                &format!("{:<name$}{backend:>11}{total:>11}{free:>11}{compute:>11}{:>11}\n", preset.name, preset.gbps);
        }
    }
    out.push('\n');
    out += &style
        .wrap("", "Free memory is assumed. Use one with --gpu \"NAME\"; add ,free=20GiB to state the free memory.");
    out
}

/// The presets as one JSON object.
pub(super) fn json(found: &[&Preset]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Object<'a> {
        presets: Vec<PresetRecord<'a>>,
    }
    let presets = found.iter().map(|preset| PresetRecord::of(preset, &preset.gpu())).collect();
    text::json(&Object { presets })
}

record! {
    PresetRecord<'a>(preset: &'a Preset, gpu: &Gpu) {
        name: &'a str = &preset.name,
        backend: Backend = gpu.backend,
        total: Bytes = gpu.total,
        free_assumed: Bytes = gpu.free,
        integrated: bool = gpu.integrated,
        compute: Option<String> = gpu.compute.map(|(major, minor)| format!("{major}.{minor}")),
        bytes_per_second: u64 = u64::from(preset.gbps) * 1_000_000_000,
        ram: Option<Bytes> = preset.ram().map(|ram| ram.total),
    }
}
