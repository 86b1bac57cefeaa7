//! Engines with the release of llama.cpp that they run, as the user chooses them.

use std::fmt;

use crate::settings::{EngineId, Release, Settings};

/// An engine and its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineVersion {
    /// The engine.
    pub engine: EngineId,
    /// The release of llama.cpp; none for an engine that does not run it.
    pub release: Option<Release>,
}

impl EngineVersion {
    /// All engines with all releases, in the order offered.
    pub fn all() -> Vec<Self> {
        let with_releases = |engine: EngineId| {
            let releases = engine.facts().releases.iter().map(move |&release| Self { engine, release: Some(release) });
            let without_release = engine.facts().releases.is_empty().then_some(Self { engine, release: None });
            releases.chain(without_release)
        };
        EngineId::ALL.into_iter().flat_map(with_releases).collect()
    }

    /// The engine with the release set in `settings`, or its own.
    pub fn of(engine: EngineId, settings: &Settings) -> Self {
        let own = if engine.facts().starts_llama_server && engine.facts().is_ollama {
            settings.ollama.version.release()
        } else {
            Release::default()
        };
        let release = (!engine.facts().releases.is_empty()).then(|| settings.release.unwrap_or(own));
        Self { engine, release }
    }

    /// Sets the release in `settings`; none for the engine's own, or without releases.
    pub fn apply(self, settings: &mut Settings) {
        settings.release = None;
        let own = Self::of(self.engine, settings).release;
        settings.release = self.release.filter(|_| self.release != own);
    }

    /// The command line options that choose it.
    pub fn options(self) -> String {
        match self.release {
            Some(release) => format!("--engine {} --release {release}", self.engine),
            None => format!("--engine {}", self.engine),
        }
    }
}

/// `llama.cpp · 2026-11`
impl fmt::Display for EngineVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.release {
            Some(release) => f.pad(&format!("{} · {release}", self.engine.title())),
            None => f.pad(self.engine.title()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applied_versions_are_read_back() {
        for choice in EngineVersion::all() {
            let mut settings = Settings { release: Some(Release::August2026), ..Settings::default() };
            choice.apply(&mut settings);
            assert_eq!(EngineVersion::of(choice.engine, &settings), choice);
        }
        assert_eq!(EngineVersion::all().len(), 22);
        assert_eq!(EngineVersion::all()[1].to_string(), "Ollama ≥ 0.30 · 2026-09");
    }
}
