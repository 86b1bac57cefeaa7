//! Headers of the test models.

#[path = "support/description.rs"]
pub mod description;

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use plimsoll::gguf::Header;

/// The header of a model in `tests/models`, by name: `llama3.1-8b`, `gemma3`. Those in `architectures` are there
/// for llama.cpp's measurements; they have every tensor that llama.cpp accepts, not those of a published file.
pub fn model(name: &str) -> Header {
    description::header(&model_json(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A model's description, unpacked.
pub fn model_json(name: &str) -> String {
    let folders =
        ["models", "models/synthetic", "models/architectures", "models/variations", "models/spec", "models/ollama"]
            .map(|folder| tests().join(folder).join(format!("{name}.json.gz")));
    let path = folders.iter().find(|path| path.exists()).unwrap_or_else(|| panic!("tests/models has no {name}"));
    let mut json = String::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut json).unwrap();
    json
}

/// The description of a projector in `tests/projectors`, unpacked.
pub fn projector_json(name: &str) -> String {
    let path = tests().join(format!("projectors/models/{name}.json.gz"));
    let mut json = String::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut json).unwrap();
    json
}

/// The names of all models in `tests/models` except `architectures`, in alphabetical order.
pub fn model_names() -> Vec<String> {
    names_in(&["models", "models/synthetic"])
}

/// The names of all models in these folders, in alphabetical order.
pub fn names_in(folders: &[&str]) -> Vec<String> {
    let mut names: Vec<_> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(tests().join(folder)).unwrap())
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".json.gz").map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// The folder of the tests.
pub fn tests() -> PathBuf {
    root().join("tests")
}

/// The project's folder.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
