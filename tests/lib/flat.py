"""Tiny models made to measure, standard library only: config.json, model.safetensors (F32) and tokenizer.json in a folder.

FLAT: the same next-token distribution at every position. All embeddings are ones, attention and feed-forward are zero, norm epsilon is 0, and row i
of the output is filled with ln(p_i) / width: so logit i = ln(p_i).

MARKOV: the next token depends on the last one only. Embeddings are unit vectors, and output[i][t] = ln p(i after t) / sqrt(width).

The vocabulary is all 256 bytes, each a token, the given ones first in their order, then longer pieces that no text is encoded to but a model may
say, then special tokens: text of k bytes is k tokens. What has no probability given has a logit of NEVER: it is never drawn and its log-probability
is at the floor.
"""
import json
import math
import os
import struct
import tempfile
from array import array

import gguf_of

NEVER = -20000.0
BOS, END = "<|bos|>", "<|end|>"
MARKERS = ["<|im_start|>", "<|im_end|>"]


def byte_char(b):
    """how a byte-level vocabulary spells a byte"""
    if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174:
        return chr(b)
    return chr(256 + sum(1 for i in range(b) if not (33 <= i <= 126 or 161 <= i <= 172 or i >= 174)))


class Vocabulary:
    """byte-level ("bytes"), or spaces as U+2581 with byte fallback ("spaces"), where only a space is no byte token"""

    def __init__(self, first=(), kind="bytes", adds_bos=False, specials=(), pieces=()):
        rest = [b for b in range(256) if b not in first]
        self.kind, self.adds_bos, self.specials = kind, adds_bos, [BOS, END, *specials]
        spell = byte_char if kind == "bytes" else lambda b: f"<0x{b:02X}>"
        self.spellings = [spell(b) for b in [*first, *rest]]
        self.of_byte = {b: i for i, b in enumerate([*first, *rest])}
        if kind == "spaces":
            self.spellings += ["\u2581"]
        self.spellings += [*pieces, *self.specials]

    def __len__(self):
        return len(self.spellings)

    def id(self, token):
        return self.of_byte[token] if isinstance(token, int) else self.spellings.index(token)

    def tokenizer(self):
        added = [{"id": self.id(s), "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                 for s in self.specials]
        template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": BOS, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                    "pair": [{"SpecialToken": {"id": BOS, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                    "special_tokens": {BOS: {"id": BOS, "ids": [self.id(BOS)], "tokens": [BOS]}}}
        model = {"type": "BPE", "unk_token": None, "byte_fallback": self.kind == "spaces", "vocab": {s: i for i, s in enumerate(self.spellings)}, "merges": []}
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        t = {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": level, "decoder": level,
             "post_processor": template if self.adds_bos else None, "model": model}
        if self.kind == "spaces":
            t["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
            t["pre_tokenizer"] = None
            t["decoder"] = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                                                             {"type": "ByteFallback"}, {"type": "Fuse"}]}
        return t

    def metadata(self, pre="gpt-2"):
        """the same as keys of a .gguf file"""
        special = [s in self.specials for s in self.spellings]
        out = [("tokens", gguf_of.ARRAY, (gguf_of.STRING, self.spellings)), ("bos_token_id", gguf_of.U32, self.id(BOS)),
               ("eos_token_id", gguf_of.U32, self.id(END)), ("add_bos_token", gguf_of.BOOL, self.adds_bos)]
        types = [3 if special[i] else 6 if s.startswith("<0x") else 1 for i, s in enumerate(self.spellings)]
        out.append(("token_type", gguf_of.ARRAY, (gguf_of.I32, types)))
        if self.kind == "bytes":
            out += [("model", gguf_of.STRING, "gpt2"), ("pre", gguf_of.STRING, pre), ("merges", gguf_of.ARRAY, (gguf_of.STRING, []))]
        else:
            scores = [0.0 if special[i] else -1.0 - i for i in range(len(self))]
            out += [("model", gguf_of.STRING, "llama"), ("add_space_prefix", gguf_of.BOOL, False), ("scores", gguf_of.ARRAY, (gguf_of.F32, scores))]
        return [("tokenizer.ggml." + key, code, value) for key, code, value in out]


def write_safetensors(path, tensors):
    """tensors: name -> (shape, array of float)"""
    header, at = {}, 0
    for name, (shape, values) in tensors.items():
        n = 4 * math.prod(shape)
        assert len(values) * 4 == n, name
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            f.write(values.tobytes())


class Model:
    """Built in memory, changed as a test likes, then written."""

    def __init__(self, vocabulary, width, layers=1, context=256):
        self.v, self.d, self.layers, self.context = vocabulary, width, layers, context
        n, d = len(vocabulary), width
        self.t = {"model.embed_tokens.weight": ((n, d), self.zeros(n * d)), "model.norm.weight": ((d,), self.ones(d)),
                  "lm_head.weight": ((n, d), self.zeros(n * d))}
        for i in range(layers):
            p = f"model.layers.{i}."
            self.t[p + "input_layernorm.weight"] = ((d,), self.ones(d))
            self.t[p + "post_attention_layernorm.weight"] = ((d,), self.ones(d))
            for q in ("q", "k", "v", "o"):
                self.t[p + f"self_attn.{q}_proj.weight"] = ((d, d), self.zeros(d * d))
            for g in ("gate", "up", "down"):
                self.t[p + f"mlp.{g}_proj.weight"] = ((d, d), self.zeros(d * d))

    @staticmethod
    def zeros(n):
        return array("f", bytes(4 * n))

    @staticmethod
    def ones(n):
        return array("f", [1.0]) * n

    def fill(self, name, row, value):
        (_, n_in), values = self.t[name]
        values[row * n_in:(row + 1) * n_in] = array("f", [value]) * n_in

    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        v = self.v
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": self.d, "intermediate_size": self.d,
                  "num_hidden_layers": self.layers, "num_attention_heads": 1, "num_key_value_heads": 1, "max_position_embeddings": self.context,
                  "rms_norm_eps": 0.0, "tie_word_embeddings": False, "vocab_size": len(v), "bos_token_id": v.id(BOS), "eos_token_id": v.id(END),
                  "torch_dtype": "float32"}
        for name, value in (("config.json", config), ("tokenizer.json", v.tokenizer())):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                json.dump(value, f)
        write_safetensors(os.path.join(folder, "model.safetensors"), self.t)
        return folder


