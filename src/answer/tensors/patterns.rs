//! The shortest patterns that place given tensors of a model, and no others.

use std::collections::{BTreeMap, BTreeSet};

use super::{BlockPart, Home};
use crate::settings::{DeviceName, TensorOverride, TensorPattern};

/// A tensor of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedTensor<'a> {
    pub index: usize,
    pub name: &'a str,
    pub home: Home,
    /// Its name without block.
    pub rest: &'a str,
    pub part: BlockPart,
}

/// The overrides that place tensors as `asked`, by index in the header.
///
/// # Errors
/// When the name of one cannot be written in a pattern.
pub(super) fn overrides(
    tensors: &[NamedTensor<'_>],
    asked: &BTreeMap<usize, DeviceName>,
) -> Result<Vec<TensorOverride>, String> {
    let mut cells: BTreeMap<(Home, BlockPart), Vec<&NamedTensor<'_>>> = BTreeMap::new();
    for tensor in tensors {
        let part = if matches!(tensor.home, Home::Block(_)) { tensor.part } else { BlockPart::Other };
        cells.entry((tensor.home, part)).or_default().push(tensor);
    }
    let device = |tensor: &&NamedTensor<'_>| asked.get(&tensor.index).map(DeviceName::as_str);
    // parts that are moved as a whole, by block; and tensors apart
    let mut whole: BTreeMap<(&str, Home), BTreeSet<BlockPart>> = BTreeMap::new();
    let mut apart: BTreeMap<(&str, &str), Vec<&NamedTensor<'_>>> = BTreeMap::new();
    for ((home, part), tensors) in &cells {
        let devices: BTreeSet<Option<&str>> = tensors.iter().map(device).collect();
        match devices.first() {
            Some(Some(one)) if devices.len() == 1 => _ = whole.entry((one, *home)).or_default().insert(*part),
            _ => {
                for tensor in tensors {
                    if let Some(device) = device(tensor) {
                        apart.entry((device, tensor.rest)).or_default().push(tensor);
                    }
                }
            }
        }
    }
    let parts_of = |home: Home| cells.keys().filter(|(other, _)| *other == home).map(|(_, part)| *part).collect();
    let mut ranges: BTreeMap<(&str, BTreeSet<BlockPart>, bool), BTreeSet<usize>> = BTreeMap::new();
    let mut found = Vec::new();
    for ((device, home), parts) in whole {
        let Home::Block(block) = home else {
            let begins = if home == Home::Embeddings { r"^token_embd\." } else { "^output" };
            found.push((device, shortest(tensors, &|tensor| tensor.home == home, vec![begins.to_owned()])?));
            continue;
        };
        let is_all = parts == parts_of(home);
        ranges.entry((device, parts, is_all)).or_default().insert(block);
    }
    for ((device, parts, is_all), blocks) in ranges {
        let wanted = |tensor: &NamedTensor<'_>| {
            parts.contains(&tensor.part) && matches!(tensor.home, Home::Block(block) if blocks.contains(&block))
        };
        found.push((device, shortest(tensors, &wanted, of_blocks(&blocks, &parts, is_all))?));
    }
    for ((device, rest), of_rest) in apart {
        let block = |tensor: &&NamedTensor<'_>| if let Home::Block(block) = tensor.home { Some(block) } else { None };
        let blocks: BTreeSet<usize> = of_rest.iter().filter_map(block).collect();
        let indices: BTreeSet<usize> = of_rest.iter().map(|tensor| tensor.index).collect();
        let wanted = |tensor: &NamedTensor<'_>| indices.contains(&tensor.index);
        let rest = escaped(rest);
        let candidates = if blocks.is_empty() {
            Vec::new()
        } else {
            vec![format!(r"\.{rest}"), format!(r"blk\.{}\.{rest}", grouped(&numbers(&blocks)))]
        };
        found.push((device, shortest(tensors, &wanted, candidates)?));
    }
    found
        .into_iter()
        .map(|(device, pattern)| Ok(TensorOverride { pattern: pattern.parse()?, device: device.parse()? }))
        .collect()
}

