#!/usr/bin/env -S node --test-reporter=tap
// The official @google/genai against the scripted provider.
import assert from "node:assert/strict";
import { test } from "node:test";
import { packages, startMock } from "./lib.mjs";

const [{ GoogleGenAI, ApiError, FunctionCallingConfigMode }] = await packages("@google/genai");
const mock = await startMock();
const { models } = new GoogleGenAI({ apiKey: "unused", apiVersion: "v1beta", httpOptions: { baseUrl: `${mock.url}/google-gemini` } });
const check = (what, fn) => test(`google: ${what}`, { timeout: 20000 }, fn);
const ask = (config, contents = "Once upon a time") => ({ model: "gemini-2.5-flash", contents, config });
const weather = {
  name: "get_weather",
  description: "the weather of a city",
  parametersJsonSchema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const forced = { tools: [{ functionDeclarations: [weather] }], toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY } } };

async function gathered(asked) {
  const chunks = [];
  for await (const chunk of await models.generateContentStream(asked)) chunks.push(chunk);
  const parts = chunks.flatMap((c) => c.candidates?.[0]?.content?.parts ?? []);
  return { chunks, parts, text: parts.filter((p) => p.text && !p.thought).map((p) => p.text).join(""), last: chunks.at(-1) };
}

check("plain and streamed are the same text, with usage", async () => {
  const whole = await models.generateContent(ask());
  assert.ok(whole.text.length > 10);
  assert.equal(whole.candidates[0].finishReason, "STOP");
  assert.ok(whole.modelVersion && whole.responseId);
  const streamed = await gathered(ask());
  assert.ok(streamed.chunks.length > 1);
  assert.equal(streamed.text, whole.text);
  assert.equal(streamed.last.candidates[0].finishReason, "STOP");
  assert.equal(streamed.last.usageMetadata.candidatesTokenCount, whole.usageMetadata.candidatesTokenCount);
  const { promptTokenCount, candidatesTokenCount, thoughtsTokenCount = 0, totalTokenCount } = whole.usageMetadata;
  assert.equal(promptTokenCount + candidatesTokenCount + thoughtsTokenCount, totalTokenCount);
});

check("a limit and a stop string end the text", async () => {
  assert.equal((await models.generateContent(ask({ maxOutputTokens: 3 }))).candidates[0].finishReason, "MAX_TOKENS");
  const stopped = await models.generateContent(ask({ stopSequences: [" lamp"] }));
  assert.equal(stopped.candidates[0].finishReason, "STOP");
  assert.ok(!stopped.text.includes("lamp"));
});

check("several candidates, an answer by a schema", async () => {
  assert.equal((await models.generateContent(ask({ candidateCount: 2 }))).candidates.length, 2);
  const schema = { type: "object", properties: { colour: { type: "string", enum: ["red", "green"] } }, required: ["colour"] };
  const r = await models.generateContent(ask({ responseMimeType: "application/json", responseJsonSchema: schema }));
  assert.ok(["red", "green"].includes(JSON.parse(r.text).colour), r.text);
});

check("a function is called, whole and streamed, and its result is answered", async () => {
  const first = await models.generateContent(ask(forced));
  const [call] = first.functionCalls;
  assert.equal(call.name, "get_weather");
  assert.equal(typeof call.args.city, "string");
  const streamed = await gathered(ask(forced));
  assert.deepEqual(streamed.parts.find((p) => p.functionCall).functionCall.args, call.args);
  const contents = [
    { role: "user", parts: [{ text: "Once upon a time" }] },
    first.candidates[0].content,
    { role: "user", parts: [{ functionResponse: { name: call.name, response: { result: "rain" } } }] },
  ];
  const second = await models.generateContent(ask({ tools: forced.tools }, contents));
  assert.ok(second.text.length > 0);
  assert.equal(second.functionCalls, undefined);
});

check("thoughts are parts of their own, and are counted", async () => {
  const thinking = { thinkingConfig: { includeThoughts: true, thinkingBudget: 1024 } };
  const whole = await models.generateContent(ask(thinking));
  const thoughts = whole.candidates[0].content.parts.filter((p) => p.thought);
  assert.ok(thoughts.length > 0 && whole.text.length > 0);
  assert.ok(whole.usageMetadata.thoughtsTokenCount > 0);
  assert.ok((await gathered(ask(thinking))).parts.some((p) => p.thought));
});

check("errors are ApiErrors with the status and the API's words", async () => {
  await assert.rejects(models.generateContent(ask({ temperature: 3 })), (e) => {
    assert.ok(e instanceof ApiError, String(e));
    assert.equal(e.status, 400);
    assert.equal(JSON.parse(e.message).error.status, "INVALID_ARGUMENT");
    return true;
  });
  for (const call of [(a) => models.generateContent(a), (a) => models.generateContentStream(a)]) {
    await mock.script("status-429");
    await assert.rejects(call(ask()), (e) => {
      assert.equal(e.status, 429);
      assert.match(e.message, /RESOURCE_EXHAUSTED/);
      return true;
    });
  }
});

check("an error in the middle of a stream is thrown, after the text before it", async () => {
  await mock.script("error-in-stream");
  let text = "";
  await assert.rejects(async () => {
    for await (const chunk of await models.generateContentStream(ask())) text += chunk.text ?? "";
  }, ApiError);
  assert.equal(text, "Once there");
});

check("a blocked prompt has no candidates, and says why", async () => {
  await mock.script("filter");
  const r = await models.generateContent(ask());
  assert.ok(r.promptFeedback?.blockReason || r.candidates[0].finishReason === "SAFETY", JSON.stringify(r));
});
