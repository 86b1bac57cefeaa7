//! Which tensors of a model are where: a table of its blocks by the parts that they consist of. Tensors are moved in it, and
//! the request that follows has the overrides that say it.

mod patterns;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::engine::llama_cpp::PlacedTensor;
use crate::engine::{EngineError, PlanRequest};
use crate::named::named;
use crate::settings::{DeviceName, Flag, Settings};
use crate::units::Bytes;
use patterns::NamedTensor;

named! {
    /// The tensors of a block that are moved together.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[allow(missing_docs, reason = "the names say it")]
    pub enum BlockPart {
        Attention = "attention",
        FeedForward = "feed-forward",
        ExpertsUp = "experts up",
        ExpertsGate = "experts gate",
        ExpertsGateUp = "experts gate+up",
        ExpertsDown = "experts down",
        SharedExperts = "shared experts",
        Other = "other",
    }
}

impl BlockPart {
    /// A shorter name.
    pub const fn short(self) -> &'static str {
        match self {
            Self::Attention => "attn",
            Self::FeedForward => "ffn",
            Self::ExpertsUp => "exp up",
            Self::ExpertsGate => "exp gate",
            Self::ExpertsGateUp => "exp g+u",
            Self::ExpertsDown => "exp down",
            Self::SharedExperts => "shared",
            Self::Other => "other",
        }
    }

    /// The part that a tensor belongs to by its name without block (`llama-arch.cpp`, 0.1.161).
    fn of(rest: &str) -> Self {
        if rest.starts_with("attn_") {
            return Self::Attention;
        }
        let Some(matrix) = rest.strip_prefix("ffn_") else { return Self::Other };
        let experts = [
            ("gate_up", Self::ExpertsGateUp),
            ("gate", Self::ExpertsGate),
            ("up", Self::ExpertsUp),
            ("down", Self::ExpertsDown),
        ];
        for (word, experts) in experts {
            let Some(kind) = matrix.strip_prefix(word) else { continue };
            if kind.starts_with("_exps") || kind.starts_with("_chexps") {
                return experts;
            }
            if experts == Self::ExpertsGateUp {
                continue;
            }
            if kind.starts_with("_shexp") {
                return Self::SharedExperts;
            }
            if kind.starts_with('.') {
                return Self::FeedForward;
            }
        }
        Self::Other
    }
}

/// Where a tensor belongs in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Home {
    Embeddings,
    Block(usize),
    Output,
    Model,
}

impl Home {
    /// The home of the tensor of this name, and its name without block.
    fn of(name: &str) -> (Self, &str) {
        let block = name.find("blk.").filter(|at| matches!(&name[..*at], "" | "enc." | "dec."));
        let block = block.and_then(|at| name[at + "blk.".len()..].split_once('.'));
        match block.and_then(|(number, rest)| Some((number.parse().ok()?, rest))) {
            Some((number, rest)) => (Self::Block(number), rest),
            None if name.starts_with("token_embd.") => (Self::Embeddings, name),
            None if name.starts_with("output") => (Self::Output, name),
            None => (Self::Model, name),
        }
    }
}

/// What a row of the table is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorRow {
    /// The token embeddings.
    Embeddings,
    /// Blocks that are equal here.
    Blocks(RangeInclusive<usize>),
    /// The output matrix and its norm.
    Output,
    /// What else belongs to no block.
    Model,
}

impl TensorRow {
    /// `blocks 3–47`
    pub fn name(&self) -> String {
        match self {
            Self::Embeddings => "embeddings".to_owned(),
            Self::Blocks(blocks) if blocks.start() == blocks.end() => format!("block {}", blocks.start()),
            Self::Blocks(blocks) => format!("blocks {}–{}", blocks.start(), blocks.end()),
            Self::Output => "output".to_owned(),
            Self::Model => "other".to_owned(),
        }
    }

    fn holds(&self, home: Home) -> bool {
        match (self, home) {
            (Self::Blocks(blocks), Home::Block(block)) => blocks.contains(&block),
            (Self::Embeddings, Home::Embeddings) | (Self::Output, Home::Output) | (Self::Model, Home::Model) => true,
            _ => false,
        }
    }
}

/// The tensors of one part in the blocks of a row, or of a row without blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorCell {
    /// Bytes on every device that has some, as indices in the plan.
    pub devices: BTreeMap<usize, Bytes>,
    /// How many tensors.
    pub count: usize,
    /// Some of them are placed by their names.
    pub is_asked: bool,
    /// The token embeddings are among them, as output matrix.
    pub is_tied: bool,
}

impl TensorCell {
    /// Its bytes on all devices.
    pub fn bytes(&self) -> Bytes {
        self.devices.values().copied().sum()
    }

    fn add(&mut self, tensor: &PlacedTensor, is_asked: bool) {
        *self.devices.entry(tensor.device).or_default() += tensor.bytes;
        self.count += 1;
        self.is_asked |= is_asked;
        self.is_tied |= tensor.is_tied_output;
    }
}

