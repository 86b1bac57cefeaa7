//! The formulas of a plan as trees: in letters, with numbers, the result and its share of the total; and the crossovers
//! of each `max`, where another branch becomes the larger.

mod crossover;
mod difference;
mod page;
mod weights;

use serde::Serialize;

use super::caches;
use crate::engine::Engine as _;
use crate::engine::formulas::{
    BranchRule, CacheFormula, Expr, GraphRule, Letter, LetterValues, PlanFormulas, TermRule,
};
use crate::engine::ggml::{self, Type};
use crate::engine::llama_cpp::{
    self,
    cache::{CompressorStates, KvCache, KvLayer},
};
use crate::engine::{self, EngineError, EngineVersion, PlanRequest, PreparedModel};
use crate::plan::{Branch, GraphSize, GraphUse, Part, PartKind, PartMemory, Plan, Symbol, Term};
use crate::settings::Settings;
use crate::units::{Bytes, Ratio};

pub use crossover::{Crossover, CrossoverPoint, CrossoverSide, KnobCurve, Sample};
pub use difference::{FormulasDifference, PartDifference, SideLine, more};
use weights::weights;

/// The page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FormulasPage {
    /// The letters with their meanings and this plan's values.
    pub legend: Vec<Symbol>,
    /// All allocated memory; its parts are weights, caches and graphs with their formulas.
    pub whole: FormulaNode,
    /// Every `max` whose larger side depends on a knob.
    pub contests: Vec<Crossover>,
    /// The same beside another engine's formulas, or why that engine makes no plan.
    #[serde(skip)]
    pub versus: Option<Result<FormulasDifference, String>>,
}

/// A formula, or a part of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FormulaNode {
    /// Its name: `attention scores`; for a letter, its meaning.
    pub name: String,
    /// In letters: `4·B·C·H`.
    pub formula: String,
    /// With numbers: `4·512·8192·32`.
    pub numbers: String,
    /// The result.
    pub amount: Amount,
    /// Whether it is counted in its parent.
    pub role: NodeRole,
    /// Its parts.
    pub parts: Vec<FormulaNode>,
}

/// A result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Memory.
    Bytes(Bytes),
    /// A whole number.
    Number(u64),
    /// A fraction: bytes per element of a cache.
    Fraction(f64),
}

/// Whether a node is counted in its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    /// It is a part of its parent.
    Part,
    /// It is the larger side of a `max`.
    Wins,
    /// It is the smaller side of a `max`, or a graph size not in use: not counted.
    Loses,
}

impl FormulaNode {
    /// A node without parts.
    fn leaf(name: impl Into<String>, formula: impl Into<String>, numbers: impl Into<String>, bytes: Bytes) -> Self {
        Self {
            name: name.into(),
            formula: formula.into(),
            numbers: numbers.into(),
            amount: Amount::Bytes(bytes),
            role: NodeRole::Part,
            parts: Vec::new(),
        }
    }

    /// A sum of `parts`; `bytes` may include small amounts without a formula.
    fn sum(name: impl Into<String>, bytes: Bytes, parts: Vec<Self>) -> Self {
        let names = |parts: &[Self]| parts.iter().map(|part| part.name.clone()).collect::<Vec<_>>().join(" + ");
        let counted: Vec<Self> = parts.iter().filter(|part| part.role != NodeRole::Loses).cloned().collect();
        let numbers: Vec<String> = counted.iter().map(|part| part.bytes().to_string()).collect();
        Self { parts, ..Self::leaf(name, names(&counted), numbers.join(" + "), bytes) }
    }

    fn of_term(term: &Term) -> Self {
        Self::leaf(&term.name, &term.formula, &term.numbers, term.bytes)
    }

    fn of_branch(branch: &Branch) -> Self {
        Self::sum(&branch.name, branch.bytes, branch.terms.iter().map(Self::of_term).collect())
    }

    fn with(self, role: NodeRole) -> Self {
        Self { role, ..self }
    }

    /// Its bytes; zero if it is not memory.
    pub fn bytes(&self) -> Bytes {
        if let Amount::Bytes(bytes) = self.amount { bytes } else { Bytes::ZERO }
    }

