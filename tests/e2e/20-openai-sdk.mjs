#!/usr/bin/env node
// The official openai package, unmodified, against the daemon: plain and streaming, for the scripted provider and the local engine.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

if (existsSync("build/node/why-not")) {
  const why = readFileSync("build/node/why-not", "utf8").trim().replace(/\s+/g, " ");
  console.log(`1..1\nok 1 - the official client # SKIP the npm registry gave no openai package: ${why}`);
  process.exit(0);
}
const { default: OpenAI } = await import(resolve("build/node/node_modules/openai/index.mjs"));
const build = process.env.BUILD ?? "build";
const folder = mkdtempSync(join(tmpdir(), "isotherm-sdk-"));

function start(program, args, pattern, env = {}) {
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  return new Promise((done, fail) => {
    const timer = setTimeout(() => fail(new Error(`${program}: not ready`)), 20000);
    child.on("exit", (code) => fail(new Error(`${program} ended with ${code}`)));
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        const m = line.match(pattern);
        if (m) {
          clearTimeout(timer);
          done({ child, port: m[1] });
        }
      });
    }
  });
}

const tests = [];
const test = (name, fn) => tests.push([name, fn]);

const mock = await start(`${build}/isotherm-mock`, ["--listen", "127.0.0.1:0"], /^listening (\d+)/);
const sources = readdirSync("catalog/providers").sort().map((f) => `catalog/providers/${f}`);
const built = spawnSync(`${build}/isothermctl`, ["catalog", "build", ...sources, "tests/lib/scripted.json", "-o", join(folder, "catalog.db")]);
assert.equal(built.status, 0, String(built.stderr));
writeFileSync(join(folder, "isotherm.yaml"), `listen: 127.0.0.1:0
catalog_path: ${folder}/catalog.db
records_path: ${folder}/records.db
providers:
  - name: scripted
    base_url: http://127.0.0.1:${mock.port}/v1
aliases:
  - name: gpt-4o
    target: scripted/story
`);
const daemon = await start(`${build}/isothermd`, ["--config", join(folder, "isotherm.yaml")], /listening.* port=(\d+)/);
const client = new OpenAI({ baseURL: `http://127.0.0.1:${daemon.port}/v1`, apiKey: "unused", maxRetries: 2 });
for (let i = 0; i < 200; i++) {
  if ((await fetch(`http://127.0.0.1:${daemon.port}/readyz`)).status === 200) break;
  await new Promise((r) => setTimeout(r, 50));
}
const messages = [{ role: "user", content: "Once upon a time" }];

for (const [model, extra] of [["gpt-4o", {}], ["local", { seed: 7, temperature: 0.9, max_tokens: 30 }]]) {
  test(`${model}: plain and streamed are the same text`, async () => {
    const whole = await client.chat.completions.create({ model, messages, ...extra });
    const text = whole.choices[0].message.content;
    assert.ok(text.length > 10, text);
    assert.ok(whole.system_fingerprint.startsWith("iso_"));
    assert.ok(whole.usage.total_tokens > 0);
    const stream = await client.chat.completions.create({ model, messages, ...extra, stream: true, stream_options: { include_usage: true } });
    let streamed = "", usage = null, finish = null;
    for await (const chunk of stream) {
      streamed += chunk.choices[0]?.delta?.content ?? "";
      finish = chunk.choices[0]?.finish_reason ?? finish;
      usage = chunk.usage ?? usage;
    }
    assert.equal(streamed, text);
    assert.equal(finish, whole.choices[0].finish_reason);
    assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
  });
}

test("the stream helper gathers the final completion", async () => {
  const runner = client.chat.completions.stream({ model: "local", messages, seed: 1, max_tokens: 12 });
  const final = await runner.finalChatCompletion();
  assert.ok(final.choices[0].message.content.length > 0);
});

test("logprobs have the documented shape", async () => {
  const r = await client.chat.completions.create({ model: "local", messages, seed: 1, max_tokens: 5, logprobs: true, top_logprobs: 3 });
  const items = r.choices[0].logprobs.content;
  assert.equal(items.length, 5);
  for (const item of items) {
    assert.ok(item.logprob <= 0 && Array.isArray(item.bytes) && item.top_logprobs.length === 3);
  }
});

test("an error is an APIError with status, param and code", async () => {
  await assert.rejects(client.chat.completions.create({ model: "local", messages, temperature: -1 }), (e) => {
    assert.equal(e.status, 400);
    assert.equal(e.param, "temperature");
    return true;
  });
  await assert.rejects(client.chat.completions.create({ model: "nobody/x", messages }), (e) => e.status === 404 && e.code === "model_not_found");
});

test("raw completions and the list of models", async () => {
  const r = await client.completions.create({ model: "local", prompt: "Once upon a time", seed: 1, max_tokens: 8 });
  assert.ok(r.choices[0].text.length > 0);
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  assert.ok(ids.includes("local") && ids.includes("gpt-4o"), ids.join(" "));
});

console.log(`1..${tests.length}`);
let failed = 0;
for (const [i, [name, fn]] of tests.entries()) {
  try {
    await fn();
    console.log(`ok ${i + 1} - ${name}`);
  } catch (e) {
    failed++;
    console.log(`not ok ${i + 1} - ${name}\n${String(e.stack).replace(/^/gm, "# ")}`);
  }
}
for (const p of [daemon, mock]) {
  p.child.removeAllListeners("exit");
  p.child.kill();
}
process.exitCode = failed ? 1 : 0;
