#!/usr/bin/env python3
"""Models as .gguf files, named and laid out as the format's published converter does for each architecture. NumPy; shares nothing with the C code.

  make_gguf.py models FOLDER              one random model of every family and stored type: FOLDER/<family>-<type>.gguf
  make_gguf.py convert FOLDER FILE.gguf   a folder with config.json, model.safetensors and tokenizer.json, in F32

The quantised blocks are made by rounding of the plainest kind: what they stand for is what is compared, not how well they fit.
"""
import json
import os
import struct
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
VECTORS = os.path.join(HERE, "..", "vectors")
sys.path[:0] = [HERE, VECTORS]
from forward_float64 import head_dim, llama3_frequencies, longrope_gain, scaling, theta_of  # noqa: E402
from make_families import config, tensors, to_bf16  # noqa: E402
from make_logits import load  # noqa: E402

# ---------------------------------------------------------------- blocks. x: [blocks][numbers of one]


def half(a):
    return np.ascontiguousarray(a, "<f2").view(np.uint8).reshape(len(a), -1)


def over(x, d):
    return np.divide(x, d, out=np.zeros_like(x), where=d != 0)


def as_half(a):
    return a.astype("<f2").astype(np.float64)


def q8_0(x):
    d = as_half(np.abs(x).max(1, keepdims=True) / 127)
    return np.hstack([half(d), np.rint(over(x, d)).clip(-128, 127).astype("i1").view(np.uint8)])


def q4_0(x):
    far = np.take_along_axis(x, np.abs(x).argmax(1)[:, None], 1)
    d = as_half(far / -8)
    q = (np.rint(over(x, d)) + 8).clip(0, 15).astype(np.uint8)
    return np.hstack([half(d), q[:, :16] | q[:, 16:] << 4])


def six_bits(a, m):
    """eight scales and eight minima in twelve bytes"""
    return np.hstack([a[:, :4] | (a[:, 4:] >> 4) << 6, m[:, :4] | (m[:, 4:] >> 4) << 6, (a[:, 4:] & 15) | (m[:, 4:] & 15) << 4])


def k_groups(x, top):
    """-> head of the block, numbers 0 .. top [blocks][8][32]"""
    g = x.reshape(-1, 8, 32)
    low = -np.minimum(g.min(2), 0)
    step = (g.max(2).clip(0) + low) / top
    d, dmin = (as_half(a.max(1, keepdims=True) / 63) for a in (step, low))
    a, m = (np.rint(over(v, b)).clip(0, 63).astype(np.uint8) for v, b in ((step, d), (low, dmin)))
    q = np.rint(over(g + (dmin * m)[:, :, None], (d * a)[:, :, None] * np.ones(32))).clip(0, top).astype(np.uint8)
    return np.hstack([half(d), half(dmin), six_bits(a, m)]), q


def nibbles(q):
    pairs = (q & 15).reshape(-1, 4, 2, 32)
    return (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(-1, 128)


def q4_k(x):
    head, q = k_groups(x, 15)
    return np.hstack([head, nibbles(q)])


def q5_k(x):
    head, q = k_groups(x, 31)
    high = ((q >> 4) << np.arange(8, dtype=np.uint8)[None, :, None]).sum(1).astype(np.uint8)
    return np.hstack([head, high, nibbles(q)])


def q6_k(x):
    g = x.reshape(-1, 16, 16)
    step = np.abs(g).max(2) / 31
    d = as_half(step.max(1, keepdims=True) / 127)
    s = np.rint(over(step, d)).clip(0, 127)
    q = (np.rint(over(g, (d * s)[:, :, None] * np.ones(16))).clip(-32, 31) + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    low = np.concatenate([q[:, :, 0] & 15 | (q[:, :, 2] & 15) << 4, q[:, :, 1] & 15 | (q[:, :, 3] & 15) << 4], axis=2)
    high = q[:, :, 0] >> 4 | q[:, :, 1] >> 4 << 2 | q[:, :, 2] >> 4 << 4 | q[:, :, 3] >> 4 << 6
    return np.hstack([low.reshape(-1, 128), high.reshape(-1, 64), s.astype("i1").view(np.uint8), half(d)])


# name -> (number of the type, numbers in a block, array of rows -> bytes)
TYPES = {"F32": (0, 1, lambda a: a.astype("<f4")), "F16": (1, 1, lambda a: a.astype("<f2")), "BF16": (30, 1, to_bf16),
         "Q4_0": (2, 32, q4_0), "Q8_0": (8, 32, q8_0), "Q4_K": (12, 256, q4_k), "Q5_K": (13, 256, q5_k), "Q6_K": (14, 256, q6_k)}


def encode(name, a):
    number, n, make = TYPES[name]
    return number, make(a.astype(np.float64) if n == 1 else a.astype(np.float64).reshape(-1, n)).tobytes()


# ---------------------------------------------------------------- the file

PACK = {"u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?")}


def text(s):
    s = s.encode()
    return struct.pack("<Q", len(s)) + s


def value(kind, v):
    return text(v) if kind == "string" else struct.pack(PACK[kind][1], v)


def pair(key, kind, v):
    number = 8 if kind == "string" else PACK[kind][0]
    if isinstance(v, list):
        return text(key) + struct.pack("<IIQ", 9, number, len(v)) + b"".join(value(kind, x) for x in v)
    return text(key) + struct.pack("<I", number) + value(kind, v)


def write(path, pairs, matrices, arrays):
    """pairs: [(key, kind, value)]; vectors and positions are F32, matrices of that type"""
    head, body = b"", b""
    for name, a in arrays.items():
        number, raw = encode("F32" if a.ndim == 1 or name.startswith("position_embd") else matrices, a)
        head += text(name) + struct.pack("<I", a.ndim) + struct.pack("<%dQ" % a.ndim, *a.shape[::-1]) + struct.pack("<IQ", number, len(body))
        body += raw + b"\0" * (-len(raw) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(arrays), len(pairs)) + b"".join(pair(*p) for p in pairs) + head
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + body)


