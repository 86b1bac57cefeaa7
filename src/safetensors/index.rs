//! The index of a model in several files: which file has which tensor, and how many bytes all of them have together.
//!
//! It says no shapes. But layers are alike: tensors whose names differ in numbers alone have one type and one shape, unless the
//! sum of all bytes says otherwise. So the headers of a few files tell those of all.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::Deserialize;

use super::read::{Header, Tensor};

/// What a header has of a tensor besides its name, in bytes: type, shape and place. Source: what safetensors 0.8.0 writes of the
/// largest tensors.
const BESIDE_NAME: u64 = 128;

/// An index: `model.safetensors.index.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Index {
    /// The file of each tensor.
    pub weight_map: BTreeMap<String, String>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Metadata {
    /// Bytes of all tensors.
    total_size: Option<serde_json::Number>,
}

impl Index {
    /// Its files.
    pub fn files(&self) -> BTreeSet<&str> {
        self.weight_map.values().map(String::as_str).collect()
    }

    /// The files that have a tensor of each kind, about as few as there can be.
    pub fn telling(&self) -> Vec<&str> {
        let mut kinds: BTreeMap<&str, HashSet<String>> = BTreeMap::new();
        for (name, file) in &self.weight_map {
            kinds.entry(file).or_default().insert(kind(name));
        }
        let mut found = Vec::new();
        // the first of those with most kinds that were not seen
        while let Some((&file, _)) = kinds.iter().rev().max_by_key(|(_, kinds)| kinds.len())
            && let Some(seen) = kinds.remove(file).filter(|seen| !seen.is_empty())
        {
            found.push(file);
            for others in kinds.values_mut() {
                others.retain(|kind| !seen.contains(kind));
            }
        }
        found
    }

    /// What the header of a file has, in bytes at most.
    pub fn header_bytes(&self, file: &str) -> u64 {
        let of_file = self.weight_map.iter().filter(|(_, its)| *its == file);
        of_file.map(|(name, _)| name.len() as u64 + BESIDE_NAME).fold(BESIDE_NAME, u64::saturating_add)
    }

    /// The headers of all files, in order, of those that were read; none if tensors of a kind differ, or the sum of all bytes is
    /// not that of the index.
    pub fn all(&self, read: &HashMap<&str, Header>) -> Option<Vec<Header>> {
        let mut known: HashMap<String, &Tensor> = HashMap::new();
        for tensor in read.values().flat_map(|header| &header.tensors) {
            let first = known.entry(kind(&tensor.name)).or_insert(tensor);
            if (first.dtype, &first.shape) != (tensor.dtype, &tensor.shape) {
                return None;
            }
        }
        let mut headers: BTreeMap<&str, Header> = BTreeMap::new();
        for (name, file) in &self.weight_map {
            let header = headers.entry(file).or_default();
            if read.contains_key(file.as_str()) {
                continue;
            }
            let Tensor { dtype, shape, bytes, .. } = Tensor::clone(known.get(&kind(name))?);
            header.tensors.push(Tensor { name: name.clone(), dtype, shape, bytes });
            header.data_end = header.data_end.checked_add(bytes)?;
        }
        for (file, header) in read {
            headers.insert(file, header.clone());
        }
        let tensors = || headers.values().flat_map(|header| &header.tensors);
        let sum = tensors().try_fold(0, |sum: u64, tensor| sum.checked_add(tensor.bytes))?;
        let is_all =
            self.metadata.total_size.as_ref()?.as_u64() == Some(sum) && tensors().count() == self.weight_map.len();
        is_all.then(|| headers.into_values().collect())
    }
}

/// A tensor's name without its numbers.
pub fn kind(name: &str) -> String {
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = name.split('.').map(|part| if is_number(&part) { "#" } else { part });
    parts.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safetensors::Dtype;

    fn index(total: u64) -> Index {
        let files = [
            ("embed", "1"),
            ("layers.0.a", "1"),
            ("layers.1.a", "2"),
            ("layers.2.a", "3"),
            ("layers.2.b", "3"),
            ("layers.3.a", "4"),
            ("norm", "4"),
        ];
        let weight_map = files.into_iter().map(|(name, file)| (name.to_owned(), file.to_owned())).collect();
        Index { weight_map, metadata: Metadata { total_size: Some(total.into()) } }
    }

    fn header(tensors: &[(&str, u64)]) -> Header {
        let tensor = |&(name, count): &(&str, u64)| Tensor {
            name: name.to_owned(),
            dtype: Dtype::Bf16,
            shape: vec![count],
            bytes: count * 2,
        };
        let tensors: Vec<Tensor> = tensors.iter().map(tensor).collect();
        Header { data_end: tensors.iter().map(|tensor| tensor.bytes).sum(), tensors, ..Header::default() }
    }

    #[test]
    fn a_few_files_tell_all() {
        let index = index(2 * (50 + 4 * 7 + 3 + 1));
        assert_eq!(index.telling(), ["1", "3", "4"]);
        let mut read = HashMap::from([
            ("1", header(&[("embed", 50), ("layers.0.a", 7)])),
            ("3", header(&[("layers.2.a", 7), ("layers.2.b", 3)])),
            ("4", header(&[("layers.3.a", 7), ("norm", 1)])),
        ]);
        let all = index.all(&read).unwrap();
        assert_eq!(all[1], header(&[("layers.1.a", 7)]));
        assert_eq!(all.iter().map(|header| header.data_end).sum::<u64>(), 164);
        // a layer that differs, and a sum that does
        assert_eq!(super::Index { metadata: Metadata::default(), ..index.clone() }.all(&read), None);
        read.insert("4", header(&[("layers.3.a", 7), ("norm", 2)]));
        assert_eq!(index.all(&read), None);
        read.insert("4", header(&[("layers.3.a", 6), ("norm", 2)]));
        assert_eq!(index.all(&read), None);
    }
}
