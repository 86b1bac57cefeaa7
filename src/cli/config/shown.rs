//! What `plimsoll config` prints: the values in effect and who set them, and a file to begin with.

use std::borrow::Cow;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::style::Style;
use super::table::{KEYS, Key};
use super::{Config, SetBy};
use crate::export::{Head, csv};
use crate::page::{Block, Column, Hue, Narrow, Page, Table};
use crate::settings::seen::{HIDDEN, of_variable};
use crate::tui::keymap;
use crate::tui::theme::Appearance;

/// The first line of the example.
const EXAMPLE_HEAD: &str =
    "# plimsoll's configuration: what options mean where neither they nor a variable are given\n";

/// A file with every key, each switched off.
pub(in crate::cli) fn example() -> String {
    let mut out = EXAMPLE_HEAD.to_owned();
    for key in &KEYS {
        out += &format!("\n# {}\n# {} = {}\n", key.what, key.name, key.example);
    }
    out += "\n# further keys of the planner's commands, one or a list; a key is taken from a command that keeps another\n# [keys]\n";
    for (name, what) in keymap::commands() {
        out += &format!("# {name:<20} {what}\n");
    }
    out
}

/// The configuration in effect.
#[derive(JsonSchema, Serialize)]
pub(in crate::cli) struct ConfigAnswer<'a> {
    #[serde(flatten)]
    head: Head,
    /// The configuration file; null where the operating system knows no home folder.
    path: Option<Cow<'a, str>>,
    /// Whether it exists.
    exists: bool,
    /// All keys, in the order of `plimsoll config`.
    keys: Vec<KeyRecord>,
}

/// A key with its value in effect.
#[derive(JsonSchema, Serialize)]
struct KeyRecord {
    key: &'static str,
    value: String,
    /// Who set it: `default`, `line 3` of the file, a variable, or `terminal`.
    by: String,
}

fn keys(config: &Config, variable: &dyn Fn(&str) -> Option<String>) -> Vec<KeyRecord> {
    let record = |key: &Key| {
        let (value, by) = in_effect(config, key.name, key.default, variable);
        KeyRecord { key: key.name, value, by }
    };
    KEYS.iter().map(record).collect()
}

/// The path and all keys as one JSON object.
pub(in crate::cli) fn json(config: &Config, variable: &dyn Fn(&str) -> Option<String>) -> serde_json::Result<String> {
    let path = config.path.as_deref().map(Path::to_string_lossy);
    crate::text::json(&ConfigAnswer { head: Head::THIS, path, exists: config.exists, keys: keys(config, variable) })
}

/// A line for each key.
pub(in crate::cli) fn csv(config: &Config, variable: &dyn Fn(&str) -> Option<String>) -> String {
    let rows = keys(config, variable).into_iter().map(|KeyRecord { key, value, by }| [key.to_owned(), value, by]);
    csv::table(["key", "value", "by"], rows)
}

/// Reads `contents` as a configuration file, and shows it; returns what is wrong in it.
///
/// # Errors
/// One sentence.
#[cfg(any(fuzzing, test))]
pub fn check(contents: &str) -> Result<(), String> {
    let config = Config::of(Some("config.toml".into()), Some(contents), &|_| None)?;
    text(&config, &|_| None, &Style::of_stdout());
    Ok(())
}

/// The path, and all keys with their values in effect.
pub(in crate::cli) fn text(config: &Config, variable: &dyn Fn(&str) -> Option<String>, style: &Style) -> String {
    let mut page = Page::default();
    match &config.path {
        Some(path) => page.line(vec![path.display().to_string().into()]),
        None => page.text("no file: the operating system knows no home folder; set HOME", Hue::Text),
    }
    if config.path.is_some() && !config.exists {
        page.text("it does not exist yet; 'plimsoll config --example' prints one to begin with", Hue::Text);
    }
    page.blank();
    let row = |KeyRecord { key, value, by }| vec![key.into(), value.into(), by.into()];
    let columns = ["key", "value", "set by"].map(|title| Column::left(title, 0)).to_vec();
    let rows = keys(config, variable).into_iter().map(row).collect();
    page.push(Block::Table(Table { columns, rows, gap: 2, head: true, narrow: Narrow::Keep }));
    page.blank();
    page.text("An option of the same name stands over each of these.", Hue::Text);
    style.report(&page)
}

/// The value of `key`, and who set it.
fn in_effect(
    config: &Config,
    key: &str,
    default: fn() -> String,
    variable: &dyn Fn(&str) -> Option<String>,
) -> (String, String) {
    let entry = config.entries.iter().find(|entry| entry.key == key);
    let (value, by) = match entry.map(|entry| (entry, entry.by)) {
        Some((entry, SetBy::Line(line))) => (entry.text.clone(), format!("line {line}")),
        Some((entry, SetBy::Variable(name))) => (entry.text.clone(), name.to_owned()),
        None => (default(), "default".to_owned()),
    };
    let set = |names: &[&'static str]| {
        names.iter().find_map(|name| Some((*name, variable(name).filter(|text| !text.is_empty())?)))
    };
    let over = match key {
        "gpu-overhead" => set(&["OLLAMA_GPU_OVERHEAD"]),
        "fit-target" => set(&["LLAMA_ARG_FIT_TARGET"]),
        "theme" if Appearance::guesses_tone(variable, config.look) => None,
        "theme" | "glyphs" => {
            let look = Appearance::from_env(variable, config.look);
            let value = if key == "theme" { look.tone.name() } else { look.glyphs.name() };
            let asked = if key == "theme" { "PLIMSOLL_THEME" } else { "PLIMSOLL_GLYPHS" };
            // the environment may overrule the file, or decide alone
            let by = match (set(&[asked]), entry) {
                (Some((name, text)), _) if text == value => name.to_owned(),
                (_, Some(entry)) if entry.text.trim() == value => by,
                _ => "terminal".to_owned(),
            };
            return (value.to_owned(), by);
        }
        _ => None,
    };
    let shown = |name: &str, text: &str| of_variable(name, text).map_or_else(|| HIDDEN.to_owned(), Cow::into_owned);
    over.map_or((value, by), |(name, text)| (shown(name, &text), name.to_owned()))
}
