//! The caches as JSON and as Markdown.
#![allow(clippy::format_push_string, reason = "written once; readability wins")]

use serde_json::{Value, json};

use super::{BlockKind, BlockMemory, CachesPage, CellCache, StateCache};
use crate::units::{Bytes, Tokens};

impl CachesPage {
    /// `{"kinds":[…],"stores":[…],"states":[…],"formats":[…],"planned","llama_cpp","ollama_engine"}`, sizes in bytes.
    pub fn json(&self) -> Value {
        let mut page = json!({ "page": "cache" });
        if let (Value::Object(page), Ok(Value::Object(own))) = (&mut page, serde_json::to_value(self)) {
            page.extend(own);
        }
        page
    }

    /// What is planned for the model, and for its draft.
    pub fn planned_phrase(&self) -> String {
        let draft = self.draft.map_or_else(String::new, |draft| format!(", and {draft} for the draft"));
        format!("{}{draft}", self.planned)
    }

    /// The number of sequences and their context.
    fn sequences_phrase(&self) -> String {
        let tokens = Tokens(self.context);
        match (self.sequences, self.unified) {
            (1, _) => format!("One sequence of {tokens} tokens"),
            (sequences, true) => format!("{sequences} sequences sharing {tokens} tokens"),
            (sequences, false) => format!("{sequences} sequences of {tokens} tokens each"),
        }
    }

    /// Tables of the kinds of blocks by engine, of the caches, and of the cache types.
    pub fn markdown(&self) -> String {
        let (phrase, planned) = (self.sequences_phrase(), self.planned_phrase());
        let mut out = format!("# What the model caches\n\n{phrase}; planned: {planned}.\n\n");
        out += "| blocks | each stores | per token | planned | llama.cpp | Ollama engine |\n";
        out += "| ---: | --- | ---: | ---: | ---: | ---: |\n";
        for kind in &self.kinds {
            let per_token = match kind.keeps {
                BlockMemory::Tokens { per_token, .. } => per_token.to_string(),
                _ => "—".to_owned(),
            };
            let or_none = |bytes: Option<Bytes>| bytes.map_or_else(|| "—".to_owned(), |bytes| bytes.to_string());
            out += &format!(
                "| {} | {} | {per_token} | {} | {} | {} |\n",
                kind.blocks.len(),
                kind.description(),
                kind.planned,
                or_none(kind.llama_cpp),
                or_none(kind.ollama_engine.map(|own| own.bytes())),
            );
        }
        if !self.stores.is_empty() {
            out += "\n| cells of | blocks | cells per stream | streams | window | bytes |\n";
            out += "| --- | ---: | ---: | ---: | ---: | ---: |\n";
        }
        for CellCache { whose, blocks, size, streams, window, bytes, .. } in &self.stores {
            let window = window.map_or_else(|| "—".to_owned(), |window| Tokens(window).to_string());
            out += &format!("| {} | {blocks} | {} | {streams} | {window} | {bytes} |\n", whose.title(), Tokens(*size));
        }
        if !self.states.is_empty() {
            out += "\n| states of | blocks | sequences | bytes per sequence | bytes |\n| --- | ---: | ---: | ---: | ---: |\n";
        }
        for state in &self.states {
            let StateCache { whose, blocks, sequences, bytes } = state;
            out += &format!("| {} | {blocks} | {sequences} | {} | {bytes} |\n", whose.title(), state.of_sequence());
        }
        out += "\n| type | block size | bytes per block | relative to f16 |\n| --- | ---: | ---: | ---: |\n";
        for format in &self.formats {
            let mark = if format.in_use { " (in use)" } else { "" };
            out += &format!("| {}{mark} | {} | {} | {} |\n", format.ty, format.block, format.bytes, format.share);
        }
        out
    }
}

impl BlockKind {
    /// What each of these blocks caches, in a few words.
    pub fn description(&self) -> String {
        match self.keeps {
            BlockMemory::Tokens { attention, heads, kv_heads, k, v, window, .. } => {
                let heads = match heads {
                    0 => String::new(),
                    heads => format!(", {heads} Q heads, {kv_heads} KV heads"),
                };
                let values = v.map_or_else(|| "no separate V".to_owned(), |v| format!("V {v}"));
                let window = if window { ", sliding window" } else { "" };
                format!("{attention:?}{heads}: K {k}, {values}{window}")
            }
            BlockMemory::State { bytes } => format!("a state of {bytes} per sequence, whatever its length"),
            BlockMemory::Shared { owner } => format!("uses the cache of block {owner}"),
            BlockMemory::Nothing => "nothing".to_owned(),
        }
    }
}
