// What the comparisons with other people's programs share: packages from build/node-reference, and our side of them.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

export const build = process.env.BUILD ?? "build";
const place = "build/node-reference";

export function skip(what, why) {
  if (process.env.REQUIRE_SDK) throw new Error(`${what}: ${why}`);
  console.log(`1..1\nok 1 - ${what} # SKIP ${why.trim().replace(/\s+/g, " ")}`);
  process.exit(0);
}

// The first package as a module; of all of them the folders, and `load` for other modules of theirs. Where npm gave none, the whole file is skipped and says so.
export async function packages(...names) {
  if (!existsSync(`${place}/installed`)) {
    skip(names.join(", "), existsSync(`${place}/why-not`) ? `npm gave nothing: ${readFileSync(`${place}/why-not`, "utf8")}` : `npm did not run: make ${place}/installed`);
  }
  const missing = names.find((name) => !existsSync(join(place, "node_modules", name)));
  if (missing) skip(names.join(", "), `npm has no ${missing} for this processor`);
  const { default: load } = await import(pathToFileURL(resolve(place, "load.mjs")));
  return { modules: [await load(names[0])], load, folder: (name) => join(place, "node_modules", name) };
}

// A folder that goes when the program ends.
export function temporary() {
  const folder = mkdtempSync(join(tmpdir(), "isotherm-reference-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

// [{ids, bytes}] of texts (buffers).
export async function ourTokens(path, texts) {
  const child = spawn(join(build, "reference/tokenize_texts"), [path], { stdio: ["pipe", "pipe", "inherit"] });
  const got = [];
  child.stdout.on("data", (part) => got.push(part));
  const ended = new Promise((done, fail) => child.on("close", done).on("error", fail));
  child.stdin.on("error", () => {}); // it says why it ended
  child.stdin.end(Buffer.concat(texts.flatMap((text) => [u32(text.length), text])));
  const status = await ended;
  const out = Buffer.concat(got);
  const at = out.indexOf("\n") + 1;
  if (status !== 0 || out.toString("utf8", 0, at) !== "ready\n") throw new Error(`tokenize_texts ${path}: ${status} ${out.toString("utf8", 0, at)}`);
  return answers(out, at, texts.length);
}

function u32(n) {
  const b = Buffer.alloc(4);
  b.writeUInt32LE(n);
  return b;
}

function answers(out, at, n) {
  const list = [];
  for (let i = 0; i < n; i++) {
    const nIds = out.readUInt32LE(at);
    const ids = Array.from({ length: nIds }, (_, k) => out.readInt32LE(at + 4 + 4 * k));
    at += 4 + 4 * nIds;
    const len = out.readUInt32LE(at);
    list.push({ ids, bytes: out.subarray(at + 4, at + 4 + len) });
    at += 4 + len;
  }
  if (at !== out.length) throw new Error(`tokenize_texts: ${out.length - at} bytes too many`);
  return list;
}

// A .gguf file without tensors: pairs of a key and {type: value} with a type of the format.
const scalars = { u32: [4, 4, "writeUInt32LE"], i32: [5, 4, "writeInt32LE"], f32: [6, 4, "writeFloatLE"], bool: [7, 1, "writeUInt8"] };

function ggufValue(type, value) {
  if (type === "string") return Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
  const [, size, write] = scalars[type];
  const b = Buffer.alloc(size);
  b[write](Number(value));
  return b;
}

function u64(n) {
  const b = Buffer.alloc(8);
  b.writeBigUInt64LE(BigInt(n));
  return b;
}

const ggufType = (type) => (type === "string" ? 8 : scalars[type][0]);

export function gguf(pairs) {
  const parts = [Buffer.from("GGUF"), u32(3), u64(0), u64(Object.keys(pairs).length)];
  for (const [key, typed] of Object.entries(pairs)) {
    const [[type, value]] = Object.entries(typed);
    parts.push(ggufValue("string", key));
    if (Array.isArray(value)) parts.push(u32(9), u32(ggufType(type)), u64(value.length));
    else parts.push(u32(ggufType(type)));
    for (const v of [value].flat()) parts.push(ggufValue(type, v));
  }
  return Buffer.concat(parts);
}
