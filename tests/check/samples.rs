//! Every sample whose model is known: how much of it a plan made from the header alone says as well.

use std::fmt::Write;
use std::sync::Arc;

use plimsoll::answer::check::{Check, CheckRequest, CheckedTerm, Compared, Part, Reason, check};
use plimsoll::catalogue;
use plimsoll::engine::EngineId;
use plimsoll::gguf::FileType;
use plimsoll::machine::spec::MachineSpec;
use plimsoll::model::{Model, Projector};
use plimsoll::observed::Observation;
use serde_json::Value;

use crate::observed::samples::samples;
use crate::support;

/// Builds since December 2025 are those of the releases that are known here, or nearly.
const OLDEST: &str = "2025-12";

/// The samples with their models: a name in the catalogue or a header of the tests, with the file's quantisation; and
/// whether that is known, so that its weights can be compared.
///
/// The file of r26-037 to r26-039 was quantised in 2024, and its header is not here: the weights are 3.46 MiB less than
/// those of the same model in today's `Q5_K_M`, as 13 `attn_kv_b` in `Q5_K` rather than `Q6_K` would be.
pub const MODELS: [(&str, &str, bool); 33] = [
    ("r26-001", "catalogue:qwen3-coder-next@Q4_K_M", false),
    ("r26-003", "catalogue:qwen3.6-35b-a3b@Q4_K_M", false),
    ("r26-012", "catalogue:mistral-small3.2-24b@Q4_K_M", false),
    ("r26-023", "catalogue:gemma3-12b@Q4_K_M", false),
    ("r26-026", "gemma3-4b", false),
    ("r26-030", "gemma3-4b", true),
    ("r26-035", "ministral-3-3b", true),
    ("r26-037", "deepseek-v2-lite-2024@Q5_K_M", false),
    ("r26-038", "deepseek-v2-lite-2024@Q5_K_M", false),
    ("r26-039", "deepseek-v2-lite-2024@Q5_K_M", false),
    ("r26-045", "gemma3-27b", false),
    ("r26-049", "catalogue:qwen3-vl-4b@Q4_K_M", true),
    ("r26-050", "catalogue:qwen3-4b@Q4_K_M", false),
    ("r26-054", "catalogue:qwen3.6-27b@Q4_K_M", false),
    ("r26-058", "catalogue:qwen3.5-9b@Q4_K_M", false),
    ("r26-059", "catalogue:qwen3.5-9b@Q4_K_M", false),
    ("r26-064", "catalogue:qwen3.5-27b@Q4_K_M", false),
    ("r26-065", "qwen2.5-0.5b", true),
    ("r26-075", "catalogue:qwen3.6-35b-a3b@Q4_K_M", false),
    ("r26-079", "catalogue:gpt-oss-120b", false),
    ("r26-081", "gpt-oss-20b", false),
    ("r26-082", "catalogue:gemma3-1b@Q4_K_M", true),
    ("r26-086", "gemma3-4b", true),
    ("r26-090", "catalogue:lfm2.5-1.2b@Q4_K_M", false),
    ("r26-098", "catalogue:qwen3.6-27b@Q5_K_M", false),
    ("r26-100", "catalogue:qwen3.6-27b@Q4_K_M", false),
    ("r26-102", "catalogue:gpt-oss-120b", false),
    ("r26-107", "catalogue:minimax-m2.5@Q3_K_M", false),
    ("r26-108", "catalogue:qwen3-coder-next@Q4_K_M", false),
    ("r26-110", "catalogue:gemma4-26b-a4b@Q4_0", true),
    ("r26-112", "catalogue:llama4-scout@Q4_K_M", false),
    ("r26-114", "catalogue:gpt-oss-120b", false),
    ("found-08", "catalogue:qwen3-4b@Q4_K_M", false),
];

