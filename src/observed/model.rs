//! What the loader says of a model's file and where its layers go.

use serde::Serialize;

use super::said::Said;
use super::{Buffers, Mib, scan};

/// A model as its loader describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ObservedModel {
    /// The file's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `general.name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Architecture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The file's type: `Q4_K - Medium`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_type: Option<String>,
    /// Size of all tensors, in MiB; from GiB of two decimals where it is large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size: Option<Mib>,
    /// Size by the loader's count of parameters: `8B`, `30B.A3B`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_label: Option<String>,
    /// Parameters as printed: `8.03 B`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<String>,
    /// Tensors in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensors: Option<u64>,
    /// Tensors read of those in the file, where it is a part: further layers of a model that is loaded already, or a
    /// model without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<(u64, u64)>,
    /// Blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// Tokens of context that it was trained for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_ctx_train: Option<u64>,
    /// Tokens in its sliding window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sliding_window: Option<u64>,
    /// Layers on GPUs and layers in all, the output's included: `offloaded 20/49 layers to GPU`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offloaded: Option<(u64, u64)>,
    /// How its weights are read: `mmap`, `none`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_mode: Option<String>,
    /// Weights and adapters by device, in MiB. A mapping that stands in another part of the load already is left out.
    pub observed: Buffers,
}

/// What one line says of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ModelFact<'a> {
    /// A file is opened: tensors and path.
    File(u64, &'a str),
    /// Weights are about to be read, in this way.
    Loading(Option<&'a str>),
    /// A property and its value.
    Property(&'a str, &'a str),
    /// Layers on GPUs, and in all.
    Offloaded(u64, u64),
    /// Tensors read, of those in the file.
    Partial(u64, u64),
    /// Whether nothing is allocated, for a trial.
    NoAlloc(bool),
    /// Several properties in one line, of Ollama's own engine.
    Described { architecture: &'a str, file_type: Option<&'a str>, name: Option<&'a str>, tensors: Option<u64> },
}

/// A line of the loader.
pub(super) fn read(text: &str) -> Option<Said<'_>> {
    let fact = if let Some(rest) = scan::after(text, "print_info: ").or_else(|| scan::after(text, "print_meta: ")) {
        let (key, value) = rest.split_once('=')?;
        match (key.trim(), value.trim()) {
            ("no_alloc", value) => ModelFact::NoAlloc(value == "1"),
            (key, value) => ModelFact::Property(key, value),
        }
    } else if let Some(rest) = scan::after(text, "loaded meta data with ") {
        let (tensors, rest) = scan::count(scan::after(rest, "pairs and ")?)?;
        let path = scan::after(rest, "tensors from ")?;
        ModelFact::File(tensors, path.rsplit_once(" (version").map_or(path, |(path, _)| path))
    } else if let Some(rest) = scan::after(text, "loading model tensors") {
        ModelFact::Loading(scan::between(rest, "(", ")"))
    } else if let Some(rest) = scan::after(text, "offloaded ").filter(|rest| rest.contains("layers to GPU")) {
        offloaded(rest)?
    } else if let Some(rest) = scan::after(text, ": partial load ") {
        let (read, rest) = scan::count(scan::after(rest, "used ")?)?;
        ModelFact::Partial(read, scan::count_after(rest, "of ")?)
    } else {
        return None;
    };
    Some(Said::Model(fact))
}

/// `20/49 layers to GPU`
pub(super) fn offloaded(text: &str) -> Option<ModelFact<'_>> {
    let (on, rest) = scan::count(text)?;
    let (all, _) = scan::count(rest.strip_prefix('/')?)?;
    Some(ModelFact::Offloaded(on, all))
}

impl ObservedModel {
    pub(super) fn apply(&mut self, fact: ModelFact<'_>) {
        match fact {
            ModelFact::File(tensors, path) => {
                (self.tensors, self.path) = (Some(tensors), Some(scan::name(path)));
            }
            ModelFact::Loading(mode) => self.load_mode = mode.map(load_mode),
            ModelFact::Property(key, value) => self.set(key, value),
            ModelFact::Offloaded(on, all) => self.offloaded = Some((on, all)),
            ModelFact::Partial(read, of) => self.partial = Some((read, of)),
            ModelFact::NoAlloc(_) => {}
            ModelFact::Described { architecture, file_type, name, tensors } => {
                self.architecture = Some(scan::name(architecture));
                self.file_type = file_type.map(scan::name);
                self.name = name.map(scan::name);
                self.tensors = tensors;
            }
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        let text = || (!value.is_empty()).then(|| scan::name(value));
        let count = || scan::count(value).map(|(count, _)| count);
        match key {
            "arch" | "architecture" => self.architecture = text(),
            "file type" | "file_type" | "model ftype" => self.file_type = text(),
            "file size" | "model size" => self.file_size = scan::size(value),
            "model type" => self.size_label = text(),
            "model params" => self.parameters = text(),
            "general.name" | "general.name    " | "name" => self.name = text(),
            "n_layer" => self.blocks = count(),
            "n_ctx_train" => self.n_ctx_train = count(),
            "n_swa" => self.sliding_window = count().filter(|&tokens| tokens > 0),
            "num_tensors" => self.tensors = count(),
            _ => {}
        }
    }
}

/// `load_mode = none`, or before August 2026 `mmap = true, direct_io = false`.
fn load_mode(text: &str) -> String {
    let given = |key: &str| scan::after(text, key).map(|rest| rest.split(',').next().unwrap_or(rest).trim());
    if let Some(mode) = given("load_mode = ") {
        return scan::clip(mode, 32);
    }
    match (given("mmap = "), given("direct_io = ")) {
        (Some("true"), _) => "mmap".to_owned(),
        (_, Some("true")) => "dio".to_owned(),
        _ => "none".to_owned(),
    }
}
