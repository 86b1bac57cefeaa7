//! How old a build of llama.cpp is at least, by the form of its lines: a log seldom names its build.

use super::Term;
use super::said::Said;

/// Words that were given up, and about the build that did so.
const GIVEN_UP: [(&str, u64); 6] = [
    // a negative remainder is signed since
    ("llama_memory_breakdown_print", 8_900),
    ("llama_print_memory_breakdown", 8_900),
    ("llama_params_fit", 8_900),
    ("alloc_compute_meta", 10_300),
    ("(mmap = ", 10_300),
    ("direct_io = ", 10_300),
];
/// Compute buffers are told by `sched_reserve` since.
const RESERVED_BY_THE_CONTEXT: u64 = 8_200;

/// The line of recurrent states tells those that a draft keeps since.
const TELLS_KEPT_STATES: u64 = 9_200;

/// A build that a line is older than.
pub(super) fn older_than(text: &str, said: &Said<'_>) -> Option<u64> {
    match said {
        Said::Buffer(buffer) if buffer.term == Term::Compute && buffer.function.starts_with("llama_") => {
            Some(RESERVED_BY_THE_CONTEXT)
        }
        Said::Cache(cache) if cache.term == Term::Rs && cache.saved_states.is_none() => Some(TELLS_KEPT_STATES),
        Said::Buffer(_) | Said::Row(..) | Said::Fit(_) | Said::Model(_) => {
            let builds = GIVEN_UP.iter().filter(|(words, _)| text.contains(words)).map(|(_, build)| *build);
            builds.min()
        }
        _ => None,
    }
}
