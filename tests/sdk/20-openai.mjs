#!/usr/bin/env -S node --test-reporter=tap
// The official openai package, newest and the major version before, against the daemon: what a program that was written for OpenAI relies on.
import assert from "node:assert/strict";
import { test } from "node:test";
import { KEY, closedPort, packages, startDaemon, startMock, streamsWhatIsWhole, until } from "./lib.mjs";

const [{ z }] = await packages("zod");
const mock = await startMock();
const { url, said } = await startDaemon(
  [
    { name: "scripted", base_url: `${mock.url}/v1` },
    { name: "openai", base_url: `${mock.url}/openai/v1`, api_key: KEY },
    { name: "down", catalog: "scripted", base_url: `http://127.0.0.1:${await closedPort()}/v1` },
  ],
  { "gpt-4o": "openai/gpt-4o" },
);
const messages = [{ role: "user", content: "Once upon a time" }];
const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "the weather of a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false },
  },
};
const Colour = z.object({ colour: z.enum(["red", "green"]), warm: z.boolean() });

for (const name of ["openai", "openai-v6"]) {
  const [sdk, { zodResponseFormat }] = await packages(name, `${name}/helpers/zod`);
  const OpenAI = sdk.default;
  const client = new OpenAI({ baseURL: url, apiKey: "unused", maxRetries: 0, timeout: 20000 });
  const chat = client.chat.completions;
  const check = (what, fn) => test(`${name}: ${what}`, { timeout: 30000 }, fn);

  for (const [model, extra] of [["gpt-4o", {}], ["scripted/story", {}], ["local", { seed: 7, temperature: 0.9, max_tokens: 30 }]]) {
    check(`${model}: plain and streamed are the same text, and usage comes with both`, async () => {
      const whole = await chat.create({ model, messages, ...extra });
      assert.equal(whole.object, "chat.completion");
      assert.ok(whole.choices[0].message.content.length > 10);
      const stream = await chat.create({ model, messages, ...extra, stream: true, stream_options: { include_usage: true } });
      const seen = { text: "", finish: null, usage: null };
      for await (const chunk of stream) {
        assert.equal(chunk.object, "chat.completion.chunk");
        seen.text += chunk.choices[0]?.delta?.content ?? "";
        seen.finish = chunk.choices[0]?.finish_reason ?? seen.finish;
        seen.usage = chunk.usage ?? seen.usage;
      }
      assert.equal(seen.text, whole.choices[0].message.content);
      assert.equal(seen.finish, whole.choices[0].finish_reason);
      assert.equal(seen.usage.prompt_tokens, whole.usage.prompt_tokens);
      assert.equal(seen.usage.completion_tokens, whole.usage.completion_tokens);
    });
  }

  check("a stream without include_usage has no usage", async () => {
    for await (const chunk of await chat.create({ model: "local", messages, seed: 1, max_tokens: 4, stream: true })) {
      assert.equal(chunk.usage ?? null, null);
      assert.equal(chunk.choices.length, 1);
    }
  });

  check("the stream helper gathers content, usage and the final completion", async () => {
    const runner = chat.stream({ model: "gpt-4o", messages, stream_options: { include_usage: true } });
    let text = "";
    runner.on("content", (piece) => (text += piece));
    const final = await runner.finalChatCompletion();
    assert.equal(final.choices[0].message.content, text);
    assert.ok((await runner.totalUsage()).completion_tokens > 0);
  });

  check("the isotherm object and the headers are readable", async () => {
    const { data, response, request_id } = await chat.create({ model: "gpt-4o", messages, temperature: 0.5, min_p: 0 }).withResponse();
    assert.equal(data.isotherm.backend, "openai");
    assert.equal(data.isotherm.fallback, null);
    assert.deepEqual(data.isotherm.adjustments, []);
    assert.equal(response.headers.get("x-isotherm-backend"), "openai");
    assert.equal(response.headers.get("x-isotherm-catalog"), String(data.isotherm.catalog_version));
    assert.equal(request_id, data.isotherm.request_id);
    assert.equal(data._request_id, data.isotherm.request_id);
    assert.ok(data.system_fingerprint.startsWith("iso_"));
  });

  check("what was changed comes back, whole and streamed", async () => {
    const asked = { model: "scripted/story", messages, temperature: 1.7 };
    const { data, response } = await chat.create(asked).withResponse();
    const [change] = data.isotherm.adjustments;
    assert.deepEqual([change.param, change.asked, change.sent, change.action], ["temperature", 1.7, 1, "clamped"]);
    assert.match(response.headers.get("x-isotherm-adjusted"), /temperature/);
    const chunks = [];
    for await (const chunk of await chat.create({ ...asked, stream: true })) chunks.push(chunk);
    assert.deepEqual(chunks[0].isotherm.adjustments, data.isotherm.adjustments);
    assert.ok(chunks.every((c) => c.system_fingerprint === chunks[0].system_fingerprint));
  });

  check("the isotherm object of a request is obeyed", async () => {
    await assert.rejects(chat.create({ model: "scripted/story", messages, temperature: 1.7, isotherm: { on_out_of_range: "reject" } }), (e) => {
      assert.ok(e instanceof OpenAI.BadRequestError);
      assert.equal(e.param, "temperature");
      return true;
    });
    const moved = await chat.create({ model: "scripted/story", messages, seed: 3, max_tokens: 5 });
    assert.deepEqual(moved.isotherm.fallback.because, ["seed"]);
  });

  check("a forced function is called, and its result is answered", async () => {
    const asked = { model: "gpt-4o", messages, tools: [weather], tool_choice: { type: "function", function: { name: "get_weather" } } };
    const first = await chat.create(asked);
    const [call] = first.choices[0].message.tool_calls;
    assert.equal(call.type, "function");
    assert.equal(call.function.name, "get_weather");
    assert.equal(typeof JSON.parse(call.function.arguments).city, "string");
    const history = [...messages, first.choices[0].message, { role: "tool", tool_call_id: call.id, content: "rain" }];
    const second = await chat.create({ ...asked, tool_choice: "auto", messages: history });
    assert.equal(second.choices[0].finish_reason, "stop");
    assert.ok(second.choices[0].message.content.length > 0);
    await mock.log();
  });

  check("streamed function calls are gathered as the whole answer has them", async () => {
    const asked = { model: "gpt-4o", messages, tools: [weather], tool_choice: "required" };
    const whole = (await chat.create(asked)).choices[0].message.tool_calls;
    const gathered = (await chat.stream(asked).finalChatCompletion()).choices[0].message.tool_calls;
    assert.equal(gathered.length, whole.length);
    assert.equal(gathered[0].function.name, whole[0].function.name);
    assert.deepEqual(JSON.parse(gathered[0].function.arguments), JSON.parse(whole[0].function.arguments));
    assert.ok(gathered[0].id.length > 0);
  });

  check("the tool runner calls the function and ends with the text", async () => {
    const cities = [];
    await mock.script("tools");
    const runner = chat.runTools({
      model: "gpt-4o",
      messages,
      tools: [{ type: "function", function: { ...weather.function, parse: JSON.parse, function: ({ city }) => (cities.push(city), "rain") } }],
      tool_choice: "auto",
    });
    assert.ok((await runner.finalContent()).length > 0);
    assert.equal(cities.length, 1);
  });

  for (const model of ["local", "gpt-4o"]) {
    check(`${model}: log-probabilities have the documented shape, whole and streamed`, async () => {
      const asked = { model, messages, max_tokens: 5, logprobs: true, top_logprobs: 3, ...(model === "local" ? { seed: 1 } : {}) };
      const whole = (await chat.create(asked)).choices[0];
      const items = whole.logprobs.content;
      assert.equal(items.map((i) => i.token).join(""), whole.message.content);
      for (const item of items) {
        assert.ok(item.logprob <= 0 && Array.isArray(item.bytes) && item.top_logprobs.length === 3);
      }
      const streamed = [];
      for await (const chunk of await chat.create({ ...asked, stream: true })) streamed.push(...(chunk.choices[0]?.logprobs?.content ?? []));
      assert.deepEqual(streamed, items);
    });
  }

  check("an answer by a schema is parsed, whole and streamed", async () => {
    const asked = { model: "gpt-4o", messages, response_format: zodResponseFormat(Colour, "colour") };
    const { parsed } = (await chat.parse(asked)).choices[0].message;
    assert.ok(["red", "green"].includes(parsed.colour), JSON.stringify(parsed));
    assert.equal(typeof parsed.warm, "boolean");
    const streamed = await chat.stream(asked).finalChatCompletion();
    assert.deepEqual(streamed.choices[0].message.parsed, parsed);
  });

  check("several choices keep apart", async () => {
    const asked = { model: "local", messages, seed: 2, n: 3, temperature: 1, max_tokens: 8 };
    const whole = await chat.create(asked);
    assert.deepEqual(whole.choices.map((c) => c.index), [0, 1, 2]);
    const streamed = ["", "", ""];
    for await (const { choices } of await chat.create({ ...asked, stream: true })) {
      for (const c of choices) streamed[c.index] += c.delta.content ?? "";
    }
    assert.deepEqual(streamed, whole.choices.map((c) => c.message.content));
  });

  check("errors have their class, status, param and code", async () => {
    await assert.rejects(chat.create({ model: "local", messages, temperature: -1 }), (e) => {
      assert.ok(e instanceof OpenAI.BadRequestError);
      assert.deepEqual([e.status, e.param, e.type], [400, "temperature", "invalid_request_error"]);
      assert.ok(e.requestID);
      return true;
    });
    await assert.rejects(chat.create({ model: "nobody/x", messages }), (e) => {
      assert.ok(e instanceof OpenAI.NotFoundError);
      assert.equal(e.code, "model_not_found");
      return true;
    });
    await assert.rejects(client.responses.create({ model: "local", input: "hi" }), (e) => e instanceof OpenAI.NotFoundError);
  });

  check("a provider's rate limit arrives with retry-after, whole and before a stream", async () => {
    for (const stream of [false, true]) {
      await assert.rejects(chat.create({ model: "scripted/status-429", messages, stream }), (e) => {
        assert.ok(e instanceof OpenAI.RateLimitError);
        assert.equal(e.headers.get("retry-after"), "7");
        return true;
      });
    }
  });

  check("a provider that is down or fails is a server's error", async () => {
    await assert.rejects(chat.create({ model: "down/x", messages }), (e) => e instanceof OpenAI.InternalServerError && e.status === 502);
    await assert.rejects(chat.create({ model: "scripted/status-500", messages }), (e) => e instanceof OpenAI.InternalServerError);
  });

  check("the client tries again where it may", async () => {
    await mock.log();
    const patient = new OpenAI({ baseURL: url, apiKey: "unused", maxRetries: 1 });
    await mock.script("status-500");
    const r = await patient.chat.completions.create({ model: "gpt-4o", messages });
    assert.ok(r.choices[0].message.content.length > 0);
    assert.equal((await mock.log()).length, 2);
  });

  check("an error in the middle of a stream is thrown, after the text before it", async () => {
    for (const model of ["scripted/error-in-stream", "scripted/cut"]) {
      let text = "";
      await assert.rejects(async () => {
        for await (const chunk of await chat.create({ model, messages, stream: true })) text += chunk.choices[0]?.delta?.content ?? "";
      }, OpenAI.APIError);
      assert.equal(text, "Once there");
    }
  });

  check("a client's timeout and abort end the request, and the daemon goes on", async () => {
    await assert.rejects(chat.create({ model: "scripted/hang", messages }, { timeout: 200 }), OpenAI.APIConnectionTimeoutError);
    const stream = await chat.create({ model: "scripted/slow", messages, stream: true });
    let n = 0, id;
    for await (const chunk of stream) {
      id ??= chunk.isotherm.request_id;
      n += chunk.choices[0]?.delta?.content ? 1 : 0;
      if (n === 2) stream.controller.abort();
    }
    assert.equal(n, 2);
    await until(() => said.some((line) => line.includes(id) && line.includes("status=499")), "the log of an aborted stream");
    assert.ok((await chat.create({ model: "scripted/story", messages })).choices[0].message.content.length > 0);
  });

  check("any text passes unchanged", async () => {
    const text = "naïve \u{1F600} 日本語 עברית \u200d\u0001 \"\\ \u2028 e\u0301";
    await mock.log();
    await chat.create({ model: "scripted/story", messages: [{ role: "system", content: text }, { role: "user", content: [{ type: "text", text }] }], user: text });
    const [{ body }] = await mock.log();
    assert.equal(body.messages[0].content, text);
    assert.deepEqual(body.messages[1].content, [{ type: "text", text }]);
    assert.equal(body.user, text);
    const local = await chat.create({ model: "local", messages: [{ role: "user", content: text }], seed: 5, max_tokens: 8, stop: ["\u{1F600}"] });
    assert.equal(local.choices[0].message.role, "assistant");
  });

  check("an image reaches the provider as it was given", async () => {
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } };
    await mock.log();
    await chat.create({ model: "gpt-4o", messages: [{ role: "user", content: [{ type: "text", text: "what is it" }, image] }] });
    assert.deepEqual((await mock.log())[0].body.messages[0].content[1], image);
  });

  check("raw completions, whole and streamed", async () => {
    await streamsWhatIsWhole(client, { model: "local", prompt: "Once upon a time", seed: 1, max_tokens: 8 });
  });

  check("models are listed and retrieved, with what they take", async () => {
    const ids = [];
    for await (const m of client.models.list()) ids.push(m.id);
    assert.ok(ids.includes("local") && ids.includes("gpt-4o"), ids.join(" "));
    const one = await client.models.retrieve("gpt-4o");
    assert.equal(one.id, "gpt-4o");
    assert.equal(one.isotherm.parameters.temperature.max, 2);
    assert.equal((await client.models.retrieve("scripted/story")).isotherm.parameters.temperature.max, 1);
    await assert.rejects(client.models.retrieve("nobody"), OpenAI.NotFoundError);
  });
}
