//! Which models to list. The same words and limits hold on the command line and in the
//! browser. And the model that a log names.

use std::path::Path;

use crate::gguf::FileType;
use crate::model::{Modalities, ModelSummary};
use crate::observed::{Load, ObservedModel};
use crate::plan::Outcome;
use crate::source;
use crate::source::catalogue::CatalogueEntry;
use crate::source::store::{EntryState, Store, StoreEntry};
use crate::source::{Package, Roots, catalogue, store};

/// Limits on the models of a list; each is off by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFilter {
    /// Only models with experts, or only models without.
    pub experts: Option<bool>,
    /// Only models with at least this many parameters.
    pub min: Option<u64>,
    /// Only models with at most this many parameters.
    pub max: Option<u64>,
    /// Only models with this outcome or a faster one.
    pub fits: Option<Outcome>,
    /// Only models that read all of this.
    pub reads: Modalities,
}

impl ModelFilter {
    /// Takes `moe`, `dense`, `vision`, `audio`, `>7b` and `<120b` out of typed words; returns the words that are left.
    pub fn typed(words: &str) -> (Self, String) {
        let mut filter = Self::default();
        let mut rest = Vec::new();
        for word in words.split_whitespace() {
            let limit = |sign: char| word.strip_prefix(sign).and_then(parameters);
            match word.to_ascii_lowercase().as_str() {
                "moe" => filter.experts = Some(true),
                "dense" => filter.experts = Some(false),
                "vision" => filter.reads.vision = true,
                "audio" => filter.reads.audio = true,
                _ => match (limit('>'), limit('<')) {
                    (Some(min), _) => filter.min = Some(min),
                    (_, Some(max)) => filter.max = Some(max),
                    _ => rest.push(word),
                },
            }
        }
        (filter, rest.join(" "))
    }

    /// Whether any limit is set.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }

    /// Whether a model that reads `modalities` is listed with this outcome. One that was not trained for the context
    /// that is needed fits in no way.
    pub fn keeps(&self, model: &ModelSummary, modalities: Modalities, outcome: Outcome, need: Option<u64>) -> bool {
        let fits = match self.fits {
            None => true,
            Some(_) if need.is_some_and(|tokens| !model.is_trained_for(tokens)) => false,
            // without a GPU, RAM is where a model fits
            Some(Outcome::LayersInRam) => outcome < Outcome::FromDisk,
            Some(most) => outcome <= most,
        };
        fits && modalities.include(self.reads)
            && self.experts.is_none_or(|experts| experts == model.experts.is_some())
            && self.min.is_none_or(|min| model.parameters >= min)
            && self.max.is_none_or(|max| model.parameters <= max)
    }
}

/// A number of parameters as people write it: `7b`, `1.5B`, `500m`, `1t`.
pub fn parameters(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let (digits, scale) = [('t', 1e12), ('b', 1e9), ('m', 1e6)]
        .into_iter()
        .find_map(|(unit, scale)| Some((lower.strip_suffix(unit)?, scale)))?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = digits.trim_end().parse::<f64>().ok().filter(|number| plain && (0.0..1e6).contains(number))?;
    Some((number * scale) as u64)
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

/// Finds the model of `load`: its file, in a store, by name in the catalogue, by its shape.
///
/// # Errors
/// One sentence that says what to do, if there is none or its file cannot be read.
pub fn find(load: &Load, roots: &Roots) -> Result<FoundModel, String> {
    let names = names(load);
    if let Some(path) = names.iter().map(Path::new).find(|path| path.is_file()) {
        let opened = source::open(path, &mut source::no_progress);
        let package = opened.and_then(|opened| opened.package(&mut source::no_progress));
        let package = package.map_err(|error| error.to_string())?;
        return Ok(FoundModel { package, is_same_file: true, how: "from the file that the log names".to_owned() });
    }
    let entries = store::list(roots);
    if let Some(entry) = names.iter().find_map(|name| entries.iter().find(|entry| is_stored(entry, name))) {
        let opened = source::stored(entry, &mut source::no_progress);
        let package = opened.and_then(|opened| opened.package(&mut source::no_progress));
        let package = package.map_err(|error| error.to_string())?;
        return Ok(FoundModel { package, is_same_file: true, how: format!("as {} in {}", entry.name, entry.store) });
    }
    let model = load.models.first().cloned().unwrap_or_default();
    let (entry, how) = match names.iter().find_map(|name| by_name(name, &model)) {
        Some(entry) => (entry, "by its name"),
        None => (by_shape(&model).ok_or_else(|| unknown(&names))?, "by its shape"),
    };
    let types = model.file_type.as_deref().and_then(file_type);
    let quant = types.or_else(|| names.iter().find_map(|name| type_in(name))).unwrap_or(entry.quantisation);
    let built = entry.model(quant).map_err(|error| error.to_string())?;
    let how = format!("{how}: {} of the catalogue, as {quant}", entry.title);
    let package = Package { projector: entry.projector().cloned(), ..built.into() };
    Ok(FoundModel { package, is_same_file: false, how })
}

fn unknown(names: &[String]) -> String {
    match names.first() {
        Some(name) => format!("'{name}' is not on this computer and not in the catalogue: give the model with --model"),
        None => "the log does not name its model: give it with --model".to_owned(),
    }
}

/// Every name of the target: paths, references and `general.name`.
fn names(load: &Load) -> Vec<String> {
    let model = load.models.first();
    let command = load.command.as_ref().and_then(|command| command.model.clone());
    let path = model.and_then(|model| model.path.clone());
    let name = model.and_then(|model| model.name.clone());
    [path, command, load.asked.clone(), name].into_iter().flatten().collect()
}

/// The last part of a path of any system.
fn base(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}

fn is_stored(entry: &StoreEntry, name: &str) -> bool {
    let whole = matches!(entry.state, EntryState::Whole { .. });
    let file = entry.path.file_name().is_some_and(|file| file.to_str() == Some(base(name)));
    let tagged = entry.store == Store::Ollama && (entry.name == name || entry.name == format!("{name}:latest"));
    whole && (file || tagged)
}

/// The entry with the longest name in `name`, if nothing that the log says of the model speaks against it.
fn by_name(name: &str, model: &ObservedModel) -> Option<&'static CatalogueEntry> {
    if let Some(entry) = catalogue::find(name).filter(|entry| may_be(entry, model)) {
        return Some(entry);
    }
    let plain = |text: &str| -> String {
        text.chars().filter(char::is_ascii_alphanumeric).flat_map(char::to_lowercase).collect()
    };
    let wanted = plain(base(name));
    let found = catalogue::all().iter().filter(|entry| may_be(entry, model)).flat_map(|entry| {
        let names = entry.names().chain([entry.title.as_str()]).map(plain);
        names.filter(|own| own.len() >= 5 && wanted.contains(own.as_str())).map(move |own| (own.len(), entry))
    });
    found.max_by_key(|&(length, _)| length).map(|(_, entry)| entry)
}

