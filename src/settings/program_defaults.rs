//! What programs with llama.cpp inside set where nobody says otherwise: `assets/program-defaults.tsv`.

use std::fmt;
use std::sync::LazyLock;

use super::flag::{Flag, Takes};
use super::programs::{Version, letters, lines, version};

/// The options that a program sets by itself, from one version to another.
#[derive(Debug, PartialEq, Eq)]
pub struct ProgramDefaults {
    program: &'static str,
    from: Version,
    /// None where no version is known to be the last.
    to: Option<Version>,
    options: Vec<(Flag, &'static str)>,
    source: &'static str,
}

static ROWS: LazyLock<Vec<ProgramDefaults>> = LazyLock::new(|| {
    lines(include_str!("../../assets/program-defaults.tsv")).filter_map(ProgramDefaults::read).collect()
});

impl ProgramDefaults {
    fn read(line: &'static str) -> Option<Self> {
        let mut columns = line.split('\t');
        let (program, first, last) = (columns.next()?, columns.next()?, columns.next()?);
        let (text, source) = (columns.next()?, columns.next()?);
        let mut options = Vec::new();
        let mut words = text.split(' ').peekable();
        while let Some(word) = words.next() {
            let flag = Flag::named(word.strip_prefix("--")?)?;
            let value = if flag.row().takes == Takes::Nothing { "true" } else { words.next()? };
            options.push((flag, value));
        }
        let to = if last == "–" { None } else { Some(version(last)?) };
        Some(Self { program, from: version(first)?, to, options, source })
    }

    /// Those of a program and a version in one text: `koboldcpp 1.120`, `lmstudio-2.41`.
    pub fn named(text: &str) -> Option<&'static Self> {
        let (program, wanted) = text.trim().rsplit_once([' ', '-', '@'])?;
        let (key, wanted) = (letters(program), version(wanted)?);
        let is_in = |row: &&Self| row.from <= wanted && row.to.is_none_or(|last| wanted <= last);
        ROWS.iter().filter(|row| letters(row.program) == key).find(is_in)
    }

    /// Those of the newest version of a program that are known.
    pub fn newest(program: &str) -> Option<&'static Self> {
        let key = letters(program);
        ROWS.iter().rfind(|row| letters(row.program) == key)
    }

    /// The program's name.
    pub const fn program(&self) -> &'static str {
        self.program
    }

    /// What says so.
    pub const fn source(&self) -> &'static str {
        self.source
    }

    /// The options with their values; of a switch `true`.
    pub fn options(&self) -> &[(Flag, &'static str)] {
        &self.options
    }
}

/// `--ctx 8320 --swa-full`
impl fmt::Display for ProgramDefaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&written(&self.options))
    }
}

/// Options as they are typed.
pub fn written(options: &[(Flag, &str)]) -> String {
    let one = |(flag, value): &(Flag, &str)| match flag.row().takes {
        Takes::Nothing => format!("--{}", flag.name()),
        _ => format!("--{} {value}", flag.name()),
    };
    options.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Settings, Ships};
    use rstest::rstest;

    #[test]
    fn every_row_is_read_and_sets_what_it_says() {
        let text = include_str!("../../assets/program-defaults.tsv");
        assert_eq!(ROWS.len(), lines(text).count());
        for (row, line) in ROWS.iter().zip(lines(text)) {
            assert!(line.contains(&format!("\t{row}\t")), "{line}");
            let mut settings = Settings::default();
            for (flag, value) in row.options() {
                flag.read(&mut settings, value).unwrap();
            }
            assert_ne!(settings, Settings::default(), "{line}");
            assert!(row.to.is_none_or(|last| row.from <= last), "{line}");
        }
    }

    #[test]
    fn versions_of_a_program_follow_each_other() {
        for pair in ROWS.windows(2).filter(|pair| pair[0].program == pair[1].program) {
            assert!(pair[0].to.is_some_and(|last| last < pair[1].from), "{pair:?}");
        }
    }

    /// A program is a build and its defaults: what is named here has a llama.cpp too.
    #[test]
    fn every_program_has_a_llama_cpp() {
        for row in ROWS.iter() {
            let program = row.program.strip_suffix(" server").unwrap_or(row.program);
            assert!(Ships::of(program, "99.0").is_some(), "{program}");
        }
    }

    #[rstest]
    #[case("koboldcpp 1.113.2", Some("--ctx 8320 --batch 512 --ubatch 512 --parallel 1 --swa-full"))]
    #[case("koboldcpp 1.115", Some("--ctx 8320 --batch 512 --ubatch 512 --parallel 1 --outputs ubatch"))]
    #[case("koboldcpp 1.102", Some("--ctx 8320 --batch 512 --ubatch 512 --parallel 1 --flash-attn off"))]
    #[case("lm-studio 2.41", Some("--ctx 4096 --parallel 4 --kv-unified"))]
    #[case("llama-cpp-python 0.3.36", Some("--ctx 512 --batch 512"))]
    #[case("llama-cpp-python server 0.3.36", Some("--ctx 2048 --batch 512"))]
    #[case("koboldcpp 1.60", None)]
    #[case("localai 4.9.0", Some("--swa-full"))]
    #[case("localai 4.5.0", None)]
    #[case("2026-08", None)]
    #[case("b11200", None)]
    fn a_version_has_the_defaults_of_its_row(#[case] text: &str, #[case] start: Option<&str>) {
        let found = ProgramDefaults::named(text).map(ToString::to_string);
        assert_eq!(found.is_some(), start.is_some(), "{found:?}");
        assert!(found.zip(start).is_none_or(|(found, start)| found.starts_with(start)));
    }
}