/// A tensor with its place in the table.
#[derive(Clone, Copy, Debug)]
struct LocatedTensor {
    tensor: PlacedTensor,
    home: Home,
    part: BlockPart,
}

/// The tensors of a request by blocks and parts.
#[derive(Clone, Debug)]
pub struct TensorTable {
    /// The parts that blocks have: the columns. Rows without blocks have the last one alone, which is [`BlockPart::Other`].
    pub parts: Vec<BlockPart>,
    /// The rows.
    pub rows: Vec<TensorRow>,
    /// The devices that tensors can be moved to, RAM last, as indices in the plan.
    pub devices: Vec<usize>,
    /// The fit placed layers or tensors.
    pub is_fitted: bool,
    /// What places tensors by their names, as llama-server is told; none if no tensor is.
    pub written: Option<String>,
    cells: Vec<Vec<Option<TensorCell>>>,
    tensors: Vec<LocatedTensor>,
    request: PlanRequest,
}

impl TensorTable {
    /// The table of `request`, with a row per range of equal blocks where it is `folded`, else with a row per block; none
    /// where the engine does not run llama.cpp.
    ///
    /// # Errors
    /// When the engine refuses the request.
    pub fn of(request: &PlanRequest, folded: bool) -> Result<Option<Self>, EngineError> {
        let Some(resolved) = request.resolved()? else { return Ok(None) };
        let ram = request.machine.gpus.len();
        let name = |index: usize| request.model.header.tensors.get(index).map_or("", |tensor| &*tensor.name);
        let located = |tensor: PlacedTensor| {
            let (home, rest) = Home::of(name(tensor.index));
            let home = if tensor.is_tied_output { Home::Output } else { home };
            LocatedTensor { tensor, home, part: BlockPart::of(rest) }
        };
        let mut devices: Vec<usize> = resolved.gpus.clone();
        devices.sort_unstable();
        devices.push(ram);
        let tensors: Vec<LocatedTensor> = resolved.tensors(ram).into_iter().map(located).collect();
        let in_blocks = tensors.iter().filter(|tensor| matches!(tensor.home, Home::Block(_)));
        let parts: BTreeSet<BlockPart> = in_blocks.map(|tensor| tensor.part).chain([BlockPart::Other]).collect();
        let mut table = Self {
            parts: parts.into_iter().collect(),
            rows: Vec::new(),
            devices,
            is_fitted: resolved.is_placed_by_fit(&request.settings),
            written: written(request),
            cells: Vec::new(),
            tensors,
            request: request.clone(),
        };
        table.lay_out(folded);
        Ok(Some(table))
    }

    /// Makes the rows.
    pub fn lay_out(&mut self, folded: bool) {
        let asked = self.asked(&self.request.settings);
        let mut by_home: BTreeMap<Home, Vec<Option<TensorCell>>> = BTreeMap::new();
        for LocatedTensor { tensor, home, part } in &self.tensors {
            let part = if matches!(home, Home::Block(_)) { *part } else { BlockPart::Other };
            let cells = by_home.entry(*home).or_insert_with(|| vec![None; self.parts.len()]);
            let column = self.parts.iter().position(|known| *known == part);
            if let Some(cell) = column.and_then(|column| cells.get_mut(column)) {
                cell.get_or_insert_default().add(tensor, asked.contains_key(&tensor.index));
            }
        }
        (self.rows, self.cells) = (Vec::new(), Vec::new());
        for (home, cells) in by_home {
            if let (Home::Block(block), Some(TensorRow::Blocks(blocks)), Some(before)) =
                (home, self.rows.last_mut(), self.cells.last_mut())
                && folded
                && *blocks.end() + 1 == block
                && is_alike(before, &cells)
            {
                *blocks = *blocks.start()..=block;
                merge(before, cells);
                continue;
            }
            self.rows.push(match home {
                Home::Embeddings => TensorRow::Embeddings,
                Home::Block(block) => TensorRow::Blocks(block..=block),
                Home::Output => TensorRow::Output,
                Home::Model => TensorRow::Model,
            });
            self.cells.push(cells);
        }
    }

    /// The row with the first block of `row`, or the one of the same kind.
    pub fn find(&self, row: &TensorRow) -> Option<usize> {
        let home = match row {
            TensorRow::Embeddings => Home::Embeddings,
            TensorRow::Blocks(blocks) => Home::Block(*blocks.start()),
            TensorRow::Output => Home::Output,
            TensorRow::Model => Home::Model,
        };
        self.rows.iter().position(|row| row.holds(home))
    }

    /// The first cell with tensors on `device`: its row and column.
    pub fn first_on(&self, device: usize) -> Option<(usize, usize)> {
        let on = |cell: &Option<TensorCell>| cell.as_ref().is_some_and(|cell| cell.devices.contains_key(&device));
        let mut columns = self.cells.iter().enumerate().map(|(row, cells)| (row, cells.iter().position(on)));
        columns.find_map(|(row, column)| Some((row, column?)))
    }

