"""Every family's forward pass a second time, in float64 with PyTorch (Debian: python3-torch), as another reader would write it: after the
modelling code of Hugging Face's transformers 5 (modeling_<family>.py, modeling_rope_utils.py, masking_utils.py), not after
forward_float64.py or the engine. Shares nothing with them, the reader of files included, so that a wrong reading shows as a difference.

Whole sequences at once, with an explicit mask for each layer: whatever the engine keeps from step to step is checked too.
"""
import json
import math
import os

import torch
import torch.nn.functional as F

TYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "U8": torch.uint8}
LAYER_KINDS = {"full_attention", "sliding_attention"}

# What a configuration that leaves a field out means (configuration_<family>.py)
COMMON = {"rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": False, "rope_theta": 10000.0}
GEMMA = {"hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True, "head_dim": 256, "query_pre_attn_scalar": 256,
         "num_attention_heads": 8, "num_key_value_heads": 4, "sliding_window": 4096}
DEFAULTS = {
    "gpt2": {"activation_function": "gelu_new", "layer_norm_epsilon": 1e-5},
    "llama": {"max_position_embeddings": 2048},
    "mistral": {"max_position_embeddings": 131072, "sliding_window": 4096, "num_key_value_heads": 8},
    "qwen2": {"max_position_embeddings": 32768, "sliding_window": 4096, "max_window_layers": 28},
    "qwen3": {"max_position_embeddings": 32768, "sliding_window": 4096, "max_window_layers": 28, "head_dim": 128},
    "phi3": {"max_position_embeddings": 4096, "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-5},
    "gemma2": {**GEMMA, "max_position_embeddings": 8192, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    "gemma3_text": {**GEMMA, "max_position_embeddings": 131072, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
                    "sliding_window_pattern": 6},
}
ACTIVATIONS = {"silu": F.silu, "relu": F.relu, "gelu": F.gelu, "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
               "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh")}

# ---------------------------------------------------------------- files


def read(folder):
    """config.json as a dict, and the tensors by the file's names"""
    with open(os.path.join(folder, "config.json")) as f:
        given = json.load(f)
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        head = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        body = bytearray(f.read())
    head.pop("__metadata__", None)
    tensors = {}
    for name, t in head.items():
        begin, end = t["data_offsets"]
        flat = torch.frombuffer(body[begin:end], dtype=TYPES[t["dtype"]])
        tensors[name] = flat.reshape(t["shape"]).to(torch.float64)
    return given, tensors


def settings(given):
    """The text model's fields, those that the file leaves out included"""
    given = given.get("text_config", given)
    c = {**COMMON, **DEFAULTS[given["model_type"]], **given}
    if c["model_type"].startswith("gemma"):
        c["hidden_act"] = given.get("hidden_activation") or "gelu_pytorch_tanh"
    if c["model_type"] == "gpt2":
        return {**c, "num_hidden_layers": c["n_layer"], "num_attention_heads": c["n_head"], "hidden_size": c["n_embd"],
                "head_dim": c["n_embd"] // c["n_head"], "tie_word_embeddings": given.get("tie_word_embeddings", True)}
    c["num_key_value_heads"] = c.get("num_key_value_heads") or c["num_attention_heads"]
    c["head_dim"] = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    return c


def named(tensors):
    """Names as from inside the text model: 'embed_tokens.weight', 'h.0.attn.c_attn.weight'; the head is 'lm_head.weight'"""
    first = next(n for n in tensors if n.endswith(("embed_tokens.weight", "wte.weight")))
    prefix = first[:first.rindex("embed_tokens" if "embed" in first else "wte")]
    out = {n[len(prefix):]: t for n, t in tensors.items() if n.startswith(prefix)}
    out.update({"lm_head.weight": t for n, t in tensors.items() if n.endswith("lm_head.weight")})
    return out

# ---------------------------------------------------------------- positions


def rope_settings(c, kind):
    """The fields of rotary positions in layers of `kind`, wherever the file keeps them"""
    if c["model_type"] == "gemma3_text":
        p = {k: dict(v or {}) for k, v in (c.get("rope_parameters") or {}).items()}
        p = {k: p.get(k, {}) for k in LAYER_KINDS}
        p["full_attention"].update(c.get("rope_scaling") or {})
        p["full_attention"].setdefault("rope_theta", c["rope_theta"])
        p["sliding_attention"].setdefault("rope_theta", c["rope_local_base_freq"])
        p = p[kind]
    else:
        p = dict(c.get("rope_scaling") or c.get("rope_parameters") or {})
        p.setdefault("rope_theta", c["rope_theta"])
    p.setdefault("rope_type", p.get("type", "default"))
    if c["model_type"] == "phi3" and p["rope_type"] in ("su", "yarn"):
        p["rope_type"] = "longrope"
    p["original"] = c.get("original_max_position_embeddings", p.get("original_max_position_embeddings",
                                                                    c["max_position_embeddings"]))
    return p


def yarn(p, frequencies, dim):
    """Fast frequencies stay, slow ones are stretched, a ramp joins them; and what cosine and sine are multiplied with"""
    factor, context = p["factor"], p["original"]

    def dim_of(rotations):
        return dim * math.log(context / (rotations * 2 * math.pi)) / (2 * math.log(p["rope_theta"]))

    low, high = dim_of(p.get("beta_fast") or 32), dim_of(p.get("beta_slow") or 1)
    if p.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    stretched = torch.clamp((torch.arange(dim // 2, dtype=torch.float64) - low) / (high - low), 0, 1)

    def mscale(m):
        return 0.1 * m * math.log(factor) + 1.0 if factor > 1 else 1.0

    scale = p.get("attention_factor")
    if scale is None:
        both = p.get("mscale") and p.get("mscale_all_dim")
        scale = mscale(p["mscale"]) / mscale(p["mscale_all_dim"]) if both else mscale(1)
    return frequencies / factor * stretched + frequencies * (1 - stretched), scale


def longrope(c, p, frequencies, length):
    """A divisor for each frequency: one list up to the length of training, the other, for every position, beyond it"""
    divisors = torch.tensor(p["long_factor" if length > p["original"] else "short_factor"], dtype=torch.float64)
    factor, scale = p.get("factor"), p.get("attention_factor")
    if factor is None:
        factor = c["max_position_embeddings"] / p["original"]
    if scale is None:
        scale = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(p["original"]))
    return frequencies / divisors, scale


def llama3(p, frequencies):
    turns = p["original"] * frequencies / (2 * math.pi)  # of each frequency in the context of training
    low, high = p["low_freq_factor"], p["high_freq_factor"]
    kept = torch.clamp((turns - low) / (high - low), 0, 1)
    return (1 - kept) * frequencies / p["factor"] + kept * frequencies


def rotation(c, kind, length):
    """Cosine and sine of each position: [length][rotated dimensions], both halves alike"""
    p = rope_settings(c, kind)
    part = p.get("partial_rotary_factor", c.get("partial_rotary_factor", 1.0)) if c["model_type"] == "phi3" else 1.0
    dim, theta = int(c["head_dim"] * part), p["rope_theta"]
    if p["rope_type"] == "dynamic":
        longest = c["max_position_embeddings"]
        theta *= (p["factor"] * max(length, longest) / longest - (p["factor"] - 1)) ** (dim / (dim - 2))
    frequencies, scale = theta ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim), 1.0
    if p["rope_type"] == "linear":
        frequencies = frequencies / p["factor"]
    elif p["rope_type"] == "llama3":
        frequencies = llama3(p, frequencies)
    elif p["rope_type"] == "yarn":
        frequencies, scale = yarn(p, frequencies, dim)
    elif p["rope_type"] == "longrope":
        frequencies, scale = longrope(c, p, frequencies, length)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies).repeat(1, 2)
    return torch.cos(angles) * scale, torch.sin(angles) * scale


def rotated(x, cos, sin):
    n = cos.shape[-1]
    turning, still = x[..., :n], x[..., n:]
    a, b = turning.chunk(2, -1)
    return torch.cat((turning * cos + torch.cat((-b, a), -1) * sin, still), -1)

# ---------------------------------------------------------------- layers


def layer_kinds(c):
    n, family, window = c["num_hidden_layers"], c["model_type"], c.get("sliding_window")
    if family in ("mistral", "phi3"):
        return ["full_attention" if window is None else "sliding_attention"] * n
    if c.get("layer_types") and family != "llama":
        return c["layer_types"]
    if family in ("qwen2", "qwen3") and c.get("use_sliding_window") and window is not None:
        return ["sliding_attention" if i >= c["max_window_layers"] else "full_attention" for i in range(n)]
    period = {"gemma2": 2, "gemma3_text": c.get("sliding_window_pattern")}.get(family)
    return ["sliding_attention" if period and (i + 1) % period else "full_attention" for i in range(n)]


def mask(length, window):
    q, k = torch.arange(length)[:, None], torch.arange(length)[None, :]
    seen = k <= q if window is None else (k <= q) & (k > q - window)
    return torch.zeros(length, length, dtype=torch.float64).masked_fill(~seen, -math.inf)


def attend(q, k, v, scale, bias, cap=None):
    """q: [heads][length][head_dim], k and v: [kv heads][length][head_dim]; the result's heads stand side by side again"""
    shared = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(shared, 0), v.repeat_interleave(shared, 0)
    scores = torch.matmul(q, k.transpose(1, 2)) * scale
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)
    return torch.matmul(F.softmax(scores + bias, -1), v).transpose(0, 1).flatten(1)


def rms_norm(c, w, name, x):
    gain = w[name + ".weight"] + (1.0 if c["model_type"].startswith("gemma") else 0.0)
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + c["rms_norm_eps"]) * gain


