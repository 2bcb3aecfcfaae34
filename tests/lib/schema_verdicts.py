#!/usr/bin/env python3
"""What python3-jsonschema says of bodies: one line each on standard output, `SCHEMA<tab>valid|invalid<tab>BODY`. The bodies are every sample request, every
body that a dialect is known to write, and mutations of them, the same at each run. Ends with status 3 and a word about it where something is missing."""
import copy
import glob
import json
import os
import random
import sys

sys.path.insert(0, "tests/lib")
SHARED = "../shared/wire"
PER_BODY = int(os.environ.get("MUTATIONS", "12"))
VALUES = [None, True, False, 0, 1, -1, 2.5, 1e9, 4.0, "", "auto", "text", "user", "x" * 300, [], {}, [1], ["a", "b"], {"type": "text"}, {"type": "object", "x": 1}]

try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is not installed")
    sys.exit(3)
if not os.path.isdir(f"{SHARED}/schemas"):
    print("the official schemas are not here")
    sys.exit(3)


def relaxed(schema):
    if isinstance(schema, dict):
        return {"anyOf" if k == "oneOf" else k: relaxed(v) for k, v in schema.items()}
    return [relaxed(v) for v in schema] if isinstance(schema, list) else schema


def validator(path):
    with open(path) as f:
        schema = relaxed(json.load(f))
    return jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)(schema)


def places(v, at=()):
    yield at
    if isinstance(v, dict):
        for k in v:
            yield from places(v[k], at + (k,))
    elif isinstance(v, list):
        for i, x in enumerate(v):
            yield from places(x, at + (i,))


def mutated(rng, body):
    body = copy.deepcopy(body)
    at = rng.choice(list(places(body)))
    if not at:
        if isinstance(body, dict):
            body[rng.choice(["seed", "top_k", "unknown", "n", "temperature", "stop", "tools"])] = rng.choice(VALUES)
        return body
    parent = body
    for k in at[:-1]:
        parent = parent[k]
    old, kind = parent[at[-1]], rng.random()
    if kind < 0.25:
        del parent[at[-1]]
    elif kind < 0.4 and isinstance(parent, dict):
        parent["added" if rng.random() < 0.5 else "type"] = rng.choice(VALUES)
    elif kind < 0.6 and isinstance(old, (int, float)) and not isinstance(old, bool):
        parent[at[-1]] = rng.choice([-old, old * 1000, old + 0.5, float(old), 0, -0.001, 1, 2, 2.0001])
    elif kind < 0.7 and isinstance(old, list):
        parent[at[-1]] = (old * 80)[: rng.choice([0, 1, 2, 5, 70])]
    elif kind < 0.8 and isinstance(old, str):
        parent[at[-1]] = rng.choice([old + "x", old[:1], "", "äöü" * 30, "a b", "no-such"])
    else:
        parent[at[-1]] = rng.choice(VALUES)
    return body


def bodies(name):
    provider = name.split("-request")[0]
    found = sorted(glob.glob(f"{SHARED}/samples/{provider}/*request*.json")) + [f"{SHARED}/samples/_native-translation/openai-request.json"]
    for path in found:
        with open(path) as f:
            yield json.load(f)
    for path in sorted(glob.glob("tests/golden/encode/*/*/want.json"))[:: 1 if provider in ("openai", "anthropic") else 6]:
        with open(path) as f:
            want = json.load(f)
        if isinstance(want.get("body"), dict):
            yield want["body"]


rng = random.Random(17)
for path in sorted(glob.glob(f"{SHARED}/schemas/*.json")):
    check = validator(path)
    for body in bodies(os.path.basename(path)):
        is_right = check.is_valid(body)  # what is wrong as it is says little more when it is changed
        for i in range(PER_BODY + 1 if is_right else 2):
            one = body if i == 0 else mutated(rng, body)
            verdict = "valid" if check.is_valid(one) else "invalid"
            print(f"{path}\t{verdict}\t{json.dumps(one)}")
