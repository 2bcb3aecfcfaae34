#!/usr/bin/env -S node --test-reporter=tap
// The official openai package against the scripted provider itself: chat, raw completions and responses, without the daemon between.
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventNames, packages, startMock, streamsWhatIsWhole } from "./lib.mjs";

const [{ default: OpenAI }] = await packages("openai");
const mock = await startMock();
const client = new OpenAI({ baseURL: `${mock.url}/openai/v1`, apiKey: "unused", maxRetries: 0 });
const check = (what, fn) => test(`openai direct: ${what}`, { timeout: 20000 }, fn);
const input = "Once upon a time";
const ask = (rest) => ({ model: "gpt-4o", messages: [{ role: "user", content: input }], ...rest });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const weather = { type: "function", function: { name: "get_weather", description: "the weather of a city", parameters } };
const colour = { type: "object", properties: { colour: { type: "string", enum: ["red", "green"] } }, required: ["colour"], additionalProperties: false };

check("chat: plain and streamed are the same completion", async () => {
  const whole = await client.chat.completions.create(ask());
  assert.match(whole.id, /^chatcmpl-/);
  assert.ok(whole._request_id);
  const stream = client.chat.completions.stream(ask({ stream_options: { include_usage: true } }));
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0].message.content, whole.choices[0].message.content);
  assert.equal(final.choices[0].finish_reason, "stop");
  assert.deepEqual(await stream.totalUsage(), whole.usage);
});

check("chat: limit, stop string, choices, log-probabilities", async () => {
  const cut = await client.chat.completions.create(ask({ max_tokens: 3 }));
  assert.deepEqual([cut.choices[0].finish_reason, cut.usage.completion_tokens], ["length", 3]);
  const stopped = await client.chat.completions.create(ask({ stop: [" lamp"] }));
  assert.equal(stopped.choices[0].finish_reason, "stop");
  assert.ok(!stopped.choices[0].message.content.includes("lamp"));
  assert.equal((await client.chat.completions.create(ask({ n: 3 }))).choices.length, 3);
  const [{ logprobs, message }] = (await client.chat.completions.create(ask({ logprobs: true, top_logprobs: 2 }))).choices;
  assert.equal(logprobs.content.map((t) => t.token).join(""), message.content);
  assert.ok(logprobs.content.every((t) => t.top_logprobs.length === 2 && t.logprob <= 0));
});

check("chat: a tool is called, whole and streamed, and its result is answered", async () => {
  const asked = ask({ tools: [weather], tool_choice: "required" });
  const { message, finish_reason } = (await client.chat.completions.create(asked)).choices[0];
  assert.equal(finish_reason, "tool_calls");
  const [call] = message.tool_calls;
  assert.equal(typeof JSON.parse(call.function.arguments).city, "string");
  const streamed = (await client.chat.completions.stream(asked).finalChatCompletion()).choices[0].message.tool_calls[0];
  assert.deepEqual([streamed.function.name, streamed.function.arguments], [call.function.name, call.function.arguments]);
  const messages = [...asked.messages, message, { role: "tool", tool_call_id: call.id, content: "rain" }];
  const second = (await client.chat.completions.create(ask({ tools: [weather], messages }))).choices[0];
  assert.equal(second.finish_reason, "stop");
});

check("chat: an answer by a schema, and a refusal", async () => {
  const response_format = { type: "json_schema", json_schema: { name: "colour", schema: colour, strict: true } };
  const { parsed } = (await client.chat.completions.parse(ask({ response_format }))).choices[0].message;
  assert.ok(["red", "green"].includes(parsed.colour));
  await mock.script("refusal");
  assert.ok((await client.chat.completions.create(ask({ response_format }))).choices[0].message.refusal.length > 0);
});

check("completions: plain and streamed are the same text", async () => {
  await streamsWhatIsWhole(client, { model: "gpt-3.5-turbo-instruct", prompt: input, max_tokens: 20 });
});

