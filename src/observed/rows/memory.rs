//! Lines of buffers, caches and breakdown tables.

use crate::observed::amount::{Mib, Term};
use crate::observed::kind::Kind;
use crate::observed::memory::{BufferName, CacheSize, NamedRow};
use crate::observed::row::{Row, patterns};

/// Buffers and caches of any version since mid-2025, llama.cpp's forks included. The destructor of a context prints what
/// looks alike, with `~` before its name or without `=`.
pub(super) const ROWS: &[Row] = patterns! {
    /// load_tensors:        CUDA0 model buffer size = 16386.94 MiB
    /// llama_kv_cache:      CUDA0 KV buffer size =  2176.00 MiB
    /// sched_reserve:  CUDA_Host compute buffer size =    88.08 MiB
    /// llm_load_tensors:      CUDA0 buffer size =  4155.99 MiB
    "{} buffer size ={}" (buffer: BufferName<'_>, size: Mib) => buffer.kind(), |now| now.add_buffer(buffer, size);
    /// llama_kv_cache: size = 2176.00 MiB (131072 cells,   8 layers,  1/1 seqs), K (q8_0): 1088.00 MiB, V (q8_0): 1088.00 MiB
    "{}: size ={} ({} cells,{} layers{}" (term: Term, size: Mib, cells: u64, layers: u64, rest: &str) =>
        Kind::Memory, |now| now.add_cache(CacheSize::of(term, size, cells, layers, rest));
};

/// Rows of the table; a colon stood in place of the second bar before September 2025.
pub(super) const TABLE: &[Row] = patterns! {
    /// llama_memory_breakdown_print: |   - CUDA0 (RTX 5090) | 32606 = 30330 + (21832 = 16386 +    4950 +     495) +      -19555 |
    "breakdown{}- {}" (_: &str, row: NamedRow) => row.kind(), |now| now.add_row(row.name, row.row);
};

/// Rows without the function's name, which who pasted them may have cut.
pub(super) const CUT_TABLE: &[Row] = patterns! {
    /// - Host               |                    620 =   580 +       0 +      40                |
    "^- {}" (row: NamedRow) => row.kind(), |now| now.add_row(row.name, row.row);
};
