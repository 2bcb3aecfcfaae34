#!/usr/bin/env -S node --test-reporter=tap
// One OpenAI client speaks to every dialect: the same calls, through the daemon, to providers that have nothing of OpenAI's wire.
import assert from "node:assert/strict";
import { test } from "node:test";
import { KEY, packages, startDaemon, startMock } from "./lib.mjs";

const [{ default: OpenAI, ...sdk }, { zodResponseFormat }, { z }] = await packages("openai", "openai/helpers/zod", "zod");
// What a provider lacks is left out here by name: `max` its highest temperature, `waits` what a rate limit of 20 seconds says of them (not every
// API says it), `choice` tool_choice, `filters` an end by a content filter,
// `reasons` a place for what the model thinks.
const providers = [
  { name: "openai", base: "/v1", model: "gpt-4o", max: 2, waits: "20", choice: true, filters: true },
  { name: "anthropic", base: "/v1", model: "claude-haiku-4-5", max: 1, waits: "20", choice: true, filters: true, reasons: true },
  { name: "google-gemini", base: "/v1beta", model: "gemini-2.5-flash", max: 2, waits: "20", choice: true, filters: true, reasons: true },
  { name: "cohere", base: "/v2", model: "command-a-03-2025", max: 1, waits: null, choice: true, reasons: true },
  { name: "aws-bedrock", base: "", model: "us.anthropic.claude-haiku-4-5-20251001-v1:0", max: 1, waits: null, choice: true, filters: true, reasons: true },
  { name: "ollama", base: "", model: "llama3.2", max: null, waits: null, choice: false, reasons: true },
  { name: "mistral", base: "/v1", model: "mistral-large-latest", max: 1.5, waits: "20", choice: true, reasons: true },
];
const mock = await startMock();
const { url } = await startDaemon(providers.map(({ name, base }) => ({ name, base_url: `${mock.url}/${name}${base}`, api_key: KEY })));
const chat = new OpenAI({ baseURL: url, apiKey: "unused", maxRetries: 0, timeout: 20000 }).chat.completions;
const prompt = [{ role: "user", content: "Once upon a time" }];
const weather = {
  type: "function",
  function: { name: "get_weather", description: "the weather of a city", parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false } },
};
const Colour = z.object({ colour: z.enum(["red", "green"]) });

async function gathered(asked) {
  const seen = { text: "", reasoning: "", finish: null, usage: null, chunks: [] };
  for await (const chunk of await chat.create({ ...asked, stream: true, stream_options: { include_usage: true } })) {
    seen.text += chunk.choices[0]?.delta.content ?? "";
    seen.reasoning += chunk.choices[0]?.delta.reasoning_content ?? "";
    seen.finish = chunk.choices[0]?.finish_reason ?? seen.finish;
    seen.usage = chunk.usage ?? seen.usage;
    seen.chunks.push(chunk);
  }
  return seen;
}

