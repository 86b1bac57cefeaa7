//! Passes over the lines that no parser wants, which are most of a long log, with one look at each byte.

/// Words of which every line that [`super::said`] reads has one.
const MARKS: [&str; 51] = [
    "MiB",
    "msg=",
    "breakdown",
    "fit_params",
    "params_fit",
    "print_info: ",
    "print_meta: ",
    "loaded meta data",
    "loading model",
    "layers to GPU",
    "partial load",
    "llama_context: ",
    "llama_init_from_model: ",
    "llama_new_context_with_model: ",
    "KoboldCpp - Version",
    "system_info: ",
    "build: ",
    "main: build",
    "build_info",
    "version: ",
    "server is listening",
    ": model loaded",
    "cleaning up",
    "Autofit Re",
    "Flash Attention",
    "flash attention",
    "flash_attn",
    "missing support",
    "set to disabled",
    "pipeline parallelism",
    "full-size SWA",
    "allocation limit",
    "preferred buffer type",
    "out of memory",
    "OutOfDeviceMemory",
    "failed to ",
    "error loading",
    "CLIP using",
    "sched copies",
    "checkpoints enabled",
    "prompt cache is",
    "n_slots = ",
    "n_parallel is set",
    "n_ctx_slot = ",
    "new slot, n_ctx",
    "reserving a graph",
    "Model load size",
    "Model: ",
    "Context: ",
    "llama-",
    "koboldcpp",
];

/// Whether a line may have one of the words: false only if it has none.
pub(super) fn any(text: &str) -> bool {
    let mut pairs = [0_u64; 16];
    let mut last = 0;
    for byte in text.bytes() {
        if let Some(bits) = pairs.get_mut(place(last, byte) / 64) {
            *bits |= 1 << (place(last, byte) % 64);
        }
        last = byte;
    }
    let has = |pair: &[u8]| match *pair {
        [a, b] => pairs.get(place(a, b) / 64).is_some_and(|bits| bits >> (place(a, b) % 64) & 1 == 1),
        _ => true,
    };
    MARKS.iter().any(|mark| mark.as_bytes().windows(2).all(has))
}

/// The bit of a pair of bytes, of 1,024.
const fn place(a: u8, b: u8) -> usize {
    ((a as usize) << 5 ^ b as usize) & 1023
}
