//! The columns of `ollama ps` from llama-server's log of a load.

use crate::plan::{LoggedBuffer, LoggedLoad, OllamaPs};
use crate::units::Bytes;

/// What Ollama shows of a load whose log is `text`, for a model file of `file` bytes; `mapped_once` from 0.30.11.
pub fn ollama_ps(text: &str, file: Bytes, mapped_once: bool) -> OllamaPs {
    let buffers: Vec<LoggedBuffer<'_>> = text.lines().filter_map(buffer).collect();
    let offloaded = text.lines().rev().find_map(|line| {
        let words = line.split_once("offloaded ")?.1.split_once(" layers")?.0;
        let (some, all) = words.split_once('/')?;
        Some(some.parse::<u64>().ok()? >= all.parse::<u64>().ok()?)
    });
    let overflows = text.lines().any(|line| {
        let before =
            line.split_once(" overflowing)").map(|(before, _)| before.rsplit_once('(').map_or("", |(_, count)| count));
        before.is_some_and(|count| count.trim().parse::<u64>().is_ok_and(|count| count > 0))
    });
    OllamaPs::of_log(&buffers, LoggedLoad { file, is_whole: offloaded == Some(true) && !overflows, mapped_once })
}

/// `load_tensors:   CPU_Mapped model buffer size =     4.81 MiB`
fn buffer(line: &str) -> Option<LoggedBuffer<'_>> {
    let (left, size) = line.split_once(" buffer size")?;
    let mib: f64 = size.trim_start().strip_prefix('=')?.trim().strip_suffix("MiB")?.trim().parse().ok()?;
    let mut words = left.split_whitespace().rev();
    let (kind, backend) = (words.next()?, words.next()?);
    let component = words.next()?.strip_suffix(':')?;
    let known = ["model", "KV", "compute", "output", "RS"].contains(&kind);
    let bytes = Bytes((mib * Bytes::mib(1).0 as f64) as u64);
    known.then_some(LoggedBuffer { component, backend, kind, bytes })
}
