"""Random chat requests over the whole parameter schema, for every provider of the catalog and the models that its claims name."""
import itertools
import json
import random
import re
import re._parser as patterns
import subprocess
import time

from account_check import is_neutral
from e2e import BUILD

DAY = time.strftime("%Y-%m-%d", time.gmtime())
WORDS = ("low", "medium", "high", "none", "minimal", "xhigh", "max")
TOOL = [{"type": "function", "function": {"name": "look_up", "description": "finds a word", "parameters": {
            "type": "object", "properties": {"word": {"type": "string"}, "deep": {"type": "boolean"}}, "required": ["word"]}}},
        {"type": "function", "function": {"name": "count", "description": "counts", "parameters": {
            "type": "object", "properties": {"what": {"type": "array", "items": {"type": "string"}}}, "required": ["what"]}}}]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {
    "type": "object", "properties": {"title": {"type": "string"}, "pages": {"type": "integer"}}, "required": ["title", "pages"], "additionalProperties": False}}}
NOT_NUMBERS = {"stop", "stop_token_ids", "logit_bias", "tools", "tool_choice", "response_format_json_object", "response_format_json_schema", "prediction",
               "metadata"}


def numbers(rng, low, high, whole):
    """in the middle, at the edges, just outside of narrower ranges"""
    if whole:
        return rng.choice([low, low + 1, high, (low + high) // 2, rng.randint(low, high)])
    return rng.choice([low, high, (low + high) / 2, round(rng.uniform(low, high), 3), round(low + (high - low) * 0.001, 6)])


MAKE = {
    "temperature": lambda r: r.choice([0, 1, 1.0, 1.5, 2, 0.7, numbers(r, 0, 2, False)]),
    "top_p": lambda r: r.choice([1, 0, 0.5, 0.001, numbers(r, 0, 1, False)]),
    "top_k": lambda r: r.choice([0, -1, 1, 40, 100, 500, 1001, numbers(r, 1, 2000, True)]),
    "min_p": lambda r: r.choice([0, 1, 0.05, numbers(r, 0, 1, False)]),
    "typical_p": lambda r: r.choice([1, 0.5, 0, numbers(r, 0, 1, False)]),
    "seed": lambda r: r.choice([-1, 0, 7, 2**31 - 1, 2**31, 2**32, 2**53, -5, r.randint(0, 2**31)]),
    "stop": lambda r: r.choice([[], "END", ["END"], ["a", "b", "c", "d"], [f"s{i}" for i in range(5)], [f"s{i}" for i in range(17)], ["\n"], ["\n", "x"],
                                ["x" * 40], [" "]]),
    "stop_token_ids": lambda r: r.choice([[], [2], [1, 2, 3]]),
    "max_tokens": lambda r: r.choice([1, 2, 15, 16, 100, 4096, 8192, 10**6, numbers(r, 1, 200, True)]),
    "max_completion_tokens": lambda r: r.choice([1, 16, 100, 10**6]),
    "min_tokens": lambda r: r.choice([0, 1]),
    "ignore_eos": lambda r: r.random() < 0.5,
    "n": lambda r: r.choice([1, 1, 2, 3, 4]),
    "best_of": lambda r: r.choice([1, 4]),
    "presence_penalty": lambda r: r.choice([0, 2, -2, 0.5, 3, -100, numbers(r, -2, 2, False)]),
    "frequency_penalty": lambda r: r.choice([0, 2, -2, 0.5, 3, 100, numbers(r, -2, 2, False)]),
    "repetition_penalty": lambda r: r.choice([1, 1.1, 2, 0.5, 2.5, 0.01]),
    "no_repeat_ngram_size": lambda r: r.choice([0, 1, 3]),
    "logit_bias": lambda r: r.choice([{}, {"50": 1}, {"50": -100, "7": 100}, {"9": 0.5}]),
    "logprobs": lambda r: r.random() < 0.7,
    "top_logprobs": lambda r: r.choice([0, 1, 5, 8, 20]),
    "use_beam_search": lambda r: r.random() < 0.3,
    "num_beams": lambda r: r.choice([1, 2]),
    "length_penalty": lambda r: r.choice([1, 0.5, 2]),
    "penalty_scope": lambda r: r.choice(["generated", "all"]),
    "sampler_order": lambda r: r.choice(["isotherm", "hf", "vllm", "llama.cpp", "sglang"]),
    "logprobs_mode": lambda r: r.choice(["raw", "processed"]),
    "echo": lambda r: False,  # of raw completions
    "response_format": lambda r: r.choice([{"type": "text"}, {"type": "json_object"}, SCHEMA]),
    "tools": lambda r: r.choice([[], TOOL, TOOL[:1]]),
    "tool_choice": lambda r: r.choice(["auto", "none", "required", {"type": "function", "function": {"name": "look_up"}}]),
    "parallel_tool_calls": lambda r: r.random() < 0.5,
    "reasoning_effort": lambda r: r.choice(WORDS),
    "verbosity": lambda r: r.choice(["low", "medium", "high"]),
    "prediction": lambda r: {"type": "content", "content": "Once"},
    "service_tier": lambda r: r.choice(["auto", "default", "flex", "priority"]),
    "user": lambda r: r.choice(["u", "user-1", "user-" + "x" * 60, "u" * 200]),
    "metadata": lambda r: r.choice([{}, {"team": "a"}]),
    "store": lambda r: r.random() < 0.5,
    "prompt_cache_key": lambda r: "key",
    "safety_identifier": lambda r: "id-1",
}
# Meaningless whatever answers: a 400 that names the parameter, and no byte leaves.
WRONG = {"temperature": (-0.1, 2.5), "top_p": (-1, 1.01), "top_k": (-2,), "min_p": (1.5, -1), "typical_p": (2,), "max_tokens": (0, -4), "n": (0, 129),
         "best_of": (0,), "presence_penalty": (101,), "frequency_penalty": (-101,), "repetition_penalty": (0, -1), "logit_bias": ({"x": 1}, {"5": 101}),
         "stop": ([""], 7), "top_logprobs": (21, -1), "seed": ("x", 1.5), "tools": ("t",), "user": (5,), "num_beams": (0,), "penalty_scope": ("both",), "sampler_order": ("mine",)}


def example(pattern, rng):
    """a string that the expression matches"""
    def of(parsed):
        out = ""
        for op, arg in parsed:
            op = str(op)
            if op == "LITERAL":
                out += chr(arg)
            elif op == "NOT_LITERAL":
                out += "a" if chr(arg) != "a" else "b"
            elif op == "ANY":
                out += "x"
            elif op == "IN":
                ranges = [a for o, a in arg if str(o) in ("LITERAL", "RANGE")]
                pick = rng.choice(ranges)
                out += "a1-"[rng.randrange(2)] if str(arg[0][0]) == "NEGATE" else chr(pick if isinstance(pick, int) else rng.randint(*pick))
            elif op == "BRANCH":
                out += of(rng.choice(arg[1]))
            elif op == "SUBPATTERN":
                out += of(arg[-1])
            elif op in ("MAX_REPEAT", "MIN_REPEAT"):
                out += "".join(of(arg[2]) for _ in range(rng.randint(arg[0], min(int(arg[1]), arg[0] + 2))))
        return out
    for _ in range(20):
        text = of(patterns.parse(pattern))
        if re.search(pattern, text) and text and len(text) < 100 and "~" not in text:
            return text
    return None


class Provider:
    def __init__(self, name, source, rng):
        self.name, self.dialect, self.source = name, source["dialect"], source
        rows = json.loads(subprocess.run([f"{BUILD}/isothermctl", "catalog", "show", name, "--json"], check=True, stdout=subprocess.PIPE).stdout)
        self.paths = {}
        for c in rows:
            if c["param"] == "sampler_order" and isinstance(c["default"], list):
                continue  # a list of samplers, another thing of that name
            if c["wire"] and c["variant"] != "disputed" and not set(c["wire"]) & set(" ()={["):
                self.paths.setdefault(c["param"], []).append(c["wire"])
        self.paths = {p: sorted(set(w), key=lambda x: (-x.count("."), x)) for p, w in self.paths.items()}
        self.ends = {p: ({c["max"] for c in rows if c["param"] == p} - {None}, {c["min"] for c in rows if c["param"] == p} - {None}) for p in ("n", "seed")}
        self.rows = [c for c in rows if c["models"] != "*" and c["variant"] in ("current", "conditional")]
        found = {example(pattern, rng) for pattern in sorted({c["models"] for c in rows} - {"*"}) for _ in range(3)} - {None}
        self.models = sorted(found | ({source["stand_in"]} if source.get("stand_in") else set()) | {"model-nobody-knows"})
        listed = schema_models(name)
        self.models = [m for m in self.models if m in listed] or listed if listed else self.models

    def about(self, model):
        return [c for c in self.rows if re.search(c["models"], model) and is_possible(c["when"])]

    def has_ended(self, model, day):
        """whether all that is claimed of that very model, or else of the one that stands in for it, has ended"""
        about, stand_in = self.about(model), self.source.get("stand_in")
        if not about:
            return stand_in not in (None, model) and self.has_ended(stand_in, day)
        return not any(holds_on(c, day) for c in about)

    def is_served(self, model, day):
        return not any(c["param"] == "endpoint" and c["support"] in ("rejected", "absent") and holds_on(c, day) for c in self.about(model))


def holds_on(c, day):
    """a day "2026-08" ends with its month"""
    return (not c["valid_from"] or c["valid_from"] <= day) and (not c["valid_to"] or day[:len(c["valid_to"])] <= c["valid_to"])


def is_possible(when):
    """a condition on a provider's own switch, which no request sets, holds where its absence fulfils it"""
    if not when or when["param"] in MAKE:
        return True
    return "absent" in when["in"] if when.get("in") else "absent" not in when["not_in"]


def schema_models(name):
    """the models that an official schema lists, where it lists them"""
    try:
        with open(f"../shared/wire/schemas/{name}-request.schema.json", encoding="utf-8") as f:
            return json.load(f).get("properties", {}).get("model", {}).get("enum", [])
    except OSError:
        return []


def providers(rng):
    import glob
    out = []
    for path in sorted(glob.glob("catalog/providers/*.json")):
        with open(path, encoding="utf-8") as f:
            source = json.load(f)["provider"]
        if not source.get("is_local"):
            out.append(Provider(source["id"], source, rng))
    return out


def policy(rng):
    p = {}
    if rng.random() < 0.5:
        p["on_out_of_range"] = rng.choice(["clamp"] * 6 + ["reject", "local"])
    p["on_unsupported"] = rng.choice(["drop"] * 20 + ["local", "reject", None])
    if rng.random() < 0.05:
        p["on_many"] = rng.choice(["calls", "local"])
    if rng.random() < 0.3:
        p["allow_retired"] = True
    if rng.random() < 0.1:
        p["require"] = [rng.choice(["temperature", "top_p", "seed", "response_format", "tools", "stop", "n", "max_completion_tokens"])]
    return {k: v for k, v in p.items() if v is not None}


def token_of(number):
    return f"case-{number:08d}-"


def made(number, p, model, body, wrong=None):
    return {"number": number, "token": token_of(number), "provider": p, "wrong": wrong, "retired": p.has_ended(model, DAY), "served": p.is_served(model, DAY),
            "body": dict(body, model=f"{p.name}/{model}")}


def value_that(asks, name):
    """the first that asks for something, or for nothing; None: there is none"""
    rng = random.Random(name)
    return next((v for v in (MAKE[name](rng) for _ in range(100)) if is_neutral(name, v) != asks), None)


def pairs_in_one_field(p):
    """-> the values of two parameters that a provider has in one field: each that asks for nothing beside each that does, both, neither"""
    for a, b in itertools.combinations(sorted(set(p.paths) & set(MAKE)), 2):
        if set(p.paths[a]) & set(p.paths[b]):
            for a_asks, b_asks in itertools.product((True, False), repeat=2):
                values = {a: value_that(a_asks, a), b: value_that(b_asks, b)}
                if None not in values.values() and (values.get("logprobs", True) or not values.get("top_logprobs")):
                    yield values


def field_cases(first, all_providers):
    """what random requests seldom meet, at every model: two parameters for one field"""
    wanted = [(p, model, values) for p in all_providers for values in pairs_in_one_field(p) for model in p.models]
    return [made(i, p, model, {"messages": [{"role": "user", "content": f"Tell a story about {token_of(i)}"}],
                               "isotherm": {"on_unsupported": "drop", "allow_retired": True}, **values})
            for i, (p, model, values) in enumerate(wanted, first)]


def case(number, rng, all_providers):
    p = rng.choice(all_providers)
    if rng.random() < 0.5:  # most providers speak one dialect: the others come as often as it
        dialect = rng.choice(sorted({q.dialect for q in all_providers}))
        p = rng.choice([q for q in all_providers if q.dialect == dialect])
    messages = [{"role": "user", "content": f"Tell a story about {token_of(number)} please, as JSON"}]
    if rng.random() < 0.3:
        messages.insert(0, {"role": "system", "content": "Be short"})
    model = rng.choice(p.models)
    body = {"model": None, "messages": messages, "isotherm": policy(rng)}
    names = rng.sample(sorted(MAKE), rng.randint(1, 16))
    for name in names:
        body[name] = MAKE[name](rng)
    if "max_tokens" not in body and body["isotherm"].get("on_unsupported", "local") == "local":
        body["max_tokens"] = 2  # what the local engine answers is to be short
    if body.get("top_logprobs"):
        body["logprobs"] = True
    if body.get("no_repeat_ngram_size") and "response_format" in body:
        body["no_repeat_ngram_size"] = 64  # JSON repeats its quotes: with a small one the local engine finds no token, and says so
    if body.get("use_beam_search") or body.get("num_beams", 1) > 1:
        body["n"] = min(body.get("n") or 1, body.get("num_beams", 64))
    if "best_of" in body:
        body["best_of"] = max(body["best_of"], body.get("n", 1))
    if body.get("min_tokens"):
        body["min_tokens"] = min(body["min_tokens"], body.get("max_tokens", 9), body.get("max_completion_tokens", 9))
    if rng.random() < 0.5:
        body["stream"] = rng.random() < 0.7
    if body.get("stream") and body.get("best_of", 1) > body.get("n", 1):
        del body["best_of"]
    for name in ("temperature", "seed", "stop", "n"):
        if name not in body and rng.random() < 0.03:
            body[name] = None
    if rng.random() < 0.1:
        body["x_" + rng.choice("abc")] = rng.choice([1, "two", [3], {"four": 4}])
    wrong = None
    if rng.random() < 0.03:
        wrong = rng.choice(sorted(WRONG))
        body[wrong] = rng.choice(WRONG[wrong])
        if wrong == "max_tokens":  # beside its newer name the older one counts for nothing
            body.pop("max_completion_tokens", None)
        if wrong == "num_beams":
            body.pop("n", None)
        if wrong in ("n", "num_beams"):
            body.pop("best_of", None)
        if wrong == "top_logprobs":
            body["logprobs"] = True
    keys = list(body)
    rng.shuffle(keys)
    return made(number, p, model, {k: body[k] for k in keys}, wrong)


def cases(seed, first, n, all_providers):
    return [case(i, random.Random(f"{seed}/{i}"), all_providers) for i in range(first, first + n)]
