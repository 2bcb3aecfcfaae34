#!/usr/bin/env -S node --test-reporter=tap
// LangChain's ChatOpenAI (@langchain/openai) against the daemon.
import assert from "node:assert/strict";
import { test } from "node:test";
import { KEY, closedPort, packages, startDaemon, startMock, until } from "./lib.mjs";

const [{ ChatOpenAI }, { HumanMessage, SystemMessage, ToolMessage }, { tool }, { z }] = await packages(
  "@langchain/openai", "@langchain/core/messages", "@langchain/core/tools", "zod",
);
const mock = await startMock();
const { url, said } = await startDaemon(
  [
    { name: "scripted", base_url: `${mock.url}/v1` },
    { name: "openai", base_url: `${mock.url}/openai/v1`, api_key: KEY },
    { name: "anthropic", base_url: `${mock.url}/anthropic/v1`, api_key: KEY },
    { name: "google-gemini", base_url: `${mock.url}/google-gemini/v1beta`, api_key: KEY },
    { name: "down", catalog: "scripted", base_url: `http://127.0.0.1:${await closedPort()}/v1` },
  ],
  { "gpt-4o": "openai/gpt-4o" },
);
const chat = (model, rest) => new ChatOpenAI({ model, apiKey: "unused", maxRetries: 0, configuration: { baseURL: url }, ...rest });
const check = (what, fn) => test(`langchain: ${what}`, { timeout: 30000 }, fn);
const prompt = "Once upon a time";
const colour = z.object({ colour: z.enum(["red", "green"]), warm: z.boolean() });
const weather = tool(({ city }) => `rain in ${city}`, { name: "get_weather", description: "the weather of a city", schema: z.object({ city: z.string() }) });

async function gathered(stream) {
  let all;
  for await (const chunk of stream) all = all ? all.concat(chunk) : chunk;
  return all;
}

for (const [model, extra] of [["gpt-4o", {}], ["local", { temperature: 0, maxTokens: 20 }]]) {
  check(`${model}: plain and streamed are the same text, and usage comes with both`, async () => {
    const whole = await chat(model, extra).invoke(prompt);
    assert.ok(whole.content.length > 10);
    const streamed = await gathered(await chat(model, extra).stream(prompt));
    assert.equal(streamed.content, whole.content);
    assert.ok(whole.usage_metadata.input_tokens > 0);
    assert.equal(streamed.usage_metadata.input_tokens, whole.usage_metadata.input_tokens);
    assert.equal(streamed.usage_metadata.output_tokens, whole.usage_metadata.output_tokens);
    assert.equal(streamed.response_metadata.finish_reason, whole.response_metadata.finish_reason);
    assert.ok(whole.response_metadata.system_fingerprint.startsWith("iso_"));
  });
}

check("the isotherm object is readable, whole and streamed", async () => {
  const model = chat("scripted/story", { temperature: 1.7, __includeRawResponse: true });
  const whole = await model.invoke(prompt);
  assert.equal(whole.additional_kwargs.__raw_response.isotherm.adjustments[0].param, "temperature");
  const seen = [];
  for await (const chunk of await model.stream(prompt)) seen.push(chunk.additional_kwargs.__raw_response?.isotherm);
  assert.equal(seen.find(Boolean).adjustments[0].sent, 1);
});

check("parameters beyond the SDK's own pass by modelKwargs", async () => {
  const strict = { isotherm: { on_unsupported: "reject" } };
  await assert.rejects(chat("gpt-4o", { modelKwargs: { min_p: 0.1, ...strict } }).invoke(prompt), (e) => e.status === 400 && e.param === "min_p");
  assert.ok((await chat("local", { maxTokens: 5, modelKwargs: { min_p: 0.1, seed: 3, ...strict } }).invoke(prompt)).content.length > 0);
});

for (const name of ["gpt-4o", "anthropic/claude-haiku-4-5", "google-gemini/gemini-2.5-flash"]) {
  check(`${name}: functions are called, whole and streamed, and their result is answered`, async () => {
    const model = chat(name);
    const forced = model.bindTools([weather], { tool_choice: "get_weather" });
    const first = await forced.invoke(prompt);
    const [call] = first.tool_calls;
    assert.equal(call.name, "get_weather");
    assert.equal(typeof call.args.city, "string");
    const streamed = await gathered(await forced.stream(prompt));
    assert.deepEqual([streamed.tool_calls[0].name, streamed.tool_calls[0].args], [call.name, call.args]);
    const result = await weather.invoke(call);
    assert.ok(result instanceof ToolMessage);
    const second = await model.bindTools([weather]).invoke([new HumanMessage(prompt), first, result]);
    assert.ok(second.content.length > 0);
    assert.equal(second.tool_calls.length, 0);
  });
}

check("an answer by a schema is parsed, by the schema and by a function", async () => {
  for (const method of ["jsonSchema", "functionCalling"]) {
    const answer = await chat("gpt-4o").withStructuredOutput(colour, { method, name: "colour" }).invoke(prompt);
    assert.ok(colour.safeParse(answer).success, `${method}: ${JSON.stringify(answer)}`);
  }
});

check("log-probabilities have the documented shape", async () => {
  const r = await chat("local", { maxTokens: 5, logprobs: true, topLogprobs: 2 }).invoke(prompt);
  const items = r.response_metadata.logprobs.content;
  assert.equal(items.map((i) => i.token).join(""), r.content);
  assert.ok(items.every((i) => i.top_logprobs.length === 2));
});

check("errors keep their status, param, code and retry-after", async () => {
  await assert.rejects(chat("local", { temperature: -1 }).invoke(prompt), (e) => e.status === 400 && e.param === "temperature");
  await assert.rejects(chat("nobody/x").invoke(prompt), (e) => e.status === 404 && e.code === "model_not_found");
  await assert.rejects(chat("scripted/status-429").invoke(prompt), (e) => e.status === 429 && e.headers.get("retry-after") === "7");
  await assert.rejects(chat("down/x").invoke(prompt), (e) => e.status === 502);
});

check("an error in the middle of a stream is thrown, after the text before it", async () => {
  let text = "";
  await assert.rejects(async () => {
    for await (const chunk of await chat("scripted/error-in-stream").stream(prompt)) text += chunk.content;
  });
  assert.equal(text, "Once there");
});

check("an abort in the middle of a stream ends it, at the daemon too", async () => {
  const stop = new AbortController();
  const before = said.filter((line) => line.includes("status=499")).length;
  let n = 0;
  await assert.rejects(async () => {
    for await (const chunk of await chat("scripted/slow").stream(prompt, { signal: stop.signal })) {
      n += chunk.content ? 1 : 0;
      if (n === 2) stop.abort();
    }
  }, /abort/i);
  assert.ok(n < 11, `${n} pieces`);
  await until(() => said.filter((line) => line.includes("status=499")).length > before, "the log of an aborted stream");
});

check("any text passes unchanged", async () => {
  const text = "naïve \u{1F600} 日本語 \u0001 \"\\ e\u0301";
  await mock.log();
  await chat("scripted/story").invoke([new SystemMessage(text), new HumanMessage(text)]);
  assert.deepEqual((await mock.log())[0].body.messages.map((m) => m.content), [text, text]);
});
