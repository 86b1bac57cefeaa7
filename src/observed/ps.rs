//! `ollama ps` and `/api/ps`.

use serde::Serialize;
use serde_json::Value;

use super::{limits, scan};

/// A model that Ollama lists as loaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PsRow {
    /// Its name.
    pub name: String,
    /// The digest's first digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The column SIZE, decimal units of two figures: `4.0 GB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// All of it in bytes, by `/api/ps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The part on GPUs in bytes, by `/api/ps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vram_bytes: Option<u64>,
    /// The column PROCESSOR: `100% GPU`, `27%/73% CPU/GPU`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// Percent on GPUs, of that column.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_percent: Option<u8>,
    /// Tokens of context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
}

/// A row of the listing, with or without its heading: name, twelve digits, size, processor, perhaps context.
pub(super) fn row(text: &str) -> Option<PsRow> {
    let mut words = text.split_whitespace();
    let (name, id) = (words.next()?, words.next()?);
    if id.len() != 12 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let (number, unit) = (words.next()?, words.next()?);
    scan::size(&format!("{number} {unit}"))?;
    let (share, of) = (words.next()?, words.next()?);
    let processor = format!("{share} {of}");
    let gpu_percent = Some(gpu_percent(&processor)?);
    Some(PsRow {
        name: scan::name(name),
        id: Some(id.to_owned()),
        size: Some(format!("{number} {unit}")),
        processor: Some(scan::clip(&processor, 32)),
        gpu_percent,
        context: words.next().and_then(|word| word.parse().ok()).filter(|&tokens| tokens > 60),
        ..PsRow::default()
    })
}

/// The share on GPUs of a column PROCESSOR, in percent.
pub fn gpu_percent(processor: &str) -> Option<u8> {
    let (shares, of) = processor.split_once(' ')?;
    let percent = |text: &str| text.strip_suffix('%')?.parse::<u8>().ok().filter(|&percent| percent <= 100);
    match (shares.split_once('/'), of) {
        (None, "GPU") => percent(shares),
        (None, "CPU") => percent(shares).map(|cpu| 100 - cpu),
        (Some((_, gpu)), "CPU/GPU") => percent(gpu),
        _ => None,
    }
}

/// The models of `/api/ps`.
pub(super) fn json_rows(models: &[Value]) -> Vec<PsRow> {
    let rows = models.iter().filter_map(|model| {
        let text = |key: &str| model.get(key).and_then(Value::as_str);
        let count = |key: &str| model.get(key).and_then(Value::as_u64);
        Some(PsRow {
            name: scan::name(text("name").or(text("model"))?),
            id: text("digest").map(|digest| scan::clip(digest.trim_start_matches("sha256:"), 12)),
            size_bytes: Some(count("size")?),
            // left out by Ollama where it is zero
            vram_bytes: Some(count("size_vram").unwrap_or_default()),
            context: count("context_length").filter(|&tokens| tokens > 0),
            ..PsRow::default()
        })
    });
    rows.take(limits::ROWS).collect()
}
