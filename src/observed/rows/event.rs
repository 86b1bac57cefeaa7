//! Lines of events.

use crate::observed::amount::{Mib, round};
use crate::observed::command;
use crate::observed::event::Event;
use crate::observed::hole::{Hole, Size, clip, holes};
use crate::observed::kind::Kind;
use crate::observed::load::Program;
use crate::observed::row::{Row, patterns};
use crate::settings::GpuLayers;

pub(super) const ROWS: &[Row] = patterns! {
    /// load_hparams: model size:         802.50 MiB
    "load_hparams: model size:{}" (size: Mib) => Kind::Other, |now| now.load.projector = Some(size);
    /// ggml_backend_cuda_buffer_type_alloc_buffer: allocating 16386.94 MiB on device 0: cudaMalloc failed: out of memory
    "allocating {} on device {}: {}failed" (size: Mib, device: Words<64>, _: &str) =>
        Kind::Other, |now| now.add_event(Event::OutOfMemory { size: Some(size), device: Some(device.0) });
    /// ~llama_io_write_device: allocated 'CUDA0' buffer 37.688 MiB
    "~llama_io_write_device: allocated '{}'{}buffer {}" (device: Words<64>, _: &str, size: Mib) =>
        Kind::Other, |now| now.add_event(Event::SavedState { device: device.0, size });
    /// ggml_gallocr_reserve_n: reallocating CUDA0 buffer from size 3.60 MiB to 76.54 MiB
    "reallocating {} buffer from size {} to {}" (device: Words<64>, from: Mib, to: Mib) =>
        Kind::Other, |now| now.add_event(Event::Grew { device: device.0, from, to });
    /// ~llama_context:      CUDA0 compute buffer size of 495.0000 MiB, does not match expectation of 304.7500 MiB
    "{} compute buffer size of {} does not match expectation of {}" (device: LastWord, to: Mib, from: Mib) =>
        Kind::Other, |now| {
            now.end_context(&device.0, from);
            now.add_event(Event::Grew { device: device.0, from, to });
        };
    /// ~llama_context:      CUDA0 compute buffer size is 495.0000 MiB, matches expectation of 495.0000 MiB
    "~llama_context:{} compute buffer size is {}" (device: LastWord, size: Mib) =>
        Kind::Other, |now| now.end_context(&device.0, size);
    /// prompt_save: - saving prompt with length 10177, total state size = 2460.007 MiB
    "saving prompt with length {},{}state size ={}" (tokens: u64, _: &str, size: Mib) =>
        Kind::Other, |now| now.add_event(Event::SavedPrompt { tokens, size });
    /// slot create_check: id  2 | task 28 | created context checkpoint 1 of 32 (pos_min = 399, pos_max = 399, n_tokens = 400, size = 157.443 MiB)
    "created context checkpoint{}size ={}" (_: &str, size: Mib) =>
        Kind::Other, |now| now.add_event(Event::Checkpoint { size });
    /// add: tensor per_layer_token_embd.weight (size = 27465 MiB) lazy read enabled
    "tensor {} (size ={} lazy read enabled" (name: Words<128>, size: Mib) =>
        Kind::Other, |now| now.add_event(Event::LazyTensor { name: name.0, size });
    /// srv    load_model: [mtmd] estimated worst-case memory usage of mmproj is 812.25 MiB (took 3.10 ms)
    "memory usage of mmproj is {}" (size: Mib) => Kind::Other, |now| now.asked.projector_estimate = Some(size);
    /// srv    load_model: [spec] estimated memory usage of MTP context is 1129.00 MiB
    "[spec] estimated memory usage of {} is {}" (_: &str, size: Mib) =>
        Kind::Other, |now| now.asked.draft_estimate = Some(size);
    /// srv    load_model: prompt cache is enabled, size limit: 8192 MiB
    "prompt cache is enabled{}size limit:{}" (_: &str, limit: Mib) =>
        Kind::Other, |now| now.asked.cache_ram = Some(limit.0 as i64);
    /// main: server is listening on http://127.0.0.1:8080 - starting the main loop
    /// srv          main: model loaded
    "server is listening" | ": model loaded" => Kind::Other, |now| now.serve();
    /// srv    operator(): cleaning up before exit...
    "cleaning up before exit" => Kind::Other, |now| now.over = true;
    /// srv    load_model: loading model '/m/qwen3-0.6b.gguf'
    "load_model: loading model '{}'" (path: String) => Kind::Start, |now| now.load.asked = Some(path);
    /// Autofit Success: 1, Autofit Result: -c 8320 -ngl -1
    "Autofit Result: {}" (arguments: &str) => Kind::Other, |now| {
        now.load.program = Some(Program::KoboldCpp);
        now.ask(command::arguments(arguments).settings);
    };
    /// Autofit Reserve Space: 1024 MB
    "Autofit Reserve Space: {}" (reserve: u64) => Kind::Other, |now| {
        now.load.program = Some(Program::KoboldCpp);
        now.add_event(Event::AutofitReserve(reserve));
    };
    /// sched_reserve: fused Gated Delta Net (chunked) not supported, set to disabled
    /// sched_reserve: layer 0 is assigned to device CPU but the fused Gated Delta Net tensor is assigned to device Vulkan0 (usually due to missing support)
    "not supported, set to disabled" | "due to missing support" =>
        Kind::Other, |now, line| now.add_event(Event::Unsupported(clip(line, 256)));
    /// llama_context: pipeline parallelism enabled
    "pipeline parallelism enabled" => Kind::Other, |now| now.add_event(Event::PipelineParallelism);
    /// sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism
    "retrying without pipeline parallelism" => Kind::Other, |now| now.give_up_pipeline();
    /// llama_kv_cache_iswa: using full-size SWA cache (ref: https://github.com/ggml-org/llama.cpp/pull/13194)
    "using full-size SWA cache" => Kind::Other, |now| {
        now.asked.swa_full = Some(true);
        now.add_event(Event::FullSizeWindows);
    };
    /// ggml_vulkan: Requested buffer size exceeds device memory allocation limit: ErrorOutOfDeviceMemory
    "exceeds device memory allocation limit" => Kind::Other, |now| now.add_event(Event::BufferLimit);
    /// tensor 'blk.0.ffn_up.weight' (q4_K) (and 12 others) cannot be used with preferred buffer type CPU_REPACK, using CPU instead
    "cannot be used with preferred buffer type" =>
        Kind::Other, |now, line| now.add_event(Event::TensorsElsewhere(clip(line, 256)));
    /// CUDA error: out of memory
    /// ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory
    "out of memory" | "ErrorOutOfDeviceMemory" =>
        Kind::Other, |now| now.add_event(Event::OutOfMemory { size: None, device: None });
    /// llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers
    "failed to initialize the context{}" (_: RealFailure) =>
        Kind::Other, |now, line| now.add_event(Event::Failed(clip(line, 256)));
    /// alloc_tensor_range: failed to allocate ROCm0 buffer of size 4718592000
    "failed to allocate {} buffer{}of size {}" (device: Words<64>, _: &str, bytes: u64) => Kind::Other, |now| {
        let size = Some(Mib(round(bytes as f64 / 1_048_576.0)));
        now.add_event(Event::OutOfMemory { size, device: Some(device.0) });
    };
    /// llama_model_load: error loading model: unable to allocate CUDA0 buffer
    /// main: failed to load model '/m/q.gguf'
    /// error: invalid argument: --no-mmap
    "error loading model" | "failed to load model" | "error: invalid argument" =>
        Kind::Other, |now, line| now.add_event(Event::Failed(clip(line, 256)));
    /// clip_ctx: CLIP using CUDA0 backend
    "CLIP using {} backend" (backend: Words<64>) => Kind::Other, |now| now.add_event(Event::ProjectorOn(backend.0));
    /// srv    load_model: prompt cache is disabled - use `--cache-ram N` to enable it
    "prompt cache is disabled" => Kind::Other, |now| now.asked.cache_ram = Some(0);
    /// sched_reserve: reserve took 283.00 ms, sched copies = 4
    "sched copies = {}" (copies: u64) => Kind::Other, |now| if let Some(context) = now.load.contexts.last_mut() {
        context.settings.sched_copies = Some(copies);
    };
    /// srv    load_model: context checkpoints enabled, max = 32, min spacing = 8192
    "context checkpoints enabled, max = {}" (count: u64) => Kind::Other, |now| now.asked.ctx_checkpoints = Some(count);
    /// Model load size estimate with raw num offload layers 'max' and context length '8192': Model: 14.87 GB Context: 936.03 MB Total: 15.81 GB
    "Model load size estimate{}Model: {}Context: {}" (_: &str, model: Size, context: Size) =>
        Kind::Other, |now| now.add_event(Event::OwnEstimate { model: model.0, context: context.0 });
    /// Model load size estimate with raw num offload layers 'max' and context length '8192':
    "Model load size estimate" => Kind::Other, |now| now.own_estimate = Some(Mib::default());
    /// Model: 14.87 GB
    "^Model: {}" (model: Size) => Kind::Other, |now| now.own_estimate = now.own_estimate.and(Some(model.0));
    /// Total: 9.67 GB
    "^Total: {}" (all: Size) => Kind::Other, |now| if now.own_estimate.take().is_some() {
        now.tell(Program::LmStudio, &[("its estimate in all", all.0)]);
    };
    /// Num CPU Expert Layers: 29
    "^Num CPU Expert Layers: {}" (layers: u64) => Kind::Other, |now| now.asked.n_cpu_moe = Some(layers);
    /// Num Offload Layers: 19
    /// Auto Recommended GPU Layers: 29
    "^Num Offload Layers: {}" | "Auto Recommended GPU Layers: {}" (layers: u64) =>
        Kind::Other, |now| now.asked.gpu_layers = Some(GpuLayers::Count(layers));
    /// Context: 936.03 MB
    "^Context: {}" (context: Size) => Kind::Other, |now| now.end_own_estimate(context.0);
};

