#!/usr/bin/env python3
"""Reference logits for tests/unit/test_model.c, by the textbook formulas in float64. Shares nothing with the C code.

  make_logits.py            rewrites the tiny models and <model>/logits.json beside this script
  make_logits.py --check    computes again and compares with what is stored

Models: stories260k (a real one, stored here), and tiny ones that this script draws from a seed:
  tiny-gpt2        F32, names with "transformer.", tied, with the mask buffers of old files
  tiny-gpt2-bf16   BF16, names without prefix, output matrix of its own
  tiny-llama-f16   F16, biases everywhere, head_dim that is not hidden_size / heads, output matrix of its own
  tiny-llama-bf16  BF16, tied, one kv head, a row length that is no multiple of 16
logits.json: {"ids": the prompt, "rows": [{"position", "logits"}], "greedy": the ids that argmax continues the first n_prompt ids with}
"""
import json
import os
import struct
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


# ---------------------------------------------------------------- files

def to_bf16(a):
    u = np.ascontiguousarray(a, np.float32).view(np.uint32)
    return ((u + 0x7fff + ((u >> 16) & 1)) >> 16).astype(np.uint16)


ENCODE = {"F32": lambda a: a.astype("<f4"), "F16": lambda a: a.astype("<f2"), "BF16": to_bf16, "U8": lambda a: a.astype("u1")}
DECODE = {"F32": lambda b: np.frombuffer(b, "<f4"), "F16": lambda b: np.frombuffer(b, "<f2"),
          "BF16": lambda b: (np.frombuffer(b, "<u2").astype(np.uint32) << 16).view(np.float32),
          "U8": lambda b: np.frombuffer(b, "u1")}


