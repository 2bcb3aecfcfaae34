#!/usr/bin/env -S node --test-reporter=tap
// The AI SDK (ai, @ai-sdk/openai-compatible) against the daemon: its own way to write parameters, functions, schemas and errors.
import assert from "node:assert/strict";
import { test } from "node:test";
import { KEY, closedPort, packages, startDaemon, startMock, until } from "./lib.mjs";

const [ai, { createOpenAICompatible }, { z }] = await packages("ai", "@ai-sdk/openai-compatible", "zod");
const { generateText, streamText, tool, Output, APICallError } = ai;
const mock = await startMock();
const { url, said } = await startDaemon(
  [
    { name: "scripted", base_url: `${mock.url}/v1` },
    { name: "openai", base_url: `${mock.url}/openai/v1`, api_key: KEY },
    { name: "anthropic", base_url: `${mock.url}/anthropic/v1`, api_key: KEY },
    { name: "google-gemini", base_url: `${mock.url}/google-gemini/v1beta`, api_key: KEY },
    { name: "down", catalog: "scripted", base_url: `http://127.0.0.1:${await closedPort()}/v1` },
  ],
);
// The SDK's hook for what an endpoint says beyond the schema.
const metadataExtractor = {
  extractMetadata: async ({ parsedBody }) => ({ isotherm: parsedBody.isotherm }),
  createStreamExtractor: () => {
    let seen;
    return { processChunk: (chunk) => (seen = chunk.isotherm ?? seen), buildMetadata: () => ({ isotherm: seen }) };
  },
};
const provider = createOpenAICompatible({ name: "isotherm", baseURL: url, includeUsage: true, supportsStructuredOutputs: true, metadataExtractor });
const prompt = "Once upon a time";
const ask = (model, rest) => ({ model: provider(model), prompt, maxRetries: 0, ...rest });
const check = (what, fn) => test(`ai: ${what}`, { timeout: 30000 }, fn);
const colour = z.object({ colour: z.enum(["red", "green"]), warm: z.boolean() });
const refused = (status, more = () => true) => (e) => {
  assert.ok(APICallError.isInstance(e), String(e));
  assert.equal(e.statusCode, status);
  return more(e);
};

for (const [model, extra] of [["openai/gpt-4o", {}], ["local", { seed: 7, temperature: 0.9, maxOutputTokens: 20 }]]) {
  check(`${model}: plain and streamed are the same text, and usage comes with both`, async () => {
    const whole = await generateText(ask(model, extra));
    assert.ok(whole.text.length > 10);
    const stream = streamText(ask(model, extra));
    let text = "";
    for await (const piece of stream.textStream) text += piece;
    assert.equal(text, whole.text);
    assert.equal(await stream.finishReason, whole.finishReason);
    const usage = await stream.usage;
    assert.ok(usage.inputTokens > 0);
    assert.equal(usage.inputTokens, whole.usage.inputTokens);
    assert.equal(usage.outputTokens, whole.usage.outputTokens);
  });
}

check("what was changed is readable, in metadata and headers, whole and streamed", async () => {
  const whole = await generateText(ask("scripted/story", { temperature: 1.7 }));
  const { adjustments } = whole.providerMetadata.isotherm;
  assert.deepEqual([adjustments[0].param, adjustments[0].sent], ["temperature", 1]);
  assert.match(whole.response.headers["x-isotherm-adjusted"], /temperature/);
  const stream = streamText(ask("scripted/story", { temperature: 1.7 }));
  await stream.consumeStream();
  const streamed = await stream.providerMetadata;
  assert.deepEqual(streamed.isotherm.adjustments, adjustments);
});

check("parameters beyond the SDK's own pass by providerOptions", async () => {
  const providerOptions = { isotherm: { min_p: 0.1, isotherm: { on_unsupported: "reject" } } };
  await assert.rejects(generateText(ask("openai/gpt-4o", { providerOptions })), refused(400, (e) => e.data.error.param === "min_p"));
  const r = await generateText(ask("local", { seed: 1, maxOutputTokens: 5, providerOptions }));
  assert.ok(r.text.length > 0);
});

