//! The link between RAM and a card: PCI Express, as generation and lanes or as a bandwidth.

use std::fmt;
use std::str::FromStr;

use crate::units::Bandwidth;

/// How a card is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// PCI Express.
    Pcie {
        /// Its generation.
        generation: u32,
        /// Its lanes.
        lanes: u32,
    },
    /// What copies to the card reach, as measured.
    Reached(Bandwidth),
}

/// Bytes per second and lane of PCI Express 1 to 7, in 10^6: what is left of the signalling rate after 8b/10b, 128b/130b
/// or the error correction of PAM4 (PCI Express Base Specification 7.0, table of rates).
const LANE: [u32; 7] = [250, 500, 985, 1969, 3938, 7563, 15_125];

impl Link {
    /// As it is shown, or where that is rounded to the byte: it can be read again as it was.
    pub fn exact(self) -> String {
        match self {
            Self::Reached(speed) if self.to_string().parse() != Ok(self) => format!("{}B/s", speed.per_second()),
            _ => self.to_string(),
        }
    }

    /// PCI Express of a generation that there is, with lanes that there are.
    ///
    /// # Errors
    /// One clause.
    pub fn pcie(generation: u32, lanes: u32) -> Result<Self, String> {
        if !(1..=LANE.len() as u32).contains(&generation) || ![1, 2, 4, 8, 16].contains(&lanes) {
            return Err(format!("PCI Express {generation} with {lanes} lanes is not a link: use 'pcie4 x8'"));
        }
        Ok(Self::Pcie { generation, lanes })
    }

    /// What copies from RAM reach. Measured prompts with experts in RAM reach 0.9 of the nominal rate over four and
    /// eight lanes, and 0.7 over sixteen, where RAM has a say (`tests/speeds/speeds.jsonl.gz`).
    pub fn bandwidth(self) -> Bandwidth {
        match self {
            Self::Reached(bandwidth) => bandwidth,
            Self::Pcie { generation, lanes } => {
                let lane = LANE.get(generation.saturating_sub(1) as usize).copied().unwrap_or(LANE[0]);
                let share = if lanes >= 16 { 0.7 } else { 0.9 };
                Bandwidth::gbps(1).times(f64::from(lane * lanes) / 1e3 * share)
            }
        }
    }
}

/// `PCIe 4 x8`, `25 GB/s`
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pcie { generation, lanes } => f.pad(&format!("PCIe {generation} x{lanes}")),
            Self::Reached(bandwidth) => bandwidth.fmt(f),
        }
    }
}

impl FromStr for Link {
    type Err = String;

    /// Parses `pcie4 x8`, `PCIe 4.0 x8`, `4x8`, or a bandwidth such as `25GB/s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.trim().to_ascii_lowercase();
        let rest = lower.strip_prefix("pcie").or_else(|| lower.strip_prefix("pci")).unwrap_or(&lower);
        let rest: String = rest.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
        if let Some((generation, lanes)) = rest.split_once('x') {
            let generation = generation.strip_prefix("gen").unwrap_or(generation);
            let generation = generation.strip_suffix(".0").unwrap_or(generation);
            if let (Ok(generation), Ok(lanes)) = (generation.parse(), lanes.parse()) {
                return Self::pcie(generation, lanes);
            }
        }
        let wrong = |_| format!("'{text}' is not a link: use 'pcie4 x8' or a bandwidth such as 25GB/s");
        text.parse().map(Self::Reached).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_in_common_spellings() {
        for text in ["pcie4 x8", "PCIe 4.0 x8", "4x8", "pcie gen4 x8", "pcie4x8"] {
            assert_eq!(text.parse(), Link::pcie(4, 8), "{text}");
        }
        assert_eq!("25GB/s".parse(), Ok(Link::Reached(Bandwidth::gbps(25))));
        for text in ["pcie9 x8", "pcie4 x3", "fast", ""] {
            assert!(text.parse::<Link>().unwrap_err().contains("is not a link"), "{text}");
        }
        for link in [Link::Pcie { generation: 4, lanes: 8 }, Link::Reached(Bandwidth::gbps(25))] {
            assert_eq!(link.to_string().parse(), Ok(link));
        }
        for text in ["25GB/s", "3.25GB/s", "123456789B/s", "pcie4x8"] {
            let link: Link = text.parse().unwrap();
            assert_eq!(link.exact().parse(), Ok(link), "{text}");
        }
    }

    #[test]
    fn eight_lanes_reach_more_of_their_rate_than_sixteen() {
        let eight = Link::Pcie { generation: 4, lanes: 8 }.bandwidth().per_second();
        let sixteen = Link::Pcie { generation: 4, lanes: 16 }.bandwidth().per_second();
        assert!((eight / 14.2e9 - 1.0).abs() < 0.01 && (sixteen / 22.1e9 - 1.0).abs() < 0.01);
    }
}
