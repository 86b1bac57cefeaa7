//! What is read off a plan: its summary for searches, knobs in effect, shares of computers, and `ollama ps`.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::{DevicePlan, Outcome, Part, PartKind, Plan, Verdict};
use crate::machine::DeviceKind;
use crate::settings::knob::{
    CACHE_CHOICES, CACHE_TYPES, Knob, QUANTISATIONS, in_mib, in_percent, percent_of_first, place,
};
use crate::settings::{FlashAttn, InEffect, LoadMode, SpecType};
use crate::units::Bytes;

impl Plan {
    /// The plan on one line, for logs.
    pub fn line(&self) -> String {
        let Self { model, settings, .. } = self;
        let release = settings.release.map(|release| format!(" {release}")).unwrap_or_default();
        let file_type = model.file_type.as_deref().unwrap_or("?");
        let devices = self.devices.iter().map(|device| {
            let (id, needed, free) = (&device.id, device.needed() + device.growth, device.free.0);
            format!("{id} {} of {free} bytes", needed.0)
        });
        format!(
            "{}{release} ({}), {} {} {file_type}, context {}, {} sequences, batch {}/{}, cache {}/{}, {} of {} layers on \
             GPU, {}; {}",
            self.engine,
            self.confidence,
            model.name,
            model.architecture,
            settings.ctx,
            settings.parallel,
            settings.batch,
            settings.ubatch,
            settings.cache_type_k,
            settings.cache_type_v,
            self.offloaded,
            self.layers.len(),
            self.outcome().name(),
            devices.collect::<Vec<_>>().join(", "),
        )
    }
}

/// A plan without explanations.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanSummary {
    /// The settings in effect, after the engine's rules.
    pub settings: InEffect,
    /// GPUs in the machine's order, the CPU last.
    pub devices: Vec<DevicePlan>,
    /// All layers, including the output layer.
    pub layer_count: usize,
    /// Layers on GPUs, including the output layer.
    pub offloaded: usize,
    /// Whether and where the model fits.
    pub verdict: Verdict,
    /// Whether the engine would not load it.
    pub refused: bool,
}

impl PlanSummary {
    /// The summary of `plan`.
    pub fn of(plan: &Plan) -> Self {
        Self {
            settings: plan.settings.clone(),
            devices: plan.devices.clone(),
            layer_count: plan.layers.len(),
            offloaded: plan.offloaded,
            verdict: plan.verdict,
            refused: plan.refusal.is_some(),
        }
    }

    /// Whether it is the summary of `plan`, but for what [`crate::engine::plan`] adds, of which engines know nothing.
    pub fn is_of(&self, plan: &Plan) -> bool {
        let InEffect { turn, no_op_offload, .. } = plan.settings;
        let settings = InEffect { turn, no_op_offload, ..self.settings.clone() };
        let mut devices = self.devices.clone();
        if let Some((own, other)) = devices.last_mut().zip(plan.devices.last()) {
            own.ram.kept = other.ram.kept;
        }
        devices == plan.devices && settings == plan.settings
    }

    /// As [`Plan::outcome`].
    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.verdict, self.refused, &self.devices)
    }

    /// As [`Plan::parts_in_ram`].
    pub fn parts_in_ram(&self) -> Bytes {
        self.devices.iter().map(|device| device.ram.parts).sum()
    }

    /// GPUs in the machine's order.
    pub fn gpus(&self) -> impl Iterator<Item = &DevicePlan> {
        self.devices.iter().filter(|device| device.kind == DeviceKind::Gpu)
    }
}

impl Knob {
    /// Its value in effect for the screen, by its name where that has no place on the slider.
    pub fn shown_in(self, plan: &Plan) -> String {
        let InEffect { cache_type_k, cache_type_v, .. } = plan.settings;
        match self {
            Self::CacheType | Self::CacheTypeK => cache_type_k.to_string(),
            Self::CacheTypeV => cache_type_v.to_string(),
            Self::Quant => plan.model.file_type.as_deref().unwrap_or("?").to_owned(),
            _ => self.show(self.in_effect(plan)),
        }
    }

