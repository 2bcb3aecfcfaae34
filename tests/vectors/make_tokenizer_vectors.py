#!/usr/bin/env python3
"""Writes tokenizer-bytes.jsonl and tokenizer-spaces.jsonl: texts and their ids, by a byte pair encoder that is slow and obviously
right (look at every pair, merge the first of the lowest rank, begin again). It shares nothing with the C code.

  cd tests/vectors && ./make_tokenizer_vectors.py

A line: {"hex": bytes of the text, "times": how often they are repeated, "ids": [...]}.
"""
import json
import os
import unicodedata

HERE = os.path.dirname(os.path.abspath(__file__))
SPACE = "\u2581"
WHITE = set("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {chr(c) for c in range(0x2000, 0x200b)}


def merge_all(pieces, rank):
    while True:
        ranked = [(rank[p], i) for i, p in enumerate(zip(pieces, pieces[1:])) if p in rank]
        if not ranked:
            return pieces
        i = min(ranked)[1]
        pieces = pieces[:i] + [pieces[i] + pieces[i + 1]] + pieces[i + 2:]


def byte_alphabet():
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = [b for b in range(256) if b not in keep]
    return {**{b: chr(b) for b in keep}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def run(s, i, test):
    while i < len(s) and test(s[i]):
        i += 1
    return i


def is_letter(c):
    return unicodedata.category(c)[0] == "L"


def is_number(c):
    return unicodedata.category(c)[0] == "N"


def is_white(c):
    return c in WHITE


def is_other(c):
    return not (is_letter(c) or is_number(c) or is_white(c))


def gpt2_end(s, i):
    """Where the piece that begins at i ends: 's|'t|'re|'ve|'m|'ll|'d| ?L+| ?N+| ?other+|\\s+(?!\\S)|\\s+, tried in this order."""
    for word in ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d"):
        if s.startswith(word, i):
            return i + len(word)
    for test in (is_letter, is_number, is_other):
        start = i + 1 if s[i] == " " else i
        end = run(s, start, test)
        if end > start:
            return end
    end = run(s, i, is_white)
    assert end > i
    return end - 1 if end < len(s) and end - i > 1 else end


def gpt2_pieces(s):
    i = 0
    while i < len(s):
        end = gpt2_end(s, i)
        yield s[i:end]
        i = end


def runs(text):
    """Bytes as runs of well-formed text and runs of bytes that are not (as surrogates)."""
    s, out = text.decode("utf-8", "surrogateescape"), []
    for c in s:
        bad = 0xdc80 <= ord(c) <= 0xdcff
        if out and out[-1][0] == bad:
            out[-1][1] += c
        else:
            out.append([bad, c])
    return out


class Bytes:
    def __init__(self, path):
        model = json.load(open(path, encoding="utf-8"))["model"]
        self.vocab, self.table = model["vocab"], byte_alphabet()
        self.rank = {tuple(m.split(" ")): i for i, m in enumerate(model["merges"])}

    def encode(self, text):
        ids = []
        for bad, s in runs(text):
            for piece in [s] if bad else gpt2_pieces(s):
                chars = [self.table[b] for b in piece.encode("utf-8", "surrogateescape")]
                ids += [self.vocab[p] for p in merge_all(chars, self.rank)]
        return ids


class Spaces:
    def __init__(self, path):
        model = json.load(open(path, encoding="utf-8"))["model"]
        self.vocab, self.special = model["vocab"], {"<unk>", "<s>", "</s>"}
        self.rank = {tuple(m.split(" ")): i for i, m in enumerate(model["merges"])}

    def encode(self, text):
        if not text:
            return []
        pieces = []
        for bad, s in runs((SPACE + text.decode("utf-8", "surrogateescape").replace(" ", SPACE)).encode("utf-8", "surrogateescape")):
            for c in s:
                if not bad and c in self.vocab and c not in self.special:
                    pieces.append(c)
                else:
                    pieces += ["<0x%02X>" % b for b in c.encode("utf-8", "surrogateescape")]
        return [self.vocab[p] for p in merge_all(pieces, self.rank)]


TEXTS = [
    b"", b" ", b"  ", b"   ", b"a", b" a", b"  a", b"a ", b"a  ", b"a  b", b"a   b", b"\n", b"\n\n", b"\n\n\n", b" \n", b"\n ",
    b" \n \n x", b"\t", b"\tx", b"\t\tx", b"a\tb", b"\r\n", b"a\r\nb\r\n", b"\x00", b"a\x00b", b"\x1c\x1d\x1e\x1f x", b"\x7f",
    b"Once upon a time", b"Once upon a time, there was a little girl named Lily.", b"The king's daughter, and the king.",
    b"\"Let's go to the park,\" said Lily's mom. \"It'll rain, I'd say; they've gone. You're late. I'm not.\"",
    b"it's IT'S It'S 'tis 'll ' ''s 's's", b"don't can't won't DON'T", b"rock 'n' roll",
    b"0", b"1234567890", b"3.14159 and 2,718", b" 7 77 777", b"in 1812 there were 100 soldiers", b"a1b2c3",
    b"Hello, world!", b"???!!!...", b" ... ;;; --", b"foo_bar(x, y) -> {z};", b"#include <stdio.h>\nint main(void)\n{\n    return 0;\n}\n",
    "na\u00efve caf\u00e9 \u00dcber \u00c5ngstr\u00f6m".encode(), "e\u0301 a\u030a \u0301 \u0301\u0302x".encode(),
    "\u017ft 's\u017f".encode(), "\u4f60\u597d\uff0c\u4e16\u754c\u3002".encode(), "\u3053\u3093\u306b\u3061\u306f \u30ab\u30bf\u30ab\u30ca".encode(),
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4".encode(), "\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440".encode(),
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643".encode(), "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd".encode(),
    "\u0928\u092e\u0938\u094d\u0924\u0947".encode(), "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35".encode(),
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1eb\U0001f1f7".encode(), "\u2764\ufe0f x\u20e3".encode(),
    "a\u00a0b\u3000c\u2003d\u2028e\u0085f".encode(), "a\u180eb \u180e".encode(), "\u200b\ufeff\u2060x".encode(),
    "\u00bd \u2167 \u0663\u0664 \u2460x".encode(), "\u2122 \u00a9 \u20ac5 \u00a34".encode(), "\U0010ffff \ufffd \ue000".encode(),
    b"<|endoftext|>", b"a<|endoftext|>b", b"<s>", b"</s>", b"x </s> y<s>z <unk>", b"<0x41> <0x0A>", b"<|im_start|>user\nhi<|im_end|>",
    b"\xff", b"\x80", b"a\x80b", b"\xc3", b"\xe2\x82", b"x\xe2\x82y", b"\xed\xa0\x80 \xf4\x90\x80\x80", b"\xc0\xaf\xfe\xff text \xf0\x9f\x98",
    b"   \xff   x   \xff", b"\x80\xbf\xff \xe2\x96", bytes(range(256)), bytes(reversed(range(256))),
    b"The quick brown fox jumps over the lazy dog. " * 4, "na\u00efve \u2014 \u201cquoted\u201d \u2026 \u2018x\u2019".encode(),
]
LONG = [(b"a", 700), (b" ", 700), (b"\n", 500), (b"the ", 200), (b"0", 300), (b"!", 300), ("\u00e9".encode(), 200),
        ("\u4f60".encode(), 150), (b"\xff", 200), (b"ab", 300), (b"a  ", 200), (b"'s", 200)]
# one whose bytes end in spaces before a letter: \s+(?!\S) gives one back
LONG += [(b" " * 600 + b"x", 1)]


def write(name, encoder):
    with open(os.path.join(HERE, name), "w", encoding="ascii") as f:
        for text, times in [(t, 1) for t in TEXTS] + LONG:
            line = {"hex": text.hex(), "times": times, "ids": encoder.encode(text * times)}
            f.write(json.dumps(line, separators=(",", ":")) + "\n")


def main():
    bytes_encoder = Bytes(os.path.join(HERE, "../../local-engine/default-model/tokenizer.json"))
    spaces_encoder = Spaces(os.path.join(HERE, "stories260k/tokenizer.json"))
    assert spaces_encoder.encode(b"Once upon a time") == [403, 407, 261, 378]
    write("tokenizer-bytes.jsonl", bytes_encoder)
    write("tokenizer-spaces.jsonl", spaces_encoder)


if __name__ == "__main__":
    main()
