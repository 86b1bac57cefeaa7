//! Plans of MLX as the commands of mlx-lm.

use super::{ExportInput, ModelLocation};
use crate::engine::EngineId;
use crate::model::mixture::Quantisation;
use crate::text::{shell_word, without_secrets};

/// Why no container is written.
pub(super) const NO_CONTAINER: &str =
    "MLX reaches a Mac's GPU from no container: use --as llama-server for the command of mlx_lm.server";
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
    let named = match input.location {
        ModelLocation::File(path) => path.clone(),
        ModelLocation::HuggingFace(name) | ModelLocation::Ollama(name) | ModelLocation::Unknown(name) => {
            without_secrets(name)
        }
        ModelLocation::Url(address) => address.clone(),
    };
    let mut lines =
        String::from("# planned for mlx-lm 0.32; nothing is allocated ahead, and no option limits the context\n");
    let mut model = named.clone();
    if let Some(quant) = request.settings.quant {
        let from = named.strip_suffix(&format!(" as {quant}")).unwrap_or(&named).to_owned();
        model = format!("{}-{quant}", from.rsplit(['/', '\\', ':']).next().unwrap_or(&from));
        let words = [from.as_str(), "--mlx-path", model.as_str()].map(shell_word).join(" ");
        lines += &format!("# once: mlx_lm.convert --hf-path {words}{}\n", convert_options(quant));
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
fn convert_options(quant: Quantisation) -> String {
    let name = quant.name().to_ascii_lowercase();
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
