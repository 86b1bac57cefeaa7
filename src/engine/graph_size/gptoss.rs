//! gptoss and gpt-oss: a share of the cache, or in the newer release with flash attention a rough linear estimate; no
//! separate full size.
//! Source: `fs/ggml/ggml.go`, Ollama, May 2026.

use super::expr::{larger, product, quotient};
use super::letters::{C, H, H_KV_MIN, KV_UNWINDOWED, N_P};
use super::rule::{GraphRule, branch, max, part};

pub(super) static PARTIAL: GraphRule = max(&[branch(
    "attention",
    &[part(
        "share of the cache",
        quotient!((product!((quotient!((product!(2, H)), (larger!(H_KV_MIN, 1)))), KV_UNWINDOWED)), 6),
    )],
)]);

/// 1 MiB is 1048576 bytes.
pub(super) static FLASH_PARTIAL: GraphRule = max(&[branch(
    "flash attention",
    &[
        part("per sequence", product!(4, N_P, 1_048_576)),
        part("1 MiB per 1024 tokens of context", product!((quotient!(C, 1024)), 1_048_576)),
        part("constant", product!(110, 1_048_576)),
    ],
)]);
