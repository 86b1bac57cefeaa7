//! Opens models on Hugging Face: lists a repository's GGUF files and selects one.
//!
//! Addresses and error codes: `huggingface_hub` 0.26 (`hf_hub_url`, `model_info`, utils/_http.py). The default `Q4_K_M`
//! is that of llama.cpp (common/download.cpp, llama-cpp-sys-2 0.1.161) and of Ollama.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::http::{Document, HttpRequest, Url, WireError};
use super::open::OpenedModel;
use super::remote::{FileLocation, RemoteSession};
use super::store::{missing_shard, projector_of};
use super::{ProgressCallback, SourceError};
use crate::gguf::read::ShardName;
use crate::model::Projector;

#[derive(Deserialize)]
struct Repository {
    siblings: Option<Vec<Sibling>>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
}

#[derive(Deserialize)]
struct TreeFile {
    path: String,
}

/// Opens the model that `wanted` names.
pub(super) fn open(
    session: &mut RemoteSession<'_>,
    wanted: &HfReference,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<OpenedModel, SourceError> {
    let server = session.network.hugging_face.clone();
    let server = Url::parse(&server).map_err(|why| SourceError::Broken {
        name: wanted.to_string(),
        reason: format!("Hugging Face's address '{server}' is invalid: {why}"),
    })?;
    let (file, files) = if let Some(file) = &wanted.file {
        (file.clone(), None)
    } else {
        let files = list(session, &server, wanted, on_progress)?;
        (choose(session, wanted, &files)?, Some(files))
    };
    let token = session.network.hf_token.clone();
    let location = |file: &str| {
        let url = server.at(&format!("{}/resolve/{}/{}", wanted.repository, wanted.revision(), escaped(file)));
        FileLocation { request: HttpRequest { bearer: token.clone(), ..HttpRequest::get(url) }, digest: None }
    };
    let folder = file.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default();
    let sibling = |name: &str| location(&format!("{folder}{name}"));
    let refused = |error| match error {
        SourceError::Wire(WireError::Status { status, code, .. }) => {
            refusal(wanted, status, code.as_deref(), token.is_some())
        }
        other => other,
    };
    let header = session.open(&location(&file), &sibling, on_progress).map_err(refused)?;
    let name = file.rsplit('/').next().unwrap_or(&file);
    let mut opened = OpenedModel::new(header, name.strip_suffix(".gguf").unwrap_or(name).to_owned());
    let files = match files {
        Some(files) => files,
        // only list the repository after the named file was opened, as its own errors are more helpful
        None => match list(session, &server, wanted, on_progress) {
            Ok(files) => files,
            Err(SourceError::Cancelled) => return Err(SourceError::Cancelled),
            Err(error) => {
                session.note(format!("a projector next to the file, if any, is not counted: {error}"));
                Vec::new()
            }
        },
    };
    if let Some(projector) = projector(&file, &files) {
        let header = session.header(&location(&projector), on_progress).map_err(refused)?;
        opened.remote_projector = Some(Projector::new(projector, header));
    }
    Ok(opened)
}

/// The projector for `file` among those in its folder.
fn projector(file: &str, files: &[String]) -> Option<String> {
    let folder = |file: &str| file.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let name = |file: &str| file.rsplit('/').next().unwrap_or(file).to_owned();
    let siblings: Vec<String> =
        files.iter().filter(|other| folder(other) == folder(file)).map(|file| name(file)).collect();
    let siblings: Vec<&String> = siblings.iter().filter(|file| file.to_lowercase().ends_with(".gguf")).collect();
    let found = projector_of(&name(file), &siblings)?;
    Some(folder(file).map_or_else(|| found.clone(), |folder| format!("{folder}/{found}")))
}

/// The files of a repository.
fn list(
    session: &mut RemoteSession<'_>,
    server: &Url,
    wanted: &HfReference,
    on_progress: &mut ProgressCallback<'_>,
) -> Result<Vec<String>, SourceError> {
    let api = server.at(&format!("api/models/{}", wanted.repository));
    let about =
        wanted.revision.as_ref().map_or_else(|| api.clone(), |revision| api.at(&format!("revision/{revision}")));
    let token = session.network.hf_token.clone();
    let request = |url| HttpRequest { bearer: token.clone(), ..HttpRequest::get(url) };
    let document = session.small(&request(about), on_progress)?;
    if let Ok(Repository { siblings: Some(files) }) = serde_json::from_slice(&document.bytes)
        && document.status == 200
    {
        return Ok(files.into_iter().map(|file| file.rfilename).collect());
    }
    let refused = |document: &Document| refusal(wanted, document.status, document.code.as_deref(), token.is_some());
    if document.status != 200 && document.status != 404 {
        return Err(refused(&document));
    }
    // a mirror may only support the tree API
    let tree = session
        .small(&request(api.at(&format!("tree/{}", wanted.revision())).with_query("recursive=true")), on_progress)?;
    if tree.status != 200 {
        return Err(refused(if document.status == 200 { &tree } else { &document }));
    }
    let files: Vec<TreeFile> = serde_json::from_slice(&tree.bytes).map_err(|_| SourceError::Broken {
        name: wanted.to_string(),
        reason: format!("'{}' did not return a list of files: check HF_ENDPOINT", tree.url.host()),
    })?;
    Ok(files.into_iter().map(|file| file.path).collect())
}

/// The file to open, or its first shard.
fn choose(session: &mut RemoteSession<'_>, wanted: &HfReference, files: &[String]) -> Result<String, SourceError> {
    let broken = |reason: String| SourceError::Broken { name: wanted.to_string(), reason };
    let groups = groups(files, wanted.folder.as_deref());
    let labels: Vec<_> = groups.iter().map(|group| group.label.as_str()).collect();
    if groups.is_empty() {
        let safetensors = files.iter().any(|file| file.ends_with(".safetensors"));
        let advice =
            if safetensors { "it holds safetensors; look for a GGUF version of the model" } else { "look for another" };
        return Err(broken(format!("the repository has no GGUF files: {advice}")));
    }
    let group = if let Some(quant) = &wanted.quant {
        let named = named(&groups, quant);
        named.ok_or_else(|| broken(format!("the repository has no '{quant}'; it has {}", listed(&labels))))?
    } else {
        let usual = ["Q4_K_M", "Q8_0"].iter().find_map(|usual| named(&groups, usual));
        let group = usual.or(groups.first()).ok_or_else(|| broken("it has no files".to_owned()))?;
        if let Some(other) = labels.iter().find(|label| **label != group.label) {
            session.note(format!(
                "'{}' was chosen from {} quantisations; use {wanted}:{other} for another",
                group.label,
                groups.len(),
            ));
        }
        group
    };
    complete(group).map_err(broken)
}

/// The first file of `group`, unless a shard is missing.
fn complete(group: &RepoModel) -> Result<String, String> {
    if let Some(missing) = group.missing {
        return Err(format!(
            "shard {missing} of {} of '{}' is missing from the repository: use another quantisation",
            group.shards, group.label
        ));
    }
    group.files.first().cloned().ok_or_else(|| "it has no files".to_owned())
}

/// The error for a status. Hugging Face returns 401 for missing repositories too, to hide private ones.
fn refusal(wanted: &HfReference, status: u16, code: Option<&str>, with_token: bool) -> SourceError {
    let page = format!("https://huggingface.co/{}", wanted.repository);
    let reason = match (code, status) {
        (Some("GatedRepo"), _) | (None, 403) => {
            let token = if with_token { "the token in use has no access yet" } else { "then set HF_TOKEN" };
            format!("the repository is gated: accept its terms on {page}, {token}")
        }
        (Some("RevisionNotFound"), _) => format!("the repository has no revision '{}'", wanted.revision()),
        (Some("EntryNotFound"), _) => match &wanted.file {
            Some(file) => format!("the repository has no file '{file}'"),
            None => "the repository lists a file that does not exist: try again later".to_owned(),
        },
        (_, 404) if wanted.file.is_some() => {
            "there is no such repository, or it has no such file: check the name".to_owned()
        }
        (_, 404) => "there is no such repository: check the name".to_owned(),
        (_, 401) if with_token => {
            "there is no such repository, or it is private and the token in use has no access: check the name and \
             HF_TOKEN"
                .to_owned()
        }
        (_, 401) => {
            "there is no such repository, or it is private or gated: check the name, or set HF_TOKEN".to_owned()
        }
        (_, 403) => "access is denied: check the permissions of HF_TOKEN".to_owned(),
        (_, status) => format!("the server returned status {status}: check the name"),
    };
    SourceError::NotThere { reference: wanted.to_string(), reason }
}

/// A model of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RepoModel {
    /// `Q4_K_M`, or the file's name if it contains no quantisation.
    pub label: String,
    /// Its files in order.
    pub files: Vec<String>,
    /// Number of shards.
    pub shards: u64,
    /// The first missing shard, counted from one.
    pub missing: Option<u64>,
    stem: String,
}

