//! llama-server as a router that runs: which models it has, and its load call.
//!
//! `GET /models` and `POST /models/load` (`tools/server/server-models.cpp` and its README, August 2026): the call returns
//! before the model is loaded, and the list says what becomes of it.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::asker::{Asker, Reply};
use super::ollama::words;
use crate::export::ModelLocation;
use crate::source::Roots;
use crate::text::one_line;

/// Time limit of a question.
const ANSWER: Duration = Duration::from_secs(5);
/// Models that are named where none is the right one.
const NAMED: usize = 6;

/// A router that runs.
#[derive(Clone)]
pub struct RunningRouter {
    /// Its address.
    pub address: String,
    asker: Asker,
}

/// A model that a router has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouterModel {
    /// The name by which it is asked for.
    pub id: String,
    /// Its further names.
    pub aliases: Vec<String>,
    /// `loaded`, `loading`, `unloaded`, …
    pub status: String,
    /// How its server ended, if it failed.
    pub failed: Option<i64>,
    /// The command that it is started with.
    pub command: Vec<String>,
}

/// The address that stands where a program's path does.
pub fn address(server: Option<&Path>) -> Option<&str> {
    server?.to_str().filter(|text| text.starts_with("http://") || text.starts_with("https://"))
}

impl RouterModel {
    fn of(listed: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(|text| one_line(text).into_owned());
        let texts = |value: Option<&Value>| value?.as_array().map(|all| all.iter().filter_map(text).collect());
        let status = listed.get("status")?;
        let failed = status.get("failed").and_then(Value::as_bool).unwrap_or_default();
        Some(Self {
            id: text(listed.get("id")?)?,
            aliases: texts(listed.get("aliases")).unwrap_or_default(),
            status: text(status.get("value")?)?,
            failed: failed.then(|| status.get("exit_code").and_then(Value::as_i64).unwrap_or_default()),
            command: texts(status.get("args")).unwrap_or_default(),
        })
    }

    /// Whether it answers, or would after it is woken.
    pub fn is_loaded(&self) -> bool {
        ["loaded", "sleeping"].contains(&self.status.as_str())
    }

    /// Whether it is the model of this name or file.
    fn is(&self, location: &ModelLocation) -> bool {
        let names = std::iter::once(&self.id).chain(&self.aliases);
        match location {
            ModelLocation::File(file) => {
                let stem = Path::new(file).file_stem().and_then(|stem| stem.to_str());
                self.command.iter().any(|word| word == file)
                    || names.into_iter().any(|name| Some(name.as_str()) == stem)
            }
            ModelLocation::HuggingFace(name)
            | ModelLocation::Ollama(name)
            | ModelLocation::Unknown(name)
            | ModelLocation::Url(name) => names.into_iter().any(|own| own.eq_ignore_ascii_case(name)),
        }
    }
}

impl RunningRouter {
    /// The one at `address`.
    pub fn at(address: &str, roots: &Roots) -> Self {
        Self { address: address.trim_end_matches('/').to_owned(), asker: Asker::new(roots, ANSWER) }
    }

    /// Its models.
    ///
    /// # Errors
    /// One sentence, if it does not answer, or is no router.
    pub fn models(&self) -> Result<Vec<RouterModel>, String> {
        let reply = self.ask("models", None)?;
        let answer = reply.json();
        let listed = answer.as_ref().and_then(|answer| answer.get("data")?.as_array());
        let models: Vec<RouterModel> = listed.into_iter().flatten().filter_map(RouterModel::of).collect();
        if models.is_empty() {
            return Err(format!(
                "what answers at {} is no router of llama-server with models: start llama-server without a model, with \
                 --models-preset or --models-dir",
                self.address
            ));
        }
        Ok(models)
    }

    /// The model that `location` means.
    ///
    /// # Errors
    /// One sentence, as [`Self::models`], or if it has no such model.
    pub fn find(&self, location: &ModelLocation) -> Result<RouterModel, String> {
        let models = self.models()?;
        if let Some(model) = models.iter().find(|model| model.is(location)) {
            return Ok(model.clone());
        }
        let names: Vec<&str> = models.iter().take(NAMED).map(|model| model.id.as_str()).collect();
        let more = if models.len() > NAMED { " and others" } else { "" };
        Err(format!("the router at {} has no such model: it has {}{more}", self.address, names.join(", ")))
    }

    /// What it says of the model `id` now.
    ///
    /// # Errors
    /// As [`Self::models`], or if the model is gone.
    pub fn model(&self, id: &str) -> Result<RouterModel, String> {
        let found = self.models()?.into_iter().find(|model| model.id == id);
        found.ok_or_else(|| format!("the router at {} does not list {id} any more", self.address))
    }

    /// Begins to load `id`.
    ///
    /// # Errors
    /// Its words, if it does not.
    pub fn load(&self, id: &str) -> Result<(), String> {
        let reply = self.ask("models/load", Some(json!({ "model": id }).to_string()))?;
        match reply.json() {
            Some(answer) if answer.get("success").and_then(Value::as_bool) == Some(true) => Ok(()),
            _ => Err(words(&reply.text).unwrap_or_else(|| format!("it answers with status {}", reply.status))),
        }
    }

    fn ask(&self, path: &str, json: Option<String>) -> Result<Reply, String> {
        let silent = |why| format!("no router answers at {}: {why}", self.address);
        self.asker.ask(&self.address, path, json).map_err(silent)
    }
}
