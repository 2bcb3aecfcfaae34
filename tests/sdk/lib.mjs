// What the tests of official SDKs share: packages from build/node, a scripted provider and a daemon on free ports.
//
// A test file is run by node itself with node's own test runner and prints TAP (the first line of each says how). Nothing is waited for by
// sleeping: a program is ready when its line or its /readyz says so.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const build = process.env.BUILD ?? "build";
const folder = mkdtempSync(join(tmpdir(), "isotherm-sdk-"));
const children = [];
export const KEY = "SDK_TEST_KEY"; // the variable that holds the key of a test's provider
process.on("exit", () => {
  for (const child of children) child.kill();
  rmSync(folder, { recursive: true, force: true });
});

function skip(what, why) {
  if (process.env.REQUIRE_SDK) throw new Error(`${what}: ${why}`);
  console.log(`1..1\nok 1 - ${what} # SKIP ${why.trim().replace(/\s+/g, " ")}`);
  process.exit(0);
}

// Why a package is not here.
function absence() {
  const log = ["build/node/all/why-not", "build/node/why-not"].find(existsSync);
  return log ? `npm gave nothing: ${readFileSync(log, "utf8")}` : "npm did not run: make build/node/all/installed";
}

// Packages as modules, in the order of their names. Where npm gave none of them, or this node is too old for one, the whole file is skipped and says so.
export async function packages(...names) {
  const place = ["build/node/all", "build/node"].find((p) => existsSync(`${p}/installed`)) ?? skip(names.join(", "), absence());
  const { default: load } = await import(pathToFileURL(resolve(place, "load.mjs")));
  const found = [];
  for (const name of names) {
    try {
      found.push(await load(name));
    } catch (e) {
      // build/node has only what `make check` needs.
      if (e.code === "ERR_MODULE_NOT_FOUND" && place === "build/node") skip(name, absence());
      if (Number(process.versions.node.split(".")[0]) < 20) skip(name, `node ${process.versions.node} is too old for it: ${e.message}`);
      throw e;
    }
  }
  return found;
}

// Starts a program and waits for the line with its port. `said` goes on growing: its last 200 lines.
function start(program, args, pattern, env = {}) {
  const state = { XDG_STATE_HOME: folder, STATE_DIRECTORY: undefined };
  const child = spawn(join(build, program), args, { env: { ...process.env, ...state, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  const said = [];
  return new Promise((done, fail) => {
    const timer = setTimeout(() => fail(new Error(`${program}: not ready\n${said.join("\n")}`)), 20000);
    child.on("exit", (code) => fail(new Error(`${program} ended with ${code}\n${said.join("\n")}`)));
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        said.push(line);
        if (said.length > 200) said.shift();
        const m = line.match(pattern);
        if (!m) return;
        clearTimeout(timer);
        child.removeAllListeners("exit").on("exit", (code, signal) => console.error(`${program} ended with ${signal ?? code}\n${said.join("\n")}`));
        // Neither the program nor its pipes keep a finished test file alive.
        for (const handle of [child, child.stdout, child.stderr]) handle.unref();
        done({ port: Number(m[1]), said });
      });
    }
  });
}

let catalog;
// The catalog as it is shipped and the providers of the tests.
function testCatalog() {
  if (!catalog) {
    catalog = join(folder, "catalog.db");
    const sources = readdirSync("catalog/providers").sort().map((f) => `catalog/providers/${f}`);
    const made = spawnSync(join(build, "isothermctl"), ["catalog", "build", ...sources, "tests/lib/scripted.json", "-o", catalog]);
    assert.equal(made.status, 0, String(made.stderr));
  }
  return catalog;
}

export async function startMock(...args) {
  const { port } = await start("isotherm-mock", ["--listen", "127.0.0.1:0", ...args], /^listening (\d+)/);
  const url = `http://127.0.0.1:${port}`;
  return {
    url,
    // All that was asked since the last call.
    async log() {
      const seen = await (await fetch(`${url}/log`)).json();
      await fetch(`${url}/log`, { method: "DELETE" });
      return seen;
    },
    // What happens to the next requests, one word for each, in place of what was said before; without words, nothing but answers.
    async script(...next) {
      await fetch(`${url}/script`, { method: "DELETE" });
      const r = await fetch(`${url}/script`, { method: "POST", body: JSON.stringify({ next }) });
      assert.equal(r.status, 200, await r.text());
    },
  };
}

// Each provider is {name, base_url, ...} as in the configuration, `aliases` is {name: target}. -> the address for a client, and the lines of the log.
// The daemon neither asks a provider again nor stops asking: a client sees each failure that a test scripts.
export async function startDaemon(providers, aliases = {}) {
  const file = join(folder, `isotherm-${children.length}.yaml`);
  const config = {
    listen: "127.0.0.1:0",
    catalog_path: testCatalog(),
    records_path: join(folder, `records-${children.length}.db`),
    providers: providers.map((p) => ({ retries: 0, breaker_failures: 0, ...p })),
    aliases: Object.entries(aliases).map(([name, target]) => ({ name, target })),
  };
  writeFileSync(file, JSON.stringify(config)); // JSON is YAML
  const { port, said } = await start("isothermd", ["--config", file], /listening.* port=(\d+)/, { [KEY]: "sk-test" });
  for (let i = 0; (await fetch(`http://127.0.0.1:${port}/readyz`)).status !== 200; i++) {
    assert.ok(i < 400, "the daemon is not ready");
    await sleep(25);
  }
  return { url: `http://127.0.0.1:${port}/v1`, said };
}

// A port where nobody listens.
export async function closedPort() {
  const { createServer } = await import("node:net");
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

// Repeats `condition` until it holds.
export async function until(condition, what) {
  for (let i = 0; i < 400; i++) {
    const value = await condition();
    if (value) return value;
    await sleep(25);
  }
  throw new Error(`not within 10 s: ${what}`);
}

// The names and types of a stream's events, as they are on the wire: SDKs look at one of the two only.
export async function eventNames(address, body, headers = {}) {
  const r = await fetch(address, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json", ...headers } });
  const events = (await r.text()).trim().split("\n\n");
  return events.map((e) => [e.match(/^event: ?(.*)$/m)?.[1], JSON.parse(e.match(/^data: ?(.*)$/m)[1]).type]);
}

// Raw completions by OpenAI's client: log-probabilities cover the text, and a stream is the same text.
export async function streamsWhatIsWhole(client, asked) {
  const whole = await client.completions.create({ ...asked, logprobs: 2 });
  assert.equal(whole.object, "text_completion");
  assert.equal(whole.choices[0].logprobs.tokens.join(""), whole.choices[0].text);
  let text = "";
  for await (const chunk of await client.completions.create({ ...asked, stream: true })) text += chunk.choices[0]?.text ?? "";
  assert.equal(text, whole.choices[0].text);
}
