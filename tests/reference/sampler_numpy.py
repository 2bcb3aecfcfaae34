#!/usr/bin/env python3
"""The sampler against a second one, in NumPy, that is written from the rules in words: random rows through `isothermctl sample`. The same tokens
are kept, probabilities agree within 1e-12. Orders of other implementations too.

Vocabularies of 2 to 200, ties, -inf, hot and cold, and rows of equal logits whose sums are exact in binary, with limits that lie on those sums.
Where a random row has a decision closer than 1e-9 to its limit, two correct implementations may differ in the last bit: such rows are counted and
left out, and may be at most one in twenty.

usage: sampler_numpy.py [ROWS [SEED]]     (BUILD names the build folder)
"""
import json
import os
import subprocess
import sys

import numpy as np

BUILD = os.environ.get("BUILD", "build")
ORDERS = ("isotherm", "hf", "vllm", "llama.cpp", "sglang")
ROWS_A_LINE, LINES_A_RUN = 25, 400
NEAR = 1e-9


class TooClose(Exception):
    pass


def apart(values, limit, is_exact):
    """sums and limits that must not be nearly equal, unless they are exact"""
    if not is_exact and np.any(np.abs(np.asarray(values) - limit) < NEAR):
        raise TooClose


def running(p):
    """sums from left to right, in the order given"""
    return np.cumsum(p)


def normal(p):
    return p / running(p)[-1]


def softmax(z, t=1.0):
    kept = z > -np.inf
    s = np.where(kept, (np.where(kept, z, 0.0) - z.max()) / t, -np.inf)
    return normal(np.exp(s))


def falling(p):
    """indices, most probable first, ties by lower id"""
    return np.argsort(-p, kind="stable")


def only(p, keep):
    return normal(np.where(keep, p, 0.0))


def top_k_ties(values, k):
    """of values, -inf or 0 for what is out already"""
    if k <= 0 or k >= len(values):
        return np.ones(len(values), bool)
    return values >= np.sort(values)[::-1][k - 1]


def top_k_exact(values, k):
    keep = np.ones(len(values), bool)
    if 0 < k < len(values):
        keep[:] = False
        keep[falling(values)[:k]] = True
    return keep


def top_p_before(p, top_p, is_exact):
    if top_p >= 1:
        return p
    order = falling(p)
    before = np.concatenate(([0.0], running(p[order])[:-1]))
    stays = before < top_p
    stays[0] = True
    apart(before[1:], top_p, is_exact)
    keep = np.zeros(len(p), bool)
    keep[order] = stays
    return only(p, keep & (p > 0))


def top_p_ascending(p, top_p, is_exact):
    if top_p >= 1:
        return p
    order = np.argsort(p, kind="stable")
    sums = running(p[order])
    stays = sums > 1 - top_p
    stays[-1] = True
    apart(sums[:-1], 1 - top_p, is_exact)
    keep = np.zeros(len(p), bool)
    keep[order] = stays
    return only(p, keep & (p > 0))


def joint(p, k, top_p, is_exact):
    if k <= 0 and top_p >= 1:
        return p
    order = falling(p)
    sums = running(p[order])
    apart((sums - p[order])[1:], top_p, is_exact)
    keep = np.zeros(len(p), bool)
    keep[order] = (sums - p[order] <= top_p) & ((np.arange(len(p)) < k) if k > 0 else True)
    return only(p, keep & (p > 0))


def min_p_of(p, m, is_exact):
    if m <= 0:
        return p
    apart(p[p < p.max()], m * p.max(), is_exact)
    return only(p, p >= m * p.max())


def typical(p, mass, with_ties, is_exact):
    if mass >= 1:
        return p
    logs = np.log(np.where(p > 0, p, 1.0))
    h = -running(p * logs)[-1]
    d = np.where(p > 0, np.abs(-logs - h), np.inf)
    distinct = np.unique(d[np.isfinite(d)])
    distinct_p = len(np.unique(p[p > 0]))
    if len(distinct) > 1 and np.diff(distinct).min() < NEAR or len(distinct) != distinct_p:
        raise TooClose  # which of two is the more typical hangs on a rounding
    order = np.argsort(d, kind="stable")
    order = order[p[order] > 0]
    sums = running(p[order])
    before = np.concatenate(([0.0], sums[:-1]))
    apart(before[1:], mass, is_exact)
    if with_ties:
        n = max(1, int(np.sum(before < mass)))
        return only(p, d <= d[order[n - 1]])
    keep = np.zeros(len(p), bool)
    keep[order[before <= mass]] = True  # up to and with the first sum above it
    return only(p, keep)


def ours(z, c, is_exact, top_p=top_p_before):
    if c["temperature"] == 0:
        return np.arange(len(z)) == np.argmax(z)
    s = (z - z.max()) / c["temperature"]
    p = softmax(np.where(top_k_ties(s, c["top_k"]), z, -np.inf), c["temperature"])
    p = top_p(p, c["top_p"], is_exact)
    return typical(min_p_of(p, c["min_p"], is_exact), c["typical_p"], True, is_exact)


def hf(z, c, is_exact):
    return ours(z, c, is_exact, top_p_ascending)


