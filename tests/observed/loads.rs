//! Texts with several loads, contexts and models, and lines that look alike.

use plimsoll::observed::{Complete, Event, FitResult, Load, Mib, Missing, Observation, Program, TablePhase, Term};
use plimsoll::settings::{CacheType, FlashAttn, GpuLayers};
use rstest::rstest;

fn load(text: &str) -> Load {
    Observation::of(text).load().expect("the text has a load").clone()
}

fn term(load: &Load, device: &str, term: Term) -> Option<f64> {
    load.observed.get(device)?.get(&term).map(|mib| mib.0)
}

/// A load of a small model, with a start that begins another.
fn small(build: u64, kv: f64) -> String {
    format!(
        "0.00.001.000 I common_params_print_info: build {build} (abcdef0) with GNU for Linux\n\
         0.01.000.000 I load_tensors: loading model tensors, this can take a while... (load_mode = mmap)\n\
         0.01.000.000 I load_tensors:        CUDA0 model buffer size =    37.86 MiB\n\
         0.02.000.000 I llama_context: n_ctx                 = 4096\n\
         0.02.000.000 I llama_kv_cache:      CUDA0 KV buffer size =   {kv:.2} MiB\n\
         0.03.000.000 I sched_reserve:      CUDA0 compute buffer size =    24.91 MiB\n\
         0.04.000.000 I srv  llama_server: model loaded\n"
    )
}

#[test]
fn the_last_complete_load_is_chosen_and_all_are_there() {
    let started = "0.00.001.000 I common_params_print_info: build 3 (abcdef0)\nload_tensors: CUDA0 model buffer size = 1.00 MiB\n";
    let seen = Observation::of(&(small(1, 24.0) + &small(2, 48.0) + started));
    assert_eq!((seen.loads.len(), seen.chosen), (3, Some(1)));
    let fitted = "common_params_print_info: build 4 (abcdef0)\n\
        common_memory_breakdown_print: |   - CUDA0 (RTX 2060)   |  5738 = 5141 + (8392 =  4155 +    4096 +     140) +       -7794 |\n";
    let failed = Observation::of(&(small(1, 24.0) + fitted));
    assert_eq!((failed.loads.len(), failed.chosen), (2, Some(0)));
    assert_eq!(Observation::of(fitted).missing.first(), Some(&Missing::OnlyEstimate));
    let builds: Vec<_> = seen.loads.iter().map(|load| load.build).collect();
    assert_eq!(builds, [Some(1), Some(2), Some(3)]);
    assert_eq!(seen.load().and_then(|load| term(load, "CUDA0", Term::Kv)), Some(48.0));
    assert_eq!(seen.loads[1].line, 8);
}

#[test]
fn weights_after_a_server_is_ready_are_another_loads() {
    let text: String =
        small(1, 24.0) + &small(1, 48.0).lines().skip(1).map(|line| line.to_owned() + "\n").collect::<String>();
    let seen = Observation::of(&text);
    assert_eq!(seen.loads.len(), 2);
    // what was known of the program holds on
    assert_eq!(seen.load().and_then(|load| load.build), Some(1));
}

#[test]
fn a_trial_of_the_fit_gives_way_to_the_load() {
    let trial = "llama_kv_cache:      CUDA0 KV buffer size =     0.00 MiB\n\
        llama_kv_cache: size = 2176.00 MiB (131072 cells,   8 layers,  1/1 seqs), K (q8_0): 1088.00 MiB, V (q4_0): 1088.00 MiB\n\
        sched_reserve:      CUDA0 compute buffer size =   501.00 MiB\n\
        common_memory_breakdown_print: |   - CUDA0 (RTX 2060)   |  5738 = 5141 + (8392 =  4155 +    4096 +     140) +       -7794 |\n\
        common_params_fit_impl: context size reduced from 131072 to 4096 -> need 400 MiB less memory in total\n\
        common_fit_params: successfully fit params to free device memory\n";
    let only = load(trial);
    assert!(only.is_trial);
    assert_eq!((only.table_phase, only.fit.context), (Some(TablePhase::Fit), Some((131_072, 4096))));
    assert_eq!((only.settings.n_ctx, only.settings.cache_type_v), (Some(4096), Some(CacheType::Q4_0)));
    let text: String =
        trial.to_owned() + &small(1, 24.0).lines().skip(1).map(|line| line.to_owned() + "\n").collect::<String>();
    let seen = Observation::of(&text);
    let whole = seen.load().unwrap();
    assert_eq!(seen.loads.len(), 1);
    assert!(!whole.is_trial);
    assert_eq!((term(whole, "CUDA0", Term::Kv), term(whole, "CUDA0", Term::Compute)), (Some(24.0), Some(24.91)));
    assert_eq!(whole.fit.result, Some(FitResult::Fits));
}

