"""How the native APIs are asked and how their answers are read, written from their guides for the tests of the scripted provider: neither the
gateway's decoders nor the double's own writers stand behind it.

An Api asks with the same few wishes (ask) and reads an answer or a stream into one shape (Said)."""
import json
import struct
import zlib


class Said:
    def __init__(self, text="", reasoning="", calls=(), finish=None, prompt=None, completion=None, logprobs=()):
        self.text, self.reasoning, self.calls, self.finish = text, reasoning, list(calls), finish
        self.prompt, self.completion, self.logprobs = prompt, completion, list(logprobs)


def sse(body):
    """[(event or None, data)]"""
    out = []
    for block in body.decode().replace("\r\n", "\n").split("\n\n"):
        name, data = None, []
        for line in block.split("\n"):
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
        if data:
            out.append((name, json.loads("\n".join(data))))
    return out


def frames(body):
    """[({header: value}, payload)] of an AWS event stream, both sums checked"""
    out, at = [], 0
    while at < len(body):
        total, n_headers, crc = struct.unpack_from(">III", body, at)
        assert zlib.crc32(body[at:at + 8]) == crc, "sum of the prelude"
        assert zlib.crc32(body[at:at + total - 4]) == struct.unpack_from(">I", body, at + total - 4)[0], "sum of the message"
        i, headers = at + 12, {}
        while i < at + 12 + n_headers:
            n = body[i]
            name = body[i + 1:i + 1 + n].decode()
            assert body[i + 1 + n] == 7, "a string"
            m = struct.unpack_from(">H", body, i + 2 + n)[0]
            headers[name] = body[i + 4 + n:i + 4 + n + m].decode()
            i += 4 + n + m
        out.append((headers, json.loads(body[i:at + total - 4])))
        at += total
    return out


def openai_tool(name, schema):
    return {"type": "function", "function": {"name": name, "description": "x", "parameters": schema}}


class Api:
    def __init__(self, provider, base, model):
        self.provider, self.base, self.model = provider, base, model

    def stream_error(self, body):
        """the text of the error that ends a stream"""
        return self.events(body)[-1]["error"]


class Google(Api):
    """the Gemini API; with vertex=True Vertex AI"""
    dialect, has_tools, has_force, has_schema, has_reasoning, has_logprobs = "google", True, True, True, True, True

    def ask(self, stream=False, tool=None, force=False, schema=None, reason=False, stop=None, limit=None, logprobs=None, model=None, array=False, n=None):
        config = {}
        if stop:
            config["stopSequences"] = [stop]
        if limit:
            config["maxOutputTokens"] = limit
        if n:
            config["candidateCount"] = n
        if schema:
            config.update(responseMimeType="application/json", responseJsonSchema=schema)
        if reason:
            config["thinkingConfig"] = {"includeThoughts": True, "thinkingBudget": 512}
        if logprobs:
            config.update(responseLogprobs=True, logprobs=logprobs)
        body = {"contents": [{"role": "user", "parts": [{"text": "Tell a tale"}]}]}
        if config:
            body["generationConfig"] = config
        if tool:
            body["tools"] = [{"functionDeclarations": [{"name": tool[0], "description": "x", "parametersJsonSchema": tool[1]}]}]
        if force:
            body["toolConfig"] = {"functionCallingConfig": {"mode": "ANY"}}
        verb = ("streamGenerateContent" + ("" if array else "?alt=sse")) if stream else "generateContent"
        return f"{self.base}/models/{model or self.model}:{verb}", body, {}

    def events(self, body):
        return json.loads(body) if body[:1] == b"[" else [data for _, data in sse(body)]

    def read(self, answer):
        return self.join([answer])

    def join(self, events):
        s = Said()
        for e in events:
            assert "error" not in e, e
            for c in e.get("candidates", [])[:1]:
                for part in c["content"].get("parts", []):
                    if "functionCall" in part:
                        s.calls.append((part["functionCall"]["name"], part["functionCall"]["args"]))
                    elif part.get("thought"):
                        s.reasoning += part["text"]
                    else:
                        s.text += part["text"]
                s.finish = c.get("finishReason", s.finish)
                s.logprobs += [t["logProbability"] for t in c.get("logprobsResult", {}).get("chosenCandidates", [])]
            s.finish = e.get("promptFeedback", {}).get("blockReason", s.finish)
            u = e.get("usageMetadata", {})
            s.prompt, s.completion = u.get("promptTokenCount"), u.get("candidatesTokenCount", 0) + u.get("thoughtsTokenCount", 0)
        return s

    def error(self, body):
        return json.loads(body)["error"]["message"]

    def stream_error(self, body):
        return self.events(body)[-1]["error"]["message"]


