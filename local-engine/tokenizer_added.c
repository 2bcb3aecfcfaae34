/* tokenizer_added.c - the list added_tokens of tokenizer.json. It is gone through three times:
 * first the tokens get their places in the vocabulary, then their flags, and, once bos and eos are
 * known, those that are not special go into the tables that find them in text. Each time it is read
 * from the file's text, since a list of 100,000 takes a tree of 100 MB.
 *
 * A token that is `normalized` is found in normalized text, and its own spelling is normalized for
 * that: Hugging Face's order.
 */
#include "tokenizer_private.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    char text[ADDED_TEXT_MAX];
    size_t len; /* 0: there was none */
    int64_t id;
    bool has_id, is_special, is_normalized;
    struct added_token flags;
};

static bool fail_entry(struct engine_error *err, size_t index, const char *why)
{
    enum engine_code code = strcmp(why, "out of memory") == 0 ? ENGINE_NOMEM : ENGINE_BAD_FILE;
    return engine_fail(err, code, "", "tokenizer.json: added_tokens[%zu]: %s", index, why);
}

/* ---- reading */

static bool is_word(const struct jsonscan_span *s, const char *word)
{
    return s->len == strlen(word) && memcmp(s->at, word, s->len) == 0;
}

static bool read_flag(struct jsonscan *s, bool *out)
{
    struct jsonscan_span value;
    if (!jsonscan_skip(s, &value)) {
        return false;
    }
    *out = is_word(&value, "true");
    return *out || is_word(&value, "false") || jsonscan_fail(s, "a flag is neither true nor false");
}

static bool read_text(struct jsonscan *s, struct entry *e)
{
    struct jsonscan_span text;
    if (jsonscan_peek(s) != '"' || !jsonscan_string(s, &text) || text.len == 0 ||
        text.len > sizeof e->text) {
        return jsonscan_fail(s, "content is not a string of 1 to 256 bytes");
    }
    memcpy(e->text, text.at, text.len);
    e->len = text.len;
    return true;
}

static bool read_id(struct jsonscan *s, struct entry *e)
{
    char c = jsonscan_peek(s);
    bool is_number = c == '-' || (c >= '0' && c <= '9');
    e->has_id = is_number && jsonscan_int(s, &e->id);
    return e->has_id || jsonscan_fail(s, "id is not an integer");
}

static bool read_field(struct jsonscan *s, const struct jsonscan_span *key, struct entry *e)
{
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {{"special", &e->is_special},
                 {"normalized", &e->is_normalized},
                 {"single_word", &e->flags.single_word},
                 {"lstrip", &e->flags.lstrip},
                 {"rstrip", &e->flags.rstrip}};
    struct jsonscan_span ignored;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (is_word(key, flags[i].name)) {
            return read_flag(s, flags[i].flag);
        }
    }
    return is_word(key, "content") ? read_text(s, e)
           : is_word(key, "id")    ? read_id(s, e)
                                   : jsonscan_skip(s, &ignored);
}

static bool read_entry(struct jsonscan *s, struct entry *e)
{
    struct jsonscan_span key;
    size_t n = 0;
    e->len = 0;
    e->has_id = e->is_special = e->is_normalized = false;
    e->flags = (struct added_token){.id = -1};
    if (!jsonscan_open(s, '{')) {
        return false;
    }
    while (jsonscan_next(s, '}', &n)) {
        if (!jsonscan_key(s, &key) || !read_field(s, &key, e)) {
            return false;
        }
    }
    return !s->problem &&
           (e->len > 0 || jsonscan_fail(s, "content is not a string of 1 to 256 bytes")) &&
           (e->has_id || jsonscan_fail(s, "id is not an integer"));
}

typedef bool entry_fn(struct tokenizer *t, struct entry *e, size_t index, struct engine_error *err);

