/* tokenizer_added.c - the list added_tokens of tokenizer.json. It is gone through twice: first the
 * tokens get their places in the vocabulary, and, once bos and eos are known, those that are not
 * special go into the tables that find them in text.
 *
 * A token that is `normalized` is found in normalized text, and its own spelling is normalized for
 * that: Hugging Face's order.
 */
#include "tokenizer_private.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    const char *text;
    size_t len;
    int64_t id;
    bool is_special, is_normalized;
    struct added_token flags;
};

static bool fail_entry(struct engine_error *err, size_t index, const char *why)
{
    return engine_fail(err, ENGINE_BAD_FILE, "", "tokenizer.json: added_tokens[%zu]: %s", index,
                       why);
}

static bool read_entry(const json_t *j, size_t index, struct entry *e, struct engine_error *err)
{
    const char *const names[] = {"special", "normalized", "single_word", "lstrip", "rstrip"};
    const json_t *text = json_object_get(j, "content"), *id = json_object_get(j, "id");
    bool flags[5];
    for (size_t i = 0; i < 5; i++) {
        const json_t *flag = json_object_get(j, names[i]);
        if (flag && !json_is_boolean(flag)) {
            return fail_entry(err, index, "a flag is neither true nor false");
        }
        flags[i] = json_is_true(flag);
    }
    if (!json_is_string(text) || json_string_length(text) == 0 ||
        json_string_length(text) > ADDED_TEXT_MAX) {
        return fail_entry(err, index, "content is not a string of 1 to 256 bytes");
    }
    if (!json_is_integer(id)) {
        return fail_entry(err, index, "id is not an integer");
    }
    *e = (struct entry){.text = json_string_value(text),
                        .len = json_string_length(text),
                        .id = json_integer_value(id),
                        .is_special = flags[0],
                        .is_normalized = flags[1],
                        .flags = {.single_word = flags[2], .lstrip = flags[3], .rstrip = flags[4]}};
    return true;
}

/* Places in the vocabulary; a token that is there already must have the same id. */
static bool register_entry(struct tokenizer *t, const struct entry *e, size_t index,
                           struct engine_error *err)
{
    if (vocab_find(&t->vocab, e->text, e->len) == e->id) {
        return true;
    }
    enum vocab_result r = vocab_add(&t->vocab, e->text, e->len, e->id);
    return r == VOCAB_DONE || fail_entry(err, index, vocab_result_text(r));
}

bool tokenizer_added_register(struct tokenizer *t, const json_t *list, struct engine_error *err)
{
    const json_t *item;
    size_t i;
    struct entry e;
    if (!json_is_null(list) &&
        (!json_is_array(list) || json_array_size(list) > TOKENIZER_ADDED_MAX)) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "tokenizer.json: added_tokens is not a list of at most %d",
                           TOKENIZER_ADDED_MAX);
    }
    json_array_foreach (list, i, item) {
        if (!read_entry(item, i, &e, err) || !register_entry(t, &e, i, err)) {
            return false;
        }
    }
    t->flags = calloc(t->vocab.n_ids, 1);
    if (!t->flags) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    json_array_foreach (list, i, item) {
        if (!read_entry(item, i, &e, err)) {
            return false;
        }
        t->flags[e.id] =
            (uint8_t)(t->flags[e.id] | TOKENIZER_ADDED | (e.is_special ? TOKENIZER_SPECIAL : 0));
    }
    return true;
}

static bool add_normalized(struct tokenizer *t, const struct entry *e, struct engine_error *err)
{
    const char *s = e->text;
    size_t len = e->len;
    char *composed = NULL, *spaced = NULL;
    bool done = normalize_run(&t->normal, s, len, &composed, &len, err);
    s = composed ? composed : s;
    done = done && (!t->normalizes_spaces ||
                    tokenizer_encode_spaces(t, s, len, t->prefix != TOKENIZER_PREFIX_NONE, &spaced,
                                            &len, err));
    s = spaced ? spaced : s;
    if (done && len > 0 && !added_add(&t->added_normalized, s, len, &e->flags)) {
        done = engine_fail(err, ENGINE_NOMEM, "", "out of memory");
    }
    free(composed);
    free(spaced);
    return done;
}

bool tokenizer_added_index(struct tokenizer *t, const json_t *list, struct engine_error *err)
{
    const json_t *item;
    size_t i;
    struct entry e;
    json_array_foreach (list, i, item) {
        if (!read_entry(item, i, &e, err)) {
            return false;
        }
        if (t->flags[e.id] & TOKENIZER_SPECIAL) {
            continue;
        }
        e.flags.id = (int32_t)e.id;
        if (e.is_normalized ? !add_normalized(t, &e, err)
                            : !added_add(&t->added, e.text, e.len, &e.flags)) {
            return engine_fail(err, ENGINE_NOMEM, "", "out of memory");
        }
    }
    added_sort(&t->added);
    added_sort(&t->added_normalized);
    return true;
}
