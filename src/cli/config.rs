//! The configuration file, `config.toml`: what options mean where they are not given. The command line stands over the
//! environment, and the environment over the file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use toml::de::{DeTable, DeValue};

use super::args::Interval;
use super::error::{CliError, one_line};
use super::style::Style;
use super::value;
use crate::answer::best::DEFAULT_MARGIN;
use crate::engine::EngineId;
use crate::export::{Head, csv};
use crate::files;
use crate::hardware::remembered::THIS_MACHINE;
use crate::hardware::watch::DEFAULT_INTERVAL;
use crate::page::{Block, Column, Hue, Narrow, Page, Table};
use crate::settings::{Release, Settings};
use crate::text::LONGEST_NAME;
use crate::tui::app::Preferences;
use crate::tui::keymap;
use crate::tui::theme::{Appearance, Glyphs, Preferred, Tone};
use crate::units::{Bytes, NotASize};

/// What the file and the `PLIMSOLL_*` variables set.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    pub engine: Option<EngineId>,
    pub release: Option<Release>,
    /// A saved machine, or a machine file.
    pub machine: Option<String>,
    pub gpu_overhead: Option<Bytes>,
    pub fit_target: Option<Bytes>,
    pub refresh: Option<Interval>,
    /// Of the planner and of lists.
    pub preferences: Preferences,
    /// Colours and characters that the file asks for.
    pub look: Preferred,
    /// The file, where the operating system knows a home.
    path: Option<PathBuf>,
    /// Whether the file is there.
    exists: bool,
    /// What is set, in the order of [`KEYS`].
    entries: Vec<Entry>,
}

/// A key that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    key: &'static str,
    text: String,
    by: SetBy,
}

/// Who set a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetBy {
    /// The file, in this line.
    Line(usize),
    /// A variable of the environment.
    Variable(&'static str),
}

/// The configuration folder of this program, where the operating system knows a home.
pub(super) fn folder() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "plimsoll").map(|dirs| dirs.config_dir().to_owned())
}

/// The configuration file, where the operating system knows a home.
pub(super) fn path() -> Option<PathBuf> {
    folder().map(|folder| folder.join("config.toml"))
}

/// The variables that stand for keys of the file, with what each does.
pub(super) fn variables() -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
    KEYS.iter().filter_map(|key| Some((vec![key.variable?], key.what)))
}

impl Config {
    /// That of this person: the file in the configuration folder of this program, and the environment.
    ///
    /// # Errors
    /// If the file cannot be read or a value is none: one sentence with path, line and key.
    pub(super) fn here() -> Result<Self, CliError> {
        let path = path();
        let text =
            path.as_deref().map_or(Ok(None), |path| files::text(path, files::TEXT)).map_err(CliError::Arguments)?;
        Self::of(path, text.as_deref(), &|name| std::env::var(name).ok()).map_err(CliError::Arguments)
    }

    /// What `text`, the contents of the file at `path`, and `variable` set.
    fn of(
        path: Option<PathBuf>,
        text: Option<&str>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let mut config = Self { exists: text.is_some(), ..Self::default() };
        let file = path.as_deref().unwrap_or(Path::new("config.toml"));
        let read = text.map_or_else(|| Ok(FileEntries::default()), entries).map_err(|wrong| wrong.in_file(file))?;
        for OwnKeys { command, keys, line } in read.keys {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            config.preferences.keys = config
                .preferences
                .keys
                .with(&command, &keys)
                .map_err(|sentence| Wrong { line, key: Some(format!("keys.{command}")), sentence }.in_file(file))?;
        }
        for entry in read.entries {
            let (line, key) = (entry.line, entry.key);
            config
                .set(key, &entry.text, SetBy::Line(line))
                .map_err(|sentence| Wrong { line, key: Some(key.name.to_owned()), sentence }.in_file(file))?;
        }
        config.machine = config.machine.map(|machine| from_folder_of(file, machine));
        for key in &KEYS {
            let Some(name) = key.variable else { continue };
            if let Some(text) = variable(name).filter(|text| !text.is_empty()) {
                config.set(key, &text, SetBy::Variable(name)).map_err(|sentence| format!("{name}: {sentence}"))?;
            }
        }
        config.path = path;
        Ok(config)
    }

    /// What it says of the planner and of lists, and nothing of plans.
    #[must_use]
    pub(super) fn without_plans(self) -> Self {
        let open = Self::default();
        let Self { refresh, preferences, look, path, exists, entries, .. } = self;
        Self { refresh, preferences, look, path, exists, entries, ..open }
    }

