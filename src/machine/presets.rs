//! Cards and systems by name, from `assets/gpus.toml`: `RTX 4090`, `4090`, `a100-80gb`, `M4 Max 64GB`.
//!
//! The program reads the same from `assets/gpus.json`, which a test writes: JSON is read in a quarter of the time.

use std::sync::LazyLock;

use serde::Deserialize;
use strsim::levenshtein as distance;

use super::budget::{DriverRow, WorkingSet, WorkingSetRow};
use super::{Backend, Gpu, Link, Listed, Ram, budget};
use crate::text::LONGEST_NAME;
use crate::units::Bytes;

/// Share of a system's main memory that is free before a model is loaded. Assumed, not measured.
pub const FREE_RAM: f64 = 0.85;

/// Share of the memory of a GPU that is free before a model is loaded, if no preset says it: that of most presets.
/// Assumed, not measured.
pub const FREE_VRAM: f64 = 0.95;

/// A known GPU or system.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// `RTX 4090`
    pub name: String,
    /// Other names of the same machine.
    #[serde(default)]
    pub also: Vec<String>,
    /// All its names as they are compared, its own first.
    #[serde(skip)]
    compact: Vec<String>,
    /// Total memory in MiB, as the driver reports it; none for Macs, where it follows from main memory.
    #[serde(default)]
    mib: Option<u64>,
    /// Main memory of a system, in MiB.
    #[serde(default)]
    ram: Option<u64>,
    /// Share of its memory that is free before a model is loaded. Assumed, not measured.
    pub free: f64,
    /// The ggml backend that runs on it.
    pub backend: Backend,
    /// CUDA's compute capability (major, minor).
    #[serde(default)]
    pub compute: Option<(u32, u32)>,
    /// ROCm's name of its architecture.
    #[serde(default)]
    pub gfx: Option<String>,
    /// Memory bandwidth in GB/s (10^9 bytes a second), from the vendor.
    pub gbps: u32,
    /// Multiplications and additions of dense f16 matrices, in 10^12 a second.
    pub tflops: f64,
    /// Whether a GPU of Apple has matrix units.
    #[serde(default)]
    pub matrix: bool,
    /// Lanes of PCI Express, where it has fewer than sixteen.
    #[serde(default)]
    lanes: Option<u32>,
    /// Whether it shares its memory with the CPU.
    #[serde(default)]
    pub integrated: bool,
    /// Memory in MiB that the system set aside for an integrated GPU; the rest of its memory is RAM.
    #[serde(default)]
    dedicated: Option<u64>,
}

impl Preset {
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
            name: self.name.clone(),
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
        let old = self.compute.is_some_and(|compute| compute < (8, 0)) || self.gfx.as_deref() == Some("gfx900");
        Link::Pcie { generation: if old { 3 } else { 4 }, lanes: self.lanes.unwrap_or(16) }
    }

    /// Whether it came with or after boards for DDR5.
    pub fn is_of_ddr5(&self) -> bool {
        let gfx = self.gfx.as_deref().is_some_and(|gfx| gfx.starts_with("gfx11") || gfx.starts_with("gfx12"));
        let intel = matches!(self.backend, Backend::Vulkan | Backend::Sycl);
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

    /// Another preset of the same machine, which divides its memory otherwise.
    pub fn divided_otherwise(&self) -> Option<&'static Self> {
        let size = |preset: &Self| preset.name.strip_suffix(" GTT").unwrap_or(&preset.name).to_owned();
        all().iter().find(|other| other.name != self.name && size(other) == size(self))
    }
}

/// A share of `total`.
pub(super) fn share(total: Bytes, share: f64) -> Bytes {
    Bytes(((total.0 as f64 * share) as u64).min(total.0))
}

#[derive(Deserialize)]
struct Asset {
    cards: Vec<Preset>,
    drivers: Vec<DriverRow>,
    working_sets: Vec<WorkingSetRow>,
}

/// What Metal may use by macOS, in the order of `assets/gpus.toml`.
pub(super) fn working_sets() -> &'static [WorkingSetRow] {
    &asset().working_sets
}

/// What drivers take besides buffers, in the order of `assets/gpus.toml`.
pub(super) fn drivers() -> &'static [DriverRow] {
    &asset().drivers
}

/// Every preset, in the order of `assets/gpus.toml`.
///
/// # Panics
/// Never: the asset is part of the program and a test reads it.
pub fn all() -> &'static [Preset] {
    &asset().cards
}

const GENERATED: &str = include_str!("../../assets/gpus.json");

