//! The measurements of `speeds.jsonl.gz` as plans: what each device reads, and the speed that was measured.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;
use plimsoll::catalogue;
use plimsoll::engine::{self, EngineId, PreparedModel};
use plimsoll::gguf::FileType;
use plimsoll::machine::{Backend, Gpu, Machine, Origin, Os, Ram, presets};
use plimsoll::plan::Plan;
use plimsoll::settings::{CacheType, Context, FlashAttn, GpuLayers, Settings};
use plimsoll::speed::prompt::work::PromptWork;
use plimsoll::speed::work::Work;
use plimsoll::units::{Bandwidth, Bytes};
use serde::Deserialize;

/// A line of the file. It has more fields, for people.
#[derive(Deserialize)]
pub struct Line {
    id: u64,
    thread: String,
    date: Option<String>,
    program: Option<String>,
    catalogue: Option<String>,
    quant: String,
    file_bytes: Option<u64>,
    gpus: Vec<String>,
    cpu: Option<String>,
    ram_type: Option<String>,
    ram_mts: Option<u64>,
    ram_channels: Option<u64>,
    ram_gbps: Option<f64>,
    backend: String,
    ngl: Option<u64>,
    n_cpu_moe: Option<u64>,
    split_mode: Option<String>,
    kv_type: Option<String>,
    flash_attn: Option<bool>,
    depth: u64,
    gen_tokens: Option<u64>,
    threads: Option<f64>,
    ubatch: Option<u64>,
    /// Tokens in the cache when it generates, where that is not `depth`.
    tg_depth: Option<u64>,
    pp_tokens: Option<u64>,
    pp_tps: Option<f64>,
    tg_tps: Option<f64>,
    /// Why it should not be used.
    suspect: Option<String>,
}

/// A measurement that can be compared.
pub struct Case {
    /// Its number in the file.
    #[allow(dead_code, reason = "the bench prints it")]
    pub id: u64,
    /// Measurements of one thread are fitted or judged together.
    pub thread: String,
    /// Tokens in the cache, half of those that were generated included.
    pub depth: u64,
    /// Tokens per second.
    pub measured: f64,
    /// The threads of the CPU, where stated.
    pub threads: Option<f64>,
    pub work: Work,
}

/// A measured prompt that can be compared.
pub struct Prompt {
    /// Its number in the file.
    #[allow(dead_code, reason = "the bench prints it")]
    pub id: u64,
    pub thread: String,
    /// The machine, with its backend: what one measurement of it tells of its link is used for others.
    pub machine: String,
    /// The model.
    #[allow(dead_code, reason = "the bench does not tell models apart")]
    pub model: String,
    /// Tokens in the cache before it.
    pub depth: u64,
    /// Its tokens.
    pub tokens: u64,
    /// Tokens per second.
    pub measured: f64,
    pub work: PromptWork,
    pub has_experts: bool,
}

/// The measurements that can be compared, and the number of the others by reason.
pub struct Cases {
    pub generation: Vec<Case>,
    pub left_out: BTreeMap<String, usize>,
    pub prompts: Vec<Prompt>,
    pub prompts_left_out: BTreeMap<String, usize>,
}

impl Cases {
    /// Those of the file.
    pub fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/speeds/speeds.jsonl.gz");
        let mut models = BTreeMap::new();
        let mut read = Self {
            generation: Vec::new(),
            left_out: BTreeMap::new(),
            prompts: Vec::new(),
            prompts_left_out: BTreeMap::new(),
        };
        for line in BufReader::new(GzDecoder::new(File::open(path).unwrap())).lines() {
            let line: Line = serde_json::from_str(&line.unwrap()).unwrap();
            let planned = line.planned(&mut models);
            match planned.as_ref().map_err(Clone::clone).and_then(|planned| line.case(planned)) {
                Ok(case) => read.generation.push(case),
                Err(reason) => *read.left_out.entry(reason).or_default() += 1,
            }
            match planned.and_then(|planned| line.prompt(&planned)) {
                Ok(prompt) => read.prompts.push(prompt),
                Err(reason) => *read.prompts_left_out.entry(reason).or_default() += 1,
            }
        }
        read
    }
}

