//! The parts of a token's time with their formulas.

use super::Term;
use super::constants::Constants;
use super::work::{DeviceWork, Work};

/// The terms of `work` that take time.
pub(super) fn of(work: &Work, constants: &Constants) -> Vec<Term> {
    let devices = work.devices.iter().flat_map(|device| of_device(device, constants));
    let between = [
        term(
            "between cards".to_owned(),
            work.hops * constants.hop,
            format!("{} × {}", work.hops, milliseconds(constants.hop)),
        ),
        term(
            "waiting for RAM".to_owned(),
            work.synced * constants.sync,
            format!("{} layers × {}", work.synced.round(), milliseconds(constants.sync)),
        ),
    ];
    let disk = work.disk.map(|disk| {
        let formula = format!(
            "{:.2} GB, between {:.2} and {:.2}, / {}",
            disk.bytes() / 1e9,
            disk.least / 1e9,
            disk.most / 1e9,
            disk.bandwidth
        );
        term("weights from disk".to_owned(), disk.bytes() / disk.bandwidth.per_second(), formula)
    });
    devices.chain(between).chain(disk).filter(|term| term.milliseconds > 0.0).collect()
}

fn of_device(device: &DeviceWork, constants: &Constants) -> [Term; 4] {
    let fitted = constants.of(device.family);
    let name = |what: &str| format!("{} {what}", device.id);
    let read = |bytes: f64, share: f64| format!("{:.2} GB / ({share:.2} × {})", bytes / 1e9, device.bandwidth);
    [
        term(name("weights"), device.weights_seconds(constants, None), read(device.weights.bytes, fitted.weights)),
        term(name("cache"), device.cache_seconds(constants), read(device.cache, device.cache_efficiency(constants))),
        term(
            name("layers"),
            device.layers_seconds(constants),
            format!("{} layers × {}", device.layers, milliseconds(fitted.layer)),
        ),
        term(
            name("experts and states"),
            device.busy_seconds(constants),
            format!("{} layers × {}", device.busy, milliseconds(fitted.busy)),
        ),
    ]
}

fn term(name: String, seconds: f64, formula: String) -> Term {
    Term { name, milliseconds: seconds * 1e3, formula }
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.3} ms", seconds * 1e3)
}
