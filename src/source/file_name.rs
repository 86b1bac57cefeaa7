//! What a file is, by its name alone.

/// What a projector's file has in its name.
pub(super) const PROJECTOR: &str = "mmproj";

/// Whether `file` is a projector's.
pub(super) fn is_projector(file: &str) -> bool {
    last(file).to_ascii_lowercase().contains(PROJECTOR)
}

/// Whether `file` has the ending of GGUF.
pub(super) fn is_gguf(file: &str) -> bool {
    std::path::Path::new(file).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"))
}

/// The name without its folders.
pub(super) fn last(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// Whether `file` is a model's or one of its shards.
pub(super) fn is_model(file: &str) -> bool {
    let name = last(file).to_lowercase();
    // a draft for the model of the same name begins with mtp
    is_gguf(&name) && !is_projector(&name) && !name.contains("imatrix") && !name.starts_with("mtp-")
}

/// The quantisation in the file's name, else in its folder's, else the name itself.
pub(super) fn label(stem: &str) -> String {
    let name = stem.rsplit('/').next().unwrap_or(stem);
    let mut parts = stem.rsplit('/');
    let found = parts.next().and_then(quant_in).or_else(|| parts.next().and_then(quant_in));
    found.unwrap_or(name).to_owned()
}

/// The last part of `text` that starts like a quantisation, up to the end.
fn quant_in(text: &str) -> Option<&str> {
    let starts = text.char_indices().filter(|(at, _)| *at == 0 || text[..*at].ends_with(['-', '.', '_']));
    let at = starts.map(|(at, _)| at).rfind(|at| is_quant(&text[*at..]))?;
    let before = text[..at].strip_suffix("UD-").filter(|rest| rest.is_empty() || rest.ends_with(['-', '.', '_']));
    Some(&text[before.map_or(at, str::len)..])
}

/// Characters that tell a quantisation, and what follows it.
const LONGEST_PREFIX: usize = 8;

/// Whether `text` begins with `Q4_`, `IQ2_`, `TQ1_`, `F16`, `BF16`, `F32` or `MXFP4`.
fn is_quant(text: &str) -> bool {
    let text: String = text.chars().take(LONGEST_PREFIX).map(|c| c.to_ascii_uppercase()).collect();
    let digit = |rest: &str| {
        let mut chars = rest.chars();
        chars.next().is_some_and(|c| c.is_ascii_digit()) && matches!(chars.next(), Some('_') | None)
    };
    ["IQ", "TQ", "Q"].iter().any(|start| text.strip_prefix(start).is_some_and(digit))
        || ["BF16", "F16", "F32", "FP16", "MXFP4", "NVFP4"].iter().any(|start| {
            text.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.', '_']))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("Qwen3-8B-Q4_K_M", "Q4_K_M")]
    #[case("model.q8_0", "q8_0")]
    #[case("gpt-oss-20b-mxfp4", "mxfp4")]
    #[case("M-UD-Q4_K_XL", "UD-Q4_K_XL")]
    #[case("BF16/M-BF16", "BF16")]
    #[case("UD-IQ1_S/model", "UD-IQ1_S")]
    #[case("Qwen3-8B", "Qwen3-8B")]
    #[case("llama-2-7b.Q4_0", "Q4_0")]
    fn labels_are_quantisations(#[case] stem: &str, #[case] expected: &str) {
        assert_eq!(label(stem), expected);
    }
}
