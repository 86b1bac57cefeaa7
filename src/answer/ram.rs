//! RAM in three figures, and what a server adds while it is in use. Nothing of it is decided by an engine.

use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::llama_cpp::weight_buffers::Layouts;
use crate::engine::{EngineId, PlanRequest};
use crate::gguf::Tensor;
use crate::machine::{Backend, Machine, Os};
use crate::model::TensorGroup;
use crate::plan::{BufferUse, DevicePlan, LargestBuffer, LayerPlan, Plan, Why};
use crate::settings::written::NO_LIMIT;
use crate::settings::{CHECKPOINTS, LoadMode};
use crate::units::Bytes;

/// What NVIDIA's Vulkan driver on Windows holds back of the total that it calls free.
const VULKAN_ON_WINDOWS: Bytes = Bytes::mib(768);
/// Memory left on a GPU below which Windows was seen to move memory. Assumed.
const SPILLS_BELOW: Bytes = Bytes::gib(1);

/// What a plan takes of RAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RamUse {
    /// How weights in RAM are read.
    pub load_mode: LoadMode,
    /// Cannot be taken away: caches, compute buffers, and weights that are not mapped: all of them, or those that are
    /// repacked.
    pub must: Bytes,
    /// Mapped weights that every token reads, of experts the share that it uses, so that they should stay in RAM.
    pub warm: Bytes,
    /// Mapped weights that a token reads in part, or not at all: the other experts, token embeddings, and pages of weights
    /// that are repacked.
    pub may_page: Bytes,
    /// Of those, the experts that one token does not use and the next one may.
    pub idle_experts: Bytes,
    /// What llama-server's prompt cache may grow to besides; none for engines without it.
    pub prompt_cache: Option<Bytes>,
    /// A saved prompt of the whole context of one sequence, of that cache.
    pub one_prompt: Bytes,
    /// What checkpoints of recurrent states and sliding windows may grow to besides.
    pub checkpoints: Bytes,
    /// How many of them each sequence has at most.
    pub checkpoint_count: u64,
}

impl RamUse {
    /// What `plan`, the plan of `request`, takes.
    pub fn of(request: &PlanRequest, plan: &Plan) -> Self {
        let cpu = plan.cpu();
        let by_engine = if cpu.ram.mapped == cpu.weights { LoadMode::Mmap } else { LoadMode::Read };
        let load_mode = plan.settings.load_mode.unwrap_or(by_engine);
        let buffers = cpu.cache + cpu.graph;
        let looked_up = looked_up(request, plan).min(cpu.ram.mapped);
        let (must, mapped) = match load_mode {
            LoadMode::Mmap => (buffers + cpu.ram.repacked, cpu.ram.mapped),
            // a table may be read on demand all the same
            LoadMode::Locked | LoadMode::Read | LoadMode::Direct | LoadMode::MmapLocked => {
                (buffers + cpu.weights - looked_up, looked_up)
            }
        };
        let idle_experts = idle_experts(request, plan).min(mapped - looked_up);
        let serves = request.engine == EngineId::LlamaCpp || plan.engine.facts().starts_llama_server;
        let sequences = plan.settings.parallel.max(1);
        let checkpoint_count = request.settings.ctx_checkpoints.unwrap_or(CHECKPOINTS);
        let checkpoint = if serves { checkpoint(request) } else { Bytes::ZERO };
        Self {
            load_mode,
            must,
            warm: mapped - looked_up - idle_experts,
            may_page: looked_up + idle_experts + cpu.ram.read_once,
            idle_experts,
            prompt_cache: plan.settings.cache_ram.filter(|_| serves),
            one_prompt: Bytes(plan.totals.cache.0 / sequences),
            checkpoints: Bytes(checkpoint.0.saturating_mul(checkpoint_count)),
            checkpoint_count,
        }
    }

    /// What tokens read of RAM, one after another: without it, every token waits for the disk.
    pub fn needed(&self) -> Bytes {
        self.must + self.warm + self.idle_experts
    }

    /// The same with all that a server adds while it is in use.
    pub fn at_most(&self) -> Bytes {
        self.needed() + self.prompt_cache.unwrap_or_default() + self.checkpoints
    }

    /// The three figures as a sentence: `1.9 GiB must stay in RAM, 900 MiB should, 282 MiB may be paged out (mmap)`.
    pub fn sentence(&self) -> String {
        let Self { must, warm, may_page, idle_experts, load_mode, .. } = self;
        let experts = match *idle_experts {
            Bytes::ZERO => String::new(),
            idle => format!(", {idle} of them experts that the next token may need"),
        };
        let table = match *may_page {
            Bytes::ZERO => String::new(),
            table => format!("; {table} of a table are read from the file on demand"),
        };
        match load_mode {
            LoadMode::Mmap => format!(
                "{must} must stay in RAM, {warm} of mapped weights should, as every token reads them, and {may_page} may \
                 be paged out{experts}"
            ),
            LoadMode::MmapLocked => {
                format!("all of {must} must stay in RAM: the mapped file is locked (load mode mmap+mlock){table}")
            }
            mode => format!("all of {must} must stay in RAM: weights are not mapped (load mode {mode}){table}"),
        }
    }

