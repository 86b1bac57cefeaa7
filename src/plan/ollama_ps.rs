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

impl OllamaPs {
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
