//! Cards and systems by name, from `assets/gpus.toml`: `RTX 4090`, `4090`, `a100-80gb`, `M4 Max 64GB`.
//!
//! The program has the same as constants from `assets/gpus.rs`, which a test writes: nothing is parsed.

use strsim::levenshtein as distance;

use rows::{CARDS, DRIVERS, NAMES, UNKNOWN, WORKING_SETS};
use words::{compact, parts, without, without_series};

use super::budget::{DriverRow, WorkingSet, WorkingSetRow};
use super::{Backend, Gpu, Link, Listed, Ram, budget};
use crate::text::LONGEST_NAME;
use crate::units::Bytes;

mod words;

/// Share of a system's main memory that is free before a model is loaded. Assumed, not measured.
pub const FREE_RAM: f64 = 0.85;

/// Share of the memory of a GPU that is free before a model is loaded, if no preset says it: that of most presets.
/// Assumed, not measured.
pub const FREE_VRAM: f64 = 0.95;

/// A known GPU or system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// `RTX 4090`
    pub name: &'static str,
    /// Other names of the same machine.
    pub also: &'static [&'static str],
    /// All its names as they are compared, its own first.
    compact: &'static [&'static str],
    /// Total memory in MiB, as the driver reports it; none for Macs, where it follows from main memory.
    mib: Option<u64>,
    /// Main memory of a system, in MiB.
    ram: Option<u64>,
    /// Share of its memory that is free before a model is loaded. Assumed, not measured.
    pub free: f64,
    /// The ggml backend that runs on it.
    pub backend: Backend,
    /// CUDA's compute capability (major, minor).
    pub compute: Option<(u32, u32)>,
    /// ROCm's name of its architecture.
    pub gfx: Option<&'static str>,
    /// Memory bandwidth in GB/s (10^9 bytes a second), from the vendor.
    pub gbps: u32,
    /// Multiplications and additions of dense f16 matrices, in 10^12 a second.
    pub tflops: f64,
    /// Whether a GPU of Apple has matrix units.
    pub matrix: bool,
    /// Lanes of PCI Express, where it has fewer than sixteen.
    lanes: Option<u32>,
    /// Whether it shares its memory with the CPU.
    pub integrated: bool,
    /// Memory in MiB that the system set aside for an integrated GPU; the rest of its memory is RAM.
    dedicated: Option<u64>,
    /// Whether it is known where it is named, but seldom bought anew.
    pub by_name: bool,
}

impl Preset {
    /// What a row leaves out.
    const BLANK: Self = Self {
        name: "",
        also: &[],
        compact: &[],
        mib: None,
        ram: None,
        free: 0.0,
        backend: Backend::Cuda,
        compute: None,
        gfx: None,
        gbps: 0,
        tflops: 0.0,
        matrix: false,
        lanes: None,
        integrated: false,
        dedicated: None,
        by_name: false,
    };

    /// Total memory of the GPU.
    pub fn total(&self) -> Bytes {
        self.total_on(budget::newest_macos())
    }

    /// The same on this version of macOS, if that says it.
    fn total_on(&self, macos: u32) -> Bytes {
        self.mib.map_or_else(|| self.working_set(macos).map_or(Bytes::ZERO, |set| set.bytes), Bytes::mib)
    }

    /// What Metal may use of a Mac's RAM on this version of macOS; none for others.
    pub fn working_set(&self, macos: u32) -> Option<WorkingSet> {
        let ram = self.ram.filter(|_| self.backend == Backend::Metal)?;
        Some(WorkingSet::of(Bytes::mib(ram), macos))
    }

    /// The GPU, with the assumed free memory.
    pub fn gpu(&self) -> Gpu {
        self.gpu_on(budget::newest_macos())
    }

    /// The same on this version of macOS, if it is a Mac's.
    pub fn gpu_on(&self, macos: u32) -> Gpu {
        let total = self.total_on(macos);
        Gpu {
            name: self.name.to_owned(),
            backend: self.backend,
            total,
            free: share(total, self.free),
            integrated: self.integrated,
            dedicated: self.dedicated.map(Bytes::mib),
            compute: self.compute,
            driver_major: None,
            computer: None,
            vulkan: None,
            listed: Listed::default(),
            driver_memory: None,
            display: None,
            link: None,
        }
    }

