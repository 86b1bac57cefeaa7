//! RPC: GPUs of other computers that run llama.cpp's `rpc-server`.

use std::sync::Arc;

use super::{Gpu, Machine, Origin};

/// Maximum number of RPC servers (`GGML_RPC_MAX_SERVERS` in `ggml-rpc.h`, 0.1.161).
pub const MAX_SERVERS: usize = 16;

/// Default port of ggml-rpc-server (`tools/rpc/README.md`, 0.1.161).
pub const PORT: u16 = 50052;

/// Where the server of `computer` listens: where its name says so (`garage:50054`), or on the default port. Each of several
/// servers on one computer is a computer of its own here.
pub fn address(computer: &str) -> String {
    let (host, port) = host_and_port(computer);
    format!("{host}:{port}")
}

/// The host of `computer`, and the port of its server.
pub fn host_and_port(computer: &str) -> (&str, u16) {
    let named = computer.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    // an address of IPv6 has colons itself, and brackets where a port follows
    let named = named.filter(|(host, _)| !host.is_empty() && (!host.contains(':') || host.ends_with(']')));
    named.unwrap_or((computer, PORT))
}

/// The GPUs that `machine` offers over RPC under the name `computer`, without those that it uses over RPC itself.
///
/// # Errors
/// If it has none of its own.
pub fn rpc_gpus(computer: &str, machine: &Machine) -> Result<Vec<Gpu>, String> {
    let name: Arc<str> = computer.into();
    let own = machine.gpus.iter().filter(|gpu| gpu.computer.is_none());
    let gpus: Vec<Gpu> = own.map(|gpu| Gpu { computer: Some(Arc::clone(&name)), ..gpu.clone() }).collect();
    if gpus.is_empty() {
        return Err(format!("'{computer}' has no GPU to add: only GPUs are planned over RPC"));
    }
    Ok(gpus)
}

/// Appends the `gpus` of another computer to `list`.
///
/// # Errors
/// If a computer of that name has already joined, or [`MAX_SERVERS`] have.
pub fn join(list: &mut Vec<Gpu>, gpus: Vec<Gpu>) -> Result<(), String> {
    let Some(name) = gpus.first().and_then(|gpu| gpu.computer.clone()) else { return Ok(()) };
    let names = names(list);
    if names.contains(&name) {
        return Err(format!("'{name}' has already joined: save it under another name to add another like it"));
    }
    if names.len() >= MAX_SERVERS {
        return Err(format!("{MAX_SERVERS} machines have joined, which is llama.cpp's maximum"));
    }
    list.extend(gpus);
    Ok(())
}

/// The names of the other computers among `gpus`, in order of appearance.
pub fn names(gpus: &[Gpu]) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for name in gpus.iter().filter_map(|gpu| gpu.computer.clone()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

impl Machine {
    /// This machine without the GPUs of other computers; `None` if it has no such GPU.
    pub fn without_rpc_gpus(&self) -> Option<Self> {
        let joined = self.gpus.iter().any(|gpu| gpu.computer.is_some());
        joined.then(|| {
            let gpus = self.gpus.iter().filter(|gpu| gpu.computer.is_none()).cloned().collect();
            Self { gpus, origin: Origin::Described, ..self.clone() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::presets;
    use crate::machine::{Os, Ram};
    use crate::units::Bytes;

    fn machine(cards: &[&str]) -> Machine {
        let gpus = cards.iter().map(|name| presets::find(name).unwrap().gpu()).collect();
        let ram = Ram { total: Bytes::gib(64), free: Bytes::gib(60), swap_free: Bytes::ZERO, bandwidth: None };
        Machine {
            disk: None,
            os: Os::Linux,
            cpu: crate::machine::Cpu::default(),
            gpus,
            ram,
            origin: Origin::Detected,
            drivers: crate::machine::Drivers::default(),
        }
    }

    #[test]
    fn rpc_gpus_come_last_with_their_computer() {
        let mut here = machine(&["RTX 3090"]);
        join(&mut here.gpus, rpc_gpus("garage", &machine(&["RTX 4090", "RTX 4080"])).unwrap()).unwrap();
        join(&mut here.gpus, rpc_gpus("attic", &machine(&["RTX 3060"])).unwrap()).unwrap();
        assert_eq!(names(&here.gpus).iter().map(|name| &**name).collect::<Vec<_>>(), ["garage", "attic"]);
        assert_eq!(here.without_rpc_gpus().unwrap().gpus, machine(&["RTX 3090"]).gpus);
        assert_eq!(machine(&["RTX 3090"]).without_rpc_gpus(), None);
        // RPC GPUs are not offered again
        assert_eq!(rpc_gpus("here", &here).unwrap().len(), 1);
    }

    #[test]
    fn a_computer_may_be_named_with_the_port_of_its_server() {
        for (computer, listens) in [
            ("garage", "garage:50052"),
            ("10.0.0.2:50054", "10.0.0.2:50054"),
            ("a:b", "a:b:50052"),
            ("[fd00::2]:50055", "[fd00::2]:50055"),
            ("fd00::2", "fd00::2:50052"),
        ] {
            assert_eq!(address(computer), listens);
        }
    }

    /// Every server counts its own devices from 0 (`ggml_backend_rpc_buffer_type` in `ggml-rpc.cpp`, 0.1.161).
    #[test]
    fn servers_of_one_computer_are_told_apart() {
        let mut here = machine(&["RTX 5090"]);
        for computer in ["10.0.0.2:50054", "10.0.0.2:50055", "10.0.0.2"] {
            join(&mut here.gpus, rpc_gpus(computer, &machine(&["RTX 4090", "RTX 3090"])).unwrap()).unwrap();
        }
        let names: Vec<_> =
            (0..7).map(|gpu| (here.device_name(gpu).unwrap(), here.buffer_name(gpu).unwrap())).collect();
        let names: Vec<_> = names.iter().map(|(device, buffers)| (device.as_str(), buffers.as_str())).collect();
        assert_eq!(
            names,
            [
                ("CUDA0", "CUDA0"),
                ("RPC0", "RPC0[10.0.0.2:50054]"),
                ("RPC1", "RPC1[10.0.0.2:50054]"),
                ("RPC2", "RPC0[10.0.0.2:50055]"),
                ("RPC3", "RPC1[10.0.0.2:50055]"),
                ("RPC4", "RPC0[10.0.0.2:50052]"),
                ("RPC5", "RPC1[10.0.0.2:50052]"),
            ]
        );
    }

    #[test]
    fn a_computer_joins_once_and_at_most_sixteen_do() {
        let mut gpus = Vec::new();
        for n in 0..MAX_SERVERS {
            join(&mut gpus, rpc_gpus(&n.to_string(), &machine(&["RTX 3060"])).unwrap()).unwrap();
        }
        let one_more = |name| rpc_gpus(name, &machine(&["RTX 3060"])).unwrap();
        assert!(join(&mut gpus, one_more("0")).unwrap_err().contains("already joined"));
        assert!(join(&mut gpus, one_more("new")).unwrap_err().contains("16 machines"));
        assert!(rpc_gpus("bare", &machine(&[])).unwrap_err().contains("no GPU to add"));
    }
}
