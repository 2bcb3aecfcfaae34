#!/usr/bin/env python3
"""Logits of llama models in GGUF files by the textbook formulas in float64, on the file's own dequantised numbers, against `isothermctl logits`.
NumPy; shares nothing with the C code. Rotary positions turn neighbouring pairs, as these files store q and k.

  gguf_float64.py ISOTHERMCTL FOLDER [FILE.gguf ...]    makes one random model of each quantised type in FOLDER, compares those and the files
"""
import os
import struct
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vectors"))
import make_blocks  # noqa: E402

TOLERANCE = 1e-4  # of the largest logit
FLOATS = {0: ("F32", 4, lambda b: b.view("<f4")), 1: ("F16", 2, lambda b: b.view("<f2")),
          30: ("BF16", 2, lambda b: (b.view("<u2").astype("<u4") << 16).view("<f4"))}
BLOCKS = {2: "Q4_0", 8: "Q8_0", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K"}
SCALES = {"Q4_0": (0.02,), "Q8_0": (0.0015,), "Q4_K": (2e-4, 1.5e-3), "Q5_K": (1e-4, 1.5e-3), "Q6_K": (5e-5,)}
NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}


def values(type_id, raw, shape):
    if type_id in FLOATS:
        return FLOATS[type_id][2](raw).astype(np.float64).reshape(shape)
    size, _, expand = make_blocks.TYPES[BLOCKS[type_id]]
    return expand(raw.reshape(-1, size)).astype(np.float64).reshape(shape)


def n_bytes(type_id, n):
    if type_id in FLOATS:
        return n * FLOATS[type_id][1]
    return n // (32 if type_id in (2, 8) else 256) * make_blocks.TYPES[BLOCKS[type_id]][0]


