#!/usr/bin/env bash
# mlx 0.32.4 reads a GGUF file up to its first tensor of MXFP4 and drops that and the rest; what it does read takes more.
#
# The CPU build, on files that Python's gguf 0.19.0 wrote and reads. Seen in November 2026:
#
#   - At a tensor of MXFP4, TQ1_0, TQ2_0 or NVFP4 mx.load ends as if the file ended. It returns the tensors before, and all keys;
#     no error, no warning. gpt-oss's own GGUF files have their experts in MXFP4.
#   - At Q5_0, Q5_1, Q3_K, Q5_K, IQ4_NL or IQ4_XS it raises "gguf_tensor_to_f16 failed": Q4_K_M is read where no tensor fell
#     back to Q5_0, Q5_K_M and Q3_K_M never are. mx.load's own text says that unsupported ones are cast to float16.
#   - Q2_K, Q4_K and Q6_K do become float16, 2.6 to 16 bits and 4.5 to 16; Q4_0 becomes affine, 4.5 to 5 bits; Q8_0 8.5 to 9.
#   - BF16, which holds numbers up to 3e38, becomes float16 too: 1e5 is inf, 1e-8 is 0. The size does not show it.
#
# So a file's size says nothing of its memory in mlx, and a program has to compare the number of tensors with the header's.
# Fails if any of this changes.
set -euo pipefail
cd "$(mktemp -d)"
python3 -m venv v
v/bin/pip -q install "mlx[cpu]==0.32.4" gguf==0.19.0
cat > look.py <<'PY'
import gguf
import mlx.core as mx
import numpy as np

TYPE = gguf.GGMLQuantizationType


def written(kind):
    """Three tensors, the second of this type; how many bytes that has in the file."""
    writer = gguf.GGUFWriter("file.gguf", "llama")
    ones = np.ones((4, 256), np.float32)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    writer.add_tensor("a.weight", ones)
    if kind in (TYPE.F16, TYPE.BF16):
        writer.add_tensor("b.weight", gguf.quants.quantize(ones, kind), raw_dtype=kind)
    else:
        writer.add_tensor("b.weight", np.zeros((4, 256 // block * size), np.uint8), raw_dtype=kind)
    writer.add_tensor("c.weight", ones)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tensors = gguf.GGUFReader("file.gguf").tensors
    assert [t.name for t in tensors] == ["a.weight", "b.weight", "c.weight"]
    return tensors[1].n_bytes


def loaded():
    """The names without mlx's endings, and the bits a weight of the second tensor in the file and in memory."""
    try:
        arrays, keys = mx.load("file.gguf", return_metadata=True)
    except RuntimeError as error:
        return str(error)
    assert keys["general.architecture"] == "llama"
    names = "".join(sorted({name.split(".")[0] for name in arrays}))
    return names, sum(array.nbytes for name, array in arrays.items() if name[0] == "b") * 8 / 1024


failed = "[load_gguf] gguf_tensor_to_f16 failed"
for kind, expected in {
    "F16": ("abc", 16.0),
    "BF16": ("abc", 16.0),
    "Q8_0": ("abc", 9.0),
    "Q4_1": ("abc", 5.0),
    "Q4_0": ("abc", 5.0),
    "Q2_K": ("abc", 16.0),
    "Q4_K": ("abc", 16.0),
    "Q6_K": ("abc", 16.0),
    "Q3_K": failed,
    "Q5_K": failed,
    "Q5_0": failed,
    "Q5_1": failed,
    "IQ4_NL": failed,
    "IQ4_XS": failed,
    "MXFP4": ("a", 0.0),
    "NVFP4": ("a", 0.0),
    "TQ1_0": ("a", 0.0),
    "TQ2_0": ("a", 0.0),
}.items():
    in_file = written(TYPE[kind]) * 8 / 1024
    seen = loaded()
    print(f"{kind:6} {in_file:6.3f} bits in the file, mlx:", seen)
    assert seen == expected, kind

writer = gguf.GGUFWriter("file.gguf", "llama")
numbers = np.array([[1, 1e5, 3e38, 1e-8] * 8], np.float32)
writer.add_tensor("a.weight", gguf.quants.quantize(numbers, TYPE.BF16), raw_dtype=TYPE.BF16)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
seen = mx.load("file.gguf")["a.weight"]
print("BF16", numbers[0, :4], "becomes", seen[0, :4])
assert seen.dtype == mx.float16 and np.array(seen)[0, :4].tolist() == [1, np.inf, np.inf, 0]
assert "will automatically cast to ``mx.float16``" in mx.load.__doc__
PY
v/bin/python look.py 2>&1
