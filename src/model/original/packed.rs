//! Weights as they are once the converter has read them: those that are stored in other ways than as numbers of 16 or 32 bits
//! come to their own shape again, and what belongs to them is gone. Source: `dequant_model` in `conversion/base.py`.

use std::collections::HashSet;

use serde_json::Value;

use super::OriginalError;
use crate::model::config::ModelConfig;
use crate::safetensors::{Dtype, Stored, Tensor};

/// The tensors with their shapes.
pub(super) fn unpacked(config: &ModelConfig, stored: &Stored) -> Result<Vec<Tensor>, OriginalError> {
    let written = config.get("quantization_config").filter(|value| value.is_object());
    let Some(written) = written else { return Ok(stored.tensors.clone()) };
    let text = |key: &str| written.get(key).and_then(Value::as_str).unwrap_or_default();
    let names: HashSet<&str> = stored.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let plain = |beside: &[&str]| {
        let is_beside = |tensor: &&Tensor| !beside.iter().any(|ending| tensor.name.ends_with(ending));
        Ok(stored.tensors.iter().filter(is_beside).cloned().collect())
    };
    match (text("quant_method"), text("format")) {
        // the experts of gpt-oss are read as they are
        ("mxfp4", _) => Ok(stored.tensors.clone()),
        ("fp8", _) => plain(&["_scale_inv", ".activation_scale", "_activation_scale", ".qscale_weight", ".qscale_act"]),
        ("compressed-tensors", "float-quantized" | "int-quantized" | "naive-quantized") => {
            plain(&[".weight_scale", ".input_scale", ".k_scale", ".v_scale"])
        }
        ("compressed-tensors", "pack-quantized") => words(&stored.tensors, written),
        ("modelopt", _) if text("quant_algo") == "FP8" => {
            plain(&[".weight_scale", ".input_scale", ".k_scale", ".v_scale"])
        }
        ("gptq", _) => {
            let bits = written.get("bits").and_then(Value::as_u64).filter(|bits| matches!(bits, 2 | 4 | 8));
            let bits = bits.ok_or_else(|| OriginalError::Packed("GPTQ of another width".to_owned()))?;
            let one = |tensor: &Tensor| {
                let Some(base) = tensor.name.strip_suffix(".qweight") else {
                    let of = tensor.name.rsplit_once('.').map_or("", |(base, _)| base);
                    let beside = [".g_idx", ".qzeros", ".scales"].iter().any(|ending| tensor.name.ends_with(ending));
                    let is_part = beside && names.contains(format!("{of}.qweight").as_str());
                    return (!is_part).then(|| tensor.clone());
                };
                let &[rows, columns] = tensor.shape.as_slice() else { return None };
                Some(half(format!("{base}.weight"), vec![columns, rows.saturating_mul(32 / bits)]))
            };
            Ok(stored.tensors.iter().filter_map(one).collect())
        }
        (method, format) => {
            let parts = [method, format].into_iter().filter(|part| !part.is_empty());
            Err(OriginalError::Packed(parts.collect::<Vec<_>>().join(", ")))
        }
    }
}

/// Weights in words of 32 bits, as compressed-tensors packs them: `X.weight_packed`, with its shape and scales.
fn words(tensors: &[Tensor], written: &Value) -> Result<Vec<Tensor>, OriginalError> {
    let group = written.get("config_groups").and_then(Value::as_object).and_then(|groups| groups.values().next());
    let weights = group.and_then(|group| group.get("weights"));
    let bits = weights.and_then(|weights| weights.get("num_bits")).and_then(Value::as_u64);
    let bits = bits.filter(|bits| matches!(bits, 2 | 4 | 8));
    let bits = bits.ok_or_else(|| OriginalError::Packed("compressed-tensors of another width".to_owned()))?;
    let beside = [".weight_shape", ".weight_scale", ".weight_zero_point"];
    let one = |tensor: &Tensor| {
        if beside.iter().any(|ending| tensor.name.ends_with(ending)) {
            return None;
        }
        let Some(base) = tensor.name.strip_suffix("_packed") else { return Some(tensor.clone()) };
        let mut shape = tensor.shape.clone();
        let last = shape.last_mut()?;
        *last = last.saturating_mul(32 / bits);
        Some(half(base.to_owned(), shape))
    };
    Ok(tensors.iter().filter_map(one).collect())
}

/// A tensor of numbers of 16 bits.
fn half(name: String, shape: Vec<u64>) -> Tensor {
    let dtype = Dtype::Bf16;
    Tensor { bytes: dtype.bytes(&shape).unwrap_or(0), name, dtype, shape }
}
