//! The table of the catalogue: which models are checked against published files.

use plimsoll::catalogue;

use super::check_table;
use crate::catalogue::published::{Check, checks};

#[test]
fn the_table_of_recipes_is_current() {
    check_table("assets/README.md", "recipes", &crate::mixtures::table());
}

#[test]
fn the_table_of_the_catalogue_is_current() {
    let checks = checks();
    let count = |of: fn(&&Check) -> bool| checks.iter().filter(of).count();
    let worst = checks.iter().map(Check::worst).fold(0.0, f64::max);
    let mut table = format!(
        "Of its {} models, {} are checked: {} by their number of tensors, {} by their number of weights, and {} by the\n\
         sizes of {} files, which differ by at most {:.2} %.\n\n\
         | model | tensors | weights | files compared | worst error |\n| --- | ---: | ---: | ---: | ---: |\n",
        catalogue::all().len(),
        checks.len(),
        count(|check| check.tensors.is_some()),
        count(|check| check.weights.is_some()),
        count(|check| !check.sizes.is_empty()),
        checks.iter().map(|check| check.sizes.len()).sum::<usize>(),
        worst * 100.0,
    );
    for check in &checks {
        let tensors = check.tensors.map_or_else(String::new, |(_, published)| published.to_string());
        let weights = check.weights.as_ref().map_or("", |(_, log)| log);
        let (files, error) = match check.sizes.len() {
            0 => (String::new(), String::new()),
            files => (files.to_string(), format!("{:.2} %", check.worst() * 100.0)),
        };
        let row = [&check.name, &*tensors, weights, &*files, &*error].join(" | ");
        table.extend(["| ", &row, " |\n"]);
    }
    check_table("assets/README.md", "catalogue", &table);
}
