//! Recognises common non-GGUF files by their magic, for better errors.

use super::error::GgufError;
use super::source::ByteSource;

const FETCH: &str = "download the model's .gguf file instead";
const OLD: &str = "this format was retired in 2023; download or convert the model as GGUF";
const CONVERT: &str = "download its GGUF version, or convert it with llama.cpp's convert_hf_to_gguf.py";

/// Checks that `source` begins with GGUF's magic; reads only its first bytes.
///
/// # Errors
/// If it is empty or another kind of file, or cannot be read.
pub fn check(source: &mut dyn ByteSource) -> Result<(), GgufError> {
    // enough for the longest magic below
    let mut start = Vec::with_capacity(64);
    while start.len() < 64 {
        let offset = start.len() as u64;
        let window = source.window(offset).map_err(|error| GgufError::reading(offset, error))?;
        if window.is_empty() {
            break;
        }
        start.extend(window.iter().take(64 - start.len()));
    }
    if start.is_empty() {
        return Err(GgufError::Empty);
    }
    if start.starts_with(b"GGUF") || start.starts_with(b"FUGG") { Ok(()) } else { Err(not_gguf(&start)) }
}

/// The error for a file that begins with `start`.
pub(super) fn not_gguf(start: &[u8]) -> GgufError {
    let (what, advice) = known(start).map_or_else(
        || (format!("something else that starts with {}", beginning(start)), FETCH),
        |(what, advice)| (what.to_owned(), advice),
    );
    GgufError::NotGguf { what, advice }
}

fn known(start: &[u8]) -> Option<(&'static str, &'static str)> {
    let text = String::from_utf8_lossy(start).trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
    // magics of llama.cpp before GGUF, a little-endian u32 each: ggml, ggmf, ggjt and, for adapters, ggla
    match start.get(..4)? {
        b"lmgg" | b"ggml" => return Some(("a GGML file", OLD)),
        b"fmgg" | b"ggmf" => return Some(("a GGMF file", OLD)),
        b"tjgg" | b"ggjt" => return Some(("a GGJT file", OLD)),
        b"algg" | b"ggla" => return Some(("a GGLA adapter", OLD)),
        b"PK\x03\x04" => return Some(("a zip archive, possibly a PyTorch checkpoint", CONVERT)),
        b"MZqF" => return Some(("a llamafile", "unpack the .gguf file in it with unzip")),
        [0x1f, 0x8b, ..] => return Some(("a gzip archive", "unpack it first")),
        [0x80, 2..=5, ..] => return Some(("a Python pickle, possibly a PyTorch checkpoint", CONVERT)),
        [0, 0, 0, 0] => {
            return Some(("a file of zeros, possibly a preallocated download", "download it again"));
        }
        _ => {}
    }
    if text.starts_with("version https://git-lfs") {
        return Some(("a git-lfs pointer", "run 'git lfs pull' in its repository, or download the file itself"));
    }
    if ["<!doctype html", "<html", "<?xml", "<head"].iter().any(|mark| text.starts_with(mark)) {
        return Some(("a web page, possibly a login or an error", FETCH));
    }
    // safetensors: the length of a JSON header in eight bytes, then the header
    if start.get(8) == Some(&b'{') && start.get(6..8) == Some(&[0, 0]) {
        return Some(("a safetensors file", CONVERT));
    }
    if text.starts_with('{') || text.starts_with("[{") {
        return Some(("JSON text, possibly a server error or an index", FETCH));
    }
    None
}

/// The first bytes: as text if they are printable, else in hexadecimal.
fn beginning(start: &[u8]) -> String {
    let line = start.split(|byte| b"\r\n".contains(byte)).next().unwrap_or_default();
    let line = &line[..line.len().min(24)];
    if line.len() >= 4 && line.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return format!("the text '{}'", String::from_utf8_lossy(line));
    }
    let bytes: Vec<_> = start.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("the bytes {}", bytes.join(" "))
}
