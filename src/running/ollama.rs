//! A running Ollama, local or remote: what it has loaded, and a load with a plan's options.
//!
//! `/api/ps`, `/api/generate` and `/api/embed` without a prompt (`server/routes.go`, Ollama 0.33): the answer comes once the
//! model is loaded; a failed load is a status from 400 on with `{"error": "…"}`.

#[cfg(feature = "net")]
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::asker::Asker;
use crate::observed::{Observation, PsRow};
use crate::source::Roots;
use crate::source::host::is_this_machine;
use crate::text::one_line;

/// Time limit of a question.
#[cfg(feature = "net")]
const ANSWER: Duration = Duration::from_secs(5);
/// Time limit of a load: Ollama gives up by itself after five minutes without progress (`OLLAMA_LOAD_TIMEOUT`).
#[cfg(feature = "net")]
const LOAD: Duration = Duration::from_mins(30);
/// Characters of a server's words that are shown.
const SHOWN: usize = 400;

/// A running Ollama.
#[derive(Clone)]
pub struct RunningOllama {
    /// Its address.
    pub address: String,
    /// Whether the user named it.
    pub is_named: bool,
    asker: Asker,
    loader: Asker,
}

impl RunningOllama {
    /// The one that `OLLAMA_HOST` names, else the default address; none without network access.
    #[cfg(feature = "net")]
    pub fn of(roots: &Roots) -> Option<Self> {
        let network = roots.network.as_ref()?;
        let address = network.ollama.clone()?;
        let (asker, loader) = (Asker::new(roots, ANSWER), Asker::new(roots, LOAD));
        Some(Self { address, is_named: network.ollama_is_named, asker, loader })
    }

    /// None: built without network access.
    #[cfg(not(feature = "net"))]
    pub const fn of(_: &Roots) -> Option<Self> {
        None
    }

    /// Whether it is on this computer.
    pub fn is_here(&self) -> bool {
        is_this_machine(&self.address)
    }

    /// The models that it has loaded.
    ///
    /// # Errors
    /// One sentence, if it does not answer, or with something else.
    pub fn loaded(&self) -> Result<Vec<PsRow>, String> {
        let reply = self.asker.ask(&self.address, "api/ps", None).map_err(|why| self.silent(&why))?;
        let is_list = reply.json().is_some_and(|answer| answer.get("models").is_some());
        if !is_list {
            return Err(format!("what answers at {} is no Ollama: check OLLAMA_HOST", self.address));
        }
        Ok(Observation::of(&reply.text).ps)
    }

    /// Loads `name` with these options, and waits until it is loaded.
    ///
    /// # Errors
    /// Its words, if it does not load it.
    pub fn load(&self, name: &str, options: &Map<String, Value>, embeds: bool, stays: bool) -> Result<(), String> {
        let mut request = json!({ "model": name, "options": options, "stream": false });
        let path = if embeds {
            request["input"] = json!([]);
            "api/embed"
        } else {
            "api/generate"
        };
        if stays {
            request["keep_alive"] = json!(-1);
        }
        let reply = self.loader.ask(&self.address, path, Some(request.to_string())).map_err(|why| self.silent(&why))?;
        match (reply.status, reply.json()) {
            (200, Some(_)) => Ok(()),
            (200, None) => Err(format!("what answers at {} is no Ollama: check OLLAMA_HOST", self.address)),
            (status, _) => Err(words(&reply.text).unwrap_or_else(|| format!("it answers with status {status}"))),
        }
    }

    fn silent(&self, why: &str) -> String {
        format!("Ollama does not answer at {}: {why}; start it, or set OLLAMA_HOST", self.address)
    }
}

/// The words of an error.
pub(super) fn words(text: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(text).ok()?;
    let error = answer.get("error")?;
    // llama-server's errors are objects
    let words = error.as_str().or_else(|| error.get("message")?.as_str())?;
    Some(cut(words))
}

/// `text` on one line, cut.
pub(super) fn cut(text: &str) -> String {
    one_line(text.trim()).chars().take(SHOWN).collect()
}