#[test]
fn weights_of_nothing_are_those_of_a_measuring_pass() {
    let text = "load_tensors: offloaded 37/37 layers to GPU\n\
        load_tensors:         MTL0 model buffer size =     0.00 MiB\n\
        llama_kv_cache: size =  288.00 MiB (  2048 cells,  36 layers,  1/1 seqs), K (f16):  144.00 MiB, V (f16):  144.00 MiB\n\
        sched_reserve:       MTL0 compute buffer size =   312.75 MiB\n";
    let seen = Observation::of(text);
    assert!(seen.load().unwrap().is_trial);
    assert!(seen.missing.contains(&Missing::Trial), "{:?}", seen.missing);
    assert!(
        !seen.missing.iter().any(|missing| [Missing::Model, Missing::Cache].contains(missing)),
        "{:?}",
        seen.missing
    );
}

#[test]
fn the_table_at_the_end_replaces_the_trials() {
    let trial = "common_memory_breakdown_print: |   - CUDA1 (RTX 2060)   |  5738 = 5141 + (8392 =  4155 +    4096 +     140) +       -7794 |\n";
    let exit = "^Csrv    operator(): cleaning up before exit...\n\
        common_memory_breakdown_print: |   - CUDA0 (RTX 2060)   |  5738 = 4141 + ( 850 =   400 +     300 +     150) +         747 |\n\
        common_memory_breakdown_print: |   - Host               |                  329 =   281 +       0 +      48                |\n";
    let load = load(&(trial.to_owned() + &small(1, 24.0) + exit));
    assert_eq!(load.table.keys().collect::<Vec<_>>(), ["CUDA0", "Host"]);
    assert_eq!((load.table_phase, load.complete), (Some(TablePhase::Loaded), Some(Complete::Table)));
    assert_eq!(term(&load, "CUDA0", Term::Model), Some(37.86));
}

#[test]
fn lines_that_look_alike_are_not_added() {
    let text = small(1, 24.0)
        + "~llama_context:      CUDA0 compute buffer size is  24.9100 MiB, matches expectation of  24.9100 MiB\n\
           ~llama_context:      CUDA0 compute buffer size of  30.5000 MiB, does not match expectation of  24.9100 MiB\n\
           ~llama_io_write_device: allocated 'CUDA0' buffer 37.688 MiB\n\
           0.09.000.000 I sched_reserve:      CUDA0 compute buffer size =    30.50 MiB\n";
    let load = load(&text);
    assert_eq!(term(&load, "CUDA0", Term::Compute), Some(30.5));
    let grew = Event::Grew { device: "CUDA0".to_owned(), from: Mib(24.91), to: Mib(30.5) };
    assert_eq!(load.events, [grew, Event::SavedState { device: "CUDA0".to_owned(), size: Mib(37.688) }]);
}

#[test]
fn a_draft_adds_and_the_same_context_again_does_not() {
    let draft = "load_tensors: loading model tensors, this can take a while... (mmap = true, direct_io = false)\n\
        load_tensors:        CUDA0 model buffer size =    10.00 MiB\n\
        llama_context: constructing llama_context\n\
        llama_context: n_ctx         = 4096\n\
        llama_context:  CUDA_Host  output buffer size =     1.00 MiB\n\
        llama_kv_cache:      CUDA0 KV buffer size =     2.00 MiB\n\
        sched_reserve:      CUDA0 compute buffer size =     5.00 MiB\n\
        sched_reserve: graph nodes  = 62\n\
        sched_reserve:      CUDA0 compute buffer size =     6.00 MiB\n";
    let text: String = small(1, 24.0).lines().take(6).map(|line| line.to_owned() + "\n").collect::<String>() + draft;
    let load = load(&text);
    assert_eq!((load.models.len(), load.contexts.len()), (2, 2));
    assert_eq!(term(&load, "CUDA0", Term::Model), Some(47.86));
    assert_eq!((term(&load, "CUDA0", Term::Kv), term(&load, "CUDA0", Term::Compute)), (Some(26.0), Some(30.91)));
}

#[test]
fn another_programs_line_does_not_end_a_reservation() {
    let text = "sched_reserve:       MTL0 compute buffer size =   501.00 MiB\n\
        sched_reserve:        CPU compute buffer size =   272.29 MiB\n\
        time=2026-06-28T20:51:02.671+02:00 level=INFO source=llama_server.go:1189 msg=\"waiting for llama-server\"\n\
        sched_reserve:        CPU compute buffer size =   272.29 MiB\n";
    assert_eq!(term(&load(text), "CPU", Term::Compute), Some(544.58));
}

