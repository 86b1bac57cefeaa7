//! Random plans that are always the same ones: models on machines with settings.

use std::sync::LazyLock;

use plimsoll::catalogue;
use plimsoll::engine::PreparedModel;
use plimsoll::gguf::FileType;
use plimsoll::machine::{Gpu, Machine, presets};
use plimsoll::settings::{CacheType, Context, FlashAttn, Settings};
use plimsoll::speed::family::known;
use plimsoll::units::{Bandwidth, Bytes};

use crate::fixtures;

/// Numbers that look random: splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }

    pub fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }
}

/// Models of every family, in usual quantisations.
pub static MODELS: LazyLock<Vec<PreparedModel>> = LazyLock::new(|| {
    let models = [
        ("llama3.2-3b", FileType::Q8_0),
        ("llama3.1-8b", FileType::Q4KM),
        ("qwen3-14b", FileType::Q4KM),
        ("gemma3-4b", FileType::Iq3Xxs),
        ("gemma4-12b", FileType::Q4KM),
        ("qwen3.6-27b", FileType::Iq2Xs),
        ("qwen2.5-coder-32b", FileType::Q4KM),
        ("llama3.3-70b", FileType::Q3KM),
        ("qwen3-30b-a3b", FileType::Q4KM),
        ("gpt-oss-20b", FileType::Mxfp4),
        ("gpt-oss-120b", FileType::Mxfp4),
        ("deepseek-v2-lite", FileType::Q4KM),
        ("qwen3.6-35b-a3b", FileType::Q5KM),
        ("glm-4.5-air", FileType::Q4KM),
    ];
    models.map(|(name, quant)| catalogue::find(name).unwrap().model(quant).unwrap().into()).into()
});

/// Those that are bought anew: of the others there are many more, and as like them as one another.
static PRESETS: LazyLock<Vec<&'static presets::Preset>> =
    LazyLock::new(|| presets::all().iter().filter(|preset| !preset.by_name).collect());

/// One to three cards, or a system, with RAM as desktops have it, of a bandwidth that is stated or not: slower than any
/// card's memory.
pub fn machine(random: &mut Random) -> Machine {
    let preset = random.of(&PRESETS);
    let mut gpus: Vec<Gpu> = vec![preset.gpu()];
    if preset.ram().is_none() {
        for _ in 0..[0, 0, 0, 1, 1, 2][random.below(6)] {
            let other = loop {
                let other = random.of(&PRESETS);
                if other.ram().is_none() && other.gpu().backend == preset.gpu().backend {
                    break other;
                }
            };
            gpus.push(if random.below(2) == 0 { preset.gpu() } else { other.gpu() });
        }
    }
    let slowest = gpus.iter().filter_map(known).map(|card| card.bandwidth.per_second()).fold(f64::MAX, f64::min);
    let integrated = gpus.iter().any(|gpu| gpu.integrated);
    let mut machine = fixtures::machine(gpus);
    let gib = random.of(&[16, 32, 64, 128]);
    (machine.ram.total, machine.ram.free) = (Bytes::gib(gib), Bytes::gib(gib * 9 / 10));
    let stated = Bandwidth::gbps(random.of(&[20, 38, 60, 90, 200]));
    machine.ram.bandwidth =
        Some(stated).filter(|ram| !integrated && random.below(3) > 0 && ram.per_second() < 0.6 * slowest);
    machine
}

/// Settings of llama.cpp.
pub fn settings(random: &mut Random) -> Settings {
    let cache = random.of(&[None, None, Some(CacheType::Q8_0), Some(CacheType::Q4_0)]);
    Settings {
        ctx: Context::Tokens(random.of(&[2048, 4096, 16_384, 32_768, 65_536, 131_072])),
        parallel: Some(random.of(&[1, 1, 2])),
        cache_type_k: cache,
        cache_type_v: cache,
        flash_attn: if cache.is_some() {
            FlashAttn::On
        } else {
            random.of(&[FlashAttn::On, FlashAttn::Auto, FlashAttn::Off])
        },
        ubatch: random.of(&[None, None, Some(1024)]),
        ..Settings::default()
    }
}