    /// How the card is probably connected: with all its lanes. PCI Express 3 before 2020 and 4 since then, for few boards
    /// offer more to a card that can do 5.
    pub fn link(&self) -> Link {
        let of_gfx = |gfx: &str| gfx.starts_with("gfx8") || gfx == "gfx900";
        let old = self.compute.is_some_and(|compute| compute < (8, 0)) || self.gfx.is_some_and(of_gfx);
        Link::Pcie { generation: if old { 3 } else { 4 }, lanes: self.lanes.unwrap_or(16) }
    }

    /// Whether it came with or after boards for DDR5.
    pub fn is_of_ddr5(&self) -> bool {
        let gfx = self.gfx.is_some_and(|gfx| gfx.starts_with("gfx11") || gfx.starts_with("gfx12"));
        let intel = self.gfx.is_none() && matches!(self.backend, Backend::Vulkan | Backend::Sycl);
        gfx || intel || self.compute.is_some_and(|compute| compute >= (8, 9))
    }

    /// The main memory of a system, with the assumed free memory, at least what its GPU is assumed to have free of it;
    /// none for a card.
    pub fn ram(&self) -> Option<Ram> {
        self.ram_on(budget::newest_macos())
    }

    /// The same on this version of macOS, if it is a Mac's.
    pub fn ram_on(&self, macos: u32) -> Option<Ram> {
        let total = Bytes::mib(self.ram?);
        let lent = self.gpu_on(macos).free - self.dedicated.map_or(Bytes::ZERO, Bytes::mib);
        let free = share(total, FREE_RAM).max(lent.min(total));
        Some(Ram { total, free, swap_free: Bytes::ZERO, bandwidth: None })
    }

    /// Whether its box may say so many GB: drivers show somewhat less.
    fn may_be_sold_with(&self, gib: u64) -> bool {
        /// What a driver keeps at most.
        const KEPT: f64 = 0.07;
        let (own, sold) = (self.total().0 as f64, Bytes::gib(gib).0 as f64);
        (sold * (1.0 - KEPT)..=sold).contains(&own)
    }

    /// Another preset of the same machine, which divides its memory otherwise.
    pub fn divided_otherwise(&self) -> Option<&'static Self> {
        let size = |preset: &Self| preset.name.strip_suffix(" GTT").unwrap_or(preset.name);
        all().iter().find(|other| other.name != self.name && size(other) == size(self))
    }
}

/// A share of `total`.
pub(super) fn share(total: Bytes, share: f64) -> Bytes {
    Bytes(((total.0 as f64 * share) as u64).min(total.0))
}

/// Names of cards of which nothing is known, and why.
struct UnknownRow {
    names: &'static [&'static str],
    why: &'static str,
}

impl UnknownRow {
    const BLANK: Self = Self { names: &[], why: "" };
}

#[allow(clippy::unreadable_literal, clippy::needless_update, reason = "a test writes the rows")]
mod rows {
    use super::super::Backend;
    use super::super::budget::{DriverRow, WorkingSetRow};
    use super::{Preset, UnknownRow};

    include!("../../assets/gpus.rs");
}

/// What Metal may use by macOS, in the order of `assets/gpus.toml`.
pub(super) fn working_sets() -> &'static [WorkingSetRow] {
    WORKING_SETS
}

/// What drivers take besides buffers, in the order of `assets/gpus.toml`.
pub(super) fn drivers() -> &'static [DriverRow] {
    DRIVERS
}

/// Every preset, in the order of `assets/gpus.toml`.
pub fn all() -> &'static [Preset] {
    CARDS
}

