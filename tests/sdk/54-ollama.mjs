#!/usr/bin/env -S node --test-reporter=tap
// The official ollama package against the scripted provider.
import assert from "node:assert/strict";
import { test } from "node:test";
import { packages, startMock } from "./lib.mjs";

const [{ Ollama }] = await packages("ollama");
const mock = await startMock();
const client = new Ollama({ host: `${mock.url}/ollama` });
const check = (what, fn) => test(`ollama: ${what}`, { timeout: 20000 }, fn);
const ask = (rest) => ({ model: "llama3.2", messages: [{ role: "user", content: "Once upon a time" }], ...rest });
const weather = {
  type: "function",
  function: { name: "get_weather", description: "the weather of a city", parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } },
};

async function gathered(asked) {
  const seen = { text: "", thinking: "", calls: [], last: null };
  for await (const part of await client.chat({ ...asked, stream: true })) {
    seen.text += part.message.content;
    seen.thinking += part.message.thinking ?? "";
    seen.calls.push(...(part.message.tool_calls ?? []));
    seen.last = part;
  }
  return seen;
}

check("plain and streamed are the same text, with counts", async () => {
  const whole = await client.chat(ask());
  assert.ok(whole.message.content.length > 10);
  assert.deepEqual([whole.done, whole.done_reason, whole.message.role], [true, "stop", "assistant"]);
  assert.ok(whole.prompt_eval_count > 0);
  const streamed = await gathered(ask());
  assert.equal(streamed.text, whole.message.content);
  assert.deepEqual([streamed.last.done, streamed.last.done_reason, streamed.last.eval_count], [true, "stop", whole.eval_count]);
});

check("a limit and a stop string end the text", async () => {
  const cut = await client.chat(ask({ options: { num_predict: 3 } }));
  assert.deepEqual([cut.done_reason, cut.eval_count], ["length", 3]);
  assert.ok(!(await client.chat(ask({ options: { stop: [" lamp"] } }))).message.content.includes("lamp"));
});

check("a tool is called, whole and streamed, and its result is answered", async () => {
  await mock.script("tools", "tools");
  const first = await client.chat(ask({ tools: [weather] }));
  const [call] = first.message.tool_calls;
  assert.equal(call.function.name, "get_weather");
  assert.equal(typeof call.function.arguments.city, "string");
  const streamed = await gathered(ask({ tools: [weather] }));
  assert.deepEqual(streamed.calls[0].function, call.function);
  const history = [...ask().messages, first.message, { role: "tool", content: "rain", tool_name: "get_weather" }];
  const second = await client.chat(ask({ tools: [weather], messages: history }));
  assert.ok(second.message.content.length > 0 && !second.message.tool_calls);
});

check("an answer by a schema", async () => {
  const format = { type: "object", properties: { colour: { type: "string", enum: ["red", "green"] } }, required: ["colour"] };
  assert.ok(["red", "green"].includes(JSON.parse((await client.chat(ask({ format }))).message.content).colour));
});

check("thinking is beside the content, whole and streamed", async () => {
  const asked = ask({ model: "qwen3", think: true });
  const { message } = await client.chat(asked);
  assert.ok(message.thinking.length > 0 && message.content.length > 0);
  const streamed = await gathered(asked);
  assert.deepEqual([streamed.thinking, streamed.text], [message.thinking, message.content]);
});

check("errors have their status and the API's own words", async () => {
  for (const status of [404, 500]) {
    await mock.script(`status-${status}`);
    await assert.rejects(client.chat(ask()), (e) => {
      assert.deepEqual([e.name, e.status_code], ["ResponseError", status]);
      assert.ok(e.error.length > 0);
      return true;
    });
  }
});

check("an error in the middle of a stream is thrown, after the text before it", async () => {
  await mock.script("error-in-stream");
  let text = "";
  await assert.rejects(async () => {
    for await (const part of await client.chat({ ...ask(), stream: true })) text += part.message.content;
  });
  assert.equal(text, "Once there");
});
