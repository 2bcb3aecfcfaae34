"""What the tests over the raw provider share: catalog rows that differ from model to model, a daemon with them, background tests, reading streams.

Providers of the daemon: `rows` (OpenAI's dialect) and `messages` (Anthropic's, tests/lib/anthropic-like.json); both are the one RawServer.
"""
import atexit
import concurrent.futures
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

import e2e
from e2e import Daemon, test, wait_for
from rawserver import anthropic_answer, anthropic_stream, chunk, data, openai_answer, openai_stream

KEY = "CANARY-UP-1"
SLACK = 3.0 if "sanitize" in e2e.BUILD or "address" in e2e.BUILD else 1.0  # a slower build is later, never earlier
temp = tempfile.mkdtemp(prefix="isotherm-wire-")
atexit.register(shutil.rmtree, temp, ignore_errors=True)
pool = concurrent.futures.ThreadPoolExecutor(32)


def background(fn):
    """begins now; the test waits for its end"""
    future = pool.submit(fn)

    def waits():
        future.result(120)
    waits.__name__ = fn.__name__
    return test(waits)


# ---- providers: one of the Messages dialect, and rows of the OpenAI dialect that differ from model to model

def write_rows(path):
    base = {"endpoint": "/v1/chat/completions", "source": "tests/e2e/50-reported-wire", "as_of": "2026-11-30", "confidence": "high"}
    yes = [("temperature", 0, 2), ("top_p", 0, 1), ("min_p", 0, 1), ("presence_penalty", -2, 2), ("frequency_penalty", -2, 2)]
    claims = [dict(base, models="*", param=p, wire=p, support="yes", min=low, max=high) for p, low, high in yes]
    claims += [dict(base, models="*", param=p, wire=p, support="yes", integer=True) for p in ("seed", "max_tokens", "top_k", "n")]
    claims += [dict(base, models="*", param=p, wire=p, support="yes") for p in ("logprobs", "stream", "user", "logit_bias", "tools")]
    claims += [dict(base, models="*", param="top_logprobs", wire="top_logprobs", support="yes", min=0, max=20, integer=True),
               dict(base, models="*", param="stop", wire="stop", support="yes", items_max=4),
               dict(base, models="*", param="system_role", wire="messages[].role", support="yes"),
               dict(base, models="*", param="developer_role", support="absent"),
               dict(base, models="*", param="stream_usage", wire="stream_options.include_usage", support="yes"),
               dict(base, models="^no-stop", param="stop", support="absent"),
               dict(base, models="^no-usage", param="stream_usage", support="absent"),
               dict(base, models="^newer", param="max_tokens", wire="max_completion_tokens", support="yes", integer=True),
               dict(base, models="^newer", param="developer_role", wire="messages[].role", support="yes")]
    claims += [dict(base, models="^g-think", param=p, support="rejected") for p in ("presence_penalty", "frequency_penalty", "stop")]
    claims += [dict(base, models="^d-think", param=p, wire=p, support="ignored") for p in ("temperature", "top_p")]
    claims += [dict(base, models="^schema", param=f"response_format_{p}", wire=f"response_format.{w}", support="yes")
               for p, w in (("json_object", "type"), ("json_schema", "json_schema"))]
    effort = {"variant": "conditional", "param": "temperature"}
    claims += [dict(base, models="^adds", param=p, wire="parameters." + p, support="yes", adds={"parameters.do_sample": True}) for p in ("temperature", "top_p")]
    claims += [dict(base, models="^one-by-one", param="n", wire="n", support="yes", integer=True, conflicts=["stream"]),
               dict(base, models="^(no-)?effort", **effort, wire="temperature", support="yes", when={"param": "reasoning_effort", "in": ["none"]}),
               dict(base, models="^(no-)?effort", **effort, support="rejected", when={"param": "reasoning_effort", "not_in": ["none"]}),
               dict(base, models="^effort", param="reasoning_effort", wire="reasoning_effort", support="yes"),
               dict(base, models="^no-effort", param="reasoning_effort", support="rejected")]
    provider = {"id": "rows", "title": "Rows that differ", "dialect": "openai", "base_url": "http://127.0.0.1:4199/v1", "chat_path": "/chat/completions",
                "chat_endpoint": "/v1/chat/completions", "auth": "bearer"}
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"provider": provider, "claims": claims}, f)


