//! A teacher's own lessons: the `.toml` files of a folder.

use std::ffi::OsStr;
use std::fs;
use std::path::{self, Path, PathBuf};

use super::config;
use super::error::CliError;
use crate::catalogue;
use crate::files;
use crate::teach::lessons::own::OwnLessons;

/// Maximum number of files of lessons.
const MAX_FILES: usize = 64;

/// The folder of lessons beside the configuration file.
pub(super) fn folder() -> Option<PathBuf> {
    config::folder().map(|folder| folder.join("lessons"))
}

/// Appends the lessons in `folder`, else those in the folder `lessons` beside the configuration file, to the built-in
/// ones.
///
/// # Errors
/// One sentence on the first that is not well formed: file, lesson, what is wrong, what to do.
pub(super) fn append(folder: Option<&Path>) -> Result<(), CliError> {
    let files = match folder {
        Some(folder) => match files(folder).map_err(|why| CliError::flag("--lessons", &why))? {
            none if none.is_empty() => {
                let why = format!("'{}' has no file that ends in .toml: name a folder of lessons", folder.display());
                return Err(CliError::flag("--lessons", &why));
            }
            files => files,
        },
        None => match self::folder().filter(|folder| folder.exists()) {
            Some(folder) => files(&folder).map_err(CliError::Arguments)?,
            None => return Ok(()),
        },
    };
    let mut own = OwnLessons::default();
    for path in files {
        let text = files::text(&path, files::TEXT).map_err(CliError::Arguments)?.unwrap_or_default();
        own.read(&text, &|name| catalogue::find(name).is_some())
            .map_err(|why| CliError::Arguments(format!("'{}', {why}", path.display())))?;
    }
    let whole = |folder: &Path| path::absolute(folder).unwrap_or_else(|_| folder.to_owned()).display().to_string();
    own.append(folder.map(whole));
    Ok(())
}

/// The `.toml` files of `folder` in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let cannot = |error| format!("'{}' cannot be read: {error}: name a folder of lessons", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.extension() == Some(OsStr::new("toml")) {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            return Err(format!("'{}' has more than {MAX_FILES} files of lessons: remove some", folder.display()));
        }
    }
    files.sort();
    Ok(files)
}