    /// Its share of `whole`, if it is memory and counted.
    pub fn share_of(&self, whole: Bytes) -> Option<Ratio> {
        match (self.amount, self.role) {
            (Amount::Bytes(bytes), NodeRole::Part | NodeRole::Wins) => Some(bytes.share_of(whole)),
            _ => None,
        }
    }
}

impl FormulasPage {
    /// The formulas of `plan`, the plan of `request`; beside those of another engine if one is given.
    ///
    /// # Errors
    /// If the header lacks what the engine needs, in which case there is no plan either.
    pub fn of(request: &PlanRequest, plan: &Plan, versus: Option<EngineVersion>) -> Result<Self, EngineError> {
        let mut page = Self::alone(request, plan)?;
        let beside = |other| FormulasDifference::of(&page, request, plan, other).map_err(|error| error.to_string());
        page.versus = versus.map(beside);
        Ok(page)
    }

    fn alone(request: &PlanRequest, plan: &Plan) -> Result<Self, EngineError> {
        let PlanRequest { model, settings, .. } = request;
        let weights = weights(model, plan);
        let Some(engine) = engine::estimating(plan.engine) else {
            let (caches, legend) = allocated_caches(model, plan, settings)?;
            let whole = whole(plan, vec![weights, caches, compute_buffers(plan)]);
            return Ok(Self { legend, whole, contests: Vec::new(), versus: None });
        };
        let formulas = engine.formulas(&engine.loads(model, settings), plan)?;
        let contests = crossover::crossovers(plan, settings, &formulas);
        let caches = caches(plan, &formulas);
        let whole = whole(plan, vec![weights, caches, graphs(plan, &formulas)]);
        Ok(Self { legend: plan.graph.legend.clone(), whole, contests, versus: None })
    }
}

/// What the projector and the draft take of one kind of memory, by device.
fn beside(plan: &Plan, of: fn(&PartMemory) -> Bytes) -> Vec<FormulaNode> {
    let node = |part: &Part| {
        let taken = plan.devices.iter().zip(&part.devices).filter(|(_, memory)| of(memory) > Bytes::ZERO);
        let each: Vec<String> = taken.map(|(device, memory)| format!("{} {}", device.id, of(memory))).collect();
        let bytes = part.devices.iter().map(of).sum();
        FormulaNode::leaf(format!("{}, loaded beside", part.kind.title()), "sum over devices", each.join(" + "), bytes)
    };
    let beside = plan.parts.iter().filter(|part| part.kind != PartKind::Model);
    beside.map(node).filter(|node| node.bytes() > Bytes::ZERO).collect()
}

fn whole(plan: &Plan, parts: Vec<FormulaNode>) -> FormulaNode {
    FormulaNode::sum("allocated memory", plan.totals.all, parts)
}

/// The caches: one part per kind of block.
fn caches(plan: &Plan, formulas: &PlanFormulas) -> FormulaNode {
    let part = |cache: &CacheFormula| {
        let values = formulas.values.clone().with(Letter::HkvLayer, cache.kv_heads);
        let one = node(cache.name, cache.bytes, &values);
        // a block without tensors has no cache
        let counted = |block: &&usize| plan.layers.get(**block).is_some_and(|layer| layer.cache == one.bytes());
        let count = cache.blocks.iter().filter(counted).count() as u64;
        FormulaNode {
            amount: Amount::Bytes(Bytes(one.bytes().0.saturating_mul(count))),
            formula: format!("{count}·({})", one.formula),
            numbers: format!("{count}·({})", one.numbers),
            parts: vec![FormulaNode { name: "one block".to_owned(), ..one }],
            name: format!("{} of {count} blocks", cache.name),
            role: NodeRole::Part,
        }
    };
    let parts: Vec<FormulaNode> = formulas.caches.iter().map(part).collect();
    FormulaNode::sum("caches", plan.totals.cache, parts)
}

