//! Variables of llama-server, which inherits Ollama's environment. Names: `common/arg.cpp`, 0.1.161.

use super::{Flag, Settings, VariableMeaning};
use crate::units::Bytes;

/// What the prompt cache may grow to unless `--cache-ram` says otherwise (`common/common.h`, `cache_ram_mib`, 0.1.161).
pub const PROMPT_CACHE: Bytes = Bytes::mib(8192);

/// Checkpoints that it keeps per sequence unless `--ctx-checkpoints` says otherwise (`common/common.h`, `n_ctx_checkpoints`,
/// 0.1.161).
pub const CHECKPOINTS: u64 = 32;

/// The variables for what `settings` ask of llama-server and Ollama has no option for.
pub fn llama_server_variables(settings: &Settings) -> Vec<(&'static str, String)> {
    // a type of both is Ollama's own variable
    let has_own = |flag: &Flag| flag.row().ollama.is_some() && settings.cache_type_k == settings.cache_type_v;
    let variables = Flag::ALL.iter().filter(|flag| !has_own(flag)).flat_map(|&flag| {
        let written = flag.write(settings);
        flag.row().variables.iter().filter_map(move |variable| {
            let value = written.clone()?;
            let value = match variable.means {
                VariableMeaning::Value if value.is_empty() => "1".to_owned(),
                VariableMeaning::Value => value,
                VariableMeaning::Not => "0".to_owned(),
                VariableMeaning::Presence | VariableMeaning::Read | VariableMeaning::Passed => return None,
            };
            Some((variable.name, value))
        })
    });
    variables.collect()
}
