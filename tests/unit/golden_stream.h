/* golden_stream.h - the recorded answers of tests/golden/decode/<dialect>/<case>, as bytes, and the
 * same events in other framings. Included by their runners only.
 *
 * in.sse is a stream, in.array a stream as one JSON array, in.lines one of lines, in.json one whole
 * body, in.frames.json the frames of an AWS stream in clear. provider.json, where a case needs one,
 * is {quirks:{thinks_in_tags}}. The engine's cases are whole frames: not for here.
 */
#ifndef ISOTHERM_TEST_GOLDEN_STREAM_H
#define ISOTHERM_TEST_GOLDEN_STREAM_H

#include "golden.h"

#include "gateway/backend/backend.h"
#include "tests/lib/aws_bytes.h"

struct golden_stream {
    struct provider provider;
    enum wire_form form;
    bool is_chat;
    struct slice in; /* golden_stream_release() frees it */
};

static inline size_t golden_put_frame(char *to, const json_t *frame)
{
    char *payload = json_dumps(json_object_get(frame, "payload"), JSON_COMPACT);
    const char *name;
    json_t *value;
    size_t headers = 0;
    json_object_foreach (json_object_get(frame, "headers"), name, value) {
        struct slice text = {json_string_value(value), json_string_length(value)};
        headers += aws_put_header(to + 12 + headers, name, text);
    }
    size_t n = aws_put_frame(to, headers, slice_str(payload));
    free(payload);
    return n;
}

/* NULL: there is no such file. */
static inline char *golden_aws_bytes(const char *folder, size_t *len)
{
    json_t *frames = golden_load(folder, "in.frames.json");
    char *p = frames ? malloc(1 << 20) : NULL;
    *len = 0;
    for (size_t i = 0; i < json_array_size(frames); i++) {
        *len += golden_put_frame(p + *len, json_array_get(frames, i));
        assert_true(*len < 1 << 19);
    }
    json_decref(frames);
    return p;
}

static inline void golden_stream_load(struct golden_stream *s, const char *folder, const char *name)
{
    static const struct {
        const char *file;
        enum wire_form form;
    } files[] = {{"in.sse", FORM_SSE},
                 {"in.array", FORM_ARRAY},
                 {"in.lines", FORM_LINES},
                 {"in.json", FORM_WHOLE}};
    *s = (struct golden_stream){.form = FORM_AWS, .is_chat = strncmp(name, "text-", 5) != 0};
    json_t *o = golden_load(folder, "provider.json");
    const json_t *tags = json_object_get(json_object_get(o, "quirks"), "thinks_in_tags");
    s->provider.id = "acme";
    s->provider.quirks.thinks_in_tags = json_is_true(tags);
    json_decref(o);
    for (size_t i = 0; !s->in.p && i < sizeof files / sizeof *files; i++) {
        s->in.p = golden_bytes(folder, files[i].file, &s->in.len);
        s->form = s->in.p ? files[i].form : FORM_AWS;
    }
    s->in.p = s->in.p ? s->in.p : golden_aws_bytes(folder, &s->in.len);
    assert_non_null(s->in.p);
}

static inline void golden_stream_release(struct golden_stream *s)
{
    free((char *)s->in.p); /* of golden_stream_load() */
}

#endif