for (const model of ["openai/gpt-4o", "anthropic/claude-haiku-4-5", "google-gemini/gemini-2.5-flash"]) {
  check(`${model}: a function is called, and its result is answered, whole and streamed`, async () => {
    for (const call of [generateText, streamText]) {
      const cities = [];
      const weather = tool({ description: "the weather of a city", inputSchema: z.object({ city: z.string() }), execute: ({ city }) => (cities.push(city), "rain") });
      await mock.script("tools");
      const r = await call(ask(model, { tools: { weather }, stopWhen: ai.isStepCount(3) }));
      if (call === streamText) await r.consumeStream();
      const [steps, text] = [await r.steps, await r.text];
      assert.equal(cities.length, 1);
      assert.deepEqual(steps.map((s) => s.finishReason), ["tool-calls", "stop"]);
      assert.equal(steps[0].toolCalls[0].toolName, "weather");
      assert.ok(text.length > 0);
    }
  });

  if (model.startsWith("openai/")) continue; // its chat API hides what the model thinks
  check(`${model}: what the model thinks is reasoning, whole and streamed`, async () => {
    await mock.script("reasoning", "reasoning");
    const whole = await generateText(ask(model));
    const stream = streamText(ask(model));
    await stream.consumeStream();
    assert.ok(whole.reasoningText.length > 0);
    assert.deepEqual([await stream.reasoningText, await stream.text], [whole.reasoningText, whole.text]);
  });
}

check("an answer by a schema is parsed, whole and streamed", async () => {
  const asked = ask("openai/gpt-4o", { output: Output.object({ schema: colour }) });
  const { output } = await generateText(asked);
  assert.ok(colour.safeParse(output).success, JSON.stringify(output));
  assert.deepEqual(await streamText(asked).output, output);
});

check("errors have status, body, headers, and say whether to try again", async () => {
  await assert.rejects(generateText(ask("local", { temperature: -1 })), refused(400, (e) => !e.isRetryable && e.data.error.param === "temperature"));
  await assert.rejects(generateText(ask("nobody/x")), refused(404, (e) => e.data.error.code === "model_not_found"));
  await assert.rejects(generateText(ask("scripted/status-429")), refused(429, (e) => e.isRetryable && e.responseHeaders["retry-after"] === "7"));
  await assert.rejects(generateText(ask("down/x")), refused(502, (e) => e.isRetryable));
});

check("an error in the middle of a stream is an error part, after the text before it", async () => {
  for (const model of ["scripted/error-in-stream", "scripted/cut"]) {
    const stream = streamText(ask(model, { onError: () => {} }));
    let text = "", errors = 0;
    for await (const part of stream.fullStream) {
      text += part.type === "text-delta" ? part.text : "";
      errors += part.type === "error" ? 1 : 0;
    }
    assert.deepEqual([text, errors], ["Once there", 1]);
  }
});

check("an abort in the middle of a stream ends it, at the daemon too", async () => {
  const stop = new AbortController();
  const before = said.filter((line) => line.includes("status=499")).length;
  const stream = streamText(ask("scripted/slow", { abortSignal: stop.signal, onError: () => {} }));
  let n = 0;
  for await (const part of stream.fullStream) {
    n += part.type === "text-delta" ? 1 : 0;
    if (n === 2) stop.abort();
  }
  assert.ok(n < 11, `${n} pieces`);
  await until(() => said.filter((line) => line.includes("status=499")).length > before, "the log of an aborted stream");
});

check("any text passes unchanged", async () => {
  const text = "naïve \u{1F600} 日本語 \u0001 \"\\ e\u0301";
  await mock.log();
  await generateText(ask("scripted/story", { prompt: undefined, instructions: text, messages: [{ role: "user", content: text }] }));
  const { messages } = (await mock.log())[0].body;
  assert.deepEqual(messages.map((m) => m.content), [text, text]);
});
