//! The letters of the formulas and their values for one plan.

use std::fmt::{self, Write};

use super::expr::Expr;
use crate::plan::Symbol;

macro_rules! letters {
    ($($name:ident $([$constant:ident])? $symbol:literal $meaning:literal;)+) => {
        /// A letter of a formula.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum Letter { $($name),+ }

        impl Letter {
            /// All letters, in the order of the legend.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The symbol in formulas.
            pub const fn symbol(self) -> &'static str {
                match self { $(Self::$name => $symbol),+ }
            }

            /// The meaning.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning),+ }
            }
        }

        $($(pub(super) const $constant: Expr = Expr::Letter(Letter::$name);)?)+
    };
}

letters! {
    B [B] "B" "batch, in tokens";
    C [C] "C" "context of all sequences, in tokens";
    Np [N_P] "N_p" "parallel sequences";
    E [E] "E" "embedding length";
    H [H] "H" "attention heads, maximum over the layers";
    Hkv [H_KV] "H_kv" "KV heads, maximum over the layers";
    HkvMin [H_KV_MIN] "H_kv,min" "KV heads, minimum over the layers";
    HkvLayer [H_KV_LAYER] "H_kv,i" "KV heads of this layer";
    D [D] "D" "embedding length per head, for the fewest heads";
    Dk [D_K] "D_k" "length of a key head";
    Dv [D_V] "D_v" "length of a value head";
    V [V] "V" "vocabulary, in tokens";
    P "P" "bytes per element of the KV cache";
    Ff [FF] "FF" "feed-forward length";
    Wgate [W_GATE] "W_gate" "bytes of blk.0.ffn_gate_exps.weight";
    Wdim [W_DIM] "W_dim" "second dimension of blk.0.ffn_gate.0.weight";
    Rfreq [R_FREQ] "R_freq" "elements of rope_freqs.weights";
    Sbias [S_BIAS] "S_bias" "length of blk.0.attn_qkv.bias";
    Window [WINDOW] "S" "sliding window, in tokens";
    KvUnwindowed [KV_UNWINDOWED] "Σkv,full" "bytes of all caches if no layer had a sliding window";
    Kv [KV] "Σkv" "bytes of all caches";
    Dconv [D_CONV] "d_conv" "width of the recurrent layers' convolution";
    Dstate [D_STATE] "d_state" "size of a recurrent state";
    Dinner [D_INNER] "d_inner" "inner size of the recurrent layers";
    Ngroups [N_GROUPS] "n_groups" "groups of the recurrent layers";
    Image [IMAGE] "I" "width of an image, in pixels";
    Patch [PATCH] "p" "width of a patch of an image, in pixels";
    Channels [CHANNELS] "n_ch" "channels of an image";
    Pixels [PIXELS] "N_px" "pixels of the largest image";
    Patches [PATCHES] "N_patch" "patches of an image";
    Padded [PADDED] "N_pad" "patches of an image, rounded up to a multiple of 8";
    Tiles [TILES] "N_tiles" "tiles of an image";
    Hvision [H_VISION] "H_v" "attention heads of the vision layers";
    Evision [E_VISION] "E_v" "embedding length of the vision layers";
}

/// The value of every letter in one plan.
#[derive(Clone, Debug, PartialEq)]
pub struct LetterValues {
    whole: [u64; Letter::ALL.len()],
    bytes_per_element: f64,
}

impl Default for LetterValues {
    fn default() -> Self {
        Self { whole: [0; Letter::ALL.len()], bytes_per_element: 0.0 }
    }
}

impl LetterValues {
    /// The value of `letter`, except for [`Letter::P`]: see [`Self::bytes_per_element`].
    pub fn get(&self, letter: Letter) -> u64 {
        self.whole[letter as usize]
    }

    /// Bytes per element of the KV cache.
    pub fn bytes_per_element(&self) -> f64 {
        self.bytes_per_element
    }

    /// Sets `letter`.
    pub fn set(&mut self, letter: Letter, value: u64) {
        self.whole[letter as usize] = value;
    }

    /// The same with `letter` set.
    #[must_use]
    pub fn with(mut self, letter: Letter, value: u64) -> Self {
        self.set(letter, value);
        self
    }

    /// The same with `bytes` per element of the KV cache.
    #[must_use]
    pub fn with_bytes_per_element(mut self, bytes: f64) -> Self {
        self.bytes_per_element = bytes;
        self
    }

    /// Writes the value of `letter`.
    pub(super) fn write(&self, letter: Letter, out: &mut String) -> fmt::Result {
        match letter {
            Letter::P => write!(out, "{}", self.bytes_per_element),
            _ => write!(out, "{}", self.get(letter)),
        }
    }

    /// The legend entry of `letter`.
    pub fn symbol(&self, letter: Letter) -> Symbol {
        let mut value = String::new();
        // writing to a String does not fail
        let _ = self.write(letter, &mut value);
        Symbol { letter: letter.symbol(), meaning: letter.meaning(), value }
    }
}
