/* link.c - the reader keeps one buffer: frames that were given out lie before `at` and are dropped
 * by the next feed, so that a frame needs no copy. A length is refused as soon as its four bytes
 * are there: no sender can make us wait for 4 GiB.
 */
#include "link.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 4 };

const char *const link_param_names[] = {
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "seed",
    "stop",
    "stop_token_ids",
    "max_tokens",
    "min_tokens",
    "ignore_eos",
    "use_beam_search",
    "num_beams",
    "length_penalty",
    "n",
    "best_of",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "penalty_scope",
    "sampler_order",
    "logprobs_mode",
    "echo",
    "response_format_json_object",
    "response_format_json_schema",
    "structured_outputs",
    NULL,
};

void link_reader_init(struct link_reader *r)
{
    memset(r, 0, sizeof *r);
}

void link_reader_release(struct link_reader *r)
{
    if (r) {
        free(r->buf);
        link_reader_init(r);
    }
}

/* Drops what was given out. Only when that is at least half: each byte is then moved once at most.
 */
static void compact(struct link_reader *r)
{
    if (r->at < r->len - r->at) {
        return;
    }
    memmove(r->buf, r->buf + r->at, r->len - r->at);
    r->len -= r->at;
    r->at = 0;
}

bool link_reader_feed(struct link_reader *r, const char *bytes, size_t n, struct engine_error *err)
{
    if (n == 0) {
        return true;
    }
    if (r->at > 0) {
        compact(r);
    }
    if (n > r->cap - r->len) {
        if (n > SIZE_MAX / 4 - r->len) {
            return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a frame");
        }
        size_t cap = r->cap * 2 > r->len + n ? r->cap * 2 : r->len + n;
        char *p = realloc(r->buf, cap);
        if (!p) {
            return engine_fail(err, ENGINE_NOMEM, "", "out of memory for a frame");
        }
        r->buf = p;
        r->cap = cap;
    }
    memcpy(r->buf + r->len, bytes, n);
    r->len += n;
    return true;
}

static size_t length_load(const unsigned char *p)
{
    return (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
}

static void length_store(unsigned char *p, size_t n)
{
    for (int i = 0; i < HEADER_BYTES; i++) {
        p[i] = (unsigned char)(n >> 8 * i);
    }
}

int link_reader_next(struct link_reader *r, const char **frame, size_t *len)
{
    size_t n_left = r->len - r->at;
    if (n_left < HEADER_BYTES) {
        return 0;
    }
    size_t n = length_load((const unsigned char *)r->buf + r->at);
    if (n > LINK_FRAME_MAX) {
        return -1;
    }
    if (n_left - HEADER_BYTES < n) {
        return 0;
    }
    *frame = r->buf + r->at + HEADER_BYTES;
    *len = n;
    r->at += HEADER_BYTES + n;
    return 1;
}

/* ---- writing */

struct out {
    char *p;
    size_t len, cap;
};

static int out_append(const char *bytes, size_t n, void *ud)
{
    struct out *o = ud;
    if (n > LINK_FRAME_MAX + HEADER_BYTES - o->len) {
        return -1;
    }
    if (n > o->cap - o->len) {
        size_t cap = o->cap * 2 > o->len + n ? o->cap * 2 : o->len + n;
        char *p = realloc(o->p, cap);
        if (!p) {
            return -1;
        }
        o->p = p;
        o->cap = cap;
    }
    memcpy(o->p + o->len, bytes, n);
    o->len += n;
    return 0;
}

char *link_frame(const json_t *object, size_t *len)
{
    assert(json_is_object(object));
    struct out o = {.cap = 256};
    o.p = malloc(o.cap);
    if (!o.p) {
        return NULL;
    }
    o.len = HEADER_BYTES;
    /* 17 digits bring every double back with its bits. */
    if (json_dump_callback(object, out_append, &o, JSON_COMPACT | JSON_REAL_PRECISION(17)) != 0) {
        free(o.p);
        return NULL;
    }
    length_store((unsigned char *)o.p, o.len - HEADER_BYTES);
    *len = o.len;
    return o.p;
}