    /// The value in effect in `plan`. For a knob that its engine lacks, the minimum.
    pub fn in_effect(self, plan: &Plan) -> u64 {
        let effect = &plan.settings;
        match self {
            Self::Context => effect.ctx,
            Self::Parallel => effect.parallel,
            Self::Batch => effect.batch,
            Self::Ubatch => effect.ubatch,
            // a file of unknown type has no place on the slider
            Self::Quant => {
                let named = plan.model.file_type.as_deref().and_then(|name| name.parse().ok());
                named.and_then(|to| place(&QUANTISATIONS, &to)).unwrap_or(u64::MAX)
            }
            // nor has the type of a fork
            Self::CacheType => place(&CACHE_CHOICES, &effect.cache_type_k).unwrap_or(u64::MAX),
            Self::CacheTypeK => place(&CACHE_TYPES, &effect.cache_type_k).unwrap_or(u64::MAX),
            Self::CacheTypeV => place(&CACHE_TYPES, &effect.cache_type_v).unwrap_or(u64::MAX),
            Self::FlashAttn => place(&FlashAttn::ALL, &effect.flash_attn).unwrap_or(0),
            Self::KvUnified => effect.kv_unified.unwrap_or_default().into(),
            Self::Outputs => effect.outputs.unwrap_or_else(|| self.least()),
            Self::GpuLayers => plan.offloaded as u64,
            Self::CpuMoe => effect.n_cpu_moe.unwrap_or_else(|| self.least()),
            Self::MmprojDevice => {
                let weights =
                    |part: &Part| part.devices.iter().zip(plan.gpus()).map(|(memory, _)| memory.weights).sum::<Bytes>();
                let reads = |part: &&Part| matches!(part.kind, PartKind::Vision | PartKind::Audio);
                plan.parts.iter().find(reads).is_some_and(|part| weights(part) == Bytes::ZERO).into()
            }
            Self::ImageTokens => effect.image_max_tokens.unwrap_or_else(|| self.least()),
            Self::TensorSplit => {
                let layers: Vec<f64> = plan.shares();
                percent_of_first(&layers).unwrap_or_else(|| self.least())
            }
            Self::Draft => {
                let named = effect.spec_type.as_deref().and_then(|name| name.parse().ok());
                named.and_then(|kind| place(&SpecType::BY_MODEL, &kind)).unwrap_or(0)
            }
            Self::DraftMax => effect.spec_draft_n_max.unwrap_or_else(|| self.least()),
            Self::LoadMode => effect.load_mode.and_then(|mode| place(&LoadMode::ALL, &mode)).unwrap_or(0),
            Self::CacheRam => effect.cache_ram.map_or(0, in_mib),
            Self::PromptTokens => effect.turn.map_or(0, |turn| turn.prompt),
            Self::AnswerTokens => effect.turn.map_or(0, |turn| turn.answer),
            Self::Cached => effect.turn.map_or(0, |turn| in_percent(turn.cached)),
        }
    }
}

/// One computer's part of a plan, summed over its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Computer {
    /// Its name; none for the computer that runs the engine.
    pub name: Option<String>,
    /// Ids of its devices.
    pub devices: Vec<String>,
    /// Layers on them.
    pub layers: usize,
    /// Weights, caches and graphs on them with what these grow by, without pages that nothing reads after the load.
    pub asked: Bytes,
    /// Free memory on them.
    pub free: Bytes,
    /// What its devices lack, each for itself: free memory of one is of no use to another.
    pub lacking: Vec<(String, Bytes)>,
}

impl Plan {
    /// The computers of all devices: the one that runs the engine first, with its RAM, then the others in the order of
    /// their devices.
    pub fn computers(&self) -> Vec<Computer> {
        let mut computers = vec![Computer::default()];
        for device in &self.devices {
            let at = computers.iter().position(|computer| computer.name.as_deref() == device.computer.as_deref());
            let at = at.unwrap_or_else(|| {
                computers.push(Computer { name: device.computer.as_deref().map(str::to_owned), ..Computer::default() });
                computers.len() - 1
            });
            computers[at].add(device);
        }
        for (device, headroom) in self.devices.iter().zip(self.headrooms()) {
            let own = computers.iter_mut().find(|computer| computer.name.as_deref() == device.computer.as_deref());
            if let (Some(own), true) = (own, headroom.left.is_short()) {
                own.lacking.push((device.id.clone(), headroom.left.lacking()));
            }
        }
        computers
    }
}

