#!/usr/bin/env -S node --test-reporter=tap
// Answers by JSON schema against the official JSON-Schema-Test-Suite and ajv: under each schema that is taken, documents drawn from random logits are
// valid; each schema that is not taken is refused with a keyword and a pointer that are in it; of the suite's own documents none that is invalid is
// taken, and those that are valid are taken unless one of the restrictions of constrain_schema.h says why not. Then the same for schemas as OpenAI's
// examples, pydantic and zod write them. SCHEMA_SEEDS=N: documents of a schema.
import assert from "node:assert/strict";
import { test } from "node:test";
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { build, packages, skip } from "./reference.mjs";
import { explain } from "./schema_restrictions.mjs";

const N_SEEDS = Number(process.env.SCHEMA_SEEDS ?? 50);
const suite = "/usr/share/perl5/auto/share/dist/Test-JSON-Schema-Acceptance/tests"; // Debian: libtest-json-schema-acceptance-perl
const drafts = ["draft2020-12", "draft7"];
const found = await packages("ajv", "ajv-formats");
if (!existsSync(suite)) skip("JSON-Schema-Test-Suite", "libtest-json-schema-acceptance-perl is not installed: make check-reference");
const { default: addFormats } = await found.load("ajv-formats");
const Ajv = { "draft2020-12": (await found.load("ajv/dist/2020.js")).default, draft7: found.modules[0].default };

function filesBelow(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((e) => (e.isDirectory() ? filesBelow(join(folder, e.name)) : [join(folder, e.name)]));
}

// [{draft, file, name, schema, tests}]
const groups = drafts.flatMap((draft) =>
  filesBelow(join(suite, draft)).sort().flatMap((path) =>
    JSON.parse(readFileSync(path, "utf8")).map((g) => ({
      draft, file: path.slice(suite.length + 1), name: `${path.slice(suite.length + 1)}: ${g.description}`, schema: g.schema, tests: g.tests,
    }))));

function ours(cases, seeds) {
  const lines = cases.map((c) => JSON.stringify({ schema: c.schema, seeds, texts: c.tests.map((t) => t.text ?? JSON.stringify(t.data)) }));
  const done = spawnSync(join(build, "reference/schema_texts"), [], { input: `${lines.join("\n")}\n`, maxBuffer: 1 << 30, encoding: "utf8" });
  assert.equal(done.status, 0, done.stderr);
  return done.stdout.trim().split("\n").map((line) => JSON.parse(line));
}

// A format is a condition, unlike in the suite's main files. A $schema of the suite's own making is left out: ajv would have to fetch it.
function validator({ draft, schema }) {
  const ajv = addFormats(new Ajv[draft]({ strict: false, logger: false, meta: false, validateSchema: false, ownProperties: true }));
  const { $schema, ...rest } = schema;
  return ajv.compile(typeof schema === "boolean" ? schema : rest);
}

// The value at a JSON pointer; undefined: there is none.
function at(schema, pointer) {
  const steps = pointer === "" ? [] : pointer.slice(1).split("/").map((s) => s.replaceAll("~1", "/").replaceAll("~0", "~"));
  return steps.reduce((v, step) => (v !== null && typeof v === "object" && Object.hasOwn(v, step) ? v[step] : undefined), schema);
}

const answers = ours(groups, N_SEEDS);
const taken = groups.map((g, i) => ({ ...g, ...answers[i] })).filter((g) => g.refused === undefined);
const refused = groups.map((g, i) => ({ ...g, ...answers[i] })).filter((g) => g.refused !== undefined);
const shown = (list) => list.slice(0, 20).join("\n");

function count(list) {
  const n = new Map();
  for (const x of list) n.set(x, (n.get(x) ?? 0) + 1);
  return [...n].sort((a, b) => b[1] - a[1]).map(([what, k]) => `${what} ${k}`).join(", ");
}

