//! Options of a projector (`common/arg.cpp` of llama.cpp, 0.1.161).

use std::fmt;
use std::str::FromStr;

/// Where a projector is, and the images that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MmprojOptions {
    /// Its device (`--mmproj-device`, `--no-mmproj-offload`).
    pub device: MmprojDevice,
    /// Least tokens of an image (`--image-min-tokens`).
    pub image_min_tokens: Option<u64>,
    /// Most tokens of an image (`--image-max-tokens`).
    pub image_max_tokens: Option<u64>,
    /// An image to plan for; none for the largest one allowed.
    pub image: Option<ImageSize>,
}

/// The device of a projector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MmprojDevice {
    /// The first GPU, if there is one.
    #[default]
    First,
    /// This GPU of the machine.
    Gpu(usize),
    /// The CPU.
    Cpu,
}

impl FromStr for MmprojDevice {
    type Err = String;

    /// Parses `GPU1` or `none`.
    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.trim().to_ascii_lowercase();
        let gpu = name.strip_prefix("gpu").and_then(|number| number.parse().ok());
        match (name.as_str(), gpu) {
            ("none" | "cpu", _) => Ok(Self::Cpu),
            (_, Some(gpu)) => Ok(Self::Gpu(gpu)),
            _ => Err(format!("'{text}' is not a device: use GPU0, GPU1, …, or none for the CPU")),
        }
    }
}

/// The size of an image, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSize {
    /// Pixels per row.
    pub width: u64,
    /// Rows.
    pub height: u64,
}

impl ImageSize {
    /// Most pixels of a side.
    pub const MAX_SIDE: u64 = 1 << 16;
}

impl fmt::Display for ImageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl FromStr for ImageSize {
    type Err = String;

    /// Parses `1920x1080`.
    fn from_str(text: &str) -> Result<Self, String> {
        let side = |side: &str| side.trim().parse().ok().filter(|side| (1..=Self::MAX_SIDE).contains(side));
        let sides = text.split_once(['x', 'X', '×']).and_then(|(width, height)| Some((side(width)?, side(height)?)));
        let (width, height) =
            sides.ok_or_else(|| format!("'{text}' is not the size of an image: use pixels such as 1920x1080"))?;
        Ok(Self { width, height })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_devices_are_parsed() {
        assert_eq!("1920x1080".parse(), Ok(ImageSize { width: 1920, height: 1080 }));
        assert_eq!("GPU1".parse(), Ok(MmprojDevice::Gpu(1)));
        assert_eq!("none".parse(), Ok(MmprojDevice::Cpu));
        for wrong in ["", "x", "0x5", "5", "5x5x5", "99999999x1", "-1x2"] {
            assert!(wrong.parse::<ImageSize>().is_err(), "{wrong}");
            assert!(wrong.parse::<MmprojDevice>().is_err(), "{wrong}");
        }
    }
}
