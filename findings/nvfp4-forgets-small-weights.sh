#!/usr/bin/env bash
# NVFP4 as mlx and ggml make it depends on how large the weights are: small ones all become zero, and nothing says so.
#
# mlx 0.32.4 (CPU build), mlx-lm 0.32.2, gguf 0.19.0, and the ggml 0.13.1 in the package pywhispercpp 1.5.1, asked through its
# C functions. Seen in November 2026:
#
#   - NVFP4's scale of 16 weights is an unsigned 8-bit float whose smallest value is 1/512. NVIDIA's format has a float for the
#     whole tensor beside it; mlx's default and ggml's quantiser have none. So 16 weights that all lie within ±0.0058 (6/1024)
#     get a scale of 0. The relative error of the same normal weights, by their standard deviation:
#
#         deviation            1      0.05    0.02    0.01    0.005   0.002
#         NVFP4, mlx           0.095  0.096   0.103   0.126   0.137   0.954   4.5 bits a weight
#         NVFP4, ggml          0.095  0.096   0.103   0.126   0.137   0.954   4.5
#         NVFP4, tensor scale  0.095  0.095   0.095   0.095   0.095   0.095   4.5
#         MXFP4, mlx           0.116  0.117   0.119   0.119   0.119   0.117   4.25
#         affine in 64s, mlx   0.091  0.091   0.091   0.091   0.091   0.091   4.5
#
#     0.02 is a usual start of training. At 0.01 MXFP4 is closer already, although it takes less; affine is throughout.
#   - mlx-lm's quantize_model with global_scale=True gives that float to stacks of experts only. Of equal weights, a Linear
#     beside them is called nvfp4 in the configuration too, and is full of zeros. The log says "4.500 bits per weight".
#   - MXFP4 to NVFP4 is not lossless even at size 1, though both hold the same 4-bit numbers; MXFP4 to MXFP8 is.
#
# So two files of one quantisation and one size are not equally good: who chooses by bits a weight has to look for a tensor
# scale. Fails if any of this changes.
set -euo pipefail
cd "$(mktemp -d)"
python3 -m venv v
v/bin/pip -q install "mlx[cpu]==0.32.4" mlx-lm==0.32.2 gguf==0.19.0 pywhispercpp==1.5.1
cat > look.py <<'PY'
import ctypes
import glob

import gguf
import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models.switch_layers import SwitchLinear
from mlx_lm.utils import quantize_model

ggml = ctypes.CDLL(glob.glob("v/lib/python3*/site-packages/libggml-base.so")[0])
ggml.ggml_version.restype = ctypes.c_char_p
ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
NVFP4 = gguf.GGMLQuantizationType.NVFP4


def in_ggml(x):
    rows, width = x.shape
    packed = np.zeros((rows, width // 64 * 36), np.uint8)
    assert ggml.ggml_quantize_chunk(int(NVFP4), x.ctypes.data, packed.ctypes.data, 0, rows, width, None) == packed.nbytes
    return gguf.quants.dequantize(packed, NVFP4)


def in_mlx(mode, **scale):
    def there_and_back(x):
        packed = mx.quantize(mx.array(x), mode=mode, **scale)
        return np.array(mx.dequantize(*packed, mode=mode, dtype=mx.float32, **scale))

    return there_and_back


def with_tensor_scale(x):
    return in_mlx("nvfp4", global_scale=mx.array(float(np.abs(x).max())))(x)


def error(there_and_back, x):
    return float(np.sqrt(((there_and_back(x) - x) ** 2).sum() / (x**2).sum()))


print("ggml", ggml.ggml_version().decode())
normal = np.random.default_rng(1).standard_normal((256, 256)).astype(np.float32)
deviations = (1, 0.05, 0.02, 0.01, 0.005, 0.002)
errors = {}
for name, way in {
    "NVFP4, mlx": in_mlx("nvfp4"),
    "NVFP4, ggml": in_ggml,
    "NVFP4, tensor scale": with_tensor_scale,
    "MXFP4, mlx": in_mlx("mxfp4"),
    "affine in 64s, mlx": in_mlx("affine"),
}.items():
    errors[name] = [error(way, normal * np.float32(deviation)) for deviation in deviations]
    print(f"{name:20}", *(f"{e:.3f}" for e in errors[name]))
for bare in (errors["NVFP4, mlx"], errors["NVFP4, ggml"]):
    assert bare[0] < 0.097 and 0.12 < bare[3] < 0.13 and bare[5] > 0.94
    assert bare[2] < errors["MXFP4, mlx"][2] and bare[3] > errors["MXFP4, mlx"][3]
assert all(e < 0.097 for e in errors["NVFP4, tensor scale"])
assert all(e < 0.12 for e in errors["MXFP4, mlx"])
assert all(e < 0.093 for e in errors["affine in 64s, mlx"])

for largest, kept in [(0.0058, False), (0.0060, True)]:
    group = np.full((1, 64), largest, np.float32)
    seen = tuple(bool(way(group).any()) for way in (in_mlx("nvfp4"), in_ggml))
    print(f"weights of {largest}: anything left in mlx, ggml: {seen}")
    assert seen == (kept, kept)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(256, 256, bias=False)
        self.experts = SwitchLinear(256, 256, 2, bias=False)
        self.proj.weight = mx.array(normal * np.float32(0.001))
        self.experts.weight = mx.stack([self.proj.weight] * 2)


model, config = quantize_model(Small(), {}, None, None, mode="nvfp4", global_scale=True)
proj, experts = dict(model.proj.parameters()), dict(model.experts.parameters())
print("Linear:", *proj, "- experts:", *experts)
assert list(proj) == ["weight", "scales"] and set(experts) == {"weight", "scales", "global_scale"}
zeros = []
for arrays in (proj, {name: array[0] for name, array in experts.items()}):
    weights = mx.dequantize(arrays.pop("weight"), mode="nvfp4", dtype=mx.float32, **arrays)
    zeros.append(float((weights == 0).mean()))
print("configuration:", config["quantization"])
print(f"share of zeros: Linear {zeros[0]:.3f}, experts {zeros[1]:.3f}")
assert zeros[0] > 0.99 and zeros[1] < 0.2
assert config["quantization"]["mode"] == "nvfp4" and "proj" not in config["quantization"]

of_mxfp4 = in_mlx("mxfp4")(normal)
again = {mode: error(in_mlx(mode), of_mxfp4) for mode in ("mxfp4", "mxfp8", "nvfp4")}
print("MXFP4 quantised again:", {mode: round(e, 4) for mode, e in again.items()})
assert again["mxfp4"] == 0 and again["mxfp8"] == 0 and again["nvfp4"] > 0.01
PY
v/bin/python look.py 2>&1