/// Lines of ds4 (antirez/ds4, as of August 2026; those of the context since May).
pub(super) const DS4: &[Row] = patterns! {
    /// ds4: memory: KV 7.15 GiB (raw 0.10 + compressed 7.05) + buffers 1.05 GiB + resident model 90.88 GiB = 99.09 GiB planned
    /// ds4: memory: KV 0.21 GiB + buffers 0.00 GiB + resident model 18.88 GiB = 19.09 GiB planned
    "ds4: memory: KV {}+ buffers {}+ resident model {}={} planned"
        (kv: Size, buffers: Size, model: Size, all: Size) => Kind::Start, |now| {
            let figures =
                [("KV cache", kv), ("buffers", buffers), ("resident model", model), ("planned in all", all)];
            now.tell(Program::Ds4, &figures.map(|(of, size)| (of, size.0)));
        };
    /// ds4: memory: KV 1.57 GiB + resident model 44.94 GiB = 46.51 GiB planned
    "ds4: memory: KV {}+ resident model {}={} planned" (kv: Size, model: Size, all: Size) => Kind::Start, |now| {
        let figures = [("KV cache", kv), ("resident model", model), ("planned in all", all)];
        now.tell(Program::Ds4, &figures.map(|(of, size)| (of, size.0)));
    };
    /// ds4: memory detail: ctx=550000 prefill_cap=1024 raw_kv_rows=1280
    "ds4: memory detail: ctx={} " (tokens: u64) => Kind::Other, |now| now.asked.n_ctx = Some(tokens);
    /// 0712 13:00:04 ds4-server: context buffers 21302.79 MiB (ctx=1000000, backend=cuda, prefill_chunk=4096, raw_kv_rows=4352, compressed_kv_rows=250002)
    "ds4{}: context buffers {} (ctx={}," (_: &str, size: Mib, tokens: u64) => Kind::Start, |now| {
        now.asked.n_ctx = Some(tokens);
        now.tell(Program::Ds4, &[("context buffers", size)]);
    };
    /// ds4: CUDA using managed KV cache for ctx=1000000 (kv cache 13.17 GiB, context buffers 20.80 GiB); this may degrade performance
    "ds4: {} using managed KV cache for ctx={} (kv cache {}," (_: &str, _: u64, size: Size) =>
        Kind::Other, |now| now.tell(Program::Ds4, &[("KV cache in managed memory", size.0)]);
    /// ds4: CUDA startup model preparation covered 80.76 GiB of tensor spans in 0.033s
    "ds4: {} startup model preparation covered {} of tensor spans" (_: &str, size: Size) =>
        Kind::Other, |now| now.tell(Program::Ds4, &[("prepared tensors", size.0)]);
    /// 0712 13:00:04 ds4-server: listening on http://127.0.0.1:8000
    "ds4-server: listening on" => Kind::Other, |now| now.serve();
};

