//! A log beside the plan of what it shows, for the planner; and the model that a log names.

mod figures;

use std::path::Path;
use std::sync::Arc;

use super::packaged;
use crate::answer::check::{self, Check, CheckRequest};
use crate::catalogue;
use crate::catalogue::CatalogueEntry;
use crate::engine::PreparedModel;
use crate::gguf::FileType;
use crate::machine::spec::MachineSpec;
use crate::model::Model;
use crate::model::mixture::Quantisation;
use crate::observed::{Load, Observation, ObservedModel, Program};
use crate::settings::seen;
use crate::source::store::{EntryState, Store, StoreEntry};
use crate::source::{self, Package, Roots, store};

/// The name under which the log that comes with the program is asked for.
pub const EXAMPLE: &str = "example";

/// The log called `name`, if it is [`EXAMPLE`]: made by hand in llama.cpp's format of November 2026, with the figures of a
/// plan.
pub fn example(name: &str) -> Option<&'static str> {
    (name == EXAMPLE).then_some(include_str!("../../assets/example-log.txt"))
}

/// A log beside its plan.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The load that was compared, and how many the log has.
    pub load: (usize, usize),
    /// What was compared with what, in a line.
    pub about: String,
    /// The comparison.
    pub check: Check,
    /// What else was compared, one sentence each.
    pub also: Vec<String>,
    /// The server that was started for it, as a sentence.
    pub server: Option<String>,
}

/// Compares the load to look at in `seen`. Its model is looked for as [`find`] does; `open` stands in where
/// there is none.
///
/// # Errors
/// One sentence that says what is missing and what to do.
pub fn check(seen: &Observation, roots: &Roots, open: Option<&Arc<PreparedModel>>) -> Result<Checked, String> {
    let missing = || seen.missing.first().map_or_else(|| "no load of a model is in it".to_owned(), ToString::to_string);
    let chosen = seen.chosen.ok_or_else(missing)?;
    let load = seen.loads.get(chosen).filter(|load| load.has_memory()).ok_or_else(missing)?;
    let named = find_named(load, roots)?;
    let found = match (named, open) {
        // what is open is likelier than another model with the same figures
        (None, Some(_)) => None,
        (None, None) => Some(by_figures(load).ok_or_else(|| unknown(load))?),
        (named, _) => named,
    };
    let (model, projector, is_same_file, how) = match (found, open) {
        (Some(FoundModel { package, is_same_file, how }), _) => (package.model, package.projector, is_same_file, how),
        (None, Some(open)) => (Arc::clone(open), None, false, "the model that is open".to_owned()),
        (None, None) => return Err(missing()),
    };
    let request = CheckRequest {
        model,
        projector,
        is_same_file,
        machine: &MachineSpec::default(),
        engine: None,
        release: None,
        knobs: &|_| {},
    };
    let check = check::check(load, &request).map_err(|error| error.to_string())?;
    Ok(Checked {
        load: (chosen + 1, seen.loads.len()),
        about: about(load, &how, &check),
        check,
        also: Vec::new(),
        server: None,
    })
}

fn about(load: &Load, how: &str, check: &Check) -> String {
    let program = load.program.map_or("a program", Program::name);
    let version = load.version.clone().or_else(|| load.build.map(|build| format!("b{build}")));
    let version = version.map(|version| format!(" {version}")).unwrap_or_default();
    let release = check.release.as_ref().map(|choice| format!(", release {}", choice.release)).unwrap_or_default();
    let planned = format!("planned for {}{release}", check.request.engine.title());
    format!("{} ({}) in {program}{version}, {planned}", check.request.model.name, how)
}

/// A model that was found for a log.
#[derive(Clone, Debug)]
pub struct FoundModel {
    /// The model.
    pub package: Package,
    /// Whether it is the file that was loaded.
    pub is_same_file: bool,
    /// How it was found, as part of a sentence: `by its name in the catalogue, as Q4_K_M`.
    pub how: String,
}

/// Finds the model of `load`: its file, in a store, by name in the catalogue, by its shape, by its figures.
///
/// # Errors
/// One sentence that says what to do, if there is none or its file cannot be read.
pub fn find(load: &Load, roots: &Roots) -> Result<FoundModel, String> {
    let found = find_named(load, roots).map_err(|why| without_names(load, why))?.or_else(|| by_figures(load));
    found.ok_or_else(|| without_names(load, unknown(load)))
}

