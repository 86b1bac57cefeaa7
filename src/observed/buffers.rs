//! Lines that say how large a buffer is: `load_tensors:        CUDA0 model buffer size = 16386.94 MiB`.

use super::{Buffers, Mib, Term, limits, scan};

/// A line that says how large a buffer is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BufferLine<'a> {
    /// The function that says it.
    pub function: &'a str,
    /// The device's buffer type: `CUDA0`, `CPU_Mapped`.
    pub device: &'a str,
    /// What it is for.
    pub term: Term,
    /// Its size.
    pub mib: Mib,
}

/// A buffer's line of any version since mid-2025, llama.cpp's forks included. The destructor of a context prints what
/// looks alike, with `~` before its name or without `=`.
pub(super) fn read(text: &str) -> Option<BufferLine<'_>> {
    let (head, tail) = text.split_once("buffer size")?;
    let (mib, _) = scan::mib(tail.trim_start().strip_prefix('=')?)?;
    let (head, word) = last_word(head)?;
    let (head, device, term) = match word {
        "model" => with_device(head, Term::Model)?,
        "KV" => with_device(head, Term::Kv)?,
        "RS" => with_device(head, Term::Rs)?,
        "compute" => with_device(head, Term::Compute)?,
        "output" => with_device(head, Term::Output)?,
        "LoRA" => with_device(head, Term::Lora)?,
        // `DSV4 csa state`
        "state" => with_device(last_word(last_word(head)?.0)?.0, Term::State)?,
        // `llm_load_tensors:      CUDA0 buffer size`, ik_llama.cpp
        device => (head, device, Term::Model),
    };
    // somebody may have taken the function off
    let function = if head.trim().is_empty() && is_device(device) { "" } else { function(head)? };
    let term = match function {
        "alloc_compute_meta" | "reserve_compute_meta" => Term::ProjectorCompute,
        _ if word == device && !function.ends_with("load_tensors") => return None,
        _ => term,
    };
    Some(BufferLine { function, device: plain_device(device)?, term, mib })
}

/// A device's name without the address of an RPC server.
fn plain_device(name: &str) -> Option<&str> {
    let name = if name.ends_with(']') { name.split('[').next()? } else { name };
    (!name.is_empty() && name.len() <= 64).then_some(name)
}

fn with_device(head: &str, term: Term) -> Option<(&str, &str, Term)> {
    last_word(head).map(|(head, device)| (head, device, term))
}

/// The last word, and what stands before it.
fn last_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_end();
    let start = text.rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
    let (head, word) = text.split_at_checked(start)?;
    (!word.is_empty()).then_some((head, word))
}

/// Whether a word looks like a backend's device: `CUDA0`, `RPC0[::1:50052]`, `CPU_Mapped`.
fn is_device(word: &str) -> bool {
    let name = word.split('[').next().unwrap_or(word);
    let upper = name.starts_with(|c: char| c.is_ascii_uppercase());
    upper && (name == "CPU" || name.contains('_') || name.ends_with(|c: char| c.is_ascii_digit()))
}

/// The name of the function before a colon at the end; none for a destructor.
fn function(head: &str) -> Option<&str> {
    let head = head.trim_end().strip_suffix(':')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = head.get(head.trim_end_matches(is_name).len()..)?;
    let before = head.get(..head.len() - name.len())?;
    (!name.is_empty() && !before.ends_with('~')).then_some(name)
}

/// Adds to a term of a device; of more devices than anybody has, the rest is passed over.
pub(super) fn add(buffers: &mut Buffers, device: &str, term: Term, mib: Mib) {
    if buffers.contains_key(device) || buffers.len() < limits::DEVICES {
        let terms = buffers.entry(device.to_owned()).or_default();
        let sum = terms.entry(term).or_default();
        *sum = sum.plus(mib);
    }
}

/// Adds every term of every device.
pub(super) fn sum(into: &mut Buffers, from: &Buffers) {
    for (device, terms) in from {
        for (&term, &mib) in terms {
            add(into, device, term, mib);
        }
    }
}
