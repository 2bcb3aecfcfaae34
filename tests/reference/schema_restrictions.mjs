// Why a valid document is none that we write: the restrictions of constrain_schema.h, each as a stricter schema or as another way to write the document.
const about = {
  object: ["properties", "patternProperties", "additionalProperties", "required", "propertyNames"],
  array: ["items", "prefixItems", "minItems", "maxItems", "uniqueItems"],
  string: ["minLength", "maxLength", "pattern", "format"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
};
const decided = ["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"];
const inner = { one: ["items", "additionalProperties", "propertyNames"], list: ["prefixItems", "anyOf", "oneOf", "allOf"], map: ["properties", "patternProperties", "$defs", "definitions"] };

// The schema with `change` made to each of its schemas, from the leaves up.
function changed(schema, change) {
  if (schema === null || typeof schema !== "object" || Array.isArray(schema)) return schema;
  const out = { ...schema };
  for (const k of inner.one) if (k in out) out[k] = changed(out[k], change);
  for (const k of inner.list) if (Array.isArray(out[k])) out[k] = out[k].map((s) => changed(s, change));
  for (const k of inner.map) if (out[k]) out[k] = Object.fromEntries(Object.entries(out[k]).map(([name, s]) => [name, changed(s, change)]));
  return change(out);
}

function withTypes(s) {
  const types = Object.keys(about).filter((type) => about[type].some((k) => k in s));
  return types.length > 0 && !decided.some((k) => k in s) ? { ...s, type: types } : s;
}

function closed(s) {
  return ("properties" in s || "patternProperties" in s) && !("additionalProperties" in s) ? { ...s, additionalProperties: false } : s;
}

function permutations(list) {
  return list.length < 2 ? [list] : list.flatMap((x, i) => permutations(list.toSpliced(i, 1)).map((rest) => [x, ...rest]));
}

function reordered(data) {
  if (data === null || typeof data !== "object" || Array.isArray(data)) return [];
  const entries = Object.entries(data);
  return entries.length > 5 ? [] : permutations(entries).map((e) => Object.fromEntries(e));
}

const numbersOf = (data) => (typeof data === "number" ? [data] : data !== null && typeof data === "object" ? Object.values(data).flatMap(numbersOf) : []);

// Spellings that constrain_format.c leaves out.
const rare = { time: /:60|[tz]/, "date-time": /:60|[tz]/, ipv6: /\./, email: /\..*\..*@/, hostname: /--|[^.]{50}/, uri: /^[a-z]+:[^/]|--|@|\[/ };

// The reason; undefined: there is none that we know of.
export function explain({ draft, schema }, data, validator, accepts) {
  const isValidBy = (s) => {
    try {
      return validator({ draft, schema: s })(data);
    } catch {
      return true;
    }
  };
  if (!isValidBy(schema)) return "a format is a condition";
  if (!isValidBy(changed(schema, withTypes))) return "a type that the keywords are not about";
  if (!isValidBy(changed(schema, closed))) return "properties that nothing names";
  if (numbersOf(data).some((x) => !Number.isSafeInteger(x) && /e|\d{16}/.test(String(x)))) return "a number of many digits";
  if (typeof data === "string" && rare[schema.format]?.test(data)) return "a rare spelling of a format";
  const others = reordered(data);
  if (others.length > 1 && accepts(others).some((ok) => ok)) return "the order of properties";
  return undefined;
}