write_rows(os.path.join(temp, "rows.json"))
subprocess.run([f"{e2e.BUILD}/isothermctl", "catalog", "build", "catalog/providers/local.json", "tests/lib/anthropic-like.json", os.path.join(temp, "rows.json"),
                "-o", os.path.join(temp, "catalog.db")], check=True, stdout=subprocess.DEVNULL)


def start(server, extra="", folder=None, env=None, **calls):
    """calls: keys of both providers. Without any no breaker opens: these tests fail a provider in a row."""
    folder = folder or tempfile.mkdtemp(dir=temp)
    if not os.path.exists(os.path.join(folder, "catalog.db")):
        shutil.copy(os.path.join(temp, "catalog.db"), folder)
    providers = "providers:\n"
    for name, catalog in (("rows", "rows"), ("messages", "anthropic-like")):
        providers += f"  - name: {name}\n    catalog: {catalog}\n    base_url: http://127.0.0.1:{server.port}/v1\n    api_key: SCRIPTED_KEY\n"
        providers += "".join(f"    {k}: {json.dumps(v)}\n" for k, v in dict({"breaker_failures": 0}, **calls).items())
    return Daemon(None, extra=extra + providers, folder=folder, env=env)


def answer(text="ok"):
    """answers in the dialect and form that was asked for"""
    def script(c, request):
        is_messages = request.line.startswith("POST /v1/messages ")
        if request.json().get("stream"):
            c.stream(anthropic_stream([text]) if is_messages else openai_stream([text]))
        else:
            c.whole(anthropic_answer(text) if is_messages else openai_answer(text))
    return script


def record_of(d, model, seconds=8):
    """the record of the one request that named this model, when it has ended"""
    line = wait_for(lambda: [x for x in d.lines if f"model={model} " in x and "request" in x and " ms=" in x], seconds, f"the line of {model}")
    return d.record(line[-1].split("id=")[1].split()[0])


def read_until(s, until, seconds=20):
    """-> all bytes up to the end, or to `until(bytes)`; each with its time in the list"""
    got, times = b"", []
    s.settimeout(seconds)
    while not until(got):
        try:
            piece = s.recv(65536)
        except ConnectionError:
            break
        if not piece:
            break
        got += piece
        times.append((time.monotonic(), piece))
    return got, times


def never(_):
    return False


POST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"


def say(c, *texts, finish="stop"):
    for t in texts:
        c.send(data(chunk({"content": t})))
    c.send(data(chunk({}, finish)) + data("[DONE]"))
    c.close()


def stream_of(d, model, **more):
    """-> (head, body, pieces with their times); the whole answer, as it came"""
    body = json.dumps(dict({"model": model, "stream": True, "messages": [{"role": "user", "content": "x"}]}, **more)).encode()
    s = socket.create_connection(("127.0.0.1", d.port), 5)
    s.sendall(POST + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    got, times = read_until(s, never)
    s.close()
    head, _, body = got.partition(b"\r\n\r\n")
    return head, body, times


def lines_of(body):
    """the lines of a chunked body's text; no line here is cut by a chunk's head"""
    return [x for x in body.replace(b"\r\n", b"\n").split(b"\n") if x.startswith((b"data:", b":"))]


def finish_of(r):
    return [c["finish_reason"] for e in r.events() if e != "[DONE]" for c in json.loads(e).get("choices", []) if c["finish_reason"]]


def user(text):
    return {"role": "user", "content": text}


def said(role, text):
    return {"role": role, "content": text}


def texts_of(message):
    c = message["content"]
    return "\n\n".join([c] if isinstance(c, str) else [b["text"] for b in c])
