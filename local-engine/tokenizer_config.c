/* tokenizer_config.c - bos and eos from the files beside tokenizer.json, in the order in which
 * Hugging Face's generate() believes them: eos by generation_config.json, config.json, then
 * tokenizer_config.json; bos by the template, tokenizer_config.json, then the others.
 */
#include "tokenizer_private.h"

#include <string.h>

/* A token named by its spelling: "x" or {"content": "x"}. -1: not named; -2: named, but not in the
 * vocabulary. */
static int32_t named_token(const struct tokenizer *t, const json_t *config, const char *name)
{
    const json_t *j = json_object_get(config, name);
    const json_t *text = json_is_object(j) ? json_object_get(j, "content") : j;
    if (!json_is_string(text)) {
        return -1;
    }
    int32_t id = vocab_find(&t->vocab, json_string_value(text), json_string_length(text));
    return id < 0 ? -2 : id;
}

static bool add_eos(struct tokenizer *t, const json_t *j, const char *file,
                    struct engine_error *err)
{
    json_int_t id = json_integer_value(j);
    if (!json_is_integer(j) || id < 0 || (uint64_t)id >= t->vocab.n_ids) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "%s: eos_token_id: not an id of the vocabulary (0 .. %zu)", file,
                           t->vocab.n_ids - 1);
    }
    for (size_t i = 0; i < t->n_eos; i++) {
        if (t->eos[i] == id) {
            return true;
        }
    }
    if (t->n_eos == TOKENIZER_EOS_MAX) {
        return engine_fail(err, ENGINE_BAD_FILE, "", "%s: eos_token_id: more than %d ids", file,
                           TOKENIZER_EOS_MAX);
    }
    t->eos[t->n_eos++] = (int32_t)id;
    return true;
}

/* eos_token_id: an id or a list of them. */
static bool read_eos_ids(struct tokenizer *t, const json_t *config, const char *file,
                         struct engine_error *err)
{
    const json_t *j = json_object_get(config, "eos_token_id"), *item;
    size_t i;
    if (t->n_eos > 0 || !j || json_is_null(j)) {
        return true;
    }
    if (!json_is_array(j)) {
        return add_eos(t, j, file, err);
    }
    json_array_foreach (j, i, item) {
        if (!add_eos(t, item, file, err)) {
            return false;
        }
    }
    return true;
}

static bool read_eos_name(struct tokenizer *t, const json_t *config, struct engine_error *err)
{
    int32_t id = t->n_eos > 0 ? -1 : named_token(t, config, "eos_token");
    if (id == -2) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "tokenizer_config.json: eos_token is not in the vocabulary");
    }
    if (id >= 0) {
        t->eos[t->n_eos++] = id;
    }
    return true;
}

static void read_bos_id(struct tokenizer *t, const json_t *config)
{
    const json_t *j = json_object_get(config, "bos_token_id");
    if (t->bos < 0 && json_is_integer(j) &&
        vocab_spelling(&t->vocab, json_integer_value(j), NULL)) {
        t->bos = (int32_t)json_integer_value(j);
    }
}

static bool read_bos(struct tokenizer *t, bool has_template, const json_t *tokenizer_config,
                     const json_t *generation_config, const json_t *config,
                     struct engine_error *err)
{
    if (t->bos < 0) {
        int32_t id = named_token(t, tokenizer_config, "bos_token");
        t->bos = id >= 0 ? id : -1;
    }
    read_bos_id(t, generation_config);
    read_bos_id(t, config);
    if (has_template) {
        return true;
    }
    t->adds_bos = json_is_true(json_object_get(tokenizer_config, "add_bos_token"));
    return !t->adds_bos || t->bos >= 0 ||
           engine_fail(err, ENGINE_BAD_FILE, "",
                       "tokenizer_config.json: add_bos_token is true, but bos_token is not in the "
                       "vocabulary");
}

/* An added token that ends or begins a sequence must not come out of text, whatever its flag says.
 * One that is an ordinary token as well (a line break as eos) stays ordinary. */
static void mark_special(struct tokenizer *t, int32_t id)
{
    if (id >= 0 && (t->flags[id] & TOKENIZER_ADDED)) {
        t->flags[id] |= TOKENIZER_SPECIAL;
    }
}

bool tokenizer_config_apply(struct tokenizer *t, bool has_template, const json_t *tokenizer_config,
                            const json_t *generation_config, const json_t *config,
                            struct engine_error *err)
{
    if (!read_bos(t, has_template, tokenizer_config, generation_config, config, err) ||
        !read_eos_ids(t, generation_config, "generation_config.json", err) ||
        !read_eos_ids(t, config, "config.json", err) || !read_eos_name(t, tokenizer_config, err)) {
        return false;
    }
    mark_special(t, t->bos);
    for (size_t i = 0; i < t->n_eos; i++) {
        mark_special(t, t->eos[i]);
    }
    return true;
}