#[test]
fn older_names_commas_and_row_splits_are_read() {
    let text = "llm_load_tensors:        CPU buffer size =   315.30 MiB\n\
        llm_load_tensors: CUDA_Split buffer size =  4215.30 MiB\n\
        llama_kv_cache_init:      CUDA0 KV buffer size =   12,65 MiB\n\
        llama_init_from_model:      CUDA0 compute buffer size =   292.00 MiB\n";
    let load = load(text);
    assert_eq!((load.program, load.complete), (Some(Program::IkLlamaCpp), Some(Complete::Buffers)));
    assert_eq!(term(&load, "CUDA_Split", Term::Model), Some(4215.3));
    assert_eq!(term(&load, "CUDA0", Term::Kv), Some(12.65));
}

#[test]
fn lines_as_json_are_the_lines_within() {
    let text = r#"{"type":"log","time":1,"level":"info","msg":"load_tensors:        CUDA0 model buffer size =  1301.21 MiB\n"}
{"type":"fit_memory_breakdown","data":{"unit":"MiB","rows":[
{"type":"fit_memory_breakdown","data":{"unit":"MiB","rows":[{"kind":"device","name":"CUDA0","description":"RTX 4090","total":24564,"free":23000,"self":1500,"model":1200,"context":200,"compute":100,"unaccounted":64},{"kind":"host","name":"Host","self":46,"model":40,"context":0,"compute":6}]}}
"#;
    let load = load(text);
    assert_eq!(term(&load, "CUDA0", Term::Model), Some(1301.21));
    let row = &load.table["CUDA0"];
    assert_eq!((row.own, row.total, row.unaccounted), (1500, Some(24_564), Some(64)));
    assert_eq!(load.table["Host"].compute, 6);
}

#[test]
fn ollama_starts_loads_with_their_commands() {
    let start = |model: &str, ctx: u64| {
        format!(
            "time=2026-09-02T16:52:34.600Z level=INFO source=llama_server.go:433 msg=\"starting llama-server\" cmd=\"/usr/lib/ollama/llama-server --model /blobs/{model} -c {ctx} -np 2 --flash-attn auto -b 1024 -ub 512 --cache-type-k q8_0 --n-gpu-layers 20 --chat-template \\\"a b\\\" --no-mmap\"\n\
             load_tensors:        CUDA0 model buffer size =    37.86 MiB\n\
             llama_kv_cache:      CUDA0 KV buffer size =    24.00 MiB\n\
             sched_reserve:      CUDA0 compute buffer size =    24.91 MiB\n\
             time=2026-09-02T16:53:11.045Z level=INFO source=llama_server.go:1362 msg=\"llama-server started in 36.45 seconds\"\n"
        )
    };
    let seen = Observation::of(&(start("sha256-a", 8192) + &start("sha256-b", 4096)));
    assert_eq!((seen.loads.len(), seen.chosen), (2, Some(1)));
    let load = &seen.loads[0];
    assert_eq!(
        (load.program, load.asked.as_deref(), load.is_ready),
        (Some(Program::Ollama), Some("/blobs/sha256-a"), true)
    );
    let settings = &load.settings;
    assert_eq!((settings.n_ctx, settings.n_seq_max, settings.flash_attn), (Some(8192), Some(2), Some(FlashAttn::Auto)));
    assert_eq!((settings.gpu_layers, settings.cache_type_k), (Some(GpuLayers::Count(20)), Some(CacheType::Q8_0)));
    assert_eq!((settings.load_mode.as_deref(), settings.cache_type_v), (Some("none"), None));
}

#[test]
fn ollamas_own_engine_says_what_it_took_last() {
    let group = |kv: &str| {
        format!(
            "time=2025-11-25T08:28:24.409Z level=INFO source=device.go:240 msg=\"model weights\" device=CUDA0 size=\"3.6 GiB\"\n\
             time=2025-11-25T08:28:24.409Z level=INFO source=device.go:251 msg=\"kv cache\" device=CUDA0 size=\"{kv}\"\n\
             time=2025-11-25T08:28:24.409Z level=INFO source=device.go:262 msg=\"compute graph\" device=CUDA0 size=\"1.1 GiB\"\n\
             time=2025-11-25T08:28:24.409Z level=INFO source=device.go:272 msg=\"total memory\" size=\"5.0 GiB\"\n"
        )
    };
    let load = load(&(group("668.0 MiB") + &group("334.0 MiB")));
    assert_eq!((term(&load, "CUDA0", Term::Model), term(&load, "CUDA0", Term::Kv)), (Some(3686.4), Some(334.0)));
    assert_eq!((load.program, load.complete), (Some(Program::Ollama), Some(Complete::Buffers)));
}

#[test]
fn commands_that_were_typed_are_read() {
    let above = load(
        "$ ./build/bin/llama-server -m 'My Model.gguf' -ngl 99 -fa -ctk q8_0 -ts 3,1 --fit-target 4096 -np 1 -ot exps=CPU -ncmoe 8\n\
         load_tensors: CUDA0 model buffer size = 1.00 MiB\n",
    );
    assert_eq!(above.asked.as_deref(), Some("My Model.gguf"));
    let settings = above.settings;
    assert_eq!((settings.gpu_layers, settings.flash_attn), (Some(GpuLayers::Count(99)), Some(FlashAttn::On)));
    assert_eq!((settings.tensor_split, settings.fit_target), (Some(vec![3.0, 1.0]), Some(vec![4096])));
    assert_eq!((settings.n_cpu_moe, settings.override_tensor.as_deref()), (Some(8), Some("exps=CPU")));
    let below = Observation::of(&(small(1, 24.0) + "llama-server -hf unsloth/Qwen3-Coder-Next-GGUF --cpu-moe\n"));
    let below = below.load().unwrap();
    assert_eq!(
        (below.asked.as_deref(), below.settings.n_cpu_moe),
        (Some("unsloth/Qwen3-Coder-Next-GGUF"), Some(u64::MAX))
    );
}

#[test]
fn what_is_missing_is_said_with_what_to_do() {
    let quiet = "0.33.784.626 W llama_context: n_ctx_seq (32768) < n_ctx_train (262144) -- the full capacity\n\
        1.06.021.705 I srv    load_model: prompt cache is enabled, size limit: 2048 MiB\n";
    let seen = Observation::of(quiet);
    assert_eq!(seen.missing.first(), Some(&Missing::Verbosity));
    assert!(Missing::Verbosity.to_string().contains("-lv 4"));
    assert_eq!(Observation::of("nothing at all").missing, [Missing::Load]);
    let part = Observation::of("load_tensors: CUDA0 model buffer size = 1.00 MiB\n");
    assert_eq!(part.missing, [Missing::Cache, Missing::Compute, Missing::Settings, Missing::Name]);
    let whole = Observation::of(
        &(small(1, 24.0)
            + "llama_model_loader: loaded meta data with 1 key-value pairs and 2 tensors from a (version GGUF V3 (latest))\n"),
    );
    assert!(whole.loads[0].is_ready);
}

#[test]
fn rows_of_the_fits_own_program_are_read() {
    let load = load("CUDA0 16386 4950 495\nHost 682 0 276\n");
    assert_eq!(load.fit.printed["CUDA0"], (16_386, 4950, 495));
    assert_eq!(load.fit.printed["Host"], (682, 0, 276));
}

#[test]
fn the_loader_tells_the_model() {
    let load = load(
        "llama_model_loader: loaded meta data with 36 key-value pairs and 292 tensors from /m/hermes.gguf (version GGUF V3 (latest))\n\
         print_info: file type   = Q4_0\n\
         print_info: file size   = 4.33 GiB (4.64 BPW) \n\
         llama_prepare_model_devices: using device CUDA0 (NVIDIA GeForce RTX 2060) (0000:2b:00.0) - 5141 MiB free\n\
         print_info: arch                  = llama\n\
         print_info: n_ctx_train           = 131072\n\
         print_info: n_layer               = 32\n\
         print_info: general.name          = Hermes 3 Llama 3.1 8B\n\
         load_tensors: offloaded 15/33 layers to GPU\n\
         load_tensors:   CPU_Mapped model buffer size =  2676.44 MiB\n",
    );
    let model = &load.models[0];
    assert_eq!((model.path.as_deref(), model.tensors, model.blocks), (Some("/m/hermes.gguf"), Some(292), Some(32)));
    assert_eq!((model.name.as_deref(), model.file_type.as_deref()), (Some("Hermes 3 Llama 3.1 8B"), Some("Q4_0")));
    assert_eq!((model.file_size, model.offloaded), (Some(Mib(4433.92)), Some((15, 33))));
    let device = &load.devices[0];
    assert_eq!((device.free, device.bus.as_deref()), (Some(Mib(5141.0)), Some("0000:2b:00.0")));
}

/// An Ollama log from its start on: two requests for one model, then another model; trials with nothing on the GPU.
const SERVER_LOG: &str = r#"time=2026-06-28T20:50:00.000+02:00 level=INFO source=routes.go:1800 msg="Listening on 127.0.0.1:11434 (version 0.30.8)"
time=2026-06-28T20:50:00.100+02:00 level=INFO source=types.go:42 msg="inference compute" id=GPU-1 filter_id="" library=CUDA compute=7.5 name=CUDA0 description="NVIDIA GeForce RTX 2060" libdirs=ollama driver=13.0 pci_id=0000:2b:00.0 type=discrete total="5.6 GiB" available="5.0 GiB"
time=2026-06-28T20:51:02.166+02:00 level=INFO source=server.go:109 msg="using llama-server for model" model=/blobs/sha256-c8
time=2026-06-28T20:51:02.167+02:00 level=INFO source=llama_server.go:406 msg="starting llama-server" cmd="/usr/lib/ollama/llama-server --model /blobs/sha256-c8 --port 42103 --no-webui -c 32768 -np 1 --log-verbosity 4 --flash-attn auto -b 512 -ub 512"
time=2026-06-28T20:51:02.167+02:00 level=INFO source=sched.go:630 msg="gpu memory" id=0 library=CUDA available="4.6 GiB" free="5.0 GiB" minimum="457.0 MiB" overhead="0 B"
common_params_print_info: build 1 (74ade5274) with GNU 16.1.1 for Linux x86_64
device_info:
  - CPU     : AMD Ryzen 7 5700X 8-Core Processor (64220 MiB, 64220 MiB free)
  - CUDA0   : NVIDIA GeForce RTX 2060 (5738 MiB, 5141 MiB free)
srv    load_model: loading model '/blobs/sha256-c8'
common_params_fit_impl: getting device memory data for initial parameters:
time=2026-06-28T20:51:02.671+02:00 level=INFO source=llama_server.go:1189 msg="waiting for llama-server to become available" status="llm server loading model"
common_memory_breakdown_print: |   - CUDA0 (RTX 2060)   |  5738 = 5141 + (8392 =  4155 +    4096 +     140) +       -7794 |
common_memory_breakdown_print: |   - Host               |                  329 =   281 +       0 +      48                |
common_params_fit_impl: projected to use 8392 MiB of device memory vs. 5141 MiB of free device memory
common_params_fit_impl: cannot meet free memory target of 1024 MiB, need to reduce device memory by 4274 MiB
common_params_fit_impl: context size set by user to 32768 -> no change
common_memory_breakdown_print: |   - CUDA0 (RTX 2060)   |  5738 = 5141 + ( 248 =     0 +       0 +     248) +         349 |
common_memory_breakdown_print: |   - Host               |                 8581 =  4437 +    4096 +      48                |
common_params_fit_impl:   - CUDA0 (NVIDIA GeForce RTX 2060): 15 layers,   4089 MiB used,   1052 MiB free
common_fit_params: successfully fit params to free device memory
common_fit_params: fitting params to free memory took 7.39 seconds
llama_model_loader: loaded meta data with 36 key-value pairs and 292 tensors from /blobs/sha256-c8 (version GGUF V3 (latest))
print_info: file type   = Q4_0
print_info: n_layer               = 32
load_tensors: loading model tensors, this can take a while... (mmap = true, direct_io = false)
load_tensors: offloaded 15/33 layers to GPU
load_tensors:   CPU_Mapped model buffer size =  2676.44 MiB
load_tensors:        CUDA0 model buffer size =  2049.43 MiB
llama_context: constructing llama_context
llama_context: n_seq_max     = 1
llama_context: n_ctx         = 32768
llama_context: flash_attn    = auto
llama_context:  CUDA_Host  output buffer size =     0.49 MiB
llama_kv_cache:        CPU KV buffer size =  2304.00 MiB
llama_kv_cache:      CUDA0 KV buffer size =  1792.00 MiB
llama_kv_cache: size = 4096.00 MiB ( 32768 cells,  32 layers,  1/1 seqs), K (f16): 2048.00 MiB, V (f16): 2048.00 MiB
sched_reserve: Flash Attention was auto, set to enabled
sched_reserve:      CUDA0 compute buffer size =   248.00 MiB
[GIN] 2026/06/28 - 20:51:49 | 200 | 48.569353619s |       127.0.0.1 | GET      "/api/ps"
sched_reserve:  CUDA_Host compute buffer size =    48.01 MiB
sched_reserve: reserve took 21.90 ms, sched copies = 1
srv    load_model: prompt cache is enabled, size limit: 8192 MiB
srv  llama_server: model loaded
time=2026-06-28T20:51:17.534+02:00 level=INFO source=llama_server.go:1201 msg="llama-server started in 15.37 seconds"
time=2026-06-28T20:51:17.595+02:00 level=INFO source=images.go:354 msg="template selection" model=registry.ollama.ai/library/hermes3:8b selected=go_template
time=2026-06-28T20:51:17.595+02:00 level=INFO source=llama_server.go:1201 msg="llama-server started in 15.43 seconds"
time=2026-06-28T20:58:02.167+02:00 level=INFO source=llama_server.go:406 msg="starting llama-server" cmd="/usr/lib/ollama/llama-server --model /blobs/sha256-d9 -c 4096"
"#;

#[test]
fn a_servers_log_tells_all_of_a_load() {
    let seen = Observation::of(SERVER_LOG);
    assert_eq!((seen.loads.len(), seen.chosen), (2, Some(0)));
    assert_eq!(seen.loads[1].asked.as_deref(), Some("/blobs/sha256-d9"));
    let load = &seen.loads[0];
    assert_eq!((load.program, load.version.as_deref()), (Some(Program::Ollama), Some("0.30.8")));
    assert_eq!(
        (load.asked.as_deref(), load.layers_on_gpus()),
        (Some("registry.ollama.ai/library/hermes3:8b"), Some((15, 33)))
    );
    assert_eq!(load.models.len(), 1);
    assert_eq!(load.models[0].path.as_deref(), Some("/blobs/sha256-c8"));
    assert_eq!((load.table_phase, load.is_trial, load.is_ready), (Some(TablePhase::Fit), false, true));
    let figures = [("CUDA0", Term::Model, 2049.43), ("CUDA0", Term::Kv, 1792.0), ("CUDA0", Term::Compute, 248.0)];
    for (device, part, mib) in
        figures.into_iter().chain([("CPU", Term::Kv, 2304.0), ("CUDA_Host", Term::Compute, 48.01)])
    {
        assert_eq!(term(load, device, part), Some(mib), "{device} {part:?}");
    }
    let settings = &load.settings;
    assert_eq!((settings.flash_attn, settings.flash_attn_in_use), (Some(FlashAttn::Auto), Some(true)));
    assert_eq!(
        (settings.cache_type_k, settings.sched_copies, settings.cache_ram),
        (Some(CacheType::F16), Some(1), Some(8192))
    );
    assert_eq!((load.fit.projected, load.fit.target, load.fit.margin), (Some(8392), Some(1024), None));
    assert_eq!((load.fit.layers["CUDA0"].layers, load.fit.layers["CUDA0"].used), (15, 4089));
    let gpu = load.devices.iter().find(|device| device.name == "CUDA0").unwrap();
    assert_eq!((gpu.total, gpu.free), (Some(Mib(5738.0)), Some(Mib(5141.0))));
    assert_eq!(seen.missing, []);
}

#[test]
fn a_trial_without_memory_is_known_by_its_word() {
    let lines = |no_alloc: u8, kv: f64| {
        format!(
            "llama_model_loader: loaded meta data with 36 key-value pairs and 292 tensors from /m/a.gguf (version GGUF V3 (latest))\n\
             print_info: no_alloc              = {no_alloc}\n\
             load_tensors: loading model tensors, this can take a while... (load_mode = mmap)\n\
             load_tensors:        CUDA0 model buffer size =    37.86 MiB\n\
             llama_kv_cache:      CUDA0 KV buffer size =   {kv:.2} MiB\n\
             sched_reserve:      CUDA0 compute buffer size =    24.91 MiB\n"
        )
    };
    assert!(load(&lines(1, 0.0)).is_trial);
    let both = load(&(lines(1, 0.0) + &lines(0, 24.0)));
    assert!(!both.is_trial);
    assert_eq!((both.models.len(), term(&both, "CUDA0", Term::Model)), (1, Some(37.86)));
    assert_eq!((term(&both, "CUDA0", Term::Kv), term(&both, "CUDA0", Term::Compute)), (Some(24.0), Some(24.91)));
}

#[test]
fn lm_studios_estimate_is_read_in_one_line_or_several() {
    let heading = "Model load size estimate with raw num offload layers 'max' and context length '8192':";
    for text in [
        format!("{heading} Model: 14.87 GB Context: 936.03 MB Total: 15.81 GB\n"),
        format!(
            "[2026-01-07 17:36:54][DEBUG][LM Studio] {heading}\n  Model: 14.87 GB\n  Context: 936.03 MB\n  Total: 15.81 GB\n"
        ),
    ] {
        let event = Event::OwnEstimate { model: Mib(14_181.14), context: Mib(892.67) };
        assert_eq!(load(&text).events, [event], "{text}");
    }
}

#[rstest]
#[case(
    "ds4: memory: KV 7.15 GiB (raw 0.10 + compressed 7.05) + buffers 1.05 GiB + resident model 90.88 GiB = 99.09 GiB planned\n\
     ds4: memory detail: ctx=550000 prefill_cap=1024 raw_kv_rows=1280\n",
    Program::Ds4,
    &[("KV cache", 7321.6), ("buffers", 1075.2), ("resident model", 93_061.12), ("planned in all", 101_468.16)],
    Some(550_000)
)]
#[case(
    "0712 13:00:04 ds4-server: context buffers 21302.79 MiB (ctx=1000000, backend=cuda, prefill_chunk=4096, raw_kv_rows=4352, \
     compressed_kv_rows=250002)\n",
    Program::Ds4,
    &[("context buffers", 21_302.79)],
    Some(1_000_000)
)]
#[case(
    "Memory required for model tensors + cache: 32568 MiB\nMemory available on all devices - compute: 3622 MiB\n",
    Program::IkLlamaCpp,
    &[("required for tensors and cache", 32_568.0), ("available besides compute", 3622.0)],
    None
)]
fn figures_that_only_one_program_has_are_read(
    #[case] text: &str,
    #[case] program: Program,
    #[case] figures: &[(&str, f64)],
    #[case] n_ctx: Option<u64>,
) {
    let seen = Observation::of(text);
    let load = seen.load().unwrap();
    let told: Vec<(&str, f64)> = load.figures().into_iter().map(|(of, size)| (of, size.0)).collect();
    assert_eq!((load.program, told.as_slice(), load.settings.n_ctx), (Some(program), figures, n_ctx));
    assert!(seen.missing.contains(&Missing::OnlyOwn), "{:?}", seen.missing);
}