class File:
    def __init__(self, path):
        self.raw, self.at, self.keys, self.tensors = np.fromfile(path, np.uint8), 4, {}, {}
        _, n_tensors, n_keys = self.take("<I"), self.take("<Q"), self.take("<Q")
        for _ in range(n_keys):
            key = self.text()
            self.keys[key] = self.value(self.take("<I"))
        infos = []
        for _ in range(n_tensors):
            name, n_dims = self.text(), self.take("<I")
            shape = [self.take("<Q") for _ in range(n_dims)][::-1]
            infos.append((name, shape, self.take("<I"), self.take("<Q")))
        align = self.keys.get("general.alignment", 32)
        base = -(-self.at // align) * align
        for name, shape, type_id, offset in infos:
            n = n_bytes(type_id, int(np.prod(shape)))
            self.tensors[name] = values(type_id, self.raw[base + offset:base + offset + n].copy(), shape)

    def take(self, fmt):
        n = struct.calcsize(fmt)
        (v,) = struct.unpack(fmt, self.raw[self.at:self.at + n].tobytes())
        self.at += n
        return v

    def text(self):
        n = self.take("<Q")
        self.at += n
        return self.raw[self.at - n:self.at].tobytes().decode("utf-8", "replace")

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            kind, n = self.take("<I"), self.take("<Q")
            return [self.value(kind) for _ in range(n)]
        return self.take(NUMBERS[kind])


def forward(f, ids):
    k = {key.split(".", 1)[1]: v for key, v in f.keys.items() if key.startswith("llama.")}
    heads, kv_heads = k["attention.head_count"], k.get("attention.head_count_kv", k["attention.head_count"])
    w, eps, n = f.tensors, k["attention.layer_norm_rms_epsilon"], len(ids)
    x = w["token_embd.weight"][ids]
    d = x.shape[1] // heads
    angle = np.arange(n)[:, None, None] * k.get("rope.freq_base", 10000.0) ** (-np.arange(0, d, 2) / d)
    turn = np.exp(1j * angle)

    def norm(v, gain):
        return v / np.sqrt((v * v).mean(-1, keepdims=True) + eps) * gain

    def rotate(v):
        z = (v[..., 0::2] + 1j * v[..., 1::2]) * turn
        return np.stack([z.real, z.imag], axis=-1).reshape(v.shape)

    for i in range(k["block_count"]):
        def m(name):
            return w[f"blk.{i}.{name}.weight"]
        h = norm(x, m("attn_norm"))
        q = rotate((h @ m("attn_q").T).reshape(n, heads, d))
        keys = rotate((h @ m("attn_k").T).reshape(n, kv_heads, d)).repeat(heads // kv_heads, axis=1)
        v = (h @ m("attn_v").T).reshape(n, kv_heads, d).repeat(heads // kv_heads, axis=1)
        s = np.einsum("thd,uhd->htu", q, keys) / np.sqrt(d)
        s = np.where(np.tri(n, dtype=bool), s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        x = x + np.einsum("htu,uhd->thd", p, v).reshape(n, -1) @ m("attn_output").T
        h = norm(x, m("ffn_norm"))
        gate = h @ m("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ m("ffn_up").T)) @ m("ffn_down").T
    return norm(x, w["output_norm.weight"]) @ w.get("output.weight", w["token_embd.weight"]).T


def make(path, name, dim=256, heads=4, kv_heads=2, ffn=512, vocab=64, layers=2):
    """a random llama whose matrices are all of that type"""
    random = np.random.Generator(np.random.PCG64(len(name) + make_blocks.TYPES[name][0]))
    type_id = {v: k for k, v in BLOCKS.items()}[name]
    block, at = (32 if type_id in (2, 8) else 256), make_blocks.TYPES[name][1]

    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()

    def matrix(rows, columns):
        b = random.integers(0, 256, (rows * columns // block, make_blocks.TYPES[name][0]), dtype=np.uint8)
        for place, scale in zip(at, SCALES[name]):
            half = (random.uniform(0.5, 1.5, len(b)) * scale).astype("<f2")
            b[:, place:place + 2] = half.view(np.uint8).reshape(-1, 2)
        return (rows, columns), type_id, b.tobytes()

    def gain():
        return (dim,), 0, random.uniform(0.8, 1.2, dim).astype("<f4").tobytes()

    kv_dim = dim // heads * kv_heads
    tensors = {"token_embd.weight": matrix(vocab, dim), "output_norm.weight": gain(), "output.weight": matrix(vocab, dim)}
    for i in range(layers):
        for key, made in (("attn_norm", gain()), ("attn_q", matrix(dim, dim)), ("attn_k", matrix(kv_dim, dim)), ("attn_v", matrix(kv_dim, dim)),
                          ("attn_output", matrix(dim, dim)), ("ffn_norm", gain()), ("ffn_gate", matrix(ffn, dim)), ("ffn_up", matrix(ffn, dim)),
                          ("ffn_down", matrix(dim, ffn))):
            tensors[f"blk.{i}.{key}.weight"] = made
    pairs = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    for key, v in (("embedding_length", dim), ("feed_forward_length", ffn), ("block_count", layers), ("context_length", 64),
                   ("attention.head_count", heads), ("attention.head_count_kv", kv_heads)):
        pairs.append(text("llama." + key) + struct.pack("<II", 4, v))
    for key, v in (("attention.layer_norm_rms_epsilon", 1e-5), ("rope.freq_base", 50000.0)):
        pairs.append(text("llama." + key) + struct.pack("<If", 6, v))
    head, body = b"", b""
    for key, (shape, kind, data) in tensors.items():
        head += text(key) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1]) + struct.pack("<IQ", kind, len(body))
        body += data + b"\0" * (-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs) + head
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + body)


def main():
    program, folder, files = sys.argv[1], sys.argv[2], sys.argv[3:]
    bad = 0
    for name in make_blocks.TYPES:
        files.append(os.path.join(folder, name + ".gguf"))
        make(files[-1], name)
    ids = [1, 40, 7, 7, 23, 60, 3, 11, 12, 13, 50, 2]
    for path in files:
        want = forward(File(path), ids)
        out = subprocess.run([program, "logits", "-m", path, "--ids", ",".join(map(str, ids)), "-o", "-"], stdout=subprocess.PIPE, check=True).stdout
        error = np.abs(np.frombuffer(out, "<f4").reshape(want.shape) - want).max() / np.abs(want).max()
        bad += not error <= TOLERANCE
        print(f"{os.path.basename(path)}: largest difference {error:.2g} of the largest logit{'' if error <= TOLERANCE else ' TOO MUCH'}")
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