/// The preset named `text`. Letter case and spaces do not matter, vendor, series and what only drivers say may be left out,
/// and a name may stand among other words, as in shops: `NVIDIA GeForce RTX 4090`, `rtx4090`, `4090` and
/// `MSI GeForce RTX 4090 24G SUPRIM X` are the same card. None where it may be several.
pub fn find(text: &str) -> Option<&'static Preset> {
    if text.len() > LONGEST_NAME {
        return None;
    }
    let wanted = compact(text);
    // M4 Max 128 is of 128 GB
    let of_gb = || if wanted.ends_with(|c: char| c.is_ascii_digit()) { exact(&format!("{wanted}gb")) } else { None };
    exact(&wanted)
        .or_else(|| abridged(&wanted))
        .or_else(of_gb)
        .or_else(|| exact(&words::bare(text)))
        .or_else(|| among_words(text))
}

/// The preset one of whose names is this compact one.
fn exact(wanted: &str) -> Option<&'static Preset> {
    let at = NAMES.binary_search_by(|(name, _)| (*name).cmp(wanted)).ok()?;
    NAMES.get(at).and_then(|&(_, card)| CARDS.get(card))
}

/// The only preset of this name without its series.
fn abridged(wanted: &str) -> Option<&'static Preset> {
    let mut like = all().iter().filter(|preset| preset.compact.iter().any(|name| without_series(name) == wanted));
    like.next().filter(|_| like.next().is_none())
}

/// The presets of a card that was made with several sizes of memory, each with the size in GiB that its name ends with.
fn sizes_of(wanted: &str) -> impl Iterator<Item = (&'static Preset, u64)> {
    let first = NAMES.partition_point(|(name, _)| *name < wanted);
    let from = NAMES.get(first..).unwrap_or_default().iter();
    let goes_on = from.map_while(move |(name, card)| Some((name.strip_prefix(wanted)?, *card)));
    goes_on.filter_map(|(rest, card)| {
        let size = rest.strip_suffix("gb").filter(|size| size.len() <= 3)?;
        Some((CARDS.get(card)?, size.parse().ok()?))
    })
}

/// The only preset whose name stands among the words of `text`, the longest that does, of the size of memory that it states.
fn among_words(text: &str) -> Option<&'static Preset> {
    let (parts, size) = parts(text);
    let of_part = |name: &str| -> Vec<&'static Preset> {
        let of_size = |size: u64| sizes_of(name).filter(move |(_, own)| *own == size).map(|(preset, _)| preset);
        let sized: Vec<_> = size.into_iter().flat_map(of_size).collect();
        let whole = || exact(name).filter(|preset| size.is_none_or(|size| preset.may_be_sold_with(size)));
        // systems are sold with more sizes of RAM than these
        let cards = || sizes_of(name).map(|(preset, _)| preset).filter(|preset| preset.ram.is_none());
        let any = || if size.is_none() { cards().collect() } else { Vec::new() };
        if sized.is_empty() { whole().map_or_else(any, |preset| vec![preset]) } else { sized }
    };
    let longest = parts.chunk_by(|one, other| one.words == other.words).find_map(|parts| {
        let mut found: Vec<_> = parts.iter().flat_map(|part| of_part(&part.name)).collect();
        found.dedup_by(|one, other| one.name == other.name);
        (!found.is_empty()).then_some(found)
    })?;
    longest.first().copied().filter(|_| longest.len() == 1)
}

/// Whether `text` is the name of a card that was made with several sizes of memory, and lacks the size.
pub fn lacks_size(text: &str) -> bool {
    text.len() <= LONGEST_NAME && sizes_of(&compact(text)).next().is_some()
}

/// Why nothing is known of a card that people ask for, if that is known.
pub fn why_unknown(text: &str) -> Option<&'static str> {
    let (parts, _) = parts(text);
    let is_named = |row: &&UnknownRow| {
        let mut names = row.names.iter().map(|name| compact(name));
        names.any(|name| name == compact(text) || parts.iter().any(|part| part.name == name))
    };
    UNKNOWN.iter().find(is_named).map(|row| row.why)
}

/// All names of a preset, its own first.
fn names(preset: &Preset) -> impl Iterator<Item = &'static str> {
    std::iter::once(preset.name).chain(preset.also.iter().copied())
}

