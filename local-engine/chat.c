/* chat.c - the template writes text with markers; here each marker that the vocabulary has becomes
 * its id, and all that is between two of them is encoded in one go, so that tokens may span what
 * the template and people wrote, as where such models were trained.
 */
#include "chat.h"

#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>

struct chat {
    const struct tokenizer *t;
    struct chat_template template;
    char *bos, *eos; /* spellings */
    int32_t bos_id, eos_id;
};

/* ---- opening */

static bool has_marks(const struct tokenizer *t, const struct chat_style *s)
{
    for (size_t i = 0; i < CHAT_STYLE_MARKS; i++) {
        if (s->marks[i] && tokenizer_find_special(t, s->marks[i]) < 0) {
            return false;
        }
    }
    return true;
}

static bool check_marks(const struct chat *c, struct engine_error *err)
{
    const struct chat_style *s = c->template.style;
    for (size_t i = 0; i < CHAT_STYLE_MARKS; i++) {
        if (s->marks[i] && tokenizer_find_special(c->t, s->marks[i]) < 0) {
            return engine_fail(err, ENGINE_BAD_PARAM, "chat_template",
                               "chat template '%s' needs a vocabulary with the special token %s: "
                               "choose another, such as 'plain'",
                               s->name, s->marks[i]);
        }
    }
    return true;
}

static bool choose(struct chat *c, const char *name, const char *text, size_t len,
                   struct engine_error *err)
{
    struct chat_template found = {.style = NULL};
    bool is_known = text && chat_template_recognise(&found, text, len, name ? NULL : err);
    if (!name && text) {
        c->template = found;
        return is_known;
    }
    if (!name) {
        return (chat_template_named(&c->template, "chatml", err) &&
                has_marks(c->t, c->template.style)) ||
               chat_template_named(&c->template, "plain", err);
    }
    /* the same by name and by text: the text knows more */
    if (is_known && strcmp(found.style->name, name) == 0) {
        c->template = found;
        return true;
    }
    chat_template_release(&found);
    return chat_template_named(&c->template, name, err);
}

static char *spelling(const struct tokenizer *t, int32_t id)
{
    const char *s = id >= 0 ? tokenizer_spelling(t, id) : NULL;
    return strdup(s ? s : "");
}

bool chat_open(struct chat **out, const struct tokenizer *t, const char *name, const char *text,
               size_t text_len, struct engine_error *err)
{
    struct chat *c = calloc(1, sizeof *c);
    if (!c) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a chat template");
    }
    size_t n_eos;
    const int32_t *eos = tokenizer_eos(t, &n_eos);
    c->t = t;
    c->bos_id = tokenizer_bos(t);
    c->eos_id = n_eos > 0 ? eos[0] : -1;
    c->bos = spelling(t, c->bos_id);
    c->eos = spelling(t, c->eos_id);
    bool ok = c->bos && c->eos
                  ? choose(c, name, text, text_len, err) && check_marks(c, err)
                  : engine_fail(err, ENGINE_NOMEM, "", "out of memory for a chat template");
    if (!ok) {
        chat_close(c);
        return false;
    }
    *out = c;
    return true;
}

void chat_close(struct chat *c)
{
    if (c) {
        chat_template_release(&c->template);
        free(c->bos);
        free(c->eos);
        free(c);
    }
}

const char *chat_name(const struct chat *c)
{
    return c->template.style->name;
}

int32_t chat_turn_end(const struct chat *c)
{
    const char *mark = c->template.style->marks[0];
    return mark ? tokenizer_find_special(c->t, mark) : -1;
}

/* ---- ids */

struct prompt {
    const struct chat *c;
    int32_t *ids;
    size_t n_ids, ids_cap;
    struct engine_error *err;
};

static bool reserve(struct prompt *p, size_t n)
{
    if (n <= p->ids_cap - p->n_ids) {
        return true;
    }
    size_t cap = 2 * p->ids_cap > p->n_ids + n ? 2 * p->ids_cap : p->n_ids + n;
    int32_t *ids = realloc(p->ids, cap * sizeof *ids);
    if (!ids) {
        return engine_fail(p->err, ENGINE_NOMEM, "", "out of memory");
    }
    p->ids = ids;
    p->ids_cap = cap;
    return true;
}

static bool put_id(struct prompt *p, int32_t id)
{
    if (!reserve(p, 1)) {
        return false;
    }
    p->ids[p->n_ids++] = id;
    return true;
}

static bool put_text(struct prompt *p, const char *text, size_t len, bool is_start)
{
    int32_t *ids = NULL;
    size_t n = 0;
    if (!tokenizer_encode(p->c->t, text, len, is_start, &ids, &n, p->err)) {
        return false;
    }
    bool done = reserve(p, n);
    if (done && n > 0) {
        memcpy(p->ids + p->n_ids, ids, n * sizeof *ids);
        p->n_ids += n;
    }
    free(ids);
    return done;
}

/* The id of a run; -1: it is text. */
static int32_t run_id(const struct chat *c, const struct chat_run *run, const char *text)
{
    char mark[64];
    switch (run->kind) {
    case CHAT_RUN_TEXT:
        return -1;
    case CHAT_RUN_BOS:
        return c->bos_id;
    case CHAT_RUN_EOS:
        return c->eos_id;
    case CHAT_RUN_MARK:
        break;
    }
    if (run->len >= sizeof mark) {
        return -1;
    }
    memcpy(mark, text, run->len);
    mark[run->len] = '\0';
    return tokenizer_find_special(c->t, mark);
}

/* Text at the very beginning of the template is the beginning of a sequence; behind a special token
 * the vocabulary says. */
static bool encode(struct prompt *p, const struct chat_text *o)
{
    const char *from = o->p ? o->p : "", *at = from;
    for (size_t i = 0; i < o->n_runs; i++) {
        int32_t id = run_id(p->c, &o->runs[i], at);
        if (id >= 0) {
            bool is_start = from == o->p || tokenizer_spaces_after_special(p->c->t);
            if ((at > from && !put_text(p, from, (size_t)(at - from), is_start)) ||
                !put_id(p, id)) {
                return false;
            }
            from = at + o->runs[i].len;
        }
        at += o->runs[i].len;
    }
    bool is_start = from == o->p || tokenizer_spaces_after_special(p->c->t);
    return at == from || put_text(p, from, (size_t)(at - from), is_start);
}

bool chat_render(const struct chat *c, const struct chat_message *messages, size_t n, int32_t **ids,
                 size_t *n_ids, struct engine_error *err)
{
    struct prompt p = {.c = c, .err = err};
    struct chat_text o;
    chat_text_init(&o, c->bos, c->eos, err);
    /* one more, so that an empty prompt is no NULL */
    bool ok = chat_template_write(&c->template, &o, messages, n) && reserve(&p, 1);
    bool has_bos = ok && o.n_runs > 0 && o.runs[0].kind == CHAT_RUN_BOS;
    ok = ok && (has_bos || !tokenizer_adds_bos(c->t) || put_id(&p, c->bos_id)) && encode(&p, &o);
    chat_text_release(&o);
    if (!ok) {
        free(p.ids);
        return false;
    }
    *ids = p.ids;
    *n_ids = p.n_ids;
    return true;
}