#[expect(clippy::expect_used, reason = "the asset is compiled in, and the tests parse it")]
fn asset() -> &'static Asset {
    static ASSET: LazyLock<Asset> = LazyLock::new(|| {
        let mut asset: Asset = serde_json::from_str(GENERATED).expect("assets/gpus.json is well formed");
        for card in &mut asset.cards {
            card.compact = names(card).map(compact).collect();
        }
        asset
    });
    &ASSET
}

/// The preset named `text`. Letter case and spaces do not matter, and vendor and series may be left out:
/// `NVIDIA GeForce RTX 4090`, `rtx4090` and `4090` are the same card.
pub fn find(text: &str) -> Option<&'static Preset> {
    let wanted = compact(text);
    let exact = all().iter().find(|preset| preset.compact.contains(&wanted));
    let only = |like: &dyn Fn(&str) -> bool| {
        let mut like = all().iter().filter(|preset| preset.compact.iter().any(|name| like(name)));
        like.next().filter(|_| like.next().is_none())
    };
    let bare = |name: &str| without_series(name) == wanted;
    let unitless = |name: &str| name.strip_suffix("gb").is_some_and(|start| start == wanted);
    exact.or_else(|| only(&bare)).or_else(|| only(&unitless))
}

/// All names of a preset, its own first.
fn names(preset: &Preset) -> impl Iterator<Item = &str> {
    std::iter::once(preset.name.as_str()).chain(preset.also.iter().map(String::as_str))
}

/// The preset of a GPU as its driver names it: without what stands in parentheses and words that only drivers use, and
/// where a card was made with several sizes of memory and the name does not say which, the one whose memory is nearest
/// to `total`.
pub fn of_gpu(name: &str, total: Bytes) -> Option<&'static Preset> {
    let name = name.split('(').next().unwrap_or(name);
    let bare = name.split(|c: char| !c.is_ascii_alphanumeric());
    let bare: Vec<_> = bare.filter(|word| !OF_DRIVERS.iter().any(|of| word.eq_ignore_ascii_case(of))).collect();
    let bare = bare.join(" ");
    let wanted = compact(&bare);
    let sized = |preset: &&Preset| {
        let size = preset.compact[0].strip_prefix(&wanted).and_then(|rest| rest.strip_suffix("gb"));
        size.is_some_and(|size| (1..=3).contains(&size.len()) && size.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let distance = |preset: &&Preset| {
        let by_system = working_sets().iter().map(|row| preset.total_on(row.macos()));
        by_system.map(|size| size.0.abs_diff(total.0)).min()
    };
    let of_size = || all().iter().filter(sized).min_by_key(distance);
    find(name).or_else(|| find(&bare)).or_else(|| if wanted.is_empty() { None } else { of_size() })
}

/// Words of drivers' names that presets leave out.
const OF_DRIVERS: [&str; 11] =
    ["graphics", "sxm2", "sxm3", "sxm4", "sxm5", "hbm3", "pcie", "workstation", "server", "edition", "generation"];

/// The presets for an incremental search: those that contain `text` first, then those that contain its letters in
/// order; all if it is empty.
pub fn matching(text: &str) -> Vec<&'static Preset> {
    let wanted = compact(text);
    let mut found: Vec<_> = all()
        .iter()
        .filter_map(|preset| {
            let scattered = preset.compact.iter().filter_map(|name| {
                let mut letters = name.chars();
                let matches = wanted.chars().all(|wanted| letters.any(|letter| letter == wanted));
                matches.then_some(!name.contains(&wanted))
            });
            Some((scattered.min()?, preset))
        })
        .collect();
    found.sort_by_key(|&(scattered, _)| scattered);
    found.into_iter().map(|(_, preset)| preset).collect()
}

/// Suggestions for a misspelt name, best first: all that go on where `text` ends, such as with a size, else at most three,
/// which contain it or are within edit distance 2.
pub fn nearest(text: &str) -> Vec<&'static str> {
    if text.len() > LONGEST_NAME {
        return Vec::new();
    }
    let wanted = without_words(text, |word, vendor| word == vendor || vendor.len() >= 5 && distance(word, vendor) <= 1);
    if wanted.is_empty() {
        return Vec::new();
    }
    let goes_on = all().iter().filter(|preset| preset.compact.iter().any(|name| name.starts_with(&wanted)));
    let goes_on: Vec<&str> = goes_on.map(|preset| preset.name.as_str()).collect();
    if (1..=MOST_THAT_GO_ON).contains(&goes_on.len()) {
        return goes_on;
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

/// More names say less than three.
const MOST_THAT_GO_ON: usize = 8;

/// Vendor words, which do not identify a card.
const VENDORS: [&str; 9] = ["nvidia", "geforce", "amd", "radeon", "instinct", "tesla", "apple", "intel", "gpu"];

/// Lower case letters and digits, without the vendors' names.
fn compact(text: &str) -> String {
    without_words(text, |word, vendor| word == vendor)
}

/// The same, with a custom comparison of a word with a vendor's name.
fn without_words(text: &str, is: impl Fn(&str, &str) -> bool) -> String {
    let lower = text.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| !VENDORS.iter().any(|vendor| is(word, vendor))).collect()
}

