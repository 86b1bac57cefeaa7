//! What a compute buffer is made of: everything that is alive when it is fullest.

use super::Watched;
use crate::engine::ggml::allocate::Lifetime;
use crate::engine::ggml::tensor::{Op, Place};
use crate::plan::{Branch, Term};
use crate::units::Bytes;

/// Tensors that are named; the rest is summed up.
const NAMED: usize = 12;

/// Device `place`'s buffer of `bytes` bytes, named `name`.
pub(super) fn branch(name: String, place: Place, bytes: u64, watched: &Watched) -> Branch {
    let lives: Vec<&Lifetime> = watched.lifetimes.iter().filter(|life| life.place == place).collect();
    let fullest = lives.iter().max_by_key(|life| (life.offset + life.bytes, std::cmp::Reverse(life.from)));
    let moment = fullest.map_or(0, |life| life.from);
    let mut terms: Vec<(Term, usize)> = Vec::new();
    for life in lives.iter().filter(|life| life.from <= moment && moment <= life.until && life.bytes > 0) {
        let tensor = &watched.graph[life.id];
        let name =
            if tensor.label.is_empty() { operation(tensor.op).to_owned() } else { tensor.label.replace('_', " ") };
        if let Some((term, count)) = terms.iter_mut().find(|(term, _)| term.name == name) {
            term.bytes += Bytes(life.bytes);
            *count += 1;
        } else {
            let [a, b, c, d] = tensor.ne;
            let shape = [(a, true), (b, b > 1 || c > 1 || d > 1), (c, c > 1 || d > 1), (d, d > 1)];
            let shape: Vec<String> = shape.iter().filter(|(_, told)| *told).map(|(n, _)| n.to_string()).collect();
            let formula = format!("{} of {}", tensor.ty.name(), shape.join("×"));
            terms.push((Term { name, numbers: formula.clone(), formula, bytes: Bytes(life.bytes) }, 1));
        }
    }
    for (term, count) in terms.iter_mut().filter(|(_, count)| *count > 1) {
        term.formula = format!("{count} tensors");
        term.numbers.clone_from(&term.formula);
    }
    let mut terms: Vec<Term> = terms.into_iter().map(|(term, _)| term).collect();
    terms.sort_by_key(|term| std::cmp::Reverse(term.bytes));
    let told: u64 = terms.iter().take(NAMED).map(|term| term.bytes.0).sum();
    terms.truncate(NAMED);
    if let Some(rest) = bytes.checked_sub(told).filter(|rest| *rest > 0) {
        let formula = "what is left".to_owned();
        terms.push(Term {
            name: "small tensors and gaps".to_owned(),
            numbers: formula.clone(),
            formula,
            bytes: Bytes(rest),
        });
        terms.sort_by_key(|term| std::cmp::Reverse(term.bytes));
    }
    Branch { name, bytes: Bytes(bytes), terms }
}

/// What nameless tensors are called.
const fn operation(op: Op) -> &'static str {
    match op {
        Op::MulMat | Op::MulMatId => "matrix products",
        Op::Norm | Op::RmsNorm | Op::L2Norm | Op::GroupNorm => "normalised rows",
        Op::Add | Op::AddId | Op::Sub | Op::Mul | Op::Div | Op::Scale => "sums and products",
        Op::Rope => "rotated queries and keys",
        Op::SoftMax => "attention weights",
        Op::Cont | Op::Cpy | Op::Dup | Op::Concat | Op::Pad | Op::Repeat => "copies in another layout",
        Op::GetRows => "rows looked up",
        Op::Unary | Op::Glu => "activations",
        Op::None => "inputs and copies between devices",
        _ => "other results",
    }
}
