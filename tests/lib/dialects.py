"""Answers of each wire dialect, made of parts: what a scripted provider says in it.

DIALECTS[name] has: content_type of its stream; begin(), text(t), end(word, usage, texts) -> bytes of a stream; error(message), broken() -> bytes of an
error inside a stream and of an event that is cut in the middle; whole(text, word, usage) -> a whole body. `usage` False: no numbers of tokens.
`words`: the dialect's own words for the end of an answer -> OpenAI's, or None where the word says that the answer failed; `word`: the usual one.
is_text: it is asked for raw completions. write() makes a provider like-NAME for one.
"""
import json
import struct
import zlib

from rawserver import chunk, data, named

IN, OUT = 7, 5  # tokens


def dumps(value):
    return json.dumps(value, ensure_ascii=False)


class OpenAI:
    dialect, paths, words = "openai", {"chat_path": "/chat/completions"}, {
        "stop": "stop", "length": "length", "content_filter": "content_filter", "eos": "stop", "model_length": "length", "sensitive": "content_filter",
        "model_context_window_exceeded": "length", "brand_new": "stop", "error": None, "network_error": None, "insufficient_system_resource": None}
    content_type = "text/event-stream"
    is_text, streams = False, True
    word = "stop"

    def tokens(self):
        return {"prompt_tokens": IN, "completion_tokens": OUT, "total_tokens": IN + OUT}

    def begin(self):
        return data(chunk({"role": "assistant", "content": ""}))

    def text(self, t):
        return data(chunk({"content": t}))

    def end(self, word, usage=True, texts=()):
        more = data(dict(chunk(), choices=[], usage=self.tokens())) if usage else b""
        return data(chunk({}, word)) + more + data("[DONE]")

    def error(self, message):
        return data({"error": {"message": message, "type": "server_error"}})

    def broken(self):
        whole = self.text("x")
        return whole[:len(whole) // 2] + b"\n\n"

    def whole(self, text, word, usage=True):
        return dumps(dict({"id": "c-1", "object": "chat.completion", "model": "m", "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": word}]}, **({"usage": self.tokens()} if usage else {}))).encode()


class Responses(OpenAI):
    dialect, paths, words = "responses", {"chat_path": "/responses"}, {"completed": "stop", "max_output_tokens": "length", "content_filter": "content_filter"}
    word = "completed"

    def tokens(self):
        return {"input_tokens": IN, "output_tokens": OUT, "total_tokens": IN + OUT, "output_tokens_details": {"reasoning_tokens": 0}}

    def response(self, status, text=None, usage=True, reason=None):
        output = [] if text is None else [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                                           "content": [{"type": "output_text", "text": text, "annotations": []}]}]
        return {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": status, "error": None,
                "incomplete_details": {"reason": reason} if reason else None, "output": output, "usage": self.tokens() if usage else None}

    def begin(self):
        return named({"type": "response.created", "response": self.response("in_progress", usage=False)})

    def text(self, t):
        return named({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "msg_1", "delta": t})

    def end(self, word, usage=True, texts=()):
        status = "completed" if word == "completed" else "incomplete"
        return named({"type": "response." + status, "response": self.response(status, "".join(texts), usage, None if word == "completed" else word)})

    def error(self, message):
        return named({"type": "error", "error": {"type": "server_error", "code": "server_error", "message": message, "param": None}})

    def whole(self, text, word, usage=True):
        status = "completed" if word == "completed" else "incomplete"
        return dumps(self.response(status, text, usage, None if word == "completed" else word)).encode()


