#!/usr/bin/env bash
# mlx-lm 0.32.2 keeps a whole cache for models with sliding windows once they are published with an image encoder.
#
# The same text model can be named by its own type (llama, ministral3) or sit inside the type of its vision model (mistral3,
# pixtral). Tiny models with the same weights, three layers of four with a window of 64, mlx 0.32.4 (CPU build), 2,005 tokens.
# Seen in November 2026:
#
#     type                                  caches of the four layers     bytes after 2,005 tokens
#     ministral3, llama                     three rotating, one growing      564,224
#     mistral3 around either, pixtral       four growing                   2,060,288   the same logits
#
#   - These two wrappers do not pass on the text model's choice of caches, which those of Gemma 3, Gemma 4 and LFM2 do. So a
#     window bounds nothing: every layer's cache grows with the context, 3.65 times as much here.
#   - With a limit (max_kv_size, --max-kv-size) it is the other way round. The plain types ignore it without a word. The wrappers
#     heed it in every layer, full attention too: 131,072 bytes, and other logits, as tokens are forgotten.
#
# So neither the window nor the limit in a command says what such a model takes: its config.json's outer model_type does. Fails
# if any of this changes.
set -euo pipefail
cd "$(mktemp -d)"
python3 -m venv v
v/bin/pip -q install "mlx[cpu]==0.32.4" mlx-lm==0.32.2
cat > look.py <<'PY'
import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models import llama, ministral3, mistral3, pixtral
from mlx_lm.models.cache import make_prompt_cache

WINDOW, CHUNK, PROMPT = 64, 500, 1999


def text_config(kind):
    config = dict(
        model_type=kind, hidden_size=64, num_hidden_layers=4, intermediate_size=128, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-5, vocab_size=128, max_position_embeddings=8192,
        tie_word_embeddings=False, layer_types=["sliding_attention"] * 3 + ["full_attention"], sliding_window=WINDOW,
    )
    if kind == "ministral3":
        config["rope_parameters"] = dict(
            rope_theta=1e6, rope_type="default", type="default", llama_4_scaling_beta=0.0,
            original_max_position_embeddings=8192,
        )
    return config


def read(model, tokens, limit):
    """The kinds of the caches, their bytes after a prompt by chunks and six tokens, and the last logits."""
    caches = make_prompt_cache(model, limit)
    for start in range(0, PROMPT, CHUNK):
        model(tokens[:, start : min(start + CHUNK, PROMPT)], cache=caches)
        mx.eval([cache.state for cache in caches])
    for _ in range(6):
        logits = model(tokens[:, PROMPT:], cache=caches)
        mx.eval(logits)
    return [type(cache).__name__ for cache in caches], sum(cache.nbytes for cache in caches), logits[0, -1]


for module, wrappers in ((ministral3, [mistral3]), (llama, [mistral3, pixtral])):
    kind = module.__name__.rsplit(".", 1)[-1]
    mx.random.seed(1)
    tokens = mx.random.randint(0, 128, (1, PROMPT + 1))
    plain = module.Model(module.ModelArgs.from_dict(text_config(kind)))
    rotating, growing = "RotatingKVCache", "KVCache"
    for wrapper in wrappers:
        name = wrapper.__name__.rsplit(".", 1)[-1]
        around = wrapper.Model(wrapper.ModelArgs.from_dict(dict(model_type=name, text_config=text_config(kind))))
        around.language_model.load_weights(tree_flatten(plain.parameters()))
        own, behind = read(plain, tokens, None), read(around, tokens, None)
        print(kind, own[:2])
        print(f"{name} around {kind}", behind[:2])
        assert own[:2] == ([rotating] * 3 + [growing], 564_224)
        assert behind[:2] == ([growing] * 4, 2_060_288)
        assert mx.abs(own[2] - behind[2]).max().item() < 1e-4
        own_limited, behind_limited = read(plain, tokens, 128), read(around, tokens, 128)
        print("with a limit of 128:", own_limited[1], "and", behind_limited[1])
        assert own_limited[:2] == own[:2]
        assert behind_limited[:2] == ([rotating] * 4, 131_072)
        assert mx.abs(own[2] - behind_limited[2]).max().item() > 0.1
print("as seen in November 2026")
PY
v/bin/python look.py
