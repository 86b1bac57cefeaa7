//! What the files of one model hold together.

use std::collections::HashMap;

use super::read::{Header, Tensor};

/// What the files of one model hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The tensors, by file, with names on one line.
    pub tensors: Vec<Tensor>,
    /// Bytes of the files, headers included.
    pub bytes: u64,
    /// What Ollama's manifest says of them; none of a folder.
    pub manifest: Option<TensorLayers>,
    /// Where each tensor stands, by its name.
    places: HashMap<String, usize>,
}

/// What a manifest of Ollama says of a model with a file for each tensor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorLayers {
    /// How many files.
    pub layers: usize,
    /// Their sizes in all, headers included: what the check before a load asks for.
    pub bytes: u64,
    /// `file_type` of its configuration.
    pub file_type: String,
    /// A draft model is among the tensors.
    pub draft: bool,
}

impl Stored {
    /// Adds a file.
    ///
    /// # Errors
    /// The name of a tensor that was in a file before.
    pub fn add(&mut self, header: Header) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(header.data_end);
        for mut tensor in header.tensors {
            tensor.name = crate::text::one_line(&tensor.name).into_owned();
            if self.places.insert(tensor.name.clone(), self.tensors.len()).is_some() {
                return Err(tensor.name);
            }
            self.tensors.push(tensor);
        }
        Ok(())
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(*self.places.get(name)?)
    }
}