#[test]
fn types_of_a_fork_and_of_ik_llama_cpps_caches_are_read() {
    let text = "llm_load_tensors:      CUDA0 buffer size =  4155.99 MiB\n\
        llama_kv_cache_init:      CUDA0 KV buffer size =    34.31 MiB\n\
        llama_init_from_model: KV self size  =   34.31 MiB, c^KV (q6_0):   34.31 MiB, kv^T: not used\n\
        llama_init_from_model:      CUDA0 compute buffer size =   292.00 MiB\n";
    assert_eq!(load(text).settings.cache_type_k.map(|ty| ty.to_string()).as_deref(), Some("q6_0"));
    let text = "llama_kv_cache: size =   28.12 MiB (2304 cells, 16 layers, 1/1 seqs), K (turbo3):   14.06 MiB, V (turbo3):   14.06 MiB\n";
    let settings = load(text).settings;
    assert_eq!(settings.cache_type_v.map(|ty| ty.to_string()).as_deref(), Some("turbo3"));
}

#[test]
fn lines_are_counted_as_an_editor_does() {
    let text = "first\r\nprogress 1\rprogress 2\r\nllama_context: n_ctx = 4096\r\n";
    assert_eq!(load(text).line, 3);
}

#[test]
fn a_routers_instances_have_their_commands() {
    let text = "0.01.000.100 I srv          load: spawning server instance with name=gemma on port 41000\n\
        0.01.000.110 I srv          load: spawning server instance with args:\n\
        0.01.000.111 I srv          load:   /bin/llama-server\n\
        0.01.000.112 I srv          load:   --ctx-size\n\
        0.01.000.113 I srv          load:   8192\n\
        0.01.000.113 I srv          load:   --model\n\
        0.01.000.113 I srv          load:   ./my models/gemma.gguf\n\
        0.01.000.200 I srv  ensure_model: waiting until model name=gemma is fully loaded...\n\
        [41000] 0.00.200.000 I load_tensors:        CUDA0 model buffer size =    37.86 MiB\n\
        0.02.000.100 I srv          load: spawning server instance with name=lite on port 823\n\
        [41000] 0.00.300.000 I llama_kv_cache:      CUDA0 KV buffer size =    24.00 MiB\n\
        [  823] 0.00.200.000 I load_tensors:        CUDA0 model buffer size =    10.00 MiB\n\
        [41000] 0.00.400.000 I sched_reserve:      CUDA0 compute buffer size =    24.91 MiB\n";
    let seen = Observation::of(text);
    let told: Vec<_> = seen.loads.iter().map(|load| (load.writer.as_deref(), load.asked.as_deref())).collect();
    assert_eq!(told, [(Some("41000"), Some("./my models/gemma.gguf")), (Some("823"), Some("lite"))]);
    assert_eq!((seen.chosen, seen.loads[0].settings.n_ctx), (Some(0), Some(8192)));
    assert_eq!(term(&seen.loads[0], "CUDA0", Term::Compute), Some(24.91));
    assert_eq!(term(&seen.loads[1], "CUDA0", Term::Model), Some(10.0));
}

