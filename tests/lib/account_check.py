"""Whether an answer's account is true: what was asked, what the answer says was changed, and the bytes that the provider saw.

Says of each parameter what became of it (the words of the table in tests/e2e/26-account), and what is unaccounted for (a difference that no
adjustment names) or misattributed (an adjustment about what did not happen).
"""
import json

from account_wire import Reader, choice_of, format_of, tools_of

NEUTRAL = {"temperature": (1,), "top_p": (1,), "top_k": (0, -1), "min_p": (0,), "typical_p": (1,), "seed": (-1,), "stop": ([],), "stop_token_ids": ([],),
           "min_tokens": (0,), "ignore_eos": (False,), "n": (1,), "best_of": (1,), "presence_penalty": (0,), "frequency_penalty": (0,),
           "repetition_penalty": (1,), "no_repeat_ngram_size": (0,), "logit_bias": ({},), "logprobs": (False,), "top_logprobs": (0,),
           "use_beam_search": (False,), "num_beams": (1,), "length_penalty": (1,), "penalty_scope": ("generated",), "sampler_order": ("isotherm",), "logprobs_mode": ("raw",),
           "echo": (False,), "tools": ([],), "tool_choice": ("auto",), "parallel_tool_calls": (True,), "service_tier": ("auto",), "metadata": ({},),
           "store": (False,), "response_format": (("text",),)}
SHAPED = {"tools": tools_of, "tool_choice": choice_of, "response_format": format_of}
# Names under which an adjustment speaks of the parameter of the body.
NAME = {"max_completion_tokens": "max_tokens", "response_format_json_object": "response_format", "response_format_json_schema": "response_format"}
OLDER = "max_tokens beside max_completion_tokens"
# About the conversation, not about a parameter.
CONTENT = {"role"}


def same(a, b):
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


def is_neutral(name, value):
    return any(same(value, n) for n in NEUTRAL.get(name, ()))


def asked_of(body, known):
    """the parameters of a request by canonical name, structured values in the checker's form; unknown fields by name; names as asked"""
    asked, unknown, written = {}, {}, {}
    for key, value in body.items():
        if value is None or key in ("model", "messages", "stream", "stream_options", "isotherm"):
            continue
        name = NAME.get(key, key)
        if name not in known:
            unknown[key] = value
            continue
        if name == "max_tokens" and key == "max_tokens" and body.get("max_completion_tokens") is not None:
            unknown[OLDER] = value  # the newer name holds; the older one is dropped and said
            continue
        if name == "response_format" and value.get("type") == "text":
            continue
        written[name] = key
        if name == "stop" and isinstance(value, str):
            value = [value]
        asked[name] = SHAPED[name](value) if name in SHAPED else value
    return asked, unknown, written


class Verdict:
    def __init__(self):
        self.became = {}  # parameter -> arrived, changed, left out, neutral, fallback, refused
        self.faults = []  # (kind, parameter, text)

    def fault(self, kind, name, text):
        self.faults.append((kind, name, text))


def own_name(name, path, written):
    wanted = written.get(name, name)
    return path.split(".")[-1] == wanted or path.split(".")[0] == wanted


class Account:
    def __init__(self, case, adjustments, wire, dialect, paths, known):
        self.v = Verdict()
        self.asked, self.unknown, self.written = asked_of(case["body"], known)
        self.by = {}
        for a in adjustments:
            if a["reason"] not in CONTENT:
                self.by.setdefault(self.key_of(a), []).append(a)
        self.reader = Reader(dialect, paths, wire, self.asked)

    def key_of(self, a):
        """what of the request the adjustment is about"""
        if OLDER in self.unknown and a["param"] == "max_tokens" and a["reason"] == "conflict" and same(a["asked"], self.unknown[OLDER]):
            return OLDER
        return a["param"] if a["param"] in self.unknown else NAME.get(a["param"], a["param"])

    def said(self, name, *actions):
        """takes the adjustments about that parameter; fault unless there is exactly one of these actions"""
        got = self.by.pop(name, [])
        if len(got) != 1 or got[0]["action"] not in actions:
            kind = "unaccounted" if not got else "misattributed"
            self.v.fault(kind, name, f"wanted one of {actions}, said {[(a['action'], a['reason'], a['asked'], a['sent']) for a in got]}")
            return None
        return got[0]

    def check_values(self, name, a, value, sent):
        if name in SHAPED or a is None:
            return
        if a["action"] == "split" and name == "stop":
            sent = a["sent"] if isinstance(a["sent"], list) else sent
        if not same(a["asked"], value):
            self.v.fault("misattributed", name, f"says asked {a['asked']!r}, was {value!r}")
        if not same(a["sent"], sent):
            self.v.fault("misattributed", name, f"says sent {a['sent']!r}, was {sent!r}")

    def sent_param(self, name, value, moved):
        undelivered = [a for a in self.by.get(name, []) if a["action"] == "not_served"]
        if undelivered:  # sent, and the answer lacks it
            self.by[name].remove(undelivered[0])
            if not self.by[name]:
                del self.by[name]
        found, where = self.reader.found[name], self.reader.where[name]
        renamed = not own_name(name, where, self.written)
        if same(found, value):
            got = self.by.get(name, [])
            if moved:
                self.check_values(name, self.said(name, "moved"), value, found)
                return "fallback"
            if name in SHAPED and (not got or got[0]["action"] in ("renamed", "rewritten") and len(got) == 1):
                self.by.pop(name, None)
            elif renamed:
                self.check_values(name, self.said(name, "renamed"), value, found)
            elif got:
                self.said(name)
            return "arrived"
        got = self.by.get(name, [])
        names_both = renamed and len(got) == 2 and got[1]["action"] == "renamed"
        if names_both:
            self.by[name] = got[:1]  # the value and the name differ: one says each
        a = self.said(name, "clamped", "rewritten", "split", "moved")
        self.check_values(name, a, value, found)
        return "changed"

    def param(self, name, value, moved):
        if name in self.reader.found:
            return self.sent_param(name, value, moved)
        if is_neutral(name, value):
            if name in self.by:
                self.said(name)
            return "neutral"
        a = self.said(name, "dropped", "moved", "not_served")
        self.check_values(name, a, value, None)
        return "left out"

    def run(self, moved=()):
        for name, value in self.asked.items():
            self.v.became[name] = self.param(name, value, name in moved)
        for name, value in self.unknown.items():
            a = self.said(name, "dropped")
            if a and not same(a["asked"], value):
                self.v.fault("misattributed", name, f"says asked {a['asked']!r}, was {value!r}")
        for name in set(self.reader.found) - set(self.asked):
            self.added(name, self.reader.found[name], self.reader.where[name])
        for path, value in self.reader.left.items():
            self.added(path, value, path)
        for name, left in self.by.items():
            for a in left:
                self.v.fault("misattributed", name, f"{a['action']} ({a['reason']}, sent {a['sent']!r}) did not happen")
        return self.v

    def added(self, name, value, path):
        key = next((k for k in (name, path) if k in self.by), None)
        got = [a for a in self.by.get(key, []) if a["action"] == "added"]
        if not got:
            self.v.fault("unaccounted", name, f"on the wire at {path} ({json.dumps(value)[:80]}), neither asked nor added")
            return
        self.by[key].remove(got[0])
        if not self.by[key]:
            del self.by[key]
        if name not in SHAPED and not same(got[0]["sent"], value):
            self.v.fault("misattributed", name, f"says added {got[0]['sent']!r}, was {value!r}")
