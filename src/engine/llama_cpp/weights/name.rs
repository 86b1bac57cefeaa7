//! Names of tensors.

use std::borrow::Cow;

/// Splits `blk.7.attn_q.weight` into 7 and `attn_q.weight`. A decoder's tensors have the names of other models', an
/// encoder's begin with `enc.`.
pub(in crate::engine::llama_cpp) fn split_block(name: &str) -> (Option<usize>, Cow<'_, str>) {
    let (encoder, own) = match name.strip_prefix("enc.") {
        Some(own) => (true, own),
        None => (false, name.strip_prefix("dec.").unwrap_or(name)),
    };
    let block = own.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    let block = block.and_then(|(number, rest)| Some((number.parse().ok()?, rest)));
    match block {
        Some((number, rest)) if encoder => (Some(number), Cow::Owned(format!("enc.{rest}"))),
        Some((number, rest)) => (Some(number), Cow::Borrowed(rest)),
        None => (None, Cow::Borrowed(if encoder { name } else { own })),
    }
}
