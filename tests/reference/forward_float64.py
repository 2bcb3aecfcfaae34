"""Forward passes in float64, a function for each family, from the definitions of the published modelling code (Hugging Face
transformers: modeling_llama, _mistral, _qwen2, _qwen3, _gemma2, _gemma3, _phi3 and modeling_rope_utils). Every position at once, with a
mask: no cache, no windows of memory, no batches. Shares nothing with the C code. NumPy alone; transformers itself is not installed.

    logits = forward(config, tensors, ids)     config: config.json as a dict; tensors: Hugging Face's name -> float64 array
"""
import math

import numpy as np

# ---------------------------------------------------------------- rotary positions


def llama3_frequencies(f, s):
    out = []
    for x in f:
        wavelength = 2 * math.pi / x
        longest = s["original_max_position_embeddings"] / s["low_freq_factor"]
        shortest = s["original_max_position_embeddings"] / s["high_freq_factor"]
        if wavelength < shortest:
            out.append(x)
        elif wavelength > longest:
            out.append(x / s["factor"])
        else:
            smooth = (s["original_max_position_embeddings"] / wavelength - s["low_freq_factor"]) / (
                s["high_freq_factor"] - s["low_freq_factor"])
            out.append((1 - smooth) * x / s["factor"] + smooth * x)
    return np.array(out)


