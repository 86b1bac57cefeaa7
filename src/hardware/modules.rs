//! The memory modules that the firmware lists, and the bandwidth that follows. Rights are not needed: on Linux udev has
//! read the table (`dmi_memory_id`, systemd 248 and later), on Windows every program may.

use std::collections::BTreeMap;

use crate::units::Bandwidth;

/// One module, or one chip that is soldered in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Module {
    /// Where it is: the board's names of its slot and its bank.
    places: [String; 2],
    /// Bits that it transfers at once.
    width: u64,
    /// Millions of transfers a second, as configured.
    rate: u64,
}

/// The bandwidth of RAM, and the channels it is made of: `2 × 64 bits at 5 600 MT/s`.
pub(super) fn bandwidth() -> Result<(Bandwidth, String), String> {
    of_modules(&modules()?)
}

#[cfg(target_os = "linux")]
fn modules() -> Result<Vec<Module>, String> {
    use std::io::Read;
    /// Far more than a board with 64 modules needs.
    const MAX_FILE: u64 = 1 << 20;
    let path = "/run/udev/data/+dmi:id";
    let cannot = |error: std::io::Error| format!("'{path}' cannot be read: {error}");
    let mut text = String::new();
    std::fs::File::open(path).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text)).map_err(cannot)?;
    Ok(of_udev(&text))
}

#[cfg(windows)]
fn modules() -> Result<Vec<Module>, String> {
    use smbioslib::{MemorySize, MemorySpeed, SMBiosMemoryDevice, table_load_from_device};
    let table = table_load_from_device().map_err(|error| format!("the firmware's table cannot be read: {error}"))?;
    let filled = |module: &SMBiosMemoryDevice<'_>| !matches!(module.size(), None | Some(MemorySize::NotInstalled));
    let rate = |module: &SMBiosMemoryDevice<'_>| match module.configured_memory_speed().or(module.speed()) {
        Some(MemorySpeed::MTs(rate)) => u64::from(rate),
        _ => 0,
    };
    let module = |module: SMBiosMemoryDevice<'_>| Module {
        places: [module.device_locator(), module.bank_locator()].map(|name| name.to_string()),
        width: module.data_width().map_or(0, u64::from),
        rate: rate(&module),
    };
    Ok(table.collect::<SMBiosMemoryDevice<'_>>().into_iter().filter(filled).map(module).collect())
}

#[cfg(not(any(target_os = "linux", windows)))]
fn modules() -> Result<Vec<Module>, String> {
    Err("this system does not say which modules it has".to_owned())
}

/// The modules in udev's entry of the firmware's table; slots without one are left out.
#[cfg(any(target_os = "linux", test))]
fn of_udev(text: &str) -> Vec<Module> {
    let mut modules: BTreeMap<u64, (Module, bool)> = BTreeMap::new();
    let values = text.lines().filter_map(|line| line.strip_prefix("E:MEMORY_DEVICE_")?.split_once('='));
    for (key, value) in values {
        let Some((index, key)) = key.split_once('_') else { continue };
        let Ok(index) = index.parse() else { continue };
        let number = || value.trim().parse().ok().filter(|number| *number < 100_000).unwrap_or(0);
        let (module, is_filled) = modules.entry(index).or_insert((Module::default(), true));
        match key {
            "PRESENT" => *is_filled = value.trim() != "0",
            "LOCATOR" => value.clone_into(&mut module.places[0]),
            "BANK_LOCATOR" => value.clone_into(&mut module.places[1]),
            "DATA_WIDTH" => module.width = number(),
            // the configured rate stands over what the module could do
            "SPEED_MTS" if module.rate == 0 => module.rate = number(),
            "CONFIGURED_SPEED_MTS" if number() > 0 => module.rate = number(),
            _ => {}
        }
    }
    modules
        .into_values()
        .filter(|(module, is_filled)| *is_filled && module.rate > 0)
        .map(|(module, _)| module)
        .collect()
}

/// Modules of one channel take turns, channels work at once.
fn of_modules(modules: &[Module]) -> Result<(Bandwidth, String), String> {
    let rate = modules.iter().map(|module| module.rate).min().filter(|rate| *rate > 0);
    let rate = rate.ok_or("the firmware lists no memory module with a speed")?;
    let mut channels: BTreeMap<String, u64> = BTreeMap::new();
    for module in modules {
        let named = module.places.iter().find_map(|place| channel(place));
        let channel = match named {
            Some(channel) => channel,
            None if modules.len() == 1 => String::new(),
            None => {
                let places = module.places.join(", ");
                return Err(format!("the firmware does not say which channel the module in '{places}' is on"));
            }
        };
        channels.insert(channel, module.width);
    }
    let bits: u64 = channels.values().sum();
    let bandwidth = Bandwidth::checked(bits / 8 * rate * 1_000_000)
        .map_err(|_| "the firmware lists modules without a width".to_owned())?;
    let each = channels.values().next().copied().unwrap_or(0);
    let wide = if bits == each * channels.len() as u64 {
        format!("{} × {each} bits", channels.len())
    } else {
        format!("{bits} bits")
    };
    Ok((bandwidth, format!("{wide} at {rate} MT/s")))
}