fn without_series(name: &str) -> &str {
    ["rtx", "gtx", "rx"].iter().find_map(|series| name.strip_prefix(series)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::{Map, Value};

    /// `PLIMSOLL_REGENERATE=1 cargo test presets` writes the JSON again.
    #[test]
    fn the_json_holds_what_the_readable_file_holds() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let lists: Map<String, Value> =
            toml::from_str(&std::fs::read_to_string(folder.join("gpus.toml")).unwrap()).unwrap();
        if std::env::var_os("PLIMSOLL_REGENERATE").is_some() {
            let rows =
                |rows: &Value| rows.as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>().join(",\n");
            let lists: Vec<_> = lists.iter().map(|(name, list)| format!("\"{name}\":[\n{}\n]", rows(list))).collect();
            std::fs::write(folder.join("gpus.json"), format!("{{\n{}\n}}\n", lists.join(",\n"))).unwrap();
        } else {
            let generated: Map<String, Value> = serde_json::from_str(GENERATED).unwrap();
            assert!(generated == lists, "assets/gpus.toml has changed: PLIMSOLL_REGENERATE=1 cargo test presets");
        }
    }

    #[test]
    fn presets_are_plausible_and_found_by_name() {
        assert!(all().len() >= 80);
        for preset in all() {
            let gpu = preset.gpu();
            assert!(gpu.free <= gpu.total && gpu.free.0 * 10 >= gpu.total.0 * 9 - 10, "{}", preset.name);
            assert!(gpu.total >= Bytes::gib(4) && gpu.total <= Bytes::gib(512), "{}", preset.name);
            assert_eq!(gpu.compute.is_some(), gpu.backend == Backend::Cuda, "{}", preset.name);
            assert_eq!(gpu.integrated, preset.ram().is_some(), "{}", preset.name);
            assert!(gpu.dedicated.is_none_or(|bytes| gpu.integrated && bytes <= gpu.total), "{}", preset.name);
            assert_eq!(preset.mib.is_none(), gpu.backend == Backend::Metal, "{}", preset.name);
            assert!((60..=8000).contains(&preset.gbps), "{}", preset.name);
            assert!((2.0..3000.0).contains(&preset.tflops), "{}", preset.name);
            assert_eq!(find(&preset.name), Some(preset), "{} has a double", preset.name);
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
            assert_eq!(find(text).map(|preset| preset.name.as_str()), Some("RTX 4090"), "{text}");
        }
        for text in ["Ryzen AI Max+ 395 128GB", "AMD Ryzen AI Max+ 395", "framework desktop"] {
            assert_eq!(find(text).map(|preset| preset.name.as_str()), Some("Strix Halo 128GB GTT"), "{text}");
        }
        assert_eq!(find("7900 xtx").map(|preset| preset.name.as_str()), Some("RX 7900 XTX"));
        assert_eq!(find("a100 80gb").map(|preset| preset.name.as_str()), Some("A100 80GB"));
        assert_eq!(find("Apple M4 Max 128").map(|preset| preset.name.as_str()), Some("M4 Max 128GB"));
        let laptop = find("NVIDIA GeForce RTX 4090 Laptop GPU").map(|preset| preset.name.as_str());
        assert_eq!(laptop, Some("RTX 4090 Laptop"));
        assert_eq!((find("RTX 4095"), find(""), find("RTX"), find("64")), (None, None, None, None));
    }

    #[test]
    fn a_driver_names_no_size() {
        let named = |name, gib| of_gpu(name, Bytes::gib(gib)).map(|preset| preset.name.as_str());
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
        assert!(nearest("gforce 3090").starts_with(&["RTX 3090"]) && nearest("nvida rtx 4099").contains(&"RTX 4090"));
        assert!(nearest("Voodoo 2").is_empty() && nearest("").is_empty() && nearest("NVIDIA").is_empty());
    }

    #[test]
    fn search_matches_letters_in_order() {
        let names = |text| matching(text).into_iter().map(|preset| preset.name.as_str()).collect::<Vec<_>>();
        assert_eq!(names("").len(), all().len());
        assert_eq!(names("sprk"), ["DGX Spark"]);
        assert_eq!(names("halo 128"), ["Strix Halo 128GB", "Strix Halo 128GB GTT"]);
        assert!(names("4090").starts_with(&["RTX 4090"]) && names("Voodoo 2").is_empty());
    }
}