def write_gguf(model, path, chat_template=None, pre="gpt-2"):
    """the model alone in one file"""
    with tempfile.TemporaryDirectory() as folder:
        template = [("tokenizer.chat_template", gguf_of.STRING, chat_template)] if chat_template is not None else []
        gguf_of.write(model.write(folder), path, model.v.metadata(pre) + template)
    return path


def flat(probabilities, context=256, layers=1, **vocabulary):
    """FLAT[p0, p1, ...]: token i is the i-th of the bytes A, B, C ... (from 0x41, so at most 62); `end=p` gives the end token a probability."""
    end = vocabulary.pop("end", 0.0)
    v = Vocabulary(range(0x41, 0x41 + len(probabilities)), **vocabulary)
    m = Model(v, 16, layers, context)
    m.t["model.embed_tokens.weight"] = ((len(v), 16), m.ones(16 * len(v)))
    given = dict(enumerate(probabilities))
    if end:
        given[v.id(END)] = end
    for i in range(len(v)):
        m.fill("lm_head.weight", i, (math.log(given[i]) if given.get(i) else NEVER) / 16)
    return m


def uniform(n=62, **more):
    return flat([1.0 / n] * n, **more)


def markov(steps, context=256, **vocabulary):
    """steps: {token: {next token: p}}; a token is a byte's number or another one's spelling. After any other token comes the end."""
    v = Vocabulary(**vocabulary)
    d = (len(v) + 15) // 16 * 16
    m = Model(v, d, 1, context)
    embed, out, root = m.t["model.embed_tokens.weight"][1], m.t["lm_head.weight"][1], math.sqrt(d)
    for t in range(len(v)):
        embed[t * d + t] = 1.0
        m.fill("lm_head.weight", t, NEVER / root)
    after = {v.id(t): {v.id(i): p for i, p in row.items()} for t, row in steps.items()}
    for t in range(len(v)):
        for i, p in after.get(t, {v.id(END): 1.0}).items():
            out[i * d + t] = math.log(p) / root
    return m


def chain(path, start, **more):
    """MARKOV that says `path` (byte numbers and spellings, each once) after the byte `start`, then the end."""
    steps, last = {}, start
    for token in [*path, END]:
        steps[last] = {token: 1.0}
        last = token
    return markov(steps, **more)


NAN, INF = float("nan"), float("inf")


def damaged(kind):
    """"nan row", "all minus inf", "plus inf row" of the output; "nan block" in the middle layer"""
    m = flat([0.4, 0.3, 0.2, 0.1], layers=3)
    if kind == "nan row":
        m.fill("lm_head.weight", 2, NAN)
    elif kind == "all minus inf":
        for i in range(len(m.v)):
            m.fill("lm_head.weight", i, -INF)
    elif kind == "plus inf row":
        m.fill("lm_head.weight", 2, INF)
    elif kind == "nan block":
        for i in range(8):
            m.fill("model.layers.1.mlp.down_proj.weight", i, NAN)
    return m