type Models = BTreeMap<(String, FileType), PreparedModel>;

/// A line's plan.
struct Planned<'a> {
    model: &'a PreparedModel,
    machine: Machine,
    plan: Plan,
    /// The file's size over the model's: some are of other mixtures of types than llama.cpp's own.
    scale: f64,
}

impl Line {
    fn planned<'a>(&self, models: &'a mut Models) -> Result<Planned<'a>, String> {
        if let Some(reason) = &self.suspect {
            return Err(reason.clone());
        }
        if self.program.as_deref().is_some_and(|program| program.contains("fork")) {
            return Err("not llama.cpp itself".to_owned());
        }
        if self.split_mode.as_deref() == Some("tensor") {
            return Err("tensors split over cards, which is not planned".to_owned());
        }
        let cpu_only = self.backend == "CPU";
        if self.gpus.is_empty() && !cpu_only {
            return Err("the card is not stated".to_owned());
        }
        if !cpu_only && self.cpu.as_deref().is_some_and(|cpu| cpu.starts_with("BCM")) {
            return Err("a card on a Raspberry Pi".to_owned());
        }
        let name = self.catalogue.clone().ok_or("a model that the catalogue lacks")?;
        let key = (name, file_type(&self.quant).ok_or("a quantisation that llama.cpp does not make")?);
        let entry = catalogue::find(&key.0).ok_or("a model that the catalogue lacks")?;
        let model = match models.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let quant = place.key().1;
                let made = entry.model(quant).ok().filter(|model| model.mlx.is_none());
                place.insert(made.ok_or("a quantisation that the catalogue cannot make")?.into())
            }
        };
        let machine = self.machine(cpu_only)?;
        let settings = self.settings(model.block_count() as u64)?;
        let plan = engine::plan(EngineId::LlamaCpp, model, &machine, &settings)
            .unwrap_or_else(|error| panic!("{}: {error}", self.id));
        let scale = self.file_bytes.map_or(1.0, |bytes| bytes as f64 / model.file_bytes.0 as f64);
        Ok(Planned { model, machine, plan, scale })
    }

    fn case(&self, planned: &Planned<'_>) -> Result<Case, String> {
        let measured = self.tg_tps.ok_or("only a prompt's speed is stated")?;
        let depth = self.tg_depth.unwrap_or(self.depth) + self.gen_tokens.unwrap_or(0) / 2;
        let Planned { model, machine, plan, scale } = planned;
        let mut work = Work::of(model, machine, plan, depth).ok_or("a card of unknown bandwidth")?;
        for device in &mut work.devices {
            device.weights = device.weights.times(*scale);
        }
        Ok(Case { id: self.id, thread: self.thread.clone(), depth, measured, threads: self.threads, work })
    }

    fn prompt(&self, planned: &Planned<'_>) -> Result<Prompt, String> {
        let (measured, tokens) = self.pp_tps.zip(self.pp_tokens).ok_or("no prompt's speed is stated")?;
        // the kernels of older builds were others
        if self.date.as_deref().is_none_or(|date| date < "2025-09") {
            return Err("older than September 2025".to_owned());
        }
        let Planned { model, machine, plan, scale } = planned;
        let mut work = PromptWork::of(model, machine, plan)?;
        for device in &mut work.devices {
            device.dense.bytes *= scale;
            device.experts.bytes *= scale;
            device.dense_in_ram *= scale;
            device.experts_in_ram *= scale;
        }
        Ok(Prompt {
            id: self.id,
            thread: self.thread.clone(),
            machine: format!("{} {} {:?}", self.thread, self.backend, self.gpus),
            model: self.catalogue.clone().unwrap_or_default(),
            depth: self.depth,
            tokens,
            measured,
            has_experts: work.devices.iter().any(|device| device.used > 0.0),
            work,
        })
    }

    fn machine(&self, cpu_only: bool) -> Result<Machine, &'static str> {
        let backend: Backend = if cpu_only { Backend::Cuda } else { self.backend.parse().unwrap() };
        let gpu = |name: &String| {
            let preset = presets::find(name).ok_or("a card that is no preset")?;
            let gpu = preset.gpu();
            Ok::<_, &'static str>(Gpu { backend, free: gpu.total, ..gpu })
        };
        let gpus: Vec<Gpu> = if cpu_only { Vec::new() } else { self.gpus.iter().map(gpu).collect::<Result<_, _>>()? };
        let total = Bytes::gib(192);
        let ram = Ram { total, free: total, swap_free: Bytes::ZERO, bandwidth: self.bandwidth() };
        Ok(Machine {
            disk: None,
            os: Os::for_gpus(&gpus),
            cpu: plimsoll::machine::Cpu::default(),
            gpus,
            ram,
            origin: Origin::Described,
            drivers: plimsoll::machine::Drivers::default(),
        })
    }

    /// The bandwidth of RAM: as stated, or by its speed and channels of 64 bits; DDR5-5200 where DDR5 has no speed.
    fn bandwidth(&self) -> Option<Bandwidth> {
        let usual = (self.ram_type.as_deref() == Some("DDR5")).then_some(5200);
        let product = || Some((self.ram_mts.or(usual)? * self.ram_channels? * 8) as f64 / 1e3);
        let gbps = self.ram_gbps.or_else(product)?;
        Some(Bandwidth::checked((gbps * 1e9) as u64).unwrap())
    }

    fn settings(&self, blocks: u64) -> Result<Settings, &'static str> {
        let tokens = self.depth + self.gen_tokens.unwrap_or(0).max(self.pp_tokens.unwrap_or(0));
        let ubatch = self.ubatch.filter(|ubatch| *ubatch >= 32);
        let types = self.kv_type.as_deref().unwrap_or("f16");
        let (k, v) = types.split_once('/').unwrap_or((types, types));
        let quantised = v != "f16";
        // llama.cpp has chosen flash attention by itself since September 2025
        let flash = self.flash_attn.unwrap_or(quantised || self.date.as_deref().is_some_and(|date| date >= "2025-09"));
        Ok(Settings {
            ctx: Context::Tokens(tokens.max(512).next_multiple_of(256)),
            parallel: Some(1),
            cache_type_k: Some(k.parse::<CacheType>().unwrap()),
            cache_type_v: Some(v.parse::<CacheType>().unwrap()),
            flash_attn: if flash || quantised { FlashAttn::On } else { FlashAttn::Off },
            gpu_layers: match self.ngl.ok_or("the layers on the card are not stated")? {
                99 => GpuLayers::All,
                // boards that list results name the blocks of a model that is on the card as a whole
                layers if layers >= blocks => GpuLayers::All,
                layers => GpuLayers::Count(layers),
            },
            n_cpu_moe: self.n_cpu_moe.filter(|layers| *layers > 0),
            batch: Some(ubatch.unwrap_or(512).max(2048)),
            ubatch,
            ..Settings::default()
        })
    }
}

/// The nearest of llama.cpp's own quantisations; sizes are scaled to the file's.
fn file_type(quant: &str) -> Option<FileType> {
    let own = quant.strip_prefix("UD-").unwrap_or(quant);
    let medium = own.strip_suffix("_XL").map(|start| format!("{start}_M"));
    let small = own.strip_suffix("_M");
    [Some(own), medium.as_deref(), small, own.strip_suffix("_XL")]
        .into_iter()
        .flatten()
        .find_map(|name| name.parse().ok())
}
