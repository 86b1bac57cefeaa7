//! Parses references to a repository, a quantisation in it, or a file.

use std::fmt;

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
pub(super) fn escaped(file: &str) -> String {
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
