//! What a Vulkan driver reports of a GPU, as far as memory depends on it.

use serde::{Deserialize, Serialize};

use super::{Gpu, Os};
use crate::units::Bytes;

/// The limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VulkanLimits {
    /// `minStorageBufferOffsetAlignment`, in bytes: of every tensor in a device buffer.
    pub align: u64,
    /// `minMemoryMapAlignment`, in bytes: of every tensor in a host buffer.
    pub host_align: u64,
    /// `maxStorageBufferRange`, in bytes: the largest tensor that an operation may read or write.
    pub max_tensor: u64,
    /// `maxBufferSize`, in bytes: likewise.
    pub max_buffer: u64,
}

impl VulkanLimits {
    /// NVIDIA's driver.
    pub const NVIDIA: Self = Self { align: 16, host_align: 64, max_tensor: (4 << 30) - 1, max_buffer: 1 << 40 };
    /// AMD's and Intel's GPUs with Mesa.
    pub const MESA: Self = Self { align: 4, host_align: 4096, max_tensor: (4 << 30) - 1, max_buffer: (4 << 30) - 4 };
    /// AMD's own driver.
    pub const AMD: Self = Self { align: 4, host_align: 64, max_tensor: (4 << 30) - 1, max_buffer: 2 << 30 };

    /// These limits, if they are possible.
    ///
    /// # Errors
    /// One sentence on the first that is not.
    pub fn checked(self) -> Result<Self, String> {
        for (key, bytes) in [("align", self.align), ("host-align", self.host_align)] {
            if !bytes.is_power_of_two() || bytes > Bytes::mib(1).0 {
                return Err(format!("{key}: {bytes} is not a power of two up to 1 MiB"));
            }
        }
        for (key, bytes) in [("max-tensor", self.max_tensor), ("max-buffer", self.max_buffer)] {
            if bytes < Bytes::mib(1).0 {
                return Err(format!("{key}: {bytes} bytes leave no room for a tensor: use what the driver reports"));
            }
        }
        Ok(self)
    }

    /// Those of `gpu` on `os`: stated, or known by the maker's name; NVIDIA's, as the most common, if neither. Also
    /// whose they are, and whether that is a guess.
    pub fn of(gpu: &Gpu, os: Os) -> (Self, &'static str, bool) {
        const NVIDIA: [&str; 8] = ["nvidia", "geforce", "rtx", "gtx", "quadro", "tesla", "h100", "a100"];
        const OTHERS: [&str; 6] = ["amd", "radeon", "rx ", "arc", "intel", "strix"];
        if let Some(stated) = gpu.vulkan {
            return (stated, "as stated", false);
        }
        let name = gpu.name.to_ascii_lowercase();
        let named = |makers: &[&str]| makers.iter().any(|maker| name.contains(maker));
        match os {
            _ if named(&NVIDIA) => (Self::NVIDIA, "NVIDIA's driver", false),
            Os::Linux if named(&OTHERS) => (Self::MESA, "Mesa's drivers", false),
            Os::Windows if named(&["amd", "radeon", "rx "]) => (Self::AMD, "AMD's driver", false),
            _ => (Self::NVIDIA, "NVIDIA's driver", true),
        }
    }
}

/// `align 16, host align 64, tensors up to 4.0 GiB, buffers up to 1.0 TiB`
impl std::fmt::Display for VulkanLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { align, host_align, max_tensor, max_buffer } = *self;
        write!(
            f,
            "alignment {align} B, on the host {host_align} B; tensors up to {}, buffers up to {}",
            Bytes(max_tensor),
            Bytes(max_buffer)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::spec::MachineSpec;
    use rstest::rstest;

    #[rstest]
    #[case("RTX 3090,backend=vulkan", Os::Linux, VulkanLimits::NVIDIA, false)]
    #[case("RX 7900 XTX,backend=vulkan", Os::Linux, VulkanLimits::MESA, false)]
    #[case("RX 7900 XTX,backend=vulkan", Os::Windows, VulkanLimits::AMD, false)]
    #[case("total=8GiB,name=something,backend=vulkan", Os::Linux, VulkanLimits::NVIDIA, true)]
    #[case(
        "total=8GiB,backend=vulkan,align=4,host-align=4096,max-buffer=4294967292",
        Os::Windows,
        VulkanLimits::MESA,
        false
    )]
    fn limits_follow_what_is_stated_or_the_maker(
        #[case] gpu: &str,
        #[case] os: Os,
        #[case] limits: VulkanLimits,
        #[case] guessed: bool,
    ) {
        let gpu = MachineSpec::read(&[gpu.to_owned()], None).unwrap().gpus.unwrap().remove(0);
        let (found, _, guess) = VulkanLimits::of(&gpu, os);
        assert_eq!((found, guess), (limits, guessed));
    }
}
