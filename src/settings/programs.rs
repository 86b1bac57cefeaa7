//! The llama.cpp that versions of other programs ship, as far as that is published: `assets/programs.tsv`.

use std::fmt;
use std::sync::LazyLock;

use super::release::{Date, OLDEST_BUILD, OLDEST_DAY, Release};

/// The numbers of a version; those that it leaves out are 0.
pub(super) type Version = [u32; 3];

/// A row of the table.
#[derive(Debug)]
struct Row {
    program: &'static str,
    /// The program's [`letters`].
    key: String,
    /// The first and the last version, as written.
    names: (&'static str, &'static str),
    from: Version,
    to: Version,
    llama_cpp: LlamaCpp,
}

/// A llama.cpp, or what it is not newer than.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LlamaCpp {
    Build(u64),
    UntilBuild(u64),
    UntilDay(Date),
}

static ROWS: LazyLock<Vec<Row>> =
    LazyLock::new(|| lines(include_str!("../../assets/programs.tsv")).filter_map(Row::read).collect());

/// The rows of a table's file.
pub(super) fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

impl Row {
    fn read(line: &'static str) -> Option<Self> {
        let mut columns = line.split('\t');
        let (program, first, last) = (columns.next()?, columns.next()?, columns.next()?);
        let llama_cpp = LlamaCpp::read(columns.next()?)?;
        let (from, to) = (version(first)?, version(last)?);
        Some(Self { program, key: letters(program), names: (first, last), from, to, llama_cpp })
    }
}

impl LlamaCpp {
    /// `b11026`, `<b9889` or `<2026-08-28`.
    fn read(text: &str) -> Option<Self> {
        let build = |text: &str| text.strip_prefix('b')?.parse().ok();
        match text.strip_prefix('<') {
            Some(until) => build(until).map(Self::UntilBuild).or_else(|| Date::read(until).map(Self::UntilDay)),
            None => build(text).map(Self::Build),
        }
    }

    fn nearest(self) -> Release {
        match self {
            Self::Build(build) | Self::UntilBuild(build) => Release::nearest_to_build(build),
            Self::UntilDay(day) => Release::nearest_to_date(day),
        }
    }
}

impl fmt::Display for LlamaCpp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(build) => write!(f, "llama.cpp b{build}"),
            Self::UntilBuild(build) => write!(f, "a llama.cpp of b{build} or before"),
            Self::UntilDay(day) => write!(f, "a llama.cpp of {day} or before"),
        }
    }
}

/// Numbers of `1.117.1`, `v4.9.0 (82c191a)` or `0.33.0-rc2`.
pub(super) fn version(text: &str) -> Option<Version> {
    let text = text.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let plain = text.split(['-', '+', ' ', '"']).next()?;
    let mut numbers = [0; 3];
    for (at, number) in plain.split('.').enumerate() {
        *numbers.get_mut(at)? = number.parse().ok()?;
    }
    Some(numbers)
}

/// A program's name as anybody writes it: `LM Studio`, `lmstudio`, `lm-studio`.
pub(super) fn letters(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// What is published of the llama.cpp that a version of a program ships.
#[derive(Clone, Debug)]
pub struct Ships {
    version: String,
    /// The version's row, or the one before it.
    low: Option<&'static Row>,
    /// The version's row, or the one after it.
    high: Option<&'static Row>,
}

impl Ships {
    /// What a version of a program ships; none of a program that is not in the table.
    pub fn of(program: &str, text: &str) -> Option<Self> {
        let (key, wanted) = (letters(program), version(text)?);
        let rows = || ROWS.iter().filter(|row| row.key == key);
        rows().next()?;
        let low = rows().take_while(|row| row.from <= wanted).last();
        let high = low.filter(|row| wanted <= row.to).or_else(|| rows().find(|row| row.from > wanted));
        let version = text.trim().split([' ', '"']).next().unwrap_or(text).trim_start_matches('v').to_owned();
        Some(Self { version, low, high })
    }

    /// Of a program and a version in one text: `koboldcpp 1.120`, `lmstudio-2.41`.
    pub fn named(text: &str) -> Option<Self> {
        let (program, version) = text.trim().rsplit_once([' ', '-', '@'])?;
        Self::of(program, version)
    }

    fn row(&self) -> Option<&'static Row> {
        self.low.filter(|low| self.high.is_some_and(|high| std::ptr::eq(*low, high)))
    }

    /// The build, where the version's is known.
    pub fn build(&self) -> Option<u64> {
        match self.row()?.llama_cpp {
            LlamaCpp::Build(build) => Some(build),
            LlamaCpp::UntilBuild(_) | LlamaCpp::UntilDay(_) => None,
        }
    }

    /// The newest version that is known, where this one is newer: `0.33.0 with llama.cpp b10488`.
    pub fn after(&self) -> Option<String> {
        let newest = self.low.filter(|_| self.high.is_none())?;
        Some(format!("{} with {}", newest.names.1, newest.llama_cpp))
    }

    /// The nearest release: between two rows that of the first, and after the last row only the newest release.
    pub fn release(&self) -> Option<Release> {
        let nearest = self.low.or(self.high)?.llama_cpp.nearest();
        (self.high.is_some() || nearest == Release::default()).then_some(nearest)
    }

    /// Whether it is older than every release that is known here.
    pub fn is_older(&self) -> bool {
        self.high.is_some_and(|high| match high.llama_cpp {
            LlamaCpp::Build(build) | LlamaCpp::UntilBuild(build) => build < OLDEST_BUILD,
            LlamaCpp::UntilDay(day) => day < OLDEST_DAY,
        })
    }
}