def save(path, tensors):
    """tensors: name -> (dtype, array)"""
    head, body = {}, b""
    for name, (dtype, a) in tensors.items():
        raw = ENCODE[dtype](a).tobytes()
        head[name] = {"dtype": dtype, "shape": list(a.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def load(path):
    raw = open(path, "rb").read()
    (n,) = struct.unpack("<Q", raw[:8])
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__", None)
    out = {}
    for name, t in head.items():
        a, b = t["data_offsets"]
        out[name] = DECODE[t["dtype"]](raw[8 + n + a:8 + n + b]).reshape(t["shape"]).astype(np.float64)
    return out


# ---------------------------------------------------------------- the formulas

def softmax(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(q, k, v):
    """q [heads][T][d], k and v [kv heads][T][d] -> [T][heads * d], causal"""
    heads, n, d = q.shape
    k, v = np.repeat(k, heads // len(k), 0), np.repeat(v, heads // len(v), 0)
    s = q @ k.transpose(0, 2, 1) / np.sqrt(d)
    s = np.where(np.tril(np.ones((n, n), bool)), s, -np.inf)
    return (softmax(s) @ v).transpose(1, 0, 2).reshape(n, heads * d)


def split(a, heads):
    return a.reshape(len(a), heads, -1).transpose(1, 0, 2)


def rotate(a, theta):
    """a [heads][T][d]; element i is paired with i + d/2"""
    d = a.shape[-1]
    angle = np.outer(np.arange(a.shape[1]), theta ** (-2.0 * np.arange(d // 2) / d))
    c, s = np.cos(angle), np.sin(angle)
    x, y = a[..., :d // 2], a[..., d // 2:]
    return np.concatenate([x * c - y * s, y * c + x * s], axis=-1)


def llama(c, w, ids):
    def linear(x, name):
        return x @ w[name + ".weight"].T + w.get(name + ".bias", 0.0)

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * w[name + ".weight"]

    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    x = w["model.embed_tokens.weight"][ids]
    for i in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % i
        h = norm(x, p + "input_layernorm")
        q, k, v = (split(linear(h, p + "self_attn.%s_proj" % n), m) for n, m in (("q", heads), ("k", kv), ("v", kv)))
        h = attention(rotate(q, c["rope_theta"]), rotate(k, c["rope_theta"]), v)
        x = x + linear(h, p + "self_attn.o_proj")
        h = norm(x, p + "post_attention_layernorm")
        g = linear(h, p + "mlp.gate_proj")
        x = x + linear(g / (1 + np.exp(-g)) * linear(h, p + "mlp.up_proj"), p + "mlp.down_proj")
    x = norm(x, "model.norm")
    return x @ w["model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"].T


def gpt2(c, w, ids):
    w = {n[12:] if n.startswith("transformer.") else n: a for n, a in w.items()}

    def linear(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    def norm(x, name):
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + c["layer_norm_epsilon"]) * w[name + ".weight"] + w[name + ".bias"]

    x = w["wte.weight"][ids] + w["wpe.weight"][:len(ids)]
    for i in range(c["n_layer"]):
        p = "h.%d." % i
        q, k, v = np.split(linear(norm(x, p + "ln_1"), p + "attn.c_attn"), 3, axis=-1)
        x = x + linear(attention(*(split(a, c["n_head"]) for a in (q, k, v))), p + "attn.c_proj")
        h = linear(norm(x, p + "ln_2"), p + "mlp.c_fc")
        h = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h ** 3)))
        x = x + linear(h, p + "mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight" if c["tie_word_embeddings"] else "lm_head.weight"].T


# ---------------------------------------------------------------- tiny models

def draw(rng, *shape):
    return rng.standard_normal(shape) * (1.0 / np.sqrt(shape[-1]) if len(shape) > 1 else 0.1)


def tiny_gpt2(dtype, prefix, tied, seed):
    c = {"model_type": "gpt2", "activation_function": "gelu_new", "vocab_size": 128, "n_layer": 2, "n_embd": 32,
         "n_head": 4, "n_inner": None, "n_positions": 64, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": tied}
    rng, d, t = np.random.default_rng(seed), 32, {}
    t["wte.weight"], t["wpe.weight"] = 2 * draw(rng, 128, d), draw(rng, 64, d)
    for i in range(2):
        p = "h.%d." % i
        for n in ("ln_1", "ln_2"):
            t[p + n + ".weight"], t[p + n + ".bias"] = 1 + draw(rng, d), draw(rng, d)
        for n, a, b in (("attn.c_attn", d, 3 * d), ("attn.c_proj", d, d), ("mlp.c_fc", d, 4 * d), ("mlp.c_proj", 4 * d, d)):
            t[p + n + ".weight"], t[p + n + ".bias"] = 2 * draw(rng, a, b), draw(rng, b)
    t["ln_f.weight"], t["ln_f.bias"] = 1 + draw(rng, d), draw(rng, d)
    out = {prefix + n: (dtype, a) for n, a in t.items()}
    if prefix:
        for i in range(2):
            out["%sh.%d.attn.bias" % (prefix, i)] = ("U8", np.tril(np.ones((1, 1, 64, 64))))
            out["%sh.%d.attn.masked_bias" % (prefix, i)] = ("F32", np.array(-1e4))
    if not tied:
        out["lm_head.weight"] = (dtype, 2 * draw(rng, 128, d))
    return c, out


def tiny_llama(dtype, dim, heads, kv, head_dim, ffn, biases, tied, seed):
    c = {"model_type": "llama", "hidden_act": "silu", "vocab_size": 128, "num_hidden_layers": 2, "hidden_size": dim,
         "intermediate_size": ffn, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": head_dim,
         "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 5000.0, "rope_scaling": None,
         "attention_bias": biases, "mlp_bias": biases, "tie_word_embeddings": tied}
    rng, t = np.random.default_rng(seed), {}
    t["model.embed_tokens.weight"] = 2 * draw(rng, 128, dim)
    for i in range(2):
        p = "model.layers.%d." % i
        for n in ("input_layernorm", "post_attention_layernorm"):
            t[p + n + ".weight"] = 1 + draw(rng, dim)
        for n, a, b in (("self_attn.q_proj", heads * head_dim, dim), ("self_attn.k_proj", kv * head_dim, dim),
                        ("self_attn.v_proj", kv * head_dim, dim), ("self_attn.o_proj", dim, heads * head_dim),
                        ("mlp.gate_proj", ffn, dim), ("mlp.up_proj", ffn, dim), ("mlp.down_proj", dim, ffn)):
            t[p + n + ".weight"] = 2 * draw(rng, a, b)
            if biases:
                t[p + n + ".bias"] = draw(rng, a)
    t["model.norm.weight"] = 1 + draw(rng, dim)
    if not tied:
        t["lm_head.weight"] = 2 * draw(rng, 128, dim)
    return c, {n: (dtype, a) for n, a in t.items()}


TINY = {
    "tiny-gpt2": lambda: tiny_gpt2("F32", "transformer.", True, 1),
    "tiny-gpt2-bf16": lambda: tiny_gpt2("BF16", "", False, 2),
    "tiny-llama-f16": lambda: tiny_llama("F16", 32, 4, 2, 10, 88, True, False, 3),
    "tiny-llama-bf16": lambda: tiny_llama("BF16", 36, 3, 1, 12, 75, False, True, 4),
}


# ---------------------------------------------------------------- what is stored

def reference(name):
    folder = os.path.join(HERE, name)
    c, w = json.load(open(os.path.join(folder, "config.json"))), load(os.path.join(folder, "model.safetensors"))
    forward = {"llama": llama, "gpt2": gpt2}[c["model_type"]]
    if name == "stories260k":
        ids, n_prompt, n_greedy, keep = [1, 403, 407, 261, 378], 5, 40, (0, 1, 2, 3, 4, 20, 44)
    else:
        ids, n_prompt, n_greedy, keep = [int(i) for i in np.random.default_rng(7).integers(0, 128, 40)], 8, 12, range(0, 40, 3)
    greedy = ids[:n_prompt]
    while len(greedy) < n_prompt + n_greedy:
        greedy.append(int(forward(c, w, np.array(greedy))[-1].argmax()))
    if name == "stories260k":
        ids = greedy
    logits = forward(c, w, np.array(ids))
    return {"ids": ids, "n_prompt": n_prompt, "greedy": greedy[n_prompt:],
            "rows": [{"position": p, "logits": [float("%.8g" % x) for x in logits[p]]} for p in keep]}


def main():
    check = "--check" in sys.argv[1:]
    if not check:
        for name, make in TINY.items():
            folder = os.path.join(HERE, name)
            os.makedirs(folder, exist_ok=True)
            config, tensors = make()
            with open(os.path.join(folder, "config.json"), "w") as f:
                json.dump(config, f, indent=1)
                f.write("\n")
            save(os.path.join(folder, "model.safetensors"), tensors)
    for name in ["stories260k", *TINY]:
        path, r = os.path.join(HERE, name, "logits.json"), reference(name)
        if check:
            stored = json.load(open(path))
            worst = max(np.abs(np.subtract(a["logits"], b["logits"])).max() for a, b in zip(r["rows"], stored["rows"]))
            print("%s: largest difference %.2g" % (name, worst))
            if worst > 1e-6 or r["ids"] != stored["ids"] or r["greedy"] != stored["greedy"]:
                sys.exit("%s: not what is stored" % name)
        else:
            with open(path, "w") as f:
                json.dump(r, f, separators=(",", ":"))
                f.write("\n")


if __name__ == "__main__":
    main()
