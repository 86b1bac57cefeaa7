//! Names of cards as drivers print them, shops write them and people type them: `names.tsv`.

use plimsoll::machine::Machine;
use plimsoll::machine::presets::{self, Preset};
use plimsoll::units::Bytes;

/// A row of `names.tsv`: a name, what its driver says of its memory, and the preset that is meant, if it is one.
struct Row {
    name: &'static str,
    total: Option<Bytes>,
    wanted: Option<&'static str>,
}

fn rows() -> Vec<Row> {
    let lines = include_str!("cards/names.tsv").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let [name, mib, wanted] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let total = mib.parse().ok().map(Bytes::mib);
            Row { name, total, wanted: Some(wanted).filter(|wanted| *wanted != "?") }
        })
        .collect()
}

fn name(preset: &'static Preset) -> &'static str {
    preset.name
}

#[test]
fn a_name_means_its_card_or_a_sentence_says_why_not() {
    let rows = rows();
    assert!(rows.iter().filter(|row| row.total.is_some()).count() >= 120, "{}", rows.len());
    let mut wrong = Vec::new();
    for Row { name: asked, total, wanted } in rows {
        let typed = presets::find(asked).map(name);
        // its driver says how large it is
        if let Some(total) = total {
            let found = presets::of_gpu(asked, total).map(name);
            if found != wanted {
                wrong.push(format!("{asked} of {total}: {found:?}, not {wanted:?}"));
            }
            continue;
        }
        if typed != wanted {
            wrong.push(format!("{asked}: {typed:?}, not {wanted:?}"));
        }
        let described = Machine::described(&[asked], "64GiB");
        match (wanted, described) {
            (Some(wanted), Ok(machine)) if machine.gpus[0].name == wanted => {}
            (None, Err(sentence)) if sentence.contains(asked) && sentence.len() > 40 => {}
            (_, described) => wrong.push(format!("{asked}: {described:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

/// What is not sold yet has no row, and a sentence that says so.
#[test]
fn of_what_is_not_known_it_is_said() {
    for asked in ["M6", "Apple M5 Ultra", "RTX 5080 SUPER", "MSI GeForce RTX 5070 Ti SUPER 24G"] {
        assert_eq!(presets::find(asked).map(name), None, "{asked}");
        let sentence = Machine::described(&[asked], "64GiB").unwrap_err();
        assert!(sentence.contains("not published"), "{sentence}");
    }
    assert_eq!(presets::why_unknown("RTX 5080"), None);
}
