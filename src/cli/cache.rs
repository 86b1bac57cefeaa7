//! `plimsoll cache`: the cached headers of remote models.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::Serialize;

use super::args::{CacheArgs, CacheCommand};
use super::error::{self, CliError, one_line};
use super::style::Style;
use crate::export::{Head, csv, record};
use crate::source::Roots;
use crate::source::ago;
use crate::source::cache::{Cache, CacheEntry};
use crate::text;
use crate::units::Bytes;

/// Runs the command and returns its report.
pub(super) fn run(args: &CacheArgs) -> Result<String, CliError> {
    let folder = Roots::of_this_machine().network.and_then(|network| network.cache);
    let folder = folder.ok_or_else(|| {
        CliError::Arguments("this system has no cache folder: nothing is cached; set HOME".to_owned())
    })?;
    let cache = Cache::new(&folder);
    let failed = |error| CliError::Terminal(format!("the cache in '{}' cannot be used: {error}", folder.display()));
    let entries = match args.command {
        None | Some(CacheCommand::Show) => cache.list(),
        Some(CacheCommand::Clear) => cache.clear(),
        Some(CacheCommand::Prune { days }) => cache.prune(Duration::from_secs(days.saturating_mul(86_400))),
    };
    let entries = entries.map_err(failed)?;
    if args.json {
        let all = entries.iter().map(EntryRecord::of).collect();
        let (folder, bytes) = (folder.to_string_lossy(), total(&entries));
        return error::json("cache", text::json(&CacheAnswer { head: Head::THIS, folder, bytes, entries: all }));
    }
    if args.csv {
        return Ok(table(&entries));
    }
    Ok(match args.command {
        None | Some(CacheCommand::Show) => show(&cache, &entries),
        Some(CacheCommand::Clear | CacheCommand::Prune { .. }) => removed(&entries),
    })
}

/// The cached headers, or those that were removed.
#[derive(JsonSchema, Serialize)]
pub(super) struct CacheAnswer<'a> {
    #[serde(flatten)]
    head: Head,
    folder: Cow<'a, str>,
    /// What they take on disk, in bytes.
    bytes: Bytes,
    /// Each of them, newest first.
    entries: Vec<EntryRecord<'a>>,
}

record! {
    /// A cached header.
    EntryRecord<'a>(entry: &'a CacheEntry) {
        /// Its address; null if its file is damaged.
        name: Option<&'a str> = entry.about.as_ref().map(|about| about.name.as_str()),
        file: Cow<'a, str> = entry.path.to_string_lossy(),
        /// What it takes on disk.
        bytes: Bytes = entry.size,
        /// The size of the whole file on its server; null if that is not known.
        whole: Option<u64> = entry.about.as_ref().and_then(|about| about.total),
        /// When it was fetched or last found unchanged, in seconds since 1970; null if its file is damaged.
        seen: Option<u64> = entry.about.as_ref().map(|about| about.seen),
    }
}

fn table(entries: &[CacheEntry]) -> String {
    let row = |entry: &CacheEntry| {
        let EntryRecord { name, file, bytes, whole, seen } = EntryRecord::of(entry);
        [csv::cell(name), file.into_owned(), bytes.0.to_string(), csv::cell(whole), csv::cell(seen)]
    };
    csv::table(["name", "file", "bytes", "whole", "seen"], entries.iter().map(row))
}

fn show(cache: &Cache, entries: &[CacheEntry]) -> String {
    let folder = cache.folder().display();
    if entries.is_empty() {
        return Style::of_stdout().paragraph(&format!("Nothing is cached in {folder} yet: fetched headers will be."));
    }
    let mut out = format!("{} cached in {folder}, {}\n\n", answers(entries.len()), total(entries));
    let now = SystemTime::now();
    for entry in entries {
        let (name, seen) = match &entry.about {
            Some(about) => (one_line(&about.name), ago(about.age(now))),
            None => (
                one_line(&entry.path.display().to_string()),
                "damaged or incomplete: 'plimsoll cache prune' removes it".to_owned(),
            ),
        };
        out += &format!("{:>10}  {name}  ({seen})\n", entry.size.to_string());
    }
    out
}

fn removed(entries: &[CacheEntry]) -> String {
    if entries.is_empty() {
        "Nothing to remove.\n".to_owned()
    } else {
        format!("Removed {}, {}.\n", answers(entries.len()), total(entries))
    }
}

fn answers(count: usize) -> String {
    format!("{count} {}", if count == 1 { "answer" } else { "answers" })
}

fn total(entries: &[CacheEntry]) -> Bytes {
    entries.iter().map(|entry| entry.size).sum()
}
