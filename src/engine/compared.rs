//! The versions of Ollama with which an estimator was compared, and what others do otherwise.

use crate::plan::{Confidence, Plan, Uncertainty};
use crate::settings::{EngineId, OllamaVersion};

/// The versions whose arithmetic an engine has.
#[derive(Debug)]
pub(super) struct ComparedVersions {
    /// The first and the last of them.
    pub compared: (OllamaVersion, OllamaVersion),
    /// The last version that the engine is for.
    pub last: OllamaVersion,
    /// What other versions do otherwise, as far as it is known.
    pub differences: &'static [VersionDifference],
}

/// What versions do otherwise.
#[derive(Debug)]
pub(super) struct VersionDifference {
    /// The first of these versions.
    pub since: OllamaVersion,
    /// The first that is not one of them.
    pub before: OllamaVersion,
    /// The architectures for which they do.
    pub architectures: &'static [&'static str],
    /// What, as the end of a sentence.
    pub what: &'static str,
}

/// A version by its second and third number.
pub(super) const fn version(minor: u32, patch: u32) -> OllamaVersion {
    OllamaVersion { minor, patch }
}

impl ComparedVersions {
    /// Says in `plan` which versions it was compared with; for a `named` one that is none of them, its figures are not
    /// exact. Versions beyond the engine's are not named: they are the default of another engine.
    pub fn say(&self, plan: &mut Plan, named: OllamaVersion) {
        let (from, to) = self.compared;
        let of_model =
            |difference: &&VersionDifference| difference.architectures.contains(&plan.model.architecture.as_str());
        // of a whole series
        let compared = if to.patch == u32::MAX { format!("Ollama {from}") } else { format!("Ollama {from} to {to}") };
        if named > self.last {
            let others = self.differences.iter().filter(of_model).map(|difference| {
                let VersionDifference { since, before, what, .. } = difference;
                format!("; from {since} until before {before} it {what}")
            });
            let others = others.collect::<Vec<_>>().concat();
            plan.notes.push(format!("the figures are those of {compared}; --ollama names another version{others}"));
        } else if named < from || named > to {
            let mut known = self.differences.iter().filter(of_model);
            let known = known.find(|difference| (difference.since..difference.before).contains(&named));
            let what = known.map_or_else(
                || "this version was not compared with it".to_owned(),
                |difference| format!("this version {}", difference.what),
            );
            let reason = format!("Ollama {named} is planned by the arithmetic of {compared}: {what}");
            plan.notes.push(reason.clone());
            plan.uncertainties.push(Uncertainty { confidence: Confidence::Modelled, reason });
            plan.confidence = Uncertainty::worst(&plan.uncertainties);
        }
    }
}

impl EngineId {
    /// Whether `--ollama` may name this version for the engine.
    ///
    /// # Errors
    /// A sentence that names the engine to use instead.
    pub fn takes(self, version: OllamaVersion) -> Result<(), String> {
        let of_estimator =
            if version <= super::estimator::OLLAMA_011.versions.last { Self::Ollama011 } else { Self::Ollama024 };
        if version >= OllamaVersion::STARTS_LLAMA_SERVER || of_estimator == self {
            return Ok(());
        }
        Err(format!("Ollama {version} has its own estimator: use --engine {of_estimator}"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::catalogue;
    use crate::engine::{self, fixtures};
    use crate::settings::Settings;

    fn plan(engine: EngineId, model: &str, version: Option<&str>) -> Plan {
        let model = catalogue::model_and_projector(model).unwrap().0;
        let mut settings = Settings::default();
        if let Some(version) = version {
            settings.ollama.version = OllamaVersion::any(version).unwrap();
        }
        engine::plan(engine, &model.into(), &fixtures::card(), &settings).unwrap()
    }

    #[rstest]
    #[case(EngineId::Ollama011, "0.11.5", Confidence::Exact)]
    #[case(EngineId::Ollama011, "0.11.7", Confidence::Exact)]
    #[case(EngineId::Ollama011, "0.11.4", Confidence::Modelled)]
    #[case(EngineId::Ollama011, "0.11.2", Confidence::Modelled)]
    #[case(EngineId::Ollama011, "0.11.8", Confidence::Modelled)]
    #[case(EngineId::Ollama011, "0.9.2", Confidence::Modelled)]
    #[case(EngineId::Ollama024, "0.24", Confidence::Exact)]
    #[case(EngineId::Ollama024, "0.13.1", Confidence::Modelled)]
    fn only_compared_versions_are_exact(
        #[case] engine: EngineId,
        #[case] version: &str,
        #[case] confidence: Confidence,
        #[values("llama3.1-8b", "gpt-oss-20b", "gemma3-4b")] model: &str,
    ) {
        let named = plan(engine, model, Some(version));
        assert_eq!(named.confidence, confidence);
        let says = named.notes.iter().any(|note| note.contains(&format!("Ollama {version} is planned by")));
        assert_eq!(says, confidence != Confidence::Exact, "{:?}", named.notes);
        // the figures themselves are those of the compared version
        assert_eq!(named.totals, plan(engine, model, None).totals);
    }

    #[test]
    fn known_differences_are_said_of_their_architectures_only() {
        for (model, version, says) in [
            ("gpt-oss-20b", "0.11.2", "four times"),
            ("gpt-oss-20b", "0.11.3", "twice"),
            ("gpt-oss-120b", "0.11.9", "flash attention"),
            ("llama3.1-8b", "0.11.2", "not compared"),
        ] {
            let reason = plan(EngineId::Ollama011, model, Some(version)).uncertainties.remove(0).reason;
            assert!(reason.contains(says), "{reason}");
        }
        let unnamed = |model| plan(EngineId::Ollama011, model, None).notes.join("\n");
        assert!(unnamed("gpt-oss-20b").contains("from 0.11 until before 0.11.3 it"), "{}", unnamed("gpt-oss-20b"));
        assert!(!unnamed("llama3.1-8b").contains("until before"), "{}", unnamed("llama3.1-8b"));
    }

    #[rstest]
    #[case(EngineId::Ollama, "0.11.2", Some("ollama-0.11"))]
    #[case(EngineId::Ollama, "0.24", Some("ollama-0.24"))]
    #[case(EngineId::Ollama024, "0.11.11", Some("ollama-0.11"))]
    #[case(EngineId::Ollama011, "0.12", Some("ollama-0.24"))]
    #[case(EngineId::Ollama011, "0.11.3", None)]
    #[case(EngineId::Ollama024, "0.24", None)]
    #[case(EngineId::Ollama, "0.31.2", None)]
    fn versions_belong_to_engines(#[case] engine: EngineId, #[case] version: &str, #[case] instead: Option<&str>) {
        let taken = engine.takes(OllamaVersion::any(version).unwrap());
        assert_eq!(taken.as_ref().err().map(|sentence| sentence.rsplit(' ').next().unwrap()), instead);
    }
}
