//! Where layers and tensors are by the user's word: devices, how a model is split over them, and tensors elsewhere.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use fancy_regex::{Regex, RegexBuilder};

use super::values::ALL_LAYERS;
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

/// A regular expression of JavaScript that is searched for in a tensor's name, as by C++'s `std::regex_search`, in steps
/// that its length and that of the name bound. C++ has no such bound: what needs more steps is refused here.
#[derive(Clone)]
pub struct TensorPattern {
    text: Box<str>,
    regex: Arc<Regex>,
}

/// Bytes of a pattern at most: llama.cpp's own of 512 blocks has some 2,000.
const MAX_PATTERN: usize = 4096;
/// Steps of a pattern that looks ahead, on one name, at most.
const MAX_STEPS: usize = 5000;
/// Patterns of a list at most, and those of them that look ahead: each is tried on each tensor's name.
const MAX_PATTERNS: usize = 1024;
const MAX_LOOKING_AHEAD: usize = 16;
/// A name on which a pattern that looks ahead is tried, with a part of every kind that names have.
const LONG_NAME: &str =
    "model.language_model.blk.000.ffn_gate_up_exps.attn_kv_a_mqa_norm_shexp.weight.scale-aaaaaaaaaa00000000!";

impl TensorPattern {
    /// Whether it is found in `name`. What took too many steps is not found.
    pub fn matches(&self, name: &str) -> bool {
        self.regex.is_match(name).unwrap_or(false)
    }

    /// As the user wrote it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it cannot be matched in one pass.
    fn looks_ahead(&self) -> bool {
        self.text.contains("(?=") || self.text.contains("(?!")
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
        if text.len() > MAX_PATTERN {
            let start: String = text.chars().take(40).collect();
            let length = text.len();
            return Err(format!(
                "'{start}…' has {length} bytes, and patterns are read up to {MAX_PATTERN}: write a shorter one"
            ));
        }
        let read = as_read_here(text)?;
        let regex = RegexBuilder::new(&read).backtrack_limit(MAX_STEPS).build();
        let regex = regex.map_err(|error| {
            let error = error.to_string();
            let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
            format!("'{text}' is not a regular expression: {why}")
        })?;
        if regex.is_match(LONG_NAME).is_err() {
            return Err(format!("'{text}' takes too many steps: write it without repeating what looks ahead"));
        }
        Ok(Self { text: text.into(), regex: Arc::new(regex) })
    }
}

/// A pattern of JavaScript as it was when C++ took it over, in the syntax of the library that matches it here.
///
/// # Errors
/// One sentence on what C++ refuses, and on back-references, which cannot be matched within a bound.
fn as_read_here(text: &str) -> Result<String, String> {
    let refuse =
        |part: &str| Err(format!("'{text}' has a '{part}' that is not read here: write the pattern without it"));
    let mut read = String::with_capacity(text.len());
    let (mut in_class, mut repeats) = (false, false);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let next = rest.clone().next();
        let repeated = std::mem::take(&mut repeats);
        match c {
            '\\' => {
                let Some(escaped) = rest.next() else { return refuse("\\") };
                if !"dDwWsSbBnrtfvxu".contains(escaped) && escaped.is_ascii_alphanumeric() {
                    return refuse(&format!("\\{escaped}"));
                }
                // signs of others have no meaning of their own
                read.push_str(if escaped.is_ascii() && !"<>".contains(escaped) { "\\" } else { "" });
                read.push(escaped);
            }
            '[' if in_class => match next {
                Some(sign @ (':' | '=' | '.')) => return refuse(&format!("[{sign}")),
                _ => read.push_str("\\["),
            },
            ']' if in_class => {
                in_class = false;
                read.push(c);
            }
            // of sets, which C++ has not
            '&' | '~' if in_class => read.extend(['\\', c]),
            '-' if in_class && next == Some('-') => read.push_str("\\-"),
            _ if in_class => read.push(c),
            '[' => {
                in_class = true;
                read.push(c);
                if next == Some('^') {
                    read.extend(rest.next());
                }
            }
            '(' if next == Some('?') => {
                let after = rest.as_str().chars().nth(1);
                if !matches!(after, Some(':' | '=' | '!')) {
                    return refuse(&format!("(?{}", after.map(String::from).unwrap_or_default()));
                }
                read.push_str("(?");
                rest.next();
            }
            '*' | '+' | '{' if repeated => {
                return Err(format!("'{text}' repeats what is repeated already: write the pattern without that"));
            }
            '*' | '+' | '?' | '}' => {
                // one more `?` repeats as few times as possible
                repeats = !(repeated && c == '?');
                read.push(c);
            }
            _ => read.push(c),
        }
    }
    Ok(read)
}