def linear(w, name, x):
    return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))


def attention(c, w, p, x, turn, bias):
    heads, kv, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    if c["model_type"] == "phi3":
        q, k, v = linear(w, p + "qkv_proj", x).split((heads * d, kv * d, kv * d), -1)
    else:
        q, k, v = (linear(w, p + n, x) for n in ("q_proj", "k_proj", "v_proj"))
    q, k, v = (t.unflatten(-1, (-1, d)).transpose(0, 1) for t in (q, k, v))
    if c["model_type"] in ("qwen3", "gemma3_text"):
        q, k = rms_norm(c, w, p + "q_norm", q), rms_norm(c, w, p + "k_norm", k)
    scale = c.get("query_pre_attn_scalar", d) ** -0.5
    cap = c.get("attn_logit_softcapping") if c["model_type"] == "gemma2" else None
    return linear(w, p + "o_proj", attend(rotated(q, *turn), rotated(k, *turn), v, scale, bias, cap))


def feed_forward(c, w, p, x):
    if c["model_type"] == "phi3":
        gate, up = linear(w, p + "gate_up_proj", x).chunk(2, -1)
    else:
        gate, up = linear(w, p + "gate_proj", x), linear(w, p + "up_proj", x)
    return linear(w, p + "down_proj", ACTIVATIONS[c["hidden_act"]](gate) * up)