impl DevicePlan {
    /// Its name, including another computer's: `RTX 4090 @garage`.
    pub fn label(&self) -> Cow<'_, str> {
        match &self.computer {
            Some(computer) => format!("{} @{computer}", self.name).into(),
            None => self.name.as_str().into(),
        }
    }
}

impl Computer {
    fn add(&mut self, device: &DevicePlan) {
        self.devices.push(device.id.clone());
        self.layers += device.layers.len();
        self.asked += device.needed() + device.growth;
        // what a GPU shares with the CPU is counted with RAM
        self.free += if device.shares_ram() { device.own.min(device.free) } else { device.free };
    }

    /// `garage`, or `this machine`.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or("this machine")
    }
}

/// The columns SIZE and PROCESSOR of `ollama ps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct OllamaPs {
    /// All bytes that Ollama counts.
    pub size: Bytes,
    /// The part on GPUs.
    pub vram: Bytes,
}

/// A buffer that llama-server logs: `load_tensors: CUDA0 model buffer size = 4403.49 MiB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedBuffer<'a> {
    /// What logs it.
    pub component: &'a str,
    /// Where it is: `CUDA0`, `CPU_Mapped`, `CUDA_Host`.
    pub backend: &'a str,
    /// What it is for: `model`, `KV`, `compute`, `output`, `RS`.
    pub kind: &'a str,
    /// As logged, in hundredths of a MiB cut to whole bytes.
    pub bytes: Bytes,
}

impl LoggedBuffer<'_> {
    fn is_on_gpu(&self) -> bool {
        let backend = self.backend;
        backend != "CPU" && backend != "BLAS" && !backend.starts_with("CPU_") && !backend.ends_with("_Host")
    }
}

/// What Ollama makes of a load's log. Source: `memoryParsingWriter` and `MemorySize`, `llm/llama_server.go`, Ollama,
/// August 2026.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedLoad {
    /// Bytes of the model's file.
    pub file: Bytes,
    /// All layers are offloaded, and none of them overflows.
    pub is_whole: bool,
    /// Weights that are mapped and on GPUs count once (from 0.30.11).
    pub mapped_once: bool,
}

impl OllamaPs {
    /// What Ollama adds up; of equal component, backend and kind the last counts.
    pub fn of_log(buffers: &[LoggedBuffer<'_>], load: LoggedLoad) -> Self {
        if buffers.is_empty() {
            return Self { size: load.file, vram: load.file };
        }
        let key = |one: &LoggedBuffer<'_>| (one.component.to_owned(), one.backend.to_owned(), one.kind.to_owned());
        let is_last = |(place, one): &(usize, &LoggedBuffer<'_>)| {
            !buffers.iter().skip(place + 1).any(|later| key(later) == key(one))
        };
        let last: Vec<&LoggedBuffer<'_>> = buffers.iter().enumerate().filter(is_last).map(|(_, one)| one).collect();
        let sum = |is: &dyn Fn(&LoggedBuffer<'_>) -> bool| -> Bytes {
            last.iter().filter(|one| is(one)).map(|one| one.bytes).sum()
        };
        let vram = sum(&|one| one.is_on_gpu());
        if load.is_whole {
            return Self { size: vram, vram };
        }
        let mapped = sum(&|one| one.kind == "model" && !one.is_on_gpu() && one.backend.ends_with("_Mapped"));
        let on_gpus = sum(&|one| one.kind == "model" && one.is_on_gpu());
        let twice = if load.mapped_once { (on_gpus + mapped - load.file).min(mapped) } else { Bytes::ZERO };
        Self { size: sum(&|_| true) - twice, vram }
    }
    /// The column SIZE: decimal units, cut off from 10 up, one decimal below (`format.HumanBytes`, Ollama, August 2026).
    pub fn size_column(&self) -> String {
        let bytes = self.size.0;
        let units = [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1000)];
        match units.into_iter().find(|&(_, scale)| bytes >= scale) {
            None => format!("{bytes} B"),
            Some((unit, scale)) if bytes >= 10 * scale || bytes.is_multiple_of(scale) => {
                format!("{} {unit}", bytes / scale)
            }
            Some((unit, scale)) => format!("{:.1} {unit}", bytes as f64 / scale as f64),
        }
    }