    fn set(&mut self, key: &'static Key, text: &str, by: SetBy) -> Result<(), String> {
        (key.set)(self, text)?;
        self.entries.retain(|entry| entry.key != key.name);
        self.entries.push(Entry { key: key.name, text: text.to_owned(), by });
        Ok(())
    }

    /// The machine to plan for where the command line names none; none for this one.
    pub(super) fn other_machine(&self) -> Option<&str> {
        self.machine.as_deref().filter(|machine| *machine != THIS_MACHINE)
    }

    /// A sentence on the machine, for plans.
    pub(super) fn machine_note(&self) -> Option<String> {
        let machine = self.other_machine()?;
        Some(format!("machine '{machine}', by {}: --machine {THIS_MACHINE} plans for this one", self.set_by("machine")))
    }

    /// Sets what the knobs and the environment left open; an engine's settings are left alone where it has no such
    /// option. Returns a note for each.
    pub(super) fn fill(&self, settings: &mut Settings, engine: EngineId, is_open: &Open) -> Vec<String> {
        let (mut notes, releases) = (Vec::new(), engine.facts().releases);
        if settings.release.is_none() {
            settings.release = self.release.filter(|release| releases.contains(release));
        }
        let asked = [
            ("gpu-overhead", self.gpu_overhead.filter(|_| is_open.gpu_overhead)),
            ("fit-target", self.fit_target.filter(|_| is_open.fit_target)),
        ];
        for (key, bytes) in asked.into_iter().filter_map(|(key, bytes)| Some((key, bytes?))) {
            let mut with = settings.clone();
            match key {
                "gpu-overhead" => with.gpu_overhead = bytes,
                _ => with.fit_target = Some(bytes),
            }
            let option = format!("--{key}");
            if !engine.facts().ignored(&with).contains(&option) {
                *settings = with;
                notes.push(format!("{option} {bytes}, by {}", self.set_by(key)));
            }
        }
        notes
    }

    /// The key of the machine and who set it, for errors.
    pub(super) fn machine_key(&self) -> String {
        format!("machine in {}", self.set_by("machine"))
    }

    fn set_by(&self, key: &str) -> &str {
        match self.entries.iter().find(|entry| entry.key == key).map(|entry| entry.by) {
            Some(SetBy::Variable(name)) => name,
            _ => "config.toml",
        }
    }
}

/// Which settings neither an option nor a variable has set.
pub(super) struct Open {
    pub gpu_overhead: bool,
    pub fit_target: bool,
}

/// A machine file that the file names is looked for from the folder of the configuration file, wherever the program is started.
fn from_folder_of(file: &Path, machine: String) -> String {
    let is_file = machine.contains(['/', '\\']) || machine.to_ascii_lowercase().ends_with(".json");
    let home = machine.strip_prefix("~/").zip(directories::BaseDirs::new());
    match (home, file.parent()) {
        (Some((rest, dirs)), _) => dirs.home_dir().join(rest).display().to_string(),
        (None, Some(folder)) if is_file => folder.join(&machine).display().to_string(),
        _ => machine,
    }
}

/// A key.
#[derive(Debug)]
struct Key {
    pub name: &'static str,
    /// What it decides.
    pub what: &'static str,
    /// A value as it stands in the file.
    pub example: &'static str,
    /// The variable that stands over the file, where [`Config`] reads one.
    pub variable: Option<&'static str>,
    /// What holds without it.
    pub default: fn() -> String,
    pub set: fn(&mut Config, &str) -> Result<(), String>,
}

