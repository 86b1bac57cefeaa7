//! RAM in three figures, and what a server adds while it is in use. Nothing of it is decided by an engine.

use serde::Serialize;

use crate::engine::PlanRequest;
use crate::engine::{self, EngineId};
use crate::machine::{Backend, Machine, Os};
use crate::model::TensorGroup;
use crate::plan::{BufferUse, DevicePlan, LargestBuffer, Plan, Why};
use crate::settings::LoadMode;
use crate::units::Bytes;

/// Checkpoints that it keeps per sequence at most (`common/common.h`, `n_ctx_checkpoints`, 0.1.161).
pub const CHECKPOINTS: u64 = 32;

/// What NVIDIA's Vulkan driver on Windows holds back of the total that it calls free.
const VULKAN_ON_WINDOWS: Bytes = Bytes::mib(768);
/// Memory left on a GPU below which Windows was seen to move memory. Assumed.
const SPILLS_BELOW: Bytes = Bytes::gib(1);

/// What a plan takes of RAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RamUse {
    /// How weights in RAM are read.
    pub load_mode: LoadMode,
    /// Cannot be taken away: caches, compute buffers, and weights that are not mapped.
    pub must: Bytes,
    /// Mapped weights that every token reads, so that they should stay in RAM.
    pub warm: Bytes,
    /// Mapped weights that a token reads in part, or not at all: experts, token embeddings.
    pub may_page: Bytes,
    /// What llama-server's prompt cache may grow to besides; none for engines without it.
    pub prompt_cache: Option<Bytes>,
    /// A saved prompt of the whole context of one sequence, of that cache.
    pub one_prompt: Bytes,
    /// What checkpoints of recurrent states and sliding windows may grow to besides.
    pub checkpoints: Bytes,
}

impl RamUse {
    /// What `plan`, the plan of `request`, takes.
    pub fn of(request: &PlanRequest, plan: &Plan) -> Self {
        let cpu = plan.cpu();
        let by_engine = if cpu.mapped == cpu.weights { LoadMode::Mmap } else { LoadMode::Read };
        let load_mode = plan.settings.load_mode.unwrap_or(by_engine);
        let paged = weights_that_may_page(request, plan).min(cpu.weights);
        let buffers = cpu.cache + cpu.graph;
        let (must, warm, may_page) = match load_mode {
            LoadMode::Mmap => (buffers, cpu.weights - paged, paged),
            LoadMode::Locked | LoadMode::Read | LoadMode::Direct => (buffers + cpu.weights, Bytes::ZERO, Bytes::ZERO),
        };
        let serves = request.engine == EngineId::LlamaCpp || plan.engine.facts().starts_llama_server;
        let sequences = plan.settings.parallel.max(1);
        let checkpoint = if serves { checkpoint(request) } else { Bytes::ZERO };
        Self {
            load_mode,
            must,
            warm,
            may_page,
            prompt_cache: plan.settings.cache_ram.filter(|_| serves),
            one_prompt: Bytes(plan.totals.cache.0 / sequences),
            checkpoints: Bytes(checkpoint.0 * CHECKPOINTS),
        }
    }

    /// The three figures as a sentence: `1.9 GiB must stay in RAM, 900 MiB should, 282 MiB may be paged out (mmap)`.
    pub fn sentence(&self) -> String {
        let Self { must, warm, may_page, load_mode, .. } = self;
        match load_mode {
            LoadMode::Mmap => format!(
                "{must} must stay in RAM, {warm} of mapped weights should, as every token reads them, and {may_page} may \
                 be paged out"
            ),
            mode => format!("all of {must} must stay in RAM: weights are not mapped (load mode {mode})"),
        }
    }

    /// What a server adds while it is in use, as a sentence.
    pub fn in_use(&self) -> Option<String> {
        let most = self.prompt_cache?;
        let checkpoints = match self.checkpoints {
            Bytes::ZERO => String::new(),
            bytes => format!("; {CHECKPOINTS} checkpoints of each sequence add up to {bytes}"),
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
        Some(format!(
            "While in use, llama-server's prompt cache grows up to {room}; a prompt of the whole context takes {one} of \
             it{useless}{checkpoints}.{whole}"
        ))
    }

    /// A sentence where RAM is short of what a server adds.
    pub fn shortage(&self, plan: &Plan) -> Option<String> {
        let most = self.prompt_cache.filter(|most| *most > Bytes::ZERO)?;
        let left = plan.cpu().free - (self.must + self.warm);
        (most > left)
            .then(|| format!("The prompt cache may grow to {most}, and {left} of RAM are left: --cache-ram limits it."))
    }
}

/// One checkpoint of every sequence, at most: recurrent states and the cells of sliding windows.
fn checkpoint(request: &PlanRequest) -> Bytes {
    let saved = [".ssm.", ".wkv.", ".shortconv.", ".attention.sliding_window"];
    let mut keys = request.model.header.metadata.iter().map(|(key, _)| key);
    if !keys.any(|key| saved.iter().any(|part| key.contains(part))) {
        return Bytes::ZERO;
    }
    let resolved = engine::of(request.engine).resolve(&request.model, &request.machine, &request.settings);
    let buffers = resolved.ok().flatten().and_then(|resolved| resolved.buffers().ok());
    buffers.map_or(Bytes::ZERO, |buffers| buffers.checkpoints)
}

/// Weights in RAM that no token reads as a whole: experts of layers there, and token embeddings that are not the output.
fn weights_that_may_page(request: &PlanRequest, plan: &Plan) -> Bytes {
    let model = &request.model;
    let cpu = plan.devices.len() - 1;
    let in_ram = |at: usize| {
        plan.layers.get(at).is_some_and(|layer| layer.device == cpu || matches!(layer.why, Why::InPart { .. }))
    };
    let experts: Bytes = (0..model.block_count())
        .filter(|at| in_ram(*at))
        .flat_map(|at| model.tensors(TensorGroup::Block(at)))
        .filter(|tensor| tensor.name.contains("_exps."))
        .map(|tensor| tensor.bytes)
        .sum();
    let experts = if plan.cpu().layers.is_empty() { experts.min(plan.parts_in_ram()) } else { experts };
    let tied = model.is_output_tied();
    let embeddings: Bytes = model
        .tensors(TensorGroup::Input)
        .filter(|tensor| !tied && tensor.name.starts_with("token_embd"))
        .map(|tensor| tensor.bytes)
        .sum();
    experts + embeddings
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