# ---------------------------------------------------------------- a family's names, layout and keys

OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
INNER = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
PHI3 = {"input_layernorm": "attn_norm", "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output",
        "post_attention_layernorm": "ffn_norm", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
GEMMA = {**INNER, "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
         "post_feedforward_layernorm": "post_ffw_norm"}
GPT2_OUTER = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "lm_head": "output"}
GPT2 = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up",
        "mlp.c_proj": "ffn_down"}


def names_of(family):
    """-> names outside of layers, a layer's, what the latter stand behind"""
    if family == "gpt2":
        return GPT2_OUTER, GPT2, "h"
    return OUTER, PHI3 if family == "phi3" else GEMMA if family.startswith("gemma") else INNER, "model.layers"


def arch_of(c):
    return {"gemma3_text": "gemma3"}.get(c["model_type"], c["model_type"])


def gguf_name(family, name):
    outer, inner, head = names_of(family)
    stem, end = name.rsplit(".", 1)
    if stem in outer:
        return "%s.%s" % (outer[stem], end)
    n, rest = stem[len(head) + 1:].split(".", 1)
    return "blk.%s.%s.%s" % (n, inner[rest], end)


def name_back(family, name):
    outer, inner, head = names_of(family)
    stem, end = name.rsplit(".", 1)
    if not stem.startswith("blk."):
        return "%s.%s" % ({v: k for k, v in outer.items()}[stem], end)
    _, n, rest = stem.split(".", 2)
    return "%s.%s.%s.%s" % (head, n, {v: k for k, v in inner.items()}[rest], end)


def pairs_of(a, heads):
    """rows i and i + d / 2 of a head become neighbours"""
    return a.reshape(heads, 2, -1, *a.shape[1:]).swapaxes(1, 2).reshape(a.shape)


def halves_of(a, heads):
    return a.reshape(heads, -1, 2, *a.shape[1:]).swapaxes(1, 2).reshape(a.shape)


def lay(c, name, a, to_gguf):
    """what the converter does to the numbers of a tensor of Hugging Face's name, or undoes"""
    family, sign = c["model_type"], 1 if to_gguf else -1
    if family == "llama" and (".q_proj" in name or ".k_proj" in name):
        heads = c["num_attention_heads" if ".q_proj" in name else "num_key_value_heads"]
        return (pairs_of if to_gguf else halves_of)(a, heads)
    if family.startswith("gemma") and name.endswith("norm.weight"):
        return a + sign
    if family == "gpt2" and a.ndim == 2 and ".c_" in name:
        return a.T
    return a


def factors(c):
    """tensors that hold what rotary positions are divided by, beside the keys"""
    s = scaling(c) or {}
    kind = s.get("rope_type", s.get("type"))
    if kind == "llama3":
        f = 1.0 / theta_of(c) ** (np.arange(0, head_dim(c), 2) / head_dim(c))
        return {"rope_freqs.weight": f / llama3_frequencies(f, s)}
    if kind == "longrope":
        return {"rope_factors_%s.weight" % n: np.array(s[n + "_factor"]) for n in ("long", "short")}
    return {}


def rope_keys(c):
    s = scaling(c) or {}
    kind = s.get("rope_type", s.get("type"))
    if kind in ("linear", "yarn", "longrope"):
        yield "rope.scaling.type", "string", kind
    if kind in ("linear", "yarn"):
        yield "rope.scaling.factor", "f32", s["factor"]
    if kind == "yarn":
        yield "rope.scaling.original_context_length", "u32", s["original_max_position_embeddings"]
    if kind == "longrope":
        yield "rope.scaling.original_context_length", "u32", c["original_max_position_embeddings"]
        yield "rope.scaling.attn_factor", "f32", longrope_gain(c, s)