    /// The column PROCESSOR (`ListRunningHandler`, `cmd/cmd.go`, Ollama, August 2026).
    pub fn processor_column(&self) -> String {
        let Self { size, vram } = *self;
        if vram == Bytes::ZERO {
            "100% CPU".to_owned()
        } else if vram == size {
            "100% GPU".to_owned()
        } else if vram > size {
            "Unknown".to_owned()
        } else {
            let cpu = ((size - vram).0 as f64 / size.0 as f64 * 100.0).round();
            format!("{cpu:.0}%/{:.0}% CPU/GPU", 100.0 - cpu)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::engine::{EngineId, PlanRequest};
    use crate::machine::spec::MachineSpec;
    use crate::machine::{Cpu, Drivers, Machine, Origin, Os, Ram};
    use crate::settings::{Context, GpuLayers, Settings};

    /// Room on one card does not hide what another lacks.
    #[test]
    fn a_computer_says_what_each_of_its_devices_lacks() {
        for (model, split) in [("qwen3-14b", [1.0, 9.0]), ("qwen3-14b", [9.0, 1.0]), ("llama3.1-8b", [1.0, 1.0])] {
            let gpus = ["name=a,total=12GiB".to_owned(), "name=b,total=12GiB".to_owned()];
            let gpus = MachineSpec::read(&gpus, None).unwrap().gpus.unwrap();
            let free = Bytes::gib(64);
            let machine = Machine {
                disk: None,
                cpu: Cpu::default(),
                os: Os::Linux,
                gpus,
                ram: Ram { total: free, free, swap_free: Bytes::ZERO, bandwidth: None },
                origin: Origin::Described,
                drivers: Drivers::default(),
            };
            let settings = Settings {
                ctx: Context::Tokens(65_536),
                gpu_layers: GpuLayers::Count(99),
                tensor_split: split.to_vec(),
                ..Settings::default()
            };
            let model = catalogue::model(model).unwrap();
            let plan = PlanRequest::new(EngineId::LlamaCpp, model, machine, settings).plan().unwrap();
            let computers = plan.computers();
            let [computer] = computers.as_slice() else { panic!("{computers:?}") };
            let over = plan.devices.iter().filter(|device| device.is_over()).map(|device| &device.id);
            assert!(over.eq(computer.lacking.iter().map(|(id, _)| id)), "{computer:?}");
            let needed: Bytes = plan.devices.iter().map(|device| device.needed() + device.growth).sum();
            assert_eq!(computer.asked, needed);
            let room = Bytes::gib(24) > plan.totals.gpu;
            let uneven = split[0].total_cmp(&split[1]).is_ne();
            assert_eq!(uneven && room, room && !computer.lacking.is_empty(), "{computer:?}");
        }
    }
}

#[cfg(test)]
mod ollama_ps_tests {
    use super::*;

    #[test]
    fn sizes_are_formatted_as_by_ollama() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1 KB"),
            (1500, "1.5 KB"),
            (5_000_000_000, "5 GB"),
            (5_040_000_000, "5.0 GB"),
            (5_960_000_000, "6.0 GB"),
            (9_999_999_999, "10.0 GB"),
            (10_900_000_000, "10 GB"),
            (1_200_000_000_000, "1.2 TB"),
        ] {
            assert_eq!(OllamaPs { size: Bytes(bytes), vram: Bytes::ZERO }.size_column(), text);
        }
    }

    #[test]
    fn the_processor_column_shows_one_device_or_both_shares() {
        for (size, vram, text) in [
            (100, 0, "100% CPU"),
            (0, 0, "100% CPU"),
            (100, 100, "100% GPU"),
            (100, 101, "Unknown"),
            (1000, 625, "38%/62% CPU/GPU"),
            (1000, 999, "0%/100% CPU/GPU"),
            (1000, 1, "100%/0% CPU/GPU"),
        ] {
            assert_eq!(OllamaPs { size: Bytes(size), vram: Bytes(vram) }.processor_column(), text);
        }
    }
}
