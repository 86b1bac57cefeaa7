//! Data types of forks of llama.cpp, which no file for llama.cpp has: a row each. Caches are kept in them.
//!
//! To add one: a row, with the names that options and logs have for it, its values and bytes per block, and whose it is.

/// A row.
struct Row {
    /// Its name, and others that programs print.
    names: &'static [&'static str],
    /// Values per block.
    block: u64,
    /// Bytes per block.
    bytes: u64,
    /// Each head of a cache begins with a block, and zeros fill its last one.
    fills_heads: bool,
    /// Who has it.
    whose: &'static str,
}

const TURBO: Row =
    Row { names: &[], block: 128, bytes: 0, fills_heads: true, whose: "forks with TheTom's llama-cpp-turboquant" };
const TBQ: Row = Row { fills_heads: false, whose: "forks with TBQ caches", ..TURBO };
const IK: Row = Row { block: 32, fills_heads: false, whose: "ik_llama.cpp", ..TURBO };

// Blocks of turbo: `ggml/src/ggml-common.h` and `src/llama-kv-cache.cpp` of TheTom/llama-cpp-turboquant at 69d8e4be (4 May
// 2026; before, turbo3 was 14 bytes for 32 values). Of TBQ: one f16 for 128 values and their indices, as the forks say that
// made them of pull request 21089 of ggml-org/llama.cpp (27 March 2026). Of tq3_0: pull request 21 of Luce-Org/lucebox (24
// April 2026: 3.5 bits a value). Of q6_0 and q8_KV: `ggml-common.h` and `ggml.c` of ikawrakow/ik_llama.cpp at 8337e4cd (15
// August 2026; a row of q8_KV has 8 bytes more). nvfp4: ggml's own type of weights (`ggml-common.h`, llama-cpp-sys-2
// 0.1.161), which forks keep caches in.
const ROWS: [Row; 9] = [
    Row { names: &["turbo2", "turbo2_0"], bytes: 34, ..TURBO },
    Row { names: &["turbo3", "turbo3_0"], bytes: 50, ..TURBO },
    Row { names: &["turbo4", "turbo4_0"], bytes: 68, ..TURBO },
    Row { names: &["tbq3_0", "tbq3"], bytes: 50, ..TBQ },
    Row { names: &["tbq4_0", "tbq4"], bytes: 66, ..TBQ },
    Row { names: &["tq3_0"], bytes: 14, whose: "Lucebox", ..IK },
    Row { names: &["nvfp4"], block: 64, bytes: 36, whose: "forks that keep caches in the type of weights", ..IK },
    Row { names: &["q6_0"], bytes: 26, ..IK },
    Row { names: &["q8_KV"], bytes: 32, ..IK },
];

/// A data type that a fork of llama.cpp has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForkType(usize);

impl ForkType {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..ROWS.len()).map(Self)
    }

    /// The type of this name, in any letter case.
    pub fn named(text: &str) -> Option<Self> {
        Self::all().find(|ty| ROWS[ty.0].names.iter().any(|name| name.eq_ignore_ascii_case(text)))
    }

    /// Its name: `turbo3`.
    pub const fn name(self) -> &'static str {
        ROWS[self.0].names[0]
    }

    /// Values per block.
    pub const fn block(self) -> u64 {
        ROWS[self.0].block
    }

    /// Bytes per block.
    pub const fn block_bytes(self) -> u64 {
        ROWS[self.0].bytes
    }

    /// Whether each head of a cache begins with a block, and zeros fill its last one.
    pub const fn fills_heads(self) -> bool {
        ROWS[self.0].fills_heads
    }

    /// Who has it: a program, or what forks.
    pub const fn whose(self) -> &'static str {
        ROWS[self.0].whose
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_are_no_others() {
        let all: Vec<&str> = ROWS.iter().flat_map(|row| row.names).copied().collect();
        for (at, name) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other.eq_ignore_ascii_case(name)), Some(at), "{name}");
        }
        for ty in ForkType::all() {
            assert_eq!(ForkType::named(&ty.name().to_uppercase()), Some(ty));
            assert!(!ty.whose().is_empty() && ty.block() >= 32 && ty.block_bytes() < 4 * ty.block(), "{}", ty.name());
        }
        assert_eq!(ForkType::named("q9"), None);
    }
}
