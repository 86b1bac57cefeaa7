//! Whole and damaged files. Most of the whole ones were written by another program.

use std::fmt::Write;
use std::fs;

use plimsoll::gguf::{Endian, GgmlType, Header, Value};
use plimsoll::source::{SourceError, no_progress, open};
use plimsoll::units::Bytes;
use rstest::rstest;

use super::arrival;
use crate::support;

/// Every file of the corpus, by name.
fn files() -> Vec<(String, Vec<u8>)> {
    in_folder("gguf")
}

/// The corpus, and what the fuzzer found (`tests/fuzz`).
pub fn files_and_finds() -> Vec<(String, Vec<u8>)> {
    [files(), in_folder("fuzz")].concat()
}

fn in_folder(folder: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(support::tests().join("corpus").join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

fn header(name: &str) -> Header {
    let bytes = fs::read(support::tests().join("corpus/gguf").join(name)).unwrap();
    arrival::whole(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// One line per file: a summary of the header, or the error.
#[test]
fn each_damaged_file_has_its_message() {
    let mut lines = String::new();
    for (name, bytes) in files() {
        match arrival::whole(&bytes) {
            Ok(header) => {
                let size: Bytes = header.tensors.iter().map(|tensor| tensor.bytes).sum();
                let (keys, tensors) = (header.metadata.iter().count(), header.tensors.len());
                write!(lines, "{name}: {keys} keys, {tensors} tensors, {} bytes from {}", size.0, header.data_start)
                    .unwrap();
                for note in &header.notes {
                    write!(lines, " ({note})").unwrap();
                }
                writeln!(lines).unwrap();
            }
            Err(error) => writeln!(lines, "{name}: {error}").unwrap(),
        }
    }
    insta::assert_snapshot!(lines);
}

#[test]
fn files_read_like_their_bytes() {
    for (name, bytes) in files() {
        let opened = open(&support::tests().join("corpus/gguf").join(&name), &mut no_progress);
        match (opened, arrival::whole(&bytes)) {
            // any shard opens all
            (Ok(opened), Ok(header)) if opened.paths.len() == 1 => assert_eq!(opened.header, header, "{name}"),
            (Ok(opened), Ok(_)) => assert_eq!(opened.header.tensors, self::header("tiny-v3.gguf").tensors, "{name}"),
            (Err(SourceError::Header { error, .. }), Err(said)) => assert_eq!(error.to_string(), said, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn chunk_sizes_do_not_matter() {
    for (name, bytes) in files_and_finds() {
        arrival::assert_the_same(&bytes, &name);
    }
}

#[rstest]
fn versions_and_byte_orders_agree(#[values("tiny-v2.gguf", "tiny-v2-be.gguf", "tiny-v3-be.gguf")] name: &str) {
    let expected = header("tiny-v3.gguf");
    let version = if name.contains("v2") { 2 } else { 3 };
    let endian = if name.contains("be") { Endian::Big } else { Endian::Little };
    assert_eq!(header(name), Header { version, endian, ..expected });
}

/// The values that the other program wrote.
#[test]
fn values_read_as_written() {
    let header = header("tiny-v3.gguf");
    let shown: Vec<_> = header.metadata.iter().map(|(key, value)| format!("{key} = {value:?}")).collect();
    insta::assert_snapshot!(shown.join("\n"));
    let integer = |key: &str| header.metadata.get(key).and_then(Value::as_i64);
    assert_eq!(integer("llama.a.i64"), Some(-(1 << 40)));
    assert_eq!(header.metadata.get("llama.a.i64").and_then(Value::as_u64), None);
    assert_eq!(header.metadata.get("llama.embedding_length").and_then(Value::as_u64), Some(256));
}

#[test]
fn every_type_has_its_size() {
    let header = header("every-type.gguf");
    assert_eq!(header.tensors.len(), GgmlType::ALL.len());
    for tensor in &header.tensors {
        let id: u32 = tensor.name.strip_prefix("type.").unwrap().parse().unwrap();
        assert_eq!(tensor.ty.id(), id);
        assert_eq!(tensor.bytes.0, 768 / tensor.ty.block() * tensor.ty.block_bytes());
    }
    // the file holds exactly its data, which is padded to 32 bytes
    assert!(header.notes.is_empty());
}
