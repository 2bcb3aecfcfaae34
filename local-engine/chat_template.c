/* chat_template.c - a template's text is squeezed into a form in which spelling does not matter
 * (white space outside of literals, which quotes, m['role'] or m.role, escapes or line breaks), and
 * the pieces of the table are looked for in it.
 */
#include "chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROLE_LEN_MAX = 32 };
#define APOSTROPHE '\x02' /* one inside a literal; ' is the only quote of the squeezed form */

/* ---- squeezing */

struct squeeze {
    const char *p, *end;
    char *out;
    size_t n;
};

static bool is_white(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool starts(const struct squeeze *s, const char *what)
{
    size_t len = strlen(what);
    return (size_t)(s->end - s->p) >= len && memcmp(s->p, what, len) == 0;
}

/* A string from its quote on. */
static void squeeze_literal(struct squeeze *s)
{
    char quote = *s->p++;
    s->out[s->n++] = '\'';
    while (s->p < s->end && *s->p != quote) {
        char c = *s->p++;
        if (c == '\\' && s->p < s->end) {
            c = *s->p++;
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        s->out[s->n++] = c == '\'' ? APOSTROPHE : c;
    }
    s->p += s->p < s->end;
    s->out[s->n++] = '\'';
}

/* What is inside {{ }} or {% %}, with both of its ends; true: the end takes white space away. */
static bool squeeze_tag(struct squeeze *s)
{
    const char close[3] = {s->p[1] == '{' ? '}' : '%', '}', '\0'};
    s->out[s->n++] = *s->p++;
    s->out[s->n++] = *s->p++;
    s->p += s->p < s->end && *s->p == '-';
    bool takes_space = false;
    while (s->p < s->end && !starts(s, close)) {
        if (*s->p == '\'' || *s->p == '"') {
            squeeze_literal(s);
            continue;
        }
        char c = *s->p++;
        takes_space = c == '-' && starts(s, close);
        if (!is_white(c) && !takes_space) {
            s->out[s->n++] = c;
        }
    }
    for (size_t i = 0; i < 2 && s->p < s->end; i++) {
        s->out[s->n++] = *s->p++;
    }
    return takes_space;
}

static void skip_comment(struct squeeze *s)
{
    while (s->p < s->end && !starts(s, "#}")) {
        s->p++;
    }
    s->p += s->p < s->end ? 2 : 0;
}

static bool is_tag(const struct squeeze *s)
{
    return starts(s, "{{") || starts(s, "{%") || starts(s, "{#");
}

/* The text between two tags, by the rules of transformers: the line break behind a block and the
 * white space before one are not written. */
static void squeeze_text(struct squeeze *s, bool takes_space)
{
    bool is_behind_block = s->n >= 2 && s->out[s->n - 2] == '%';
    size_t from = s->n;
    s->p += is_behind_block && *s->p == '\n'; /* called where there is a byte */
    while (s->p < s->end && !is_tag(s)) {
        if (!(takes_space && is_white(*s->p) && s->n == from)) {
            s->out[s->n++] = *s->p;
        }
        s->p++;
    }
    bool is_taken = s->end - s->p > 2 && s->p[2] == '-', is_block = starts(s, "{%");
    while (s->n > from && is_white(s->out[s->n - 1]) &&
           (is_taken || (is_block && s->out[s->n - 1] != '\n'))) {
        s->n--;
    }
}

/* m['role'] as m.role, in place. */
static size_t unify_members(char *text, size_t n)
{
    size_t out = 0;
    for (size_t i = 0; i < n;) {
        size_t len = 0;
        while (i + 2 + len < n && ((text[i + 2 + len] >= 'a' && text[i + 2 + len] <= 'z') ||
                                   text[i + 2 + len] == '_')) {
            len++;
        }
        bool is_member = out > 0 && text[i] == '[' && i + 1 < n && text[i + 1] == '\'' && len > 0 &&
                         i + 3 + len < n && text[i + 2 + len] == '\'' && text[i + 3 + len] == ']';
        if (is_member) {
            text[out++] = '.';
            memmove(text + out, text + i + 2, len);
            out += len;
            i += len + 4;
        } else {
            text[out++] = text[i++];
        }
    }
    text[out] = '\0';
    return out;
}

/* Yours (free); NULL: out of memory. A zero byte in the text ends it. */
static char *squeeze(const char *text, size_t len)
{
    struct squeeze s = {.p = text, .end = text + strnlen(text, len)};
    s.out = malloc(2 * (size_t)(s.end - s.p) + 3); /* a literal may lack its end */
    bool takes_space = false;
    while (s.out && s.p < s.end) {
        if (starts(&s, "{{") || starts(&s, "{%")) {
            takes_space = squeeze_tag(&s);
        } else if (starts(&s, "{#")) {
            skip_comment(&s);
        } else {
            squeeze_text(&s, takes_space);
            takes_space = false;
        }
    }
    if (s.out) {
        (void)unify_members(s.out, s.n);
    }
    return s.out;
}

/* ---- recognising */

/* What no style writes: messages and parts of a template's own. */
static const char *const never[] = {"default_system", "documents", "guideline", "<|im_sep|>",
                                    "<|vision_start|>"};

static bool matches(const struct chat_style *s, const char *squeezed)
{
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        if (!s->with[0] || strstr(squeezed, never[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < CHAT_STYLE_PIECES; i++) {
        if ((s->with[i] && !strstr(squeezed, s->with[i])) ||
            (s->without[i] && strstr(squeezed, s->without[i]))) {
            return false;
        }
    }
    return true;
}

/* The system message that chatml templates bring along: a literal between the marks. false: there
 * is one that cannot be read. */
static bool find_system(char *squeezed, struct chat_variant *v)
{
    static const char open[] = "<|im_start|>system\n", close[] = "<|im_end|>";
    for (char *at = strstr(squeezed, open); at; at = strstr(at, open)) {
        at += sizeof open - 1;
        const char *end = strstr(at, close);
        size_t len = strcspn(at, "'");
        if (end && (size_t)(end - at) < len && end - at <= (long)CHAT_SYSTEM_MAX) {
            v->system = at;
            v->system_len = (size_t)(end - at);
            for (size_t i = 0; i < v->system_len; i++) {
                at[i] = at[i] == APOSTROPHE ? '\'' : at[i];
            }
            return true;
        }
    }
    return !strstr(squeezed, "messages[0].role!='system'");
}

static bool read_variant(const struct chat_style *s, char *squeezed, struct chat_variant *v)
{
    *v = (struct chat_variant){
        .has_bos = strstr(squeezed, "{{bos_token") || strstr(squeezed, "=bos_token+"),
        .skips_empty_system = strstr(squeezed, "message.role=='system'andmessage.content"),
        .has_system = strstr(squeezed, "'<|system|>'+'\n'+message.content"),
    };
    return !s->marks[0] || strcmp(s->marks[0], "<|im_end|>") != 0 || find_system(squeezed, v);
}

bool chat_template_recognise(struct chat_template *out, const char *text, size_t len,
                             struct engine_error *err)
{
    if (len > CHAT_TEMPLATE_MAX) {
        return engine_fail(err, ENGINE_BAD_PARAM, "chat_template",
                           "the chat template is longer than %u bytes", CHAT_TEMPLATE_MAX);
    }
    char *squeezed = squeeze(text, len);
    if (!squeezed) {
        return engine_fail(err, ENGINE_NOMEM, "", "out of memory for the chat template");
    }
    for (const struct chat_style *s = chat_styles; s->name; s++) {
        struct chat_variant v;
        if (matches(s, squeezed) && read_variant(s, squeezed, &v)) {
            *out = (struct chat_template){.style = s, .variant = v, .text = squeezed};
            return true;
        }
    }
    free(squeezed);
    return engine_fail(err, ENGINE_BAD_PARAM, "chat_template", "the chat template is not known");
}

/* ---- by name */

const char *chat_template_name(size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (!chat_styles[k].name) {
            return NULL;
        }
    }
    return chat_styles[i].name;
}

bool chat_template_named(struct chat_template *out, const char *name, struct engine_error *err)
{
    char all[256] = "";
    for (const struct chat_style *s = chat_styles; s->name; s++) {
        if (strcmp(s->name, name) == 0) {
            *out = (struct chat_template){.style = s,
                                          .variant = {.has_bos = s->has_bos, .has_system = true}};
            return true;
        }
        size_t n = strlen(all);
        (void)snprintf(all + n, sizeof all - n, "%s%s", n ? ", " : "", s->name);
    }
    return engine_fail(err, ENGINE_BAD_PARAM, "chat_template",
                       "there is no chat template '%.20s': choose one of %s", name, all);
}

void chat_template_release(struct chat_template *t)
{
    if (t) {
        free(t->text);
        *t = (struct chat_template){.style = NULL};
    }
}

/* ---- writing */

/* A role is a word: a line break in it would let it write the content, too. */
static bool check_messages(const struct chat_message *m, size_t n, struct engine_error *err)
{
    if (n == 0 || n > CHAT_MESSAGES_MAX) {
        return engine_fail(err, ENGINE_BAD_PARAM, "messages", "%zu messages; 1 to %d are allowed",
                           n, CHAT_MESSAGES_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(m[i].role);
        if (len == 0 || len > ROLE_LEN_MAX ||
            strspn(m[i].role, "abcdefghijklmnopqrstuvwxyz_") != len) {
            return engine_fail(err, ENGINE_BAD_PARAM, "messages",
                               "message %zu has a role that is not a word of 1 to %d letters", i,
                               ROLE_LEN_MAX);
        }
    }
    return true;
}

bool chat_template_write(const struct chat_template *t, struct chat_text *o,
                         const struct chat_message *m, size_t n)
{
    return check_messages(m, n, o->err) && t->style->write(o, &t->variant, m, n);
}
