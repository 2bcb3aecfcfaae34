/* aws_frame.c - see aws_frame.h. CRC-32 is zlib's (ISO 3309, reflected, as in gzip), which libcurl
 * brings into the process anyway.
 *
 * The types of header values, from AWS's description of the format; the text headers that matter
 * here are all of type 7, the others are measured only to get past them:
 *   0 true, 1 false: nothing   2 byte: 1   3 short: 2   4 integer: 4   5 long: 8
 *   6 bytes, 7 string: u16 length and that many   8 timestamp: 8   9 UUID: 16
 */
#include "aws_frame.h"

#include "gateway/base/limits.h"
#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#define CRC_BYTES       4
#define FRAME_BYTES_MIN (AWS_FRAME_PRELUDE_BYTES + CRC_BYTES)
enum { HEADER_BYTES = 6, HEADER_STRING = 7, HEADER_TYPES = 10 };

static bool damaged(struct failure *f, const char *what)
{
    return failure_set(f, 502, "stream_incomplete", NULL, "the backend's stream is damaged: %s",
                       what);
}

static uint32_t read_u32(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static bool is_crc(const char *p, size_t n)
{
    return (uint32_t)crc32(0, (const Bytef *)p, (uInt)n) == read_u32(p + n);
}

bool aws_frame_size(struct slice begin, size_t *size, struct failure *f)
{
    assert(begin.len >= AWS_FRAME_PRELUDE_BYTES);
    if (!is_crc(begin.p, AWS_FRAME_PRELUDE_BYTES - CRC_BYTES)) {
        return damaged(f, "the checksum of a frame's prelude is wrong");
    }
    size_t total = read_u32(begin.p), headers = read_u32(begin.p + 4);
    if (total > LIMIT_SSE_EVENT_BYTES) {
        return failure_set(f, 502, "upstream_too_large", NULL,
                           "a frame of the backend's stream is longer than %u bytes",
                           LIMIT_SSE_EVENT_BYTES);
    }
    if (headers > LIMIT_AWS_HEADER_BYTES) {
        return failure_set(f, 502, "upstream_too_large", NULL,
                           "the headers of a frame of the backend's stream are longer than %u "
                           "bytes",
                           LIMIT_AWS_HEADER_BYTES);
    }
    if (total < FRAME_BYTES_MIN || headers > total - FRAME_BYTES_MIN) {
        return damaged(f, "a frame is shorter than its parts");
    }
    *size = total;
    return true;
}

/* The first n bytes of *t, and *t behind them. false: there are not so many. */
static bool cut(struct slice *t, size_t n, struct slice *out)
{
    if (t->len < n) {
        return false;
    }
    *out = (struct slice){t->p, n};
    *t = (struct slice){t->p + n, t->len - n};
    return true;
}

struct aws_header {
    struct slice name, value;
    unsigned type;
};

static bool read_header(struct slice *t, struct aws_header *h)
{
    static const uint8_t fixed[HEADER_TYPES] = {0, 0, 1, 2, 4, 8, 0, 0, 8, 16};
    struct slice x;
    if (!cut(t, 1, &x) || x.p[0] == 0 || !cut(t, (unsigned char)x.p[0], &h->name) ||
        !cut(t, 1, &x)) {
        return false;
    }
    h->type = (unsigned char)x.p[0];
    if (h->type == HEADER_BYTES || h->type == HEADER_STRING) {
        return cut(t, 2, &x) &&
               cut(t, (size_t)(unsigned char)x.p[0] << 8 | (unsigned char)x.p[1], &h->value);
    }
    return h->type < HEADER_TYPES && cut(t, fixed[h->type], &h->value);
}

static bool is_text(struct slice t, const char *word)
{
    return t.len == strlen(word) && memcmp(t.p, word, t.len) == 0;
}

/* The headers that say what a frame is. */
struct known {
    struct slice message_type, event_type, exception_type, error_code, error_message;
};

static bool take_header(const struct aws_header *h, struct known *k, struct failure *f)
{
    const struct {
        const char *name;
        struct slice *to;
    } names[] = {{":message-type", &k->message_type},
                 {":event-type", &k->event_type},
                 {":exception-type", &k->exception_type},
                 {":error-code", &k->error_code},
                 {":error-message", &k->error_message}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!is_text(h->name, names[i].name)) {
            continue;
        }
        if (h->type != HEADER_STRING || names[i].to->p) {
            return damaged(f, "a header of a frame is no text or comes twice");
        }
        *names[i].to = h->value;
    }
    return true;
}

static bool read_kind(const struct known *k, struct aws_frame *out, struct failure *f)
{
    if (is_text(k->message_type, "event")) {
        out->type = k->event_type;
        return true;
    }
    out->is_exception = true;
    if (is_text(k->message_type, "exception")) {
        out->type = k->exception_type;
        return true;
    }
    out->type = k->error_code;
    out->message = k->error_message;
    return is_text(k->message_type, "error") ||
           damaged(f, "a frame has no message type that is known");
}

bool aws_frame_parse(struct slice frame, struct aws_frame *out, struct failure *f)
{
    assert(frame.len >= FRAME_BYTES_MIN && read_u32(frame.p) == frame.len);
    if (!is_crc(frame.p, frame.len - CRC_BYTES)) {
        return damaged(f, "the checksum of a frame is wrong");
    }
    size_t headers_len = read_u32(frame.p + 4);
    assert(headers_len <= frame.len - FRAME_BYTES_MIN);
    struct slice headers = {frame.p + AWS_FRAME_PRELUDE_BYTES, headers_len};
    struct slice payload = {headers.p + headers_len, frame.len - FRAME_BYTES_MIN - headers_len};
    struct known k = {{NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}};
    while (headers.len > 0) {
        struct aws_header h;
        if (!read_header(&headers, &h)) {
            return damaged(f, "a header of a frame does not end");
        }
        if (!take_header(&h, &k, f)) {
            return false;
        }
    }
    struct aws_frame got = {.payload = payload};
    if (!read_kind(&k, &got, f)) {
        return false;
    }
    *out = got;
    return true;
}