pub fn model(reference: &str) -> Model {
    let (name, quant) = reference.split_once('@').map_or((reference, None), |(name, quant)| (name, Some(quant)));
    let quant: Option<FileType> = quant.map(|quant| quant.parse().unwrap());
    let Some(entry) = name.strip_prefix("catalogue:") else {
        let model = Model::from_header(support::model(name), name).unwrap();
        return quant.map_or_else(|| model.clone(), |quant| model.requantised(quant).unwrap());
    };
    let entry = catalogue::find(entry).unwrap();
    entry.model(quant.unwrap_or(entry.quantisation)).unwrap()
}

/// The catalogue's projector of a model that has one there.
pub fn catalogue_projector(reference: &str) -> Option<Arc<Projector>> {
    let name = reference.split('@').next().unwrap();
    catalogue::find(name.strip_prefix("catalogue:").unwrap_or(name))?.projector().cloned()
}

/// The sample's text, with its command above it if the text has none.
pub fn text(sample: &Value) -> String {
    let raw = sample["raw"].as_str().unwrap();
    let command = sample["command"].as_str().filter(|command| command.starts_with("llama-") && !raw.contains(" -c "));
    command.map_or_else(|| raw.to_owned(), |command| format!("{command}\n{raw}"))
}

fn checked(sample: &Value, reference: &str) -> Option<Result<Check, String>> {
    let seen = Observation::of(&text(sample));
    let load = seen.load()?;
    let nothing = MachineSpec::default();
    let request = CheckRequest {
        model: Arc::new(model(reference).into()),
        projector: catalogue_projector(reference),
        is_same_file: false,
        machine: &nothing,
        engine: None,
        release: None,
        knobs: &|_| {},
    };
    Some(check(load, &request).map_err(|why| why.to_string()))
}

fn line(row: &Compared) -> String {
    let mib = |mib: Option<plimsoll::observed::Mib>| mib.map_or_else(|| "-".to_owned(), |mib| format!("{:.2}", mib.0));
    let reason = row.reason.as_ref().map_or_else(String::new, ToString::to_string);
    let (planned, observed) = (mib(row.planned), mib(row.observed));
    let mark = if row.is_same() {
        "="
    } else if row.agrees() {
        "~"
    } else {
        "x"
    };
    format!("  {mark} {:<8} {:?} {:<16} {planned:>10} {observed:>10}  {reason}", row.device, row.part, row.term)
}

/// Hits, of so many.
pub type Share = (usize, usize);

/// What the comparison of all samples comes to, each figure where the log tells all that it follows from.
#[derive(Debug, Default)]
pub struct Measured {
    /// Loads compared.
    pub loads: usize,
    /// Weights that are the same.
    pub weights: Share,
    /// Caches, recurrent states and outputs that are the same.
    pub caches: Share,
    /// Compute buffers within 2 %, of builds since December 2025.
    pub compute: Share,
    /// The same of older builds, with other backends than those that are known here.
    pub older: Share,
}

fn count((hits, all): &mut Share, hit: bool) {
    (*hits, *all) = (*hits + usize::from(hit), *all + 1);
}

/// Compares every sample.
pub fn measured() -> Measured {
    let samples = samples();
    let mut measured = Measured::default();
    for (id, reference, knows_weights) in MODELS {
        let sample = samples.iter().find(|sample| sample["id"] == id).unwrap();
        let Some(Ok(check)) = checked(sample, reference) else { continue };
        if check.compared() == 0 || check.request.engine != EngineId::LlamaCpp {
            continue;
        }
        measured.loads += 1;
        // the table of a trial is of other layers than the result
        let trial = check.rows.iter().any(|row| row.reason == Some(Reason::FitTrial));
        let told = |unneeded: &str| {
            !trial && check.inferred.is_empty() && check.assumed.iter().all(|setting| *setting == unneeded)
        };
        let older = sample["date"].as_str().unwrap_or_default() < OLDEST;
        for row in check.rows.iter().filter(|row| row.part == Part::Model) {
            let (Some(planned), Some(observed)) = (row.planned, row.observed) else { continue };
            let near = (planned.0 - observed.0).abs() <= (observed.0 * 0.02).max(row.tolerance.0);
            match row.term {
                CheckedTerm::Model if knows_weights => count(&mut measured.weights, row.agrees()),
                CheckedTerm::Compute if told("") && older => count(&mut measured.older, near),
                CheckedTerm::Compute if told("") => count(&mut measured.compute, near),
                CheckedTerm::Model | CheckedTerm::Compute => {}
                // saved states belong to a draft
                _ if matches!(row.reason, Some(Reason::SavedStates(_))) => {}
                _ if told("the ubatch") => count(&mut measured.caches, row.agrees()),
                _ => {}
            }
        }
    }
    measured
}

