//! Text files that a user names.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// A longer file is no text that somebody wrote.
const MAX_FILE: u64 = 1 << 20;

/// The text of the file at `path`, without a byte order mark; none where there is no file.
///
/// # Errors
/// One sentence with the path: why it cannot be read, what to do.
pub(super) fn text(path: &Path) -> Result<Option<String>, String> {
    let cannot = |why: &str| format!("'{}' cannot be read: {why}", path.display());
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => return Err(cannot("it is a folder: put a file in its place, or remove it")),
        Ok(about) if !about.is_file() => return Err(cannot("it is a device or a pipe: name a file")),
        Ok(about) if about.len() > MAX_FILE => return Err(cannot("it is longer than 1 MiB: correct or remove it")),
        _ => {}
    }
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes)) {
        Ok(_) => {
            let text = String::from_utf8(bytes).map_err(|_| cannot("it is not UTF-8 text: correct or remove it"))?;
            Ok(Some(text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_owned)))
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(cannot(&format!("{error}: change its permissions, or remove it"))),
    }
}
