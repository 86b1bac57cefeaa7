//! `plimsoll cache`: the cached headers of remote models.

use std::time::{Duration, SystemTime};

use super::args::{CacheArgs, CacheCommand};
use super::error::{CliError, one_line};
use super::style::Style;
use crate::source::Roots;
use crate::source::ago;
use crate::source::cache::{Cache, CacheEntry};
use crate::units::Bytes;

/// Runs the command and returns its report.
pub(super) fn run(args: &CacheArgs) -> Result<String, CliError> {
    let folder = Roots::of_this_machine().network.and_then(|network| network.cache);
    let folder = folder.ok_or_else(|| {
        CliError::Arguments("this system has no cache folder: nothing is cached; set HOME".to_owned())
    })?;
    let cache = Cache::new(&folder);
    let failed = |error| CliError::Terminal(format!("the cache in '{}' cannot be used: {error}", folder.display()));
    Ok(match args.command {
        None | Some(CacheCommand::Show) => show(&cache, &cache.list().map_err(failed)?),
        Some(CacheCommand::Clear) => removed(&cache.clear().map_err(failed)?),
        Some(CacheCommand::Prune { days }) => {
            removed(&cache.prune(Duration::from_secs(days.saturating_mul(86_400))).map_err(failed)?)
        }
    })
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