class Converse(Api):
    dialect, has_tools, has_force, has_schema, has_reasoning, has_logprobs = "converse", True, True, True, True, False

    def ask(self, stream=False, tool=None, force=False, schema=None, reason=False, stop=None, limit=None, model=None):
        body = {"messages": [{"role": "user", "content": [{"text": "Tell a tale"}]}]}
        config = {}
        if stop:
            config["stopSequences"] = [stop]
        if limit:
            config["maxTokens"] = limit
        if config:
            body["inferenceConfig"] = config
        if tool:
            body["toolConfig"] = {"tools": [{"toolSpec": {"name": tool[0], "description": "x", "inputSchema": {"json": tool[1]}}}]}
        if force:
            body["toolConfig"]["toolChoice"] = {"any": {}}
        if schema:
            body["outputConfig"] = {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": json.dumps(schema), "name": "level"}}}}
        if reason:
            body["additionalModelRequestFields"] = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
        return f"{self.base}/model/{(model or self.model).replace(':', '%3A')}/converse{'-stream' if stream else ''}", body, {}

    def events(self, body):
        return frames(body)

    def read(self, answer):
        s = Said(finish=answer["stopReason"], prompt=answer.get("usage", {}).get("inputTokens"), completion=answer.get("usage", {}).get("outputTokens"))
        for block in answer["output"]["message"]["content"]:
            s.text += block.get("text", "")
            s.reasoning += block.get("reasoningContent", {}).get("reasoningText", {}).get("text", "")
            if "toolUse" in block:
                s.calls.append((block["toolUse"]["name"], block["toolUse"]["input"]))
        return s

    def join(self, events):
        s, calls, open_blocks = Said(), {}, set()
        for headers, p in events:
            assert headers[":message-type"] == "event", p
            assert headers[":content-type"] == "application/json" and p.pop("p").isalpha()
            kind, index = headers[":event-type"], p.get("contentBlockIndex")
            if kind == "contentBlockStart":
                calls[index] = [p["start"]["toolUse"]["name"], ""]
                open_blocks.add(index)
            elif kind == "contentBlockDelta":
                open_blocks.add(index)
                delta = p["delta"]
                s.text += delta.get("text", "")
                s.reasoning += delta.get("reasoningContent", {}).get("text", "")
                if "toolUse" in delta:
                    calls[index][1] += delta["toolUse"]["input"]
            elif kind == "contentBlockStop":
                open_blocks.remove(index)
            elif kind == "messageStop":
                s.finish = p["stopReason"]
            elif kind == "metadata":
                s.prompt, s.completion = p["usage"]["inputTokens"], p["usage"]["outputTokens"]
        assert not open_blocks, open_blocks
        s.calls = [(name, json.loads(text)) for name, text in calls.values()]
        return s

    def error(self, body):
        return json.loads(body)["message"]

    def stream_error(self, body):
        headers, p = frames(body)[-1]
        assert headers[":message-type"] == "exception" and headers[":exception-type"].endswith("Exception")
        return p["message"]


class Cohere(Api):
    dialect, has_tools, has_force, has_schema, has_reasoning, has_logprobs = "cohere", True, True, True, True, True

    def ask(self, stream=False, tool=None, force=False, schema=None, reason=False, stop=None, limit=None, logprobs=None, model=None):
        body = {"model": model or self.model, "messages": [{"role": "user", "content": "Tell a tale"}], "stream": stream}
        if stop:
            body["stop_sequences"] = [stop]
        if limit:
            body["max_tokens"] = limit
        if tool:
            body["tools"] = [openai_tool(*tool)]
        if force:
            body["tool_choice"] = "REQUIRED"
        if schema:
            body["response_format"] = {"type": "json_object", "json_schema": schema}
        if reason:
            body["thinking"] = {"type": "enabled", "token_budget": 512}
        if logprobs:
            body["logprobs"] = True
        return f"{self.base}/chat", body, {}

    def events(self, body):
        for name, data in sse(body):
            assert name == data["type"], (name, data)
        return [data for _, data in sse(body)]

    def read(self, answer):
        m, tokens = answer["message"], answer.get("usage", {}).get("tokens", {})
        s = Said(finish=answer["finish_reason"], prompt=tokens.get("input_tokens"), completion=tokens.get("output_tokens"), text=m.get("tool_plan", ""))
        for part in m.get("content", []):
            s.text += part.get("text", "")
            s.reasoning += part.get("thinking", "")
        s.calls = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in m.get("tool_calls", [])]
        s.logprobs = [x for group in answer.get("logprobs", []) for x in group["logprobs"]]
        return s

    def join(self, events):
        s, calls = Said(), {}
        assert events[0]["type"] == "message-start" and events[-1]["type"] == "message-end", events
        for e in events:
            m = e.get("delta", {}).get("message", {})
            if e["type"] in ("content-start", "content-delta"):
                s.text += m["content"].get("text", "")
                s.reasoning += m["content"].get("thinking", "")
                s.logprobs += e.get("logprobs", {}).get("logprobs", [])
            elif e["type"] == "tool-plan-delta":
                s.text += m["tool_plan"]
            elif e["type"] == "tool-call-start":
                calls[e["index"]] = [m["tool_calls"]["function"]["name"], m["tool_calls"]["function"]["arguments"]]
            elif e["type"] == "tool-call-delta":
                calls[e["index"]][1] += m["tool_calls"]["function"]["arguments"]
        end = events[-1]["delta"]
        assert "error" not in end, end
        s.finish, s.prompt, s.completion = end["finish_reason"], end["usage"]["tokens"]["input_tokens"], end["usage"]["tokens"]["output_tokens"]
        s.calls = [(name, json.loads(text)) for name, text in calls.values()]
        return s

    def error(self, body):
        return json.loads(body)["message"]

    def stream_error(self, body):
        delta = self.events(body)[-1]["delta"]
        assert delta["finish_reason"] == "ERROR", delta
        return delta["error"]


