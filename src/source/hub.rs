//! Names of models on Hugging Face: references to repositories, and what their files are.

pub(super) mod files;
pub(super) mod local;

use std::fmt;

use super::host::{leads_out, unescaped};
use super::open::OpenedModel;
use crate::text::shell_word;
use crate::units::Bytes;
use files::{RepoModel, named};

/// The models of a repository, and one of them opened.
#[derive(Clone, Debug)]
pub struct Repository {
    /// `hf://owner/name@revision`
    pub name: String,
    /// The models, each in one quantisation; none of original weights, of which each is to be made.
    pub files: Vec<RepositoryFile>,
    /// The one whose header was read.
    pub opened: OpenedModel,
}

/// A model of a repository in one quantisation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryFile {
    /// Opens it: `hf://owner/name:Q4_K_M`.
    pub reference: String,
    /// `owner/name`
    pub repository: String,
    /// The name of its quantisation, or of the file.
    pub label: String,
    /// Bytes of all its files, if the server says them.
    pub bytes: Option<Bytes>,
    /// What to type to run it, or to fetch it.
    pub pull: String,
    /// Whether its header is the one that was read.
    pub is_opened: bool,
    /// Why nothing can be said of it, if so.
    pub problem: Option<String>,
}

impl Repository {
    /// Original weights without any GGUF file.
    pub(super) fn of_original(wanted: &HfReference, opened: OpenedModel) -> Self {
        Self { name: wanted.of_repository().to_string(), files: Vec::new(), opened }
    }
}

impl RepositoryFile {
    /// The model `group` among `groups` of the repository that `wanted` names; `opened` is the one with a header.
    #[cfg_attr(not(feature = "net"), expect(dead_code, reason = "without a network no repository is listed"))]
    pub(super) fn new(
        wanted: &HfReference,
        group: &RepoModel,
        groups: &[RepoModel],
        opened: &RepoModel,
        bytes: Option<Bytes>,
    ) -> Self {
        let HfReference { repository, revision, .. } = wanted;
        let of_quant = HfReference { quant: Some(group.label.clone()), folder: None, file: None, ..wanted.clone() };
        // a repository may have several models, or a name that says more than a quantisation may
        let is_short = named(groups, &group.label) == Some(group) && fits(&group.label);
        let first = group.files.first().cloned().unwrap_or_default();
        let reference =
            if is_short { of_quant } else { HfReference { quant: None, file: Some(first.clone()), ..of_quant } };
        let pull = match revision {
            // llama-server takes no revision
            Some(revision) => format!(
                "hf download {repository} --revision {} --include {}",
                shell_word(revision),
                shell_word(&format!("{}*.gguf", group.stem()))
            ),
            None if is_short => format!("llama-server -hf {repository}:{}", group.label),
            None => format!("llama-server -hf {repository} -hff {}", shell_word(&first)),
        };
        let is_opened = group == opened;
        let problem = match group.first_file() {
            Err(why) => Some(why),
            Ok(_) if group.of_model() != opened.of_model() => Some(format!(
                "its name is not that of the model whose header was read: 'plimsoll plan {}' reads its own",
                shell_word(&reference.to_string())
            )),
            Ok(_) => None,
        };
        let (reference, repository, label) = (reference.to_string(), repository.clone(), group.label.clone());
        Self { reference, repository, label, bytes, pull, is_opened, problem }
    }
}

/// Hosts of Hugging Face.
const HOSTS: [&str; 3] = ["huggingface.co", "hf.co", "www.huggingface.co"];

/// A reference to a model on Hugging Face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HfReference {
    /// `owner/name`
    pub repository: String,
    /// A branch, tag or commit; none for `main`.
    pub revision: Option<String>,
    /// The quantisation: `Q4_K_M`.
    pub quant: Option<String>,
    /// The folder to search.
    pub folder: Option<String>,
    /// The file.
    pub file: Option<String>,
}