/// The graph sizes: the one in use, with its devices, and the other, which is not counted.
fn graphs(plan: &Plan, formulas: &PlanFormulas) -> FormulaNode {
    let graph = &plan.graph;
    let partial = (GraphUse::Partial, "compute buffer, some layers in RAM", &graph.partial, formulas.partial);
    let full = (GraphUse::Full, "compute buffer, all layers on GPU", &graph.full, formulas.full);
    let part = |(when, name, size, rule): (_, &str, &GraphSize, Option<&GraphRule>)| {
        let role = if when == graph.used { NodeRole::Wins } else { NodeRole::Loses };
        match rule {
            Some(rule) => graph_size(name, rule, size, &formulas.values).with(role),
            None => FormulaNode::leaf(name, "0", "0", size.bytes).with(role),
        }
    };
    let sizes = if graph.used == GraphUse::Partial { [partial, full] } else { [full, partial] };
    let parts: Vec<FormulaNode> = sizes.into_iter().map(part).collect();
    let devices = plan.devices.iter().filter(|device| device.graph > Bytes::ZERO);
    let each: Vec<String> = devices.clone().map(|device| format!("{} {}", device.id, device.graph)).collect();
    let formula = if each.is_empty() { "none is allocated".to_owned() } else { "one on each device in use".to_owned() };
    FormulaNode {
        parts,
        formula,
        numbers: each.join(" + "),
        ..FormulaNode::leaf("compute buffers", "", "", plan.totals.graph)
    }
}

/// `expr` as a named amount of memory, with its parts.
fn node(name: &str, expr: &Expr, values: &LetterValues) -> FormulaNode {
    let node = expand(expr, values);
    let bytes = if let Amount::Number(number) = node.amount { number } else { 0 };
    FormulaNode { name: name.to_owned(), amount: Amount::Bytes(Bytes(bytes)), ..node }
}

/// A graph's size: its branches and their terms.
fn graph_size(name: &str, rule: &GraphRule, size: &GraphSize, values: &LetterValues) -> FormulaNode {
    let term = |part: &TermRule| {
        let one = node(part.name, &part.bytes, values);
        if rule.times == 1 {
            return one;
        }
        let bytes = Bytes(one.bytes().0.wrapping_mul(rule.times));
        let times = |text: &str| format!("{}·({text})", rule.times);
        FormulaNode { formula: times(&one.formula), numbers: times(&one.numbers), amount: Amount::Bytes(bytes), ..one }
    };
    let branch = |(at, choice): (usize, &BranchRule)| {
        let role = if at == size.winner { NodeRole::Wins } else { NodeRole::Loses };
        let bytes = size.branches.get(at).map_or(Bytes::ZERO, |branch| branch.bytes);
        let terms = rule.always.iter().chain(choice.parts).map(term).collect();
        with_formulas_of_parts(FormulaNode::sum(choice.name, bytes, terms)).with(role)
    };
    let branches: Vec<FormulaNode> = rule.choices.iter().enumerate().map(branch).collect();
    let formulas: Vec<&str> = branches.iter().map(|branch| branch.formula.as_str()).collect();
    let amounts: Vec<String> = branches.iter().map(|branch| branch.bytes().0.to_string()).collect();
    let of = |texts: String| if branches.len() == 1 { texts } else { format!("max({texts})") };
    let (formula, numbers) = (of(formulas.join(", ")), of(amounts.join(", ")));
    let name = match branches.as_slice() {
        [one] => format!("{name}: {}", one.name),
        _ => name.to_owned(),
    };
    let parts = if let [one] = branches.as_slice() { one.parts.clone() } else { branches };
    FormulaNode { parts, ..FormulaNode::leaf(name, formula, numbers, size.bytes) }
}

/// A sum with the formulas of its parts instead of their names.
fn with_formulas_of_parts(sum: FormulaNode) -> FormulaNode {
    let joined = |text: fn(&FormulaNode) -> &str| sum.parts.iter().map(text).collect::<Vec<_>>().join(" + ");
    let (formula, numbers) = (joined(|part| &part.formula), joined(|part| &part.numbers));
    FormulaNode { formula, numbers, ..sum }
}

