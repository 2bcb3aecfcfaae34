"""A folder with config.json and model.safetensors as a .gguf file, laid out as the format's published converter does it for each family: other
names, heads of llama's q and k in pairs, gemma's gains with their 1, vectors as F32. Python alone; numbers stay as they are stored.
"""
import json
import math
import struct

GGML = {"F32": 0, "F16": 1, "BF16": 30}
SIZE = {"F32": 4, "F16": 2, "BF16": 2}
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
FORMAT = {U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}
OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
INNER = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "post_attention_layernorm": "ffn_norm"}
GEMMA = {**INNER, "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
         "post_feedforward_layernorm": "post_ffw_norm"}
ARCH = {"mistral": "llama", "gemma3_text": "gemma3"}


def numbers(dtype, raw):
    n = len(raw) // SIZE[dtype]
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + raw[2 * i:2 * i + 2])[0] for i in range(n)]
    return list(struct.unpack("<%d%s" % (n, "f" if dtype == "F32" else "e"), raw))


def in_pairs(rows, heads):
    """of each head the row i of the first half, then i of the second"""
    d = len(rows) // heads
    return [rows[h * d + j * (d // 2) + i] for h in range(heads) for i in range(d // 2) for j in (0, 1)]


def tensors(config, path):
    """-> [(name, shape, dtype, bytes)]"""
    family = config["model_type"]
    with open(path, "rb") as f:
        raw = f.read()
    (n,) = struct.unpack("<Q", raw[:8])
    for name, t in json.loads(raw[8:8 + n]).items():
        a, b = t["data_offsets"]
        data, dtype, shape = raw[8 + n + a:8 + n + b], t["dtype"], t["shape"]
        stem, end = name.rsplit(".", 1)
        if len(shape) == 1:
            x = numbers(dtype, data)
            if family.startswith("gemma") and stem.endswith("norm"):
                x = [1.0 + v for v in x]
            data, dtype = struct.pack("<%df" % len(x), *x), "F32"
        heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}.get(stem.rsplit(".", 1)[-1])
        if heads and ARCH.get(family, family) == "llama":
            size = len(data) // shape[0]
            data = b"".join(in_pairs([data[i * size:(i + 1) * size] for i in range(shape[0])], heads))
        if stem.startswith("model.layers."):
            _, _, layer, inner = stem.split(".", 3)
            stem = "blk.%s.%s" % (layer, (GEMMA if family.startswith("gemma") else INNER)[inner])
        else:
            stem = OUTER[stem]
        yield "%s.%s" % (stem, end), shape, dtype, data


def llama3_factors(config, s):
    """what the converter stores: by how much each frequency is slowed"""
    d, out = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"], []
    for i in range(d // 2):
        turns = s["original_max_position_embeddings"] / (2 * math.pi * config["rope_theta"] ** (2 * i / d))
        if turns < s["low_freq_factor"]:
            out.append(s["factor"])
        elif turns > s["high_freq_factor"]:
            out.append(1.0)
        else:
            smooth = (turns - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
            out.append(1 / ((1 - smooth) / s["factor"] + smooth))
    return out


def scaling(config, put, add):
    """rope_scaling as keys and, where a number for each frequency is needed, as tensors"""
    s = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = s.get("rope_type", s.get("type", "default"))
    if kind == "llama3":
        add("rope_freqs.weight", llama3_factors(config, s))
    elif kind == "longrope":
        add("rope_factors_long.weight", s["long_factor"])
        add("rope_factors_short.weight", s["short_factor"])
        put("rope.scaling.original_context_length", U32, config["original_max_position_embeddings"])
    elif kind != "default":
        put("rope.scaling.type", STRING, kind)
        put("rope.scaling.factor", F32, s["factor"])
        for word, key, code in (("original_max_position_embeddings", "original_context_length", U32), ("beta_fast", "yarn_beta_fast", F32),
                                ("beta_slow", "yarn_beta_slow", F32)):
            if word in s:
                put("rope.scaling." + key, code, s[word])


def keys(config, put):
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    for word, key, code in (("hidden_size", "embedding_length", U32), ("intermediate_size", "feed_forward_length", U32),
                            ("num_hidden_layers", "block_count", U32), ("num_attention_heads", "attention.head_count", U32),
                            ("num_key_value_heads", "attention.head_count_kv", U32), ("max_position_embeddings", "context_length", U32),
                            ("rms_norm_eps", "attention.layer_norm_rms_epsilon", F32), ("attn_logit_softcapping", "attn_logit_softcapping", F32),
                            ("final_logit_softcapping", "final_logit_softcapping", F32), ("vocab_size", "vocab_size", U32),
                            ("sliding_window_pattern", "attention.sliding_window_pattern", U32)):
        if config.get(word) is not None:
            put(key, code, config[word])
    put("attention.key_length", U32, head_dim)
    put("attention.value_length", U32, head_dim)
    put("rope.dimension_count", U32, int(head_dim * config.get("partial_rotary_factor", 1.0)))
    put("rope.freq_base", F32, (config.get("rope_parameters") or config).get("rope_theta", 10000.0))
    if config.get("sliding_window") or config["model_type"] == "phi3":
        put("attention.sliding_window", U32, config["sliding_window"] or 0)  # phi3's 0 says none


def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def pack(code, value):
    """value: of an array (code of its items, items)"""
    if code == ARRAY:
        return struct.pack("<IQ", value[0], len(value[1])) + b"".join(pack(value[0], v) for v in value[1])
    return string(value) if code == STRING else struct.pack(FORMAT[code], value)


def write(folder, path, more=()):
    """more: [(key, code, value)]"""
    with open(folder + "/config.json") as f:
        config = json.load(f)
    arch = ARCH.get(config["model_type"], config["model_type"])
    kv, all_tensors = [("general.architecture", STRING, arch)], list(tensors(config, folder + "/model.safetensors"))

    def put(key, code, value):
        kv.append(("%s.%s" % (arch, key), code, value))

    def add(name, values):
        all_tensors.append((name, [len(values)], "F32", struct.pack("<%df" % len(values), *values)))

    keys(config, put)
    scaling(config, put, add)
    kv += more
    head, body = b"GGUF" + struct.pack("<IQQ", 3, len(all_tensors), len(kv)), b""
    for key, code, value in kv:
        head += string(key) + struct.pack("<I", code) + pack(code, value)
    for name, shape, dtype, data in all_tensors:
        head += string(name) + struct.pack("<I%dQIQ" % len(shape), len(shape), *reversed(shape), GGML[dtype], len(body))
        body += data + b"\0" * (-len(data) % 32)
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + body)
