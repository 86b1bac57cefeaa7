//! Where layers and tensors are by the user's word: devices, how a model is split over them, and tensors elsewhere.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use regress::Regex;

use super::ALL_LAYERS;
use crate::named::named;

/// A device as options name it: by llama.cpp's own name (`CUDA0`, `Vulkan1`, `RPC0[host:port]`, `CPU`), or by its index in
/// the machine (`GPU0`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName(Box<str>);

impl DeviceName {
    /// As the user wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The GPU with this index in the machine.
    pub fn gpu(index: usize) -> Self {
        Self(format!("GPU{index}").into())
    }

    /// RAM (`ggml_backend_cpu_buffer_type_get_name` in `ggml-backend.cpp`, 0.1.161).
    pub fn cpu() -> Self {
        Self("CPU".into())
    }

    /// Whether it is RAM.
    pub fn is_cpu(&self) -> bool {
        self.0.eq_ignore_ascii_case("cpu")
    }

    /// The index in the machine, if it is named by that.
    pub fn index(&self) -> Option<usize> {
        let (word, digits) = self.0.split_at_checked(3)?;
        word.eq_ignore_ascii_case("gpu").then(|| digits.parse().ok())?
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for DeviceName {
    type Err = String;

    /// A word, or a number for the GPU with that index.
    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.trim();
        match name.parse() {
            Ok(index) => Ok(Self::gpu(index)),
            _ if !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic()) => Ok(Self(name.into())),
            _ => Err(format!("'{text}' is not a device: use GPU0, CUDA1, Vulkan0, CPU and so on")),
        }
    }
}

named! {
    /// How a model is split over several GPUs (`llama_split_mode` in `llama.h`, 0.1.161).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum SplitMode {
        /// It is not: one GPU alone.
        None = "none",
        /// By layers.
        #[default]
        Layer = "layer",
        /// The rows of matrices.
        Row = "row",
        /// Matrices and caches.
        Tensor = "tensor",
    }
}

impl FromStr for SplitMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text.trim());
        found.ok_or_else(|| format!("'{text}' is not a split mode: use none, layer, row or tensor"))
    }
}

named! {
    /// When tables of which a model reads few rows are read on demand (`llama_lazy_mode` in `llama.h`, 0.1.161).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum LazyMode {
        /// Never.
        Off = "off",
        /// If they are large.
        #[default]
        Auto = "auto",
        /// Always.
        On = "on",
    }
}

impl FromStr for LazyMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text.trim());
        found.ok_or_else(|| format!("'{text}' is not a lazy mode: use off, auto or on"))
    }
}

/// Tensors placed on a device by their names (`--override-tensor`).
#[derive(Clone, Debug, PartialEq)]
pub struct TensorOverride {
    /// Their names.
    pub pattern: TensorPattern,
    /// Their device.
    pub device: DeviceName,
}

/// A regular expression of JavaScript that is searched for in a tensor's name, as by C++'s `std::regex_search`.
#[derive(Clone)]
pub struct TensorPattern {
    text: Box<str>,
    regex: Arc<Regex>,
}

impl TensorPattern {
    /// Whether it is found in `name`.
    pub fn matches(&self, name: &str) -> bool {
        self.regex.find(name).is_some()
    }

    /// As the user wrote it.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for TensorPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl PartialEq for TensorPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl FromStr for TensorPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // what JavaScript has learnt since is an error for C++, and its classes of characters are none of JavaScript's
        let since = ["(?<", "\\p{", "\\k<"].iter().find(|since| text.contains(**since));
        let class = ["[:", "[=", "[."].iter().find(|class| text.contains(**class));
        if let Some(part) = since.or(class) {
            return Err(format!("'{text}' has a '{part}' that is not read here: write the pattern without it"));
        }
        let regex = Regex::new(text).map_err(|error| format!("'{text}' is not a regular expression: {error}"))?;
        Ok(Self { text: text.into(), regex: Arc::new(regex) })
    }
}

/// `before`, then those of `PATTERN=DEVICE,…`; a comma always divides, so a pattern has none.
///
/// # Errors
/// One sentence on the part that cannot be read.
pub fn overrides(before: Option<&str>, text: &str) -> Result<Vec<TensorOverride>, String> {
    let one = |part: &str| {
        let (pattern, device) = part
            .split_once('=')
            .ok_or_else(|| format!("'{part}' names no device: use PATTERN=DEVICE, such as ffn_.*_exps=CPU"))?;
        Ok(TensorOverride { pattern: pattern.parse()?, device: device.parse()? })
    };
    before.into_iter().chain([text]).flat_map(|list| list.split(',')).map(one).collect()
}