/// Rows of one term over all samples, none left out.
#[derive(Debug, Default)]
struct Agreement {
    rows: usize,
    /// The same to the printed digit, with settings that the log tells.
    same: usize,
    /// The same to the printed digit, with settings that the log does not tell, taken from its figures.
    inferred: usize,
    /// At most 1 MiB or 2 % off.
    near: usize,
    /// Further off, and the same when planned again with another release or a setting that the log does not tell.
    explained: usize,
}

#[test]
fn figures_over_all_samples_without_selection() {
    let samples = samples();
    let [mut weights, mut caches, mut compute, mut estimates] = std::array::from_fn(|_| Agreement::default());
    for (id, reference, _) in MODELS {
        let sample = samples.iter().find(|sample| sample["id"] == id).unwrap();
        let Some(Ok(check)) = checked(sample, reference) else { continue };
        for row in check.rows.iter().filter(|row| row.planned.is_some() && row.observed.is_some()) {
            let counted = match row.term {
                CheckedTerm::Model => &mut weights,
                CheckedTerm::Compute => &mut compute,
                CheckedTerm::Kv | CheckedTerm::Rs | CheckedTerm::Context | CheckedTerm::Output => &mut caches,
                _ => &mut estimates,
            };
            let observed = row.observed.unwrap().0;
            let near = row.difference().0.abs() <= (observed * 0.02).max(1.0);
            counted.rows += 1;
            if row.agrees() && row.reason.as_ref().is_some_and(Reason::is_tried) {
                counted.inferred += 1;
            } else if row.agrees() {
                counted.same += 1;
            } else if near {
                counted.near += 1;
            } else if row.reason.as_ref().is_some_and(Reason::is_tried) {
                counted.explained += 1;
            }
        }
    }
    println!("weights {weights:?}\ncaches {caches:?}\ncompute {compute:?}\nestimates {estimates:?}");
    assert!(
        weights.same >= 25 && caches.same >= 25 && compute.same >= 28 && estimates.same >= 8,
        "{weights:?} {caches:?} {compute:?} {estimates:?}"
    );
}

#[test]
fn every_difference_has_a_reason() {
    let (samples, mut report) = (samples(), String::new());
    for (id, reference, _) in MODELS {
        let sample = samples.iter().find(|sample| sample["id"] == id).unwrap();
        let Some(check) = checked(sample, reference) else { continue };
        let check = check.unwrap_or_else(|why| panic!("{id}: {why}"));
        let open = |row: &&Compared| !row.agrees() && row.difference().0.abs() > 1.0 && row.reason.is_none();
        for row in check.rows.iter().filter(open) {
            let _ = writeln!(report, "{id} {}", line(row));
        }
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn figures_agree_where_the_log_tells_the_settings() {
    let measured = measured();
    let share = |(hits, all): Share| hits as f64 / all as f64;
    let Measured { weights, caches, compute, .. } = measured;
    let exact = (weights.0 + caches.0, weights.1 + caches.1);
    assert!(exact.1 >= 25 && share(exact) >= 0.95, "{measured:?}\n{}", differences());
    assert!(compute.1 >= 17 && share(compute) >= 0.9, "{measured:?}\n{}", differences());
    println!("{measured:?}");
}

/// Every row that differs, with its reason.
fn differences() -> String {
    let (samples, mut report) = (samples(), String::new());
    for (id, reference, _) in MODELS {
        let sample = samples.iter().find(|sample| sample["id"] == id).unwrap();
        let Some(Ok(check)) = checked(sample, reference) else { continue };
        for row in check.rows.iter().filter(|row| !row.agrees()) {
            let _ = writeln!(report, "{id} {}", line(row));
        }
    }
    report
}
