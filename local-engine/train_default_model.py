#!/usr/bin/env python3
"""Trains the embedded default model: a small Llama-architecture writer of children's stories.

  train_default_model.py tokenizer --data DIR --out MODEL              byte-level BPE from DIR/train.txt[.xz]
  train_default_model.py train     --data DIR --out MODEL --work WORK  resumable; a checkpoint every 100 steps in WORK
  train_default_model.py export    --data DIR --out MODEL --work WORK  weights as float16, held-out figures, MODEL.md

DIR holds train.txt and held.txt (plain or .xz; documents end with a line `<|endoftext|>`).  Needs Debian's python3-torch and
libopenblas0-pthread.  The learning rate warms up, stays, and falls linearly to 0 over the last 30 % of --steps, so a run that was
stopped can be given fewer or more steps as long as it has not begun to fall; only --steps decides the result.  Sequences have
256 tokens until the rate falls and 512 from there on.  Hidden matrices are trained with Muon (momentum, orthogonalised by five
Newton-Schulz steps), embeddings and gains with AdamW.  The order of the text depends only on --seed and the step.
"""
import argparse
import collections
import gzip
import json
import lzma
import math
import os
import re
import struct
import time

EOT = "<|endoftext|>"
# GPT-2's pre-tokenisation for ASCII text, which is all the corpus holds.
SPLIT = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")
SHAPE = dict(vocab=4096, dim=192, layers=4, heads=6, ffn=512, context=512, eps=1e-5, theta=10000.0)
DECAY_SHARE, WARMUP_STEPS, TOKENS_PER_STEP = 0.30, 100, 4096
LR_MUON, LR_ADAM, WEIGHT_DECAY = 0.02, 3e-3, 0.05


def read_documents(data, name):
    path = os.path.join(data, name + ".txt")
    raw = open(path, "rb").read() if os.path.exists(path) else lzma.open(path + ".xz").read()
    return [d.strip("\n") for d in raw.decode("ascii").split(EOT) if d.strip()]


# ---------------------------------------------------------------- tokenizer

