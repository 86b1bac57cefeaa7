//! Laws of speeds, asked of two thousand random plans: models on machines with settings, always the same ones.

use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::plan::{Outcome, Plan};
use plimsoll::settings::{Context, GpuLayers, Settings};
use plimsoll::speed::Speed;
use plimsoll::speed::terms::FITTED;
use plimsoll::speed::work::Work;
use plimsoll::units::Bytes;

use crate::random::{MODELS, Random, machine, settings};

/// A plan with its speeds at the start and with the context full; none where it has none.
struct Fast {
    request: PlanRequest,
    plan: Plan,
    start: Speed,
    full: Speed,
}

impl Fast {
    fn of(request: &PlanRequest) -> Option<Self> {
        let plan = request.plan().ok()?;
        let at = |depth| Speed::of(&request.model, &request.machine, &plan, depth);
        Some(Self { start: at(0)?, full: at(plan.settings.ctx_per_sequence)?, plan, request: request.clone() })
    }

    /// Weights of each device.
    fn weights(&self) -> Vec<u64> {
        self.plan.devices.iter().map(|device| device.weights.0).collect()
    }

    fn says(&self) -> String {
        let Settings { ctx, gpu_layers, n_cpu_moe, flash_attn, cache_type_k, .. } = &self.request.settings;
        let gpus: Vec<&str> = self.request.machine.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
        format!(
            "{} on {gpus:?} with RAM of {:?}: {ctx:?} {gpu_layers:?} {n_cpu_moe:?} {flash_attn:?} {cache_type_k:?}\n  {:?} {:?} weights {:?}\n  {:#?} at the start, {} at full context",
            self.plan.model.name,
            self.request.machine.ram,
            self.plan.outcome(),
            self.plan.layers.len(),
            self.weights(),
            self.start,
            self.full
        )
    }
}

/// Whether none of the three figures is higher; a difference that no screen shows is none.
fn is_no_faster(one: &Speed, than: &Speed) -> bool {
    let is = |of: fn(&Speed) -> f64| of(one) <= of(than) * 1.000_001;
    is(|speed| speed.low) && is(|speed| speed.tokens_per_second) && is(|speed| speed.high)
}

/// Whether a GPU has more weights than before: an engine may split layers over cards otherwise where less fits.
fn is_split_otherwise(one: &Fast, other: &Fast) -> bool {
    let gpus = |of: &Fast| of.weights().split_last().map(|(_, gpus)| gpus.to_vec()).unwrap_or_default();
    gpus(one).iter().zip(gpus(other)).any(|(before, then)| then > *before)
}

/// Both in a line.
fn in_short(one: &Fast, other: &Fast) -> String {
    let gpus: Vec<&str> = one.request.machine.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
    let speeds = |fast: &Fast| {
        format!(
            "{:.4?} {:.4?}",
            [fast.start.low, fast.start.tokens_per_second, fast.start.high],
            [fast.full.low, fast.full.tokens_per_second, fast.full.high]
        )
    };
    let settings = |fast: &Fast| {
        format!(
            "{:?} {:?} {:?}",
            fast.request.settings.ctx, fast.request.settings.gpu_layers, fast.request.settings.n_cpu_moe
        )
    };
    format!(
        "{} {gpus:?} {:?} {:?} {:?} {} | {} {:?} : {} | {} {:?}",
        one.plan.model.name,
        one.request.machine.ram.bandwidth,
        one.request.settings.cache_type_k,
        one.request.settings.flash_attn,
        settings(one),
        speeds(one),
        one.weights(),
        settings(other),
        speeds(other),
        other.weights()
    )
}

const PLANS: usize = 1000;

/// Pairs of plans of which the first must be as fast as the second.
#[derive(Default)]
struct Pairs {
    compared: usize,
    /// Those that are not: in full, and in a line.
    broken: Vec<(String, String)>,
}

impl Pairs {
    fn compare(&mut self, one: &Fast, other: &Fast) {
        self.compared += 1;
        if !is_no_faster(&other.start, &one.start) || !is_no_faster(&other.full, &one.full) {
            self.broken.push((format!("{}\nis slower than\n{}", one.says(), other.says()), in_short(one, other)));
        }
    }

