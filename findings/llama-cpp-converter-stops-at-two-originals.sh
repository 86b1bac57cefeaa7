#!/usr/bin/env bash
# llama.cpp's converter does not convert two kinds of original weights, both as they are published, and says nothing that helps.
#
# The converter is the one in the source of the package llama-cpp-python 0.3.36 (`vendor/llama.cpp/conversion`); seen in November
# 2026, with transformers 4.57.6, which its requirements name:
#
#   - StableLM with norms for each head (`qk_layernorm`, as StableLM 2 12B has them) ends in "ValueError: Unprocessed norms": the
#     method that stacks them is a generator whose caller returns it instead of going through it, so nothing of it runs.
#   - Qwen3-Next without the tensors that predict further tokens, as finetunes leave them out, ends in an assertion without a
#     message. With `--no-mtp` the same folder is converted.
#
# The vocabulary is left out here, as its files are of no matter for that. Downloads some gigabytes: torch has no smaller package
# for every system. Fails if any of this changes.
set -euo pipefail
cd "$(mktemp -d)"
python3 -m venv v
v/bin/pip -q install torch transformers==4.57.6 "numpy<2.3" safetensors sentencepiece pyyaml tqdm requests
v/bin/pip -q download --no-deps --no-binary llama-cpp-python llama-cpp-python==0.3.36
tar xzf llama_cpp_python-0.3.36.tar.gz --wildcards '*/vendor/llama.cpp/conversion/*' '*/vendor/llama.cpp/gguf-py/*'
cat > look.py <<'PY'
import json
import logging
import pathlib
import sys

LLAMA_CPP = pathlib.Path("llama_cpp_python-0.3.36/vendor/llama.cpp")
sys.path[:0] = [str(LLAMA_CPP), str(LLAMA_CPP / "gguf-py")]

import gguf
import torch
from conversion import ModelBase, get_model_class
from safetensors.torch import save_file

logging.disable(logging.CRITICAL)
WIDTH, VOCAB = 64, 128


def converted(name, class_name, config, tensors, no_mtp=False):
    """What the converter writes of such a model with one layer: the names of its tensors, or how it ends."""
    folder = pathlib.Path(name)
    folder.mkdir(exist_ok=True)
    config = {
        "architectures": [class_name], "hidden_size": WIDTH, "num_hidden_layers": 1, "intermediate_size": 96,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCAB, "max_position_embeddings": 4096,
        "rope_theta": 10000.0, "partial_rotary_factor": 0.25, "tie_word_embeddings": False, **config,
    }
    (folder / "config.json").write_text(json.dumps(config))
    layer = {
        "input_layernorm.weight": [WIDTH], "post_attention_layernorm.weight": [WIDTH],
        "self_attn.k_proj.weight": [32, WIDTH], "self_attn.v_proj.weight": [32, WIDTH],
        "self_attn.o_proj.weight": [WIDTH, 64], **tensors,
    }
    weights = {f"model.layers.0.{name}": torch.zeros(shape, dtype=torch.bfloat16) for name, shape in layer.items()}
    for name, shape in (("model.embed_tokens", [VOCAB, WIDTH]), ("model.norm", [WIDTH]), ("lm_head", [VOCAB, WIDTH])):
        weights[f"{name}.weight"] = torch.zeros(shape, dtype=torch.bfloat16)
    save_file(weights, str(folder / "model.safetensors"))
    ModelBase.load_hparams(folder, False)
    known = get_model_class(class_name)
    without_vocabulary = {"set_vocab": lambda self: None, "no_mtp": no_mtp, "model_arch": known.model_arch}
    written = folder / "out.gguf"
    try:
        with torch.inference_mode():
            type(known.__name__, (known,), without_vocabulary)(folder, gguf.LlamaFileType.GUESSED, written).write()
    except (AssertionError, ValueError) as error:
        return f"{type(error).__name__}: {error}".strip()
    return sorted(tensor.name for tensor in gguf.GGUFReader(str(written)).tensors)


glu = {"mlp.gate_proj.weight": [96, WIDTH], "mlp.up_proj.weight": [96, WIDTH], "mlp.down_proj.weight": [WIDTH, 96]}
stable = {"self_attn.q_proj.weight": [64, WIDTH], **glu}
config = {"model_type": "stablelm", "layer_norm_eps": 1e-5, "use_parallel_residual": True}
plain = converted("plain", "StableLmForCausalLM", config, stable)
print("StableLM:", len(plain), "tensors")
norms = {f"self_attn.q_layernorm.norms.{head}.weight": [16] for head in range(4)}
norms |= {f"self_attn.k_layernorm.norms.{head}.weight": [16] for head in range(2)}
headed = converted("headed", "StableLmForCausalLM", {**config, "qk_layernorm": True}, {**stable, **norms})
print("StableLM with norms for each head:", headed)
assert len(plain) == 12 and str(headed).startswith("ValueError: Unprocessed norms"), (plain, headed)

config = {
    "model_type": "qwen3_next", "head_dim": 16, "rms_norm_eps": 1e-6, "full_attention_interval": 1, "num_experts": 2,
    "num_experts_per_tok": 1, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_num_key_heads": 2, "linear_value_head_dim": 16,
    "linear_num_value_heads": 4, "decoder_sparse_step": 1, "norm_topk_prob": True,
}
sparse = {
    "self_attn.q_proj.weight": [128, WIDTH], "self_attn.q_norm.weight": [16], "self_attn.k_norm.weight": [16],
    "mlp.gate.weight": [2, WIDTH], "mlp.shared_expert_gate.weight": [1, WIDTH],
}
for part, shape in (("gate_proj", [32, WIDTH]), ("up_proj", [32, WIDTH]), ("down_proj", [WIDTH, 32])):
    sparse |= {f"mlp.experts.{expert}.{part}.weight": shape for expert in range(2)}
    sparse[f"mlp.shared_expert.{part}.weight"] = shape
ends = converted("next", "Qwen3NextForCausalLM", config, sparse)
print("Qwen3-Next without further tokens:", ends)
without = converted("next", "Qwen3NextForCausalLM", config, sparse, no_mtp=True)
print("the same with --no-mtp:", len(without), "tensors")
assert ends == "AssertionError:" and "blk.0.attn_q.weight" in without, (ends, without)
PY
v/bin/python look.py
