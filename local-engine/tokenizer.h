/* tokenizer.h - text <-> token ids, from a Hugging Face tokenizer.json (of a .gguf file's metadata:
 * tokenizer_gguf.h). Immutable after loading; safe to share between threads.
 *
 * Three kinds: byte-level BPE (GPT-2 and its kin: pre-tokenisation by regular expression, bytes as
 * printable characters), and in SentencePiece's manner (spaces as U+2581, byte fallback <0xNN>) BPE
 * and Unigram. Ordinary text never becomes a special token: the spelling of one in a user's text is
 * encoded as text. Three exceptions to "the ids of a text give back its bytes": a vocabulary that
 * normalizes (NFC, lower case ...), U+2581 itself in SentencePiece's manner, which comes back as a
 * space, and the unknown token of one without byte fallback.
 */
#ifndef ISOTHERM_TOKENIZER_H
#define ISOTHERM_TOKENIZER_H

#include "engine_error.h"
#include <stddef.h>
#include <stdint.h>

struct tokenizer;
/* Reads FOLDER/tokenizer.json (and tokenizer_config.json, generation_config.json, config.json for
 * bos, eos, add_bos_token where they are there). */
ENGINE_WARN_UNUSED bool tokenizer_open(struct tokenizer **out, const char *folder,
                                       struct engine_error *err);
/* In two steps, for who may open nothing later: the files, mapped and looked at, then the tokenizer
 * that they describe, which outlives them. */
struct tokenizer_files;
ENGINE_WARN_UNUSED bool tokenizer_files_open(struct tokenizer_files **out, const char *folder,
                                             struct engine_error *err);
void tokenizer_files_close(struct tokenizer_files *f);
ENGINE_WARN_UNUSED bool tokenizer_files_read(const struct tokenizer_files *f,
                                             struct tokenizer **out, struct engine_error *err);
/* The bytes of tokenizer.json; borrowed. */
const unsigned char *tokenizer_files_json(const struct tokenizer_files *f, size_t *n);
void tokenizer_files_forget(const struct tokenizer_files *f); /* filemap_forget() */
/* The same from bytes in memory, for fuzzing; config may be NULL. */
ENGINE_WARN_UNUSED bool tokenizer_parse(struct tokenizer **out, const char *json, size_t len,
                                        const char *config, size_t config_len,
                                        struct engine_error *err);
void tokenizer_close(struct tokenizer *t);

int32_t tokenizer_n_vocab(const struct tokenizer *t);
int32_t tokenizer_bos(const struct tokenizer *t);   /* -1: none */
bool tokenizer_adds_bos(const struct tokenizer *t); /* whether a sequence begins with it: by the
                                                       post-processor, else add_bos_token */
const int32_t *tokenizer_eos(const struct tokenizer *t, size_t *n);
/* By the file, or because it begins or ends a sequence or a turn of a chat template. */
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
/* The special token that is spelled so, -1: there is none. For templates; text never makes one. */
int32_t tokenizer_find_special(const struct tokenizer *t, const char *spelling);
/* What `is_start` must be for text right after a special token: the older SentencePiece files put a
 * space there, too. */
bool tokenizer_spaces_after_special(const struct tokenizer *t);

/* Ids of `text` (UTF-8; invalid bytes are encoded as they are by byte-level and byte-fallback
 * vocabularies). `is_start`: the beginning of a sequence, where SentencePiece puts a space in
 * front. No bos is added. *ids is yours (free). Time n log n, stack constant. */
ENGINE_WARN_UNUSED bool tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
                                         bool is_start, int32_t **ids, size_t *n_ids,
                                         struct engine_error *err);
/* Bytes that a token adds to the text; special tokens add none. `is_first`: first token of a
 * generated text that follows nothing: SentencePiece's leading space is left out. Borrowed, not
 * NUL-terminated. */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, bool is_first, size_t *len);
/* The spelling in the vocabulary, for people ("Ġthe", "<s>"). Borrowed; NULL out of range. */
const char *tokenizer_spelling(const struct tokenizer *t, int32_t id);

#endif