/// The preset of a GPU as its driver names it. Where a card or a system was made with several sizes of memory and the name
/// does not say which, the one whose memory is nearest to `total`; an integrated GPU may be named by its architecture alone.
pub fn of_gpu(name: &str, total: Bytes) -> Option<&'static Preset> {
    if name.len() > LONGEST_NAME {
        return None;
    }
    let whole = compact(name);
    let own = exact(&whole).filter(|preset| !preset.integrated || preset.compact.first() == Some(&whole.as_str()));
    own.or_else(|| of_size(&whole, total)).or_else(|| {
        let stem = words::bare(unbracketed(name));
        // the machines of an integrated GPU differ in RAM, and their driver names none
        let typed = find(name).map(|preset| match preset.gfx.filter(|_| preset.integrated) {
            Some(gfx) => integrated(gfx, total).unwrap_or(preset),
            None => preset,
        });
        let unnamed = || integrated(&architecture(name)?, total);
        typed.or_else(|| exact(&stem)).or_else(|| of_size(&stem, total)).or_else(unnamed)
    })
}

/// Of the sizes that a card was made with, the one nearest to `total`.
fn of_size(wanted: &str, total: Bytes) -> Option<&'static Preset> {
    if wanted.is_empty() { None } else { nearest_in_size(sizes_of(wanted).map(|(preset, _)| preset), total) }
}

/// Of the machines with an integrated GPU of this architecture, the one whose GPU has a memory nearest to `total`.
fn integrated(gfx: &str, total: Bytes) -> Option<&'static Preset> {
    nearest_in_size(of_architecture(gfx), total)
}

/// The machines with an integrated GPU of this architecture.
fn of_architecture(gfx: &str) -> impl Iterator<Item = &'static Preset> {
    all().iter().filter(move |preset| preset.integrated && preset.gfx == Some(gfx))
}

/// ROCm's name of an architecture in a name: `gfx1151` in `AMD Radeon Graphics (RADV GFX1151)`.
fn architecture(name: &str) -> Option<String> {
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase);
    words.find(|word| word.starts_with("gfx"))
}

fn nearest_in_size(presets: impl Iterator<Item = &'static Preset>, total: Bytes) -> Option<&'static Preset> {
    presets.min_by_key(|preset| {
        let by_system = working_sets().iter().map(|row| preset.total_on(row.macos()));
        by_system.map(|size| size.0.abs_diff(total.0)).min()
    })
}

/// What stands before the first bracket that is no trade mark's.
fn unbracketed(name: &str) -> &str {
    let at = name.match_indices('(').map(|(at, _)| at).find(|&at| {
        let rest = name.get(at..).unwrap_or_default().to_ascii_lowercase();
        at > 0 && !rest.starts_with("(r)") && !rest.starts_with("(tm)")
    });
    at.and_then(|at| name.get(..at)).unwrap_or(name)
}

/// The presets for an incremental search: those a name of which contains `text`, what is bought anew first, then those of
/// that whose own name contains its letters in order; all if it is empty.
pub fn matching(text: &str) -> Vec<&'static Preset> {
    let wanted = compact(text);
    let mut found: Vec<_> = all()
        .iter()
        .filter_map(|preset| {
            let contained = preset.compact.iter().any(|name| name.contains(&wanted));
            // among so many other names any letters stand somewhere
            let own = preset.compact.first().filter(|_| !preset.by_name);
            let scattered = || {
                own.is_some_and(|name| {
                    let mut letters = name.chars();
                    wanted.chars().all(|wanted| letters.any(|letter| letter == wanted))
                })
            };
            (contained || scattered()).then_some((!contained, preset))
        })
        .collect();
    found.sort_by_key(|&(scattered, preset)| (scattered, preset.by_name));
    found.into_iter().map(|(_, preset)| preset).collect()
}