/// Likewise, but for its figures.
fn find_named(load: &Load, roots: &Roots) -> Result<Option<FoundModel>, String> {
    let names = names(load);
    if let Some(path) = names.iter().map(Path::new).find(|path| path.is_file()) {
        let package = packaged(source::open(path, &mut source::no_progress))?;
        return Ok(Some(FoundModel {
            package,
            is_same_file: true,
            how: "from the file that the log names".to_owned(),
        }));
    }
    let entries = store::list(roots);
    if let Some(entry) = names.iter().find_map(|name| entries.iter().find(|entry| is_stored(entry, name))) {
        let package = packaged(source::stored(entry, &mut source::no_progress))?;
        return Ok(Some(FoundModel {
            package,
            is_same_file: true,
            how: format!("as {} in {}", entry.name, entry.store),
        }));
    }
    let model = load.models.first().cloned().unwrap_or_default();
    let known = names.iter().find_map(|name| Some((by_name(name, &model)?, "by its name")));
    let Some((entry, how)) = known.or_else(|| Some((by_shape(&model)?, "by its shape"))) else {
        return Ok(None);
    };
    // a packager's files are of the nearest type by their own headers
    let own_name = names.iter().find_map(|name| Quantisation::own_name_in(base(name)));
    let types = model.file_type.as_deref().and_then(file_type).map(Quantisation::from);
    let plain = types.or_else(|| names.iter().find_map(|name| catalogue::quantisation_in(name)));
    let of_packager = own_name.and_then(|name| Some((name, named(entry, name, &model)?)));
    let (quant, built) = if let Some(found) = of_packager {
        found
    } else {
        let quant = plain.unwrap_or_else(|| entry.quantisation.into());
        (quant, entry.model(quant).map_err(|error| error.to_string())?)
    };
    let how = format!("{how}: {} of the catalogue, as {quant}", entry.title);
    let reference = Some(format!("{}{}@{quant}", catalogue::PREFIX, entry.name));
    let package = Package { projector: entry.projector().cloned(), reference, ..built.into() };
    Ok(Some(FoundModel { package, is_same_file: false, how }))
}

/// The model that a file or a repository of this name would have, if a store or the catalogue knows it; with a note on
/// where it is from.
pub fn namesake(name: &str, roots: &Roots) -> Option<Package> {
    let load = Load { asked: Some(name.to_owned()), ..Load::default() };
    let FoundModel { mut package, how, .. } = find(&load, roots).ok()?;
    let note = format!("'{name}' is not here: planned {how}");
    Arc::make_mut(&mut package.model).add_notes(&[note]);
    Some(package)
}

/// The entry's model as a packager makes it; of one that was published without its last block, that one if the log has
/// as many blocks.
fn named(entry: &CatalogueEntry, name: Quantisation, seen: &ObservedModel) -> Option<Model> {
    if let Some((other, file)) = catalogue::published(&entry.name, name)
        && seen.blocks.is_none_or(|blocks| blocks == other.blocks())
    {
        return other.published(name, &file).ok();
    }
    entry.model(name).ok()
}

/// The model of the catalogue whose plan has the figures of `load`; others that have them are named.
fn by_figures(load: &Load) -> Option<FoundModel> {
    const NAMED: usize = 4;
    let found = figures::candidates(load);
    let best = found.first()?;
    let alike = found.iter().filter(|other| other.same_weights == best.same_weights);
    let names: Vec<&str> = alike.take(NAMED).map(|candidate| candidate.entry.title.as_str()).collect();
    let names = names.join(" or ");
    let how = if best.same_weights {
        format!("by its figures, which are those of {names} in the catalogue, as {}", best.quantisation)
    } else {
        format!(
            "by its layers and caches, which are those of {names} in the catalogue; its weights are not, {} is the nearest",
            best.quantisation
        )
    };
    let built = best.entry.model(best.quantisation).ok()?;
    let reference = Some(format!("{}{}@{}", catalogue::PREFIX, best.entry.name, best.quantisation));
    let package = Package { projector: best.entry.projector().cloned(), reference, ..built.into() };
    Some(FoundModel { package, is_same_file: false, how })
}