/// `expr` with its parts, down to the letters; numbers have no node of their own.
fn expand(expr: &Expr, values: &LetterValues) -> FormulaNode {
    let value = expr.value(values).unwrap_or(0);
    let expand_all = |parts: &[Expr]| {
        parts.iter().filter(|part| !matches!(part, Expr::Number(_))).map(|part| expand(part, values)).collect()
    };
    let both = |a: &Expr, b: &Expr| expand_all(&[*a, *b]);
    let parts: Vec<FormulaNode> = match *expr {
        Expr::Number(_) | Expr::Letter(_) => Vec::new(),
        Expr::Sum(parts) | Expr::Product(parts) => expand_all(parts),
        Expr::Difference(a, b) | Expr::Quotient(a, b) => both(a, b),
        Expr::Max(a, b) => {
            let first = a.value(values).unwrap_or(0) >= b.value(values).unwrap_or(0);
            let role = |wins| if wins { NodeRole::Wins } else { NodeRole::Loses };
            vec![expand(a, values).with(role(first)), expand(b, values).with(role(!first))]
        }
        Expr::Elements(count) => vec![expand(count, values), expand(&Expr::Letter(Letter::P), values)],
    };
    let (name, amount) = match *expr {
        Expr::Letter(Letter::P) => (Letter::P.meaning(), Amount::Fraction(values.bytes_per_element())),
        Expr::Letter(letter) => (letter.meaning(), Amount::Number(value)),
        Expr::Sum(_) => ("sum", Amount::Number(value)),
        Expr::Product(_) => ("product", Amount::Number(value)),
        Expr::Difference(..) => ("difference", Amount::Number(value)),
        Expr::Quotient(..) => ("quotient, rounded down", Amount::Number(value)),
        Expr::Max(..) => ("the larger of the two", Amount::Number(value)),
        Expr::Elements(_) => ("elements and their size", Amount::Number(value)),
        Expr::Number(_) => ("number", Amount::Number(value)),
    };
    FormulaNode {
        name: name.to_owned(),
        formula: expr.formula(),
        numbers: expr.numbers(values),
        amount,
        role: NodeRole::Part,
        parts,
    }
}

/// The caches of `plan`, and the letters of their formulas.
fn allocated_caches(
    model: &PreparedModel,
    plan: &Plan,
    settings: &Settings,
) -> Result<(FormulaNode, Vec<Symbol>), EngineError> {
    let memory = llama_cpp::cache_layout(model, plan, settings)?;
    let mut parts = Vec::new();
    let mut legend = Vec::new();
    let mut define = |letter, meaning, value: u64| legend.push(Symbol { letter, meaning, value: value.to_string() });
    for (cache, letter, name) in [
        (&memory.full, "N", "KV cache"),
        (&memory.window, "N_w", "KV cache, sliding window"),
        (&memory.indexer, "N", "indexer keys"),
    ] {
        let Some(cache) = cache else { continue };
        let kinds = shapes(cache);
        if kinds.is_empty() {
            continue;
        }
        let meaning = if letter == "N" {
            "cells of a cache for all tokens, all sequences together"
        } else {
            "cells of a sliding-window cache, all sequences together"
        };
        if name != "indexer keys" {
            define(letter, meaning, cells(cache));
        }
        parts.extend(kinds.into_iter().map(|(layer, count)| kv(name, letter, cache, &layer, count)));
    }
    for (compressor, letter, name) in memory.compressed.iter().flat_map(|caches| {
        [
            (&caches.csa, "N_4", "KV cache, four tokens to a row"),
            (&caches.lid, "N_4", "indexer keys, four tokens to a row"),
            (&caches.hca, "N_128", "KV cache, 128 tokens to a row"),
        ]
    }) {
        let kinds = shapes(&compressor.keys);
        if kinds.is_empty() {
            continue;
        }
        if !name.starts_with("indexer") {
            define(letter, "rows of a compressed cache, all sequences together", cells(&compressor.keys));
        }
        parts.extend(kinds.into_iter().map(|(layer, count)| kv(name, letter, &compressor.keys, &layer, count)));
        parts.push(unfinished(name, &compressor.states));
    }
    if let Some(states) = &memory.recurrent {
        let count = states.layers.iter().flatten().count() as u64;
        if count > 0 {
            define("R", "elements of a block's convolution state", states.r);
            define("S", "elements of a block's recurrent state", states.s);
            define("N_p", "sequences, each with its own state", states.rows());
            let bytes = states.r.saturating_add(states.s).saturating_mul(states.rows()).saturating_mul(4 * count);
            parts.push(FormulaNode::leaf(
                format!("recurrent states of {count} blocks"),
                "n·(R + S)·4·N_p",
                format!("{count}·({} + {})·4·{}", states.r, states.s, states.rows()),
                Bytes(bytes),
            ));
        }
    }
    parts.extend(beside(plan, |memory| memory.cache));
    let known: Bytes = parts.iter().map(FormulaNode::bytes).sum();
    let rest = plan.totals.cache - known;
    if rest > Bytes::ZERO {
        parts.push(FormulaNode::leaf("alignment", "remainder", rest.0.to_string(), rest));
    }
    Ok((FormulaNode::sum("caches", plan.totals.cache, parts), legend))
}

