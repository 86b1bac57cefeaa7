//! The formulas of a plan as trees: in letters, with numbers, the result and its share of the total; and the crossovers
//! of each `max`, where another branch becomes the larger.

mod allocated;
mod crossover;
mod difference;
mod printout;
mod tree;
mod weights;

use serde::Serialize;

use crate::engine::formulas as estimated;
use crate::engine::{self, EngineError};
use crate::engine::{EngineVersion, PlanRequest};
use crate::plan::{Branch, GraphUse, Part, PartKind, PartMemory, Plan, Symbol, Term};
use crate::units::{Bytes, Ratio};

pub use crossover::{Crossover, CrossoverPoint, CrossoverSide, KnobCurve, Sample};
pub use difference::{FormulasDifference, PartDifference, SideLine, more};

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
    #[serde(skip_serializing_if = "Vec::is_empty")]
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

impl Crossover {
    /// A sentence on where another side becomes the larger along a knob.
    pub fn sentence(&self, along: &KnobCurve) -> String {
        printout::sentence(along, self)
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
        let weights = weights::node(model, plan);
        let engine = engine::of(plan.engine);
        let Some(formulas) = engine.formulas(&engine.loads(model, settings), plan)? else {
            let (caches, legend) = allocated::caches(model, plan, settings)?;
            let whole = whole(plan, vec![weights, caches, allocated::graphs(plan)]);
            return Ok(Self { legend, whole, contests: Vec::new(), versus: None });
        };
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
fn caches(plan: &Plan, formulas: &estimated::PlanFormulas) -> FormulaNode {
    let part = |cache: &estimated::CacheFormula| {
        let values = formulas.values.clone().with(estimated::Letter::HkvLayer, cache.kv_heads);
        let one = tree::node(cache.name, cache.bytes, &values);
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
fn graphs(plan: &Plan, formulas: &estimated::PlanFormulas) -> FormulaNode {
    let graph = &plan.graph;
    let partial = (GraphUse::Partial, "graph, some layers in RAM", &graph.partial, formulas.partial);
    let full = (GraphUse::Full, "graph, all layers on GPU", &graph.full, formulas.full);
    let part = |(when, name, size, rule): (_, &str, &crate::plan::GraphSize, Option<&estimated::GraphRule>)| {
        let role = if when == graph.used { NodeRole::Wins } else { NodeRole::Loses };
        match rule {
            Some(rule) => tree::rule(name, rule, size, &formulas.values).with(role),
            None => FormulaNode::leaf(name, "0", "0", size.bytes).with(role),
        }
    };
    let sizes = if graph.used == GraphUse::Partial { [partial, full] } else { [full, partial] };
    let parts: Vec<FormulaNode> = sizes.into_iter().map(part).collect();
    let devices = plan.devices.iter().filter(|device| device.graph > Bytes::ZERO);
    let each: Vec<String> = devices.clone().map(|device| format!("{} {}", device.id, device.graph)).collect();
    let formula = if each.is_empty() { "none is allocated".to_owned() } else { "one on each device in use".to_owned() };
    FormulaNode { parts, formula, numbers: each.join(" + "), ..FormulaNode::leaf("graphs", "", "", plan.totals.graph) }
}