/// All keys, in the order shown.
static KEYS: [Key; 13] = [
    Key {
        name: "engine",
        what: "the engine that places the layers: ollama, llama.cpp, ollama-0.24 or ollama-0.11",
        example: "\"llama.cpp\"",
        variable: Some("PLIMSOLL_ENGINE"),
        default: || EngineId::default().to_string(),
        set: |config, text| put(&mut config.engine, text.trim().parse()),
    },
    Key {
        name: "release",
        what: "the release of llama.cpp",
        example: "\"2026-08\"",
        variable: Some("PLIMSOLL_RELEASE"),
        default: || Release::default().to_string(),
        set: |config, text| put(&mut config.release, text.parse()),
    },
    Key {
        name: "machine",
        what: "the machine to plan for: a saved one, a file, or this",
        example: "\"garage\"",
        variable: Some("PLIMSOLL_MACHINE"),
        default: || THIS_MACHINE.to_owned(),
        set: |config, text| put(&mut config.machine, Ok(text.to_owned())),
    },
    Key {
        name: "margin",
        what: "what a safe suggestion leaves on every GPU besides what the engine keeps free",
        example: "\"1GiB\"",
        variable: Some("PLIMSOLL_MARGIN"),
        default: || DEFAULT_MARGIN.to_string(),
        set: |config, text| put(&mut config.preferences.margin, size(text)),
    },
    Key {
        name: "gpu-overhead",
        what: "memory to keep free on each GPU, for the Ollama engines",
        example: "\"512MiB\"",
        // OLLAMA_GPU_OVERHEAD stands over it, and is read with Ollama's other variables
        variable: None,
        default: || Bytes::ZERO.to_string(),
        set: |config, text| put(&mut config.gpu_overhead, size(text)),
    },
    Key {
        name: "fit-target",
        what: "memory in MiB that llama.cpp's fit leaves free on each GPU",
        example: "1024",
        // LLAMA_ARG_FIT_TARGET likewise
        variable: None,
        default: || "the engine's".to_owned(),
        set: |config, text| put(&mut config.fit_target, value::mebibytes(text)),
    },
    Key {
        name: "need",
        what: "the context, in tokens, to judge lists of models by",
        example: "\"16k\"",
        variable: Some("PLIMSOLL_NEED"),
        default: || "what each model would get".to_owned(),
        set: |config, text| put(&mut config.preferences.need, value::count(text)),
    },
    Key {
        name: "min-quant",
        what: "the narrowest quantisation that best, list and the browser suggest",
        example: "\"Q4_K_M\"",
        variable: None,
        default: || "none under IQ3_XXS, unless nothing else runs".to_owned(),
        set: |config, text| put(&mut config.preferences.floors.quant, value::file_type(text)),
    },
    Key {
        name: "min-kv",
        what: "the narrowest type of the KV cache that best suggests",
        example: "\"q8_0\"",
        variable: None,
        default: || "q8_0".to_owned(),
        set: |config, text| put(&mut config.preferences.floors.cache, text.trim().parse()),
    },
    Key {
        name: "refresh",
        what: "how often the planner reads the free memory: seconds, or \"off\"",
        example: "5",
        variable: Some("PLIMSOLL_REFRESH"),
        default: || DEFAULT_INTERVAL.as_secs().to_string(),
        set: |config, text| put(&mut config.refresh, value::interval(text)),
    },
    Key {
        name: "ask-to-quit",
        what: "whether q asks once before it leaves a changed plan: true or false",
        example: "false",
        variable: None,
        default: || "true".to_owned(),
        set: |config, text| {
            let asks: bool = text.trim().parse().map_err(|_| format!("'{text}' is neither true nor false"))?;
            config.preferences.quits_at_once = !asks;
            Ok(())
        },
    },
    Key {
        name: "theme",
        what: "the planner's colours: dark, light or mono",
        example: "\"light\"",
        // PLIMSOLL_THEME and NO_COLOR stand over it: see `Appearance::from_env`
        variable: None,
        default: || "by the terminal".to_owned(),
        set: |config, text| put(&mut config.look.tone, named(text, "theme", Tone::ALL, Tone::name)),
    },
    Key {
        name: "glyphs",
        what: "the planner's characters: unicode or ascii",
        example: "\"ascii\"",
        // PLIMSOLL_GLYPHS stands over it
        variable: None,
        default: || "by the terminal".to_owned(),
        set: |config, text| put(&mut config.look.glyphs, named(text, "set of characters", Glyphs::ALL, Glyphs::name)),
    },
];

/// Reads `text` as a configuration file, and shows it; returns what is wrong in it.
///
/// # Errors
/// One sentence.
#[cfg(fuzzing)]
pub fn check(contents: &str) -> Result<(), String> {
    let config = Config::of(Some("config.toml".into()), Some(contents), &|_| None)?;
    text(&config, &|_| None, &Style::of_stdout());
    Ok(())
}

/// The key nearest to `word`, with an edit distance of at most half of its length.
fn nearest(word: &str) -> Option<&'static str> {
    if word.len() > LONGEST_NAME {
        return None;
    }
    let word = word.to_ascii_lowercase().replace('_', "-");
    let distance = |name: &str| strsim::osa_distance(&word, name);
    let near = KEYS.iter().map(|key| key.name).filter(|name| distance(name) * 2 <= name.len());
    near.min_by_key(|name| distance(name))
}

fn put<T>(place: &mut Option<T>, value: Result<T, String>) -> Result<(), String> {
    *place = Some(value?);
    Ok(())
}

fn size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error: NotASize| error.to_string())
}