/// Overrides that say what `--n-cpu-moe` and `--n-cpu-ffn` say: given before others, they count before them
/// (`LLM_FFN_EXPS_REGEX` and `LLM_FFN_DENSE_REGEX` in `common/common.h`, 0.1.161).
pub fn kept_in_ram(n_cpu_moe: Option<u64>, n_cpu_ffn: Option<u64>) -> Option<String> {
    let of = |layers: Option<u64>, tensors: &str| match layers? {
        0 => None,
        ALL_LAYERS => Some(format!(r"\.{tensors}=CPU")),
        count => {
            let blocks: Vec<String> = (0..count.min(MAX_BLOCKS)).map(|block| block.to_string()).collect();
            Some(format!(r"blk\.({})\.{tensors}=CPU", blocks.join("|")))
        }
    };
    let parts = [of(n_cpu_moe, "ffn_(up|down|gate|gate_up)_(ch|)exps"), of(n_cpu_ffn, r"ffn_(up|down|gate)\.")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(","))
}

/// Blocks that a model has at most (`LLAMA_MAX_LAYERS` in `llama-hparams.h`, 0.1.161).
const MAX_BLOCKS: u64 = 512;

impl fmt::Display for TensorOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.pattern.as_str(), self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(r"\.ffn_(up|down|gate)_exps", "blk.3.ffn_up_exps.weight", true)]
    #[case(r"\.ffn_(up|down|gate)_exps", "blk.3.ffn_up_shexp.weight", false)]
    #[case(r"blk\.[0-9]\.ffn", "blk.12.ffn_up.weight", false)]
    #[case(r"blk\.(1[0-9]|2)\..*exps", "blk.17.ffn_down_exps.weight", true)]
    #[case(r"blk\.(?!3\.).*exps", "blk.3.ffn_down_exps.weight", false)]
    #[case(r"blk\.(?!3\.).*exps", "blk.4.ffn_down_exps.weight", true)]
    #[case("exps", "blk.4.ffn_down_exps.weight", true)]
    #[case("^output", "blk.0.attn_output.weight", false)]
    #[case("token_embd.weight", "token_embd.weight", true)]
    #[case(r"blk\.\d{2}\.attn", "blk.10.attn_q.weight", true)]
    fn patterns_are_searched_for(#[case] pattern: &str, #[case] name: &str, #[case] found: bool) {
        assert_eq!(pattern.parse::<TensorPattern>().unwrap().matches(name), found);
    }

    #[test]
    fn lists_of_overrides_are_read() {
        let read = overrides(None, r"blk\.0\.=CUDA0,exps=CPU").unwrap();
        assert_eq!(read.iter().map(ToString::to_string).collect::<Vec<_>>(), [r"blk\.0\.=CUDA0", "exps=CPU"]);
        for wrong in ["exps", "(=CPU", "a=", "[[:digit:]]=CPU", "(?<n>a)=CPU"] {
            let sentence = overrides(None, wrong).unwrap_err();
            assert!(sentence.contains('\''), "{sentence}");
        }
    }

    #[test]
    fn what_was_kept_in_ram_before_comes_first() {
        let first = |moe, ffn| overrides(kept_in_ram(moe, ffn).as_deref(), "exps=CUDA0").unwrap().swap_remove(0);
        let (all, some) = (first(Some(ALL_LAYERS), None), first(Some(2), None));
        assert!(all.pattern.matches("blk.7.ffn_gate_up_exps.weight") && !all.pattern.matches("blk.7.ffn_up.weight"));
        assert!(some.pattern.matches("blk.1.ffn_up_exps.weight") && !some.pattern.matches("blk.11.ffn_up_exps.weight"));
        assert!(first(None, Some(1)).pattern.matches("blk.0.ffn_up.weight"));
        assert_eq!(first(Some(0), None).pattern.as_str(), "exps");
    }

    #[test]
    fn devices_are_named_by_llama_cpp_or_by_index() {
        let name = |text: &str| text.parse::<DeviceName>().unwrap();
        assert_eq!((name("1").index(), name("gpu2").index(), name("CUDA1").index()), (Some(1), Some(2), None));
        assert!("".parse::<DeviceName>().is_err() && "a b".parse::<DeviceName>().is_err());
    }
}
