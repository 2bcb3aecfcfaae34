#!/usr/bin/env python3
"""Blocks of the quantised types and what they stand for, for tests/unit/test_kernels.c. NumPy, from the published layouts; shares nothing with the C code.

  make_blocks.py            rewrites blocks/<type>.bin beside this script
  make_blocks.py --check    computes again and compares with what is stored

<type>.bin: BLOCKS blocks as a file holds them, random but for the scales (float16 of ordinary size, one of them subnormal, one negative), then their
values as float32, little-endian. The values are computed in float64, where every product is exact, and rounded once.
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
BLOCKS = 4


def half(block, at):
    """the float16 at that byte of every block, [n, 1]"""
    return np.ascontiguousarray(block[:, at:at + 2]).view("<f2").astype(np.float64)


def q8_0(b):
    return half(b, 0) * np.ascontiguousarray(b[:, 2:]).view("i1")


def q4_0(b):
    n = b[:, 2:].astype(int)
    return half(b, 0) * (np.concatenate([n & 15, n >> 4], axis=1) - 8)


def scales(s):
    """twelve bytes -> eight scales and eight minima of six bits"""
    s = s.astype(int)
    a = np.concatenate([s[:, 0:4] & 63, (s[:, 8:12] & 15) | (s[:, 0:4] >> 6) << 4], axis=1)
    m = np.concatenate([s[:, 4:8] & 63, (s[:, 8:12] >> 4) | (s[:, 4:8] >> 6) << 4], axis=1)
    return a, m


def k_groups(b, q):
    a, m = scales(b[:, 4:16])
    d, low = half(b, 0), half(b, 2)
    return (d[:, :, None] * a[:, :, None] * q - low[:, :, None] * m[:, :, None]).reshape(len(b), 256)


def nibbles(n):
    """[n, 128] bytes -> [n, 8, 32]: groups 2j and 2j + 1 are the low and the high halves of bytes 32j .. 32j + 31"""
    n = n.astype(int).reshape(len(n), 4, 1, 32)
    return np.concatenate([n & 15, n >> 4], axis=2).reshape(len(n), 8, 32)


def q4_k(b):
    return k_groups(b, nibbles(b[:, 16:]))


def q5_k(b):
    high = (b[:, 16:48].astype(int)[:, None, :] >> np.arange(8)[None, :, None]) & 1
    return k_groups(b, nibbles(b[:, 48:]) + 16 * high)


def q6_k(b):
    out = np.empty((len(b), 256))
    low, high = b[:, :128].astype(int), b[:, 128:192].astype(int)
    s, d = np.ascontiguousarray(b[:, 192:208]).view("i1").astype(int), half(b, 208)[:, 0]
    for part in range(2):
        ql, qh = low[:, 64 * part:64 * part + 64], high[:, 32 * part:32 * part + 32]
        quarters = [ql[:, :32] & 15, ql[:, 32:] & 15, ql[:, :32] >> 4, ql[:, 32:] >> 4]
        for c in range(4):
            q = (quarters[c] | ((qh >> (2 * c)) & 3) << 4) - 32
            for i in range(32):
                at = 128 * part + 32 * c + i
                out[:, at] = d * s[:, at // 16] * q[:, i]
    return out


TYPES = {"Q8_0": (34, (0,), q8_0), "Q4_0": (18, (0,), q4_0), "Q4_K": (144, (0, 2), q4_k), "Q5_K": (176, (0, 2), q5_k), "Q6_K": (210, (208,), q6_k)}


def make(name):
    size, halves, values = TYPES[name]
    random = np.random.Generator(np.random.PCG64([7, size]))
    b = random.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    for at in halves:
        d = random.uniform(0.001, 0.1, BLOCKS).astype("<f2")
        d[1], d[2] = -d[1], np.float16(3e-6)
        b[:, at:at + 2] = d.view(np.uint8).reshape(-1, 2)
    return b.tobytes() + values(b).astype("<f4").tobytes()


def main():
    bad = 0
    for name in TYPES:
        path = os.path.join(HERE, "blocks", name + ".bin")
        if "--check" in sys.argv:
            same = open(path, "rb").read() == make(name)
            print(name, "same" if same else "DIFFERENT")
            bad += not same
        else:
            with open(path, "wb") as f:
                f.write(make(name))
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