class Anthropic(OpenAI):
    dialect, paths = "anthropic", {"chat_path": "/messages"}
    words = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "refusal": "content_filter",
             "model_context_window_exceeded": "length", "pause_turn": "length", "brand_new": "stop"}
    word = "end_turn"

    def begin(self):
        return named({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
                                                           "stop_reason": None}}) + \
            named({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}) + named({"type": "ping"})

    def text(self, t):
        return named({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": t}})

    def end(self, word, usage=True, texts=()):
        last = dict({"type": "message_delta", "delta": {"stop_reason": word, "stop_sequence": None}}, **({"usage": self.tokens()} if usage else {}))
        return named({"type": "content_block_stop", "index": 0}) + named(last) + named({"type": "message_stop"})

    def tokens(self):
        return {"input_tokens": IN, "output_tokens": OUT}

    def error(self, message):
        return named({"type": "error", "error": {"type": "api_error", "message": message}})

    def whole(self, text, word, usage=True):
        return dumps(dict({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": text}],
                           "stop_reason": word, "stop_sequence": None}, **({"usage": self.tokens()} if usage else {}))).encode()


class Google(OpenAI):
    dialect, paths = "google", {"chat_path": "/models/{model}:generateContent", "stream_path": "/models/{model}:streamGenerateContent?alt=sse"}
    filtered = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY", "MODEL_ARMOR")
    failed = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE", "OTHER")
    words = dict({"STOP": "stop", "MAX_TOKENS": "length", "CONTINUATION": "length", "BRAND_NEW": "stop"},
                 **dict.fromkeys(filtered, "content_filter"), **dict.fromkeys(failed))
    word = "STOP"

    def answer(self, text, word=None, usage=False):
        candidate = dict({"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}, **({"finishReason": word} if word else {}))
        more = {"usageMetadata": {"promptTokenCount": IN, "candidatesTokenCount": OUT, "totalTokenCount": IN + OUT}} if usage else {}
        return dict({"candidates": [candidate], "modelVersion": "m", "responseId": "r-1"}, **more)

    def begin(self):
        return b""

    def text(self, t):
        return data(self.answer(t))

    def end(self, word, usage=True, texts=()):
        return data(self.answer("", word, usage))

    def error(self, message):
        return data({"error": {"code": 500, "message": message, "status": "INTERNAL"}})

    def whole(self, text, word, usage=True):
        return dumps(self.answer(text, word, usage)).encode()


class Palm(OpenAI):
    dialect, paths, words = "palm", {"chat_path": "/models/{model}:generateMessage"}, {}
    streams = False
    word = ""

    def whole(self, text, word, usage=True):
        return dumps({"candidates": [{"author": "1", "content": text}], "messages": [{"author": "0", "content": "x"}]}).encode()


class Cohere(OpenAI):
    dialect, paths = "cohere", {"chat_path": "/chat"}
    words = {"COMPLETE": "stop", "STOP_SEQUENCE": "stop", "MAX_TOKENS": "length", "BRAND_NEW": "stop", "ERROR": None, "TIMEOUT": None}
    word = "COMPLETE"

    def tokens(self):
        return {"billed_units": {"input_tokens": IN, "output_tokens": OUT}, "tokens": {"input_tokens": IN, "output_tokens": OUT}}

    def begin(self):
        return named({"type": "message-start", "id": "id-1", "delta": {"message": {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}}}) + \
            named({"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}})

    def text(self, t):
        return named({"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": t}}}})

    def end(self, word, usage=True, texts=()):
        delta = dict({"finish_reason": word}, **({"usage": self.tokens()} if usage else {}))
        return named({"type": "content-end", "index": 0}) + named({"type": "message-end", "delta": delta})

    def error(self, message):
        return data({"message": message})

    def whole(self, text, word, usage=True):
        return dumps(dict({"id": "id-1", "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}, "finish_reason": word},
                          **({"usage": self.tokens()} if usage else {}))).encode()


class Ollama(OpenAI):
    dialect, paths, words = "ollama", {"chat_path": "/api/chat"}, {"stop": "stop", "length": "length", "brand_new": "stop"}
    content_type = "application/x-ndjson"

    def answer(self, text, word=None, usage=False):
        more = {"done_reason": word} if word else {}
        if usage:
            more.update(prompt_eval_count=IN, eval_count=OUT)
        return dumps(dict({"model": "m", "created_at": "2026-08-21T10:00:00Z", "message": {"role": "assistant", "content": text}, "done": word is not None},
                          **more)).encode() + b"\n"

    def begin(self):
        return b""

    def text(self, t):
        return self.answer(t)

    def end(self, word, usage=True, texts=()):
        return self.answer("", word, usage)

    def error(self, message):
        return dumps({"error": message}).encode() + b"\n"

    def broken(self):
        return b'{"model":"m","message":{"role":"assi\n'

    def whole(self, text, word, usage=True):
        return self.answer(text, word, usage)


class DashScope(OpenAI):
    dialect, paths, words = "dashscope", {"chat_path": "/generation"}, {"stop": "stop", "length": "length", "brand_new": "stop"}

    def answer(self, text, word, usage):
        more = {"usage": {"input_tokens": IN, "output_tokens": OUT, "total_tokens": IN + OUT}} if usage else {}
        return dict({"output": {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": word}]}, "request_id": "r-1"}, **more)

    def event(self, value, name="result"):
        return f"id:1\nevent:{name}\n:HTTP_STATUS/200\ndata:{dumps(value)}\n\n".encode()

    def begin(self):
        return b""

    def text(self, t):
        return self.event(self.answer(t, "null", False))

    def end(self, word, usage=True, texts=()):
        return self.event(self.answer("", word, usage))

    def error(self, message):
        return self.event({"code": "InternalError", "message": message, "request_id": "r-1"}, "error")

    def whole(self, text, word, usage=True):
        return dumps(self.answer(text, word, usage)).encode()


def frame(name, payload, kind="event"):
    """of application/vnd.amazon.eventstream"""
    headers = b""
    for key, value in ((f":{kind}-type", name), (":content-type", "application/json"), (":message-type", kind)):
        headers += bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    body = payload if isinstance(payload, bytes) else dumps(payload).encode()
    head = struct.pack(">II", len(headers) + len(body) + 16, len(headers))
    whole = head + struct.pack(">I", zlib.crc32(head)) + headers + body
    return whole + struct.pack(">I", zlib.crc32(whole))


class Converse(OpenAI):
    dialect, paths = "converse", {"chat_path": "/model/{model}/converse", "stream_path": "/model/{model}/converse-stream"}
    words = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "model_context_window_exceeded": "length",
             "guardrail_intervened": "content_filter", "content_filtered": "content_filter", "brand_new": "stop",
             "malformed_model_output": None, "malformed_tool_use": None}
    content_type = "application/vnd.amazon.eventstream"
    word = "end_turn"

    def tokens(self):
        return {"inputTokens": IN, "outputTokens": OUT, "totalTokens": IN + OUT}

    def begin(self):
        return frame("messageStart", {"role": "assistant", "p": "abc"})

    def text(self, t):
        return frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": t}, "p": "ab"})

    def end(self, word, usage=True, texts=()):
        more = frame("metadata", dict({"metrics": {"latencyMs": 1}}, **({"usage": self.tokens()} if usage else {})))
        return frame("contentBlockStop", {"contentBlockIndex": 0}) + frame("messageStop", {"stopReason": word}) + more

    def error(self, message):
        return frame("internalServerException", {"message": message}, "exception")

    def broken(self):
        return frame("contentBlockDelta", b'{"contentBlockIndex": 0, "del')

    def whole(self, text, word, usage=True):
        return dumps(dict({"output": {"message": {"role": "assistant", "content": [{"text": text}]}}, "stopReason": word},
                          **({"usage": self.tokens()} if usage else {}))).encode()


class Tgi(OpenAI):
    dialect, paths = "tgi", {"chat_path": "/v1/chat/completions", "text_path": "/generate", "text_stream_path": "/generate_stream"}
    words = {"eos_token": "stop", "stop_sequence": "stop", "length": "length", "brand_new": "stop"}
    is_text = True
    word = "eos_token"

    def details(self, word, usage):
        more = {"generated_tokens": OUT, "input_length": IN} if usage else {}
        return dict({"finish_reason": word, "seed": None}, **more)

    def begin(self):
        return b""

    def text(self, t):
        return data({"index": 1, "token": {"id": 1, "text": t, "logprob": -0.5, "special": False}, "generated_text": None, "details": None})

    def end(self, word, usage=True, texts=()):
        return data({"index": 2, "token": {"id": 2, "text": "", "logprob": -0.5, "special": False}, "generated_text": "".join(texts),
                     "details": self.details(word, usage)})

    def error(self, message):
        return data({"error": message, "error_type": "generation"})

    def whole(self, text, word, usage=True):
        return dumps({"generated_text": text, "details": dict(self.details(word, usage), prefill=[], tokens=[])}).encode()


DIALECTS = {f.dialect: f() for f in (OpenAI, Responses, Anthropic, Google, Palm, Cohere, Ollama, DashScope, Converse, Tgi)}


def write(path, dialect):
    """a catalog of one provider, like-DIALECT"""
    base = {"endpoint": "/x", "models": "*", "source": "tests/lib/dialects.py", "as_of": "2026-11-30", "confidence": "high"}
    claims = [dict(base, param="stream", support="yes" if DIALECTS[dialect].streams else "absent", **({"wire": "stream"} if DIALECTS[dialect].streams else {})),
              dict(base, param="tools", wire={"converse": "toolConfig.tools", "dashscope": "parameters.tools"}.get(dialect, "tools"), support="yes"),
              dict(base, param="system_role", wire="system", support="yes"), dict(base, param="stop", support="absent")]
    provider = dict({"id": "like-" + dialect, "title": "Scripted provider of a dialect", "dialect": dialect, "base_url": "http://127.0.0.1:4199",
                     "chat_endpoint": "/x", "text_endpoint": "/x", "auth": "bearer"}, **DIALECTS[dialect].paths)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"provider": provider, "claims": claims}, f)