/// The models among `files`, or among those in `folder`.
fn groups(files: &[String], folder: Option<&str>) -> Vec<RepoModel> {
    let inside = |file: &&String| folder.is_none_or(|folder| file.starts_with(&format!("{folder}/")));
    let is_model = |file: &&String| {
        let name = file.rsplit('/').next().unwrap_or(file).to_lowercase();
        std::path::Path::new(&name).extension().is_some_and(|ending| ending == "gguf")
            && !name.contains("mmproj")
            && !name.contains("imatrix")
    };
    let mut shards: BTreeMap<(String, u64), Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(inside).filter(is_model) {
        let stem = ShardName::parse(file).map_or_else(
            || (file.get(..file.len() - ".gguf".len()).unwrap_or(file).to_owned(), 1),
            |name| (name.stem, name.count),
        );
        shards.entry(stem).or_default().push(file.clone());
    }
    let group = |((stem, count), mut files): ((String, u64), Vec<String>)| {
        files.sort();
        let missing = missing_shard(files.iter(), count).filter(|_| count > 1);
        RepoModel { label: label(&stem), files, shards: count, missing, stem }
    };
    shards.into_iter().map(group).collect()
}

/// The group named `quant`, in any letter case: by its label, the end of its file name, or the whole file name.
fn named<'g>(groups: &'g [RepoModel], quant: &str) -> Option<&'g RepoModel> {
    let wanted = quant.to_lowercase();
    let exact = groups.iter().find(|group| group.label.to_lowercase() == wanted);
    let ends = |group: &&RepoModel| {
        let stem = group.stem.to_lowercase();
        stem.strip_suffix(&wanted).is_some_and(|rest| rest.is_empty() || rest.ends_with(['-', '.', '_', '/']))
    };
    // `q4_k_m` also matches `UD-Q4_K_M` if there is no plain one
    let file = format!("{}.gguf", wanted.trim_end_matches(".gguf"));
    let by_file =
        |group: &&RepoModel| group.files.iter().any(|name| name.to_lowercase().rsplit('/').next() == Some(&file));
    exact.or_else(|| groups.iter().find(ends)).or_else(|| groups.iter().find(by_file))
}