static bool scan_list(struct jsonscan *s, struct tokenizer *t, entry_fn *fn,
                      struct engine_error *err)
{
    struct entry e;
    size_t n = 0;
    bool is_list = jsonscan_open(s, '[');
    while (is_list && jsonscan_next(s, ']', &n)) {
        is_list = n <= TOKENIZER_ADDED_MAX;
        if (!is_list) {
            break;
        }
        if (!read_entry(s, &e)) {
            return fail_entry(err, n - 1, s->problem);
        }
        if (!fn(t, &e, n - 1, err)) {
            return false;
        }
    }
    if (!is_list) {
        return engine_fail(err, ENGINE_BAD_FILE, "",
                           "tokenizer.json: added_tokens is not a list of at most %d",
                           TOKENIZER_ADDED_MAX);
    }
    return !s->problem || fail_entry(err, n, s->problem);
}

static bool for_each(struct tokenizer *t, const struct jsonscan_span *list, entry_fn *fn,
                     struct engine_error *err)
{
    struct jsonscan s;
    if (!list->at || is_word(list, "null")) {
        return true;
    }
    jsonscan_init(&s, list->at, list->len);
    bool done = scan_list(&s, t, fn, err);
    jsonscan_release(&s);
    return done;
}

/* ---- marks of chat templates */

bool tokenizer_is_turn_mark(const char *s, size_t len)
{
    static const char *const marks[] = {
        "<|im_start|>",
        "<|im_end|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<start_of_turn>",
        "<end_of_turn>",
        "<|system|>",
        "<|user|>",
        "<|assistant|>",
        "<|end|>",
        "[INST]",
        "[/INST]",
        "[SYSTEM_PROMPT]",
        "[/SYSTEM_PROMPT]",
        "<｜User｜>",
        "<｜Assistant｜>",
        "<｜end▁of▁sentence｜>",
        "<｜tool▁outputs▁begin｜>",
        "<｜tool▁outputs▁end｜>",
        "<｜tool▁output▁begin｜>",
        "<｜tool▁output▁end｜>",
    };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (strlen(marks[i]) == len && memcmp(marks[i], s, len) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- the three times */

/* Places in the vocabulary; a token that is there already must have the same id. */
static bool register_entry(struct tokenizer *t, struct entry *e, size_t index,
                           struct engine_error *err)
{
    if (e->id >= 0 && vocab_find(&t->vocab, e->text, e->len) == e->id) {
        return true;
    }
    enum vocab_result r = vocab_add(&t->vocab, e->text, e->len, e->id);
    return r == VOCAB_DONE || fail_entry(err, index, vocab_result_text(r));
}

static bool flag_entry(struct tokenizer *t, struct entry *e, size_t index, struct engine_error *err)
{
    (void)index;
    (void)err;
    bool is_special = e->is_special || tokenizer_is_turn_mark(e->text, e->len);
    t->flags[e->id] =
        (uint8_t)(t->flags[e->id] | TOKENIZER_ADDED | (is_special ? TOKENIZER_SPECIAL : 0));
    return true;
}

bool tokenizer_added_register(struct tokenizer *t, const struct jsonscan_span *list,
                              struct engine_error *err)
{
    if (!for_each(t, list, register_entry, err)) {
        return false;
    }
    t->flags = calloc(t->vocab.n_ids, 1);
    return t->flags ? for_each(t, list, flag_entry, err)
                    : engine_fail(err, ENGINE_NOMEM, "", "out of memory");
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

static bool index_entry(struct tokenizer *t, struct entry *e, size_t index,
                        struct engine_error *err)
{
    if (t->flags[e->id] & TOKENIZER_SPECIAL) {
        return true;
    }
    e->flags.id = (int32_t)e->id;
    return e->is_normalized ? add_normalized(t, e, err)
                            : added_add(&t->added, e->text, e->len, &e->flags) ||
                                  fail_entry(err, index, "out of memory");
}

bool tokenizer_added_index(struct tokenizer *t, const struct jsonscan_span *list,
                           struct engine_error *err)
{
    if (!for_each(t, list, index_entry, err)) {
        return false;
    }
    added_sort(&t->added);
    added_sort(&t->added_normalized);
    return true;
}
