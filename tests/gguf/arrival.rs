//! Parsing does not depend on chunk sizes.

use std::io;

use plimsoll::gguf::{ByteSource, Header, HeaderLimits, read};

/// A source that returns `step` bytes at a time and may not know its size.
pub struct Trickle<'b> {
    pub bytes: &'b [u8],
    pub step: usize,
    pub known: bool,
}

impl ByteSource for Trickle<'_> {
    fn size(&self) -> Option<u64> {
        self.known.then_some(self.bytes.len() as u64)
    }

    fn window(&mut self, offset: u64) -> io::Result<&[u8]> {
        let from = usize::try_from(offset).unwrap().min(self.bytes.len());
        let to = self.bytes.len().min(from.saturating_add(self.step));
        Ok(&self.bytes[from..to])
    }
}

/// Reads `bytes` all at once.
pub fn whole(bytes: &[u8]) -> Result<Header, String> {
    read(&mut { bytes }, &HeaderLimits::default()).map_err(|error| error.to_string())
}

/// Asserts that `bytes` give the same result in chunks of any size.
pub fn assert_the_same(bytes: &[u8], label: &str) {
    let whole = whole(bytes);
    for step in [1, 7, 4096] {
        let piecemeal = read(&mut Trickle { bytes, step, known: true }, &HeaderLimits::default());
        let piecemeal = piecemeal.map_err(|error| error.to_string());
        // compared as text, because NaN is not equal to itself
        assert_eq!(format!("{piecemeal:?}"), format!("{whole:?}"), "{label}, {step} at a time");
        let endless = read(&mut Trickle { bytes, step, known: false }, &HeaderLimits::default());
        assert_eq!(endless.is_ok(), whole.is_ok(), "{label}, {step} at a time, size unknown: {endless:?} {whole:?}");
        // a missing end is noticed only if the size is known
        if let (Ok(endless), Ok(whole)) = (endless, &whole) {
            let shown = |header: &Header| format!("{:?} {:?}", header.metadata, header.tensors);
            assert_eq!(shown(&endless), shown(whole), "{label}");
        }
    }
}

/// Larger than any buffer.
#[test]
fn a_large_header_reads_the_same() {
    let bytes = crate::support::description::bytes(
        r#"{"kv": {"general.architecture": ["string", "x"]}, "n_vocab": 20000, "tensors": [["t", "f32", [8]]]}"#,
        plimsoll::gguf::write::Encoding::default(),
    )
    .unwrap();
    assert_the_same(&bytes, "20000 tokens");
    let header = whole(&bytes).unwrap();
    assert_eq!(header.data_start, bytes.len() as u64);
}
