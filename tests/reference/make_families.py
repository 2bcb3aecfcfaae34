#!/usr/bin/env python3
"""Tiny models of every family and their logits by forward_float64.py, for tests/unit/test_model.c: tests/vectors/families/<name>/
with config.json, model.safetensors and logits.json. Needs NumPy (Debian: python3-numpy), nothing else.

  make_families.py            rewrites them
  make_families.py --check    computes the logits again from the files and compares with what is stored

Each model is made for some field of its configuration; the script fails where the logits do not depend on one of them.
"""
import json
import os
import struct
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from forward_float64 import forward, head_dim  # noqa: E402

VECTORS = os.path.join(HERE, "..", "vectors", "families")
N_IDS, N_PROMPT, N_GREEDY, KEEP = 40, 8, 12, [*range(0, 40, 4), 39]
MARGIN = 2e-3  # between the best two logits of a greedy step: more than any float32 error
EFFECT = 1e-2  # of a field on the logits, at least

# ---------------------------------------------------------------- files


def to_bf16(a):
    u = np.ascontiguousarray(a, dtype="<f4").view(np.uint32)
    return ((u + ((u >> 16) & 1) + np.uint32(0x7FFF)) >> 16).astype("<u2")


ENCODE = {"F32": lambda a: a.astype("<f4"), "F16": lambda a: a.astype("<f2"), "BF16": to_bf16}
DECODE = {"F32": lambda b: np.frombuffer(b, "<f4"), "F16": lambda b: np.frombuffer(b, "<f2"),
          "BF16": lambda b: (np.frombuffer(b, "<u2").astype(np.uint32) << 16).view(np.float32)}


