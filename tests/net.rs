//! Remote models, against well-behaved and faulty servers on the loopback.

mod cache;
mod command;
mod faults;
mod hugging_face;
mod mlx;
mod originals;
mod ranges;
pub(crate) mod raw;
mod registry;
mod repository;
mod running;
pub(crate) mod server;
mod sign_in;

use std::path::Path;
use std::time::Duration;

use plimsoll::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use plimsoll::gguf::{ElementType, GgmlType};
use plimsoll::source::http::Timeouts;
use plimsoll::source::{self, Network, OpenedModel, Roots, SourceError, no_progress};
use tempfile::TempDir;

/// A network with `url` as its only server, short timeouts and a temporary cache.
struct TestNetwork {
    roots: Roots,
    folder: TempDir,
}

impl TestNetwork {
    fn new(url: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let timeouts = Timeouts {
            connect: Duration::from_secs(2),
            answer: Duration::from_millis(700),
            silence: Duration::from_millis(700),
            slow: Duration::from_millis(500),
            slowest: 4096,
            tries: 3,
            back_off: Duration::from_millis(5),
            whole: None,
        };
        let network = Network {
            registry: url.to_owned(),
            hugging_face: url.to_owned(),
            cache: Some(folder.path().join("cache")),
            timeouts,
            ..Network::default()
        };
        Self { roots: Roots { network: Some(network), ..Roots::default() }, folder }
    }

    fn network(&mut self) -> &mut Network {
        self.roots.network.as_mut().unwrap()
    }

    fn load(&self, reference: &str) -> Result<OpenedModel, SourceError> {
        source::load(reference, &self.roots, &mut no_progress)
    }

    /// The error of opening `reference`; asserts that nothing was cached.
    fn refused(&self, reference: &str) -> String {
        let said = self.load(reference).expect_err("it is refused").to_string();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(self.kept().is_empty(), "{said}");
        said
    }

    /// The cached files, by name.
    fn kept(&self) -> Vec<String> {
        let cache = source::cache::Cache::new(&self.folder.path().join("cache"));
        let name = |entry: source::cache::CacheEntry| entry.about.map(|about| about.name).unwrap_or_default();
        cache.list().unwrap().into_iter().map(name).collect()
    }
}

/// A file with two tensors and `weights` bytes of weights.
fn small(name: &str, weights: usize) -> Vec<u8> {
    let mut draft = HeaderSpec::default();
    draft.metadata.push(("general.architecture".into(), ValueSpec::String("llama".into())));
    draft.metadata.push(("general.name".into(), ValueSpec::String(name.into())));
    draft.metadata.push(("llama.block_count".into(), ValueSpec::U32(1)));
    draft.tensors = vec![
        ("token_embd.weight".into(), GgmlType::F32, vec![64, 4]),
        ("blk.0.attn_q.weight".into(), GgmlType::F32, vec![64, 64]),
    ];
    let mut bytes = write(&draft, Encoding::default());
    bytes.resize(bytes.len() + weights, 0);
    bytes
}

/// A file whose header has a vocabulary of `tokens`, and optionally scores, types and twice as many merges.
fn large(tokens: usize, scores: bool, merges: bool, weights: usize) -> (Vec<u8>, u64) {
    let mut draft = HeaderSpec::default();
    draft.metadata.push(("general.architecture".into(), ValueSpec::String("llama".into())));
    draft.metadata.push(("llama.block_count".into(), ValueSpec::U32(32)));
    let words = |count: usize, longer: usize| -> Vec<ValueSpec> {
        // later words are longer, as in real vocabularies
        let word = |n: usize| ValueSpec::String("x".repeat(longer + 3 + n.ilog2() as usize / 3 + n % 5));
        (1..=count).map(word).collect()
    };
    let mut array =
        |key: &str, of, values| draft.metadata.push((format!("tokenizer.ggml.{key}"), ValueSpec::Array(of, values)));
    array("tokens", ElementType::String, words(tokens, 0));
    if scores {
        array("scores", ElementType::F32, vec![ValueSpec::F32(-1.0); tokens]);
    }
    array("token_type", ElementType::I32, vec![ValueSpec::I32(1); tokens]);
    if merges {
        array("merges", ElementType::String, words(2 * tokens, 1));
    }
    for block in 0..32 {
        for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down", "ffn_gate", "attn_norm"] {
            draft.tensors.push((format!("blk.{block}.{name}.weight"), GgmlType::F32, vec![64, 64]));
        }
    }
    let mut bytes = write(&draft, Encoding::default());
    let header = bytes.len() as u64;
    bytes.resize(bytes.len() + weights, 0);
    (bytes, header)
}

/// A file's text.
fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
