//! The references that were opened last: a line each, the newest first.
//!
//! Whoever changes the file holds a lock beside it, reads what others wrote meanwhile, and moves the new list to its place
//! as a whole: nothing is lost when two programs write, and a reader never sees half a list.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// References that are kept.
const MAX_ENTRIES: usize = 24;
/// A longer file is none of ours.
const MAX_FILE: u64 = 1 << 20;

/// The list, and where it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recent {
    file: PathBuf,
}

impl Recent {
    /// The list in `file`, which need not be there yet.
    pub fn new(file: &Path) -> Self {
        Self { file: file.to_owned() }
    }

    /// The references, the newest first; none where the file cannot be read.
    pub fn list(&self) -> Vec<String> {
        let short = fs::metadata(&self.file).is_ok_and(|about| about.len() <= MAX_FILE);
        let text = short.then(|| fs::read_to_string(&self.file).ok()).flatten().unwrap_or_default();
        text.lines().map(str::trim).filter(|line| !line.is_empty()).take(MAX_ENTRIES).map(str::to_owned).collect()
    }

    /// Puts `reference` in front. One that would not be a line is left out.
    ///
    /// # Errors
    /// When the folder cannot be written; the list is then as it was.
    pub fn add(&self, reference: &str) -> io::Result<()> {
        if reference.trim().is_empty() || reference.chars().any(char::is_control) {
            return Ok(());
        }
        let folder = self.file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        // let go when the handle is dropped, also by the end of the program
        let lock = File::create(self.file.with_extension("lock"))?;
        lock.lock()?;
        let others = self.list().into_iter().filter(|other| other != reference);
        let lines: Vec<String> = std::iter::once(reference.to_owned()).chain(others).take(MAX_ENTRIES).collect();
        let mut list = NamedTempFile::new_in(folder)?;
        list.write_all((lines.join("\n") + "\n").as_bytes())?;
        list.persist(&self.file)?;
        Ok(())
    }
}

/// What `text` is kept as: a path leads to the same file wherever the next program is started.
pub fn reference(text: &str) -> String {
    let there = Path::new(text).is_file().then(|| std::path::absolute(text).ok()).flatten();
    there.map_or_else(|| text.to_owned(), |path| path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_comes_first_and_none_twice() {
        let folder = tempfile::tempdir().unwrap();
        let recent = Recent::new(&folder.path().join("deeper/recent"));
        assert!(recent.list().is_empty());
        for reference in ["a", "b", "a", "hf://o/r:Q8_0", "two\nlines", " "] {
            recent.add(reference).unwrap();
        }
        assert_eq!(recent.list(), ["hf://o/r:Q8_0", "a", "b"]);
        (0..2 * MAX_ENTRIES).for_each(|n| recent.add(&n.to_string()).unwrap());
        assert_eq!((recent.list().len(), recent.list()[0].as_str()), (MAX_ENTRIES, "47"));
    }

    #[test]
    fn nothing_is_lost_when_many_write_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recent");
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let recent = Recent::new(&file);
                scope.spawn(move || (0..5).for_each(|n| recent.add(&format!("{writer}/{n}")).unwrap()));
            }
        });
        assert_eq!(Recent::new(&file).list().len(), 20);
    }

    #[test]
    fn a_file_that_is_no_list_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recent");
        fs::write(&file, [0xff, 0xfe, 0]).unwrap();
        let recent = Recent::new(&file);
        assert!(recent.list().is_empty());
        recent.add("a").unwrap();
        assert_eq!(recent.list(), ["a"]);
    }
}