check("responses: plain and streamed are the same text", async () => {
  const whole = await client.responses.create({ model: "gpt-4o", input });
  assert.deepEqual([whole.object, whole.status], ["response", "completed"]);
  assert.ok(whole.output_text.length > 10);
  assert.ok(whole.usage.input_tokens > 0);
  const stream = client.responses.stream({ model: "gpt-4o", input });
  let text = "", last = -1;
  for await (const event of stream) {
    assert.ok(event.sequence_number > last, event.type);
    last = event.sequence_number;
    text += event.type === "response.output_text.delta" ? event.delta : "";
  }
  const final = await stream.finalResponse();
  assert.deepEqual([text, final.output_text, final.status], [whole.output_text, whole.output_text, "completed"]);
});

check("responses: the name of each event is its type", async () => {
  const names = await eventNames(`${mock.url}/openai/v1/responses`, { model: "gpt-4o", input, stream: true }, { authorization: "Bearer unused" });
  assert.ok(names.length > 5);
  for (const [name, type] of names) assert.equal(name, type);
});

check("responses: a limit leaves it incomplete, and says why", async () => {
  const r = await client.responses.create({ model: "gpt-4o", input, max_output_tokens: 16, instructions: "be long" });
  assert.ok(r.status === "completed" || r.incomplete_details.reason === "max_output_tokens");
  assert.ok(r.usage.output_tokens <= 16);
});

check("responses: a tool is called, whole and streamed, and its result is answered", async () => {
  const tools = [{ type: "function", name: "get_weather", description: "the weather of a city", parameters, strict: true }];
  const asked = { model: "gpt-4o", input, tools, tool_choice: "required" };
  const first = await client.responses.create(asked);
  const call = first.output.find((o) => o.type === "function_call");
  assert.equal(call.name, "get_weather");
  assert.equal(typeof JSON.parse(call.arguments).city, "string");
  const final = await client.responses.stream(asked).finalResponse();
  assert.equal(final.output.find((o) => o.type === "function_call").arguments, call.arguments);
  const items = [{ role: "user", content: input }, call, { type: "function_call_output", call_id: call.call_id, output: "rain" }];
  assert.ok((await client.responses.create({ ...asked, tool_choice: "auto", input: items })).output_text.length > 0);
});

check("responses: an answer by a schema is parsed, reasoning is an item of its own", async () => {
  const format = { type: "json_schema", name: "colour", schema: colour, strict: true };
  const r = await client.responses.parse({ model: "gpt-4o", input, text: { format } });
  assert.ok(["red", "green"].includes(r.output_parsed.colour));
  const thought = await client.responses.create({ model: "gpt-5", input, reasoning: { effort: "low", summary: "auto" } });
  assert.ok(thought.output.some((o) => o.type === "reasoning"), JSON.stringify(thought.output));
  assert.ok(thought.usage.output_tokens_details.reasoning_tokens > 0);
});

check("errors have their class, param and code, in chat and responses", async () => {
  const calls = [(rest) => client.chat.completions.create(ask(rest)), (rest) => client.responses.create({ model: "gpt-4o", input, ...rest })];
  for (const call of calls) {
    await assert.rejects(call({ temperature: 3 }), (e) => e instanceof OpenAI.BadRequestError && e.param === "temperature");
    await assert.rejects(call({ nonsense: 3 }), (e) => e.code === "unknown_parameter" && e.param === "nonsense");
    await mock.script("retry-after-3");
    await assert.rejects(call({}), (e) => e instanceof OpenAI.RateLimitError && e.headers.get("retry-after") === "3");
    await mock.script("error-in-stream");
    await assert.rejects(async () => {
      for await (const _ of await call({ stream: true }));
    }, OpenAI.APIError);
  }
});

check("framing makes no difference", async () => {
  const whole = (await client.chat.completions.create(ask())).choices[0].message.content;
  for (const framing of ["pings", "crlf", "nospace", "bytes"]) {
    await mock.script(framing);
    assert.equal((await client.chat.completions.stream(ask()).finalChatCompletion()).choices[0].message.content, whole, framing);
  }
});
