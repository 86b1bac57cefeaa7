//! `general.file_type`: the quantisation of a file.

use std::fmt;
use std::str::FromStr;

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

fn names() -> String {
    FileType::ALL.iter().map(|file_type| file_type.name()).collect::<Vec<_>>().join(" ")
}

impl FromStr for FileType {
    type Err = NotAFileType;

    /// Parses a name or alias in any letter case.
    fn from_str(text: &str) -> Result<Self, NotAFileType> {
        let names = Self::ALL.iter().map(|&file_type| (file_type.name(), file_type));
        names
            .chain(ALIASES)
            .find_map(|(name, file_type)| name.eq_ignore_ascii_case(text.trim()).then_some(file_type))
            .ok_or_else(|| NotAFileType(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
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
