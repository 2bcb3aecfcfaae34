#!/usr/bin/env python3
"""The recorded answers of a dialect as seeds of its harness (tests/fuzz/fuzz_decode.h says what the first byte means).

usage: fuzz_seeds.py DIALECT FOLDER
"""
import json
import os
import sys
import zlib

TEXT, TAGS, STREAM = 0x80, 0x40, 0x01


def frames(path):
    """an AWS stream as fuzz_decode_converse reads it: a line for each frame"""
    for frame in json.load(open(path, encoding="utf-8")):
        headers = frame["headers"]
        name = headers.get(":event-type") or "!" + (headers.get(":exception-type") or headers.get(":error-code") or "")
        payload = json.dumps(frame["payload"], ensure_ascii=False) if "payload" in frame else ""
        yield f"{name} {payload}\n".encode()


def seed(folder, case, dialect):
    """-> (first byte but for the pieces, the bytes)"""
    names = os.listdir(folder)
    how = TEXT if case.startswith("text-") else 0
    if "provider.json" in names and json.load(open(os.path.join(folder, "provider.json"), encoding="utf-8"))["quirks"].get("thinks_in_tags"):
        how |= TAGS
    if "in.frames.json" in names:
        return how | STREAM, b"".join(frames(os.path.join(folder, "in.frames.json")))
    name = next(n for n in names if n.startswith("in."))
    with open(os.path.join(folder, name), "rb") as f:
        data = f.read()
    if dialect == "engine":
        return None, b"".join(json.dumps(x).encode() + b"\n" for x in json.loads(data))
    return how | (0 if name == "in.json" else STREAM) | (TEXT if name == "in.array" else 0), data


def main():
    dialect, out = sys.argv[1:]
    root = os.path.join("tests/golden/decode", dialect)
    os.makedirs(out, exist_ok=True)
    for case in sorted(os.listdir(root)):
        how, data = seed(os.path.join(root, case), case, dialect)
        head = b"" if how is None else bytes([how | zlib.crc32(case.encode()) % 16 << 1])
        with open(os.path.join(out, "golden-" + case), "wb") as f:
            f.write(head + data)


main()
