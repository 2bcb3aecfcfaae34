"""A provider to be probed: an OpenAI-like API over a made-up next-token model, with honest sampling (temperature, top_p, top_k, min_p, seed, stop,
n, limits, log-probabilities, bias), ranges and names as in tests/lib/probed.json, refusals in OpenAI's shape, noise where it is switched on, and one
switch for each way in which a provider changes behind one's back:

    p.widen("temperature", hi=5)   p.narrow("top_k", hi=50)   p.ignore("seed")   p.rename("top_k", "topK")

It runs on an event loop in a thread of its own; everything may be changed between two runs of the prober.
"""
import asyncio
import json
import math
import random
import threading

VOCABULARY = [chr(97 + i) for i in range(26)] + [str(d) for d in range(10)] + ["-", "_", "x1", "q7"]
COUNT = " ".join(str(i) for i in range(1, 21))


class Refused(Exception):
    def __init__(self, message, param=None, code=None, status=400):
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


class Probed:
    def __init__(self, seed=1, noise=0.0, claims="tests/lib/probed.json"):
        self.claims = [c for c in json.load(open(claims, encoding="utf-8"))["claims"]]
        self.key = None
        self.lock = threading.Lock()
        self.reset(seed, noise)
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self.thread.start()
        started.wait(10)

    # ---- what can be changed

    def reset(self, seed=1, noise=0.0):
        """as the claims say"""
        self.knobs = {}
        for c in self.claims:
            if c["support"] in ("yes", "ignored"):
                self.knobs[c["param"]] = {"wire": c["wire"].split(".")[0], "lo": c.get("min", -math.inf), "hi": c.get("max", math.inf),
                                          "lo_open": c.get("min_exclusive", False), "integer": c.get("integer", False), "items": c.get("items_max"),
                                          "len": c.get("len_max"), "values": c.get("values"), "honoured": c["support"] == "yes"}
        self.strict, self.names_faults, self.noise = True, True, noise
        self.random = random.Random(seed)
        model = random.Random(seed * 7 + 1)
        self.logits = sorted((model.gauss(0, 1) for _ in VOCABULARY), reverse=True)
        self.answers = {}     # (temperature, top_p, top_k, min_p) -> cumulative probabilities
        self.trouble = []     # statuses that the next requests get in place of an answer
        self.seen = []        # (wire parameters, status)
        self.keys = set()
        self.delay = 0        # seconds before each answer

    def widen(self, param, **bounds):
        self.knobs[param].update(bounds)

    narrow = widen

    def ignore(self, param):
        for name in ("response_format_json_object", "response_format_json_schema") if param.startswith("response_format") else (param,):
            self.knobs[name]["honoured"] = False

    def rename(self, param, wire):
        self.knobs[param]["wire"] = wire

    # ---- what is refused

    def _knob(self, wire, value):
        found = [(p, k) for p, k in self.knobs.items() if k["wire"] == wire]
        if wire == "response_format":
            found = [(p, k) for p, k in found if isinstance(value, dict) and p == "response_format_" + str(value.get("type"))]
        return found[0] if found else (None, None)

    def _bad(self, wire, why):
        raise Refused(f"Invalid '{wire}': {why}." if self.names_faults else "Invalid request.", wire if self.names_faults else None, "invalid_value")

    def _check(self, wire, param, k, v):
        if isinstance(v, bool):
            return
        if isinstance(v, (int, float)):
            if k["integer"] and not isinstance(v, int):
                self._bad(wire, "an integer is expected")
            if v < k["lo"] or v > k["hi"] or (k["lo_open"] and v == k["lo"]):
                self._bad(wire, f"{v} is not between {k['lo']} and {k['hi']}")
        if isinstance(v, str) and ((k["values"] and v not in k["values"]) or (k["len"] and len(v) > k["len"])):
            self._bad(wire, "not one of the values, or too long")
        if isinstance(v, (list, dict)) and param in ("stop", "stop_token_ids", "logit_bias", "metadata"):
            if k["items"] and len(v) > k["items"]:
                self._bad(wire, f"at most {k['items']} items")
            for item in v.values() if isinstance(v, dict) else v:
                if (isinstance(item, str) and k["len"] and len(item) > k["len"]) or (param == "logit_bias" and not k["lo"] <= item <= k["hi"]):
                    self._bad(wire, "an item is out of range")

    def _asked(self, body):
        asked, has = {}, set()
        for wire, v in body.items():
            if wire in ("model", "messages", "stream"):
                continue
            param, k = self._knob(wire, v)
            if not k:
                if self.strict:
                    raise Refused(f"Unknown parameter: '{wire}'." if self.names_faults else "Unknown parameter.", wire if self.names_faults else None,
                                  "unknown_parameter")
                continue
            self._check(wire, param, k, v)
            has.add(param)
            if k["honoured"]:
                asked[param] = v
        if {"presence_penalty", "repetition_penalty"} <= has:
            self._bad("presence_penalty", "it cannot be combined with 'repetition_penalty'")
        if "top_logprobs" in has and "logprobs" not in has:
            self._bad("top_logprobs", "it needs 'logprobs'")
        return asked

    # ---- what is answered

    def _kept(self, a):
        """the tokens that are left, most likely first: cumulative probabilities"""
        key = (a.get("temperature", 1), a.get("top_p", 1), a.get("top_k", 0), a.get("min_p", 0))
        if key not in self.answers:
            t, top_p, top_k, min_p = key
            p = [math.exp((z - self.logits[0]) / max(t, 1e-3)) for z in self.logits]
            total, kept, before = sum(p), [], 0.0
            for i, x in enumerate(p):
                if i and (t < 1e-3 or (top_k and i >= top_k) or before >= top_p or x < min_p * p[0]):
                    break
                before += x / total
                kept.append(before)
            self.answers[key] = kept
        return self.answers[key]

    def _flat(self, a, n):
        if "100" in a.get("logit_bias", {}) and a["logit_bias"]["100"] >= 50:
            return ["@"] * n
        rng = random.Random(a["seed"]) if "seed" in a else self.random
        kept, out = self._kept(a), []
        for _ in range(n):
            u, i = rng.random() * kept[-1], 0
            while kept[i] <= u and i + 1 < len(kept):
                i += 1
            if (len(kept) == 1 or "seed" in a) and self.random.random() < self.noise:
                i = (i + 1) % len(VOCABULARY)
            out.append(VOCABULARY[i])
        return out

    def _words(self, prompt, a, limit):
        if "random lowercase" in prompt:
            return self._flat(a, min(limit, 24))
        if "Count from" in prompt:
            text = COUNT
            for stop in a.get("stop", []):
                text = text.split(stop)[0]
            return [text[i:i + 2] for i in range(0, len(text), 2)]
        is_json = any(p.startswith("response_format") for p in a)
        words = ["{", '"ok"', ": true", "}"] if is_json else ["ok", "."]
        least = limit if a.get("ignore_eos") else a.get("min_tokens", 0)
        return words + ["."] * max(0, least - len(words))

    def _choice(self, index, prompt, a, limit):
        words = self._words(prompt, a, limit)
        cut = words[:limit]
        choice = {"index": index, "message": {"role": "assistant", "content": "".join(cut)}, "finish_reason": "length" if len(cut) < len(words) else "stop"}
        if a.get("logprobs"):
            k = a.get("top_logprobs", 0)
            choice["logprobs"] = {"content": [{"token": w, "logprob": -1.5, "bytes": list(w.encode()),
                                               "top_logprobs": [{"token": VOCABULARY[i], "logprob": -1.5 - i, "bytes": None} for i in range(k)]} for w in cut]}
        return choice, len(cut)

    def answer(self, body):
        a = self._asked(body)
        prompt = body["messages"][-1]["content"]
        made = [self._choice(i, prompt, a, a.get("max_tokens", 64)) for i in range(a.get("n", 1))]
        n_in, n_out = len(prompt) // 4 + 8, sum(n for _, n in made)
        return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [c for c, _ in made],
                "usage": {"prompt_tokens": n_in, "completion_tokens": n_out, "total_tokens": n_in + n_out}}

    # ---- HTTP

    def _respond(self, head, data):
        body = json.loads(data)
        shown = {k: v for k, v in body.items() if k not in ("model", "messages")}
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"authorization:"):
                self.keys.add(line.split(b" ", 1)[1].decode())
        try:
            if self.trouble:
                raise Refused("Rate limit reached.", None, "rate_limit_exceeded", self.trouble.pop(0))
            if self.key and b"Bearer " + self.key.encode() not in head:
                raise Refused("Incorrect API key provided.", None, "invalid_api_key", 401)
            status, answer = 200, self.answer(body)
        except Refused as e:
            status, answer = e.status, e.body
        self.seen.append((shown, status))
        text = json.dumps(answer).encode()
        more = b"retry-after: 1\r\n" if status == 429 else b""
        return b"HTTP/1.1 %d x\r\ncontent-type: application/json\r\n%scontent-length: %d\r\n\r\n" % (status, more, len(text)) + text

    async def _serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length:")]
                data = await reader.readexactly(length[0])
                if self.delay:
                    await asyncio.sleep(self.delay)
                with self.lock:
                    out = self._respond(head, data)
                writer.write(out)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _run(self, started):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self.loop.run_forever()