/// Why no model was found.
fn unknown(load: &Load) -> String {
    const GIVE: &str = "give the model with --model";
    let (names, seen) = (names(load), load.models.first().cloned().unwrap_or_default());
    let Some(name) = names.first() else {
        return format!("the log does not name its model, and none of the catalogue has its figures: {GIVE}");
    };
    let other =
        names.iter().find_map(|name| catalogue::named(name).into_iter().find_map(|entry| other_than(entry, &seen)));
    match other {
        Some(why) => format!("'{name}' is not on this computer, and {why}: {GIVE}"),
        None => format!("'{name}' is not on this computer and not in the catalogue: {GIVE}"),
    }
}

/// A sentence with what may be seen of the names that commands and paths give the model.
fn without_names(load: &Load, mut why: String) -> String {
    let header = load.models.first().and_then(|model| model.name.clone());
    for name in names(load).iter().filter(|name| header.as_ref() != Some(name)) {
        why = why.replace(&format!("'{name}'"), &format!("'{}'", seen::model(name)));
    }
    why
}

/// What the log says of its model that is not so of the entry.
fn other_than(entry: &CatalogueEntry, seen: &ObservedModel) -> Option<String> {
    let differs = |what: &str, log: &str, own: &str| {
        format!("it is not the catalogue's {}, which has {what} {own} where the log says {log}", entry.title)
    };
    if let Some(architecture) = seen.architecture.as_ref().filter(|of| **of != entry.architecture) {
        return Some(differs("the architecture", architecture, &entry.architecture));
    }
    if let Some(blocks) = seen.blocks.filter(|_| !same_blocks(entry, seen)) {
        return Some(differs("a number of blocks of", &blocks.to_string(), &entry.blocks().to_string()));
    }
    if let Some((key, log, own)) = other_value(entry, seen) {
        return Some(differs(key, &log.to_string(), &own.to_string()));
    }
    let parameters = seen.parameters.as_ref().filter(|_| !is_near_in_size(entry, seen))?;
    let own = crate::units::parameters(entry.model(entry.quantisation).ok()?.parameters);
    Some(differs("parameters:", parameters, &own))
}

/// Every name of the target: paths, references and `general.name`.
fn names(load: &Load) -> Vec<String> {
    let model = load.models.first();
    let command = load.command.as_ref().and_then(|command| command.model.clone());
    let path = model.and_then(|model| model.path.clone());
    let name = model.and_then(|model| model.name.clone());
    let told = [path, command, load.asked.clone(), name].into_iter().flatten();
    // Ollama names its own registry and the tag that stands for none
    let plain = |name: String| {
        let plain = name.strip_prefix("registry.ollama.ai/library/").map(|name| name.trim_end_matches(":latest"));
        plain.map_or_else(|| name.clone(), str::to_owned)
    };
    told.map(plain).collect()
}

/// The last part of a path of any system.
fn base(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}

fn is_stored(entry: &StoreEntry, name: &str) -> bool {
    let whole = matches!(entry.state, EntryState::Whole { .. } | EntryState::Tensors { .. });
    let file = entry.path.file_name().is_some_and(|file| file.to_str() == Some(base(name)));
    let tagged = entry.store == Store::Ollama && (entry.name == name || entry.name == format!("{name}:latest"));
    whole && (file || tagged)
}

/// The entry that `name` means, if nothing that the log says of the model speaks against it.
fn by_name(name: &str, model: &ObservedModel) -> Option<&'static CatalogueEntry> {
    let found = catalogue::named(name);
    let is_it = |entry: &&CatalogueEntry| may_be(entry, model) && is_near_in_size(entry, model);
    let mut fitting = found.iter().copied().filter(is_it).peekable();
    let first = fitting.peek().copied();
    fitting.find(|entry| model.blocks.is_none_or(|blocks| blocks == entry.blocks())).or(first)
}

/// The only entry with this architecture, number of blocks and number of parameters.
fn by_shape(model: &ObservedModel) -> Option<&'static CatalogueEntry> {
    (model.architecture.is_some() && model.blocks.is_some() && model.parameters.is_some()).then_some(())?;
    let mut fitting = catalogue::all().iter().filter(|entry| may_be(entry, model) && has_parameters(entry, model));
    fitting.next()
}

/// Whether architecture, blocks, vocabulary and lengths are the same, where the log tells them.
fn may_be(entry: &CatalogueEntry, model: &ObservedModel) -> bool {
    let architecture = model.architecture.as_ref().is_none_or(|of| *of == entry.architecture);
    architecture && same_blocks(entry, model) && other_value(entry, model).is_none()
}

