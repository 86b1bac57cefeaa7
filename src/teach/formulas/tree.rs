//! Converts an [`Expr`] into a tree of nodes.

use super::{Amount, FormulaNode, NodeRole};
use crate::engine::formulas::{Expr, GraphRule, Letter, LetterValues, TermRule};
use crate::plan::GraphSize;
use crate::units::Bytes;

/// `expr` as a named amount of memory, with its parts.
pub(super) fn node(name: &str, expr: &Expr, values: &LetterValues) -> FormulaNode {
    let node = expand(expr, values);
    let bytes = if let Amount::Number(number) = node.amount { number } else { 0 };
    FormulaNode { name: name.to_owned(), amount: Amount::Bytes(Bytes(bytes)), ..node }
}

/// A graph's size: its branches and their terms.
pub(super) fn rule(name: &str, rule: &GraphRule, size: &GraphSize, values: &LetterValues) -> FormulaNode {
    let term = |part: &TermRule| {
        let one = node(part.name, &part.bytes, values);
        if rule.times == 1 {
            return one;
        }
        let bytes = Bytes(one.bytes().0.wrapping_mul(rule.times));
        let times = |text: &str| format!("{}·({text})", rule.times);
        FormulaNode { formula: times(&one.formula), numbers: times(&one.numbers), amount: Amount::Bytes(bytes), ..one }
    };
    let branch = |(at, choice): (usize, &crate::engine::formulas::BranchRule)| {
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
