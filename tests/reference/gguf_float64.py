#!/usr/bin/env python3
"""Logits of models in GGUF files by forward passes in float64, on the file's own dequantised numbers, against `isothermctl logits`.
NumPy; shares nothing with the C code.

  gguf_float64.py ISOTHERMCTL [--families A,B] [FILE.gguf ...]    random models of all families, or of those, in every stored type; and the files
"""
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vectors"))
import make_blocks  # noqa: E402
import make_gguf  # noqa: E402
import make_logits  # noqa: E402
from forward_float64 import forward  # noqa: E402

TOLERANCE = 1e-4  # of the largest logit
FLOATS = {0: ("F32", 4, lambda b: b.view("<f4")), 1: ("F16", 2, lambda b: b.view("<f2")),
          30: ("BF16", 2, lambda b: (b.view("<u2").astype("<u4") << 16).view("<f4"))}
BLOCKS = {2: "Q4_0", 8: "Q8_0", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K"}
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


# ---------------------------------------------------------------- back to Hugging Face's words

WORDS = {"context_length": "max_position_embeddings", "embedding_length": "hidden_size", "feed_forward_length": "intermediate_size",
         "block_count": "num_hidden_layers", "attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads",
         "attention.sliding_window": "sliding_window", "attention.key_length": "head_dim", "attn_logit_softcapping": "attn_logit_softcapping",
         "final_logit_softcapping": "final_logit_softcapping", "attention.layer_norm_rms_epsilon": "rms_norm_eps",
         "rope.freq_base": "rope_theta", "rope.freq_base_swa": "rope_local_base_freq",
         "rope.scaling.original_context_length": "original_max_position_embeddings"}
GPT2_WORDS = {"block_count": "n_layer", "attention.head_count": "n_head", "attention.layer_norm_epsilon": "layer_norm_epsilon"}


def scaling_of(f, k):
    if "rope_factors_short.weight" in f.tensors:
        return {"type": "longrope", "short_factor": f.tensors["rope_factors_short.weight"], "long_factor": f.tensors["rope_factors_long.weight"],
                "attention_factor": k.get("rope.scaling.attn_factor")}
    if "rope_freqs.weight" in f.tensors:
        return {"type": "longrope", "short_factor": f.tensors["rope_freqs.weight"], "attention_factor": 1.0}
    if "rope.scaling.type" in k:
        return {"type": k["rope.scaling.type"], "factor": k["rope.scaling.factor"],
                "original_max_position_embeddings": k.get("rope.scaling.original_context_length")}
    return None


def config_of(f):
    arch = f.keys["general.architecture"]
    k = {key[len(arch) + 1:]: v for key, v in f.keys.items() if key.startswith(arch + ".")}
    words = GPT2_WORDS if arch == "gpt2" else WORDS
    c = {"model_type": {"gemma3": "gemma3_text"}.get(arch, arch), "tie_word_embeddings": "output.weight" not in f.tensors,
         "rope_scaling": scaling_of(f, k), "sliding_window": None, **{words[key]: v for key, v in k.items() if key in words}}
    if arch != "gpt2":
        c.setdefault("num_key_value_heads", c["num_attention_heads"])
        c.setdefault("original_max_position_embeddings", c["max_position_embeddings"])
    d = c.get("head_dim") or (c["hidden_size"] // c["num_attention_heads"] if arch != "gpt2" else 0)
    if "rope.dimension_count" in k:
        c["partial_rotary_factor"] = k["rope.dimension_count"] / d
    if arch.startswith("gemma"):
        c.update(query_pre_attn_scalar=d, sliding_window_pattern=6 if c["sliding_window"] else 1)
        c.setdefault("rope_local_base_freq", 10000.0)
    return c


def expected(path, ids):
    f = File(path)
    c = config_of(f)
    w = {}
    for name, a in f.tensors.items():
        if not name.startswith("rope_"):
            back = make_gguf.name_back(c["model_type"], name)
            w[back] = make_gguf.lay(c, back, a, False)
    return (make_logits.gpt2 if c["model_type"] == "gpt2" else forward)(c, w, np.asarray(ids))


def difference(program, path, ids):
    """the largest, as a part of the largest logit"""
    want = expected(path, ids)
    out = subprocess.run([program, "logits", "-m", path, "--ids", ",".join(map(str, ids)), "-o", "-"], stdout=subprocess.PIPE, check=True).stdout
    return np.abs(np.frombuffer(out, "<f4").reshape(want.shape) - want).max() / np.abs(want).max()


def main():
    program, *files = sys.argv[1:]
    families = make_gguf.FAMILIES
    if files[:1] == ["--families"]:
        families, files = files[1].split(","), files[2:]
    ids, bad = [int(i) for i in np.random.default_rng(5).integers(3, 64, 40)], 0
    with tempfile.TemporaryDirectory(prefix="isotherm-gguf-") as folder:
        groups = {**make_gguf.models(folder, families), **{os.path.basename(path): [path] for path in files}}
        for name, paths in groups.items():
            errors = [difference(program, path, ids) for path in paths]
            wrong = [os.path.basename(path) for path, x in zip(paths, errors) if not x <= TOLERANCE]
            bad += len(wrong)
            print(f"{name}: {len(paths)} files, largest difference {max(errors):.2g} of the largest logit{' TOO MUCH: ' if wrong else ''}{', '.join(wrong)}")
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