/// Suggestions for a misspelt name, best first: all that go on where `text` ends, such as with a size, or all sizes of a card
/// that is named in it; else at most three, which contain it or are within edit distance 2.
pub fn nearest(text: &str) -> Vec<&'static str> {
    if text.len() > LONGEST_NAME {
        return Vec::new();
    }
    let wanted = without(text, |word, vendor| word == vendor || vendor.len() >= 5 && distance(word, vendor) <= 1);
    if wanted.is_empty() {
        return Vec::new();
    }
    // Quadro is left out as a series is, where it does not make another card
    let begins =
        |name: &&str| name.strip_prefix("quadro").unwrap_or(name).starts_with(&wanted) || name.starts_with(&wanted);
    let goes_on = all().iter().filter(|preset| preset.compact.iter().any(begins));
    let goes_on: Vec<&str> = goes_on.map(|preset| preset.name).collect();
    if (1..=MOST_THAT_GO_ON).contains(&goes_on.len()) {
        return goes_on;
    }
    let named = several(text);
    if !named.is_empty() {
        return named.into_iter().take(MOST_THAT_GO_ON).map(|preset| preset.name).collect();
    }
    let mut near: Vec<_> = all()
        .iter()
        .flat_map(|preset| names(preset).map(move |name| (name, compact(name))))
        .filter_map(|(shown, name)| {
            let part = wanted.len() >= 2 && (name.contains(&wanted) || name.len() >= 4 && wanted.contains(&name));
            let distance = distance(&wanted, &name).min(distance(&wanted, without_series(&name)));
            (part || distance <= 2).then_some((!part, distance, shown))
        })
        .collect();
    near.sort_by_key(|&(other, distance, _)| (other, distance));
    near.into_iter().take(3).map(|(_, _, name)| name).collect()
}

/// The cards and systems that a longer name may be about, where it says too little: all sizes of a card, or all machines with
/// an integrated GPU of an architecture.
fn several(text: &str) -> Vec<&'static Preset> {
    let (parts, _) = parts(text);
    let sizes = parts.iter().map(|part| sizes_of(&part.name).map(|(preset, _)| preset).collect::<Vec<_>>());
    let sized = sizes.into_iter().find(|sizes| !sizes.is_empty());
    let of_gfx = || architecture(text).map(|gfx| of_architecture(&gfx).collect());
    sized.or_else(of_gfx).unwrap_or_default()
}

