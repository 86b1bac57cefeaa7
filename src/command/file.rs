//! Files that start servers: compose and Kubernetes, llama-swap's configuration, units of systemd, llama-server's presets.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::dialect::Dialect;
use super::shell::{self, Variables, Word, assignment};
use super::{Start, few, limit, script, spent};
use crate::budget::{Budget, Spend};
use crate::machine::visible::CONTAINER;

/// What kind of file a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// YAML: compose, Kubernetes, llama-swap.
    Yaml,
    /// A unit of systemd, or a drop-in.
    Unit,
    /// Presets of llama-server.
    Presets,
}

impl Kind {
    /// The kind; none for a shell's text.
    pub fn of(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
        let first = lines.next()?;
        let is_key = |line: &str| {
            let key = line.split([':', '=']).next().unwrap_or_default().trim();
            !key.is_empty() && !key.contains(char::is_whitespace)
        };
        if first.starts_with('[') && first.ends_with(']') && !first.contains(' ') || first.starts_with("version =") {
            let unit = ["[Unit]", "[Service]", "[Install]", "[Container]"];
            return Some(if unit.contains(&first) { Self::Unit } else { Self::Presets });
        }
        let starts = ["services", "models", "macros", "apiVersion", "version", "name", "healthCheckTimeout", "x-"];
        let yaml = first == "---"
            || first.ends_with(':') && is_key(first)
            || starts.iter().any(|key| first.starts_with(&format!("{key}:")));
        let has = |key: &str| text.lines().any(|line| line.trim().trim_start_matches("- ").starts_with(key));
        let starts_something =
            ["cmd:", "command:", "image:", "args:", "entrypoint:", "environment:"].into_iter().any(has);
        let has_maps = || text.lines().filter(|line| line.trim_end().ends_with(':')).count() > 1;
        (starts_something && (yaml || has_maps())).then_some(Self::Yaml)
    }

    /// What the file starts.
    pub fn read(self, text: &str, budget: &Budget) -> Result<Vec<Start>, String> {
        match self {
            Self::Yaml => yaml(text, budget),
            Self::Unit => unit(text, budget),
            Self::Presets => presets(text, budget),
        }
    }
}

/// Options by name, with their values.
type Options = Vec<(String, String)>;

/// Options by name in sections; those of `[*]`, and of no section, are for all.
fn presets(text: &str, budget: &Budget) -> Result<Vec<Start>, String> {
    let (mut common, mut sections): (Options, Vec<(String, Options)>) = (Options::new(), Vec::new());
    let mut is_common = true;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            is_common = name.trim() == "*";
            if !is_common {
                sections.push((name.trim().to_owned(), Options::new()));
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        // a comment may follow (`common/preset.cpp`, in llama-cpp-python 0.3.36)
        let value = value.split([';', '#']).next().unwrap_or_default();
        let pair = (key.trim().to_owned(), value.trim().trim_matches('"').to_owned());
        match sections.last_mut().filter(|_| !is_common) {
            Some((_, options)) => options.push(pair),
            None => common.push(pair),
        }
    }
    if sections.is_empty() {
        sections.push((String::new(), Vec::new()));
    }
    few(sections.len())?;
    // what the router does with a model
    let of_router = ["version", "load-on-startup", "stop-timeout", "dedup-cache-models", "alias"];
    let mut all = Vec::new();
    for (name, own) in sections {
        budget.take(Spend::Words, (common.len() + own.len()) as u64).map_err(spent)?;
        let options: Options =
            common.iter().chain(&own).filter(|(key, _)| !of_router.contains(&key.as_str())).cloned().collect();
        let mut start = Start::of_options(&options).map_err(|sentence| format!("[{name}]: {sentence}"))?;
        if start.model.is_none() && !name.is_empty() {
            // the router looks for a model of this name in its cache
            start.model = Some(if name.contains('/') { format!("hf://{name}") } else { name.clone() });
        }
        start.name = name;
        all.push(start);
    }
    Ok(all)
}

