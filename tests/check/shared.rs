//! Samples that `plimsoll check --share` wrote (`shared/*.json`): their figures are read again, and what was the same in a
//! plan still is. And such samples of all other logs here: nothing is lost with the names.

use std::fs;
use std::sync::Arc;

use plimsoll::answer::check::{CheckRequest, check};
use plimsoll::machine::spec::MachineSpec;
use plimsoll::observed::{Observation, Reader, share};
use serde_json::Value;

use super::samples::{self, catalogue_projector, model};
use super::unseen::{LOGS, is_row};
use crate::observed::samples::samples;
use crate::support;

#[test]
fn figures_of_shared_samples_are_read_and_planned() {
    let files = fs::read_dir(support::tests().join("check/shared")).unwrap();
    let mut count = 0;
    for file in files.map(|file| file.unwrap().path()) {
        let name = file.display();
        let sample: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let lines = sample["raw"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
        let seen = Observation::of(&lines.collect::<Vec<_>>().join("\n"));
        let load = seen.load().unwrap_or_else(|| panic!("{name}: no load is read"));
        // a model that is not in the catalogue is read only
        let Some(reference) = sample["model"].as_str() else { continue };
        let request = CheckRequest {
            model: Arc::new(model(reference).into()),
            projector: catalogue_projector(reference),
            is_same_file: false,
            machine: &MachineSpec::default(),
            engine: None,
            release: None,
            knobs: &|_| {},
        };
        let check = check(load, &request).unwrap();
        for figure in sample["figures"].as_array().unwrap() {
            let row = check.rows.iter().find(|row| is_row(row, figure)).unwrap_or_else(|| panic!("{name}: {figure}"));
            assert_eq!(row.observed.map(|mib| mib.0), figure["mib"].as_f64(), "{name}: {figure}");
            assert!(row.is_same() || figure["same"] == false, "{name}: {figure} is planned as {:?}", row.planned);
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn no_figure_is_lost_with_the_names() {
    let unseen = LOGS.values().map(|(log, ..)| log["raw"].as_str().unwrap().to_owned());
    let logs: Vec<String> = unseen.chain(samples().iter().map(samples::text)).collect();
    let (mut same, mut kept) = (0, 0);
    for text in &logs {
        let seen = Observation::read_by(Reader::keeping_lines(), &mut text.as_bytes()).unwrap();
        let Some(load) = seen.load().filter(|load| load.has_memory()) else { continue };
        let shown = share::anonymous(&load.lines, &[]).join("\n");
        assert!(!["/home/", "/Users/", "\\Users\\"].iter().any(|folder| shown.contains(folder)), "{shown}");
        kept += 1;
        same += usize::from(share::reads_the_same(load, &[]));
    }
    // the others are documents, whose lines are no program's own
    assert!(kept > 60 && same * 100 >= kept * 95, "{same} of {kept}");
}