/// `LM Studio 2.41.0 with llama.cpp b11026`, `KoboldCpp 1.119, between 1.118.1 with … and 1.120 with …`
impl fmt::Display for Ships {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(any) = self.low.or(self.high) else { return Ok(()) };
        write!(f, "{} {}", any.program, self.version)?;
        if let Some(row) = self.row() {
            return write!(f, " with {}", row.llama_cpp);
        }
        let low = self.low.map(|row| format!("{} with {}", row.names.1, row.llama_cpp));
        let high = self.high.map(|row| format!("{} with {}", row.names.0, row.llama_cpp));
        match (low, high) {
            (Some(low), Some(high)) => write!(f, ", between {low} and {high}"),
            (Some(low), None) => write!(f, ", after {low}"),
            (None, high) => write!(f, ", before {}", high.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn the_table_is_whole_and_in_order() {
        assert_eq!(ROWS.len(), lines(include_str!("../../assets/programs.tsv")).count());
        for pair in ROWS.windows(2) {
            let [earlier, later] = pair else { unreachable!() };
            assert!(earlier.from <= earlier.to && later.from <= later.to, "{later:?}");
            if earlier.program != later.program {
                let again = ROWS.iter().filter(|row| row.program == later.program).map(std::ptr::from_ref);
                assert_eq!(again.min(), Some(std::ptr::from_ref(later)), "rows of a program are together");
                continue;
            }
            assert!(earlier.to < later.from, "{earlier:?} {later:?}");
            let releases = (earlier.llama_cpp.nearest(), later.llama_cpp.nearest());
            assert!(releases.1.is_from(releases.0), "{earlier:?} {later:?}");
            if let (LlamaCpp::Build(earlier), LlamaCpp::Build(later)) = (earlier.llama_cpp, later.llama_cpp) {
                assert!(earlier < later, "b{earlier} b{later}");
            }
        }
    }

    #[test]
    fn every_row_has_a_release_and_what_is_before_the_first_has_that_of_the_first() {
        for row in ROWS.iter() {
            for name in [row.names.0, row.names.1] {
                let ships = Ships::of(row.program, name).unwrap();
                assert_eq!(ships.release(), Some(row.llama_cpp.nearest()), "{ships}");
                assert_eq!(ships.to_string(), format!("{} {name} with {}", row.program, row.llama_cpp));
            }
            let first = ROWS.iter().find(|first| first.program == row.program).map(|first| first.llama_cpp.nearest());
            let before = Ships::of(row.program, "0.0.1").and_then(|ships| ships.release());
            assert_eq!(before, first, "{}", row.program);
        }
    }

    #[rstest]
    #[case("lmstudio-2.41", Some("2026-09"), Some(11_026), "LM Studio 2.41 with llama.cpp b11026")]
    #[case(
        "LM Studio 2.37.0",
        Some("2026-09"),
        None,
        "LM Studio 2.37.0, between 2.31.2 with llama.cpp b10662 and 2.41.0 with llama.cpp b11026"
    )]
    #[case("lm-studio 1.52.0", Some("2026-04"), None, "LM Studio 1.52.0, before 2.13.0 with llama.cpp b8733")]
    #[case("LM Studio 2.54.0", Some("2026-11"), None, "LM Studio 2.54.0, after 2.47.0 with llama.cpp b11235")]
    #[case(
        "koboldcpp 1.119",
        Some("2026-08-05"),
        None,
        "KoboldCpp 1.119, between 1.118.1 with a llama.cpp of 2026-08-01 or before and 1.120 with a llama.cpp of \
         2026-08-28 or before"
    )]
    #[case("LocalAI v4.5.3", Some("2026-08"), Some(9_801), "LocalAI 4.5.3 with llama.cpp b9801")]
    #[case("localai 5.0", None, None, "LocalAI 5.0, after 4.9.0 with llama.cpp b10498")]
    #[case("llama-cpp-python 0.3.36", Some("2026-11"), Some(11_312), "llama-cpp-python 0.3.36 with llama.cpp b11312")]
    #[case("ollama 0.32.13", Some("2026-08-05"), Some(10_380), "Ollama 0.32.13 with llama.cpp b10380")]
    fn versions_have_the_release_of_their_row(
        #[case] text: &str,
        #[case] release: Option<&str>,
        #[case] build: Option<u64>,
        #[case] said: &str,
    ) {
        let ships = Ships::named(text).unwrap();
        assert_eq!((ships.release().map(Release::name), ships.build()), (release, build), "{ships}");
        assert_eq!(ships.to_string(), said);
    }

    #[rstest]
    #[case("nobody 1.0")]
    #[case("koboldcpp")]
    #[case("koboldcpp newest")]
    #[case("koboldcpp 1.2.3.4")]
    fn others_are_not_in_the_table(#[case] text: &str) {
        assert!(Ships::named(text).is_none());
    }

    #[rstest]
    #[case("koboldcpp 1.94", true)]
    #[case("koboldcpp 1.115", false)]
    #[case("localai 3.5.0", true)]
    #[case("localai 3.5.2", false)]
    #[case("lm studio 1.0.0", false)]
    #[case("lm studio 2.15.0", false)]
    #[case("lm studio 99.0", false)]
    fn what_is_older_than_every_release_is_known(#[case] text: &str, #[case] is_older: bool) {
        assert_eq!(Ships::named(text).unwrap().is_older(), is_older);
    }
}
