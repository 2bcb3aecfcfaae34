// llama.cpp, as node-llama-cpp's prebuilt library for this processor has it: what the package's own JavaScript calls, called directly, because
// that part alone gives the logits of every position and takes float32 for the cache of keys and values. Nothing is compiled or fetched.
import { createRequire } from "node:module";
import { join } from "node:path";

const F32 = 0; // ggml's number of the type
const LOG_ERRORS = 2;

// `library`: the package of the library as a module.
export async function llamaCpp(library) {
  const bins = join(library.getBinsDir().binsDir, "linux-x64");
  const addon = createRequire(import.meta.url)(join(bins, "llama-addon.node"));
  addon.setLogger(() => {});
  addon.setLoggerLogLevel(LOG_ERRORS);
  addon.loadBackends();
  addon.loadBackends(bins); // the variant of the arithmetic that this processor can
  await addon.init();
  return (path, options) => open(addon, path, options);
}

// A model and, but for `vocabOnly`, room for `context` tokens. The caller closes it.
async function open(addon, path, { vocabOnly = false, context = 256 } = {}) {
  const model = new addon.AddonModel(path, { gpuLayers: 0, useMmap: false, vocabOnly });
  if (!(await model.init())) throw new Error(`llama.cpp cannot load ${path}`);
  const tokenize = (text, special = false) => [...model.tokenize(text, special)];
  if (vocabOnly) return { tokenize, close: () => model.dispose() };
  const room = { contextSize: context, batchSize: context, sequences: 1, flashAttention: false, kvCacheKeyType: F32, kvCacheValueType: F32, threads: 1 };
  const ctx = new addon.AddonContext(model, room);
  if (!(await ctx.init())) throw new Error(`llama.cpp makes no context for ${path}`);
  const sampler = new addon.AddonSampler(model);
  sampler.applyConfig({ temperature: 0 });

  // Logits of every one of `ids`, which follow `n` that were given before: [Float32Array]
  async function logits(ids, n = 0) {
    ctx.initBatch(ids.length);
    const rows = [];
    const places = ctx.addToBatch(0, n, Uint32Array.from(ids), Uint32Array.from(ids.keys()));
    await ctx.decodeBatch();
    for (const place of places) {
      const [, , , pairs] = await ctx.sampleToken(place, sampler, false, false, true);
      const row = new Float32Array(pairs.length / 2);
      for (let i = 0; i < pairs.length; i += 2) row[pairs[i]] = pairs[i + 1];
      rows.push(row);
    }
    return rows;
  }

  // The n most likely tokens after `ids`, one at a time, and the rows that all of them were taken from
  async function greedy(ids, n) {
    const rows = await logits(ids);
    const all = [...ids];
    while (all.length < ids.length + n) {
      all.push(argmax(rows.at(-1)));
      rows.push(...(await logits(all.slice(-1), all.length - 1)));
    }
    return { ids: all, rows };
  }

  async function close() {
    sampler.dispose();
    await ctx.dispose();
    await model.dispose();
  }
  return { tokenize, startsWithBos: model.shouldPrependBosToken(), bos: model.tokenBos(), logits, greedy, forget: () => ctx.disposeSequence(0), close };
}

export function argmax(row) {
  let best = 0;
  for (let i = 1; i < row.length; i++) if (row[i] > row[best]) best = i;
  return best;
}