    /// What a server adds while it is in use, as a sentence.
    pub fn in_use(&self) -> Option<String> {
        let most = self.prompt_cache?;
        let count = self.checkpoint_count;
        let checkpoints = match self.checkpoints {
            Bytes::ZERO => String::new(),
            bytes => format!("; {count} checkpoints of each sequence add up to {bytes}"),
        };
        let Some(room) = Some(most).filter(|most| *most > Bytes::ZERO) else {
            return Some(format!("The prompt cache is off{checkpoints}."));
        };
        let one = self.one_prompt;
        let useless = if one > room { ", so that one of the whole context cannot be kept" } else { "" };
        // what a checkpoint is for: states and windows cannot be cut where another prompt begins to differ
        let whole = if self.checkpoints > Bytes::ZERO {
            " Recurrent states and sliding windows cannot be cut: a saved prompt is read back only where a new one begins \
             with all of it, or from a checkpoint; where prompts differ early, --cache-ram 0 costs nothing."
        } else {
            ""
        };
        let up_to = if room == NO_LIMIT { "without a limit".to_owned() } else { format!("up to {room}") };
        Some(format!(
            "While in use, llama-server's prompt cache grows {up_to}; a prompt of the whole context takes {one} of \
             it{useless}{checkpoints}.{whole}"
        ))
    }

    /// What of RAM is free for a plan's CPU and its server: without what GPUs take of it, and what is kept for the system.
    pub fn free(plan: &Plan) -> Bytes {
        let ram = plan.ram();
        ram.free - ram.by_gpus - ram.kept
    }

    /// A sentence with the sum, where RAM is short of what the plan and the server take.
    pub fn shortage(&self, plan: &Plan) -> Option<String> {
        let (free, kept) = (Self::free(plan), plan.ram().kept);
        let most = self.at_most();
        if most <= free {
            return None;
        }
        let named = [
            ("buffers and weights", self.needed()),
            ("prompt cache", self.prompt_cache.unwrap_or_default()),
            ("checkpoints", self.checkpoints),
        ];
        let grows = named.iter().skip(1).any(|(_, bytes)| *bytes > Bytes::ZERO);
        // without what grows it is the plan's own shortage, which the outcome says
        let limits = match (self.prompt_cache.unwrap_or_default(), self.checkpoints) {
            _ if !grows => return None,
            (Bytes::ZERO, _) => "--ctx-checkpoints limits them",
            (_, Bytes::ZERO) => "--cache-ram limits it",
            _ => "--cache-ram and --ctx-checkpoints limit them",
        };
        let terms: Vec<String> = named
            .iter()
            .filter(|(_, bytes)| *bytes > Bytes::ZERO)
            .map(|(name, bytes)| format!("{bytes} of {name}"))
            .collect();
        let sum = terms.join(" + ");
        let when = if self.needed() > free { "RAM is short" } else { "RAM may become short" };
        if self.prompt_cache == Some(NO_LIMIT) {
            return Some(format!("{when}: the prompt cache has no limit; --cache-ram sets one."));
        }
        let beside = if kept > Bytes::ZERO { format!(" beside {kept} kept for the system") } else { String::new() };
        Some(format!("{when}: {sum} = {most}, and {free} are free{beside}; {limits}."))
    }
}

/// One checkpoint of every sequence, at most: recurrent states and the cells of sliding windows.
fn checkpoint(request: &PlanRequest) -> Bytes {
    let saved = [".ssm.", ".wkv.", ".shortconv.", ".attention.sliding_window"];
    let mut keys = request.model.header.metadata.iter().map(|(key, _)| key);
    if !keys.any(|key| saved.iter().any(|part| key.contains(part))) {
        return Bytes::ZERO;
    }
    let resolved = request.resolved();
    let buffers = resolved.ok().flatten().and_then(|resolved| resolved.buffers().ok());
    buffers.map_or(Bytes::ZERO, |buffers| buffers.checkpoints)
}