#[test]
fn devices_of_a_list_are_read() {
    let load = load("Available devices:\n  CUDA0: NVIDIA GeForce RTX 3060 (12288 MiB, 11000 MiB free)\n");
    assert_eq!((load.devices[0].name.as_str(), load.devices[0].free), ("CUDA0", Some(Mib(11_000.0))));
}

#[test]
fn llama_cpps_own_old_names_are_not_its_forks() {
    let weights = "llm_load_tensors:      ROCm0 buffer size =  1832.60 MiB\n";
    let context = "llama_new_context_with_model:      ROCm0 compute buffer size =   157.00 MiB\n";
    assert_eq!(load(weights).program, Some(Program::IkLlamaCpp));
    let old = load(&(weights.to_owned() + context));
    assert_eq!((old.program, old.older_than), (Some(Program::LlamaCpp), Some(7745)));
}

#[test]
fn what_a_server_says_of_its_slots_is_read() {
    let text = "main: n_parallel is set to auto, using n_parallel = 4 and kv_unified = true\n\
        srv    load_model: initializing slots, n_slots = 4\n\
        slot   load_model: id  0 | task -1 | new slot, n_ctx = 32768\n\
        srv    load_model: prompt cache is disabled - use `--cache-ram N` to enable it\n";
    let settings = load(text).settings;
    assert_eq!((settings.n_seq_max, settings.n_ctx_seq, settings.kv_unified), (Some(4), Some(32_768), Some(true)));
    assert_eq!(settings.cache_ram, Some(0));
}

