//! How far answers are off for an architecture that no list knows: known ones under another name, against what llama.cpp
//! measured of them.

use std::collections::BTreeMap;

use plimsoll::engine::llama_cpp::{Likeness, LoadedModel};
use plimsoll::settings::Release;
use serde_json::Value;

use super::{Measured, files, lines, measures_like, model_of};
use crate::support;

/// A name that is in no list.
const UNLISTED: &str = "an-unlisted-one";

/// The model's description with another architecture.
fn renamed(name: &str) -> String {
    let mut json: Value = serde_json::from_str(&support::model_json(name)).unwrap();
    let keys = json["kv"].as_object_mut().unwrap();
    let architecture = keys["general.architecture"][1].as_str().unwrap().to_owned();
    let own = keys.iter().map(|(key, value)| {
        let key = key.strip_prefix(&format!("{architecture}.")).map_or(key.clone(), |key| format!("{UNLISTED}.{key}"));
        (key, value.clone())
    });
    *keys = own.collect();
    keys["general.architecture"][1] = UNLISTED.into();
    json.to_string()
}

/// The error of each measured plan of the smallest models of further architectures, by what they resemble.
fn errors() -> BTreeMap<Likeness, Vec<f64>> {
    let release = Release::default();
    let mut errors: BTreeMap<Likeness, Vec<f64>> = BTreeMap::new();
    for path in files(Measured::Plain, release.name()) {
        let name = model_of(&path);
        if !name.ends_with("-mini") {
            continue;
        }
        let Ok(model) = LoadedModel::new(&support::description::header(&renamed(&name)).unwrap(), release) else {
            continue;
        };
        let of = errors.entry(Likeness::of(&model)).or_default();
        for line in lines(&path).iter().filter(|line| line["out"].get("error").is_none()) {
            let outcome = measures_like(Ok(&model), Measured::Plain, release, line);
            of.push(outcome.map_or_else(|(_, error)| error.max(f64::MIN_POSITIVE), |()| 0.0));
        }
    }
    for errors in errors.values_mut() {
        errors.sort_by(f64::total_cmp);
    }
    errors
}

#[test]
fn modelled_plans_say_how_far_they_were_off() {
    let errors = errors();
    let mut wrong = Vec::new();
    for likeness in Likeness::ALL {
        let (said, errors) = (likeness.error(), &errors[&likeness]);
        assert!(errors.len() >= 20, "{likeness:?}: {} plans", errors.len());
        let share = |part: f64| errors[((errors.len() - 1) as f64 * part).ceil() as usize] * 100.0;
        let exact = (errors.iter().filter(|error| **error == 0.0).count() * 100 / errors.len()) as u64;
        let (half, most) = (share(0.5), share(0.9));
        // what is said holds, and is not idle
        let holds = |said: f64, found: f64| found <= said && said <= 2.0 * found + 0.1;
        if said.exact > exact
            || exact > said.exact + 15
            || !holds(said.half_within, half)
            || !holds(said.most_within, most)
        {
            let plans = errors.len();
            wrong.push(format!(
                "{likeness:?}, {plans} plans: {exact} % exact, half {half:.3} %, nine of ten {most:.3} %"
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