/// Tables in RAM of which a token looks up rows: token embeddings, unless they are the output matrix there.
fn looked_up(request: &PlanRequest, plan: &Plan) -> Bytes {
    let model = &request.model;
    let cpu = plan.devices.len() - 1;
    let multiplied = model.is_output_tied() && plan.layers.last().is_none_or(|output| output.device == cpu);
    let layouts = repacking(request, plan);
    let is_table = |tensor: &&Tensor| match first_part(&tensor.name) {
        "per_layer_token_embd" => true,
        "token_embd" => !multiplied || layouts.is_some_and(|layouts| layouts.takes_matrix(tensor)),
        _ => false,
    };
    model.tensors(TensorGroup::Input).filter(is_table).map(|tensor| tensor.bytes).sum()
}

/// A tensor's name up to the first dot.
fn first_part(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// The layouts by which weights in RAM are repacked; none if they are not.
fn repacking(request: &PlanRequest, plan: &Plan) -> Option<Layouts> {
    if plan.cpu().ram.repacked == Bytes::ZERO {
        return None;
    }
    let loaded = request.model.llama_cpp(plan.settings.llama_cpp_build()).ok()?;
    Some(loaded.layouts(request.machine.cpu.instructions))
}

/// Mapped experts in RAM, less the share that a token uses.
fn idle_experts(request: &PlanRequest, plan: &Plan) -> Bytes {
    let model = &request.model;
    let cpu = plan.devices.len() - 1;
    let layouts = repacking(request, plan);
    let in_ram = |at: usize| -> Bytes {
        let experts = model.tensors(TensorGroup::Block(at)).filter(|tensor| tensor.name.contains("_exps."));
        let mapped = experts.filter(|tensor| !layouts.is_some_and(|layouts| layouts.takes_experts(tensor)));
        let bytes: Bytes = mapped.map(|tensor| tensor.bytes).sum();
        match plan.layers.get(at) {
            Some(layer) if layer.device == cpu => bytes,
            Some(LayerPlan { why: Why::InPart { elsewhere, .. }, .. }) => bytes.min(*elsewhere),
            _ => Bytes::ZERO,
        }
    };
    let experts: Bytes = (0..model.block_count()).map(in_ram).sum();
    let Some(counts) = model.hyper.experts.filter(|experts| experts.count > 0) else { return Bytes::ZERO };
    let used =
        Bytes((u128::from(experts.0) * u128::from(counts.used.min(counts.count)) / u128::from(counts.count)) as u64);
    experts - used
}

/// A sentence where a GPU's driver refuses its largest buffer.
fn refused_buffer(device: &DevicePlan) -> Option<String> {
    let largest = device.largest_buffer.filter(LargestBuffer::is_refused)?;
    let advice = match largest.holds {
        BufferUse::Weights => "Another quantisation, or these layers in RAM,",
        BufferUse::Cache => "A smaller context, or a smaller KV type,",
        BufferUse::Graph => "Fewer tokens per ubatch",
    };
    Some(format!(
        "One buffer on {} is too large for its driver, whatever is free: {largest}. {advice} help.",
        device.id
    ))
}

/// The largest buffers on GPUs whose drivers have a limit, as a sentence.
pub fn largest_buffers(plan: &Plan) -> Option<String> {
    let limited = |device: &DevicePlan| device.largest_buffer.filter(|largest| largest.limit.is_some());
    let each: Vec<String> =
        plan.gpus().iter().filter_map(|device| Some(format!("{} {}", device.id, limited(device)?))).collect();
    (!each.is_empty()).then(|| format!("Largest buffer: {}.", each.join("; ")))
}

/// What may happen silently on this machine although the plan fits, one sentence each.
pub fn spills(machine: &Machine, plan: &Plan) -> Vec<String> {
    let mut sentences: Vec<String> = plan.gpus().iter().filter_map(refused_buffer).collect();
    let gpus = plan.gpus().iter().zip(plan.headrooms()).zip(&machine.gpus);
    let used = gpus.filter(|((plan, headroom), _)| !plan.layers.is_empty() && !headroom.left.is_short());
    for ((planned, headroom), gpu) in used {
        let (id, left) = (&planned.id, headroom.left.left());
        let windows = machine.os == Os::Windows && gpu.computer.is_none();
        if windows && gpu.backend == Backend::Vulkan && gpu.free == gpu.total - VULKAN_ON_WINDOWS {
            sentences.push(format!(
                "On Windows NVIDIA's Vulkan driver says that all but {VULKAN_ON_WINDOWS} of {id} is free, whatever is in \
                 use there."
            ));
        }
        if windows && !gpu.integrated && left < SPILLS_BELOW {
            sentences.push(format!(
                "With {left} left on {id}, Windows may move memory to shared memory: nothing fails, and it is slower."
            ));
        }
        if gpu.integrated && gpu.backend == Backend::Rocm && gpu.free > machine.ram.free {
            sentences.push(format!("ROCm names more free memory on {id} than RAM has, which it shares."));
        }
    }
    sentences
}
