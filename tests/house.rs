//! The order of the house: a room imports only what stands above it in `src/lib.rs`, and few files import one another in
//! a circle. Files are read as text; an import in a unit test does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The largest circle of files.
const LARGEST_CIRCLE: usize = 8;
/// Lines of code of a file that need no reason, without comments, blank lines and unit tests.
const LONG: usize = 400;
/// Longer files, each with the reason.
const LONG_FILES: [(&str, &str); 27] = [
    ("answer/best/candidates", "one search"),
    ("answer/check/log", "one way from a log to a request"),
    ("cli/list", "one list, as text, JSON and CSV"),
    ("cli/report", "one report"),
    ("engine/ggml/backend/metal", "one backend's own decisions"),
    ("engine/ggml/backend/vulkan", "one backend's own decisions"),
    ("engine/llama_cpp/architectures", "a table: a row for each architecture"),
    ("engine/llama_cpp/fit", "one search"),
    ("engine/llama_cpp/graph/attention", "one attention, from queries to scores"),
    ("engine/llama_cpp/measure", "one measurement"),
    ("engine/llama_cpp/placement", "one placement"),
    ("engine/llama_cpp/projector/kind", "a table: a row for each kind of projector"),
    ("engine/llama_cpp/projector/measure", "one measurement"),
    ("engine/llama_cpp/release", "a table: a row for each release"),
    ("gguf/read", "one format"),
    ("hardware/sysfs", "one source of facts"),
    ("machine/spec", "one syntax"),
    ("observed/load_builder", "one state, which every line of a log may change"),
    ("running/apply", "one way from a plan to what runs"),
    ("settings/flag", "a table: a row for each option"),
    ("settings/ollama", "Ollama's options and variables"),
    ("source/http", "one protocol"),
    ("tui/screens/models", "one screen"),
    ("tui/screens/placement", "one screen"),
    ("tui/screens/sweep", "one screen"),
    ("tui/screens/teach", "one screen for the pages of teach"),
    ("tui/screens/teach/schedule", "one page"),
];
/// The rooms below the waist: values and engines. What stands above them uses no more names of theirs than this.
const CORE: [&str; 11] =
    ["units", "text", "budget", "gguf", "model", "machine", "settings", "plan", "catalogue", "engine", "speed"];
const WAIST: usize = 307;
/// Rooms of a few lines on the floor of `text`, which are not told of in `src/lib.rs`, as nobody outside sees them.
const BELOW: [&str; 3] = ["named", "files", "signals"];

/// The text of every file of `src`, by its path without the ending.
type House = BTreeMap<String, String>;
/// The files that each file imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn read(folder: &Path, name: &str, house: &mut House) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let stem = entry.path().file_stem().unwrap().to_str().unwrap().to_owned();
        let name = if name.is_empty() { stem } else { format!("{name}/{stem}") };
        if entry.file_type().unwrap().is_dir() {
            read(&entry.path(), &name, house);
        } else if entry.path().extension().is_some_and(|ending| ending == "rs") {
            house.insert(name, fs::read_to_string(entry.path()).unwrap());
        }
    }
}

fn house() -> House {
    let mut house = House::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut house);
    house
}

/// The code of a file without its unit tests and comments.
fn code(text: &str) -> String {
    let end = text.find("\n#[cfg(test)]").or_else(|| text.find("\n#[cfg(all(test")).unwrap_or(text.len());
    text[..end].lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The single paths of `a::{b, c::{d}}`.
fn paths(tree: &str) -> Vec<String> {
    let Some((before, inner)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let inner = inner.trim_end().strip_suffix('}').unwrap_or(inner);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in inner.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            c => parts.last_mut().unwrap().push(c),
        }
    }
    let whole =
        parts.iter().filter(|part| !part.trim().is_empty()).map(|part| format!("{}{}", before.trim(), part.trim()));
    whole.flat_map(|part| paths(&part)).collect()
}

