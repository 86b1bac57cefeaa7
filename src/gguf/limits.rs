//! How much a file may ask of us before it is refused.

/// Budgets of one header. What a header declares is checked against them, and against what is left of the file,
/// before anything is allocated or skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderLimits {
    /// Metadata keys.
    pub keys: u64,
    /// Tensors, over all shards.
    pub tensors: u64,
    /// Bytes of a key or of a tensor's name.
    pub name: u64,
    /// Bytes of a string value that is kept; a longer one is left in the file.
    pub kept_string: u64,
    /// Elements of a numeric array that is kept; a longer one is left in the file.
    pub kept_elements: u64,
    /// Bytes of names, strings and elements that are kept, together.
    pub kept_bytes: u64,
    /// Elements of any array.
    pub elements: u64,
    /// Strings in arrays and arrays in arrays, over the whole header: they have to be passed one by one.
    pub steps: u64,
    /// Bytes of any string.
    pub string: u64,
    /// Arrays inside arrays.
    pub depth: u32,
    /// Shards of a split file.
    pub shards: u64,
}

impl Default for HeaderLimits {
    /// Wide enough for every published model by a factor of ten or more: the largest have some 60 keys, under 3,000
    /// tensors, names under 64 bytes and a million tokens and merges. `elements` and `string` are llama.cpp's own (`GGUF_MAX_ARRAY_ELEMENTS`,
    /// `GGUF_MAX_STRING_LENGTH` in ggml/src/gguf.cpp, llama-cpp-sys-2 0.1.161).
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
