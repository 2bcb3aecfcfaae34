/* repeating.c - the doubt is settled in favour of what was asked for: pieces. Three texts in a row,
 * each longer and beginning with the one before, and with a letter in them (digits, dashes and
 * blanks do grow like that: "1", "10", "100"), are no accident.
 */
#include "repeating.h"

#include "gateway/base/limits.h"
#include <ctype.h>
#include <string.h>

#define LONGER_MIN       2  /* pieces that were longer than the one before: three texts */
#define LONGER_MIN_PLAIN 5  /* without a letter */
#define PIECES_MAX       12 /* held back at most */
#define ALONE_MIN        4  /* bytes of a first piece that only one longer text followed */

void repeating_init(struct repeating *r)
{
    *r = (struct repeating){.n_given = 0};
    buf_init(&r->last, LIMIT_ANSWER_BYTES);
    buf_init(&r->held, LIMIT_ANSWER_BYTES);
    buf_init(&r->out, LIMIT_ANSWER_BYTES);
}

void repeating_release(struct repeating *r)
{
    if (r) {
        buf_release(&r->last);
        buf_release(&r->held);
        buf_release(&r->out);
    }
}

static bool begins_with(struct slice text, struct slice start)
{
    return start.len <= text.len && (start.len == 0 || memcmp(text.p, start.p, start.len) == 0);
}

static bool has_letter(struct slice text, size_t n)
{
    for (size_t i = 0; i < n && i < text.len; i++) {
        if (isalpha((unsigned char)text.p[i]) || (unsigned char)text.p[i] >= 0x80) {
            return true;
        }
    }
    return false;
}

static bool keep(struct buf *b, struct slice text)
{
    buf_clear(b);
    return buf_append(b, text.p, text.len);
}

/* Whether the texts that are held back repeat each other. */
static enum repeating_pace judge(const struct repeating *r)
{
    bool is_text = has_letter(buf_slice(&r->last), r->n_given);
    if (r->n_longer >= (is_text ? LONGER_MIN : LONGER_MIN_PLAIN)) {
        return REPEATING_ALL;
    }
    return r->n_pieces > PIECES_MAX ? REPEATING_NOT : REPEATING_UNKNOWN;
}

/* The newest piece holds everything: what of it was not given out. */
static bool give_rest(struct repeating *r, struct slice *fresh)
{
    if (!keep(&r->out, (struct slice){r->last.p + r->n_given, r->last.len - r->n_given})) {
        return false;
    }
    *fresh = buf_slice(&r->out);
    r->n_given = r->last.len;
    return true;
}

static bool give_held(struct repeating *r, struct slice piece, struct slice *fresh)
{
    if (r->held.len == 0) {
        *fresh = piece;
        return true;
    }
    bool ok = keep(&r->out, buf_slice(&r->held)) && buf_append(&r->out, piece.p, piece.len);
    buf_clear(&r->held);
    *fresh = buf_slice(&r->out);
    return ok;
}

bool repeating_take(struct repeating *r, enum repeating_pace *pace, struct slice piece,
                    struct slice *fresh)
{
    *fresh = SLICE_LIT("");
    if (piece.len == 0) {
        return true;
    }
    if (*pace == REPEATING_NOT) {
        return give_held(r, piece, fresh);
    }
    if (r->n_pieces++ == 0) {
        *fresh = piece;
        r->n_given = piece.len;
        return keep(&r->last, piece);
    }
    if (!begins_with(piece, buf_slice(&r->last))) {
        if (*pace == REPEATING_ALL) {
            return false;
        }
        *pace = REPEATING_NOT;
        return give_held(r, piece, fresh);
    }
    r->n_longer += piece.len > r->last.len;
    if (*pace == REPEATING_UNKNOWN && !buf_append(&r->held, piece.p, piece.len)) {
        return false;
    }
    if (!keep(&r->last, piece)) {
        return false;
    }
    *pace = *pace == REPEATING_UNKNOWN ? judge(r) : *pace;
    if (*pace == REPEATING_ALL) {
        return give_rest(r, fresh);
    }
    return *pace == REPEATING_UNKNOWN || give_held(r, SLICE_LIT(""), fresh);
}

bool repeating_end(struct repeating *r, enum repeating_pace pace, struct slice *fresh)
{
    *fresh = SLICE_LIT("");
    if (r->held.len == 0) {
        return true;
    }
    bool is_text = r->n_given >= ALONE_MIN && has_letter(buf_slice(&r->last), r->n_given);
    if (pace == REPEATING_ALL || (pace == REPEATING_UNKNOWN && r->n_longer > 0 && is_text)) {
        buf_clear(&r->held);
        return give_rest(r, fresh);
    }
    return give_held(r, SLICE_LIT(""), fresh);
}