for (const { name, model, max, waits, choice, filters, reasons } of providers) {
  const check = (what, fn) =>
    test(`${name}: ${what}`, { timeout: 20000 }, async () => {
      await mock.script();
      await fn();
    });
  // Nothing here may end in the local engine without our seeing it.
  const ask = (rest) => ({ model: `${name}/${model}`, messages: prompt, max_tokens: 2000, isotherm: { on_unsupported: "reject" }, ...rest });

  check("plain and streamed are the same text, and usage comes with both", async () => {
    const whole = await chat.create(ask());
    assert.deepEqual([whole.isotherm.backend, whole.isotherm.fallback], [name, null]);
    assert.ok(whole.choices[0].message.content.length > 10);
    assert.equal(whole.choices[0].finish_reason, "stop");
    const streamed = await gathered(ask());
    assert.equal(streamed.text, whole.choices[0].message.content);
    assert.ok(streamed.chunks.filter((c) => c.choices[0]?.delta.content).length > 2, "came in pieces");
    assert.equal(streamed.finish, "stop");
    assert.ok(whole.usage.prompt_tokens > 0 && whole.usage.completion_tokens > 0);
    assert.deepEqual(streamed.usage, whole.usage);
  });

  check("a limit and a stop string end the text", async () => {
    const cut = await chat.create(ask({ max_tokens: 3 }));
    assert.deepEqual([cut.choices[0].finish_reason, cut.usage.completion_tokens], ["length", 3]);
    for (const { text, finish } of [await gathered(ask({ stop: [" lamp"] })), { text: (await chat.create(ask({ stop: " lamp" }))).choices[0].message.content, finish: "stop" }]) {
      assert.deepEqual([text, finish], ["Once there was a", "stop"]);
    }
  });

  check("a temperature beyond the provider's range is clamped, and says so", async () => {
    await mock.log();
    const { data, response } = await chat.create(ask({ temperature: 1.9 })).withResponse();
    const sent = JSON.stringify((await mock.log())[0].body).match(/"temperature": ?([0-9.]+)/)[1];
    const narrow = max !== null && max < 1.9;
    assert.equal(Number(sent), narrow ? max : 1.9);
    assert.deepEqual(data.isotherm.adjustments.filter((a) => a.action === "clamped").map((a) => [a.param, a.sent]), narrow ? [["temperature", max]] : []);
    assert.equal(/temperature/.test(response.headers.get("x-isotherm-adjusted") ?? ""), narrow);
  });

  check("system and user text reach the provider unchanged", async () => {
    const text = "naïve \u{1F600} 日本語 \"\\ e\u0301";
    await mock.log();
    await chat.create(ask({ messages: [{ role: "system", content: `be ${text}` }, { role: "user", content: `say ${text}` }] }));
    const body = JSON.stringify((await mock.log())[0].body);
    for (const part of [`be ${text}`, `say ${text}`]) assert.ok(body.includes(JSON.stringify(part)), body);
  });

  check("a function is called, whole and streamed, and its result is answered", async () => {
    const asked = ask({ tools: [weather], ...(choice ? { tool_choice: "required" } : {}) });
    if (!choice) await mock.script("tools", "tools");
    const first = (await chat.create(asked)).choices[0];
    assert.equal(first.finish_reason, "tool_calls");
    const [call] = first.message.tool_calls;
    assert.equal(call.function.name, "get_weather");
    assert.equal(typeof JSON.parse(call.function.arguments).city, "string");
    const streamed = (await chat.stream(asked).finalChatCompletion()).choices[0];
    assert.equal(streamed.finish_reason, "tool_calls");
    assert.equal(streamed.message.tool_calls[0].function.name, "get_weather");
    assert.deepEqual(JSON.parse(streamed.message.tool_calls[0].function.arguments), JSON.parse(call.function.arguments));
    const messages = [...prompt, first.message, { role: "tool", tool_call_id: call.id, content: "rain" }];
    const second = (await chat.create(ask({ tools: [weather], messages }))).choices[0];
    assert.equal(second.finish_reason, "stop");
    assert.ok(second.message.content.length > 0);
  });

  check("an answer by a schema is parsed", async () => {
    const { parsed } = (await chat.parse(ask({ response_format: zodResponseFormat(Colour, "colour") }))).choices[0].message;
    assert.ok(["red", "green"].includes(parsed.colour), JSON.stringify(parsed));
  });

  if (reasons) {
    check("reasoning is beside the text, whole and streamed", async () => {
      await mock.script("reasoning", "reasoning");
      const { message } = (await chat.create(ask())).choices[0];
      assert.ok(message.reasoning_content.length > 0 && message.content.length > 0, JSON.stringify(message));
      const streamed = await gathered(ask());
      assert.deepEqual([streamed.reasoning, streamed.text], [message.reasoning_content, message.content]);
    });
  }

  if (filters) {
    check("an end by a content filter is a finish reason, whole and streamed", async () => {
      await mock.script("filter", "filter");
      assert.equal((await chat.create(ask())).choices[0].finish_reason, "content_filter");
      assert.equal((await gathered(ask())).finish, "content_filter");
    });
  }

  check("an answer without usage has usage all the same, and broken JSON is an error", async () => {
    await mock.script("no-usage");
    assert.ok((await chat.create(ask())).usage.completion_tokens > 0);
    await mock.script("malformed");
    await assert.rejects(gathered(ask()), sdk.APIError);
  });

  check("a rate limit and a failure have OpenAI's classes, whole and before a stream", async () => {
    for (const stream of [false, true]) {
      const scripted = async (word, thrown) => {
        await mock.script(word);
        await assert.rejects(chat.create(ask({ stream })), thrown, word);
      };
      await scripted("retry-after-20", (e) => {
        assert.ok(e instanceof OpenAI.RateLimitError, String(e));
        assert.equal(e.headers.get("retry-after"), waits);
        return true;
      });
      await scripted("status-500", OpenAI.InternalServerError);
      await scripted("status-503", OpenAI.InternalServerError);
      await scripted("html", OpenAI.InternalServerError);
    }
  });

  check("an error in the middle of a stream is thrown, after the text before it", async () => {
    for (const word of ["error-in-stream", "cut", "cut-clean"]) {
      await mock.script(word);
      let text = "";
      await assert.rejects(async () => {
        for await (const chunk of await chat.create(ask({ stream: true }))) text += chunk.choices[0]?.delta.content ?? "";
      }, sdk.APIError, word);
      assert.equal(text, "Once there", word);
    }
  });

  check("framing makes no difference", async () => {
    const whole = await gathered(ask());
    for (const word of ["pings", "crlf", "nospace", "bytes"]) {
      await mock.script(word);
      const { text, finish, usage } = await gathered(ask());
      assert.deepEqual([text, finish, usage], [whole.text, whole.finish, whole.usage], word);
    }
  });
}
