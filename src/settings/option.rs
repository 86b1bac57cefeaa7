//! Options of llama.cpp's programs by any of their names: those that set something are rows in [`super::flag`], the
//! others are listed in `assets/llama-server-options.txt`.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::sync::LazyLock;

use super::fields::Settings;
use super::flag::{Flag, Takes, VariableMeaning};
use super::seen::Seen;
use crate::named::named;
use crate::text::LONGEST_NAME;

/// What an option of llama-server is to a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServerOption {
    /// It sets what the flag sets.
    Sets(Flag),
    /// It takes the switch back.
    TakesBack(Flag),
    /// It sets nothing.
    Listed(&'static ListedOption),
}

/// An option that is no setting of a plan.
#[derive(Debug, PartialEq)]
pub struct ListedOption {
    /// What becomes of it.
    pub kind: ListedKind,
    /// How many values it takes.
    pub values: usize,
    /// What may be seen of them where others see the command.
    pub seen: Seen,
    /// The options that it stands for.
    pub stands_for: Vec<&'static str>,
    names: Vec<&'static str>,
    variable: Option<&'static str>,
}

named! {
    /// What becomes of an option that is no setting: the headings of the list.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ListedKind {
        /// Passed over.
        NoEffect = "no effect on memory",
        /// It has an effect only on the context that is taken where none is given.
        Context = "context",
        /// It adds devices of other machines.
        OtherMachines = "other machines",
        /// llama.cpp has it no longer.
        Removed = "removed",
        /// It names the model: a file, or an address.
        Model = "model",
        /// It names a repository on Hugging Face, and maybe a quantisation.
        Repository = "model on Hugging Face",
        /// It names a file of that repository.
        RepositoryFile = "file on Hugging Face",
        /// It names such a repository of the draft.
        DraftRepository = "draft on Hugging Face",
        /// It names the projector's address.
        Projector = "projector",
        /// It names a model that cannot be read here.
        UnreadModel = "unread model",
        /// The program prints something, and ends.
        Ends = "ends",
        /// It stands for other options.
        StandsFor = "stands for others",
    }
}

/// The list.
static LISTED: LazyLock<Vec<ListedOption>> = LazyLock::new(|| {
    let mut kind = ListedKind::NoEffect;
    let mut listed = Vec::new();
    for line in include_str!("../../assets/llama-server-options.txt").lines() {
        if let Some(heading) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            kind = ListedKind::ALL.into_iter().find(|kind| kind.name() == heading).unwrap_or(kind);
        } else if let Some((values, rest)) = line.split_once(' ').filter(|_| !line.starts_with('#')) {
            let (names, others) = rest.split_once(" = ").unwrap_or((rest, ""));
            let (names, variables): (Vec<_>, Vec<_>) = names.split(' ').partition(|name| name.starts_with('-'));
            let (values, seen) = values.split_once(':').unwrap_or((values, ""));
            listed.push(ListedOption {
                kind,
                values: values.parse().unwrap_or(0),
                seen: Seen::named(seen),
                stands_for: others.split_whitespace().collect(),
                names,
                variable: variables.first().copied(),
            });
        }
    }
    listed
});

/// Options by their names; those that plimsoll alone has are in it too.
static BY_NAME: LazyLock<HashMap<String, ServerOption>> = LazyLock::new(|| {
    let mut all = HashMap::new();
    for &flag in Flag::ALL {
        let row = flag.row();
        let own = row.names.iter().filter(|_| row.takes != Takes::NotTyped).map(|name| format!("--{name}"));
        let also = row.also.iter().map(|name| (*name).to_owned());
        all.extend(own.chain(also).map(|name| (name, ServerOption::Sets(flag))));
        all.extend(row.not.iter().map(|name| ((*name).to_owned(), ServerOption::TakesBack(flag))));
    }
    for option in LISTED.iter() {
        all.extend(option.names.iter().map(|name| ((*name).to_owned(), ServerOption::Listed(option))));
    }
    all
});