/// The labels, comma-separated; at most 24.
fn listed(labels: &[&str]) -> String {
    const MAX_SHOWN: usize = 24;
    let shown = labels.iter().take(MAX_SHOWN).copied().collect::<Vec<_>>().join(", ");
    if labels.len() > MAX_SHOWN { format!("{shown} and {} more", labels.len() - MAX_SHOWN) } else { shown }
}

/// The quantisation in the file's name, else in its folder's, else the name itself.
fn label(stem: &str) -> String {
    let name = stem.rsplit('/').next().unwrap_or(stem);
    let mut parts = stem.rsplit('/');
    let found = parts.next().and_then(quant_in).or_else(|| parts.next().and_then(quant_in));
    found.unwrap_or(name).to_owned()
}

/// The last part of `text` that starts like a quantisation, up to the end.
fn quant_in(text: &str) -> Option<&str> {
    let starts = text.char_indices().filter(|(at, _)| *at == 0 || text[..*at].ends_with(['-', '.', '_']));
    let at = starts.map(|(at, _)| at).rfind(|at| is_quant(&text[*at..]))?;
    let before = text[..at].strip_suffix("UD-").filter(|rest| rest.is_empty() || rest.ends_with(['-', '.', '_']));
    Some(&text[before.map_or(at, str::len)..])
}