/// The paths that `code` imports.
fn used(code: &str) -> Vec<String> {
    let trees = code.split("use ").skip(1).filter_map(|rest| rest.split_once(';').map(|(tree, _)| tree));
    trees.flat_map(paths).collect()
}

/// The file that `path`, written in the file `at`, leads to; none if it is no path of this crate.
fn target(house: &House, at: &str, path: &str) -> Option<String> {
    let mut parts = path.split("::").map(|part| part.split_whitespace().next().unwrap_or_default()).peekable();
    let mut place: Vec<&str> = if matches!(at, "lib" | "main") { Vec::new() } else { at.split('/').collect() };
    match *parts.peek()? {
        "crate" => {
            parts.next();
            place.clear();
        }
        "self" => drop(parts.next()),
        "super" => {
            while parts.next_if_eq(&"super").is_some() {
                place.pop();
            }
        }
        child => {
            house.get(
                &[place.join("/").as_str(), child]
                    .iter()
                    .filter(|part| !part.is_empty())
                    .copied()
                    .collect::<Vec<_>>()
                    .join("/"),
            )?;
        }
    }
    let mut found = house.contains_key(&place.join("/")).then(|| place.join("/"));
    for part in parts {
        place.push(part);
        if !house.contains_key(&place.join("/")) {
            break;
        }
        found = Some(place.join("/"));
    }
    found
}

fn imports(house: &House) -> Imports {
    let mut all = Imports::new();
    for (at, text) in house {
        let code = code(text);
        let mut written = used(&code);
        // paths in the middle of the code
        for start in ["crate::", "super::"] {
            let is_seen = |place: usize| !code[..place].ends_with("(in ");
            let places =
                code.match_indices(start).filter(|(place, _)| is_seen(*place)).map(|(place, _)| &code[place..]);
            let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
            let found = places.map(|rest| rest.chars().take_while(|c| is_path(*c)).collect::<String>());
            // what is in braces behind a path is told by its `use`
            written.extend(found.filter(|path| !path.ends_with("::")));
        }
        let targets = written.iter().filter_map(|path| target(house, at, path)).filter(|to| to != at);
        all.insert(at.clone(), targets.collect());
    }
    all
}

fn room(file: &str) -> &str {
    file.split('/').next().unwrap_or(file)
}

/// The rooms in the order in which `src/lib.rs` tells of them.
fn rooms(house: &House) -> Vec<String> {
    let told = house["lib"].lines().filter_map(|line| line.strip_prefix("//! - [`"));
    told.filter_map(|line| line.split_once('`').map(|(name, _)| name.to_owned())).collect()
}

/// Files that import a room below their own, or one that is nowhere told of.
fn arrows_up(house: &House) -> Vec<(String, String)> {
    let rooms = rooms(house);
    let floor = |file: &str| {
        let own = room(file);
        let own = if BELOW.contains(&own) { "text" } else { own };
        rooms.iter().position(|name| name == own)
    };
    let pairs =
        imports(house).into_iter().flat_map(|(at, targets)| targets.into_iter().map(move |to| (at.clone(), to)));
    let pairs = pairs.filter(|(at, to)| !matches!(at.as_str(), "lib" | "main") && to != "lib" && room(at) != room(to));
    pairs.filter(|(at, to)| floor(at).is_none() || floor(to).is_none() || floor(at) < floor(to)).collect()
}

