//! JSON in a log: lines of `--log-jsonl`, of container and service managers, and documents over several lines.

use serde_json::Value;

use super::table::TableRow;
use super::{PsRow, limits, ps, table};

/// What a document holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Document {
    /// Lines of a log.
    Text(String),
    /// A breakdown table.
    Table(Vec<(String, TableRow)>),
    /// The models of `/api/ps`.
    Ps(Vec<PsRow>),
    /// Anything else.
    Other(Value),
}

/// A document in one line.
pub(super) fn line(text: &str) -> Option<Document> {
    if !(text.starts_with('{') && text.trim_end().ends_with('}')) {
        return None;
    }
    Some(document(serde_json::from_str(text).ok()?))
}

fn document(value: Value) -> Document {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    if text("type") == Some("fit_memory_breakdown")
        && let Some(data) = value.get("data")
    {
        return Document::Table(table::json_rows(data).collect());
    }
    // llama.cpp's own, Docker's, journald's, and those of collectors
    let message = ["msg", "log", "MESSAGE", "message", "text", "line"].into_iter().find_map(text);
    if let Some(message) = message {
        return Document::Text(message.to_owned());
    }
    match value.get("models").and_then(Value::as_array) {
        Some(models) => Document::Ps(ps::json_rows(models)),
        None => Document::Other(value),
    }
}

/// A document over several lines that comes in line by line, until it is whole or too long.
#[derive(Clone, Debug, Default)]
pub(super) struct Collector {
    text: String,
    depth: u32,
    quoted: bool,
    escaped: bool,
}

impl Collector {
    /// A line; the document if it ends here. Starts at a line with a brace alone or with the first key of `/api/ps`.
    pub fn feed(&mut self, line: &str) -> Option<Document> {
        if self.text.is_empty() && !(line.trim_end() == "{" || line.starts_with("{\"models\"")) {
            return None;
        }
        if self.text.len() + line.len() > limits::JSON {
            *self = Self::default();
            return None;
        }
        for byte in line.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.quoted => self.escaped = true,
                b'"' => self.quoted = !self.quoted,
                b'{' | b'[' if !self.quoted => self.depth += 1,
                b'}' | b']' if !self.quoted => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        self.text.push_str(line);
        self.text.push('\n');
        if self.depth > 0 {
            return None;
        }
        let whole = std::mem::take(self);
        serde_json::from_str(&whole.text).ok().map(document)
    }
}
