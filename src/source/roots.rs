//! Folders of local models. Only this module reads the environment for them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

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
    pub network: Option<super::Network>,
}

impl Roots {
    /// The folders of this machine, from its environment and the default locations.
    pub fn of_this_machine() -> Self {
        let home = directories::BaseDirs::new();
        Self::of(
            &|name| std::env::var_os(name),
            home.as_ref().map(directories::BaseDirs::home_dir),
            home.as_ref().map(directories::BaseDirs::cache_dir),
        )
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
            network: Some(super::Network::of(env, home, cache)),
        }
    }
}

/// Stores of Ollama's Linux services.
const SERVICE_STORES: &[&str] = if cfg!(target_os = "linux") {
    &["/usr/share/ollama/.ollama/models", "/var/lib/ollama/models", "/var/lib/ollama", "/var/lib/ollama/.ollama/models"]
} else {
    &[]
};
