//! The data types of safetensors files.

use std::fmt;

/// Defines the types: variant, name in a header, and bits of an element.
macro_rules! dtypes {
    ($($id:ident: $name:literal, $bits:literal;)+) => {
        /// A data type. Source: `Dtype` in `safetensors/src/tensor.rs`, safetensors 0.8.0.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum Dtype {
            $($id,)+
        }

        impl Dtype {
            /// The type of this name; none if the format has no such type.
            pub fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$id),)+ _ => None }
            }

            /// Its name in a header.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)+ }
            }

            /// Bits of one element.
            pub const fn bits(self) -> u64 {
                match self { $(Self::$id => $bits,)+ }
            }
        }
    };
}

dtypes! {
    Bool: "BOOL", 8;
    F4: "F4", 4;
    F6E2M3: "F6_E2M3", 6;
    F6E3M2: "F6_E3M2", 6;
    U8: "U8", 8;
    I8: "I8", 8;
    F8E5M2: "F8_E5M2", 8;
    F8E4M3: "F8_E4M3", 8;
    F8E8M0: "F8_E8M0", 8;
    I16: "I16", 16;
    U16: "U16", 16;
    F16: "F16", 16;
    Bf16: "BF16", 16;
    I32: "I32", 32;
    U32: "U32", 32;
    F32: "F32", 32;
    C64: "C64", 64;
    F64: "F64", 64;
    I64: "I64", 64;
    U64: "U64", 64;
}

impl Dtype {
    /// Bytes of a tensor of this shape; none beyond 2^63, or where its bits fill no whole bytes.
    pub fn bytes(self, shape: &[u64]) -> Option<u64> {
        let elements = shape.iter().try_fold(1_u64, |product, &size| product.checked_mul(size))?;
        let bits = elements.checked_mul(self.bits())?;
        (bits % 8 == 0 && bits >> 3 < 1 << 63).then_some(bits / 8)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
