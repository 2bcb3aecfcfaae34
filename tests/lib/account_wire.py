"""What a provider was asked, read from the bytes it saw: body -> parameters under their canonical names, and what is left over.

Written from the providers' own guides, independently of the planner and the encoders. Where a parameter has one plain value its places are the
wire paths of the catalog's claims; where an API has a shape of its own (tools, formats, thinking ...) there is a function here.
"""
import json

# What every body holds beside parameters: model, conversation, how the answer is to come.
STRUCTURE = {"model", "messages", "contents", "system", "systemInstruction", "input", "instructions", "prompt", "instances", "stream", "stream_options",
             "anthropic_version"}
# What a dialect writes for ends of its own, so that the answer has the form that is read (path -> value).
OWN = {
    "dashscope": {"parameters.result_format": "message", "parameters.incremental_output": True},
    "palm": {},
    "responses": {"store": False},
}
MISSING = object()


def at(body, path, default=MISSING):
    for key in path.split("."):
        if not isinstance(body, dict) or key not in body:
            return default
        body = body[key]
    return body


def take(body, path):
    """removes and returns; objects that become empty go too"""
    *way, last = path.split(".")
    inner, chain = body, []
    for key in way:
        chain.append((inner, key))
        inner = inner[key]
    value = inner.pop(last)
    for outer, key in reversed(chain):
        if outer[key] == {}:
            del outer[key]
    return value


def leaves(value, path=""):
    if isinstance(value, dict) and value:
        for k, v in value.items():
            yield from leaves(v, f"{path}.{k}" if path else k)
    else:
        yield path, value


class Reader:
    """found: canonical name -> value; where: canonical name -> path; left: path -> value that nothing here explains"""

    def __init__(self, dialect, paths, body, asked):
        self.body = json.loads(json.dumps(body))
        self.found, self.where = {}, {}
        self.dialect, self.paths, self.asked, self.is_raw = dialect, paths, asked, "prompt" in body
        for key in STRUCTURE:
            self.body.pop(key, None)
        if dialect == "dashscope":
            self.grab("input", None)
        getattr(self, f"read_{dialect}", self.read_openai)()
        self.read_plain()
        for path, value in OWN.get(dialect, {}).items():
            if at(self.body, path) == value:
                take(self.body, path)
        self.left = dict(leaves(self.body)) if self.body else {}

    def grab(self, path, name, turn=lambda v: v):
        """the value at that path, taken out, as parameter `name`"""
        if at(self.body, path) is MISSING:
            return False
        value = take(self.body, path)
        if name:
            self.found[name], self.where[name] = turn(value), path
        return True

    def read_plain(self):
        """parameters with one plain value; where two have one place it is that of the one whose value stands there"""
        def rank(name):
            places = [at(self.body, path) for path in self.paths[name]]
            return (name not in self.asked, self.asked.get(name) not in places, name)
        order = sorted(self.paths, key=rank)
        for name in order:
            for path in self.paths[name]:
                value = at(self.body, path)
                if name in self.found or name == "response_format" or value is MISSING or isinstance(value, dict) and name not in ("logit_bias", "metadata", "prediction"):
                    continue
                self.grab(path, name)

    # ---- shapes of each API

    def read_openai(self, root=""):
        self.grab(root + "tools", "tools", tools_of)
        self.grab(root + "tool_choice", "tool_choice", choice_of)
        self.grab(root + "response_format", "response_format", format_of)
        value = at(self.body, root + "logprobs")
        if isinstance(value, int) and not isinstance(value, bool):  # a number of alternatives
            self.read_count(root + "logprobs", value)

    def read_count(self, path, value):
        """a number of alternatives says both; with what the token alone takes (1, of raw completions 0) it says `logprobs` and nothing else: a
        top_logprobs of 0 is then no value that stands there under another name"""
        alone = 0 if self.is_raw else 1
        self.found["logprobs"], self.where["logprobs"] = value >= alone, path
        if self.asked.get("top_logprobs") or value > alone:
            self.found["top_logprobs"], self.where["top_logprobs"] = value, path
        take(self.body, path)

    def read_dashscope(self):
        self.read_openai("parameters.")

    read_tgi = read_openai

    def read_responses(self):
        self.grab("text.format", "response_format", format_of)
        self.grab("include", "logprobs", lambda v: v == ["message.output_text.logprobs"])
        self.read_openai()

    def read_anthropic(self):
        self.grab("tools", "tools", tools_of)
        self.grab("tool_choice.disable_parallel_tool_use", "parallel_tool_calls", lambda v: not v)
        if self.asked.get("tool_choice") != "auto" and at(self.body, "tool_choice") == {"type": "auto"} and "parallel_tool_calls" in self.found:
            take(self.body, "tool_choice")  # the object that the switch stands in: what holds without it
        self.grab("tool_choice", "tool_choice", choice_of)
        self.grab("output_config.format", "response_format", format_of)

    def read_google(self):
        self.grab("tools", "tools", tools_of)
        self.grab("toolConfig.functionCallingConfig", "tool_choice", choice_of)
        for key in ("responseJsonSchema", "responseSchema"):
            self.grab("generationConfig." + key, "response_format", lambda v: ("schema", names_in(v)))
        if "response_format" not in self.found and at(self.body, "generationConfig.responseMimeType") == "application/json":
            self.grab("generationConfig.responseMimeType", "response_format", lambda v: ("object",))
        self.grab("generationConfig.thinkingConfig.thinkingLevel", "reasoning_effort", str.lower)

    def read_converse(self):
        self.grab("toolConfig.tools", "tools", tools_of)
        self.grab("toolConfig.toolChoice", "tool_choice", choice_of)
        self.grab("outputConfig.textFormat", "response_format", format_of)

    def read_cohere(self):
        self.grab("strict_tools", None)
        if at(self.body, "thinking.type") == "disabled":
            self.grab("thinking.type", "reasoning_effort", lambda v: "none")
        self.read_openai()

    def read_ollama(self):
        self.grab("format", "response_format", lambda v: ("object",) if v == "json" else ("schema", names_in(v)))
        if at(self.body, "think") is False and self.asked.get("reasoning_effort") == "none":
            self.grab("think", "reasoning_effort", lambda v: "none")  # a level, or whether at all
        self.read_openai()

    def read_palm(self):
        value = at(self.body, "parameters.logprobs")
        if value is not MISSING:
            self.read_count("parameters.logprobs", value)

    def read_engine(self):
        for key in ("op", "id", "kind", "prompt_ids"):
            self.body.pop(key, None)
        self.read_openai()


