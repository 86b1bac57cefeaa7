//! The page of the caches.

use serde_json::{Value, json};

use super::super::page::{Paper, Tab, TeachPage};
use super::squares::Squares;
use super::{BlockKind, BlockMemory, CacheFormat, CachesPage, CellCache, StateCache};
use crate::page::{Bar, Block, Column, Hue, Narrow, Page, Span};
use crate::units::{Bytes, Tokens};

/// Steps of the cells that a walk shows: they are written again and again.
const ROUNDS: u64 = 48;

impl TeachPage for CachesPage {
    fn tab(&self) -> Tab {
        Tab::Caches
    }

    /// `{"kinds":[…],"stores":[…],"states":[…],"formats":[…],"planned","llama_cpp","ollama_engine"}`, sizes in bytes.
    fn json(&self) -> Value {
        json!(self)
    }

    fn printed(&self, paper: Paper) -> Page {
        self.page(paper.cells)
    }

    fn last_step(&self) -> Option<u64> {
        Some(ROUNDS)
    }
}

impl CachesPage {
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

    /// Tables of the kinds of blocks by engine, of the cells as they fill, and of the cache types, in `cells` cells.
    pub fn page(&self, cells: usize) -> Page {
        let mut page = Page::default();
        page.heading("What the model caches");
        page.text(&format!("{}; planned: {}.", self.sequences_phrase(), self.planned_phrase()), Hue::Text);
        page.blank();
        let or_none = |bytes: Option<Bytes>| bytes.map_or_else(|| "—".to_owned(), |bytes| bytes.to_string());
        let kind = |kind: &BlockKind| {
            let per_token = match kind.keeps {
                BlockMemory::Tokens { per_token, .. } => Some(per_token),
                _ => None,
            };
            let own = kind.ollama_engine.map(|own| own.bytes());
            let sizes = [per_token, Some(kind.planned), kind.llama_cpp, own].map(or_none);
            [kind.blocks.len().to_string(), kind.description()].into_iter().chain(sizes).map(Span::from).collect()
        };
        let mut columns = vec![Column::right("blocks", 0), Column::left("each stores", 0)];
        columns.extend(["per token", "planned", "llama.cpp", "Ollama engine"].map(|title| Column::right(title, 0)));
        let rows = self.kinds.iter().map(kind).collect();
        page.table(columns, rows, Narrow::Below(2));
        self.heads_onto(&mut page);
        page.heading(if self.stores.is_empty() { "States" } else { "Cells" });
        let squares = Squares { rows: PRINTED_ROWS, cells };
        let size = squares.size(self);
        if !self.stores.is_empty() {
            page.text(&Squares::scale(size, squares.steps(self, size, FILLED)), Hue::Text);
            page.blank();
        }
        squares.onto(self, size, FILLED, &mut page);
        if !self.stores.is_empty() {
            page.text(squares.legend(self), Hue::Dim);
        }
        self.stores_onto(&mut page);
        page.heading("Cache types");
        let format = |format: &CacheFormat| {
            let mark = if format.in_use { " (in use)" } else { "" };
            let CacheFormat { ty, block, bytes, share, .. } = format;
            [format!("{ty}{mark}"), block.to_string(), bytes.to_string(), share.to_string()].map(Span::from).to_vec()
        };
        let numbers = ["block size", "bytes per block", "relative to f16"];
        table("type", &numbers, self.formats.iter().map(format).collect(), &mut page);
        page
    }

    /// What a token adds to the caches of all blocks: windows do not grow with the context.
    pub fn per_token(&self) -> Option<Bytes> {
        let of = |kind: &BlockKind| match kind.keeps {
            BlockMemory::Tokens { per_token, window: false, .. } => {
                Some(Bytes(per_token.0.saturating_mul(kind.blocks.len() as u64)))
            }
            _ => None,
        };
        let all: Bytes = self.kinds.iter().filter_map(of).sum();
        (all > Bytes::ZERO).then_some(all)
    }

    /// Adds bars of the query heads, and of what is stored of a token, to one scale.
    fn heads_onto(&self, page: &mut Page) {
        let elements = |kind: &BlockKind| match kind.keeps {
            BlockMemory::Tokens { heads, kv_heads, k, v, per_token, .. } => {
                // query heads are as long as key heads
                let queries = k.checked_div(kv_heads).unwrap_or(0).saturating_mul(heads);
                Some((kind.blocks.len(), [queries, k, v.unwrap_or(0)].map(|part| part as f64), per_token))
            }
            _ => None,
        };
        let kinds: Vec<_> = self.kinds.iter().filter_map(elements).collect();
        let most = kinds.iter().map(|(_, parts, _)| parts.iter().sum::<f64>()).fold(1.0, f64::max);
        if kinds.is_empty() {
            return;
        }
        page.heading("Heads to scale: Q computes, K and V are stored");
        let bar = |(blocks, parts, per_token): (usize, [f64; 3], Bytes)| {
            let parts = parts.into_iter().zip([("Q", Hue::Dim), ("K", Hue::Cache), ("V", Hue::Weights)]);
            Bar {
                label: format!("{blocks} blocks").into(),
                parts: parts.map(|(part, (sign, hue))| (part / most, sign.to_owned(), hue)).collect(),
                value: format!("{per_token} per token").into(),
            }
        };
        page.push(Block::Bars(kinds.into_iter().map(bar).collect(), 80));
    }

    /// Adds tables of the caches and of the states.
    fn stores_onto(&self, page: &mut Page) {
        if !self.stores.is_empty() {
            page.blank();
            let row = |store: &CellCache| {
                let window = store.window.map_or_else(|| "—".to_owned(), |window| Tokens(window).to_string());
                let numbers = [store.blocks.to_string(), Tokens(store.size).to_string(), store.streams.to_string()];
                let name = std::iter::once(store.whose.title().to_owned());
                name.chain(numbers).chain([window, store.bytes.to_string()]).map(Span::from).collect()
            };
            let numbers = ["blocks", "cells per stream", "streams", "window", "bytes"];
            table("cells of", &numbers, self.stores.iter().map(row).collect(), page);
        }
        if !self.states.is_empty() {
            page.blank();
            let row = |state: &StateCache| {
                let StateCache { whose, blocks, sequences, bytes } = state;
                let numbers = [blocks.to_string(), sequences.to_string(), state.of_sequence().to_string()];
                let name = std::iter::once(whose.title().to_owned());
                name.chain(numbers).chain([bytes.to_string()]).map(Span::from).collect()
            };
            let numbers = ["blocks", "sequences", "bytes per sequence", "bytes"];
            table("states of", &numbers, self.states.iter().map(row).collect(), page);
        }
    }
}

/// Adds a table of names with numbers.
fn table(names: &str, numbers: &[&str], rows: Vec<Vec<Span>>, page: &mut Page) {
    let numbers = numbers.iter().map(|title| Column::right(title, 0));
    let columns = std::iter::once(Column::left(names, 0)).chain(numbers).collect();
    page.table(columns, rows, Narrow::Below(1));
}

/// Filled squares on paper: enough for some sliding windows to have moved on; and the rows of all squares.
const FILLED: u64 = 240;
const PRINTED_ROWS: usize = 24;

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