/// More names say less than three.
const MOST_THAT_GO_ON: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    use std::fmt::Write;

    use serde::Deserialize;
    use toml::{Table, Value};

    /// `PLIMSOLL_REGENERATE=1 cargo test presets` writes the constants again.
    #[test]
    fn the_constants_hold_what_the_readable_file_holds() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let lists: Table = toml::from_str(&std::fs::read_to_string(folder.join("gpus.toml")).unwrap()).unwrap();
        let mut constants = String::new();
        let mut write = |name: &str, ty: &str, rows: Vec<String>| {
            writeln!(constants, "pub(super) const {name}: &[{ty}] = &[").unwrap();
            for row in rows {
                writeln!(constants, "    {row},").unwrap();
            }
            writeln!(constants, "];").unwrap();
        };
        let rows = |list: &str| lists[list].as_array().unwrap().iter().map(|row| row.as_table().unwrap());
        let whole = |list: &str, ty: &str| rows(list).map(|row| constant(ty, row)).collect();
        write("WORKING_SETS", "WorkingSetRow", whole("working_sets", "WorkingSetRow"));
        write("DRIVERS", "DriverRow", whole("drivers", "DriverRow"));
        write("UNKNOWN", "UnknownRow", whole("unknown", "UnknownRow"));
        let (mut cards, mut all_names) = (Vec::new(), Vec::new());
        for (at, row) in rows("cards").enumerate() {
            let also = row.get("also").and_then(Value::as_array).into_iter().flatten();
            let names = std::iter::once(&row["name"]).chain(also).map(|name| compact(name.as_str().unwrap()));
            let names: Vec<String> = names.collect();
            let mut row = row.clone();
            row.insert("compact".to_owned(), Value::Array(names.iter().cloned().map(Value::String).collect()));
            cards.push(constant("Preset", &row));
            all_names.extend(names.into_iter().map(|name| (name, at)));
        }
        write("CARDS", "Preset", cards);
        all_names.sort_unstable();
        write("NAMES", "(&str, usize)", all_names.iter().map(|name| format!("{name:?}")).collect());
        assert_eq!(lists.len(), 4, "a list of assets/gpus.toml is not read");
        let file = folder.join("gpus.rs");
        if std::env::var_os("PLIMSOLL_REGENERATE").is_some() {
            std::fs::write(file, constants).unwrap();
        } else {
            let generated = std::fs::read_to_string(file).unwrap();
            assert!(generated == constants, "assets/gpus.toml has changed: PLIMSOLL_REGENERATE=1 cargo test presets");
        }
    }

    /// A row as a constant of this type.
    fn constant(ty: &str, row: &Table) -> String {
        let field = |(key, value): (&String, &Value)| format!("{key}: {}", constant_of(key, value));
        let fields: Vec<String> = row.iter().map(field).collect();
        let required: &[&str] = match ty {
            "Preset" => &["name", "free", "backend", "gbps", "tflops"],
            "DriverRow" => &["backend", "loaded", "on", "source"],
            "WorkingSetRow" => &["macos", "source"],
            _ => &["names", "why"],
        };
        assert!(required.iter().all(|key| row.contains_key(*key)), "{row:?} lacks one of {required:?}");
        format!("{ty} {{ {}, ..{ty}::BLANK }}", fields.join(", "))
    }

    fn constant_of(key: &str, value: &Value) -> String {
        match (key, value) {
            ("backend", name) => format!("Backend::{:?}", Backend::deserialize(name.clone()).unwrap()),
            ("free" | "tflops", number) => {
                let whole = || number.as_integer().unwrap() as f64;
                format!("{:?}", number.as_float().unwrap_or_else(whole))
            }
            ("compute" | "loaded" | "first_prompt" | "context", Value::Array(numbers)) => {
                let numbers: Vec<String> = numbers.iter().map(|number| constant_of("", number)).collect();
                let numbers = format!("({})", numbers.join(", "));
                if key == "loaded" { numbers } else { format!("Some({numbers})") }
            }
            ("shares" | "seen", Value::Array(rows)) => {
                let of_row = |row: &Value| {
                    let numbers = row.as_array().unwrap().iter().map(|number| constant_of("", number));
                    format!("({})", numbers.collect::<Vec<_>>().join(", "))
                };
                format!("&[{}]", rows.iter().map(of_row).collect::<Vec<_>>().join(", "))
            }
            (_, Value::Array(names)) => {
                let names: Vec<String> = names.iter().map(|name| constant_of("", name)).collect();
                let names = format!("&[{}]", names.join(", "));
                if key == "cards" { format!("Some({names})") } else { names }
            }
            ("mib" | "ram" | "lanes" | "dedicated" | "gfx", value) => format!("Some({})", constant_of("", value)),
            (_, Value::String(text)) => format!("{text:?}"),
            (_, Value::Float(number)) => format!("{number:?}"),
            (_, value) => value.to_string(),
        }
    }

    #[test]
    fn presets_are_plausible_and_found_by_name() {
        assert!(all().len() >= 500);
        for preset in all() {
            let gpu = preset.gpu();
            assert!(gpu.free <= gpu.total && gpu.free.0 * 10 >= gpu.total.0 * 9 - 10, "{}", preset.name);
            assert!(gpu.total >= Bytes::mib(2048) && gpu.total <= Bytes::gib(512), "{}", preset.name);
            assert_eq!(gpu.compute.is_some(), gpu.backend == Backend::Cuda, "{}", preset.name);
            assert_eq!(gpu.integrated, preset.ram().is_some(), "{}", preset.name);
            assert!(gpu.dedicated.is_none_or(|bytes| gpu.integrated && bytes <= gpu.total), "{}", preset.name);
            assert_eq!(preset.mib.is_none(), gpu.backend == Backend::Metal, "{}", preset.name);
            assert!((48..=8000).contains(&preset.gbps), "{}", preset.name);
            assert!((1.0..3000.0).contains(&preset.tflops), "{}", preset.name);
            for name in names(preset) {
                assert_eq!(find(name), Some(preset), "{name} has a double");
            }
        }
    }

    #[test]
    fn a_system_has_main_memory() {
        let system = find("M4 Max 64GB").unwrap();
        assert_eq!(system.gpu_on(15).free, Bytes::gib(48));
        assert_eq!(system.total().to_string(), "51.5 GiB");
        assert_eq!(system.ram().unwrap().total, Bytes::gib(64));
        assert_eq!(find("RTX 4090").unwrap().ram(), None);
    }
}