/// Whether it has as many blocks; those that predict further tokens are counted by some releases only.
fn same_blocks(entry: &CatalogueEntry, model: &ObservedModel) -> bool {
    model.blocks.is_none_or(|seen| seen.abs_diff(entry.blocks()) <= 1)
}

/// The first hyperparameter that is another one in the log, which is given before the entry's own.
fn other_value(entry: &CatalogueEntry, model: &ObservedModel) -> Option<(&'static str, u64, u64)> {
    let both = model.hyper.iter().filter_map(|(key, seen)| Some((*key, *seen, entry.value(key)?)));
    both.into_iter().find(|(_, seen, own)| seen != own)
}

/// Whether the number of parameters is the one that the log prints: `8.03 B`.
fn has_parameters(entry: &CatalogueEntry, model: &ObservedModel) -> bool {
    parameters(entry, model).is_some_and(|(own, seen, unit)| ((own - seen) / unit).abs() < 0.006)
}

/// Whether that number is near, where the log prints it: a name alone may be that of a smaller model of the family.
fn is_near_in_size(entry: &CatalogueEntry, model: &ObservedModel) -> bool {
    parameters(entry, model).is_none_or(|(own, seen, _)| (own - seen).abs() <= 0.1 * own)
}

/// Parameters of the entry and in the log, and the unit in which they are printed there.
fn parameters(entry: &CatalogueEntry, model: &ObservedModel) -> Option<(f64, f64, f64)> {
    let (number, unit) = model.parameters.as_deref()?.trim().split_once(' ')?;
    let unit = match unit.trim() {
        "T" => 1e12,
        "B" => 1e9,
        "M" => 1e6,
        _ => return None,
    };
    let own = entry.model(entry.quantisation).ok()?.parameters as f64;
    Some((own, number.parse::<f64>().ok()? * unit, unit))
}

/// A type as the loader prints it: `Q4_K - Medium`, `IQ4_XS - 4.25 bpw`, `MXFP4 MoE`.
fn file_type(text: &str) -> Option<FileType> {
    let text = text.trim().trim_start_matches("(guessed)").trim();
    let (base, rest) = text.split_once(" - ").unwrap_or((text, ""));
    let size = ["Small", "Medium", "Large"].into_iter().find(|size| rest.starts_with(size));
    let name = match size.and_then(|size| size.chars().next()) {
        Some(letter) => format!("{}_{letter}", base.trim()),
        None => base.trim().split(' ').next().unwrap_or(base).to_owned(),
    };
    name.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_loaders_print_them() {
        assert_eq!(file_type("Q4_K - Medium"), Some(FileType::Q4KM));
        assert_eq!(file_type("(guessed) Q8_0"), "Q8_0".parse().ok());
        assert_eq!(file_type("IQ4_XS - 4.25 bpw"), "IQ4_XS".parse().ok());
        assert_eq!(catalogue::quantisation_in("/models/Qwen3.5-9B-MTP-UD-Q4_K_XL.gguf"), "UD-Q4_K_XL".parse().ok());
        assert_eq!(catalogue::quantisation_in("deepseek-coder-v2:16b-lite-instruct-q5_K_M"), "Q5_K_M".parse().ok());
    }

    #[test]
    fn models_are_found_by_name_and_shape() {
        let any = ObservedModel::default();
        let named = |name| by_name(name, &any).map(|entry| entry.name.as_str());
        assert_eq!(named("C:\\models\\Qwen3.5-9B-MTP-UD-Q4_K_XL.gguf"), Some("qwen3.5-9b-mtp"));
        assert_eq!(named("unsloth/Qwen3-Coder-Next-GGUF"), Some("qwen3-coder-next"));
        assert_eq!(named("llama3.1:8b"), Some("llama3.1-8b"));
        assert_eq!(named("my-own-model.gguf"), None);
        let other = ObservedModel { architecture: Some("gemma3".to_owned()), ..any.clone() };
        let smaller = ObservedModel { parameters: Some("134.52 M".to_owned()), ..any.clone() };
        assert_eq!(by_name("llama3.1:8b", &smaller), None);
        assert_eq!(by_name("Qwen3.5-9B.gguf", &other), None);
        let shape = ObservedModel {
            architecture: Some("llama".to_owned()),
            blocks: Some(32),
            parameters: Some("8.03 B".to_owned()),
            ..any
        };
        assert_eq!(by_shape(&shape).map(|entry| entry.architecture.as_str()), Some("llama"));
    }
}
