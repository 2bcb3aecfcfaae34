/* think.c - a tag's first character is nowhere else in it, so a mismatch never has to look further
 * back than what was held: that is text, and the byte at hand is looked at afresh. */
#include "think.h"

#include <string.h>

static const char *tag_of(const struct think *t)
{
    return t->at == THINK_START ? "<think>" : "</think>";
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* What was held back is text after all. */
static bool give_back(struct think *t, think_fn *fn, void *ud)
{
    struct slice held = {tag_of(t), t->matched};
    bool is_reasoning = t->at == THINK_INSIDE;
    t->at = t->at == THINK_START ? THINK_AFTER : t->at; /* there is no reasoning */
    t->matched = 0;
    return held.len == 0 || fn(held, is_reasoning, ud);
}

/* Bytes of `text` that are no tag for certain. */
static size_t plain_length(const struct think *t, struct slice text)
{
    const char *mark = t->at == THINK_AFTER ? NULL : memchr(text.p, '<', text.len);
    return mark ? (size_t)(mark - text.p) : text.len;
}

/* One step: a run of text, or one byte of a tag. Returns the bytes read. */
static size_t step(struct think *t, struct slice text, think_fn *fn, void *ud, bool *ok)
{
    if (t->is_trimming && is_blank(text.p[0])) {
        return 1;
    }
    t->is_trimming = false;
    if (t->at != THINK_AFTER && text.p[0] == tag_of(t)[t->matched]) {
        if (!tag_of(t)[++t->matched]) {
            t->at = t->at == THINK_START ? THINK_INSIDE : THINK_AFTER;
            t->matched = 0;
            t->is_trimming = true;
        }
        return 1;
    }
    if (t->matched > 0 || t->at == THINK_START) {
        *ok = give_back(t, fn, ud);
        return 0;
    }
    size_t n = plain_length(t, text);
    *ok = fn((struct slice){text.p, n}, t->at == THINK_INSIDE, ud);
    return n;
}

bool think_feed(struct think *t, struct slice piece, think_fn *fn, void *ud)
{
    bool ok = true;
    while (ok && piece.len > 0) {
        size_t n = step(t, piece, fn, ud, &ok);
        piece.p += n;
        piece.len -= n;
    }
    return ok;
}

bool think_end(struct think *t, think_fn *fn, void *ud)
{
    return give_back(t, fn, ud);
}