/// Whether `text` begins with `Q4_`, `IQ2_`, `TQ1_`, `F16`, `BF16`, `F32` or `MXFP4`.
fn is_quant(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    let digit = |rest: &str| {
        let mut chars = rest.chars();
        chars.next().is_some_and(|c| c.is_ascii_digit()) && matches!(chars.next(), Some('_') | None)
    };
    ["IQ", "TQ", "Q"].iter().any(|start| text.strip_prefix(start).is_some_and(digit))
        || ["BF16", "F16", "F32", "FP16", "MXFP4", "NVFP4"].iter().any(|start| {
            text.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.', '_']))
        })
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
        let fits = |text: &str| {
            !text.is_empty()
                && !text.starts_with('.')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        let quant_fits = wanted.quant.as_deref().is_none_or(fits);
        let no_parent_folder =
            wanted.file.as_deref().is_none_or(|file| file.split('/').all(|part| part != ".." && !part.is_empty()));
        (fits(owner) && fits(name) && quant_fits && no_parent_folder).then_some(wanted)
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

fn strip<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    text.get(..start.len()).filter(|head| head.eq_ignore_ascii_case(start))?;
    text.get(start.len()..)
}

/// Escapes a file's path for an address: `%`, `?` and `#`.
fn escaped(file: &str) -> String {
    file.replace('%', "%25").replace('?', "%3F").replace('#', "%23")
}

/// Decodes percent-encoding.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("Qwen3-8B-Q4_K_M", "Q4_K_M")]
    #[case("model.q8_0", "q8_0")]
    #[case("gpt-oss-20b-mxfp4", "mxfp4")]
    #[case("M-UD-Q4_K_XL", "UD-Q4_K_XL")]
    #[case("BF16/M-BF16", "BF16")]
    #[case("UD-IQ1_S/model", "UD-IQ1_S")]
    #[case("Qwen3-8B", "Qwen3-8B")]
    #[case("llama-2-7b.Q4_0", "Q4_0")]
    fn labels_are_quantisations(#[case] stem: &str, #[case] expected: &str) {
        assert_eq!(label(stem), expected);
    }

    #[test]
    fn shards_are_one_model_and_projectors_none() {
        let files = [
            "b/M-Q8_0-00002-of-00002.gguf",
            "b/M-Q8_0-00001-of-00002.gguf",
            "M-Q4_K_M.gguf",
            "mmproj-F16.gguf",
            "README.md",
            "M-F16-00001-of-00003.gguf",
        ];
        let groups = groups(&files.map(str::to_owned), None);
        let shown: Vec<_> =
            groups.iter().map(|group| (group.label.as_str(), group.files.len(), group.missing)).collect();
        assert_eq!(shown, [("F16", 1, Some(2)), ("Q4_K_M", 1, None), ("Q8_0", 2, None)]);
        assert_eq!(named(&groups, "q8_0").unwrap().files[0], "b/M-Q8_0-00001-of-00002.gguf");
        assert_eq!(named(&groups, "m-q4_k_m.gguf").unwrap().label, "Q4_K_M");
        assert_eq!(named(&groups, "Q4_0"), None);
    }
}

#[cfg(test)]
mod reference_tests {
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
