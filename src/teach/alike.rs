//! Blocks that are alike, folded into one.

use std::hash::Hash;

use std::collections::HashMap;

/// The entries with equal keys together, each group in order, the groups in the order of their first entries.
pub fn alike<K: Hash + Eq>(keys: impl Iterator<Item = K>) -> Vec<Vec<usize>> {
    let (mut groups, mut known): (Vec<Vec<usize>>, HashMap<K, usize>) = (Vec::new(), HashMap::new());
    for (entry, key) in keys.enumerate() {
        let group = *known.entry(key).or_insert(groups.len());
        match groups.get_mut(group) {
            Some(group) => group.push(entry),
            None => groups.push(vec![entry]),
        }
    }
    groups
}

/// Ascending numbers as runs of consecutive ones: the first and the last of each.
pub fn runs(numbers: impl IntoIterator<Item = usize>) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match runs.last_mut().filter(|(_, last)| *last + 1 == number) {
            Some((_, last)) => *last = number,
            None => runs.push((number, number)),
        }
    }
    runs
}

/// `0–2, 4–6, 8`
pub fn ranges(numbers: impl IntoIterator<Item = usize>) -> String {
    let runs = runs(numbers);
    let range =
        |(first, last): &(usize, usize)| if first == last { first.to_string() } else { format!("{first}–{last}") };
    runs.iter().map(range).collect::<Vec<_>>().join(", ")
}

/// `block 3`, `blocks 3–39`, `36 blocks` of several runs.
pub fn blocks_title(numbers: &[usize]) -> String {
    match (numbers, runs(numbers.iter().copied()).as_slice()) {
        ([one], _) => format!("block {one}"),
        (_, [(first, last)]) => format!("blocks {first}–{last}"),
        (all, _) => format!("{} blocks", all.len()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn alike_ones_need_not_follow_one_another() {
        let groups = alike("aabaabc".chars());
        assert_eq!(groups, [vec![0, 1, 3, 4], vec![2, 5], vec![6]]);
        assert_eq!(ranges(groups[0].clone()), "0–1, 3–4");
        assert_eq!(
            groups.iter().map(|group| blocks_title(group)).collect::<Vec<_>>(),
            ["4 blocks", "2 blocks", "block 6"]
        );
        assert_eq!(blocks_title(&[3, 4, 5]), "blocks 3–5");
    }

    proptest! {
        #[test]
        fn every_entry_is_in_one_group(keys in prop::collection::vec(0u8..5, 0..60)) {
            let groups = alike(keys.iter());
            let mut all: Vec<usize> = groups.iter().flatten().copied().collect();
            prop_assert!(groups.iter().all(|group| group.iter().all(|entry| keys[*entry] == keys[group[0]])));
            all.sort_unstable();
            prop_assert_eq!(all, (0..keys.len()).collect::<Vec<_>>());
        }

        #[test]
        fn runs_hold_every_number_once(mut numbers in prop::collection::btree_set(0usize..80, 0..40)) {
            let back: Vec<usize> = runs(numbers.iter().copied()).into_iter().flat_map(|(from, to)| from..=to).collect();
            prop_assert_eq!(back, std::mem::take(&mut numbers).into_iter().collect::<Vec<_>>());
        }
    }
}