    fn hold(&self) {
        let lines: Vec<&String> = self.broken.iter().map(|(_, line)| line).collect();
        let first = self.broken.first().map(|(first, _)| first);
        assert!(lines.is_empty(), "{} of {}, the first:\n{first:?}\n{lines:#?}", lines.len(), self.compared);
    }
}

#[test]
fn more_weights_in_ram_are_never_faster() {
    let mut random = Random(62);
    let mut pairs = Pairs::default();
    while pairs.compared < PLANS {
        let model = random.of(&MODELS);
        let request = PlanRequest::new(EngineId::LlamaCpp, model.clone(), machine(&mut random), settings(&mut random));
        let layers = model.block_count() as u64 + 1;
        let has_experts = model.hyper.experts.is_some();
        // layers or experts by number, or as the fit decides with less memory
        let way = random.below(if has_experts { 4 } else { 3 });
        let (some, more) = (random.below(layers as usize) as u64, 1 + random.below(4) as u64);
        let with = |layers: u64, experts: u64| {
            request.changed(|settings| {
                settings.gpu_layers = GpuLayers::Count(layers);
                settings.n_cpu_moe = Some(experts).filter(|experts| *experts > 0);
            })
        };
        let (one, other) = match way {
            0 => (with(layers - some, 0), with((layers - some).saturating_sub(more), 0)),
            1 => {
                let mut less = request.clone();
                let machine = std::sync::Arc::make_mut(&mut less.machine);
                machine.gpus.iter_mut().for_each(|gpu| gpu.free = gpu.free - Bytes::mib(256 * more * more));
                (request.clone(), less)
            }
            2 => (with(layers, 0), with(layers - more, 0)),
            _ => (with(layers, some.min(layers - 1)), with(layers, (some + more).min(layers))),
        };
        let (Some(one), Some(other)) = (Fast::of(&one), Fast::of(&other)) else { continue };
        let in_ram = |of: &Fast| of.plan.cpu().weights;
        if in_ram(&other) <= in_ram(&one)
            || other.plan.outcome() == Outcome::FromDisk
            || is_split_otherwise(&one, &other)
        {
            continue;
        }
        pairs.compare(&one, &other);
    }
    pairs.hold();
}

#[test]
fn a_lower_context_is_never_slower() {
    let mut random = Random(26);
    let mut pairs = Pairs::default();
    while pairs.compared < PLANS {
        let model = random.of(&MODELS);
        let request = PlanRequest::new(EngineId::LlamaCpp, model, machine(&mut random), settings(&mut random));
        let lower = request.changed(|settings| {
            if let Context::Tokens(tokens) = settings.ctx {
                settings.ctx = Context::Tokens(tokens * (1 + random.below(7) as u64) / 8);
            }
        });
        let (Some(one), Some(other)) = (Fast::of(&lower), Fast::of(&request)) else { continue };
        // how much is read from disk again depends on all that is in RAM
        if other.plan.outcome() == Outcome::FromDisk || is_split_otherwise(&one, &other) {
            continue;
        }
        pairs.compare(&one, &other);
    }
    pairs.hold();
}

#[test]
fn nothing_is_read_faster_than_memory_allows() {
    let mut random = Random(2026);
    let mut asked = 0;
    while asked < PLANS {
        let model = random.of(&MODELS);
        let request = PlanRequest::new(EngineId::LlamaCpp, model, machine(&mut random), settings(&mut random));
        let Some(fast) = Fast::of(&request) else { continue };
        let work = Work::of(&request.model, &request.machine, &fast.plan, 0).unwrap();
        asked += 1;
        let of_device = |device: &plimsoll::speed::work::DeviceWork| {
            (device.weights.bytes + device.cache) / device.bandwidth.per_second()
        };
        let is_known = |device: &&plimsoll::speed::work::DeviceWork| work.assumed.is_none() || device.id != "CPU";
        let least: f64 = work.devices.iter().filter(is_known).map(of_device).sum();
        assert!(fast.start.high * least <= 1.0 + 1e-9, "{least} s at least, {}", fast.says());
        assert!(fast.start.low <= fast.start.tokens_per_second && fast.start.tokens_per_second <= fast.start.high);
        assert!((fast.start.tokens_per_second * work.seconds(&FITTED, None) - 1.0).abs() < 1e-9);
    }
}