#[test]
fn prose_is_no_buffer() {
    assert_eq!(Observation::of("the KV buffer size = 5.00 MiB of it\nA model buffer size = 1.00 MiB\n").loads, []);
}

#[test]
fn a_pipeline_that_is_given_up_is_no_failure() {
    let text = "0.00.001.000 I common_params_print_info: build 3 (abcdef0)\n\
        load_tensors: CUDA0 model buffer size = 12544.75 MiB\n\
        llama_context: n_ctx = 131072\n\
        llama_context: pipeline parallelism enabled\n\
        sched_reserve: reserving ...\n\
        ggml_backend_cuda_buffer_type_alloc_buffer: allocating 808.35 MiB on device 0: cudaMalloc failed: out of memory\n\
        ggml_gallocr_reserve_n_impl: failed to allocate CUDA0 buffer of size 847618048\n\
        graph_reserve: failed to allocate compute buffers\n";
    let again = "sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism\n\
        sched_reserve: CUDA0 compute buffer size = 408.09 MiB\n";
    let refused = load(text);
    assert!(refused.events.iter().any(|event| matches!(event, Event::OutOfMemory { .. })));
    let seen = Observation::of(&(text.to_owned() + again));
    let load = seen.load().unwrap();
    assert!(!load.events.iter().any(|event| matches!(event, Event::OutOfMemory { .. })), "{:?}", load.events);
    assert!(load.events.contains(&Event::PipelineGivenUp));
    assert!(!seen.missing.contains(&Missing::Failed));
    assert_eq!(term(load, "CUDA0", Term::Compute), Some(408.09));
    // the second reservation may be refused as well
    let failed = Observation::of(&(text.to_owned() + again + "failed to allocate CUDA1 buffer of size 847618048\n"));
    assert!(failed.missing.contains(&Missing::Failed));
}

