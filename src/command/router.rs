//! What stands in front of several llama-servers, starts them on demand, and ends some for another.
//!
//! No router looks at memory: each server fits itself into what is free when it starts.

mod matrix;
mod read;

pub use matrix::Matrix;
pub use read::router;

use crate::named::named;

/// What starts and ends servers on demand; numbers are those of models, in the order in which they are given.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Router {
    /// Nothing: servers that are started by hand stay.
    #[default]
    None,
    /// llama-server without a model, which keeps at most so many models loaded; 0 for no limit. The one that was used
    /// longest ago goes (`server-models.cpp`, `server_lru_sched`, in llama-cpp-python 0.3.36).
    LlamaServer(usize),
    /// llama-swap's groups (`internal/router/group.go`, August 2026).
    Groups(Vec<Group>),
    /// llama-swap's matrix.
    Matrix(Matrix),
}

named! {
    /// A kind of router, by its name on the command line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RouterKind {
        /// llama-server without a model.
        LlamaServer = "llama-server",
        /// llama-swap without groups: one model at a time.
        LlamaSwap = "llama-swap",
    }
}

/// Models that llama-server's router keeps loaded unless `--models-max` says otherwise (`common.h`, `models_max`, in
/// llama-cpp-python 0.3.36).
pub const MODELS_MAX: usize = 4;

/// A group of llama-swap. What is in none is in one together, with all defaults (`config.go`, `AddDefaultGroupToConfig`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its models.
    pub members: Vec<usize>,
    /// One of its models runs at a time.
    pub swap: bool,
    /// Its models end those of other groups.
    pub exclusive: bool,
    /// Models of other groups do not end its own.
    pub persistent: bool,
}

impl Default for Group {
    fn default() -> Self {
        // (`config.go`, `GroupConfig.UnmarshalYAML`)
        Self { name: "(default)".to_owned(), members: Vec::new(), swap: true, exclusive: true, persistent: false }
    }
}

impl Router {
    /// The router of this kind for so many models, without further configuration.
    pub fn of(kind: Option<RouterKind>, models: usize) -> Self {
        match kind {
            None => Self::None,
            Some(RouterKind::LlamaServer) => Self::LlamaServer(MODELS_MAX),
            Some(RouterKind::LlamaSwap) => Self::one_at_a_time(models),
        }
    }

    /// llama-swap without groups for this many models: one runs at a time.
    pub fn one_at_a_time(models: usize) -> Self {
        Self::Groups(vec![Group { members: (0..models).collect(), ..Group::default() }])
    }

    /// Its name, and how many it keeps at most where that is a number.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::LlamaServer(0) => Some("llama-server's router, without a limit".to_owned()),
            Self::LlamaServer(most) => Some(format!("llama-server's router, --models-max {most}")),
            Self::Groups(_) => Some("llama-swap, groups".to_owned()),
            Self::Matrix(_) => Some("llama-swap, matrix".to_owned()),
        }
    }

    /// Which of `running`, in the order of their last requests, are ended before `target` starts, each with a reason: a
    /// sentence without its full stop.
    pub fn unloads(&self, target: usize, running: &[usize]) -> Vec<(usize, String)> {
        match self {
            Self::None | Self::LlamaServer(0) => Vec::new(),
            Self::LlamaServer(most) => {
                let many = (running.len() + 1).saturating_sub(*most);
                let why = match most {
                    1 => "the router keeps one model loaded (--models-max 1)".to_owned(),
                    most => format!(
                        "the router keeps {most} models loaded (--models-max), and this one was asked longest ago"
                    ),
                };
                running.iter().take(many).map(|&goes| (goes, why.clone())).collect()
            }
            Self::Groups(groups) => groups_unload(groups, target, running),
            Self::Matrix(matrix) => matrix.unloads(target, running),
        }
    }
}

fn groups_unload(groups: &[Group], target: usize, running: &[usize]) -> Vec<(usize, String)> {
    let rest = Group::default();
    let of = |number: usize| groups.iter().find(|group| group.members.contains(&number)).unwrap_or(&rest);
    let own = of(target);
    let why = |other: usize| {
        let group = of(other);
        match (group.name == own.name, own.swap, own.exclusive && !group.persistent) {
            (true, true, _) => Some(format!("group {} runs one model at a time (swap)", own.name)),
            (false, _, true) => Some(format!("group {} runs alone (exclusive)", own.name)),
            _ => None,
        }
    };
    running.iter().filter(|&&other| other != target).filter_map(|&other| Some((other, why(other)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(router: &Router, target: usize, running: &[usize]) -> Vec<usize> {
        router.unloads(target, running).into_iter().map(|(goes, _)| goes).collect()
    }

    #[test]
    fn a_router_keeps_the_last_ones() {
        assert_eq!(gone(&Router::LlamaServer(2), 5, &[3, 1]), [3]);
        assert_eq!(gone(&Router::LlamaServer(2), 5, &[3]), [0; 0]);
        assert_eq!(gone(&Router::LlamaServer(0), 5, &[3, 1, 2]), [0; 0]);
        assert_eq!(gone(&Router::None, 5, &[3, 1, 2]), [0; 0]);
    }

    #[test]
    fn groups_swap_exclude_and_persist() {
        let group = |name: &str, members: &[usize], swap, exclusive, persistent| Group {
            name: name.to_owned(),
            members: members.to_vec(),
            swap,
            exclusive,
            persistent,
        };
        let router = Router::Groups(vec![
            group("large", &[0, 1], true, true, false),
            group("small", &[2, 3], false, false, false),
            group("forever", &[4, 5], false, false, true),
        ]);
        assert_eq!(gone(&router, 1, &[0, 2, 4]), [0, 2], "its own group swaps, another goes, a persistent one stays");
        // a group that is not exclusive leaves others alone, exclusive ones too
        assert_eq!(gone(&router, 3, &[0, 2, 4]), [0; 0]);
        assert_eq!(gone(&router, 5, &[0, 4]), [0; 0]);
        // what is in no group is in the default one
        assert_eq!(gone(&router, 7, &[6, 2, 4]), [6, 2]);
    }
}
