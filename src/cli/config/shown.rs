//! `plimsoll config`: where the file is, what holds, and who set it.

use super::super::error::one_line;
use super::super::style::Style;
use super::keys::KEYS;
use super::{Config, SetBy};
use crate::tui::theme::Appearance;

/// The first line of the example.
const EXAMPLE_HEAD: &str =
    "# plimsoll's configuration: what options mean where neither they nor a variable are given\n";

/// A file with every key, each switched off.
pub(in super::super) fn example() -> String {
    let mut out = EXAMPLE_HEAD.to_owned();
    for key in &KEYS {
        out += &format!("\n# {}\n# {} = {}\n", key.what, key.name, key.example);
    }
    out
}

/// The path, and all keys with their values in effect.
pub(in super::super) fn text(config: &Config, variable: &dyn Fn(&str) -> Option<String>, style: &Style) -> String {
    let mut out = match (&config.path, config.exists) {
        (Some(path), true) => format!("{}\n", path.display()),
        (Some(path), false) => {
            let hint = "it does not exist yet; 'plimsoll config --example' prints one to begin with";
            format!("{}\n{}", path.display(), style.wrap("", hint))
        }
        (None, _) => style.wrap("", "no file: the operating system knows no home folder; set HOME"),
    };
    let rows: Vec<[String; 3]> = KEYS
        .iter()
        .map(|key| {
            let (value, by) = in_effect(config, key.name, key.default, variable);
            [key.name.to_owned(), one_line(&value), by]
        })
        .collect();
    let wide = |column: usize, head: &str| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default().max(head.len()) + 2
    };
    let (first, second) = (wide(0, "key"), wide(1, "value"));
    let head = format!("{:<first$}{:<second$}set by", "key", "value");
    out += &format!("\n{}\n", style.strong(&head));
    for [key, value, by] in &rows {
        out += &format!("{key:<first$}{value:<second$}{by}\n");
    }
    out += &format!("\n{}", style.wrap("", "An option of the same name stands over each of these."));
    out
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
    over.map_or((value, by), |(name, text)| (text, name.to_owned()))
}