# ---- structured values, in one form whatever the API: enough to tell that what was asked is what was sent

def names_in(schema):
    """the names of a schema's properties, at any depth"""
    if isinstance(schema, dict):
        own = list(schema.get("properties", {})) if isinstance(schema.get("properties"), dict) else []
        return tuple(sorted(own + [n for v in schema.values() for n in names_in(v)]))
    if isinstance(schema, list):
        return tuple(sorted(n for v in schema for n in names_in(v)))
    return ()


def tools_of(value):
    out = []
    for tool in value or []:
        for declared in tool.get("functionDeclarations", [tool]):
            f = declared.get("function") or declared.get("toolSpec") or declared
            schema = next((f[k] for k in ("parameters", "input_schema", "parametersJsonSchema", "inputSchema") if k in f), {})
            out.append((f.get("name"), f.get("description"), names_in(schema.get("json", schema) if isinstance(schema, dict) else schema)))
    return out


def choice_of(value):
    if isinstance(value, str):
        return {"any": "required"}.get(value.lower(), value.lower())
    if "mode" in value:
        names = value.get("allowedFunctionNames")
        return "fn:" + names[0] if names else choice_of(value["mode"])
    f = value.get("function") or value.get("tool") or (value if value.get("type") in ("function", "tool") else None)
    if f:
        return "fn:" + f["name"]
    return choice_of(value["type"]) if "type" in value else choice_of(next(iter(value)))


def format_of(value):
    kind = value.get("type") if isinstance(value, dict) else value
    if isinstance(value, dict) and "structure" in value:  # Converse: the schema is a text
        return ("schema", names_in(json.loads(value["structure"]["jsonSchema"]["schema"])))
    if kind == "json_object" and not (value.get("json_schema") or value.get("schema") or value.get("value")):
        return ("object",)
    return ("schema", names_in(value))
