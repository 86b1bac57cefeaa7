//! Reading logs of 20 MB: one of a server's slots, as most lines of a long one are, and one of loads and nothing else.
//!
//! `cargo bench --bench observed`. Target: 100 MB/s, so that a log of 200 MB takes two seconds.

#![allow(clippy::expect_used, reason = "a bench that cannot go on ends")]

use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use flate2::read::GzDecoder;
use plimsoll::observed::Reader;

const SIZE: usize = 20_000_000;

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn slots(bencher: Bencher<'_, '_>) {
    static LOG: OnceLock<String> = OnceLock::new();
    read(
        bencher,
        LOG.get_or_init(|| {
            repeat(
                "3.50.715.322 I slot print_timing: id  3 | task 0 | n_decoded =   1895, tg =  53.47 t/s\n\
             3.50.715.400 I slot update_slots: id  0 | task 0 | cached n_tokens = 5632, memory_seq_rm [5632, end)\n\
             3.50.715.500 I srv  update_slots: all slots are idle\n\
             [GIN] 2026/06/28 - 20:53:07 | 200 |         1m18s |       127.0.0.1 | POST     \"/api/chat\"\n",
            )
        }),
    );
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn loads(bencher: Bencher<'_, '_>) {
    static LOG: OnceLock<String> = OnceLock::new();
    read(bencher, LOG.get_or_init(|| repeat(&samples())));
}

fn read(bencher: Bencher<'_, '_>, log: &str) {
    bencher.counter(BytesCount::of_str(log)).bench(|| {
        let mut reader = Reader::default();
        black_box(log).as_bytes().chunks(64 << 10).for_each(|piece| reader.feed(piece));
        reader.finish()
    });
}

fn repeat(text: &str) -> String {
    text.repeat(SIZE.div_ceil(text.len()))
}

/// The real logs, one after another.
fn samples() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/observed/samples.jsonl.gz");
    let mut text = String::new();
    let file = File::open(path).expect("the samples are there");
    GzDecoder::new(file).read_to_string(&mut text).expect("the samples are packed");
    let sample = |line: &str| -> serde_json::Value { serde_json::from_str(line).expect("a sample is JSON") };
    text.lines().map(|line| sample(line)["raw"].as_str().unwrap_or_default().to_owned() + "\n").collect()
}