impl ServerOption {
    /// The option of this name; as llama.cpp reads it, long names may have underscores.
    pub fn named(name: &str) -> Option<Self> {
        let plain = if name.starts_with("--") { name.replace('_', "-") } else { name.to_owned() };
        BY_NAME.get(&plain).copied()
    }

    /// Every name of an option with its dashes, in order.
    pub fn all() -> Vec<(&'static str, Self)> {
        let mut all: Vec<_> = BY_NAME.iter().map(|(name, option)| (name.as_str(), *option)).collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all
    }

    /// Every variable that says what an option does.
    pub fn variables() -> impl Iterator<Item = &'static str> {
        let rows = Flag::ALL.iter().flat_map(|flag| flag.row().variables.iter().map(|variable| variable.name));
        rows.chain(LISTED.iter().filter_map(|option| option.variable))
    }

    /// The known name nearest to `name`, with an edit distance of at most a third of its length.
    pub fn nearest(name: &str) -> Option<&'static str> {
        if name.len() > LONGEST_NAME {
            return None;
        }
        let distance = |known: &str| strsim::osa_distance(name, known);
        let length = name.chars().count();
        let near = BY_NAME.keys().map(String::as_str).filter(|known| known.len().abs_diff(length) * 3 <= known.len());
        let near = near.filter(|known| distance(known) * 3 <= known.len());
        near.min_by_key(|known| (distance(known), *known))
    }

    /// The option that the variable sets, and the option's value for `value`.
    pub fn of_variable(name: &str, value: &str) -> Option<(Self, String)> {
        // `LLAMA_ARG_NO_MMPROJ` is the opposite of `LLAMA_ARG_MMPROJ`, whatever its value
        let turned = || {
            let name = format!("LLAMA_ARG_{}", name.strip_prefix("LLAMA_ARG_NO_")?);
            Self::variable(&name, "0")
        };
        Self::variable(name, value).or_else(turned)
    }

    fn variable(name: &str, value: &str) -> Option<(Self, String)> {
        let of_flag = |flag: &Flag| {
            let variable = flag.row().variables.iter().find(|variable| variable.name == name)?;
            let is_switch = matches!(flag.row().takes, Takes::Nothing | Takes::Truth(_));
            // as `is_falsey` in `common/arg.cpp`, 0.1.161
            let is_on = !["off", "disabled", "false", "0"].contains(&value.trim());
            let value = match variable.means {
                VariableMeaning::Presence => "true".to_owned(),
                VariableMeaning::Not | VariableMeaning::AloneNot => (!is_on).to_string(),
                _ if is_switch => is_on.to_string(),
                _ => value.trim().to_owned(),
            };
            Some((Self::Sets(*flag), value))
        };
        let listed = || LISTED.iter().find(|option| option.variable == Some(name));
        let flag = Flag::ALL.iter().find_map(of_flag);
        flag.or_else(|| listed().map(|option| (Self::Listed(option), value.to_owned())))
    }

    /// Whether it is on or off.
    pub(super) fn is_switch(self) -> bool {
        self.values() == 0
    }

    /// Whether a value follows it.
    pub fn takes_value(self) -> bool {
        self.values() > 0
    }

    /// How many values it takes.
    pub(crate) fn values(self) -> usize {
        match self {
            Self::Sets(flag) => usize::from(!matches!(flag.row().takes, Takes::Nothing | Takes::Truth(_))),
            Self::TakesBack(_) => 0,
            Self::Listed(option) => option.values,
        }
    }
}

/// An option as it stands on a command line.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenOption {
    /// What it is.
    pub option: ServerOption,
    /// Its name as it is written.
    pub name: String,
    /// Its value, or the first of two; one that is attached to a switch; and what it means alone.
    pub value: Option<OsString>,
}

impl GivenOption {
    /// Takes an option with its values from the front of `words`; none if another word stands there. Where an option
    /// stands for others, these are put in its place first.
    pub fn take(words: &mut VecDeque<OsString>) -> Option<Self> {
        let (name, attached) = split(words.front()?)?;
        let option = ServerOption::named(&name)?;
        words.pop_front();
        if let ServerOption::Listed(ListedOption { stands_for, .. }) = option {
            stands_for.iter().rev().for_each(|other| words.push_front(other.into()));
        }
        let mut value = attached;
        let alone = match option {
            ServerOption::Sets(flag) => flag.row().alone.filter(|_| !is_value_of(flag, words.front())),
            _ => None,
        };
        if value.is_none() {
            value = match alone {
                Some(alone) => Some(alone.into()),
                None => (0..option.values()).filter_map(|_| words.pop_front()).reduce(|first, _| first),
            };
        }
        Some(Self { option, name, value })
    }

