/* chat.c - a template is one row of a table and one function that writes ids into a growing list.
 */
#include "chat.h"

#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { ROLE_LEN_MAX = 32 };

struct prompt {
    const struct tokenizer *t;
    const struct chat_message *messages;
    size_t n_messages;
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
    if (!tokenizer_encode(p->t, text, len, is_start, &ids, &n, p->err)) {
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

static bool put_bos(struct prompt *p)
{
    return !tokenizer_adds_bos(p->t) || put_id(p, tokenizer_bos(p->t));
}

/* ---- plain */

static bool render_plain(struct prompt *p)
{
    const struct chat_message *last = NULL;
    for (size_t i = 0; i < p->n_messages; i++) {
        if (strcmp(p->messages[i].role, "user") == 0) {
            last = &p->messages[i];
        }
    }
    if (!last) {
        return engine_fail(p->err, ENGINE_BAD_PARAM, "messages",
                           "no message has the role 'user'; this model continues the last one");
    }
    return put_bos(p) && put_text(p, last->content, last->content_len, true);
}

/* ---- chatml */

struct chatml {
    int32_t start, end;
};

/* The text between two markers is encoded in one go, so that tokens may span the line break, as
 * where such models were trained. */
static bool put_turn(struct prompt *p, const struct chatml *c, const struct chat_message *m)
{
    size_t role_len = strlen(m->role), len = role_len + 1 + m->content_len;
    char *text = malloc(len);
    if (!text) {
        return engine_fail(p->err, ENGINE_NOMEM, "", "out of memory");
    }
    memcpy(text, m->role, role_len);
    text[role_len] = '\n';
    if (m->content_len > 0) {
        memcpy(text + role_len + 1, m->content, m->content_len);
    }
    bool is_start = tokenizer_spaces_after_special(p->t);
    bool done = put_id(p, c->start) && put_text(p, text, len, is_start) && put_id(p, c->end) &&
                put_text(p, "\n", 1, is_start);
    free(text);
    return done;
}

static bool render_chatml(struct prompt *p)
{
    static const char answer[] = "assistant\n";
    const struct chatml c = {tokenizer_find_special(p->t, "<|im_start|>"),
                             tokenizer_find_special(p->t, "<|im_end|>")};
    if (c.start < 0 || c.end < 0) {
        return engine_fail(p->err, ENGINE_BAD_PARAM, "chat_template",
                           "template 'chatml': the vocabulary has no special tokens <|im_start|> "
                           "and <|im_end|>; choose 'plain'");
    }
    if (!put_bos(p)) {
        return false;
    }
    for (size_t i = 0; i < p->n_messages; i++) {
        if (!put_turn(p, &c, &p->messages[i])) {
            return false;
        }
    }
    return put_id(p, c.start) &&
           put_text(p, answer, sizeof answer - 1, tokenizer_spaces_after_special(p->t));
}

/* ---- the table */

static const struct chat_template {
    const char *name;
    bool (*render)(struct prompt *p);
} templates[] = {
    {"plain", render_plain},
    {"chatml", render_chatml},
};

const char *chat_template_name(size_t i)
{
    return i < sizeof templates / sizeof *templates ? templates[i].name : NULL;
}

/* A role is a word: a line break in it would let it write the content, too. */
static bool check_messages(const struct prompt *p)
{
    if (p->n_messages == 0 || p->n_messages > CHAT_MESSAGES_MAX) {
        return engine_fail(p->err, ENGINE_BAD_PARAM, "messages",
                           "%zu messages; 1 to %d are allowed", p->n_messages, CHAT_MESSAGES_MAX);
    }
    for (size_t i = 0; i < p->n_messages; i++) {
        size_t len = strlen(p->messages[i].role);
        if (len == 0 || len > ROLE_LEN_MAX ||
            strspn(p->messages[i].role, "abcdefghijklmnopqrstuvwxyz_") != len) {
            return engine_fail(p->err, ENGINE_BAD_PARAM, "messages",
                               "message %zu has a role that is not a word of 1 to %d letters", i,
                               ROLE_LEN_MAX);
        }
    }
    return true;
}

bool chat_render(const struct tokenizer *t, const char *template_name,
                 const struct chat_message *messages, size_t n, int32_t **ids, size_t *n_ids,
                 struct engine_error *err)
{
    struct prompt p = {.t = t, .messages = messages, .n_messages = n, .err = err};
    const struct chat_template *found = NULL;
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        if (strcmp(templates[i].name, template_name) == 0) {
            found = &templates[i];
        }
    }
    if (!found) {
        return engine_fail(err, ENGINE_BAD_PARAM, "chat_template",
                           "unknown chat template; choose one of plain, chatml");
    }
    /* one more, so that an empty prompt is no NULL */
    if (!check_messages(&p) || !reserve(&p, 1) || !found->render(&p)) {
        free(p.ids);
        return false;
    }
    *ids = p.ids;
    *n_ids = p.n_ids;
    return true;
}