/// The channel that a slot's or a bank's name tells, with what stands before it, such as its processor: `P0 CHANNEL A`,
/// `Controller1-ChannelB` of `Controller1-ChannelB-DIMM0`, `DIMM_A` of `DIMM_A2`.
fn channel(place: &str) -> Option<String> {
    let place = place.trim().to_ascii_lowercase();
    let is_end = |rest: &str| rest.starts_with(|c: char| !c.is_ascii_alphanumeric()) || rest.is_empty();
    if let Some(at) = place.find("channel") {
        let name = place[at + "channel".len()..].trim_start_matches([' ', '_', '-']);
        let end = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
        let before = &place[..place.len() - name.len()];
        return (end > 0).then(|| format!("{before}{}", &name[..end]));
    }
    let at = place.find("dimm")?;
    let name = place[at + "dimm".len()..].trim_start_matches([' ', '_', '-']);
    let letter = name.chars().next().filter(char::is_ascii_lowercase)?;
    let rest = name[1..].trim_start_matches(|c: char| c.is_ascii_digit());
    is_end(rest).then(|| format!("{}{letter}", &place[..place.len() - name.len()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(slot: &str, bank: &str, width: u64, rate: u64) -> Module {
        Module { places: [slot.to_owned(), bank.to_owned()], width, rate }
    }

    fn gigabytes(modules: &[Module]) -> Option<f64> {
        of_modules(modules).ok().map(|(bandwidth, _)| bandwidth.per_second() / 1e9)
    }

    #[test]
    fn channels_count_once_each() {
        // four modules on two channels, as boards with AM4 and AM5 name them
        let desktop: Vec<_> = [("DIMM 0", "P0 CHANNEL A"), ("DIMM 1", "P0 CHANNEL A"), ("DIMM 0", "P0 CHANNEL B")]
            .map(|(slot, bank)| module(slot, bank, 64, 5600))
            .into();
        assert_eq!(gigabytes(&desktop), Some(89.6));
        let intel: Vec<_> = ["Controller0-ChannelA-DIMM0", "Controller1-ChannelA-DIMM0"]
            .map(|slot| module(slot, "BANK 0", 64, 6000))
            .into();
        assert_eq!(gigabytes(&intel), Some(96.0));
        let soldered: Vec<_> = ('A'..='D')
            .flat_map(|letter| [0, 1].map(|controller| format!("Controller{controller}-Channel{letter}")))
            .map(|slot| module(&slot, "BANK 0", 16, 8533))
            .collect();
        assert_eq!(gigabytes(&soldered), Some(136.528));
        let server: Vec<_> =
            ('A'..='H').map(|letter| module(&format!("P1_DIMM{letter}1"), "NODE 1", 64, 3200)).collect();
        assert_eq!(gigabytes(&server), Some(204.8));
        assert_eq!(gigabytes(&[module("DIMM_A2", "", 64, 3600), module("DIMM_B2", "", 64, 3200)]), Some(51.2));
        assert_eq!(gigabytes(&[module("DIMM 0", "BANK 0", 64, 3200)]), Some(25.6), "one module has one channel");
    }

    #[test]
    fn what_the_firmware_does_not_tell_is_not_guessed() {
        let unnamed = [module("DIMM 0", "BANK 0", 64, 3200), module("DIMM 1", "BANK 1", 64, 3200)];
        assert!(of_modules(&unnamed).unwrap_err().contains("which channel"));
        assert!(of_modules(&[module("DIMM_A1", "", 64, 0)]).unwrap_err().contains("no memory module"));
        assert!(of_modules(&[]).is_err());
        assert!(of_modules(&[module("DIMM_A1", "", 0, 3200)]).is_err());
    }

    #[test]
    fn udevs_entry_is_read_without_empty_slots() {
        let text = "I:5000\nE:MEMORY_ARRAY_NUM_DEVICES=4\nE:MEMORY_DEVICE_0_PRESENT=0\nE:MEMORY_DEVICE_0_LOCATOR=DIMM 0\n\
                    E:MEMORY_DEVICE_1_SIZE=17179869184\nE:MEMORY_DEVICE_1_TOTAL_WIDTH=64\nE:MEMORY_DEVICE_1_DATA_WIDTH=64\n\
                    E:MEMORY_DEVICE_1_LOCATOR=DIMM 1\nE:MEMORY_DEVICE_1_BANK_LOCATOR=P0 CHANNEL A\n\
                    E:MEMORY_DEVICE_1_SPEED_MTS=4800\nE:MEMORY_DEVICE_1_CONFIGURED_SPEED_MTS=3600\n\
                    E:MEMORY_DEVICE_3_DATA_WIDTH=64\nE:MEMORY_DEVICE_3_LOCATOR=DIMM 1\n\
                    E:MEMORY_DEVICE_3_BANK_LOCATOR=P0 CHANNEL B\nE:MEMORY_DEVICE_3_SPEED_MTS=3600\nG:systemd\n";
        let modules = of_udev(text);
        let expected = [module("DIMM 1", "P0 CHANNEL A", 64, 3600), module("DIMM 1", "P0 CHANNEL B", 64, 3600)];
        assert_eq!(modules, expected);
        assert_eq!(of_modules(&modules).unwrap().1, "2 × 64 bits at 3600 MT/s");
    }
}