def yarn_frequencies(f, s, theta, dim):
    def dim_of_rotations(rotations):
        return dim * math.log(s["original_max_position_embeddings"] / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low, high = dim_of_rotations(s.get("beta_fast") or 32), dim_of_rotations(s.get("beta_slow") or 1)
    if s.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    high += 0.001 if low == high else 0
    keep = 1 - np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
    return f / s["factor"] * (1 - keep) + f * keep


def yarn_gain(s):
    def mscale(by):
        return 0.1 * by * math.log(s["factor"]) + 1 if s["factor"] > 1 else 1.0

    if s.get("attention_factor") is not None:
        return s["attention_factor"]
    if s.get("mscale") and s.get("mscale_all_dim"):
        return mscale(s["mscale"]) / mscale(s["mscale_all_dim"])
    return mscale(1)


def longrope_gain(c, s):
    if s.get("attention_factor") is not None:
        return s["attention_factor"]
    factor = s.get("factor") or c["max_position_embeddings"] / c["original_max_position_embeddings"]
    return math.sqrt(1 + math.log(factor) / math.log(c["original_max_position_embeddings"])) if factor > 1 else 1.0


def frequencies(c, theta, s, dim, n):
    """-> angular frequency of each pair, and what cosine and sine are multiplied with. n: positions of the whole text."""
    f = 1.0 / theta ** (np.arange(0, dim, 2) / dim)
    s = s or {}
    kind = s.get("rope_type", s.get("type", "default"))
    if kind == "linear":
        return f / s["factor"], 1.0
    if kind == "llama3":
        return llama3_frequencies(f, s), 1.0
    if kind == "yarn":
        return yarn_frequencies(f, s, theta, dim), yarn_gain(s)
    if kind == "longrope":
        is_long = n > c["original_max_position_embeddings"]
        return f / np.array(s["long_factor" if is_long else "short_factor"]), longrope_gain(c, s)
    assert kind == "default", kind
    return f, 1.0


def rotate(a, c, theta, s, dim):
    """a [heads][T][d]: of each head the first dim elements turn, element i with i + dim / 2"""
    f, gain = frequencies(c, theta, s, dim, a.shape[1])
    angle = np.outer(np.arange(a.shape[1]), f)
    cos, sin = np.cos(angle) * gain, np.sin(angle) * gain
    x, y = a[..., :dim // 2], a[..., dim // 2:dim]
    return np.concatenate([x * cos - y * sin, y * cos + x * sin, a[..., dim:]], axis=-1)


# ---------------------------------------------------------------- pieces


def softmax(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(q, k, v, scale, window=None, cap=None):
    """q [heads][T][d], k and v [kv heads][T][d] -> [T][heads * d]; a row sees itself and the window - 1 before it"""
    heads, n, d = q.shape
    k, v = np.repeat(k, heads // len(k), 0), np.repeat(v, heads // len(v), 0)
    s = q @ k.transpose(0, 2, 1) * scale
    if cap is not None:
        s = cap * np.tanh(s / cap)
    row, column = np.arange(n)[:, None], np.arange(n)[None, :]
    seen = column <= row
    if window is not None:
        seen &= column > row - window
    return (softmax(np.where(seen, s, -np.inf)) @ v).transpose(1, 0, 2).reshape(n, heads * d)


def split(a, heads):
    return a.reshape(len(a), heads, -1).transpose(1, 0, 2)


def rms(x, gain, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


class Weights:
    def __init__(self, c, w):
        self.c, self.w = c, w

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w.get(name + ".bias", 0.0)

    def norm(self, x, name):
        return rms(x, self.w[name + ".weight"], self.c["rms_norm_eps"])

    def norm1(self, x, name):
        """gemma's: the gain is stored without its 1"""
        return rms(x, 1.0 + self.w[name + ".weight"], self.c["rms_norm_eps"])

    def mlp(self, x, p, act):
        return self.linear(act(self.linear(x, p + "gate_proj")) * self.linear(x, p + "up_proj"), p + "down_proj")

    def output(self, x):
        return x @ self.w["model.embed_tokens.weight" if self.c["tie_word_embeddings"] else "lm_head.weight"].T


def head_dim(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def scaling(c):
    return c.get("rope_scaling") or c.get("rope_parameters")


def theta_of(c):
    return (scaling(c) or {}).get("rope_theta", c.get("rope_theta", 10000.0))


# ---------------------------------------------------------------- families


def llama_like(c, w, ids, window_of, with_head_norms):
    m, heads, kv, d = Weights(c, w), c["num_attention_heads"], c["num_key_value_heads"], head_dim(c)
    x = w["model.embed_tokens.weight"][ids]
    for i in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % i
        h = m.norm(x, p + "input_layernorm")
        q, k, v = (split(m.linear(h, p + "self_attn.%s_proj" % n), of) for n, of in (("q", heads), ("k", kv), ("v", kv)))
        if with_head_norms:
            q, k = m.norm(q, p + "self_attn.q_norm"), m.norm(k, p + "self_attn.k_norm")
        q, k = (rotate(a, c, theta_of(c), scaling(c), d) for a in (q, k))
        x = x + m.linear(attention(q, k, v, d ** -0.5, window_of(i)), p + "self_attn.o_proj")
        x = x + m.mlp(m.norm(x, p + "post_attention_layernorm"), p + "mlp.", silu)
    return m.output(m.norm(x, "model.norm"))


def llama(c, w, ids):
    return llama_like(c, w, ids, lambda i: None, False)


def mistral(c, w, ids):
    return llama_like(c, w, ids, lambda i: c["sliding_window"], False)


def qwen_window(c):
    return lambda i: c["sliding_window"] if c.get("use_sliding_window") and i >= c["max_window_layers"] else None


def qwen2(c, w, ids):
    return llama_like(c, w, ids, qwen_window(c), False)


def qwen3(c, w, ids):
    return llama_like(c, w, ids, qwen_window(c), True)


def gemma_block(m, x, p, attend):
    h = attend(m.norm1(x, p + "input_layernorm"))
    x = x + m.norm1(h, p + "post_attention_layernorm")
    h = m.mlp(m.norm1(x, p + "pre_feedforward_layernorm"), p + "mlp.", gelu_tanh)
    return x + m.norm1(h, p + "post_feedforward_layernorm")


def capped(x, cap):
    return x if cap is None else cap * np.tanh(x / cap)


def gemma2(c, w, ids):
    m, heads, kv, d = Weights(c, w), c["num_attention_heads"], c["num_key_value_heads"], head_dim(c)
    x = w["model.embed_tokens.weight"][ids] * math.sqrt(c["hidden_size"])
    for i in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % i

        def attend(h):
            q, k, v = (split(m.linear(h, p + "self_attn.%s_proj" % n), of) for n, of in (("q", heads), ("k", kv), ("v", kv)))
            q, k = (rotate(a, c, c["rope_theta"], None, d) for a in (q, k))
            window = c["sliding_window"] if i % 2 == 0 else None
            a = attention(q, k, v, c["query_pre_attn_scalar"] ** -0.5, window, c["attn_logit_softcapping"])
            return m.linear(a, p + "self_attn.o_proj")

        x = gemma_block(m, x, p, attend)
    return capped(m.output(m.norm1(x, "model.norm")), c["final_logit_softcapping"])


def gemma3(c, w, ids):
    m, heads, kv, d = Weights(c, w), c["num_attention_heads"], c["num_key_value_heads"], head_dim(c)
    x = w["model.embed_tokens.weight"][ids] * math.sqrt(c["hidden_size"])
    for i in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % i
        is_local = bool((i + 1) % c["sliding_window_pattern"])

        def attend(h):
            q, k, v = (split(m.linear(h, p + "self_attn.%s_proj" % n), of) for n, of in (("q", heads), ("k", kv), ("v", kv)))
            q, k = m.norm1(q, p + "self_attn.q_norm"), m.norm1(k, p + "self_attn.k_norm")
            theta, s = (c["rope_local_base_freq"], None) if is_local else (c["rope_theta"], c["rope_scaling"])
            q, k = (rotate(a, c, theta, s, d) for a in (q, k))
            a = attention(q, k, v, c["query_pre_attn_scalar"] ** -0.5, c["sliding_window"] if is_local else None)
            return m.linear(a, p + "self_attn.o_proj")

        x = gemma_block(m, x, p, attend)
    return m.output(m.norm1(x, "model.norm"))


def gemma3_images(c, w, ids):
    """the text part; what its config leaves out is Gemma3TextConfig's"""
    text = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "rms_norm_eps": 1e-6, "query_pre_attn_scalar": 256,
            "rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window_pattern": 6, "tie_word_embeddings": True, **c["text_config"]}
    head = "language_model."
    return gemma3(text, {n[len(head):]: a for n, a in w.items() if n.startswith(head)}, ids)


def phi3(c, w, ids):
    m, heads, kv, d = Weights(c, w), c["num_attention_heads"], c["num_key_value_heads"], head_dim(c)
    turned = int(d * c.get("partial_rotary_factor", 1.0))
    x = w["model.embed_tokens.weight"][ids]
    for i in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % i
        a = m.linear(m.norm(x, p + "input_layernorm"), p + "self_attn.qkv_proj")
        q, k, v = a[:, :heads * d], a[:, heads * d:(heads + kv) * d], a[:, (heads + kv) * d:]
        q, k = (rotate(split(b, of), c, theta_of(c), scaling(c), turned) for b, of in ((q, heads), (k, kv)))
        x = x + m.linear(attention(q, k, split(v, kv), d ** -0.5, c["sliding_window"]), p + "self_attn.o_proj")
        gate, up = np.split(m.linear(m.norm(x, p + "post_attention_layernorm"), p + "mlp.gate_up_proj"), 2, axis=-1)
        x = x + m.linear(silu(gate) * up, p + "mlp.down_proj")
    return m.output(m.norm(x, "model.norm"))


FAMILIES = {"llama": llama, "mistral": mistral, "qwen2": qwen2, "qwen3": qwen3, "gemma2": gemma2, "gemma3_text": gemma3,
            "gemma3": gemma3_images, "phi3": phi3}


def forward(c, w, ids):
    return FAMILIES[c["model_type"]](c, w, np.asarray(ids))
