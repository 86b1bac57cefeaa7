//! The llama.cpp that each version of Ollama ships.

use super::OllamaVersion;
use crate::settings::Release;

/// Builds by the first version that has them: `LLAMA_CPP_VERSION` at each version's tag in Ollama's repository, from
/// v0.30.0 (1 June 2026) to v0.33.0-rc2 (21 August 2026).
const BUILDS: [(OllamaVersion, u64); 16] = [
    (version(30, 0), 9_452),
    (version(30, 1), 9_479),
    (version(30, 4), 9_493),
    (version(30, 5), 9_509),
    (version(30, 9), 9_626),
    (version(30, 10), 9_672),
    (version(30, 11), 9_781),
    (version(31, 0), 9_840),
    (version(31, 2), 9_888),
    (version(32, 2), 10_069),
    (version(32, 3), 10_091),
    (version(32, 6), 10_242),
    (version(32, 8), 10_353),
    (version(32, 10), 10_380),
    (version(32, 14), 10_434),
    (version(32, 15), 10_488),
];

/// The newest version whose build is known.
const NEWEST: OllamaVersion = version(33, 0);

const fn version(minor: u32, patch: u32) -> OllamaVersion {
    OllamaVersion { minor, patch }
}

impl OllamaVersion {
    /// The build of llama.cpp that it ships; none of a version that is newer than the table.
    pub fn llama_cpp_build(self) -> Option<u64> {
        let of_it = BUILDS.iter().rev().find(|(since, _)| self >= *since && self <= NEWEST);
        of_it.map(|(_, build)| *build)
    }

    /// The release that is nearest to the llama.cpp that it ships.
    pub fn release(self) -> Release {
        // 0.34 is of September 2026
        match self.llama_cpp_build() {
            Some(build) => Release::nearest_to_build(build),
            None if self < version(35, 0) => Release::September2026,
            None => Release::November2026,
        }
    }

    /// Its llama.cpp, as the start of a sentence: `Ollama 0.33 ships llama.cpp b10488`.
    pub fn ships(self) -> String {
        match (self.llama_cpp_build(), BUILDS.last()) {
            (Some(build), _) => format!("Ollama {self} ships llama.cpp b{build}"),
            (None, Some((_, newest))) => {
                format!("Ollama {self} ships a llama.cpp that is not known here, after b{newest} of Ollama {NEWEST}")
            }
            (None, None) => format!("Ollama {self} ships a llama.cpp that is not known here"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("0.30.0", Some(9_452), Release::August2026)]
    #[case("0.30.8", Some(9_509), Release::August2026)]
    #[case("0.30", Some(9_626), Release::August2026)]
    #[case("0.31", Some(9_840), Release::August2026)]
    #[case("0.32.1", Some(9_888), Release::EarlyAugust2026)]
    #[case("0.32.13", Some(10_380), Release::EarlyAugust2026)]
    #[case("0.33.0-rc2", Some(10_488), Release::EarlyAugust2026)]
    #[case("0.33", Some(10_488), Release::EarlyAugust2026)]
    #[case("0.33.4", None, Release::September2026)]
    #[case("0.34.1", None, Release::September2026)]
    #[case("0.35", None, Release::November2026)]
    fn versions_ship_builds_that_have_a_nearest_release(
        #[case] text: &str,
        #[case] build: Option<u64>,
        #[case] release: Release,
    ) {
        let version: OllamaVersion = text.parse().unwrap();
        assert_eq!((version.llama_cpp_build(), version.release()), (build, release));
        let said = version.ships();
        assert!(build.is_none_or(|build| said.ends_with(&format!(" b{build}"))) && said.contains(&version.to_string()));
    }

    #[test]
    fn the_table_is_in_order() {
        assert!(BUILDS.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(BUILDS.iter().all(|(since, _)| *since <= NEWEST));
    }
}