/// `before`, then those of `PATTERN=DEVICE,…`; a comma always divides, so a pattern has none.
///
/// # Errors
/// One sentence on the part that cannot be read.
pub fn overrides(before: Option<&str>, text: &str) -> Result<Vec<TensorOverride>, String> {
    let one = |part: &str| -> Result<TensorOverride, String> {
        let (pattern, device) = part
            .split_once('=')
            .ok_or_else(|| format!("'{part}' names no device: use PATTERN=DEVICE, such as ffn_.*_exps=CPU"))?;
        Ok(TensorOverride { pattern: pattern.parse()?, device: device.parse()? })
    };
    let mut all = Vec::new();
    for part in before.into_iter().chain([text]).flat_map(|list| list.split(',')) {
        if all.len() == MAX_PATTERNS {
            return Err(format!("there are more than {MAX_PATTERNS} patterns: write fewer that match more"));
        }
        all.push(one(part)?);
    }
    if all.iter().filter(|to| to.pattern.looks_ahead()).count() > MAX_LOOKING_AHEAD {
        return Err(format!("more than {MAX_LOOKING_AHEAD} patterns look ahead: write them without (?= and (?!"));
    }
    Ok(all)
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
    #[case(r"blk\.(?:[0-9]+?)\.(?=attn_[qk])", "blk.10.attn_k.weight", true)]
    #[case(r"[[]ffn", "blk[ffn_up", true)]
    #[case(r"1[&&~]ffn", "blk.1~ffn_up", true)]
    #[case(r"[^\]]\/", "a/", true)]
    #[case(r"\_q\.", "attn_q.weight", true)]
    fn patterns_are_searched_for(#[case] pattern: &str, #[case] name: &str, #[case] found: bool) {
        assert_eq!(pattern.parse::<TensorPattern>().unwrap().matches(name), found);
    }

    #[test]
    fn lists_of_overrides_are_read() {
        let read = overrides(None, r"blk\.0\.=CUDA0,exps=CPU").unwrap();
        assert_eq!(read.iter().map(ToString::to_string).collect::<Vec<_>>(), [r"blk\.0\.=CUDA0", "exps=CPU"]);
        for wrong in [
            "exps",
            "(=CPU",
            "a=",
            "[[:digit:]]=CPU",
            "(?<n>a)=CPU",
            "(?i)a=CPU",
            r"(a)\1=CPU",
            r"\p=CPU",
            "a**=CPU",
            "a\\=CPU",
        ] {
            let sentence = overrides(None, wrong).unwrap_err();
            assert!(sentence.contains('\''), "{sentence}");
        }
    }

    #[test]
    fn every_pattern_ends() {
        let name = format!("blk.0.{}", "ab".repeat(60));
        for nested in ["(a*)*c", "(a|a)*(b|b)*c", "((a+)+b?)+$", "(.*)*(.*)*(.*)*c", "(a|b|ab)*(?=c)"] {
            if let Ok(pattern) = nested.parse::<TensorPattern>() {
                assert!(!nested.contains('c') || !pattern.matches(&name), "{nested}");
            }
        }
        for long in ["|a".repeat(40_000), "(".repeat(3000)] {
            assert!(long.parse::<TensorPattern>().is_err());
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