/// Patterns for parts of blocks, shortest first: in all blocks, then in these.
fn of_blocks(blocks: &BTreeSet<usize>, parts: &BTreeSet<BlockPart>, is_all: bool) -> Vec<String> {
    let head = format!(r"blk\.{}\.", grouped(&numbers(blocks)));
    if is_all {
        return vec![head];
    }
    let tails = ["_exps", "_(ch|)exps"].map(|experts| tail(parts, experts));
    let anywhere = tails.iter().map(|tail| format!(r"\.{tail}"));
    anywhere.chain(tails.iter().map(|tail| format!("{head}{tail}"))).collect()
}

/// What names of these parts begin with, behind their block.
fn tail(parts: &BTreeSet<BlockPart>, experts: &str) -> String {
    const MATRICES: &str = r"ffn_(up|gate|gate_up|down)(\.|_(ch|sh|)exp)";
    let words = [
        (BlockPart::ExpertsUp, "up"),
        (BlockPart::ExpertsGate, "gate"),
        (BlockPart::ExpertsGateUp, "gate_up"),
        (BlockPart::ExpertsDown, "down"),
    ];
    let words: Vec<&str> = words.iter().filter(|(part, _)| parts.contains(part)).map(|(_, word)| *word).collect();
    let given = |part: BlockPart, text: String| parts.contains(&part).then_some(text);
    let tails = [
        given(BlockPart::Attention, "attn_".to_owned()),
        given(BlockPart::FeedForward, r"ffn_(up|gate|down)\.".to_owned()),
        (!words.is_empty()).then(|| format!("ffn_{}{experts}", grouped(&words.join("|")))),
        given(BlockPart::SharedExperts, "ffn_(up|gate|down)_shexp".to_owned()),
        given(BlockPart::Other, format!("(?!attn_|{MATRICES})")),
    ];
    let tails: Vec<String> = tails.into_iter().flatten().collect();
    if let [one] = tails.as_slice() { one.clone() } else { format!("({})", tails.join("|")) }
}