def layer(c, w, p, x, turn, bias):
    """Gemma norms what it adds as well as what it reads"""
    is_gemma = c["model_type"].startswith("gemma")
    added = attention(c, w, p + "self_attn.", rms_norm(c, w, p + "input_layernorm", x), turn, bias)
    x = x + (rms_norm(c, w, p + "post_attention_layernorm", added) if is_gemma else added)
    read = rms_norm(c, w, p + ("pre_feedforward_layernorm" if is_gemma else "post_attention_layernorm"), x)
    added = feed_forward(c, w, p + "mlp.", read)
    return x + (rms_norm(c, w, p + "post_feedforward_layernorm", added) if is_gemma else added)


def gpt2(c, w, ids):
    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], c["layer_norm_epsilon"])

    def conv1d(name, x):  # kept as [in][out]
        return F.linear(x, w[name + ".weight"].t(), w[name + ".bias"])

    x = F.embedding(ids, w["wte.weight"]) + w["wpe.weight"][:len(ids)]
    for i in range(c["num_hidden_layers"]):
        p = "h.%d." % i
        scale = c["head_dim"] ** -0.5 if c.get("scale_attn_weights", True) else 1.0
        if c.get("scale_attn_by_inverse_layer_idx"):
            scale /= i + 1
        q, k, v = (t.unflatten(-1, (c["num_attention_heads"], -1)).transpose(0, 1)
                   for t in conv1d(p + "attn.c_attn", norm(p + "ln_1", x)).chunk(3, -1))
        x = x + conv1d(p + "attn.c_proj", attend(q, k, v, scale, mask(len(ids), None)))
        x = x + conv1d(p + "mlp.c_proj", ACTIVATIONS[c["activation_function"]](conv1d(p + "mlp.c_fc", norm(p + "ln_2", x))))
    return norm("ln_f", x)


def decoder(c, w, ids):
    kinds = layer_kinds(c)
    turn = {k: rotation(c, k if c["model_type"] == "gemma3_text" else "full_attention", len(ids)) for k in set(kinds)}
    bias = {k: mask(len(ids), c["sliding_window"] if k == "sliding_attention" else None) for k in set(kinds)}
    x = F.embedding(ids, w["embed_tokens.weight"])
    if c["model_type"].startswith("gemma"):
        x = x * math.sqrt(c["hidden_size"])
    for i, kind in enumerate(kinds):
        x = layer(c, w, "layers.%d." % i, x, turn[kind], bias[kind])
    return rms_norm(c, w, "norm", x)


def forward(given, tensors, ids):
    """Logits of every position, [len(ids)][vocabulary]; the arguments are what read() gives, and a list"""
    with torch.no_grad():
        c, w, ids = settings(given), named(tensors), torch.tensor(ids)
        x = gpt2(c, w, ids) if c["model_type"] == "gpt2" else decoder(c, w, ids)
        embedding = "wte.weight" if c["model_type"] == "gpt2" else "embed_tokens.weight"
        logits = F.linear(x, w[embedding if c["tie_word_embeddings"] else "lm_head.weight"])
        cap = c.get("final_logit_softcapping")
        return (logits if cap is None else cap * torch.tanh(logits / cap)).numpy()
