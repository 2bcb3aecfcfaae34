"""A scripted provider that speaks bytes: whatever a test wants to send, in whatever pieces, with whatever end.

RawServer(script) listens on a free port of the loopback. Each complete request (head and body) calls script(c, request) on the thread of its
connection; `c` sends, waits, breaks off. A script may also be chosen by the model of the body: server.on("name", script). When a script returns
and the connection is still open, the next request on it is read. What is counted: server.accepted, server.requests (complete ones),
server.closed (times at which the other side was seen to close while a script waited for it).
"""
import json
import random
import socket
import struct
import threading
import time


class Request:
    def __init__(self, head, body, number):
        self.at = time.monotonic()
        self.number = number  # on its connection, from 1
        self.body = body
        self.line, *lines = head.decode("latin-1").split("\r\n")
        self.headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()

    def json(self):
        return json.loads(self.body)


class Gone(Exception):
    """The other side has closed."""


class Connection:
    def __init__(self, server, sock):
        self.server, self.sock, self.is_open = server, sock, True
        self.kept = b""
        self.n = 0

    # ---- reading

    def _more(self):
        piece = self.sock.recv(65536)
        if not piece:
            raise Gone()
        self.kept += piece

    def request(self):
        """the next complete request; Gone when there is none"""
        while b"\r\n\r\n" not in self.kept:
            self._more()
        head, self.kept = self.kept.split(b"\r\n\r\n", 1)
        request = Request(head, b"", self.n + 1)
        length = int(request.headers.get("content-length", 0))
        while len(self.kept) < length:
            self._more()
        request.body, self.kept = self.kept[:length], self.kept[length:]
        self.n += 1
        return request

    def wait_closed(self, seconds=20):
        """-> the time at which the other side closed; None: it did not"""
        self.sock.settimeout(seconds)
        try:
            while self.sock.recv(65536):
                pass
        except socket.timeout:
            return None
        except OSError:
            pass
        at = time.monotonic()
        self.server.note_closed(at)
        self.is_open = False
        return at

    # ---- writing

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError:
            self.server.note_closed(time.monotonic())
            self.is_open = False
            raise Gone() from None

    def pieces(self, data, size=1, seed=None, delay=0.0):
        """in writes of `size` bytes, or of random sizes from 1 to 7 when there is a seed"""
        rng = random.Random(seed) if seed is not None else None
        at = 0
        while at < len(data):
            n = rng.randint(1, 7) if rng else size
            self.send(data[at:at + n])
            at += n
            if delay:
                time.sleep(delay)

    def head(self, status=200, content_type="application/json", headers=(), length=None, reason="X"):
        """without a length the body ends with the connection, with "chunked" it is written by chunk()"""
        lines = [f"HTTP/1.1 {status} {reason}", f"content-type: {content_type}", *headers]
        if length == "chunked":
            lines.append("transfer-encoding: chunked")
        elif length is not None:
            lines.append(f"content-length: {length}")
        else:
            lines.append("connection: close")
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def whole(self, body, status=200, content_type="application/json", headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.head(status, content_type, headers, len(data))
        self.send(data)

    def chunk(self, data):
        self.send(b"%x\r\n%s\r\n" % (len(data), data) if data else b"0\r\n\r\n")

    def stream(self, *events, close=True, content_type="text/event-stream"):
        """a stream of these bytes, ended by the connection"""
        self.head(200, content_type)
        for e in events:
            self.send(e)
        if close:
            self.close()

    # ---- ending

    def close(self):
        self.is_open = False
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self.sock.close()

    def reset(self):
        """RST instead of FIN"""
        self.is_open = False
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class RawServer:
    def __init__(self, script=None, backlog=128):
        self.script, self.by_model = script, {}
        self.lock = threading.Lock()
        self.requests, self.closed, self.errors, self.accepted = [], [], [], 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def on(self, model, script):
        self.by_model[model] = script

    def of(self, model):
        """the complete requests for this model"""
        with self.lock:
            return [r for r in self.requests if r.body and r.json().get("model") == model]

    def note_closed(self, at):
        with self.lock:
            self.closed.append(at)

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.accepted += 1
            threading.Thread(target=self._serve, args=(Connection(self, sock),), daemon=True).start()

    def _serve(self, c):
        try:
            while c.is_open:
                request = c.request()
                with self.lock:
                    self.requests.append(request)
                (self.by_model.get(request.json().get("model")) or self.script)(c, request)
        except (Gone, ConnectionError):
            pass
        except Exception as e:  # noqa: B902  (told by the test that looks at server.errors)
            self.errors.append(repr(e))
        finally:
            c.sock.close()

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # else the thread that accepts keeps it open
        self.listener.close()


# ---- what OpenAI's and Anthropic's streams are made of

def chunk(delta=None, finish=None, **more):
    choice = {"index": 0, "delta": delta if delta is not None else {}, "finish_reason": finish}
    return dict({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}, **more)


def data(value, end="\n", space=" "):
    """one event"""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"data:{space}{text}{end}{end}".encode()


def openai_stream(texts, finish="stop", done=True, usage=None):
    events = [data(chunk({"role": "assistant", "content": ""}))] + [data(chunk({"content": t})) for t in texts]
    if finish:
        events.append(data(chunk({}, finish)))
    if usage:
        events.append(data({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [], "usage": usage}))
    return b"".join(events) + (data("[DONE]") if done else b"")


def openai_answer(text="ok", finish="stop", usage=True):
    answer = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
              "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}]}
    if usage:
        answer["usage"] = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return answer


def named(event):
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def anthropic_stream(texts, stop="end_turn", pings=0, end=True):
    events = [{"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
                                                    "usage": {"input_tokens": 7, "output_tokens": 1}}},
              {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}]
    events += [{"type": "ping"}] * pings
    events += [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": t}} for t in texts]
    events.append({"type": "content_block_stop", "index": 0})
    if stop:
        events.append({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 4}})
    if end:
        events.append({"type": "message_stop"})
    return b"".join(named(e) for e in events)


def anthropic_answer(text="ok", stop="end_turn"):
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": text}] if text else [],
            "stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 7, "output_tokens": 4}}
