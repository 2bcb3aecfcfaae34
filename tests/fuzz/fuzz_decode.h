/* fuzz_decode.h - what the decoders' harnesses share: deltas go into an answer with stop strings,
 * and their invariants are checked. */
#ifndef ISOTHERM_FUZZ_DECODE_H
#define ISOTHERM_FUZZ_DECODE_H

#include "gateway/backend/backend.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct fuzz_seen {
    struct answer answer;
    uint64_t n_deltas;
    bool is_ended;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_check(bool holds)
{
    if (!holds) {
        abort();
    }
}

static inline bool fuzz_take(const struct delta *d, void *ud)
{
    struct fuzz_seen *s = ud;
    fuzz_check(!s->is_ended && d->choice < ANSWER_CHOICES_MAX);
    if (d->text.len > 0) {
        json_t *text = json_stringn(d->text.p, d->text.len);
        fuzz_check(text != NULL); /* valid UTF-8: never half a character */
        json_decref(text);
    }
    s->n_deltas++;
    s->is_ended = d->kind == DELTA_END;
    return answer_take(d, &s->answer);
}

static inline bool fuzz_begin(struct fuzz_seen *s)
{
    json_t *stops = json_pack("[s,s]", "ab", "\n\n");
    *s = (struct fuzz_seen){.n_deltas = 0};
    bool ok = answer_init(&s->answer, 4, stops, true, NULL, NULL, NULL);
    json_decref(stops);
    return ok;
}

static inline void fuzz_end(struct fuzz_seen *s, bool ok, const struct failure *f)
{
    struct failure own = {.status = 0};
    fuzz_check(!ok || (s->is_ended && f->status == 0));
    fuzz_check(ok || f->status != 0 || answer_failure(&s->answer));
    if (f->status) {
        json_t *message = json_string(f->message);
        fuzz_check(message != NULL);
        json_decref(message);
    }
    bool is_whole = answer_finish(&s->answer, &own);
    fuzz_check(is_whole == (own.status == 0) && (!ok || is_whole || own.status == 502));
    answer_release(&s->answer);
}

static inline uint64_t fuzz_feed(const struct backend *b, enum wire_form form, const char *p,
                                 size_t n, size_t piece, bool *ok)
{
    struct fuzz_seen seen;
    struct failure f = {.status = 0};
    struct decoder *d = b->decoder_new(form, true);
    fuzz_check(d && fuzz_begin(&seen));
    *ok = true;
    for (size_t i = 0; *ok && i < n; i += piece) {
        *ok = b->decode(d, (struct slice){p + i, n - i < piece ? n - i : piece}, fuzz_take, &seen,
                        &f);
    }
    *ok = *ok && b->decode_end(d, fuzz_take, &seen, &f);
    fuzz_end(&seen, *ok, &f);
    b->decoder_free(d);
    return seen.n_deltas;
}

/* A refusal with these bytes as its body must give a failure that can be shown. */
static inline void fuzz_refuse(const struct backend *b, int status, const char *p, size_t n)
{
    struct failure f = {.status = 0};
    char param[64];
    b->refusal(status, (struct slice){p, n}, "7", param, &f);
    json_t *message = json_string(f.message);
    fuzz_check(message && f.status >= 400 && strlen(f.message) < sizeof f.message &&
               strlen(param) < sizeof param);
    json_decref(message);
}

/* `stream`: the framing in which this backend streams. */
static inline void fuzz_decode_in(const struct backend *b, enum wire_form stream,
                                  const uint8_t *data, size_t size)
{
    static const int statuses[] = {400, 401, 403, 422, 429, 500, 503};
    if (size == 0) {
        return;
    }
    const char *p = (const char *)data + 1;
    enum wire_form form = data[0] & 1 ? stream : FORM_WHOLE;
    bool whole, cut;
    uint64_t n = fuzz_feed(b, form, p, size - 1, SIZE_MAX / 2, &whole);
    uint64_t m = fuzz_feed(b, form, p, size - 1, 1 + data[0] / 2 % 16, &cut);
    fuzz_check(n == m && whole == cut);
    fuzz_refuse(b, statuses[data[0] % 7], p, size - 1);
}

static inline void fuzz_decode(const struct backend *b, const uint8_t *data, size_t size)
{
    fuzz_decode_in(b, FORM_SSE, data, size);
}

#endif
