//! The output of `ollama ps` for a loaded model.

use serde::Serialize;

use crate::units::Bytes;

/// The columns SIZE and PROCESSOR of `ollama ps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OllamaPs {
    /// All bytes that Ollama counts.
    pub size: Bytes,
    /// The part on GPUs.
    pub vram: Bytes,
}

/// A buffer that llama-server logs: `load_tensors: CUDA0 model buffer size = 4403.49 MiB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedBuffer<'a> {
    /// What logs it.
    pub component: &'a str,
    /// Where it is: `CUDA0`, `CPU_Mapped`, `CUDA_Host`.
    pub backend: &'a str,
    /// What it is for: `model`, `KV`, `compute`, `output`, `RS`.
    pub kind: &'a str,
    /// As logged, in hundredths of a MiB cut to whole bytes.
    pub bytes: Bytes,
}

impl LoggedBuffer<'_> {
    fn is_on_gpu(&self) -> bool {
        let backend = self.backend;
        backend != "CPU" && backend != "BLAS" && !backend.starts_with("CPU_") && !backend.ends_with("_Host")
    }
}

/// What Ollama makes of a load's log. Source: `memoryParsingWriter` and `MemorySize`, `llm/llama_server.go`, Ollama,
/// August 2026.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedLoad {
    /// Bytes of the model's file.
    pub file: Bytes,
    /// All layers are offloaded, and none of them overflows.
    pub is_whole: bool,
    /// Weights that are mapped and on GPUs count once (from 0.30.11).
    pub mapped_once: bool,
}

impl OllamaPs {
    /// What Ollama adds up; of equal component, backend and kind the last counts.
    pub fn of_log(buffers: &[LoggedBuffer<'_>], load: LoggedLoad) -> Self {
        if buffers.is_empty() {
            return Self { size: load.file, vram: load.file };
        }
        let key = |one: &LoggedBuffer<'_>| (one.component.to_owned(), one.backend.to_owned(), one.kind.to_owned());
        let is_last = |(place, one): &(usize, &LoggedBuffer<'_>)| {
            !buffers.iter().skip(place + 1).any(|later| key(later) == key(one))
        };
        let last: Vec<&LoggedBuffer<'_>> = buffers.iter().enumerate().filter(is_last).map(|(_, one)| one).collect();
        let sum = |is: &dyn Fn(&LoggedBuffer<'_>) -> bool| -> Bytes {
            last.iter().filter(|one| is(one)).map(|one| one.bytes).sum()
        };
        let vram = sum(&|one| one.is_on_gpu());
        if load.is_whole {
            return Self { size: vram, vram };
        }
        let mapped = sum(&|one| one.kind == "model" && !one.is_on_gpu() && one.backend.ends_with("_Mapped"));
        let on_gpus = sum(&|one| one.kind == "model" && one.is_on_gpu());
        let twice = if load.mapped_once { (on_gpus + mapped - load.file).min(mapped) } else { Bytes::ZERO };
        Self { size: sum(&|_| true) - twice, vram }
    }
    /// The column SIZE: decimal units, cut off from 10 up, one decimal below (`format.HumanBytes`, Ollama, August 2026).
    pub fn size_column(&self) -> String {
        let bytes = self.size.0;
        let units = [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1000)];
        match units.into_iter().find(|&(_, scale)| bytes >= scale) {
            None => format!("{bytes} B"),
            Some((unit, scale)) if bytes >= 10 * scale || bytes.is_multiple_of(scale) => {
                format!("{} {unit}", bytes / scale)
            }
            Some((unit, scale)) => format!("{:.1} {unit}", bytes as f64 / scale as f64),
        }
    }

    /// The column PROCESSOR (`ListRunningHandler`, `cmd/cmd.go`, Ollama, August 2026).
    pub fn processor_column(&self) -> String {
        let Self { size, vram } = *self;
        if vram == Bytes::ZERO {
            "100% CPU".to_owned()
        } else if vram == size {
            "100% GPU".to_owned()
        } else if vram > size {
            "Unknown".to_owned()
        } else {
            let cpu = ((size - vram).0 as f64 / size.0 as f64 * 100.0).round();
            format!("{cpu:.0}%/{:.0}% CPU/GPU", 100.0 - cpu)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_formatted_as_by_ollama() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1 KB"),
            (1500, "1.5 KB"),
            (5_000_000_000, "5 GB"),
            (5_040_000_000, "5.0 GB"),
            (5_960_000_000, "6.0 GB"),
            (9_999_999_999, "10.0 GB"),
            (10_900_000_000, "10 GB"),
            (1_200_000_000_000, "1.2 TB"),
        ] {
            assert_eq!(OllamaPs { size: Bytes(bytes), vram: Bytes::ZERO }.size_column(), text);
        }
    }

    #[test]
    fn the_processor_column_shows_one_device_or_both_shares() {
        for (size, vram, text) in [
            (100, 0, "100% CPU"),
            (0, 0, "100% CPU"),
            (100, 100, "100% GPU"),
            (100, 101, "Unknown"),
            (1000, 625, "38%/62% CPU/GPU"),
            (1000, 999, "0%/100% CPU/GPU"),
            (1000, 1, "100%/0% CPU/GPU"),
        ] {
            assert_eq!(OllamaPs { size: Bytes(size), vram: Bytes(vram) }.processor_column(), text);
        }
    }
}
