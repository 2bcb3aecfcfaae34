#!/usr/bin/env -S node --test-reporter=tap
// The official openai package, unmodified, against the daemon: the short form that `make check` has. The other files here are `make check-sdk`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { packages, startDaemon, startMock } from "./lib.mjs";

const [{ default: OpenAI }] = await packages("openai");
const mock = await startMock();
const { url } = await startDaemon([{ name: "scripted", base_url: `${mock.url}/v1` }], { "gpt-4o": "scripted/story" });
const client = new OpenAI({ baseURL: url, apiKey: "unused", maxRetries: 2 });
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