/// Lines of `ik_llama.cpp` (`src/llama.cpp` and `src/llama-dsv4.cpp` at 8337e4cd of 15 August 2026).
pub(super) const IK_LLAMA_CPP: &[Row] = patterns! {
    /// llama_init_from_model: KV self size  = 14632.75 MiB, K (q8_0): 7316.38 MiB, V (q8_0): 7316.38 MiB
    "KV self size{}={}, K ({}): {}, V ({}):" (_: &str, _: Mib, k: Name, _: Mib, v: Name) => Kind::Part, |now| {
        (now.asked.cache_type_k, now.asked.cache_type_v) = (k.0.parse().ok(), v.0.parse().ok());
    };
    /// llama_init_from_model: KV self size  =   34.31 MiB, c^KV (q8_0):   34.31 MiB, kv^T: not used
    /// llama_init_from_model: KV self size =  512.00 MiB, K-only (f16):  512.00 MiB; independent V-cache: not used
    "KV self size{}={}, c^KV ({})" | "KV self size{}={}, K-only ({})" (_: &str, _: Mib, k: Name) =>
        Kind::Part, |now| now.asked.cache_type_k = k.0.parse().ok();
    /// llama_init_from_model: KV self indexer size =   21.00 MiB (f16)
    "KV self indexer size ={} (" (size: Mib) =>
        Kind::Part, |now| now.tell(Program::IkLlamaCpp, &[("cache of the indexer", size)]);
    /// Memory required for model tensors + cache: 32568 MiB
    "Memory required for model tensors + cache:{}" (size: Mib) =>
        Kind::Fit, |now| now.tell(Program::IkLlamaCpp, &[("required for tensors and cache", size)]);
    /// Memory available on all devices - compute: 3622 MiB
    "Memory available on all devices - compute:{}" (size: Mib) =>
        Kind::Fit, |now| now.tell(Program::IkLlamaCpp, &[("available besides compute", size)]);
    /// Required memory 7367 MiB in device 0 is still greater than available memory 4070 MiB after overriding all MoE tensors to CPU
    "Required memory {} in device {} is still greater than available memory {} after" (size: Mib, _: u64, _: Mib) =>
        Kind::Fit, |now, line| {
            now.tell(Program::IkLlamaCpp, &[("required where it does not fit", size)]);
            now.add_event(Event::Failed(clip(line, 256)));
        };
    /// llama_spec_ckpt_init:      CUDA0 per-step buffer =     8.00 MiB (max_tokens=4)
    /// dsv4_spec_ckpt_init:      CUDA0 DSV4 speculative shadow buffer =    16.00 MiB
    "per-step buffer ={}" | "shadow buffer ={}" (size: Mib) =>
        Kind::Part, |now| now.tell(Program::IkLlamaCpp, &[("states of a draft", size)]);
};

