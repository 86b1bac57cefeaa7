//! Any bytes give a header or an error, never a panic, and take no more memory than their size justifies.

use plimsoll::gguf::write::{Encoding, HeaderSpec, ValueSpec, write};
use plimsoll::gguf::{ElementType, Elements, Endian, GgmlType, HeaderLimits, Value, read};
use proptest::collection::vec;
use proptest::prelude::*;

use super::allocations::peak;
use super::{arrival, corpus};

/// A header with every kind of value, small enough to damage at every byte.
fn small(endian: Endian) -> Vec<u8> {
    let strings = |texts: &[&str]| texts.iter().map(|text| ValueSpec::String((*text).to_owned())).collect();
    let numbers = (0..3).map(ValueSpec::U32).collect();
    let metadata = [
        ("general.architecture", ValueSpec::String("llama".to_owned())),
        ("general.alignment", ValueSpec::U32(32)),
        ("u16", ValueSpec::U16(1)),
        ("bool", ValueSpec::Bool(true)),
        ("numbers", ValueSpec::Array(ElementType::U32, numbers)),
        ("tokenizer.ggml.tokens", ValueSpec::Array(ElementType::String, strings(&["a", "bc", ""]))),
        (
            "nested",
            ValueSpec::Array(ElementType::Array, vec![ValueSpec::Array(ElementType::I8, vec![ValueSpec::I8(1)])]),
        ),
        ("split.count", ValueSpec::U16(1)),
    ];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value)).to_vec();
    let tensors = vec![("a".to_owned(), GgmlType::Q4K, vec![256, 2]), ("b".to_owned(), GgmlType::F32, vec![3])];
    write(&HeaderSpec { metadata, tensors }, Encoding { version: 3, endian })
}

/// Reads `bytes` and asserts that memory stays in proportion to their size.
fn read_within_bounds(bytes: &[u8]) -> Result<(), String> {
    let (result, held) = peak(|| read(&mut { bytes }, &HeaderLimits::default()));
    // a few kilobytes for sets and messages; a tensor's description is larger in memory than in the file
    let most = (16 << 10) + 32 * bytes.len();
    assert!(held <= most, "{held} bytes held for {} in the file: {result:?}", bytes.len());
    result.map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn a_header_cut_at_any_byte_is_refused() {
    for endian in [Endian::Little, Endian::Big] {
        let bytes = small(endian);
        // only the padding to a multiple of 32 may be missing
        let unpadded = (0..bytes.len()).find(|cut| read_within_bounds(&bytes[..*cut]).is_ok()).unwrap();
        assert!(bytes.len() - unpadded < 32, "{unpadded} of {}", bytes.len());
        assert!(bytes[unpadded..].iter().all(|byte| *byte == 0));
        assert!((unpadded..=bytes.len()).all(|cut| read_within_bounds(&bytes[..cut]).is_ok()));
    }
}

#[test]
fn flipped_bits_stay_within_the_memory_limit() {
    for endian in [Endian::Little, Endian::Big] {
        let mut bytes = small(endian);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _ = read_within_bounds(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn the_corpus_stays_within_the_memory_limit() {
    for (_, bytes) in corpus::files_and_finds() {
        let _ = read_within_bounds(&bytes);
    }
}

#[test]
fn limits_hold_for_large_files() {
    let tokens = ValueSpec::Array(ElementType::String, vec![ValueSpec::String("x".to_owned()); 100]);
    let floats = ValueSpec::Array(ElementType::F32, vec![ValueSpec::F32(0.0); 100]);
    let metadata = vec![
        ("long".to_owned(), ValueSpec::String("y".repeat(100))),
        ("t".to_owned(), tokens),
        ("f".to_owned(), floats),
    ];
    let tensors = (0..20).map(|i| (format!("tensor.{i}"), GgmlType::F32, vec![1])).collect();
    let bytes = write(&HeaderSpec { metadata, tensors }, Encoding::default());
    let usual = HeaderLimits::default();
    let said =
        |limits: HeaderLimits| read(&mut bytes.as_slice(), &limits).map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(said(usual), Ok(()));
    for (limits, field) in [
        (HeaderLimits { keys: 2, ..usual }, "the number of metadata keys"),
        (HeaderLimits { tensors: 19, ..usual }, "the number of tensors"),
        (HeaderLimits { name: 3, ..usual }, "the length of metadata key 0"),
        (HeaderLimits { elements: 99, ..usual }, "the array length of key 't'"),
        (HeaderLimits { steps: 99, ..usual }, "the number of strings and arrays within arrays of the header"),
        (HeaderLimits { string: 99, ..usual }, "a string's length in key 'long'"),
        (HeaderLimits { kept_bytes: 300, ..usual }, "the total size of the header's values"),
    ] {
        let error = said(limits).unwrap_err();
        assert!(error.starts_with(field) && error.contains("more than the limit of"), "{error}");
    }
    // these limits only decide what is kept; its position is known in any case
    let lean = HeaderLimits { kept_string: 10, kept_elements: 10, kept_bytes: 400, ..usual };
    let header = read(&mut bytes.as_slice(), &lean).unwrap();
    let Some(Value::LongString(range)) = header.metadata.get("long") else { panic!("{:?}", header.metadata) };
    assert_eq!(&bytes[range.start as usize..range.end as usize], "y".repeat(100).as_bytes());
    let floats = header.metadata.get("f").and_then(Value::as_array).unwrap();
    assert_eq!((floats.len, &floats.elements), (100, &Elements::Unread(ElementType::F32)));
    assert!(bytes[floats.range.start as usize..floats.range.end as usize].iter().eq(&[0; 400]));
}

proptest! {
    #[test]
    fn arbitrary_bytes_stay_within_the_memory_limit(mut bytes in vec(any::<u8>(), 0..600), start in prop::option::of(prop_oneof![Just(3_u32), Just(2)])) {
        if let Some(version) = start {
            let mut start = b"GGUF".to_vec();
            start.extend(version.to_le_bytes());
            start.append(&mut bytes);
            bytes = start;
        }
        let _ = read_within_bounds(&bytes);
        arrival::assert_the_same(&bytes, "arbitrary");
    }

    #[test]
    fn damaged_headers_read_the_same_in_any_chunks(
        big in any::<bool>(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = small(if big { Endian::Big } else { Endian::Little });
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = read_within_bounds(&bytes);
        arrival::assert_the_same(&bytes, "damaged");
        bytes.truncate(cut.index(bytes.len()));
        arrival::assert_the_same(&bytes, "damaged and cut");
    }
}