fn cells(cache: &KvCache) -> u64 {
    cache.size.saturating_mul(cache.streams)
}

/// The states of a compressor.
fn unfinished(name: &str, states: &CompressorStates) -> FormulaNode {
    let count = states.layers.iter().flatten().count() as u64;
    let ggml::Tensor { ne: [width, tokens, streams, _], .. } = states.tensor();
    let bytes = count.saturating_mul(2 * states.tensor().bytes());
    FormulaNode::leaf(
        format!("unfinished rows of {count} blocks ({name})"),
        "n·2·elements·4·tokens·states",
        format!("{count}·2·{width}·4·{tokens}·{streams}"),
        Bytes(bytes),
    )
}

/// The cache shapes with the number of blocks of each; blocks that share another's cache are not counted.
fn shapes(cache: &KvCache) -> Vec<(KvLayer, u64)> {
    let mut kinds: Vec<(KvLayer, u64)> = Vec::new();
    let owned = cache.layers.iter().enumerate().filter_map(|(il, layer)| layer.filter(|layer| layer.owner == il));
    for layer in owned {
        match kinds.iter_mut().find(|(kind, _)| (kind.k, kind.v) == (layer.k, layer.v)) {
            Some((_, count)) => *count += 1,
            None => kinds.push((layer, 1)),
        }
    }
    kinds
}

fn kv(name: &str, letter: &str, cache: &KvCache, layer: &KvLayer, count: u64) -> FormulaNode {
    let cells = cells(cache);
    let half = |what: &str, ty: Type, elements: u64| {
        let packed = |count: String| match ty.block() {
            1 => format!("{count}·{}", ty.block_bytes()),
            block => format!("{count}/{block}·{}", ty.block_bytes()),
        };
        let bytes = Bytes(caches::row(ty, elements).saturating_mul(cells).saturating_mul(count));
        let formula = format!("n·{}·{letter}", packed("elements".to_owned()));
        FormulaNode::leaf(
            format!("{what} ({})", ty.name()),
            formula,
            format!("{count}·{}·{cells}", packed(elements.to_string())),
            bytes,
        )
    };
    let mut parts = vec![half("K", layer.ty_k, layer.k)];
    match layer.v {
        Some(v) => parts.push(half("V", layer.ty_v, v)),
        None => parts.push(FormulaNode::leaf("V", "a part of K", "0", Bytes::ZERO)),
    }
    let bytes = parts.iter().map(FormulaNode::bytes).sum();
    FormulaNode::sum(format!("{name} of {count} blocks"), bytes, parts)
}

/// Each device's compute buffer, with the tensors alive at its peak.
fn compute_buffers(plan: &Plan) -> FormulaNode {
    let buffers = plan.graph.in_force().branches.iter().filter(|branch| branch.bytes > Bytes::ZERO);
    let parts = buffers.map(|branch| {
        let buffer = FormulaNode::of_branch(branch);
        FormulaNode { name: format!("{}, at its peak", branch.name), ..buffer }
    });
    let parts = parts.chain(beside(plan, |memory| memory.graph)).collect();
    FormulaNode::sum("compute buffers", plan.totals.graph, parts)
}
