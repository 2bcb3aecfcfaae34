#!/usr/bin/env -S node --test-reporter=tap
// The official @mistralai/mistralai against the scripted provider.
import assert from "node:assert/strict";
import { test } from "node:test";
import { packages, startMock } from "./lib.mjs";

const [{ Mistral }, errors] = await packages("@mistralai/mistralai", "@mistralai/mistralai/models/errors");
const mock = await startMock();
const { chat } = new Mistral({ apiKey: "unused", serverURL: `${mock.url}/mistral`, retryConfig: { strategy: "none" } });
const check = (what, fn) => test(`mistral: ${what}`, { timeout: 20000 }, fn);
const ask = (rest) => ({ model: "mistral-large-latest", messages: [{ role: "user", content: "Once upon a time" }], ...rest });
const weather = {
  type: "function",
  function: { name: "get_weather", description: "the weather of a city", parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } },
};

async function gathered(asked) {
  const seen = { text: "", calls: [], usage: undefined, finish: undefined };
  for await (const { data } of await chat.stream(asked)) {
    const choice = data.choices[0];
    seen.text += choice?.delta.content ?? "";
    seen.calls.push(...(choice?.delta.toolCalls ?? []));
    seen.finish = choice?.finishReason ?? seen.finish;
    seen.usage = data.usage ?? seen.usage;
  }
  return seen;
}

check("plain and streamed are the same text, with usage", async () => {
  const whole = await chat.complete(ask());
  const { message, finishReason } = whole.choices[0];
  assert.ok(message.content.length > 10);
  assert.equal(finishReason, "stop");
  const streamed = await gathered(ask());
  assert.equal(streamed.text, message.content);
  assert.equal(streamed.finish, "stop");
  assert.equal(streamed.usage.completionTokens, whole.usage.completionTokens);
});

check("a limit, a stop string and several choices", async () => {
  assert.equal((await chat.complete(ask({ maxTokens: 3 }))).choices[0].finishReason, "length");
  const stopped = (await chat.complete(ask({ stop: [" lamp"] }))).choices[0];
  assert.ok(!stopped.message.content.includes("lamp"));
  assert.equal((await chat.complete(ask({ n: 2, temperature: 0.5 }))).choices.length, 2);
});

check("a function is called, whole and streamed, with ids of nine characters, and its result is answered", async () => {
  const asked = ask({ tools: [weather], toolChoice: "any" });
  const { message, finishReason } = (await chat.complete(asked)).choices[0];
  assert.equal(finishReason, "tool_calls");
  const [call] = message.toolCalls;
  assert.match(call.id, /^[a-zA-Z0-9]{9}$/);
  assert.equal(call.function.name, "get_weather");
  assert.equal(typeof JSON.parse(call.function.arguments).city, "string");
  const streamed = await gathered(asked);
  assert.equal(streamed.calls[0].function.name, "get_weather");
  assert.deepEqual(JSON.parse(streamed.calls[0].function.arguments), JSON.parse(call.function.arguments));
  const result = { role: "tool", toolCallId: call.id, name: call.function.name, content: "rain" };
  const second = await chat.complete(ask({ tools: [weather], messages: [...asked.messages, { ...message, role: "assistant" }, result] }));
  assert.equal(second.choices[0].finishReason, "stop");
  assert.ok(second.choices[0].message.content.length > 0);
});

check("an answer by a schema", async () => {
  const schemaDefinition = { type: "object", properties: { colour: { type: "string", enum: ["red", "green"] } }, required: ["colour"], additionalProperties: false };
  const r = await chat.complete(ask({ responseFormat: { type: "json_schema", jsonSchema: { name: "colour", schemaDefinition, strict: true } } }));
  assert.ok(["red", "green"].includes(JSON.parse(r.choices[0].message.content).colour));
});

check("what the model thinks is a chunk before the text, whole and streamed", async () => {
  await mock.script("reasoning", "reasoning");
  const { content } = (await chat.complete(ask())).choices[0].message;
  assert.deepEqual(content.map((c) => c.type), ["thinking", "text"]);
  const thought = content[0].thinking.map((t) => t.text).join("");
  assert.ok(thought.length > 0 && content[1].text.length > 0);
  const seen = { thinking: "", text: "" };
  for await (const { data } of await chat.stream(ask())) {
    const piece = data.choices[0]?.delta.content ?? "";
    for (const part of typeof piece === "string" ? [{ type: "text", text: piece }] : piece) {
      seen[part.type] += part.type === "thinking" ? part.thinking.map((t) => t.text).join("") : part.text;
    }
  }
  assert.deepEqual(seen, { thinking: thought, text: content[1].text });
});

check("errors have their status and the API's own body", async () => {
  await assert.rejects(chat.complete(ask({ temperature: 1.9 })), (e) => {
    assert.ok(e instanceof errors.MistralError, String(e));
    assert.equal(e.statusCode, 422);
    assert.match(e.body, /temperature/);
    return true;
  });
  await mock.script("retry-after-3");
  await assert.rejects(chat.complete(ask()), (e) => {
    assert.equal(e.statusCode, 429);
    assert.equal(e.headers.get("retry-after"), "3");
    return true;
  });
});
