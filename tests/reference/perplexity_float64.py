#!/usr/bin/env python3
"""The perplexity of a text by a forward pass in float64 and the definition of perplexity with a sliding window: each token once, in the first
window that holds it. NumPy; shares nothing with the C code. A byte-level vocabulary, a text in ASCII.

  perplexity_float64.py FOLDER TEXT CONTEXT STRIDE     prints the perplexity and the tokens that counted
"""
import json
import math
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vectors"))
import forward_float64  # noqa: E402
import make_logits  # noqa: E402

WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")  # GPT-2's, as far as ASCII goes


def token_ids(folder, text):
    with open(folder + "/tokenizer.json", encoding="utf-8") as f:
        model = json.load(f)["model"]
    ranks = {tuple(m.split(" ") if isinstance(m, str) else m): i for i, m in enumerate(model["merges"])}
    ids = [0]  # the story's beginning
    for word in WORDS.findall(text):
        parts = [c if "!" <= c <= "~" else chr(256 + ord(c)) for c in word]  # a control character or a space, by its place among them
        while True:
            rank, i = min(((ranks.get(pair, math.inf), i) for i, pair in enumerate(zip(parts, parts[1:]))), default=(math.inf, 0))
            if rank == math.inf:
                break
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        ids += [model["vocab"][p] for p in parts]
    return ids


def main():
    folder, file, context, stride = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with open(folder + "/config.json", encoding="utf-8") as f:
        config = json.load(f)
    weights = make_logits.load(folder + "/model.safetensors")
    with open(file, encoding="ascii") as f:
        ids = token_ids(folder, f.read())
    losses, begin, fresh = [], 0, 1
    while fresh < len(ids):
        window = ids[begin:begin + context]
        z = forward_float64.forward(config, weights, window)
        top = z.max(axis=1, keepdims=True)
        log_p = z - top - np.log(np.exp(z - top).sum(axis=1, keepdims=True))
        losses += [-log_p[k - 1, window[k]] for k in range(fresh - begin, len(window))]
        fresh, begin = begin + len(window), begin + stride
    print("%.12g %d" % (math.exp(math.fsum(losses) / len(losses)), len(losses)))


main()
