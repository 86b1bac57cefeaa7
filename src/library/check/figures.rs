//! The model of a log that does not name it: by its layers, its weights and its caches.

use std::sync::Arc;

use rayon::prelude::*;

use super::may_be;
use crate::answer::check::{CheckRequest, CheckedTerm, Compared, Part, check};
use crate::catalogue::{self, CatalogueEntry};
use crate::engine::PreparedModel;
use crate::gguf::FileType;
use crate::machine::spec::MachineSpec;
use crate::model::mixture::Quantisation;
use crate::model::quantise::Quantiser;
use crate::observed::{Load, Mib, ObservedModel, Term, is_repacked};
use crate::units::Bytes;

/// A model of the catalogue whose plan has a log's caches.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub entry: &'static CatalogueEntry,
    /// The quantisation with the weights of the log, else the one that is nearest.
    pub quantisation: Quantisation,
    /// Whether the weights are the same too.
    pub same_weights: bool,
    /// How far its weights are off, as a share of them.
    off: f64,
    /// Rows that differ.
    differ: usize,
}

/// How far weights may be off that a packager quantised by rules of their own.
const OFF: f64 = 0.1;

/// Fewest and most bits that a parameter takes, over a whole file: `IQ1_S`, and F32.
const BITS: (f64, f64) = (1.5, 32.5);

/// The models whose plans have the caches of `load` and weights near its own, the best first.
pub(super) fn candidates(load: &Load) -> Vec<Candidate> {
    let Some(model) = load.models.first() else { return Vec::new() };
    let (Some(layers), Some(weights)) = (layers(model), weights(load, model)) else { return Vec::new() };
    let may_have = |entry: &&CatalogueEntry| {
        may_be(entry, model)
            && layers.abs_diff(entry.blocks()) <= 1
            && entry.model(entry.quantisation).is_ok_and(|model| {
                let bits = weights.bytes().0 as f64 * 8.0 / model.parameters as f64;
                (BITS.0..BITS.1).contains(&bits)
            })
    };
    let entries: Vec<&CatalogueEntry> = catalogue::all().iter().filter(may_have).collect();
    let candidate = |entry| candidate(load, entry, weights.bytes());
    let mut found: Vec<Candidate> = entries.into_par_iter().filter_map(candidate).collect();
    found.sort_by(|a, b| {
        b.same_weights.cmp(&a.same_weights).then(a.differ.cmp(&b.differ)).then(a.off.total_cmp(&b.off))
    });
    found
}

/// Blocks, as told or as layers on GPUs have them with the output's.
fn layers(model: &ObservedModel) -> Option<u64> {
    model.blocks.or_else(|| model.offloaded.and_then(|(_, all)| all.checked_sub(1)))
}

/// All weights; the span of a mapping may be longer.
fn weights(load: &Load, model: &ObservedModel) -> Option<Mib> {
    let in_buffers = model.observed.iter().filter(|(name, _)| !is_repacked(name));
    let in_buffers: f64 = in_buffers.filter_map(|(_, terms)| terms.get(&Term::Model)).map(|mib| mib.0).sum();
    let in_table: i64 = load.table.values().map(|row| row.model).sum();
    let known = [in_buffers, in_table as f64].into_iter().find(|&mib| mib > 0.0);
    known.map(Mib).or(model.file_size)
}

/// The model in the type whose size is nearest, if its plan has the caches that the log has.
fn candidate(load: &Load, entry: &'static CatalogueEntry, weights: Bytes) -> Option<Candidate> {
    let usual = PreparedModel::from(entry.model(entry.quantisation).ok()?);
    let quantiser = Quantiser::of(&usual);
    let off = |to: FileType| Some((quantiser.bytes_in(to).ok()?.0.abs_diff(weights.0), to));
    let (_, nearest) = FileType::ALL.iter().filter_map(|&to| off(to)).min_by_key(|(off, _)| *off)?;
    let request = CheckRequest {
        model: Arc::new(entry.model(nearest).ok()?.into()),
        projector: None,
        is_same_file: false,
        machine: &MachineSpec::default(),
        engine: None,
        release: None,
        knobs: &|_| {},
    };
    let check = check(load, &request).ok()?;
    let agrees = |terms: &[CheckedTerm]| {
        let mut rows = check.rows.iter().filter(|row| row.part == Part::Model && terms.contains(&row.term)).peekable();
        rows.peek().is_some() && rows.all(|row| row.is_same() || row.uncounted.is_some() && row.agrees())
    };
    let weights = check.rows.iter().filter(|row| row.part == Part::Model && row.term == CheckedTerm::Model);
    let sum = |of: fn(&Compared) -> Option<Mib>| weights.clone().filter_map(of).map(|mib| mib.0).sum::<f64>();
    let (planned, observed) = (sum(|row| row.planned), sum(|row| row.observed));
    let off = (planned - observed).abs() / planned.max(1.0);
    (agrees(&[CheckedTerm::Kv, CheckedTerm::Rs, CheckedTerm::Context]) && off < OFF).then(|| Candidate {
        entry,
        quantisation: check.quantisation.unwrap_or_else(|| nearest.into()),
        same_weights: agrees(&[CheckedTerm::Model]),
        off,
        differ: check.compared() - check.same(),
    })
}