def gpt2_keys(c):
    dim = c["n_embd"]
    for key, v in (("context_length", c["n_positions"]), ("embedding_length", dim), ("feed_forward_length", c["n_inner"] or 4 * dim),
                   ("block_count", c["n_layer"]), ("attention.head_count", c["n_head"])):
        yield key, "u32", v
    yield "attention.layer_norm_epsilon", "f32", c["layer_norm_epsilon"]


def decoder_keys(c):
    for key, word in (("context_length", "max_position_embeddings"), ("embedding_length", "hidden_size"),
                      ("feed_forward_length", "intermediate_size"), ("block_count", "num_hidden_layers"),
                      ("attention.head_count", "num_attention_heads"), ("attention.head_count_kv", "num_key_value_heads"),
                      ("attention.sliding_window", "sliding_window")):
        if c.get(word) is not None:
            yield key, "u32", c[word]
    if c.get("head_dim"):
        yield "attention.key_length", "u32", c["head_dim"]
        yield "attention.value_length", "u32", c["head_dim"]
    for key, word in (("attention.layer_norm_rms_epsilon", "rms_norm_eps"), ("attn_logit_softcapping", "attn_logit_softcapping"),
                      ("final_logit_softcapping", "final_logit_softcapping")):
        if c.get(word) is not None:
            yield key, "f32", c[word]
    yield "rope.freq_base", "f32", theta_of(c)
    if c.get("rope_local_base_freq"):
        yield "rope.freq_base_swa", "f32", c["rope_local_base_freq"]
    if c["model_type"] in ("llama", "phi3"):
        yield "rope.dimension_count", "u32", int(head_dim(c) * c.get("partial_rotary_factor", 1.0))
    if c["model_type"] == "llama":
        yield "vocab_size", "u32", c["vocab_size"]
    yield from rope_keys(c)


def save(path, c, w, matrices, tokenizer):
    """c: config.json, w: Hugging Face's name -> array, tokenizer: pairs of keys"""
    arch = arch_of(c)
    keys = gpt2_keys(c) if arch == "gpt2" else decoder_keys(c)
    named = {gguf_name(c["model_type"], n): lay(c, n, a, True) for n, a in w.items()}
    write(path, [("general.architecture", "string", arch)] + [("%s.%s" % (arch, k), kind, v) for k, kind, v in keys] + tokenizer, matrices,
          {**named, **factors(c)})


# ---------------------------------------------------------------- tokenizers

def words(folder):
    with open(os.path.join(folder, "tokenizer.json")) as f:
        return json.load(f)


def vocabulary(file, n):
    vocab = sorted(file["model"]["vocab"], key=file["model"]["vocab"].get)[:n]
    special = {a["content"] for a in file["added_tokens"] if a["special"]}
    kinds = [3 if s in special else 6 if file["model"].get("byte_fallback") and s.startswith("<0x") else 1 for s in vocab]
    return vocab, kinds


def by_merges(file, n=None):
    """GPT-2's manner, of the file's first n tokens"""
    vocab, kinds = vocabulary(file, n)
    merges = [m if isinstance(m, str) else " ".join(m) for m in file["model"]["merges"]]
    merges = [m for m in merges if m.replace(" ", "") in set(vocab)]
    return [("tokenizer.ggml.model", "string", "gpt2"), ("tokenizer.ggml.pre", "string", "gpt-2"), ("tokenizer.ggml.tokens", "string", vocab),
            ("tokenizer.ggml.token_type", "i32", kinds), ("tokenizer.ggml.merges", "string", merges),
            ("tokenizer.ggml.bos_token_id", "u32", 0), ("tokenizer.ggml.eos_token_id", "u32", 0), ("tokenizer.ggml.add_bos_token", "bool", True)]


def by_scores(file):
    """SentencePiece's manner; a merge's place in the list is its score"""
    vocab, kinds = vocabulary(file, None)
    place = {}
    for i, m in enumerate(file["model"]["merges"]):
        place.setdefault("".join(m) if isinstance(m, list) else m.replace(" ", ""), -i)
    kinds[0] = 2
    return [("tokenizer.ggml.model", "string", "llama"), ("tokenizer.ggml.tokens", "string", vocab),
            ("tokenizer.ggml.scores", "f32", [float(place.get(s, -1e6)) for s in vocab]), ("tokenizer.ggml.token_type", "i32", kinds),
            ("tokenizer.ggml.unknown_token_id", "u32", 0), ("tokenizer.ggml.bos_token_id", "u32", 1), ("tokenizer.ggml.eos_token_id", "u32", 2)]