class Ollama(Api):
    dialect, has_tools, has_force, has_schema, has_reasoning, has_logprobs = "ollama", True, False, True, True, True

    def ask(self, stream=False, tool=None, force=False, schema=None, reason=False, stop=None, limit=None, logprobs=None, model=None):
        body = {"model": model or self.model, "messages": [{"role": "user", "content": "Tell a tale"}]}
        options = {}
        if not stream:  # a stream is the default
            body["stream"] = False
        if stop:
            options["stop"] = [stop]
        if limit:
            options["num_predict"] = limit
        if options:
            body["options"] = options
        if tool:
            body["tools"] = [openai_tool(*tool)]
        if schema:
            body["format"] = schema
        if reason:
            body["think"] = True
        if logprobs:
            body.update(logprobs=True, top_logprobs=logprobs)
        return f"{self.base}/api/chat", body, {}

    def events(self, body):
        return [json.loads(line) for line in body.decode().splitlines() if line]

    def read(self, answer):
        return self.join([answer])

    def join(self, events):
        s = Said()
        for e in events:
            assert "error" not in e, e
            m = e["message"]
            s.text += m["content"]
            s.reasoning += m.get("thinking", "")
            s.calls += [(c["function"]["name"], c["function"]["arguments"]) for c in m.get("tool_calls", [])]
            s.logprobs += [t["logprob"] for t in e.get("logprobs", [])]
        assert [e["done"] for e in events] == [False] * (len(events) - 1) + [True]
        s.finish, s.prompt, s.completion = e["done_reason"], e.get("prompt_eval_count"), e.get("eval_count")
        return s

    def error(self, body):
        return json.loads(body)["error"]