/// `ExecStart` with the variables of the unit; a drop-in has only these.
fn unit(text: &str, budget: &Budget) -> Result<Vec<Start>, String> {
    let mut variables = Variables::new();
    let mut commands = Vec::new();
    let mut name = String::new();
    let mut has_file = false;
    let mut ram_limit = None;
    let joined = text.replace("\\\n", " ");
    for line in joined.lines().map(str::trim) {
        match line.split_once('=') {
            // assignments alone set variables
            Some(("Environment", pairs)) => drop(shell::words(pairs, &mut variables, budget)),
            Some(("Description", text)) => text.trim().clone_into(&mut name),
            Some(("EnvironmentFile", _)) => has_file = true,
            Some((key, value)) if limit::UNIT_KEYS.contains(&key) => ram_limit = limit::of_systemd(key, value),
            Some(("Memory", value)) => ram_limit = limit::of_docker("Memory", value),
            Some(("ExecStart", command)) => {
                commands.push(command.trim_start_matches(['-', '@', ':', '+', '!']).to_owned());
            }
            Some(("Image", image)) => commands.insert(0, image.to_owned()),
            Some(("Exec", arguments)) => match commands.first_mut() {
                Some(image) => *image += &format!(" {arguments}"),
                None => commands.push(arguments.to_owned()),
            },
            _ => {}
        }
    }
    let mut all = Vec::new();
    for command in commands.iter().filter(|command| !command.is_empty()) {
        all.extend(script(command, variables.clone(), budget)?);
    }
    if all.is_empty() {
        all = script("", variables, budget)?;
    }
    if let [one] = all.as_mut_slice() {
        one.name = name;
    }
    for one in &mut all {
        one.ram_limit = ram_limit.clone().or(one.ram_limit.take());
        if has_file {
            one.say(UNREAD_FILE.to_owned());
        }
    }
    Ok(all)
}

/// A text of YAML.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Nothing,
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a list or a map")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Nothing)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = list.next_element()? {
            all.push(one);
        }
        Ok(Tree::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut all: Vec<(String, Tree)> = Vec::new();
        while let Some((key, value)) = map.next_entry::<Tree, Tree>()? {
            if let Tree::Text(key) = key {
                all.push((key, value));
            }
        }
        Ok(Tree::Map(all))
    }
}

