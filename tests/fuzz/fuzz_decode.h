/* fuzz_decode.h - what the decoders' harnesses share: any bytes as an answer, decoded at once and
 * in pieces. Both ways must give the same deltas to the byte, the same verdict, and the same to the
 * client, behind stop strings, once gathered and once forwarded. Each delta keeps the rules of
 * delta_trace.h, before and behind; what was gathered is what was handed on.
 *
 * The first byte says how. Bit 0: a stream, or a whole body; bits 1 to 4: pieces of 2 to 16 bytes,
 * 0 random ones; bit 6: the text may hold its reasoning in tags; bit 7: a raw completion.
 */
#ifndef ISOTHERM_FUZZ_DECODE_H
#define ISOTHERM_FUZZ_DECODE_H

#include "gateway/backend/backend.h"
#include "tests/lib/delta_trace.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_CHOICES 4

struct fuzz_seen {
    struct trace backend, client; /* of the decoder; behind the answer */
    struct buf text[FUZZ_CHOICES], reasoning[FUZZ_CHOICES];
    struct answer answer;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_check(bool holds)
{
    if (!holds) {
        abort();
    }
}

static inline void fuzz_rules(const struct trace *t)
{
    if (t->wrong) {
        fprintf(stderr, "broken: %s\n%s", t->wrong, t->text.p ? t->text.p : "");
        abort();
    }
}

static inline void fuzz_same(const struct trace *a, const struct trace *b)
{
    if (a->text.len != b->text.len ||
        (a->text.len > 0 && memcmp(a->text.p, b->text.p, a->text.len) != 0)) {
        fprintf(stderr, "at once:\n%s\nin pieces:\n%s\n", a->text.p ? a->text.p : "",
                b->text.p ? b->text.p : "");
        abort();
    }
}

static inline bool fuzz_client(const struct delta *d, void *ud)
{
    struct fuzz_seen *s = ud;
    (void)trace_take(d, &s->client);
    fuzz_rules(&s->client);
    if (d->kind == DELTA_TEXT) {
        fuzz_check(buf_append(&s->text[d->choice], d->text.p ? d->text.p : "", d->text.len));
    } else if (d->kind == DELTA_REASONING) {
        fuzz_check(buf_append(&s->reasoning[d->choice], d->text.p ? d->text.p : "", d->text.len));
    }
    return true;
}

/* A delta_fn: the decoder's. */
static inline bool fuzz_take(const struct delta *d, void *ud)
{
    struct fuzz_seen *s = ud;
    (void)trace_take(d, &s->backend);
    fuzz_rules(&s->backend);
    return answer_take(d, &s->answer);
}

static inline bool fuzz_begin(struct fuzz_seen *s, bool keeps_text)
{
    json_t *stops = json_pack("[s,s,s]", "ab", "\n\n", "\xc3\xa9!");
    trace_init(&s->backend);
    trace_init(&s->client);
    s->client.is_of_answer = true;
    for (int i = 0; i < FUZZ_CHOICES; i++) {
        buf_init(&s->text[i], TRACE_BYTES_MAX);
        buf_init(&s->reasoning[i], TRACE_BYTES_MAX);
    }
    bool ok = answer_init(&s->answer, FUZZ_CHOICES, stops, keeps_text, fuzz_client, s, NULL);
    json_decref(stops);
    return ok;
}

static inline void fuzz_gathered(const struct buf *handed_on, const struct buf *gathered)
{
    fuzz_check(handed_on->len == gathered->len &&
               (gathered->len == 0 || memcmp(handed_on->p, gathered->p, gathered->len) == 0));
}

/* The verdict becomes the last line of both traces. */
static inline void fuzz_end(struct fuzz_seen *s, bool ok, const struct failure *f)
{
    struct failure own = {.status = 0};
    const struct failure *in_answer = answer_failure(&s->answer);
    fuzz_check(!ok || (s->backend.is_ended && f->status == 0));
    fuzz_check(ok || f->status != 0 || in_answer);
    fuzz_check(!in_answer || trace_is_utf8(slice_str(in_answer->message)));
    bool is_whole = answer_finish(&s->answer, &own);
    fuzz_check(is_whole == (own.status == 0) && (!ok || is_whole || own.status == 502));
    (void)buf_printf(&s->client.text, "%d %d %s %s\n", is_whole, own.status, own.code, own.message);
    (void)buf_printf(&s->backend.text, "%d %d %s %s %d %s\n", ok, f->status, f->code, f->param,
                     f->retry_after_s, f->message);
    fuzz_check(trace_is_utf8(slice_str(f->message)) && trace_is_utf8(slice_str(own.message)));
    for (int i = 0; i < FUZZ_CHOICES; i++) {
        if (s->answer.keeps_text) {
            fuzz_gathered(&s->text[i], &s->answer.choice[i].text);
            fuzz_gathered(&s->reasoning[i], &s->answer.choice[i].reasoning);
        }
        buf_release(&s->text[i]);
        buf_release(&s->reasoning[i]);
    }
    answer_release(&s->answer);
}

/* How an input is to be read. */
struct fuzz_way {
    enum wire_form form;
    bool is_chat, thinks_in_tags, keeps_text;
    size_t piece; /* bytes; 0: 1 to 7 of them, at random */
    uint64_t random;
};

static inline size_t fuzz_piece(struct fuzz_way *w, size_t n_left)
{
    size_t n = w->piece;
    if (n == 0) {
        w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        n = 1 + (w->random >> 33) % 7;
    }
    return n < n_left ? n : n_left;
}

/* Each piece is an exact copy, so that a read beyond it is seen. */
static inline void fuzz_feed(const struct backend *b, struct fuzz_way w, const char *p, size_t n,
                             struct fuzz_seen *seen)
{
    struct failure f = {.status = 0};
    struct provider provider = {.id = "acme", .quirks.thinks_in_tags = w.thinks_in_tags};
    struct decoder *d = backend_decoder(b, &provider, w.form, w.is_chat);
    fuzz_check(d && fuzz_begin(seen, w.keeps_text));
    bool ok = true;
    for (size_t at = 0; ok && at < n;) {
        size_t k = fuzz_piece(&w, n - at);
        char *copy = malloc(k);
        fuzz_check(copy != NULL);
        memcpy(copy, p + at, k);
        ok = b->decode(d, (struct slice){copy, k}, fuzz_take, seen, &f);
        free(copy);
        at += k;
    }
    ok = ok && b->decode_end(d, fuzz_take, seen, &f);
    fuzz_end(seen, ok, &f);
    b->decoder_free(d);
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

static inline void fuzz_release(struct fuzz_seen *s)
{
    trace_release(&s->backend);
    trace_release(&s->client);
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
    unsigned how = data[0], piece = how / 2 % 16;
    struct fuzz_way way = {.form = how & 1 ? stream : FORM_WHOLE,
                           .is_chat = !(how & 0x80),
                           .thinks_in_tags = how & 0x40,
                           .keeps_text = true,
                           .piece = SIZE_MAX};
    struct fuzz_seen whole, cut;
    fuzz_feed(b, way, p, size - 1, &whole);
    way.piece = piece ? piece + 1 : 0;
    way.random = size;
    way.keeps_text = false; /* as for a stream */
    fuzz_feed(b, way, p, size - 1, &cut);
    fuzz_same(&whole.backend, &cut.backend);
    fuzz_same(&whole.client, &cut.client);
    fuzz_release(&whole);
    fuzz_release(&cut);
    fuzz_refuse(b, statuses[data[0] % 7], p, size - 1);
}

static inline void fuzz_decode(const struct backend *b, const uint8_t *data, size_t size)
{
    fuzz_decode_in(b, FORM_SSE, data, size);
}

#endif
