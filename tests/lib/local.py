"""What tests ask local models of a daemon, and how they read the answers."""
import json

from e2e import eq


def strict(body):
    """what a reader of JSON without extensions makes of it"""
    def refuse(word):
        raise AssertionError(f"no JSON: {word}")
    return json.loads(body, parse_constant=refuse)


def texts(answer):
    return [c["message"]["content"] for c in answer["choices"]]


def refused(r, param, code=None):
    eq((r.status, r.error()["param"]), (400, param), r.body[:500])
    if code:
        eq(r.error()["code"], code, r.body)


class Local:
    """asks the models of one daemon, or of another where one is given"""

    def __init__(self, http):
        self.http = http

    def ask(self, model, content="A", client=None, **more):
        r = (client or self.http).chat("local/" + model, content, **more)
        eq(r.status, 200, (model, more, r.body[:500]))
        return strict(r.body)

    def complete(self, model, prompt, client=None, **more):
        return (client or self.http).request("POST", "/v1/completions", dict({"model": "local/" + model, "prompt": prompt}, **more))

    def prompt_tokens(self, model, content, **more):
        return self.ask(model, content, max_tokens=1, **more)["usage"]["prompt_tokens"]