// Of all documents that were drawn under the schemas of a list.
function checkDocuments(t, list) {
  const bad = [];
  let nCut = 0, nDocuments = 0;
  for (const g of list) {
    const isValid = validator(g);
    for (const text of g.documents) {
      if (text === null) nCut++;
      else if (++nDocuments && !isValid(JSON.parse(text))) bad.push(`${g.name}\n  ${JSON.stringify(g.schema)}\n  ${text}`);
    }
  }
  t.diagnostic(`${nDocuments} documents, ${bad.length} invalid, ${nCut} cut at the limit`);
  assert.equal(bad.length, 0, shown(bad));
  assert.ok(nCut < nDocuments / 100, `${nCut} documents were cut`);
}

test("documents drawn under each schema that is taken are valid by ajv", (t) => {
  for (const draft of drafts) {
    const all = groups.filter((g) => g.draft === draft).length, n = taken.filter((g) => g.draft === draft).length;
    t.diagnostic(`${draft}: ${all} schemas, ${n} taken, ${all - n} refused`);
  }
  checkDocuments(t, taken);
});

test("each schema that is not taken is refused with a pointer and a keyword that are in it", (t) => {
  const bad = [];
  const why = refused.map((g) => {
    if (g.refused.startsWith("no JSON: too big")) return "an integer of more than 64 bits";
    const [, pointer, what] = /^'schema': schema at '(.*?)': (.*)$/s.exec(g.refused) ?? [];
    if (pointer === undefined || !(pointer === "" || at(g.schema, pointer) !== undefined)) bad.push(`${g.name}: ${g.refused}`);
    return what?.startsWith("no text") ? "no text" : pointer?.split("/").at(-1);
  });
  t.diagnostic(count(why));
  assert.equal(bad.length, 0, shown(bad));
});

test("of the suite's documents none that is invalid is taken; valid ones are, or a restriction says why not", (t) => {
  const wrong = [], unexplained = [], reasons = [];
  let nTaken = 0, nInvalid = 0;
  for (const g of taken) {
    for (const [i, one] of g.tests.entries()) {
      if (!one.valid && g.file !== "draft7/optional/content.json") { // annotations since 2019-09
        nInvalid++;
        if (g.accepts[i]) wrong.push(`${g.name}: ${one.description}\n  ${JSON.stringify(g.schema)}\n  ${JSON.stringify(one.data)}`);
      } else if (g.accepts[i]) {
        nTaken++;
      } else if (one.valid) {
        const reason = explain(g, one.data, validator, (texts) => ours([{ schema: g.schema, tests: texts.map((data) => ({ data })) }], 0)[0].accepts);
        reasons.push(reason ?? "unexplained");
        if (!reason) unexplained.push(`${g.name}: ${one.description}\n  ${JSON.stringify(g.schema)}\n  ${JSON.stringify(one.data)}`);
      }
    }
  }
  t.diagnostic(`${nInvalid} invalid documents, ${wrong.length} taken; ${nTaken} valid ones taken, others not: ${count(reasons)}`);
  assert.equal(wrong.length, 0, shown(wrong));
  assert.equal(unexplained.length, 0, shown(unexplained));
});

const clients = JSON.parse(readFileSync("tests/vectors/client-schemas.json", "utf8")).map((c) => ({
  ...c, draft: "draft2020-12", tests: [...c.yes, ...c.no].map((text) => ({ text })),
}));
const answersToClients = ours(clients, N_SEEDS);

test("schemas as clients write them are taken, and their documents are valid by ajv", (t) => {
  const list = clients.map((c, i) => ({ ...c, ...answersToClients[i] }));
  assert.deepEqual(list.filter((c) => c.refused !== undefined).map((c) => `${c.name}: ${c.refused}`), []);
  for (const c of list) {
    const isValid = validator(c);
    assert.deepEqual(c.accepts, [...c.yes.map(() => true), ...c.no.map(() => false)], c.name);
    assert.deepEqual(c.yes.filter((text) => !isValid(JSON.parse(text))), [], c.name);
  }
  t.diagnostic(`${list.length} schemas`);
  checkDocuments(t, list);
});
