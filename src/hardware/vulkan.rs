//! Reports cards that no collector reads. Vulkan itself is not queried: its loader runs the code of every installed
//! driver in this process, where a broken one would crash it, and needs unsafe code. The user can describe such cards.

use super::CollectorResult;
use super::sysfs::{DrmCard, SysfsTree};

/// Vendors whose cards have a collector with any driver: AMD and Intel.
const COLLECTED: [u32; 2] = [0x1002, 0x8086];
const NVIDIA: u32 = 0x10de;

/// Report on the cards in `tree` without a collector.
pub(super) fn look(tree: Option<&SysfsTree>) -> CollectorResult {
    let outcome = match tree.map(|tree| (tree, tree.cards())) {
        None => "GPUs of other vendors are not detected on this system: specify them with --gpu".to_owned(),
        Some((_, Err(reason))) => format!("no graphics cards in sysfs ({reason}); Vulkan itself is not queried"),
        Some((tree, Ok(cards))) => {
            let missed: Vec<String> = cards.iter().filter(|card| is_missed(card)).map(shown).collect();
            let place = tree.place();
            match missed.as_slice() {
                [] => format!("no other GPU in {}; Vulkan itself is not queried", place.display()),
                missed => format!(
                    "no collector reads {}, and Vulkan is not queried: specify compute devices with --gpu \
                     total=…,backend=Vulkan",
                    missed.join(", ")
                ),
            }
        }
    };
    CollectorResult { collector: "vulkan", outcome }
}

/// Whether no other collector reads it. NVML sees NVIDIA's cards only with NVIDIA's own driver.
fn is_missed(card: &DrmCard) -> bool {
    let collected = card.vendor.is_some_and(|vendor| COLLECTED.contains(&vendor)) || card.has("mem_info_vram_total");
    let by_nvml = card.vendor == Some(NVIDIA) && card.driver.as_deref() == Some("nvidia");
    !collected && !by_nvml
}

/// `card1 (driver nouveau)`
fn shown(card: &DrmCard) -> String {
    match &card.driver {
        Some(driver) => format!("{} (driver {driver})", card.place()),
        None => card.place().to_owned(),
    }
}
