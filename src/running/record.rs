//! Recordings: a sample per line as JSON, compressed if the file's name ends in `.gz`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::files::{self, Within};
use crate::observed::sample::Sample;

/// The longest line that is read.
const LONGEST: u64 = 1 << 20;
/// The longest recording, unpacked.
const MAX_UNPACKED: u64 = 256 << 20;
/// The first bytes of a compressed file.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Writes samples to a new file.
pub struct Recorder {
    file: Option<Box<dyn Write + Send>>,
    finish: bool,
    encoder: Option<GzEncoder<File>>,
}

impl Recorder {
    /// Writes to `path`, where no file may be yet.
    ///
    /// # Errors
    /// One sentence, if it cannot be written.
    pub fn create(path: &Path) -> Result<Self, String> {
        let file = files::create_private(path, false).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => format!("'{}' already exists: choose another name", path.display()),
            _ => format!("'{}' cannot be written: {error}", path.display()),
        })?;
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz")) {
            return Ok(Self { file: None, finish: true, encoder: Some(GzEncoder::new(file, Compression::best())) });
        }
        Ok(Self { file: Some(Box::new(file)), finish: false, encoder: None })
    }

    /// Adds a sample.
    ///
    /// # Errors
    /// Those of the file.
    pub fn add(&mut self, sample: &Sample) -> io::Result<()> {
        let line = line(sample)?;
        match (&mut self.encoder, &mut self.file) {
            (Some(encoder), _) => encoder.write_all(line.as_bytes()),
            (None, Some(file)) => file.write_all(line.as_bytes()),
            (None, None) => Ok(()),
        }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// Those of the file.
    pub fn finish(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.finish) {
            return Ok(());
        }
        self.encoder.take().map_or(Ok(()), |encoder| encoder.finish().map(drop))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // `finish` reports errors; this is the way out after another one
        drop(self.finish());
    }
}

/// A sample as a line of JSON.
///
/// # Errors
/// None that is known: its values can all be written.
pub fn line(sample: &Sample) -> io::Result<String> {
    let mut line = serde_json::to_string(sample)?;
    line.push('\n');
    Ok(line)
}

/// The samples of a recording.
///
/// # Errors
/// One sentence, if it cannot be read or is none.
pub fn read(path: &Path) -> Result<Vec<Sample>, String> {
    let cannot = |error: io::Error| files::cannot_read(path, &error.to_string());
    let mut file = BufReader::new(files::log(path)?);
    let is_compressed = file.fill_buf().map_err(cannot)?.starts_with(&MAGIC);
    let text: Box<dyn Read> = if is_compressed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    // a small file may unpack to an endless one
    samples(Within::new(text, MAX_UNPACKED)).map_err(|why| format!("'{}' {why}", path.display()))
}

/// The samples of a text.
///
/// # Errors
/// One clause, if it is none.
pub fn samples(text: impl Read) -> Result<Vec<Sample>, String> {
    let mut lines = BufReader::new(text);
    let mut samples = Vec::new();
    loop {
        let mut line = Vec::new();
        let read = (&mut lines).take(LONGEST).read_until(b'\n', &mut line);
        // what was cut off while it was written is worth something
        match read {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if samples.is_empty() || error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(format!("cannot be read: {error}"));
            }
            Err(_) => break,
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice(&line) {
            Ok(sample) => samples.push(sample),
            Err(_) if !samples.is_empty() && !line.ends_with(b"\n") => break,
            Err(error) => {
                return Err(format!("is no recording of plimsoll watch: line {}: {error}", samples.len() + 1));
            }
        }
    }
    if samples.is_empty() { Err("has no sample in it".to_owned()) } else { Ok(samples) }
}