impl HfReference {
    /// Parses `hf://owner/name[@revision][:quant]`, `hf.co/owner/name:quant`, `hf://owner/name/file.gguf`, and
    /// addresses of a repository, a folder or a file on huggingface.co or `endpoint`; none for anything else.
    pub fn parse(text: &str, endpoint: &str) -> Option<Self> {
        let bare =
            |text: &str| text.split_once("://").map_or(text, |(_, rest)| rest).trim_end_matches('/').to_lowercase();
        let address = strip(text, "http").is_some();
        let rest = if let Some(rest) = strip(text, "hf://") {
            rest
        } else {
            let web = ["https://", "http://"].into_iter().find_map(|scheme| strip(text, scheme)).unwrap_or(text);
            let (host, rest) = web.split_once('/')?;
            let ours = HOSTS.contains(&host.to_lowercase().as_str())
                || (text.len() > web.len() && bare(endpoint) == host.to_lowercase());
            ours.then_some(rest)?
        };
        let rest = rest.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        let mut parts = rest.splitn(3, '/');
        let (owner, name, rest) = (parts.next()?, parts.next()?, parts.next());
        let (name, quant) = match (name.split_once(':'), rest) {
            (Some((name, quant)), None) => (name, Some(quant)),
            (Some(_), Some(_)) => return None,
            (None, _) => (name, None),
        };
        let (name, revision) = name.split_once('@').map_or((name, None), |(name, revision)| (name, Some(revision)));
        let mut wanted = Self {
            repository: format!("{owner}/{name}"),
            revision: revision.map(str::to_owned),
            quant: quant.map(str::to_owned),
            folder: None,
            file: None,
        };
        if let Some(rest) = rest {
            wanted.parse_path(rest, address)?;
        }
        // the address of a file outside of a repository
        if address && wanted.file.is_none() && name.to_lowercase().ends_with(".gguf") {
            return None;
        }
        let quant_fits = wanted.quant.as_deref().is_none_or(fits);
        let parts = [&wanted.revision, &wanted.folder, &wanted.file];
        let stays =
            parts.into_iter().flatten().all(|part| !leads_out(part) && part.split('/').all(|part| !part.is_empty()));
        (fits(owner) && fits(name) && quant_fits && stays).then_some(wanted)
    }

    /// Parses the part after the repository: `blob/main/FILE`, `tree/main/FOLDER`, or a file's path.
    fn parse_path(&mut self, rest: &str, address: bool) -> Option<()> {
        let mut parts = rest.splitn(3, '/');
        match (parts.next()?, parts.next(), parts.next()) {
            ("blob" | "resolve" | "raw", Some(revision), Some(file)) => {
                self.revision = Some(revision.to_owned()).filter(|revision| revision != "main");
                self.file = Some(unescaped(file));
            }
            ("tree", Some(revision), folder) => {
                self.revision = Some(revision.to_owned()).filter(|revision| revision != "main");
                self.folder = folder.map(unescaped);
            }
            _ if !address && rest.to_lowercase().ends_with(".gguf") => self.file = Some(unescaped(rest)),
            _ => return None,
        }
        Some(())
    }

    /// The same without a file's name or quantisation.
    pub(super) fn of_repository(&self) -> Self {
        Self { quant: None, folder: None, file: None, ..self.clone() }
    }

    /// The revision, by default `main`.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }
}

impl fmt::Display for HfReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hf://{}", self.repository)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        match (&self.file, &self.quant) {
            (Some(file), _) => write!(f, "/{file}"),
            (None, Some(quant)) => write!(f, ":{quant}"),
            (None, None) => Ok(()),
        }
    }
}

/// Whether a text can be an owner, the name of a repository, or a quantisation.
fn fits(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('.') && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn strip<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    text.get(..start.len()).filter(|head| head.eq_ignore_ascii_case(start))?;
    text.get(start.len()..)
}

#[cfg(test)]
mod tests {
    use super::HfReference;
    use rstest::rstest;

    #[rstest]
    #[case("hf://o/r", "hf://o/r")]
    #[case("hf://o/r:Q4_K_M", "hf://o/r:Q4_K_M")]
    #[case("HF.co/o/r-GGUF:q8_0", "hf://o/r-GGUF:q8_0")]
    #[case("hf://o/r@v2:Q8_0", "hf://o/r@v2:Q8_0")]
    #[case("https://huggingface.co/o/r", "hf://o/r")]
    #[case("https://huggingface.co/o/r/", "hf://o/r")]
    #[case("https://huggingface.co/o/r/tree/main", "hf://o/r")]
    #[case("https://huggingface.co/o/r/blob/main/a%20b.gguf", "hf://o/r/a b.gguf")]
    #[case("https://huggingface.co/o/r/resolve/v1/q/a.gguf?download=true", "hf://o/r@v1/q/a.gguf")]
    #[case("hf://o/r/q/a.gguf", "hf://o/r/q/a.gguf")]
    #[case("http://localhost:9/o/r:Q4_0", "hf://o/r:Q4_0")]
    fn references_are_parsed(#[case] text: &str, #[case] read: &str) {
        assert_eq!(HfReference::parse(text, "http://localhost:9/").unwrap().to_string(), read);
    }

    #[rstest]
    fn other_texts_are_refused(
        #[values(
            "hf://o",
            "hf://o/",
            "o/r",
            "https://example.com/o/r",
            "hf://o/r/../x.gguf",
            "hf://o/r@..",
            "hf://o/r@%2e%2e/x.gguf",
            "https://huggingface.co/o/r/tree/../../c",
            "https://huggingface.co/o/r/tree/main/a/%2e%2e/b",
            "https://huggingface.co/o/r/resolve/main/..%2fx.gguf",
            "hf://o/r:a/b",
            "hf://../r",
            "localhost:9/o/r",
            "http://localhost:9/o/x.gguf",
            "http://localhost:9/o/r/x.gguf"
        )]
        text: &str,
    ) {
        assert_eq!(HfReference::parse(text, "http://localhost:9/"), None);
    }
}
