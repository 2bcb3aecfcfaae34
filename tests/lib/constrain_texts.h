/* constrain_texts.h - a constraint from its text, and whether it allows a text: for the tests of
 * it.
 */
#ifndef ISOTHERM_TESTS_CONSTRAIN_TEXTS_H
#define ISOTHERM_TESTS_CONSTRAIN_TEXTS_H

#include "local-engine/constrain.h"
#include "tests/lib/tokenizer_recipe.h"

static inline json_t *parse(const char *text)
{
    json_t *v = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!v) {
        fail_msg("no JSON: %s", text);
    }
    return v;
}

static inline struct constrain *compile(enum constrain_kind kind, const char *value)
{
    struct engine_error err = {.code = ENGINE_OK};
    json_t *v = value ? parse(value) : NULL;
    struct constrain_spec spec = {kind, v, "response_format"};
    struct constrain *c = NULL;
    if (!constrain_new(&c, &spec, &err)) {
        fail_msg("%s: %s", value, err.text);
    }
    json_decref(v);
    return c;
}

/* Whether a text is allowed whole. It is read byte by byte. */
static inline bool allows(struct constrain *c, const char *text)
{
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain_state *s;
    bool ok = true;
    assert_true(constrain_state_new(&s, c, NULL, &err));
    for (size_t i = 0; ok && text[i]; i++) {
        ok = constrain_advance(s, text + i, 1, NULL);
    }
    ok = ok && constrain_is_complete(s);
    constrain_state_free(s);
    return ok;
}

#endif