/// The one of `all` with this name.
fn named<T: Copy, const N: usize>(
    text: &str,
    what: &str,
    all: [T; N],
    name: fn(T) -> &'static str,
) -> Result<T, String> {
    let names = all.map(name);
    let found = all.into_iter().find(|one| name(*one) == text.trim());
    found.ok_or_else(|| format!("'{text}' is not a {what}: use {}", names.join(" or ")))
}

/// A key of the file with its value as text.
#[derive(Debug)]
struct FileEntry {
    pub key: &'static Key,
    pub text: String,
    pub line: usize,
}

/// Further keys of a command of the planner.
#[derive(Debug)]
struct OwnKeys {
    command: String,
    keys: Vec<String>,
    line: usize,
}

/// The table of further keys.
const OWN_KEYS: &str = "keys";

/// What the file has, in the order of its lines.
#[derive(Debug, Default)]
struct FileEntries {
    entries: Vec<FileEntry>,
    keys: Vec<OwnKeys>,
}

/// What is wrong with the file.
#[derive(Debug, PartialEq, Eq)]
struct Wrong {
    pub line: usize,
    pub key: Option<String>,
    /// What, and what to do.
    pub sentence: String,
}

impl Wrong {
    /// The whole sentence.
    fn in_file(self, path: &Path) -> String {
        let key = self.key.map(|key| format!(", {key}")).unwrap_or_default();
        one_line(&format!("'{}', line {}{key}: {}", path.display(), self.line, self.sentence))
    }
}

