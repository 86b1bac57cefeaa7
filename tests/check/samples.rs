//! Every sample whose model is known: how much of it a plan made from the header alone says as well.

use std::fmt::Write;
use std::sync::Arc;

use plimsoll::answer::check::{Check, CheckRequest, CheckedTerm, Compared, Part, check};
use plimsoll::gguf::FileType;
use plimsoll::machine::spec::MachineSpec;
use plimsoll::model::Model;
use plimsoll::observed::Observation;
use plimsoll::source::catalogue;
use serde_json::Value;

use crate::observed::samples::samples;
use crate::support;

/// The samples with their models: a name in the catalogue with the file's quantisation, or a header of the tests, and
/// whether that is the file's own header.
const MODELS: [(&str, &str, bool); 30] = [
    ("r26-001", "catalogue:qwen3-coder-next@Q4_K_M", false),
    ("r26-003", "catalogue:qwen3.6-35b-a3b@Q4_K_M", false),
    ("r26-023", "catalogue:gemma3-12b@Q4_K_M", false),
    ("r26-026", "gemma3-4b", false),
    ("r26-030", "gemma3-4b", false),
    ("r26-035", "ministral-3-3b", false),
    ("r26-037", "deepseek-v2-lite-2024@Q5_K_M", false),
    ("r26-038", "deepseek-v2-lite-2024@Q5_K_M", false),
    ("r26-039", "deepseek-v2-lite-2024@Q5_K_M", false),
    ("r26-045", "gemma3-27b", false),
    ("r26-049", "catalogue:qwen3-vl-4b@Q4_K_M", false),
    ("r26-050", "catalogue:qwen3-4b@Q4_K_M", false),
    ("r26-054", "catalogue:qwen3.6-27b@Q4_K_M", false),
    ("r26-058", "catalogue:qwen3.5-9b@Q4_K_M", false),
    ("r26-059", "catalogue:qwen3.5-9b@Q4_K_M", false),
    ("r26-064", "catalogue:qwen3.5-27b@Q4_K_M", false),
    ("r26-065", "qwen2.5-0.5b", false),
    ("r26-075", "catalogue:qwen3.6-35b-a3b@Q4_K_M", false),
    ("r26-079", "catalogue:gpt-oss-120b", false),
    ("r26-081", "gpt-oss-20b", false),
    ("r26-082", "catalogue:gemma3-1b@Q4_K_M", false),
    ("r26-086", "gemma3-4b", false),
    ("r26-090", "catalogue:lfm2.5-1.2b@Q4_K_M", false),
    ("r26-098", "catalogue:qwen3.6-27b@Q5_K_M", false),
    ("r26-100", "catalogue:qwen3.6-27b@Q4_K_M", false),
    ("r26-102", "catalogue:gpt-oss-120b", false),
    ("r26-107", "catalogue:minimax-m2.5@Q3_K_M", false),
    ("r26-108", "catalogue:qwen3-coder-next@Q4_K_M", false),
    ("r26-110", "catalogue:gemma4-26b-a4b@Q4_0", false),
    ("r26-114", "catalogue:gpt-oss-120b", false),
];

fn model(reference: &str) -> Model {
    let (name, quant) = reference.split_once('@').map_or((reference, None), |(name, quant)| (name, Some(quant)));
    let quant: Option<FileType> = quant.map(|quant| quant.parse().unwrap());
    let Some(entry) = name.strip_prefix("catalogue:") else {
        let model = Model::from_header(support::model(name), name).unwrap();
        return quant.map_or_else(|| model.clone(), |quant| model.requantised(quant).unwrap());
    };
    let entry = catalogue::find(entry).unwrap();
    entry.model(quant.unwrap_or(entry.quantisation)).unwrap()
}

/// The sample's text, with its command above it if the text has none.
fn text(sample: &Value) -> String {
    let raw = sample["raw"].as_str().unwrap();
    let command = sample["command"].as_str().filter(|command| command.starts_with("llama-") && !raw.contains(" -c "));
    command.map_or_else(|| raw.to_owned(), |command| format!("{command}\n{raw}"))
}

fn checked(sample: &Value, reference: &str, is_same_file: bool) -> Option<Result<Check, String>> {
    let seen = Observation::of(&text(sample));
    let load = seen.load()?;
    let nothing = MachineSpec::default();
    let request = CheckRequest {
        model: Arc::new(model(reference).into()),
        is_same_file,
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
    let mark = if row.is_exact() {
        "="
    } else if row.agrees() {
        "~"
    } else {
        "x"
    };
    format!("  {mark} {:<8} {:?} {:<16} {planned:>10} {observed:>10}  {reason}", row.device, row.part, row.term)
}

#[test]
fn real_logs_agree_with_plans_or_say_why_not() {
    let samples = samples();
    let (mut exact, mut figures, mut near, mut computes, mut unexplained) = (0, 0, 0, 0, 0);
    let mut report = String::new();
    for (id, reference, same) in MODELS {
        let sample = samples.iter().find(|sample| sample["id"] == id).unwrap();
        let check = match checked(sample, reference, same) {
            Some(Ok(check)) => check,
            other => {
                let _ = writeln!(report, "{id} {reference}: {other:?}");
                continue;
            }
        };
        let settings = &check.request.settings;
        let _ = writeln!(
            report,
            "{id} {reference} {:?} {:?} ctx {:?} np {:?} ub {:?} kv {:?} {:?} fa {:?} ngl {:?} {:?} {:?}",
            check.request.engine,
            check.release,
            settings.ctx,
            settings.parallel,
            settings.ubatch,
            settings.cache_type_k,
            settings.kv_unified,
            settings.flash_attn,
            settings.gpu_layers,
            check.split,
            check.assumed
        );
        for row in &check.rows {
            let _ = writeln!(report, "{}", line(row));
            let (Some(planned), Some(observed), Part::Model) = (row.planned, row.observed, row.part) else { continue };
            match row.term {
                CheckedTerm::Compute => {
                    computes += 1;
                    near += usize::from((planned.0 - observed.0).abs() <= (observed.0 * 0.02).max(row.tolerance.0));
                }
                _ => {
                    figures += 1;
                    exact += usize::from(row.agrees());
                }
            }
            unexplained += usize::from(!row.agrees() && row.difference().0.abs() > 1.0 && row.reason.is_none());
        }
    }
    println!(
        "{report}\n{exact} of {figures} weights and caches exact, {near} of {computes} computes near, {unexplained} unexplained"
    );
}
