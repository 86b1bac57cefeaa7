//! Plans of MLX as the commands of mlx-lm.

use super::{ExportInput, ModelLocation};
use crate::engine::EngineId;
use crate::text::{one_line, shell_word, without_secrets};

/// Why no container is written.
pub(super) const NO_CONTAINER: &str =
    "MLX reaches a Mac's GPU from no container: use --as llama-server for the command of mlx_lm.server";
/// What stands for original weights that are known to be nowhere.
const ORIGINAL: &str = "ORIGINAL";
/// Tokens of a chunk of the prompt, which need not be said: `--prefill-step-size`, mlx-lm 0.32.2.
const CHUNK: u64 = 2048;

/// The command of mlx-lm's server, after that of the conversion where the plan is of a mode that was asked for.
///
/// # Errors
/// If Ollama runs the plan, which needs no command.
pub(super) fn command(input: &ExportInput<'_>) -> Result<String, String> {
    let (request, plan) = (input.request, input.plan);
    if plan.engine == EngineId::Ollama {
        return Err("Ollama starts its MLX runner itself: use one of modelfile, options, env".to_owned());
    }
    // of any other name no program but this one knows where the original weights are
    let (known, title) = match input.location {
        ModelLocation::File(path) => (Some(path.clone()), path.as_str()),
        ModelLocation::HuggingFace(name) => {
            let name = name.split(':').next().unwrap_or(name);
            (Some(without_secrets(name)), name)
        }
        ModelLocation::Url(address) => (Some(address.clone()), address.as_str()),
        ModelLocation::Ollama(name) | ModelLocation::Unknown(name) => (None, name.as_str()),
    };
    let mut lines =
        String::from("# planned for mlx-lm 0.32; nothing is allocated ahead, and no option limits the context\n");
    if known.is_none() {
        lines += &format!(
            "# {ORIGINAL} is the original weights' repository on Hugging Face, or their folder: none is known here of {}\n",
            one_line(&request.opened.name)
        );
    }
    let asked = request.model.mlx.as_ref().and_then(|mlx| mlx.asked);
    let mut model = known.clone().unwrap_or_else(|| ORIGINAL.to_owned());
    if let Some(mode) = asked {
        let title = without_secrets(title);
        let title = title.split('@').next().unwrap_or(&title).trim_end_matches(['/', '\\']);
        model = format!("{}-{mode}", title.rsplit(['/', '\\']).next().unwrap_or(title).replace(':', "-"));
        let from = known.unwrap_or_else(|| ORIGINAL.to_owned());
        let words = [from.as_str(), "--mlx-path", model.as_str()].map(shell_word).join(" ");
        lines += &format!("# once: mlx_lm.convert --hf-path {words}{}\n", convert_options(mode));
    }
    let mut words = vec!["mlx_lm.server".to_owned(), "--model".to_owned(), shell_word(&model)];
    let effect = &plan.settings;
    if effect.batch != CHUNK {
        words.extend(["--prefill-step-size".to_owned(), effect.batch.to_string()]);
    }
    let bits = match effect.cache_type_k.to_string().as_str() {
        "q8_0" => Some("8"),
        "q4_0" => Some("4"),
        _ => None,
    };
    words.extend(bits.into_iter().flat_map(|bits| ["--kv-bits".to_owned(), bits.to_owned()]));
    words.extend(["--decode-concurrency".to_owned(), effect.parallel.to_string()]);
    Ok(lines + &words.join(" ") + "\n")
}

/// The options of `mlx_lm.convert` for a mode. Source: `convert.py`, mlx-lm 0.32.2.
fn convert_options(mode: &str) -> String {
    let name = mode.to_ascii_lowercase();
    if name.starts_with("mixed_") {
        return format!(" -q --quant-predicate {name}");
    }
    let (bits, group) = name.split_once("-g").unwrap_or((name.as_str(), "64"));
    match bits.strip_suffix("bit") {
        Some(bits) => format!(" -q --q-bits {bits} --q-group-size {group}"),
        None if name == "bf16" => String::new(),
        None => format!(" -q --q-mode {name}"),
    }
}