/// The first of `candidates` that is found in the names of the `wanted` tensors and of no others, or else their names.
fn shortest(
    tensors: &[NamedTensor<'_>],
    wanted: &dyn Fn(&NamedTensor<'_>) -> bool,
    candidates: Vec<String>,
) -> Result<String, String> {
    let is_exact =
        |pattern: &TensorPattern| tensors.iter().all(|tensor| pattern.matches(tensor.name) == wanted(tensor));
    for candidate in candidates {
        if is_exact(&candidate.parse()?) {
            return Ok(candidate);
        }
    }
    let names: Vec<String> =
        tensors.iter().filter(|tensor| wanted(tensor)).map(|tensor| escaped(tensor.name)).collect();
    let pattern = format!("^{}$", grouped(&names.join("|")));
    if pattern.contains([',', '=']) {
        return Err(format!("no pattern can place {pattern}: a comma or an equals sign divides patterns"));
    }
    Ok(pattern)
}

/// `text` in parentheses if it has alternatives.
fn grouped(text: &str) -> String {
    if text.contains('|') { format!("({text})") } else { text.to_owned() }
}

fn escaped(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c.to_string() } else { format!("\\{c}") };
    name.chars().map(letter).collect()
}

/// A pattern for decimal numbers, ascending: `[3-9]|[1-3]\d|4[0-7]`.
fn numbers(list: &BTreeSet<usize>) -> String {
    let mut units: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for number in list {
        units.entry(number / 10).or_default().insert(number % 10);
    }
    let own = units.remove(&0);
    let mut tens: Vec<(BTreeSet<usize>, BTreeSet<usize>)> = Vec::new();
    for (ten, units) in units {
        match tens.iter_mut().find(|(known, _)| *known == units) {
            Some((_, tens)) => _ = tens.insert(ten),
            None => tens.push((units, BTreeSet::from([ten]))),
        }
    }
    let longer = tens.iter().map(|(units, tens)| grouped(&numbers(tens)) + &digits(units));
    own.iter().map(digits).chain(longer).collect::<Vec<_>>().join("|")
}

/// A pattern for one digit of several.
fn digits(of: &BTreeSet<usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &digit in of {
        match runs.last_mut().filter(|(_, last)| *last + 1 == digit) {
            Some((_, last)) => *last = digit,
            None => runs.push((digit, digit)),
        }
    }
    match runs.as_slice() {
        [(0, 9)] => r"\d".to_owned(),
        [(one, last)] if one == last => one.to_string(),
        _ => {
            let run = |(first, last): &(usize, usize)| match last - first {
                0 => first.to_string(),
                1 => format!("{first}{last}"),
                _ => format!("{first}-{last}"),
            };
            format!("[{}]", runs.iter().map(run).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_written_short() {
        let text = |list: std::ops::Range<usize>| numbers(&list.collect());
        assert_eq!(text(3..48), r"[3-9]|[1-3]\d|4[0-7]");
        assert_eq!((text(0..2), text(7..8), text(0..10)), ("[01]".to_owned(), "7".to_owned(), r"\d".to_owned()));
        assert_eq!(numbers(&[3, 4, 5, 13, 14, 15, 20].into()), "[3-5]|1[3-5]|20");
    }

    proptest! {
        #[test]
        fn numbers_are_found_and_no_others(list in prop::collection::btree_set(0usize..130, 1..60)) {
            let pattern: TensorPattern = format!(r"blk\.{}\.", grouped(&numbers(&list))).parse().unwrap();
            for number in 0..200 {
                prop_assert_eq!(pattern.matches(&format!("blk.{number}.attn_q.weight")), list.contains(&number));
            }
        }

        #[test]
        fn patterns_place_what_is_asked_for(
            asked in prop::collection::vec((0usize..64, 0usize..3), 0..40), whole: bool,
        ) {
            let rests = ["attn_q.weight", "attn_output.weight", "ffn_up.weight", "ffn_down.weight", "ffn_up_exps.weight",
                "ffn_gate_exps.weight", "ffn_gate_inp.weight", "indexer.attn_k.weight"];
            let names: Vec<String> = (0..7)
                .flat_map(|block| rests.map(|rest| format!("blk.{block}.{rest}")))
                .chain(["token_embd.weight", "output.weight", "output_norm.weight", "rope_freqs.weight"].map(str::to_owned))
                .collect();
            let tensors: Vec<NamedTensor<'_>> = names.iter().enumerate().map(|(index, name)| {
                let (home, rest) = Home::of(name);
                NamedTensor { index, name, home, rest, part: BlockPart::of(rest) }
            }).collect();
            let mut wanted: BTreeMap<usize, DeviceName> = BTreeMap::new();
            for (index, device) in asked {
                let device: DeviceName = ["CPU", "GPU0", "GPU1"][device].parse().unwrap();
                let Some(one) = tensors.get(index) else { continue };
                for tensor in &tensors {
                    let alike = tensor.home == one.home && tensor.part == one.part;
                    if tensor.index == index || whole && alike {
                        wanted.insert(tensor.index, device.clone());
                    }
                }
            }
            let overrides = overrides(&tensors, &wanted).unwrap();
            for tensor in &tensors {
                let found: Vec<&DeviceName> =
                    overrides.iter().filter(|to| to.pattern.matches(tensor.name)).map(|to| &to.device).collect();
                let expected: Vec<&DeviceName> = wanted.get(&tensor.index).into_iter().collect();
                prop_assert_eq!(found, expected, "{} by {:?}", tensor.name, overrides);
            }
        }
    }
}
