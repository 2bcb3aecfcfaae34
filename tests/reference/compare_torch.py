#!/usr/bin/env python3
"""The engine and forward_float64.py against forward_torch.py, the second opinion. Needs python3-torch and python3-numpy.

  compare_torch.py PROGRAM      PROGRAM: isothermctl as built

Every stored model with a text longer than its windows and the context that its rotary scaling begins with, and variants of it: the
same tensors under a config.json with other fields, or with fields left out, as older and newer versions of transformers write it. A
text takes isothermctl three steps of at most 64 positions. An error is the largest difference within a row of logits over the
largest absolute logit of that row.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import forward_float64  # noqa: E402
import forward_torch  # noqa: E402
sys.path.insert(0, os.path.join(HERE, "..", "vectors"))
import make_logits  # noqa: E402

VECTORS = os.path.join(HERE, "..", "vectors")
ENGINE_ERROR, FLOAT64_ERROR, EFFECT = 1e-4, 1e-12, 1e-3
LENGTH = 150
LEFT_OUT = object()

ROPE = {"rope_type": "default", "rope_theta": 300.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 0.5, "high_freq_factor": 3.0, "original_max_position_embeddings": 24}
LONG = {"short_factor": [1.0, 1.5, 2.5], "long_factor": [1.0, 4.0, 9.0]}
PLAIN_ROPE = {"rope_scaling": LEFT_OUT, "rope_parameters": ROPE, "rope_theta": LEFT_OUT}
BY_LAYER = {"full_attention": {**YARN, "rope_theta": 700.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 90.0}}
LOCAL, WHOLE = "sliding_attention", "full_attention"

# (model, what is changed in its configuration). Each must change the model's logits, those of UNCHANGED must not.
VARIANTS = [
    ("llama-llama3", PLAIN_ROPE),
    ("llama-llama3", {"rope_scaling": LEFT_OUT, "rope_theta": LEFT_OUT, "rms_norm_eps": LEFT_OUT}),
    ("llama-llama3", {"rope_scaling": LEFT_OUT, "rope_parameters": {**LLAMA3, "rope_theta": 300.0}}),
    ("llama-llama3", {"rope_scaling": {**LLAMA3, "rope_type": LEFT_OUT, "type": "llama3"}}),
    ("llama-llama3", {"rope_scaling": {**YARN, "attention_factor": 0.8}}),
    ("llama-llama3", {"rope_scaling": {**YARN, "mscale": 1.3, "mscale_all_dim": 0.4}}),
    ("llama-llama3", {"rope_scaling": {**YARN, "mscale": 1.3}}),
    ("llama-llama3", {"rope_scaling": {**YARN, "truncate": False, "beta_fast": 6, "beta_slow": 0.25}}),
    ("llama-llama3", {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}),
    ("llama-yarn", {"rope_parameters": {**YARN, "rope_theta": 20.0, "original_max_position_embeddings": 4096, "beta_fast": 400}}),
    ("llama-yarn", {"rope_parameters": {**YARN, "rope_theta": 20.0, "original_max_position_embeddings": 6}}),
    ("llama-yarn", {"rope_parameters": {**YARN, "rope_theta": 20.0, "original_max_position_embeddings": 2}}),
    ("llama-llama3", {"rope_scaling": {"rope_type": "linear", "factor": 3.0}, "rope_parameters": ROPE}),
    ("llama-llama3", {"rope_scaling": LLAMA3, "original_max_position_embeddings": 12}),
    ("llama-llama3", {"rope_scaling": {"type": "dynamic", "factor": 4.0}}),
    ("llama-linear", {"rope_scaling": None, "rms_norm_eps": 0.1}),
    ("mistral", {"sliding_window": None}),
    ("mistral", {"sliding_window": LEFT_OUT}),
    ("mistral", {"sliding_window": 1, **PLAIN_ROPE}),
    ("mistral", {"rope_scaling": YARN, "sliding_window": 64}),
    ("qwen2", {"use_sliding_window": LEFT_OUT}),
    ("qwen2", {"max_window_layers": LEFT_OUT}),
    ("qwen2", {"max_window_layers": 0, "sliding_window": LEFT_OUT}),
    ("qwen2", {"layer_types": [LOCAL, WHOLE, WHOLE, LOCAL], "sliding_window": 3}),
    ("qwen2", {"rope_scaling": {**YARN, "rope_type": LEFT_OUT, "type": "yarn"}}),
    ("qwen3", {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}),
    ("qwen3", {"use_sliding_window": True, "sliding_window": 5, "layer_types": [LOCAL, WHOLE, LOCAL]}),
    ("qwen3", {"rms_norm_eps": LEFT_OUT, **PLAIN_ROPE}),
    ("gemma2", {"attn_logit_softcapping": None}),
    ("gemma2", {"final_logit_softcapping": None}),
    ("gemma2", {"attn_logit_softcapping": LEFT_OUT, "final_logit_softcapping": LEFT_OUT, "query_pre_attn_scalar": LEFT_OUT}),
    ("gemma2", {"sliding_window": LEFT_OUT, "tie_word_embeddings": LEFT_OUT, "hidden_activation": LEFT_OUT}),
    ("gemma2", {"layer_types": [WHOLE, LOCAL, LOCAL, WHOLE], **PLAIN_ROPE}),
    ("gemma3", {"layer_types": [WHOLE, LOCAL, LOCAL, WHOLE], "sliding_window_pattern": LEFT_OUT}),
    ("gemma3", {"sliding_window_pattern": LEFT_OUT, "query_pre_attn_scalar": LEFT_OUT}),
    ("gemma3", {"rope_local_base_freq": LEFT_OUT, "rope_theta": LEFT_OUT, "sliding_window": LEFT_OUT}),
    ("gemma3", {"rope_scaling": LLAMA3, "final_logit_softcapping": 3.0}),
    ("gemma3", {"rope_scaling": LEFT_OUT, "rope_theta": LEFT_OUT, "rope_local_base_freq": LEFT_OUT, "rope_parameters": BY_LAYER}),
    ("phi3", {"sliding_window": LEFT_OUT, "original_max_position_embeddings": 64}),
    ("phi3", {"sliding_window": 2, **PLAIN_ROPE, "rms_norm_eps": 0.1}),
    ("phi3", {"sliding_window": 64, "rms_norm_eps": LEFT_OUT}),
    ("phi3-longrope", {"original_max_position_embeddings": LENGTH}),
    ("phi3-longrope", {"rope_scaling": {**LONG, "type": "longrope", "factor": 20.0}}),
    ("phi3-longrope", {"rope_scaling": {**LONG, "type": "longrope", "attention_factor": 0.7}}),
    ("phi3-longrope", {"rope_scaling": LEFT_OUT, "partial_rotary_factor": LEFT_OUT, "rope_theta": LEFT_OUT, "rope_parameters": {
        **LONG, "rope_type": "longrope", "rope_theta": 80.0, "partial_rotary_factor": 0.75, "original_max_position_embeddings": 64}}),
    ("tiny-gpt2", {"layer_norm_epsilon": 0.1}),
]
UNCHANGED = [
    ("phi3-longrope", {"rope_scaling": {**LONG, "type": "su"}}),
    ("gemma3", {"attn_logit_softcapping": 0.5, "tie_word_embeddings": LEFT_OUT}),  # read by transformers, never used
    ("tiny-gpt2", {"layer_norm_epsilon": LEFT_OUT, "activation_function": LEFT_OUT, "tie_word_embeddings": LEFT_OUT}),
]


# ---------------------------------------------------------------- a model and its variants


def without_left_out(x):
    return {k: without_left_out(v) for k, v in x.items() if v is not LEFT_OUT} if isinstance(x, dict) else x


class Model:
    def __init__(self, name):
        self.name = name
        self.folder = os.path.join(VECTORS, name if os.path.isdir(os.path.join(VECTORS, name)) else os.path.join("families", name))
        self.given, self.tensors = forward_torch.read(self.folder)
        if self.given["model_type"] != "gpt2" and self.given.get("max_position_embeddings", LENGTH) < LENGTH:
            self.given["max_position_embeddings"] = LENGTH

    def changed(self, changes):
        return without_left_out({**self.given, **changes})

    def ids(self, n):
        vocabulary = self.given.get("text_config", self.given)["vocab_size"]
        return [int(i) for i in np.random.default_rng(11).integers(0, vocabulary, n)]

    def engine(self, program, given, ids):
        with tempfile.TemporaryDirectory(prefix="isotherm-") as folder:
            with open(os.path.join(folder, "config.json"), "w") as f:
                json.dump(given, f)
            shutil.copy(os.path.join(self.folder, "model.safetensors"), folder)
            p = subprocess.run([program, "logits", "-m", folder, "--ids", ",".join(map(str, ids)), "-o", "-"], capture_output=True)
        if p.returncode:
            sys.exit("%s: %s" % (self.name, p.stderr.decode().strip()))
        return np.frombuffer(p.stdout, "<f4").reshape(len(ids), -1).astype(np.float64)

    def other_float64(self, ids):
        """By the formulas that the stored logits come from"""
        w = {n: t.numpy() for n, t in self.tensors.items()}
        if "families" in self.folder:
            return forward_float64.forward(self.given, w, ids)
        return {"llama": make_logits.llama, "gpt2": make_logits.gpt2}[self.given["model_type"]](self.given, w, np.array(ids))


def length(given):
    """Of a text: a learned table ends, and LongRoPE's other list would change what was kept of the text so far"""
    if given["model_type"] == "gpt2":
        return min(LENGTH, given["n_positions"])
    c = forward_torch.settings(given)
    p = forward_torch.rope_settings(c, "full_attention")
    return min(LENGTH, p["original"] if p["rope_type"] == "longrope" else LENGTH)


