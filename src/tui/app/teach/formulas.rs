//! The cursor of the formulas page.

use std::collections::BTreeSet;

use super::PageResponse;
use crate::engine::EngineVersion;
use crate::teach::formulas::{Crossover, FormulaNode, FormulasDifference, FormulasPage, KnobCurve};
use crate::tui::action::Command;

/// Lines per Page Up and Page Down.
const PAGE: usize = 8;

/// The selected line, the toggled nodes, and the selected crossover.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    line: usize,
    /// Paths of nodes that differ from their initial state, open or closed.
    toggled: BTreeSet<Vec<usize>>,
    /// Counts selections of a crossover; used modulo their number.
    crossover: usize,
    /// The engine whose formulas are beside those of the plan.
    pub versus: Option<EngineVersion>,
    /// Rows scrolled there.
    pub scroll: usize,
}

/// A line of the tree.
#[derive(Debug)]
pub struct TreeLine<'s> {
    /// The formula.
    pub node: &'s FormulaNode,
    /// Its depth in the tree.
    pub depth: usize,
    /// Whether its parts are shown below.
    pub open: bool,
    path: Vec<usize>,
}

impl Cursor {
    /// Puts the formulas of the next engine beside those of `now`; after the last, none.
    pub(super) fn next_versus(&mut self, now: EngineVersion) {
        let others: Vec<EngineVersion> = EngineVersion::all().into_iter().filter(|&other| other != now).collect();
        let next = match self.versus {
            None => 0,
            Some(shown) => others.iter().position(|&other| other == shown).map_or(0, |at| at + 1),
        };
        (self.versus, self.scroll) = (others.get(next).copied(), 0);
    }

    fn scroll(&mut self, command: Command) {
        self.scroll = match command {
            Command::Up | Command::Less => self.scroll.saturating_sub(1),
            Command::Down | Command::More => self.scroll.saturating_add(1),
            Command::PageUp => self.scroll.saturating_sub(PAGE),
            Command::PageDown => self.scroll.saturating_add(PAGE),
            Command::First => 0,
            _ => self.scroll,
        };
    }

    /// The visible lines of the tree.
    pub fn lines<'s>(&self, content: &'s FormulasPage) -> Vec<TreeLine<'s>> {
        let mut lines = Vec::new();
        self.add(&content.whole, &[], &mut lines);
        lines
    }

    fn add<'s>(&self, node: &'s FormulaNode, path: &[usize], lines: &mut Vec<TreeLine<'s>>) {
        let open = !node.parts.is_empty() && self.is_open(path);
        lines.push(TreeLine { node, depth: path.len(), open, path: path.to_vec() });
        if open {
            for (at, part) in node.parts.iter().enumerate() {
                let path: Vec<usize> = path.iter().copied().chain([at]).collect();
                self.add(part, &path, lines);
            }
        }
    }

    /// Initially the tree is open down to the graph size in force.
    fn is_open(&self, path: &[usize]) -> bool {
        let at_first = matches!(path, [] | [2] | [2, 0]);
        at_first != self.toggled.contains(path)
    }

    /// The selected line, clamped to `count`.
    pub fn line(&self, count: usize) -> usize {
        self.line.min(count.saturating_sub(1))
    }

    /// The selected crossover and its curve over a knob.
    pub fn crossover<'s>(&self, content: &'s FormulasPage) -> Option<(&'s Crossover, &'s KnobCurve)> {
        let all: Vec<_> = content.contests.iter().flat_map(|c| c.along.iter().map(move |along| (c, along))).collect();
        all.get(self.crossover.checked_rem(all.len())?).copied()
    }

    pub(super) fn press(&mut self, content: &FormulasPage, command: Command) -> PageResponse {
        if let Some(versus) = &content.versus {
            // no more rows than there are
            let rows = versus.as_ref().map_or(0, FormulasDifference::rows);
            self.scroll(command);
            self.scroll = self.scroll.min(rows);
            return PageResponse::Redraw;
        }
        let lines = self.lines(content);
        let (at, last) = (self.line(lines.len()), lines.len().saturating_sub(1));
        let Some(line) = lines.get(at) else { return PageResponse::Redraw };
        let (path, opens) = (line.path.clone(), !line.node.parts.is_empty());
        match command {
            Command::Up => self.line = at.saturating_sub(1),
            Command::PageUp => self.line = at.saturating_sub(PAGE),
            Command::PageDown => self.line = (at + PAGE).min(last),
            Command::First => self.line = 0,
            Command::Last => self.line = last,
            Command::More if opens && !line.open => self.toggle(path),
            Command::Down | Command::More => self.line = (at + 1).min(last),
            Command::Less if line.open => self.toggle(path),
            Command::Less => self.line = lines.iter().take(at).rposition(|up| up.depth < line.depth).unwrap_or(at),
            Command::Enter if opens => self.toggle(path),
            Command::Compare => self.crossover = self.crossover.wrapping_add(1),
            _ => {}
        }
        PageResponse::Redraw
    }

    /// Selects line `at`; toggles it if it is selected already.
    pub(super) fn point(&mut self, content: &FormulasPage, at: usize) {
        let lines = self.lines(content);
        let Some(line) = lines.get(at) else { return };
        let (path, opens) = (line.path.clone(), !line.node.parts.is_empty());
        if self.line(lines.len()) == at && opens {
            self.toggle(path);
        }
        self.line = at;
    }

    fn toggle(&mut self, path: Vec<usize>) {
        if !self.toggled.remove(&path) {
            self.toggled.insert(path);
        }
    }
}
