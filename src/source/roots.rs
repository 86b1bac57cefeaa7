//! Folders of local models, and the references that were opened last. Only [`Roots::of_this_machine`] reads the
//! environment for folders, servers and tokens.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::host::HUB;
#[cfg(feature = "net")]
use super::network::Network;
use crate::files;
use crate::text::without_secrets;

/// The folders and servers to search for models; folders that do not exist count as empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// The home folder, for paths that begin with `~/`.
    pub home: Option<PathBuf>,
    /// Ollama's stores: each has `manifests` and `blobs` in it.
    pub ollama: Vec<PathBuf>,
    /// Hugging Face's caches: each has `models--OWNER--NAME` folders in it.
    pub hugging_face: Vec<PathBuf>,
    /// LM Studio's folders: `PUBLISHER/MODEL/FILE.gguf`.
    pub lm_studio: Vec<PathBuf>,
    /// llama.cpp's caches: flat, or in Hugging Face's layout.
    pub llama_cpp: Vec<PathBuf>,
    /// File of recently opened references.
    pub recent: Option<PathBuf>,
    /// Servers that names are looked up on; none: no network access.
    #[cfg(feature = "net")]
    pub network: Option<Network>,
}

impl Roots {
    /// The folders of this machine, from its environment and the default locations.
    pub fn of_this_machine() -> Self {
        let home = directories::BaseDirs::new();
        let roots = Self::of(
            &|name| std::env::var_os(name),
            home.as_ref().map(directories::BaseDirs::home_dir),
            home.as_ref().map(directories::BaseDirs::cache_dir),
        );
        #[cfg(feature = "net")]
        let roots = Self { network: roots.network.map(Network::limited), ..roots };
        roots
    }

    /// The same without network requests: remote models are only read from the cache.
    #[must_use]
    #[cfg_attr(not(feature = "net"), allow(unused_mut, reason = "nothing to change without the network"))]
    pub fn offline(mut self) -> Self {
        #[cfg(feature = "net")]
        if let Some(network) = &mut self.network {
            network.offline = true;
        }
        self
    }

    /// The address of Hugging Face.
    #[cfg(feature = "net")]
    pub fn hub(&self) -> &str {
        self.network.as_ref().map_or(HUB, |network| &network.hugging_face)
    }

    /// The address of Hugging Face.
    #[cfg(not(feature = "net"))]
    #[allow(clippy::unused_self, reason = "as with a network")]
    pub const fn hub(&self) -> &str {
        HUB
    }

