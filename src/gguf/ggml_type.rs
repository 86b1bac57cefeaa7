//! ggml's data types: their numbers in a file, names and block sizes; and the types of whole files.

use std::fmt;
use std::str::FromStr;

use super::fork_type::ForkType;

/// Defines the enum and its tables from one list.
macro_rules! ggml_types {
    ($($variant:ident = $id:literal, $name:literal, $block:literal, $bytes:literal;)*) => {
        /// A data type of ggml (`ggml_type`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum GgmlType {
            $($variant,)*
            /// One of a fork, which no file has.
            Fork(ForkType),
        }

        impl GgmlType {
            /// Every type that a file may have, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The type with this number; none for numbers that are unknown or no longer in use.
            pub const fn from_id(id: u32) -> Option<Self> {
                match id { $($id => Some(Self::$variant),)* _ => None }
            }

            /// Its number in a file; the largest, which is none, for one of a fork.
            pub const fn id(self) -> u32 {
                match self { $(Self::$variant => $id,)* Self::Fork(_) => u32::MAX }
            }

            /// ggml's name for it: `q4_K`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* Self::Fork(ty) => ty.name() }
            }

            /// Elements per block; a row is a multiple of it.
            pub const fn block(self) -> u64 {
                match self { $(Self::$variant => $block,)* Self::Fork(ty) => ty.block() }
            }

            /// Bytes per block.
            pub const fn block_bytes(self) -> u64 {
                match self { $(Self::$variant => $bytes,)* Self::Fork(ty) => ty.block_bytes() }
            }
        }
    };
}

// Numbers: `enum ggml_type` in ggml/include/ggml.h. Names: `type_traits` in ggml/src/ggml.c. Sizes: the block
// structures in ggml/src/ggml-common.h. All as in the llama.cpp of crate llama-cpp-sys-2 0.1.161.
ggml_types! {
    F32 = 0, "f32", 1, 4;
    F16 = 1, "f16", 1, 2;
    Q4_0 = 2, "q4_0", 32, 18;
    Q4_1 = 3, "q4_1", 32, 20;
    Q5_0 = 6, "q5_0", 32, 22;
    Q5_1 = 7, "q5_1", 32, 24;
    Q8_0 = 8, "q8_0", 32, 34;
    Q8_1 = 9, "q8_1", 32, 36;
    Q2K = 10, "q2_K", 256, 84;
    Q3K = 11, "q3_K", 256, 110;
    Q4K = 12, "q4_K", 256, 144;
    Q5K = 13, "q5_K", 256, 176;
    Q6K = 14, "q6_K", 256, 210;
    Q8K = 15, "q8_K", 256, 292;
    Iq2Xxs = 16, "iq2_xxs", 256, 66;
    Iq2Xs = 17, "iq2_xs", 256, 74;
    Iq3Xxs = 18, "iq3_xxs", 256, 98;
    Iq1S = 19, "iq1_s", 256, 50;
    Iq4Nl = 20, "iq4_nl", 32, 18;
    Iq3S = 21, "iq3_s", 256, 110;
    Iq2S = 22, "iq2_s", 256, 82;
    Iq4Xs = 23, "iq4_xs", 256, 136;
    I8 = 24, "i8", 1, 1;
    I16 = 25, "i16", 1, 2;
    I32 = 26, "i32", 1, 4;
    I64 = 27, "i64", 1, 8;
    F64 = 28, "f64", 1, 8;
    Iq1M = 29, "iq1_m", 256, 56;
    Bf16 = 30, "bf16", 1, 2;
    Tq1_0 = 34, "tq1_0", 256, 54;
    Tq2_0 = 35, "tq2_0", 256, 66;
    Mxfp4 = 39, "mxfp4", 32, 17;
    Nvfp4 = 40, "nvfp4", 64, 36;
    Q1_0 = 41, "q1_0", 128, 18;
    Q2_0 = 42, "q2_0", 64, 18;
}

impl GgmlType {
    /// Bytes of `elements`, rounded down to whole blocks; none if above 2^64.
    pub const fn bytes(self, elements: u64) -> Option<u64> {
        (elements / self.block()).checked_mul(self.block_bytes())
    }