def error(a, b):
    return float((np.abs(a - b).max(1) / np.abs(b).max(1)).max())

# ---------------------------------------------------------------- sums by family


class Sums:
    def __init__(self):
        self.models = self.variants = self.positions = self.logits = 0
        self.engine = self.float64 = 0.0

    def add(self, what, reference, engine):
        self.positions += reference.shape[0]
        self.logits += reference.size
        self.engine = max(self.engine, held(what + ": the engine", error(engine, reference), ENGINE_ERROR))


def held(what, e, limit):
    if not e <= limit:
        sys.exit("%s: %.2g from forward_torch.py, at most %.0e expected" % (what, e, limit))
    return e


def compare(program, name, sums):
    m = Model(name)
    base, s = {}, sums.setdefault(m.given["model_type"], Sums())
    n = length(m.given)
    for n_ids in {n, LENGTH if m.given["model_type"] != "gpt2" else n}:
        ids = m.ids(n_ids)
        base[n_ids] = forward_torch.forward(m.given, m.tensors, ids)
        s.float64 = max(s.float64, held(name + ": the NumPy reference", error(m.other_float64(ids), base[n_ids]), FLOAT64_ERROR))
    s.models += 1
    s.add(name, base[n], m.engine(program, m.given, m.ids(n)))
    for changes, expected in [(c, True) for v, c in VARIANTS if v == name] + [(c, False) for v, c in UNCHANGED if v == name]:
        given = m.changed(changes)
        ids = m.ids(length(given))
        logits = forward_torch.forward(given, m.tensors, ids)
        effect = error(logits, base[len(ids)])
        if effect < EFFECT if expected else effect > FLOAT64_ERROR:
            sys.exit("%s: %s changes the logits by %.2g" % (name, sorted(changes), effect))
        s.variants += 1
        s.add("%s with %s" % (name, sorted(changes)), logits, m.engine(program, given, ids))


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: compare_torch.py PROGRAM, which is isothermctl as built")
    sums, names = {}, ["stories260k", *make_logits.TINY, *sorted(os.listdir(os.path.join(VECTORS, "families")))]
    if missing := {name for name, _ in VARIANTS + UNCHANGED} - set(names):
        sys.exit("no such models: %s" % ", ".join(sorted(missing)))
    for name in names:
        compare(os.path.abspath(sys.argv[1]), name, sums)
    print("against PyTorch's float64 (errors: the largest in a row of logits, of the row's largest logit):")
    for family, s in sorted(sums.items()):
        print("%s: %d models, %d variants, %d positions, %d logits; largest error: engine %.2g, NumPy's float64 %.2g"
              % (family, s.models, s.variants, s.positions, s.logits, s.engine, s.float64))


main()
