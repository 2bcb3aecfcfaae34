#!/usr/bin/env -S node --test-reporter=tap
// The official @anthropic-ai/sdk against the scripted provider: what the double says is what Anthropic's own client takes for Anthropic.
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventNames, packages, startMock } from "./lib.mjs";

const [{ default: Anthropic }] = await packages("@anthropic-ai/sdk");
const mock = await startMock();
const client = new Anthropic({ baseURL: `${mock.url}/anthropic`, apiKey: "unused", maxRetries: 0 });
const check = (what, fn) => test(`anthropic: ${what}`, { timeout: 20000 }, fn);
const ask = (rest) => ({ model: "claude-haiku-4-5", max_tokens: 2000, messages: [{ role: "user", content: "Once upon a time" }], ...rest });
const weather = {
  name: "get_weather",
  description: "the weather of a city",
  input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const textOf = (message) => message.content.filter((b) => b.type === "text").map((b) => b.text).join("");

check("plain and streamed are the same message", async () => {
  const whole = await client.messages.create(ask());
  assert.deepEqual([whole.type, whole.role, whole.stop_reason, whole.model], ["message", "assistant", "end_turn", "claude-haiku-4-5"]);
  assert.ok(textOf(whole).length > 10);
  assert.ok(whole.usage.input_tokens > 0 && whole.usage.output_tokens > 0);
  assert.ok(whole._request_id);
  const names = [];
  const stream = client.messages.stream(ask()).on("streamEvent", (e) => names.push(e.type));
  const final = await stream.finalMessage();
  assert.equal(textOf(final), textOf(whole));
  assert.equal(final.stop_reason, whole.stop_reason);
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
  assert.equal(names[0], "message_start");
  assert.equal(names.at(-1), "message_stop");
});

check("a limit and a stop string end the text, and say so", async () => {
  const cut = await client.messages.create(ask({ max_tokens: 3 }));
  assert.deepEqual([cut.stop_reason, cut.usage.output_tokens], ["max_tokens", 3]);
  const stopped = await client.messages.create(ask({ stop_sequences: [" lamp"] }));
  assert.deepEqual([stopped.stop_reason, stopped.stop_sequence], ["stop_sequence", " lamp"]);
  assert.ok(!textOf(stopped).includes("lamp"));
});

check("a tool is used, whole and streamed, and its result is answered", async () => {
  const asked = ask({ tools: [weather], tool_choice: { type: "tool", name: "get_weather" } });
  const first = await client.messages.create(asked);
  assert.equal(first.stop_reason, "tool_use");
  const use = first.content.find((b) => b.type === "tool_use");
  assert.equal(use.name, "get_weather");
  assert.equal(typeof use.input.city, "string");
  const streamed = await client.messages.stream(asked).finalMessage();
  assert.deepEqual(streamed.content.find((b) => b.type === "tool_use").input, use.input);
  const result = { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: "rain" }] };
  const history = [...asked.messages, { role: "assistant", content: first.content }, result];
  const second = await client.messages.create(ask({ tools: [weather], messages: history }));
  assert.equal(second.stop_reason, "end_turn");
  assert.ok(textOf(second).length > 0);
});

check("thinking comes as a signed block before the text, whole and streamed", async () => {
  const asked = ask({ thinking: { type: "enabled", budget_tokens: 1024 } });
  const whole = await client.messages.create(asked);
  assert.deepEqual(whole.content.map((b) => b.type), ["thinking", "text"]);
  assert.ok(whole.content[0].thinking.length > 0 && whole.content[0].signature.length > 0);
  const streamed = await client.messages.stream(asked).finalMessage();
  assert.deepEqual(streamed.content, whole.content);
});

check("errors have their class, type and request id", async () => {
  await assert.rejects(client.messages.create({ ...ask(), max_tokens: undefined }), (e) => {
    assert.ok(e instanceof Anthropic.BadRequestError, String(e));
    assert.deepEqual([e.error.type, e.error.error.type], ["error", "invalid_request_error"]);
    assert.match(e.message, /max_tokens/);
    return true;
  });
  await mock.script("retry-after-3", "status-529");
  await assert.rejects(client.messages.create(ask()), (e) => {
    assert.ok(e instanceof Anthropic.RateLimitError, String(e));
    assert.equal(e.headers.get("retry-after"), "3");
    assert.equal(e.error.error.type, "rate_limit_error");
    assert.ok(e.requestID);
    return true;
  });
  await assert.rejects(client.messages.create(ask()), (e) => e.status === 529 && e.error.error.type === "overloaded_error");
});

check("an error in the middle of a stream is thrown, after the text before it", async () => {
  await mock.script("error-in-stream");
  let text = "";
  await assert.rejects(client.messages.stream(ask()).on("text", (t) => (text += t)).finalMessage(), Anthropic.APIError);
  assert.equal(text, "Once there");
});

check("the name of each event is its type", async () => {
  const names = await eventNames(`${mock.url}/anthropic/v1/messages`, ask({ stream: true }), { "x-api-key": "unused", "anthropic-version": "2023-06-01" });
  assert.ok(names.length > 5);
  for (const [name, type] of names) assert.equal(name, type);
});

check("pings, CRLF and single bytes make no difference", async () => {
  const whole = textOf(await client.messages.create(ask()));
  for (const framing of ["pings", "crlf", "nospace", "bytes"]) {
    await mock.script(framing);
    assert.equal(textOf(await client.messages.stream(ask()).finalMessage()), whole, framing);
  }
});

check("a refusal is a stop reason", async () => {
  await mock.script("refusal");
  assert.equal((await client.messages.create(ask())).stop_reason, "refusal");
});
