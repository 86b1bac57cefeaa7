//! Opening a 13 MB header from a server with a latency of 50 ms.
//!
//! `cargo bench --bench remote`. Targets: 6 requests, a mebibyte more than the header, and 1.2 s.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a bench that cannot go on ends")]
#![allow(dead_code, reason = "the server is the tests' own")]

#[path = "../net/server.rs"]
mod server;

use std::time::{Duration, Instant};

use plimsoll::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use plimsoll::gguf::{ElementType, GgmlType};
use plimsoll::source::{Network, Roots, load, no_progress};

fn main() {
    let (bytes, header) = file();
    let server = server::Server::slow(Duration::from_millis(50), move |seen| server::file(seen, &bytes));
    let roots = Roots { network: Some(Network::default()), ..Roots::default() };
    for _ in 0..5 {
        let (requests, sent, start) = (server.seen().len(), server.sent(), Instant::now());
        load(&server.at("/m.gguf"), &roots, &mut no_progress).expect("the server sends a valid file");
        let (requests, sent) = (server.seen().len() - requests, server.sent() - sent);
        println!("header of {header} bytes: {requests} requests, {sent} bytes, {:?}", start.elapsed());
    }
}

/// A vocabulary of 262,144 tokens with scores, types and twice as many merges, and 16 MiB of weights.
fn file() -> (Vec<u8>, usize) {
    const TOKENS: usize = 262_144;
    let words = |count: usize| (0..count).map(|n| ValueSpec::String("x".repeat(3 + n % 9))).collect();
    let mut spec = HeaderSpec::default();
    for (key, of, values) in [
        ("tokens", ElementType::String, words(TOKENS)),
        ("scores", ElementType::F32, vec![ValueSpec::F32(-1.0); TOKENS]),
        ("token_type", ElementType::I32, vec![ValueSpec::I32(1); TOKENS]),
        ("merges", ElementType::String, words(2 * TOKENS)),
    ] {
        spec.metadata.push((format!("tokenizer.ggml.{key}"), ValueSpec::Array(of, values)));
    }
    spec.tensors.push(("token_embd.weight".to_owned(), GgmlType::F32, vec![64, 64]));
    let mut bytes = write(&spec, Encoding::default());
    let header = bytes.len();
    bytes.resize(header + (16 << 20), 0);
    (bytes, header)
}
