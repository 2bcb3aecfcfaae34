"""What the end-to-end tests share: a scripted provider and a daemon on free ports, a small HTTP client, and TAP output.

A test is a function registered with @test; main() runs them in order of definition and prints TAP. No sleeping for luck: what is waited for is
a line of output, a port or a state, with a limit.
"""
import atexit
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

BUILD = os.environ.get("BUILD", "build")
TESTS = []
SOAK = float(os.environ.get("SOAK", "0.2"))  # 1: as long as `make soak` has it


def soak(n, least=3):
    """how often something is repeated whose one time is a test already"""
    return max(least, int(n * SOAK))

# Every program that a test starts inherits these: a developer's own catalog and records are neither read nor written.
STATE = tempfile.mkdtemp(prefix="isotherm-state-")
atexit.register(shutil.rmtree, STATE, ignore_errors=True)
os.environ["XDG_STATE_HOME"] = STATE
os.environ.pop("STATE_DIRECTORY", None)


def test(fn):
    TESTS.append(fn)
    return fn


def main():
    print(f"1..{len(TESTS)}")
    failed = 0
    for i, fn in enumerate(TESTS, 1):
        name = fn.__name__.replace("_", " ")
        try:
            fn()
            print(f"ok {i} - {name}", flush=True)
        except Skipped as e:
            print(f"ok {i} - {name} # SKIP {e}", flush=True)
        except BaseException:  # noqa: B902  (an exit inside a test is a failure too)
            failed += 1
            print(f"not ok {i} - {name}", flush=True)
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), flush=True)
    sys.exit(1 if failed else 0)


class Skipped(Exception):
    pass


def eq(got, want, what=""):
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, wanted {want!r}")


def comma_locale():
    """environment of a program whose locale writes a decimal comma; the locale is made where the machine has none"""
    if not shutil.which("localedef"):
        raise Skipped("there is no localedef")
    if subprocess.run(["localedef", "-f", "UTF-8", "-i", "de_DE", f"{STATE}/de_DE.UTF-8"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        raise Skipped("the locale de_DE cannot be made here")
    return {"LOCPATH": STATE, "LC_ALL": "de_DE.UTF-8", "ASAN_OPTIONS": "detect_leaks=0"}  # glibc keeps a copy of LOCPATH


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"not within {seconds} s: {what}")


STARTED = []


@atexit.register
def end_all():
    """nothing that a test has started outlives it"""
    alive = [p for p in STARTED if p.poll() is None]
    for p in alive:
        p.terminate()
    for p in alive:
        try:
            p.wait(10)
        except subprocess.TimeoutExpired:
            p.kill()


class Process:
    """A program whose output is gathered line by line."""

    def __init__(self, args, env=None):
        self.lines = []
        self.p = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  env=dict(os.environ, **(env or {})))
        STARTED.append(self.p)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.p.stdout:
            self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))

    def wait_line(self, pattern, seconds=20):
        def found():
            for line in list(self.lines):
                m = re.search(pattern, line)
                if m:
                    return m
            if self.p.poll() is not None:
                raise AssertionError(f"ended with {self.p.returncode}: " + "\n".join(self.lines[-20:]))
            return None
        return wait_for(found, seconds, f"line {pattern!r} in {self.lines[-20:]}")

    def stop(self, sig=signal.SIGTERM, seconds=15):
        if self.p.poll() is None:
            self.p.send_signal(sig)
            try:
                self.p.wait(seconds)
            except subprocess.TimeoutExpired:
                self.p.kill()
                self.p.wait(5)
                raise AssertionError(f"did not end within {seconds} s of signal {sig}")
        self.reader.join(2)
        return self.p.returncode


