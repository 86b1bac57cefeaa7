//! From the file's text to its entries, each with its line.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::super::error::one_line;
use super::keys::{self, KEYS, Key};

/// A key of the file with its value as text.
#[derive(Debug)]
pub(super) struct FileEntry {
    pub key: &'static Key,
    pub text: String,
    pub line: usize,
}

/// What is wrong with the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub line: usize,
    pub key: Option<String>,
    /// What, and what to do.
    pub sentence: String,
}

impl Wrong {
    /// The whole sentence.
    pub(super) fn in_file(self, path: &Path) -> String {
        let key = self.key.map(|key| format!(", {key}")).unwrap_or_default();
        one_line(&format!("'{}', line {}{key}: {}", path.display(), self.line, self.sentence))
    }
}

/// The entries in the order of their lines.
pub(super) fn entries(text: &str) -> Result<Vec<FileEntry>, Wrong> {
    let line_of = |at: usize| text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(span.start));
        let written = text.lines().nth(line - 1).unwrap_or_default();
        let key = written.split_once('=').map(|(key, _)| key.trim().to_owned()).filter(|key| !key.is_empty());
        let sentence = format!("{}: write KEY = \"VALUE\", one in each line", error.message());
        Wrong { line, key, sentence }
    })?;
    let mut entries = Vec::new();
    for (name, value) in table.into_inner() {
        let line = line_of(name.span().start);
        let Some(key) = KEYS.iter().find(|key| key.name == name.get_ref().as_ref()) else {
            let names = KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", ");
            let near = keys::nearest(name.get_ref()).map(|near| format!("did you mean '{near}'? "));
            let sentence = format!("there is no such key: {}the keys are {names}", near.unwrap_or_default());
            return Err(Wrong { line, key: Some(name.get_ref().to_string()), sentence });
        };
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.as_str().to_owned(),
            _ => {
                let sentence = format!("this is neither text nor a number: write {} = {}", key.name, key.example);
                return Err(Wrong { line, key: Some(key.name.to_owned()), sentence });
            }
        };
        entries.push(FileEntry { key, text, line });
    }
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}