def byte_alphabet():
    """byte -> the printable character that stands for it in GPT-2 style vocabularies."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = [b for b in range(256) if b not in keep]
    table = {b: chr(b) for b in keep}
    table.update({b: chr(256 + i) for i, b in enumerate(rest)})
    return table


def merge_word(word, pair):
    out, i = [], 0
    while i < len(word):
        if i + 1 < len(word) and (word[i], word[i + 1]) == pair:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return tuple(out)


def train_merges(documents, n_merges):
    """The usual BPE: the most frequent neighbouring pair becomes a piece; ties go to the smaller pair."""
    table = byte_alphabet()
    counts = collections.Counter(w for d in documents for w in SPLIT.findall(d))
    words = {w: tuple(table[b] for b in w.encode()) for w in counts}
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for w, pieces in words.items():
        for p in zip(pieces, pieces[1:]):
            pairs[p] += counts[w]
            where[p].add(w)
    merges = []
    while len(merges) < n_merges:
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        for w in list(where[best]):
            old, new = words[w], merge_word(words[w], best)
            for p in zip(old, old[1:]):
                pairs[p] -= counts[w]
                where[p].discard(w)
                if pairs[p] <= 0:
                    del pairs[p]
            for p in zip(new, new[1:]):
                pairs[p] += counts[w]
                where[p].add(w)
            words[w] = new
        pairs.pop(best, None)
    return merges


def cmd_tokenizer(a):
    table = byte_alphabet()
    merges = train_merges(read_documents(a.data, "train"), SHAPE["vocab"] - 257)
    pieces = [EOT] + [table[b] for b in range(256)] + [x + y for x, y in merges]
    assert len(pieces) == len(set(pieces)) == SHAPE["vocab"]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    eot = {"id": 0, "content": EOT, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
           "special": True}
    front = {"type": "TemplateProcessing",
             "single": [{"SpecialToken": {"id": EOT, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
             "pair": [{"SpecialToken": {"id": EOT, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                      {"Sequence": {"id": "B", "type_id": 1}}],
             "special_tokens": {EOT: {"id": EOT, "ids": [0], "tokens": [EOT]}}}
    j = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [eot], "normalizer": None,
         "pre_tokenizer": level, "post_processor": front, "decoder": level,
         "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                   "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                   "vocab": {p: i for i, p in enumerate(pieces)}, "merges": [x + " " + y for x, y in merges]}}
    os.makedirs(a.out, exist_ok=True)
    with open(os.path.join(a.out, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump(j, f, ensure_ascii=False, separators=(",", ":"))
    write_json(a.out, "tokenizer_config.json",
               {"tokenizer_class": "GPT2Tokenizer", "bos_token": EOT, "eos_token": EOT, "add_bos_token": True,
                "add_prefix_space": False, "model_max_length": SHAPE["context"],
                "clean_up_tokenization_spaces": False})


class Tokenizer:
    def __init__(self, folder):
        model = json.load(open(os.path.join(folder, "tokenizer.json"), encoding="utf-8"))["model"]
        self.vocab, self.table, self.cache = model["vocab"], byte_alphabet(), {}
        self.rank = {tuple(m.split(" ")): i for i, m in enumerate(model["merges"])}
        back = {c: b for b, c in self.table.items()}
        self.bytes = {i: b"" if p == EOT else bytes(back[c] for c in p) for p, i in self.vocab.items()}

    def word(self, w):
        if w not in self.cache:
            pieces = tuple(self.table[b] for b in w.encode())
            while len(pieces) > 1:
                best = min(zip(pieces, pieces[1:]), key=lambda p: self.rank.get(p, math.inf))
                if best not in self.rank:
                    break
                pieces = merge_word(pieces, best)
            self.cache[w] = [self.vocab[p] for p in pieces]
        return self.cache[w]

    def encode(self, text):
        return [i for w in SPLIT.findall(text) for i in self.word(w)]

    def decode(self, ids):
        return b"".join(self.bytes[i] for i in ids).decode("utf-8", "replace")


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(value, f, indent=2)
        f.write("\n")


# ---------------------------------------------------------------- model (names and layout of transformers' LlamaForCausalLM)

def build(torch, c):
    nn, F = torch.nn, torch.nn.functional
    head = c["dim"] // c["heads"]

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(c["dim"]))

        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + c["eps"]) * self.weight

    def rotate(x, cos, sin):                                     # rotate-half, x is [batch][head][time][head dim]
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            lin = lambda i, o: nn.Linear(i, o, bias=False)       # noqa: E731
            self.input_layernorm, self.post_attention_layernorm = Norm(), Norm()
            self.self_attn = nn.ModuleDict({k: lin(c["dim"], c["dim"]) for k in ("q_proj", "k_proj", "v_proj", "o_proj")})
            self.mlp = nn.ModuleDict({"gate_proj": lin(c["dim"], c["ffn"]), "up_proj": lin(c["dim"], c["ffn"]),
                                      "down_proj": lin(c["ffn"], c["dim"])})

        def forward(self, x, cos, sin, mask):
            b, t, d = x.shape
            h, s = self.input_layernorm(x), self.self_attn
            q, k, v = (s[n](h).view(b, t, c["heads"], head).transpose(1, 2) for n in ("q_proj", "k_proj", "v_proj"))
            w = rotate(q, cos, sin) @ rotate(k, cos, sin).transpose(-1, -2) / math.sqrt(head) + mask
            x = x + s["o_proj"]((w.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))
            h, m = self.post_attention_layernorm(x), self.mlp
            return x + m["down_proj"](F.silu(m["gate_proj"](h)) * m["up_proj"](h))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed_tokens = nn.Embedding(c["vocab"], c["dim"])
            self.layers = nn.ModuleList(Layer() for _ in range(c["layers"]))
            self.norm = Norm()
            f = torch.arange(c["context"]).outer(c["theta"] ** (-torch.arange(0, head, 2) / head))
            self.cos, self.sin = torch.cat((f, f), -1).cos(), torch.cat((f, f), -1).sin()
            self.mask = torch.full((c["context"], c["context"]), -math.inf).triu(1)
            for name, p in self.named_parameters():
                if p.dim() == 2:
                    scale = 1 / math.sqrt(2 * c["layers"]) if "o_proj" in name or "down_proj" in name else 1
                    nn.init.normal_(p, std=0.02 if "embed" in name else scale / math.sqrt(p.shape[1]))

        def forward(self, ids):
            t = ids.shape[1]
            x = self.embed_tokens(ids)
            for layer in self.layers:
                x = layer(x, self.cos[:t], self.sin[:t], self.mask[:t, :t])
            return self.norm(x) @ self.embed_tokens.weight.T

    return Model()


def make_muon(torch):
    class Muon(torch.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, dict(lr=lr))

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    m = self.state[p].setdefault("momentum", torch.zeros_like(p))
                    m.lerp_(p.grad, 0.05)
                    x = p.grad.lerp(m, 0.95)
                    x = x / (x.norm() + 1e-7)
                    tall = x.shape[0] > x.shape[1]
                    x = x.T if tall else x
                    for _ in range(5):
                        g = x @ x.T
                        x = 3.4445 * x + (-4.7750 * g + 2.0315 * g @ g) @ x
                    x = x.T if tall else x
                    p.mul_(1 - group["lr"] * WEIGHT_DECAY)
                    p.add_(x, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)

    return Muon


def encode_corpus(torch, tok, documents):
    ids = []
    for d in documents:
        ids += [0] + tok.encode(d)
    return torch.tensor(ids + [0], dtype=torch.int64)


def rate(step, steps):
    """share of the full learning rate at `step`"""
    fall = int(steps * (1 - DECAY_SHARE))
    if step < fall:
        return min(1, (step + 1) / WARMUP_STEPS)
    return (steps - step) / (steps - fall)


def batch(torch, ids, step, length, seed):
    g = torch.Generator().manual_seed(seed * 1000003 + step)
    at = torch.randint(0, len(ids) - length - 1, (TOKENS_PER_STEP // length,), generator=g)
    rows = torch.stack([ids[i:i + length + 1] for i in at.tolist()])
    return rows[:, :-1], rows[:, 1:]


def cmd_train(a):
    import torch
    torch.manual_seed(a.seed)
    torch.set_num_threads(a.threads)
    tok = Tokenizer(a.out)
    ids = encode_corpus(torch, tok, read_documents(a.data, "train"))
    held = encode_corpus(torch, tok, read_documents(a.data, "held"))[:32 * 512]
    model = build(torch, SHAPE)
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if not (p.dim() == 2 and "embed" not in n)]
    opts = [make_muon(torch)(matrices, LR_MUON),
            torch.optim.AdamW(others, lr=LR_ADAM, betas=(0.9, 0.95), weight_decay=0.0)]
    base = [g["lr"] for o in opts for g in o.param_groups]
    os.makedirs(a.work, exist_ok=True)
    path, step, began = os.path.join(a.work, "checkpoint.pt"), 0, time.time()
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        for o, s in zip(opts, saved["opts"]):
            o.load_state_dict(s)
        step = saved["step"]
    print("tokens %d, parameters %d, from step %d of %d" % (len(ids), sum(p.numel() for p in model.parameters()), step,
                                                            a.steps), flush=True)
    mean, t0 = None, time.time()
    while step < a.steps:
        share = rate(step, a.steps)
        for g, lr in zip((g for o in opts for g in o.param_groups), base):
            g["lr"] = lr * share
        length = 256 if step < int(a.steps * (1 - DECAY_SHARE)) else 512
        x, y = batch(torch, ids, step, length, a.seed)
        loss = torch.nn.functional.cross_entropy(model(x).reshape(-1, SHAPE["vocab"]), y.reshape(-1))
        for o in opts:
            o.zero_grad(set_to_none=True)
        loss.backward()
        for o in opts:
            o.step()
        step += 1
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if step % 20 == 0:
            print("step %d  loss %.4f  rate %.3f  %.0f tokens/s" % (step, mean, share, 20 * TOKENS_PER_STEP / (time.time() - t0)),
                  flush=True)
            t0 = time.time()
        if step % 100 == 0 or step == a.steps:
            torch.save({"model": model.state_dict(), "opts": [o.state_dict() for o in opts], "step": step}, path + ".new")
            os.replace(path + ".new", path)
        if step % 500 == 0:
            print("step %d  held %.4f  after %.0f s" % (step, held_loss(torch, model, held)[0], time.time() - began), flush=True)


# ---------------------------------------------------------------- figures

def held_loss(torch, model, ids):
    """-> (mean loss, tokens): windows of the whole context, each token predicted once"""
    total, n, span = 0.0, 0, SHAPE["context"]
    with torch.no_grad():
        for i in range(0, len(ids) - 1, span):
            part = ids[i:i + span + 1]
            logits = model(part[None, :-1])[0]
            total += torch.nn.functional.cross_entropy(logits, part[1:], reduction="sum").item()
            n += len(part) - 1
    return total / n, n


def ngram_bits(train, held, order=5):
    """bits per byte of a byte n-gram with Witten-Bell interpolation, trained on `train`"""
    counts = [collections.defaultdict(collections.Counter) for _ in range(order)]
    for i in range(len(train)):
        for k in range(order):
            if i >= k:
                counts[k][train[i - k:i]][train[i]] += 1
    sums = [{h: (sum(c.values()), len(c)) for h, c in level.items()} for level in counts]
    bits = 0.0
    for i in range(len(held)):
        p = 1 / 256
        for k in range(min(order, i + 1)):
            h = held[i - k:i]
            if h in counts[k]:
                n, kinds = sums[k][h]
                p = (counts[k][h][held[i]] + kinds * p) / (n + kinds)
        bits -= math.log2(p)
    return bits / len(held)


def sample(torch, model, tok, prompt, n, temperature, seed):
    g, ids = torch.Generator().manual_seed(seed), [0] + tok.encode(prompt)
    with torch.no_grad():
        while n > 0 and len(ids) < SHAPE["context"]:
            p = (model(torch.tensor([ids]))[0, -1] / temperature).softmax(-1)
            t = torch.multinomial(p, 1, generator=g).item()
            if t == 0:
                break
            ids.append(t)
            n -= 1
    return tok.decode(ids)


def write_safetensors(path, tensors):
    head, at = {"__metadata__": {"format": "pt"}}, 0
    for name, t in tensors:
        head[name] = {"dtype": "F16", "shape": list(t.shape), "data_offsets": [at, at + 2 * t.numel()]}
        at += 2 * t.numel()
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, t in tensors:
            f.write(t.contiguous().numpy().tobytes())


def cmd_export(a):
    import torch
    tok = Tokenizer(a.out)
    saved = torch.load(os.path.join(a.work, "checkpoint.pt"))
    half = {n: t.half() for n, t in saved["model"].items()}
    write_safetensors(os.path.join(a.out, "model.safetensors"), [("model." + n, half[n]) for n in sorted(half)])
    c = SHAPE
    write_json(a.out, "config.json",
               {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
                "hidden_size": c["dim"], "intermediate_size": c["ffn"], "num_hidden_layers": c["layers"],
                "num_attention_heads": c["heads"], "num_key_value_heads": c["heads"],
                "max_position_embeddings": c["context"], "rms_norm_eps": c["eps"], "rope_theta": c["theta"],
                "rope_scaling": None, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True,
                "vocab_size": c["vocab"], "bos_token_id": 0, "eos_token_id": 0, "torch_dtype": "float16"})
    write_json(a.out, "generation_config.json", {"bos_token_id": 0, "eos_token_id": 0})
    model = build(torch, c)
    model.load_state_dict({n: t.float() for n, t in half.items()})      # the figures are those of the float16 file
    train_text = ("\n" + EOT + "\n").join(read_documents(a.data, "train")).encode()
    held_docs = read_documents(a.data, "held")
    held_text = ("\n" + EOT + "\n").join(held_docs).encode()
    loss, n = held_loss(torch, model, encode_corpus(torch, tok, held_docs))
    figures = {"steps": saved["step"], "seed": a.seed, "parameters": sum(t.numel() for t in half.values()),
               "bytes": os.path.getsize(os.path.join(a.out, "model.safetensors")), "held_bytes": len(held_text),
               "held_tokens": n, "loss": loss, "bits": loss / math.log(2) * n / len(held_text),
               "gzip": 8 * len(gzip.compress(held_text, 9, mtime=0)) / len(held_text),
               "ngram": ngram_bits(train_text, held_text), "train_tokens": saved["step"] * TOKENS_PER_STEP}
    samples = [(p, s, sample(torch, model, tok, p, 160, 0.8, s))
               for p, s in (("Once upon a time", 1), ("The little bear", 2), ('"Come in," said the old woman', 3))]
    write_model_card(a, figures, samples)
    print(json.dumps(figures))


def write_model_card(a, f, samples):
    c = SHAPE
    shown = "\n\n".join("Prompt `%s`, seed %d:\n\n%s" % (p, s, "\n".join("> " + line for line in text.split("\n")))
                        for p, s, text in samples)
    with open(os.path.join(a.out, "MODEL.md"), "w", encoding="utf-8") as out:
        out.write(f"""# The embedded default model