/// The program, its version and the build, of a banner, a command or the place of a backend.
#[rstest]
#[case("Welcome to KoboldCpp - Version 1.118.1", (Some(Program::KoboldCpp), Some("1.118.1"), None))]
#[case("7:16AM INF LocalAI version: v3.8.0 (9cc8d90)", (Some(Program::LocalAi), Some("3.8.0"), None))]
#[case(
    "Aug 22 22:44:03 INFO  LocalAI version version=\"v4.9.0 (82c191a)\"",
    (Some(Program::LocalAi), Some("4.9.0"), None)
)]
#[case(
    "/home/me/.lmstudio/extensions/backends/llama.cpp-linux-x86_64-nvidia-cuda12-avx2-2.41.0/llama-server --model /m/a.gguf",
    (Some(Program::LmStudio), Some("2.41.0"), None)
)]
#[case(
    "load_backend: loaded Vulkan backend from C:\\Users\\me\\.lmstudio\\extensions\\backends\\llama.cpp-win-x86_64-vulkan-avx2-2.47.0\\ggml-vulkan.dll",
    (Some(Program::LmStudio), Some("2.47.0"), None)
)]
#[case(
    "[2026-07-06][19:20:50][plugin::commands][INFO] [llamacpp] load_backend: loaded Metal backend from /Users/me/Library/Application Support/Jan/data/llamacpp/backends/b9967/macos-arm64/build/bin/libggml-metal.dylib",
    (Some(Program::LlamaCpp), None, Some(9_967))
)]
#[case(
    "\"C:\\Jan\\data\\llamacpp\\backends\\b9967\\win-cuda-13-common_cpus-x64\\build\\bin\\llama-server.exe\" -m C:\\m\\a.gguf",
    (Some(Program::LlamaCpp), None, Some(9_967))
)]
#[case("/opt/llama-b10830-bin-ubuntu-vulkan-x64/llama-server -m /m/a.gguf", (Some(Program::LlamaCpp), None, Some(10_830)))]
#[case("/usr/local/bin/llama-server -m /m/b9999/a.gguf", (None, None, None))]
#[case("version: 0.3.0-dev (build 10621, commit c1d0e7a00)", (Some(Program::LlamaCpp), None, Some(10_621)))]
fn a_program_and_its_llama_cpp_are_told_apart(
    #[case] line: &str,
    #[case] told: (Option<Program>, Option<&str>, Option<u64>),
) {
    let load = load(&format!("{line}\n  Device 0: NVIDIA A10, compute capability 8.6, VMM: yes, VRAM: 22731 MiB\n"));
    assert_eq!((load.program, load.version.as_deref(), load.build), told, "{line}");
}

#[test]
fn a_folder_says_more_than_a_distributors_count() {
    let of = |build: u64| {
        let folder = "load_backend: loaded CPU backend from /opt/llama-b10830/libggml-cpu.so";
        load(&format!("{folder}\n{}", small(build, 24.0))).build
    };
    assert_eq!((of(1), of(10_900)), (Some(10_830), Some(10_900)));
}
