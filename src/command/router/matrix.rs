//! llama-swap's matrix: which models may run together, as expressions of a small language.
//!
//! `a & b` run together, `a | b` are alternatives, `+name` stands for another set; any part of a set may run too. A model
//! that is in no set runs alone. Source: `internal/matrix` and `internal/config/matrix.go`, llama-swap, August 2026.

use std::collections::HashMap;

/// Combinations of a matrix beyond which it is not read.
const MOST_COMBINATIONS: usize = 1 << 14;
/// Parentheses in one another.
const MOST_NESTED: usize = 64;

/// The sets of a matrix, each with all of its alternatives; numbers are those of models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    /// Name and models of each combination, in the order in which equals are preferred.
    sets: Vec<(String, Vec<usize>)>,
    /// What it costs to end a model; 1 where nothing is said.
    costs: HashMap<usize, u64>,
}

impl Matrix {
    /// Reads the sets by name, each an expression, in their order. `model` finds a model by the name that a matrix has for it.
    ///
    /// # Errors
    /// One sentence on the first set that cannot be read.
    pub fn read(sets: &[(String, String)], model: &dyn Fn(&str) -> Option<usize>) -> Result<Self, String> {
        let mut reader = Reader { texts: sets, model, read: Vec::new(), within: Vec::new() };
        for (name, _) in sets {
            reader.set(name)?;
        }
        // a set comes behind those that it refers to
        let all = reader.read.into_iter();
        let sets = all.flat_map(|(name, sets)| sets.into_iter().map(move |members| (name.clone(), members)));
        Ok(Self { sets: sets.collect(), costs: HashMap::new() })
    }

    /// What it costs to end a model.
    pub fn cost(&mut self, model: usize, cost: u64) {
        self.costs.insert(model, cost);
    }

    /// As `Router::unloads`: the set with the cheapest models outside is chosen.
    pub(super) fn unloads(&self, target: usize, running: &[usize]) -> Vec<(usize, String)> {
        let cost = |(_, members): &&(String, Vec<usize>)| -> u64 {
            let outside = running.iter().filter(|other| !members.contains(other));
            outside.map(|other| self.costs.get(other).copied().unwrap_or(1)).sum()
        };
        // the first of equals
        let Some((name, members)) = self.sets.iter().filter(|(_, members)| members.contains(&target)).min_by_key(cost)
        else {
            let why = "the other is in no set of the matrix, and so runs alone";
            return running.iter().map(|&other| (other, why.to_owned())).collect();
        };
        let outside = running.iter().filter(|other| !members.contains(other));
        outside.map(|&other| (other, format!("set {name} of the matrix has no place for it"))).collect()
    }
}

/// Alternatives, each a combination of models.
type Combinations = Vec<Vec<usize>>;

struct Reader<'a> {
    texts: &'a [(String, String)],
    model: &'a dyn Fn(&str) -> Option<usize>,
    /// Sets that are read, in the order of being finished.
    read: Vec<(String, Combinations)>,
    /// Sets that are being read.
    within: Vec<String>,
}

impl Reader<'_> {
    fn set(&mut self, name: &str) -> Result<Combinations, String> {
        if let Some((_, known)) = self.read.iter().find(|(known, _)| known == name) {
            return Ok(known.clone());
        }
        let Some((_, text)) = self.texts.iter().find(|(known, _)| known == name) else {
            return Err(format!("a set of the matrix refers to '{name}', which is none"));
        };
        if self.within.iter().any(|other| other == name) || self.within.len() > MOST_NESTED {
            return Err(format!("set '{name}' of the matrix refers to itself"));
        }
        self.within.push(name.to_owned());
        let words = words(text);
        let mut rest = &words[..];
        let combinations =
            self.alternatives(&mut rest, 0).map_err(|why| format!("set '{name}' of the matrix: {why}"))?;
        if let Some(word) = rest.first() {
            return Err(format!("set '{name}' of the matrix: '{word}' is not expected"));
        }
        self.within.pop();
        self.read.push((name.to_owned(), combinations.clone()));
        Ok(combinations)
    }

    /// `a | b`
    fn alternatives(&mut self, rest: &mut &[String], depth: usize) -> Result<Combinations, String> {
        let mut all = self.together(rest, depth)?;
        while rest.first().is_some_and(|word| word == "|") {
            *rest = &rest[1..];
            all.extend(self.together(rest, depth)?);
            within_limit(all.len())?;
        }
        Ok(all)
    }

    /// `a & b`
    fn together(&mut self, rest: &mut &[String], depth: usize) -> Result<Combinations, String> {
        let mut all = self.one(rest, depth)?;
        while rest.first().is_some_and(|word| word == "&") {
            *rest = &rest[1..];
            let more = self.one(rest, depth)?;
            within_limit(all.len().saturating_mul(more.len()))?;
            let pairs = all.iter().flat_map(|left| more.iter().map(move |right| (left, right)));
            all = pairs
                .map(|(left, right)| {
                    let new = right.iter().filter(|model| !left.contains(model));
                    left.iter().chain(new).copied().collect()
                })
                .collect();
        }
        Ok(all)
    }

    fn one(&mut self, rest: &mut &[String], depth: usize) -> Result<Combinations, String> {
        let Some((word, after)) = rest.split_first() else { return Err("it ends too early".to_owned()) };
        *rest = after;
        if word == "(" {
            if depth > MOST_NESTED {
                return Err("too many parentheses".to_owned());
            }
            let inner = self.alternatives(rest, depth + 1)?;
            let Some((")", after)) = rest.split_first().map(|(word, after)| (word.as_str(), after)) else {
                return Err("a parenthesis is not closed".to_owned());
            };
            *rest = after;
            return Ok(inner);
        }
        if let Some(name) = word.strip_prefix('+') {
            return self.set(name);
        }
        let model = (self.model)(word).ok_or_else(|| format!("'{word}' is no model"))?;
        Ok(vec![vec![model]])
    }
}