class Mock(Process):
    def __init__(self):
        super().__init__([f"{BUILD}/isotherm-mock", "--listen", "127.0.0.1:0"])
        self.port = int(self.wait_line(r"^listening (\d+)").group(1))

    def seen(self):
        return Client(self.port).request("GET", "/log").json()

    def forget(self):
        Client(self.port).request("DELETE", "/log")


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def error(self):
        return self.json()["error"]

    def events(self):
        """data fields of an event stream"""
        out = []
        for block in self.body.decode().split("\n\n"):
            data = [line[5:].lstrip(" ") for line in block.split("\n") if line.startswith("data:")]
            if data:
                out.append("\n".join(data))
        return out

    def text(self, choice=0):
        """the text of a stream"""
        parts = []
        for data in self.events():
            if data == "[DONE]":
                continue
            for c in json.loads(data).get("choices", []):
                if c["index"] == choice:
                    parts.append(c.get("text") or c.get("delta", {}).get("content") or "")
        return "".join(parts)


class Client:
    def __init__(self, port):
        self.port = port

    def request(self, method, path, body=None, headers=None, timeout=30):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        c.request(method, path, data, dict({"content-type": "application/json"} if data else {}, **(headers or {})))
        r = c.getresponse()
        try:
            got = r.read()
        except http.client.IncompleteRead as e:
            got = e.partial
        c.close()
        return Answer(r.status, {k.lower(): v for k, v in r.getheaders()}, got)

    def chat(self, model, content="Once upon a time", **more):
        return self.request("POST", "/v1/chat/completions", dict({"model": model, "messages": [{"role": "user", "content": content}]}, **more))

    def open(self, body, path="/v1/chat/completions"):
        """a socket on which the request was sent, for tests that leave early"""
        s = socket.create_connection(("127.0.0.1", self.port), 10)
        data = json.dumps(body).encode()
        s.sendall(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
        return s


def build_catalog(folder, name="catalog.db", extra=("tests/lib/scripted.json",)):
    db = os.path.join(folder, name)
    sources = sorted(os.path.join("catalog/providers", f) for f in os.listdir("catalog/providers"))
    subprocess.run([f"{BUILD}/isothermctl", "catalog", "build", *sources, *extra, "-o", db], check=True, stdout=subprocess.DEVNULL)
    return db


class Daemon(Process):
    """isothermd with the scripted provider (when `mock` is given) and its own catalog and records."""

    def __init__(self, mock=None, models=(), extra="", folder=None, env=None):
        self.temp = folder or tempfile.mkdtemp(prefix="isotherm-")
        self.db = build_catalog(self.temp) if not os.path.exists(os.path.join(self.temp, "catalog.db")) else os.path.join(self.temp, "catalog.db")
        self.records = os.path.join(self.temp, "records.db")
        self.config = os.path.join(self.temp, "isotherm.yaml")
        text = f"listen: 127.0.0.1:0\ncatalog_path: {self.db}\nrecords_path: {self.records}\n{extra}"
        if mock:
            text += f"providers:\n  - name: scripted\n    base_url: http://127.0.0.1:{mock.port}/v1\n    api_key: SCRIPTED_KEY\n    models: [story]\n"
        if models:
            text += "models:\n" + "".join(f"  - name: {n}\n    path: {p}\n" for n, p in models)
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(text)
        super().__init__([f"{BUILD}/isothermd", "--config", self.config], dict({"SCRIPTED_KEY": "CANARY-UP-1"}, **(env or {})))
        self.port = int(self.wait_line(r"listening.* port=(\d+)").group(1))
        self.http = Client(self.port)
        wait_for(lambda: self.http.request("GET", "/readyz").status == 200, 20, "ready")

    def ctl(self, *args):
        return subprocess.run([f"{BUILD}/isothermctl", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)

    def record(self, request_id):
        got = self.ctl("fingerprints", "show", request_id, "--records", self.records, "--json")
        eq(got.returncode, 0, got.stderr)
        return json.loads(got.stdout)

    def engine_pid(self):
        """the child named isotherm-engine; 0: none"""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                name, rest = open(f"/proc/{pid}/stat", encoding="utf-8").read().split("(", 1)[1].rsplit(")", 1)
            except OSError:
                continue  # it has ended meanwhile
            if name == "isotherm-engine" and int(rest.split()[1]) == self.p.pid and rest.split()[0] != "Z":
                return int(pid)
        return 0
