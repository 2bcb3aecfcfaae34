#include "token_json.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

json_t *token_json_text(const char *bytes, size_t n)
{
    struct utf8 u = {.n_waiting = 0};
    char small[256], *big = NULL, *out = small;
    if (UTF8_OUT_MAX(n) + 4 > sizeof small) {
        out = big = malloc(UTF8_OUT_MAX(n) + 4);
    }
    if (!out) {
        return NULL;
    }
    size_t len = utf8_feed(&u, bytes, n, out);
    len += utf8_finish(&u, out + len);
    json_t *s = json_stringn_nocheck(out, len);
    free(big);
    return s;
}

static json_t *byte_list(const char *bytes, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++) {
        if (json_array_append_new(list, json_integer((unsigned char)bytes[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *token_json(const struct tokenizer *t, int32_t id, bool is_first)
{
    size_t n;
    const char *bytes = tokenizer_piece(t, id, is_first, &n);
    const char *spelling = tokenizer_is_special(t, id) ? tokenizer_spelling(t, id) : NULL;
    return json_pack("{s:o, s:o}", "token",
                     spelling ? token_json_text(spelling, strlen(spelling))
                              : token_json_text(bytes, n),
                     "bytes", byte_list(bytes, n));
}

static json_t *with_logprob(const struct tokenizer *t, int32_t id, bool is_first, json_t *logprob)
{
    json_t *o = token_json(t, id, is_first);
    if (json_object_set_new(o, "logprob", logprob) != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

json_t *token_json_logprobs(const struct tokenizer *t, const struct session_token *token,
                            size_t n_top)
{
    bool is_scored = !token->is_unscored, is_made = true;
    json_t *top = json_array(),
           *o = with_logprob(t, token->id, token->is_first,
                             is_scored ? json_real(token->logprob) : json_null());
    for (size_t k = 0; is_scored && is_made && k < n_top && token->top[k].id >= 0; k++) {
        is_made = json_array_append_new(top, with_logprob(t, token->top[k].id, token->is_first,
                                                          json_real(token->top[k].logprob))) == 0;
    }
    if (!is_made || json_object_set(o, "top", top) != 0) {
        json_decref(o);
        o = NULL;
    }
    json_decref(top);
    return o;
}