def convert(folder, path):
    with open(os.path.join(folder, "config.json")) as f:
        c = json.load(f)
    file = words(folder)
    save(path, c, load(os.path.join(folder, "model.safetensors")), "F32", by_scores(file) if file["model"].get("byte_fallback") else by_merges(file))


# ---------------------------------------------------------------- random models

N_VOCAB = 512  # that of the stored model, whose tokens they have
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LINEAR = {"rope_type": "linear", "factor": 8.0}
STEPS = [float(1 + i / 4) for i in range(24)]


def shape(family, heads, kv, layers, tied, **more):
    """rows of 256 everywhere, which the K types need"""
    return config(family, 256, heads, kv, 256, layers, tied, **{"vocab_size": N_VOCAB, "max_position_embeddings": 256, **more})


FAMILIES = {
    "llama": shape("llama", 4, 2, 2, False, rope_scaling=LLAMA3),
    "llama-linear": shape("llama", 4, 4, 2, True, head_dim=128, attention_bias=True, mlp_bias=True, rope_scaling=LINEAR),
    "qwen2": shape("qwen2", 4, 2, 2, True, rope_theta=1e6),
    "qwen2-yarn": shape("qwen2", 4, 1, 2, False, rope_scaling=YARN),
    "qwen3": shape("qwen3", 4, 2, 2, False, head_dim=128),
    "gemma2": shape("gemma2", 4, 2, 3, True, head_dim=128, sliding_window=16, query_pre_attn_scalar=128, attn_logit_softcapping=5.0,
                    final_logit_softcapping=10.0),
    "gemma3": shape("gemma3_text", 4, 1, 6, True, head_dim=64, sliding_window=16, sliding_window_pattern=6, query_pre_attn_scalar=64,
                    rope_local_base_freq=50.0, rope_scaling=LINEAR),
    "gemma3-global": shape("gemma3_text", 4, 2, 2, True, head_dim=64, sliding_window=None, sliding_window_pattern=1, query_pre_attn_scalar=64,
                           rope_scaling=None),
    # windows: the other program leaves them out of this family, so the text ends before them
    "phi3": shape("phi3", 4, 2, 2, False, sliding_window=200, rope_scaling=None),
    "phi3-longrope": shape("phi3", 4, 4, 2, True, sliding_window=None, partial_rotary_factor=0.75, max_position_embeddings=1024,
                           original_max_position_embeddings=256,
                           rope_scaling={"type": "longrope", "attention_factor": 1.3, "short_factor": STEPS, "long_factor": [4 * x for x in STEPS]}),
    "gpt2": {"model_type": "gpt2", "vocab_size": N_VOCAB, "n_layer": 2, "n_embd": 256, "n_head": 4, "n_inner": 256, "n_positions": 256,
             "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True},
}


def gpt2_tensors(c, seed):
    rng, t, dim = np.random.default_rng(seed), {}, c["n_embd"]

    def add(name, a, b=None):
        t[name + ".weight"] = 2 * rng.standard_normal((a, b)) / np.sqrt(a) if b else 1 + 0.3 * rng.standard_normal(a)
        t[name + ".bias"] = 0.3 * rng.standard_normal(b or a)

    t["wte.weight"] = 2 * rng.standard_normal((c["vocab_size"], dim)) / np.sqrt(dim)
    t["wpe.weight"] = rng.standard_normal((c["n_positions"], dim)) / np.sqrt(dim)
    for i in range(c["n_layer"]):
        p = "h.%d." % i
        add(p + "ln_1", dim)
        add(p + "attn.c_attn", dim, 3 * dim)
        add(p + "attn.c_proj", dim, dim)
        add(p + "ln_2", dim)
        add(p + "mlp.c_fc", dim, c["n_inner"])
        add(p + "mlp.c_proj", c["n_inner"], dim)
    add("ln_f", dim)
    return t


def models(folder, families=tuple(FAMILIES)):
    """-> {family: paths}"""
    bytes_of, spaces = words(os.path.join(HERE, "..", "..", "local-engine", "default-model")), words(os.path.join(VECTORS, "stories260k"))
    made = {}
    for seed, (name, c) in enumerate(FAMILIES.items(), 11):
        if name not in families:
            continue
        family = c["model_type"]
        w = (gpt2_tensors if family == "gpt2" else tensors)(c, seed)
        tokenizer = by_merges(bytes_of, N_VOCAB) if family in ("gpt2", "qwen2", "qwen3") else by_scores(spaces)
        made[name] = [os.path.join(folder, "%s-%s.gguf" % (name, kind)) for kind in TYPES]
        for path, kind in zip(made[name], TYPES):
            save(path, c, w, kind, tokenizer)
    return made


if __name__ == "__main__":
    {"models": models, "convert": convert}[sys.argv[1]](*sys.argv[2:])
