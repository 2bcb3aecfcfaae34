/* fuzz_decode_converse.c - any bytes as an answer of Bedrock's Converse. As a stream each line
 * becomes one frame with right checksums: `name payload` an event, `!name payload` an exception.
 * What damage does to a frame is for fuzz_pieces.
 */
#include "fuzz_decode.h"
#include "tests/lib/aws_bytes.h"

#define LINE_MAX_BYTES 4096

static size_t put_line(char *to, struct slice line)
{
    bool is_exception = line.len > 0 && line.p[0] == '!';
    struct slice name = {line.p + is_exception, line.len - is_exception};
    const char *blank = name.len > 0 ? memchr(name.p, ' ', name.len) : NULL;
    struct slice payload = {NULL, 0};
    if (blank) {
        payload = (struct slice){blank + 1, (size_t)(name.p + name.len - blank - 1)};
        name.len = (size_t)(blank - name.p);
    }
    size_t n = aws_put_header(to + 12, ":message-type",
                              is_exception ? SLICE_LIT("exception") : SLICE_LIT("event"));
    n += aws_put_header(to + 12 + n, is_exception ? ":exception-type" : ":event-type", name);
    return aws_put_frame(to, n, payload);
}

static void fuzz_frames(const uint8_t *data, size_t size)
{
    char *bytes = malloc(1 + size * 80 + 80), *p = bytes + 1;
    fuzz_check(bytes != NULL);
    bytes[0] = (char)(data[0] | 1);
    const char *at = (const char *)data + 1, *end = (const char *)data + size;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((stop ? stop : end) - at);
        p += put_line(p, (struct slice){at, n < LINE_MAX_BYTES ? n : LINE_MAX_BYTES});
        at += n + 1;
    }
    fuzz_decode_in(&backend_converse, FORM_AWS, (const uint8_t *)bytes, (size_t)(p - bytes));
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] & 1) {
        fuzz_frames(data, size);
    } else {
        fuzz_decode_in(&backend_converse, FORM_AWS, data, size);
    }
    return 0;
}
