/* session_echo.c - tokens wait until there are WAITING_MAX of them or the prompt ends; then they
 * are one event for each answer. */
#include "session_echo.h"

#include <stdlib.h>

enum { WAITING_MAX = 64 };

struct session_echo {
    size_t n_taken; /* tokens of the prompt that were told or wait */
    bool is_first;  /* no token has added text yet: see tokenizer_piece() */
    struct utf8 decoder;
    char *text; /* that waits */
    size_t len, cap;
    struct session_token tokens[WAITING_MAX];
    struct sampler_top *tops; /* [WAITING_MAX][n_top] */
    size_t n_tokens;
};

bool session_echo_new(struct session_echo **out, uint32_t n_top, struct engine_error *err)
{
    struct session_echo *e = calloc(1, sizeof *e);
    if (e) {
        e->is_first = true;
        e->tops = malloc((WAITING_MAX * (size_t)n_top + 1) * sizeof *e->tops);
    }
    if (!e || !e->tops) {
        session_echo_free(e);
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a session");
    }
    *out = e;
    return true;
}

void session_echo_free(struct session_echo *e)
{
    if (e) {
        free(e->text);
        free(e->tops);
        free(e);
    }
}

static bool add_text(struct session_echo *e, const char *bytes, size_t n, struct engine_error *err)
{
    size_t need = UTF8_OUT_MAX(n) + 4; /* and for utf8_finish() */
    if (need > e->cap - e->len) {
        size_t cap = e->cap * 2 + need;
        char *p = realloc(e->text, cap);
        if (!p) {
            return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the text of a prompt");
        }
        e->text = p;
        e->cap = cap;
    }
    e->len += utf8_feed(&e->decoder, bytes, n, e->text + e->len);
    return true;
}

static bool add_token(struct session *s, const float *logits, struct engine_error *err)
{
    struct session_echo *e = s->echo;
    int32_t id = s->prompt[e->n_taken];
    struct session_token *t = &e->tokens[e->n_tokens];
    size_t n;
    const char *bytes = tokenizer_piece(s->tokenizer, id, e->is_first, &n);
    *t = (struct session_token){.id = id, .is_first = e->is_first, .is_unscored = e->n_taken == 0};
    if (s->logprobs && !t->is_unscored) {
        struct sampler_top *top = s->n_top ? e->tops + e->n_tokens * s->n_top : NULL;
        if (!sampler_check_logits(logits, s->n_vocab, err)) {
            return false;
        }
        sampler_logprobs(NULL, logits, s->n_vocab, id, s->n_top, &t->logprob, top);
        t->top = top;
    }
    e->is_first = e->is_first && tokenizer_is_special(s->tokenizer, id);
    e->n_tokens++;
    e->n_taken++;
    return add_text(e, bytes, n, err);
}

static void tell(struct session *s)
{
    struct session_echo *e = s->echo;
    struct session_event ev = {.kind = SESSION_TEXT,
                               .text = e->len ? e->text : "",
                               .len = e->len,
                               .tokens = e->tokens,
                               .n_tokens = s->logprobs ? e->n_tokens : 0,
                               .matched_stop = -1};
    for (; ev.choice < s->n && (ev.len > 0 || ev.n_tokens > 0); ev.choice++) {
        s->fn(&ev, s->ud);
    }
    e->n_tokens = 0;
    e->len = 0;
}

bool session_echo_take(struct session *s, const float *logits, struct engine_error *err)
{
    struct session_echo *e = s->echo;
    while (e->n_taken <= s->n_evaluated && e->n_taken < s->n_prompt) {
        if (e->n_tokens == WAITING_MAX) {
            tell(s);
        }
        if (!add_token(s, logits, err)) {
            return false;
        }
    }
    if (s->n_evaluated == s->n_prompt) {
        e->len += utf8_finish(&e->decoder, e->text + e->len);
        tell(s);
    }
    return true;
}
