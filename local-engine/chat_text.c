/* chat_text.c - two arrays that grow by doubling. */
#include "chat_text.h"

#include <stdlib.h>
#include <string.h>

void chat_text_init(struct chat_text *o, const char *bos, const char *eos, struct engine_error *err)
{
    *o = (struct chat_text){.bos = bos, .eos = eos, .err = err};
}

void chat_text_release(struct chat_text *o)
{
    if (o) {
        free(o->p);
        free(o->runs);
        *o = (struct chat_text){.bos = "", .eos = ""};
    }
}

static bool grow(void **p, size_t *cap, size_t needed, size_t size)
{
    if (needed <= *cap) {
        return true;
    }
    size_t more = 2 * *cap > needed ? 2 * *cap : needed;
    void *grown = realloc(*p, more * size);
    if (!grown) {
        return false;
    }
    *p = grown;
    *cap = more;
    return true;
}

/* Runs of plain text that touch are one: their tokens may span where they meet. */
static bool add_run(struct chat_text *o, enum chat_run_kind kind, const char *text, size_t len)
{
    if (len > CHAT_TEXT_MAX - o->len) {
        return engine_fail(o->err, ENGINE_BAD_PARAM, "messages",
                           "the messages are longer than %u MiB: shorten them",
                           CHAT_TEXT_MAX >> 20);
    }
    if (!grow((void **)&o->p, &o->cap, o->len + len + 1, 1) ||
        !grow((void **)&o->runs, &o->runs_cap, o->n_runs + 1, sizeof *o->runs)) {
        return engine_fail(o->err, ENGINE_NOMEM, "", "out of memory for the prompt");
    }
    if (len > 0) {
        memcpy(o->p + o->len, text, len);
    }
    o->len += len;
    if (kind == CHAT_RUN_TEXT && o->n_runs > 0 && o->runs[o->n_runs - 1].kind == kind) {
        o->runs[o->n_runs - 1].len += len;
    } else if (len > 0) {
        o->runs[o->n_runs++] = (struct chat_run){kind, len};
    }
    return true;
}

bool chat_text_put(struct chat_text *o, const char *text, size_t len)
{
    return add_run(o, CHAT_RUN_TEXT, text, len);
}

bool chat_text_puts(struct chat_text *o, const char *text)
{
    return add_run(o, CHAT_RUN_TEXT, text, strlen(text));
}

bool chat_text_mark(struct chat_text *o, const char *spelling)
{
    return add_run(o, CHAT_RUN_MARK, spelling, strlen(spelling));
}

bool chat_text_bos(struct chat_text *o)
{
    return add_run(o, CHAT_RUN_BOS, o->bos, strlen(o->bos));
}

bool chat_text_eos(struct chat_text *o)
{
    return add_run(o, CHAT_RUN_EOS, o->eos, strlen(o->eos));
}