    /// The column of a row that has only one.
    pub fn only_column(&self, row: usize) -> Option<usize> {
        let in_blocks = self.rows.get(row).is_none_or(|row| matches!(row, TensorRow::Blocks(_)));
        self.parts.len().checked_sub(1).filter(|_| !in_blocks)
    }

    /// The cell at this row and column, if the model has such tensors.
    pub fn cell(&self, row: usize, column: usize) -> Option<&TensorCell> {
        self.cells.get(row)?.get(column)?.as_ref()
    }

    /// The device after that of this cell: GPU after GPU, then RAM.
    pub fn next_device(&self, row: usize, column: usize) -> Option<usize> {
        let cell = self.cell(row, column)?;
        let mut devices = cell.devices.keys();
        let now = devices.next().filter(|_| devices.next().is_none());
        let at = now.and_then(|now| self.devices.iter().position(|device| device == now));
        match at {
            Some(at) => self.devices.get((at + 1) % self.devices.len()).copied(),
            // tensors of several devices come together in RAM
            None => self.devices.last().copied(),
        }
    }

    /// The request with the tensors of a cell, or of its column in all blocks, on another device, or where they are by
    /// themselves. What a fit placed stays where it is.
    ///
    /// # Errors
    /// When the engine refuses the request, or a tensor's name cannot be written.
    pub fn moved(
        &self,
        row: usize,
        column: usize,
        in_all_blocks: bool,
        to: Option<usize>,
    ) -> Result<PlanRequest, String> {
        let fitted = if self.is_fitted { self.request.pinned().map_err(|error| error.to_string())? } else { None };
        let base = fitted.unwrap_or_else(|| self.request.clone());
        let (Some(of_row), part) = (self.rows.get(row), self.parts.get(column)) else { return Ok(base) };
        let is_block = matches!(of_row, TensorRow::Blocks(_));
        let is_meant = |tensor: &&LocatedTensor| match tensor.home {
            Home::Block(_) if is_block => Some(&tensor.part) == part && (in_all_blocks || of_row.holds(tensor.home)),
            home => !is_block && of_row.holds(home),
        };
        let before = self.asked(&base.settings);
        let mut asked = before.clone();
        let kept_in_ram = base.settings.n_cpu_moe.or(base.settings.n_cpu_ffn).is_some();
        for LocatedTensor { tensor, .. } in self.tensors.iter().filter(is_meant) {
            asked.remove(&tensor.index);
        }
        for LocatedTensor { tensor, .. } in self.tensors.iter().filter(is_meant) {
            if let Some(device) = to.filter(|device| *device != tensor.own || kept_in_ram) {
                asked.insert(tensor.index, self.device_name(device));
            }
        }
        if asked == before {
            return Ok(self.request.clone());
        }
        let overrides = patterns::overrides(&self.named(), &asked)?;
        Ok(base.changed(|settings| settings.override_tensor = overrides))
    }

    /// The same for settings that the engine refuses.
    #[must_use]
    pub fn refused(self, request: PlanRequest) -> Self {
        Self { written: written(&request), request, is_fitted: false, ..self }
    }

    fn device_name(&self, device: usize) -> DeviceName {
        if device < self.request.machine.gpus.len() { DeviceName::gpu(device) } else { DeviceName::cpu() }
    }

    /// The devices that `settings` ask for by name, by index in the header.
    fn asked(&self, settings: &Settings) -> BTreeMap<usize, DeviceName> {
        let first = |name: &str| settings.override_tensor.iter().find(|to| to.pattern.matches(name));
        let named = self.named().into_iter();
        named.filter_map(|tensor| Some((tensor.index, first(tensor.name)?.device.clone()))).collect()
    }

    fn named(&self) -> Vec<NamedTensor<'_>> {
        let header = &self.request.model.header;
        let indices: BTreeSet<usize> = self.tensors.iter().map(|located| located.tensor.index).collect();
        let named = |index: usize| {
            let name = &*header.tensors.get(index)?.name;
            let (home, rest) = Home::of(name);
            Some(NamedTensor { index, name, home, rest, part: BlockPart::of(rest) })
        };
        indices.into_iter().filter_map(named).collect()
    }
}

fn written(request: &PlanRequest) -> Option<String> {
    Flag::OverrideTensor.write(&request.by_server_names().unwrap_or_else(|_| request.settings.clone()))
}

/// Whether two blocks have the same parts on the same devices.
fn is_alike(a: &[Option<TensorCell>], b: &[Option<TensorCell>]) -> bool {
    let kind = |cell: &Option<TensorCell>| {
        cell.as_ref().map(|cell| (cell.devices.keys().copied().collect::<Vec<_>>(), cell.is_asked))
    };
    a.iter().map(kind).eq(b.iter().map(kind))
}

fn merge(into: &mut [Option<TensorCell>], more: Vec<Option<TensorCell>>) {
    for (cell, more) in into.iter_mut().zip(more) {
        if let (Some(cell), Some(more)) = (cell, more) {
            for (device, bytes) in more.devices {
                *cell.devices.entry(device).or_default() += bytes;
            }
            cell.count += more.count;
        }
    }
}
