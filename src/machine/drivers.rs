//! Versions of what the GPUs' drivers come with, and the CPU's vector instructions.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Backend, Gpu};
use crate::named::named;

/// Drivers of a machine, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Drivers {
    /// NVIDIA's branch: `580` of 580.82.07.
    #[serde(default)]
    pub nvidia: Option<u32>,
    /// The major version of NVIDIA's `JetPack`.
    #[serde(default)]
    pub jetpack: Option<u32>,
}

impl Drivers {
    /// These, or else those of `earlier`.
    #[must_use]
    pub fn or(self, earlier: Self) -> Self {
        Self { nvidia: self.nvidia.or(earlier.nvidia), jetpack: self.jetpack.or(earlier.jetpack) }
    }

    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// The first number of a version: `580` of `580.82.07`.
///
/// # Errors
/// One sentence, if it does not begin with one.
pub fn major(text: &str) -> Result<u32, String> {
    let first = text.trim().split('.').next().unwrap_or_default();
    first.parse().map_err(|_| format!("'{text}' is not a version: use a number such as 580"))
}

named! {
    /// Vector instructions of a CPU; each set has those before it of the same architecture.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum CpuInstructions {
        /// None that ggml has a layout for.
        #[default]
        None = "none",
        /// x86-64 with AVX2.
        Avx2 = "avx2",
        /// x86-64 with AVX-512.
        Avx512 = "avx512",
        /// x86-64 with AMX.
        Amx = "amx",
        /// ARM with the dot product.
        NeonDotprod = "neon-dotprod",
        /// ARM with 8-bit matrix products as well.
        NeonI8mm = "neon-i8mm",
    }
}

impl FromStr for CpuInstructions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let named = |wanted: &Self| wanted.name().eq_ignore_ascii_case(text);
        Self::ALL.into_iter().find(named).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("'{text}' is not a set of instructions: use one of {names}")
        })
    }
}

/// The CPU of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Its vector instructions.
    pub instructions: CpuInstructions,
    /// Whether they are assumed, neither detected nor stated.
    pub assumed: bool,
}

impl Cpu {
    /// A CPU of which the instructions are known.
    pub const fn with(instructions: CpuInstructions) -> Self {
        Self { instructions, assumed: false }
    }

    /// The CPU assumed beside `gpus` of a described machine: Apple's own, that of NVIDIA's systems on a chip, else one
    /// of a PC with AVX2.
    pub fn beside(gpus: &[Gpu]) -> Self {
        let named = |names: &[&str]| gpus.iter().any(|gpu| names.iter().any(|name| gpu.name.contains(name)));
        let apple = gpus.iter().any(|gpu| gpu.backend == Backend::Metal && gpu.computer.is_none());
        let instructions = if apple {
            let first = gpus.iter().any(|gpu| gpu.name.split_whitespace().any(|word| word == "M1"));
            if first { CpuInstructions::NeonDotprod } else { CpuInstructions::NeonI8mm }
        } else if named(&["DGX Spark", "GB10", "GH200", "Thor"]) {
            CpuInstructions::NeonI8mm
        } else if named(&["Jetson", "Orin"]) {
            CpuInstructions::NeonDotprod
        } else {
            CpuInstructions::Avx2
        };
        Self { instructions, assumed: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::presets;

    #[test]
    fn instructions_are_read_by_their_names() {
        for instructions in CpuInstructions::ALL {
            assert_eq!(instructions.name().to_uppercase().parse(), Ok(instructions));
        }
        assert!("sse2".parse::<CpuInstructions>().unwrap_err().contains("neon-i8mm"));
    }

    #[test]
    fn the_cpu_of_a_described_machine_follows_from_its_gpus() {
        let beside = |name: &str| {
            let cpu = Cpu::beside(&[presets::find(name).unwrap().gpu()]);
            assert!(cpu.assumed);
            cpu.instructions
        };
        assert_eq!(Cpu::beside(&[]).instructions, CpuInstructions::Avx2);
        assert_eq!(beside("RTX 4090"), CpuInstructions::Avx2);
        assert_eq!(beside("M1 16GB"), CpuInstructions::NeonDotprod);
        assert_eq!(beside("M4 Max 64GB"), CpuInstructions::NeonI8mm);
        assert_eq!(beside("DGX Spark"), CpuInstructions::NeonI8mm);
        assert_eq!(beside("Jetson Orin Nano 8GB"), CpuInstructions::NeonDotprod);
    }
}
