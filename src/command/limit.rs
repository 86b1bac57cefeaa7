//! The limits of memory that files and commands set for what they start, each written as its program reads it.

use super::file::Tree;
use super::shell::Word;
use crate::machine::spec::{RamLimit, RamShare};
use crate::units::Bytes;

/// Units in 1024s, and Kubernetes' in 1000s.
const BINARY: [&str; 6] = ["", "k", "m", "g", "t", "p"];

/// A number and the letters behind it.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok().filter(|number: &f64| number.is_finite())?, unit.trim()))
}

fn scaled(number: f64, base: f64, power: usize) -> Bytes {
    // as large as a f64 tells apart
    Bytes((number * base.powi(i32::try_from(power).unwrap_or(0))) as u64)
}

/// What systemd reads: `48G`, `50%`, `infinity` (systemd.resource-control(5): units are of 1024).
pub(super) fn of_systemd(name: &str, text: &str) -> Option<RamLimit> {
    let text = text.trim();
    let (number, unit) = number(text)?;
    let most = match unit {
        "%" => RamShare::Percent(number),
        unit => {
            let power = BINARY.iter().position(|known| known.eq_ignore_ascii_case(unit))?;
            RamShare::Most(scaled(number, 1024.0, power))
        }
    };
    Some(RamLimit { stated: format!("{name}={text}"), most })
}

/// What Docker and compose read: `32g`, `32GB`, `1024` (byte units of the compose specification: all are of 1024).
pub(super) fn of_docker(name: &str, text: &str) -> Option<RamLimit> {
    let text = text.trim();
    let (number, unit) = number(text)?;
    let letters = unit.to_ascii_lowercase();
    let letter = letters.strip_suffix("ib").or_else(|| letters.strip_suffix('b')).unwrap_or(&letters);
    let power = BINARY.iter().position(|known| *known == letter)?;
    Some(RamLimit { stated: format!("{name} {text}"), most: RamShare::Most(scaled(number, 1024.0, power)) })
}

/// What Kubernetes reads: `64Gi`, `64G`, `128e6` (resource units: those without an i are of 1000).
fn of_kubernetes(name: &str, text: &str) -> Option<RamLimit> {
    let text = text.trim();
    let plain = text.parse().ok().filter(|number: &f64| number.is_finite());
    let (number, unit) = plain.map_or_else(|| number(text), |number| Some((number, "")))?;
    let lower = unit.to_ascii_lowercase();
    let (letter, base) = lower.strip_suffix('i').map_or((lower.as_str(), 1000.0), |letter| (letter, 1024.0));
    let power = BINARY.iter().position(|known| *known == letter)?;
    Some(RamLimit { stated: format!("{name} {text}"), most: RamShare::Most(scaled(number, base, power)) })
}

/// The limit of a service of compose, or of a container of Kubernetes.
pub(super) fn of_container(tree: &Tree) -> Option<RamLimit> {
    let at = |path: &[&str]| path.iter().try_fold(tree, |tree, key| tree.get(key)).and_then(Tree::text);
    let compose = at(&["deploy", "resources", "limits", "memory"]);
    let compose = compose.and_then(|text| of_docker("limits of memory:", text));
    let old = || of_docker("mem_limit:", at(&["mem_limit"])?);
    let kubernetes = || of_kubernetes("limits of memory:", at(&["resources", "limits", "memory"])?);
    compose.or_else(old).or_else(kubernetes)
}

/// The limit that the words in front of a program set: `docker run -m 32g`, `systemd-run -p MemoryMax=32G`.
pub(super) fn of_words(words: &[Word]) -> Option<RamLimit> {
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let is_container =
        texts.iter().any(|text| ["docker", "podman", "nerdctl"].contains(&crate::observed::program(text)));
    let mut each = texts.iter().enumerate().rev().filter_map(|(at, text)| {
        let next = texts.get(at + 1).copied();
        if is_container && ["-m", "--memory"].contains(text) {
            return of_docker(text, next?);
        }
        if let Some(value) = text.strip_prefix("--memory=").filter(|_| is_container) {
            return of_docker("--memory", value);
        }
        let property = text.strip_prefix("--property=").or_else(|| text.strip_prefix("-p")).unwrap_or(text);
        let (name, value) = property.split_once('=')?;
        UNIT_KEYS.contains(&name).then(|| of_systemd(name, value))?
    });
    // the last counts
    each.next()
}

/// The keys of a unit that limit memory; the second is the older name.
pub(super) const UNIT_KEYS: [&str; 2] = ["MemoryMax", "MemoryLimit"];

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("48G", Some(RamShare::Most(Bytes::gib(48))))]
    #[case("1.5T", Some(RamShare::Most(Bytes::gib(1536))))]
    #[case("2048", Some(RamShare::Most(Bytes(2048))))]
    #[case("50%", Some(RamShare::Percent(50.0)))]
    #[case("infinity", None)]
    #[case("", None)]
    fn systemd_counts_in_1024s(#[case] text: &str, #[case] most: Option<RamShare>) {
        assert_eq!(of_systemd("MemoryMax", text).map(|limit| limit.most), most);
    }

    #[rstest]
    #[case("32g", Some(Bytes::gib(32)))]
    #[case("32GB", Some(Bytes::gib(32)))]
    #[case("512MiB", Some(Bytes::mib(512)))]
    #[case("1024", Some(Bytes(1024)))]
    #[case("many", None)]
    fn docker_counts_in_1024s(#[case] text: &str, #[case] most: Option<Bytes>) {
        assert_eq!(of_docker("-m", text).map(|limit| limit.most), most.map(RamShare::Most));
    }

    #[rstest]
    #[case("64Gi", Some(Bytes::gib(64)))]
    #[case("64G", Some(Bytes(64_000_000_000)))]
    #[case("128e6", Some(Bytes(128_000_000)))]
    #[case("64X", None)]
    fn kubernetes_counts_in_both(#[case] text: &str, #[case] most: Option<Bytes>) {
        assert_eq!(of_kubernetes("memory", text).map(|limit| limit.most), most.map(RamShare::Most));
    }
}