    /// Whether a value should follow, and none does.
    pub fn lacks_value(&self) -> bool {
        self.value.is_none() && self.option.values() > 0
    }
}

/// `-c=8192` as name and value.
fn split(word: &OsStr) -> Option<(String, Option<OsString>)> {
    let word = word.to_str().filter(|word| word.starts_with('-'))?;
    let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value.into())));
    Some((name.to_owned(), value))
}

/// Whether `next` is meant as the value of `flag`, which can do without one.
fn is_value_of(flag: Flag, next: Option<&OsString>) -> bool {
    let next = next.and_then(|next| next.to_str());
    next.is_some_and(|next| !next.starts_with('-') || flag.read(&mut Settings::default(), next).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_belongs_to_one_option() {
        let rows = Flag::ALL.iter().map(|flag| flag.row()).filter(|row| row.takes != Takes::NotTyped);
        let of_rows = rows.map(|row| row.names.len() + row.also.len() + row.not.len()).sum::<usize>();
        let listed = LISTED.iter().map(|option| option.names.len()).sum::<usize>();
        assert_eq!(BY_NAME.len(), of_rows + listed);
        for option in LISTED.iter() {
            assert!(!option.names.is_empty() && option.values <= 2, "{option:?}");
            let others = option.stands_for.iter().filter(|word| word.starts_with('-'));
            assert!(others.clone().all(|word| ServerOption::named(word).is_some()), "{option:?}");
            assert_eq!(option.kind == ListedKind::StandsFor, others.count() > 0, "{option:?}");
        }
    }

    #[test]
    fn options_are_taken_with_their_values() {
        let mut words =
            ["-fa", "--flash-attn", "0", "-c=9", "--top_k", "5", "-dio", "m.gguf"].map(OsString::from).into();
        let mut taken = Vec::new();
        while let Some(given) = GivenOption::take(&mut words) {
            taken.push((given.name, given.value.map(|value| value.into_string().unwrap()).unwrap_or_default()));
        }
        let expected =
            [("-fa", "on"), ("--flash-attn", "0"), ("-c", "9"), ("--top_k", "5"), ("-dio", ""), ("--load-mode", "dio")];
        assert_eq!(taken, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(words, ["m.gguf"]);
    }

    #[test]
    fn variables_say_the_same() {
        let of = |name: &str, value: &str| ServerOption::of_variable(name, value);
        assert_eq!(of("LLAMA_ARG_CTX_SIZE", " 8192"), Some((ServerOption::Sets(Flag::Context), "8192".to_owned())));
        let off = Some((ServerOption::Sets(Flag::NoMmproj), "true".to_owned()));
        assert_eq!((of("LLAMA_ARG_MMPROJ_AUTO", "0"), of("LLAMA_ARG_NO_MMPROJ_AUTO", "")), (off.clone(), off));
        let on = |flag, value: &str| Some((ServerOption::Sets(flag), value.to_owned()));
        assert_eq!(of("LLAMA_ARG_EMBEDDINGS", "1"), on(Flag::Embeddings, "true"));
        assert_eq!(of("LLAMA_ARG_NO_KV_UNIFIED", "1"), on(Flag::KvUnified, "false"));
        assert!(matches!(of("LLAMA_ARG_THREADS", "8"), Some((ServerOption::Listed(_), _))));
        assert_eq!(of("PATH", "/bin"), None);
    }

    #[test]
    fn mistyped_names_have_a_near_one() {
        assert_eq!(ServerOption::nearest("--ctx-sizes"), Some("--ctx-size"));
        assert_eq!(ServerOption::nearest("--no-such-thing-at-all"), None);
    }
}