/// The sets of files that import one another, the largest first.
fn circles(house: &House) -> Vec<BTreeSet<String>> {
    let imports = imports(house);
    let reached = |from: &str| {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(at) = todo.pop() {
            for to in imports.get(&at).into_iter().flatten().filter(|to| *to != "lib") {
                if seen.insert(to.clone()) {
                    todo.push(to.clone());
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<String>> = imports.keys().map(|at| (at, reached(at))).collect();
    let returns = |at: &String, to: &String| reach.get(to).is_some_and(|back| back.contains(at));
    let circle = |at: &String| reach[at].iter().filter(|to| returns(at, to)).cloned().collect();
    let all: BTreeSet<BTreeSet<String>> = imports.keys().map(circle).collect();
    let mut all: Vec<_> = all.into_iter().filter(|circle: &BTreeSet<String>| circle.len() > 1).collect();
    all.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    all
}

/// The names of [`CORE`] that the rooms above it import.
fn names_over_the_waist(house: &House) -> BTreeSet<String> {
    let is_core = |file: &str| CORE.contains(&room(file)) || BELOW.contains(&room(file));
    let above = house.iter().filter(|(file, _)| !is_core(file) && !matches!(file.as_str(), "lib" | "main"));
    let trees = above.flat_map(|(_, text)| {
        let code = code(text);
        let used = code.split("use ").skip(1).filter_map(|rest| rest.split_once(';').map(|(tree, _)| tree.to_owned()));
        used.collect::<Vec<_>>()
    });
    let written =
        trees.flat_map(|tree| paths(&tree)).filter_map(|path| path.strip_prefix("crate::").map(str::to_owned));
    let names = written.filter(|path| CORE.contains(&path.split("::").next().unwrap_or_default()));
    names.map(|path| path.trim_end_matches("::self").split(" as ").next().unwrap_or_default().to_owned()).collect()
}

/// Files of more than [`LONG`] lines, with how many they have.
fn long_files(house: &House) -> BTreeMap<&str, usize> {
    let lines = |text: &str| code(text).lines().filter(|line| !line.trim().is_empty()).count();
    let all = house.iter().map(|(file, text)| (file.as_str(), lines(text)));
    all.filter(|(_, lines)| *lines > LONG).collect()
}

#[test]
fn long_files_have_a_reason() {
    let house = house();
    let long = long_files(&house);
    let told: BTreeSet<&str> = LONG_FILES.iter().map(|(file, _)| *file).collect();
    let untold: Vec<_> = long.iter().filter(|(file, _)| !told.contains(*file)).collect();
    assert!(untold.is_empty(), "divide them by subject, or say why not: {untold:?}");
    let gone: Vec<_> = told.iter().filter(|file| !long.contains_key(*file)).collect();
    assert!(gone.is_empty(), "no longer that long: {gone:?}");
}

#[test]
fn few_names_cross_the_waist() {
    let names = names_over_the_waist(&house());
    assert!(names.len() <= WAIST, "{} names: {names:?}", names.len());
}

#[test]
fn rooms_import_what_stands_above_them() {
    let house = house();
    let up = arrows_up(&house);
    assert!(up.is_empty(), "{up:?}");
    let all: BTreeSet<&str> =
        house.keys().map(|file| room(file)).filter(|room| !matches!(*room, "lib" | "main")).collect();
    let rooms = rooms(&house);
    let told: BTreeSet<&str> = rooms.iter().map(String::as_str).chain(BELOW).collect();
    assert_eq!(all, told, "src/lib.rs tells of every room");
}

#[test]
fn circles_are_small() {
    for circle in circles(&house()) {
        assert!(circle.len() <= LARGEST_CIRCLE, "{} files: {circle:?}", circle.len());
    }
}

/// Both tests see what they look for.
#[test]
fn planted_arrows_are_seen() {
    let mut house = house();
    let grown = |name: &str, more: &str, house: &House| {
        format!("{}\n{more}\n{}", house[name].split_once('\n').unwrap().0, house[name])
    };
    let planted = grown("units", "use crate::{\n    plan::Plan,\n};", &house);
    house.insert("units".to_owned(), planted);
    let up = arrows_up(&house);
    assert_eq!(up.len(), 1, "{up:?}");
    assert!(up.contains(&("units".to_owned(), "plan".to_owned())));
    assert!(circles(&house).iter().any(|circle| circle.contains("units") && circle.contains("plan")));
}
