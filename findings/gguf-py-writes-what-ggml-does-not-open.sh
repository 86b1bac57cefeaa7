#!/usr/bin/env bash
# Python's package gguf 0.19.0 writes files, and reads them back, that ggml 0.13.1 does not open; and it loses a key.
#
# ggml is the one in the package pywhispercpp 1.5.1, asked through its C functions. Seen in November 2026:
#
#   - A row of 32 weights of Q8_1 has 40 bytes for gguf and 36 for ggml (two half floats, not two floats, before the weights),
#     the only one of 34 types that differs. Where padding does not hide it, the second tensor of a file that gguf writes
#     begins elsewhere than ggml expects.
#   - gguf takes names of tensors of 64 bytes, five dimensions, and lists of lists as values; ggml takes 63, four, and none.
#   - A list without values is not written at all: add_array says nothing, and the key is not in the file.
#
# So a file that a Python script has read back is not yet one that llama.cpp opens. Fails if any of this changes.
set -euo pipefail
cd "$(mktemp -d)"
python3 -m venv v
v/bin/pip -q install gguf==0.19.0 pywhispercpp==1.5.1
cat > look.py <<'PY'
import ctypes
import glob
import os

import gguf
import numpy as np

ggml = ctypes.CDLL(glob.glob("v/lib/python3*/site-packages/libggml-base.so")[0])


class Parameters(ctypes.Structure):
    _fields_ = [("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p)]


ggml.ggml_version.restype = ctypes.c_char_p
ggml.ggml_type_size.restype = ctypes.c_size_t
ggml.ggml_blck_size.restype = ctypes.c_int64
ggml.gguf_init_from_file.restype = ctypes.c_void_p
ggml.gguf_init_from_file.argtypes = [ctypes.c_char_p, Parameters]


def tried(name, fill):
    """Writes a file; whether gguf reads it back with all its tensors, whether ggml opens it, and gguf's keys."""
    writer = gguf.GGUFWriter(name, "llama")
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    reader = gguf.GGUFReader(name)
    opened = ggml.gguf_init_from_file(os.fsencode(name), Parameters(True, None)) is not None
    return len(reader.tensors) > 0, opened, list(reader.fields)


def tensor(name, shape=(8, 32)):
    return lambda writer: writer.add_tensor(name, np.ones(shape, np.float32))


def two_of_q8_1(writer):
    for name in ("a.weight", "b.weight"):
        writer.add_tensor(name, np.zeros((8, 40), np.uint8), raw_dtype=gguf.GGMLQuantizationType.Q8_1)


def with_list(values):
    def fill(writer):
        writer.add_array("llama.some_list", values)
        tensor("a.weight")(writer)

    return fill


print("ggml", ggml.ggml_version().decode())
sizes = gguf.GGML_QUANT_SIZES.items()
differ = {
    kind.name: (size, (ggml.ggml_blck_size(int(kind)), ggml.ggml_type_size(int(kind))))
    for kind, size in sizes
    if size != (ggml.ggml_blck_size(int(kind)), ggml.ggml_type_size(int(kind)))
}
print("types that differ:", differ, "of", len(sizes))
assert differ == {"Q8_1": ((32, 40), (32, 36))}

for what, fill, expected in [
    ("two tensors", lambda writer: (tensor("a.weight")(writer), tensor("b.weight")(writer)), True),
    ("two tensors of Q8_1", two_of_q8_1, False),
    ("a name of 63 bytes", tensor("n" * 63), True),
    ("a name of 64 bytes", tensor("n" * 64), False),
    ("four dimensions", tensor("a.weight", (1, 1, 2, 32)), True),
    ("five dimensions", tensor("a.weight", (1, 1, 1, 2, 32)), False),
    ("a list of numbers", with_list([1, 2]), True),
    ("a list of lists", with_list([[1, 2], [3, 4]]), False),
]:
    read, opened, _ = tried("file.gguf", fill)
    print(f"{what}: gguf reads it: {read}, ggml opens it: {opened}")
    assert read and opened == expected, what

_, _, keys = tried("file.gguf", with_list([]))
print("keys with an empty list:", keys)
assert "llama.some_list" not in keys
PY
v/bin/python look.py 2>&1
