//! Options that are no settings of a plan: what becomes of them is said.

use std::ffi::OsString;

use crate::settings::{Flag, ListedKind};

/// What options say that are no settings of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OtherOptions {
    pub(super) file: Option<OsString>,
    pub(super) repository: Option<String>,
    repository_file: Option<String>,
    no_effect: Vec<String>,
    context: Vec<String>,
    other_machines: Vec<String>,
    removed: Vec<String>,
    /// Names that are not known, with what they may be meant for.
    pub(super) unknown: Vec<String>,
    /// Words that belong to no option.
    pub(super) strays: Vec<String>,
}

impl OtherOptions {
    /// Takes an option in; returns the setting that it stands for, if any.
    pub fn take(
        &mut self,
        kind: ListedKind,
        name: String,
        value: Option<OsString>,
    ) -> Option<(Flag, Option<OsString>)> {
        let text = || value.as_ref().map(|value| value.to_string_lossy().into_owned());
        let address = |scheme: &str| text().map(|rest| format!("{scheme}://{rest}"));
        match kind {
            ListedKind::NoEffect | ListedKind::Ends => self.no_effect.push(name),
            ListedKind::Context => self.context.push(name),
            ListedKind::OtherMachines => self.other_machines.push(name),
            ListedKind::Removed => self.removed.push(name),
            ListedKind::StandsFor => {}
            ListedKind::Model => self.file = value,
            ListedKind::UnreadModel => self.file = address("docker").map(OsString::from),
            ListedKind::Repository => self.repository = address("hf"),
            ListedKind::RepositoryFile => self.repository_file = text(),
            ListedKind::DraftRepository => return Some((Flag::ModelDraft, address("hf").map(OsString::from))),
            ListedKind::Projector => return Some((Flag::Mmproj, value)),
        }
        None
    }

    /// The model that they name.
    pub fn model(&self) -> Option<OsString> {
        let repository = self.repository.as_ref().map(|repository| match &self.repository_file {
            // the file stands over a quantisation
            Some(file) => match repository.rsplit_once(':') {
                Some((plain, quantisation)) if !quantisation.starts_with("//") => format!("{plain}/{file}"),
                _ => format!("{repository}/{file}"),
            },
            None => repository.clone(),
        });
        self.file.clone().or(repository.map(OsString::from))
    }

    /// A sentence for each kind; what has no effect is named if `all`.
    pub fn remarks(mut self, has_context: bool, all: bool) -> Vec<String> {
        if has_context {
            self.no_effect.append(&mut self.context);
        }
        let no_effect = if all { self.no_effect } else { Vec::new() };
        let kinds = [
            (no_effect, ["has", "have"], "no effect on memory"),
            (
                self.context,
                ["may", "may"],
                "raise the context that llama.cpp takes by itself, which is not planned: give one with --ctx",
            ),
            (self.other_machines, ["is", "are"], "not planned: --join adds the GPUs of other machines"),
            (self.removed, ["is", "are"], "no longer known to llama.cpp, and not planned"),
            (self.unknown, ["is", "are"], "not known here, and not planned"),
            (self.strays, ["is", "are"], "no option and no value of one, and not read"),
        ];
        let sentence = |(names, [one, more], rest): (Vec<String>, [&str; 2], &str)| match &names[..] {
            [] => None,
            [name] => Some(format!("{name} {one} {rest}")),
            [names @ .., last] => Some(format!("{} and {last} {more} {rest}", names.join(", "))),
        };
        kinds.into_iter().filter_map(sentence).collect()
    }
}