#[cfg(test)]
mod names_tests {
    use super::*;

    #[test]
    fn names_are_found_in_common_spellings() {
        for text in ["RTX 4090", "rtx4090", "4090", "NVIDIA GeForce RTX 4090", "RTX-4090"] {
            assert_eq!(find(text).map(|preset| preset.name), Some("RTX 4090"), "{text}");
        }
        for text in ["Ryzen AI Max+ 395 128GB", "AMD Ryzen AI Max+ 395", "framework desktop"] {
            assert_eq!(find(text).map(|preset| preset.name), Some("Strix Halo 128GB GTT"), "{text}");
        }
        assert_eq!(find("7900 xtx").map(|preset| preset.name), Some("RX 7900 XTX"));
        assert_eq!(find("a100 80gb").map(|preset| preset.name), Some("A100 80GB"));
        assert_eq!(find("Apple M4 Max 128").map(|preset| preset.name), Some("M4 Max 128GB"));
        let laptop = find("NVIDIA GeForce RTX 4090 Laptop GPU").map(|preset| preset.name);
        assert_eq!(laptop, Some("RTX 4090 Laptop"));
        assert_eq!((find("RTX 4095"), find(""), find("RTX"), find("64")), (None, None, None, None));
    }

    #[test]
    fn a_driver_names_no_size() {
        let named = |name, gib| of_gpu(name, Bytes::gib(gib)).map(|preset| preset.name);
        assert_eq!(named("Apple M4 Max", 48), Some("M4 Max 64GB"));
        assert_eq!(named("Apple M4", 11), Some("M4 16GB"));
        assert_eq!(named("AMD Radeon RX 7900 XTX (RADV NAVI31)", 24), Some("RX 7900 XTX"));
        assert_eq!(named("NVIDIA A100-SXM4-80GB", 80), Some("A100 80GB"));
        assert_eq!(named("NVIDIA H100 80GB HBM3", 80), Some("H100 80GB"));
        assert_eq!(named("NVIDIA RTX 6000 Ada Generation", 48), Some("RTX 6000 Ada"));
        assert_eq!(named("AMD Radeon 8060S Graphics", 114), Some("Strix Halo 128GB GTT"));
        assert_eq!((named("", 24), named("a card", 24), named("RTX", 24)), (None, None, None));
    }

    #[test]
    fn similar_names_are_suggested() {
        assert!(nearest("RTX 4091").contains(&"RTX 4090"));
        assert!(nearest("a100").starts_with(&["A100 40GB", "A100 80GB"]));
        assert!(nearest("4060 ti").contains(&"RTX 4060 Ti 16GB"));
        assert_eq!(nearest("zotac rtx 4060 ti amp"), ["RTX 4060 Ti 16GB", "RTX 4060 Ti 8GB"]);
        assert!(nearest("AMD Radeon Graphics (RADV GFX1151)").contains(&"Strix Halo 128GB GTT"));
        let named = nearest("RTX 6000");
        assert!(["RTX 6000 Ada", "Quadro RTX 6000"].iter().all(|name| named.contains(name)), "{named:?}");
        assert!(nearest("gforce 3090").starts_with(&["RTX 3090"]) && nearest("nvida rtx 4099").contains(&"RTX 4090"));
        assert!(nearest("Voodoo 2").is_empty() && nearest("").is_empty() && nearest("NVIDIA").is_empty());
    }

    #[test]
    fn search_matches_letters_in_order() {
        let names = |text| matching(text).into_iter().map(|preset| preset.name).collect::<Vec<_>>();
        assert_eq!(names("").len(), all().len());
        assert_eq!(names("sprk"), ["DGX Spark"]);
        assert_eq!(names("halo 128"), ["Strix Halo 128GB", "Strix Halo 128GB GTT"]);
        assert!(names("4090").starts_with(&["RTX 4090"]) && names("Voodoo 2").is_empty());
    }
}