fn within_limit(count: usize) -> Result<(), String> {
    if count > MOST_COMBINATIONS { Err(format!("it has more than {MOST_COMBINATIONS} combinations")) } else { Ok(()) }
}

/// Names, references, operators.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut goes_on = false;
    for c in text.chars() {
        let is_name = c.is_alphanumeric() || ['_', '-', '.'].contains(&c);
        match words.last_mut().filter(|_| goes_on && is_name) {
            Some(word) => word.push(c),
            None if c.is_whitespace() => {}
            None => words.push(c.to_string()),
        }
        goes_on = is_name || c == '+';
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Models are called a, b, …
    fn matrix(sets: &[(&str, &str)]) -> Result<Matrix, String> {
        let sets: Vec<_> = sets.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let model = |name: &str| match name.as_bytes() {
            [letter @ b'a'..=b'z'] => Some(usize::from(letter - b'a')),
            _ => None,
        };
        Matrix::read(&sets, &model)
    }

    fn gone(matrix: &Matrix, target: usize, running: &[usize]) -> Vec<usize> {
        matrix.unloads(target, running).into_iter().map(|(goes, _)| goes).collect()
    }

    #[test]
    fn expressions_expand() {
        let read = matrix(&[("x", "(a | b) & (c|d)"), ("y", "+x & e")]).unwrap();
        let members: Vec<_> = read.sets.iter().map(|(_, members)| members.clone()).collect();
        assert_eq!(members[..4], [vec![0, 2], vec![0, 3], vec![1, 2], vec![1, 3]]);
        assert_eq!(members[4..], [vec![0, 2, 4], vec![0, 3, 4], vec![1, 2, 4], vec![1, 3, 4]]);
    }

    #[test]
    fn the_cheapest_set_is_chosen() {
        let mut read = matrix(&[("chat", "(a | b) & c"), ("draw", "(a | b) & d")]).unwrap();
        assert_eq!(gone(&read, 1, &[0, 2]), [0], "the sets with c keep c");
        assert_eq!(gone(&read, 3, &[0, 2]), [2]);
        assert_eq!(gone(&read, 7, &[0, 2]), [0, 2], "what is in no set runs alone");
        assert_eq!(gone(&read, 0, &[2, 3]), [3], "of equals the first");
        read.cost(3, 50);
        assert_eq!(gone(&read, 0, &[2, 3]), [2], "a costly one stays");
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (text, why) in [
            ("", "too early"),
            ("a &", "too early"),
            ("(a", "not closed"),
            ("a b", "not expected"),
            ("a & ?", "no model"),
        ] {
            let error = matrix(&[("x", text)]).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(matrix(&[("x", "+y"), ("y", "+x")]).unwrap_err().contains("itself"));
        assert!(matrix(&[("x", "+z")]).unwrap_err().contains("none"));
        let many = ["(a|b|c|d)"; 12].join(" & ");
        assert!(matrix(&[("x", &many)]).unwrap_err().contains("combinations"));
        let deep = "(".repeat(100_000);
        assert!(matrix(&[("x", &deep)]).is_err());
    }
}
