//! Limits against damaged and malicious headers.

/// Limits of one header. Declared sizes are checked against them, and against the rest of the file, before anything is
/// allocated or skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderLimits {
    /// Metadata keys.
    pub keys: u64,
    /// Tensors, over all shards.
    pub tensors: u64,
    /// Bytes of a key or of a tensor's name.
    pub name: u64,
    /// Bytes of a string value kept in memory; only the position of a longer one is kept.
    pub kept_string: u64,
    /// Elements of a numeric array kept in memory; only the position of a longer one is kept.
    pub kept_elements: u64,
    /// Bytes of all names, strings and elements kept in memory.
    pub kept_bytes: u64,
    /// Elements of any array.
    pub elements: u64,
    /// Strings and arrays within arrays over the whole header: they have to be skipped one by one.
    pub steps: u64,
    /// Bytes of any string.
    pub string: u64,
    /// Nesting depth of arrays.
    pub depth: u32,
    /// Shards of a split file.
    pub shards: u64,
}

impl Default for HeaderLimits {
    /// At least ten times what published models need: the largest have some 60 keys, under 3,000 tensors, names under
    /// 64 bytes and a million tokens and merges. `elements` and `string` are llama.cpp's own
    /// (`GGUF_MAX_ARRAY_ELEMENTS`, `GGUF_MAX_STRING_LENGTH` in ggml/src/gguf.cpp, llama-cpp-sys-2 0.1.161).
    fn default() -> Self {
        Self {
            keys: 1 << 14,
            tensors: 1 << 17,
            name: 1 << 12,
            kept_string: 1 << 16,
            kept_elements: 1 << 14,
            kept_bytes: 1 << 24,
            elements: 1 << 30,
            steps: 1 << 24,
            string: 1 << 30,
            depth: 4,
            shards: 1 << 10,
        }
    }
}
