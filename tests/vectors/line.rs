//! One line: the question as settings and machine, and the answer.

use plimsoll::machine::{Gpu, Machine, Ram};
use plimsoll::settings::{CacheType, Context, FlashAttn, GpuLayers, Settings};
use plimsoll::units::Bytes;
use serde_json::Value;

use crate::fixtures;

pub struct Line {
    pub input: Value,
    pub output: Value,
    pub machine: Machine,
    pub settings: Settings,
}

impl Line {
    pub fn read(text: &str) -> Self {
        let mut line: Value = serde_json::from_str(text).unwrap();
        let (input, output) = (line["in"].take(), line["out"].take());
        let gpus: Vec<_> = input["gpus"].as_array().into_iter().flatten().map(gpu).collect();
        let system = &input["system"];
        let machine = Machine {
            ram: Ram {
                total: bytes(&system["total"]),
                free: bytes(&system["free"]),
                swap_free: bytes(&system["free_swap"]),
                bandwidth: None,
            },
            ..fixtures::machine(gpus)
        };
        let cache = match input["kv_cache_type"].as_str().unwrap() {
            "" => None,
            name => Some(name.parse::<CacheType>().unwrap()),
        };
        let settings = Settings {
            ctx: Context::Tokens(input["num_ctx"].as_u64().unwrap()),
            parallel: input["num_parallel"].as_u64(),
            batch: input["num_batch"].as_u64(),
            cache_type_k: cache,
            cache_type_v: cache,
            flash_attn: if flag(&input["flash_attention"]) { FlashAttn::On } else { FlashAttn::Off },
            gpu_layers: match input["num_gpu"].as_i64().unwrap() {
                -1 => GpuLayers::Auto,
                count => GpuLayers::Count(count.try_into().unwrap()),
            },
            gpu_overhead: bytes(&input["gpu_overhead"]),
            spread: flag(&input["sched_spread"]),
            require_full: flag(&input["require_full"]),
            raw: true,
            ..Settings::default()
        };
        Self { input, output, machine, settings }
    }
}

fn gpu(described: &Value) -> Gpu {
    let number = |key: &str| described[key].as_u64().unwrap() as u32;
    let backend = described["library"].as_str().unwrap().parse().unwrap();
    Gpu {
        free: bytes(&described["free"]),
        integrated: flag(&described["integrated"]),
        compute: Some((number("compute_major"), number("compute_minor"))),
        ..Gpu::of(described["name"].as_str().unwrap(), backend, bytes(&described["total"]))
    }
}

pub fn bytes(value: &Value) -> Bytes {
    Bytes(value.as_u64().unwrap())
}

pub fn flag(value: &Value) -> bool {
    value.as_bool().unwrap()
}

/// A list, or `{"each", "count"}` where all are equal, or `{"from", "to"}` of whole numbers.
pub fn list(value: &Value) -> Vec<u64> {
    let number = |key: &str| value[key].as_u64();
    if let (Some(each), Some(count)) = (number("each"), number("count")) {
        vec![each; count as usize]
    } else if let (Some(from), Some(to)) = (number("from"), number("to")) {
        (from..=to).collect()
    } else {
        value.as_array().into_iter().flatten().map(|number| number.as_u64().unwrap()).collect()
    }
}

/// `format.HumanBytes2`
pub fn human(Bytes(bytes): Bytes) -> String {
    match bytes {
        0x4000_0000.. => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        0x10_0000.. => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        0x400.. => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{bytes} B"),
    }
}