/// Lines of flash attention.
pub(super) const FLASH_ATTENTION: &[Row] = patterns! {
    /// llama_context: Flash Attention was auto, set to disabled
    /// llama_context: flash_attn is not compatible with Grok - forcing off
    /// resolve_fused_ops: layer 0 is assigned to device CUDA0 but Flash Attention is assigned to device CPU (usually due to missing support)
    /// opt_init: disabling flash attention, FLASH_ATTN_EXT has no backward pass
    "set to disabled" | "forcing off" | "is assigned to device CPU" | "disabling flash attention" =>
        Kind::Other, |now, line| {
            now.context().settings.flash_attn_in_use = Some(false);
            now.add_event(Event::FlashAttentionOff { reason: clip(line, 256) });
        };
    /// sched_reserve: Flash Attention was auto, set to enabled
    "set to enabled" => Kind::Other, |now| now.context().settings.flash_attn_in_use = Some(true);
};

/// Text cut at `MOST` bytes.
struct Words<const MOST: usize>(String);

impl<const MOST: usize> Hole<'_> for Words<MOST> {
    fn read(text: &str) -> Option<Self> {
        Some(Self(clip(text, MOST)))
    }
}

struct LastWord(String);

/// The name of a type.
struct Name(String);

/// Any failure except the one expected of a fit's trial.
struct RealFailure;

holes! {
    LastWord: |text| text.split_whitespace().next_back().map(|word| Self(clip(word, 64)));
    Name: |text| text.split_whitespace().next().map(|word| Self(clip(word, 16)));
    RealFailure: |text| (!text.contains("normal during memory fitting")).then_some(Self);
}