def save(path, tensors):
    head, body = {}, b""
    for name, (dtype, a) in tensors.items():
        raw = ENCODE[dtype](a).tobytes()
        head[name] = {"dtype": dtype, "shape": list(a.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def load(path):
    with open(path, "rb") as f:
        raw = f.read()
    (n,) = struct.unpack("<Q", raw[:8])
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        a, b = t["data_offsets"]
        out[name] = DECODE[t["dtype"]](raw[8 + n + a:8 + n + b]).reshape(t["shape"]).astype(np.float64)
    return out


# ---------------------------------------------------------------- tensors of a configuration


def linear(t, rng, name, n_out, n_in, with_bias=False):
    t[name + ".weight"] = 2 * rng.standard_normal((n_out, n_in)) / np.sqrt(n_in)
    if with_bias:
        t[name + ".bias"] = 0.3 * rng.standard_normal(n_out)


def tensors(c, seed):
    """Hugging Face's names and shapes for config c. Norms are drawn around the gain that does nothing."""
    rng, t = np.random.default_rng(seed), {}
    family, dim, ffn, d = c["model_type"], c["hidden_size"], c["intermediate_size"], head_dim(c)
    n_q, n_kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    is_gemma, center = family.startswith("gemma"), 0.0 if family.startswith("gemma") else 1.0
    has_qkv_bias, has_bias = c.get("attention_bias") or family == "qwen2", bool(c.get("attention_bias"))

    def gain(name, n):
        t[name + ".weight"] = center + 0.3 * rng.standard_normal(n)

    linear(t, rng, "model.embed_tokens", c["vocab_size"], dim)
    for i in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % i
        gain(p + "input_layernorm", dim)
        gain(p + "post_attention_layernorm", dim)
        if is_gemma:
            gain(p + "pre_feedforward_layernorm", dim)
            gain(p + "post_feedforward_layernorm", dim)
        if family in ("qwen3", "gemma3_text"):
            gain(p + "self_attn.q_norm", d)
            gain(p + "self_attn.k_norm", d)
        if family == "phi3":
            linear(t, rng, p + "self_attn.qkv_proj", n_q + 2 * n_kv, dim)
            linear(t, rng, p + "mlp.gate_up_proj", 2 * ffn, dim)
        else:
            for n, size in (("q", n_q), ("k", n_kv), ("v", n_kv)):
                linear(t, rng, p + "self_attn.%s_proj" % n, size, dim, has_qkv_bias)
            linear(t, rng, p + "mlp.gate_proj", ffn, dim, c.get("mlp_bias"))
            linear(t, rng, p + "mlp.up_proj", ffn, dim, c.get("mlp_bias"))
        linear(t, rng, p + "self_attn.o_proj", dim, n_q, has_bias)
        linear(t, rng, p + "mlp.down_proj", dim, ffn, c.get("mlp_bias"))
    gain("model.norm", dim)
    if not c["tie_word_embeddings"]:
        linear(t, rng, "lm_head", c["vocab_size"], dim)
    return t


def with_images(t):
    """Gemma 3's names where it reads images too, and stand-ins for the tensors that read them"""
    out = {"language_model." + n: a for n, a in t.items()}
    return {**out, "vision_tower.vision_model.post_layernorm.weight": np.ones(3), "multi_modal_projector.mm_soft_emb_norm.weight": np.ones(3)}


def config(family, dim, heads, kv, ffn, layers, tied, **more):
    c = {"model_type": family, "vocab_size": 61, "num_hidden_layers": layers, "hidden_size": dim, "intermediate_size": ffn,
         "num_attention_heads": heads, "num_key_value_heads": kv, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
         "tie_word_embeddings": tied}
    c.update({"hidden_activation": "gelu_pytorch_tanh"} if family.startswith("gemma") else {"hidden_act": "silu"})
    if "rope_parameters" not in more:
        c["rope_theta"] = 500.0
    c.update(more)
    return c


# name -> (type of matrices, type of norms and biases, config, {field that must matter: what to put in its place})
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 4.0,
        "beta_slow": 0.5}
PLAIN = {"rope_type": "default", "rope_theta": 500.0}
MODELS = {
    "llama-llama3": ("F16", "F16", config("llama", 16, 4, 2, 40, 3, True, rope_scaling=LLAMA3), {"rope_scaling": None}),
    "llama-linear": ("BF16", "F32", config("llama", 18, 3, 1, 33, 3, False, attention_bias=True, mlp_bias=True,
                                           rope_scaling={"type": "linear", "factor": 4.0}), {"rope_scaling": None}),
    "llama-yarn": ("F16", "F16", config("llama", 24, 2, 1, 31, 3, False, rope_parameters=YARN), {"rope_parameters": PLAIN}),
    "mistral": ("BF16", "BF16", config("mistral", 20, 4, 2, 37, 3, False, head_dim=6, sliding_window=7),
                {"sliding_window": None}),
    "qwen2": ("F16", "F16", config("qwen2", 20, 2, 1, 35, 4, True, use_sliding_window=True, sliding_window=9,
                                   max_window_layers=2), {"use_sliding_window": False, "max_window_layers": 0}),
    "qwen3": ("BF16", "BF16", config("qwen3", 20, 3, 1, 29, 3, False, head_dim=12, attention_bias=False,
                                     use_sliding_window=False, sliding_window=None, max_window_layers=3,
                                     rope_scaling={"rope_type": "yarn", "factor": 2.0, "mscale": 0.7, "mscale_all_dim": 0.2,
                                                   "original_max_position_embeddings": 32, "truncate": False}),
              {"rope_scaling": None}),
    "gemma2": ("BF16", "F32", config("gemma2", 18, 4, 2, 30, 4, True, head_dim=8, sliding_window=5, query_pre_attn_scalar=13,
                                     attn_logit_softcapping=1.5, final_logit_softcapping=4.0),
               {"sliding_window": None, "attn_logit_softcapping": None, "final_logit_softcapping": None,
                "query_pre_attn_scalar": 8}),
    "gemma3": ("F16", "F16", config("gemma3_text", 16, 2, 1, 27, 4, True, head_dim=14, sliding_window=6,
                                    sliding_window_pattern=3, query_pre_attn_scalar=10, rope_local_base_freq=50.0,
                                    rope_scaling={"rope_type": "linear", "factor": 8.0}),
               {"sliding_window": None, "rope_local_base_freq": 500.0, "rope_scaling": None, "sliding_window_pattern": 2}),
    "gemma3-images": ("BF16", "BF16", {"model_type": "gemma3", "vision_config": {"hidden_size": 3}, "text_config": {
        "model_type": "gemma3_text", "vocab_size": 61, "hidden_size": 16, "intermediate_size": 25, "num_hidden_layers": 2, "head_dim": 8,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "sliding_window": 4, "sliding_window_pattern": 2}}, {}),
    "phi3": ("BF16", "BF16", config("phi3", 24, 4, 2, 34, 3, False, sliding_window=11, rope_scaling=None),
             {"sliding_window": None}),
    "phi3-longrope": ("F16", "F16", config("phi3", 24, 3, 3, 26, 3, True, sliding_window=None, partial_rotary_factor=0.75,
                                           max_position_embeddings=512, original_max_position_embeddings=64,
                                           rope_scaling={"type": "longrope", "short_factor": [1.0, 1.5, 2.5],
                                                         "long_factor": [1.0, 4.0, 9.0]}),
                      {"rope_scaling": None}),
}

# ---------------------------------------------------------------- what is stored


def greedy_of(c, w, prompt):
    ids, margin = list(prompt), np.inf
    while len(ids) < N_PROMPT + N_GREEDY:
        last = forward(c, w, ids)[-1]
        second, first = np.sort(last)[-2:]
        margin = min(margin, first - second)
        ids.append(int(last.argmax()))
    return ids[len(prompt):], margin


def reference(name):
    folder = os.path.join(VECTORS, name)
    with open(os.path.join(folder, "config.json")) as f:
        c = json.load(f)
    w = load(os.path.join(folder, "model.safetensors"))
    ids = [int(i) for i in np.random.default_rng(7).integers(0, c.get("text_config", c)["vocab_size"], N_IDS)]
    greedy, margin = greedy_of(c, w, ids[:N_PROMPT])
    logits = forward(c, w, ids)
    for field, other in MODELS[name][3].items():
        effect = np.abs(forward({**c, field: other}, w, ids) - logits).max()
        if effect < EFFECT:
            sys.exit("%s: the logits hardly depend on '%s': %.2g" % (name, field, effect))
    if margin < MARGIN:
        sys.exit("%s: a greedy step is too close: %.2g" % (name, margin))
    return {"ids": ids, "n_prompt": N_PROMPT, "greedy": greedy,
            "rows": [{"position": p, "logits": [float("%.8g" % x) for x in logits[p]]} for p in KEEP]}


def make(name, seed):
    folder = os.path.join(VECTORS, name)
    os.makedirs(folder, exist_ok=True)
    matrices, vectors, c, _ = MODELS[name]
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(c, f, indent=1)
        f.write("\n")
    if c["model_type"] == "gemma3":
        text = {"num_attention_heads": 8, "num_key_value_heads": 4, "tie_word_embeddings": True, **c["text_config"]}
        made = with_images(tensors(text, seed))
    else:
        made = tensors(c, seed)
    t = {n: (vectors if a.ndim == 1 else matrices, a) for n, a in made.items()}
    save(os.path.join(folder, "model.safetensors"), t)
    with open(os.path.join(folder, "logits.json"), "w") as f:
        json.dump(reference(name), f, separators=(",", ":"))
        f.write("\n")


def check(name):
    with open(os.path.join(VECTORS, name, "logits.json")) as f:
        stored = json.load(f)
    now = reference(name)
    worst = max(np.abs(np.subtract(a["logits"], b["logits"])).max() for a, b in zip(now["rows"], stored["rows"]))
    if worst > 1e-6 or now["ids"] != stored["ids"] or now["greedy"] != stored["greedy"]:
        sys.exit("%s: not what is stored (largest difference %.2g)" % (name, worst))
    print("%s: as stored (largest difference %.2g)" % (name, worst))


def main():
    for seed, name in enumerate(MODELS, 1):
        if "--check" in sys.argv[1:]:
            check(name)
        else:
            make(name, seed)


if __name__ == "__main__":
    main()
