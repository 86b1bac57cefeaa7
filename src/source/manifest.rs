//! Ollama's manifests, in stores and registries: the layers of a model, each a blob identified by its digest.
//!
//! Media types: server/images.go, Ollama 0.24.

use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Manifest {
    #[serde(default)]
    layers: Vec<ManifestLayer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ManifestLayer {
    media_type: String,
    digest: String,
}

impl Manifest {
    /// The layers of a kind: `model`, `projector`, `adapter`, `params`.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &ManifestLayer> {
        let kind = format!("application/vnd.ollama.image.{kind}");
        self.layers.iter().filter(move |layer| layer.media_type == kind)
    }

    /// The layer of the model's GGUF file.
    ///
    /// # Errors
    /// One sentence on why there is none.
    pub fn model(&self) -> Result<&ManifestLayer, String> {
        self.of_kind("model").next().ok_or_else(|| {
            let tensors = self.of_kind("tensor").next().is_some();
            let why =
                if tensors { "it is stored as safetensors, not as GGUF" } else { "its manifest names no model file" };
            format!("{why}: it cannot be planned")
        })
    }
}

impl ManifestLayer {
    /// The 64 hexadecimal digits of its `sha256:` digest; none for anything else, which must not get into a path or an
    /// address.
    pub fn sha256(&self) -> Option<&str> {
        let hex = self.digest.strip_prefix("sha256:").or_else(|| self.digest.strip_prefix("sha256-"))?;
        (hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(hex)
    }
}