A writer of children's stories in the manner of the nineteenth century, small enough to live in the repository, so that everything
works with no download and no key. It continues text; it was not taught to answer questions, to know facts or to follow instructions.
For chat it uses a plain template: the last user message is continued.

| | |
|---|---|
| architecture | Llama: {c['layers']} layers, width {c['dim']}, {c['heads']} heads, feed-forward {c['ffn']}, context {c['context']}, tied embeddings |
| parameters, file | {f['parameters']:,}; `model.safetensors`, float16, {f['bytes']:,} bytes |
| tokenizer | byte-level BPE, {c['vocab']:,} tokens, trained on the training text; `{EOT}` (id 0) begins and ends a story |
| training text | 1,925 stories and chapters, 11,473,853 bytes of books first published before 1926 (Grimm, Andersen, Aesop, Lang's fairy books, Ozaki, Wilde, Bailey's animal tales and others), in the public domain in the United States |
| held out | {f['held_bytes']:,} bytes, whole stories that the training text does not hold |
| licence of the weights | that of this project (MIT) |

## Training
{f['steps']:,} steps of {TOKENS_PER_STEP:,} tokens ({f['train_tokens']:,} tokens in all), seed {f['seed']}, in float32 on the processor. Muon for
the hidden matrices (rate {LR_MUON}, momentum 0.95, weight decay {WEIGHT_DECAY}), AdamW for the rest (rate {LR_ADAM}, betas 0.9 and 0.95, no decay); {WARMUP_STEPS}
steps of warm-up, constant, then linear to 0 over the last {DECAY_SHARE:.0%}; sequences of 256 tokens, 512 while the rate falls. The run that made these weights took two hours
on one to two cores shared with other work.

    apt-get install python3-torch libopenblas0-pthread
    python3 local-engine/train_default_model.py tokenizer --data DATA --out local-engine/default-model
    python3 local-engine/train_default_model.py train  --data DATA --out local-engine/default-model --work WORK --steps {f['steps']} --seed {f['seed']}
    python3 local-engine/train_default_model.py export --data DATA --out local-engine/default-model --work WORK --seed {f['seed']}

`DATA` holds `train.txt` and `held.txt`. The sums of another machine's BLAS differ in their last bits, so another run gives other
weights of the same quality, not the same file.

## On the held-out text
| | bits per byte |
|---|---|
| this model (float16 weights, windows of {c['context']} tokens, each token predicted once) | {f['bits']:.3f} |
| byte 5-gram, Witten-Bell interpolation, trained on the training text | {f['ngram']:.3f} |
| gzip -9 of the held-out text alone | {f['gzip']:.3f} |

Loss {f['loss']:.4f} nats a token over {f['held_tokens']:,} tokens.

## Samples
Temperature 0.8, no other filter, at most 160 tokens; drawn by the training script.

{shown}
""")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("verb", choices=("tokenizer", "train", "export"))
    p.add_argument("--data", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--work", default="train-work")
    p.add_argument("--steps", type=int, default=4000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    {"tokenizer": cmd_tokenizer, "train": cmd_train, "export": cmd_export}[a.verb](a)


if __name__ == "__main__":
    main()