    /// The former meaning of a number that ggml has removed, and what replaced it.
    pub const fn removed(id: u32) -> Option<&'static str> {
        Some(match id {
            4 => "q4_2, which ggml removed in 2023",
            5 => "q4_3, which ggml removed in 2023",
            31 => "q4_0_4_4, which ggml replaced by repacking q4_0 while loading",
            32 => "q4_0_4_8, which ggml replaced by repacking q4_0 while loading",
            33 => "q4_0_8_8, which ggml replaced by repacking q4_0 while loading",
            36 => "iq4_nl_4_4, which ggml replaced by repacking iq4_nl while loading",
            37 => "iq4_nl_4_8, which ggml replaced by repacking iq4_nl while loading",
            38 => "iq4_nl_8_8, which ggml replaced by repacking iq4_nl while loading",
            _ => return None,
        })
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for GgmlType {
    type Err = String;

    /// Parses ggml's name, in any letter case.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .iter()
            .copied()
            .find(|ty| ty.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| format!("'{text}' is not a ggml data type: use one such as f16, q8_0 or q4_K"))
    }
}

/// `LLAMA_FTYPE_GUESSED`: a flag that llama.cpp adds if it guessed the type from the tensors.
const GUESSED: u64 = 1024;

/// Defines the enum and its tables from one list.
macro_rules! file_types {
    ($($variant:ident = $number:literal, $name:literal;)*) => {
        /// A file type of llama.cpp (`llama_ftype`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum FileType { $($variant,)* }

        impl FileType {
            /// Every file type, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The file type with this number; none for numbers that are unknown or no longer in use.
            pub const fn from_number(number: u64) -> Option<Self> {
                match number & !GUESSED { $($number => Some(Self::$variant),)* _ => None }
            }

            /// Its number in `general.file_type`.
            pub const fn number(self) -> u32 {
                match self { $(Self::$variant => $number,)* }
            }

            /// Its usual name: `Q4_K_M`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

// `enum llama_ftype` in include/llama.h (llama-cpp-sys-2 0.1.161).
file_types! {
    F32 = 0, "F32";
    F16 = 1, "F16";
    Q4_0 = 2, "Q4_0";
    Q4_1 = 3, "Q4_1";
    Q8_0 = 7, "Q8_0";
    Q5_0 = 8, "Q5_0";
    Q5_1 = 9, "Q5_1";
    Q2K = 10, "Q2_K";
    Q3KS = 11, "Q3_K_S";
    Q3KM = 12, "Q3_K_M";
    Q3KL = 13, "Q3_K_L";
    Q4KS = 14, "Q4_K_S";
    Q4KM = 15, "Q4_K_M";
    Q5KS = 16, "Q5_K_S";
    Q5KM = 17, "Q5_K_M";
    Q6K = 18, "Q6_K";
    Iq2Xxs = 19, "IQ2_XXS";
    Iq2Xs = 20, "IQ2_XS";
    Q2KS = 21, "Q2_K_S";
    Iq3Xs = 22, "IQ3_XS";
    Iq3Xxs = 23, "IQ3_XXS";
    Iq1S = 24, "IQ1_S";
    Iq4Nl = 25, "IQ4_NL";
    Iq3S = 26, "IQ3_S";
    Iq3M = 27, "IQ3_M";
    Iq2S = 28, "IQ2_S";
    Iq2M = 29, "IQ2_M";
    Iq4Xs = 30, "IQ4_XS";
    Iq1M = 31, "IQ1_M";
    Bf16 = 32, "BF16";
    Tq1_0 = 36, "TQ1_0";
    Tq2_0 = 37, "TQ2_0";
    Mxfp4 = 38, "MXFP4";
    Nvfp4 = 39, "NVFP4";
    Q1_0 = 40, "Q1_0";
    Q2_0 = 41, "Q2_0";
}

/// Other names: llama-quantize's short ones, and those in tags of Ollama's library.
const ALIASES: [(&str, FileType); 6] = [
    ("Q3_K", FileType::Q3KM),
    ("Q4_K", FileType::Q4KM),
    ("Q5_K", FileType::Q5KM),
    ("MXFP4_MOE", FileType::Mxfp4),
    ("FP16", FileType::F16),
    ("FP32", FileType::F32),
];

/// The name of the file type with this number: 15 is `Q4_K_M`. None for numbers that are unknown or no longer in use.
pub const fn file_type_name(number: u64) -> Option<&'static str> {
    match FileType::from_number(number) {
        Some(file_type) => Some(file_type.name()),
        None => None,
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that is not the name of a file type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a llama.cpp quantisation: use one of {names}", names = names())]
pub struct NotAFileType(String);

impl NotAFileType {
    /// The error for this text.
    pub(crate) fn of(text: &str) -> Self {
        Self(text.to_owned())
    }
}

fn names() -> String {
    FileType::ALL.iter().map(|file_type| file_type.name()).collect::<Vec<_>>().join(" ")
}

impl FromStr for FileType {
    type Err = NotAFileType;

    /// Parses a name or alias; letter case and punctuation do not matter: `q4km` is `Q4_K_M`.
    fn from_str(text: &str) -> Result<Self, NotAFileType> {
        let names = Self::ALL.iter().map(|&file_type| (file_type.name(), file_type));
        let letters = |text: &str| -> String {
            let kept = text.chars().filter(char::is_ascii_alphanumeric);
            kept.map(|letter| letter.to_ascii_lowercase()).collect()
        };
        let (mut names, wanted) = (names.chain(ALIASES), letters(text));
        let found = names.find_map(|(name, file_type)| (letters(name) == wanted).then_some(file_type));
        found.ok_or_else(|| NotAFileType(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of the fields of the block structures in ggml-common.h.
    #[test]
    fn block_sizes_are_the_sums_of_their_fields() {
        const HALF: u64 = 2;
        const K: u64 = 256;
        for (ty, bytes) in [
            (GgmlType::Q4_0, HALF + 16),
            (GgmlType::Q4_1, 2 * HALF + 16),
            (GgmlType::Q5_0, HALF + 4 + 16),
            (GgmlType::Q5_1, 2 * HALF + 4 + 16),
            (GgmlType::Q8_0, HALF + 32),
            (GgmlType::Q8_1, 2 * HALF + 32),
            (GgmlType::Q2K, 2 * HALF + K / 16 + K / 4),
            (GgmlType::Q3K, HALF + K / 4 + K / 8 + 12),
            (GgmlType::Q4K, 2 * HALF + 12 + K / 2),
            (GgmlType::Q5K, 2 * HALF + 12 + K / 2 + K / 8),
            (GgmlType::Q6K, HALF + K / 16 + 3 * K / 4),
            (GgmlType::Q8K, 4 + K + K / 16 * 2),
            (GgmlType::Iq2Xxs, HALF + K / 8 * 2),
            (GgmlType::Iq2Xs, HALF + K / 8 * 2 + K / 32),
            (GgmlType::Iq2S, HALF + K / 4 + K / 16),
            (GgmlType::Iq3Xxs, HALF + 3 * (K / 8)),
            (GgmlType::Iq3S, HALF + 13 * (K / 32) + K / 64),
            (GgmlType::Iq1S, HALF + K / 8 + K / 16),
            (GgmlType::Iq1M, K / 8 + K / 16 + K / 32),
            (GgmlType::Iq4Nl, HALF + 16),
            (GgmlType::Iq4Xs, HALF + 2 + K / 64 + K / 2),
            (GgmlType::Tq1_0, HALF + K / 64 + (K - 4 * K / 64) / 5),
            (GgmlType::Tq2_0, HALF + K / 4),
            (GgmlType::Mxfp4, 1 + 16),
            (GgmlType::Nvfp4, 4 + 32),
            (GgmlType::Q1_0, HALF + 128 / 8),
            (GgmlType::Q2_0, HALF + 64 / 4),
        ] {
            assert_eq!(ty.block_bytes(), bytes, "{ty}");
        }
    }

    #[test]
    fn numbers_are_either_in_use_or_removed() {
        for id in 0..43 {
            let known = GgmlType::from_id(id);
            assert_ne!(known.is_some(), GgmlType::removed(id).is_some(), "{id}");
            assert!(known.is_none_or(|ty| ty.id() == id && ty.name().parse() == Ok(ty)));
        }
        assert_eq!(GgmlType::from_id(43), None);
        assert_eq!(GgmlType::removed(43), None);
        assert_eq!(GgmlType::ALL.len(), 43 - 8);
    }

    #[test]
    fn sizes_above_64_bits_are_none() {
        assert_eq!(GgmlType::Q4K.bytes(512), Some(288));
        assert_eq!(GgmlType::F64.bytes(u64::MAX), None);
    }
}

#[cfg(test)]
mod file_type_tests {
    use super::*;

    #[test]
    fn file_types_have_their_names() {
        assert_eq!(file_type_name(15), Some("Q4_K_M"));
        assert_eq!(file_type_name(15 + 1024), Some("Q4_K_M"));
        assert_eq!(file_type_name(33), None);
        assert_eq!(file_type_name(u64::MAX), None);
    }

    #[test]
    fn names_and_numbers_round_trip() {
        for &file_type in FileType::ALL {
            assert_eq!(FileType::from_number(file_type.number().into()), Some(file_type));
            assert_eq!(file_type.name().to_ascii_lowercase().parse(), Ok(file_type));
        }
        assert_eq!("q4_K".parse(), Ok(FileType::Q4KM));
        assert_eq!("fp16".parse(), Ok(FileType::F16));
        let refused = "Q4_K_Z".parse::<FileType>().unwrap_err().to_string();
        assert!(refused.contains("Q4_K_Z") && refused.contains("Q4_K_M"), "{refused}");
    }
}
