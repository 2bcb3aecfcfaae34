#!/usr/bin/env -S node --test-reporter=tap
// The official cohere-ai (v2 chat) against the scripted provider.
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventNames, packages, startMock } from "./lib.mjs";

const [{ CohereClientV2, CohereError, Cohere }] = await packages("cohere-ai");
const mock = await startMock();
const client = new CohereClientV2({ token: "unused", environment: `${mock.url}/cohere`, maxRetries: 0 });
const check = (what, fn) => test(`cohere: ${what}`, { timeout: 20000 }, fn);
const once = { maxRetries: 0 };
const ask = (rest) => ({ model: "command-a-03-2025", messages: [{ role: "user", content: "Once upon a time" }], ...rest });
const weather = {
  type: "function",
  function: { name: "get_weather", description: "the weather of a city", parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } },
};
const textOf = (message) => (message.content ?? []).filter((c) => c.type === "text").map((c) => c.text).join("");

async function gathered(asked) {
  const seen = { types: [], text: "", thinking: "", call: null, end: null };
  for await (const event of await client.chatStream(asked, once)) {
    seen.types.push(event.type);
    if (event.type === "content-delta") {
      seen.text += event.delta.message.content.text ?? "";
      seen.thinking += event.delta.message.content.thinking ?? "";
    } else if (event.type === "tool-call-start") {
      seen.call = { id: event.delta.message.toolCalls.id, name: event.delta.message.toolCalls.function.name, arguments: "" };
    } else if (event.type === "tool-call-delta") {
      seen.call.arguments += event.delta.message.toolCalls.function.arguments;
    } else if (event.type === "message-end") {
      seen.end = event.delta;
    }
  }
  return seen;
}

check("plain and streamed are the same text, with usage", async () => {
  const whole = await client.chat(ask(), once);
  assert.ok(textOf(whole.message).length > 10);
  assert.equal(whole.finishReason, "COMPLETE");
  assert.ok(whole.usage.tokens.inputTokens > 0 && whole.usage.billedUnits.outputTokens > 0);
  const streamed = await gathered(ask());
  assert.equal(streamed.text, textOf(whole.message));
  assert.equal(streamed.end.finishReason, "COMPLETE");
  assert.equal(streamed.end.usage.tokens.outputTokens, whole.usage.tokens.outputTokens);
  assert.deepEqual([streamed.types[0], streamed.types.at(-1)], ["message-start", "message-end"]);
});

check("a limit and a stop string end the text, and say so", async () => {
  assert.equal((await client.chat(ask({ maxTokens: 3 }), once)).finishReason, "MAX_TOKENS");
  const stopped = await client.chat(ask({ stopSequences: [" lamp"] }), once);
  assert.equal(stopped.finishReason, "STOP_SEQUENCE");
});

check("a tool is called, whole and streamed, and its result is answered", async () => {
  const asked = ask({ tools: [weather], toolChoice: "REQUIRED" });
  const first = await client.chat(asked, once);
  assert.equal(first.finishReason, "TOOL_CALL");
  const [call] = first.message.toolCalls;
  assert.equal(call.function.name, "get_weather");
  assert.equal(typeof JSON.parse(call.function.arguments).city, "string");
  const streamed = await gathered(asked);
  assert.equal(streamed.call.name, "get_weather");
  assert.deepEqual(JSON.parse(streamed.call.arguments), JSON.parse(call.function.arguments));
  assert.equal(streamed.end.finishReason, "TOOL_CALL");
  const result = { role: "tool", toolCallId: call.id, content: "rain" };
  const second = await client.chat(ask({ tools: [weather], messages: [...asked.messages, first.message, result] }), once);
  assert.equal(second.finishReason, "COMPLETE");
  assert.ok(textOf(second.message).length > 0);
});

check("the name of each event is its type", async () => {
  const names = await eventNames(`${mock.url}/cohere/v2/chat`, ask({ stream: true }), { authorization: "Bearer unused" });
  assert.ok(names.length > 5);
  for (const [name, type] of names) assert.equal(name, type);
});

check("log-probabilities come in groups of a text and its tokens", async () => {
  const { logprobs, message } = await client.chat(ask({ logprobs: true }), once);
  assert.equal(logprobs.map((g) => g.text).join(""), textOf(message));
  assert.ok(logprobs.every((g) => g.tokenIds.length === g.logprobs.length && g.logprobs.every((l) => l <= 0)));
});

check("an answer by a schema", async () => {
  const jsonSchema = { type: "object", properties: { colour: { type: "string", enum: ["red", "green"] } }, required: ["colour"] };
  const { message } = await client.chat(ask({ responseFormat: { type: "json_object", jsonSchema } }), once);
  assert.ok(["red", "green"].includes(JSON.parse(textOf(message)).colour));
});

check("thinking is a content of its own, whole and streamed", async () => {
  const asked = ask({ model: "command-a-reasoning-08-2025", thinking: { type: "enabled", tokenBudget: 100 } });
  const { message } = await client.chat(asked, once);
  assert.deepEqual(message.content.map((c) => c.type), ["thinking", "text"]);
  const streamed = await gathered(asked);
  assert.equal(streamed.thinking, message.content[0].thinking);
  assert.equal(streamed.text, textOf(message));
});

check("errors have their class and the API's own body", async () => {
  await assert.rejects(client.chat(ask({ temperature: 1.9 }), once), (e) => {
    assert.ok(e instanceof CohereError, String(e));
    assert.ok([400, 422].includes(e.statusCode), String(e.statusCode));
    assert.match(e.body.message, /temperature/);
    return true;
  });
  for (const call of [(a) => client.chat(a, once), (a) => client.chatStream(a, once)]) {
    await mock.script("status-429");
    await assert.rejects(call(ask()), Cohere.TooManyRequestsError);
  }
});
