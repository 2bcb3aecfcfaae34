/* schema_texts.c - our side of the comparison of constrained answers with a validator: each line of
 * standard input is {"schema": SCHEMA, "seeds": N, "texts": [TEXT...]}, and its answer either
 * {"refused": WHY} or {"documents": [TEXT or null...], "accepts": [BOOLEAN...]}: a document for
 * each seed, null where it was cut at the limit, and which of the texts are allowed whole.
 */
#include "tests/lib/draw_text.h"

static bool accepts(struct constrain *c, const json_t *text)
{
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain_state *s;
    if (!constrain_state_new(&s, c, NULL, &err)) {
        draw_stop(err.text);
    }
    bool ok = constrain_advance(s, json_string_value(text), json_string_length(text), NULL) &&
              constrain_is_complete(s);
    constrain_state_free(s);
    return ok;
}

static json_t *answer(struct constrain_cache *k, const struct tokenizer *t, const json_t *line)
{
    struct engine_error err = {.code = ENGINE_OK};
    struct constrain *c;
    struct constrain_spec spec = {CONSTRAIN_JSON_SCHEMA, json_object_get(line, "schema"), "schema"};
    const json_t *texts = json_object_get(line, "texts");
    json_t *documents = json_array(), *accepted = json_array();
    if (!constrain_cache_get(k, &spec, &c, &err)) {
        json_decref(documents);
        json_decref(accepted);
        return json_pack("{s:s}", "refused", err.text);
    }
    for (json_int_t i = 0; i < json_integer_value(json_object_get(line, "seeds")); i++) {
        uint64_t seed = (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u;
        if (json_array_append_new(documents, draw_document(c, k, t, seed)) != 0) {
            draw_stop("a document that is no UTF-8");
        }
    }
    for (size_t i = 0; i < json_array_size(texts); i++) {
        if (json_array_append_new(accepted, json_boolean(accepts(c, json_array_get(texts, i))))) {
            draw_stop("out of memory");
        }
    }
    constrain_free(c);
    return json_pack("{s:o, s:o}", "documents", documents, "accepts", accepted);
}

int main(void)
{
    char *bytes = NULL;
    size_t cap = 0;
    ssize_t n;
    struct engine_error err = {.code = ENGINE_OK};
    struct tokenizer *t = draw_vocabulary();
    struct constrain_cache *k;
    if (!t || !constrain_cache_new(&k, t, tokenizer_n_vocab(t), &err)) {
        return 1;
    }
    draw_fill_weights();
    while ((n = getline(&bytes, &cap, stdin)) > 0) {
        json_error_t why;
        json_t *line = json_loadb(bytes, (size_t)n, JSON_ALLOW_NUL, &why);
        json_t *out =
            line ? answer(k, t, line) : json_pack("{s:s+}", "refused", "no JSON: ", why.text);
        if (!out || json_dumpf(out, stdout, JSON_COMPACT) != 0 || putchar('\n') == EOF) {
            return 1;
        }
        json_decref(out);
        json_decref(line);
    }
    free(bytes);
    constrain_cache_free(k);
    tokenizer_close(t);
    return fflush(stdout) == 0 ? 0 : 1;
}
