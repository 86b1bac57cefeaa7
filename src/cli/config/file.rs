//! Reads the file: its entries with their lines, and what is wrong with it.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::super::error::one_line;
use super::table::{KEYS, Key, nearest};

/// A key of the file with its value as text.
#[derive(Debug)]
pub(super) struct FileEntry {
    pub(super) key: &'static Key,
    pub(super) text: String,
    pub(super) line: usize,
}

/// Further keys of a command of the planner.
#[derive(Debug)]
pub(super) struct OwnKeys {
    pub(super) command: String,
    pub(super) keys: Vec<String>,
    pub(super) line: usize,
}

/// The table of further keys.
const OWN_KEYS: &str = "keys";

/// What the file has, in the order of its lines.
#[derive(Debug, Default)]
pub(super) struct FileEntries {
    pub(super) entries: Vec<FileEntry>,
    pub(super) keys: Vec<OwnKeys>,
}

/// What is wrong with the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) line: usize,
    pub(super) key: Option<String>,
    /// What, and what to do.
    pub(super) sentence: String,
}

impl Wrong {
    /// The whole sentence.
    pub(super) fn in_file(self, path: &Path) -> String {
        let key = self.key.map(|key| format!(", {key}")).unwrap_or_default();
        one_line(&format!("'{}', line {}{key}: {}", path.display(), self.line, self.sentence))
    }
}

/// The entries in the order of their lines.
pub(super) fn entries(text: &str) -> Result<FileEntries, Wrong> {
    let line_of = |at: usize| text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(span.start));
        let written = text.lines().nth(line - 1).unwrap_or_default();
        let key = written.split_once('=').map(|(key, _)| key.trim().to_owned()).filter(|key| !key.is_empty());
        let sentence = format!("{}: write KEY = \"VALUE\", one in each line", error.message());
        Wrong { line, key, sentence }
    })?;
    let mut read = FileEntries::default();
    for (name, value) in table.into_inner() {
        let line = line_of(name.span().start);
        if name.get_ref() == OWN_KEYS {
            let wrong = || Wrong {
                line,
                key: Some(OWN_KEYS.to_owned()),
                sentence: format!("this is a table: write [{OWN_KEYS}], and below it export = \"F9\""),
            };
            let DeValue::Table(commands) = value.into_inner() else { return Err(wrong()) };
            for (command, keys) in commands {
                let line = line_of(command.span().start);
                let text = |value: &DeValue| value.as_str().map(str::to_owned);
                let keys = match keys.get_ref() {
                    DeValue::Array(keys) => keys.iter().map(|key| text(key.get_ref())).collect(),
                    key => text(key).map(|key| vec![key]),
                };
                let keys = keys.ok_or_else(|| Wrong { line, ..wrong() })?;
                read.keys.push(OwnKeys { command: command.get_ref().to_string(), keys, line });
            }
            continue;
        }
        let Some(key) = KEYS.iter().find(|key| key.name == name.get_ref().as_ref()) else {
            let names = KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", ");
            let near = nearest(name.get_ref()).map(|near| format!("did you mean '{near}'? "));
            let sentence = format!("there is no such key: {}the keys are {names}", near.unwrap_or_default());
            return Err(Wrong { line, key: Some(name.get_ref().to_string()), sentence });
        };
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Boolean(truth) => truth.to_string(),
            _ => {
                let sentence = format!("this is neither text nor a number: write {} = {}", key.name, key.example);
                return Err(Wrong { line, key: Some(key.name.to_owned()), sentence });
            }
        };
        read.entries.push(FileEntry { key, text, line });
    }
    read.entries.sort_by_key(|entry| entry.line);
    read.keys.sort_by_key(|keys| keys.line);
    Ok(read)
}