/// The entries in the order of their lines.
fn entries(text: &str) -> Result<FileEntries, Wrong> {
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

/// The first line of the example.
const EXAMPLE_HEAD: &str =
    "# plimsoll's configuration: what options mean where neither they nor a variable are given\n";

/// A file with every key, each switched off.
pub(super) fn example() -> String {
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
pub(super) struct ConfigAnswer<'a> {
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
pub(super) fn json(config: &Config, variable: &dyn Fn(&str) -> Option<String>) -> serde_json::Result<String> {
    let path = config.path.as_deref().map(Path::to_string_lossy);
    crate::text::json(&ConfigAnswer { head: Head::THIS, path, exists: config.exists, keys: keys(config, variable) })
}

/// A line for each key.
pub(super) fn csv(config: &Config, variable: &dyn Fn(&str) -> Option<String>) -> String {
    let rows = keys(config, variable).into_iter().map(|KeyRecord { key, value, by }| [key.to_owned(), value, by]);
    csv::table(["key", "value", "by"], rows)
}

/// The path, and all keys with their values in effect.
pub(super) fn text(config: &Config, variable: &dyn Fn(&str) -> Option<String>, style: &Style) -> String {
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
    page.push(Block::Table(Table { columns, rows, gap: 2, narrow: Narrow::Keep }));
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
    over.map_or((value, by), |(name, text)| (text, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::best::Floors;
    use crate::gguf::FileType;
    use crate::settings::CacheType;
    use rstest::rstest;

    fn of(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
        let get = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Config::of(Some("/home/me/config.toml".into()), Some(text), &get)
    }

    #[test]
    fn every_key_of_the_example_can_be_set() {
        let example = example();
        let keys = example.lines().filter(|line| line.contains(" = ")).map(|line| line.trim_start_matches("# "));
        let text = keys.collect::<Vec<_>>().join("\n");
        let config = of(&text, &[]).unwrap();
        assert_eq!(config.entries.len(), KEYS.len(), "{text}");
        assert_eq!(of(&example, &[]).unwrap().entries.len(), 0, "all of it is comments");
        assert_eq!(config.engine, Some(EngineId::LlamaCpp));
        let floors = Floors { quant: Some(FileType::Q4KM), cache: Some(CacheType::Q8_0) };
        assert_eq!(
            config.preferences,
            Preferences {
                margin: Some(Bytes::gib(1)),
                need: Some(16_384),
                floors,
                quits_at_once: true,
                ..Preferences::default()
            }
        );
        assert_eq!(config.fit_target, Some(Bytes::gib(1)));
    }

    #[rstest]
    #[case(
        "engin = \"ollama\"",
        "line 1, engin: there is no such key: did you mean 'engine'? the keys are engine, release"
    )]
    #[case("\nGPU_OVERHEAD = 1", "line 2, GPU_OVERHEAD: there is no such key: did you mean 'gpu-overhead'?")]
    #[case("zzz = 1", "line 1, zzz: there is no such key: the keys are")]
    #[case("[planner]\ntheme = \"dark\"", "line 1, planner: there is no such key")]
    #[case("# one\nengine = llama.cpp", "line 2, engine: ")]
    #[case("theme = \"pink\"", "line 1, theme: 'pink' is not a theme: use dark or light or mono")]
    #[case("engine = \"vllm\"", "line 1, engine: unknown engine 'vllm': use ollama or llama.cpp")]
    #[case("need = [1]", "line 1, need: this is neither text nor a number: write need = \"16k\"")]
    #[case("need = true", "line 1, need: 'true' is not a number")]
    #[case("need = 0", "line 1, need: '0' is out of range")]
    #[case("margin = \"lots\"", "line 1, margin: ")]
    #[case("need = 1\nneed = 2", "line 2, need: ")]
    fn what_is_wrong_is_said_with_path_line_and_key(#[case] text: &str, #[case] said: &str) {
        let sentence = of(text, &[]).unwrap_err();
        assert!(sentence.starts_with(&format!("'/home/me/config.toml', {said}")), "{sentence}");
        assert!(!sentence.contains('\n'));
    }

    #[test]
    fn commands_of_the_planner_get_further_keys() {
        let config = of("[keys]\nexport = \"F9\"\nundo = [\"x\", \"Ctrl-z\"]", &[]).unwrap();
        let undo = config.preferences.keys.key_for(crate::tui::action::Command::Undo, &[keymap::Scope::Plan]);
        assert_eq!(undo.as_deref(), Some("Ctrl-Z"));
        for (text, said) in [
            ("keys = 1", "line 1, keys: this is a table: write [keys]"),
            ("[keys]\nexport = 9", "line 2, keys: this is a table"),
            ("[keys]\nexprot = \"F9\"", "line 2, keys.exprot: 'exprot' is no command: did you mean 'export'?"),
            ("[keys]\nexport = \"F99\"", "line 2, keys.export: 'F99' is no key: write x, X, F5"),
            ("\n[keys]\nundo = \"x\"", "line 3, keys.undo: 'x' is the only key of export in 'Planner'"),
        ] {
            let sentence = of(text, &[]).unwrap_err();
            assert!(sentence.contains(said), "{sentence}");
        }
    }

    #[test]
    fn variables_stand_over_the_file() {
        let config = of("engine = \"llama.cpp\"\nrefresh = 0.5", &[("PLIMSOLL_ENGINE", "ollama-0.24")]).unwrap();
        assert_eq!(config.engine, Some(EngineId::Ollama024));
        assert_eq!(config.refresh.and_then(|refresh| refresh.0), Some(std::time::Duration::from_millis(500)));
        assert_eq!(config.set_by("engine"), "PLIMSOLL_ENGINE");
        let wrong = of("", &[("PLIMSOLL_NEED", "much")]).unwrap_err();
        assert!(wrong.starts_with("PLIMSOLL_NEED: 'much' is not a number"), "{wrong}");
    }

    #[test]
    fn machine_files_are_looked_for_beside_the_file() {
        let machine = |text: &str| of(&format!("machine = '{text}'"), &[]).unwrap().machine;
        assert_eq!(machine("garage").as_deref(), Some("garage"));
        assert_eq!(machine("/a/b.json").as_deref(), Some("/a/b.json"));
        let beside = Path::new("/home/me").join("b.json").display().to_string();
        assert_eq!(machine("b.json"), Some(beside));
        let by_variable = of("machine = 'a.json'", &[("PLIMSOLL_MACHINE", "b.json")]).unwrap();
        assert_eq!(by_variable.machine.as_deref(), Some("b.json"), "from the working directory");
        assert_eq!(of("machine = 'this'", &[]).unwrap().other_machine(), None);
    }

    #[test]
    fn an_engine_is_not_given_what_it_has_no_option_for() {
        let config = of("release = '2026-08'\ngpu-overhead = '1GiB'\nfit-target = 2048", &[]).unwrap();
        let filled = |engine: EngineId| {
            let mut settings = Settings::default();
            let notes = config.fill(&mut settings, engine, &Open { gpu_overhead: true, fit_target: true });
            (settings.release.is_some(), settings.gpu_overhead, settings.fit_target, notes.len())
        };
        assert_eq!(filled(EngineId::Ollama024), (false, Bytes::gib(1), None, 1));
        assert_eq!(filled(EngineId::LlamaCpp), (true, Bytes::ZERO, Some(Bytes::gib(2)), 1));
        let mut settings = Settings::default();
        let closed = Open { gpu_overhead: false, fit_target: false };
        assert!(config.fill(&mut settings, EngineId::Ollama024, &closed).is_empty());
    }
}