class Tgi(Api):
    """/generate: raw completions"""
    dialect, has_tools, has_force, has_schema, has_reasoning, has_logprobs = "tgi", False, False, True, False, True

    def ask(self, stream=False, schema=None, stop=None, limit=None, logprobs=None, model=None, **more):
        p = dict(more, details=True)
        if stop:
            p["stop"] = [stop]
        if limit:
            p["max_new_tokens"] = limit
        if schema:
            p["grammar"] = {"type": "json", "value": schema}
        if logprobs:
            p["top_n_tokens"] = logprobs
        return f"{self.base}/generate{'_stream' if stream else ''}", {"inputs": "Tell a tale", "parameters": p}, {}

    def events(self, body):
        assert b"data: " not in body and b"[DONE]" not in body, "no blank behind the colon, no mark at the end"
        return [data for _, data in sse(body)]

    def read(self, answer):
        d = answer["details"]
        return Said(text=answer["generated_text"], finish=d["finish_reason"], completion=d["generated_tokens"],
                    logprobs=[t["logprob"] for t in d["tokens"] if not t["special"]])

    def join(self, events):
        assert all("error" not in e for e in events), events
        last = events[-1]
        text = "".join(e["token"]["text"] for e in events if not e["token"]["special"])
        assert [e["index"] for e in events] == list(range(1, len(events) + 1))
        assert last["generated_text"] == text and all(e["generated_text"] is None for e in events[:-1])
        return Said(text=text, finish=last["details"]["finish_reason"], completion=last["details"]["generated_tokens"],
                    prompt=last["details"]["input_length"], logprobs=[e["token"]["logprob"] for e in events if not e["token"]["special"]])

    def error(self, body):
        assert json.loads(body)["error_type"]
        return json.loads(body)["error"]


class DashScope(Api):
    """native generation, incremental unless told otherwise"""
    # the claims allow auto and none; that a named function is taken stands in a note only
    dialect, has_tools, has_force, has_schema, has_reasoning, has_logprobs = "dashscope", True, False, True, True, True

    def __init__(self, provider, base, model):
        self.provider, self.base, self.model = provider, base, model
        self.is_cumulative = False

    def ask(self, stream=False, tool=None, force=False, schema=None, reason=False, stop=None, limit=None, logprobs=None, model=None, cumulative=False,
            text_format=False):
        p = {} if text_format else {"result_format": "message"}
        if stream and not cumulative:
            p["incremental_output"] = True
        if stop:
            p["stop"] = [stop]
        if limit:
            p["max_tokens"] = limit
        if tool:
            p["tools"] = [openai_tool(*tool)]
        if force:
            p["tool_choice"] = {"type": "function", "function": {"name": tool[0]}}
        if schema:
            p["response_format"] = {"type": "json_schema", "json_schema": {"name": "level", "schema": schema}}
        if reason:
            p["enable_thinking"] = True
        if logprobs:
            p.update(logprobs=True, top_logprobs=logprobs)
        body = {"model": model or self.model, "input": {"messages": [{"role": "user", "content": "Tell a tale"}]}, "parameters": p}
        return f"{self.base}/api/v1/services/aigc/text-generation/generation", body, {"x-dashscope-sse": "enable"} if stream else {}

    def events(self, body):
        blocks = [b for b in body.decode().split("\n\n") if b]
        for i, b in enumerate(blocks):
            lines = b.split("\n")
            assert lines[0].startswith("id:") and lines[1] in ("event:result", "event:error") and lines[2].startswith(":HTTP_STATUS/"), b
            assert lines[1] == "event:error" or lines[0] == f"id:{i + 1}", b
        return [data for _, data in sse(body)]

    def read(self, answer):
        return self.join([answer])

    def join(self, events, cumulative=False):
        s, calls = Said(), {}
        for e in events:
            assert "code" not in e, e
            c = e["output"]["choices"][0]
            m = c["message"]
            if cumulative:
                assert m["content"].startswith(s.text) and m.get("reasoning_content", "").startswith(s.reasoning)
                s, calls = Said(), {}
            s.text += m["content"]
            s.reasoning += m.get("reasoning_content", "")
            for i, call in enumerate(m.get("tool_calls", [])):
                at = calls.setdefault(call.get("index", i), ["", ""])
                at[0] += call["function"]["name"]
                at[1] += call["function"]["arguments"]
            s.logprobs += [t["logprob"] for t in c.get("logprobs", {}).get("content", [])]
            s.finish = c["finish_reason"]
            assert (s.finish == "null") == (e is not events[-1]), e
            s.prompt, s.completion = e.get("usage", {}).get("input_tokens"), e.get("usage", {}).get("output_tokens")
        s.calls = [(name, json.loads(text)) for name, text in calls.values()]
        return s

    def error(self, body):
        e = json.loads(body)
        assert e["code"] and e["request_id"]
        return e["message"]

    def stream_error(self, body):
        return self.events(body)[-1]["message"]