impl Tree {
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// The documents of a text of YAML.
pub(super) fn documents(text: &str) -> Result<Vec<Tree>, String> {
    serde_saphyr::from_multiple(text).map_err(|error| format!("it is not well-formed YAML: {error}"))
}

fn yaml(text: &str, budget: &Budget) -> Result<Vec<Start>, String> {
    let mut all = Vec::new();
    for document in &documents(text)? {
        walk("", document, &macros(document), budget, &mut all)?;
    }
    Ok(all)
}

/// The macros of llama-swap, each with those in it put in.
fn macros(tree: &Tree) -> Variables {
    let Some(Tree::Map(entries)) = tree.get("macros") else { return Variables::new() };
    entries.iter().filter_map(|(name, value)| Some((name.clone(), value.text()?.to_owned()))).collect()
}

/// The text with macros put in, as often as one has others in it.
fn with_macros(text: &str, macros: &Variables, budget: &Budget) -> String {
    let mut text = text.to_owned();
    for _ in 0..MOST_NESTED {
        let Some(next) = with_macros_once(&text, macros, budget) else { break };
        text = next;
    }
    text
}

/// None if there is none in it, or no room for it.
fn with_macros_once(text: &str, macros: &Variables, budget: &Budget) -> Option<String> {
    let (mut whole, mut rest, mut has_some) = (String::new(), text, false);
    while let Some((before, after)) = rest.split_once("${") {
        whole.push_str(before);
        let known = after.split_once('}').and_then(|(name, after)| Some((macros.get(name)?.trim_end(), after)));
        if let Some((value, after)) = known {
            budget.take(Spend::Expansion, value.len() as u64).ok()?;
            // a line of a macro goes on
            whole.push_str(value);
            (rest, has_some) = (after, true);
        } else {
            whole.push_str("${");
            rest = after;
        }
    }
    whole.push_str(rest);
    has_some.then_some(whole)
}

/// Macros in macros.
const MOST_NESTED: usize = 8;

/// Every map that has a command, whatever it is in; `name` is its key.
fn walk(name: &str, tree: &Tree, macros: &Variables, budget: &Budget, all: &mut Vec<Start>) -> Result<(), String> {
    match tree {
        Tree::Map(entries) => {
            let mut own = Cow::Borrowed(macros);
            if tree.get("macros").is_some() {
                budget.take(Spend::Words, macros.len() as u64).map_err(spent)?;
                own.to_mut().extend(self::macros(tree));
            }
            let own_name =
                tree.get("name").and_then(Tree::text).filter(|_| name.is_empty() || tree.get("image").is_some());
            let name = if name.is_empty() || tree.get("cmd").is_none() { own_name.unwrap_or(name) } else { name };
            if let Some(mut start) = container(tree, &own, budget).map_err(|sentence| format!("{name}: {sentence}"))? {
                name.clone_into(&mut start.name);
                all.push(start);
                return few(all.len());
            }
            // what compose calls an extension starts nothing by itself
            for (key, value) in entries.iter().filter(|(key, _)| !key.starts_with("x-")) {
                walk(key, value, &own, budget, all)?;
            }
        }
        Tree::List(list) => list.iter().try_for_each(|one| walk(name, one, macros, budget, all))?,
        Tree::Nothing | Tree::Text(_) => {}
    }
    Ok(())
}

/// What a service, a container or a model of llama-swap starts; none if that is nothing known.
fn container(tree: &Tree, macros: &Variables, budget: &Budget) -> Result<Option<Start>, String> {
    let mut variables = Variables::new();
    for key in ["environment", "env"] {
        match tree.get(key) {
            Some(Tree::Map(entries)) => {
                let pairs = entries.iter().filter_map(|(name, value)| Some((name.clone(), value.text()?.to_owned())));
                variables.extend(pairs);
            }
            Some(Tree::List(list)) => {
                for one in list {
                    let pair = match one {
                        Tree::Text(text) => assignment(text),
                        map => map.get("name").and_then(Tree::text).zip(map.get("value").and_then(Tree::text)),
                    };
                    variables.extend(pair.map(|(name, value)| (name.to_owned(), value.to_owned())));
                }
            }
            _ => {}
        }
    }
    // the cards that compose gives it, as NVIDIA's runtime is told them
    let devices = ["deploy", "resources", "reservations", "devices"];
    if let Some(Tree::List(devices)) = devices.into_iter().try_fold(tree, |tree, key| tree.get(key)) {
        let ids = devices.iter().filter_map(|device| match device.get("device_ids") {
            Some(Tree::List(ids)) => Some(ids.iter().filter_map(Tree::text)),
            _ => None,
        });
        let ids: Vec<&str> = ids.flatten().collect();
        if !ids.is_empty() {
            variables.insert(CONTAINER.to_owned(), ids.join(","));
        }
    }
    let mut words: Vec<Word> = Vec::new();
    for key in ["image", "entrypoint", "cmd", "command", "args"] {
        match tree.get(key) {
            Some(Tree::Text(text)) => {
                let text = with_macros(text, macros, budget);
                words.extend(shell::words(&text, &mut Variables::new(), budget));
            }
            Some(Tree::List(list)) => {
                for text in list.iter().filter_map(Tree::text) {
                    // a list has words as they are, but for variables; two dollar signs are one
                    let text = with_macros(text, macros, budget).replace('\\', "\\\\").replace('"', "\\\"");
                    let quoted = format!("\"{}\"", text.replace("$$", "\\$"));
                    words.extend(shell::words(&quoted, &mut Variables::new(), budget));
                }
            }
            _ => {}
        }
    }
    // a shell's command in a word
    if let Some(at) = words.iter().position(|word| ["-c", "-lc"].contains(&word.text.as_str()))
        && let Some(line) = words.get(at + 1).filter(|line| line.text.contains(' '))
    {
        let mut start = script(&line.text, variables, budget)?.into_iter().next();
        if let Some(start) = &mut start {
            start.ram_limit = limit::of_container(tree);
        }
        return Ok(start);
    }
    if words.is_empty() {
        return Ok(None);
    }
    let has_file = ["env_file", "envFrom"].into_iter().any(|key| tree.get(key).is_some());
    let texts: Vec<String> = words.iter().map(|word| word.text.clone()).collect();
    match Dialect::find(&texts) {
        // arguments alone are of a program that is not named
        Ok((0, _)) | Err(None) => Ok(None),
        Ok((at, dialect)) => {
            let mut start = Start::read(dialect, &words, at, &variables, budget)?;
            start.ram_limit = limit::of_container(tree);
            if has_file {
                start.say(UNREAD_FILE.to_owned());
            }
            Ok(Some(start))
        }
        Err(Some(sentence)) => Err(sentence),
    }
}

/// What is said of variables that stand in another file.
const UNREAD_FILE: &str = "it names a file of variables, which is not read: write those that matter into it";
