/* jsontree.c - the estimate counts characters: every value but the first stands behind a bracket, a
 * comma or a colon. The weights are what jansson 2.14 and malloc take for each, rounded up. */
#include "jsontree.h"

#include "jsonscan.h"

#include <string.h>

enum {
    OBJECT_BYTES = 256,
    ARRAY_BYTES = 160,
    ITEM_BYTES = 64,
    MEMBER_BYTES = 96,
    QUOTE_BYTES = 24
};

static size_t cost_of(char c)
{
    switch (c) {
    case '{':
        return OBJECT_BYTES;
    case '[':
        return ARRAY_BYTES;
    case ',':
        return ITEM_BYTES;
    case ':':
        return MEMBER_BYTES;
    default:
        return 0;
    }
}

bool jsontree_fits(const char *text, size_t len)
{
    size_t sum = 0;
    bool is_string = false;
    for (size_t i = 0; i < len && sum <= JSONTREE_MAX; i++) {
        if (text[i] == '"') {
            is_string = !is_string;
            sum += QUOTE_BYTES;
        } else if (!is_string) {
            sum += cost_of(text[i]);
        } else {
            i += text[i] == '\\';
            sum++;
        }
    }
    return sum <= JSONTREE_MAX;
}

static bool is_named(const struct jsonscan_span *key, const char *const *names)
{
    for (; *names; names++) {
        if (strlen(*names) == key->len && memcmp(*names, key->at, key->len) == 0) {
            return true;
        }
    }
    return false;
}

static bool add_field(struct jsonscan *s, const struct jsonscan_span *key,
                      const struct jsonscan_span *value, json_t *out)
{
    json_error_t why;
    if (!jsontree_fits(value->at, value->len)) {
        return jsonscan_fail(s, "a field holds too many values");
    }
    json_t *j = json_loadb(value->at, value->len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    if (!j) {
        return jsonscan_fail(s, json_error_code(&why) == json_error_out_of_memory
                                    ? "out of memory"
                                    : "the value is no JSON");
    }
    return json_object_setn_new(out, key->at, key->len, j) == 0 ||
           jsonscan_fail(s, "out of memory");
}

static bool pick(struct jsonscan *s, const char *const *names, json_t *out)
{
    struct jsonscan_span key, value;
    size_t n = 0;
    if (!jsonscan_open(s, '{')) {
        return false;
    }
    while (jsonscan_next(s, '}', &n)) {
        if (!jsonscan_key(s, &key) || !jsonscan_skip(s, &value) ||
            (is_named(&key, names) && !add_field(s, &key, &value, out))) {
            return false;
        }
    }
    return jsonscan_end(s);
}

json_t *jsontree_pick(const char *text, size_t len, const char *const *names, const char *file,
                      struct engine_error *err)
{
    struct jsonscan s;
    json_t *out = json_object();
    jsonscan_init(&s, text, len);
    if (!out || !pick(&s, names, out)) {
        bool is_memory = !out || strcmp(s.problem, "out of memory") == 0;
        (void)engine_fail(err, is_memory ? ENGINE_NOMEM : ENGINE_BAD_FILE, "",
                          "%s: not a JSON object: at its byte %zu: %s", file, s.problem_at,
                          out ? s.problem : "out of memory");
        json_decref(out);
        out = NULL;
    }
    jsonscan_release(&s);
    return out;
}