def vllm(z, c, is_exact):
    t = c["temperature"]
    t = 0 if t < 1e-5 else max(t, 0.01)
    if t == 0:
        return np.arange(len(z)) == np.argmax(z)
    p = min_p_of(softmax(z, t), c["min_p"], is_exact)
    n_left = int(np.sum(p > 0))
    p = only(p, (top_k_ties(p, c["top_k"]) if c["top_k"] < n_left else True) & (p > 0))
    return typical(top_p_ascending(p, c["top_p"], is_exact), c["typical_p"], True, is_exact)


def llama(z, c, is_exact):
    if c["temperature"] == 0:
        return np.arange(len(z)) == np.argmax(z)
    p = softmax(np.where(top_k_exact(z, c["top_k"]), z, -np.inf))
    p = top_p_before(typical(p, c["typical_p"], False, is_exact), c["top_p"], is_exact)
    if c["min_p"] > 0:
        floor = np.max(z[p > 0]) + np.log(c["min_p"])
        apart(z[(p > 0) & (z < np.max(z[p > 0]))], floor, is_exact and c["min_p"] == 1)
        p = only(p, (z >= floor) & (p > 0))
    return softmax(np.where(p > 0, z, -np.inf), c["temperature"])


def sglang(z, c, is_exact):
    if c["temperature"] < 1e-6:
        return np.arange(len(z)) == np.argmax(z)
    p = joint(softmax(z, c["temperature"]), c["top_k"], c["top_p"], is_exact)
    return typical(min_p_of(p, c["min_p"], is_exact), c["typical_p"], True, is_exact)


RULES = dict(zip(ORDERS, (ours, hf, vllm, llama, sglang)))


def row(rng, kind, n):
    if kind == 0:
        z = rng.normal(0, 3, n)
    elif kind == 1:
        z = np.floor(rng.random(n) * 6)  # ties
    elif kind == 2:
        z = rng.random(n) * 0.01  # flat
    else:  # a power of two of equal ones, the others out: every sum is exact
        z = np.full(n, -np.inf)
        m = 1 << int(rng.integers(0, int(np.log2(n)) + 1))
        z[rng.choice(n, m, replace=False)] = 1.5
        return z
    z = z.astype(np.float32).astype(float)
    if rng.random() < 0.5:
        z[rng.random(n) < 0.2] = -np.inf
    if not np.isfinite(z).any():
        z[0] = 0.0
    return z


def case(rng, number):
    kind = int(rng.integers(0, 4))
    order = ORDERS[number % 5] if number % 2 else "isotherm"
    mass = (lambda: float(rng.integers(0, 65) / 64)) if kind == 3 else (lambda: round(float(rng.random()), 3))
    c = {"sampler_order": order, "temperature": float(rng.choice([0, 0.3, 0.7, 1, 1.5, 4])),
         "top_k": int(rng.choice([0, 0, 1, 2, 5, 20, 150, 1000])), "top_p": float(rng.choice([1, mass(), mass(), 0])),
         "min_p": float(rng.choice([0, 0, 1, round(float(rng.random()) ** 3, 3)])), "typical_p": float(rng.choice([1, 1, mass()]))}
    rows = [row(rng, kind, int(rng.integers(2, 201))) for _ in range(ROWS_A_LINE)]
    text = [["-inf" if x == -np.inf else float(x) for x in z] for z in rows]
    return {"id": number, "op": "filter_probs", "in": dict(c, logits=text)}, c, rows, kind == 3


def check(lines, answers, totals):
    for (line, c, rows, is_exact), answer in zip(lines, answers):
        assert answer["id"] == line["id"], answer
        assert isinstance(answer["out"], list), (c, answer["out"])
        for z, got in zip(rows, answer["out"]):
            totals["rows"] += 1
            try:
                want = np.asarray(RULES[c["sampler_order"]](z, c, is_exact), float)
            except TooClose:
                totals["close"] += 1
                continue
            got = np.array(got)
            if not np.array_equal(got > 0, want > 0) or np.max(np.abs(got - want)) > 1e-12:
                print(f"# {json.dumps(c)}\n# logits {z.tolist()}\n# want {want.tolist()}\n# got {got.tolist()}")
                totals["wrong"] += 1
            totals[c["sampler_order"]] += 1


def main():
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 200000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rng = np.random.default_rng(seed)
    totals = dict.fromkeys(("rows", "close", "wrong", *ORDERS), 0)
    number = 0
    while totals["rows"] < n_rows and totals["wrong"] < 5:
        lines = [case(rng, number + i) for i in range(min(LINES_A_RUN, -(-(n_rows - totals["rows"]) // ROWS_A_LINE)))]
        number += len(lines)
        feed = "".join(json.dumps(line) + "\n" for line, *_ in lines)
        out = subprocess.run([f"{BUILD}/isothermctl", "sample"], input=feed, stdout=subprocess.PIPE, text=True, check=True).stdout
        check(lines, [json.loads(text) for text in out.splitlines()], totals)
    is_good = totals["wrong"] == 0 and totals["close"] * 100 <= totals["rows"] * 5 and all(totals[o] > 0 for o in ORDERS)
    print("# " + ", ".join(f"{k} {v}" for k, v in totals.items()))
    print(f"1..1\n{'ok' if is_good else 'not ok'} 1 - {totals['rows']} rows (seed {seed}): the same tokens as the rules in words, within 1e-12")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