/// The only entry with this architecture, number of blocks and number of parameters.
fn by_shape(model: &ObservedModel) -> Option<&'static CatalogueEntry> {
    (model.architecture.is_some() && model.blocks.is_some() && model.parameters.is_some()).then_some(())?;
    let mut fitting = catalogue::all().iter().filter(|entry| may_be(entry, model) && has_parameters(entry, model));
    fitting.next()
}

/// Whether architecture and blocks are the same, where the log tells them.
fn may_be(entry: &CatalogueEntry, model: &ObservedModel) -> bool {
    let architecture = model.architecture.as_ref().is_none_or(|of| *of == entry.architecture);
    // blocks that predict further tokens are counted by some releases only
    let blocks = model.blocks.is_none_or(|seen| seen.abs_diff(entry.blocks()) <= 1);
    architecture && blocks
}

/// Whether the number of parameters is the one that the log prints: `8.03 B`.
fn has_parameters(entry: &CatalogueEntry, model: &ObservedModel) -> bool {
    let Some((number, unit)) = model.parameters.as_deref().and_then(|text| text.trim().split_once(' ')) else {
        return false;
    };
    let scale = match unit.trim() {
        "T" => 1e12,
        "B" => 1e9,
        "M" => 1e6,
        _ => return false,
    };
    let Ok(number) = number.parse::<f64>() else { return false };
    let own = entry.model(entry.quantisation).map(|model| model.parameters as f64);
    own.is_ok_and(|own| (own / scale - number).abs() < 0.006)
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

/// A type in a file's name, between dashes, dots or a colon: `llama-3.1-8b-instruct-q5_K_M.gguf`.
fn type_in(name: &str) -> Option<FileType> {
    let words = base(name).split(['-', '.', ':', ' ', '@']);
    words.rev().find_map(|word| {
        let word = word.to_ascii_uppercase();
        word.parse().ok().or_else(|| word.strip_suffix("_XL").and_then(|start| format!("{start}_M").parse().ok()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let read = ["7b", "1.5B", "500m", "1t", "7", "b", "-1b", "infb", "1e3b"].map(parameters);
        let (some, none) = read.split_at(4);
        assert_eq!(some, [7_000_000_000, 1_500_000_000, 500_000_000, 1_000_000_000_000].map(Some));
        assert!(none.iter().all(Option::is_none), "{none:?}");
    }

    #[test]
    fn typed_words_set_limits() {
        let (filter, rest) = ModelFilter::typed("qwen MoE >20b <40b coder vision");
        assert_eq!(rest, "qwen coder");
        let expected = ModelFilter {
            experts: Some(true),
            min: Some(20_000_000_000),
            max: Some(40_000_000_000),
            fits: None,
            reads: Modalities { vision: true, audio: false },
        };
        assert_eq!(filter, expected);
        assert_eq!(
            ModelFilter::typed("> <x dense"),
            (ModelFilter { experts: Some(false), ..ModelFilter::default() }, "> <x".to_owned())
        );
    }
}

#[cfg(test)]
mod observed_tests {
    use super::*;

    #[test]
    fn types_are_read_as_loaders_print_them() {
        assert_eq!(file_type("Q4_K - Medium"), Some(FileType::Q4KM));
        assert_eq!(file_type("(guessed) Q8_0"), "Q8_0".parse().ok());
        assert_eq!(file_type("IQ4_XS - 4.25 bpw"), "IQ4_XS".parse().ok());
        assert_eq!(type_in("/models/Qwen3.5-9B-MTP-UD-Q4_K_XL.gguf"), Some(FileType::Q4KM));
        assert_eq!(type_in("deepseek-coder-v2:16b-lite-instruct-q5_K_M"), "Q5_K_M".parse().ok());
    }

    #[test]
    fn models_are_found_by_name_and_shape() {
        let any = ObservedModel::default();
        let named = |name| by_name(name, &any).map(|entry| entry.name.as_str());
        assert_eq!(named("C:\\models\\Qwen3.5-9B-MTP-UD-Q4_K_XL.gguf"), Some("qwen3.5-9b"));
        assert_eq!(named("unsloth/Qwen3-Coder-Next-GGUF"), Some("qwen3-coder-next"));
        assert_eq!(named("llama3.1:8b"), Some("llama3.1-8b"));
        assert_eq!(named("my-own-model.gguf"), None);
        let other = ObservedModel { architecture: Some("gemma3".to_owned()), ..any.clone() };
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