    /// The folders named in an environment, else the default ones under `home` and `cache`.
    ///
    /// Ollama: `envconfig.Models` and the Linux service's home (docs/faq, Ollama 0.24), which is in /var/lib on Arch,
    /// NixOS and others. Hugging Face and llama.cpp: common/hf-cache.cpp and `fs_get_cache_directory` in
    /// common/common.cpp (llama-cpp-sys-2 0.1.161).
    pub fn of(env: &dyn Fn(&str) -> Option<OsString>, home: Option<&Path>, cache: Option<&Path>) -> Self {
        let named = |name: &str| env(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let at_home = |path: &str| home.map(|home| home.join(path));
        let ollama = match named("OLLAMA_MODELS") {
            Some(path) => vec![path],
            None => at_home(".ollama/models").into_iter().chain(SERVICE_STORES.iter().map(PathBuf::from)).collect(),
        };
        let hub = named("HF_HUB_CACHE")
            .or_else(|| named("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| named("HF_HOME").map(|path| path.join("hub")))
            .or_else(|| named("XDG_CACHE_HOME").map(|path| path.join("huggingface/hub")))
            .or_else(|| at_home(".cache/huggingface/hub"));
        let llama_cpp = named("LLAMA_CACHE").or_else(|| cache.map(|cache| cache.join("llama.cpp")));
        Self {
            home: home.map(Path::to_owned),
            ollama,
            hugging_face: hub.into_iter().collect(),
            lm_studio: [".lmstudio/models", ".cache/lm-studio/models"].into_iter().filter_map(at_home).collect(),
            llama_cpp: llama_cpp.into_iter().collect(),
            recent: cache.map(|cache| cache.join("plimsoll/recent")),
            #[cfg(feature = "net")]
            network: Some(Network::of(env, home, cache)),
        }
    }
}

/// Stores of Ollama's Linux services.
const SERVICE_STORES: &[&str] = if cfg!(target_os = "linux") {
    &["/usr/share/ollama/.ollama/models", "/var/lib/ollama/models", "/var/lib/ollama", "/var/lib/ollama/.ollama/models"]
} else {
    &[]
};

/// Maximum number of recent references.
const MAX_ENTRIES: usize = 24;

/// The list of recently opened references, in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recent {
    file: PathBuf,
}

impl Recent {
    /// The list in `file`, which need not exist.
    pub fn new(file: &Path) -> Self {
        Self { file: file.to_owned() }
    }

    /// The references, the newest first, without what may be secret in them; none if the file cannot be read.
    pub fn list(&self) -> Vec<String> {
        let text = files::text(&self.file, files::TEXT).ok().flatten().unwrap_or_default();
        lines(&text).map(|line| without_secrets(&line)).collect()
    }

    /// Adds `reference` as the newest, unless it has control characters or is blank. Of an address, a user's name with a
    /// password and what is asked behind its path are not kept.
    ///
    /// # Errors
    /// One sentence if the list cannot be read or written; it is then unchanged.
    pub fn add(&self, reference: &str) -> Result<(), String> {
        if reference.trim().is_empty() || reference.chars().any(char::is_control) {
            return Ok(());
        }
        let reference = without_secrets(reference);
        files::change(&self.file, files::TEXT, |text| {
            let text = text.unwrap_or_default();
            let others = lines(&text).map(|other| without_secrets(&other)).filter(|other| *other != reference);
            let all: Vec<String> = std::iter::once(reference.clone()).chain(others).take(MAX_ENTRIES).collect();
            Ok(all.join("\n") + "\n")
        })
    }
}

fn lines(text: &str) -> impl Iterator<Item = String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).take(MAX_ENTRIES).map(str::to_owned)
}

/// `text` as it is listed: the path of a file is made absolute.
pub fn reference(text: &str) -> String {
    let there = Path::new(text).is_file().then(|| std::path::absolute(text).ok()).flatten();
    there.map_or_else(|| text.to_owned(), |path| path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_newest_comes_first_and_none_twice() {
        let folder = tempfile::tempdir().unwrap();
        let recent = Recent::new(&folder.path().join("deeper/recent"));
        assert!(recent.list().is_empty());
        for reference in ["a", "b", "a", "hf://o/r:Q8_0", "two\nlines", " "] {
            recent.add(reference).unwrap();
        }
        assert_eq!(recent.list(), ["hf://o/r:Q8_0", "a", "b"]);
        (0..2 * MAX_ENTRIES).for_each(|n| recent.add(&n.to_string()).unwrap());
        assert_eq!((recent.list().len(), recent.list()[0].as_str()), (MAX_ENTRIES, "47"));
    }

    #[test]
    fn no_password_and_no_signature_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let recent = Recent::new(&folder.path().join("recent"));
        fs::write(&recent.file, "https://me:old@host/x.gguf?sig=old\n").unwrap();
        assert_eq!(recent.list(), ["https://host/x.gguf"], "of an older version");
        recent.add("https://me:new@host/y.gguf?sig=new#z").unwrap();
        assert_eq!(fs::read_to_string(&recent.file).unwrap(), "https://host/y.gguf\nhttps://host/x.gguf\n");
    }

    #[test]
    fn nothing_is_lost_when_many_write_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recent");
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let recent = Recent::new(&file);
                scope.spawn(move || (0..5).for_each(|n| recent.add(&format!("{writer}/{n}")).unwrap()));
            }
        });
        assert_eq!(Recent::new(&file).list().len(), 20);
    }

    #[test]
    fn a_file_that_is_no_list_is_none_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recent");
        fs::write(&file, [0xff, 0xfe, 0]).unwrap();
        let recent = Recent::new(&file);
        assert!(recent.list().is_empty());
        assert!(recent.add("a").unwrap_err().contains("it is not UTF-8 text"));
        assert_eq!(fs::read(&file).unwrap(), [0xff, 0xfe, 0]);
    }
}
